//! What happened in a session, in order, for an export: messages, compactions, prunes, notices. Perhaps only as much as there is room for.
//!
//! Takes entries, knows no form that they are written in.

use super::{Transcript, is_shown};
use becket_types::{
    Compaction, Entry, EntryKind, Message, MessageId, Millis, Part, PruneReason, Role, Seq, SubagentReport,
    Usage,
};
use std::collections::{HashMap, HashSet};

/// What happens, in order.
pub(super) enum Piece {
    Message { id: MessageId, time: Millis },
    Compaction { seq: Seq, time: Millis, compaction: Box<Compaction> },
    Prune { seq: Seq, time: Millis, calls: usize, freed: u64 },
    Notice { time: Millis, text: String },
}

/// A call, by its message and its place there: ids of calls may come again.
pub(super) type CallPlace = (MessageId, usize);

pub(super) struct Conversation {
    pub(super) transcript: Transcript,
    pub(super) pieces: Vec<Piece>,
    /// What each call is about, by its id.
    pub(super) subjects: HashMap<String, String>,
    pub(super) first: Option<Entry>,
    pub(super) last_time: Millis,
    /// Of all requests that were reported on.
    pub(super) cost: f64,
    pub(super) used: Usage,
    /// Entries that take others back, and which.
    reverts: Vec<(Seq, Seq)>,
    /// Bytes of text that it may still take.
    room: usize,
    /// Messages and parts of messages for which there was no room.
    pub(super) left_out: usize,
}

impl Default for Conversation {
    fn default() -> Self {
        Self::within(usize::MAX)
    }
}

impl Conversation {
    /// One that leaves out what comes when it holds so many bytes.
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

    /// Bytes that are left of its room.
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
            // A notice tells of a step that was shown in part.
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

    /// A record that could not be read.
    pub(super) fn unreadable(&mut self, text: &str) {
        if !self.fits(text.len() + LITTLE) {
            return;
        }
        self.transcript.unreadable.push(text.to_owned());
        self.pieces.push(Piece::Notice { time: self.last_time, text: format!("unreadable record: {text}") });
    }

    fn fits(&mut self, bytes: usize) -> bool {
        // What comes behind something that was left out is left out as well: a conversation breaks off once.
        if self.left_out > 0 || bytes > self.room {
            self.left_out += 1;
            self.room = 0;
            return false;
        }
        self.room -= bytes;
        true
    }

    /// Entries that count no more: they were taken back, or left out by hand, and that was not taken back itself.
    pub(super) fn taken_out(&self) -> HashSet<Seq> {
        let mut out = HashSet::new();
        for (at, target) in self.reverts.iter().rev() {
            if !out.contains(at) {
                out.insert(*target);
            }
        }
        out
    }

    /// Messages of people and models.
    pub(super) fn said(&self) -> usize {
        self.transcript.messages.iter().filter(|m| m.role != Role::Tool).count()
    }

    /// The message with the result of each call.
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

/// What the tool says of a subagent in a result.
pub(super) fn report(result: &Message) -> Option<SubagentReport> {
    result.parts.iter().find_map(|part| match part {
        Part::ToolResult { details, .. } => SubagentReport::of(details),
        _ => None,
    })
}

/// What anything takes beside its words.
const LITTLE: usize = 64;

/// About how many bytes a part takes on a page.
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
