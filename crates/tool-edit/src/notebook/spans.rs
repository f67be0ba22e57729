//! Byte ranges of the values in a JSON text, so that one value can be replaced and every other byte stays.
//!
//! Expects valid JSON; the caller has parsed it. For anything else the functions return fewer ranges or none, and never panic.

use std::ops::Range;

/// Returns the members of the object that begins at `at`: name, range of the name with its quotes, range of the value.
pub(super) fn members(text: &str, at: usize) -> Vec<(String, Range<usize>, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    if bytes.get(at) != Some(&b'{') {
        return out;
    }
    let mut from = blank(bytes, at + 1);
    while bytes.get(from) == Some(&b'"') {
        let end = value(bytes, from);
        let colon = blank(bytes, end);
        let start = blank(bytes, colon + 1);
        let stop = value(bytes, start);
        let Some(name) = text.get(from..end).and_then(|name| serde_json::from_str(name).ok()) else { break };
        out.push((name, from..end, start..stop));
        let comma = blank(bytes, stop);
        if bytes.get(comma) != Some(&b',') {
            break;
        }
        from = blank(bytes, comma + 1);
    }
    out
}

/// Returns the range of the value of a member.
pub(super) fn member(text: &str, at: usize, name: &str) -> Option<Range<usize>> {
    members(text, at).into_iter().find(|(known, ..)| known == name).map(|(_, _, value)| value)
}

/// Returns the ranges of the elements of the array that begins at `at`.
pub(super) fn elements(text: &str, at: usize) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    if bytes.get(at) != Some(&b'[') {
        return out;
    }
    let mut from = blank(bytes, at + 1);
    while bytes.get(from).is_some_and(|byte| *byte != b']') {
        let end = value(bytes, from);
        if end <= from {
            break;
        }
        out.push(from..end);
        let comma = blank(bytes, end);
        if bytes.get(comma) != Some(&b',') {
            break;
        }
        from = blank(bytes, comma + 1);
    }
    out
}

/// Returns the first offset from `at` without white space.
pub(super) fn blank(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Returns the end of the value that begins at `at`.
fn value(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut from = at;
    while let Some(byte) = bytes.get(from) {
        match byte {
            b'"' => from = string(bytes, from),
            b'{' | b'[' => {
                depth += 1;
                from += 1;
            }
            b'}' | b']' if depth == 0 => return from,
            b'}' | b']' => {
                depth -= 1;
                from += 1;
            }
            b',' | b':' if depth == 0 => return from,
            byte if byte.is_ascii_whitespace() && depth == 0 => return from,
            _ => from += 1,
        }
        // A string, an object or an array ends with its closing character; only a number or a word needs the next one.
        if depth == 0 && matches!(bytes.get(from - 1), Some(b'"' | b'}' | b']')) {
            return from;
        }
    }
    from
}

/// Returns the end of the string that begins at `at`.
fn string(bytes: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    while let Some(byte) = bytes.get(from) {
        match byte {
            b'\\' => from += 2,
            b'"' => return from + 1,
            _ => from += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_where_they_are() {
        let text = r#" { "a" : 1, "b\"": [ {"x": "]"}, -2.5e3 ,"}", [], true], "c": {} }"#;
        let at = blank(text.as_bytes(), 0);
        let found: Vec<(String, &str)> =
            members(text, at).into_iter().map(|(name, _, value)| (name, &text[value])).collect();
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b\"", "c"]);
        assert_eq!((found[0].1, found[2].1), ("1", "{}"));
        let list = member(text, at, "b\"").unwrap();
        let inside: Vec<&str> = elements(text, list.start).into_iter().map(|range| &text[range]).collect();
        assert_eq!(inside, [r#"{"x": "]"}"#, "-2.5e3", r#""}""#, "[]", "true"]);
        assert!(elements("[]", 0).is_empty() && members("{}", 0).is_empty() && elements("[ ]", 0).is_empty());
        for broken in ["", "[", "{\"a", "{\"a\":", "[1,", "{\"\\", "[}"] {
            let _ = (elements(broken, 0), members(broken, 0));
        }
    }
}
