//! Facts that follow from a ledger beside the messages themselves: whose turn it is, which calls ran, under which id a
//! call is shown.

use super::super::repair;
use super::{JournalLine, Slot};
use becket_types::{CallId, JournalState, Message, Role, Seq, TurnState};
use serde_json::Value;
use std::collections::HashMap;

/// What is kept of a call for ever, also when its texts have left memory.
#[derive(Debug)]
pub(super) struct CallRecord {
    /// The id in the ledger, where it is shown under another one.
    original: Option<CallId>,
    /// The message that calls.
    pub(super) at: Seq,
    pub(super) result: Option<Seq>,
}

/// Every call of the session under the id that it is shown with: unique, and fit for every provider.
#[derive(Debug, Default)]
pub(super) struct Calls {
    known: HashMap<CallId, CallRecord>,
    /// Ledger ids that are shown otherwise, or were used more than once: the newest shown id, and how often.
    aliases: HashMap<CallId, (CallId, u32)>,
}

impl Calls {
    /// Takes in a call of the message at `at`. Returns the id to show when it is another one.
    pub(super) fn register(&mut self, id: &CallId, at: Seq) -> Option<CallId> {
        let safe = repair::safe_id(id.as_str());
        let mut count = self.aliases.get(id).map_or(1, |(_, n)| *n);
        let mut shown = CallId(safe.clone().into_owned());
        while self.known.contains_key(&shown) {
            count += 1;
            shown = CallId(repair::numbered_id(&safe, count));
        }
        let renamed = shown != *id;
        let original = renamed.then(|| id.clone());
        if renamed {
            self.aliases.insert(id.clone(), (shown.clone(), count));
        }
        let record = CallRecord { original, at, result: None };
        self.known.insert(shown.clone(), record);
        renamed.then_some(shown)
    }

    /// The id under which the newest call with this ledger id is shown.
    pub(super) fn shown<'a>(&'a self, id: &'a CallId) -> &'a CallId {
        self.aliases.get(id).map_or(id, |(shown, _)| shown)
    }

    /// The ledger's id of a shown one.
    pub(super) fn original<'a>(&'a self, shown: &'a CallId) -> &'a CallId {
        self.known.get(shown).and_then(|r| r.original.as_ref()).unwrap_or(shown)
    }

    pub(super) fn get(&self, shown: &CallId) -> Option<&CallRecord> {
        self.known.get(shown)
    }

    /// By shown id first, then by the ledger's.
    pub(super) fn find(&self, id: &CallId) -> Option<(&CallId, &CallRecord)> {
        self.known.get_key_value(id).or_else(|| self.known.get_key_value(self.shown(id)))
    }

    pub(super) fn answered(&mut self, shown: &CallId, at: Seq) {
        if let Some(record) = self.known.get_mut(shown)
            && record.result.is_none()
        {
            record.result = Some(at);
        }
    }
}

/// The journal: every call id runs at most once ever.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) lines: Vec<JournalLine>,
    index: HashMap<CallId, usize>,
}

impl Journal {
    pub(super) fn note(
        &mut self,
        seq: Seq,
        id: &CallId,
        state: JournalState,
        tool: Option<&String>,
        subject: Option<&String>,
        result: &Value,
    ) {
        let at = *self.index.entry(id.clone()).or_insert_with(|| {
            self.lines.push(JournalLine {
                call_id: id.clone(),
                tool: String::new(),
                subject: None,
                result: Value::Null,
                state,
                seq,
            });
            self.lines.len() - 1
        });
        let line = &mut self.lines[at];
        // A state never goes back: what has finished stays finished.
        if rank(state) >= rank(line.state) {
            line.state = state;
        }
        if let Some(tool) = tool {
            line.tool.clone_from(tool);
        }
        if subject.is_some() {
            line.subject = subject.cloned();
        }
        if !result.is_null() {
            line.result.clone_from(result);
        }
    }

    pub(super) fn state(&self, id: &CallId) -> Option<JournalState> {
        self.index.get(id).map(|at| self.lines[*at].state)
    }
}

fn rank(state: JournalState) -> u8 {
    match state {
        JournalState::Intended => 0,
        JournalState::Started => 1,
        JournalState::Finished => 2,
    }
}

/// Whose turn it is. Kept up to date entry by entry; looked at again from the start only when a message was reverted.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Newest message with the user's own words, and whether it holds media.
    user: Option<(Seq, bool)>,
    /// Newest message of role user, whoever wrote it.
    input: Option<Seq>,
    /// Newest assistant message.
    pub(super) assistant: Option<Seq>,
    /// Newest assistant message that is finished.
    pub(super) finished: Option<Seq>,
    /// Newest assistant message ever, also one that was reverted since: it was made from all messages before it.
    pub(super) shown_up_to: Seq,
    pub(super) ended: Option<(Seq, TurnState)>,
    pub(super) last_end: Seq,
    pub(super) interrupted: bool,
}

impl Turn {
    pub(super) fn message(&mut self, message: &Message, seq: Seq) {
        self.ended = None;
        self.interrupted = false;
        self.see(message, seq);
        if message.role == Role::Assistant {
            self.shown_up_to = seq;
        }
    }

    fn see(&mut self, message: &Message, seq: Seq) {
        match message.role {
            Role::Assistant => self.assistant = Some(seq),
            Role::User => {
                self.input = Some(seq);
                if super::super::continuation::is_users_words(message) {
                    self.user = Some((seq, message.has_media()));
                }
            }
            Role::System | Role::Tool => {}
        }
    }

    /// After a revert: what is left of the messages in memory.
    pub(super) fn rescan<'a>(&mut self, slots: impl Iterator<Item = &'a Slot>) {
        (self.user, self.input, self.assistant, self.finished) = (None, None, None, None);
        for slot in slots {
            self.see(&slot.message, slot.seq);
            if slot.finish.is_some() {
                self.finished = Some(slot.seq);
            }
        }
    }

    /// `answer` says of the newest assistant message whether it ends a turn: finished for good and without calls.
    pub(super) fn state(&self, answer: impl FnOnce(Seq) -> bool) -> TurnState {
        if let Some((_, state)) = self.ended {
            return state;
        }
        if self.interrupted || (self.input.is_none() && self.assistant.is_none()) {
            return TurnState::AwaitingUser;
        }
        if self.assistant > self.input && self.assistant.is_some_and(answer) {
            return TurnState::AwaitingUser;
        }
        match self.user {
            Some((_, true)) => TurnState::Media,
            Some((at, false)) if self.assistant < Some(at) => TurnState::Unanswered,
            _ => TurnState::MidTurn,
        }
    }
}
