//! Messages that were sent while the agent works and were not delivered yet: shown above the composer, taken back with Up.
//!
//! The agent has them already, so that a crash does not lose them; here is only what is known of them. A message leaves when
//! it is delivered, or when the agent says that it was taken back.

use crate::text;
use crate::theme::Theme;
use becket_types::{DeliveryMode, MessageId};
use ratatui::text::Line;

/// Rows that are shown at most.
const ROWS: usize = 3;

#[derive(Clone, Debug, PartialEq)]
struct Message {
    id: String,
    text: String,
    mode: DeliveryMode,
}

#[derive(Debug, Default)]
pub struct Waiting {
    messages: Vec<Message>,
}

impl Waiting {
    /// A message goes to the agent while it works; the id under which it goes.
    pub fn put(&mut self, text: &str, mode: DeliveryMode) -> String {
        let id = MessageId::new().to_string();
        self.messages.push(Message { id: id.clone(), text: text.to_owned(), mode });
        id
    }

    /// It was delivered.
    pub fn delivered(&mut self, id: &str) {
        self.messages.retain(|m| m.id != id);
    }

    /// It was taken back: its text.
    pub fn withdrawn(&mut self, id: &str) -> Option<String> {
        let at = self.messages.iter().position(|m| m.id == id)?;
        Some(self.messages.remove(at).text)
    }

    /// The one that is taken back first: the last.
    pub fn last(&self) -> Option<&str> {
        self.messages.last().map(|m| m.id.as_str())
    }

    pub fn lines(&self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        let skip = self.messages.len().saturating_sub(ROWS);
        let line = |(i, m): (usize, &Message)| {
            let what = match m.mode {
                DeliveryMode::Steer => "at the next step",
                DeliveryMode::Queue => "next turn",
            };
            let more = if i == skip && skip > 0 { format!(" (+{skip})") } else { String::new() };
            let text = text::visible(m.text.lines().next().unwrap_or_default()).into_owned();
            let line = format!("⧖ {what}{more}: {text}  · Up takes it back");
            Line::styled(text::fit(&line, usize::from(width)).into_owned(), theme.dim)
        };
        self.messages.iter().enumerate().skip(skip).map(line).collect()
    }
}
