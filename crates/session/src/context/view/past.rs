//! What the model sees already and what it may not see: what a search of the past must know of the view.

use super::View;
use becket_types::{CallId, Message, MessageId, Seq};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The view at one moment, for as long as a search takes.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Live messages, with the call ids that are shown.
    pub(crate) messages: HashMap<MessageId, Arc<Message>>,
    /// Outputs that are stubs, or shown in part.
    pub(crate) stubs: HashSet<CallId>,
    /// Shown ids of calls that the ledger has under another one, by the entry of their first result.
    pub(crate) renamed: HashMap<Seq, CallId>,
    /// Entries that count as if they were not there.
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

    /// Whether the entry counts as if it were not there: taken back, or left out by hand.
    pub fn is_reverted(&self, seq: Seq) -> bool {
        self.effects.is_dead(seq)
    }
}
