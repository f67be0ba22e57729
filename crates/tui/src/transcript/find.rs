//! Search in the transcript: finds all matches, moves between them, and opens closed blocks that contain them.
//!
//! Searches the content of blocks, not their layout, so a match is found across line wraps and in closed calls. Hidden
//! messages are searched only while they are revealed. The host searches the entries that are not in memory, when the
//! search reaches them.

use super::Transcript;
use super::gap::Gap;
use super::window::Place;
use crate::input::Want;
use crate::theme::Theme;
use becket_types::{Event, Seq};
use regex::{Regex, RegexBuilder};

#[derive(Debug, Default)]
pub(super) struct Find {
    /// The words as a regular expression.
    pub(super) pattern: Option<Regex>,
    words: String,
    waits: Option<Wait>,
    /// Ranges of entries that are not in memory and do not contain the words.
    without: Vec<(Seq, Seq)>,
    hits: Vec<Hit>,
    /// Index of the current hit.
    at: Option<usize>,
    /// Row in which the current hit was shown.
    pub(super) place: Option<Place>,
}

/// A gap that the host searches (`looked`), or of which another part must arrive first.
#[derive(Clone, Copy, Debug)]
struct Wait {
    from: Seq,
    to: Seq,
    back: bool,
    looked: bool,
}

/// The `nth` match in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hit {
    block: usize,
    nth: usize,
}

impl Find {
    /// True if the gap may contain the words: it can be read, and was not searched yet.
    fn may_be_in(&self, gap: &Gap) -> bool {
        let within = |(from, to): &(Seq, Seq)| *from <= gap.from && gap.to <= *to;
        gap.is_readable() && !self.without.iter().any(within)
    }

    /// Updates the places of blocks after blocks were inserted or removed.
    pub(super) fn moved(&mut self, moved: &impl Fn(usize) -> usize) {
        self.hits.iter_mut().for_each(|hit| hit.block = moved(hit.block));
        self.place = self.place.map(|place| Place { block: moved(place.block), ..place });
    }
}

impl Transcript {
    /// Searches for `words`; all in lower case means any case. Shows the newest hit that is not below the view.
    pub fn find(&mut self, words: &str, theme: &Theme) {
        self.find = Find { pattern: pattern(words), words: words.to_owned(), ..Find::default() };
        self.look();
        let bottom = self.seen.last().map_or(usize::MAX, |place| place.block);
        let before = self.find.hits.partition_point(|hit| hit.block <= bottom);
        self.find.at = before.checked_sub(1).or((!self.find.hits.is_empty()).then_some(0));
        self.show_hit(theme);
    }

    /// Moves to the next or the previous hit, and wraps around at the ends.
    pub fn find_next(&mut self, back: bool, theme: &Theme) {
        if self.find.waits.is_some() {
            return;
        }
        let current = self.find.at.and_then(|at| self.find.hits.get(at).copied());
        self.look();
        let count = self.find.hits.len();
        let at = current.map_or(0, |hit| self.find.hits.partition_point(|other| *other < hit));
        let moved = match (back, current) {
            _ if count == 0 => None,
            (_, None) => Some(count - 1),
            (true, _) => Some((at + count - 1) % count),
            (false, _) => Some((at + 1) % count),
        };
        let next = moved.map(|at| self.find.hits[at]);
        if let Some((at, from, to)) = self.gap_before(current, next, back) {
            self.find.at = current.map(|_| at_of(&self.find.hits, current));
            let looked = self.want_gap(at, Want::Saying { words: self.find.words.clone(), back });
            self.find.waits = Some(Wait { from, to, back, looked });
            return;
        }
        self.find.at = moved;
        if moved.is_some() {
            self.show_hit(theme);
        }
    }

    /// Returns the first gap between two hits that may contain the words: its block and its range of entries.
    fn gap_before(&self, from: Option<Hit>, to: Option<Hit>, back: bool) -> Option<(usize, Seq, Seq)> {
        self.find.pattern.as_ref()?;
        let end = self.blocks.len();
        let from = from.map_or(end, |hit| hit.block);
        let may = |(_, gap): &(usize, &Gap)| self.find.may_be_in(gap);
        let open: Vec<_> = self.gaps().filter(may).map(|(at, gap)| (at, gap.from, gap.to)).collect();
        let steps =
            |at: usize| if back { (from + end - at) % (end + 1) } else { (at + end + 1 - from) % (end + 1) };
        // The same hit again means a whole round.
        let far = to.map(|hit| hit.block).filter(|at| *at != from).map_or(end + 1, steps);
        open.into_iter().filter(|(at, ..)| steps(*at) < far).min_by_key(|(at, ..)| steps(*at))
    }

    /// Handles the result of a search in a gap. `part`: the range of entries that has arrived; `None` if the gap does
    /// not contain the words.
    pub fn found_past(&mut self, from: Seq, to: Seq, part: Option<(Seq, Seq)>, theme: &Theme) {
        if self.find.waits.is_none_or(|wait| (wait.from, wait.to) != (from, to)) {
            if part.is_some() && self.find.pattern.is_some() {
                let current = self.find.at.and_then(|at| self.find.hits.get(at).copied());
                self.look();
                self.find.at = current.map(|_| at_of(&self.find.hits, current));
            }
            return;
        }
        let Some(Wait { back, looked, .. }) = self.find.waits.take() else { return };
        if looked {
            self.find.without.push(match part {
                None => (from, to),
                Some((_, end)) if back => (end, to),
                Some((start, _)) => (from, start),
            });
        }
        self.find_next(back, theme);
    }

    /// True while the host searches entries that are not in memory.
    pub fn is_finding(&self) -> bool {
        self.find.waits.is_some()
    }

    /// Returns the number of the current hit, counted from 1, or 0 if there is none, and the count of hits. The third
    /// value is true if entries that are not in memory may contain more.
    pub fn found(&self) -> (usize, usize, bool) {
        let more = self.gaps().any(|(_, gap)| self.find.may_be_in(gap));
        (self.find.at.map_or(0, |at| at + 1), self.find.hits.len(), more)
    }

    /// Ends the search.
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

    /// Returns the row of a hit. If markup or wrapping hides which row that is, returns the last row with a match.
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

/// Compiles the words; all in lower case means any case.
fn pattern(words: &str) -> Option<Regex> {
    let any_case = !words.chars().any(char::is_uppercase);
    let pattern = RegexBuilder::new(&regex::escape(words)).case_insensitive(any_case).build();
    pattern.ok().filter(|_| !words.is_empty())
}

fn at_of(hits: &[Hit], hit: Option<Hit>) -> usize {
    hit.map_or(0, |hit| hits.partition_point(|other| *other < hit))
}

/// True if the blocks of these events show the user these words.
pub fn says(events: &[Event], words: &str) -> bool {
    let Some(pattern) = pattern(words) else { return false };
    let mut transcript = Transcript::new();
    for event in events {
        transcript.event(event);
    }
    transcript.blocks.iter().any(|block| block.is_told(false) && pattern.is_match(&block.source()))
}

/// Returns the text of the message with this number, as these events show it.
pub fn said_in(events: &[Event], seq: Seq) -> Option<String> {
    let mut transcript = Transcript::new();
    for event in events {
        transcript.event(event);
    }
    transcript.said_in(seq)
}
