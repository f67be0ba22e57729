//! Messages between the agent and its front ends: [`Event`] out, [`Command`] in.
//!
//! A front end contains no agent logic, so a file of events is enough to drive and test it. Every event that
//! matters can be derived from the ledger, so a front end that was disconnected catches up by reading it.

use crate::{
    Access, CallId, Compaction, CompactionPlan, CompactionTrigger, ContextChange, ContextPlan, Cost,
    EndReason, FileChange, FinishReason, HookProgress, HookRun, LeftOut, Limit, Message, MessageId, Millis,
    Part, PermissionDenial, RewindWhat, Seq, SessionId, SpanKind, Tokens, TurnResult, TurnTerms, UndoOutcome,
    UndoPlan, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// A request from a front end to the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Delivers a message of the user; see [`DeliveryMode`] for the moment.
    Prompt(PromptInput),
    Interrupt,
    /// Continue the turn that an earlier process left unfinished. Only before the first turn of this process.
    Continue,
    /// Compacts the conversation now. `focus`: the user's words about what the summary should keep.
    Compact {
        focus: Option<String>,
    },
    /// Sends later requests to this model, `provider/name`.
    SetModel {
        model: String,
    },
    /// Sets the permission mode by its name, such as `acceptEdits`.
    SetMode {
        mode: String,
    },
    /// The answer to an [`Event::PermissionAsked`].
    Decide {
        call_id: CallId,
        decision: Decision,
    },
    /// Takes back a prompt that was not delivered yet. [`Event::Withdrawn`] answers, unless the prompt was delivered in the
    /// meantime.
    Withdraw {
        client_id: String,
    },
    /// Changes permission rules of one owner until the session ends; kinds that `rules` does not name stay as they are.
    /// Subagents that run get the change too. [`Event::Grants`] answers, or a notice says why nothing was changed.
    ChangeRules {
        owner: RuleOwner,
        change: RuleChange,
        rules: BTreeMap<RuleKind, Vec<String>>,
    },
    /// Counts a file as read in its present state, if its time of change is still `mtime` (milliseconds since 1970).
    SeedRead {
        #[serde(with = "crate::path_form")]
        path: PathBuf,
        mtime: u64,
    },
    /// Takes back all prompts that were not delivered yet. [`Event::Withdrawn`] answers for each.
    WithdrawAll,
    /// Adds a folder to the workspace of the session, which keeps it; `None`: only lists the folders. A notice answers.
    AddDirectory {
        #[serde(with = "crate::path_form::option")]
        path: Option<PathBuf>,
    },
    /// Removes a folder that was added to this session from its workspace.
    RemoveDirectory {
        #[serde(with = "crate::path_form")]
        path: PathBuf,
    },
    /// Asks a question about the conversation that does not become a part of it. [`Event::SideAnswer`] answers.
    SideQuestion {
        question: String,
    },
    /// Sets the effort of the next requests; `None`: the model's default.
    SetEffort {
        effort: Option<String>,
    },
    /// Changes a limit of the run, also while a turn runs; `None`: only reports the limits. A notice answers.
    Limits {
        change: Option<Limit>,
    },
    /// Wraps a command of a program that waits for an answer. [`Event::Receipt`] reports if the command was
    /// accepted.
    WithReceipt {
        request_id: String,
        what: Box<Command>,
    },
    /// Records runs of hooks that a host has called outside of the agent.
    RecordHooks {
        runs: Vec<HookRun>,
    },
    /// Changes the session's title.
    Rename {
        title: String,
    },
    /// Plans a compaction, including its summary. [`Event::CompactionPlanned`] answers; nothing is changed
    /// yet.
    PlanCompaction {
        focus: Option<String>,
    },
    /// Replaces the summary of a planned compaction by one that the user wrote. Another
    /// [`Event::CompactionPlanned`] answers.
    EditCompaction {
        plan: u64,
        summary: String,
    },
    /// Undoes the last compaction.
    UndoCompaction,
    /// Redoes the compaction that was undone last.
    RedoCompaction,
    /// Plans to undo the last turn's changes to files. [`Event::UndoPlanned`] answers; nothing is changed
    /// yet.
    Undo,
    /// Plans to undo the last `count` calls that changed files.
    UndoCalls {
        count: usize,
    },
    /// Plans to redo the last undo.
    Redo,
    /// Plans to go back to the state before this user message.
    Rewind {
        to: MessageId,
        what: RewindWhat,
    },
    /// Tells the model that a command in the background has ended. An idle agent begins a turn for it. `task`: its number.
    TaskEnded {
        task: u64,
        text: String,
    },
    /// Takes all messages out of the conversation; files stay as they are. [`Event::UndoDone`] answers.
    ClearConversation,
    /// Plans a manual change to the context. [`Event::ContextPlanned`] answers; nothing is changed yet.
    ChangeContext(ContextChange),
    /// Carries out the plan with this number. Answered by [`Event::UndoDone`], [`Event::ContextChanged`] or
    /// [`Event::CompactBoundary`].
    CarryOut {
        plan: u64,
        /// Also overwrites files that somebody else changed since. Their current content is saved first.
        #[serde(default)]
        force: bool,
    },
    /// Moves running commands and subagents to the background: those of this call, or of all calls. The calls get a result
    /// at once. [`Event::Notice`] answers.
    Background {
        call_id: Option<CallId>,
    },
    /// Forwards a command to the background task with this number: [`Command::Interrupt`] or [`Command::Prompt`].
    ToTask {
        task: u64,
        what: Box<Command>,
    },
    /// Forwards a command to the subagent that works for this call: [`Command::Decide`],
    /// [`Command::Interrupt`], or a [`Command::Prompt`] that it gets at its next step.
    ToSubagent {
        call_id: CallId,
        what: Box<Command>,
    },
    /// Announces that no more input will come. The agent exits when it is idle.
    EndInput,
    /// Names how the session ends, for hooks at its end. `EndInput` follows.
    Leave {
        reason: EndReason,
    },
    /// Ends the agent now, because a signal ends the process: hooks at the end of the session run, and a turn that runs stays
    /// unfinished.
    Abandon,
}

