//! The command palette: a search line over the table of commands, independent of the composer.
//!
//! Owns its line and its menu. A choice returns the command as it would have been typed.

use crate::completion::{Choice, Completion};
use crate::composer::buffer::Buffer;
use crate::input::{Custom, Effect};
use crate::menu::Item;
use crate::text;
use crate::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

/// The line of the palette and its menu.
pub struct Palette {
    line: Buffer,
    completion: Completion,
}

/// Effect of a key press on the palette.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    Stays(Vec<Effect>),
    Closed,
    /// This command was chosen, with its slash.
    Chosen(String),
}

impl Palette {
    /// Opens the palette. `customs`: commands of the user and the project.
    pub fn open(customs: Vec<Custom>) -> Self {
        let mut palette = Self { line: Buffer::default(), completion: Completion::by_purpose() };
        palette.completion.customs(customs);
        palette.put("/");
        palette
    }

    fn put(&mut self, text: &str) -> Vec<Effect> {
        self.line.set(text);
        self.completion.refresh(self.line.text(), self.line.cursor())
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Outcome {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if key.code == KeyCode::Esc || (ctrl && matches!(key.code, KeyCode::Char('c' | 'g'))) {
            return Outcome::Closed;
        }
        match self.completion.key(key) {
            Choice::Moved => return Outcome::Stays(Vec::new()),
            Choice::Put { range, text, run } => {
                self.line.replace(range, &text);
                if run {
                    return Outcome::Chosen(self.line.text().trim().to_owned());
                }
                return Outcome::Stays(self.completion.refresh(self.line.text(), self.line.cursor()));
            }
            Choice::None => {}
        }
        match key.code {
            KeyCode::Enter => return Outcome::Chosen(self.line.text().trim().to_owned()),
            KeyCode::Backspace if self.line.text() == "/" => return Outcome::Closed,
            KeyCode::Backspace => self.line.delete_back(),
            KeyCode::Char('u') if ctrl => return Outcome::Stays(self.put("/")),
            KeyCode::Char(c) if !ctrl => self.line.insert(c.encode_utf8(&mut [0; 4])),
            _ => {}
        }
        Outcome::Stays(self.completion.refresh(self.line.text(), self.line.cursor()))
    }

    /// Pastes into the line.
    pub fn paste(&mut self, pasted: &str) -> Vec<Effect> {
        self.line.insert(pasted.lines().next().unwrap_or_default());
        self.completion.refresh(self.line.text(), self.line.cursor())
    }

    /// Takes the host's answer about models.
    pub fn models(&mut self, models: Vec<Item>) {
        self.completion.models(models);
    }

    /// Takes the host's answer about custom commands.
    pub(crate) fn customs(&mut self, customs: Vec<Custom>) {
        self.completion.customs(customs);
    }

    /// Takes the host's answer about sessions: ids and descriptions.
    pub fn sessions(&mut self, sessions: Vec<(String, String)>) {
        self.completion.sessions(sessions);
    }

    /// Draws the line in the last row of `area` and the menu above it.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        if area.height == 0 || area.width == 0 {
            return;
        }
        let width = usize::from(area.width);
        let line = format!("⌘ {}", text::visible(&self.line.text()[1..]));
        let shown = text::fit(&line, width.saturating_sub(1)).into_owned();
        let used = text::width(&shown);
        let fill = " ".repeat(width - used.min(width));
        let y = area.bottom() - 1;
        let line = Line::from(vec![Span::styled(shown, theme.accent), Span::raw(fill)]);
        frame.buffer_mut().set_line(area.x, y, &line, area.width);
        self.completion.draw(frame, Rect { height: area.height - 1, ..area }, theme);
        frame.set_cursor_position(Position::new(area.x + used.min(width - 1) as u16, y));
    }
}
