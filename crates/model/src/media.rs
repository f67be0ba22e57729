//! Converts images to the form that providers accept: a known format, at most 1568 pixels on the long edge, at most 5 MB in
//! base64.
//!
//! Runs when a message is encoded; the original stays in the blob store. Bytes that are not an image (empty, corrupt,
//! SVG, an HTML page saved as `.png`, too large to decode) become a line of text, so that no image can make a session
//! unsendable.

use crate::{Fetches, ModelInfo};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{BlobId, Blobs, ImageSource, Part};
use image::{DynamicImage, GenericImageView as _, ImageFormat, ImageReader};
use std::collections::VecDeque;
use std::io::Cursor;
use std::sync::{Arc, Mutex, PoisonError};

/// Longest edge in pixels. Providers scale larger images down anyway, and refuse them in requests with many images.
const MAX_EDGE: u32 = 1568;
/// Maximum number of base64 bytes (Anthropic: 5 MB per image).
const MAX_BASE64: usize = 5 * 1024 * 1024;
/// Maximum memory for decoding one image.
const MAX_ALLOC: u64 = 768 * 1024 * 1024;
const PDF: &str = "application/pdf";
/// Number of encoded images that are kept.
const KEPT: usize = 32;

/// An encoded image, or the text that replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Image {
        media_type: &'static str,
        base64: Arc<str>,
    },
    Url(String),
    /// A PDF that the server fetches: its address and its name.
    Document {
        url: String,
        name: Option<String>,
    },
    Text(String),
}

/// Encoded images by blob. A new generation encodes every message again, but decodes no image twice.
#[derive(Debug, Default)]
pub(crate) struct MediaCache(Mutex<VecDeque<(BlobId, Media)>>);

impl MediaCache {
    /// Returns the image of a message part.
    pub(crate) fn image(
        &self,
        source: &ImageSource,
        media_type: &str,
        name: Option<&str>,
        blobs: &dyn Blobs,
        fetches: Fetches,
    ) -> Media {
        match source {
            ImageSource::Url(url) => match media_type {
                PDF if fetches == Fetches::ImagesAndDocuments => {
                    Media::Document { url: url.clone(), name: name.map(str::to_owned) }
                }
                PDF => stub(media_type, name.or(Some(url)), "this server fetches no documents"),
                _ if fetches == Fetches::Nothing => {
                    stub("image", name.or(Some(url)), "this server fetches no images")
                }
                _ => Media::Url(url.clone()),
            },
            ImageSource::Base64(text) => match STANDARD.decode(text.trim()) {
                Ok(bytes) => fit(&bytes, media_type, name),
                Err(_) => stub(media_type, name, "its base64 is damaged"),
            },
            ImageSource::Blob(id) => {
                let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, media)) = kept.iter().find(|(known, _)| known == id) {
                    return media.clone();
                }
                drop(kept);
                let Some(bytes) = blobs.get(id) else {
                    return stub(media_type, name, "its bytes are not in the store");
                };
                let media = fit(&bytes, media_type, name);
                kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() >= KEPT {
                    kept.pop_front();
                }
                kept.push_back((id.clone(), media.clone()));
                media
            }
        }
    }
}

/// Returns the reason why this server cannot get an attachment of the message, which has only an address. `None`: it can.
pub fn unfetched(parts: &[Part], info: &ModelInfo) -> Option<String> {
    parts.iter().find_map(|part| {
        let Part::Image { media_type, source: ImageSource::Url(_), .. } = part else { return None };
        let (what, needed) = match media_type.as_str() {
            PDF => ("documents", Fetches::ImagesAndDocuments),
            _ => ("images", Fetches::Images),
        };
        if !info.images {
            return Some(format!("{} reads no {what}", info.id));
        }
        (info.server.fetches < needed).then(|| {
            format!(
                "the server of {} fetches no {what}; download it and send the source as `base64`",
                info.id
            )
        })
    })
}

/// Returns the text that replaces media that cannot be sent.
pub(crate) fn stub(media_type: &str, name: Option<&str>, why: &str) -> Media {
    Media::Text(format!("[Attached {media_type}: {} (not shown: {why})]", name.unwrap_or("unnamed")))
}

/// Returns the text that a model gets in place of these bytes; `None` if they are an image that it can see.
pub fn unusable_image(bytes: &[u8], media_type: &str) -> Option<String> {
    match fit(bytes, media_type, None) {
        Media::Text(line) => Some(line),
        Media::Image { .. } | Media::Url(_) | Media::Document { .. } => None,
    }
}

