//! The transcript: the user's and the agent's messages and actions as blocks, newest at the bottom.
//!
//! Owns the blocks ([`block`]), their derivation from events (`events`), ranges that are not in memory (`gap`), the
//! window on them (`window`), search (`find`), focus and selection (`select`). The cost of drawing depends on what is
//! visible: a block is laid out when it comes into view, and keeps its rows until it, the width or the theme changes.
//! Code in view that was not parsed yet is returned as a job.
//!
//! Invariants: a message that is not for the user becomes a hidden block, and hidden blocks are drawn only while they
//! are revealed. Blocks are appended and changed in place. Only blocks that are also on disk are evicted, and a gap
//! replaces them. Sends nothing and reads nothing.

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
pub use folded::{Folded, RemovedMessages};
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

/// The blocks of a session, the window on them, and what they need from the host.
pub struct Transcript {
    blocks: Vec<Block>,
    calls: HashMap<CallId, usize>,
    /// Streaming parts by message and index.
    parts: HashMap<(MessageId, u32), usize>,
    window: Window,
    /// Hidden messages are drawn, with a mark.
    revealed: bool,
    printed: Printed,
    /// This is a page: its text begins at the left edge.
    page: bool,
    /// Only what was not printed is drawn.
    inline: bool,
    /// The turn is over, so nothing of it will change.
    idle: bool,
    /// Entries before this one were removed from the context.
    compacted_to: Seq,
    /// Earlier entries of the session were not loaded, or were evicted.
    partial: bool,
    /// Events come from the ledger, not from a running agent.
    replays: bool,
    /// Area of the last frame, and the place shown in each of its rows.
    area: Rect,
    seen: Vec<Place>,
    /// Code that came into view and needs to be parsed.
    jobs: Vec<Job>,
    /// The number of the next image, if the terminal draws images, and the images that came into view.
    next_image: Option<u32>,
    wanted: Vec<(u32, BlobId)>,
    /// Compactions whose loss report is needed, and compactions whose removed messages are needed.
    losses: Vec<Seq>,
    folds_wanted: Vec<Seq>,
    /// Parts of gaps to request.
    gaps_wanted: Vec<Wanted>,
    /// The view goes to the first block when that arrives.
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

/// Returns the cells of a row that its background covers: all of them, or those after the text of a line with colours
/// of its own.
fn band_area(line: &Line<'_>, row: Rect, whole: bool) -> Rect {
    let from = if whole { 0 } else { (line.width().min(usize::from(row.width))) as u16 };
    Rect { x: row.x + from, width: row.width - from, ..row }
}

impl Transcript {
    /// Creates an empty transcript.
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

    /// Creates a page instead of a conversation.
    pub fn page() -> Self {
        Self { page: true, ..Self::new() }
    }

    /// Creates a page that is drawn from data.
    pub fn sheet(sheet: Sheet) -> Self {
        let mut page = Self::page();
        page.push(Body::Sheet(sheet));
        page
    }

    /// True if there is no block.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Sets the chord that opens calls, as it is shown under later calls.
    pub fn set_open_key(&mut self, open_key: String) {
        self.view = Arc::new(CallView { open_key, workspace: self.view.workspace.clone() });
    }

    /// Draws the part of the transcript that fits into `area`.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        self.area = area;
        let mut wanted = Vec::new();
        self.seen = if self.inline {
            let rows = self.live(area.width, theme);
            let above = rows.len().saturating_sub(usize::from(area.height));
            // Images above these rows are needed as well, because lines after an image are printed only once it is
            // there.
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
            // Inline mode has no background, because a terminal that becomes narrower would wrap the rest of the row.
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

    /// Draws over a row: the focused block, search hits, the selection.
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

    /// Returns the code that came into view since the last call.
    pub fn jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.jobs)
    }

    /// Turns on images. `first`: the terminal's number for the first one; later ones count up from it.
    pub fn set_images(&mut self, first: Option<u32>) {
        self.next_image = first;
    }

