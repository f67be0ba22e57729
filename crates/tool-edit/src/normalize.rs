//! Text normalised to a plainer form, with a mapping back. The white-space and Unicode tiers search in it.
//!
//! Pure. For each of its bytes, a [`Normalized`] text knows the start and end of the original character.

use std::ops::Range;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, is_combining_mark};

/// A normalised text.
#[derive(Debug, Default)]
pub(crate) struct Normalized {
    pub text: String,
    /// For each byte of `text`, the range of the original character.
    from: Vec<(usize, usize)>,
}

impl Normalized {
    fn push(&mut self, plain: &str, from: Range<usize>) {
        self.text.push_str(plain);
        self.from.extend(std::iter::repeat_n((from.start, from.end), plain.len()));
    }

    /// Maps a range back to the original. `None` if its border is inside one original character.
    pub(crate) fn back(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let (first, last) = (self.from.get(range.start)?, self.from.get(range.end.checked_sub(1)?)?);
        let splits = |inside: Option<&(usize, usize)>, outside: Option<&(usize, usize)>| matches!((inside, outside), (Some(a), Some(b)) if a == b);
        let before = range.start.checked_sub(1).and_then(|i| self.from.get(i));
        let whole = !splits(Some(first), before) && !splits(Some(last), self.from.get(range.end));
        whole.then_some(first.0..last.1)
    }

    /// Returns all occurrences of `needle` (normalised in the same way), including overlapping ones, as
    /// ranges of the original.
    pub(crate) fn find(&self, needle: &str) -> Vec<Range<usize>> {
        places(&self.text, needle).into_iter().filter_map(|range| self.back(&range)).collect()
    }
}

/// Returns all occurrences of `needle`, including overlapping ones.
pub(crate) fn places(text: &str, needle: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let Some(step) = needle.chars().next().map(char::len_utf8) else {
        return out;
    };
    let mut at = 0;
    while let Some(found) = text[at..].find(needle) {
        let start = at + found;
        out.push(start..start + needle.len());
        at = start + step;
    }
    out
}

/// Replaces every run of white space by one space.
pub(crate) fn spaces(text: &str) -> Normalized {
    let mut out = Normalized::default();
    let mut run: Option<Range<usize>> = None;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        if c.is_whitespace() {
            run = Some(run.map_or(at, |r| r.start)..end);
            continue;
        }
        if let Some(run) = run.take() {
            out.push(" ", run);
        }
        out.push(&text[at..end], at..end);
    }
    if let Some(run) = run {
        out.push(" ", run);
    }
    out
}

/// Replaces quotes, dashes and spaces by their ASCII form, removes invisible characters, and converts the
/// rest to NFC.
pub(crate) fn unicode(text: &str) -> Normalized {
    let mut out = Normalized::default();
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        let mut end = start + c.len_utf8();
        while let Some((at, mark)) = chars.peek().copied() {
            if !(is_combining_mark(mark) || canonical_combining_class(mark) != 0 || is_jamo(mark)) {
                break;
            }
            end = at + mark.len_utf8();
            chars.next();
        }
        let cluster = &text[start..end];
        if end - start == c.len_utf8() {
            match plain(c) {
                Some(plain) => out.push(plain, start..end),
                None if c.is_ascii() => out.push(cluster, start..end),
                None => out.push(&cluster.nfc().collect::<String>(), start..end),
            }
        } else {
            out.push(&cluster.nfc().collect::<String>(), start..end);
        }
    }
    out
}

/// Normalises like [`unicode`] and removes all white space.
pub(crate) fn solid(text: &str) -> Normalized {
    let all = unicode(text);
    let mut out = Normalized::default();
    for (at, c) in all.text.char_indices().filter(|(_, c)| !c.is_whitespace()) {
        out.text.push(c);
        out.from.extend_from_slice(&all.from[at..at + c.len_utf8()]);
    }
    out
}

/// Normalises a line for comparison: Unicode forms are normalised, and white space is kept only between
/// words.
pub(crate) fn normal(line: &str) -> String {
    let plain = unicode(line).text;
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(plain.len());
    let mut space = false;
    for c in plain.chars() {
        if c.is_whitespace() {
            space = true;
            continue;
        }
        if space && word(c) && out.ends_with(word) {
            out.push(' ');
        }
        space = false;
        out.push(c);
    }
    out
}

