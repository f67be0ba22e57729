//! Blocks of private keys in text: `-----BEGIN … PRIVATE KEY-----`, the lines of the key, and the line of its end.
//!
//! Other forms of a block: one string of JSON or of a program, with `\n` between the lines of the key; lines after line
//! numbers; a part of a block. If both ends are there, everything between them belongs to the key. If one end is
//! missing, the lines beside the other end belong to it if they look like a key. If both are missing, as in `sed -n 5,9p key.pem`,
//! several lines of the lengths that keys have are taken for a key, unless they belong to a certificate or another public block.

use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// Longest block, in bytes. The largest keys have 15 KB, and escapes and line numbers make them longer.
const LONGEST: usize = 64 << 10;
/// A line of at least this many characters counts as a line of a key by itself. Lines of a key have 64 to 76 characters, only the last one
/// has fewer.
pub(super) const LINE: usize = 40;

/// The first or last line of a block. Group 1 is `BEGIN` or `END`.
static END: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"-----(BEGIN|END) [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----").ok());
/// Ends of lines: the characters themselves, and the escapes for them in strings and addresses.
static BREAK: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[\r\n]+|(?:\\+[nr])+|(?:%0[AaDd])+|(?:\\+u000[AaDd])+").ok());
/// A line of a key, in group 1. Quotes, line numbers or the name of a file may come before and after it.
static BODY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:[^A-Za-z0-9+/=]*(?:[^\s:]*:)?[0-9]{1,6}[\t:|-])?[^A-Za-z0-9+/=]*([A-Za-z0-9+/=]+)[^A-Za-z0-9+/=]*$")
        .ok()
});
static HEADER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\W*(?:[0-9]+\W+)?(?:Proc-Type|DEK-Info|Version|Comment|Hash): ").ok());

/// Lengths of whole lines of a key: of PEM and PGP, and of OpenSSH.
pub(super) const WIDTHS: [usize; 2] = [64, 70];
/// Minimum number of whole lines that are taken for a part of a key whose first and last line are missing.
const FEWEST: usize = 3;
/// Maximum number of bytes between two lines of a key: a line number, or the name of a file.
const GAP: usize = 300;
/// Number of lines before and after a part of a key that are searched for the border of another kind of block.
const BESIDE: usize = 3;

/// Returns the blocks in order. They do not overlap.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut out = with_ends(text);
    let is_apart = |part: &Range<usize>| out.iter().all(|one| part.end <= one.start || one.end <= part.start);
    let more: Vec<Range<usize>> = middles(text).into_iter().filter(is_apart).collect();
    if !more.is_empty() {
        out.extend(more);
        out.sort_by_key(|block| block.start);
    }
    out
}

/// True if a text may contain a part of a key without its first and last line.
pub(super) fn has_middles(text: &str) -> bool {
    whole_lines(text).nth(FEWEST - 1).is_some()
}

/// Returns the runs of characters of base64 that are as long as a whole line of a key.
pub(super) fn whole_lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let is_one = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
            let length = bytes[at..].iter().take_while(|byte| is_one(byte)).count();
            let mut run = at..at + length;
            at += length.max(1);
            // After the backslash of `\n` or `\r` in a string, the letter belongs to the escape and not to the line.
            if run.start > 0
                && bytes[run.start - 1] == b'\\'
                && matches!(bytes.get(run.start), Some(b'n' | b'r'))
            {
                run.start += 1;
            }
            if WIDTHS.contains(&run.len()) {
                return Some(run);
            }
        }
        None
    })
}

/// Returns the parts of keys whose first and last lines are both missing.
fn middles(text: &str) -> Vec<Range<usize>> {
    let mut groups: Vec<Vec<Range<usize>>> = Vec::new();
    for line in whole_lines(text) {
        let follows = |group: &Vec<Range<usize>>| {
            group.last().is_some_and(|last| {
                let between = &text[last.end..line.start];
                let is_break = BREAK.as_ref().is_some_and(|pattern| pattern.find_iter(between).count() == 1);
                last.len() == line.len() && between.len() <= GAP && is_break
            })
        };
        match groups.last_mut().filter(|group| follows(group)) {
            Some(group) => group.push(line),
            None => groups.push(vec![line]),
        }
    }
    let is_key = |group: &Vec<Range<usize>>| {
        let body: String = group.iter().map(|line| &text[line.clone()]).collect();
        let has = |test: fn(u8) -> bool| body.bytes().any(test);
        // A list of hashes has letters of one case only.
        let is_mixed = has(|b| b.is_ascii_uppercase())
            && has(|b| b.is_ascii_lowercase())
            && has(|b| matches!(b, b'+' | b'/'));
        group.len() >= FEWEST && is_mixed && super::looks_random(&body)
    };
    let whole = |group: Vec<Range<usize>>| Some(group.first()?.start..group.last()?.end);
    groups.into_iter().filter(is_key).filter_map(whole).filter(|part| !is_public(text, part)).collect()
}

