//! Cuts text at character borders, and converts bytes to text. Every cut in becket that need not respect
//! graphemes goes through here. Knows nothing about the meaning of the text.

use serde_json::Value;

/// True if `s` has nothing that a reader could see: only white space, zero-width and other invisible
/// characters.
///
/// Providers refuse blank text blocks, including those that contain only NBSP, ZWSP or a BOM.
pub fn is_blank(s: &str) -> bool {
    s.chars().all(|c| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c,
                '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
                | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
                | '\u{FFA0}' | '\u{E0000}'..='\u{E0FFF}')
    })
}

/// Returns the longest prefix of `s` that has at most `max` bytes and ends at a character border.
pub fn cut_end(s: &str, max: usize) -> &str {
    &s[..s.floor_char_boundary(max)]
}

/// Returns the longest suffix of `s` that has at most `max` bytes and starts at a character border.
pub fn cut_start(s: &str, max: usize) -> &str {
    &s[s.ceil_char_boundary(s.len().saturating_sub(max))..]
}

/// Maximum number of bytes by which a cut moves to reach a border of words.
const LONGEST_WORD: usize = 1024;

/// True for a character that no key, token or address contains.
const fn is_border(c: char) -> bool {
    c.is_ascii()
        && !c.is_ascii_alphanumeric()
        && !matches!(c, '_' | '-' | '.' | '/' | '+' | '=' | ':' | '%' | '~' | '\\')
}

/// Like [`cut_end`], and ends between words if there is a border at most 1,024 bytes before. If a cut divided a key, no
/// piece would have the form of a key, so nothing would mask it.
pub fn cut_end_at_word(s: &str, max: usize) -> &str {
    let start = cut_end(s, max);
    if start.len() == s.len() || s[start.len()..].starts_with(is_border) {
        return start;
    }
    let near = start.ceil_char_boundary(start.len().saturating_sub(LONGEST_WORD));
    start[near..].rfind(is_border).map_or(start, |at| &start[..=near + at])
}

/// Like [`cut_start`], and begins between words if there is a border at most 1,024 bytes after.
pub fn cut_start_at_word(s: &str, max: usize) -> &str {
    let end = cut_start(s, max);
    if end.len() == s.len() || s[..s.len() - end.len()].ends_with(is_border) {
        return end;
    }
    cut_end(end, LONGEST_WORD).find(is_border).map_or(end, |at| &end[at..])
}

/// Extends a range to the borders of the words at its ends, if these are at most 1,024 bytes away.
pub fn at_words(s: &str, range: std::ops::Range<usize>) -> std::ops::Range<usize> {
    let (before, after) = (&s[..range.start], &s[range.end..]);
    let near = cut_start(before, LONGEST_WORD);
    let start = if range.is_empty() || s[range.clone()].starts_with(is_border) {
        range.start
    } else {
        match near.rfind(is_border) {
            Some(at) => before.len() - near.len() + at + 1,
            None if near.len() == before.len() => 0,
            None => range.start,
        }
    };
    let near = cut_end(after, LONGEST_WORD);
    let end = if range.is_empty() || s[range.clone()].ends_with(is_border) {
        range.end
    } else {
        match near.find(is_border) {
            Some(at) => range.end + at,
            None if near.len() == after.len() => s.len(),
            None => range.end,
        }
    };
    start..end
}

/// Returns the number of edits (insert, delete or replace one character) between two words. Only their first
/// 64 characters count.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(64).enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let up = row[j + 1];
            row[j + 1] = (corner + usize::from(ca != *cb)).min(up + 1).min(row[j] + 1);
            corner = up;
        }
    }
    row[b.len()]
}

/// Converts bytes to lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from(if n < 10 { b'0' + n } else { b'a' + n - 10 });
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// Returns the subject of a call from its input: its command, path, pattern and so on. Empty if the input has
/// none of these.
pub fn subject(input: &Value) -> &str {
    const KEYS: [&str; 9] =
        ["command", "pattern", "path", "url", "query", "name", "id", "call_id", "description"];
    KEYS.iter().find_map(|key| input.get(key).and_then(Value::as_str)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blank_covers_the_invisible_characters() {
        for s in ["", " \n\t", "\u{a0}", "\u{200b}\u{feff}", "\u{2060}", "\u{3164}"] {
            assert!(is_blank(s), "{s:?}");
        }
        for s in ["a", " .", "\u{200b}x", "0"] {
            assert!(!is_blank(s), "{s:?}");
        }
    }

    #[test]
    fn edits_between_words() {
        for (a, b, want) in [
            ("", "", 0),
            ("", "abc", 3),
            ("bash", "Bash", 1),
            ("kitten", "sitting", 3),
            ("edit", "edti", 2),
            ("größe", "grösse", 2),
        ] {
            assert_eq!((edit_distance(a, b), edit_distance(b, a)), (want, want), "{a} {b}");
        }
    }

    #[test]
    fn hex_is_two_lower_case_digits_a_byte() {
        assert_eq!(hex(&[0x00, 0x09, 0x0a, 0x5f, 0xff]), "00090a5fff");
        assert_eq!(hex(&[]), "");
    }

    proptest! {
        #[test]
        fn a_cut_at_a_word_is_near_and_never_in_a_short_word(
            words in prop::collection::vec("[a-zé_.:-]{1,9}", 1..20), max in 0usize..120, from in 0usize..120,
        ) {
            let s = words.join(" ");
            let (end, start) = (cut_end_at_word(&s, max), cut_start_at_word(&s, max));
            prop_assert!(s.starts_with(end) && end.len() <= max && s.ends_with(start) && start.len() <= max);
            let whole = |part: &str| part.split(' ').all(|word| word.is_empty() || words.iter().any(|one| one == word));
            // Without a border before it, the first word has to be cut.
            prop_assert!(whole(end) || !end.contains(' '), "{:?}", end);
            prop_assert!(whole(start) || !start.contains(' '), "{:?}", start);
            let from = s.floor_char_boundary(from);
            let range = from..s.floor_char_boundary(max).max(from);
            let wide = at_words(&s, range.clone());
            prop_assert!(wide.start <= range.start && wide.end >= range.end);
            prop_assert!(range.is_empty() || whole(&s[wide]), "{:?}", range);
        }

        #[test]
        fn p10_cuts_are_on_character_borders(s in ".*", max in 0usize..64) {
            let head = cut_end(&s, max);
            let tail = cut_start(&s, max);
            prop_assert!(head.len() <= max && s.starts_with(head));
            prop_assert!(tail.len() <= max && s.ends_with(tail));
            prop_assert!(s.len() <= max || head.len() + 4 > max);
        }
    }
}
