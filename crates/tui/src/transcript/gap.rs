//! Gaps: ranges of the session that are on disk and not in the transcript.
//!
//! A long session opens with its end alone, after a gap. A part of a gap is requested and inserted when it comes near
//! the view, is searched for, or is jumped to. So memory holds only what was looked at, however long the session is.
//! Turns that are far from the view become gaps again ([`Transcript::let_go`]).
//!
//! Owns the gaps, and updates every index of a block when blocks are inserted or removed. A gap is a block of one line.

use super::Transcript;
use super::block::{Block, Body};
use super::window::Place;
use crate::input::{Stretch, Want};
use crate::theme::Theme;
use becket_types::Seq;
use std::ops::Range;

/// High and low water mark in bytes: above `MOST`, old turns are evicted until `LEFT` bytes remain.
const MOST: usize = 4 << 20;
const LEFT: usize = 2 << 20;
/// Gaps within this many blocks of the view are requested before they are scrolled to.
const NEAR: usize = 10;
/// Blocks this close to the view are never evicted. Must exceed `NEAR`, or evicted blocks would be requested again at
/// once.
const KEPT: usize = 2 * NEAR;

/// A range of entries that are not in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first entry of the gap.
    pub from: Seq,
    /// The entry after the last one of the gap.
    pub to: Seq,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// A part of the gap was requested.
    Asked,
    /// The gap cannot be read, with the reason.
    Failed(String),
}

/// A part of a gap to request from the host.
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

    /// Returns the line that is shown for the gap.
    pub(super) fn line(&self) -> String {
        match &self.state {
            State::Failed(why) => format!("⋯ what was said here cannot be read: {why}"),
            State::Closed | State::Asked => "⋯ more was said here".to_owned(),
        }
    }
}

impl Transcript {
    /// Shows the end of an earlier session.
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

    /// True if a part of the session is not in memory.
    pub fn has_gaps(&self) -> bool {
        self.gaps().next().is_some()
    }

    pub(super) fn gaps(&self) -> impl DoubleEndedIterator<Item = (usize, &Gap)> {
        self.blocks.iter().enumerate().filter_map(|(at, block)| match block.body() {
            Body::Gap(gap) => Some((at, gap)),
            _ => None,
        })
    }

    /// Returns the parts of gaps that are needed since the last call.
    pub fn wanted_gaps(&mut self) -> Vec<Wanted> {
        std::mem::take(&mut self.gaps_wanted)
    }

    /// Requests a part of the gap at `at`. Returns false if a request is pending, the gap cannot be read, or nothing
    /// may be inserted.
    pub(super) fn want_gap(&mut self, at: usize, want: Want) -> bool {
        let Some(Body::Gap(gap)) = self.blocks.get(at).map(Block::body) else { return false };
        // In inline mode, later lines are already printed, and nothing can be inserted before them.
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

    /// Requests a part of a gap that is in view or close to it.
    pub(super) fn want_near(&mut self) {
        let (Some(first), Some(last)) = (self.seen.first(), self.seen.last()) else { return };
        let (first, last) = (first.block, last.block);
        let is_gap = |at: &usize| matches!(self.blocks[*at].body(), Body::Gap(_));
        let in_view = (first..=last).rev().find(is_gap);
        // While the view follows the end, the user has not begun to read back.
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

    /// Records that the gap cannot be read.
    pub fn gap_failed(&mut self, from: Seq, to: Seq, why: String) {
        if let Some(at) = self.gap_at(from, to) {
            self.set_gap(at, State::Failed(why));
        }
    }

    /// Records that the gap does not contain what was searched for.
    pub fn gap_stays(&mut self, from: Seq, to: Seq) {
        if let Some(at) = self.gap_at(from, to) {
            self.set_gap(at, State::Closed);
        }
    }

    /// Inserts a part of the gap. The rows in view stay where they are.
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
            // The gap was at the top and took two rows. The same number of rows of the part above it is shown now.
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

    /// Evicts turns if the transcript is too large, those farthest from the view first. They can be read from the
    /// ledger again. A turn with content that is in memory only stays whole.
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
        // Evicts from the last to the first, so that the indices of earlier turns stay valid.
        leaving.sort_by_key(|turn| std::cmp::Reverse(turn.start));
        for turn in leaving {
            self.leave(turn);
        }
    }

    /// Returns the approximate size of all blocks in bytes.
    pub fn weight(&self) -> usize {
        self.blocks.iter().map(Block::weight).sum()
    }

    /// Returns the entry number with which a turn or a gap begins.
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

    /// Replaces a turn and the gaps next to it by one gap.
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

    /// Replaces blocks and updates every index of a later block. An index of the replaced block becomes the index of
    /// the last new block.
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
