//! Blocks of private keys in text: `-----BEGIN … PRIVATE KEY-----`, the lines of the key, and the line of its end.
//!
//! Other forms of a block: one string of JSON or of a program, with `\n` between the lines of the key; lines after line
//! numbers; a part of a block. If both ends are there, everything between them belongs to the key. If one end is
//! missing, the lines beside the other end belong to it if they look like a key.

use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// Longest block, in bytes. The largest keys have 15 KB, and escapes and line numbers make them longer.
const LONGEST: usize = 64 << 10;
/// A line of a key has 64 to 76 characters, the last one fewer.
const LINE: usize = 40;

/// The two ends. Group 1 is `BEGIN` or `END`.
static END: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"-----(BEGIN|END) [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----").ok());
/// Ends of lines as they are, and as strings and addresses write them.
static BREAK: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[\r\n]+|(?:\\+[nr])+|(?:%0[AaDd])+|(?:\\+u000[AaDd])+").ok());
/// A line of a key, in group 1. Quotes, line numbers or the name of a file may come before and after it.
static BODY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:[^A-Za-z0-9+/=]*(?:[^\s:]*:)?[0-9]{1,6}[\t:|-])?[^A-Za-z0-9+/=]*([A-Za-z0-9+/=]+)[^A-Za-z0-9+/=]*$")
        .ok()
});
static HEADER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\W*(?:[0-9]+\W+)?(?:Proc-Type|DEK-Info|Version|Comment|Hash): ").ok());

/// Returns the blocks in order. They do not overlap.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let Some(pattern) = END.as_ref() else { return Vec::new() };
    let mut out: Vec<Range<usize>> = Vec::new();
    let mut ends = pattern.captures_iter(text).filter_map(|found| {
        let whole = found.get(0)?.range();
        Some((found.get(1)?.as_str() == "BEGIN", whole))
    });
    let mut next = ends.next();
    while let Some((is_begin, at)) = next {
        next = ends.next();
        let done = out.last().map_or(0, |last| last.end);
        match (&next, is_begin) {
            (Some((false, end)), true) if end.end - at.start <= LONGEST => {
                out.push(at.start..end.end);
                next = ends.next();
            }
            (following, true) => {
                let stop = following.as_ref().map_or(text.len(), |(_, other)| other.start);
                out.push(at.start..lines_after(text, at.end, stop));
            }
            (_, false) => out.extend(lines_before(text, done, at.start).map(|start| start..at.end)),
        }
    }
    out
}

/// Returns the end of the lines of a key after `from`.
fn lines_after(text: &str, from: usize, stop: usize) -> usize {
    let stop = text.floor_char_boundary(stop.min(from + LONGEST));
    let mut end = from;
    for (n, line) in lines(text, from..stop).enumerate() {
        let shown = &text[line.clone()];
        if let Some(body) = body(shown) {
            end = line.start + body.end;
        } else if !(HEADER.as_ref().is_some_and(|header| header.is_match(shown)) || is_blank(shown) || n == 0)
        {
            break;
        } else if n == 0 {
            // The key may follow in the same line.
            let run = shown.bytes().take_while(|byte| is_of_a_key(*byte)).count();
            end = line.start + run;
            if run < shown.len() && !is_blank(&shown[run..]) {
                break;
            }
        }
    }
    end
}

/// Returns the start of the lines of a key before `to`, if there are any.
fn lines_before(text: &str, from: usize, to: usize) -> Option<usize> {
    let from = text.ceil_char_boundary(from.max(to.saturating_sub(LONGEST)));
    let all: Vec<Range<usize>> = lines(text, from..to).collect();
    // The line of the end has only decoration before it.
    let mut before = all.iter().rev().skip(1).skip_while(|line| is_blank(&text[(*line).clone()])).peekable();
    let mut start = None;
    let mut is_last = true;
    while let Some(line) = before.next() {
        let shown = &text[line.clone()];
        let Some(body) = body(shown) else { break };
        let is_long = |body: &Range<usize>| body.len() >= LINE;
        let above = before.peek().and_then(|above| self::body(&text[(*above).clone()]));
        let belongs = is_long(&body)
            || is_last && (shown[body.clone()].ends_with('=') || above.is_some_and(|above| is_long(&above)));
        if !belongs {
            break;
        }
        start = Some(line.start + body.start);
        is_last = false;
    }
    // A backslash belongs to the letter after it.
    start.map(|start| text[..start].trim_end_matches('\\').len())
}

/// Returns the lines of a part of the text, without their ends.
fn lines(text: &str, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let shown = text.get(part.clone()).unwrap_or_default();
    let breaks =
        BREAK.as_ref().map(|pattern| pattern.find_iter(shown).map(|found| found.range()).collect::<Vec<_>>());
    let mut breaks = breaks.unwrap_or_default().into_iter();
    let mut from = Some(part.start);
    std::iter::from_fn(move || {
        let start = from?;
        let line = match breaks.next() {
            Some(found) => {
                from = Some(part.start + found.end);
                start..part.start + found.start
            }
            None => {
                from = None;
                start..part.end
            }
        };
        Some(line)
    })
}

