//! The calls of a session: the id under which each is shown, its state, and the position of its result.
//!
//! The record of a call is kept for the whole session, so it is small: a name, a few numbers, a line of the
//! journal. Positions of results are kept only for calls that are shown.

use super::super::repair;
use super::journal::{Journal, Line};
use super::names::Names;
use becket_types::{CallId, JournalState, Message, Part, Seq};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Position of a call's result: index of the message in the log, and index of the part.
pub(super) type ResultPosition = (usize, usize);

/// The result of a call, as far as the view shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The call itself is not shown.
    #[default]
    NotAsked,
    Open,
    At(ResultPosition),
}

/// The permanent record of a call. It stays when the messages of the call have left memory.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CallRecord {
    /// The entry of the message with the call.
    pub(super) at: Seq,
    /// The entry of the message with its first result.
    pub(super) result: Option<Seq>,
    /// Number of its line in the journal.
    line: Option<u32>,
}

/// Every call of the session by the id under which it is shown. Shown ids are unique and valid for every
/// provider.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Calls {
    /// Shown ids; `known` has the record of each, by number.
    ids: Names,
    known: Vec<CallRecord>,
    /// Ledger ids of calls that are shown under another id, by number.
    originals: HashMap<usize, CallId>,
    /// Results of the calls that are shown.
    answers: Answers,
    /// Ledger ids that are shown differently or were used more than once: the newest shown id, and the number
    /// of uses.
    aliases: HashMap<CallId, (CallId, u32)>,
    /// The journal of all calls. Checkpoints and snapshots share it and only read it, because it grows for the whole session and is too
    /// long to copy.
    pub(super) journal: Arc<Journal>,
    /// Number of the journal line of each call that no message contains.
    strays: HashMap<CallId, u32>,
}

impl Calls {
    /// Registers a call of the message at `at`. Returns the id to show if it differs.
    pub(super) fn register(&mut self, id: &CallId, at: Seq) -> Option<CallId> {
        let safe = repair::safe_id(id.as_str());
        let mut count = self.aliases.get(id).map_or(1, |(_, n)| *n);
        let mut shown = safe.clone();
        while !self.ids.add(&shown) {
            count += 1;
            shown = repair::numbered_id(&safe, count).into();
        }
        let number = self.known.len();
        self.known.push(CallRecord { at, result: None, line: None });
        let renamed = (*shown != *id.as_str()).then(|| CallId(shown.into_owned()))?;
        self.originals.insert(number, id.clone());
        self.aliases.insert(id.clone(), (renamed.clone(), count));
        Some(renamed)
    }

    /// Returns the id that the view shows for the newest call with this ledger id. `None` if both ids are equal.
    pub(super) fn alias(&self, id: &CallId) -> Option<&CallId> {
        self.aliases.get(id).map(|(shown, _)| shown)
    }

    /// Returns the id that the view shows for the newest call with this ledger id.
    pub(super) fn shown<'a>(&'a self, id: &'a CallId) -> &'a CallId {
        self.alias(id).unwrap_or(id)
    }

    /// Returns the ledger id of a shown id.
    pub(super) fn original<'a>(&'a self, shown: &'a CallId) -> &'a CallId {
        self.number(shown).and_then(|number| self.originals.get(&number)).unwrap_or(shown)
    }

    fn number(&self, shown: &CallId) -> Option<usize> {
        self.ids.find(shown.as_str())
    }

    pub(super) fn get(&self, shown: &CallId) -> Option<&CallRecord> {
        self.number(shown).map(|number| &self.known[number])
    }

    /// Finds a call by its shown id, or else by its ledger id.
    pub(super) fn find(&self, id: &CallId) -> Option<(&str, &CallRecord)> {
        let number = self.number(id).or_else(|| self.number(self.shown(id)))?;
        Some((self.ids.get(number), &self.known[number]))
    }

    pub(super) fn renamed_results(&self) -> HashMap<Seq, CallId> {
        let renamed = self.originals.keys();
        renamed
            .filter_map(|at| Some((self.known[*at].result?, CallId(self.ids.get(*at).to_owned()))))
            .collect()
    }

    pub(super) fn answered(&mut self, shown: &CallId, at: Seq) {
        if let Some(number) = self.number(shown) {
            self.known[number].result.get_or_insert(at);
        }
    }

    pub(super) fn answer(&self, shown: &CallId) -> Answer {
        self.number(shown).and_then(|number| self.answers.get(number)).unwrap_or_default()
    }

    /// Records that a shown message contains this call.
    pub(super) fn ask(&mut self, shown: &CallId) {
        if let Some(number) = self.number(shown) {
            self.answers.ask(number);
        }
    }

    /// Records the position of a call's result. Returns true if the call had no result yet.
    pub(super) fn reply(&mut self, shown: &CallId, place: ResultPosition) -> bool {
        let number = self.number(shown);
        match number.and_then(|number| self.answers.get_mut(number)) {
            Some(answer @ Answer::Open) => {
                *answer = Answer::At(place);
                true
            }
            _ => false,
        }
    }

    /// Updates positions after messages were moved. `places` has the new position for each old one. Messages that were removed from memory
    /// had no shown result.
    pub(super) fn update_positions(&mut self, places: &[usize]) {
        for (_, answer) in &mut self.answers.0 {
            if let Answer::At((at, _)) = answer {
                *at = places[*at];
            }
        }
    }

