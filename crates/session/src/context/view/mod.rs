//! The view: everything that the model sees of a ledger, computed entry by entry.
//!
//! There are two stages. [`View::apply`] (in `fold`) keeps the *live* messages: those that no compaction or
//! revert has removed, in the ledger's own words. It also keeps what other entries say (stubs, pins,
//! reminders, the turn state). [`View::context`] (in `render`) converts new live messages to the form in
//! which they are sent: escaped, wrapped, pruned, repaired (`shape`), with results after their calls.
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

mod apply_owned;
mod calls;
mod checkpoint;
mod facts;
mod fold;
mod forget;
mod journal;
mod names;
mod past;
mod render;
mod restore;
pub(super) mod shape;
mod spans;
#[cfg(test)]
mod tests;
mod weight;

pub use checkpoint::Checkpoint;
pub use journal::{Journal, Line};
pub(crate) use past::Shown;
pub use spans::{CacheState, KindTotals, cache_states};

use super::validate::{Validator, Violation};
use super::{ModelScope, Policy, reminder, repair};
use becket_types::{
    BlobId, CallId, Compaction, Context, CutOutput, Entry, EntryKind, FinishReason, JournalState, Message,
    MessageId, Part, PruneReason, Role, Seq, SystemItem, Tokens, ToolSpec, TurnState, Used,
};
use calls::{Answer, Calls};
use facts::{Turn, Words};
use fold::{Control, Effects};
use render::Cursor;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};
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

/// A message in memory.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The ledger's message, with `seq` filled in and call ids made unique.
    message: Arc<Message>,
    seq: Seq,
    /// True if no part will follow. False only for an assistant message without its `finish`.
    done: bool,
    finish: Option<FinishReason>,
    tokens: Tokens,
    /// The compaction that this continuation belongs to. They are undone together.
    owner: Option<Seq>,
    /// The compaction that removed it from the view.
    out: Option<Seq>,
}

/// Slots by message id. Most look-ups are for the newest messages, so the map is filled only when needed.
#[derive(Debug, Default)]
struct Ids {
    map: HashMap<MessageId, usize>,
    /// Number of slots that are in the map.
    upto: usize,
}

/// Position of a live call's result: slot and part.
type Place = (usize, usize);

/// A view that is computed incrementally from a ledger.
#[derive(Debug)]
pub struct View {
    policy: Policy,
    scope: ModelScope,

    last_seq: Option<Seq>,
    /// Messages in memory, in ledger order.
    log: Vec<Slot>,
    ids: Ids,
    controls: Vec<Control>,
    calls: Calls,
    states: HashMap<String, Value>,
    turn: Turn,
    /// Facts for `turn` about messages that have left memory.
    left: Words,
    system_items: Vec<SystemItem>,
    model: Option<String>,
    tools_hash: Option<(Vec<String>, String)>,
    /// Names of all tools that were ever offered.
    offered: BTreeSet<String>,

    effects: Effects,
    /// Slots that the view shows, in ledger order.
    live: Vec<usize>,
    /// Estimates of the live messages, of the messages before them, and of the system prompt.
    live_tokens: Tokens,
    lead_tokens: Tokens,
    system_tokens: Tokens,

    context: Context,
    cursor: Cursor,
    /// True if calls of the newest answer may be running.
    may_run: bool,
    /// True if earlier output may be invalid, so the next context is built from the start.
    dirty: bool,
    /// True if the next context gets a new generation, even if its messages are unchanged.
    bump: bool,
    built: bool,
    validator: (u64, Validator),

    notices: Vec<String>,
    noticed: HashSet<String>,
    /// Newest message that has left memory.
    forgotten: Option<Seq>,
    /// The newest compaction that removed a message which has left memory.
    lost_at: Option<Seq>,
    /// Usage of requests for messages, including those of subagents.
    used: Used,
    may_forget: bool,
    stale: bool,
}

impl View {
    /// Estimated tokens of removed messages that stay in memory, so that undoing a compaction need not read
    /// the ledger.
    pub const UNDO_ROOM: Tokens = Tokens(1_000_000);

