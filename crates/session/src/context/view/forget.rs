//! Removing messages from memory that the view no longer shows, if they exceed a limit.
//!
//! Nothing that is shown depends on them, and an undo can read them from the ledger. The caller of
//! [`View::let_go`] decides when to do this.

use super::calls::results_of;
use super::{Ids, Slot, View};
use becket_types::{Message, Tokens};

impl View {
    /// Removes messages that the view no longer shows from memory, oldest first. The newest `room` tokens of
    /// them stay, because an undo may need them soon. Only does work after a compaction. Applying entries
    /// never removes anything, so a newly computed view can undo everything.
    pub(super) fn forget(&mut self, room: Tokens) {
        if !std::mem::take(&mut self.may_forget) {
            return;
        }
        let mut stays = self.needed();
        let mut room = room.0;
        for (slot, stays) in self.log.iter().zip(&mut stays).rev().filter(|(_, stays)| !**stays) {
            if slot.tokens.0 > room {
                room = 0;
            } else {
                room -= slot.tokens.0;
                *stays = true;
            }
        }
        if !stays.contains(&false) {
            return;
        }
        let mut places = Vec::with_capacity(stays.len());
        let mut log = Vec::with_capacity(stays.len());
        for (slot, stays) in std::mem::take(&mut self.log).into_iter().zip(stays) {
            places.push(log.len());
            if stays {
                log.push(slot);
                continue;
            }
            self.forgotten = self.forgotten.max(Some(slot.seq));
            self.lost_at = self.lost_at.max(slot.out);
            if self.effects.counts(&slot) {
                self.left.see(&slot.message, slot.seq, slot.finish.is_some());
            }
        }
        self.log = log;
        self.ids = Ids::default();
        for at in &mut self.live {
            *at = places[*at];
        }
        self.calls.moved(&places);
    }

    /// Returns the messages that must stay in memory: shown messages, those that determine the turn state,
    /// and those that may still be wrapped in a reminder. Reverted pins need not stay.
    pub(super) fn needed(&self) -> Vec<bool> {
        let turn = &self.turn;
        let mut live = self.live.iter().peekable();
        let needed = |(at, slot): (usize, &Slot)| {
            live.next_if_eq(&&at).is_some()
                || slot.seq > turn.shown_up_to
                || Some(slot.seq) == turn.newest.assistant
                || !self.effects.counts(slot) && self.holds_pin(&slot.message)
        };
        self.log.iter().enumerate().map(needed).collect()
    }

    fn holds_pin(&self, message: &Message) -> bool {
        self.is_pinned(&message.id) || results_of(message).any(|id| self.is_call_pinned(id))
    }
}