/// Reads width and height from the header; `None` if the bytes are not an image that models read.
pub fn image_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let (format, _) = format_of(bytes)?;
    ImageReader::with_format(Cursor::new(bytes), format).into_dimensions().ok()
}

/// Returns an image for display: red, green, blue and alpha of each pixel, no larger than `most` (pixels), and its
/// size. `None` if it cannot be decoded.
pub fn thumbnail(bytes: &[u8], most: (u32, u32)) -> Option<(Vec<u8>, (u32, u32))> {
    let (format, _) = format_of(bytes)?;
    let decoded = decode(bytes, format).ok()?;
    let (width, height) = decoded.dimensions();
    let small = if width > most.0 || height > most.1 { decoded.thumbnail(most.0, most.1) } else { decoded };
    // Eight bits for each colour: deeper ones take several times the space and look the same.
    Some((small.to_rgba8().into_raw(), small.dimensions()))
}

fn decode(bytes: &[u8], format: ImageFormat) -> image::ImageResult<DynamicImage> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(MAX_ALLOC);
    reader.limits(limits);
    reader.decode()
}

fn fit(bytes: &[u8], declared: &str, name: Option<&str>) -> Media {
    if bytes.is_empty() {
        return stub(declared, name, "the file is empty");
    }
    let Some((format, media_type)) = format_of(bytes) else {
        return stub(declared, name, &format!("it is {}", nature(bytes)));
    };
    let decoded = match decode(bytes, format) {
        Ok(decoded) => decoded,
        Err(image::ImageError::Limits(_)) => return stub(declared, name, "it is too large to decode"),
        Err(_) => return stub(declared, name, "the file is damaged"),
    };
    let (width, height) = decoded.dimensions();
    if width.max(height) <= MAX_EDGE && base64_len(bytes.len()) <= MAX_BASE64 {
        return Media::Image { media_type, base64: STANDARD.encode(bytes).into() };
    }
    shrink(&decoded).unwrap_or_else(|| stub(declared, name, "it cannot be made small enough"))
}

/// Scales to the longest edge, then reduces quality and size until the image fits.
fn shrink(decoded: &DynamicImage) -> Option<Media> {
    let mut edge = MAX_EDGE;
    while edge >= 256 {
        let (width, height) = decoded.dimensions();
        let small = if width.max(height) > edge {
            // `resize` keeps the proportions; an edge never becomes zero.
            decoded.resize(edge, edge, image::imageops::FilterType::Triangle)
        } else {
            decoded.clone()
        };
        let mut png = Cursor::new(Vec::new());
        if small.write_to(&mut png, ImageFormat::Png).is_ok()
            && base64_len(png.get_ref().len()) <= MAX_BASE64 / 4
        {
            return Some(Media::Image {
                media_type: "image/png",
                base64: STANDARD.encode(png.get_ref()).into(),
            });
        }
        let mut jpeg = Vec::new();
        let encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut jpeg, 85);
        if small.to_rgb8().write_with_encoder(encoder).is_ok() && base64_len(jpeg.len()) <= MAX_BASE64 {
            return Some(Media::Image { media_type: "image/jpeg", base64: STANDARD.encode(&jpeg).into() });
        }
        edge /= 2;
    }
    None
}

fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Detects the format by the first bytes, because names and declared types may be wrong.
fn format_of(bytes: &[u8]) -> Option<(ImageFormat, &'static str)> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some((ImageFormat::Png, "image/png"))
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        Some((ImageFormat::Jpeg, "image/jpeg"))
    } else if bytes.starts_with(b"GIF8") {
        Some((ImageFormat::Gif, "image/gif"))
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some((ImageFormat::WebP, "image/webp"))
    } else {
        None
    }
}