    /// Returns the number for the next image, `None` if images are off.
    pub fn next_image(&self) -> Option<u32> {
        self.next_image
    }

    /// Returns the images that came into view since the last call.
    pub fn images(&mut self) -> Vec<(u32, BlobId)> {
        std::mem::take(&mut self.wanted)
    }

    /// Returns the blob with the bytes of an image.
    pub fn image(&self, number: u32) -> Option<BlobId> {
        self.blocks.iter().rev().find_map(|block| match block.body() {
            Body::Image(image) if image.number == number => Some(image.blob.clone()),
            _ => None,
        })
    }

    /// Requests, once, what the block lacks when it comes into view.
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

    /// Returns the text of the message with this number, if it is in memory.
    pub fn said_in(&self, seq: Seq) -> Option<String> {
        let of = self.blocks.iter().filter(|block| block.message().is_some_and(|(at, _)| at == seq));
        let said: Vec<_> = of.map(|block| block.source()).collect();
        (!said.is_empty()).then(|| said.join("\n\n"))
    }

    /// Records that the terminal has this image in this many columns and rows; `None`: it cannot be shown.
    pub fn image_is(&mut self, number: u32, size: Option<(u16, u16)>) {
        let shown = |(columns, rows)| ImageState::Shown(columns, rows);
        self.set_numbered(number, size.map_or(ImageState::Broken, shown));
    }

    /// Forgets an image, so that it is requested again when it comes into view.
    pub fn forget_image(&mut self, number: u32) {
        self.set_numbered(number, ImageState::New);
    }

    fn set_numbered(&mut self, number: u32, state: ImageState) {
        let is = |block: &Block| matches!(block.body(), Body::Image(image) if image.number == number);
        if let Some(at) = self.blocks.iter().rposition(is) {
            self.set_image(at, state);
        }
    }

    /// Forgets all images, because the terminal discarded them.
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

    /// Gives a block its own lines again that was summarized in the line of another call.
    fn unfold(&mut self, at: usize) {
        if self.blocks[at].is_folded()
            && let Some(first) = (0..at).rev().find(|i| !self.blocks[*i].is_folded())
        {
            self.set_open(first, true);
        }
    }

    /// Scrolls by lines: up if negative, else down.
    pub fn scroll(&mut self, lines: isize, theme: &Theme) {
        self.window.scroll(&mut self.blocks, lines, theme, self.revealed);
    }

    /// Scrolls by screens: up if negative, else down.
    pub fn scroll_pages(&mut self, pages: isize, theme: &Theme) {
        let page = self.window.height().saturating_sub(2).max(1);
        self.scroll(pages * page as isize, theme);
    }

    /// Moves the window to the end and follows it.
    pub fn to_end(&mut self) {
        self.window.follow();
    }

    /// True if the newest lines are in view and stay so while more arrive.
    pub fn follows(&self) -> bool {
        self.window.follows()
    }

    /// Moves to the user message before (or after) the top of the window.
    pub fn to_user_message(&mut self, back: bool) {
        let blocks = &self.blocks;
        let is = |i: usize| matches!(blocks[i].body(), Body::User { .. } | Body::Gap(_));
        self.window.jump(back, is, blocks.len());
    }

    /// Reveals or hides messages for the model only.
    pub fn toggle_hidden(&mut self) {
        self.revealed = !self.revealed;
    }

    /// True if messages for the model only are revealed.
    pub fn revealed(&self) -> bool {
        self.revealed
    }

    /// Opens or closes all tool calls and thoughts: opens them if the newest is closed, else closes them.
    pub fn toggle_open(&mut self) {
        let open = !self.blocks.iter().rev().find_map(Block::open).unwrap_or(false);
        for at in 0..self.blocks.len() {
            self.set_open(at, open);
        }
    }

    /// Returns the Markdown source of the last answer.
    pub fn last_answer(&self) -> Option<&str> {
        self.blocks.iter().rev().find_map(|b| match b.body() {
            Body::Answer { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }
}
