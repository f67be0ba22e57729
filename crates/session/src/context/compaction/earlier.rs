//! The summary of an earlier compaction, as input of the next one.
//!
//! Reads its text without the blocks that each compaction adds (anchor and quotes), also if the user has changed the template since.
//! Changes nothing in the stored summary.

use super::Snapshot;
use super::prepared::NEWER;
use crate::context::summary::{Quotes, Sections, Template, escape_tags, read};
use crate::context::tail_anchor;
use becket_types::{Message, Origin};
use std::sync::Arc;

/// True if the conversation has no message that is newer than the compaction in force. The message with which a
/// compaction continues a turn does not count.
pub(super) fn nothing_added(snapshot: &Snapshot) -> bool {
    let Some(previous) = &snapshot.previous else { return false };
    let is_new = |m: &Arc<Message>| m.seq > previous.entry && !matches!(m.origin, Origin::Synthetic(_));
    !snapshot.messages.iter().any(is_new)
}

/// Returns an earlier summary as text for the summariser. The anchor's block is removed; its words are repeated in one line at the end.
pub(super) fn earlier_text(summary: &str) -> String {
    let body = own_text(summary);
    let last = tail_anchor::carried(summary);
    let last = last.map(|words| format!("\n\nLast words before that cut: {words}")).unwrap_or_default();
    escape_tags(&format!("{body}{last}"))
}

/// Returns a summary without its anchor, its quotes and the note [`NEWER`] of a summary that was prepared in the background.
pub(super) fn own_text(summary: &str) -> String {
    Quotes::strip(&tail_anchor::strip(summary)).replace(NEWER, "")
}

/// Parses the sections of an earlier summary, with the current template or the default one.
pub(super) fn read_any(template: &Template, summary: &str) -> Option<Sections> {
    read(template, summary).or_else(|_| read(&Template::new(None), summary)).ok()
}
