//! The view: what the model sees of a ledger, folded entry by entry.
//!
//! Two stages. [`View::apply`] (in `fold`) keeps the *live* messages: those of the ledger that no compaction or revert has
//! removed, in the ledger's own words, and what else the entries say (stubs, pins, reminders, whose turn it is).
//! [`View::context`] (in `render`) turns what is new among them into what is sent: escaped, wrapped, pruned, repaired
//! (`shape`), results behind their calls.
//!
//! Invariants:
//! - The messages of the context are a function of the entries alone: folding them one by one, with a context built in
//!   between or not, gives the same. No clock, no randomness; ids of what the view makes itself are derived.
//! - While `Context::generation` stays the same, messages are only added at the end. A message enters when it can no
//!   longer change: a streaming assistant message not before something follows it.
//! - A step costs what is new. Only a boundary (compaction, prune, revert, …) looks at all live messages again, and it is
//!   one only if it changes what was shown.
//!
//! Does not write entries: reminders, prunes, notices that are due are returned for the driver to append.

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
mod take_in;
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

/// What T5 looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepFacts {
    /// The newest finished assistant message of this turn; a turn starts behind the last `turn_end`.
    pub last_finished: Option<Seq>,
    /// Messages typed by a person that are newer than it and live, oldest first. All of this turn's when there is none.
    pub newer_users: Vec<MessageId>,
}

/// A message in memory.
#[derive(Debug)]
pub(crate) struct Slot {
    /// As in the ledger, with `seq` filled in and call ids made unique.
    message: Arc<Message>,
    seq: Seq,
    /// No part will follow. Always so except for an assistant message without its `finish`.
    done: bool,
    finish: Option<FinishReason>,
    tokens: Tokens,
    /// The compaction that this continuation belongs to: undone with it.
    owner: Option<Seq>,
    /// The compaction that took it out of the view.
    out: Option<Seq>,
}

/// Slots by message id. Nearly all that is asked for is among the newest, so the map is filled only when it is needed.
#[derive(Debug, Default)]
struct Ids {
    map: HashMap<MessageId, usize>,
    /// Slots that are in the map.
    upto: usize,
}

/// Where the result of a live call is: slot and part.
type Place = (usize, usize);

/// The incremental fold of a ledger.
#[derive(Debug)]
pub struct View {
    policy: Policy,
    scope: ModelScope,

    last_seq: Option<Seq>,
    /// Messages in memory, by ledger order.
    log: Vec<Slot>,
    ids: Ids,
    controls: Vec<Control>,
    calls: Calls,
    states: HashMap<String, Value>,
    turn: Turn,
    /// What `turn` needs to know of messages that have left memory.
    left: Words,
    system_items: Vec<SystemItem>,
    model: Option<String>,
    tools_hash: Option<(Vec<String>, String)>,
    /// Names of all tools that were ever offered.
    offered: BTreeSet<String>,

    effects: Effects,
    /// Slots that the view shows, by ledger order.
    live: Vec<usize>,
    /// Estimate of the live messages, of what leads them, of the system prompt.
    live_tokens: Tokens,
    lead_tokens: Tokens,
    system_tokens: Tokens,

    context: Context,
    cursor: Cursor,
    /// Calls of the newest answer may be running.
    may_run: bool,
    /// What was shown may no longer hold: the next context is built anew.
    dirty: bool,
    /// The next context has a new generation whatever the messages are.
    bump: bool,
    built: bool,
    validator: (u64, Validator),

    notices: Vec<String>,
    noticed: HashSet<String>,
    /// Newest message that has left memory.
    forgotten: Option<Seq>,
    /// The newest compaction that took out a message which has left memory.
    lost_at: Option<Seq>,
    /// By requests for messages, those of subagents among them.
    used: Used,
    may_forget: bool,
    stale: bool,
}

impl View {
    /// Removed messages that stay in memory, by our estimate, so that undoing a compaction needs no re-reading.
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

