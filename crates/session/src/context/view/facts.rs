//! Facts that follow from a ledger beside the messages themselves: whose turn it is, which calls ran, under which id a
//! call is shown.

use super::super::repair;
use super::{JournalLine, Place, Slot};
use becket_types::{CallId, JournalState, Message, Role, Seq, TurnState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Where the result of a call is, among the messages that the view shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The call itself is not shown.
    #[default]
    NotAsked,
    Open,
    At(Place),
}

/// What is kept of a call for ever, also when its texts have left memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct CallRecord {
    /// The id in the ledger, where it is shown under another one.
    original: Option<CallId>,
    /// The message that calls.
    pub(super) at: Seq,
    /// The message that holds its first result.
    pub(super) result: Option<Seq>,
    pub(super) answer: Answer,
    /// Its line in the journal.
    line: Option<usize>,
}

/// Every call of the session under the id that it is shown with: unique, and fit for every provider. One map on purpose: a
/// step touches one place of it for each call, however long the session is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Calls {
    known: HashMap<CallId, CallRecord>,
    /// Ledger ids that are shown otherwise, or were used more than once: the newest shown id, and how often.
    aliases: HashMap<CallId, (CallId, u32)>,
    pub(super) journal: Vec<JournalLine>,
    /// Lines of calls that no message holds.
    strays: HashMap<CallId, usize>,
}

impl Calls {
    /// Takes in a call of the message at `at`. Returns the id to show when it is another one.
    pub(super) fn register(&mut self, id: &CallId, at: Seq) -> Option<CallId> {
        let safe = repair::safe_id(id.as_str());
        let mut count = self.aliases.get(id).map_or(1, |(_, n)| *n);
        let mut shown = CallId(safe.clone().into_owned());
        loop {
            let renamed = (shown != *id).then(|| shown.clone());
            match self.known.entry(shown) {
                Entry::Occupied(_) => {
                    count += 1;
                    shown = CallId(repair::numbered_id(&safe, count));
                }
                Entry::Vacant(free) => {
                    let original = renamed.is_some().then(|| id.clone());
                    free.insert(CallRecord { original, at, ..CallRecord::default() });
                    if let Some(shown) = &renamed {
                        self.aliases.insert(id.clone(), (shown.clone(), count));
                    }
                    return renamed;
                }
            }
        }
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
        if let Some(record) = self.known.get_mut(shown) {
            record.result.get_or_insert(at);
        }
    }

    pub(super) fn answer(&self, shown: &CallId) -> Answer {
        self.known.get(shown).map_or(Answer::NotAsked, |r| r.answer)
    }

    /// A shown message calls.
    pub(super) fn ask(&mut self, shown: &CallId) {
        if let Some(CallRecord { answer: answer @ Answer::NotAsked, .. }) = self.known.get_mut(shown) {
            *answer = Answer::Open;
        }
    }

    /// A shown message answers. Whether the call was open.
    pub(super) fn reply(&mut self, shown: &CallId, place: Place) -> bool {
        match self.known.get_mut(shown) {
            Some(CallRecord { answer: answer @ Answer::Open, .. }) => {
                *answer = Answer::At(place);
                true
            }
            _ => false,
        }
    }

    /// Messages have moved; `places` has the new place of each old one. What has no place any more was not shown.
    pub(super) fn moved(&mut self, places: &[usize]) {
        for record in self.known.values_mut() {
            if let Answer::At((at, _)) = &mut record.answer {
                *at = places[*at];
            }
        }
    }

    /// Whether all that it points at is there.
    pub(super) fn is_consistent(&self, is_result: impl Fn(Place) -> bool) -> bool {
        let lines = self.journal.len();
        self.known.values().all(|record| {
            record.line.is_none_or(|line| line < lines)
                && if let Answer::At(place) = record.answer { is_result(place) } else { true }
        }) && self.strays.values().all(|line| *line < lines)
    }

    /// Nothing is shown.
    pub(super) fn clear_answers(&mut self) {
        for record in self.known.values_mut() {
            record.answer = Answer::NotAsked;
        }
    }