impl Command {
    /// Returns the command that changes the session's rules of one kind.
    pub fn change_rules(kind: RuleKind, change: RuleChange, rules: Vec<String>) -> Self {
        Self::ChangeRules { owner: RuleOwner::Session, change, rules: BTreeMap::from([(kind, rules)]) }
    }

    /// Returns the command that withdraws an allow rule of the session or of the settings.
    pub fn revoke(rule: &str) -> Self {
        Self::change_rules(RuleKind::Allow, RuleChange::Remove, vec![rule.to_owned()])
    }
}

/// Effect of a permission rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleKind {
    Allow,
    Ask,
    Deny,
}

/// Owner of permission rules that do not come from the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleOwner {
    /// Rules that were added while the session runs, most often by a person's answer.
    Session,
    /// Rules of the program that drives the session.
    Program,
    /// Ask rules for MCP servers to which the driving program gives the mode `auto`. They count only while the session is
    /// in `bypassPermissions`, for calls that no allow rule matches.
    Auto,
}

/// A change of a list of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleChange {
    /// The given rules are added to those that exist.
    Add,
    /// The given rules replace those that exist.
    Replace,
    /// The given rules are removed.
    Remove,
}

/// A message from a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PromptInput {
    pub parts: Vec<Part>,
    pub mode: DeliveryMode,
    /// The front end's own id of this message, returned in [`Event::UserMessage`].
    #[serde(default)]
    pub client_id: Option<String>,
    /// The terms of the turn. Never read from JSON: rights come from a decision of this process, not from a file.
    #[serde(skip)]
    pub terms: TurnTerms,
}

/// The moment at which a message that arrives during a turn is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryMode {
    /// At the next step, inside the current turn.
    #[default]
    Steer,
    /// Inside the current turn if the model works on after a step; otherwise as a new turn of its own. So each message of a
    /// program has a result with its answer.
    Join,
    /// When the agent is idle, as a new turn.
    Queue,
}

/// An answer to a [`PermissionRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Runs this call only.
    AllowOnce,
    /// Runs this call, and allows calls under the offered rule until the session ends.
    AllowSession,
    /// Allows the call once, with this input in place of the model's. It is judged again, so a deny rule still holds.
    AllowChanged { input: Value },
    /// Allows the call once, without these hunks of [`PermissionRequest::preview`]. Hunks are counted from 0
    /// across all files.
    AllowWithout { rejected: Vec<usize> },
    /// Does not run the call. The model reads the reason, if there is one.
    Deny { reason: Option<String> },
}

