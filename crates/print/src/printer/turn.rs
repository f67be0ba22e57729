//! Facts about the current turn that its result needs.

use super::denials::Denials;
use crate::shapes;
use becket_types::TurnEnd;
use serde_json::{Value, json};

/// The current turn so far.
#[derive(Default)]
pub(super) struct TurnSoFar {
    pub(super) denials: Denials,
    /// True once the lines at the start of the turn were written.
    pub(super) begun: bool,
    /// True if the call that ended last was interrupted.
    pub(super) interrupted: bool,
    /// True if a hook at the end of the turn stopped the agent.
    pub(super) stop_prevented: bool,
    /// True if the end of a background task began the turn.
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
