//! Export of a session for people and for other programs: Markdown, an HTML page, or the ledger's own lines.
//!
//! Markdown and HTML contain what people saw, with the conversations of subagents below their calls. They contain nothing that becket wrote
//! for the model (continuations, reminders, rules). JSONL is the ledger, including damaged lines and without subagents: a copy for becket
//! itself. In all formats, secrets are masked and invisible characters are replaced by their escapes. JSONL can keep both
//! ([`Secrets::Keep`]); it is then the ledger byte for byte.
//!
//! Reads entries, changes nothing.

use becket_session::blobs::BlobStore;
use becket_session::masked_lines::write_masked;
use becket_session::secrets::mask;
use becket_session::store::{Disk, StoreError, ledger_path};
use becket_types::invisible::show_hidden;
use becket_types::{Entry, EntryKind, Message, MessageId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

mod blob_lines;
mod conversation;
mod html;
mod markdown;
mod provenance;
mod subagents;

pub(crate) use blob_lines::{BLOB, BlobLine};
pub use html::Page;
pub(crate) use markdown::Markdown;

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The lines of the ledger, one for each commit. Unchanged if secrets are kept.
    Jsonl,
    /// The conversation that the user saw, as Markdown.
    Markdown,
    /// The lines of the ledger as in `Jsonl`, followed by all blobs, one per line.
    Whole,
    /// A single HTML page without external files.
    Html,
}

/// The treatment of secrets in `Jsonl` and `Whole`. In a stored session's Markdown and HTML they are always masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secrets {
    #[default]
    Mask,
    Keep,
}

/// Writes a stored session. Returns the number of masked secrets. Works while another process has the session
/// open.
///
/// # Errors
///
/// Returns [`StoreError::NotFound`], [`StoreError::Io`] if the session cannot be read, or [`StoreError::Target`] if
/// `out` fails.
pub fn export(
    session_dir: &Path,
    format: Format,
    secrets: Secrets,
    out: &mut dyn Write,
) -> Result<usize, StoreError> {
    let mut target = Target { out, failed: false };
    let written = write_to(session_dir, format, secrets, &mut target);
    written.map_err(|error| match error {
        StoreError::Io { source, .. } if target.failed => StoreError::Target(source),
        other => other,
    })
}

/// A writer that remembers that it failed. So an error message can name the target of the export and not the session.
struct Target<'a> {
    out: &'a mut dyn Write,
    failed: bool,
}

impl Write for Target<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).inspect_err(|_| self.failed = true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().inspect_err(|_| self.failed = true)
    }
}

fn write_to(
    session_dir: &Path,
    format: Format,
    secrets: Secrets,
    out: &mut dyn Write,
) -> Result<usize, StoreError> {
    Ok(match format {
        Format::Jsonl | Format::Whole => {
            let path = ledger_path(session_dir);
            let file = File::open(&path).map_err(|e| match e.kind() {
                io::ErrorKind::NotFound => StoreError::NotFound { query: session_dir.display().to_string() },
                _ => StoreError::io("read", &path)(e),
            })?;
            let failed = || StoreError::io("export", &path);
            let mut ledger = BufReader::new(file);
            let mut masked = match secrets {
                Secrets::Keep => io::copy(&mut ledger, out).map(|_| 0),
                Secrets::Mask => write_masked(ledger, out),
            }
            .map_err(failed())?;
            if format == Format::Whole {
                let left_out = secrets == Secrets::Mask;
                masked += blob_lines::write_blobs(session_dir, left_out, out).map_err(failed())?;
            }
            masked
        }
        Format::Html => {
            let mut page = Page::default();
            for entry in becket_session::store::read_entries(session_dir)? {
                match entry.map_err(StoreError::io("read", session_dir))? {
                    Ok(entry) => page.take(&entry),
                    Err(bad) => page.unreadable(&bad.to_string()),
                }
            }
            page.find_subagents(session_dir);
            let blobs = BlobStore::in_memory(Arc::new(Disk), Some(session_dir));
            page.write(&blobs, out).map_err(StoreError::io("export", session_dir))?
        }
        Format::Markdown => {
            let mut text = Markdown::default();
            for entry in becket_session::store::read_entries(session_dir)? {
                match entry.map_err(StoreError::io("read", session_dir))? {
                    Ok(entry) => text.take(&entry),
                    Err(bad) => text.unreadable(&bad.to_string()),
                }
            }
            text.find_subagents(session_dir);
            let mut whole = Vec::new();
            let failed = StoreError::io("export", session_dir);
            let blobs = BlobStore::in_memory(Arc::new(Disk), Some(session_dir));
            let written = text.write(&blobs, &mut whole).and_then(|()| {
                let (masked, count) = mask(&String::from_utf8_lossy(&whole));
                out.write_all(without_hidden(&masked).as_bytes()).map(|()| count)
            });
            written.map_err(failed)?
        }
    })
}

/// Replaces by escapes all characters that nobody would see, that a terminal would obey, or that change the direction of the text around
/// them. Markdown may be shown in a terminal, for example with `cat`.
fn without_hidden(text: &str) -> Cow<'_, str> {
    show_hidden(text, is_hidden_in_export, |out, c| out.extend(c.escape_unicode()))
}

/// True for characters that exports for people replace by escapes, in addition to those that are hidden everywhere: further controls, and
/// separators that some programs take for the end of a line.
fn is_hidden_in_export(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
#[test]
fn markdown_turns_no_text_around() {
    let text = without_hidden("a\u{1b}[31m \u{202e}txt\u{2069}\n\té\u{2028}\u{200b} 👩\u{200d}💻");
    assert_eq!(text, "a\\u{1b}[31m \\u{202e}txt\\u{2069}\n\té\\u{2028}\\u{200b} 👩\u{200d}💻");
}

/// The messages of a session, assembled from its entries including streamed parts.
#[derive(Debug, Default)]
pub struct Transcript {
    title: Option<String>,
    messages: Vec<Message>,
    /// Index of each answer whose `finish` entry has not come yet.
    places: HashMap<MessageId, usize>,
    unreadable: Vec<String>,
}

impl Transcript {
    /// Adds an entry. Entries come in the order of the ledger; those that change no message or title have no effect.
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

    /// Returns the messages that people see, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }
}

/// True if people see the message. Exports hide the same messages as the TUI and `--print`.
fn is_shown(message: &Message) -> bool {
    message.visibility().user
}
