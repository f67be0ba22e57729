//! A full page of choices with a search line and a preview: sessions, messages to rewind to, messages to bring back.
//!
//! Owns its line, the matching rows (by their names, then by the messages they contain) and the scroll position of the
//! preview. [`Kind`] tells what a choice means. The app provides rows and previews.

use crate::composer::buffer::Buffer;
use crate::hint;
use crate::menu::Item;
use crate::overlay::titled;
use crate::text;
use crate::theme::Theme;
use crate::transcript::Markdown;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use frizbee::{Config, Matcher};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget as _};
use std::collections::BTreeSet;

/// Kind of thing that is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Session,
    /// A message of the user to rewind to.
    Message,
    /// Messages that a compaction removed from the context; several can be chosen.
    Removed,
}

/// Fewest rows of a page with a title and a line of keys.
const FRAMED: u16 = 8;
/// Rows that the list keeps above the preview, if there are fewer entries.
const LEAST_ROWS: u16 = 3;
/// A detail of at most this many columns stays, and a name that does not fit beside it is cut. A longer detail is left out instead.
const DETAIL: usize = 24;
/// Fewest characters with which messages are searched, too.
const LEAST: usize = 3;

/// One row. `id` identifies the choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub id: String,
    pub item: Item,
}

/// Rows, the search, and the preview.
pub struct Picker {
    kind: Kind,
    line: Buffer,
    /// `None` until the rows have arrived.
    rows: Option<Vec<Row>>,
    /// Indices of matching rows, best first.
    found: Vec<usize>,
    /// Words that the host searches in the messages of sessions.
    words: String,
    /// Ids of the sessions that contain `words`; `None` until the host has answered.
    saying: Option<Vec<String>>,
    chosen: usize,
    top: usize,
    preview: Option<(String, String)>,
    scroll: usize,
    /// Ids that are chosen in addition to the row at the cursor.
    marked: BTreeSet<String>,
}

/// Effect of a key press on the picker.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Stays,
    Closed,
    Chosen(String),
}

impl Picker {
    /// Opens the page. `query`: the initial search text. `rows`: `None` until they arrive.
    pub fn new(kind: Kind, query: &str, rows: Option<Vec<Row>>) -> Self {
        let mut line = Buffer::default();
        line.set(query);
        let mut picker = Self {
            kind,
            line,
            rows,
            found: Vec::new(),
            words: String::new(),
            saying: None,
            chosen: 0,
            top: 0,
            preview: None,
            scroll: 0,
            marked: BTreeSet::new(),
        };
        picker.search();
        picker
    }

    /// Returns the kind of thing that is chosen.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Sets the rows that were requested.
    pub(crate) fn set_rows(&mut self, rows: Vec<Row>) {
        self.rows = Some(rows);
        self.search();
    }

    fn search(&mut self) {
        let rows = self.rows.as_deref().unwrap_or_default();
        let query = self.line.text();
        self.found = if query.trim().is_empty() {
            (0..rows.len()).collect()
        } else {
            let texts: Vec<String> =
                rows.iter().map(|r| format!("{} {}", r.item.name, r.item.detail)).collect();
            Matcher::new(query, &Config::default())
                .match_list(&texts)
                .iter()
                .map(|m| m.index as usize)
                .collect()
        };
        self.add_saying();
        (self.chosen, self.top, self.scroll) = (0, 0, 0);
    }

    /// Returns the words to search in the messages of sessions, if they are new.
    pub fn asks(&mut self) -> Option<String> {
        let words = self.line.text().trim();
        if self.kind != Kind::Session || words.chars().count() < LEAST || words == self.words {
            return None;
        }
        (self.words, self.saying) = (words.to_owned(), None);
        Some(self.words.clone())
    }

    /// Adds the sessions that contain these words after the ones whose names match. The chosen row stays chosen.
    pub fn said(&mut self, words: &str, sessions: &[String]) {
        if words == self.words {
            self.saying = Some(sessions.to_vec());
            self.add_saying();
        }
    }

    fn add_saying(&mut self) {
        let Some(sessions) = self.saying.as_ref().filter(|_| self.line.text().trim() == self.words) else {
            return;
        };
        let rows = self.rows.as_deref().unwrap_or_default();
        for id in sessions {
            let at = rows.iter().position(|row| row.id == *id);
            self.found.extend(at.filter(|at| !self.found.contains(at)));
        }
    }

    fn row(&self) -> Option<&Row> {
        self.rows.as_deref()?.get(*self.found.get(self.chosen)?)
    }

    /// Returns the id of the row whose preview is missing.
    pub fn wants(&self) -> Option<&str> {
        let id = &self.row()?.id;
        self.preview.as_ref().is_none_or(|(shown, _)| shown != id).then_some(id.as_str())
    }

