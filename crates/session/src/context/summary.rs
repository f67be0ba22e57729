//! T12: the summary. (Shapes first; see below.)

use becket_types::{CallId, JournalState};
use serde_json::Value;

/// One tool call as the journal knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalLine {
    pub call_id: CallId,
    pub tool: String,
    /// One line: the command, the path.
    pub subject: String,
    pub state: JournalState,
    /// Exit code, files changed.
    pub result: Value,
}
