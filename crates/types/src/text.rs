//! Cutting text without breaking it. Every cut in becket that is not on a grapheme border goes through here.

/// Whether `s` holds nothing a reader would see: white space, zero-width and other invisible characters.
///
/// Providers refuse blank text blocks, also those that hold only NBSP, ZWSP or a BOM.
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

/// The longest prefix of `s` that is at most `max` bytes and ends on a character border.
pub fn cut_end(s: &str, max: usize) -> &str {
    &s[..s.floor_char_boundary(max)]
}

/// The longest suffix of `s` that is at most `max` bytes and starts on a character border.
pub fn cut_start(s: &str, max: usize) -> &str {
    &s[s.ceil_char_boundary(s.len().saturating_sub(max))..]
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
