//! Gaps: stretches of what was said that are on disk and not in the transcript.
//!
//! A long session comes with its end alone, behind a gap. What comes into view next to a gap, is searched for, or is gone to is
//! asked for and put in its place; so memory holds what was looked at, however long the session is. What nobody looks at any
//! more becomes a gap again ([`Transcript::let_go`]).
//!
//! Owns the gaps and the places of all that points to blocks when blocks come and go. A gap is a block of one line.

use super::Transcript;
use super::block::{Block, Body};
use super::window::Place;
use crate::input::{Stretch, Want};
use crate::theme::Theme;
use becket_types::Seq;
use std::ops::Range;

/// Bytes of what blocks say from which on some leave, and that stay then.
const MOST: usize = 4 << 20;
const LEFT: usize = 2 << 20;
/// Blocks above and below the view that are to be there before they are scrolled to.
const NEAR: usize = 10;
/// Such that do not leave: more, or what left would be asked for again.
const KEPT: usize = 2 * NEAR;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first entry that is missing.
    pub from: Seq,
    /// The first one that is there again.
    pub to: Seq,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// A part of it is on its way.
    Asked,
    /// It cannot be read, and why.
    Failed(String),
}

/// A part of a gap that is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub from: Seq,
    pub to: Seq,
    pub want: Want,
}

impl Gap {
    pub(super) fn new(from: Seq, to: Seq) -> Self {
        Self { from, to, state: State::Closed }
    }

    pub(super) fn is_readable(&self) -> bool {
        !matches!(self.state, State::Failed(_))
    }

    /// Its line.
    pub(super) fn line(&self) -> String {
        match &self.state {
            State::Failed(why) => format!("⋯ what was said here cannot be read: {why}"),
            State::Closed | State::Asked => "⋯ more was said here".to_owned(),
        }
    }
}

impl Transcript {
    /// The end of what was said before.
    pub fn show_end(&mut self, end: &Stretch) {
        if end.from > Seq(1) {
            self.push(Body::Gap(Gap::new(Seq(1), end.from)));
            self.partial = true;
        }
        self.replays = true;
        for event in &end.events {
            self.event(event);
        }
        self.replays = false;
    }

    /// Not all that was said is here.
    pub fn has_gaps(&self) -> bool {
        self.gaps().next().is_some()
    }

    pub(super) fn gaps(&self) -> impl DoubleEndedIterator<Item = (usize, &Gap)> {
        self.blocks.iter().enumerate().filter_map(|(at, block)| match block.body() {
            Body::Gap(gap) => Some((at, gap)),
            _ => None,
        })
    }

    /// Parts of gaps that are wanted since this was asked last.
    pub fn wanted_gaps(&mut self) -> Vec<Wanted> {
        std::mem::take(&mut self.gaps_wanted)
    }

    /// A part of the gap at `at` is to be had, unless one is already on its way, or cannot be had; whether it is this one.
    pub(super) fn want_gap(&mut self, at: usize, want: Want) -> bool {
        let Some(Body::Gap(gap)) = self.blocks.get(at).map(Block::body) else { return false };
        // What was printed cannot be put before anything.
        if self.inline || gap.state != State::Closed {
            return false;
        }
        self.gaps_wanted.push(Wanted { from: gap.from, to: gap.to, want });
        self.set_gap(at, State::Asked);
        true
    }

    fn set_gap(&mut self, at: usize, state: State) {
        self.blocks[at].change(|body| {
            if let Body::Gap(gap) = body {
                gap.state = state;
            }
        });
    }

    /// A gap that is in view, or will soon be.
    pub(super) fn want_near(&mut self) {
        let (Some(first), Some(last)) = (self.seen.first(), self.seen.last()) else { return };
        let (first, last) = (first.block, last.block);
        let is_gap = |at: &usize| matches!(self.blocks[*at].body(), Body::Gap(_));
        let in_view = (first..=last).rev().find(is_gap);
        // Who follows the end has not begun to read back.
        let above = || (first.saturating_sub(NEAR)..first).rev().find(is_gap).filter(|_| !self.follows());
        let below = || (last + 1..self.blocks.len().min(last + 1 + NEAR)).find(is_gap);
        if let Some(at) = in_view {
            self.want_gap(at, if at < last { Want::End } else { Want::Start });
        } else if let Some(at) = above() {
            self.want_gap(at, Want::End);
        } else if let Some(at) = below() {
            self.want_gap(at, Want::Start);
        }
    }

    fn gap_at(&self, from: Seq, to: Seq) -> Option<usize> {
        self.gaps().find(|(_, gap)| (gap.from, gap.to) == (from, to)).map(|(at, _)| at)
    }

    /// The gap cannot be read.
    pub fn gap_failed(&mut self, from: Seq, to: Seq, why: String) {
        if let Some(at) = self.gap_at(from, to) {
            self.set_gap(at, State::Failed(why));
        }
    }

    /// What was looked for is not in the gap.
    pub fn gap_stays(&mut self, from: Seq, to: Seq) {
        if let Some(at) = self.gap_at(from, to) {
            self.set_gap(at, State::Closed);
        }
    }

