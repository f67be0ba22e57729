//! Running subagents, and commands and subagents in the background, with the facts that lines about them need.
//!
//! Data only. The lines are written in `subagent`.

use becket_types::{CallId, SessionId};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The running tasks that lines have named.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Tasks of running subagents, by the call that started them.
    pub(super) subagents: HashMap<CallId, Task>,
    /// Calls whose subagents are in the background. This event may come before the subagent's first event.
    pub(super) detached: HashSet<CallId>,
    /// The entries of `background_tasks_changed`.
    pub(super) listed: Vec<Value>,
}

/// A command that runs in the background.
#[derive(Clone, Copy, Debug)]
pub struct ShellTask<'a> {
    /// The number of the job.
    pub id: u64,
    /// The call that started the command.
    pub call: &'a CallId,
    pub description: &'a str,
}

/// The end of a command in the background.
#[derive(Clone, Debug)]
pub struct ShellTaskEnd {
    /// `completed`, `failed` or `killed`.
    pub status: &'static str,
    pub summary: String,
    /// The file with its output; empty if there is none.
    pub output_file: String,
}

/// A running subagent.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) session: SessionId,
    pub(super) calls: u64,
    /// Tokens of all requests of the subagent so far.
    pub(super) tokens: u64,
    pub(super) began: Instant,
    pub(super) description: String,
    pub(super) kind: Value,
}

impl Task {
    /// Returns the entry of the list of background tasks.
    pub(super) fn entry(&self) -> Value {
        json!({
            "task_id": self.session, "task_type": "local_agent", "subagent_type": self.kind,
            "description": self.description,
        })
    }
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
