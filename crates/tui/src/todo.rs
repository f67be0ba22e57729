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
            return vec![line(format!("{head} · {}", self.items[current].content), theme.dim)];
        }
        // The item before the current one is shown as well: it was done last.
        let last = self.items.len().saturating_sub(ITEMS);
        let from = current.saturating_sub(1).min(last);
        let mut out = vec![line(head, theme.dim)];
        for item in self.items.iter().skip(from).take(ITEMS) {
            let (mark, style) = match item.state {
                State::Completed => ("[x]", theme.dim),
                State::InProgress => ("[>]", theme.accent),
                State::Pending => ("[ ]", theme.text),
            };
            out.push(line(format!("  {mark} {}", item.content), style));
        }
        let behind = self.items.len().saturating_sub(from + ITEMS);
        if behind > 0 {
            out.push(line(format!("  … {behind} more"), theme.dim));
        }
        out
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