fn nature(bytes: &[u8]) -> &'static str {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(512)]).to_ascii_lowercase();
    if head.contains("<svg") {
        "an SVG drawing"
    } else if head.contains("<html") || head.contains("<!doctype html") {
        "an HTML page"
    } else {
        "in no format that models read"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        DynamicImage::new_rgba8(width, height).write_to(&mut out, ImageFormat::Png).unwrap();
        out.into_inner()
    }

    fn size(media: &Media) -> Option<(u32, u32)> {
        let Media::Image { base64, .. } = media else { return None };
        let bytes = STANDARD.decode(base64.as_bytes()).unwrap();
        Some(image::load_from_memory(&bytes).unwrap().dimensions())
    }

    #[test]
    fn small_images_keep_their_bytes() {
        let bytes = png(3, 2);
        let want = Media::Image { media_type: "image/png", base64: STANDARD.encode(&bytes).into() };
        assert_eq!(fit(&bytes, "image/jpeg", None), want);
    }

    #[test]
    fn large_images_are_scaled_and_keep_their_proportions() {
        assert_eq!(size(&fit(&png(3136, 784), "image/png", None)), Some((1568, 392)));
        assert_eq!(size(&fit(&png(4000, 1), "image/png", None)), Some((1568, 1)));
    }

    #[test]
    fn people_see_small_images_as_they_are_and_large_ones_scaled() {
        for ((width, height), want) in [((3, 2), (3, 2)), ((1600, 400), (800, 200)), ((100, 4800), (10, 480))]
        {
            let (rgba, size) = thumbnail(&png(width, height), (800, 480)).unwrap();
            assert_eq!(size, want);
            assert_eq!(rgba.len(), (want.0 * want.1 * 4) as usize);
        }
        assert_eq!(thumbnail(b"<svg/>", (800, 480)), None);
        assert_eq!(thumbnail(b"\x89PNG\r\n\x1a\n", (800, 480)), None);
    }

    #[test]
    fn what_is_no_image_becomes_text() {
        let mut cut = png(200, 200);
        cut.truncate(cut.len() / 2);
        for (bytes, why) in [
            (&b""[..], "the file is empty"),
            (b"<!DOCTYPE html><html>", "it is an HTML page"),
            (b"<?xml version=\"1.0\"?><svg xmlns=\"x\"/>", "it is an SVG drawing"),
            (b"BM123", "it is in no format that models read"),
            (&cut, "the file is damaged"),
            (b"\x89PNG\r\n\x1a\n", "the file is damaged"),
        ] {
            let want = Media::Text(format!("[Attached image/png: a.png (not shown: {why})]"));
            assert_eq!(fit(bytes, "image/png", Some("a.png")), want);
        }
    }

    #[test]
    fn a_blob_is_decoded_once_and_a_missing_one_is_text() {
        struct Once(Mutex<Option<Vec<u8>>>);
        impl Blobs for Once {
            fn get(&self, _: &BlobId) -> Option<Vec<u8>> {
                self.0.lock().unwrap().take()
            }
        }
        let blobs = Once(Mutex::new(Some(png(2, 2))));
        let cache = MediaCache::default();
        let source = |id: &str| ImageSource::Blob(BlobId(id.into()));
        let first = cache.image(&source("a"), "image/png", None, &blobs, Fetches::Images);
        assert_eq!(cache.image(&source("a"), "image/png", None, &blobs, Fetches::Images), first);
        assert!(matches!(first, Media::Image { .. }));
        assert!(matches!(
            cache.image(&source("b"), "image/png", None, &blobs, Fetches::Images),
            Media::Text(_)
        ));
    }

    #[test]
    fn an_address_is_passed_on_only_to_a_server_that_fetches_it() {
        struct None_;
        impl Blobs for None_ {
            fn get(&self, _: &BlobId) -> Option<Vec<u8>> {
                None
            }
        }
        let address = "https://example.com/a";
        let part = |media_type: &str| Part::Image {
            media_type: media_type.to_owned(),
            source: ImageSource::Url(address.to_owned()),
            name: None,
            width: None,
            height: None,
            extra: serde_json::Map::new(),
        };
        let source = ImageSource::Url(address.to_owned());
        let mut info = crate::catalog::lookup("anthropic", "claude-sonnet-4-5");
        for (media_type, fetches, may) in [
            ("image/*", Fetches::Nothing, false),
            ("image/*", Fetches::Images, true),
            ("image/*", Fetches::ImagesAndDocuments, true),
            (PDF, Fetches::Nothing, false),
            (PDF, Fetches::Images, false),
            (PDF, Fetches::ImagesAndDocuments, true),
        ] {
            info.server.fetches = fetches;
            let why = unfetched(&[Part::text("a"), part(media_type)], &info);
            assert_eq!(why.is_none(), may, "{media_type} {fetches:?}: {why:?}");
            let sent = MediaCache::default().image(&source, media_type, None, &None_, fetches);
            assert_eq!(!matches!(sent, Media::Text(_)), may, "{media_type} {fetches:?}: {sent:?}");
        }
        info.images = false;
        assert!(unfetched(&[part("image/*")], &info).is_some_and(|why| why.ends_with("reads no images")));
    }
}
