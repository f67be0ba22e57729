//! The view: what the model sees of a ledger, folded entry by entry.
use super::{ModelScope, Policy};
use becket_types::{
    BlobId, CallId, Compaction, Context, Entry, JournalState, Message, MessageId, Seq, Span, Tokens, ToolSpec, TurnState,
};
use serde_json::Value;
use std::sync::Arc;

/// One tool call as the journal knows it, in order of first mention.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalLine {
    pub call_id: CallId,
    pub tool: String,
    /// One line for people: the command, the path.
    pub subject: Option<String>,
    pub result: Value,
    pub state: JournalState,
    pub seq: Seq,
}

/// What T5 looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepFacts {
    /// The newest finished assistant message of this turn.
    pub last_finished: Option<Seq>,
    /// User messages (typed by a person) newer than it, oldest first.
    pub newer_users: Vec<MessageId>,
}

/// The incremental fold of a ledger.
#[derive(Debug)]
pub struct View {
    policy: Policy,
    scope: ModelScope,
    context: Context,
    journal: Vec<JournalLine>,
    last_seq: Seq,
}

impl View {
    pub fn new(policy: Policy, scope: ModelScope) -> Self {
        Self { policy, scope, context: Context::default(), journal: Vec::new(), last_seq: Seq(0) }
    }
    pub fn apply(&mut self, entry: &Entry) {
        self.last_seq = entry.seq;
    }
    pub fn context(&mut self) -> &Context {
        &self.context
    }
    pub fn set_scope(&mut self, scope: ModelScope) {
        self.scope = scope;
    }
    pub fn scope(&self) -> &ModelScope {
        &self.scope
    }
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
    pub fn take_notices(&mut self) -> Vec<String> {
        Vec::new()
    }
    pub fn turn_state(&self) -> TurnState {
        TurnState::AwaitingUser
    }
    pub fn last_seq(&self) -> Seq {
        self.last_seq
    }
    pub fn open_calls(&self) -> Vec<CallId> {
        Vec::new()
    }
    pub fn call_known(&self, _id: &CallId) -> Option<JournalState> {
        None
    }
    pub fn journal(&self) -> &[JournalLine] {
        &self.journal
    }
    pub fn state(&self, _key: &str) -> Option<&Value> {
        None
    }
    pub fn step_facts(&self) -> StepFacts {
        StepFacts::default()
    }
    /// `(tool, output, spill)` of a call's first result, while it is in memory; see [`Self::output_at`].
    pub fn original_output(&self, _id: &CallId) -> Option<(&str, &str, Option<&BlobId>)> {
        None
    }
    /// The ledger entry that holds the result of a call, also after the text left memory.
    pub fn output_at(&self, _id: &CallId) -> Option<Seq> {
        None
    }
    /// Messages for people, newest last.
    pub fn messages_for_user(&self) -> impl Iterator<Item = &Message> {
        std::iter::empty()
    }
    /// The ledger's messages that the view shows, in ledger order, in the ledger's own words: without the summary
    /// and state message, without repairs, reminders, stubs. What a compaction is planned from.
    pub fn live(&self) -> impl Iterator<Item = &Arc<Message>> {
        std::iter::empty()
    }
    /// The compaction in force, with its entry.
    pub fn compaction(&self) -> Option<(Seq, &Compaction)> {
        None
    }
    /// Whether a call's output is a stub in the view.
    pub fn is_pruned(&self, _id: &CallId) -> bool {
        false
    }
    /// Whether neither prune nor compaction may remove the message.
    pub fn is_pinned(&self, _id: &MessageId) -> bool {
        false
    }
    pub fn is_call_pinned(&self, _id: &CallId) -> bool {
        false
    }
    pub fn spans(&self, _tools: &[ToolSpec]) -> Vec<Span> {
        Vec::new()
    }
    pub fn stale(&self) -> bool {
        false
    }
    pub fn estimated_tokens(&self) -> Tokens {
        Tokens(0)
    }
}
