//! A checkpoint of a view, so that opening a long session need not process its whole ledger again.
//!
//! A [`Checkpoint`] is the state of a conversation after one entry: the messages that it shows, in the ledger's own
//! words, and the records of everything else (calls, journal, state, controls). It is derived data.
//! Restoring it and applying the later entries shows the same as processing all entries. A revert that
//! needs something that the checkpoint lacks makes the view stale, as if messages had left memory.
//!
//! [`Checkpoint::from_conversation`] names every field of [`Conversation`], so a new field does not compile until its treatment is
//! decided here. The groups of small facts are flattened: their fields are beside the others in the file.

use super::calls::{Answer, Calls};
use super::changes::Changes;
use super::controls::{Act, Control, Controls, RepeatedPrompt};
use super::facts::{Turn, Words};
use super::fold::Conversation;
use super::live::Live;
use super::log::{Log, Slot};
use super::record::{Notices, SessionRecord};
use becket_types::{
    Compaction, CutInput, CutOutput, FinishReason, Message, MessageId, Millis, PinTarget, PrunedCall, Role,
    Seq, SystemItem, Tokens, Used,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The state of a view, without the texts that it does not show; see the module.
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
    #[serde(flatten)]
    lost: LostRecord,
    #[serde(flatten)]
    settings: SettingsRecord,
    #[serde(flatten)]
    sizes: SizesRecord,
    #[serde(flatten)]
    notices: NoticesRecord,
    used: Used,
}

