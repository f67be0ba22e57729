//! The transcript: the user's and the agent's messages and actions as blocks, newest at the bottom.
//!
//! Owns the blocks ([`block`], `blocks`), their derivation from events (`events`), ranges that are not in memory (`gap`, `eviction`),
//! the window on them (`window`), search (`find`), focus and selection (`select`). The cost of drawing depends on what is
//! visible: a block is laid out when it comes into view, and keeps its rows until it, the width or the theme changes.
//! Code in view that was not parsed yet is returned as a job.
//!
//! Invariants: a message that is not for the user becomes a hidden block, and hidden blocks are drawn only while they
//! are revealed. Blocks are appended and changed in place. Only blocks that are also on disk are evicted, and a gap
//! replaces them. Sends nothing and reads nothing.

pub mod block;
mod blocks;
mod call_view;
mod command_line;
pub mod compaction;
mod diff;
mod events;
mod eviction;
mod excerpt;
mod find;
mod gap;
pub mod image;
mod long_answer;
mod markdown;
pub mod pasted;
pub mod print;
mod removed;
mod row;
mod select;
mod subagent;
mod tool;
mod tool_rows;
mod wants;
mod window;

use self::image::State as ImageState;
use crate::highlight::Job;
use crate::page::Sheet;
use crate::paths::ShortPaths;
use crate::text;
use crate::theme::Theme;
use becket_types::{BlobId, CallId, Event, Seq};
use block::{Block, Body, Weight};
use blocks::Blocks;
use call_view::CallView;
use compaction::LossReport;
pub(crate) use diff::{DiffLine, changed_words, without_blank_ends};
pub(crate) use events::{full, resumed_line};
use find::{Find, Move};
pub use find::{said_in, says};
pub use gap::Wanted;
pub(crate) use markdown::Markdown;
use print::Printed;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
pub use removed::{Removed, RemovedMessages};
use select::Selection;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wants::Wants;
use window::{RowPosition, Window};

/// The blocks of a session, the window on them, and what they need from the host.
#[derive(Default)]
pub struct Transcript {
    blocks: Blocks,
    window: Window,
    /// Hidden messages are drawn, with a mark.
    revealed: bool,
    printed: Printed,
    /// Only what was not printed is drawn.
    inline: bool,
    /// Area of the last frame, and the position shown in each of its rows.
    area: Rect,
    seen: Vec<RowPosition>,
    wants: Wants,
    find: Find,
    focus: Option<usize>,
    selection: Option<Selection>,
}

impl Transcript {
    /// Creates an empty transcript.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a page instead of a conversation.
    pub fn page() -> Self {
        let mut page = Self::new();
        page.blocks.page = true;
        page
    }

    /// Creates a page that is drawn from data.
    pub fn sheet(sheet: Sheet) -> Self {
        let mut page = Self::page();
        page.blocks.push(Body::Sheet(sheet));
        page
    }

