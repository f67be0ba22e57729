//! Turns: the terms of one, the reason why it ended, and its result with usage and cost.

use crate::{AnswerText, CallId, Cost, DenialCause, Millis, TurnCompaction, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Requests of the command or skill that starts a turn. They count until the turn ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnTerms {
    /// Permission rules for calls that run without a question, as written. Deny and ask rules take precedence.
    pub allow: Vec<String>,
    /// Name of the model.
    pub model: Option<String>,
    /// Level of effort, such as `high`.
    pub effort: Option<String>,
    /// Set if a subagent does the work of the command.
    pub fork: Option<Fork>,
}

/// A command or skill with `context: fork`: a subagent works on its prompt, and the session gets the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fork {
    /// Name of the agent; `None`: the general one.
    pub agent: Option<String>,
    /// The prompt of the subagent. Empty in the terms that are read from a command's file, and set when the command is
    /// called.
    pub prompt: String,
}

/// The reason why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TurnEnd {
    /// The model ended its answer without a call.
    Completed,
    Interrupted,
    /// The limit on answered requests was reached.
    MaxTurns {
        limit: u64,
    },
    /// The cost limit of the run was reached; `what` names the limit.
    Budget {
        what: String,
    },
    /// The token limit of the run was reached; `what` names the limit.
    TokenLimit {
        what: String,
    },
    /// The time limit of the turn was reached; `what` names the limit.
    TimeLimit {
        what: String,
    },
    /// The model ended without a final message, also after one more request for it. Its earlier work is kept.
    NoAnswer {
        what: String,
    },
    /// The model wrote tool calls as text instead of making them, so none was run. `what` says which calls,
    /// why, and what to do.
    CallsAsText {
        what: String,
    },
    /// The model repeated the same calls and got the same results.
    Repetition {
        what: String,
    },
    /// The model refused to answer, for this reason.
    Refusal {
        reason: String,
    },
    /// The context is full and cannot be compacted, or automatic compaction is off. `breakdown` lists what
    /// fills it.
    ContextFull {
        breakdown: String,
    },
    /// After two compactions in a row there is still no room for new messages. `what` says why and what to
    /// do.
    NoRoom {
        what: String,
    },
    /// A hook ended the turn; `what` says why.
    HookStopped {
        what: String,
        /// The hook refused the prompt of the turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<RefusedPrompt>,
    },
    /// A hook wants this call to be decided in a later run of the session. The turn ended before the call.
    Deferred {
        call: DeferredCall,
    },
    /// The model cannot be reached, or it refused the request permanently. `kind` is the machine name of the
    /// error.
    ModelError {
        kind: String,
        message: String,
        /// Status of HTTP, if the server answered.
        status: Option<u16>,
    },
    /// Something in becket or on this machine failed (the disk is full, …).
    Failed {
        message: String,
    },
}

/// A prompt that a hook refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedPrompt {
    pub prompt: String,
    pub reason: String,
    /// The id that a program gave the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
}

impl TurnEnd {
    /// The machine-readable name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::MaxTurns { .. } => "max_turns",
            Self::Budget { .. } => "budget",
            Self::TokenLimit { .. } => "token_limit",
            Self::TimeLimit { .. } => "time_limit",
            Self::NoAnswer { .. } => "no_answer",
            Self::CallsAsText { .. } => "calls_as_text",
            Self::Repetition { .. } => "repetition",
            Self::Refusal { .. } => "refusal",
            Self::ContextFull { .. } => "context_full",
            Self::NoRoom { .. } => "no_room",
            Self::HookStopped { .. } => "hook_stopped",
            Self::Deferred { .. } => "tool_deferred",
            Self::ModelError { .. } => "model_error",
            Self::Failed { .. } => "failed",
        }
    }

    /// The limit that was reached, as text for people; `None` if the turn ended for another reason.
    pub fn limit(&self) -> Option<&str> {
        match self {
            Self::Budget { what } | Self::TokenLimit { what } | Self::TimeLimit { what } => Some(what),
            _ => None,
        }
    }
}

/// A call that waits for a later run of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeferredCall {
    pub id: CallId,
    pub name: String,
    pub input: Value,
}

/// The result of a turn: its end, text, usage and cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    pub end: TurnEnd,
    /// Text of the last assistant message that has text. Incomplete if the stream broke.
    #[serde(flatten)]
    pub text: AnswerText,
    /// Name of the reason why the last answer ended: `end_turn`, `tool_use`, `max_tokens`, …
    pub stop_reason: Option<String>,
    /// Number of steps: requests that were answered in this turn.
    pub steps: u64,
    /// Time in milliseconds from the prompt to the end.
    pub duration: Millis,
    /// The part of `duration` in which requests ran.
    pub api_duration: Millis,
    /// Usage of the conversation's own requests, without those of subagents, hooks, summaries and titles.
    pub usage: Usage,
    /// Cost of all requests.
    pub cost: Cost,
    /// Usage and cost of each model by all requests, with its context window and output limit.
    pub models: Vec<ModelUsage>,
    /// Calls that did not run, in order.
    pub denials: Vec<PermissionDenial>,
    #[serde(flatten)]
    pub compaction: TurnCompaction,
    /// True if the session should be saved but is not, because the disk is full or not writable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsaved: bool,
}

impl TurnResult {
    /// Returns the usage of all requests, also of those beside the conversation.
    pub fn whole_usage(&self) -> Usage {
        let mut sum = Usage::default();
        self.models.iter().for_each(|model| sum += model.usage);
        sum
    }

    /// Returns the result of a turn that ended because something in becket failed, with nothing counted.
    pub fn failed(message: String) -> Self {
        Self {
            end: TurnEnd::Failed { message },
            text: AnswerText::default(),
            stop_reason: None,
            steps: 0,
            duration: Millis(0),
            api_duration: Millis(0),
            usage: Usage::default(),
            cost: Cost::default(),
            models: Vec::new(),
            denials: Vec::new(),
            compaction: TurnCompaction::default(),
            unsaved: false,
        }
    }
}

/// Tokens and cost of one model in a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// `provider/name`.
    pub model: String,
    pub usage: Usage,
    pub cost: Cost,
    /// Context window of the model in tokens.
    pub context_window: u64,
    /// Output limit in tokens.
    pub max_output: u64,
}

/// A call that did not run because permission was denied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionDenial {
    #[serde(rename = "tool_name")]
    pub tool: String,
    #[serde(rename = "tool_use_id")]
    pub call_id: CallId,
    #[serde(rename = "tool_input")]
    pub input: Value,
    /// Says what was denied and why, for every reader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default)]
    pub cause: DenialCause,
}
