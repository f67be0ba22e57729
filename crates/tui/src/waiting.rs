//! Messages that were sent while the agent works and that the model has not got yet. They are shown above the composer,
//! and Up takes them back.
//!
//! The agent already holds them, so a crash does not lose them. This module keeps only a copy for display. A message is
//! removed when it is delivered, or when the agent reports that it was taken back.

use crate::hint;
use crate::input::Effect;
use crate::text;
use crate::theme::Theme;
use becket_types::{Command, DeliveryMode, MessageId};
use ratatui::text::{Line, Span};

/// Maximum number of rows that are shown.
const ROWS: usize = 3;

#[derive(Clone, Debug, PartialEq)]
struct Message {
    id: String,
    text: String,
    mode: DeliveryMode,
}

/// The messages that wait, in order.
#[derive(Debug, Default)]
pub struct Waiting {
    messages: Vec<Message>,
}

impl Waiting {
    /// Adds a message that is sent to the agent while it works. Returns the message's id.
    pub fn put(&mut self, text: &str, mode: DeliveryMode) -> String {
        let id = MessageId::new().to_string();
        self.messages.push(Message { id: id.clone(), text: text.to_owned(), mode });
        id
    }

    /// Removes a message that was delivered.
    pub fn delivered(&mut self, id: &str) {
        self.messages.retain(|m| m.id != id);
    }

    /// Removes a message that was taken back, and returns its text.
    pub fn withdrawn(&mut self, id: &str) -> Option<String> {
        let at = self.messages.iter().position(|m| m.id == id)?;
        Some(self.messages.remove(at).text)
    }

    /// Returns the id of the last message, which is taken back first.
    pub fn last(&self) -> Option<&str> {
        self.messages.last().map(|m| m.id.as_str())
    }

    /// Returns the effects of an interrupt: the messages come back into the composer, the first one on top. Otherwise they would be
    /// sent as soon as the agent has stopped, although the user wants it to stop.
    pub fn interrupted(&self) -> Vec<Effect> {
        let back = self.messages.iter().rev().map(|m| Command::Withdraw { client_id: m.id.clone() });
        back.chain([Command::Interrupt]).map(Effect::Send).collect()
    }

    /// Returns the panel of waiting messages.
    pub fn lines(&self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        let skip = self.messages.len().saturating_sub(ROWS);
        let line = |(i, m): (usize, &Message)| {
            let what = match m.mode {
                DeliveryMode::Steer | DeliveryMode::Join => "at the next step",
                DeliveryMode::Queue => "next turn",
            };
            let more = if i == skip && skip > 0 { format!(" (+{skip})") } else { String::new() };
            let text = text::visible(m.text.lines().next().unwrap_or_default()).into_owned();
            // Up takes the last message back, so only the last line names that key.
            let key = if i + 1 == self.messages.len() { "  · Up takes it back" } else { "" };
            // The message is cut if it is long, and never the words about the key.
            let room = usize::from(width).saturating_sub(text::width(key));
            let line = format!("◷ {what}{more}: {text}");
            let mut spans = vec![Span::styled(text::fit(&line, room).into_owned(), theme.dim)];
            spans.extend(hint::spans(key, theme));
            Line::from(spans)
        };
        self.messages.iter().enumerate().skip(skip).map(line).collect()
    }
}
