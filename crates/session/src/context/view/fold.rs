//! Computing the live messages from entries.
//!
//! Most entries add something at the end, in O(1). A compaction filters the live messages. A revert computes
//! the live messages again from those in memory, without the reverted entry. A compaction only removes:
//! messages that an earlier one removed do not come back with a later one, so the view does not depend on how
//! it was reached.

use super::super::{budget, continuation, escape};
use super::calls::results_of;
use super::shape::Mark;
use super::{Slot, View, weight};
use becket_types::{
    CallId, Compaction, Cost, CutOutput, Entry, EntryKind, FinishReason, Message, MessageId, Millis, Part,
    PinTarget, PrunedCall, Role, Seq, SystemItem, SystemKind, is_blank,
};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// An entry that changes how other entries are shown.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) seq: Seq,
    pub(super) time: Millis,
    pub(super) act: Act,
}

#[derive(Debug)]
pub(super) enum Act {
    Prune {
        calls: Vec<PrunedCall>,
        media: Vec<(MessageId, u32)>,
        cuts: Vec<CutOutput>,
    },
    Compaction(Arc<Compaction>),
    Revert(Seq),
    Pin(PinTarget),
    Restore(Vec<MessageId>),
    Remind(MessageId),
    /// A continuation that repeats a message.
    Heir(Heir),
}

/// A continuation that repeats a user message. It inherits that message's pin and is reverted with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Heir {
    pub(super) id: MessageId,
    /// The compaction that it follows.
    pub(super) of: Seq,
    /// The message that it repeats.
    pub(super) said: MessageId,
    pub(super) said_at: Seq,
}

/// The combined effect of all controls in force.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Entries that are cancelled.
    pub(super) dead: HashSet<Seq>,
    pub(super) wrapped: HashSet<MessageId>,
    pub(super) pruned: HashMap<CallId, Mark>,
    /// Outputs that are shown shortened. A stub takes precedence.
    pub(super) cuts: HashMap<CallId, CutOutput>,
    /// Media parts shown as text, with the entry that decided it. It applies only to messages before that
    /// entry.
    pub(super) media: HashMap<(MessageId, u32), Seq>,
    pub(super) pinned_messages: HashSet<MessageId>,
    /// Pinned messages that are in the view under another id.
    pub(super) heirs: HashMap<MessageId, MessageId>,
    /// Continuations that repeat a message, with the position of that message.
    said: HashMap<MessageId, Seq>,
    pub(super) pinned_calls: HashSet<CallId>,
    pub(super) compaction: Option<(Seq, Arc<Compaction>)>,
}

impl Effects {
    /// True if the message is in force: neither it nor the compaction whose continuation it is was reverted.
    pub(super) fn counts(&self, slot: &Slot) -> bool {
        !self.dead.contains(&slot.seq) && slot.owner.is_none_or(|seq| !self.dead.contains(&seq))
    }

    pub(super) fn is_dead(&self, seq: Seq) -> bool {
        self.dead.contains(&seq)
    }

    /// Returns the position at which the message's words were first said.
    fn said_at(&self, message: &Message) -> Seq {
        self.said.get(&message.id).copied().unwrap_or(message.seq)
    }

    fn enact(&mut self, control: &Control) {
        match &control.act {
            Act::Prune { calls, media, cuts } => {
                self.stub(calls, media, control);
                self.cut(cuts);
            }
            Act::Compaction(compaction) => {
                self.stub(&compaction.pruned, &compaction.media, control);
                self.cut(&compaction.cuts);
                self.compaction = Some((control.seq, Arc::clone(compaction)));
            }
            Act::Pin(PinTarget::Message(id)) => {
                self.pinned_messages.insert(*id);
            }
            Act::Pin(PinTarget::Call(id)) => {
                self.pinned_calls.insert(id.clone());
            }
            Act::Remind(id) => {
                self.wrapped.insert(*id);
            }
            Act::Heir(heir) => self.inherit(*heir),
            Act::Revert(_) | Act::Restore(_) => {}
        }
    }

