//! Parsing records of other programs, including errors that their writers make and JSON parsers refuse.

use serde_json::Value;
use std::borrow::Cow;

/// Removes the byte order mark that some editors add.
pub(super) fn unmarked(text: &str) -> &str {
    text.trim_start_matches('\u{feff}')
}

/// Parses a record; `None` if it is not JSON. Half of a surrogate pair, which programs in JavaScript may
/// write when they cut text, becomes U+FFFD.
pub(super) fn record(line: &str) -> Option<Value> {
    serde_json::from_str(line).ok().or_else(|| match mended(line) {
        Cow::Borrowed(_) => None,
        Cow::Owned(line) => serde_json::from_str(&line).ok(),
    })
}

/// Replaces each half of a surrogate pair without its other half by U+FFFD.
fn mended(json: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut rest, mut found) = (json, false);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let length = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => 0,
            // Skips the character after the backslash; the rest of the escape is plain text.
            _ => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        if length == 0 {
            found = true;
            out.push_str("\\ufffd");
            rest = &escape[6..];
        } else {
            out.push_str(&escape[..length]);
            rest = &escape[length..];
        }
    }
    if !found {
        return Cow::Borrowed(json);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Parses the number of a `\uXXXX` at the start.
fn unit(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_become_one_sign_and_pairs_stay() {
        for (line, want) in [
            (r#"["a\ud83d"]"#, Some("a\u{fffd}")),
            (r#"["\udc00b\ud83d\ude00\ud83dx"]"#, Some("\u{fffd}b😀\u{fffd}x")),
            (r#"["\ud83d\ud83d\ude00"]"#, Some("\u{fffd}😀")),
            (r#"["\\ud83d \" \\\ud83d é"]"#, Some("\\ud83d \" \\\u{fffd} é")),
            (r#"["plain \u00e9"]"#, Some("plain é")),
            (r#"["\ud83d""#, None),
            ("[\"\\", None),
            ("[\"\\u12é\"]", None),
            ("", None),
        ] {
            assert_eq!(record(line).as_ref().and_then(|r| r[0].as_str()), want, "{line}");
        }
    }
}
