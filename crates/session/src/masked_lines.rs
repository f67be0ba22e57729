//! The lines of a ledger with secrets masked and invisible characters escaped, for a copy that is given to others.
//!
//! Each secret is replaced by its kind, and each invisible character by its JSON escape, which means the same. This changes the hash of the
//! line and of all later lines. The result is a valid ledger, but not the original one. A ledger with neither stays byte for byte the same.

use crate::ledger::line::{self, Draft};
use crate::secrets::{mask, mask_value};
use becket_types::invisible::show_hidden;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};

/// Writes the lines of a ledger without secrets. Returns the number of masked secrets.
///
/// # Errors
///
/// Fails if `ledger` cannot be read or `out` cannot be written.
pub fn write_masked(mut ledger: impl BufRead, out: &mut dyn Write) -> io::Result<usize> {
    let (mut total, mut head, mut bytes) = (0, None, Vec::new());
    loop {
        bytes.clear();
        if ledger.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(total);
        }
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let (written, count) = match mask_authentic(line, head.as_deref()) {
            Some(MaskedLine { line, hash, count }) => {
                head = Some(hash);
                (Some(line), count)
            }
            None => damaged(line, &bytes),
        };
        total += count;
        out.write_all(written.as_deref().unwrap_or(&bytes))?;
    }
}

struct MaskedLine {
    line: Vec<u8>,
    hash: String,
    count: usize,
}

/// Returns the changed line; `None` if it stays the same. `head`: the hash of the previous line, if it has
/// changed.
fn mask_authentic(line: &[u8], head: Option<&str>) -> Option<MaskedLine> {
    let framed = line::frame(line).filter(line::Framed::is_authentic)?;
    let (prev, entries) = framed.parts(line).ok()?;
    let mut value: Value = serde_json::from_slice(entries).ok()?;
    let count = mask_value(&mut value);
    let entries = match count {
        0 => Cow::Borrowed(std::str::from_utf8(entries).ok()?),
        _ => Cow::Owned(serde_json::to_string(&value).ok()?),
    };
    let escaped = escaped(&entries);
    let prev = match head {
        None if count == 0 && matches!(escaped, Cow::Borrowed(_)) => return None,
        None => &prev,
        Some(head) => head,
    };
    let raw: &RawValue = serde_json::from_str(&escaped).ok()?;
    let (line, hash) = Draft::new(prev, &raw).ok()?.finish();
    Some(MaskedLine { line, hash, count })
}

/// Writes invisible characters in a JSON text as escapes. In JSON, they can only be in a string.
fn escaped(json: &str) -> Cow<'_, str> {
    show_hidden(
        json,
        |c| matches!(c, '\u{2028}' | '\u{2029}'),
        |out, c| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

/// Masks a damaged line as plain text. Returns `None` for an authentic line or if nothing changed; the number is that of the masked
/// secrets.
fn damaged(line: &[u8], bytes: &[u8]) -> (Option<Vec<u8>>, usize) {
    if line::frame(line).is_some_and(|framed| framed.is_authentic()) {
        return (None, 0);
    }
    let text = String::from_utf8_lossy(bytes);
    let (masked, count) = mask(&text);
    let escaped = escaped(&masked);
    let changed = count > 0 || matches!(escaped, Cow::Owned(_));
    (changed.then(|| escaped.into_owned().into_bytes()), count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Item, Reader};
    use serde_json::json;

    fn ledger(texts: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut head = "0".repeat(64);
        for (n, text) in texts.iter().enumerate() {
            let entries = json!([{"seq": n + 1, "time": 1, "kind": "note", "text": text, "number": 0.1}]);
            let (line, hash) = Draft::new(&head, &entries).unwrap().finish();
            out.extend(line);
            head = hash;
        }
        out
    }

    fn masked(bytes: &[u8]) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        let count = write_masked(bytes, &mut out).unwrap();
        (out, count)
    }

    #[test]
    fn a_ledger_without_secrets_is_copied_byte_for_byte() {
        let mut bytes = ledger(&["one", "two", "three"]);
        bytes.extend_from_slice(b"torn {");
        assert_eq!(masked(&bytes), (bytes.clone(), 0));
    }

    #[test]
    fn a_masked_ledger_still_proves_itself() {
        let bytes = ledger(&[
            "one",
            "password=hunter22 and ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "three",
            "secret: hunter22",
        ]);
        let (without, count) = masked(&bytes);
        assert_eq!(count, 3);
        let text = String::from_utf8(without.clone()).unwrap();
        assert!(!text.contains("hunter22") && !text.contains("ghp_") && text.contains("three"), "{text}");
        let items: Vec<Item> = Reader::new(without.as_slice()).map(Result::unwrap).collect();
        assert_eq!(items.len(), 4);
        assert!(items.iter().all(|item| matches!(item, Item::Commit(_))), "{items:?}");
        assert_eq!(masked(&without), (without, 0), "once is enough");
    }

    #[test]
    fn hidden_characters_are_escaped_and_the_ledger_still_proves_itself() {
        let bytes = ledger(&["one", "a\u{202e}b\u{e0041}", "three ❤\u{fe0f}"]);
        let (safe, count) = masked(&bytes);
        let text = String::from_utf8(safe.clone()).unwrap();
        assert!(
            count == 0 && text.contains("a\\u202eb\\udb40\\udc41") && text.contains("❤\u{fe0f}"),
            "{text}"
        );
        let items: Vec<Item> = Reader::new(safe.as_slice()).map(Result::unwrap).collect();
        assert!(items.len() == 3 && items.iter().all(|item| matches!(item, Item::Commit(_))), "{items:?}");
        assert_eq!(masked(&safe), (safe, 0), "once is enough");
    }

    #[test]
    fn damaged_lines_are_masked_too() {
        let mut bytes = ledger(&["one"]);
        bytes.extend_from_slice(b"{\"half\": \"password=hunter22");
        let (without, count) = masked(&bytes);
        assert_eq!(count, 1);
        assert!(!String::from_utf8(without).unwrap().contains("hunter22"));
    }
}