    fn inherit(&mut self, heir: Heir) {
        self.said.insert(heir.id, heir.said_at);
        let taken = self
            .compaction
            .as_ref()
            .is_some_and(|(seq, compaction)| *seq == heir.of && compaction.taken_out.contains(&heir.said));
        if taken && self.pinned_messages.contains(&heir.said) {
            self.heirs.insert(heir.said, heir.id);
            self.pinned_messages.insert(heir.id);
        }
    }

    /// The newest decision counts, because a later compaction may have less space for the same step.
    fn cut(&mut self, cuts: &[CutOutput]) {
        self.cuts.extend(cuts.iter().map(|cut| (cut.call_id.clone(), cut.clone())));
    }

    fn stub(&mut self, calls: &[PrunedCall], media: &[(MessageId, u32)], control: &Control) {
        for call in calls {
            self.pruned.entry(call.call_id.clone()).or_insert_with(|| Mark {
                bytes: call.bytes,
                lines: call.lines,
                excerpt: call.excerpt.clone(),
                at: control.time,
            });
        }
        for at in media {
            self.media.insert(*at, control.seq);
        }
    }
}

impl View {
    /// True if the entry is newer than the last one. It then becomes the last one.
    pub(super) fn is_next(&mut self, seq: Seq) -> bool {
        let is = self.last_seq.is_none_or(|last| seq > last);
        if is {
            self.last_seq = Some(seq);
        }
        is
    }

