//! Use of the session: tokens, cost and time, with their short forms for the status line.
//!
//! Invariant: `cost` and `usage` contain the use of the session before this process started, and of its subagents.

use crate::text::{dollars, thousands};
use becket_types::{Cost, Event, Usage, Used};

/// Tokens, cost and time of the session.
#[derive(Debug, Default)]
pub(super) struct Spending {
    pub usage: Usage,
    pub cost: Cost,
    /// Cost of the current turn, or of the last one.
    pub turn: Cost,
    /// Tokens that the model wrote in that turn.
    pub turn_wrote: u64,
    /// Time of the requests to the model, in milliseconds.
    pub api_millis: u64,
    /// Time of the turns, in milliseconds.
    pub millis: u64,
}

impl Spending {
    /// Adds the use of the session before this process started.
    pub(super) fn begin_with(&mut self, used: Used) {
        self.usage += used.usage;
        self.cost += used.cost;
    }

    /// Adds the use that an event reports.
    pub(super) fn event(&mut self, event: &Event) {
        if let Event::AssistantMessage { usage, cost, api_time, .. } = event {
            self.usage += *usage;
            self.cost += *cost;
            self.turn += *cost;
            self.turn_wrote += usage.output;
            self.api_millis += api_time.0;
        }
    }

    /// Begins with a new turn.
    pub(super) fn begin_turn(&mut self) {
        (self.turn, self.turn_wrote) = (Cost::default(), 0);
    }

    /// Returns what the turn used so far, for the line of its activity: cost, and tokens that the model wrote.
    pub(super) fn of_turn(&self) -> [String; 2] {
        let cost = if self.turn.0 > 0.0 { format!(" · {}", dollars(self.turn.0)) } else { String::new() };
        let wrote = match self.turn_wrote {
            0 => String::new(),
            tokens => format!(" · {} tokens", thousands(tokens)),
        };
        [cost, wrote]
    }

    pub(super) fn tokens(&self) -> String {
        let read = self.usage.context().0;
        if self.usage.is_empty() {
            return String::new();
        }
        let cached = (self.usage.cache_read * 100).checked_div(read).filter(|p| *p > 0);
        let cached = cached.map_or_else(String::new, |percent| format!(" ({percent} % cached)"));
        format!("↑{}{cached} ↓{}", thousands(read), thousands(self.usage.output))
    }

    pub(super) fn money(&self) -> String {
        if self.cost.0 > 0.0 { dollars(self.cost.0) } else { String::new() }
    }
}
