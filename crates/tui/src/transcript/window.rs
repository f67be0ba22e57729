//! The window on the transcript: the block and line at its top, or the fact that it follows the end.
//!
//! Every operation lays out only the blocks it passes over. A position is a block and a line in it, so the text being
//! read stays in place while the end grows.

use super::block::Block;
use crate::theme::Theme;
use std::ops::Range;

/// A row in view: an index of a block, and of a row in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowPosition {
    pub block: usize,
    pub row: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    /// `None`: the window follows the end.
    top: Option<Top>,
    width: u16,
    height: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Top {
    block: usize,
    line: usize,
}

impl Window {
    /// Updates the position after these blocks were replaced by `more` blocks. Rows below them stay in place.
    pub(super) fn moved(&mut self, blocks: Range<usize>, more: usize) {
        let Some(top) = &mut self.top else { return };
        if top.block >= blocks.end {
            top.block = top.block - blocks.len() + more;
        } else if top.block >= blocks.start {
            *top = Top { block: (blocks.start + more).saturating_sub(1), line: usize::MAX };
        }
    }

    /// Returns the block at the top, `None` if the window follows the end. The block may not have been drawn yet.
    pub(super) fn block(&self) -> Option<usize> {
        self.top.map(|top| top.block)
    }

    /// True if the first row of this block is the first row in view.
    pub(super) fn is_at(&self, block: usize) -> bool {
        self.top == Some(Top { block, line: 0 })
    }

    /// Moves the window so that this block is at the top.
    pub(super) fn to(&mut self, block: usize) {
        self.top = Some(Top { block, line: 0 });
    }

    pub(super) fn follow(&mut self) {
        self.top = None;
    }

    pub(super) fn follows(&self) -> bool {
        self.top.is_none()
    }

    pub(super) fn width(&self) -> u16 {
        self.width
    }

    pub(super) fn height(&self) -> usize {
        usize::from(self.height)
    }

    /// Returns the rows in view, from the top.
    pub(super) fn visible(
        &mut self,
        blocks: &mut [Block],
        width: u16,
        height: u16,
        theme: &Theme,
        revealed: bool,
    ) -> Vec<RowPosition> {
        self.width = width;
        self.height = height;
        let top = self.top(blocks, theme, revealed);
        let mut out = Vec::with_capacity(self.height());
        let mut skip = top.line;
        for (i, block) in blocks.iter_mut().enumerate().skip(top.block) {
            if out.len() >= self.height() {
                break;
            }
            if !block.is_shown(revealed) {
                continue;
            }
            let count = block.lay_out(width, theme);
            let room = self.height() - out.len();
            out.extend((skip..count).take(room).map(|row| RowPosition { block: i, row }));
            skip = 0;
        }
        out
    }

    pub(super) fn scroll(&mut self, blocks: &mut [Block], lines: isize, theme: &Theme, revealed: bool) {
        let from = self.top(blocks, theme, revealed);
        let end = end(blocks, self.width, self.height, theme, revealed);
        let to = if lines < 0 {
            back(blocks, from, lines.unsigned_abs(), self.width, theme, revealed)
        } else {
            forward(blocks, from, lines.unsigned_abs(), self.width, theme, revealed)
        };
        let at_end = (to.block, to.line) >= (end.block, end.line);
        self.top = if at_end { None } else { Some(to) };
    }

    /// Moves to the nearest block before or after the top for which `is` holds.
    pub(super) fn jump(&mut self, to_earlier: bool, is: impl Fn(usize) -> bool, count: usize) {
        let from = self.top.map_or(count, |t| t.block);
        let found = if to_earlier {
            (0..from.min(count)).rev().find(|i| is(*i))
        } else {
            (from.saturating_add(1)..count).find(|i| is(*i))
        };
        match found {
            Some(block) => self.top = Some(Top { block, line: 0 }),
            None if !to_earlier => self.top = None,
            None => {}
        }
    }

    /// Scrolls until a row is in view. If it is not, it is placed a third below the top.
    pub(super) fn show(&mut self, blocks: &mut [Block], at: RowPosition, theme: &Theme, revealed: bool) {
        let in_view = self.visible(blocks, self.width, self.height, theme, revealed);
        if in_view.contains(&at) {
            return;
        }
        self.top = Some(Top { block: at.block, line: at.row });
        self.scroll(blocks, -(self.height() as isize / 3), theme, revealed);
    }

    fn top(&self, blocks: &mut [Block], theme: &Theme, revealed: bool) -> Top {
        match self.top {
            // The block may have become shorter since this position was set.
            Some(top) if top.block < blocks.len() => {
                let length = blocks[top.block].lay_out(self.width, theme);
                Top { line: top.line.min(length.saturating_sub(1)), ..top }
            }
            _ => end(blocks, self.width, self.height, theme, revealed),
        }
    }
}

/// Returns the top at which the last line is in the last row.
fn end(blocks: &mut [Block], width: u16, height: u16, theme: &Theme, revealed: bool) -> Top {
    let mut room = usize::from(height);
    for (i, block) in blocks.iter_mut().enumerate().rev() {
        if !block.is_shown(revealed) {
            continue;
        }
        let length = block.lay_out(width, theme);
        if length >= room {
            return Top { block: i, line: length - room };
        }
        room -= length;
    }
    Top { block: 0, line: 0 }
}

fn back(blocks: &mut [Block], from: Top, lines: usize, width: u16, theme: &Theme, revealed: bool) -> Top {
    let mut at = from;
    let mut left = lines;
    loop {
        if at.line >= left {
            return Top { line: at.line - left, ..at };
        }
        left -= at.line;
        let Some(before) = (0..at.block).rev().find(|i| blocks[*i].is_shown(revealed)) else {
            return Top { block: at.block, line: 0 };
        };
        at = Top { block: before, line: blocks[before].lay_out(width, theme) };
    }
}

fn forward(blocks: &mut [Block], from: Top, lines: usize, width: u16, theme: &Theme, revealed: bool) -> Top {
    let mut at = from;
    let mut left = lines;
    while at.block < blocks.len() {
        let length =
            if blocks[at.block].is_shown(revealed) { blocks[at.block].lay_out(width, theme) } else { 0 };
        if at.line + left < length {
            return Top { line: at.line + left, ..at };
        }
        left -= length.saturating_sub(at.line);
        at = Top { block: at.block + 1, line: 0 };
    }
    at
}