    /// Returns the first row of the user's message whose answer is at the top of the view; `None` if the view begins with the message
    /// itself, follows the end and contains a newer message, or shows a block in focus or a hit, which the row must not cover.
    pub(crate) fn prompt_above(&mut self, width: u16, theme: &Theme) -> Option<Line<'static>> {
        let reads = self.inline || self.focus.is_some() || self.find.pattern.is_some();
        let first = self.seen.first().filter(|_| !reads).copied()?;
        let is_prompt = |at: usize| matches!(self.blocks[at].body(), Body::User { .. });
        let newer = self.follows() && self.seen.iter().any(|place| place.row == 0 && is_prompt(place.block));
        // While a row of the message itself is at the top, the row would cover a part of it. Directly above the next message it would look
        // like a part of that one.
        let own = is_prompt(first.block) && self.blocks[first.block].is_row(first.row);
        let next = self.seen.get(1).is_some_and(|place| place.row == 0 && is_prompt(place.block));
        if newer || own || next {
            return None;
        }
        let top = first.block;
        // Text after a gap belongs to a message that is not in memory.
        let begins = |at: &usize| matches!(self.blocks[*at].body(), Body::User { .. } | Body::Gap(_));
        let at = (0..=top).rev().find(begins)?;
        let block = &mut self.blocks[at];
        if matches!(block.body(), Body::Gap(_)) {
            return None;
        }
        let rows = block.lay_out(width, theme);
        let mut line = block.line(0, theme);
        let next = if rows > 1 { block.line(1, theme).to_string() } else { String::new() };
        if !next.trim().is_empty() {
            // A message of more than two rows ends with `…`. `rows` counts the blank row after it, too.
            let more = if rows > 3 { "…" } else { "" };
            let style = line.spans.first().map(|span| span.style).unwrap_or_default();
            let words = format!("{} {}{more}", line.to_string().trim_end(), next.trim());
            line = Line::styled(text::fit_words(&words, usize::from(width)).into_owned(), style);
        }
        let band = theme.prompt_band();
        line.spans.iter_mut().for_each(|span| span.style = span.style.patch(band));
        Some(line.patch_style(band))
    }

    /// True if the first or the last of the user's messages begins like `words`: the first 20 characters without spaces are compared.
    pub fn has_prompt(&self, words: &str) -> bool {
        let solid = |text: &str| {
            text.chars().filter(|c| !c.is_whitespace() && *c != '…').take(20).collect::<String>()
        };
        let begins = |block: &Block| match block.body() {
            Body::User { text, .. } => Some(solid(text).starts_with(&solid(words))),
            _ => None,
        };
        let first = self.blocks.iter().find_map(begins);
        first == Some(true) || self.blocks.iter().rev().find_map(begins) == Some(true)
    }

    /// True if there is no block.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Sets the chord that opens calls, as it is shown under later calls, the home folder, which is shown as `~`, and the folder
    /// of the session.
    pub(crate) fn set_view(&mut self, open_key: Option<String>, home: Option<PathBuf>, workspace: &Path) {
        let workspace = workspace.display().to_string();
        let open_key = open_key.unwrap_or_else(|| self.blocks.view.open_key.clone());
        self.blocks.view = Arc::new(CallView { workspace, open_key, home });
    }

    /// Returns the short forms of paths in texts.
    pub(crate) fn paths(&self) -> ShortPaths {
        self.blocks.view.paths()
    }

    /// Applies one event. Returns true if the screen may have changed.
    pub fn event(&mut self, event: &Event) -> bool {
        self.blocks.event(event)
    }

    /// Adds a line by becket itself. Paths in it get their short forms.
    pub fn note(&mut self, weight: Weight, text: &str) {
        let text = self.paths().shorten(text);
        self.blocks.note(weight, text);
    }

    /// Adds a line about the permission mode. If the last line is about the mode as well, it is replaced: only the last of several
    /// changes matters.
    pub(crate) fn mode_note(&mut self, text: String) {
        let is_mode = |block: &Block| matches!(block.body(), Body::Note { weight: Weight::Mode, .. });
        let last = self
            .blocks
            .len()
            .checked_sub(1)
            .filter(|at| !self.printed.has(*at) && is_mode(&self.blocks[*at]));
        match last {
            Some(at) => self.blocks[at].change(|body| *body = Body::Note { weight: Weight::Mode, text }),
            None => self.blocks.note(Weight::Mode, text),
        }
    }

    /// Shows in the line of a call how the user allowed it.
    pub fn allowed(&mut self, id: &CallId, how: &'static str) {
        self.blocks.call(id, "", |call| call.output.allowed = how);
    }

    /// Sets the seconds since the turn began, which select the spinner's sign of calls that begin now.
    pub(crate) fn set_beat(&mut self, beat: u64) {
        self.blocks.turn.beat = beat;
    }

    /// Handles the passing of a second.
    pub(crate) fn tick(&mut self, beat: u64) {
        self.blocks.tick(beat);
    }

    /// Draws the part of the transcript that fits into `area`.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        self.draw_beside(frame, area, theme, None);
    }

    /// Draws the transcript above the question about the call `asked`. If that call is the last block and only waits, its rows
    /// are left out. Returns the number of rows drawn.
    pub(crate) fn draw_beside(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        theme: &Theme,
        asked: Option<&CallId>,
    ) -> u16 {
        let mut wanted = Vec::new();
        self.seen = if self.inline {
            let rows = self.printed.live(&mut self.blocks, self.revealed, area.width, theme);
            let above = rows.len().saturating_sub(usize::from(area.height));
            // Images above these rows are needed as well, because lines after an image are printed only once it is
            // there.
            wanted.extend(rows[..above].iter().map(|place| place.block));
            rows[above..].to_vec()
        } else {
            self.window.visible(&mut self.blocks, area.width, area.height, theme, self.revealed)
        };
        let all = self.seen.len();
        if let Some(asking) = self.asking(asked) {
            self.seen.retain(|place| place.block != asking);
        }
        let left_out = (all - self.seen.len()) as u16;
        let area = self.at_the_bottom(area, left_out);
        self.area = area;
        let buffer = frame.buffer_mut();
        for (y, place) in (area.y..area.bottom()).zip(&self.seen) {
            let block = &self.blocks[place.block];
            let line = block.line(place.row, theme);
            buffer.set_line(area.x, y, &line, area.width);
            // Inline mode has no background, because a terminal that becomes narrower would wrap the rest of the row.
            let (is_prompt, is_code) = (block.has_band(place.row), block.is_code(place.row));
            let band = match (is_prompt, is_code) {
                (true, _) => Some(theme.prompt_band()),
                (_, true) => theme.code_band(),
                _ => Some(line.style),
            };
            if let Some(band) = band.filter(|band| !self.inline && (is_prompt || band.bg.is_some())) {
                let row = Rect { y, height: 1, ..area };
                buffer.set_style(row::band_area(&line, row, is_prompt || is_code), band);
            }
            if theme.syntax.is_some() {
                self.wants.jobs.extend(block.code(place.row).iter().filter_map(|part| part.code.wanted()));
            }
            self.mark(buffer, Rect { y, height: 1, ..area }, *place, theme);
        }
        wanted.extend(self.seen.iter().map(|place| place.block));
        wanted.dedup();
        for at in wanted {
            self.want(at);
        }
        self.want_near();
        self.seen.len() as u16
    }

    /// Returns the part of `area` that the rows in view fill. A conversation that is shorter than its area is drawn at the bottom,
    /// next to the composer or to a question, whose place then never changes, unless it has images. `left_out`: rows of the area for rows that are not
    /// drawn.
    fn at_the_bottom(&self, area: Rect, left_out: u16) -> Rect {
        let rows = self.seen.len().min(usize::from(u16::MAX)) as u16;
        let free = area.height.saturating_sub(left_out).saturating_sub(rows);
        // Some terminals get an image again for each row that it moves, so it stays where it is while there is room.
        let is_image = |place: &RowPosition| matches!(self.blocks[place.block].body(), Body::Image(_));
        if self.blocks.page || self.inline || !self.follows() || rows == 0 || self.seen.iter().any(is_image) {
            return area;
        }
        Rect { y: area.y + free, height: area.height - free, ..area }
    }

    /// Returns the rows at the end of the view that only say that the last call waits for an answer. A question that is on
    /// the screen says that itself.
    pub(crate) fn asking_rows(&mut self, width: u16, theme: &Theme, asked: Option<&CallId>) -> u16 {
        self.asking(asked).map_or(0, |at| self.blocks[at].lay_out(width, theme) as u16)
    }

    /// Counts the rows at the end of the transcript without those of the call `asked`, at most `most`.
    pub(crate) fn rows_beside(
        &mut self,
        width: u16,
        theme: &Theme,
        asked: Option<&CallId>,
        most: u16,
    ) -> u16 {
        let end = self.asking(asked).unwrap_or(self.blocks.len());
        let mut rows = 0;
        for at in (0..end).rev() {
            if rows >= usize::from(most) {
                break;
            }
            if self.blocks[at].is_shown(self.revealed) {
                rows += self.blocks[at].lay_out(width, theme);
            }
        }
        rows.min(usize::from(most)) as u16
    }

    /// Returns the block of the call `asked`, if it is the last one and says only that it waits.
    fn asking(&self, asked: Option<&CallId>) -> Option<usize> {
        let last = self.blocks.len().checked_sub(1).filter(|_| !self.inline && self.follows())?;
        let Body::Tool(call) = self.blocks[last].body() else { return None };
        // The question shows more of the call than an open block would.
        let waits = Some(&call.id) == asked && call.state == tool::State::Asking;
        (waits && self.focus != Some(last)).then_some(last)
    }

    /// Draws over a row: the focused block, search hits, the selection.
    fn mark(&self, buffer: &mut Buffer, row: Rect, place: RowPosition, theme: &Theme) {
        let mut over = |from: usize, to: usize, style: Style| {
            let from = from.min(usize::from(row.width)) as u16;
            let width =
                to.min(usize::from(row.width)) as u16 - from.min(to.min(usize::from(row.width)) as u16);
            for x in row.x + from..row.x + from + width {
                let cell = &mut buffer[(x, row.y)];
                // On text in reverse video, a mark that reverses takes the reversal back, so that it stays visible.
                let reversed = style.add_modifier & cell.modifier & Modifier::REVERSED;
                cell.set_style(style.remove_modifier(reversed));
            }
        };
        let block = &self.blocks[place.block];
        if self.focus == Some(place.block) && block.is_row(place.row) {
            over(0, usize::MAX, theme.selected);
        }
        if let Some(pattern) = &self.find.pattern {
            let (gutter, text, _) = block.text(place.row);
            for hit in pattern.find_iter(&text) {
                let columns = text::columns_of(&text, hit.range());
                let current = self.find.place == Some(place);
                let style =
                    if current { Style::new().add_modifier(Modifier::REVERSED) } else { theme.selected };
                let style = style.add_modifier(Modifier::UNDERLINED);
                over(gutter + columns.start, gutter + columns.end, style);
            }
        }
        if let Some((from, to)) = self.selection.and_then(|selection| selection.columns(place)) {
            over(from, to, Style::new().add_modifier(Modifier::REVERSED));
        }
    }

    /// Returns the code that came into view since the last call.
    pub fn jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.wants.jobs)
    }

    /// Turns on images. `first`: the terminal's number for the first one; later ones count up from it.
    pub(crate) fn set_images(&mut self, first: Option<u32>) {
        self.blocks.next_image = first;
    }

    /// Returns the images that came into view since the last call.
    pub fn images(&mut self) -> Vec<(u32, BlobId)> {
        std::mem::take(&mut self.wants.images)
    }

    /// Returns the blob with the bytes of an image.
    pub fn image(&self, number: u32) -> Option<BlobId> {
        self.blocks.image(number)
    }

    /// Requests, once, what the block lacks when it comes into view.
    fn want(&mut self, at: usize) {
        match self.blocks[at].body() {
            Body::Image(image) if image.state == ImageState::New => {
                self.wants.images.push((image.number, image.blob.clone()));
                self.blocks.set_image(at, ImageState::Asked);
            }
            Body::Compaction(compaction) if compaction.open && compaction.loss == LossReport::New => {
                let (entry, whole) = (compaction.entry, compaction.whole);
                self.wants.losses.push(entry);
                if !whole {
                    self.wants.removed.push(entry);
                }
                self.loss_is(entry, LossReport::Asked);
            }
            _ => {}
        }
    }

    /// Returns the text of the message with this entry number, if it is in memory.
    pub fn said_in(&self, seq: Seq) -> Option<String> {
        self.blocks.said_in(seq)
    }

    /// Records that the terminal has this image in this many columns and rows; `None`: it cannot be shown.
    pub(crate) fn image_is(&mut self, number: u32, size: Option<(u16, u16)>) {
        let shown = |(columns, rows)| ImageState::Shown(columns, rows);
        self.blocks.set_numbered(number, size.map_or(ImageState::Broken, shown));
    }

    /// Forgets an image, so that it is requested again when it comes into view.
    pub(crate) fn forget_image(&mut self, number: u32) {
        self.blocks.set_numbered(number, ImageState::New);
    }

    /// Forgets all images, because the terminal discarded them.
    pub fn forget_images(&mut self) {
        for at in 0..self.blocks.len() {
            self.blocks.set_image(at, ImageState::New);
        }
    }

    /// Scrolls by lines: up if negative, else down.
    pub fn scroll(&mut self, lines: isize, theme: &Theme) {
        self.window.scroll(&mut self.blocks, lines, theme, self.revealed);
    }

    /// Scrolls by screens: up if negative, else down.
    pub(crate) fn scroll_pages(&mut self, pages: isize, theme: &Theme) {
        let page = self.window.height().saturating_sub(2).max(1);
        self.scroll(pages * page as isize, theme);
    }

    /// Moves the window to the end and follows it.
    pub(crate) fn scroll_to_end(&mut self) {
        self.window.follow();
    }

    /// Returns the numbers of the first and the last row in view, counted from 1, and the number of all rows. For pages, whose
    /// rows are few: all of them are laid out.
    pub fn position(&mut self, theme: &Theme) -> Option<(usize, usize, usize)> {
        let (first, last) = (*self.seen.first()?, *self.seen.last()?);
        let (mut before, mut all) = ((0, 0), 0);
        for (at, block) in self.blocks.iter_mut().enumerate() {
            if at == first.block {
                before.0 = all;
            }
            if at == last.block {
                before.1 = all;
            }
            if block.is_shown(self.revealed) {
                all += block.lay_out(self.area.width, theme);
            }
        }
        Some((before.0 + first.row + 1, before.1 + last.row + 1, all))
    }

    /// Adds a shell command of the user that has ended.
    pub fn shell(&mut self, command: &str, output: &str, failed: bool, details: &Value) {
        self.blocks.shell(command, output, failed, details);
    }

    /// True if the newest lines are in view and stay so while more arrive.
    pub fn follows(&self) -> bool {
        self.window.follows()
    }

    /// Moves to the user message before (or after) the top of the window.
    pub(crate) fn scroll_to_user_message(&mut self, back: bool) {
        let blocks = &self.blocks;
        let is = |i: usize| matches!(blocks[i].body(), Body::User { .. } | Body::Gap(_));
        self.window.jump(back, is, blocks.len());
    }

    /// Reveals or hides messages for the model only.
    pub(crate) fn toggle_hidden(&mut self) {
        self.revealed = !self.revealed;
    }

    /// True if messages for the model only are revealed.
    pub fn revealed(&self) -> bool {
        self.revealed
    }

    /// Opens or closes all tool calls and thoughts: opens them if the newest is closed, else closes them.
    pub(crate) fn toggle_open(&mut self) {
        self.blocks.toggle_open();
    }

    /// Returns the Markdown source of the last answer.
    pub(crate) fn last_answer(&self) -> Option<&str> {
        self.blocks.last_answer()
    }

    /// Returns the compactions whose loss report is needed since the last call.
    pub(crate) fn losses(&mut self) -> Vec<Seq> {
        std::mem::take(&mut self.wants.losses)
    }

    /// Returns the compactions that came into view since the last call and whose removed messages are unknown.
    pub(crate) fn wanted_removed(&mut self) -> Vec<Seq> {
        std::mem::take(&mut self.wants.removed)
    }

    /// Sets the loss report of this compaction.
    pub(crate) fn loss_is(&mut self, entry: Seq, known: LossReport) {
        self.blocks.change_compaction(entry, |compaction| compaction.loss = known);
    }

    /// Sets the messages that this compaction removed.
    pub(crate) fn set_removed(&mut self, entry: Seq, removed: Vec<(Seq, String)>) {
        self.blocks.change_compaction(entry, |compaction| {
            compaction.dropped = removed;
            compaction.whole = true;
        });
    }

    /// True if there may be messages to bring back.
    pub(crate) fn may_bring_back(&self) -> bool {
        self.blocks.may_bring_back(self.focus)
    }

    /// Returns the messages that compactions removed. If a block has focus, only those of that block's compaction.
    pub fn removed(&self) -> Removed {
        self.blocks.removed(self.focus)
    }

    /// Draws only what was not printed, from now on.
    pub(crate) fn set_inline(&mut self) {
        self.inline = true;
    }

    /// Returns the lines that were not printed yet, and marks them as printed. `all`: includes lines that may still
    /// change.
    pub fn print(&mut self, width: u16, theme: &Theme, all: bool) -> Vec<Line<'static>> {
        self.printed.print(&mut self.blocks, self.inline, width, theme, all)
    }

    /// Returns how many of the last rows that were not printed fit into `room` rows after a terminal wraps rows at
    /// `columns`.
    pub(crate) fn live_rows(&mut self, width: u16, theme: &Theme, columns: u16, room: usize) -> usize {
        let live = self.printed.live(&mut self.blocks, self.revealed, width, theme);
        let mut taken = 0;
        let fits = |place: &&RowPosition| {
            taken += print::broken(&self.blocks[place.block].line(place.row, theme), columns);
            taken <= room
        };
        live.iter().rev().take_while(fits).count()
    }

    /// Searches for `words`; all in lower case means any case. Shows the newest hit that is not below the view.
    pub fn find(&mut self, words: &str, theme: &Theme) {
        let bottom = self.seen.last().map_or(usize::MAX, |place| place.block);
        self.find = Find::new(words, &self.blocks, self.revealed, bottom);
        self.show_hit(theme);
    }

    /// Moves to the next or the previous hit, and wraps around at the ends.
    pub(crate) fn find_next(&mut self, back: bool, theme: &Theme) {
        match self.find.next(&self.blocks, self.revealed, back) {
            Move::Waiting => {}
            Move::Gap(at, want) => {
                if self.want_gap(at, want) {
                    self.find.set_looked();
                }
            }
            Move::Done => self.show_hit(theme),
        }
    }

    /// Handles the result of a search in a gap. `part`: the range of entries that has arrived; `None` if the gap does
    /// not contain the words.
    pub(crate) fn found_past(&mut self, from: Seq, to: Seq, part: Option<(Seq, Seq)>, theme: &Theme) {
        if let Some(back) = self.find.arrived(&self.blocks, self.revealed, (from, to), part) {
            self.find_next(back, theme);
        }
    }

    /// True while the host searches entries that are not in memory.
    pub(crate) fn is_finding(&self) -> bool {
        self.find.is_waiting()
    }

    /// Returns the number of the current hit, counted from 1, or 0 if there is none, and the count of hits. The third
    /// value is true if entries that are not in memory may contain more.
    pub fn found(&self) -> (usize, usize, bool) {
        self.find.found(&self.blocks)
    }

    /// Ends the search.
    pub(crate) fn end_find(&mut self) {
        self.find = Find::default();
    }

    fn show_hit(&mut self, theme: &Theme) {
        self.find.show(&mut self.blocks, &mut self.window, theme, self.revealed);
    }
}
