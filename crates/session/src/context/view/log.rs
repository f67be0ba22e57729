//! The messages in memory, in ledger order, and the facts about those that have left it.
//!
//! Invariants: the slots are ordered by entry. Messages leave memory only in [`Log::release`]. If an entry needs a message that
//! has left, the log is stale, and a new view must be computed from the whole ledger.
//!
//! Does not decide which messages are shown.

use super::facts::Words;
use becket_types::{FinishReason, Message, MessageId, Seq, Tokens};
use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// A message in memory.
#[derive(Debug)]
pub(super) struct Slot {
    /// The ledger's message, with `seq` filled in and call ids made unique.
    pub(super) message: Arc<Message>,
    pub(super) seq: Seq,
    /// True if the message is complete. False only for an assistant message whose `finish` entry has not come yet.
    pub(super) done: bool,
    pub(super) finish: Option<FinishReason>,
    pub(super) tokens: Tokens,
    /// If this is a continuation: the compaction that it follows. Both are undone together.
    pub(super) owner: Option<Seq>,
    /// The compaction that removed this message from the view.
    pub(super) removed_by: Option<Seq>,
}

/// Slots by message id. Most look-ups are for the newest messages, which are searched directly. The map is filled only when an older
/// message is needed.
#[derive(Debug, Default)]
struct Ids {
    map: HashMap<MessageId, usize>,
    /// Number of slots that are in the map: all before this index.
    upto: usize,
}

/// The messages in memory.
#[derive(Debug, Default)]
pub(super) struct Log {
    slots: Vec<Slot>,
    ids: Ids,
    /// Facts about messages that have left memory, for the turn state.
    pub(super) left_memory: Words,
    /// Newest message that has left memory.
    pub(super) forgotten: Option<Seq>,
    /// The newest compaction that removed a message which has left memory.
    pub(super) last_lossy_compaction: Option<Seq>,
    /// True if a compaction has removed messages from the view since the last release.
    pub(super) may_release: bool,
    pub(super) stale: bool,
}

impl Index<usize> for Log {
    type Output = Slot;

    fn index(&self, at: usize) -> &Slot {
        &self.slots[at]
    }
}

impl IndexMut<usize> for Log {
    fn index_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }
}

impl Log {
    pub(super) fn new(slots: Vec<Slot>) -> Self {
        Self { slots, ..Self::default() }
    }

    /// Adds a message. Returns its index.
    pub(super) fn push(&mut self, slot: Slot) -> usize {
        self.slots.push(slot);
        self.slots.len() - 1
    }

    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(super) fn slots_mut(&mut self) -> &mut [Slot] {
        &mut self.slots
    }

    /// Returns the newest slot with this message id.
    pub(super) fn newest(&mut self, id: &MessageId) -> Option<usize> {
        const NEAR: usize = 16;
        let near = self.slots.len().saturating_sub(NEAR);
        if let Some(at) = self.slots[near..].iter().rposition(|slot| slot.message.id == *id) {
            return Some(near + at);
        }
        let fresh = self.slots.iter().enumerate().skip(self.ids.upto);
        self.ids.map.extend(fresh.map(|(at, slot)| (slot.message.id, at)));
        self.ids.upto = self.slots.len();
        self.ids.map.get(id).copied()
    }

    pub(super) fn find(&self, seq: Seq) -> Option<&Slot> {
        self.slots.binary_search_by_key(&seq, |slot| slot.seq).ok().map(|at| &self.slots[at])
    }

    /// Records that an entry names messages that may not be in memory. If any message has left memory, the log becomes stale.
    pub(super) fn note_missing(&mut self) {
        self.stale |= self.forgotten.is_some();
    }

    /// Removes messages from memory for which `stays` is false, oldest first; the newest `room` tokens of them stay. `counts` says if a
    /// message is in force. Returns the new index for each old one; `None` if nothing was removed.
    pub(super) fn release(
        &mut self,
        mut stays: Vec<bool>,
        room: Tokens,
        counts: impl Fn(&Slot) -> bool,
    ) -> Option<Vec<usize>> {
        let mut room = room.0;
        for (slot, stays) in self.slots.iter().zip(&mut stays).rev().filter(|(_, stays)| !**stays) {
            if slot.tokens.0 > room {
                room = 0;
            } else {
                room -= slot.tokens.0;
                *stays = true;
            }
        }
        if !stays.contains(&false) {
            return None;
        }
        let mut places = Vec::with_capacity(stays.len());
        let mut slots = Vec::with_capacity(stays.len());
        for (slot, stays) in std::mem::take(&mut self.slots).into_iter().zip(stays) {
            places.push(slots.len());
            if stays {
                slots.push(slot);
                continue;
            }
            self.forgotten = self.forgotten.max(Some(slot.seq));
            self.last_lossy_compaction = self.last_lossy_compaction.max(slot.removed_by);
            if counts(&slot) {
                self.left_memory.note_message(&slot.message, slot.seq, slot.finish.is_some());
            }
        }
        self.slots = slots;
        self.ids = Ids::default();
        Some(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(messages: u64) -> (Log, Vec<MessageId>) {
        let mut log = Log::default();
        let ids = (1..=messages).map(|n| {
            let message = Arc::new(Message::user(format!("m{n}")));
            let id = message.id;
            let (seq, tokens) = (Seq(n * 2), Tokens(10));
            log.push(Slot {
                message,
                seq,
                done: true,
                finish: None,
                tokens,
                owner: None,
                removed_by: Some(Seq(99)),
            });
            id
        });
        let ids = ids.collect();
        (log, ids)
    }

    #[test]
    fn messages_are_found_by_id_and_by_entry_near_the_end_and_far_from_it() {
        let (mut log, ids) = log(100);
        for (at, id) in ids.iter().enumerate() {
            assert_eq!(log.newest(id), Some(at));
            assert_eq!(log.find(Seq(at as u64 * 2 + 2)).map(|slot| slot.message.id), Some(*id));
        }
        assert_eq!(log.newest(&MessageId::new()), None);
        assert!(log.find(Seq(3)).is_none());
    }

    #[test]
    fn the_oldest_messages_leave_first_and_what_they_said_stays_known() {
        let (mut log, ids) = log(6);
        let stays = vec![true, false, false, false, false, true];
        log.note_missing();
        assert!(!log.stale, "nothing has left yet");
        let places = log.release(stays, Tokens(25), |_| true).unwrap();
        assert_eq!(places, [0, 1, 1, 1, 2, 3]);
        let left: Vec<MessageId> = log.slots().iter().map(|slot| slot.message.id).collect();
        assert_eq!(left, [ids[0], ids[3], ids[4], ids[5]]);
        assert_eq!((log.newest(&ids[5]), log.newest(&ids[1])), (Some(3), None));
        assert_eq!((log.forgotten, log.last_lossy_compaction), (Some(Seq(6)), Some(Seq(99))));
        assert_eq!(log.left_memory.input, Some(Seq(6)));
        log.note_missing();
        assert!(log.stale);
        assert!(log.release(vec![false; 4], Tokens(40), |_| true).is_none(), "all of them fit");
    }
}
