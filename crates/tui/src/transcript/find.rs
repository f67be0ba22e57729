//! Search in the transcript: finds all matches, moves between them, and opens closed blocks that contain them.
//!
//! Searches the content of blocks, not their layout, so a match is found across line wraps and in closed calls. Hidden
//! messages are searched only while they are revealed. The host searches the entries that are not in memory, when the
//! search reaches them.

use super::block::Block;
use super::blocks::Blocks;
use super::gap::Gap;
use super::window::{RowPosition, Window};
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
    pub(super) place: Option<RowPosition>,
}

/// A gap that the host searches (`looked`), or a gap whose next part must arrive first.
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

    /// Updates the positions of blocks after blocks were inserted or removed.
    pub(super) fn moved(&mut self, moved: &impl Fn(usize) -> usize) {
        self.hits.iter_mut().for_each(|hit| hit.block = moved(hit.block));
        self.place = self.place.map(|place| RowPosition { block: moved(place.block), ..place });
    }
}

/// Result of a move to another hit.
#[derive(Debug)]
pub(super) enum Move {
    /// An earlier move still waits for the host's answer about a gap.
    Waiting,
    /// The gap in this block is to be searched first.
    Gap(usize, Want),
    /// The hit is chosen, if there is any.
    Done,
}

impl Find {
    /// Searches for `words`. Chooses the newest hit that is not below the block `bottom`.
    pub(super) fn new(words: &str, blocks: &Blocks, revealed: bool, bottom: usize) -> Self {
        let mut find = Self { pattern: pattern(words), words: words.to_owned(), ..Self::default() };
        find.look(blocks, revealed);
        let before = find.hits.partition_point(|hit| hit.block <= bottom);
        find.at = before.checked_sub(1).or((!find.hits.is_empty()).then_some(0));
        find
    }

    /// Moves to the next or the previous hit, and wraps around at the ends.
    pub(super) fn next(&mut self, blocks: &Blocks, revealed: bool, back: bool) -> Move {
        if self.waits.is_some() {
            return Move::Waiting;
        }
        let current = self.current();
        self.look(blocks, revealed);
        let count = self.hits.len();
        let at = current.map_or(0, |hit| self.hits.partition_point(|other| *other < hit));
        let moved = match (back, current) {
            _ if count == 0 => None,
            (_, None) => Some(count - 1),
            (true, _) => Some((at + count - 1) % count),
            (false, _) => Some((at + 1) % count),
        };
        let next = moved.map(|at| self.hits[at]);
        if let Some((at, from, to)) = self.gap_before(blocks, current, next, back) {
            self.at = current.map(|_| at_of(&self.hits, current));
            self.waits = Some(Wait { from, to, back, looked: false });
            return Move::Gap(at, Want::Saying { words: self.words.clone(), back });
        }
        self.at = moved;
        Move::Done
    }

    /// Records that the host searches the gap for which the search waits.
    pub(super) fn set_looked(&mut self) {
        if let Some(wait) = &mut self.waits {
            wait.looked = true;
        }
    }

    /// Returns the first gap between two hits that may contain the words: its block and its range of entries.
    fn gap_before(
        &self,
        blocks: &Blocks,
        from: Option<Hit>,
        to: Option<Hit>,
        back: bool,
    ) -> Option<(usize, Seq, Seq)> {
        self.pattern.as_ref()?;
        let end = blocks.len();
        let from = from.map_or(end, |hit| hit.block);
        let may = |(_, gap): &(usize, &Gap)| self.may_be_in(gap);
        let open: Vec<_> = blocks.gaps().filter(may).map(|(at, gap)| (at, gap.from, gap.to)).collect();
        let steps =
            |at: usize| if back { (from + end - at) % (end + 1) } else { (at + end + 1 - from) % (end + 1) };
        // If the next hit is in the block of the current one, all gaps lie between them.
        let far = to.map(|hit| hit.block).filter(|at| *at != from).map_or(end + 1, steps);
        open.into_iter().filter(|(at, ..)| steps(*at) < far).min_by_key(|(at, ..)| steps(*at))
    }

