//! A full page of choices with a search line and a preview: sessions, messages to rewind to, messages to bring back.
//!
//! Owns its line, the matching rows (by their names, then by the messages they contain) and the scroll position of the
//! preview. [`Kind`] tells what a choice means. The app provides rows and previews.

use crate::composer::buffer::Buffer;
use crate::menu::Item;
use crate::text;
use crate::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use frizbee::{Config, Matcher};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
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
    Folded,
}

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
    /// Words searched in messages, and the ids of the sessions that contain them; `None` while unknown.
    words: String,
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
            KeyCode::Tab if self.kind == Kind::Folded => {
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
        let title = match self.kind {
            Kind::Session => "resume",
            Kind::Message => "back to before",
            Kind::Folded => "bring back (Tab marks, Enter)",
        };
        let asked =
            text::fit(&format!("{title}: {}", text::visible(self.line.text())), width - 1).into_owned();
        let cursor = text::width(&asked).min(width - 1) as u16;
        frame.buffer_mut().set_line(area.x, area.y, &Line::styled(asked, theme.accent), area.width);
        let rest = Rect { y: area.y + 1, height: area.height - 1, ..area };
        let split = if rest.height >= 10 { rest.height / 2 } else { rest.height };
        self.draw_rows(frame, Rect { height: split, ..rest }, theme);
        if split < rest.height {
            self.draw_preview(frame, Rect { y: rest.y + split, height: rest.height - split, ..rest }, theme);
        }
        frame.set_cursor_position(Position::new(area.x + cursor, area.y));
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
            let nothing =
                Line::styled(text::fit("nothing that matches · Esc closes", width).into_owned(), theme.dim);
            frame.buffer_mut().set_line(area.x, area.y, &nothing, area.width);
        }
        for (y, at) in self.found.iter().enumerate().skip(self.top).take(shown) {
            let row = &rows[*at];
            let mark = if y == self.chosen { "❯ " } else { "  " };
            let mark = if self.marked.contains(&row.id) { "✓ " } else { mark };
            let detail = text::visible(&row.item.detail).into_owned();
            let line = format!("{mark}{}  {detail}", text::visible(&row.item.name));
            let line = text::fit(&line, width).into_owned();
            let fill = " ".repeat(width.saturating_sub(text::width(&line)));
            let style = if y == self.chosen { theme.selected } else { theme.text };
            let line = Line::from(vec![Span::styled(line, style), Span::styled(fill, style)]);
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
        let mut lines = Vec::new();
        for line in preview.lines() {
            let span = Span::styled(text::visible(line).into_owned(), theme.text);
            lines.extend(text::wrap(&[span], width, &Span::raw(""), &Span::raw("")));
        }
        let room = usize::from(area.height) - 1;
        self.scroll = self.scroll.min(lines.len().saturating_sub(room));
        for (y, line) in lines.iter().skip(self.scroll).take(room).enumerate() {
            frame.buffer_mut().set_line(area.x, area.y + 1 + y as u16, line, area.width);
        }
    }
}
