//! The transcript: what people and the agent said and did, as blocks, newest at the bottom.
//!
//! Owns the blocks ([`block`]), how they come from events (`events`), those that are not here (`gap`), the window on them (`window`), search (`find`), focus
//! and selection (`select`). Drawing costs what is visible: a block is laid out when it comes into view, and keeps its rows
//! until it, the width or the theme changes; code in view that was not read yet is a job for others.
//!
//! Invariants: a message that is not for people becomes a hidden block, and hidden blocks are drawn only while they are
//! revealed. Blocks are appended and changed in place; only what is on disk too leaves, and a gap stands for it. Sends nothing,
//! reads nothing.

pub mod block;
pub mod compaction;
mod diff;
mod events;
mod excerpt;
mod find;
mod folded;
mod gap;
pub mod image;
mod markdown;
pub mod pasted;
pub mod print;
mod row;
mod select;
mod subagent;
mod tool;
mod window;

use self::image::State as ImageState;
use crate::highlight::Job;
use crate::page::Sheet;
use crate::text;
use crate::theme::Theme;
use becket_types::{BlobId, CallId, MessageId, Seq};
use block::{Block, Body};
use compaction::Known;
pub(crate) use events::{full, resumed_line};
use find::Find;
pub use find::{said_in, says};
pub use folded::{Folded, Folds};
pub use gap::Wanted;
use print::Printed;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use select::Selection;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use tool::CallView;
pub(crate) use tool::changed_lines;
use window::{Place, Window};

pub struct Transcript {
    blocks: Vec<Block>,
    calls: HashMap<CallId, usize>,
    /// Streaming parts by message and index.
    parts: HashMap<(MessageId, u32), usize>,
    window: Window,
    /// Hidden messages are shown, marked.
    revealed: bool,
    printed: Printed,
    /// It is a page: its text begins at the edge.
    page: bool,
    /// Only what was not printed is drawn.
    inline: bool,
    /// The turn is over: nothing of it will change.
    idle: bool,
    /// Entries before this one were taken out of the context.
    compacted_to: Seq,
    /// What was said before its first block was never here.
    partial: bool,
    /// What comes is in the ledger, and was said before.
    replays: bool,
    /// Where it was drawn, and what is in each row of it.
    area: Rect,
    seen: Vec<Place>,
    /// Code that came into view and is to be read.
    jobs: Vec<Job>,
    /// The number of the next image, where the terminal draws them; those that came into view and are to be had.
    next_image: Option<u32>,
    wanted: Vec<(u32, BlobId)>,
    /// Compactions that are open in view and whose loss is to be had; and those of which it is not known what they took out.
    losses: Vec<Seq>,
    folds_wanted: Vec<Seq>,
    /// Parts of gaps that are to be had.
    gaps_wanted: Vec<Wanted>,
    /// The first block of all is gone to when it is there.
    first_wanted: bool,
    find: Find,
    focus: Option<usize>,
    selection: Option<Selection>,
    view: Arc<CallView>,
    /// Files that calls of this turn changed.
    changed_files: BTreeSet<PathBuf>,
}

impl Default for Transcript {
    fn default() -> Self {
        Self::new()
    }
}

/// Cells of a row that its band covers: all of them, or those behind the text of a line that has its own colours.
fn band_area(line: &Line<'_>, row: Rect, whole: bool) -> Rect {
    let from = if whole { 0 } else { (line.width().min(usize::from(row.width))) as u16 };
    Rect { x: row.x + from, width: row.width - from, ..row }
}

