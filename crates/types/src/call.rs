//! Tool calls as everybody but the tool itself knows them: what a tool offers, touches and returns.

use crate::{BlobId, Part};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// What the model is told about a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Wire name, lower case, `[a-z0-9_-]{1,64}`.
    pub name: String,
    pub description: String,
    /// JSON Schema of the input; an object schema.
    pub input_schema: Value,
}

/// What a call does to the world.
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
    /// Hands work to a subagent, each of whose calls is judged by itself.
    Delegate,
}

/// What one concrete call is about to touch: the subject of permission rules and of write ordering.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    pub effect: Effect,
    /// Absolute paths, resolved lexically and through symlinks as far as they exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathBuf>,
    /// The shell command, for [`Effect::Execute`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What a rule such as `Skill(name)` or `Fetch(domain:…)` matches, for calls without path or command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The command is to run outside the sandbox, in which it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfined: bool,
}

impl Access {
    pub fn session() -> Self {
        Self { effect: Effect::Session, paths: Vec::new(), command: None, subject: None, unconfined: false }
    }
    pub fn read(path: PathBuf) -> Self {
        Self { effect: Effect::Read, paths: vec![path], ..Self::session() }
    }
    pub fn write(path: PathBuf) -> Self {
        Self { effect: Effect::Write, paths: vec![path], ..Self::session() }
    }
    pub fn execute(command: impl Into<String>) -> Self {
        Self { effect: Effect::Execute, command: Some(command.into()), ..Self::session() }
    }

    /// Such calls may run side by side.
    pub fn is_read_only(&self) -> bool {
        matches!(self.effect, Effect::Session | Effect::Read)
    }
}

/// What a tool gives back. Two faces: `content` for the model, `details` for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    pub content: String,
    #[serde(default)]
    pub is_error: bool,
    /// Ended by an interrupt, a timeout or a death: the effect is unknown.
    #[serde(default)]
    pub interrupted: bool,
    /// For user interfaces: diff, exit code, ranges, counts. Nobody parses `content`.
    #[serde(default)]
    pub details: Value,
    /// Images that go to the model beside the text.
    #[serde(default)]
    pub images: Vec<Part>,
    /// The whole output in the blob store, where `content` is a cut of it.
    #[serde(default)]
    pub spill: Option<BlobId>,
    /// Files this call changed.
    #[serde(default)]
    pub changes: Vec<FileChange>,
    /// Last lines to keep visible when the output is pruned; 0 for none.
    #[serde(default)]
    pub excerpt_lines: u32,
}

impl ToolOutput {
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }
    pub fn error(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true, ..Self::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    pub path: PathBuf,
    pub kind: FileChangeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    Add,
    Delete,
    Update,
}
