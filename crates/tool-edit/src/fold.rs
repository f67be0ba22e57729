//! Text folded to a plainer form, with the way back: what the white-space and the Unicode tier search in.
//!
//! Pure. A [`Folded`] text knows for each of its bytes where in the original the character it comes from begins and ends.

use std::ops::Range;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, is_combining_mark};

/// A text in a plainer form.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    pub text: String,
    /// For each byte of `text`: the range of the original that its character stands for.
    from: Vec<(usize, usize)>,
}

impl Folded {
    fn push(&mut self, plain: &str, from: Range<usize>) {
        self.text.push_str(plain);
        self.from.extend(std::iter::repeat_n((from.start, from.end), plain.len()));
    }

    /// Where the original has what stands at `range` here. `None` when the border runs through one original character.
    pub(crate) fn back(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let (first, last) = (self.from.get(range.start)?, self.from.get(range.end.checked_sub(1)?)?);
        let splits = |inside: Option<&(usize, usize)>, outside: Option<&(usize, usize)>| matches!((inside, outside), (Some(a), Some(b)) if a == b);
        let before = range.start.checked_sub(1).and_then(|i| self.from.get(i));
        let whole = !splits(Some(first), before) && !splits(Some(last), self.from.get(range.end));
        whole.then_some(first.0..last.1)
    }

    /// All places of `needle` (folded the same way), overlapping ones too, as ranges of the original.
    pub(crate) fn find(&self, needle: &str) -> Vec<Range<usize>> {
        places(&self.text, needle).into_iter().filter_map(|range| self.back(&range)).collect()
    }
}

/// All places of `needle`, overlapping ones too.
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

/// Every run of white space is one space.
pub(crate) fn spaces(text: &str) -> Folded {
    let mut out = Folded::default();
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

/// Quotes, dashes and spaces in their ASCII form, invisible characters away, the rest in NFC.
pub(crate) fn unicode(text: &str) -> Folded {
    let mut out = Folded::default();
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

/// Without white space, the rest as [`unicode`] has it.
pub(crate) fn solid(text: &str) -> Folded {
    let all = unicode(text);
    let mut out = Folded::default();
    for (at, c) in all.text.char_indices().filter(|(_, c)| !c.is_whitespace()) {
        out.text.push(c);
        out.from.extend_from_slice(&all.from[at..at + c.len_utf8()]);
    }
    out
}

/// A line by what it says: Unicode forms folded, white space only where it keeps two words apart.
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

/// A character that is part of the one before it, or that nobody sees.
pub(crate) fn joins(c: char) -> bool {
    is_combining_mark(c) || canonical_combining_class(c) != 0 || is_jamo(c) || plain(c) == Some("")
}

/// Vowels and finals of Hangul that join the consonant before them.
fn is_jamo(c: char) -> bool {
    matches!(c, '\u{1160}'..='\u{11FF}')
}

/// `new` spelled as the file is: a quote, dash or space that `old` has in another form than the file goes the same way.
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

/// The form that models tend to write instead.
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
            for fold in [spaces as fn(&str) -> Folded, unicode] {
                let folded = fold(&text);
                prop_assert_eq!(&fold(&folded.text).text, &folded.text);
                if !folded.text.is_empty() {
                    let whole = folded.find(&folded.text);
                    prop_assert_eq!(whole.len(), 1);
                    prop_assert_eq!(&fold(&text[whole[0].clone()]).text, &folded.text);
                }
            }
        }
    }
}
