//! Previews of sessions for a list: the last messages.
//!
//! Reads only the end of long ledgers, takes no lock, and shows nothing that is for the model only.

use crate::cmd::{one_line, pick_session};
use crate::environment::Environment;
use becket_tui::input::Reply;
use becket_types::{Entry, EntryKind, Message, Role};
use std::fmt::Write as _;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Maximum number of bytes that are read from the ledger's end.
const MAX_TAIL_BYTES: u64 = 512 * 1024;
/// Maximum number of messages that are shown, and of characters of each.
const MESSAGES: usize = 6;
const CHARS: usize = 600;
/// Maximum number of lines of an answer.
const LINES: usize = 12;

pub(super) fn preview(environment: &Environment, cwd: &Path, session: String) -> Reply {
    let text = match pick_session(environment, cwd, Some(&session)) {
        Err(failure) => failure.message,
        Ok(found) => {
            let mut out = String::new();
            let messages = last_messages(&becket_session::store::ledger_path(&found.dir));
            let skip = messages.len().saturating_sub(MESSAGES);
            for message in &messages[skip..] {
                if message.role == Role::User {
                    let _ = writeln!(out, "› {}\n", one_line(&message_text(message), CHARS));
                } else {
                    let _ = writeln!(out, "{}\n", beginning(&message_text(message)));
                }
            }
            out
        }
    };
    Reply::Preview { session, text }
}

/// Returns the first lines of an answer, which stay Markdown. An open code block is closed.
fn beginning(answer: &str) -> String {
    let mut out = String::new();
    let mut lines = answer.trim().lines();
    for line in lines.by_ref().take(LINES) {
        if out.len() + line.len() > CHARS {
            break;
        }
        out.push_str(line);
        out.push('\n');
    }
    if !out.matches("```").count().is_multiple_of(2) {
        out.push_str("```\n");
    }
    if out.len() < answer.trim().len() {
        out.push_str("\n…\n");
    }
    out
}

/// Returns the visible messages at the end of a ledger, oldest first.
fn last_messages(ledger: &Path) -> Vec<Message> {
    last_entries(ledger, MAX_TAIL_BYTES).into_iter().filter_map(message).collect()
}

fn message(entry: Entry) -> Option<Message> {
    let EntryKind::Message { message } = entry.kind else { return None };
    let shown = message.visibility().user && !message_text(&message).trim().is_empty();
    (shown && message.role != Role::Tool).then_some(message)
}

fn message_text(message: &Message) -> String {
    becket_tui::transcript::pasted::as_written(&message.parts)
}

/// Returns the entries in the last `bytes` of a ledger, in order.
fn last_entries(ledger: &Path, bytes: u64) -> Vec<Entry> {
    let Ok(mut file) = std::fs::File::open(ledger) else { return Vec::new() };
    let from = file.metadata().map_or(0, |meta| meta.len()).saturating_sub(bytes);
    let mut read = Vec::new();
    if file.seek(SeekFrom::Start(from)).is_err() || file.take(bytes).read_to_end(&mut read).is_err() {
        return Vec::new();
    }
    // The first line may be incomplete.
    let text = String::from_utf8_lossy(&read);
    text.lines().skip(usize::from(from > 0)).flat_map(commit).collect()
}

/// Returns the entries of one commit.
fn commit(line: &str) -> Vec<Entry> {
    let Ok(mut commit) = serde_json::from_str::<serde_json::Value>(line) else { return Vec::new() };
    let lists = commit.as_object_mut().into_iter().flat_map(|map| map.values_mut());
    let lists = lists.filter_map(serde_json::Value::as_array_mut).map(std::mem::take);
    lists.flatten().filter_map(|entry| serde_json::from_value(entry).ok()).collect()
}
