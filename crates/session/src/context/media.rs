//! Media policy: the images and files that a request may contain, and the text that replaces the others.
//!
//! A model without image support gets text. Formats that no provider accepts, and images without pixels,
//! become text. If a request would contain more media than the model accepts, the oldest become text, in
//! batches, so that the prefix does not change with every new image. Sizes are those given in the parts.
//! Images are scaled when they are added, not here.

use super::{ModelScope, escape};
use becket_types::{ImageSource, Part};
use std::fmt::Write as _;

/// Key in which a front end or a tool stores the size of the bytes of a media part.
const BYTES_KEY: &str = "bytes";
/// Assumed size in bytes of media without a known size.
const UNKNOWN_BYTES: u64 = 256 * 1024;
/// Image formats that providers accept.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns the text that replaces an image or file: `[Attached image/png: name, WxH, N bytes]`. `None` for
/// any other part.
pub fn stub(part: &Part) -> Option<String> {
    placeholder(part, None)
}

/// Like [`stub`], with the id by which `recall` shows the image or file again: `[Attached image/png: name, WxH, N bytes, id m12]`.
pub fn placeholder(part: &Part, id: Option<&str>) -> Option<String> {
    let (media_type, name, pixels) = match part {
        Part::Image { media_type, name, width, height, .. } => (media_type, name, width.zip(*height)),
        Part::File { media_type, name, .. } => (media_type, name, None),
        _ => return None,
    };
    let kind = if becket_types::is_blank(media_type) { "file" } else { media_type };
    let mut out = format!("[Attached {kind}");
    let mut separator = ": ";
    if let Some(name) = name.as_deref().filter(|n| !becket_types::is_blank(n)) {
        let _ = write!(out, "{separator}{name}");
        separator = ", ";
    }
    if let Some((width, height)) = pixels {
        let _ = write!(out, "{separator}{width}x{height}");
        separator = ", ";
    }
    if let Some(bytes) = known_bytes(part) {
        let _ = write!(out, "{separator}{bytes} bytes");
        separator = ", ";
    }
    if let Some(id) = id {
        let _ = write!(out, "{separator}id {id}");
    }
    out.push(']');
    Some(escape::escape(&out).into_owned())
}

/// Returns the bytes that the part adds to a request, before base64 encoding.
pub fn bytes(part: &Part) -> u64 {
    match part {
        Part::Image { source: ImageSource::Url(_), .. } => 0,
        Part::Image { .. } | Part::File { .. } => known_bytes(part).unwrap_or(UNKNOWN_BYTES),
        _ => 0,
    }
}

/// Returns the size of a media part in bytes, if the part contains it.
fn known_bytes(part: &Part) -> Option<u64> {
    match part {
        Part::Image { source: ImageSource::Base64(data), .. } => Some(data.len() as u64 / 4 * 3),
        Part::Image { extra, .. } | Part::File { extra, .. } => {
            extra.get(BYTES_KEY).and_then(serde_json::Value::as_u64)
        }
        _ => None,
    }
}

/// Returns the reason why this part can never be sent to the model of `scope`; `None` if it can.
pub(crate) fn unsendable(part: &Part, scope: &ModelScope) -> Option<&'static str> {
    if !part.is_media() {
        return None;
    }
    if !scope.images || scope.max_images == 0 {
        return Some("the model takes no media");
    }
    if bytes(part) > scope.max_media_bytes {
        return Some("larger than a request may be");
    }
    match part {
        // The type of a URL's content is known only when the provider fetches it.
        Part::Image { source: ImageSource::Url(_), .. } => None,
        Part::Image { media_type, .. } if !IMAGE_TYPES.contains(&media_type.as_str()) => {
            Some("not an image kind that models take")
        }
        Part::Image { width: Some(0), .. } | Part::Image { height: Some(0), .. } => {
            Some("an image without pixels")
        }
        Part::Image { source: ImageSource::Base64(data), .. } if data.is_empty() => {
            Some("an image without bytes")
        }
        _ => None,
    }
}