/// Everything that happens in a session, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first event. `tools` and `skills`: the names that the model can use. `api_key_source`: the variable or
    /// file of the key, `key_command` or `none`.
    SessionStarted {
        session: SessionId,
        #[serde(with = "crate::path_form")]
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
    /// A user message was written to the ledger. `steered`: it arrived in the middle of a turn.
    UserMessage {
        message: Message,
        client_id: Option<String>,
        steered: bool,
    },
    /// The permission mode was set: by a command, or because the person agreed to a call that asks to leave it.
    ModeChanged {
        mode: String,
    },
    /// This prompt was taken back and will not be delivered. Its id is empty if the front end gave none.
    Withdrawn {
        client_id: String,
    },
    /// The rules that the user allowed for this session. Sent after each change to them.
    Grants {
        rules: Vec<String>,
    },
    /// The folders of the workspace beside the working directory. Sent at the start if there are any, and when one is added.
    WorkspaceChanged {
        #[serde(with = "crate::path_form::list")]
        added: Vec<PathBuf>,
    },
    /// The answer to a [`Command::SideQuestion`]. It is not in the conversation.
    SideAnswer {
        question: String,
        answer: String,
    },
    /// The [`Command::SideQuestion`] has no answer. A notice for people says so too.
    SideQuestionFailed {
        why: String,
    },
    /// A command to plan, undo or redo a change has nothing to do, or the change is refused. People get a notice with the same text.
    NothingToDo {
        reason: String,
    },
    /// The subagent of this call goes on in the background, and the call has its result.
    MovedToBackground {
        call_id: CallId,
    },
    /// From the next request on, this model (`provider/name`) is used.
    ModelChosen {
        model: String,
    },
    /// The agent received a [`Command::WithReceipt`]. `error`: the reason if the command was refused.
    Receipt {
        request_id: String,
        error: Option<String>,
    },
    /// The session's title changed.
    Renamed {
        title: String,
    },
    /// Request number `step` of the turn is about to be sent, counted from 1.
    StepStarted {
        step: u64,
    },
    /// Streaming text of part `index` of the assistant message.
    TextDelta {
        message: MessageId,
        index: u32,
        text: String,
    },
    /// Streaming text of the model's thinking, part `index` of the assistant message.
    ReasoningDelta {
        message: MessageId,
        index: u32,
        text: String,
    },
    /// Streaming JSON of a tool call's input. The first delta of a call has the id and the name, and empty
    /// text.
    ToolCallDelta {
        message: MessageId,
        index: u32,
        call_id: CallId,
        name: String,
        json: String,
    },
    /// The assistant message is complete, or the stream broke and this is all of it.
    AssistantMessage {
        message: Message,
        finish: FinishReason,
        usage: Usage,
        cost: Cost,
        /// Time in milliseconds from sending the request to the first byte of content.
        ttft: Option<Millis>,
        /// Time in milliseconds from sending the request to the end of the answer.
        api_time: Millis,
    },
    /// The user must decide about a call with [`Command::Decide`].
    PermissionAsked(Box<PermissionRequest>),
    PermissionDenied(PermissionDenial),
    /// A permitted call begins to run. `input` may differ from the model's, because the user or a hook changed it.
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
    /// The tool message, after it was written to the ledger.
    ToolFinished {
        message: Message,
        /// The files that the call changed.
        changes: Vec<FileChange>,
        duration: Millis,
        /// Text of the file before the call, if a program drives becket.
        #[serde(skip)]
        original: Option<String>,
    },
    /// A compaction has begun. [`Event::CompactBoundary`] or [`Event::CompactionFailed`] follows.
    CompactionStarted {
        trigger: CompactionTrigger,
    },
    /// The compaction with this entry number took effect.
    CompactBoundary {
        entry: Seq,
        trigger: CompactionTrigger,
        /// Size of the context before the compaction, and `post_tokens` after it.
        pre_tokens: Tokens,
        post_tokens: Tokens,
        summary: String,
        /// The assistant's last words before the cut, which the summary quotes.
        anchor: Option<String>,
        /// Messages before this entry are no longer in the context, except those in `kept`.
        #[serde(default)]
        tail_from: Seq,
        #[serde(default)]
        kept: Vec<MessageId>,
        /// Text of the summarising model that was not accepted into the summary.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<LeftOut>,
    },
    /// A compaction was given up; the context is unchanged. `reason`: one sentence.
    CompactionFailed {
        reason: String,
    },
    /// The effect a compaction would have. [`Command::CarryOut`] carries it out.
    CompactionPlanned(Box<CompactionPlan>),
    /// The compaction with this entry number was undone (`counts` is false) or redone (`counts` is true).
    CompactionReverted {
        entry: Seq,
        counts: bool,
    },
    /// A message written by becket that the model sees and people do not (continuation, nudge, rules).
    SyntheticMessage {
        message: Message,
    },
    /// Outputs became stubs, without a compaction.
    Pruned {
        entry: Seq,
        calls: u64,
        freed: Tokens,
    },
    /// Hooks of this event run now. `status`: the words that one of them wants to be shown meanwhile.
    HooksStarted {
        hook_event: String,
        status: Option<String>,
    },
    /// A hook has begun, or has printed something while it runs.
    HookRuns(Box<HookProgress>),
    /// A hook has run.
    HookFinished(Box<HookRun>),
    /// The provider takes no request before this wall-clock time, because a quota is used up.
    QuotaUsedUp {
        until: Millis,
    },
    /// A request failed with this error and is sent again after `delay` (milliseconds): retry `attempt` of `max`.
    /// `status`: that of HTTP, if there was an answer.
    Retry {
        attempt: u32,
        max: u32,
        delay: Millis,
        status: Option<u16>,
        error: String,
    },
    /// The size of the context after the last request, and the limit that it is compared with.
    ContextUsed {
        used: Tokens,
        /// The tokens that a request may fill: the window or input limit without the reserve for the answer.
        usable: Tokens,
        window: Tokens,
        /// Size at which an automatic compaction is due.
        #[serde(default)]
        threshold: Tokens,
        /// Estimated size by category.
        #[serde(default)]
        kinds: Vec<(SpanKind, Tokens)>,
    },
    /// A line for the user. It is not in the conversation.
    Notice {
        level: NoticeLevel,
        text: String,
    },
    /// Progress of a summary that is prepared in the background for a later compaction.
    SummaryPreparation {
        state: PreparationState,
    },
    /// The effect an undo, redo or rewind would have. [`Command::CarryOut`] carries it out.
    UndoPlanned(Box<UndoPlan>),
    /// An undo, redo or rewind was carried out.
    UndoDone(Box<UndoOutcome>),
    /// The effect a manual change to the context would have. [`Command::CarryOut`] carries it out.
    ContextPlanned(Box<ContextPlan>),
    /// The context was changed manually. `text` describes the change in one sentence.
    ContextChanged {
        text: String,
    },
    /// An event in the session of the subagent that works for this call. Streaming deltas are not forwarded.
    Subagent {
        call_id: CallId,
        what: Box<Event>,
    },
    /// The turn has ended. No event of this turn follows.
    TurnFinished(Box<TurnResult>),
}