    /// Folds in a whole ledger.
    pub fn fold<'a>(policy: Policy, scope: ModelScope, entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut view = Self::new(policy, scope);
        for entry in entries {
            view.apply(entry);
        }
        view
    }

    /// Lets go of messages that no request built now would show, but for `room` of them, the newest: for whoever folds a long
    /// ledger and wants little of it in memory. An entry that brings back what is gone makes the view [`Self::stale`].
    pub fn let_go(&mut self, room: Tokens) {
        self.forget(room);
    }

    /// The model that requests are built for from here on. A boundary if it changes what is shown.
    pub fn set_scope(&mut self, scope: ModelScope) {
        if self.scope != scope {
            self.scope = scope;
            self.dirty = true;
            self.validator.1 = Validator::default();
        }
    }

    /// True while calls of the newest answer may be running: contexts that are built meanwhile (to be looked at, counted or
    /// summarised) do not claim that these calls were interrupted, and give no notices of them.
    pub fn set_calls_may_run(&mut self, may_run: bool) {
        self.dirty |= self.may_run != may_run && !self.cursor.repaired.is_empty();
        self.may_run = may_run;
    }

    pub fn scope(&self) -> &ModelScope {
        &self.scope
    }

    /// The rules of pruning and compaction from here on. What was decided before stays in the ledger.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// The model of the last request, `provider/name`.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What was repaired and left out since last asked, each once: plain sentences. The driver writes them as notices.
    /// A notice that the ledger holds already is not given again.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    fn notice(&mut self, text: String) {
        if !self.noticed.contains(&text) {
            self.noticed.insert(text.clone());
            self.notices.push(text);
        }
    }

    /// Whose turn it is.
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

    /// The blocks of the system prompt in force, as the ledger has them.
    pub fn system_items(&self) -> &[SystemItem] {
        &self.system_items
    }

    /// The last entry folded in; 0 before the first.
    pub fn last_seq(&self) -> Seq {
        self.last_seq.unwrap_or_default()
    }

    /// Calls of the newest assistant message that have no result, in order, under the ledger's ids.
    pub fn open_calls(&self) -> Vec<CallId> {
        let newest =
            self.live.iter().rev().map(|at| &self.log[*at].message).find(|m| m.role == Role::Assistant);
        let open = |id: &&CallId| self.calls.answer(id) == Answer::Open;
        newest.map_or_else(Vec::new, |m| {
            m.call_ids().filter(open).map(|id| self.calls.original(id).clone()).collect()
        })
    }

    /// How far the newest call with this ledger id got. A call that has a result counts as finished. `None`: never heard
    /// of, or asked for by the model and nothing more.
    pub fn call_known(&self, id: &CallId) -> Option<JournalState> {
        self.calls.state(id)
    }

    /// Every call that the journal names, in order of first mention, under the ids that are shown.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.calls.journal
    }

    /// Session state by name; the last entry counts.
    pub fn state(&self, key: &str) -> Option<&Value> {
        self.states.get(key)
    }

    /// What T5 decides by. Looks only at what came after the last finished answer.
    pub fn step_facts(&self) -> StepFacts {
        let last_finished = self.turn.newest.finished.filter(|seq| *seq > self.turn.last_end);
        let since = last_finished.unwrap_or(self.turn.last_end);
        let newer = self.live.iter().rev().map(|at| &self.log[*at]).take_while(|slot| slot.seq > since);
        let mut newer_users: Vec<MessageId> =
            newer.filter(|slot| slot.message.is_user_turn()).map(|slot| slot.message.id).collect();
        newer_users.reverse();
        StepFacts { last_finished, newer_users }
    }

    /// Whether wrapping the message now changes bytes that no request has shown yet.
    pub(super) fn can_remind(&self, id: &MessageId) -> bool {
        let unseen = self.log.iter().rev().take_while(|slot| slot.seq > self.turn.shown_up_to);
        !self.effects.wrapped.contains(id)
            && unseen.filter(|slot| slot.message.id == *id).any(|slot| reminder::applies_to(&slot.message))
    }

    /// `(tool, output, spill)` of a call's first result as the ledger has it, while it is in memory. When it is not, and
    /// the call is known, [`Self::output_at`] says which entry to read.
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

    /// The ledger entry that holds the first result of a call, whether or not its text is still in memory.
    pub fn output_at(&self, id: &CallId) -> Option<Seq> {
        self.calls.find(id)?.1.result
    }

    /// Messages that people see, newest last, in the user's own words. Holds what is in memory: after a compaction the
    /// oldest may be missing, and an export reads the ledger.
    pub fn messages_for_user(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.log
            .iter()
            .filter(|slot| self.effects.counts(slot))
            .map(|slot| slot.message.as_ref())
            .filter(|m| m.visibility().user)
    }

    /// The ledger's messages that the view shows, in ledger order, in the ledger's own words: without the summary and
    /// state message, without repairs, reminders and stubs. What a compaction and a prune are planned from. Call ids are
    /// those that are shown.
    pub fn live(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + ExactSizeIterator {
        self.live.iter().map(|at| &self.log[*at].message)
    }

    /// The compaction in force, with its entry.
    pub fn compaction(&self) -> Option<(Seq, &Compaction)> {
        self.effects.compaction.as_ref().map(|(seq, c)| (*seq, c.as_ref()))
    }

    /// Whether a call's output is a stub in the view.
    pub fn is_pruned(&self, id: &CallId) -> bool {
        self.effects.pruned.contains_key(id) && !self.effects.pinned_calls.contains(id)
    }

    /// The cut of a call's output, where the view shows its beginning and its end only.
    pub(super) fn cut_of(&self, id: &CallId) -> Option<&CutOutput> {
        let shown = !self.effects.pinned_calls.contains(id) && !self.effects.pruned.contains_key(id);
        self.effects.cuts.get(id).filter(|_| shown)
    }

    /// Outputs of which the model was first shown a part only, also those that have left the view since.
    pub(super) fn cuts(&self) -> impl Iterator<Item = &CutOutput> {
        self.effects.cuts.values().filter(|cut| !self.effects.pinned_calls.contains(&cut.call_id))
    }

    /// Whether neither prune nor compaction may remove the message.
    pub fn is_pinned(&self, id: &MessageId) -> bool {
        self.effects.pinned_messages.contains(id)
    }

    pub fn is_call_pinned(&self, id: &CallId) -> bool {
        self.effects.pinned_calls.contains(id)
    }

    /// Messages that were pinned and are not shown, whatever took them out but a person who went back to before them. One
    /// whose words a compaction's continuation says again is shown.
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

    /// The same of pinned outputs.
    pub fn lost_pinned_calls(&self) -> Vec<CallId> {
        if self.effects.pinned_calls.is_empty() {
            return Vec::new();
        }
        let shown: HashSet<&CallId> =
            self.live().map(Arc::as_ref).chain(self.taken_back()).flat_map(fold::results_of).collect();
        let mut lost: Vec<CallId> =
            self.effects.pinned_calls.iter().filter(|id| !shown.contains(id)).cloned().collect();
        lost.sort_unstable();
        lost
    }

    /// Messages in memory that count as if they were not there.
    fn taken_back(&self) -> impl Iterator<Item = &Message> {
        self.log.iter().filter(|slot| !self.effects.counts(slot)).map(|slot| slot.message.as_ref())
    }

    /// Whether this tool message holds the result that is shown for the call.
    pub(super) fn answers(&self, message: &Message, call: &CallId) -> bool {
        matches!(self.calls.answer(call), Answer::At((at, _)) if self.log[at].seq == message.seq)
    }

    /// True when a revert needs messages that have left memory: fold the whole ledger into a new view. Until then the
    /// view shows what it can.
    pub fn stale(&self) -> bool {
        self.stale
    }

    /// Estimate of the whole context: system prompt, summary, live messages. Without tools.
    pub fn estimated_tokens(&self) -> Tokens {
        self.system_tokens + self.lead_tokens + self.live_tokens
    }

    /// Checks what was built last by the rules that providers apply. Pays for what is new only.
    ///
    /// # Errors
    /// The first rule that the context breaks.
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

    /// Stubs for tools that the context calls and the model no longer has; to be sent beside `tools`. A name that the
    /// model made up gets none, for then one slip would change the head of every later request; except where there are
    /// no tools at all, which providers refuse beside calls.
    pub fn tool_stubs(&self, tools: &[ToolSpec]) -> Vec<ToolSpec> {
        let called = self.cursor.called.iter().map(String::as_str);
        repair::stub_tools(called.filter(|name| tools.is_empty() || self.offered.contains(*name)), tools)
    }

    /// The entry that records media shown as text because the request would hold too much; `None` when all are recorded.
    /// To be appended after the context was built; it changes nothing that is shown.
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

    /// The newest slot with this message id.
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
