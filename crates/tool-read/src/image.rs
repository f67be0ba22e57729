//! Images for the model: the bytes as a blob, the size in pixels from the header. Owns the size limit.
//! Decodes no pixel and scales nothing; limits of a provider are applied when a request is built.

use crate::note;
use crate::scan::Source;
use crate::sniff::Format;
use becket_tool::ToolEnv;
use becket_types::{BlobId, ImageSource, Part, ToolOutput};
use image::{ImageFormat, ImageReader};
use serde_json::{Map, json};
use std::io::{self, Cursor};
use std::path::Path;

/// Maximum size in bytes. Larger images are not attached.
const MAX_BYTES: u64 = 20 * 1024 * 1024;
/// Maximum number of pixels. A small file can decode to more than fits into memory.
const MAX_PIXELS: u64 = 150_000_000;

pub(crate) fn read(source: Source, format: Format, path: &Path, env: &ToolEnv) -> io::Result<ToolOutput> {
    let media_type = format.media_type();
    let size = source.size;
    let Some(bytes) = source.whole(MAX_BYTES)? else {
        let limit = MAX_BYTES / 1024 / 1024;
        return Ok(ToolOutput::error(format!(
            "{} is an image ({media_type}) of {size} bytes; at most {limit} MB can be shown. Scale it down first.",
            env.display(path)
        )));
    };
    let (width, height) = match dimensions(&bytes, format) {
        Ok(size) => size,
        Err(error) => {
            return Ok(ToolOutput::error(format!(
                "{} begins like {media_type} but is damaged ({error}); it is not shown.",
                env.display(path)
            )));
        }
    };
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        let limit = MAX_PIXELS / 1_000_000;
        return Ok(ToolOutput::error(format!(
            "{} is an image ({media_type}) of {width}x{height} pixels; at most {limit} million are decoded. Scale it down first.",
            env.display(path)
        )));
    }
    let blob = match env.host.put_blob(&bytes) {
        Ok(blob) => blob,
        Err(error) => return Ok(ToolOutput::error(format!("The image could not be kept: {error}."))),
    };
    note(path, &becket_tool::sha256(&bytes), env);
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    let misnamed = !extension.is_empty() && !format.extensions().contains(&extension.as_str());
    let note =
        if misnamed { format!("; it is not what its name says (.{extension})") } else { String::new() };
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
    let part = part(format, blob, name, (width, height), bytes.len());
    Ok(ToolOutput {
        images: vec![part],
        details: json!({"kind": "image", "media_type": media_type, "width": width, "height": height, "bytes": bytes.len()}),
        ..ToolOutput::text(format!("[{media_type}, {width}x{height}, {} bytes{note}]", bytes.len()))
    })
}

/// Returns width and height from the header.
///
/// # Errors
///
/// Fails if the header is damaged.
pub(crate) fn dimensions(bytes: &[u8], format: Format) -> image::ImageResult<(u32, u32)> {
    let format = match format {
        Format::Png => ImageFormat::Png,
        Format::Jpeg => ImageFormat::Jpeg,
        Format::Gif => ImageFormat::Gif,
        Format::Webp => ImageFormat::WebP,
    };
    ImageReader::with_format(Cursor::new(bytes), format).into_dimensions()
}

/// Makes a message part from the image.
pub(crate) fn part(
    format: Format,
    blob: BlobId,
    name: Option<String>,
    (width, height): (u32, u32),
    bytes: usize,
) -> Part {
    Part::Image {
        media_type: format.media_type().to_owned(),
        source: ImageSource::Blob(blob),
        name,
        width: Some(width),
        height: Some(height),
        extra: Map::from_iter([("bytes".to_owned(), bytes.into())]),
    }
}
