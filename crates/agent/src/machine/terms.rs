//! The words of the machine: what can happen ([`Input`]) and what is to be done about it ([`Action`]).
//!
//! Plain data without behaviour. An outcome in [`Input`] names the [`Action`] that it belongs to.

use super::PromptId;
use becket_types::{CompactionTrigger, DeliveryMode, FinishReason, TurnEnd};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Prompt {
        id: PromptId,
        mode: DeliveryMode,
    },
    /// Go on with a turn that an earlier process left unfinished. Ignored unless idle.
    Continue,
    Interrupt,
    Compact,
    UndoCompaction,
    /// Undo, redo or rewind. Ignored unless idle.
    Restore,
    EndInput,
    /// Outcome of [`Action::Assess`].
    Assessed(Facts),
    /// Outcome of [`Action::Request`]: the answer is whole.
    Answered(Answer),
    /// Outcome of [`Action::Request`]: it failed.
    Broke(Break),
    /// Outcome of [`Action::CancelRequest`]: this many whole calls are in the partial answer.
    Cancelled {
        calls: usize,
    },
    /// Outcome of [`Action::RunTools`], cancelled or not: every call has a result.
    ToolsDone,
    /// Outcome of [`Action::Compact`].
    CompactionDone(CompactionEnd),
    /// Outcome of [`Action::Restore`].
    Restored,
}

/// What only the driver can know before a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// A limit in money, tokens or time is used up: how the turn ends.
    pub over: Option<TurnEnd>,
    pub repetition: Repetition,
    pub owed: Owed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Repetition {
    #[default]
    None,
    /// Tell the model; reported once per repetition.
    Nudge(String),
    /// End the turn.
    Stop(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Owed {
    #[default]
    No,
    Compact,
    /// Too full, and no compaction is allowed or useful; says what fills the window.
    Full(String),
    /// Further compactions would show the model nothing new; says why and what to do.
    NoRoom(String),
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub finish: FinishReason,
    /// Tool calls in it.
    pub calls: usize,
    /// Neither text nor calls: nothing at all, or thinking only.
    pub empty: bool,
    /// The text holds tool calls that were not made; says which, why and what to do.
    pub written_calls: Option<String>,
    /// Another model stands ready in case this answer is of no use.
    pub fallback: bool,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    pub kind: BreakKind,
    /// How the turn ends if this is final.
    pub end: TurnEnd,
    /// Another model stands ready that may not have this failure.
    pub fallback: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakKind {
    /// The answer had begun and broke: asking again may help.
    Stream,
    /// A success status with something that is no answer: one re-ask.
    Malformed,
    /// The context is too long for the model.
    Overflow,
    /// Asking again is useless, or was done by the model client already.
    Final,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionEnd {
    Done,
    /// Refused or useless; says what fills the window.
    Failed(String),
    /// By an interrupt; the history is as it was.
    Cancelled,
}

/// Why calls of an answer get results without being run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRun {
    /// The answer was cut by the output limit.
    Cut,
    /// The model called tools in the wrap-up, where it was asked not to.
    WrapUp,
    /// The answer was refused or filtered.
    Refused,
    /// The user interrupted.
    Interrupted,
}

/// A message of the harness to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The same calls again and again; says which.
    Repetition(String),
    /// The answer was cut by the output limit, in its text or in a call.
    Cut,
    /// The answer was empty after work was done.
    NoAnswer,
    /// The turn limit is reached: sum up, call no tools.
    WrapUp { limit: u64 },
}

/// What to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    StartTurn,
    /// Append these prompts. `steered`: the model has answered in this turn already.
    Deliver {
        prompts: Vec<PromptId>,
        steered: bool,
    },
    /// Report [`Facts`].
    Assess,
    /// Send. `attempt` 0 is the first; later ones wait a moment before they send.
    Request {
        step: u64,
        attempt: u32,
        wrap_up: bool,
    },
    /// The last answer, whole or partial, leaves the view (a `revert` entry).
    Supersede,
    /// Requests go to the next fallback model from here on.
    FallBack,
    CancelRequest,
    RunTools,
    /// Write a result for each call of the last answer without running it.
    CloseCalls(NotRun),
    /// The second one in a row means: do not wait for the tools to stop.
    CancelTools,
    Compact {
        trigger: CompactionTrigger,
    },
    CancelCompaction,
    Note(Note),
    UndoCompaction,
    Restore,
    /// Write that the user interrupted.
    MarkInterrupt,
    EndTurn(TurnEnd),
    Exit,
}