    /// Sets the preview of the row with this id.
    pub(crate) fn set_preview(&mut self, id: String, text: String) {
        self.preview = Some((id, text));
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Outcome {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let count = self.found.len();
        match key.code {
            KeyCode::Esc => return Outcome::Closed,
            KeyCode::Char('c' | 'g') if ctrl => return Outcome::Closed,
            KeyCode::Enter => {
                if !self.marked.is_empty() {
                    let ids: Vec<&str> = self.marked.iter().map(String::as_str).collect();
                    return Outcome::Chosen(ids.join(","));
                }
                return self.row().map_or(Outcome::Stays, |row| Outcome::Chosen(row.id.clone()));
            }
            KeyCode::Tab if self.kind == Kind::Removed => {
                if let Some(id) = self.row().map(|row| row.id.clone()) {
                    if !self.marked.remove(&id) {
                        self.marked.insert(id);
                    }
                    self.choose((self.chosen + 1).min(count.saturating_sub(1)));
                }
            }
            KeyCode::Up => self.choose(self.chosen.checked_sub(1).unwrap_or(count.saturating_sub(1))),
            KeyCode::Char('p') if ctrl => self.choose(self.chosen.saturating_sub(1)),
            KeyCode::Down => self.choose(if self.chosen + 1 < count { self.chosen + 1 } else { 0 }),
            KeyCode::Char('n') if ctrl => self.choose((self.chosen + 1).min(count.saturating_sub(1))),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(5),
            KeyCode::PageDown => self.scroll += 5,
            KeyCode::Char('u') if ctrl => {
                self.line.set("");
                self.search();
            }
            KeyCode::Backspace => {
                self.line.delete_back();
                self.search();
            }
            KeyCode::Char(c) if !ctrl => {
                self.line.insert(c.encode_utf8(&mut [0; 4]));
                self.search();
            }
            _ => {}
        }
        Outcome::Stays
    }

    fn choose(&mut self, at: usize) {
        (self.chosen, self.scroll) = (at, 0);
    }

    /// Pastes into the search line.
    pub fn paste(&mut self, pasted: &str) {
        self.line.insert(pasted.lines().next().unwrap_or_default());
        self.search();
    }

    /// Scrolls the preview by lines: up if negative, else down.
    pub fn scroll(&mut self, lines: isize) {
        self.scroll = self.scroll.saturating_add_signed(lines);
    }

    /// Draws the search line, the rows and the preview.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        Clear.render(area, frame.buffer_mut());
        if area.height == 0 || area.width == 0 {
            return;
        }
        let width = usize::from(area.width);
        let (title, keys) = match self.kind {
            Kind::Session => {
                ("resume", "↑ ↓ select · Enter resumes · PageDown scrolls the text · Esc closes")
            }
            Kind::Message => {
                ("rewind to before", "↑ ↓ select · Enter chooses · PageDown scrolls the text · Esc closes")
            }
            Kind::Removed => ("bring back", "↑ ↓ select · Tab marks · Enter brings back · Esc closes"),
        };
        let place = match self.found.len() {
            0 => String::new(),
            all => format!("{} of {all}", self.chosen + 1),
        };
        let title = titled(title, &place, width, theme);
        // With fewer than `FRAMED` rows, the title and the line of keys are left out.
        let (top, bottom) = (u16::from(area.height >= FRAMED), u16::from(area.height >= FRAMED));
        if top > 0 {
            frame.buffer_mut().set_line(area.x, area.y, &title, area.width);
            let short = keys.split(" · ").filter(|part| !part.starts_with("PageDown"));
            let short = short.collect::<Vec<_>>().join(" · ");
            let nothing = self.found.is_empty() && self.line.text().is_empty() && self.rows.is_some();
            let keys = if nothing {
                "Esc closes"
            } else if text::width(keys) <= width {
                keys
            } else {
                &short
            };
            frame.buffer_mut().set_line(
                area.x,
                area.bottom() - 1,
                &hint::line(keys, width, theme),
                area.width,
            );
        }
        let asked = Rect { y: area.y + top, height: 1, ..area };
        let cursor = self.draw_search(frame, asked, theme);
        let rest = Rect { y: asked.y + 1, height: area.height.saturating_sub(top + 1 + bottom), ..area };
        // The list takes the rows that it needs, and at most half of those below the search line.
        let most = if rest.height >= 10 { rest.height / 2 } else { rest.height };
        let split =
            if rest.height >= 10 { most.min((self.found.len() as u16).max(LEAST_ROWS)) } else { most };
        self.draw_rows(frame, Rect { height: split, ..rest }, theme);
        if split < rest.height {
            self.draw_preview(frame, Rect { y: rest.y + split, height: rest.height - split, ..rest }, theme);
        }
        frame.set_cursor_position(Position::new(area.x + cursor, asked.y));
    }

