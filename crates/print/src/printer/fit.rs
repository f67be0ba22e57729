//! Keeps lines below the size that clients read: the SDKs refuse a line of 1 MiB.
//!
//! Only long values are shortened, and each of them says so: a text keeps its beginning, an image becomes a line of text. The
//! session keeps everything.

use serde_json::{Value, json};

/// Maximum size of a line in bytes, with its newline.
pub(super) const LIMIT: usize = 1024 * 1024 - 1;
/// No text is cut below this number of bytes, so a line always keeps its structure.
const LEAST: usize = 256;

/// Returns the line as bytes, shortened if it is too long for clients. Characters that a terminal would obey are escaped, because
/// people also look at such lines, for example in a log.
pub(super) fn bytes(mut line: Value) -> serde_json::Result<Vec<u8>> {
    shortened(&mut line)
}

/// Shortens the line if it is too long for clients, and returns it as bytes.
pub(super) fn shortened(line: &mut Value) -> serde_json::Result<Vec<u8>> {
    let to_bytes = |line: &Value| -> serde_json::Result<Vec<u8>> {
        Ok(crate::clean_json(&serde_json::to_string(line)?).into_owned().into_bytes())
    };
    let mut bytes = to_bytes(line)?;
    // JSON escapes make a text up to six times as long, so the limit is halved until the bytes fit.
    let mut most = LIMIT / 2;
    while bytes.len() >= LIMIT && most >= LEAST {
        shorten(line, most);
        bytes = to_bytes(line)?;
        most /= 2;
    }
    bytes.push(b'\n');
    Ok(bytes)
}

/// True if a request fits into a line without being shortened.
pub fn fits(request: &Value) -> bool {
    // Space for the keys of the line around the request, and for its id.
    const AROUND: usize = 256;
    serde_json::to_string(request).is_ok_and(|text| crate::clean_json(&text).len() + AROUND < LIMIT)
}

fn shorten(value: &mut Value, most: usize) {
    match value {
        Value::String(text) if text.len() > most => {
            let cut = becket_types::cut_end(text, most);
            let left_out = text.len() - cut.len();
            *text = format!("{cut}\n[… {left_out} bytes left out of this line; the session has them …]");
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, most)),
        Value::Object(fields) => {
            let data = fields.get("source").and_then(|source| source.get("data")).and_then(Value::as_str);
            if let Some(bytes) = data.map(str::len).filter(|bytes| *bytes > most) {
                // A part of an image is no valid image, so a text replaces it.
                let kind = fields.get("type").and_then(Value::as_str).unwrap_or("file").to_owned();
                *value = json!({
                    "type": "text",
                    "text": format!("[{kind} of {bytes} bytes as base64 left out of this line; the session has it]"),
                });
                return;
            }
            fields.values_mut().for_each(|field| shorten(field, most));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_shortened_and_stay_json() {
        for text in ["x".repeat(3_000_000), "\u{1}".repeat(900_000), "ä\n".repeat(700_000)] {
            let line = bytes(json!({ "type": "user", "content": [{ "text": text }], "n": 1 })).unwrap();
            assert!(line.len() <= LIMIT && line.ends_with(b"\n"), "{}", line.len());
            let read: Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(read["n"], 1);
            assert!(read["content"][0]["text"].as_str().unwrap().contains("bytes left out"));
        }
    }

    #[test]
    fn an_image_goes_whole_or_not_at_all() {
        let image =
            |n: usize| json!({ "type": "image", "source": { "type": "base64", "data": "A".repeat(n) } });
        let line = bytes(json!({ "content": [image(2_000_000), image(10)] })).unwrap();
        let read: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(read["content"][0]["type"], "text");
        assert_eq!(read["content"][1], image(10));
        let short = json!({ "content": [image(1000)] });
        let mut same = serde_json::to_vec(&short).unwrap();
        same.push(b'\n');
        assert_eq!(bytes(short).unwrap(), same, "a line that fits is untouched");
    }
}
