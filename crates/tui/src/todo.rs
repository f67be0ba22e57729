//! The panel above the composer that shows the agent's todo list while it works on it.
//!
//! Owns the last list that the agent wrote. The panel disappears when every item is done. The transcript keeps a line
//! for each list.

use crate::text;
use crate::theme::Theme;
use becket_types::{Event, Part};
use ratatui::style::Style;
use ratatui::text::Line;
use serde_json::Value;

/// Maximum number of items that are shown.
const ITEMS: usize = 5;
/// On a screen with fewer rows, the panel consists of its headline only.
const SMALL: u16 = 20;

/// Marks of an item that is done, of the one at work and of one that is still to do. They differ without colours.
pub(crate) const DONE: &str = "  ✓ ";
pub(crate) const AT_WORK: &str = "  ▸ ";
pub(crate) const OPEN: &str = "  ○ ";

/// The list that the panel shows.
#[derive(Debug, Default)]
pub struct TodoPanel {
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    content: String,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    InProgress,
    Completed,
}

impl TodoPanel {
    /// Takes the list from the end of a call that wrote one.
    pub fn event(&mut self, event: &Event) {
        let Event::ToolFinished { message, .. } = event else { return };
        for part in &message.parts {
            if let Part::ToolResult { name, details, is_error: false, .. } = part
                && name == "todo"
                && let Some(items) = details.get("items").and_then(Value::as_array)
            {
                self.items = items.iter().map(Item::of).collect();
            }
        }
    }

    /// Returns the panel for a screen of `rows`; empty if no item is left to do.
    pub fn lines(&self, width: u16, rows: u16, theme: &Theme) -> Vec<Line<'static>> {
        let done = self.items.iter().filter(|item| item.state == State::Completed).count();
        if done == self.items.len() {
            return Vec::new();
        }
        let line = |text: String, style: Style| {
            Line::styled(text::fit(&text::visible(&text), usize::from(width)).into_owned(), style)
        };
        let current = self.items.iter().position(|item| item.state == State::InProgress);
        let current = current.unwrap_or_else(|| {
            self.items.iter().position(|item| item.state == State::Pending).unwrap_or_default()
        });
        let head = format!("To do · {done} of {} done", self.items.len());
        if rows < SMALL {
            let folded = self.folded(&head, usize::from(width));
            return vec![line(folded, theme.dim)];
        }
        // The item before the current one is shown as well: it was done last.
        let last = self.items.len().saturating_sub(ITEMS);
        let from = current.saturating_sub(1).min(last);
        let mut out = vec![line(head, theme.dim)];
        for item in self.items.iter().skip(from).take(ITEMS) {
            let (mark, style) = match item.state {
                State::Completed => (DONE, theme.dim),
                State::InProgress => (AT_WORK, theme.accent),
                State::Pending => (OPEN, theme.text),
            };
            out.push(line(format!("{mark}{}", item.content), style));
        }
        let behind = self.items.len().saturating_sub(from + ITEMS);
        if behind > 0 {
            out.push(line(format!("  … {behind} more"), theme.dim));
        }
        out
    }

    /// Returns the panel in one line: the item at work, and the next one if there is room.
    fn folded(&self, head: &str, width: usize) -> String {
        let first = |state: State| self.items.iter().find(|item| item.state == state);
        let now = first(State::InProgress).map(|item| format!(" · now: {}", item.content));
        let next = first(State::Pending).map(|item| format!(" · next: {}", item.content)).unwrap_or_default();
        match now {
            Some(now) if text::width(head) + text::width(&now) + text::width(&next) <= width => {
                format!("{head}{now}{next}")
            }
            Some(now) => format!("{head}{now}"),
            None => format!("{head}{next}"),
        }
    }
}

impl Item {
    fn of(item: &Value) -> Self {
        let content = item.get("content").and_then(Value::as_str).unwrap_or_default();
        let state = match item.get("status").and_then(Value::as_str) {
            Some("completed") => State::Completed,
            Some("in_progress") => State::InProgress,
            _ => State::Pending,
        };
        Self { content: content.lines().next().unwrap_or_default().to_owned(), state }
    }
}
