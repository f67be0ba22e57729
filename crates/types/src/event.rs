//! What goes between the agent and its front ends: [`Event`] out, [`Command`] in.
//!
//! A front end holds no agent logic: it can be driven and tested from a file of events. Every event that matters is
//! derivable from the ledger, so a front end that was away catches up by reading.

use crate::{
    Access, CallId, CompactionPlan, CompactionTrigger, ContextChange, ContextPlan, Cost, FileChange,
    FinishReason, LeftOut, Message, MessageId, Millis, Part, RewindWhat, Seq, SessionId, SpanKind, Tokens,
    UndoOutcome, UndoPlan, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;

/// What a front end asks of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    Prompt(PromptInput),
    Interrupt,
    Compact {
        focus: Option<String>,
    },
    SetModel {
        model: String,
    },
    SetMode {
        mode: String,
    },
    /// The answer to an [`Event::PermissionAsked`].
    Decide {
        call_id: CallId,
        decision: Decision,
    },
    /// Take back a prompt that was not delivered yet; answered by [`Event::Withdrawn`] where it is not too late.
    Withdraw {
        client_id: String,
    },
    /// Withdraw a rule that a person allowed; answered by [`Event::Grants`].
    Revoke {
        rule: String,
    },
    /// A command of a program that waits for an answer: [`Event::Receipt`] says whether it was accepted.
    WithReceipt {
        request_id: String,
        what: Box<Command>,
    },
    /// Another title for the session.
    Rename {
        title: String,
    },
    /// Plan a compaction, its summary included. Answered by [`Event::CompactionPlanned`]; nothing is changed yet.
    PlanCompaction {
        focus: Option<String>,
    },
    /// The planned compaction with a summary that a person wrote; answered by another [`Event::CompactionPlanned`].
    EditCompaction {
        plan: u64,
        summary: String,
    },
    /// Undo the last compaction.
    UndoCompaction,
    /// The compaction that was undone last counts again.
    RedoCompaction,
    /// Plan to take back what the last turn did to files. Answered by [`Event::UndoPlanned`]; nothing is changed yet.
    Undo,
    /// Plan to take the last undo back.
    Redo,
    /// Plan to go back to before this message of the user's.
    Rewind {
        to: MessageId,
        what: RewindWhat,
    },
    /// Plan to change what the model sees. Answered by [`Event::ContextPlanned`]; nothing is changed yet.
    ChangeContext(ContextChange),
    /// Do what the plan with this number says. Answered by [`Event::UndoDone`], [`Event::ContextChanged`] or
    /// [`Event::CompactBoundary`].
    CarryOut {
        plan: u64,
        /// Overwrite what somebody else changed since, too; what stands there is kept first.
        #[serde(default)]
        force: bool,
    },
    /// For the subagent that works for this call: [`Command::Decide`] and [`Command::Interrupt`].
    ToSubagent {
        call_id: CallId,
        what: Box<Command>,
    },
    /// No more input will come: end when idle.
    EndInput,
}

/// A message from a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptInput {
    pub parts: Vec<Part>,
    pub mode: DeliveryMode,
    /// The front end's own id of the message, echoed in [`Event::UserMessage`].
    #[serde(default)]
    pub client_id: Option<String>,
}

/// When a message that arrives while the agent works is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryMode {
    /// At the next step, in this turn (T5).
    Steer,
    /// At the next idle, as a turn of its own.
    Queue,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    AllowOnce,
    AllowSession,
    /// Once, without these hunks of [`PermissionRequest::preview`], counted through all its files from 0.
    AllowWithout {
        rejected: Vec<usize>,
    },
    Deny {
        reason: Option<String>,
    },
}

