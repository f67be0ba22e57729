//! Computing the conversation from entries: the live messages, and what the other entries say.
//!
//! Most entries add something at the end, in O(1). A compaction filters the live messages. A revert computes the live messages
//! again from those in memory, without the reverted entry, so the view does not depend on how it was reached.
//!
//! The [`Conversation`] owns the order of things: each entry is applied once, in ledger order, to the part that it concerns (the
//! log, the controls, the calls, the turn, the record). It knows no model and no context; it only records what a context that
//! was built before must notice ([`Changes`]).

use super::calls::{Answer, Calls, results_of};
use super::changes::Changes;
use super::controls::{Act, Control, Controls, Effects, RepeatedPrompt, Revision};
use super::facts::Turn;
use super::live::{self, Live};
use super::log::{Log, Slot};
use super::record::{Notices, SessionRecord};
use super::{StepFacts, weight};
use crate::context::{budget, continuation, reminder};
use becket_types::{
    CallId, Compaction, Cost, CutInput, Entry, EntryKind, FinishReason, Message, MessageId, Millis, Part,
    PinTarget, Role, Seq, Tokens, TurnState,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Maximum unused capacity of a text in bytes. With more, the text is reallocated.
const SPARE: usize = 1_024;

/// The state of a ledger after its last applied entry.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) last_seq: Option<Seq>,
    pub(super) log: Log,
    pub(super) controls: Controls,
    pub(super) calls: Calls,
    pub(super) live: Live,
    pub(super) turn: Turn,
    pub(super) record: SessionRecord,
    pub(super) notices: Notices,
    pub(super) changes: Changes,
}

impl Conversation {
    pub(super) fn effects(&self) -> &Effects {
        &self.controls.effects
    }

