//! The events of a session in order, for an export: messages, compactions, prunes, notices. May be limited in
//! size.
//!
//! Processes entries and does not know the output format.

use super::{Transcript, is_shown};
use becket_types::{
    Compaction, Entry, EntryKind, Message, MessageId, Millis, Part, PruneReason, Role, Seq, SubagentReport,
    Usage,
};
use std::collections::{HashMap, HashSet};

/// One event of the conversation.
pub(super) enum Piece {
    Message { id: MessageId, time: Millis },
    Compaction { seq: Seq, time: Millis, compaction: Box<Compaction> },
    Prune { seq: Seq, time: Millis, calls: usize, freed: u64 },
    Notice { time: Millis, text: String },
}

/// A call, identified by its message and its index there, because call ids may repeat.
pub(super) type CallPlace = (MessageId, usize);

pub(super) struct Conversation {
    pub(super) transcript: Transcript,
    pub(super) pieces: Vec<Piece>,
    /// Subject of each call, by its id.
    pub(super) subjects: HashMap<String, String>,
    pub(super) first: Option<Entry>,
    pub(super) last_time: Millis,
    /// Total cost of all requests with reported usage, in US dollars.
    pub(super) cost: f64,
    pub(super) used: Usage,
    /// Entries that revert others: `(revert, target)`.
    reverts: Vec<(Seq, Seq)>,
    /// Number of bytes that may still be added: estimated sizes on a page ([`size`]).
    room: usize,
    /// Number of messages and parts that did not fit.
    pub(super) left_out: usize,
}

impl Default for Conversation {
    fn default() -> Self {
        Self::within(usize::MAX)
    }
}

impl Conversation {
    /// Makes a conversation of at most `room` bytes. The first piece that does not fit and everything after it are left out.
    pub(super) fn within(room: usize) -> Self {
        Self {
            transcript: Transcript::default(),
            pieces: Vec::new(),
            subjects: HashMap::new(),
            first: None,
            last_time: Millis(0),
            cost: 0.0,
            used: Usage::default(),
            reverts: Vec::new(),
            room,
            left_out: 0,
        }
    }

    /// Returns the number of bytes that may still be added.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    pub(super) fn take(&mut self, entry: &Entry) {
        self.last_time = self.last_time.max(entry.time);
        let (seq, time) = (entry.seq, entry.time);
        let fits = match &entry.kind {
            EntryKind::Message { message } if is_shown(message) => {
                self.fits(message.parts.iter().map(size).sum())
            }
            EntryKind::Part { part, .. } => self.fits(size(part)),
            EntryKind::Compaction(compaction) => self.fits(compaction.summary.len()),
            EntryKind::Notice { text, .. } => self.fits(text.len()),
            EntryKind::ToolJournal { subject: Some(_), .. } => self.room > 0,
            _ => true,
        };
        if !fits {
            return;
        }
        self.transcript.take(entry);
        match &entry.kind {
            EntryKind::Session { .. } => self.first = Some(entry.clone()),
            EntryKind::Message { message } if is_shown(message) => {
                self.pieces.push(Piece::Message { id: message.id, time });
            }
            EntryKind::Compaction(compaction) => {
                let compaction = compaction.clone();
                self.pieces.push(Piece::Compaction { seq, time, compaction });
            }
            EntryKind::Revert { entry: target } => self.reverts.push((seq, *target)),
            // Cuts at the end of a step are reported by a notice.
            EntryKind::Prune { reason: PruneReason::StepLimit, .. } => {}
            EntryKind::Prune { calls, freed_tokens, .. } => {
                self.pieces.push(Piece::Prune { seq, time, calls: calls.len(), freed: freed_tokens.0 });
            }
            EntryKind::Notice { text, .. } => self.pieces.push(Piece::Notice { time, text: text.clone() }),
            EntryKind::Usage { usage, cost_usd, .. } => {
                self.cost += cost_usd;
                self.used += *usage;
            }
            EntryKind::ToolJournal { call_id, subject: Some(subject), .. } => {
                self.subjects.insert(call_id.0.clone(), subject.clone());
            }
            _ => {}
        }
    }

    /// Adds a notice about a record that could not be read.
    pub(super) fn unreadable(&mut self, text: &str) {
        if !self.fits(text.len() + LITTLE) {
            return;
        }
        self.transcript.unreadable.push(text.to_owned());
        self.pieces.push(Piece::Notice { time: self.last_time, text: format!("unreadable record: {text}") });
    }

    fn fits(&mut self, bytes: usize) -> bool {
        // Once a piece was left out, everything after it is left out too, so that the conversation has only one gap.
        if self.left_out > 0 || bytes > self.room {
            self.left_out += 1;
            self.room = 0;
            return false;
        }
        self.room -= bytes;
        true
    }

    /// Returns the entries that are cancelled: reverted or dropped manually, and not brought back by a later revert.
    pub(super) fn taken_out(&self) -> HashSet<Seq> {
        let mut out = HashSet::new();
        for (at, target) in self.reverts.iter().rev() {
            if !out.contains(at) {
                out.insert(*target);
            }
        }
        out
    }

    /// Returns the number of messages of people and models.
    pub(super) fn said(&self) -> usize {
        self.transcript.messages.iter().filter(|m| m.role != Role::Tool).count()
    }

    /// Returns the message with the first result of each call.
    pub(super) fn results(&self) -> HashMap<CallPlace, &Message> {
        let (mut calls, mut results) = (HashMap::new(), HashMap::new());
        for message in &self.transcript.messages {
            if let Some(id) = message.result_of() {
                if let Some(place) = calls.get(id) {
                    results.entry(*place).or_insert(message);
                }
                continue;
            }
            for (at, part) in message.parts.iter().enumerate() {
                if let Part::ToolCall { call_id, .. } = part {
                    calls.insert(call_id, (message.id, at));
                }
            }
        }
        results
    }
}

/// Returns a result's report about a subagent.
pub(super) fn report(result: &Message) -> Option<SubagentReport> {
    result.parts.iter().find_map(|part| match part {
        Part::ToolResult { details, .. } => SubagentReport::from_details(details),
        _ => None,
    })
}

/// Assumed size in bytes of the markup around a text.
const LITTLE: usize = 64;

/// Estimates how many bytes a part takes on a page.
fn size(part: &Part) -> usize {
    LITTLE
        + match part {
            Part::Text { text, .. } | Part::Reasoning { text, .. } => text.len(),
            Part::ToolCall { input, invalid, .. } => {
                invalid.as_ref().map_or_else(|| input.to_string().len(), String::len)
            }
            Part::ToolResult { output, .. } => output.len(),
            Part::Image { .. } | Part::File { .. } | Part::Unknown(_) => 0,
        }
}