    /// Writes to the journal line of the newest call with this ledger id.
    pub(super) fn note(
        &mut self,
        seq: Seq,
        id: &CallId,
        state: JournalState,
        tool: Option<&String>,
        subject: Option<&String>,
        result: &Value,
    ) {
        let shown = self.shown(id).clone();
        let known = self.known.get_mut(&shown).map(|record| &mut record.line);
        let at = known.as_ref().and_then(|line| **line).or_else(|| self.strays.get(&shown).copied());
        let at = at.unwrap_or_else(|| {
            let at = self.journal.len();
            if let Some(line) = known {
                *line = Some(at);
            } else {
                self.strays.insert(shown.clone(), at);
            }
            self.journal.push(JournalLine {
                call_id: shown,
                tool: String::new(),
                subject: None,
                result: Value::Null,
                state,
                seq,
            });
            at
        });
        let line = &mut self.journal[at];
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

    /// How far the newest call with this ledger id got. One that has a result has finished.
    pub(super) fn state(&self, id: &CallId) -> Option<JournalState> {
        let shown = self.shown(id);
        let record = self.known.get(shown);
        if record.is_some_and(|r| r.result.is_some()) {
            return Some(JournalState::Finished);
        }
        let line = record.and_then(|r| r.line).or_else(|| self.strays.get(shown).copied())?;
        Some(self.journal[line].state)
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) newest: Words,
    /// Newest assistant message ever, also one that was reverted since: it was made from all messages before it.
    pub(super) shown_up_to: Seq,
    pub(super) ended: Option<(Seq, TurnState)>,
    pub(super) last_end: Seq,
    pub(super) interrupted: bool,
}

/// The newest messages of each sort among some.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Words {
    /// Newest message with the user's own words, and whether it holds media.
    user: Option<(Seq, bool)>,
    /// Newest message of role user, whoever wrote it.
    input: Option<Seq>,
    /// Newest assistant message.
    pub(super) assistant: Option<Seq>,
    /// Newest assistant message that is finished.
    pub(super) finished: Option<Seq>,
}

impl Words {
    pub(super) fn see(&mut self, message: &Message, seq: Seq, finished: bool) {
        match message.role {
            Role::Assistant => self.assistant = self.assistant.max(Some(seq)),
            Role::User => {
                self.input = self.input.max(Some(seq));
                if super::super::continuation::is_users_words(message) {
                    self.user = self.user.max(Some((seq, message.has_media())));
                }
            }
            Role::System | Role::Tool => {}
        }
        if finished {
            self.finished = self.finished.max(Some(seq));
        }
    }
}

impl Turn {
    pub(super) fn message(&mut self, message: &Message, seq: Seq) {
        self.ended = None;
        self.interrupted = false;
        self.newest.see(message, seq, false);
        if message.role == Role::Assistant {
            self.shown_up_to = seq;
        }
    }

    /// After a revert: what is left of the messages in memory, and of those that have left it.
    pub(super) fn rescan<'a>(&mut self, left: &Words, slots: impl Iterator<Item = &'a Slot>) {
        self.newest = left.clone();
        for slot in slots {
            self.newest.see(&slot.message, slot.seq, slot.finish.is_some());
        }
    }

    /// `answer` says of the newest assistant message whether it ends a turn: finished for good and without calls.
    pub(super) fn state(&self, answer: impl FnOnce(Seq) -> bool) -> TurnState {
        if let Some((_, state)) = self.ended {
            return state;
        }
        if self.interrupted || (self.newest.input.is_none() && self.newest.assistant.is_none()) {
            return TurnState::AwaitingUser;
        }
        if self.newest.assistant > self.newest.input && self.newest.assistant.is_some_and(answer) {
            return TurnState::AwaitingUser;
        }
        match self.newest.user {
            Some((_, true)) => TurnState::Media,
            Some((at, false)) if self.newest.assistant < Some(at) => TurnState::Unanswered,
            _ => TurnState::MidTurn,
        }
    }
}
