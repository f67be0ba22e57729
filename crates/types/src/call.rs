//! Tool calls from the outside: the specification of a tool, the access a call needs, and its output.

use crate::{BlobId, Part};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// A tool's specification, as the model receives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Wire name, lower case, `[a-z0-9_-]{1,64}`.
    pub name: String,
    pub description: String,
    /// JSON Schema of the input; an object schema. Shared, since lists of tools are copied and compared with each request.
    pub input_schema: Arc<Value>,
}

/// The kind of side effect that a call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Touches nothing outside the session (todo, recall, skill).
    Session,
    /// Reads files.
    Read,
    /// Changes files at known paths.
    Write,
    /// Runs a command.
    Execute,
    /// Talks to the network.
    Network,
    /// Starts a subagent. Each of the subagent's own calls is judged separately.
    Delegate,
}

/// Everything one concrete call is about to touch. Permission rules are matched against it, and calls that
/// write the same path are ordered by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    pub effect: Effect,
    /// Absolute paths, resolved lexically and through symlinks as far as they exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "crate::path_form::list")]
    pub paths: Vec<PathBuf>,
    /// The shell command, for [`Effect::Execute`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The text that a rule such as `Skill(name)` or `Fetch(domain:…)` matches. Used by calls that have
    /// neither a path nor a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// True if the command asks to run outside the sandbox, because it failed inside.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfined: bool,
}

impl Access {
    /// An access without effects outside the session: no paths, no command.
    pub fn session() -> Self {
        Self { effect: Effect::Session, paths: Vec::new(), command: None, subject: None, unconfined: false }
    }
    /// An access that reads one file or folder. `path` is absolute.
    pub fn read(path: PathBuf) -> Self {
        Self { effect: Effect::Read, paths: vec![path], ..Self::session() }
    }
    /// An access that changes one file. `path` is absolute.
    pub fn write(path: PathBuf) -> Self {
        Self { effect: Effect::Write, paths: vec![path], ..Self::session() }
    }
    /// An access that runs a shell command. `command` is the whole script and may have several lines.
    pub fn execute(command: impl Into<String>) -> Self {
        Self { effect: Effect::Execute, command: Some(command.into()), ..Self::session() }
    }

    /// True if this call may run at the same time as other read-only calls.
    pub fn is_read_only(&self) -> bool {
        matches!(self.effect, Effect::Session | Effect::Read)
    }
}

/// The output of a tool. It has two faces: `content` for the model, `details` for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    pub content: String,
    #[serde(default)]
    pub is_error: bool,
    /// True if an interrupt, a timeout or the death of the process ended the call. Its effect is then
    /// unknown.
    #[serde(default)]
    pub interrupted: bool,
    /// Structured data for user interfaces: diff, exit code, ranges, counts. User interfaces never parse
    /// `content`.
    #[serde(default)]
    pub details: Value,
    /// Images that are sent to the model together with the text.
    #[serde(default)]
    pub images: Vec<Part>,
    /// The blob with the whole output, if `content` holds only a part of it.
    #[serde(default)]
    pub spill: Option<BlobId>,
    /// Files this call changed.
    #[serde(default)]
    pub changes: Vec<FileChange>,
    /// Number of last lines that stay visible when the output is pruned; 0 for none.
    #[serde(default)]
    pub excerpt_lines: u32,
    /// The end of the part that an earlier call returned of the same output. It is not sent again. It is kept so that a
    /// secret which begins in it and ends in `content` is found, and masked in `content`.
    #[serde(skip)]
    pub before: String,
    /// Text of the file before the call, for programs that drive becket. Kept in no session.
    #[serde(skip)]
    pub original: Option<String>,
}

impl ToolOutput {
    /// The output of a call that succeeded: the text that the model reads. It may have several lines.
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }
    /// The output of a call that failed. The model reads `content` and can correct its call.
    pub fn error(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true, ..Self::default() }
    }
}

/// A file that a call created, deleted or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    #[serde(with = "crate::path_form")]
    pub path: PathBuf,
    pub kind: FileChangeKind,
}

/// The way in which a call changed a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    Add,
    Delete,
    Update,
}
