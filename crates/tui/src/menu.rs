//! A short list of choices, above the composer and in the palette.
//!
//! Owns the entries and the chosen one. The caller provides the entries and acts on the choice.

use crate::hint;
use crate::text;
use crate::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget as _};

/// Maximum number of entries that are shown at once.
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
    /// A description that is too long continues in further rows. Otherwise it is cut.
    wraps: bool,
}

/// Rows that a menu with a line of keys needs besides its entries, with a part of the screen above it.
const ROOM: u16 = 4;
/// Columns before a description that goes on in the next row.
const INDENT: usize = 6;

impl Menu {
    /// Lets long descriptions wrap, or cuts them.
    pub(crate) fn set_wrapping(&mut self, wraps: bool) {
        self.wraps = wraps;
    }

    /// True if there are entries.
    pub fn is_open(&self) -> bool {
        !self.items.is_empty()
    }

    /// Replaces the entries and chooses the first.
    pub fn set(&mut self, items: Vec<Item>) {
        *self = Self { items, chosen: 0, top: 0, wraps: self.wraps };
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

    /// Gives the first word of an entry's row, which is its name, the colour of keys and commands.
    fn named(&self, at: usize, mut spans: Vec<Span<'static>>, theme: &Theme) -> Vec<Span<'static>> {
        let name = text::visible(&self.items[at].name);
        let name = name.split(' ').next().unwrap_or_default();
        let row = spans.remove(0);
        let Some(from) = row.content.find(name).filter(|_| !name.is_empty()) else {
            spans.insert(0, row);
            return spans;
        };
        let (before, rest) = row.content.split_at(from);
        let (name, after) = rest.split_at(name.len());
        let parts = [(before, row.style), (name, theme.accent), (after, row.style)];
        let parts = parts.map(|(part, style)| Span::styled(part.to_owned(), style));
        parts.into_iter().chain(spans).collect()
    }

    /// Returns the height in rows that the menu needs if no description wraps.
    pub fn height(&self) -> u16 {
        self.items.len().min(ROWS) as u16
    }

    /// Returns the height in rows that the menu needs at this width.
    pub(crate) fn height_in(&self, width: usize) -> u16 {
        if !self.wraps {
            return self.height();
        }
        let rows = self.items.iter().enumerate().map(|(at, _)| self.rows(at, width, ROWS).len()).take(ROWS);
        rows.sum::<usize>() as u16
    }

    /// Returns the rows of one entry. The descriptions of the `shown` entries begin in one column.
    fn rows(&self, at: usize, width: usize, shown: usize) -> Vec<String> {
        let shown = self.items.iter().skip(self.top).take(shown);
        // A name wider than two fifths of the menu does not move the descriptions of the other entries.
        let fits = |columns: &usize| *columns <= width * 2 / 5;
        let column = shown.map(|i| text::width(&text::visible(&i.name))).filter(fits).max().unwrap_or(0);
        let Some(item) = self.items.get(at) else { return Vec::new() };
        let mark = if at == self.chosen { "❯ " } else { "  " };
        let name = text::visible(&item.name).into_owned();
        if item.detail.is_empty() {
            return vec![text::fit(&format!("{mark}{name}"), width).into_owned()];
        }
        let pad = " ".repeat(column.saturating_sub(text::width(&name)));
        let (head, detail) = (format!("{mark}{name}{pad}  "), text::visible(&item.detail));
        let line = format!("{head}{detail}");
        if !self.wraps || text::width(&line) <= width || width <= INDENT * 2 {
            return vec![text::fit(&line, width).into_owned()];
        }
        let span = Span::raw(detail.into_owned());
        let lines = text::wrap(&[span], width, &Span::raw(head), &Span::raw(" ".repeat(INDENT)));
        lines.iter().map(ToString::to_string).collect()
    }

    /// Draws the menu over the lowest rows of `area`, with a blank row above it and a line below it: which entries are shown, and
    /// `keys`. Where there is too little room, only the entries.
    pub(crate) fn draw_with_keys(&mut self, frame: &mut Frame<'_>, area: Rect, keys: &str, theme: &Theme) {
        let width = usize::from(area.width);
        if !self.is_open() || self.height_in(width) + ROOM > area.height {
            return self.draw(frame, area, theme);
        }
        let above = Rect { height: area.height - 1, ..area };
        self.draw(frame, above, theme);
        let top = above.bottom() - self.height_in(width);
        Clear.render(Rect { y: top - 1, height: 1, ..area }, frame.buffer_mut());
        let shown = self.height();
        let place = format!("{}–{} of {} · ", self.top + 1, self.top + usize::from(shown), self.items.len());
        let place = if usize::from(shown) < self.items.len() { place } else { String::new() };
        let line = hint::line(&format!("  {place}{keys}"), width, theme);
        let row = Rect { y: area.bottom() - 1, height: 1, ..area };
        Clear.render(row, frame.buffer_mut());
        frame.buffer_mut().set_line(row.x, row.y, &line, row.width);
    }

    /// Draws the menu over the lowest rows of `area`.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let width = usize::from(area.width);
        let height = self.height_in(width).min(area.height);
        let shown = if self.wraps { ROWS } else { usize::from(height) };
        // Entries above the chosen one may take several rows, so the list scrolls until the chosen one fits.
        self.top = self.top.min(self.chosen).max((self.chosen + 1).saturating_sub(ROWS));
        let needs =
            |menu: &Self| (menu.top..=menu.chosen).map(|at| menu.rows(at, width, shown).len()).sum::<usize>();
        while self.top < self.chosen && needs(self) > usize::from(height) {
            self.top += 1;
        }
        let bottom = area.bottom();
        let mut y = bottom - height;
        for at in self.top..self.items.len() {
            let style = if at == self.chosen { theme.selected } else { theme.dim };
            for (n, row) in self.rows(at, width, shown).into_iter().enumerate() {
                if y >= bottom {
                    return;
                }
                let fill = " ".repeat(width.saturating_sub(text::width(&row)));
                let mut spans = vec![Span::styled(row, style), Span::styled(fill, style)];
                if n == 0 && at != self.chosen && !self.items[at].detail.is_empty() {
                    spans = self.named(at, spans, theme);
                }
                let line = Line::from(spans);
                let place = Rect { y, height: 1, ..area };
                // A style sets only what it changes, so without clearing, the colours of the cells below would show.
                Clear.render(place, frame.buffer_mut());
                frame.buffer_mut().set_line(place.x, place.y, &line, place.width);
                y += 1;
            }
        }
    }
}
