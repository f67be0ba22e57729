//! A short list of choices, above the composer and in the palette.
//!
//! Owns the entries and the chosen one. The caller provides the entries and acts on the choice.

use crate::text;
use crate::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget as _};

/// Most entries that are shown at once.
pub const ROWS: usize = 8;

/// One entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The text that is matched, shown and chosen.
    pub name: String,
    /// A description, drawn less prominently.
    pub detail: String,
}

/// Entries, the chosen one, and the scroll position.
#[derive(Debug, Default)]
pub struct Menu {
    items: Vec<Item>,
    chosen: usize,
    top: usize,
}

impl Menu {
    /// True if there are entries.
    pub fn is_open(&self) -> bool {
        !self.items.is_empty()
    }

    /// Replaces the entries and chooses the first.
    pub fn set(&mut self, items: Vec<Item>) {
        *self = Self { items, chosen: 0, top: 0 };
    }

    /// Removes all entries.
    pub fn close(&mut self) {
        *self = Self::default();
    }

    /// Returns the entries.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns the index of the chosen entry, counted from 0.
    pub fn at(&self) -> usize {
        self.chosen
    }

    /// Chooses the entry at this index, or the last one if there are fewer.
    pub fn choose(&mut self, at: usize) {
        self.chosen = at.min(self.items.len().saturating_sub(1));
        self.top = self.top.min(self.chosen).max((self.chosen + 1).saturating_sub(ROWS));
    }

    /// Returns the chosen entry.
    pub fn chosen(&self) -> Option<&Item> {
        self.items.get(self.chosen)
    }

    /// Handles Up, Down, Ctrl-P and Ctrl-N, which wrap around at both ends. Returns false for any other key.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let count = self.items.len();
        if count == 0 {
            return false;
        }
        self.chosen = match key.code {
            KeyCode::Up if !ctrl => (self.chosen + count - 1) % count,
            KeyCode::Char('p') if ctrl => (self.chosen + count - 1) % count,
            KeyCode::Down if !ctrl => (self.chosen + 1) % count,
            KeyCode::Char('n') if ctrl => (self.chosen + 1) % count,
            _ => return false,
        };
        self.top = self.top.min(self.chosen).max((self.chosen + 1).saturating_sub(ROWS));
        true
    }

    /// Returns the height in rows that it needs.
    pub fn height(&self) -> u16 {
        self.items.len().min(ROWS) as u16
    }

    /// Draws the menu over the lowest rows of `area`.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let height = self.height().min(area.height);
        let shown = usize::from(height);
        self.top = self.top.min(self.chosen).max((self.chosen + 1).saturating_sub(shown));
        let width = usize::from(area.width);
        let names = self.items.iter().skip(self.top).take(shown).map(|i| text::width(&i.name)).max();
        let column = names.unwrap_or(0).min(width / 2);
        let y = area.bottom() - height;
        for (row, item) in self.items.iter().enumerate().skip(self.top).take(shown) {
            let mark = if row == self.chosen { "❯ " } else { "  " };
            let name = text::visible(&item.name).into_owned();
            let line = if item.detail.is_empty() {
                text::fit(&format!("{mark}{name}"), width).into_owned()
            } else {
                let pad = " ".repeat(column.saturating_sub(text::width(&name)));
                text::fit(&format!("{mark}{name}{pad}  {}", text::visible(&item.detail)), width).into_owned()
            };
            let fill = " ".repeat(width.saturating_sub(text::width(&line)));
            let style = if row == self.chosen { theme.selected } else { theme.dim };
            let line = Line::from(vec![Span::styled(line, style), Span::styled(fill, style)]);
            let place = Rect { y: y + (row - self.top) as u16, height: 1, ..area };
            // A style sets only what it changes, so without clearing, the colours of the cells below would show.
            Clear.render(place, frame.buffer_mut());
            frame.buffer_mut().set_line(place.x, place.y, &line, place.width);
        }
    }
}