fn body(line: &str) -> Option<Range<usize>> {
    Some(BODY.as_ref()?.captures(line)?.get(1)?.range())
}

fn is_of_a_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

fn is_blank(line: &str) -> bool {
    !line.bytes().any(is_of_a_key)
}

#[cfg(test)]
mod tests {
    use super::super::{mask, mask_published};
    use serde_json::json;

    /// A key of 26 lines, put together so that no scanner takes this file for one with a key.
    fn key(kind: &str) -> String {
        let line = "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8cF0iL+/".chars().cycle();
        let body: Vec<String> = (0..25).map(|n| line.clone().skip(n).take(64).collect()).collect();
        format!(
            "-----BEGIN {kind}PRIVATE KEY-----\n{}\nTail0123==\n-----END {kind}PRIVATE KEY-----",
            body.join("\n")
        )
    }

    fn is_free_of(text: &str, key: &str) -> bool {
        key.lines().filter(|line| !line.starts_with("-----")).all(|line| !text.contains(line))
    }

    #[test]
    fn no_line_of_a_key_is_left_however_it_is_written() {
        for kind in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
            let key = key(kind);
            let json =
                json!({"type": "service_account", "private_key": format!("{key}\n"), "after": 1}).to_string();
            let of_strings: String =
                key.lines().map(|line| format!("  \"{line}\\n\"")).collect::<Vec<_>>().join("\n");
            let numbered: Vec<String> =
                key.lines().zip(1..).map(|(line, n)| format!("{n:>6}\t{line}")).collect();
            let numbered = numbered.join("\n");
            let searched: Vec<String> =
                key.lines().zip(1..).map(|(line, n)| format!("keys/k.pem:{n}:{line}")).collect();
            let searched = searched.join("\n");
            for text in [
                key.clone(),
                key.replace('\n', "\r\n"),
                key.replace('\n', "\\n"),
                key.replace('\n', "\\\\n"),
                key.replace('\n', "\\r\\n"),
                key.replace('\n', "%0A"),
                key.replace('\n', " "),
                key.replace('\n', ""),
                key.replace('\n', "\n    "),
                key.replace('\n', "\n> "),
                format!("KEY=\"{}\"", key.replace('\n', "\\n")),
                json.clone(),
                serde_json::to_string(&json).unwrap_or_default(),
                json!(key.lines().collect::<Vec<_>>()).to_string(),
                format!("char *key =\n{of_strings};"),
                numbered,
                searched,
                format!("{key}\n{key}"),
            ] {
                let text = format!("before\n{text}\nafter it");
                for masked in [mask(&text).0, mask_published(&text).0.into_owned()] {
                    assert!(is_free_of(&masked, &key), "{text}\n->\n{masked}");
                    assert!(masked.starts_with("before\n") && masked.ends_with("\nafter it"), "{masked}");
                    assert_eq!(mask(&masked).0, masked);
                }
            }
            let (masked, _) = mask(&json);
            let value: serde_json::Value = serde_json::from_str(&masked).unwrap_or_default();
            assert_eq!(value["after"], 1, "{masked}");
        }
    }

    #[test]
    fn no_line_is_left_of_a_key_that_is_shown_in_part() {
        let key = key("RSA ");
        let lines: Vec<&str> = key.lines().collect();
        let number = |part: &[&str]| {
            part.iter().zip(7..).map(|(line, n)| format!("{n:>6}\t{line}")).collect::<Vec<_>>().join("\n")
        };
        for part in [&lines[..5], &lines[..2], &lines[20..], &lines[25..], &lines[26..]] {
            for text in [part.join("\n"), part.join("\\n"), number(part), format!("\"{}\"", part.join("\\n"))]
            {
                let text = format!("some words before\n{text}\nand some after it");
                let (masked, count) = mask(&text);
                assert!(part.len() < 2 || is_free_of(&masked, &part.join("\n")), "{text}\n->\n{masked}");
                assert!(part.len() < 2 || count == 1, "{text}\n->\n{masked}");
                assert!(masked.starts_with("some words before\n"), "{masked}");
                assert!(masked.ends_with("\nand some after it"), "{masked}");
            }
        }
    }

    #[test]
    fn words_about_keys_stay() {
        let (begin, end) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
        let text =
            format!("A key begins with\n{begin}\nin its first line. It ends with\nthis\n{end}\nin the last.");
        let (masked, _) = mask(&text[..text.find("It ends").unwrap_or(0)]);
        assert!(masked.ends_with("\nin its first line. "), "{masked}");
        let (masked, count) = mask(&text[text.find("It ends").unwrap_or(0)..]);
        assert_eq!((masked.contains("this\n"), count), (true, 0), "{masked}");
    }
}
