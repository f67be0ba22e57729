//! A session for people and for other programs: Markdown of what the user saw, an HTML page, or the ledger's own lines.
//!
//! Markdown holds the user's plain words, the model's answers, and calls with their results; nothing that becket wrote for
//! the model (continuations, summaries, reminders, rules). JSONL is the ledger byte for byte, damaged lines included.
//!
//! Reads entries, changes nothing.

use crate::blobs::BlobStore;
use crate::store::{Disk, StoreError, ledger_path};
use becket_types::{
    Entry, EntryKind, ImageSource, Message, MessageId, Part, Role, SubagentReport, visibility,
};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

mod html;
mod mask;
mod provenance;

pub use html::Page;
pub use mask::mask;

/// What an export looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The ledger as it is, one commit a line.
    Jsonl,
    /// What the user saw.
    Markdown,
    /// The ledger, and behind it all blobs, one a line.
    Whole,
    /// One page that needs nothing else.
    Html,
}

/// Writes a stored session. Works on one that is open elsewhere.
///
/// # Errors
/// [`StoreError::NotFound`], or [`StoreError::Io`] for a failing disk or a closed `out`.
pub fn export(session_dir: &Path, format: Format, out: &mut dyn Write) -> Result<(), StoreError> {
    match format {
        Format::Jsonl | Format::Whole => {
            let path = ledger_path(session_dir);
            let mut file = File::open(&path).map_err(|e| match e.kind() {
                io::ErrorKind::NotFound => StoreError::NotFound { query: session_dir.display().to_string() },
                _ => StoreError::io("read", &path)(e),
            })?;
            io::copy(&mut file, out).map_err(StoreError::io("export", &path))?;
            if format == Format::Whole {
                crate::import::write_blobs(session_dir, out).map_err(StoreError::io("export", &path))?;
            }
        }
        Format::Html => {
            let mut page = Page::default();
            for entry in crate::store::read_entries(session_dir)? {
                match entry.map_err(StoreError::io("read", session_dir))? {
                    Ok(entry) => page.take(&entry),
                    Err(bad) => page.unreadable(bad.to_string()),
                }
            }
            let blobs = BlobStore::in_memory(Arc::new(Disk), Some(session_dir));
            page.write(&blobs, out).map_err(StoreError::io("export", session_dir))?;
        }
        Format::Markdown => {
            let mut transcript = Transcript::default();
            for entry in crate::store::read_entries(session_dir)? {
                match entry.map_err(StoreError::io("read", session_dir))? {
                    Ok(entry) => transcript.take(&entry),
                    Err(bad) => transcript.unreadable.push(bad.to_string()),
                }
            }
            transcript.write(out).map_err(StoreError::io("export", session_dir))?;
        }
    }
    Ok(())
}

/// The messages of a session put together from its entries, streamed parts included.
#[derive(Debug, Default)]
pub struct Transcript {
    title: Option<String>,
    messages: Vec<Message>,
    /// Where a message that may still grow stands.
    places: HashMap<MessageId, usize>,
    unreadable: Vec<String>,
}

impl Transcript {
    pub fn take(&mut self, entry: &Entry) {
        match &entry.kind {
            EntryKind::Title { title } => self.title = Some(title.clone()),
            EntryKind::Message { message } if is_shown(message) => {
                self.places.insert(message.id, self.messages.len());
                self.messages.push(Message { seq: entry.seq, ..message.clone() });
            }
            EntryKind::Part { message, part } => {
                if let Some(shown) = self.places.get(message).and_then(|at| self.messages.get_mut(*at)) {
                    shown.parts.push(part.clone());
                }
            }
            _ => {}
        }
    }

    /// The messages that people see, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(title) = &self.title {
            writeln!(out, "# {}\n", title.lines().collect::<Vec<_>>().join(" "))?;
        }
        let mut speaker = None;
        for message in &self.messages {
            // Tool results belong to the answer that asked for them.
            let role = if message.role == Role::Tool { Role::Assistant } else { message.role };
            if speaker != Some(role) {
                speaker = Some(role);
                writeln!(out, "## {}\n", heading(role))?;
            }
            for part in &message.parts {
                write_part(part, out)?;
            }
        }
        for line in &self.unreadable {
            writeln!(out, "> unreadable record: {line}\n")?;
        }
        Ok(())
    }
}

