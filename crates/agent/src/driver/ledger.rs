//! The ledger and the way to the front ends: what every other part of the driver writes to.
//!
//! Model: entries are pushed to the commit that is being put together, and written as one by `flush`; events about that
//! commit wait for it. Nothing here knows of requests or tools.

use crate::host::lock;
use becket_session::{Durability, Session};
use becket_types::{Blobs, EntryKind, Event, Message, NoticeLevel, Seq, Synthetic};
use serde_json::Map;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// The ledger and the way to the front ends.
pub(crate) struct Core {
    pub(crate) session: Arc<Mutex<Session>>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(super) events: mpsc::UnboundedSender<Event>,
    /// Entries of the commit that is being put together.
    pub(super) pending: Vec<EntryKind>,
    /// Events that say what is in that commit: they go out when it is written.
    pub(super) announce: Vec<Event>,
    /// An entry could not be written at all; the turn cannot go on.
    pub(crate) failed: Option<String>,
}

impl Core {
    pub(crate) fn emit(&self, event: Event) {
        // A front end that is gone catches up from the ledger.
        let _ = self.events.send(event);
    }

    pub(crate) fn say(&self, level: NoticeLevel, text: String) {
        self.emit(Event::Notice { level, text });
    }

    /// Adds to the commit that is being put together.
    pub(crate) fn push(&mut self, entry: EntryKind) {
        self.pending.push(entry);
    }

    /// Writes the commit that was put together. The sequence numbers of its entries.
    pub(crate) fn flush(&mut self, durability: Durability) -> Vec<Seq> {
        let mut seqs = Vec::new();
        if !self.pending.is_empty() {
            let entries = std::mem::take(&mut self.pending);
            let appended = lock(&self.session).append(entries, durability);
            seqs = appended.unwrap_or_else(|error| {
                let text = format!("The session could not be written: {error}");
                self.say(NoticeLevel::Error, text.clone());
                self.failed = Some(text);
                Vec::new()
            });
        }
        for event in std::mem::take(&mut self.announce) {
            self.emit(event);
        }
        seqs
    }

    /// The number that the next entry pushed will have.
    pub(crate) fn next_seq(&self) -> Seq {
        Seq(lock(&self.session).last_seq().0 + self.pending.len() as u64 + 1)
    }

    /// An event about the commit that is being put together.
    pub(crate) fn announce(&mut self, event: Event) {
        self.announce.push(event);
    }

    /// Appends these entries as the end of the commit under way; their sequence numbers.
    pub(crate) fn append(&mut self, entries: Vec<EntryKind>, durability: Durability) -> Vec<Seq> {
        let count = entries.len();
        self.pending.extend(entries);
        let mut seqs = self.flush(durability);
        seqs.split_off(seqs.len().saturating_sub(count))
    }

    /// Tells people, and the ledger, what they must know.
    pub(crate) fn notice(&mut self, level: NoticeLevel, text: String) {
        self.push(EntryKind::Notice { text: text.clone(), extra: Map::new() });
        self.say(level, text);
    }

    /// What storage and view have to say.
    pub(crate) fn tell_notices(&mut self) {
        let notices = lock(&self.session).take_notices();
        for text in notices {
            self.notice(NoticeLevel::Warning, text);
        }
    }

    /// A message of becket's own for the model.
    pub(crate) fn synthetic(&mut self, kind: Synthetic, text: String, extra: Map<String, serde_json::Value>) {
        let mut message = Message::synthetic(kind, text);
        message.metadata.extra = extra;
        let seqs = self.append(vec![EntryKind::Message { message: message.clone() }], Durability::Buffered);
        message.seq = seqs.first().copied().unwrap_or_default();
        self.emit(Event::SyntheticMessage { message });
    }
}
