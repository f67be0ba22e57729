//! Parts of the session that leave memory and return: requests for gaps (ranges of the session that are not in memory),
//! their filling, and the eviction of old turns.
//!
//! Updates every position that names a block when blocks are inserted or removed.

use super::Transcript;
use super::block::{Block, Body};
use super::blocks::Blocks;
use super::gap::{Gap, State, Wanted};
use super::window::RowPosition;
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

impl Transcript {
    /// Shows the end of an earlier session.
    pub fn show_end(&mut self, end: &Stretch) {
        if end.from > Seq(1) {
            self.blocks.push(Body::Gap(Gap::new(Seq(1), end.from)));
            self.blocks.partial = true;
        }
        self.blocks.replays = true;
        for event in &end.events {
            self.event(event);
        }
        self.blocks.replays = false;
    }

    /// True if a part of the session is not in memory.
    pub(crate) fn has_gaps(&self) -> bool {
        self.blocks.gaps().next().is_some()
    }

    /// Returns the parts of gaps that have been wanted since the last call.
    pub(crate) fn wanted_gaps(&mut self) -> Vec<Wanted> {
        std::mem::take(&mut self.wants.gaps)
    }

    /// Requests a part of the gap at `at`. Returns false if a request is pending, the gap cannot be read, or nothing
    /// may be inserted.
    pub(super) fn want_gap(&mut self, at: usize, want: Want) -> bool {
        let Some(Body::Gap(gap)) = self.blocks.get(at).map(Block::body) else { return false };
        // In inline mode, later lines are already printed, and nothing can be inserted before them.
        if self.inline || gap.state != State::Closed {
            return false;
        }
        self.wants.gaps.push(Wanted { from: gap.from, to: gap.to, want });
        self.blocks.set_gap(at, State::Asked);
        true
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

    /// Records that the gap cannot be read.
    pub(crate) fn gap_failed(&mut self, from: Seq, to: Seq, why: String) {
        if let Some(at) = self.blocks.gap_at(from, to) {
            self.blocks.set_gap(at, State::Failed(why));
        }
    }

    /// Records that the gap does not contain what was searched for.
    pub(crate) fn gap_stays(&mut self, from: Seq, to: Seq) {
        if let Some(at) = self.blocks.gap_at(from, to) {
            self.blocks.set_gap(at, State::Closed);
        }
    }

    /// Inserts a part of the gap. The rows in view stay where they are.
    pub fn fill(&mut self, from: Seq, to: Seq, part: &Stretch, theme: &Theme) {
        let Some(at) = self.blocks.gap_at(from, to) else { return };
        let mut here = self.blocks.other_part(part.from > Seq(1));
        if from < part.from {
            here.push(Body::Gap(Gap::new(from, part.from)));
        }
        for event in &part.events {
            here.event(event);
        }
        let is_first = here.iter().position(|block| block.is_shown(self.revealed));
        if part.to < to {
            here.push(Body::Gap(Gap::new(part.to, to)));
        }
        self.blocks.next_image = here.next_image;
        let to_first = at == 0 && std::mem::take(&mut self.wants.first);
        let at_top = self.window.is_at(at);
        self.splice(at, 1, here);
        if at_top {
            // The gap was at the top and took two rows. The same number of rows of the part above it is shown now.
            self.window.scroll(&mut self.blocks, -1, theme, self.revealed);
        }
        if to_first && let Some(first) = is_first {
            self.focus = Some(at + first);
            self.window.to(at + first);
        }
    }

    /// Evicts turns if the transcript is too large, those farthest from the view first. They can be read from the
    /// ledger again. A turn that has content only in memory, and not in the ledger, is not evicted.
    pub fn let_go(&mut self) {
        let mut weight = self.blocks.weight();
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
        self.blocks.weight()
    }

    fn may_leave(&self, turn: &Range<usize>) -> bool {
        let stays =
            |block: &Block| block.is_local() || block.is_live() || matches!(block.body(), Body::Gap(_));
        let near = |at: usize| at + KEPT >= turn.start && at < turn.end + KEPT;
        let seen = self.seen.iter().map(|place| place.block);
        let held = self.focus.into_iter().chain(self.window.block()).chain([self.blocks.len()]);
        let is_on_disk = matches!((self.blocks.seq_at(turn.start), self.blocks.seq_at(turn.end)), (Some(from), Some(to)) if from < to);
        is_on_disk
            && self.selection.is_none()
            && !self.blocks[turn.clone()].iter().any(stays)
            && !seen.chain(held).any(near)
    }

    /// Replaces a turn and the gaps next to it by one gap.
    fn leave(&mut self, turn: Range<usize>) {
        let (Some(mut from), Some(mut to)) = (self.blocks.seq_at(turn.start), self.blocks.seq_at(turn.end))
        else {
            return;
        };
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
        self.blocks.partial = true;
        let mut gap = Blocks::default();
        gap.push(Body::Gap(Gap::new(from, to)));
        self.splice(start, end - start, gap);
    }

    /// Replaces blocks and updates every position that names a later block. A position in a replaced block becomes a
    /// position in the last new block.
    fn splice(&mut self, at: usize, count: usize, blocks: Blocks) {
        let (behind, more) = (at + count, blocks.len());
        let moved = |block: usize| match block {
            before if before < at => before,
            after if after >= behind => after - count + more,
            _ => (at + more).saturating_sub(1),
        };
        self.blocks.replace(at, count, blocks);
        self.window.moved(at..behind, more);
        self.printed.moved(behind, &moved);
        self.find.moved(&moved);
        self.focus = self.focus.map(&moved);
        let place = |place: RowPosition| RowPosition { block: moved(place.block), ..place };
        if let Some(selection) = &mut self.selection {
            selection.moved(&place);
        }
        self.seen.iter_mut().for_each(|seen| *seen = place(*seen));
    }
}
