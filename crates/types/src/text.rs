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
        fn p10_cuts_are_on_character_borders(s in ".*", max in 0usize..64) {
            let head = cut_end(&s, max);
            let tail = cut_start(&s, max);
            prop_assert!(head.len() <= max && s.starts_with(head));
            prop_assert!(tail.len() <= max && s.ends_with(tail));
            prop_assert!(s.len() <= max || head.len() + 4 > max);
        }
    }
}
