//! Tells from the first bytes of a body if it is a stream of events, one JSON document, or something else.

/// The form of a body, judged by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Unknown,
    Events,
    /// Binary messages, each with an event; known by the content type.
    Frames,
    Document,
    /// HTML, or anything else.
    Other,
}

/// Returns the form of a body that begins with these bytes.
pub(crate) fn shape_of(bytes: &[u8]) -> Shape {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    let fields: [&[u8]; 6] = [b"data", b"event", b":", b"id", b"retry", b"error"];
    match bytes.first() {
        None => Shape::Unknown,
        Some(b'{' | b'[') => Shape::Document,
        Some(_) if fields.iter().any(|f| bytes.starts_with(f)) => Shape::Events,
        Some(_) if fields.iter().any(|f| f.starts_with(bytes)) => Shape::Unknown,
        // The start of a byte order mark.
        Some(0xEF) if bytes.len() < 3 => Shape::Unknown,
        Some(_) => Shape::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_known_by_their_first_bytes() {
        for (bytes, want) in [
            (&b""[..], Shape::Unknown),
            (b"\n \n", Shape::Unknown),
            (b"da", Shape::Unknown),
            (b"\xEF\xBB", Shape::Unknown),
            (b"data: {}", Shape::Events),
            (b"\xEF\xBB\xBFevent: x", Shape::Events),
            (b": ping", Shape::Events),
            (b"{\"id\":1}", Shape::Document),
            (b"\n[{", Shape::Document),
            (b"<html>", Shape::Other),
            (b"\x1f\x8b\x08", Shape::Other),
            (b"dating", Shape::Other),
        ] {
            assert_eq!(shape_of(bytes), want, "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
