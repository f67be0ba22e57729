//! A checkpoint of a view, so that opening a long session need not process its whole ledger again.
//!
//! A [`Checkpoint`] is the state of a view after one entry: the messages that it shows, in the ledger's own
//! words, and the records of everything else (calls, journal, state, controls). It is derived data.
//! [`View::restore`] followed by the later entries shows the same as processing all entries. A revert that
//! needs something that the checkpoint lacks makes the view stale, as if messages had left memory.
//!
//! [`View::checkpoint`] names every field of [`View`], so a new field does not compile until its treatment is
//! decided here.

use super::calls::{Answer, Calls};
use super::facts::{Turn, Words};
use super::fold::{Act, Control, Heir};
use super::{Slot, View};
use crate::context::{ModelScope, Policy};
use becket_types::{
    Compaction, CutOutput, FinishReason, Message, MessageId, Millis, PinTarget, PrunedCall, Role, Seq,
    SystemItem, Tokens, Used,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A view without the texts that it does not show; see the module.
#[derive(Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    last_seq: Option<Seq>,
    slots: Vec<SlotRecord>,
    /// Indices into `slots`.
    live: Vec<usize>,
    controls: Vec<ControlRecord>,
    calls: Calls,
    states: HashMap<String, Value>,
    turn: Turn,
    left: Words,
    system_items: Vec<SystemItem>,
    model: Option<String>,
    tools_hash: Option<(Vec<String>, String)>,
    offered: BTreeSet<String>,
    live_tokens: Tokens,
    lead_tokens: Tokens,
    noticed: Vec<String>,
    /// Notices that were not returned yet.
    notices: Vec<String>,
    forgotten: Option<Seq>,
    lost_at: Option<Seq>,
    used: Used,
}

#[derive(Debug, Serialize, Deserialize)]
struct SlotRecord {
    message: Message,
    seq: Seq,
    done: bool,
    finish: Option<FinishReason>,
    tokens: Tokens,
    owner: Option<Seq>,
    out: Option<Seq>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ControlRecord {
    seq: Seq,
    time: Millis,
    act: ActRecord,
}

#[derive(Debug, Serialize, Deserialize)]
enum ActRecord {
    Prune(Vec<PrunedCall>, Vec<(MessageId, u32)>, Vec<CutOutput>),
    Compaction(Box<Compaction>),
    Revert(Seq),
    Pin(PinTarget),
    Restore(Vec<MessageId>),
    Remind(MessageId),
    Heir(Heir),
}

impl View {
    /// Makes a checkpoint of this view. It contains only the texts of live messages.
    pub fn checkpoint(&self) -> Checkpoint {
        let Self {
            policy: _,
            scope: _,
            last_seq,
            log,
            ids: _,
            controls,
            calls,
            states,
            turn,
            left,
            system_items,
            model,
            tools_hash,
            offered,
            effects: _,
            live,
            live_tokens,
            lead_tokens,
            system_tokens: _,
            context: _,
            cursor: _,
            may_run: _,
            dirty: _,
            bump: _,
            built: _,
            validator: _,
            notices,
            noticed,
            forgotten,
            lost_at,
            used,
            may_forget: _,
            stale: _,
        } = self;
        let stays = self.needed();
        let (mut places, mut next) = (Vec::with_capacity(log.len()), 0);
        for keep in &stays {
            places.push(next);
            next += usize::from(*keep);
        }
        let mut checkpoint = Checkpoint {
            last_seq: *last_seq,
            slots: log.iter().zip(&stays).filter(|(_, stays)| **stays).map(|(slot, _)| slot.into()).collect(),
            live: live.iter().map(|at| places[*at]).collect(),
            controls: Vec::with_capacity(controls.len()),
            calls: calls.clone(),
            states: states.clone(),
            turn: turn.clone(),
            left: left.clone(),
            system_items: system_items.clone(),
            model: model.clone(),
            tools_hash: tools_hash.clone(),
            offered: offered.clone(),
            live_tokens: *live_tokens,
            lead_tokens: *lead_tokens,
            noticed: noticed.iter().cloned().collect(),
            notices: notices.clone(),
            forgotten: *forgotten,
            lost_at: *lost_at,
            used: *used,
        };
        checkpoint.calls.moved(&places);
        for control in controls {
            let (record, whole) = self.slim(control);
            checkpoint.controls.push(record);
            if !whole {
                checkpoint.forgotten = checkpoint.forgotten.max(Some(control.seq));
                checkpoint.lost_at = checkpoint.lost_at.max(self.last_compaction());
            }
        }
        for (slot, _) in log.iter().zip(&stays).filter(|(_, stays)| !**stays) {
            checkpoint.forgotten = checkpoint.forgotten.max(Some(slot.seq));
            checkpoint.lost_at = checkpoint.lost_at.max(slot.out);
            if self.effects.counts(slot) {
                checkpoint.left.see(&slot.message, slot.seq, slot.finish.is_some());
            }
        }
        checkpoint
    }

