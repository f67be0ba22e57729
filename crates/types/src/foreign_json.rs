//! Reads JSON that other programs wrote, with two faults that they make and a strict parser refuses.
//!
//! JavaScript's `JSON.stringify` and Python's `json.dumps` write half of a surrogate pair as `\ud83d` if a text was cut in the
//! middle of a character. Programs on Windows put a byte order mark at the start. Neither leaves a doubt about the rest of the
//! text, so neither may cost it. Everything else stays an error.

use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// The byte order mark as a character.
const MARK: char = '\u{feff}';

/// Parses JSON of another program. A lone half of a surrogate pair becomes U+FFFD, and a byte order mark at the start is skipped.
///
/// Text without these faults is parsed once and never copied.
///
/// # Errors
///
/// Returns the parser's error if the text is not JSON without these faults either.
pub fn parse_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| {
        let unmarked = text.trim_start_matches(MARK);
        match replace_lone_surrogates(unmarked) {
            Some(repaired) => serde_json::from_str(&repaired),
            None if unmarked.len() < text.len() => serde_json::from_str(unmarked),
            None => Err(error),
        }
    })
}

/// Parses JSON as [`parse_json`] does, from bytes. Bytes that are not UTF-8 become U+FFFD as well.
///
/// # Errors
///
/// Returns the parser's error if the bytes are not JSON without these faults either.
pub fn parse_json_bytes<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(bytes).or_else(|error| match String::from_utf8_lossy(bytes) {
        // Without one of the faults, another attempt would fail at the same place.
        Cow::Borrowed(text) if !text.starts_with(MARK) && replace_lone_surrogates(text).is_none() => {
            Err(error)
        }
        text => parse_json(&text),
    })
}

/// Replaces the escape of each half of a surrogate pair without its other half by `\ufffd`, which is as long. `None` if there is
/// none. An escaped backslash before `ud83d` is text, not an escape.
pub fn replace_lone_surrogates(json: &str) -> Option<String> {
    let mut out = String::new();
    let (mut rest, mut found) = (json, false);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        let is_low = |text| matches!(code_unit(text), Some(0xdc00..0xe000));
        let (length, is_lone) = match code_unit(escape) {
            Some(0xd800..0xdc00) if escape.get(6..).is_some_and(is_low) => (12, false),
            Some(0xd800..0xe000) => (6, true),
            // Skips the character after the backslash; the rest of the escape is plain text.
            _ => (1 + escape.chars().nth(1).map_or(0, char::len_utf8), false),
        };
        let (escape, after) = escape.split_at(length);
        if is_lone && !std::mem::replace(&mut found, true) {
            // Only now a copy is needed.
            out.push_str(&json[..json.len() - rest.len()]);
        }
        if found {
            out.push_str(before);
            out.push_str(if is_lone { "\\ufffd" } else { escape });
        }
        rest = after;
    }
    found.then(|| {
        out.push_str(rest);
        out
    })
}