/// Facts about messages that the checkpoint does not contain.
#[derive(Debug, Serialize, Deserialize)]
struct LostRecord {
    left: Words,
    forgotten: Option<Seq>,
    lost_at: Option<Seq>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SettingsRecord {
    system_items: Vec<SystemItem>,
    model: Option<String>,
    tools_hash: Option<(Vec<String>, String)>,
    offered: BTreeSet<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SizesRecord {
    live_tokens: Tokens,
    lead_tokens: Tokens,
}

#[derive(Debug, Serialize, Deserialize)]
struct NoticesRecord {
    noticed: Vec<String>,
    /// Notices that [`super::View::take_notices`] has not returned yet.
    notices: Vec<String>,
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
    CutInputs(Vec<CutInput>),
    Compaction(Box<Compaction>),
    Revert(Seq),
    Pin(PinTarget),
    Restore(Vec<MessageId>),
    Remind(MessageId),
    #[serde(rename = "Heir")]
    Repeat(RepeatedPrompt),
}

impl Checkpoint {
    /// Makes a checkpoint of a conversation. It contains only the texts of live messages.
    pub(super) fn from_conversation(conversation: &Conversation) -> Self {
        let Conversation { last_seq, log, controls, calls, live, turn, record, notices, changes: _ } =
            conversation;
        let Live { slots: live, tokens, lead_tokens } = live;
        let stays = conversation.needed();
        let (mut places, mut next) = (Vec::with_capacity(stays.len()), 0);
        for keep in &stays {
            places.push(next);
            next += usize::from(*keep);
        }
        let slots = log.slots();
        let mut checkpoint = Self {
            last_seq: *last_seq,
            slots: slots
                .iter()
                .zip(&stays)
                .filter(|(_, stays)| **stays)
                .map(|(slot, _)| slot.into())
                .collect(),
            live: live.iter().map(|at| places[*at]).collect(),
            controls: Vec::with_capacity(controls.list.len()),
            calls: calls.clone(),
            states: record.states.clone(),
            turn: turn.clone(),
            lost: LostRecord {
                left: log.left_memory.clone(),
                forgotten: log.forgotten,
                lost_at: log.last_lossy_compaction,
            },
            settings: SettingsRecord {
                system_items: record.system.items.clone(),
                model: record.model.clone(),
                tools_hash: record.tools.clone(),
                offered: record.offered.clone(),
            },
            sizes: SizesRecord { live_tokens: *tokens, lead_tokens: *lead_tokens },
            notices: NoticesRecord {
                noticed: notices.known.iter().cloned().collect(),
                notices: notices.pending.clone(),
            },
            used: record.used,
        };
        checkpoint.calls.update_positions(&places);
        let lost = &mut checkpoint.lost;
        for control in &controls.list {
            let (record, whole) = slim(conversation, control);
            checkpoint.controls.push(record);
            if !whole {
                lost.forgotten = lost.forgotten.max(Some(control.seq));
                lost.lost_at = lost.lost_at.max(controls.last_compaction());
            }
        }
        for (slot, _) in slots.iter().zip(&stays).filter(|(_, stays)| !**stays) {
            lost.forgotten = lost.forgotten.max(Some(slot.seq));
            lost.lost_at = lost.lost_at.max(slot.removed_by);
            if controls.effects.counts(slot) {
                lost.left.note_message(&slot.message, slot.seq, slot.finish.is_some());
            }
        }
        checkpoint
    }

    /// Restores the conversation; `None` if indices in the checkpoint are invalid.
    pub(super) fn restore(self) -> Option<Conversation> {
        if !self.is_consistent() {
            return None;
        }
        let Self {
            last_seq,
            slots,
            live,
            controls,
            calls,
            states,
            turn,
            lost,
            settings,
            sizes,
            notices,
            used,
        } = self;
        let mut log = Log::new(slots.into_iter().map(Slot::from).collect());
        (log.left_memory, log.forgotten, log.last_lossy_compaction) =
            (lost.left, lost.forgotten, lost.lost_at);
        let mut record = SessionRecord {
            states,
            model: settings.model,
            tools: settings.tools_hash,
            offered: settings.offered,
            used,
            ..SessionRecord::default()
        };
        record.system.set(&settings.system_items);
        Some(Conversation {
            last_seq,
            log,
            controls: Controls::new(controls.into_iter().map(Control::from).collect()),
            calls,
            live: Live { slots: live, tokens: sizes.live_tokens, lead_tokens: sizes.lead_tokens },
            turn,
            record,
            notices: Notices { pending: notices.notices, known: notices.noticed.into_iter().collect() },
            changes: Changes::all(),
        })
    }

    /// Returns the last entry that the checkpoint covers.
    pub fn last_seq(&self) -> Seq {
        self.last_seq.unwrap_or_default()
    }

    /// True if all indices are valid. A checkpoint is read from a disk, so it may be damaged.
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

/// Returns the control without data that is no longer needed: excerpts for stubs of calls that left the view, texts of compactions that
/// were replaced. The flag is true if nothing was removed. If it is false, an undo of this control must compute the view from the whole
/// ledger.
fn slim(conversation: &Conversation, control: &Control) -> (ControlRecord, bool) {
    let (mut whole, mut replaced) = (true, false);
    let mut calls = |calls: &[PrunedCall]| {
        let mut calls = calls.to_vec();
        for call in &mut calls {
            let known = conversation.calls.get(&call.call_id).is_some();
            if known && conversation.calls.answer(&call.call_id) == Answer::NotAsked {
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
        Act::CutInputs(inputs) => ActRecord::CutInputs(inputs.clone()),
        Act::Compaction(compaction) => {
            let in_force =
                conversation.effects().compaction.as_ref().is_some_and(|(seq, _)| *seq == control.seq);
            let mut compaction = Compaction::clone(compaction);
            if !in_force {
                replaced = true;
                compaction.shortened.pruned = calls(&compaction.shortened.pruned);
                compaction.summary.clear();
                compaction.repeated.state.clear();
                compaction.anchor = None;
            }
            ActRecord::Compaction(Box::new(compaction))
        }
        Act::Revert(target) => ActRecord::Revert(*target),
        Act::Pin(target) => ActRecord::Pin(target.clone()),
        Act::Restore(messages) => ActRecord::Restore(messages.clone()),
        Act::Remind(id) => ActRecord::Remind(*id),
        Act::Repeat(repeated) => ActRecord::Repeat(*repeated),
    };
    (ControlRecord { seq: control.seq, time: control.time, act }, whole && !replaced)
}

impl From<&Slot> for SlotRecord {
    fn from(slot: &Slot) -> Self {
        let Slot { message, seq, done, finish, tokens, owner, removed_by: out } = slot;
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
        Self { message: Arc::new(message), seq, done, finish, tokens, owner, removed_by: out }
    }
}

impl From<ControlRecord> for Control {
    fn from(record: ControlRecord) -> Self {
        let act = match record.act {
            ActRecord::Prune(calls, media, cuts) => Act::Prune { calls, media, cuts },
            ActRecord::CutInputs(inputs) => Act::CutInputs(inputs),
            ActRecord::Compaction(compaction) => Act::Compaction(Arc::new(*compaction)),
            ActRecord::Revert(target) => Act::Revert(target),
            ActRecord::Pin(target) => Act::Pin(target),
            ActRecord::Restore(messages) => Act::Restore(messages),
            ActRecord::Remind(id) => Act::Remind(id),
            ActRecord::Repeat(repeated) => Act::Repeat(repeated),
        };
        Self { seq: record.seq, time: record.time, act }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_groups_of_fields_do_not_show_in_the_file() {
        let value = serde_json::to_value(Checkpoint::from_conversation(&Conversation::default())).unwrap();
        let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "calls",
                "controls",
                "forgotten",
                "last_seq",
                "lead_tokens",
                "left",
                "live",
                "live_tokens",
                "lost_at",
                "model",
                "noticed",
                "notices",
                "offered",
                "slots",
                "states",
                "system_items",
                "tools_hash",
                "turn",
                "used",
            ]
        );
        let id = MessageId::new();
        let act = ActRecord::Repeat(RepeatedPrompt { id, of: Seq(1), said: id, said_at: Seq(2) });
        let stored = json!({"Heir": {"id": id, "of": 1, "said": id, "said_at": 2}});
        assert_eq!(serde_json::to_value(&act).unwrap(), stored);
        assert!(serde_json::from_value::<ActRecord>(stored).is_ok());
    }
}
