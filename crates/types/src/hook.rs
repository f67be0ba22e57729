//! Hooks as all crates but their engine know them: the events, the input of a hook, and its decision.
//!
//! Data only. Names of events and keys are those of Claude Code, so that hooks written for it work unchanged. Tools and
//! their inputs have the names of [`crate::sdk_names`] here.

use crate::{CallId, Millis};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// Declares the events with their public names.
macro_rules! events {
    ($($name:ident),* $(,)?) => {
        /// A moment at which hooks run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum HookEvent { $($name),* }

        impl HookEvent {
            /// All events, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the name in configurations and in the input of hooks, such as `PreToolUse`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }
        }
    };
}

events! {
    SessionStart, SessionEnd, Setup, InstructionsLoaded, UserPromptSubmit, UserPromptExpansion, MessageDisplay,
    PreToolUse, PermissionRequest, PermissionDenied, PostToolUse, PostToolUseFailure, PostToolBatch, Notification,
    SubagentStart, SubagentStop, TaskCreated, TaskCompleted, Stop, StopFailure, TeammateIdle, ConfigChange,
    CwdChanged, DirectoryAdded, FileChanged, WorktreeCreate, WorktreeRemove, PreCompact, PostCompact, Elicitation,
    ElicitationResult, PreModelSwitch, PostModelSwitch,
}

impl HookEvent {
    /// Returns the event with exactly this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|event| event.as_str() == name)
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The reason for the end of a session, for its hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The conversation was cleared, and a new one begins.
    Clear,
    /// The person changes to another session.
    Resume,
    /// The person leaves the program.
    PromptInputExit,
    /// The run is over, or a signal ended it.
    Other,
}

impl EndReason {
    /// Returns the word that hooks get, in Claude Code's names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Resume => "resume",
            Self::PromptInputExit => "prompt_input_exit",
            Self::Other => "other",
        }
    }
}

/// One moment in a session, as hooks are given it.
#[derive(Clone, Debug, PartialEq)]
pub struct HookCall {
    pub event: HookEvent,
    /// The text that matchers are compared with, such as the tool, the trigger or the source, depending on the event.
    /// `None`: every matcher fits.
    pub subject: Option<String>,
    pub call_id: Option<CallId>,
    /// The JSON on standard input: the common keys and those of the event.
    pub input: Map<String, Value>,
    /// Receives the progress of the runs.
    pub watch: Option<HookWatch>,
}

/// A function that receives runs of hooks while they continue. Two of them count as equal, because they decide nothing.
#[derive(Clone)]
pub struct HookWatch(pub Arc<dyn Fn(HookProgress) + Send + Sync>);

impl fmt::Debug for HookWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookWatch")
    }
}

impl PartialEq for HookWatch {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A run of a hook that has begun or printed something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookProgress {
    /// The id of the run, which its [`HookRun`] has too.
    pub id: String,
    pub event: String,
    /// The command, address, prompt or callback, in one line.
    pub hook: String,
    /// The text that its matcher was compared with: the tool, the trigger, the source.
    #[serde(default)]
    pub subject: Option<String>,
    /// The end of the run's outputs so far; `None`: the run has only begun.
    pub printed: Option<HookOutput>,
}

/// The end of the outputs of a running hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookOutput {
    pub stdout: String,
    pub stderr: String,
}

/// A hook's answer about the permission for a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookPermission {
    Allow {
        reason: String,
    },
    Ask {
        reason: String,
    },
    /// The call waits for a later run of the session: the turn ends before it. Where a person can be asked, it is a question.
    Defer {
        reason: String,
    },
    Deny {
        reason: String,
    },
}

/// Text for the model, with the name of the hook that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookText {
    /// The hook, in one line: its command, address, prompt or callback.
    pub from: String,
    pub text: String,
}

/// The decision of all hooks of one moment together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookOutcome {
    pub permission: Option<HookPermission>,
    /// The reason for which the prompt, the end of the turn, or the compaction is refused. After a tool call: words for the
    /// model.
    pub block: Option<HookText>,
    /// The turn ends now, with the reason for people.
    pub stop: Option<String>,
    /// Another input for the tool, in the SDK's shape.
    pub updated_input: Option<Value>,
    /// Another output of the tool.
    pub updated_output: Option<Value>,
    /// Permission updates that came with an allowed request, in the SDK's shape.
    pub updated_permissions: Option<Value>,
    /// True if a denial by a `PermissionRequest` hook also ends the turn.
    pub interrupt: bool,
    /// Answers that only some events take.
    pub special: HookSpecial,
    /// Texts for the model.
    pub context: Vec<HookText>,
    /// Lines for people.
    pub messages: Vec<HookMessage>,
    pub runs: Vec<HookRun>,
}

/// Answers of hooks that only some events take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookSpecial {
    /// A title for the session.
    pub title: Option<String>,
    /// A message that is sent as if the user had written it, at the start of the session.
    pub first_message: Option<String>,
    /// True if the model may make a denied call again.
    pub retry: bool,
    /// The answer to a question of an MCP server: `accept`, `decline` or `cancel`, and the content of a form.
    pub elicitation: Option<(String, Option<Value>)>,
}

/// A line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookMessage {
    /// True if something went wrong; false if the hook asked to show the text.
    pub warning: bool,
    pub text: String,
}

/// One run of one hook, as the ledger keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRun {
    /// Tells the runs of a process apart. Not written to the ledger.
    #[serde(skip)]
    pub id: String,
    pub event: String,
    /// The command, address, prompt or callback, in one line.
    pub hook: String,
    /// The text that its matcher was compared with: the tool, the trigger, the source. Not written to the ledger.
    #[serde(skip)]
    pub subject: Option<String>,
    /// True if the hook ended the turn, or kept the model from going on. Not written to the ledger.
    #[serde(skip)]
    pub stopped: bool,
    /// `command`, `http`, `prompt`, `agent`, `mcp_tool` or `callback`.
    pub handler: String,
    /// The file or setting that configures the hook.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The tool call to which the event belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    pub result: HookResult,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub duration: Millis,
    /// The decision, the reason, or the error, shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// The end of one run of a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookResult {
    #[default]
    Ok,
    /// The hook denied, blocked or stopped something.
    Blocked,
    /// The hook could not be run, ended with an error, or printed text that is not an answer.
    Failed,
    TimedOut,
}

impl HookResult {
    /// Returns one or two words for people, such as `timed out`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_found_by_its_name() {
        assert_eq!(HookEvent::ALL.len(), 33);
        for event in HookEvent::ALL {
            assert_eq!(HookEvent::parse(event.as_str()), Some(*event));
        }
        assert_eq!(HookEvent::parse("pretooluse"), None);
    }
}
