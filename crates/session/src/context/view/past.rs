//! The facts about a view that a search of the session's history needs: what the model already sees, and what
//! it may not see.

use super::View;
use becket_types::{CallId, Message, MessageId, Seq};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The view at one moment, kept for the duration of a search.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Live messages, with the shown call ids.
    pub(crate) messages: HashMap<MessageId, Arc<Message>>,
    /// Outputs that are stubs or shown shortened.
    pub(crate) stubs: HashSet<CallId>,
    /// Shown ids of calls that have another id in the ledger, by the entry of their first result.
    pub(crate) renamed: HashMap<Seq, CallId>,
    /// Entries that are reverted.
    pub(crate) reverted: HashSet<Seq>,
}

impl View {
    pub(crate) fn shown(&self) -> Shown {
        let stubs = self.effects.pruned.keys().filter(|id| self.is_pruned(id));
        let stubs = stubs.chain(self.cuts().map(|cut| &cut.call_id));
        Shown {
            messages: self.live().map(|m| (m.id, Arc::clone(m))).collect(),
            stubs: stubs.cloned().collect(),
            renamed: self.calls.renamed_results(),
            reverted: self.effects.dead.clone(),
        }
    }

    /// True if the entry is reverted, by an undo or by a manual change.
    pub fn is_reverted(&self, seq: Seq) -> bool {
        self.effects.is_dead(seq)
    }
}
