//! `--resume-session-at`: the end of a message in a stored session, up to which a copy of the session goes.
//! `--resume-drops-turn`: the check that the copy leaves out one turn only, for a program that may not have seen all messages.

use crate::failure::Failure;
use becket_session::store;
use becket_types::{EntryKind, MessageId, Origin, Seq};
use std::path::Path;

/// Returns the last entry of this message.
///
/// # Errors
///
/// Returns a failure for the user if the session cannot be read or has no such message.
pub(crate) fn message_end(dir: &Path, message: MessageId) -> Result<Seq, Failure> {
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

/// Checks that all messages after `upto` belong to the turn of the prompt `turn`.
///
/// # Errors
///
/// Returns the reason why the session is not continued.
pub(crate) fn drops_only(dir: &Path, upto: Seq, turn: MessageId) -> Result<(), Failure> {
    let entries = store::read_entries(dir).map_err(crate::cmd::store_failure)?;
    let mut prompts = Vec::new();
    for entry in entries.flatten().flatten().filter(|entry| entry.seq > upto) {
        if let EntryKind::Message { message } = &entry.kind
            // A message about a task in the background begins a turn, too.
            && (message.origin == Origin::User || message.metadata.extra.contains_key("task"))
        {
            prompts.push(message.id);
        }
    }
    match prompts[..] {
        [only] if only == turn => Ok(()),
        [] => Err(resume_failure("no turn follows that message")),
        [first, ..] if first != turn => {
            Err(resume_failure(&format!("the first prompt after that message is {first}, not {turn}")))
        }
        _ => Err(resume_failure("later messages do not belong to that turn")),
    }
}

/// Makes the refusal that programs look for.
fn resume_failure(why: &str) -> Failure {
    Failure::usage(format!("Resume rejected by --resume-drops-turn: {why}"))
}