    /// Handles the result of a search in a gap. `part`: the range of entries that has arrived; `None` if the gap does
    /// not contain the words. Returns the direction in which the search goes on, if it waited for this gap.
    pub(super) fn arrived(
        &mut self,
        blocks: &Blocks,
        revealed: bool,
        (from, to): (Seq, Seq),
        part: Option<(Seq, Seq)>,
    ) -> Option<bool> {
        if self.waits.is_none_or(|wait| (wait.from, wait.to) != (from, to)) {
            if part.is_some() && self.pattern.is_some() {
                let current = self.current();
                self.look(blocks, revealed);
                self.at = current.map(|_| at_of(&self.hits, current));
            }
            return None;
        }
        let Wait { back, looked, .. } = self.waits.take()?;
        if looked {
            self.without.push(match part {
                None => (from, to),
                Some((_, end)) if back => (end, to),
                Some((start, _)) => (from, start),
            });
        }
        Some(back)
    }

    /// True while the host searches entries that are not in memory.
    pub(super) fn is_waiting(&self) -> bool {
        self.waits.is_some()
    }

    /// Returns the number of the current hit, counted from 1, or 0 if there is none, and the count of hits. The third
    /// value is true if entries that are not in memory may contain more.
    pub(super) fn found(&self, blocks: &Blocks) -> (usize, usize, bool) {
        let more = blocks.gaps().any(|(_, gap)| self.may_be_in(gap));
        (self.at.map_or(0, |at| at + 1), self.hits.len(), more)
    }

    fn current(&self) -> Option<Hit> {
        self.at.and_then(|at| self.hits.get(at).copied())
    }

    fn look(&mut self, blocks: &Blocks, revealed: bool) {
        self.hits.clear();
        let Some(pattern) = &self.pattern else { return };
        for (block, body) in blocks.iter().enumerate() {
            if body.is_told(revealed) {
                let count = pattern.find_iter(&body.source()).count();
                self.hits.extend((0..count).map(|nth| Hit { block, nth }));
            }
        }
    }

    /// Moves the window to the current hit, and opens a closed block that contains it.
    pub(super) fn show(&mut self, blocks: &mut Blocks, window: &mut Window, theme: &Theme, revealed: bool) {
        let Some(hit) = self.current() else { return };
        let Some(pattern) = &self.pattern else { return };
        blocks.expand(hit.block);
        let width = window.width();
        let mut row = matching_row(&mut blocks[hit.block], hit.nth, pattern, width, theme);
        if row.is_none() && blocks[hit.block].open() == Some(false) {
            blocks.set_open(hit.block, true);
            row = matching_row(&mut blocks[hit.block], hit.nth, pattern, width, theme);
        }
        let place = RowPosition { block: hit.block, row: row.unwrap_or(0) };
        self.place = Some(place);
        window.show(blocks, place, theme, revealed);
    }
}

/// Returns the row of the match number `nth`. If markup or wrapping hides which row that is, returns the last row with a
/// match.
fn matching_row(block: &mut Block, nth: usize, pattern: &Regex, width: u16, theme: &Theme) -> Option<usize> {
    let rows = block.lay_out(width, theme);
    let (mut seen, mut last) = (0, None);
    for row in 0..rows {
        let count = pattern.find_iter(&block.text(row).1).count();
        if count > 0 {
            last = Some(row);
            seen += count;
        }
        if seen > nth {
            return last;
        }
    }
    last
}

/// Selects the coloured form of the symbol before it, which many keyboards leave out.
const COLOURED: char = '\u{FE0F}';

/// Compiles the words; all in lower case means any case. A symbol is found in both of its forms.
fn pattern(words: &str) -> Option<Regex> {
    let any_case = !words.chars().any(char::is_uppercase);
    let mut source = String::new();
    for c in words.chars().filter(|c| *c != COLOURED) {
        source.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        if !c.is_alphanumeric() && !c.is_whitespace() || c.is_ascii_digit() {
            source.push(COLOURED);
            source.push('?');
        }
    }
    let pattern = RegexBuilder::new(&source).case_insensitive(any_case).build();
    pattern.ok().filter(|_| !source.is_empty())
}

fn at_of(hits: &[Hit], hit: Option<Hit>) -> usize {
    hit.map_or(0, |hit| hits.partition_point(|other| *other < hit))
}

/// True if the blocks of these events show the user these words.
pub fn says(events: &[Event], words: &str) -> bool {
    let Some(pattern) = pattern(words) else { return false };
    let mut blocks = Blocks::default();
    for event in events {
        blocks.event(event);
    }
    blocks.iter().any(|block| block.is_told(false) && pattern.is_match(&block.source()))
}

/// Returns the text of the message with this entry number, as these events show it.
pub fn said_in(events: &[Event], seq: Seq) -> Option<String> {
    let mut blocks = Blocks::default();
    for event in events {
        blocks.event(event);
    }
    blocks.said_in(seq)
}
