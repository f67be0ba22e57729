//! The journal of calls: the tool, the subject and the outcome of each. It grows for the whole session. So a
//! line is stored as bytes in one long text plus a few numbers, and parsed when it is read.

use becket_types::{JournalState, Seq};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::fmt;

/// One tool call in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Id under which the call is shown.
    pub call_id: &'a str,
    pub tool: &'a str,
    /// One line for people: the command, the path.
    pub subject: Option<&'a str>,
    /// Result as JSON text; empty if there is none yet.
    pub result: &'a str,
    pub state: JournalState,
    /// The entry that first mentioned the call.
    pub seq: Seq,
}

impl Line<'_> {
    /// Returns the parsed result; `null` if there is none.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.result).unwrap_or_default()
    }
}

/// All calls of a session, in the order in which they were first mentioned.
#[derive(Clone, Default, Deserialize)]
#[serde(from = "Vec<Saved>")]
pub struct Journal {
    /// The texts of all lines. A changed line leaves its old text unused, unless it was the last one.
    text: String,
    records: Vec<Record>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    seq: Seq,
    start: usize,
    call_id: u32,
    tool: u32,
    /// Length of the subject; [`ABSENT`] if there is none.
    subject: u32,
    result: u32,
    state: JournalState,
}

const ABSENT: u32 = u32::MAX;

/// A line in a checkpoint: call, tool, subject, result, state, entry.
type Saved = (String, String, Option<String>, String, JournalState, Seq);

impl Record {
    fn end(&self) -> usize {
        let subject = if self.subject == ABSENT { 0 } else { self.subject };
        self.start
            + [self.call_id, self.tool, subject, self.result].iter().map(|n| *n as usize).sum::<usize>()
    }
}

/// Converts a length for storage. No line reaches 4 GB, because entries are read and written as a whole.
fn length(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(ABSENT - 1)
}

impl Journal {
    /// Returns the number of calls.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if the session has made no call.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Iterates over the calls in the order in which they were first mentioned.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Line<'_>> + ExactSizeIterator {
        self.records.iter().map(|record| self.read(record))
    }

    pub(super) fn get(&self, at: usize) -> Option<Line<'_>> {
        self.records.get(at).map(|record| self.read(record))
    }

    fn read(&self, record: &Record) -> Line<'_> {
        let (call_id, rest) = self.text[record.start..].split_at(record.call_id as usize);
        let (tool, rest) = rest.split_at(record.tool as usize);
        let (subject, rest) = match record.subject {
            ABSENT => (None, rest),
            bytes => Some(rest.split_at(bytes as usize)).map_or((None, rest), |(s, rest)| (Some(s), rest)),
        };
        let result = &rest[..record.result as usize];
        Line { call_id, tool, subject, result, state: record.state, seq: record.seq }
    }

    /// Appends a call. The caller makes sure that its id is new.
    pub fn push(&mut self, line: Line<'_>) {
        let start = self.text.len();
        for word in [line.call_id, line.tool, line.subject.unwrap_or_default(), line.result] {
            self.text.push_str(word);
        }
        self.records.push(Record {
            seq: line.seq,
            start,
            call_id: length(line.call_id),
            tool: length(line.tool),
            subject: line.subject.map_or(ABSENT, length),
            result: length(line.result),
            state: line.state,
        });
    }

    /// Updates a line. Fields that are `None` stay unchanged.
    pub(super) fn amend(
        &mut self,
        at: usize,
        state: JournalState,
        tool: Option<&str>,
        subject: Option<&str>,
        result: Option<&str>,
    ) {
        let old = self.records[at];
        let line = self.read(&old);
        let new = Line {
            tool: tool.unwrap_or(line.tool),
            subject: subject.or(line.subject),
            result: result.unwrap_or(line.result),
            state,
            ..line
        };
        if (new.tool, new.subject, new.result) == (line.tool, line.subject, line.result) {
            self.records[at].state = state;
            return;
        }
        let mut one = Self::default();
        one.push(new);
        if old.end() == self.text.len() {
            self.text.truncate(old.start);
        }
        self.records[at] = Record { start: self.text.len(), ..one.records[0] };
        self.text.push_str(&one.text);
    }
}

impl<'a> FromIterator<Line<'a>> for Journal {
    fn from_iter<T: IntoIterator<Item = Line<'a>>>(lines: T) -> Self {
        let mut journal = Self::default();
        for line in lines {
            journal.push(line);
        }
        journal
    }
}

impl PartialEq for Journal {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl From<Vec<Saved>> for Journal {
    fn from(lines: Vec<Saved>) -> Self {
        lines
            .iter()
            .map(|(call_id, tool, subject, result, state, seq)| Line {
                call_id,
                tool,
                subject: subject.as_deref(),
                result,
                state: *state,
                seq: *seq,
            })
            .collect()
    }
}

impl Serialize for Journal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|l| (l.call_id, l.tool, l.subject, l.result, l.state, l.seq)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_what_is_not_said_anew_and_others_stay() {
        let line = |call_id| Line {
            call_id,
            tool: "",
            subject: None,
            result: "",
            state: JournalState::Intended,
            seq: Seq(1),
        };
        let mut journal = Journal::default();
        journal.push(line("a"));
        journal.push(line("b"));
        // Amends the last line, whose text is replaced, and an earlier one, whose new text is appended.
        for at in [1, 0] {
            journal.amend(at, JournalState::Started, Some("bash"), Some("make"), None);
            journal.amend(at, JournalState::Finished, None, None, Some("{\"exit_code\":0}"));
            journal.amend(at, JournalState::Finished, Some("sh"), None, None);
        }
        let whole = |call_id| Line {
            tool: "sh",
            subject: Some("make"),
            result: "{\"exit_code\":0}",
            state: JournalState::Finished,
            ..line(call_id)
        };
        assert_eq!(journal.iter().collect::<Vec<_>>(), [whole("a"), whole("b")]);
        assert_eq!(whole("a").value()["exit_code"], 0);
        let again: Journal = serde_json::from_str(&serde_json::to_string(&journal).unwrap()).unwrap();
        assert_eq!(again, journal);
    }

    #[test]
    fn a_line_that_is_the_last_leaves_nothing_behind() {
        let mut journal = Journal::default();
        for n in 0..100 {
            journal.push(Line {
                call_id: "call",
                tool: "bash",
                subject: None,
                result: "",
                state: JournalState::Started,
                seq: Seq(n),
            });
            journal.amend(n as usize, JournalState::Finished, None, Some("make"), Some("1"));
        }
        assert_eq!(journal.text.len(), 100 * "callbashmake1".len());
    }
}
