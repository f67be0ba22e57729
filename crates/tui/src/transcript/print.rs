//! Output into the terminal's own scrollback: every line once, when it can no longer change.
//!
//! Of an answer that streams in, the pieces (paragraphs, lists, blocks of code) that can no longer change are printed
//! first. The progress is kept in pieces, not in rows, because pieces are the same at every width.

use super::block::{Block, Body, Weight};
use super::blocks::Blocks;
use super::image::State;
use super::window::RowPosition;
use crate::links;
use crate::theme::Theme;
use ratatui::text::{Line, Span};

/// Progress of printing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Printed {
    /// Blocks before this one are printed whole.
    block: usize,
    /// Number of pieces of block `block` that are printed.
    pieces: usize,
}

impl Printed {
    /// Updates the progress after blocks that end before `behind` were replaced. If they were not printed, the blocks
    /// that replace them are not printed either.
    pub(super) fn moved(&mut self, behind: usize, moved: &impl Fn(usize) -> usize) {
        if self.block >= behind {
            self.block = moved(self.block);
        }
    }
}

impl Printed {
    /// True if this block is printed whole.
    pub(super) fn has(&self, block: usize) -> bool {
        block < self.block
    }

    /// Returns the lines that were not printed yet, and marks them as printed. `all`: includes lines that may still
    /// change. `inline`: the screen draws only the lines that were not printed.
    pub(super) fn print(
        &mut self,
        blocks: &mut Blocks,
        inline: bool,
        width: u16,
        theme: &Theme,
        all: bool,
    ) -> Vec<Line<'static>> {
        let mut out = Vec::new();
        while self.block < blocks.len() {
            let at = self.block;
            if blocks[at].is_shown(false) {
                let whole = all || is_final(blocks, at, inline);
                let block = &mut blocks[at];
                let count = block.lay_out(width, theme);
                let settled = block.settled().max(self.pieces);
                let from = block.row_behind(self.pieces);
                let to = if whole { count } else { block.row_behind(settled) };
                let first = out.len();
                out.extend((from..to).map(|row| block.line(row, theme)));
                if matches!(block.body(), Body::User { .. })
                    && let Some(line) = out.get_mut(first)
                {
                    line.spans.insert(0, Span::styled("", links::prompt_mark()));
                }
                if !whole {
                    self.pieces = settled;
                    break;
                }
            }
            *self = Self { block: at + 1, ..Self::default() };
        }
        out
    }

    /// Returns the rows that were not printed.
    pub(super) fn live(
        &self,
        blocks: &mut Blocks,
        revealed: bool,
        width: u16,
        theme: &Theme,
    ) -> Vec<RowPosition> {
        let mut out = Vec::new();
        for (i, block) in blocks.iter_mut().enumerate().skip(self.block) {
            if block.is_shown(revealed) {
                let count = block.lay_out(width, theme);
                let from = if i == self.block { block.row_behind(self.pieces) } else { 0 };
                out.extend((from..count).map(|row| RowPosition { block: i, row }));
            }
        }
        out
    }
}

/// True if no line of this block can change any more.
fn is_final(blocks: &Blocks, at: usize, inline: bool) -> bool {
    let block = &blocks[at];
    if let Body::Image(image) = block.body() {
        // On the alternate screen images are not carried over into the scrollback, so printing does not wait for
        // them.
        return !inline || matches!(image.state, State::Shown(..) | State::Broken);
    }
    // The next change of the mode replaces the line about it.
    if at + 1 == blocks.len() && matches!(block.body(), Body::Note { weight: Weight::Mode, .. }) {
        return false;
    }
    if blocks.turn.idle {
        return true;
    }
    if block.is_live() || blocks.is_streaming(at) {
        return false;
    }
    // Read-only calls in a row share one line, so the last one may still grow.
    let looks = |block: &Block| matches!(block.body(), Body::Tool(call) if call.only_looks());
    !looks(block) || blocks[at + 1..].iter().any(|behind| !looks(behind))
}

/// Returns how many rows a terminal with this many columns makes of a line.
pub fn broken(line: &Line<'_>, columns: u16) -> usize {
    crate::text::line_width(line).div_ceil(columns.max(1).into()).max(1)
}