/// Whether people see the message: exports hide what the TUI and `--print` hide.
pub fn is_shown(message: &Message) -> bool {
    visibility(&message.origin).user && !message.metadata.compaction_continue
}

fn heading(role: Role) -> &'static str {
    match role {
        Role::System => "System",
        Role::User => "User",
        Role::Assistant | Role::Tool => "Assistant",
    }
}

fn write_part(part: &Part, out: &mut dyn Write) -> io::Result<()> {
    match part {
        Part::Text { text, synthetic: false, .. } if !becket_types::is_blank(text) => {
            writeln!(out, "{}\n", text.trim_end_matches('\n'))
        }
        Part::Image { media_type, source, name, .. } => {
            let name = name.as_deref().unwrap_or(match source {
                ImageSource::Url(url) => url,
                ImageSource::Blob(_) | ImageSource::Base64(_) => "image",
            });
            writeln!(out, "[Attached {media_type}: {name}]\n")
        }
        Part::File { media_type, name, .. } => {
            writeln!(out, "[Attached {media_type}: {}]\n", name.as_deref().unwrap_or("file"))
        }
        Part::ToolCall { name, input, invalid, .. } => {
            let input = match invalid {
                Some(invalid) => invalid.clone(),
                None => serde_json::to_string_pretty(input).unwrap_or_default(),
            };
            writeln!(out, "**{name}**\n")?;
            fenced("json", &input, out)
        }
        Part::ToolResult { name, output, is_error, interrupted, details, .. } => {
            let outcome = match (interrupted, is_error) {
                (true, _) => " (interrupted)",
                (false, true) => " (error)",
                (false, false) => "",
            };
            writeln!(out, "Result of **{name}**{outcome}:\n")?;
            if let Some(report) = SubagentReport::of(details) {
                fenced("", &report.to_string(), out)?;
            }
            fenced("", output, out)
        }
        // Thinking is the model's own; an unknown part has no form that we know.
        Part::Text { .. } | Part::Reasoning { .. } | Part::Unknown(_) => Ok(()),
    }
}

/// A code block that its content cannot close.
fn fenced(language: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    writeln!(out, "{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{Millis, Seq, Synthetic};
    use serde_json::json;

    #[test]
    fn markdown_holds_what_the_user_saw_in_plain_words() {
        let mut replay = Message::user("fix it");
        replay.metadata.compaction_continue = true;
        let answer = Message::assistant(vec![Part::text("Looking.")]);
        let call = EntryKind::Part {
            message: answer.id,
            part: Part::tool_call("c1", "read", json!({"path": "a.md"})),
        };
        let kinds = [
            EntryKind::Title { title: "Fix\nthe build".into() },
            EntryKind::Message { message: Message::user("fix it") },
            EntryKind::Message { message: Message::synthetic(Synthetic::Rules, "secret rules") },
            EntryKind::Message { message: answer },
            call,
            EntryKind::Message {
                message: Message::tool_result("c1".into(), "read", "```\ncode\n```\n", true),
            },
            EntryKind::Message { message: replay },
            EntryKind::Message { message: Message::synthetic(Synthetic::CompactionContinue, "continue") },
            EntryKind::Message { message: Message::assistant(vec![Part::text("Done.")]) },
        ];
        let mut transcript = Transcript::default();
        for (i, kind) in kinds.into_iter().enumerate() {
            transcript.take(&Entry { seq: Seq(i as u64 + 1), time: Millis(0), kind });
        }
        let mut out = Vec::new();
        transcript.write(&mut out).unwrap();
        let want = "# Fix the build\n\n## User\n\nfix it\n\n## Assistant\n\nLooking.\n\n**read**\n\n```json\n{\n  \
                    \"path\": \"a.md\"\n}\n```\n\nResult of **read** (error):\n\n````\n```\ncode\n```\n````\n\nDone.\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
