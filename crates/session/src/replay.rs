//! Deriving events from entries: the events that a disconnected front end has missed, without streaming
//! deltas.
//!
//! Everything that a person saw can be derived from the ledger; this is the derivation. Reads entries,
//! changes nothing.

use crate::context::edit;
use becket_types::{
    Compaction, Cost, Entry, EntryKind, Event, FinishReason, Message, MessageId, Millis, NoticeLevel,
    PruneReason, Role, Seq, Usage,
};
use std::collections::{HashMap, HashSet};

/// Returns the events of `entries`, in order.
pub fn events(entries: impl IntoIterator<Item = Entry>) -> Vec<Event> {
    events_from(entries, false)
}

/// Like [`events`], for entries from the middle of a session. `in_turn`: the model was working on a prompt at
/// that point.
pub(crate) fn events_from(entries: impl IntoIterator<Item = Entry>, in_turn: bool) -> Vec<Event> {
    let mut replay = Replay { in_turn, ..Replay::default() };
    for entry in entries {
        if let EntryKind::Revert { entry: target } = entry.kind {
            replay.reverts.push((entry.seq, target));
            continue;
        }
        let by_hand = edit::by_hand(&entry.kind);
        replay.revert_all(&by_hand);
        replay.take(entry);
    }
    replay.revert_all(&[]);
    replay.events
}

fn is_told(message: &Message) -> bool {
    message.visibility().user
}

/// True if the user wrote this message. Going back to before it removes everything after it.
pub(crate) fn is_said(message: &Message) -> bool {
    is_told(message) && matches!(message.role, Role::User | Role::System)
}

#[derive(Default)]
struct Replay {
    events: Vec<Event>,
    /// Index of each message that may still grow.
    growing: HashMap<MessageId, usize>,
    /// True while the model works on a prompt. A prompt that arrives now is steering.
    in_turn: bool,
    compactions: HashSet<Seq>,
    /// Pending `(revert, target)` pairs. Only the next entry tells whether they belong to a manual context
    /// edit.
    reverts: Vec<(Seq, Seq)>,
    /// Entries that undo a compaction, with that compaction.
    undone: HashMap<Seq, Seq>,
}

impl Replay {
    fn take(&mut self, entry: Entry) {
        match entry.kind {
            EntryKind::Message { message } => self.message(message),
            EntryKind::Part { message, part } => {
                if let Some(Event::AssistantMessage { message, .. }) = self.open(&message) {
                    message.parts.push(part);
                }
            }
            EntryKind::Finish { message, reason } => {
                if let Some(Event::AssistantMessage { finish, .. }) = self.open(&message) {
                    *finish = reason;
                }
                self.growing.remove(&message);
            }
            EntryKind::Usage { message: Some(id), usage: used, cost_usd, .. } => {
                let at = self
                    .events
                    .iter_mut()
                    .rev()
                    .find(|e| matches!(e, Event::AssistantMessage { message, .. } if message.id == id));
                if let Some(Event::AssistantMessage { usage, cost, .. }) = at {
                    *usage = used;
                    *cost = Cost(cost_usd);
                }
            }
            EntryKind::Compaction(compaction) => self.compaction(entry.seq, *compaction),
            // The step limit and media are reported by a notice of their own.
            EntryKind::Prune { reason: PruneReason::StepLimit, .. } => {}
            EntryKind::Prune { calls, freed_tokens, .. } if !calls.is_empty() => self
                .events
                .push(Event::Pruned { entry: entry.seq, calls: calls.len() as u64, freed: freed_tokens }),
            EntryKind::Notice { text, .. } => {
                self.events.push(Event::Notice { level: NoticeLevel::Info, text });
            }
            EntryKind::TurnEnd { .. } => self.in_turn = false,
            _ => {}
        }
    }

    fn open(&mut self, message: &MessageId) -> Option<&mut Event> {
        self.events.get_mut(*self.growing.get(message)?)
    }

    fn message(&mut self, message: Message) {
        let event = match message.role {
            _ if !is_told(&message) => Event::SyntheticMessage { message },
            Role::User | Role::System => {
                let steered = std::mem::replace(&mut self.in_turn, true);
                Event::UserMessage { message, client_id: None, steered }
            }
            Role::Assistant => {
                self.growing.insert(message.id, self.events.len());
                Event::AssistantMessage {
                    message,
                    // A message without a `finish` entry counts as interrupted.
                    finish: FinishReason::Interrupted,
                    usage: Usage::default(),
                    cost: Cost(0.0),
                    ttft: None,
                    api_time: Millis(0),
                }
            }
            Role::Tool => Event::ToolFinished { message, changes: Vec::new(), duration: Millis(0) },
        };
        self.events.push(event);
    }

    /// Applies the pending reverts. Messages that were dropped from the context manually still belong to the
    /// conversation.
    fn revert_all(&mut self, by_hand: &[Seq]) {
        for (by, target) in std::mem::take(&mut self.reverts) {
            if !by_hand.contains(&by) {
                self.revert(by, target);
            }
        }
    }

    /// Applies one revert. If it reverts a user message, the conversation ends before that message. A
    /// reverted compaction keeps its place.
    fn revert(&mut self, by: Seq, entry: Seq) {
        if let Some(undone) = self.undone.remove(&entry) {
            return self.events.push(Event::CompactionReverted { entry: undone, counts: true });
        }
        if self.compactions.contains(&entry) {
            self.undone.insert(by, entry);
            return self.events.push(Event::CompactionReverted { entry, counts: false });
        }
        let at = self
            .events
            .iter()
            .rposition(|event| matches!(event, Event::UserMessage { message, .. } if message.seq == entry));
        if let Some(at) = at {
            self.events.truncate(at);
            self.growing.clear();
            self.in_turn = false;
        }
    }

    fn compaction(&mut self, entry: Seq, compaction: Compaction) {
        self.compactions.insert(entry);
        self.events.push(Event::CompactBoundary {
            entry,
            trigger: compaction.trigger,
            pre_tokens: compaction.tokens_before,
            post_tokens: compaction.tokens_after,
            summary: compaction.summary,
            anchor: compaction.anchor,
            tail_from: compaction.tail_from,
            kept: compaction.kept,
            left_out: compaction.left_out,
        });
    }
}