    /// Applies the next entry, in O(1) except for compactions and reverts. An entry that is not newer than
    /// the last one is ignored.
    pub fn apply(&mut self, entry: &Entry) {
        if !self.is_next(entry.seq) {
            return;
        }
        let seq = entry.seq;
        match &entry.kind {
            EntryKind::Message { message } => self.message(seq, message.clone()),
            EntryKind::Part { message, part } => self.part(message, part.clone()),
            EntryKind::Finish { message, reason } => self.finish(message, reason),
            EntryKind::System { items } => self.system(items),
            EntryKind::Prune { calls, media, cuts, .. } => {
                let (calls, media, cuts) = (calls.clone(), media.clone(), cuts.clone());
                self.control(entry, Act::Prune { calls, media, cuts });
                self.recount();
            }
            EntryKind::Compaction(compaction) => self.compaction_entry(entry, compaction),
            EntryKind::Revert { entry: target } => self.revert(entry, *target),
            EntryKind::Pin { target } => {
                let target = match target {
                    PinTarget::Call(id) => PinTarget::Call(self.calls.shown(id).clone()),
                    PinTarget::Message(id) => PinTarget::Message(*id),
                };
                self.control(entry, Act::Pin(target));
                self.recount();
            }
            EntryKind::Restore { messages } => self.restore_entry(entry, messages),
            EntryKind::Reminder { message, .. } => {
                // A message that a request has already sent without a reminder stays so. A reminder that
                // comes too late has no effect.
                if self.can_remind(message) {
                    self.control(entry, Act::Remind(*message));
                    self.recount();
                }
            }
            EntryKind::ModelSwitch { model } => {
                if self.model.as_ref() != Some(model) {
                    self.model = Some(model.clone());
                    self.bump = true;
                }
            }
            EntryKind::Tools { names, hash, .. } => {
                if self.tools_hash.as_ref().is_none_or(|(n, h)| n != names || h != hash) {
                    self.tools_hash = Some((names.clone(), hash.clone()));
                    self.offered.extend(names.iter().cloned());
                    self.bump = true;
                }
            }
            EntryKind::ToolJournal { call_id, state, tool, subject, result } => {
                self.calls.note(seq, call_id, *state, tool.as_deref(), subject.as_deref(), result);
            }
            EntryKind::State { key, value } => {
                self.states.insert(key.clone(), value.clone());
            }
            EntryKind::Interrupt => self.turn.interrupted = true,
            EntryKind::TurnEnd { state, .. } => {
                self.turn.ended = Some((seq, *state));
                self.turn.last_end = seq;
            }
            EntryKind::Notice { text, .. } => {
                self.noticed.insert(text.clone());
            }
            EntryKind::Usage { message: Some(_), usage, cost_usd, .. } => {
                self.count(*usage, Cost(*cost_usd));
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

    pub(super) fn message(&mut self, seq: Seq, mut message: Message) {
        message.seq = seq;
        for part in &mut message.parts {
            self.own_ids(seq, part);
            self.count_subagent(part);
        }
        self.turn.message(&message, seq);
        let owner = message.metadata.compaction_continue.then(|| self.last_compaction()).flatten();
        if let Some(heir) = owner.and_then(|of| self.heir(&message, of)) {
            if self.effects.is_dead(heir.said_at) {
                self.effects.dead.insert(seq);
            }
            let control = Control { seq, time: Millis(0), act: Act::Heir(heir) };
            self.effects.enact(&control);
            self.controls.push(control);
        }
        let at = self.log.len();
        let tokens = weight::plain(&message);
        let done = message.role != Role::Assistant;
        self.log.push(Slot { message: Arc::new(message), seq, done, finish: None, tokens, owner, out: None });
        if self.effects.counts(&self.log[at]) {
            self.live.push(at);
            // The call may have been pruned before its result arrives. The result is then shown as a stub at
            // once.
            self.live_tokens += self.weight(&self.log[at]);
            self.attach(at, 0);
        }
    }

    /// Returns the message that the continuation repeats: one that the compaction removed for it, or one
    /// whose media are no longer shown. `None` if it repeats none.
    fn heir(&mut self, message: &Message, of: Seq) -> Option<Heir> {
        let at = if continuation::is_replay(message) {
            let compaction = self.effects.compaction.as_ref().filter(|(seq, _)| *seq == of)?;
            let said = *compaction.1.taken_out.last()?;
            self.slot_of(&said)?
        } else if message.metadata.had_media {
            *self.live.iter().rev().find(|at| continuation::is_users_words(&self.log[**at].message))?
        } else {
            return None;
        };
        let slot = &self.log[at];
        Some(Heir { id: message.id, of, said: slot.message.id, said_at: slot.seq })
    }

    pub(super) fn last_compaction(&self) -> Option<Seq> {
        self.controls.iter().rev().find(|c| matches!(c.act, Act::Compaction(_))).map(|c| c.seq)
    }

    /// Gives a call or result the id under which it is shown.
    fn own_ids(&mut self, at: Seq, part: &mut Part) {
        match part {
            Part::ToolCall { call_id, .. } => {
                if let Some(shown) = self.calls.register(call_id, at) {
                    let text =
                        format!("call id {call_id} cannot be sent as it is or again: it is sent as {shown}");
                    *call_id = shown;
                    self.notice(text);
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

    pub(super) fn part(&mut self, id: &MessageId, mut part: Part) {
        let Some(at) = self.slot_of(id) else {
            // The message is not in memory, or does not exist.
            self.stale |= self.forgotten.is_some();
            return;
        };
        self.own_ids(self.log[at].seq, &mut part);
        let slot = &mut self.log[at];
        let tokens = budget::estimate_part(&part);
        let first_new = slot.message.parts.len();
        Arc::make_mut(&mut slot.message).parts.push(part);
        slot.tokens += tokens;
        if let Ok(place) = self.live.binary_search(&at) {
            self.live_tokens += tokens;
            self.attach(at, first_new);
            self.dirty |= place < self.cursor.next;
        }
    }

    fn finish(&mut self, id: &MessageId, reason: &FinishReason) {
        let Some(at) = self.slot_of(id) else {
            self.stale |= self.forgotten.is_some();
            return;
        };
        let slot = &mut self.log[at];
        slot.done = true;
        slot.finish = Some(reason.clone());
        let seq = slot.seq;
        if self.effects.counts(&self.log[at]) {
            let finished = &mut self.turn.newest.finished;
            *finished = (*finished).max(Some(seq));
        }
    }

    /// Registers the calls and results of a live message, from a part on.
    fn attach(&mut self, at: usize, from: usize) {
        let slot = &self.log[at];
        for (nth, part) in slot.message.parts.iter().enumerate().skip(from) {
            match (slot.message.role, part) {
                (Role::Assistant, Part::ToolCall { call_id, .. }) => {
                    self.calls.ask(call_id);
                }
                (Role::Tool, Part::ToolResult { call_id, .. }) => {
                    let open = self.calls.reply(call_id, (at, nth));
                    // The context may contain a repair in place of this result.
                    self.dirty |= open && self.cursor.repaired.contains(call_id);
                }
                _ => {}
            }
        }
    }

    pub(super) fn system(&mut self, items: &[SystemItem]) {
        if self.system_items == items {
            return;
        }
        items.clone_into(&mut self.system_items);
        self.context.system = items
            .iter()
            .filter(|item| !is_blank(&item.text))
            .map(|item| match item.kind {
                SystemKind::Prompt | SystemKind::Appended => Arc::from(item.text.as_str()),
                SystemKind::Environment | SystemKind::Rules | SystemKind::Skills => {
                    Arc::from(escape::escape(&item.text).as_ref())
                }
            })
            .collect();
        self.system_tokens = self.context.system.iter().map(|text| budget::estimate_text(text)).sum();
        self.bump = true;
    }

    pub(super) fn control(&mut self, entry: &Entry, act: Act) {
        let control = Control { seq: entry.seq, time: entry.time, act };
        self.effects.enact(&control);
        self.controls.push(control);
        self.dirty = true;
    }

    fn compaction_entry(&mut self, entry: &Entry, compaction: &Compaction) {
        let live = std::mem::take(&mut self.live);
        self.live = self.compacted(live, entry.seq, compaction);
        self.control(entry, Act::Compaction(Arc::new(compaction.clone())));
        self.reattach();
        self.may_forget = true;
    }

    /// Applies a compaction: returns the remaining messages, and marks the others as removed by it.
    fn compacted(&mut self, live: Vec<usize>, by: Seq, compaction: &Compaction) -> Vec<usize> {
        let left = self.filter(&live, compaction);
        let mut staying = left.iter().peekable();
        for at in live {
            if staying.next_if_eq(&&at).is_none() {
                self.log[at].out = Some(by);
            }
        }
        left
    }

    fn revert(&mut self, entry: &Entry, target: Seq) {
        if target >= entry.seq {
            return;
        }
        let known = self.slot_at(target).is_some()
            || self.controls.binary_search_by_key(&target, |control| control.seq).is_ok();
        self.control(entry, Act::Revert(target));
        self.stale |= !known && Some(target) <= self.forgotten;
        self.refold();
    }

    /// Computes again what a revert has changed. The effect of a compaction depends on all messages that were
    /// live at that time, including those that later ones removed and that have left memory. So compactions
    /// before the first change keep their effect (recorded in `out`). The later ones are applied again, and
    /// the view is stale if any message they depended on has left memory.
    fn refold(&mut self) {
        let before = std::mem::take(&mut self.effects).dead;
        self.enact_all();
        let changed = before.symmetric_difference(&self.effects.dead).copied();
        let mut since = changed.filter(|seq| self.decides(*seq)).min().unwrap_or(Seq(u64::MAX));
        // A restored message was removed by an earlier compaction, so all compactions are applied again.
        if self.controls.iter().any(|c| c.seq >= since && matches!(c.act, Act::Restore(_))) {
            since = Seq(0);
        }
        let revived = !before.is_subset(&self.effects.dead);
        self.stale |= self.forgotten.is_some() && (revived || self.lost_at >= Some(since));
        for slot in self.log.iter_mut().filter(|slot| slot.out >= Some(since)) {
            slot.out = None;
        }
        let controls = std::mem::take(&mut self.controls);
        let (mut live, mut next) = (Vec::new(), 0);
        let pins = Effects { dead: self.effects.dead.clone(), ..Effects::default() };
        let all = std::mem::replace(&mut self.effects, pins);
        for control in controls.iter().filter(|control| !all.is_dead(control.seq)) {
            if control.seq >= since {
                match &control.act {
                    Act::Compaction(compaction) => {
                        next = self.take_live(&mut live, next, control.seq);
                        live = self.compacted(live, control.seq, compaction);
                    }
                    Act::Restore(ids) => {
                        next = self.take_live(&mut live, next, control.seq);
                        live = self.restored(live, ids);
                    }
                    _ => {}
                }
            }
            self.effects.enact(control);
        }
        self.take_live(&mut live, next, Seq(u64::MAX));
        self.live = live;
        self.controls = controls;
        let counting = self.log.iter().filter(|slot| self.effects.counts(slot));
        self.turn.rescan(&self.left, counting);
        self.stale |= self.turn.newest.assistant.is_some_and(|seq| self.slot_at(seq).is_none());
        self.reattach();
    }

    /// True if the effect of a compaction can depend on this entry. Entries that only change how messages are
    /// shown do not matter.
    fn decides(&self, seq: Seq) -> bool {
        match self.controls.binary_search_by_key(&seq, |control| control.seq) {
            Ok(at) => {
                matches!(
                    self.controls[at].act,
                    Act::Compaction(_) | Act::Pin(_) | Act::Restore(_) | Act::Heir(..)
                )
            }
            Err(_) => true,
        }
    }

    /// Combines all controls except reverted ones.
    pub(super) fn enact_all(&mut self) {
        let mut dead = HashSet::new();
        for control in self.controls.iter().rev() {
            if let Act::Revert(target) = control.act
                && !dead.contains(&control.seq)
            {
                dead.insert(target);
            }
        }
        // A continuation must not repeat a message that was reverted.
        for control in &self.controls {
            if let Act::Heir(heir) = control.act
                && dead.contains(&heir.said_at)
            {
                dead.insert(control.seq);
            }
        }
        self.effects = Effects { dead, ..Effects::default() };
        for control in &self.controls {
            if !self.effects.is_dead(control.seq) {
                self.effects.enact(control);
            }
        }
    }

    /// Adds the messages before `until` that are in force and not removed, starting at slot `next`. Returns
    /// the slot after them.
    fn take_live(&self, live: &mut Vec<usize>, next: usize, until: Seq) -> usize {
        let end = self.log.partition_point(|slot| slot.seq < until).max(next);
        let shown = |slot: &Slot| slot.out.is_none() && self.effects.counts(slot);
        live.extend((next..end).filter(|at| shown(&self.log[*at])));
        end
    }

    /// Returns the messages that a compaction keeps: its tail, its kept messages, pinned ones, and the last
    /// message with the user's words. Calls and results stay together.
    fn filter(&self, live: &[usize], compaction: &Compaction) -> Vec<usize> {
        let out: HashSet<MessageId> = compaction.taken_out.iter().copied().collect();
        let kept: HashSet<MessageId> = compaction.kept.iter().copied().collect();
        let message = |at: &usize| &self.log[*at].message;
        // A restored message may be newer than the message that a continuation repeats.
        let words = live.iter().filter(|at| continuation::is_users_words(message(at)));
        let last_words = words.max_by_key(|at| self.effects.said_at(message(at))).copied();
        let stays = |at: &usize| {
            let m = message(at);
            m.seq >= compaction.tail_from
                || kept.contains(&m.id)
                || self.effects.pinned_messages.contains(&m.id)
                || last_words == Some(*at)
                || results_of(m).any(|id| self.effects.pinned_calls.contains(id))
        };
        let taken_out = |at: &usize| out.contains(&message(at).id);
        let mut keep: Vec<bool> = live.iter().map(|at| !taken_out(at) && stays(at)).collect();

        // A call and its results are indivisible: a kept result keeps its call, and a kept call keeps all of
        // its results.
        let mut wanted: HashSet<&CallId> = self.effects.pinned_calls.iter().collect();
        wanted.extend(
            live.iter().zip(&keep).filter(|(_, keep)| **keep).flat_map(|(at, _)| results_of(message(at))),
        );
        let mut answered: HashSet<&CallId> = HashSet::new();
        for (at, keep) in live.iter().zip(&mut keep).filter(|(at, _)| message(at).role == Role::Assistant) {
            *keep |= !taken_out(at) && message(at).call_ids().any(|id| wanted.contains(id));
            if *keep {
                answered.extend(message(at).call_ids());
            }
        }
        for (at, keep) in live.iter().zip(&mut keep).filter(|(at, _)| message(at).role == Role::Tool) {
            *keep |= !taken_out(at) && results_of(message(at)).any(|id| answered.contains(id));
        }
        live.iter().zip(keep).filter_map(|(at, keep)| keep.then_some(*at)).collect()
    }

    pub(super) fn reattach(&mut self) {
        self.calls.clear_answers();
        for nth in 0..self.live.len() {
            self.attach(self.live[nth], 0);
        }
        self.recount();
        self.dirty = true;
    }
}
