//! Plans and outcomes of undo, redo and rewind, as front ends show them.
//!
//! Data only: plans are made and carried out elsewhere.

use crate::{FilePath, MessageId, Millis, SkippedPath};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The part of a session that a rewind takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewindWhat {
    Conversation,
    Files,
    Both,
}

/// The command that takes files or the conversation back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoKind {
    Undo,
    Redo,
    Rewind,
}

/// Everything an undo, redo or rewind will do once it is confirmed. Nothing has happened yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoPlan {
    /// Number that confirms this plan. A newer plan or a turn makes it invalid.
    pub plan: u64,
    pub kind: UndoKind,
    /// The turns whose changes are taken back, newest first.
    #[serde(default)]
    pub turns: Vec<UndoTurn>,
    /// Number of turns after the newest one in `turns`. They changed no files, or their changes are undone already.
    #[serde(default)]
    pub newer: u64,
    /// The calls whose changes are undone, newest first: tool and subject, one line each.
    pub calls: Vec<String>,
    /// Affected paths, sorted. Paths that already have the target state are omitted.
    pub paths: Vec<PathPlan>,
    /// Number of paths of those calls that already have the target state.
    pub unchanged: u64,
    /// Paths that were not saved when those calls ran and cannot be restored.
    pub skipped: Vec<SkippedPath>,
    /// Number of damaged file records. Their paths are missing from `paths`.
    pub damaged: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationPlan>,
    /// True if an earlier undo or redo was interrupted. This one counts as one step with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// One sentence if changes of somebody else may be among those that the plan takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

impl UndoPlan {
    /// Returns the number of paths whose fate satisfies the predicate.
    pub fn count(&self, of: impl Fn(&PathFate) -> bool) -> usize {
        self.paths.iter().filter(|path| of(&path.fate)).count()
    }
}

/// A turn whose changes to files are taken back, or done again by a redo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoTurn {
    /// The user's message that began it.
    pub message: MessageId,
    /// The first line of that message.
    pub text: String,
    /// Time of that message, in milliseconds since 1970.
    pub time: Millis,
}

/// The planned change of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathPlan {
    pub path: FilePath,
    #[serde(flatten)]
    pub fate: PathFate,
    /// The kind of file after the change; `None` if nothing will exist there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeKind>,
    /// Number of added and removed lines; `None` if they cannot be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<(u64, u64)>,
    /// Size in bytes of the content after the change.
    pub bytes: u64,
    /// The permission bits, if the change sets other bits than the path has, sets special bits (set-uid, set-gid, sticky),
    /// or makes a new file that can be executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ModeChange>,
}

/// The permission bits of a path before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChange {
    /// `None` if no file or folder of the same kind exists there before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// Permission bits as in `chmod`, such as `0o755`.
    pub to: u32,
}

impl ModeChange {
    /// Returns the change if it is worth showing: the bits differ, the new ones are special, or a new file can be executed.
    pub fn between(from: Option<u32>, to: u32) -> Option<Self> {
        let (from, to) = (from.map(|mode| mode & 0o7777), to & 0o7777);
        let is_special = to & 0o7000 != 0;
        let is_new = from.is_none() && to & 0o111 != 0;
        (is_special || is_new || from.is_some_and(|from| from != to)).then_some(Self { from, to })
    }
}

impl fmt::Display for ModeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mode ")?;
        if let Some(from) = self.from.filter(|from| *from != self.to) {
            write!(f, "{from:03o} → ")?;
        }
        write!(f, "{:03o}", self.to)?;
        for (bit, name) in [(0o4000, "set-uid"), (0o2000, "set-gid"), (0o1000, "sticky")] {
            if self.to & bit != 0 {
                write!(f, " ({name})")?;
            }
        }
        Ok(())
    }
}

/// The effect of an undo, redo or rewind on one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum PathFate {
    /// The path's previous content, mode or link target is restored.
    Restore,
    /// The path did not exist before, so it is deleted.
    Delete,
    /// Somebody else changed the path since. It is left alone unless forced.
    Conflict { why: String },
    /// The path cannot be restored.
    Lost { why: String },
}

/// The kind of a file-system entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    File,
    Symlink,
    Dir,
}

/// A conversation that is taken back to the state before a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationPlan {
    /// This message and everything after it are removed from the conversation.
    pub to: MessageId,
    /// First line of that message.
    pub text: String,
    /// Number of ledger entries that leave the conversation.
    pub entries: u64,
    /// Number of entries that come back into the conversation, because an earlier rewind or change is taken back with the rest.
    #[serde(default)]
    pub returning: u64,
}

/// The result of carrying out a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoOutcome {
    pub plan: u64,
    pub kind: UndoKind,
    /// Number of paths that were restored.
    pub restored: u64,
    /// Number of paths that were deleted.
    pub deleted: u64,
    /// Conflicts and lost paths, left as they are.
    pub left: Vec<SkippedPath>,
    /// Paths whose change was attempted and failed.
    pub failed: Vec<SkippedPath>,
    /// Set if the conversation was taken back.
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

    #[test]
    fn permission_bits_are_shown_if_they_change_or_are_special() {
        for (from, to, want) in [
            (Some(0o644), 0o100_644, None),
            (None, 0o600, None),
            (Some(0o644), 0o755, Some("mode 644 → 755")),
            (Some(0o755), 0o104_755, Some("mode 755 → 4755 (set-uid)")),
            (Some(0o4755), 0o4755, Some("mode 4755 (set-uid)")),
            (None, 0o755, Some("mode 755")),
            (None, 0o7755, Some("mode 7755 (set-uid) (set-gid) (sticky)")),
            (Some(0o755), 0o7, Some("mode 755 → 007")),
        ] {
            let shown = ModeChange::between(from, to).map(|change| change.to_string());
            assert_eq!(shown.as_deref(), want, "{from:?} {to:o}");
        }
    }
}