    /// A part of the gap is there: what is in view stays where it is.
    pub fn fill(&mut self, from: Seq, to: Seq, part: &Stretch, theme: &Theme) {
        let Some(at) = self.gap_at(from, to) else { return };
        let mut here = Self::new();
        here.set_images(self.next_image);
        (here.replays, here.partial) = (true, part.from > Seq(1));
        here.view = std::sync::Arc::clone(&self.view);
        if from < part.from {
            here.push(Body::Gap(Gap::new(from, part.from)));
        }
        for event in &part.events {
            here.event(event);
        }
        let is_first = here.blocks.iter().position(|block| block.is_shown(self.revealed));
        if part.to < to {
            here.push(Body::Gap(Gap::new(part.to, to)));
        }
        self.next_image = here.next_image;
        let to_first = at == 0 && std::mem::take(&mut self.first_wanted);
        let at_top = self.window.is_at(at);
        self.splice(at, 1, here.blocks);
        if at_top {
            // A gap has two rows: as many of what is above stand there now.
            self.window.scroll(&mut self.blocks, -1, theme, self.revealed);
        }
        for (call, block) in here.calls {
            self.calls.entry(call).or_insert(at + block);
        }
        if to_first && let Some(first) = is_first {
            self.focus = Some(at + first);
            self.window.to(at + first);
        }
    }

    /// Turns that nobody looks at leave where there is too much, those farthest from the view first: they are in the ledger. What
    /// stands nowhere else stays, with its turn.
    pub fn let_go(&mut self) {
        let mut weight = self.weight();
        if self.inline || self.find.pattern.is_some() || weight <= MOST {
            return;
        }
        let is_edge =
            |block: &Block| matches!(block.body(), Body::User { steered: false, .. } | Body::Gap(_));
        let edges: Vec<usize> = (0..self.blocks.len()).filter(|at| is_edge(&self.blocks[*at])).collect();
        let view = self.window.block().unwrap_or(self.blocks.len());
        let mut turns: Vec<Range<usize>> = edges.windows(2).map(|pair| pair[0]..pair[1]).collect();
        turns.retain(|turn| self.may_leave(turn));
        turns.sort_by_key(|turn| std::cmp::Reverse(turn.start.abs_diff(view)));
        let mut leaving = Vec::new();
        for turn in turns {
            if weight <= LEFT {
                break;
            }
            weight -= self.blocks[turn.clone()].iter().map(Block::weight).sum::<usize>().min(weight);
            leaving.push(turn);
        }
        // From the last to the first: those before keep their places.
        leaving.sort_by_key(|turn| std::cmp::Reverse(turn.start));
        for turn in leaving {
            self.leave(turn);
        }
    }

    /// Bytes of what the blocks say, about.
    pub fn weight(&self) -> usize {
        self.blocks.iter().map(Block::weight).sum()
    }

    /// The number of the entry that a turn or a gap begins with.
    fn seq_at(&self, at: usize) -> Option<Seq> {
        match self.blocks[at].body() {
            Body::Gap(gap) => Some(gap.from),
            _ => self.blocks[at].message().map(|(seq, _)| seq).filter(|seq| *seq > Seq(0)),
        }
    }

    fn may_leave(&self, turn: &Range<usize>) -> bool {
        let stays =
            |block: &Block| block.is_local() || block.is_live() || matches!(block.body(), Body::Gap(_));
        let near = |at: usize| at + KEPT >= turn.start && at < turn.end + KEPT;
        let seen = self.seen.iter().map(|place| place.block);
        let held = self.focus.into_iter().chain(self.window.block()).chain([self.blocks.len()]);
        let is_on_disk =
            matches!((self.seq_at(turn.start), self.seq_at(turn.end)), (Some(from), Some(to)) if from < to);
        is_on_disk
            && self.selection.is_none()
            && !self.blocks[turn.clone()].iter().any(stays)
            && !seen.chain(held).any(near)
    }

    /// A gap in place of a turn, together with those around it.
    fn leave(&mut self, turn: Range<usize>) {
        let (Some(mut from), Some(mut to)) = (self.seq_at(turn.start), self.seq_at(turn.end)) else { return };
        let Range { mut start, mut end } = turn;
        let closed = |block: Option<&Block>| match block.map(Block::body) {
            Some(Body::Gap(gap)) if gap.state == State::Closed => Some((gap.from, gap.to)),
            _ => None,
        };
        if let Some((first, _)) =
            closed(start.checked_sub(1).map(|at| &self.blocks[at])).filter(|gap| gap.1 == from)
        {
            (from, start) = (first, start - 1);
        }
        if let Some((_, last)) = closed(self.blocks.get(end)).filter(|gap| gap.0 == to) {
            (to, end) = (last, end + 1);
        }
        self.partial = true;
        self.splice(start, end - start, vec![Block::new(Body::Gap(Gap::new(from, to)))]);
    }

    /// Blocks in place of others, and all that points behind them moved along. What pointed at the only one that goes points
    /// at the end of what comes.
    fn splice(&mut self, at: usize, count: usize, blocks: Vec<Block>) {
        let (behind, more) = (at + count, blocks.len());
        let moved = |block: usize| match block {
            before if before < at => before,
            after if after >= behind => after - count + more,
            _ => (at + more).saturating_sub(1),
        };
        self.blocks.splice(at..behind, blocks);
        self.calls.retain(|_, block| {
            let stays = *block < at || *block >= behind;
            *block = moved(*block);
            stays
        });
        self.parts.retain(|_, block| {
            let stays = *block < at || *block >= behind;
            *block = moved(*block);
            stays
        });
        self.window.moved(at..behind, more);
        self.printed.moved(behind, &moved);
        self.find.moved(&moved);
        self.focus = self.focus.map(&moved);
        let place = |place: Place| Place { block: moved(place.block), ..place };
        if let Some(selection) = &mut self.selection {
            selection.moved(&place);
        }
        self.seen.iter_mut().for_each(|seen| *seen = place(*seen));
    }
}
