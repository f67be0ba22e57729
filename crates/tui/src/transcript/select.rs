//! The focused block, and text selected with the mouse. Copied text is the original text: no wraps, no marks, no line
//! numbers.

use super::Transcript;
use super::block::Body;
use super::window::RowPosition;
use crate::input::Want;
use crate::text::{self, Joint};
use crate::theme::Theme;

/// A column in a row of the transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub place: RowPosition,
    pub column: usize,
}

/// A selection with the mouse.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection {
    from: Point,
    to: Point,
    moved: bool,
}

impl Selection {
    /// Updates the places of blocks after blocks were inserted or removed.
    pub(super) fn moved(&mut self, place: &impl Fn(RowPosition) -> RowPosition) {
        self.from.place = place(self.from.place);
        self.to.place = place(self.to.place);
    }

    /// Returns the columns of a row that are selected.
    pub(super) fn columns(&self, place: RowPosition) -> Option<(usize, usize)> {
        let (from, to) = (self.from.min(self.to), self.from.max(self.to));
        if !self.moved || place < from.place || place > to.place {
            return None;
        }
        let begin = if place == from.place { from.column } else { 0 };
        let end = if place == to.place { to.column + 1 } else { usize::MAX };
        Some((begin, end))
    }
}

impl Transcript {
    /// Returns the index of the focused block.
    pub(crate) fn focused(&self) -> Option<usize> {
        self.focus
    }

    /// Returns the number of the focused block among the visible ones, counted from 1, and their count.
    pub(crate) fn focus_of(&self) -> (usize, usize) {
        let shown =
            |blocks: &[super::block::Block]| blocks.iter().filter(|b| b.is_shown(self.revealed)).count();
        (self.focus.map_or(0, |at| shown(&self.blocks[..=at])), shown(&self.blocks))
    }

    /// Moves the focus to the previous or the next block, at first to the last one in view. Moving past the end removes
    /// the focus.
    pub(crate) fn move_focus(&mut self, back: bool, theme: &Theme) {
        let in_view = self.seen.iter().rev().map(|place| place.block).next();
        let shown = |i: &usize| self.blocks[*i].is_shown(self.revealed);
        let next = match self.focus {
            None if back => in_view,
            None => None,
            Some(at) if back => (0..at).rev().find(shown).or(Some(at)),
            Some(at) => (at + 1..self.blocks.len()).find(shown),
        };
        self.set_focus(next, theme);
        if next.is_none() {
            self.scroll_to_end();
        }
    }

    /// Moves the focus to the first or the last block.
    pub(crate) fn focus_end(&mut self, first: bool, theme: &Theme) {
        if first && self.blocks.gaps().next().is_some_and(|(at, _)| at == 0) {
            // The first block of the session is not in memory yet.
            self.wants.first = true;
            self.want_gap(0, Want::Start);
            return;
        }
        let mut shown = (0..self.blocks.len()).filter(|i| self.blocks[*i].is_shown(self.revealed));
        let at = if first { shown.next() } else { shown.next_back() };
        self.set_focus(at, theme);
    }

    /// Moves the focus to the previous or the next message of the user.
    pub(crate) fn focus_user(&mut self, back: bool, theme: &Theme) {
        let is = |i: &usize| matches!(self.blocks[*i].body(), Body::User { .. } | Body::Gap(_));
        let at = self.focus.unwrap_or(self.blocks.len());
        let found =
            if back { (0..at).rev().find(is) } else { (at.saturating_add(1)..self.blocks.len()).find(is) };
        if found.is_some() {
            self.set_focus(found, theme);
        }
    }

    fn set_focus(&mut self, to: Option<usize>, theme: &Theme) {
        self.focus = to;
        if let Some(block) = to {
            self.window.show(&mut self.blocks, RowPosition { block, row: 0 }, theme, self.revealed);
        }
    }

    /// Removes the focus.
    pub(crate) fn end_focus(&mut self) {
        self.focus = None;
    }

    /// Opens or closes the focused block.
    pub(crate) fn toggle_focused(&mut self) {
        if let Some(at) = self.focus
            && let Some(open) = self.blocks[at].open()
        {
            self.blocks.set_open(at, !open);
        }
    }

    /// Returns the content of the focused block.
    pub(crate) fn copy_focused(&self) -> Option<String> {
        Some(self.blocks.get(self.focus?)?.source().into_owned())
    }

    fn point(&self, column: u16, row: u16) -> Option<Point> {
        if !self.area.contains((column, row).into()) {
            return None;
        }
        let place = *self.seen.get(usize::from(row - self.area.y))?;
        Some(Point { place, column: usize::from(column - self.area.x) })
    }

    /// Handles a mouse button pressed on a cell of the screen.
    pub fn press(&mut self, column: u16, row: u16) {
        self.selection = self.point(column, row).map(|at| Selection { from: at, to: at, moved: false });
    }

    /// Handles a mouse movement with the button down. At the edges the transcript scrolls.
    pub fn drag(&mut self, column: u16, row: u16, theme: &Theme) {
        if self.selection.is_none() {
            return;
        }
        if row <= self.area.y {
            self.scroll(-1, theme);
        } else if row + 1 >= self.area.bottom() {
            self.scroll(1, theme);
        }
        let last = (self.area.y + self.seen.len() as u16).saturating_sub(1);
        let row = row.clamp(self.area.y, last.max(self.area.y));
        if let (Some(to), Some(selection)) = (self.point(column, row), &mut self.selection) {
            selection.moved |= to != selection.from;
            selection.to = to;
        }
    }

    /// Handles the release of the mouse button. Returns the selected text. If the mouse did not move, opens or closes
    /// the block instead.
    pub fn release(&mut self, theme: &Theme) -> Option<String> {
        let selection = self.selection.take()?;
        if !selection.moved {
            let RowPosition { block, row } = selection.from.place;
            // Every row of a closed block opens it, but only the first row of an open block closes it.
            if let Some(open) = self.blocks.get(block)?.open()
                && (row == 0 || !open)
            {
                self.blocks.set_open(block, !open);
            }
            return None;
        }
        Some(self.selected(&selection, theme)).filter(|text| !text.is_empty())
    }

    fn selected(&mut self, selection: &Selection, theme: &Theme) -> String {
        let (from, to) = (selection.from.min(selection.to), selection.from.max(selection.to));
        let (width, revealed) = (self.window.width(), self.revealed);
        let mut out = String::new();
        for (i, block) in self.blocks.iter_mut().enumerate().take(to.place.block + 1).skip(from.place.block) {
            if !block.is_shown(revealed) {
                continue;
            }
            for row in 0..block.lay_out(width, theme) {
                let place = RowPosition { block: i, row };
                let Some((begin, end)) = selection.columns(place) else { continue };
                let (gutter, text, joint) = block.text(row);
                if place != from.place {
                    match joint {
                        Joint::Soft(dropped) => out.push_str(&dropped),
                        Joint::Hard => {
                            out.truncate(out.trim_end_matches(' ').len());
                            out.push('\n');
                        }
                    }
                }
                let rest = text::skip(&text, begin.saturating_sub(gutter));
                let before = begin.max(gutter);
                let behind = text::skip(rest, end.saturating_sub(before));
                out.push_str(&rest[..rest.len() - behind.len()]);
            }
        }
        out.truncate(out.trim_end().len());
        out
    }
}
