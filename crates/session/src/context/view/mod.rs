//! The view: everything that the model sees of a ledger, computed entry by entry.
//!
//! There are two stages, with one owner each. The `Conversation` (in `fold`) keeps the *live* messages: those that no
//! compaction or revert has removed, in the ledger's own words. It also keeps what other entries say (stubs, pins,
//! reminders, the turn state). The `Rendering` (in `render`) converts new live messages to the form in
//! which they are sent: escaped, wrapped, pruned, repaired (`shape`), with results after their calls. [`View`] is both.
//!
//! Invariants:
//! - The messages of the context depend only on the entries. Applying them one by one gives the same result
//!   whether or not a context is built in between. No clock, no randomness; ids of messages that the view
//!   makes are derived.
//! - While `Context::generation` stays the same, messages are only added at the end. A message is added when
//!   it can no longer change: a streaming assistant message is not added before something follows it.
//! - A step costs only what is new. Only a boundary (compaction, prune, revert, …) examines all live messages
//!   again, and it counts as a boundary only if it changes what was shown.
//!
//! Writes no entries: due reminders, prunes and notices are returned for the driver to append.

mod calls;
mod changes;
mod checkpoint;
mod controls;
mod facts;
mod fold;
mod journal;
mod live;
mod log;
mod names;
mod record;
mod render;
pub(super) mod shape;
mod spans;
#[cfg(test)]
mod tests;
mod visible_content;
mod weight;

pub use checkpoint::Checkpoint;
pub use journal::{Journal, Line};
pub use spans::{CacheState, KindTotals, cache_states};
pub(crate) use visible_content::VisibleContent;

use super::validate::Violation;
use super::{ModelScope, Policy, repair};
use becket_types::{
    BlobId, CallId, Compaction, Context, CutInput, CutOutput, Entry, EntryKind, JournalState, Message,
    MessageId, Part, Seq, Span, SystemItem, Tokens, ToolSpec, TurnState, Used,
};
use calls::Answer;
use fold::Conversation;
use render::Rendering;
use serde_json::Value;
use std::sync::Arc;

/// The facts that decide about reminders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepFacts {
    /// The newest finished assistant message of this turn. A turn starts after the last `turn_end`.
    pub last_finished: Option<Seq>,
    /// Live messages that a person typed after `last_finished`, oldest first. If that is `None`, all of this
    /// turn.
    pub newer_users: Vec<MessageId>,
}

/// A view that is computed incrementally from a ledger.
#[derive(Debug)]
pub struct View {
    policy: Policy,
    conversation: Conversation,
    rendering: Rendering,
}

impl View {
    /// Estimated tokens of removed messages that stay in memory, so that undoing a compaction need not read
    /// the ledger.
    pub(crate) const UNDO_ROOM: Tokens = Tokens(1_000_000);

    /// Makes the view of a session without entries. `scope` is that of the model for which requests are rendered.
    pub fn new(policy: Policy, scope: ModelScope) -> Self {
        Self { policy, conversation: Conversation::default(), rendering: Rendering::new(scope) }
    }

