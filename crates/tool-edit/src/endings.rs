//! Line endings: the text of a file with LF only, and the conversion back.
//!
//! Matching knows only `\n`. [`Source`] remembers which newlines are `\r\n` in the file (or `\r`, in a file without any
//! `\n`). So ranges can be mapped back, and each line of a replacement gets the ending of the line that it replaces. A
//! `\r` elsewhere is an ordinary character, except in [`Source::breaking_at_cr`].

use std::borrow::Cow;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Lf,
    CrLf,
    Cr,
}

impl Ending {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }
}

/// Text with `\n` for every line ending.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub text: Cow<'a, str>,
    /// Offsets in `text` of the newlines that are CRLF in the file, ascending.
    crlf: Vec<usize>,
    /// Offsets in `text` of the newlines that are a lone CR in the file, ascending.
    cr: Vec<usize>,
    /// True if the file has CR and no LF, so every newline of `text` is a CR in the file.
    cr_only: bool,
}

impl<'a> Source<'a> {
    pub(crate) fn new(raw: &'a str) -> Self {
        if !raw.contains('\r') {
            return Self { text: Cow::Borrowed(raw), crlf: Vec::new(), cr: Vec::new(), cr_only: false };
        }
        if !raw.contains('\n') {
            return Self {
                text: Cow::Owned(raw.replace('\r', "\n")),
                crlf: Vec::new(),
                cr: Vec::new(),
                cr_only: true,
            };
        }
        let mut text = String::with_capacity(raw.len());
        let mut crlf = Vec::new();
        for (i, part) in raw.split("\r\n").enumerate() {
            if i > 0 {
                crlf.push(text.len());
                text.push('\n');
            }
            text.push_str(part);
        }
        Self { text: Cow::Owned(text), crlf, cr: Vec::new(), cr_only: false }
    }

    /// Returns the text with a newline in place of every lone CR; `None` if there is no lone CR. Listings show a lone
    /// CR as a line break too. Offsets are unchanged.
    pub(crate) fn breaking_at_cr(&self) -> Option<Source<'static>> {
        let cr: Vec<usize> = memchr::memchr_iter(b'\r', self.text.as_bytes()).collect();
        let text = Cow::Owned(self.text.replace('\r', "\n"));
        (!cr.is_empty()).then(|| Source { text, crlf: self.crlf.clone(), cr, cr_only: false })
    }

    /// Maps a range of `text` to a range of the file's own text.
    pub(crate) fn raw(&self, range: &Range<usize>) -> Range<usize> {
        let shift = |at: usize| at + self.crlf.partition_point(|p| *p < at);
        shift(range.start)..shift(range.end)
    }

    /// True if every newline of the file is LF, so nothing needs to be converted back.
    pub(crate) fn is_lf(&self) -> bool {
        self.crlf.is_empty() && self.cr.is_empty() && !self.cr_only
    }

    /// Returns the ending of the newline at offset `at` of `text`.
    fn ending_at(&self, at: usize) -> Ending {
        if self.cr_only || self.cr.binary_search(&at).is_ok() {
            Ending::Cr
        } else if self.crlf.binary_search(&at).is_ok() {
            Ending::CrLf
        } else {
            Ending::Lf
        }
    }

    /// Returns the endings of the newlines within `range`, in order.
    pub(crate) fn endings(&self, range: &Range<usize>) -> Vec<Ending> {
        self.text[range.clone()].match_indices('\n').map(|(i, _)| self.ending_at(range.start + i)).collect()
    }

    /// Returns the ending for a new line at `at`: that of its own line, else of the line before, else LF.
    pub(crate) fn near(&self, at: usize) -> Ending {
        let after = self.text[at..].find('\n').map(|i| at + i);
        let before = || self.text[..at].rfind('\n');
        after.or_else(before).map_or(Ending::Lf, |i| self.ending_at(i))
    }

    /// Returns the ending that all lines share; `None` if they differ or if there is none.
    pub(crate) fn uniform(&self) -> Option<Ending> {
        let newlines = self.text.bytes().filter(|b| *b == b'\n').count();
        match (newlines, self.crlf.len()) {
            (0, _) => None,
            _ if self.cr_only => Some(Ending::Cr),
            (_, 0) => Some(Ending::Lf),
            (n, m) if n == m => Some(Ending::CrLf),
            _ => None,
        }
    }
}

/// Converts the model's text to LF.
pub(crate) fn lf(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mapping_table() {
        let source = Source::new("a\r\nb\nc\rd\r\n");
        assert_eq!(source.text, "a\nb\nc\rd\n");
        assert_eq!(source.raw(&(0..2)), 0..3);
        assert_eq!(source.raw(&(1..1)), 1..1);
        assert_eq!(source.raw(&(2..8)), 3..10);
        assert_eq!(source.endings(&(0..8)), [Ending::CrLf, Ending::Lf, Ending::CrLf]);
        assert_eq!(source.near(2), Ending::Lf);
        assert_eq!(source.near(5), Ending::CrLf);
        assert_eq!(Source::new("a\rb\r").endings(&(0..4)), [Ending::Cr, Ending::Cr]);
        assert_eq!(Source::new("x").near(1), Ending::Lf);
    }

    proptest! {
        #[test]
        fn a_range_maps_to_the_same_text(raw in "[ab\r\n]{0,20}", from in 0usize..20, to in 0usize..20) {
            let source = Source::new(&raw);
            let to = to.min(source.text.len());
            let range = from.min(to)..to;
            let back = source.raw(&range);
            let folded = if source.cr_only { raw[back.clone()].replace('\r', "\n") } else { raw[back.clone()].replace("\r\n", "\n") };
            prop_assert_eq!(folded, &source.text[range]);
        }
    }
}
