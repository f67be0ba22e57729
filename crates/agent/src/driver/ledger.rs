//! The ledger and the channel to the front ends, to which all other parts of the driver write.
//!
//! Model: entries are added to a pending commit, and `flush` writes them together. Events about the commit are sent after
//! it is written. Nothing here knows of requests or tools.

use super::transcript::Transcript;
use crate::host::lock;
use becket_session::context::budget::Appended;
use becket_session::{Durability, Session, StoreError};
use becket_types::{Blobs, EntryKind, Event, Message, NoticeLevel, Seq, Synthetic};
use serde_json::Map;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// The ledger and the channel to the front ends.
pub(crate) struct Core {
    pub(crate) session: Arc<Mutex<Session>>,
    /// For a subagent: the sessions that it works for.
    above: Vec<Arc<Mutex<Session>>>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(super) events: mpsc::UnboundedSender<Event>,
    /// The copy of the conversation that hooks read; `None` without hooks.
    pub(super) transcript: Option<Transcript>,
    /// Entries of the pending commit.
    pub(super) pending: Vec<EntryKind>,
    /// Events about that commit; they are sent when it is written.
    pub(super) announce: Vec<Event>,
    /// Messages that were written since the provider's last report.
    pub(super) appended: Appended,
    /// The reason if an entry could not be written. The turn cannot continue then.
    pub(crate) failed: Option<String>,
    /// The last such reason that was reported to the user.
    pub(super) reported_failure: Option<String>,
    /// True once the first entries (system prompt, tools, model) are in the ledger.
    pub(super) begun: bool,
    /// True once this process has written what its first turn needs.
    pub(super) resumed: bool,
}

impl Core {
    pub(super) fn new(
        session: Arc<Mutex<Session>>,
        above: Vec<Arc<Mutex<Session>>>,
        blobs: Arc<dyn Blobs>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        Self {
            session,
            above,
            blobs,
            events,
            transcript: None,
            pending: Vec::new(),
            announce: Vec::new(),
            appended: Appended::default(),
            failed: None,
            reported_failure: None,
            begun: false,
            resumed: false,
        }
    }

    pub(crate) fn emit(&self, event: Event) {
        if let Some(transcript) = &self.transcript {
            transcript.saw(&event);
        }
        // If the front end has disconnected, the event is dropped. The front end can catch up from the ledger.
        let _ = self.events.send(event);
    }

    pub(crate) fn emit_notice(&self, level: NoticeLevel, text: String) {
        self.emit(Event::Notice { level, text });
    }

    /// Answers a command for which there is nothing to do: to people by a notice, to programs by an event of its own.
    pub(crate) fn nothing_to_do(&self, reason: String) {
        self.emit_notice(NoticeLevel::Info, reason.clone());
        self.emit(Event::NothingToDo { reason });
    }

    /// Adds an entry to the pending commit.
    pub(crate) fn push(&mut self, entry: EntryKind) {
        self.pending.push(entry);
    }

    /// Writes the pending commit. Returns the sequence numbers of its entries.
    pub(crate) fn flush(&mut self, durability: Durability) -> Vec<Seq> {
        let mut seqs = Vec::new();
        if !self.pending.is_empty() {
            let entries = std::mem::take(&mut self.pending);
            for entry in &entries {
                if let EntryKind::Message { message } = entry {
                    self.appended.add(message);
                }
            }
            let appended = lock(&self.session).append(entries, durability);
            seqs = appended.unwrap_or_else(|error| {
                self.refused(&error);
                Vec::new()
            });
        }
        for event in std::mem::take(&mut self.announce) {
            self.emit(event);
        }
        seqs
    }

    /// Notes that a commit was refused. The turn cannot continue.
    fn refused(&mut self, error: &StoreError) {
        let text = format!("The session could not be written: {error}");
        // Several commits of a turn fail for one reason, and the end of the turn names it, too.
        if self.reported_failure.as_ref() != Some(&text) {
            self.emit_notice(NoticeLevel::Error, text.clone());
            self.reported_failure = Some(text.clone());
        }
        self.failed = Some(text);
    }

    /// The sessions for which this agent acts: those above a subagent, and its own.
    pub(super) fn lineage(&self) -> impl Iterator<Item = &Arc<Mutex<Session>>> {
        self.above.iter().chain([&self.session])
    }

    /// True if this process may act for its session: the last commit was accepted, and no other process has taken the session
    /// over, or one that this agent works for. Asked before each call and each request, because what they do could not be
    /// recorded.
    pub(super) fn may_act(&mut self) -> bool {
        let lost = self.lineage().find_map(|session| lock(session).check_held().err());
        if let Some(error) = lost {
            self.refused(&error);
        }
        self.failed.is_none()
    }

    /// The sequence number that the next added entry will get.
    pub(crate) fn next_seq(&self) -> Seq {
        Seq(lock(&self.session).last_seq().0 + self.pending.len() as u64 + 1)
    }

    /// Adds an event about the pending commit.
    pub(crate) fn announce(&mut self, event: Event) {
        self.announce.push(event);
    }

    /// Adds these entries to the pending commit and writes it. Returns their sequence numbers.
    pub(crate) fn append(&mut self, entries: Vec<EntryKind>, durability: Durability) -> Vec<Seq> {
        let count = entries.len();
        self.pending.extend(entries);
        let mut seqs = self.flush(durability);
        seqs.split_off(seqs.len().saturating_sub(count))
    }

    /// Sends a notice to the user and records it in the ledger.
    pub(crate) fn notice(&mut self, level: NoticeLevel, text: String) {
        self.push(EntryKind::Notice { text: text.clone(), extra: Map::new() });
        self.emit_notice(level, text);
    }

    /// Sends the notices that storage and view have collected.
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
