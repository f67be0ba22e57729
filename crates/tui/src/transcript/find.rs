//! Search in the transcript: where the words stand, one hit after the other, what is closed opened.
//!
//! Searches what blocks say, not how they are laid out: a hit is found across wraps and in closed calls. Hidden messages are
//! searched only while they are revealed. What is not in memory is searched by the host when the search comes to that place.

use super::Transcript;
use super::gap::Gap;
use super::window::Place;
use crate::input::Want;
use crate::theme::Theme;
use becket_types::{Event, Seq};
use regex::{Regex, RegexBuilder};

#[derive(Debug, Default)]
pub(super) struct Find {
    /// The words as they are looked for.
    pub(super) pattern: Option<Regex>,
    words: String,
    waits: Option<Wait>,
    /// Stretches that are not here and do not say them.
    without: Vec<(Seq, Seq)>,
    hits: Vec<Hit>,
    /// The current one of them.
    at: Option<usize>,
    /// Where it was shown.
    pub(super) place: Option<Place>,
}

/// A gap that is looked through, or that something else is read of first.
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
    /// Whether the words may be said there: it was not looked through, and can be.
    fn may_be_in(&self, gap: &Gap) -> bool {
        let within = |(from, to): &(Seq, Seq)| *from <= gap.from && gap.to <= *to;
        gap.is_readable() && !self.without.iter().any(within)
    }

    /// Blocks have other places now.
    pub(super) fn moved(&mut self, moved: &impl Fn(usize) -> usize) {
        self.hits.iter_mut().for_each(|hit| hit.block = moved(hit.block));
        self.place = self.place.map(|place| Place { block: moved(place.block), ..place });
    }
}

impl Transcript {
    /// Looks for `words`, lower case for any case; the newest hit that is not below the view is shown.
    pub fn find(&mut self, words: &str, theme: &Theme) {
        self.find = Find { pattern: pattern(words), words: words.to_owned(), ..Find::default() };
        self.look();
        let bottom = self.seen.last().map_or(usize::MAX, |place| place.block);
        let before = self.find.hits.partition_point(|hit| hit.block <= bottom);
        self.find.at = before.checked_sub(1).or((!self.find.hits.is_empty()).then_some(0));
        self.show_hit(theme);
    }

    /// To the next hit, or to the one before; from the last to the first.
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

    /// The first gap on the way from one hit to the next that may say the words: where it is, and what is missing in it.
    fn gap_before(&self, from: Option<Hit>, to: Option<Hit>, back: bool) -> Option<(usize, Seq, Seq)> {
        self.find.pattern.as_ref()?;
        let end = self.blocks.len();
        let from = from.map_or(end, |hit| hit.block);
        let may = |(_, gap): &(usize, &Gap)| self.find.may_be_in(gap);
        let open: Vec<_> = self.gaps().filter(may).map(|(at, gap)| (at, gap.from, gap.to)).collect();
        let steps =
            |at: usize| if back { (from + end - at) % (end + 1) } else { (at + end + 1 - from) % (end + 1) };
        // The same hit again is once round.
        let far = to.map(|hit| hit.block).filter(|at| *at != from).map_or(end + 1, steps);
        open.into_iter().filter(|(at, ..)| steps(*at) < far).min_by_key(|(at, ..)| steps(*at))
    }

    /// What came of looking through a gap; `part`: what of it is here now.
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

    /// Whether the words are looked for in what is not here.
    pub fn is_finding(&self) -> bool {
        self.find.waits.is_some()
    }

    /// Which hit of how many is shown, from 1, or 0 of 0; and whether there may be more in what is not here.
    pub fn found(&self) -> (usize, usize, bool) {
        let more = self.gaps().any(|(_, gap)| self.find.may_be_in(gap));
        (self.find.at.map_or(0, |at| at + 1), self.find.hits.len(), more)
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

/// Lower case for any case.
fn pattern(words: &str) -> Option<Regex> {
    let any_case = !words.chars().any(char::is_uppercase);
    let pattern = RegexBuilder::new(&regex::escape(words)).case_insensitive(any_case).build();
    pattern.ok().filter(|_| !words.is_empty())
}

fn at_of(hits: &[Hit], hit: Option<Hit>) -> usize {
    hit.map_or(0, |hit| hits.partition_point(|other| *other < hit))
}

/// Whether people are told these words by these events.
pub fn says(events: &[Event], words: &str) -> bool {
    let Some(pattern) = pattern(words) else { return false };
    let mut transcript = Transcript::new();
    for event in events {
        transcript.event(event);
    }
    transcript.blocks.iter().any(|block| block.is_told(false) && pattern.is_match(&block.source()))
}

/// What the message with this number says by these events.
pub fn said_in(events: &[Event], seq: Seq) -> Option<String> {
    let mut transcript = Transcript::new();
    for event in events {
        transcript.event(event);
    }
    transcript.said_in(seq)
}
