//! Limits on where a match may be: not inside text that another edit of the call replaces, and for a hunk
//! only where the patch says.
//!
//! Pure. A scope only removes candidates and never adds one. If several remain, the edit is ambiguous.

use std::ops::Range;

/// Restrictions on the places of one edit. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// The match must begin and end at line borders.
    pub whole_lines: bool,
    /// The match may not begin before this offset.
    pub after: usize,
    /// The match may not end before this offset. It is the second byte of the line that a patch names, so the match
    /// reaches that line or is below it.
    pub reaches: usize,
    /// Starts of the lines that a patch names. Of several matches, only the first one at or after each of these offsets
    /// is kept. If more than one remains, the edit is ambiguous.
    pub anchors: Vec<usize>,
    /// Of several matches, the one that begins on this line (from 1) is taken, unless it is above all anchors.
    pub line: Option<usize>,
    /// If true, of several matches the one at the end of the text is taken.
    pub at_end: bool,
}

/// A text, and the restrictions on matches in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchScope<'a> {
    pub text: &'a str,
    /// Ranges that other edits of the call replace.
    pub taken: &'a [Range<usize>],
    pub scope: &'a Scope,
}

impl SearchScope<'_> {
    pub(crate) fn is_free(&self, range: &Range<usize>) -> bool {
        // An empty range is a position between two characters. A range that contains the position overlaps
        // it.
        self.taken.iter().all(|taken| range.end <= taken.start || taken.end <= range.start)
    }

    /// Returns the candidates that satisfy the restrictions.
    pub(crate) fn narrow(&self, mut hits: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let scope = self.scope;
        hits.retain(|hit| hit.start >= scope.after && hit.end >= scope.reaches && self.is_free(hit));
        if scope.whole_lines {
            hits.retain(|hit| self.begins_line(hit.start) && self.ends_line(hit));
        }
        if hits.len() > 1 && scope.at_end {
            let body = self.text.trim_end_matches('\n').len();
            if let Some(last) = hits.iter().find(|hit| hit.end >= body).cloned() {
                return vec![last];
            }
        }
        if hits.len() > 1
            && let Some(line) = scope.line
        {
            let below = |hit: &Range<usize>| scope.anchors.iter().min().is_none_or(|at| hit.start >= *at);
            let on = |hit: &Range<usize>| line_of(self.text, hit.start) == line;
            if let Some(hit) = hits.iter().find(|hit| on(hit) && below(hit)).cloned() {
                return vec![hit];
            }
        }
        if hits.len() > 1 && !scope.anchors.is_empty() {
            let mut near: Vec<Range<usize>> = scope
                .anchors
                .iter()
                .filter_map(|at| {
                    hits.iter().filter(|hit| hit.start >= *at).min_by_key(|hit| hit.start).cloned()
                })
                .collect();
            near.sort_by_key(|hit| hit.start);
            near.dedup();
            if !near.is_empty() {
                hits = near;
            }
        }
        hits
    }

    fn begins_line(&self, at: usize) -> bool {
        at == 0 || self.text.as_bytes()[at - 1] == b'\n'
    }

    fn ends_line(&self, hit: &Range<usize>) -> bool {
        hit.end == self.text.len()
            || self.text.as_bytes()[hit.end] == b'\n'
            || (hit.end > hit.start && self.text.as_bytes()[hit.end - 1] == b'\n')
    }
}

/// Returns the line (from 1) of an offset.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_table() {
        let text = "a\nb\na\nb\na\n";
        let all: Vec<Range<usize>> = vec![0..1, 4..5, 8..9];
        let none = Scope::default();
        for (scope, taken, want) in [
            (none.clone(), vec![], vec![0, 4, 8]),
            (none.clone(), vec![3..6, 20..20], vec![0, 8]),
            (Scope { reaches: 4, ..none.clone() }, vec![], vec![4, 8]),
            (none.clone(), vec![4..4, 20..20], vec![0, 4, 8]),
            (Scope { after: 1, ..none.clone() }, vec![], vec![4, 8]),
            (Scope { anchors: vec![2], ..none.clone() }, vec![], vec![4]),
            (Scope { anchors: vec![2, 6], ..none.clone() }, vec![], vec![4, 8]),
            (Scope { anchors: vec![2, 6], line: Some(5), ..none.clone() }, vec![], vec![8]),
            (Scope { at_end: true, ..none.clone() }, vec![], vec![8]),
            (Scope { line: Some(9), ..none }, vec![], vec![0, 4, 8]),
        ] {
            let search_scope = SearchScope { text, taken: &taken, scope: &scope };
            let got: Vec<usize> = search_scope.narrow(all.clone()).into_iter().map(|hit| hit.start).collect();
            assert_eq!(got, want, "{scope:?} {taken:?}");
        }
        let scope = Scope { whole_lines: true, ..Scope::default() };
        let search_scope = SearchScope { text: "xa\na\nab", taken: &[], scope: &scope };
        assert_eq!(search_scope.narrow(vec![1..2, 1..3, 3..4, 3..5, 5..6]), [3..4, 3..5]);
    }
}