impl Transcript {
    pub fn new() -> Self {
        Self {
            blocks: Vec::new(),
            calls: HashMap::new(),
            parts: HashMap::new(),
            window: Window::default(),
            revealed: false,
            printed: Printed::default(),
            page: false,
            inline: false,
            idle: false,
            compacted_to: Seq::default(),
            partial: false,
            replays: false,
            area: Rect::ZERO,
            seen: Vec::new(),
            jobs: Vec::new(),
            next_image: None,
            wanted: Vec::new(),
            losses: Vec::new(),
            folds_wanted: Vec::new(),
            gaps_wanted: Vec::new(),
            first_wanted: false,
            find: Find::default(),
            focus: None,
            selection: None,
            view: Arc::default(),
            changed_files: BTreeSet::new(),
        }
    }

    /// A page instead of a conversation.
    pub fn page() -> Self {
        Self { page: true, ..Self::new() }
    }

    /// A page that is data.
    pub fn sheet(sheet: Sheet) -> Self {
        let mut page = Self::page();
        page.push(Body::Sheet(sheet));
        page
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The chord that opens calls, as it is told under calls that come from now on.
    pub fn set_open_key(&mut self, open_key: String) {
        self.view = Arc::new(CallView { open_key, workspace: self.view.workspace.clone() });
    }

    /// Draws the part of it that `area` shows.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        self.area = area;
        let mut wanted = Vec::new();
        self.seen = if self.inline {
            let rows = self.live(area.width, theme);
            let above = rows.len().saturating_sub(usize::from(area.height));
            // Above these, too: what is behind an image is printed after it.
            wanted.extend(rows[..above].iter().map(|place| place.block));
            rows[above..].to_vec()
        } else {
            self.window.visible(&mut self.blocks, area.width, area.height, theme, self.revealed)
        };
        let buffer = frame.buffer_mut();
        for (y, place) in (area.y..area.bottom()).zip(&self.seen) {
            let block = &self.blocks[place.block];
            let line = block.line(place.row, theme);
            buffer.set_line(area.x, y, &line, area.width);
            // Not in the scrollback: a terminal that becomes narrower would wrap the rest of the row.
            if !self.inline
                && let Some(band) = if block.has_band(place.row) { theme.band() } else { Some(line.style) }
                && band.bg.is_some()
            {
                buffer.set_style(
                    band_area(&line, Rect { y, height: 1, ..area }, block.has_band(place.row)),
                    band,
                );
            }
            if theme.syntax.is_some() {
                self.jobs.extend(block.code(place.row).iter().filter_map(|part| part.code.wanted()));
            }
            self.mark(buffer, Rect { y, height: 1, ..area }, *place, theme);
        }
        wanted.extend(self.seen.iter().map(|place| place.block));
        wanted.dedup();
        for at in wanted {
            self.want(at);
        }
        self.want_near();
    }

    /// Over a row: the block in focus, hits, the selection.
    fn mark(&self, buffer: &mut Buffer, row: Rect, place: Place, theme: &Theme) {
        let mut over = |from: usize, to: usize, style: Style| {
            let from = from.min(usize::from(row.width)) as u16;
            let width =
                to.min(usize::from(row.width)) as u16 - from.min(to.min(usize::from(row.width)) as u16);
            buffer.set_style(Rect { x: row.x + from, width, ..row }, style);
        };
        let block = &self.blocks[place.block];
        if self.focus == Some(place.block) {
            over(0, usize::MAX, theme.selected);
        }
        if let Some(pattern) = &self.find.pattern {
            let (gutter, text, _) = block.text(place.row);
            for hit in pattern.find_iter(&text) {
                let from = gutter + text::width(&text[..hit.start()]);
                let current = self.find.place == Some(place);
                let style =
                    if current { Style::new().add_modifier(Modifier::REVERSED) } else { theme.selected };
                over(from, from + text::width(hit.as_str()), style.add_modifier(Modifier::UNDERLINED));
            }
        }
        if let Some((from, to)) = self.selection.and_then(|selection| selection.columns(place)) {
            over(from, to, Style::new().add_modifier(Modifier::REVERSED));
        }
    }