    /// Draws the line of the search. Returns the column of the cursor.
    fn draw_search(&self, frame: &mut Frame<'_>, row: Rect, theme: &Theme) -> u16 {
        let width = usize::from(row.width);
        let query = text::visible(self.line.text());
        let shown = text::fit(&query, width.saturating_sub(3)).into_owned();
        let cursor = (2 + text::width(&shown)).min(width - 1) as u16;
        let words = match &*shown {
            "" => Span::styled(text::fit("type to search", width.saturating_sub(2)).into_owned(), theme.dim),
            _ => Span::styled(shown, theme.text),
        };
        let line = Line::from(vec![Span::styled("› ", theme.accent), words]);
        frame.buffer_mut().set_line(row.x, row.y, &line, row.width);
        cursor
    }

    /// Returns why the list is empty.
    fn nothing(&self) -> &'static str {
        match self.kind {
            _ if !self.line.text().trim().is_empty() => "  Nothing matches. Ctrl-U empties the search.",
            Kind::Session => "  There is no other session in this folder.",
            Kind::Message => "  There is no message to go back to.",
            Kind::Removed => "  No compaction has removed a message.",
        }
    }

    fn draw_rows(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let width = usize::from(area.width);
        let shown = usize::from(area.height);
        if shown == 0 {
            return;
        }
        self.top = self.top.min(self.chosen).max((self.chosen + 1).saturating_sub(shown));
        let Some(rows) = &self.rows else {
            frame.buffer_mut().set_line(area.x, area.y, &Line::styled("…", theme.dim), area.width);
            return;
        };
        if self.found.is_empty() {
            let nothing = hint::line(self.nothing(), width, theme);
            frame.buffer_mut().set_line(area.x, area.y, &nothing, area.width);
        }
        for (y, at) in self.found.iter().enumerate().skip(self.top).take(shown) {
            let row = &rows[*at];
            let mark = if y == self.chosen { "❯ " } else { "  " };
            let mark = if self.marked.contains(&row.id) { "✓ " } else { mark };
            let detail = text::visible(&row.item.detail);
            let name = text::visible(&row.item.name);
            // A long detail, such as an id, is shown only where there is room for it.
            let room = width.saturating_sub(text::width(&detail) + 4);
            let keeps = text::width(&detail) <= DETAIL && room >= DETAIL || text::width(&name) <= room;
            let (detail, room) =
                if keeps && !detail.is_empty() { (&*detail, room) } else { ("", width.saturating_sub(2)) };
            let name = format!("{mark}{}", text::fit(&name, room));
            let fill = " ".repeat(width.saturating_sub(text::width(&name) + text::width(detail)));
            let here = y == self.chosen;
            let (style, dim) = if here { (theme.selected, theme.selected) } else { (theme.text, theme.dim) };
            let line =
                Line::from(vec![Span::styled(name + &fill, style), Span::styled(detail.to_owned(), dim)]);
            frame.buffer_mut().set_line(area.x, area.y + (y - self.top) as u16, &line, area.width);
        }
    }

    fn draw_preview(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let width = usize::from(area.width);
        let rule = Line::styled("─".repeat(width), theme.border);
        frame.buffer_mut().set_line(area.x, area.y, &rule, area.width);
        let Some((id, preview)) = &self.preview else { return };
        if self.row().is_none_or(|row| row.id != *id) {
            return;
        }
        let lines = match self.kind {
            Kind::Session => conversation(preview, width, theme),
            Kind::Message | Kind::Removed => plain(preview, "", theme.text, width),
        };
        let room = usize::from(area.height) - 1;
        self.scroll = self.scroll.min(lines.len().saturating_sub(room));
        for (y, line) in lines.iter().skip(self.scroll).take(room).enumerate() {
            frame.buffer_mut().set_line(area.x, area.y + 1 + y as u16, line, area.width);
        }
    }
}

/// Wraps a text after `lead`.
fn plain(text: &str, lead: &'static str, style: Style, width: usize) -> Vec<Line<'static>> {
    let rest = Span::raw(" ".repeat(text::width(lead)));
    let wrap = |line: &str| {
        text::wrap(
            &[Span::styled(text::visible(line).into_owned(), style)],
            width,
            &Span::styled(lead, style),
            &rest,
        )
    };
    text.lines().flat_map(wrap).collect()
}

/// Lays out the end of a session: messages of the user after `›`, and answers as Markdown.
fn conversation(preview: &str, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut answer = String::new();
    let flush = |answer: &mut String, lines: &mut Vec<Line<'static>>| {
        if !answer.trim().is_empty() {
            let mut layout = Markdown::default();
            let rows = layout.lay_out(answer.trim(), width.saturating_sub(2), theme);
            for row in (0..rows).filter_map(|at| layout.row(at)) {
                let mut line = row.styled(theme);
                line.spans.insert(0, Span::raw("  "));
                lines.push(line);
            }
            lines.push(Line::default());
        }
        answer.clear();
    };
    for line in preview.lines() {
        if let Some(prompt) = line.strip_prefix("› ") {
            flush(&mut answer, &mut lines);
            lines.extend(plain(prompt, "› ", theme.user, width));
            lines.push(Line::default());
        } else {
            answer.push_str(line);
            answer.push('\n');
        }
    }
    flush(&mut answer, &mut lines);
    lines
}