/// The importance of a notice to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    Info,
    /// Something was lost or ignored, and the work continues.
    Warning,
    Error,
}

/// Progress of a summary that is prepared in the background.
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

/// A question to the user: may this call run?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionRequest {
    pub call_id: CallId,
    pub tool: String,
    /// The input of the call as a JSON object, as it would run.
    pub input: Value,
    pub access: Access,
    /// The reason for the question, in one sentence.
    pub reason: String,
    /// A rule that would allow this call in the future; `None` if no rule can.
    #[serde(default)]
    pub offer: Option<RuleOffer>,
    /// The most similar allow rule that does not match.
    #[serde(default)]
    pub nearest: Option<String>,
    /// Set if the call has already run and its output contains secrets: the kinds of secrets, in words. The
    /// user is then asked if the output may be sent to the provider unchanged. If the user refuses, the
    /// secrets are masked first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<String>,
    /// The change the call would make, file by file; empty if it is not known in advance.
    #[serde(default)]
    pub preview: Vec<FilePreview>,
}

/// A rule that the user can allow, with a description of its scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleOffer {
    pub rule: String,
    /// One sentence that says which calls the rule matches.
    pub covers: String,
    /// Rules that together allow the call too, one for each part of a command; empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
}

/// The change a call would make to one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePreview {
    #[serde(with = "crate::path_form")]
    pub path: PathBuf,
    /// Hunks of the unified diff. Each begins with its `@@` line.
    pub hunks: Vec<String>,
    /// The words that differ in replaced lines, in order: the index of the line in all hunks together, and start and end byte in that
    /// line with its sign.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<(usize, usize, usize)>,
}
impl Event {
    /// Returns the event that reports a compaction. `entry`: its place in the ledger.
    pub fn compact_boundary(entry: Seq, compaction: Compaction) -> Self {
        Self::CompactBoundary {
            entry,
            trigger: compaction.trigger,
            pre_tokens: compaction.size.before,
            post_tokens: compaction.size.after,
            summary: compaction.summary,
            anchor: compaction.anchor,
            tail_from: compaction.retained.tail_from,
            kept: compaction.retained.kept,
            left_out: compaction.origin.left_out,
        }
    }
}