/// Returns how many media of a request, oldest first, must become text. `sizes` are their bytes; the last
/// `newest` of them came with the newest message.
///
/// 0 while both limits are kept. If one is exceeded, the oldest media become text until at most half of each limit is used, so that the
/// next images do not change the prefix again. The media of the newest message stay if they fit.
pub fn overflow(
    sizes: impl ExactSizeIterator<Item = u64> + Clone,
    newest: usize,
    scope: &ModelScope,
) -> usize {
    let count = sizes.len();
    let total: u64 = sizes.clone().sum();
    if count <= scope.max_images && total <= scope.max_media_bytes {
        return 0;
    }
    let newest_bytes: u64 = sizes.clone().skip(count - newest.min(count)).sum();
    let count_goal = (scope.max_images / 2).max(newest).min(scope.max_images);
    let bytes_goal = (scope.max_media_bytes / 2).max(newest_bytes).min(scope.max_media_bytes);
    let (mut left, mut bytes_left, mut drop) = (count, total, 0);
    for size in sizes {
        if left <= count_goal && bytes_left <= bytes_goal {
            break;
        }
        left -= 1;
        bytes_left -= size;
        drop += 1;
    }
    drop
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::BlobId;
    use serde_json::{Map, Value, json};

    fn image(media_type: &str, name: Option<&str>, size: Option<(u32, u32)>) -> Part {
        Part::Image {
            media_type: media_type.into(),
            source: ImageSource::Blob(BlobId("b".into())),
            name: name.map(str::to_owned),
            width: size.map(|s| s.0),
            height: size.map(|s| s.1),
            extra: Map::new(),
        }
    }

    fn scope(max_images: usize, max_media_bytes: u64) -> ModelScope {
        ModelScope { provider: "p".into(), model: "m".into(), images: true, max_images, max_media_bytes }
    }

    #[test]
    fn media_text_table() {
        for (part, want) in [
            (image("image/png", Some("a.png"), Some((3, 4))), Some("[Attached image/png: a.png, 3x4]")),
            (image("image/png", Some("a.png"), None), Some("[Attached image/png: a.png]")),
            (image("image/png", None, Some((3, 4))), Some("[Attached image/png: 3x4]")),
            (image("image/png", None, None), Some("[Attached image/png]")),
            (image("", None, None), Some("[Attached file]")),
            (
                image("image/png", Some("<system-reminder>"), None),
                Some("[Attached image/png: &lt;system-reminder>]"),
            ),
            (Part::text("x"), None),
        ] {
            assert_eq!(stub(&part).as_deref(), want);
        }
    }

    #[test]
    fn what_no_model_takes_is_never_sent() {
        let eyes = scope(5, 1 << 30);
        for (part, ok) in [
            (image("image/png", None, Some((1, 1))), true),
            (image("image/webp", None, None), true),
            (image("image/svg+xml", None, None), false),
            (image("text/html", None, None), false),
            (image("image/png", None, Some((0, 1))), false),
        ] {
            assert_eq!(unsendable(&part, &eyes).is_none(), ok, "{part:?}");
            assert!(unsendable(&part, &ModelScope { images: false, ..eyes.clone() }).is_some());
        }
        let mut heavy = image("image/png", None, None);
        if let Part::Image { extra, .. } = &mut heavy {
            extra.insert("bytes".into(), json!(2u64 << 30));
        }
        assert!(unsendable(&heavy, &eyes).is_some());
        assert_eq!(bytes(&heavy), 2 << 30);
        assert_eq!(Value::from(bytes(&Part::text("x"))), json!(0));
    }

    #[test]
    fn limits_of_the_whole_request_free_half_at_once() {
        let limit = scope(20, 1000);
        for (sizes, newest, want) in [
            (vec![1; 20], 1, 0),
            (vec![1; 21], 1, 11),
            (vec![1; 30], 30, 10),
            (vec![1; 25], 15, 10),
            (vec![600, 300, 200], 1, 1),
            (vec![100, 900, 100], 2, 1),
            (vec![], 0, 0),
        ] {
            assert_eq!(overflow(sizes.iter().copied(), newest, &limit), want, "{sizes:?}");
        }
    }
}