    /// Returns the messages that the view shows, in ledger order.
    pub(super) fn live(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + ExactSizeIterator {
        self.live.slots.iter().map(|at| &self.log[*at].message)
    }

    /// True if the entry is newer than the last one. If so, stores it as the last one.
    fn advance_to(&mut self, seq: Seq) -> bool {
        let is = self.last_seq.is_none_or(|last| seq > last);
        if is {
            self.last_seq = Some(seq);
        }
        is
    }

    /// Applies the next entry, in O(1) except for compactions and reverts. An entry that is not newer than
    /// the last one is ignored.
    pub(super) fn apply(&mut self, entry: &Entry) {
        if !self.advance_to(entry.seq) {
            return;
        }
        let seq = entry.seq;
        match &entry.kind {
            EntryKind::Message { message } => self.message(seq, message.clone()),
            EntryKind::Part { message, part } => self.part(message, part.clone()),
            EntryKind::Finish { message, reason } => self.finish(message, reason),
            EntryKind::System { items } => self.changes.generation |= self.record.system.set(items),
            EntryKind::Prune { calls, media, cuts, .. } => {
                let (calls, media, cuts) = (calls.clone(), media.clone(), cuts.clone());
                self.control(entry, Act::Prune { calls, media, cuts });
                self.recount();
            }
            EntryKind::CutInputs { inputs, .. } => {
                let shown = |cut: &CutInput| CutInput {
                    call_id: self.calls.shown(&cut.call_id).clone(),
                    ..cut.clone()
                };
                let inputs = inputs.iter().map(shown).collect();
                self.control(entry, Act::CutInputs(inputs));
                self.recount();
            }
            EntryKind::Compaction(compaction) => self.compaction(entry, compaction),
            EntryKind::Revert { entry: target } => self.revert(entry, *target),
            EntryKind::Pin { target } => {
                let target = match target {
                    PinTarget::Call(id) => PinTarget::Call(self.calls.shown(id).clone()),
                    PinTarget::Message(id) => PinTarget::Message(*id),
                };
                self.control(entry, Act::Pin(target));
                self.recount();
            }
            EntryKind::Restore { messages } => self.restore(entry, messages),
            EntryKind::Reminder { message, .. } => {
                // If a request has already sent the message without a reminder, the message stays so: a reminder that comes too late has no
                // effect.
                if self.can_remind(message) {
                    self.control(entry, Act::Remind(*message));
                    self.recount();
                }
            }
            EntryKind::ModelSwitch { model } => self.changes.generation |= self.record.set_model(model),
            EntryKind::Tools { names, hash, .. } => {
                self.changes.generation |= self.record.set_tools(names, hash);
            }
            EntryKind::ToolJournal { call_id, state, tool, subject, result } => {
                self.calls.note(seq, call_id, *state, tool.as_deref(), subject.as_deref(), result);
            }
            EntryKind::State { key, value } => {
                self.record.states.insert(key.clone(), value.clone());
            }
            EntryKind::Interrupt => self.turn.interrupt(seq),
            EntryKind::TurnEnd { state, .. } => self.turn.end(seq, *state),
            EntryKind::Notice { text, .. } => self.notices.note_in_ledger(text),
            EntryKind::Usage { message: Some(_), usage, cost_usd, .. } => {
                self.record.count(*usage, Cost(*cost_usd));
            }
            EntryKind::Session { .. }
            | EntryKind::Request(_)
            | EntryKind::Usage { message: None, .. }
            | EntryKind::Title { .. }
            | EntryKind::Permission(_)
            | EntryKind::Hook(_)
            | EntryKind::FileSnapshot(_)
            | EntryKind::FileChanges(_)
            | EntryKind::Unknown(_) => {}
        }
    }

    /// Like [`Self::apply`], for an entry that the caller no longer needs: its message is moved instead of
    /// copied.
    pub(super) fn apply_owned(&mut self, entry: Entry) {
        let Entry { seq, time, kind } = entry;
        match kind {
            EntryKind::Message { mut message } if self.advance_to(seq) => {
                message.parts.iter_mut().for_each(release_spare);
                self.message(seq, message);
            }
            EntryKind::Part { message, mut part } if self.advance_to(seq) => {
                release_spare(&mut part);
                self.part(&message, part);
            }
            kind => self.apply(&Entry { seq, time, kind }),
        }
    }

    fn message(&mut self, seq: Seq, mut message: Message) {
        message.seq = seq;
        for part in &mut message.parts {
            self.own_ids(seq, part);
            self.record.count_subagent(part);
        }
        self.turn.message(&message, seq);
        let owner = message.metadata.compaction_continue.then(|| self.controls.last_compaction()).flatten();
        if let Some(repeated) = owner.and_then(|of| self.repeated_prompt(&message, of)) {
            if self.effects().is_dead(repeated.said_at) {
                self.controls.effects.dead.insert(seq);
            }
            self.controls.push(Control { seq, time: Millis(0), act: Act::Repeat(repeated) });
        }
        let tokens = weight::plain(&message);
        let done = message.role != Role::Assistant;
        let message = Arc::new(message);
        let at = self.log.push(Slot { message, seq, done, finish: None, tokens, owner, removed_by: None });
        if self.effects().counts(&self.log[at]) {
            self.live.slots.push(at);
            // The call may have been pruned before its result arrives. The result is then shown as a stub at
            // once.
            self.live.tokens += weight::shown(&self.log[at], &self.controls.effects, &self.calls);
            self.attach(at, 0);
        }
    }

    /// Returns the message that a continuation repeats: the one that the compaction removed for it, or the user's last message, if the
    /// continuation quotes its text without its media. `None` for any other message.
    fn repeated_prompt(&mut self, message: &Message, of: Seq) -> Option<RepeatedPrompt> {
        let at = if continuation::is_replay(message) {
            let compaction = self.effects().compaction.as_ref().filter(|(seq, _)| *seq == of)?;
            let said = *compaction.1.retained.taken_out.last()?;
            self.log.newest(&said)?
        } else if message.metadata.had_media {
            let is_words = |at: &&usize| continuation::is_users_words(&self.log[**at].message);
            *self.live.slots.iter().rev().find(is_words)?
        } else {
            return None;
        };
        let slot = &self.log[at];
        Some(RepeatedPrompt { id: message.id, of, said: slot.message.id, said_at: slot.seq })
    }

    /// Replaces the id of a call or result by the id under which it is shown.
    fn own_ids(&mut self, at: Seq, part: &mut Part) {
        match part {
            Part::ToolCall { call_id, .. } => {
                if let Some(shown) = self.calls.register(call_id, at) {
                    let text =
                        format!("call id {call_id} cannot be sent as it is or again: it is sent as {shown}");
                    *call_id = shown;
                    self.notices.add(text);
                }
            }
            Part::ToolResult { call_id, .. } => {
                if let Some(shown) = self.calls.alias(call_id) {
                    call_id.clone_from(shown);
                }
                self.calls.answered(call_id, at);
            }
            _ => {}
        }
    }

    fn part(&mut self, id: &MessageId, mut part: Part) {
        let Some(at) = self.log.newest(id) else { return self.log.note_missing() };
        self.own_ids(self.log[at].seq, &mut part);
        let slot = &mut self.log[at];
        let tokens = budget::estimate_part(&part);
        let first_new = slot.message.parts.len();
        Arc::make_mut(&mut slot.message).parts.push(part);
        slot.tokens += tokens;
        if let Ok(position) = self.live.slots.binary_search(&at) {
            self.live.tokens += tokens;
            self.attach(at, first_new);
            self.changes.grow(position);
        }
    }

    fn finish(&mut self, id: &MessageId, reason: &FinishReason) {
        let Some(at) = self.log.newest(id) else { return self.log.note_missing() };
        let slot = &mut self.log[at];
        slot.done = true;
        slot.finish = Some(reason.clone());
        let seq = slot.seq;
        if self.effects().counts(&self.log[at]) {
            let finished = &mut self.turn.newest.finished;
            *finished = (*finished).max(Some(seq));
        }
    }

    /// Registers the calls and results in the parts of a live message, beginning with part `from`.
    fn attach(&mut self, at: usize, from: usize) {
        let slot = &self.log[at];
        for (nth, part) in slot.message.parts.iter().enumerate().skip(from) {
            match (slot.message.role, part) {
                (Role::Assistant, Part::ToolCall { call_id, .. }) => {
                    self.calls.ask(call_id);
                }
                // The context may already contain a substitute for this result.
                (Role::Tool, Part::ToolResult { call_id, .. }) if self.calls.reply(call_id, (at, nth)) => {
                    self.changes.answer((at, nth));
                }
                _ => {}
            }
        }
    }

    fn control(&mut self, entry: &Entry, act: Act) {
        self.controls.push(Control { seq: entry.seq, time: entry.time, act });
        self.changes.rebuild = true;
    }

    fn compaction(&mut self, entry: &Entry, compaction: &Compaction) {
        let before = std::mem::take(&mut self.live.slots);
        let effects = &self.controls.effects;
        self.live.slots = live::compacted(&mut self.log, effects, before, entry.seq, compaction);
        self.control(entry, Act::Compaction(Arc::new(compaction.clone())));
        self.reattach();
        self.log.may_release = true;
    }

    fn restore(&mut self, entry: &Entry, messages: &[MessageId]) {
        // The requested messages, or calls and results that belong to them, may have left memory. Then the view becomes stale.
        self.log.note_missing();
        let before = std::mem::take(&mut self.live.slots);
        self.live.slots = live::restored(&mut self.log, &self.controls.effects, before, messages);
        self.control(entry, Act::Restore(messages.to_vec()));
        self.reattach();
    }

    fn revert(&mut self, entry: &Entry, target: Seq) {
        if target >= entry.seq {
            return;
        }
        let known = self.log.find(target).is_some() || self.controls.find(target).is_some();
        self.control(entry, Act::Revert(target));
        self.log.stale |= !known && Some(target) <= self.log.forgotten;
        self.refold();
    }

    /// Computes again what a revert has changed. The effect of a compaction depends on all messages that were live at that time, including
    /// messages that later compactions removed and that have left memory. So compactions before the first change keep their effect
    /// (recorded in [`super::log::Slot::out`]). The later compactions are applied again, and the view is stale if any message they depended
    /// on has left memory.
    fn refold(&mut self) {
        let Revision { since, revived } = self.controls.revise();
        let log = &mut self.log;
        log.stale |= log.forgotten.is_some() && (revived || log.last_lossy_compaction >= Some(since));
        for slot in log.slots_mut().iter_mut().filter(|slot| slot.removed_by >= Some(since)) {
            slot.removed_by = None;
        }
        let (mut live, mut next) = (Vec::new(), 0);
        let Controls { list, effects } = &mut self.controls;
        // The effects start empty, so that each compaction is applied with the effects of the controls before it only.
        *effects = Effects::without(std::mem::take(&mut effects.dead));
        for control in list {
            if effects.is_dead(control.seq) {
                continue;
            }
            if control.seq >= since {
                match &control.act {
                    Act::Compaction(compaction) => {
                        next = live::take(log, effects, &mut live, next, control.seq);
                        live = live::compacted(log, effects, live, control.seq, compaction);
                    }
                    Act::Restore(ids) => {
                        next = live::take(log, effects, &mut live, next, control.seq);
                        live = live::restored(log, effects, live, ids);
                    }
                    _ => {}
                }
            }
            effects.enact(control);
        }
        live::take(log, effects, &mut live, next, Seq(u64::MAX));
        self.live.slots = live;
        let counting = log.slots().iter().filter(|slot| effects.counts(slot));
        let counting = counting.map(|slot| (slot.message.as_ref(), slot.seq, slot.finish.is_some()));
        self.turn.rescan(&log.left_memory, counting, |seq| effects.is_dead(seq));
        self.log.stale |= self.turn.newest.assistant.is_some_and(|seq| self.log.find(seq).is_none());
        self.reattach();
    }

    fn reattach(&mut self) {
        self.changes.rebuild = true;
        self.calls.clear_answers();
        for nth in 0..self.live.slots.len() {
            self.attach(self.live.slots[nth], 0);
        }
        self.recount();
    }

    /// Estimates all live messages again, because the form in which they are shown may have changed.
    fn recount(&mut self) {
        let Self { log, calls, live, controls: Controls { effects, .. }, .. } = self;
        live.tokens = live.slots.iter().map(|at| weight::shown(&log[*at], effects, calls)).sum();
        live.lead_tokens = effects.compaction.as_ref().map_or(Tokens(0), |(_, c)| weight::lead(c));
    }

    /// Removes messages that the view no longer shows from memory, oldest first. The newest `room` tokens of
    /// them stay, because an undo may need them soon. Only does work after a compaction. Applying entries
    /// never removes anything, so a newly computed view can undo everything.
    pub(super) fn forget(&mut self, room: Tokens) {
        if !std::mem::take(&mut self.log.may_release) {
            return;
        }
        let stays = self.needed();
        let effects = &self.controls.effects;
        let Some(places) = self.log.release(stays, room, |slot| effects.counts(slot)) else { return };
        for at in &mut self.live.slots {
            *at = places[*at];
        }
        self.calls.update_positions(&places);
    }

    /// For each message in memory, returns true if it must stay: shown messages, those that determine the turn state, those that may still
    /// be wrapped in a reminder, and reverted ones with a pin. Without the latter, [`Self::lost_pins`] would report their pins as lost.
    pub(super) fn needed(&self) -> Vec<bool> {
        let (turn, effects) = (&self.turn, self.effects());
        let has_pin = |message: &Message| {
            effects.pinned_messages.contains(&message.id)
                || results_of(message).any(|id| effects.pinned_calls.contains(id))
        };
        let mut live = self.live.slots.iter().peekable();
        let needed = |(at, slot): (usize, &Slot)| {
            live.next_if_eq(&&at).is_some()
                || slot.seq > turn.shown_up_to
                || Some(slot.seq) == turn.newest.assistant
                || !effects.counts(slot) && has_pin(&slot.message)
        };
        self.log.slots().iter().enumerate().map(needed).collect()
    }

    /// Returns the state of the current turn.
    pub(super) fn turn_state(&self) -> TurnState {
        self.turn.state(|seq| {
            let Some(slot) = self.log.find(seq) else { return true };
            let terminal = slot.finish.as_ref().is_some_and(FinishReason::is_by_the_model);
            terminal && slot.message.call_ids().next().is_none()
        })
    }

    /// Returns the facts that decide about reminders. Examines only messages after the last finished answer.
    pub(super) fn step_facts(&self) -> StepFacts {
        let last_finished = self.turn.newest.finished.filter(|seq| *seq > self.turn.last_end);
        let since = last_finished.unwrap_or(self.turn.last_end);
        let newer = self.live.slots.iter().rev().map(|at| &self.log[*at]).take_while(|slot| slot.seq > since);
        let mut newer_users: Vec<MessageId> =
            newer.filter(|slot| slot.message.is_user_turn()).map(|slot| slot.message.id).collect();
        newer_users.reverse();
        StepFacts { last_finished, newer_users }
    }

    /// True if wrapping the message now changes only bytes that no request has sent yet.
    pub(super) fn can_remind(&self, id: &MessageId) -> bool {
        let unseen = self.log.slots().iter().rev().take_while(|slot| slot.seq > self.turn.shown_up_to);
        !self.effects().wrapped.contains(id)
            && unseen.filter(|slot| slot.message.id == *id).any(|slot| reminder::applies_to(&slot.message))
    }

    /// Returns the calls of the newest assistant message that have no result, in order, with the ledger's
    /// ids.
    pub(super) fn open_calls(&self) -> Vec<CallId> {
        let newest = self.live().rev().find(|m| m.role == Role::Assistant);
        let open = |id: &&CallId| self.calls.answer(id) == Answer::Open;
        newest.map_or_else(Vec::new, |m| {
            m.call_ids().filter(open).map(|id| self.calls.original(id).clone()).collect()
        })
    }

    /// Returns the pinned messages that are missing from the view. A message that the user has reverted is not missing, nor is one that a
    /// continuation repeats.
    pub(super) fn lost_pins(&self) -> Vec<MessageId> {
        let effects = self.effects();
        let mut shown: HashSet<MessageId> = self.live().map(|m| m.id).collect();
        shown.extend(self.reverted().map(|m| m.id));
        let is_shown = |mut id: MessageId| {
            while let (false, Some(repeated)) = (shown.contains(&id), effects.repeated.get(&id)) {
                id = *repeated;
            }
            shown.contains(&id)
        };
        let mut lost: Vec<MessageId> =
            effects.pinned_messages.iter().filter(|id| !is_shown(**id)).copied().collect();
        lost.sort_unstable();
        lost
    }

    /// Returns the pinned outputs that are missing from the view, except those that the user has reverted.
    pub(super) fn lost_pinned_calls(&self) -> Vec<CallId> {
        let pinned = &self.effects().pinned_calls;
        if pinned.is_empty() {
            return Vec::new();
        }
        let shown: HashSet<&CallId> =
            self.live().map(Arc::as_ref).chain(self.reverted()).flat_map(results_of).collect();
        let mut lost: Vec<CallId> = pinned.iter().filter(|id| !shown.contains(id)).cloned().collect();
        lost.sort_unstable();
        lost
    }

    /// Returns messages in memory that are reverted.
    fn reverted(&self) -> impl Iterator<Item = &Message> {
        let slots = self.log.slots().iter();
        slots.filter(|slot| !self.effects().counts(slot)).map(|slot| slot.message.as_ref())
    }
}

/// Releases the unused memory of a long text.
fn release_spare(part: &mut Part) {
    if let Part::Text { text, .. } | Part::Reasoning { text, .. } | Part::ToolResult { output: text, .. } =
        part
        && text.capacity() - text.len() > SPARE
    {
        text.shrink_to_fit();
    }
}
