//! A rewind: the conversation goes back to the state before a prompt, by reverts of everything since.
//!
//! Owns the choice of the entries that a rewind cancels, and recognises rewinds in a ledger, so that nothing that a rewind
//! discarded is undone or redone later. Writes nothing.

use super::View;
use becket_types::{Entry, EntryKind, Seq};
use std::collections::{HashMap, HashSet};

/// Returns the entries to cancel for a rewind to before the prompt at `to`, newest first: those from it on that decide what
/// the view shows and are in force. If there is anything to cancel, the prompt is the last of them, also if an earlier rewind has
/// cancelled it already: the ledger must tell a rewind from an undo of a compaction or a change, which can be redone.
pub fn cancelled(view: &View, entries: impl IntoIterator<Item = Entry>, to: Seq) -> Vec<Seq> {
    let decides = |kind: &EntryKind| match kind {
        EntryKind::Message { .. }
        | EntryKind::Compaction(_)
        | EntryKind::Prune { .. }
        | EntryKind::CutInputs { .. }
        | EntryKind::Pin { .. }
        | EntryKind::Restore { .. } => true,
        // A revert of an entry before the prompt is cancelled, so that entry is in force again. A revert of an entry
        // after the prompt stays.
        EntryKind::Revert { entry } => *entry < to,
        _ => false,
    };
    let since = entries.into_iter().filter(|entry| entry.seq >= to && decides(&entry.kind));
    let mut cancelled: Vec<Seq> =
        since.map(|entry| entry.seq).filter(|seq| !view.is_reverted(*seq)).collect();
    cancelled.reverse();
    if !cancelled.is_empty() && view.is_reverted(to) {
        cancelled.push(to);
    }
    cancelled
}

/// Reverts of messages: by rewinds, and by hand.
pub(super) struct MessageReverts {
    /// Reverts that belong to manual changes.
    by_hand: HashSet<Seq>,
    /// Messages, and true if a person wrote it as a prompt.
    messages: HashMap<Seq, bool>,
    /// All reverts, with their targets.
    targets: HashMap<Seq, Seq>,
}

/// The change of the session that a revert of a message belongs to.
pub(super) enum RevertedBy {
    /// A rewind. The conversation before this prompt is the same before and after it.
    Rewind(Seq),
    /// A change of the context, by hand or by becket. Contains the message.
    Change(Seq),
}

impl MessageReverts {
    /// Finds the reverts among `entries`. `by_hand`: the entries that belong to manual changes.
    pub(super) fn of(entries: &[Entry], by_hand: HashSet<Seq>) -> Self {
        let (mut messages, mut targets) = (HashMap::new(), HashMap::new());
        for entry in entries {
            match &entry.kind {
                EntryKind::Message { message } => {
                    messages.insert(entry.seq, message.is_user_turn());
                }
                EntryKind::Revert { entry: target } => {
                    targets.insert(entry.seq, *target);
                }
                _ => {}
            }
        }
        Self { by_hand, messages, targets }
    }

    /// Returns the change that the entry belongs to, if it reverts a message, or brings one back that a rewind took.
    pub(super) fn what(&self, entry: &Entry) -> Option<RevertedBy> {
        let EntryKind::Revert { entry: mut target } = entry.kind else { return None };
        let is_by_hand = self.by_hand.contains(&entry.seq);
        // A rewind to a prompt that an earlier rewind has discarded cancels the reverts of that one. Targets are older than
        // their reverts, so this ends.
        while let Some(next) = self.targets.get(&target).filter(|next| **next < target) {
            if is_by_hand || self.by_hand.contains(&target) {
                return None;
            }
            target = *next;
        }
        let is_prompt = *self.messages.get(&target)?;
        // Only a rewind takes back a prompt, except for a person who drops it by hand.
        Some(if is_prompt && !is_by_hand { RevertedBy::Rewind(target) } else { RevertedBy::Change(target) })
    }
}
