//! Inputs and outputs of the machine: [`Input`] says what happened, [`Action`] says what to do.
//!
//! Plain data; a [`Note`] alone has a text. Each outcome in [`Input`] names the [`Action`] that it belongs to.

use super::PromptId;
use becket_types::{CompactionTrigger, DeliveryMode, FinishReason, TurnEnd};

/// Settings that stay the same during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Maximum number of answered requests in one turn, before the wrap-up.
    pub max_turns: Option<u64>,
    /// True if the machine may compact the context when the provider refuses a request as too long.
    pub auto_compact: bool,
    /// Hooks are asked before a turn ends by itself.
    pub stop_hooks: bool,
}

/// An event that the machine reacts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Prompt {
        id: PromptId,
        mode: DeliveryMode,
    },
    /// Continues a turn that an earlier process left unfinished. Ignored unless idle.
    Continue,
    Interrupt,
    Compact,
    /// Compact between turns, without anybody having asked for it. Ignored unless idle.
    CompactIdle,
    /// Work out a compaction by hand without making it. Ignored unless idle.
    PlanCompaction,
    UndoCompaction,
    /// Starts an undo, redo or rewind. Ignored unless idle.
    Restore,
    EndInput,
    /// Work in the background has begun, or the last of it has ended.
    Background {
        running: bool,
    },
    /// Outcome of [`Action::Assess`].
    Assessed(Facts),
    /// Outcome of [`Action::Request`]: the answer is complete.
    Answered(Answer),
    /// Outcome of [`Action::Request`]: the request failed.
    Broke(Break),
    /// Outcome of [`Action::CancelRequest`]. `calls`: number of complete calls in the partial answer.
    Cancelled {
        calls: usize,
    },
    /// Outcome of [`Action::RunTools`], cancelled or not: every call has a result.
    ToolsDone,
    /// Outcome of [`Action::AskStop`]: the model is sent back to work, or not.
    StopAsked {
        go_on: bool,
    },
    /// Outcome of [`Action::Compact`].
    CompactionDone(CompactionEnd),
    /// Outcome of [`Action::PlanCompaction`], cancelled or not.
    CompactionPlanned,
    /// Outcome of [`Action::Restore`].
    Restored,
}

/// Facts that only the driver knows, needed before a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Set if a limit in money, tokens or time is reached: the reason for the end of the turn.
    pub over: Option<TurnEnd>,
    pub repetition: Repetition,
    /// Work that is due before the request because of the context's size.
    pub owed: Owed,
}

/// The reaction to a model that repeats the same calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Repetition {
    #[default]
    None,
    /// Warn the model. Returned once per repetition.
    Nudge(String),
    /// End the turn.
    Stop(String),
}

/// The effect of the context's size on the next request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Owed {
    #[default]
    No,
    /// Compact before the next request.
    Compact,
    /// The context is too full, and a compaction is not allowed or would not help. Says what fills the
    /// window.
    Full(String),
    /// Further compactions would leave no room for new content. Says why and what to do.
    NoRoom(String),
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub finish: FinishReason,
    /// Number of tool calls.
    pub calls: usize,
    /// True if the answer has neither text nor calls. It may contain reasoning.
    pub empty: bool,
    /// Set if the text contains tool calls that were not made. Says which calls, why, and what to do.
    pub written_calls: Option<String>,
    /// True if a fallback model is available.
    pub fallback: bool,
    /// True if becket wrote the answer itself. It is no step of the turn.
    pub own: bool,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    pub kind: BreakKind,
    /// The end of the turn, if the failure is final.
    pub end: TurnEnd,
    /// True if a fallback model is available that may not have this failure.
    pub fallback: bool,
}

/// The way in which a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakKind {
    /// The stream broke after the answer had begun. A retry may help.
    Stream,
    /// A success status with an invalid answer. Retried once.
    Malformed,
    /// The context is too long for the model.
    Overflow,
    /// A retry is useless, or the model client has already tried.
    Final,
}

/// The outcome of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionEnd {
    /// The history is compacted.
    Done,
    /// The compaction was refused or would not help. Says what fills the window.
    Failed(String),
    /// A hook said no, for this reason.
    Refused(String),
    /// An interrupt cancelled the compaction. The history is unchanged.
    Cancelled,
}

/// The reason why calls of an answer get results without being run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRun {
    /// The output limit cut the answer.
    Cut,
    /// The model called tools in the wrap-up, although the note forbade it.
    WrapUp,
    /// The answer was refused or filtered.
    Refused,
    /// The user interrupted.
    Interrupted,
}

/// A message from becket to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The model repeats the same calls; says which.
    Repetition(String),
    /// The output limit cut the answer, in its text or in a call.
    Cut,
    /// The last answer ended with calls as text, and the turn goes on. The text is for people.
    CallsAsText(String),
    /// The last answer was empty although tools were run before.
    NoAnswer,
    /// The turn limit is reached: summarise the work and call no tools.
    WrapUp { limit: u64 },
}

impl Note {
    /// The message for the model, or for people.
    pub fn text(&self) -> String {
        match self {
            Self::Repetition(what) => format!(
                "{what}\nRepeating it will not change the result. Say what you expected, and try something different or \
                 end with what you know."
            ),
            Self::Cut => "Your last answer was cut because it reached the output limit. Go on exactly where it ended, \
                          without repeating anything. A call that was cut did not run: make it again in smaller parts."
                .to_owned(),
            Self::CallsAsText(what) => what.clone(),
            Self::NoAnswer => "Your last message was empty. If the task is done, say in a few words what you did. If it \
                               is not, go on with it."
                .to_owned(),
            Self::WrapUp { limit } => format!(
                "The limit of {limit} step{} for this turn is reached. Call no more tools. Sum up now: what is done, \
                 what is left, and what the next step would be.",
                if *limit == 1 { "" } else { "s" }
            ),
        }
    }
}

/// An instruction to the driver. Instructions are carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    StartTurn,
    /// Append these prompts. `steered`: the model has already answered in this turn.
    Deliver {
        prompts: Vec<PromptId>,
        steered: bool,
    },
    /// Determine the [`Facts`].
    Assess,
    /// Send a request. `attempt` is 0 for the first try; retries wait before they send.
    Request {
        step: u64,
        attempt: u32,
        wrap_up: bool,
    },
    /// Remove the last answer, complete or partial, from the view (with a `revert` entry).
    Supersede,
    /// Use the next fallback model from here on.
    FallBack,
    CancelRequest,
    RunTools,
    /// Ask the hooks if the turn may end. `sent_back`: times that they said no in this turn.
    AskStop {
        sent_back: u32,
    },
    /// Write a result for each call of the last answer without running it.
    CloseCalls(NotRun),
    /// Cancel the running tools. A second `CancelTools` in a row means: do not wait for them.
    CancelTools,
    Compact {
        trigger: CompactionTrigger,
    },
    PlanCompaction,
    /// Cancel a compaction or the plan of one.
    CancelCompaction,
    Note(Note),
    UndoCompaction,
    Restore,
    /// Record that the user interrupted.
    MarkInterrupt,
    EndTurn(TurnEnd),
    Exit,
}