    pub fn new(policy: Policy, scope: ModelScope) -> Self {
        Self {
            policy,
            scope,
            last_seq: None,
            log: Vec::new(),
            ids: Ids::default(),
            controls: Vec::new(),
            calls: Calls::default(),
            states: HashMap::new(),
            turn: Turn::default(),
            left: Words::default(),
            system_items: Vec::new(),
            model: None,
            tools_hash: None,
            offered: BTreeSet::new(),
            effects: Effects::default(),
            live: Vec::new(),
            live_tokens: Tokens(0),
            lead_tokens: Tokens(0),
            system_tokens: Tokens(0),
            context: Context::default(),
            cursor: Cursor::default(),
            may_run: false,
            dirty: false,
            bump: false,
            built: false,
            validator: (0, Validator::default()),
            notices: Vec::new(),
            noticed: HashSet::new(),
            forgotten: None,
            lost_at: None,
            used: Used::default(),
            may_forget: false,
            stale: false,
        }
    }

    /// Computes the view of a whole ledger.
    pub fn fold<'a>(policy: Policy, scope: ModelScope, entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut view = Self::new(policy, scope);
        for entry in entries {
            view.apply(entry);
        }
        view
    }

    /// Removes messages from memory that no request would show, except the newest `room` tokens of them. For
    /// callers that process a long ledger and need little memory. An entry that brings back a removed message
    /// makes the view [`Self::stale`].
    pub fn let_go(&mut self, room: Tokens) {
        self.forget(room);
    }

    /// Sets the model for the following requests. A boundary if it changes what is shown.
    pub fn set_scope(&mut self, scope: ModelScope) {
        if self.scope != scope {
            self.scope = scope;
            self.dirty = true;
            self.validator.1 = Validator::default();
        }
    }

    /// Sets if calls of the newest answer may be running. If so, contexts that are built meanwhile (for
    /// display, counting or a summary) do not claim that these calls were interrupted, and give no notices
    /// about them.
    pub fn set_calls_may_run(&mut self, may_run: bool) {
        self.dirty |= self.may_run != may_run && !self.cursor.repaired.is_empty();
        self.may_run = may_run;
    }

    pub fn scope(&self) -> &ModelScope {
        &self.scope
    }

    /// Sets the rules of pruning and compaction from now on. Earlier decisions stay in the ledger.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Returns the model of the last request, `provider/name`.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns notices about repairs and omissions since the last call, as sentences. The driver writes them
    /// as notice entries. Each is returned once, and never if the ledger already has it.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    fn notice(&mut self, text: String) {
        if !self.noticed.contains(&text) {
            self.noticed.insert(text.clone());
            self.notices.push(text);
        }
    }

    /// Returns the state of the current turn.
    pub fn turn_state(&self) -> TurnState {
        self.turn.state(|seq| {
            let Some(slot) = self.slot_at(seq) else { return true };
            let terminal = matches!(
                slot.finish,
                Some(
                    FinishReason::Stop
                        | FinishReason::Length
                        | FinishReason::ContentFilter
                        | FinishReason::Refusal
                        | FinishReason::Other(_)
                )
            );
            terminal && slot.message.call_ids().next().is_none()
        })
    }

    /// Returns the current blocks of the system prompt, as the ledger has them.
    pub fn system_items(&self) -> &[SystemItem] {
        &self.system_items
    }

    /// Returns the last applied entry; 0 before the first.
    pub fn last_seq(&self) -> Seq {
        self.last_seq.unwrap_or_default()
    }

    /// Returns the calls of the newest assistant message that have no result, in order, with the ledger's
    /// ids.
    pub fn open_calls(&self) -> Vec<CallId> {
        let newest =
            self.live.iter().rev().map(|at| &self.log[*at].message).find(|m| m.role == Role::Assistant);
        let open = |id: &&CallId| self.calls.answer(id) == Answer::Open;
        newest.map_or_else(Vec::new, |m| {
            m.call_ids().filter(open).map(|id| self.calls.original(id).clone()).collect()
        })
    }

    /// Returns the state of the newest call with this ledger id. A call with a result counts as finished.
    /// `None`: unknown, or requested by the model and not started.
    pub fn call_known(&self, id: &CallId) -> Option<JournalState> {
        self.calls.state(id)
    }

    /// Returns every call in the journal in order of first mention, with the shown ids.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.calls.journal
    }

    /// Returns session state by name. The last entry counts.
    pub fn state(&self, key: &str) -> Option<&Value> {
        self.states.get(key)
    }

    /// Returns the facts that decide about reminders. Examines only messages after the last finished answer.
    pub fn step_facts(&self) -> StepFacts {
        let last_finished = self.turn.newest.finished.filter(|seq| *seq > self.turn.last_end);
        let since = last_finished.unwrap_or(self.turn.last_end);
        let newer = self.live.iter().rev().map(|at| &self.log[*at]).take_while(|slot| slot.seq > since);
        let mut newer_users: Vec<MessageId> =
            newer.filter(|slot| slot.message.is_user_turn()).map(|slot| slot.message.id).collect();
        newer_users.reverse();
        StepFacts { last_finished, newer_users }
    }

    /// True if wrapping the message now changes only bytes that no request has sent yet.
    pub(super) fn can_remind(&self, id: &MessageId) -> bool {
        let unseen = self.log.iter().rev().take_while(|slot| slot.seq > self.turn.shown_up_to);
        !self.effects.wrapped.contains(id)
            && unseen.filter(|slot| slot.message.id == *id).any(|slot| reminder::applies_to(&slot.message))
    }

    /// Returns `(tool, output, spill)` of a call's first result as the ledger has it, if it is in memory. If
    /// it is not, [`Self::output_at`] returns the entry to read.
    pub fn original_output(&self, id: &CallId) -> Option<(&str, &str, Option<&BlobId>)> {
        let (shown, record) = self.calls.find(id)?;
        let slot = self.slot_at(record.result?)?;
        slot.message.parts.iter().find_map(|part| match part {
            Part::ToolResult { call_id, name, output, spill, .. } if call_id.as_str() == shown => {
                Some((name.as_str(), output.as_str(), spill.as_ref()))
            }
            _ => None,
        })
    }

    /// Returns the ledger entry with the first result of a call, even if its text is no longer in memory.
    pub fn output_at(&self, id: &CallId) -> Option<Seq> {
        self.calls.find(id)?.1.result
    }

    /// Returns messages that people see, newest last, in the user's own words. Only messages in memory: after
    /// a compaction the oldest may be missing, so an export must read the ledger.
    pub fn messages_for_user(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.log
            .iter()
            .filter(|slot| self.effects.counts(slot))
            .map(|slot| slot.message.as_ref())
            .filter(|m| m.visibility().user)
    }

    /// Returns the ledger's messages that the view shows, in ledger order and in the ledger's own words:
    /// without summary and state message, repairs, reminders and stubs. Compactions and prunes are planned
    /// from them. Call ids are the shown ones.
    pub fn live(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + ExactSizeIterator {
        self.live.iter().map(|at| &self.log[*at].message)
    }

    /// Returns the compaction in force and its entry.
    pub fn compaction(&self) -> Option<(Seq, &Compaction)> {
        self.effects.compaction.as_ref().map(|(seq, c)| (*seq, c.as_ref()))
    }

    /// True if a call's output is a stub in the view.
    pub fn is_pruned(&self, id: &CallId) -> bool {
        self.effects.pruned.contains_key(id) && !self.effects.pinned_calls.contains(id)
    }

    /// Returns the cut of a call's output, if the view shows only its beginning and end.
    pub(super) fn cut_of(&self, id: &CallId) -> Option<&CutOutput> {
        let shown = !self.effects.pinned_calls.contains(id) && !self.effects.pruned.contains_key(id);
        self.effects.cuts.get(id).filter(|_| shown)
    }

    /// Returns the cuts of outputs that the model first saw shortened, including outputs that have left the
    /// view since.
    pub(super) fn cuts(&self) -> impl Iterator<Item = &CutOutput> {
        self.effects.cuts.values().filter(|cut| !self.effects.pinned_calls.contains(&cut.call_id))
    }

    /// True if neither prune nor compaction may remove the message.
    pub fn is_pinned(&self, id: &MessageId) -> bool {
        self.effects.pinned_messages.contains(id)
    }

    pub fn is_call_pinned(&self, id: &CallId) -> bool {
        self.effects.pinned_calls.contains(id)
    }

    /// Returns pinned messages that are not shown for any reason except a rewind by the user. A message that
    /// a continuation repeats counts as shown.
    pub fn lost_pins(&self) -> Vec<MessageId> {
        let mut shown: HashSet<MessageId> = self.live().map(|m| m.id).collect();
        shown.extend(self.taken_back().map(|m| m.id));
        let stands = |mut id: MessageId| {
            while let (false, Some(heir)) = (shown.contains(&id), self.effects.heirs.get(&id)) {
                id = *heir;
            }
            shown.contains(&id)
        };
        let mut lost: Vec<MessageId> =
            self.effects.pinned_messages.iter().filter(|id| !stands(**id)).copied().collect();
        lost.sort_unstable();
        lost
    }

    /// Returns pinned outputs that are not shown for any reason except a rewind by the user.
    pub fn lost_pinned_calls(&self) -> Vec<CallId> {
        if self.effects.pinned_calls.is_empty() {
            return Vec::new();
        }
        let shown: HashSet<&CallId> =
            self.live().map(Arc::as_ref).chain(self.taken_back()).flat_map(calls::results_of).collect();
        let mut lost: Vec<CallId> =
            self.effects.pinned_calls.iter().filter(|id| !shown.contains(id)).cloned().collect();
        lost.sort_unstable();
        lost
    }

    /// Returns messages in memory that are reverted.
    fn taken_back(&self) -> impl Iterator<Item = &Message> {
        self.log.iter().filter(|slot| !self.effects.counts(slot)).map(|slot| slot.message.as_ref())
    }

    /// True if this tool message has the result that is shown for the call.
    pub(super) fn answers(&self, message: &Message, call: &CallId) -> bool {
        matches!(self.calls.answer(call), Answer::At((at, _)) if self.log[at].seq == message.seq)
    }

    /// True if a revert needs messages that have left memory. Compute a new view from the whole ledger. Until
    /// then the view shows what it can.
    pub fn stale(&self) -> bool {
        self.stale
    }

    /// Returns the estimate of the whole context: system prompt, summary, live messages. Without tools.
    pub fn estimated_tokens(&self) -> Tokens {
        self.system_tokens + self.lead_tokens + self.live_tokens
    }

    /// Checks the context that was built last against the rules of the providers. Only new messages are
    /// checked.
    ///
    /// # Errors
    ///
    /// Returns the first rule that the context breaks.
    pub fn check(&mut self) -> Result<(), Violation> {
        let (generation, validator) = &mut self.validator;
        if *generation != self.context.generation || validator.len() > self.context.messages.len() {
            (*generation, *validator) = (self.context.generation, Validator::default());
        }
        let mut new = self.context.messages.iter().skip(validator.len());
        let result = new.try_for_each(|m| validator.push(&m.message, Some(&self.scope)));
        let result = result.and_then(|()| validator.end());
        if result.is_err() {
            *validator = Validator::default();
        }
        result
    }

    /// Returns stub specifications for tools that the context calls and the model no longer has, to be sent
    /// with `tools`. A name that the model made up gets no stub, because one mistake would then change the
    /// head of every later request. Exception: if there are no tools at all, because providers refuse that
    /// together with calls.
    pub fn tool_stubs(&self, tools: &[ToolSpec]) -> Vec<ToolSpec> {
        let called = self.cursor.called.iter().map(String::as_str);
        repair::stub_tools(called.filter(|name| tools.is_empty() || self.offered.contains(*name)), tools)
    }

    /// Returns the entry that records media shown as text because the request would have too much of them;
    /// `None` if all are recorded. Append it after the context was built; it does not change what is shown.
    pub fn media_due(&self) -> Option<EntryKind> {
        let mut media: Vec<(Seq, MessageId, u32)> = self
            .cursor
            .hidden
            .iter()
            .map(|(at, part)| (self.log[*at].seq, self.log[*at].message.id, *part))
            .collect();
        media.sort_unstable();
        (!media.is_empty()).then(|| EntryKind::Prune {
            calls: Vec::new(),
            media: media.into_iter().map(|(_, id, part)| (id, part)).collect(),
            cuts: Vec::new(),
            freed_tokens: Tokens(0),
            reason: PruneReason::MediaLimit,
        })
    }

    /// Returns the newest slot with this message id.
    fn slot_of(&mut self, id: &MessageId) -> Option<usize> {
        const NEAR: usize = 16;
        let near = self.log.len().saturating_sub(NEAR);
        if let Some(at) = self.log[near..].iter().rposition(|slot| slot.message.id == *id) {
            return Some(near + at);
        }
        let fresh = self.log.iter().enumerate().skip(self.ids.upto);
        self.ids.map.extend(fresh.map(|(at, slot)| (slot.message.id, at)));
        self.ids.upto = self.log.len();
        self.ids.map.get(id).copied()
    }

    fn slot_at(&self, seq: Seq) -> Option<&Slot> {
        self.log.binary_search_by_key(&seq, |slot| slot.seq).ok().map(|at| &self.log[at])
    }
}