/// What happens in a session, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    SessionStarted {
        session: SessionId,
        cwd: PathBuf,
        /// `provider/name`.
        model: String,
        tools: Vec<String>,
        permission_mode: String,
        skills: Vec<String>,
        api_key_source: String,
        resumed: bool,
        title: Option<String>,
    },
    /// A user message is in the ledger. `steered`: it arrived mid-turn.
    UserMessage {
        message: Message,
        client_id: Option<String>,
        steered: bool,
    },
    /// This prompt was taken back: it will not be delivered.
    Withdrawn {
        client_id: String,
    },
    /// The rules that a person allowed until the session ends. Comes after each change of them.
    Grants {
        rules: Vec<String>,
    },
    /// The next request goes to another model, `provider/name`.
    ModelChosen {
        model: String,
    },
    /// A [`Command::WithReceipt`] was taken up. `error`: why it was refused.
    Receipt {
        request_id: String,
        error: Option<String>,
    },
    /// The session has another title.
    Renamed {
        title: String,
    },
    StepStarted {
        step: u64,
    },
    /// Streaming text of part `index` of the assistant message.
    TextDelta {
        message: MessageId,
        index: u32,
        text: String,
    },
    ReasoningDelta {
        message: MessageId,
        index: u32,
        text: String,
    },
    /// Streaming JSON of a tool call's input. The first of a call carries its id and name, with empty text.
    ToolCallDelta {
        message: MessageId,
        index: u32,
        call_id: CallId,
        name: String,
        json: String,
    },
    /// The assistant message is whole, or as whole as it got.
    AssistantMessage {
        message: Message,
        finish: FinishReason,
        usage: Usage,
        cost: Cost,
        /// Milliseconds from sending the request to the first byte of content.
        ttft: Option<Millis>,
        api_time: Millis,
    },
    PermissionAsked(Box<PermissionRequest>),
    PermissionDenied(PermissionDenial),
    ToolStarted {
        call_id: CallId,
        name: String,
        input: Value,
    },
    /// Live output of a running tool.
    ToolOutput {
        call_id: CallId,
        chunk: String,
    },
    /// The tool message that is in the ledger now.
    ToolFinished {
        message: Message,
        changes: Vec<FileChange>,
        duration: Millis,
    },
    CompactionStarted {
        trigger: CompactionTrigger,
    },
    /// The compaction with this entry number took effect.
    CompactBoundary {
        entry: Seq,
        trigger: CompactionTrigger,
        pre_tokens: Tokens,
        post_tokens: Tokens,
        summary: String,
        anchor: Option<String>,
        /// Messages before this entry are out of the context, but for those in `kept`.
        #[serde(default)]
        tail_from: Seq,
        #[serde(default)]
        kept: Vec<MessageId>,
        /// Text of the summarising model that is not in the summary.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<LeftOut>,
    },
    CompactionFailed {
        reason: String,
    },
    /// What a compaction would do; [`Command::CarryOut`] does it.
    CompactionPlanned(Box<CompactionPlan>),
    /// The compaction with this entry number counts no more, or counts again.
    CompactionReverted {
        entry: Seq,
        counts: bool,
    },
    /// A message of becket's own that the model sees and people do not (continuation, nudge, rules).
    SyntheticMessage {
        message: Message,
    },
    /// Outputs became stubs outside a compaction.
    Pruned {
        entry: Seq,
        calls: u64,
        freed: Tokens,
    },
    Retry {
        attempt: u32,
        max: u32,
        delay: Millis,
        status: Option<u16>,
        error: String,
    },
    /// The size of the context after the last request, and the limit it is compared with.
    ContextUsed {
        used: Tokens,
        usable: Tokens,
        window: Tokens,
        /// Where a compaction is owed.
        #[serde(default)]
        threshold: Tokens,
        /// What it is made of, estimated.
        #[serde(default)]
        kinds: Vec<(SpanKind, Tokens)>,
    },
    Notice {
        level: NoticeLevel,
        text: String,
    },
    /// A summary is made in the background, for a compaction that may come.
    SummaryPreparation {
        state: PreparationState,
    },
    /// What an undo, redo or rewind would do; [`Command::CarryOut`] does it.
    UndoPlanned(Box<UndoPlan>),
    UndoDone(Box<UndoOutcome>),
    /// What a change of the context would do; [`Command::CarryOut`] does it.
    ContextPlanned(Box<ContextPlan>),
    /// The context was changed by hand; in a sentence.
    ContextChanged {
        text: String,
    },
    /// Something happened in the session of the subagent that works for this call. What only streams is left out.
    Subagent {
        call_id: CallId,
        what: Box<Event>,
    },
    TurnFinished(Box<TurnResult>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    Info,
    Warning,
    Error,
}

/// The progress of the summary that is made in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreparationState {
    Began,
    Ready,
    Failed { why: String },
}