    /// Returns the control without data that is no longer needed: excerpts for stubs of calls that left the
    /// view, texts of compactions that were replaced. The flag is true if nothing was removed; otherwise an
    /// undo that needs the data computes the view again.
    fn slim(&self, control: &Control) -> (ControlRecord, bool) {
        let (mut whole, mut replaced) = (true, false);
        let mut calls = |calls: &[PrunedCall]| {
            let mut calls = calls.to_vec();
            for call in &mut calls {
                let known = self.calls.get(&call.call_id).is_some();
                if known && self.calls.answer(&call.call_id) == Answer::NotAsked {
                    whole &= call.excerpt.is_empty();
                    call.excerpt.clear();
                }
            }
            calls
        };
        let act = match &control.act {
            Act::Prune { calls: pruned, media, cuts } => {
                ActRecord::Prune(calls(pruned), media.clone(), cuts.clone())
            }
            Act::Compaction(compaction) => {
                let in_force = self.effects.compaction.as_ref().is_some_and(|(seq, _)| *seq == control.seq);
                let mut compaction = Compaction::clone(compaction);
                if !in_force {
                    replaced = true;
                    compaction.pruned = calls(&compaction.pruned);
                    compaction.summary.clear();
                    compaction.state.clear();
                    compaction.anchor = None;
                }
                ActRecord::Compaction(Box::new(compaction))
            }
            Act::Revert(target) => ActRecord::Revert(*target),
            Act::Pin(target) => ActRecord::Pin(target.clone()),
            Act::Restore(messages) => ActRecord::Restore(messages.clone()),
            Act::Remind(id) => ActRecord::Remind(*id),
            Act::Heir(heir) => ActRecord::Heir(*heir),
        };
        (ControlRecord { seq: control.seq, time: control.time, act }, whole && !replaced)
    }

    /// Restores a view from a checkpoint; `None` if the checkpoint contradicts itself.
    pub fn restore(policy: Policy, scope: ModelScope, checkpoint: Checkpoint) -> Option<Self> {
        if !checkpoint.is_consistent() {
            return None;
        }
        let mut view = Self::new(policy, scope);
        view.last_seq = checkpoint.last_seq;
        view.log = checkpoint.slots.into_iter().map(Slot::from).collect();
        view.live = checkpoint.live;
        view.calls = checkpoint.calls;
        view.states = checkpoint.states;
        view.turn = checkpoint.turn;
        view.left = checkpoint.left;
        view.system(&checkpoint.system_items);
        view.model = checkpoint.model;
        view.tools_hash = checkpoint.tools_hash;
        view.offered = checkpoint.offered;
        view.controls = checkpoint.controls.into_iter().map(Control::from).collect();
        view.enact_all();
        view.live_tokens = checkpoint.live_tokens;
        view.lead_tokens = checkpoint.lead_tokens;
        view.noticed = checkpoint.noticed.into_iter().collect();
        view.notices = checkpoint.notices;
        view.forgotten = checkpoint.forgotten;
        view.lost_at = checkpoint.lost_at;
        view.used = checkpoint.used;
        view.dirty = true;
        Some(view)
    }
}

impl Checkpoint {
    /// Returns the last entry that the checkpoint covers.
    pub fn last_seq(&self) -> Seq {
        self.last_seq.unwrap_or_default()
    }

    /// True if all indices are valid. A checkpoint is derived data, but it is read from a disk.
    fn is_consistent(&self) -> bool {
        let part = |(at, part): (usize, usize)| {
            self.slots
                .get(at)
                .is_some_and(|slot| slot.message.role == Role::Tool && part < slot.message.parts.len())
        };
        self.slots.is_sorted_by(|a, b| a.seq < b.seq)
            && self.slots.last().is_none_or(|slot| Some(slot.seq) <= self.last_seq)
            && self.live.is_sorted_by(|a, b| a < b)
            && self.live.last().is_none_or(|at| *at < self.slots.len())
            && self.calls.is_consistent(part)
    }
}

impl From<&Slot> for SlotRecord {
    fn from(slot: &Slot) -> Self {
        let Slot { message, seq, done, finish, tokens, owner, out } = slot;
        Self {
            message: Message::clone(message),
            seq: *seq,
            done: *done,
            finish: finish.clone(),
            tokens: *tokens,
            owner: *owner,
            out: *out,
        }
    }
}

impl From<SlotRecord> for Slot {
    fn from(record: SlotRecord) -> Self {
        let SlotRecord { message, seq, done, finish, tokens, owner, out } = record;
        Self { message: Arc::new(message), seq, done, finish, tokens, owner, out }
    }
}

impl From<ControlRecord> for Control {
    fn from(record: ControlRecord) -> Self {
        let act = match record.act {
            ActRecord::Prune(calls, media, cuts) => Act::Prune { calls, media, cuts },
            ActRecord::Compaction(compaction) => Act::Compaction(Arc::new(*compaction)),
            ActRecord::Revert(target) => Act::Revert(target),
            ActRecord::Pin(target) => Act::Pin(target),
            ActRecord::Restore(messages) => Act::Restore(messages),
            ActRecord::Remind(id) => Act::Remind(id),
            ActRecord::Heir(heir) => Act::Heir(heir),
        };
        Self { seq: record.seq, time: record.time, act }
    }
}
