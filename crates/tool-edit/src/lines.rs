//! Owns a text as lines, and the search for runs of lines in it.
//!
//! Pure. The caller chooses the form in which two lines are compared.

use crate::scope::SearchScope;
use std::borrow::Cow;
use std::ops::Range;

/// A text, split into lines.
pub(crate) struct Lines<'a> {
    pub text: &'a str,
    pub search_scope: SearchScope<'a>,
    /// Lines without their newlines.
    pub all: Vec<&'a str>,
    /// Byte offset in `text` of each line.
    pub starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(search_scope: SearchScope<'a>) -> Self {
        let text = search_scope.text;
        let lines: Vec<&str> = text.split('\n').collect();
        let mut starts = Vec::with_capacity(lines.len());
        let mut at = 0;
        for line in &lines {
            starts.push(at);
            at += line.len() + 1;
        }
        Self { text, search_scope, all: lines, starts }
    }

    /// Returns the byte range from the start of the first to the end of the last line, without its newline.
    pub(crate) fn range(&self, lines: Range<usize>) -> Range<usize> {
        let last = lines.end - 1;
        self.starts[lines.start]..self.starts[last] + self.all[last].len()
    }

    /// Returns runs of lines that equal `wanted` after both were converted by `key`.
    pub(crate) fn find(&self, wanted: &[&str], key: fn(&str) -> Cow<'_, str>) -> Vec<Range<usize>> {
        let wanted: Vec<Cow<'_, str>> = wanted.iter().map(|line| key(line)).collect();
        let (n, total) = (wanted.len(), self.all.len());
        (0..(total + 1).saturating_sub(n))
            .filter(|i| (0..n).all(|k| key(self.all[i + k]) == wanted[k]))
            .map(|i| i..i + n)
            .collect()
    }
}

impl Lines<'_> {
    /// Returns the runs of lines in `hits` that the search scope allows.
    pub(crate) fn free(&self, hits: Vec<Range<usize>>) -> Vec<Range<usize>> {
        if hits.is_empty() {
            return hits;
        }
        let left = self.search_scope.narrow(hits.iter().map(|hit| self.range(hit.clone())).collect());
        hits.into_iter().filter(|hit| left.contains(&self.range(hit.clone()))).collect()
    }
}

pub(crate) fn trim(line: &str) -> Cow<'_, str> {
    Cow::Borrowed(line.trim())
}

/// Removes all white space.
pub(crate) fn squeeze(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}