impl fmt::Display for PreparationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began => f.write_str("Preparing a summary in the background."),
            Self::Ready => f.write_str("A summary is prepared."),
            Self::Failed { why } => write!(f, "No summary was prepared: {}.", why.trim_end_matches('.')),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionRequest {
    pub call_id: CallId,
    pub tool: String,
    pub input: Value,
    pub access: Access,
    /// Why it asks, in a sentence.
    pub reason: String,
    /// The rule that would allow it from now on; `None` where no rule would.
    #[serde(default)]
    pub offer: Option<RuleOffer>,
    /// The allow rule that comes nearest and does not match.
    #[serde(default)]
    pub nearest: Option<String>,
    /// Set where the call has run and its output holds secrets: their kinds, in words. The question is whether the output may
    /// be sent to the model's provider as it is; a refusal sends it masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<String>,
    /// What the call would change, file by file; empty where it cannot be said beforehand.
    #[serde(default)]
    pub preview: Vec<FilePreview>,
}

/// A rule that can be allowed, and what it allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleOffer {
    pub rule: String,
    /// What it matches, this call and others, in a sentence.
    pub covers: String,
}

/// What a call would change in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePreview {
    pub path: PathBuf,
    /// Unified diff by hunks, each beginning with its `@@` line.
    pub hunks: Vec<String>,
}

/// A call that did not run because it was not permitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionDenial {
    #[serde(rename = "tool_name")]
    pub tool: String,
    #[serde(rename = "tool_use_id")]
    pub call_id: CallId,
    #[serde(rename = "tool_input")]
    pub input: Value,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TurnEnd {
    Completed,
    Interrupted,
    MaxTurns {
        limit: u64,
    },
    /// The money of the run is spent; `what` says how much.
    Budget {
        what: String,
    },
    /// The tokens of the run are used up; `what` says how many.
    TokenLimit {
        what: String,
    },
    /// The wall time of the turn is over; `what` says how much it was.
    TimeLimit {
        what: String,
    },
    /// The model ended without a last message, also when asked once more. What it did before is kept.
    NoAnswer {
        what: String,
    },
    /// The model wrote tool calls into its text instead of making them, so nothing was run; `what` says which, why and
    /// what to do.
    CallsAsText {
        what: String,
    },
    /// The same calls again and again with the same results.
    Repetition {
        what: String,
    },
    Refusal {
        reason: String,
    },
    /// The context is full and cannot be compacted (or auto-compaction is off); `breakdown` says what fills it.
    ContextFull {
        breakdown: String,
    },
    /// Two compactions in a row left no room to show the model anything new; `what` says why and what to do.
    NoRoom {
        what: String,
    },
    /// The model cannot be reached or refused the request for good. `kind` is the machine name of the error.
    ModelError {
        kind: String,
        message: String,
        status: Option<u16>,
    },
    /// Something in becket or on this machine failed (the disk is full, …).
    Failed {
        message: String,
    },
}

impl TurnEnd {
    /// The limit that is used up, for people; `None` for every other end.
    pub fn limit(&self) -> Option<&str> {
        match self {
            Self::Budget { what } | Self::TokenLimit { what } | Self::TimeLimit { what } => Some(what),
            _ => None,
        }
    }
}

/// The sum of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    pub end: TurnEnd,
    /// The text of the last assistant message that had any; partial where the stream broke.
    pub text: String,
    pub stop_reason: Option<String>,
    /// Steps: requests answered in this turn.
    pub steps: u64,
    pub duration: Millis,
    pub api_duration: Millis,
    pub usage: Usage,
    pub cost: Cost,
    /// Usage and cost by `provider/name`, with its window and output limit.
    pub models: Vec<ModelUsage>,
    pub denials: Vec<PermissionDenial>,
    pub compactions: u64,
    /// Set if this was no turn but a compaction by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<CompactedByHand>,
    /// The session should be on disk and is not, because the disk is full or cannot be written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsaved: bool,
}

/// The size of the context before and after a compaction by hand; equal if nothing was compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactedByHand {
    pub pre_tokens: Tokens,
    pub post_tokens: Tokens,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelUsage {
    pub model: String,
    pub usage: Usage,
    pub cost: Cost,
    pub context_window: u64,
    pub max_output: u64,
}
