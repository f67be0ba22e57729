//! Rules files below the working directory, and the position of their text after a compaction.
//!
//! A rules file that is found during the session is sent to the model as a message. A compaction removes all these messages from the view
//! and stores the texts in its own entry (`Compaction::repeated`). The view then shows each of them as a message after the summary. So each
//! text appears only once, undoing the compaction brings the messages back unchanged, and the system prompt stays cached at the provider.
//!
//! The texts come from the files ([`super::OnDisk::rules`]). Without them (a preview of an imported ledger, a test), the newest text of
//! each file in the view is used.
//!
//! A message that the user pinned stays in its place. Its text is then omitted from the entry.

use super::Snapshot;
use crate::context::budget::estimate_text;
use crate::context::escape::escape;
use becket_types::{Message, Origin, Synthetic, SystemItem, SystemKind};
use serde_json::Value;
use std::path::PathBuf;

/// Key in the metadata of a message with a rules file: the file's path.
pub const RULES_PATH: &str = "rules_path";
/// Tokens that the provider's format adds to each message.
const MESSAGE_FRAME: u64 = 4;

/// The rules files in one snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct NestedRules {
    /// The items that the compaction stores.
    pub(super) items: Vec<SystemItem>,
    /// Base tokens of the items when sent as messages.
    pub(super) cost: u64,
    /// Indices of the messages with rules files that are not pinned, ascending. They leave the view.
    pub(super) messages: Vec<usize>,
}

impl NestedRules {
    pub(super) fn from_snapshot(snapshot: &Snapshot) -> Self {
        let pinned = |message: &Message| snapshot.pins.messages.contains(&message.id);
        let (mut messages, mut stay) = (Vec::new(), Vec::new());
        for (at, message) in snapshot.messages.iter().enumerate().filter(|(_, m)| is_rules(m)) {
            if pinned(message) {
                stay.push(message.text());
            } else {
                messages.push(at);
            }
        }
        let mut items = snapshot.disk.rules.clone().unwrap_or_else(|| visible_rules(snapshot));
        items.retain(|item| !becket_types::is_blank(&item.text) && !stay.contains(&item.text));
        let cost = cost(&items);
        Self { items, cost, messages }
    }

    pub(super) fn holds(&self, index: usize) -> bool {
        self.messages.binary_search(&index).is_ok()
    }
}

/// True for a message that contains a rules file.
pub(super) fn is_rules(message: &Message) -> bool {
    message.origin == Origin::Synthetic(Synthetic::Rules)
}

/// Returns the base tokens of rules that are sent as messages.
pub(super) fn cost(items: &[SystemItem]) -> u64 {
    items.iter().map(|item| estimate_text(&escape(&item.text)).0 + MESSAGE_FRAME).sum()
}

/// Returns the rules that the view shows: those of the current compaction, then the messages since. A newer
/// text of a file replaces an earlier one.
fn visible_rules(snapshot: &Snapshot) -> Vec<SystemItem> {
    let mut items = snapshot.previous.as_ref().map(|p| p.rules.clone()).unwrap_or_default();
    for message in snapshot.messages.iter().filter(|m| is_rules(m)) {
        let path = message.metadata.extra.get(RULES_PATH).and_then(Value::as_str).map(PathBuf::from);
        let text = message.text();
        items.retain(|item| item.text != text && (path.is_none() || item.path != path));
        items.push(SystemItem { kind: SystemKind::Rules, path, text });
    }
    items
}