    /// Computes the view of a whole ledger.
    pub fn fold<'a>(policy: Policy, scope: ModelScope, entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut view = Self::new(policy, scope);
        for entry in entries {
            view.apply(entry);
        }
        view
    }

    /// Makes a checkpoint of this view. It contains only the texts of live messages.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint::from_conversation(&self.conversation)
    }

    /// Restores a view from a checkpoint; `None` if the checkpoint contradicts itself.
    pub fn restore(policy: Policy, scope: ModelScope, checkpoint: Checkpoint) -> Option<Self> {
        Some(Self { conversation: checkpoint.restore()?, ..Self::new(policy, scope) })
    }

    /// Applies the next entry, in O(1) except for compactions and reverts. An entry that is not newer than
    /// the last one is ignored.
    pub fn apply(&mut self, entry: &Entry) {
        self.conversation.apply(entry);
    }

    /// Like [`View::apply`], for an entry that the caller no longer needs: its message is moved instead of
    /// copied.
    pub fn apply_owned(&mut self, entry: Entry) {
        self.conversation.apply_owned(entry);
    }

    /// Returns the context of a request that is sent now. Costs only what is new since the last call, except
    /// after a boundary.
    pub fn context(&mut self) -> &Context {
        self.rendering.build(&mut self.conversation, Self::UNDO_ROOM)
    }

    /// Returns the context as it was built last.
    pub fn last_context(&self) -> &Context {
        self.rendering.context()
    }

    /// Removes messages from memory that the view does not show, except the newest `room` tokens of them. For callers that process a long
    /// ledger with little memory. An entry that brings back a removed message makes the view [`Self::stale`].
    pub fn let_go(&mut self, room: Tokens) {
        self.conversation.forget(room);
    }

    /// Sets the model for the following requests. A boundary if it changes what is shown.
    pub fn set_scope(&mut self, scope: ModelScope) {
        self.rendering.set_scope(scope);
    }

    /// Sets whether calls of the newest answer may be running. If so, contexts that are built meanwhile (for display, counting or a
    /// summary) do not claim that these calls were interrupted, and give no notices about them.
    pub fn set_calls_may_run(&mut self, may_run: bool) {
        self.rendering.set_calls_may_run(may_run);
    }

    /// Returns the model for which requests are rendered, and its limits.
    pub fn scope(&self) -> &ModelScope {
        self.rendering.scope()
    }

    /// Sets the rules of pruning and compaction from now on. Earlier decisions stay in the ledger.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Returns the model of the last request, `provider/name`.
    pub fn model(&self) -> Option<&str> {
        self.conversation.record.model.as_deref()
    }

    /// Returns the rules of pruning and compaction that are in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns notices about repairs and omissions since the last call, as sentences. The driver writes them
    /// as notice entries. Each is returned once, and never if the ledger already has it.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.conversation.notices.take()
    }

    /// Returns the state of the current turn.
    pub fn turn_state(&self) -> TurnState {
        self.conversation.turn_state()
    }

    /// Returns the current blocks of the system prompt, as they are stored in the ledger.
    pub fn system_items(&self) -> &[SystemItem] {
        &self.conversation.record.system.items
    }

    /// Returns the number of the last applied entry; 0 before the first.
    pub fn last_seq(&self) -> Seq {
        self.conversation.last_seq.unwrap_or_default()
    }

    /// Returns the calls of the newest assistant message that have no result, in order, with the ledger's
    /// ids.
    pub fn open_calls(&self) -> Vec<CallId> {
        self.conversation.open_calls()
    }

    /// Returns the state of the newest call with this ledger id. A call with a result counts as finished.
    /// `None`: unknown, or requested by the model and not started.
    pub fn call_known(&self, id: &CallId) -> Option<JournalState> {
        self.conversation.calls.state(id)
    }

    /// Returns every call in the journal in order of first mention, with the shown ids.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.conversation.calls.journal
    }

    /// Returns the value of the newest state entry with this name.
    pub fn state(&self, key: &str) -> Option<&Value> {
        self.conversation.record.states.get(key)
    }

    /// Returns the facts that decide about reminders. Examines only messages after the last finished answer.
    pub fn step_facts(&self) -> StepFacts {
        self.conversation.step_facts()
    }

    /// True if wrapping the message now changes only bytes that no request has sent yet.
    pub(super) fn can_remind(&self, id: &MessageId) -> bool {
        self.conversation.can_remind(id)
    }

    /// Returns `(tool, output, spill)` of a call's first result as the ledger has it, if it is in memory. If
    /// it is not, [`Self::output_at`] returns the entry to read.
    pub fn original_output(&self, id: &CallId) -> Option<(&str, &str, Option<&BlobId>)> {
        let (shown, record) = self.conversation.calls.find(id)?;
        let slot = self.conversation.log.find(record.result?)?;
        slot.message.parts.iter().find_map(|part| match part {
            Part::ToolResult { call_id, name, output, spill, .. } if call_id.as_str() == shown => {
                Some((name.as_str(), output.as_str(), spill.as_ref()))
            }
            _ => None,
        })
    }

    /// Returns the ledger entry with the first result of a call, even if its text is no longer in memory.
    pub fn output_at(&self, id: &CallId) -> Option<Seq> {
        self.conversation.calls.find(id)?.1.result
    }

    /// Returns `(tool, input)` of a call as the ledger has it, if it is in memory. If it is not,
    /// [`Self::input_at`] returns the entry to read.
    pub(crate) fn original_input(&self, id: &CallId) -> Option<(&str, &Value)> {
        let (shown, record) = self.conversation.calls.find(id)?;
        let slot = self.conversation.log.find(record.at)?;
        slot.message.parts.iter().find_map(|part| match part {
            Part::ToolCall { call_id, name, input, .. } if call_id.as_str() == shown => {
                Some((name.as_str(), input))
            }
            _ => None,
        })
    }

    /// Returns the ledger entry with the message that made a call.
    pub(crate) fn input_at(&self, id: &CallId) -> Option<Seq> {
        Some(self.conversation.calls.find(id)?.1.at)
    }

    /// Returns messages that people see, newest last, in the user's own words. Only messages in memory: after
    /// a compaction the oldest may be missing, so an export must read the ledger.
    pub fn messages_for_user(&self) -> impl DoubleEndedIterator<Item = &Message> {
        let effects = self.conversation.effects();
        let slots = self.conversation.log.slots().iter();
        slots
            .filter(|slot| effects.counts(slot))
            .map(|slot| slot.message.as_ref())
            .filter(|m| m.visibility().user)
    }

    /// Returns the ledger's messages that the view shows, in ledger order and in the ledger's own words:
    /// without summary and state message, repairs, reminders and stubs. Compactions and prunes are planned
    /// from them. Call ids are the shown ones.
    pub fn live(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + ExactSizeIterator {
        self.conversation.live()
    }

    /// Returns the compaction in force and its entry.
    pub fn compaction(&self) -> Option<(Seq, &Compaction)> {
        self.conversation.effects().compaction.as_ref().map(|(seq, c)| (*seq, c.as_ref()))
    }

    /// True if a call's output is a stub in the view.
    pub fn is_pruned(&self, id: &CallId) -> bool {
        self.conversation.effects().is_pruned(id)
    }

    /// Returns the cut of a call's output, if the view shows only its beginning and end.
    pub(super) fn cut_of(&self, id: &CallId) -> Option<&CutOutput> {
        self.conversation.effects().cut_of(id)
    }

    /// Returns the cuts of outputs that the model first saw shortened, including outputs that have left the
    /// view since.
    pub(super) fn cuts(&self) -> impl Iterator<Item = &CutOutput> {
        self.conversation.effects().cuts()
    }

    /// Returns how a call's input is shortened in the view; `None` if it is shown whole.
    pub(super) fn input_of(&self, id: &CallId) -> Option<&CutInput> {
        self.conversation.effects().input_of(id)
    }

    /// True if neither prune nor compaction may remove the message.
    pub fn is_pinned(&self, id: &MessageId) -> bool {
        self.conversation.effects().pinned_messages.contains(id)
    }

    /// True if neither prune nor compaction may remove the call and its result.
    pub fn is_call_pinned(&self, id: &CallId) -> bool {
        self.conversation.effects().pinned_calls.contains(id)
    }

    /// Returns the pinned messages that are missing from the view. A message that the user has reverted is not missing, nor is one that a
    /// continuation repeats.
    pub(crate) fn lost_pins(&self) -> Vec<MessageId> {
        self.conversation.lost_pins()
    }

    /// Returns the pinned outputs that are missing from the view, except those that the user has reverted.
    pub(crate) fn lost_pinned_calls(&self) -> Vec<CallId> {
        self.conversation.lost_pinned_calls()
    }

    /// True if this tool message has the result that is shown for the call.
    pub(super) fn answers(&self, message: &Message, call: &CallId) -> bool {
        let Conversation { calls, log, .. } = &self.conversation;
        matches!(calls.answer(call), Answer::At((at, _)) if log[at].seq == message.seq)
    }

    /// True if a revert needs messages that have left memory. The caller then computes a new view from the whole
    /// ledger. Until then, the view lacks those messages.
    pub fn stale(&self) -> bool {
        self.conversation.log.stale
    }

    /// Returns the estimate of the whole context: system prompt, summary, live messages. Without tools.
    pub fn estimated_tokens(&self) -> Tokens {
        let Conversation { record, live, .. } = &self.conversation;
        record.system.tokens + live.lead_tokens + live.tokens
    }

    /// Checks the context that was built last against the rules of the providers. Only new messages are
    /// checked.
    ///
    /// # Errors
    ///
    /// Returns the first rule that the context breaks.
    pub fn check(&mut self) -> Result<(), Violation> {
        self.rendering.check()
    }

    /// Returns stub specifications for tools that the context calls and the model no longer has, to be sent with `tools`. A name that the
    /// model made up gets no stub, because one mistake would then change the start of every later request. If `tools` is empty, every
    /// called tool gets a stub, because providers refuse a request with calls and without tools.
    pub fn tool_stubs(&self, tools: &[ToolSpec]) -> Vec<ToolSpec> {
        let offered = &self.conversation.record.offered;
        let is_stub = |name: &&str| tools.is_empty() || offered.contains(*name);
        repair::stub_tools(self.rendering.called().filter(is_stub), tools)
    }

    /// Returns the entry that records which media are shown as text, because the request would exceed the model's limits on media; `None`
    /// if all are recorded. Append it after the context was built; it does not change what is shown.
    pub fn media_due(&self) -> Option<EntryKind> {
        self.rendering.media_due(&self.conversation)
    }

    /// Returns the usage of all requests for messages, including messages that were reverted later, and the usage of subagents according to
    /// the results of their calls.
    pub fn used(&self) -> Used {
        self.conversation.record.used
    }

    /// Returns images and files in the context, oldest first: message, part and bytes. The context must have
    /// been built.
    pub(crate) fn sent_media(&self) -> impl Iterator<Item = (MessageId, u32, u64)> + '_ {
        self.rendering.sent_media(&self.conversation)
    }

    /// Returns every span of the context as it was last built, in the order in which it is sent: system
    /// prompt and rules, tools, messages.
    pub fn spans(&self, tools: &[ToolSpec]) -> Vec<Span> {
        spans::spans(self.system_items(), tools, &self.last_context().messages)
    }

    pub(crate) fn visible_content(&self) -> VisibleContent {
        VisibleContent::from_conversation(&self.conversation)
    }

    /// True if the entry is reverted: by an undo, a rewind, or a manual change.
    pub fn is_reverted(&self, seq: Seq) -> bool {
        self.conversation.effects().is_dead(seq)
    }
}
