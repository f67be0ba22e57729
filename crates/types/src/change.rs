//! Manual changes to the context, as front ends request them and show them.
//!
//! Data only: `session::context::edit` decides what a change does to the ledger.

use crate::Tokens;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A change that the user requests. Items are entry numbers (`12`, `12-15`), call ids, or prefixes of message
/// ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum ContextChange {
    /// Removes these messages from the context. A call and its results are removed together.
    Drop { items: Vec<String> },
    /// Replaces the outputs, images and files of these messages by stubs.
    Collapse { items: Vec<String> },
    /// Neither prune nor compaction removes these.
    Pin { items: Vec<String> },
    /// Brings back messages that a compaction removed from the context.
    Restore { items: Vec<String> },
    /// Undoes the last of these changes.
    Undo,
    /// Redoes the last undone change.
    Redo,
}

impl ContextChange {
    /// The change's machine name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Drop { .. } => "drop",
            Self::Collapse { .. } => "collapse",
            Self::Pin { .. } => "pin",
            Self::Restore { .. } => "restore",
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }

    /// Returns the items of the view that are named in the request; empty for an undo and a redo, which name none.
    pub fn items(&self) -> &[String] {
        match self {
            Self::Drop { items }
            | Self::Collapse { items }
            | Self::Pin { items }
            | Self::Restore { items } => items,
            Self::Undo | Self::Redo => &[],
        }
    }
}

/// The effect that a change would have. Nothing has happened yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContextPlan {
    /// Number that confirms this plan. A newer plan or a turn makes it invalid.
    pub plan: u64,
    /// One sentence that says what is changed.
    pub what: String,
    /// The items as the request named them.
    pub items: Vec<String>,
    /// Estimated size of the whole context.
    pub tokens_before: Tokens,
    pub tokens_after: Tokens,
    /// Number of messages in the context before the change.
    pub messages: u64,
    /// Messages at the start that stay byte for byte as they were sent.
    pub messages_unchanged: u64,
    /// Size of everything after the unchanged messages. The provider has to read it once without its cache.
    pub tokens_resent: Tokens,
    /// Estimated extra cost of the next request, and the saving of each later one, at list prices in US
    /// dollars.
    pub usd_once: Option<f64>,
    pub usd_saved_per_request: Option<f64>,
}

impl ContextPlan {
    /// True if nothing that was already sent changes, so the provider's cache stays valid.
    pub(crate) fn keeps_the_cache(&self) -> bool {
        self.messages_unchanged == self.messages && self.tokens_resent == Tokens(0)
    }
}

/// Text for people: the effect on the context and on the provider's cache.
impl fmt::Display for ContextPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        if !self.items.is_empty() {
            writeln!(f, "Items: {}", self.items.join(" "))?;
        }
        let (before, after) = (short(self.tokens_before.0), short(self.tokens_after.0));
        writeln!(f, "Context: {before} -> {after} tokens (estimated)")?;
        if self.keeps_the_cache() {
            return writeln!(f, "Cache: nothing that was sent changes; it stays as it is.");
        }
        write!(
            f,
            "Cache: the first {} of {} messages stay as they are; {} tokens after those are sent once more",
            self.messages_unchanged,
            self.messages,
            short(self.tokens_resent.0)
        )?;
        match (self.usd_once, self.usd_saved_per_request) {
            (Some(once), Some(each)) if each > 0.0 => {
                let after = (once / each).ceil().max(1.0);
                write!(
                    f,
                    ": about ${once:.4} more on the next request, ${each:.4} less on each one after; it pays off after \
                     {after} requests"
                )?;
            }
            (Some(once), _) => write!(f, ": about ${once:.4} more on the next request")?,
            (None, _) => {}
        }
        writeln!(f, ".")
    }
}

/// Short form of a count: 21,412 → `21k`.
fn short(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..10_000 => format!("{:.1}k", n as f64 / 1e3),
        10_000..1_000_000 => format!("{}k", n / 1_000),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;

    /// Other programs send a change as one flat JSON object.
    #[test]
    fn a_change_is_flat_in_json() {
        let drop = ContextChange::Drop { items: vec!["12-15".into()] };
        for (change, json) in [
            (drop, r#"{"command":"change_context","change":"drop","items":["12-15"]}"#),
            (ContextChange::Undo, r#"{"command":"change_context","change":"undo"}"#),
        ] {
            let command = Command::ChangeContext(change);
            assert_eq!(serde_json::to_string(&command).unwrap(), json);
            assert_eq!(serde_json::from_str::<Command>(json).unwrap(), command);
        }
    }

    #[test]
    fn a_plan_says_what_it_does_to_the_cache() {
        let mut plan = ContextPlan {
            what: "Left out of the context by hand: 2 messages.".into(),
            items: vec!["12".into()],
            tokens_before: Tokens(21_400),
            tokens_after: Tokens(9_400),
            messages: 10,
            messages_unchanged: 4,
            tokens_resent: Tokens(3_000),
            usd_once: Some(0.0105),
            usd_saved_per_request: Some(0.0036),
            ..ContextPlan::default()
        };
        let text = plan.to_string();
        for words in
            ["21k -> 9.4k", "first 4 of 10", "3.0k tokens after", "$0.0105 more", "after 3 requests."]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        (plan.messages_unchanged, plan.tokens_resent) = (10, Tokens(0));
        assert!(plan.to_string().ends_with("it stays as it is.\n"), "{plan}");
    }
}
