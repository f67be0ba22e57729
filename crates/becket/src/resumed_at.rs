//! `--resume-session-at`: the end of a message in a stored session, up to which a copy of the session goes.

use crate::failure::Failure;
use becket_session::store;
use becket_types::{EntryKind, MessageId, Seq};
use std::path::Path;

/// Returns the last entry of this message.
///
/// # Errors
///
/// Returns a failure for the user if the session cannot be read or has no such message.
pub(crate) fn end_of(dir: &Path, message: MessageId) -> Result<Seq, Failure> {
    let entries = store::read_entries(dir).map_err(crate::cmd::store_failure)?;
    let mut end = None;
    for entry in entries.flatten().flatten() {
        let of = match &entry.kind {
            EntryKind::Message { message } => message.id,
            EntryKind::Part { message, .. } | EntryKind::Finish { message, .. } => *message,
            _ => continue,
        };
        if of == message {
            end = Some(entry.seq);
        }
    }
    end.ok_or_else(|| {
        Failure::usage(format!("--resume-session-at: the session has no message {message}"))
            .hint("give the uuid of a message of that session")
    })
}