/// True if a line beside the part begins or ends a block that is no private key, for example a certificate.
pub(super) fn is_public(text: &str, part: &Range<usize>) -> bool {
    let from = text.floor_char_boundary(part.start.saturating_sub(2 * GAP));
    let to = text.ceil_char_boundary(text.len().min(part.end + 2 * GAP));
    let before: Vec<&str> = lines(text, from..part.start).map(|line| &text[line]).collect();
    let after: Vec<&str> = lines(text, part.end..to).map(|line| &text[line]).collect();
    // Each side also has the rest of the line in which the part begins or ends, so one more line is examined.
    let before = before.iter().rev().take(BESIDE + 1);
    let after = after.iter().take(BESIDE + 1);
    before.chain(after).any(|line| line.contains("-----") && !line.contains("PRIVATE"))
}

/// Returns the blocks of which the first or the last line is present.
fn with_ends(text: &str) -> Vec<Range<usize>> {
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

/// Returns the position after the lines of a key that follow `from`, at most `stop`.
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
            // The key may begin in the same line as `BEGIN`.
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
    // The line with `END` itself is skipped, then lines without any character of base64.
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
    // If the lines are separated by escapes, a backslash before the start belongs to an escape, so it is included.
    start.map(|start| text[..start].trim_end_matches('\\').len())
}

/// Returns the lines of a part of the text, without their ends.
pub(super) fn lines(text: &str, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
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

pub(super) fn body(line: &str) -> Option<Range<usize>> {
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
    fn lines_from_the_middle_of_a_key_are_masked() {
        let key = key("RSA ");
        let lines: Vec<&str> = key.lines().collect();
        let numbered = |part: &[&str]| {
            part.iter().zip(7..).map(|(line, n)| format!("{n:>6}\t{line}")).collect::<Vec<_>>().join("\n")
        };
        let named = |part: &[&str]| {
            part.iter()
                .zip(7..)
                .map(|(line, n)| format!("keys/k.pem:{n}:{line}"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let wide: String = lines[1..25].concat();
        let wide: Vec<&str> = (0..20).map(|n| &wide[n * 70..n * 70 + 70]).collect();
        for part in [&lines[2..5], &lines[5..20], &wide[3..9]] {
            for text in [
                part.join("\n"),
                part.join("\r\n"),
                part.join("\n    "),
                numbered(part),
                named(part),
                format!("\"{}\"", part.join("\\n")),
            ] {
                let text = format!("before\n{text}\nafter it");
                for masked in [mask(&text).0, mask_published(&text).0.into_owned()] {
                    assert!(is_free_of(&masked, &part.join("\n")), "{text}\n->\n{masked}");
                    assert!(masked.starts_with("before\n") && masked.ends_with("\nafter it"), "{masked}");
                    assert_eq!(mask(&masked).0, masked);
                }
            }
        }
    }

    #[test]
    fn certificates_hashes_and_single_lines_stay() {
        let key = key("");
        let lines: Vec<&str> = key.lines().collect();
        let body = lines[1..20].join("\n");
        let hash = "0123456789abcdef".repeat(4);
        for text in [
            format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----"),
            format!("{body}\nTail01==\n-----END CERTIFICATE-----"),
            format!("-----BEGIN PGP SIGNATURE-----\n\n{body}"),
            format!("{hash}\n{hash}\n{hash}\n{hash}"),
            lines[1..3].join("\n"),
            format!("{}\nwords\n{}\nwords\n{}", lines[1], lines[2], lines[3]),
            lines[1..20].iter().map(|line| format!("{line}x")).collect::<Vec<_>>().join("\n"),
        ] {
            assert_eq!(mask_published(&text).0, text);
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
