//! Facts about the turn under way that its result needs.

use super::denials::Denials;
use crate::shapes;
use becket_types::TurnEnd;
use serde_json::{Value, json};

/// The turn so far.
#[derive(Default)]
pub(super) struct TurnSoFar {
    pub(super) denials: Denials,
    /// The lines of its start are written.
    pub(super) begun: bool,
    /// The last call that ended was interrupted.
    pub(super) interrupted: bool,
    /// A hook at the end of the turn stopped the agent.
    pub(super) stop_prevented: bool,
    /// The end of a task in the background began it.
    pub(super) of_task: bool,
}

impl TurnSoFar {
    /// Completes a result for a program that sends messages. Returns true if a hook ended the turn, which is no failure.
    pub(super) fn complete(&self, line: &mut Value, end: &TurnEnd) -> bool {
        if self.interrupted && *end == TurnEnd::Interrupted {
            line["terminal_reason"] = json!("aborted_tools");
        }
        if self.stop_prevented && *end == TurnEnd::Completed {
            line["terminal_reason"] = json!("stop_hook_prevented");
        }
        if self.of_task {
            line["origin"] = json!({ "kind": "task-notification" });
        }
        shapes::ended_by_hook(line, end)
    }
}
