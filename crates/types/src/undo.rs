//! What an undo, a redo or a rewind would do, and what came of it, as front ends see it.
//!
//! Data only: how a plan is made and carried out is not decided here.

use crate::{FilePath, MessageId, SkippedPath};
use serde::{Deserialize, Serialize};

/// What a rewind goes back in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewindWhat {
    Conversation,
    Files,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoKind {
    Undo,
    Redo,
    Rewind,
}

/// What will be done when it is confirmed. Nothing has happened yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoPlan {
    /// The number by which it is confirmed; another plan or a turn makes it void.
    pub plan: u64,
    pub kind: UndoKind,
    /// What the calls were whose changes are taken back, newest first: the tool and what it was asked, a line each.
    pub calls: Vec<String>,
    /// Sorted by path; what is as it was already is left out.
    pub paths: Vec<PathPlan>,
    /// Paths of those calls that are as they were already.
    pub unchanged: u64,
    /// What was not kept when those calls ran, and does not come back.
    pub skipped: Vec<SkippedPath>,
    /// Records of files that are damaged: what they held is not in `paths`.
    pub damaged: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationPlan>,
}

impl UndoPlan {
    /// How many paths have this fate.
    pub fn count(&self, of: impl Fn(&PathFate) -> bool) -> usize {
        self.paths.iter().filter(|path| of(&path.fate)).count()
    }
}

/// What becomes of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathPlan {
    pub path: FilePath,
    #[serde(flatten)]
    pub fate: PathFate,
    /// What it will be; `None` where nothing will be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeKind>,
    /// Lines that appear and disappear; `None` where they cannot be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<(u64, u64)>,
    /// Of the content that it will have.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum PathFate {
    /// It gets back the content, mode or target that it had.
    Restore,
    /// It was not there, and goes.
    Delete,
    /// Somebody else changed it since; left alone unless forced.
    Conflict { why: String },
    /// It cannot be brought back.
    Lost { why: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    File,
    Symlink,
    Dir,
}

/// A conversation that goes back to before a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationPlan {
    /// This message and everything behind it no longer count.
    pub to: MessageId,
    /// The first line of that message.
    pub text: String,
    /// Entries of the ledger that no longer count.
    pub entries: u64,
}

/// What came of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoOutcome {
    pub plan: u64,
    pub kind: UndoKind,
    /// Paths that are as they were.
    pub restored: u64,
    /// Paths that are gone.
    pub deleted: u64,
    /// Conflicts and what is lost: left as they are.
    pub left: Vec<SkippedPath>,
    /// What was tried and failed.
    pub failed: Vec<SkippedPath>,
    /// Set when the conversation went back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationPlan>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_flat_json() {
        let json =
            r#"{"path":"/a","fate":"conflict","why":"changed since","node":"file","lines":[1,2],"bytes":3}"#;
        let path: PathPlan = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&path).unwrap(), json);
        let gone = PathPlan { fate: PathFate::Delete, node: None, lines: None, bytes: 0, ..path };
        assert_eq!(serde_json::to_string(&gone).unwrap(), r#"{"path":"/a","fate":"delete","bytes":0}"#);
    }
}
