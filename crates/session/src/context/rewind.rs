//! A rewind: the conversation goes back to the state before a prompt, by reverts of everything since.
//!
//! Owns the choice of the entries that a rewind cancels, and recognises rewinds in a ledger, so that nothing that a rewind
//! discarded is undone or redone later. Writes nothing.

use super::View;
use becket_types::{Entry, EntryKind, Seq};
use std::collections::{HashMap, HashSet};

/// Returns the entries to cancel for a rewind to before the prompt at `to`, newest first: all entries since the prompt that are in force
/// and decide what the view shows. If there are any, the prompt itself is the last of the list, even if an earlier rewind has already
/// cancelled it. By this the ledger shows that it was a rewind, and not an undo of a compaction or a change, which can be redone.
pub fn entries_to_cancel(view: &View, entries: impl IntoIterator<Item = Entry>, to: Seq) -> Vec<Seq> {
    let decides = |kind: &EntryKind| match kind {
        EntryKind::Message { .. }
        | EntryKind::Compaction(_)
        | EntryKind::Prune { .. }
        | EntryKind::CutInputs { .. }
        | EntryKind::Pin { .. }
        | EntryKind::Restore { .. } => true,
        // Cancelling the revert of an entry before the prompt brings that entry back. A revert of a later entry stays, because that entry
        // is discarded anyway.
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

/// The effect of a rewind, in entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Number of entries that leave the conversation.
    pub out: u64,
    /// Number of entries that come back, because the revert that took them out is cancelled.
    pub back: u64,
}

/// Returns the effect of cancelling these entries, as [`entries_to_cancel`] chose them.
pub fn moved(view: &View, entries: impl IntoIterator<Item = Entry>, cancelled: &[Seq]) -> Moved {
    let targets: HashMap<Seq, Seq> = entries
        .into_iter()
        .filter_map(|entry| match entry.kind {
            EntryKind::Revert { entry: target } => Some((entry.seq, target)),
            _ => None,
        })
        .collect();
    let mut moved = Moved::default();
    for seq in cancelled {
        let (mut at, mut comes_back) = (*seq, false);
        // A revert may cancel an earlier revert. A target is always older, so the loop ends.
        while let Some(target) = targets.get(&at).filter(|target| **target < at) {
            (at, comes_back) = (*target, !comes_back);
        }
        match comes_back {
            true => moved.back += 1,
            false if at != *seq || !view.is_reverted(at) => moved.out += 1,
            false => {}
        }
    }
    moved
}

/// All messages and reverts of a ledger, to tell rewinds from changes by hand.
pub(super) struct MessageReverts {
    /// Reverts that belong to manual changes.
    by_hand: HashSet<Seq>,
    /// The entry of each message; true for a prompt that a person wrote.
    messages: HashMap<Seq, bool>,
    /// The target of each revert, by the entry of the revert.
    targets: HashMap<Seq, Seq>,
}

/// The change of the session to which the revert of a message belongs.
pub(super) enum RevertedBy {
    /// A rewind to before this prompt. The conversation before the prompt is unchanged.
    Rewind(Seq),
    /// A change of the context, by a person or by becket, that removes or restores this message.
    Change(Seq),
}

impl MessageReverts {
    /// Collects messages and reverts from `entries`. `by_hand`: the entries that belong to manual changes.
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

    /// Returns the change to which a revert belongs, if it takes back a message, or brings back one that a rewind took.
    pub(super) fn reverted_by(&self, entry: &Entry) -> Option<RevertedBy> {
        let EntryKind::Revert { entry: mut target } = entry.kind else { return None };
        let is_by_hand = self.by_hand.contains(&entry.seq);
        // A rewind may cancel the reverts of an earlier rewind, so follow the chain to the message. A target is always older than its
        // revert, so the loop ends.
        while let Some(next) = self.targets.get(&target).filter(|next| **next < target) {
            if is_by_hand || self.by_hand.contains(&target) {
                return None;
            }
            target = *next;
        }
        let is_prompt = *self.messages.get(&target)?;
        // A revert of a prompt is a rewind, unless a person dropped the prompt by hand.
        Some(if is_prompt && !is_by_hand { RevertedBy::Rewind(target) } else { RevertedBy::Change(target) })
    }
}
