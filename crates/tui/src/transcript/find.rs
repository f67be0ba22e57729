//! Search in the transcript: where the words stand, one hit after the other, what is closed opened.
//!
//! Searches what blocks say, not how they are laid out: a hit is found across wraps and in closed calls. Hidden messages are
//! searched only while they are revealed.

use super::Transcript;
use super::window::Place;
use crate::theme::Theme;
use regex::{Regex, RegexBuilder};

#[derive(Debug, Default)]
pub(super) struct Find {
    /// The words as they are looked for.
    pub(super) pattern: Option<Regex>,
    hits: Vec<Hit>,
    /// The current one of them.
    at: Option<usize>,
    /// Where it was shown.
    pub(super) place: Option<Place>,
}

/// The `nth` match in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hit {
    block: usize,
    nth: usize,
}

impl Find {
    /// The same search, with so many blocks more above.
    pub(super) fn moved(&self, more: usize) -> Self {
        let hits = self.hits.iter().map(|hit| Hit { block: hit.block + more, ..*hit }).collect();
        let place = self.place.map(|place| Place { block: place.block + more, ..place });
        Self { pattern: self.pattern.clone(), hits, at: self.at, place }
    }
}

impl Transcript {
    /// Looks for `words`, lower case for any case; the newest hit that is not below the view is shown.
    pub fn find(&mut self, words: &str, theme: &Theme) {
        let any_case = !words.chars().any(char::is_uppercase);
        let pattern = RegexBuilder::new(&regex::escape(words)).case_insensitive(any_case).build();
        self.find = Find { pattern: pattern.ok().filter(|_| !words.is_empty()), ..Find::default() };
        self.look();
        let bottom = self.seen.last().map_or(usize::MAX, |place| place.block);
        let before = self.find.hits.partition_point(|hit| hit.block <= bottom);
        self.find.at = before.checked_sub(1).or((!self.find.hits.is_empty()).then_some(0));
        self.show_hit(theme);
    }

    /// To the next hit, or to the one before; from the last to the first.
    pub fn find_next(&mut self, back: bool, theme: &Theme) {
        let current = self.find.at.and_then(|at| self.find.hits.get(at).copied());
        self.look();
        let count = self.find.hits.len();
        if count == 0 {
            self.find.at = None;
            return;
        }
        let at = current.map_or(0, |hit| self.find.hits.partition_point(|other| *other < hit));
        let moved = match (back, current) {
            (_, None) => count - 1,
            (true, _) => (at + count - 1) % count,
            (false, _) => (at + 1) % count,
        };
        self.find.at = Some(moved);
        self.show_hit(theme);
    }

    /// Which hit of how many is shown: from 1, or 0 of 0.
    pub fn found(&self) -> (usize, usize) {
        (self.find.at.map_or(0, |at| at + 1), self.find.hits.len())
    }

    pub fn end_find(&mut self) {
        self.find = Find::default();
    }

    fn look(&mut self) {
        self.find.hits.clear();
        let Some(pattern) = &self.find.pattern else { return };
        for (block, body) in self.blocks.iter().enumerate() {
            if body.is_told(self.revealed) {
                let count = pattern.find_iter(&body.source()).count();
                self.find.hits.extend((0..count).map(|nth| Hit { block, nth }));
            }
        }
    }

    fn show_hit(&mut self, theme: &Theme) {
        let Some(hit) = self.find.at.and_then(|at| self.find.hits.get(at).copied()) else { return };
        let Some(pattern) = self.find.pattern.clone() else { return };
        self.unfold(hit.block);
        let width = self.window.width();
        let mut row = self.matching_row(hit, &pattern, width, theme);
        if row.is_none() && self.blocks[hit.block].open() == Some(false) {
            self.set_open(hit.block, true);
            row = self.matching_row(hit, &pattern, width, theme);
        }
        let place = Place { block: hit.block, row: row.unwrap_or(0) };
        self.find.place = Some(place);
        self.window.show(&mut self.blocks, place, theme, self.revealed);
    }

    /// The row in which the hit stands; the last one with a hit where markup or wraps hide which.
    fn matching_row(&mut self, hit: Hit, pattern: &Regex, width: u16, theme: &Theme) -> Option<usize> {
        let block = &mut self.blocks[hit.block];
        let rows = block.lay_out(width, theme);
        let (mut seen, mut last) = (0, None);
        for row in 0..rows {
            let count = pattern.find_iter(&block.text(row).1).count();
            if count > 0 {
                last = Some(row);
                seen += count;
            }
            if seen > hit.nth {
                return last;
            }
        }
        last
    }
}
