//! Conversion between byte offsets, server positions, and lines and columns for people.
//!
//! Pure. Servers count columns in UTF-16 units, unless they have agreed to count bytes. A position after the end of a line means
//! the line's end, one after the last line means the end of the text, and one inside a character means its beginning.

use async_lsp::lsp_types::Position;

/// The unit in which a server counts columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    #[default]
    Utf16,
    Utf32,
}

impl Encoding {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "utf-8" => Some(Self::Utf8),
            "utf-16" => Some(Self::Utf16),
            "utf-32" => Some(Self::Utf32),
            _ => None,
        }
    }

    fn width(self, c: char) -> usize {
        match self {
            Self::Utf8 => c.len_utf8(),
            Self::Utf16 => c.len_utf16(),
            Self::Utf32 => 1,
        }
    }
}

/// Returns the byte offset of line `line` (from 0) and its text without the line ending.
pub(crate) fn line_at(text: &str, line: usize) -> Option<(usize, &str)> {
    let mut start = 0;
    for (number, whole) in text.split_inclusive('\n').enumerate() {
        if number == line {
            return Some((start, whole.trim_end_matches(['\n', '\r'])));
        }
        start += whole.len();
    }
    // After a final line ending, there is one more line, which is empty.
    let lines = text.split_inclusive('\n').count();
    (line == lines && (text.is_empty() || text.ends_with('\n'))).then_some((text.len(), ""))
}

/// Converts a server's position to a byte offset.
pub(crate) fn byte_of(text: &str, position: Position, encoding: Encoding) -> usize {
    let Some((start, line)) = line_at(text, position.line as usize) else { return text.len() };
    let mut units = 0;
    for (at, c) in line.char_indices() {
        units += encoding.width(c);
        if units > position.character as usize {
            return start + at;
        }
    }
    start + line.len()
}

/// Converts a byte offset (on a character border) to a server's position.
pub(crate) fn position_of(text: &str, byte: usize, encoding: Encoding) -> Position {
    let before = &text[..text.floor_char_boundary(byte)];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.bytes().filter(|b| *b == b'\n').count();
    let character: usize = before[start..].chars().map(|c| encoding.width(c)).sum();
    Position::new(line as u32, character as u32)
}

/// Returns the column for people, counted in characters from 1.
pub(crate) fn column(text: &str, position: Position, encoding: Encoding) -> usize {
    let byte = byte_of(text, position, encoding);
    let start = text[..byte].rfind('\n').map_or(0, |at| at + 1);
    text[start..byte].chars().count() + 1
}

/// Returns the byte offset of `symbol` as a whole word: on line `line` (from 1) or else on the nearest line
/// that contains it. Without a line, the first occurrence.
pub(crate) fn find_symbol(text: &str, symbol: &str, line: Option<usize>) -> Option<usize> {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let whole = |at: &usize| {
        let (before, after) = (&text[..*at], &text[at + symbol.len()..]);
        let starts = symbol.chars().next().is_some_and(word);
        let ends = symbol.chars().next_back().is_some_and(word);
        let inside_before = starts && before.chars().next_back().is_some_and(word);
        let inside_after = ends && after.chars().next().is_some_and(word);
        !inside_before && !inside_after
    };
    if symbol.is_empty() {
        return None;
    }
    let mut places = text.match_indices(symbol).map(|(at, _)| at).filter(whole);
    let Some(wanted) = line else { return places.next() };
    let mut best: Option<(usize, usize)> = None;
    let (mut number, mut counted) = (1, 0);
    for at in places {
        number += text[counted..at].bytes().filter(|b| *b == b'\n').count();
        counted = at;
        let distance = number.abs_diff(wanted);
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, at));
        }
    }
    best.map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    //! Runs 10,000 cases each (more with `PROPTEST_CASES`); they are pure and cheap.
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_are_counted_as_the_server_counts_them() {
        let text = "let s = \"🦀é\"; x\r\nnext";
        for (encoding, character, byte) in [
            (Encoding::Utf16, 9, 9),
            (Encoding::Utf16, 10, 9), // inside the crab
            (Encoding::Utf16, 11, 13),
            (Encoding::Utf16, 12, 15),
            (Encoding::Utf8, 13, 13),
            (Encoding::Utf32, 10, 13),
            (Encoding::Utf16, 999, 19),
        ] {
            assert_eq!(
                byte_of(text, Position::new(0, character), encoding),
                byte,
                "{encoding:?} {character}"
            );
        }
        assert_eq!(byte_of(text, Position::new(1, 2), Encoding::Utf16), 23);
        assert_eq!(byte_of(text, Position::new(7, 0), Encoding::Utf16), text.len());
        assert_eq!(byte_of("a\n", Position::new(1, 0), Encoding::Utf16), 2);
        assert_eq!(column(text, Position::new(0, 12), Encoding::Utf16), 12);
    }

    #[test]
    fn a_symbol_is_found_by_its_line_or_near_it() {
        let text = "foo(1)\nlet food = foo\n\nbar foo\n";
        for (symbol, line, want) in [
            ("foo", None, Some(0)),
            ("foo", Some(2), Some(18)),
            ("foo", Some(3), Some(18)),
            ("foo", Some(4), Some(27)),
            ("foo", Some(400), Some(27)),
            ("fo", None, None),
            ("", None, None),
            ("food", Some(1), Some(11)),
        ] {
            assert_eq!(find_symbol(text, symbol, line), want, "{symbol} {line:?}");
        }
    }

    fn config() -> ProptestConfig {
        let cases = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(10_000);
        ProptestConfig { cases, ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(config())]
        #[test]
        fn there_and_back(text in "[aé🦀 \n]{0,30}(\r\n[aé🦀]{0,9})?", at in any::<prop::sample::Index>(),
            encoding in prop::sample::select(vec![Encoding::Utf8, Encoding::Utf16, Encoding::Utf32]))
        {
            let byte = text.floor_char_boundary(at.index(text.len() + 1));
            prop_assume!(!(text[..byte].ends_with('\r') && text[byte..].starts_with('\n')));
            prop_assert_eq!(byte_of(&text, position_of(&text, byte, encoding), encoding), byte);
        }

        #[test]
        fn any_position_is_a_place_in_the_text(text in "[aé🦀\r\n]{0,30}", line in any::<u32>(), character in any::<u32>(),
            small in any::<bool>())
        {
            let position = if small { Position::new(line % 8, character % 12) } else { Position::new(line, character) };
            for encoding in [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32] {
                prop_assert!(text.is_char_boundary(byte_of(&text, position, encoding)));
                prop_assert!(column(&text, position, encoding) >= 1);
            }
        }
    }
}