    /// True if all positions and line numbers are valid.
    pub(super) fn is_consistent(&self, is_result: impl Fn(ResultPosition) -> bool) -> bool {
        let lines = self.journal.len();
        let there = |answer: &Answer| if let Answer::At(place) = answer { is_result(*place) } else { true };
        let mut lines_of =
            self.known.iter().filter_map(|record| record.line).chain(self.strays.values().copied());
        self.ids.len() == self.known.len()
            && self.originals.keys().all(|number| *number < self.known.len())
            && self.answers.0.is_sorted_by(|a, b| a.0 < b.0)
            && self.answers.0.iter().all(|(number, answer)| *number < self.known.len() && there(answer))
            && lines_of.all(|line| (line as usize) < lines)
    }

    /// Forgets all shown calls.
    pub(super) fn clear_answers(&mut self) {
        self.answers.0.clear();
    }

    /// Updates the journal line of the newest call with this ledger id.
    pub(super) fn note(
        &mut self,
        seq: Seq,
        id: &CallId,
        state: JournalState,
        tool: Option<&str>,
        subject: Option<&str>,
        result: &Value,
    ) {
        let Self { ids, known, aliases, strays, journal, .. } = self;
        let shown = aliases.get(id).map_or(id, |(shown, _)| shown);
        let journal = Arc::make_mut(journal);
        let known = ids.find(shown.as_str()).map(|number| &mut known[number].line);
        let at = known.as_ref().and_then(|line| **line).or_else(|| strays.get(shown).copied());
        let result = (!result.is_null()).then(|| result.to_string());
        if let Some(at) = at {
            // A state never goes back: a finished call stays finished.
            let before = journal.get(at as usize).map_or(state, |line| line.state);
            let state = if rank(state) >= rank(before) { state } else { before };
            return journal.amend(at as usize, state, tool, subject, result.as_deref());
        }
        let at = u32::try_from(journal.len()).unwrap_or(u32::MAX);
        if let Some(line) = known {
            *line = Some(at);
        } else {
            strays.insert(shown.clone(), at);
        }
        let (tool, result) = (tool.unwrap_or_default(), result.as_deref().unwrap_or_default());
        journal.push(Line { call_id: shown.as_str(), tool, subject, result, state, seq });
    }

    /// Returns the state of the newest call with this ledger id. A call with a result has finished.
    pub(super) fn state(&self, id: &CallId) -> Option<JournalState> {
        let shown = self.shown(id);
        let record = self.get(shown);
        if record.is_some_and(|r| r.result.is_some()) {
            return Some(JournalState::Finished);
        }
        let line = record.and_then(|r| r.line).or_else(|| self.strays.get(shown).copied())?;
        self.journal.get(line as usize).map(|line| line.state)
    }
}

/// Results of the calls that are shown, ordered by the number of the call. Most look-ups are for the newest calls, which are at the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Answers(Vec<(usize, Answer)>);

impl Answers {
    /// Number of entries at the end that are searched first.
    const NEWEST: usize = 16;

    /// Returns the index of the entry of this call, or the index at which to insert one as an error.
    fn place(&self, number: usize) -> Result<usize, usize> {
        let newest = self.0.len().saturating_sub(Self::NEWEST);
        let by_number = |(other, _): &(usize, Answer)| other.cmp(&number);
        if self.0.get(newest).is_some_and(|first| first.0 <= number) {
            let place = self.0[newest..].binary_search_by(by_number);
            return place.map(|at| newest + at).map_err(|at| newest + at);
        }
        self.0.binary_search_by(by_number)
    }

    fn get(&self, number: usize) -> Option<Answer> {
        self.place(number).ok().map(|at| self.0[at].1)
    }

    fn get_mut(&mut self, number: usize) -> Option<&mut Answer> {
        self.place(number).ok().map(|at| &mut self.0[at].1)
    }

    /// Records that the call is shown.
    fn ask(&mut self, number: usize) {
        if let Err(at) = self.place(number) {
            self.0.insert(at, (number, Answer::Open));
        }
    }
}

fn rank(state: JournalState) -> u8 {
    match state {
        JournalState::Intended => 0,
        JournalState::Started => 1,
        JournalState::Finished => 2,
    }
}

/// Returns the calls whose results are in the message.
pub(super) fn results_of(message: &Message) -> impl Iterator<Item = &CallId> {
    message.parts.iter().filter_map(|part| match part {
        Part::ToolResult { call_id, .. } => Some(call_id),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_among_the_newest_and_behind_them_and_when_its_call_came_late() {
        let mut answers = Answers::default();
        let late = [3, 150, 199];
        for number in (0..200).filter(|n| !late.contains(n)).chain(late) {
            answers.ask(number);
            answers.ask(number);
        }
        assert!(answers.0.iter().map(|(number, _)| *number).eq(0..200));
        for number in 0..200 {
            *answers.get_mut(number).unwrap() = Answer::At((number, 0));
        }
        assert!((0..200).all(|number| answers.get(number) == Some(Answer::At((number, 0)))));
        assert_eq!((answers.get(200), Answers::default().get(0)), (None, None));
    }
}
