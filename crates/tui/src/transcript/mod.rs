//! The transcript: what people and the agent said and did, as blocks, newest at the bottom.
//!
//! Owns the blocks ([`block`]), how they come from events (`events`), and the window on them (`window`). Drawing costs
//! what is visible: a block is laid out when it comes into view, and keeps its lines until it, the width or the theme changes.
//!
//! Invariants: a message that is not for people becomes a hidden block, and hidden blocks are drawn only while they are
//! revealed. Blocks are appended and changed in place, never removed. Sends nothing, reads nothing.

pub mod block;
mod diff;
mod events;
mod markdown;
mod tool;
mod window;

use crate::theme::Theme;
use becket_types::{CallId, MessageId};
use block::{Block, Body};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use std::collections::HashMap;
use window::Window;

pub struct Transcript {
    blocks: Vec<Block>,
    calls: HashMap<CallId, usize>,
    /// Streaming parts by message and index.
    parts: HashMap<(MessageId, u32), usize>,
    window: Window,
    /// Hidden messages are shown, marked.
    revealed: bool,
    /// Blocks before this one are in the terminal's scrollback already.
    printed: usize,
}

impl Default for Transcript {
    fn default() -> Self {
        Self::new()
    }
}

impl Transcript {
    pub fn new() -> Self {
        Self {
            blocks: Vec::new(),
            calls: HashMap::new(),
            parts: HashMap::new(),
            window: Window::default(),
            revealed: false,
            printed: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Draws the part of it that `area` shows.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let revealed = self.revealed;
        let lines = self.window.visible(&mut self.blocks, area.width, area.height, theme, revealed);
        let buffer = frame.buffer_mut();
        for (row, line) in lines.iter().enumerate() {
            let Ok(row) = u16::try_from(row) else { break };
            buffer.set_line(area.x, area.y + row, line, area.width);
        }
    }

    /// Up (negative) or down by lines.
    pub fn scroll(&mut self, lines: isize, theme: &Theme) {
        self.window.scroll(&mut self.blocks, lines, theme, self.revealed);
    }

    /// Up (negative) or down by screens.
    pub fn scroll_pages(&mut self, pages: isize, theme: &Theme) {
        let page = self.window.height().saturating_sub(2).max(1);
        self.scroll(pages * page as isize, theme);
    }

    pub fn to_end(&mut self) {
        self.window.follow();
    }

    /// The newest lines are in view and stay so.
    pub fn follows(&self) -> bool {
        self.window.follows()
    }

    /// To the user message before (or after) the top of the window.
    pub fn to_user_message(&mut self, back: bool) {
        let blocks = &self.blocks;
        self.window.jump(back, |i| matches!(blocks[i].body(), Body::User { .. }), blocks.len());
    }

    pub fn toggle_hidden(&mut self) {
        self.revealed = !self.revealed;
    }

    pub fn revealed(&self) -> bool {
        self.revealed
    }

    /// Opens or closes every tool call and every thought; what is asked of it is what the newest is not.
    pub fn toggle_open(&mut self) {
        let open = !self.blocks.iter().rev().find_map(Block::open).unwrap_or(false);
        for block in &mut self.blocks {
            block.set_open(open);
        }
    }

    /// Lines that are not in the terminal's scrollback yet; from now on they are.
    pub fn print(&mut self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        let mut out = Vec::new();
        for block in &mut self.blocks[self.printed..] {
            if block.is_shown(false) {
                let count = block.lay_out(width, theme);
                out.extend((0..count).map(|i| block.line(i)));
            }
        }
        self.printed = self.blocks.len();
        out
    }

    /// The last answer as its source.
    pub fn last_answer(&self) -> Option<&str> {
        self.blocks.iter().rev().find_map(|b| match b.body() {
            Body::Answer { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }
}
