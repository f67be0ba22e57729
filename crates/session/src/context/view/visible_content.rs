//! The facts about a view that a search of the session's history needs: what the model already sees, and what
//! it may not see.

use super::fold::Conversation;
use becket_types::{CallId, Message, MessageId, Seq};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The view at one moment, kept for the duration of a search.
#[derive(Debug)]
pub(crate) struct VisibleContent {
    /// Live messages, with the shown call ids.
    pub(crate) messages: HashMap<MessageId, Arc<Message>>,
    /// Calls whose outputs are stubs or shown in part, so that a search may find the rest.
    pub(crate) stubs: HashSet<CallId>,
    /// The shown id of each result whose call has another id in the ledger, by the entry of the result.
    pub(crate) renamed: HashMap<Seq, CallId>,
    /// Entries that are reverted.
    pub(crate) reverted: HashSet<Seq>,
}

impl VisibleContent {
    pub(super) fn from_conversation(conversation: &Conversation) -> Self {
        let effects = &conversation.controls.effects;
        let stubs = effects.pruned.keys().filter(|id| effects.is_pruned(id));
        let stubs = stubs.chain(effects.cuts().map(|cut| &cut.call_id));
        Self {
            messages: conversation.live().map(|m| (m.id, Arc::clone(m))).collect(),
            stubs: stubs.cloned().collect(),
            renamed: conversation.calls.renamed_results(),
            reverted: effects.dead.clone(),
        }
    }
}
