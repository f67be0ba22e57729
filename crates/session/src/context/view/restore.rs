//! Restoring messages that a compaction removed, by a `restore` entry, at their positions in ledger order.
//!
//! A call is restored with all of its results, and a result with its call. If a message has left memory, the
//! view becomes stale, like after an undo. A later compaction may remove the messages again.
//!
//! A message that the current compaction removed because its continuation repeats it stays out: its text would be in the view
//! twice, and the next compaction would remove it again, even if it was pinned meanwhile.

use super::calls::results_of;
use super::fold::Act;
use super::{Slot, View};
use becket_types::{CallId, Entry, MessageId, Role};
use std::collections::HashSet;

impl View {
    pub(super) fn restore_entry(&mut self, entry: &Entry, messages: &[MessageId]) {
        // The requested messages, or those that belong to them, may have left memory.
        self.stale |= self.forgotten.is_some();
        let live = std::mem::take(&mut self.live);
        self.live = self.restored(live, messages);
        self.control(entry, Act::Restore(messages.to_vec()));
        self.reattach();
    }

    /// Returns the live messages together with those of `ids` that a compaction removed, at their positions.
    /// Calls are included with all of their results.
    pub(super) fn restored(&mut self, live: Vec<usize>, ids: &[MessageId]) -> Vec<usize> {
        let ids: HashSet<MessageId> = ids.iter().copied().collect();
        let repeated = self.effects.compaction.as_ref().map_or(&[][..], |(_, c)| &c.taken_out);
        let out = |slot: &Slot| {
            slot.out.is_some() && self.effects.counts(slot) && !repeated.contains(&slot.message.id)
        };
        let asked = |slot: &&Slot| ids.contains(&slot.message.id) && out(slot);
        let mut calls: HashSet<CallId> = HashSet::new();
        for slot in self.log.iter().filter(asked) {
            calls.extend(slot.message.call_ids().chain(results_of(&slot.message)).cloned());
        }
        // Finds the answer that made one of these calls, and all of its calls.
        for slot in self.log.iter().filter(|slot| slot.message.role == Role::Assistant && out(slot)) {
            if slot.message.call_ids().any(|id| calls.contains(id)) {
                calls.extend(slot.message.call_ids().cloned());
            }
        }
        let belongs = |slot: &Slot| {
            out(slot)
                && (ids.contains(&slot.message.id)
                    || slot.message.call_ids().chain(results_of(&slot.message)).any(|id| calls.contains(id)))
        };
        let back: Vec<usize> =
            self.log.iter().enumerate().filter(|(_, slot)| belongs(slot)).map(|(at, _)| at).collect();
        for at in &back {
            self.log[*at].out = None;
        }
        let mut live = [live, back].concat();
        live.sort_unstable();
        live
    }
}
