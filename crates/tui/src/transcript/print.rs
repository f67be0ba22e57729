//! What goes into the terminal's own scrollback: every line once, when nothing can change it any more.
//!
//! Of an answer that streams in, the pieces that stay as they are go first. How far it was printed is kept in pieces, not in
//! rows: they are the same at every width.

use super::Transcript;
use super::block::{Block, Body};
use super::image::State;
use super::window::Place;
use crate::links;
use crate::theme::Theme;
use ratatui::text::{Line, Span};

/// How far the transcript was printed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Printed {
    /// Blocks before this one, whole,
    block: usize,
    /// and this many pieces of it.
    pieces: usize,
}

impl Printed {
    /// Blocks before `behind` are others now; where none was printed, none is.
    pub(super) fn moved(&mut self, behind: usize, moved: &impl Fn(usize) -> usize) {
        if self.block >= behind {
            self.block = moved(self.block);
        }
    }
}

impl Transcript {
    /// Draws only what was not printed, from now on.
    pub fn set_inline(&mut self) {
        self.inline = true;
    }

    /// Lines that were not printed yet; from now on they are. `all`: also what may still change.
    pub fn print(&mut self, width: u16, theme: &Theme, all: bool) -> Vec<Line<'static>> {
        let mut out = Vec::new();
        while self.printed.block < self.blocks.len() {
            let at = self.printed.block;
            if self.blocks[at].is_shown(false) {
                let whole = all || self.is_final(at);
                let block = &mut self.blocks[at];
                let count = block.lay_out(width, theme);
                let settled = block.settled().max(self.printed.pieces);
                let from = block.row_behind(self.printed.pieces);
                let to = if whole { count } else { block.row_behind(settled) };
                let first = out.len();
                out.extend((from..to).map(|row| block.line(row, theme)));
                if matches!(block.body(), Body::User { .. })
                    && let Some(line) = out.get_mut(first)
                {
                    line.spans.insert(0, Span::styled("", links::prompt_mark()));
                }
                if !whole {
                    self.printed.pieces = settled;
                    break;
                }
            }
            self.printed = Printed { block: at + 1, ..Printed::default() };
        }
        out
    }

    /// The rows that were not printed.
    pub(super) fn live(&mut self, width: u16, theme: &Theme) -> Vec<Place> {
        let mut out = Vec::new();
        for (i, block) in self.blocks.iter_mut().enumerate().skip(self.printed.block) {
            if block.is_shown(self.revealed) {
                let count = block.lay_out(width, theme);
                let from = if i == self.printed.block { block.row_behind(self.printed.pieces) } else { 0 };
                out.extend((from..count).map(|row| Place { block: i, row }));
            }
        }
        out
    }

    /// How many of the last rows of `Transcript::live` have room in `room` rows where a row is broken at `columns`.
    pub fn live_rows(&mut self, width: u16, theme: &Theme, columns: u16, room: usize) -> usize {
        let live = self.live(width, theme);
        let mut taken = 0;
        let fits = |place: &&Place| {
            taken += broken(&self.blocks[place.block].line(place.row, theme), columns);
            taken <= room
        };
        live.iter().rev().take_while(fits).count()
    }

    fn is_final(&self, at: usize) -> bool {
        let block = &self.blocks[at];
        if let Body::Image(image) = block.body() {
            // On a screen of becket's own it is not taken along into the scrollback.
            return !self.inline || matches!(image.state, State::Shown(..) | State::Broken);
        }
        if self.idle {
            return true;
        }
        if block.is_live() || self.parts.values().any(|part| *part == at) {
            return false;
        }
        // Calls that look are told in one line while they follow one another.
        let looks = |block: &Block| matches!(block.body(), Body::Tool(call) if call.only_looks());
        !looks(block) || self.blocks[at + 1..].iter().any(|behind| !looks(behind))
    }
}

/// Rows that a terminal of so many columns makes of a line.
pub fn broken(line: &Line<'_>, columns: u16) -> usize {
    line.width().div_ceil(columns.max(1).into()).max(1)
}
