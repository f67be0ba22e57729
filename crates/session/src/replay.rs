//! Events from entries: what a front end that was away would have seen, without the deltas.
//!
//! Everything a person saw can be derived from the ledger; this is the derivation. Reads entries, changes nothing.

use crate::context::edit;
use becket_types::{
    Compaction, Cost, Entry, EntryKind, Event, FinishReason, Message, MessageId, Millis, NoticeLevel,
    PruneReason, Role, Seq, Usage,
};
use std::collections::{HashMap, HashSet};

/// The events of `entries`, in order.
pub fn events(entries: impl IntoIterator<Item = Entry>) -> Vec<Event> {
    events_from(entries, false)
}

/// The same of entries that begin somewhere in a session, perhaps while the model is at work on a prompt.
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

/// Whether the person said it: going back to before it takes all behind it out.
pub(crate) fn is_said(message: &Message) -> bool {
    is_told(message) && matches!(message.role, Role::User | Role::System)
}

#[derive(Default)]
struct Replay {
    events: Vec<Event>,
    /// Where a message that may still grow stands.
    growing: HashMap<MessageId, usize>,
    /// The model is at work on a prompt: a prompt now is steering.
    in_turn: bool,
    compactions: HashSet<Seq>,
    /// Reverts, and of what, of which it is not known yet whether they are of a change by hand: that is said behind them.
    reverts: Vec<(Seq, Seq)>,
    /// Entries that undo a compaction, and which.
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
            // A notice tells of a step that was shown in part, and of media alone.
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
                    // Before its `finish` entry it counts as interrupted.
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

    /// What was left out of the context by hand was said all the same.
    fn revert_all(&mut self, by_hand: &[Seq]) {
        for (by, target) in std::mem::take(&mut self.reverts) {
            if !by_hand.contains(&by) {
                self.revert(by, target);
            }
        }
    }

    /// Where a message of the user's is taken back, the conversation ends before it. A compaction stays where it is.
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