/// Parses the number of a `\uXXXX` at the start.
fn code_unit(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    use std::fmt::Write as _;

    fn text(json: &str) -> Option<String> {
        parse_json::<Vec<String>>(json).ok()?.pop()
    }

    #[test]
    fn halves_of_characters_become_one_sign_and_pairs_stay() {
        for (json, want) in [
            (r#"["a\ud83d"]"#, Some("a\u{fffd}")),
            (r#"["\udc00b\ud83d\ude00\uD83Dx"]"#, Some("\u{fffd}b😀\u{fffd}x")),
            (r#"["\ud83d\ud83d\ude00"]"#, Some("\u{fffd}😀")),
            (r#"["\ude00\ud83d x"]"#, Some("\u{fffd}\u{fffd} x")),
            (r#"["\\ud83d \" \\\ud83d é"]"#, Some("\\ud83d \" \\\u{fffd} é")),
            (r#"["plain \u00e9"]"#, Some("plain é")),
            ("\u{feff}[\"a\"]", Some("a")),
            ("\u{feff} [\"a\\udc00\"]\r\n", Some("a\u{fffd}")),
            (r#"["\ud83d""#, None),
            (r#"["\ud83"]"#, None),
            ("[\"\\", None),
            ("[\"\\u12é\"]", None),
            ("[\"\\ud83dé\\", None),
            ("\u{feff}", None),
            ("", None),
        ] {
            assert_eq!(text(json).as_deref(), want, "{json}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_become_signs_too() {
        let json = b"\xef\xbb\xbf[\"caf\xe9 \\ud83d\"]";
        assert_eq!(parse_json_bytes::<Vec<String>>(json).unwrap(), ["caf\u{fffd} \u{fffd}"]);
        assert_eq!(parse_json_bytes::<Vec<String>>(br#"["\udc00"]"#).unwrap(), ["\u{fffd}"]);
        for wrong in [&b""[..], b"\xff", b"[\"a\"", b"\xef\xbb\xbf"] {
            assert!(parse_json_bytes::<Value>(wrong).is_err());
        }
    }

    #[test]
    fn an_error_names_the_place_in_the_text_as_it_was() {
        let error = parse_json::<Value>("{\"a\": \"\\ud83d\",\n \"b\": x}").unwrap_err();
        assert_eq!((error.line(), error.column()), (2, 7));
    }

    fn piece() -> impl Strategy<Value = (u16, bool)> {
        let unit = prop_oneof![
            3 => 0xd800_u16..0xe000,
            2 => prop::sample::select(&[0xd83d_u16, 0xde00, 0x5c, 0x22, 0x75, 0x64, 0xfffd, 0xfeff][..]),
            1 => any::<u16>(),
        ];
        (unit, any::<bool>())
    }

    proptest! {
        /// A string of any UTF-16 code units, each escaped or plain, is read as UTF-16 is read with replacement.
        #[test]
        fn any_code_units_are_read(pieces in prop::collection::vec(piece(), 0..40)) {
            let mut json = String::from("[\"");
            for (unit, escaped) in &pieces {
                match char::from_u32(u32::from(*unit)) {
                    Some(c) if !escaped => {
                        let quoted = serde_json::to_string(&c).unwrap();
                        json.push_str(quoted.trim_start_matches('"').strip_suffix('"').unwrap());
                    }
                    _ => write!(json, "\\u{unit:04x}").unwrap(),
                }
            }
            json.push_str("\"]");
            // A half before a plain half cannot be written, so every lone one is an escape.
            let units: Vec<u16> = pieces.iter().map(|(unit, _)| *unit).collect();
            prop_assert_eq!(text(&json), Some(String::from_utf16_lossy(&units)), "{}", json);
            prop_assert_eq!(parse_json_bytes::<Value>(json.as_bytes()).unwrap(), parse_json::<Value>(&json).unwrap());
        }

        /// Any text: what a strict parser accepts is read the same, the rest as the repaired text, and nothing panics.
        #[test]
        fn any_text_is_read_as_its_repaired_form(
            text in r#"\PC{0,40}|[\[\]"\\ud8cefé, :{}0-9\x{feff}]{0,40}|"([ -!#-\[\]-~é]|\\["\\nu]|\\u[dD][89a-fA-F][0-9a-f]{2}){0,20}""#
        ) {
            let strict = serde_json::from_str::<Value>(&text);
            let read = parse_json::<Value>(&text);
            match replace_lone_surrogates(&text) {
                Some(repaired) => {
                    prop_assert!(strict.is_err() && repaired.len() == text.len(), "{}", text);
                    prop_assert_eq!(replace_lone_surrogates(&repaired), None);
                    let want = serde_json::from_str::<Value>(repaired.trim_start_matches(MARK));
                    prop_assert_eq!(read.ok(), want.ok(), "{}", text);
                }
                None => prop_assert_eq!(
                    read.ok(),
                    strict.or_else(|_| serde_json::from_str(text.trim_start_matches(MARK))).ok(),
                    "{}", text
                ),
            }
            let _ = parse_json_bytes::<Value>(text.as_bytes());
        }
    }
}