    /// Code that came into view since this was asked last.
    pub fn jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.jobs)
    }

    /// Images are drawn from now on; the first has this number on the terminal, the others those behind it.
    pub fn set_images(&mut self, first: Option<u32>) {
        self.next_image = first;
    }

    pub fn next_image(&self) -> Option<u32> {
        self.next_image
    }

    /// Images that came into view since this was asked last.
    pub fn images(&mut self) -> Vec<(u32, BlobId)> {
        std::mem::take(&mut self.wanted)
    }

    /// Where the bytes of an image are.
    pub fn image(&self, number: u32) -> Option<BlobId> {
        self.blocks.iter().rev().find_map(|block| match block.body() {
            Body::Image(image) if image.number == number => Some(image.blob.clone()),
            _ => None,
        })
    }

    /// The block has come into view: what it lacks is asked for, once.
    fn want(&mut self, at: usize) {
        match self.blocks[at].body() {
            Body::Image(image) if image.state == ImageState::New => {
                self.wanted.push((image.number, image.blob.clone()));
                self.set_image(at, ImageState::Asked);
            }
            Body::Compaction(compaction) if compaction.open && compaction.loss == Known::New => {
                let (entry, whole) = (compaction.entry, compaction.whole);
                self.losses.push(entry);
                if !whole {
                    self.folds_wanted.push(entry);
                }
                self.loss_is(entry, Known::Asked);
            }
            _ => {}
        }
    }

    /// What the message with this number says, where it is here.
    pub fn said_in(&self, seq: Seq) -> Option<String> {
        let of = self.blocks.iter().filter(|block| block.message().is_some_and(|(at, _)| at == seq));
        let said: Vec<_> = of.map(|block| block.source()).collect();
        (!said.is_empty()).then(|| said.join("\n\n"))
    }

    /// The terminal has this image, in so many columns and rows; `None`: there is nothing to show.
    pub fn image_is(&mut self, number: u32, size: Option<(u16, u16)>) {
        let shown = |(columns, rows)| ImageState::Shown(columns, rows);
        self.set_numbered(number, size.map_or(ImageState::Broken, shown));
    }

    /// It is asked for anew when it is in view.
    pub fn forget_image(&mut self, number: u32) {
        self.set_numbered(number, ImageState::New);
    }

    fn set_numbered(&mut self, number: u32, state: ImageState) {
        let is = |block: &Block| matches!(block.body(), Body::Image(image) if image.number == number);
        if let Some(at) = self.blocks.iter().rposition(is) {
            self.set_image(at, state);
        }
    }

    /// The terminal has forgotten them.
    pub fn forget_images(&mut self) {
        for at in 0..self.blocks.len() {
            self.set_image(at, ImageState::New);
        }
    }

    fn set_image(&mut self, at: usize, state: ImageState) {
        if matches!(self.blocks[at].body(), Body::Image(image) if image.state != state) {
            self.blocks[at].change(|body| {
                if let Body::Image(image) = body {
                    image.state = state;
                }
            });
        }
    }

    fn set_open(&mut self, at: usize, open: bool) {
        self.blocks[at].set_open(open);
        let Body::Tool(call) = self.blocks[at].body() else { return };
        let behind = call.group.len();
        for block in self.blocks.iter_mut().skip(at + 1).take(behind) {
            block.set_folded(!open);
        }
    }

    /// A block that is told in the line of another one gets its own again.
    fn unfold(&mut self, at: usize) {
        if self.blocks[at].is_folded()
            && let Some(first) = (0..at).rev().find(|i| !self.blocks[*i].is_folded())
        {
            self.set_open(first, true);
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
        let is = |i: usize| matches!(blocks[i].body(), Body::User { .. } | Body::Gap(_));
        self.window.jump(back, is, blocks.len());
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
        for at in 0..self.blocks.len() {
            self.set_open(at, open);
        }
    }

    /// The last answer as its source.
    pub fn last_answer(&self) -> Option<&str> {
        self.blocks.iter().rev().find_map(|b| match b.body() {
            Body::Answer { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }
}