/// True for a character that combines with the previous one or is invisible.
pub(crate) fn joins(c: char) -> bool {
    is_combining_mark(c) || canonical_combining_class(c) != 0 || is_jamo(c) || plain(c) == Some("")
}

/// Hangul vowels and finals, which join the preceding consonant.
fn is_jamo(c: char) -> bool {
    matches!(c, '\u{1160}'..='\u{11FF}')
}

/// Converts `new` to the file's spelling: a typographic quote, dash or space that `old` has and `region`, the matched
/// text of the file, has not, becomes ASCII.
pub(crate) fn spelled<'a>(new: &'a str, old: &str, region: &str) -> std::borrow::Cow<'a, str> {
    let foreign = |c: char| !c.is_ascii() && plain(c).is_some() && old.contains(c) && !region.contains(c);
    if !new.contains(foreign) {
        return std::borrow::Cow::Borrowed(new);
    }
    let mut out = String::with_capacity(new.len());
    for c in new.chars() {
        match plain(c).filter(|_| foreign(c)) {
            Some(plain) => out.push_str(plain),
            None => out.push(c),
        }
    }
    std::borrow::Cow::Owned(out)
}

/// Returns the ASCII form that models tend to write instead of this character; empty for an invisible character.
fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2018}' | '\u{2019}' | '\u{201A}' | '\u{201B}' | '\u{2032}' | '\u{FF07}' => "'",
        '\u{201C}' | '\u{201D}' | '\u{201E}' | '\u{201F}' | '\u{2033}' | '\u{FF02}' => "\"",
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}' => "-",
        '\u{00A0}' | '\u{1680}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => " ",
        '\u{2026}' => "...",
        '\u{200B}' | '\u{2060}' | '\u{FEFF}' | '\u{00AD}' => "",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn folding_table() {
        for (text, want) in [
            ("“a” – b\u{a0}c…", "\"a\" - b c..."),
            ("e\u{301}te\u{301}", "été"),
            ("a\u{200b}b", "ab"),
            ("\u{1112}\u{1161}\u{11ab}", "한"),
        ] {
            assert_eq!(unicode(text).text, want);
        }
        assert_eq!(spaces(" a \n\t b").text, " a b");
    }

    #[test]
    fn spelling_follows_the_file() {
        for (new, old, region, want) in [
            ("”a” – c", "”a”", "\"a\"", "\"a\" – c"),
            ("x\u{a0}y", "x\u{a0}z", "x z", "x y"),
            ("“a”", "“b”", "“b”", "“a”"),
            ("“a”", "b", "b", "“a”"),
        ] {
            assert_eq!(spelled(new, old, region), want);
        }
    }

    #[test]
    fn the_way_back_never_splits_a_character() {
        let text = "x…y";
        assert_eq!(unicode(text).find("..."), [Range { start: 1, end: 4 }]);
        assert_eq!(unicode(text).find(".."), []);
        assert_eq!(unicode("cafe\u{301}!").find("é"), [Range { start: 3, end: 6 }]);
        assert_eq!(unicode("cafe\u{301}!").find("cafe"), []);
        assert_eq!(spaces("a  b").find("a b"), [Range { start: 0, end: 4 }]);
        assert_eq!(places("aaa", "aa"), [0..2, 1..3]);
    }

    proptest! {
        #[test]
        fn folding_is_stable_and_maps_back(text in "[ab “”–\u{a0}\n\t…e\u{301}]{0,24}") {
            for normalize in [spaces as fn(&str) -> Normalized, unicode] {
                let folded = normalize(&text);
                prop_assert_eq!(&normalize(&folded.text).text, &folded.text);
                if !folded.text.is_empty() {
                    let whole = folded.find(&folded.text);
                    prop_assert_eq!(whole.len(), 1);
                    prop_assert_eq!(&normalize(&text[whole[0].clone()]).text, &folded.text);
                }
            }
        }
    }
}
