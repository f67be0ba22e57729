//! Reading a ledger: commits in order, and records of everything that could not be read.
//!
//! Every line is checked on its own (is it authentic?) and in its position (does it follow the previous line,
//! do its sequence numbers grow?). A line that fails is reported as a [`BadRecord`] and skipped. Reading
//! continues, so damage to one line does not affect others. Nothing is ever changed here. Memory contains one
//! line at a time.
//!
//! Invariant: the sequence numbers of the returned entries grow strictly.

use super::entries::{self, Entries};
use super::line::{self, MAX_LINE};
use becket_types::{Entry, EntryKind, Seq};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, Read as _};

/// Maximum sequence number. Larger ones are damage, because JSON parsers in other languages could not
/// represent them.
pub(crate) const MAX_SEQ: u64 = 1 << 53;

/// The next item of a ledger.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// The entries of one commit.
    Commit(Vec<Entry>),
    Bad(BadRecord),
}

/// A line, or an entry in it, that could not be used. It stays in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// Line number, from 1.
    pub line: u64,
    /// Byte offset of the start of the line.
    pub offset: u64,
    /// Length of the line in bytes, with its newline.
    pub bytes: u64,
    pub why: BadKind,
}

/// The reason why a line or an entry of a ledger has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadKind {
    /// Incomplete: the write of the line did not finish.
    Torn,
    /// The bytes do not match the hash.
    Altered,
    /// Longer than the 256 MiB that becket writes at most in one line.
    TooLong,
    /// The line is the previous line again. It has no effect.
    Repeated,
    /// An empty line.
    Empty,
    /// The line is authentic, but its entries cannot be parsed.
    Malformed(String),
    /// The sequence numbers are not greater than the previous ones: a repeated or moved line.
    OutOfOrder,
    /// The entries are valid, but lines before them are missing or were replaced.
    ChainBreak,
    /// One entry has a known kind, but fields that this version does not understand. The entry stays in the ledger and has no effect.
    Entry(Seq),
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} ({} bytes at {}): ", self.line, self.bytes, self.offset)?;
        match &self.why {
            BadKind::Torn => f.write_str("incomplete line; skipped, kept in the file"),
            BadKind::Altered => f.write_str("changed after it was written; skipped, kept in the file"),
            BadKind::TooLong => f.write_str("too long; skipped, kept in the file"),
            BadKind::Repeated => f.write_str("duplicate of the previous line (kept, has no effect)"),
            BadKind::Empty => f.write_str("empty (kept, has no effect)"),
            BadKind::Malformed(why) => write!(f, "unreadable record (kept): {why}"),
            BadKind::OutOfOrder => f.write_str("repeated or out of order; skipped, kept in the file"),
            BadKind::ChainBreak => {
                f.write_str("does not follow the line before: lines are missing or in the wrong order")
            }
            BadKind::Entry(seq) => write!(f, "unreadable entry {seq} (kept, has no effect)"),
        }
    }
}

/// The end of a ledger as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Offset after the last authentic line and its newline. The bytes after it are an incomplete end.
    pub good: u64,
    /// Number of bytes read.
    pub total: u64,
    /// True if the last good line has no newline yet.
    pub open: bool,
    /// Hash of the last good line.
    pub head: String,
    /// Sequence number of the last entry; 0 if there is none.
    pub last_seq: Seq,
}

impl End {
    /// The end before anything was read.
    pub(crate) fn start() -> Self {
        Self { good: 0, total: 0, open: false, head: line::GENESIS.to_owned(), last_seq: Seq(0) }
    }
}

/// The result of verifying lines. A second reader of the same ledger uses it, so that it need not verify them again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Offset after the last verified line.
    upto: u64,
    /// Start offsets of lines before `upto` that are not authentic.
    altered: Vec<u64>,
}

/// Reads one ledger from its start, or from the [`End`] of an earlier reading.
pub struct Reader<R> {
    input: R,
    buffer: Vec<u8>,
    queue: VecDeque<Item>,
    number: u64,
    end: End,
    /// The hash that a damaged previous line claims. A line with this `prev` is in its right place, although the damaged line cannot be
    /// verified.
    claimed: Option<String>,
    left_out: &'static [&'static str],
    /// Lines that an earlier reader has verified: see [`Self::with_proof`].
    known: Proof,
    /// Start offsets of the lines that this reader found altered.
    altered: Vec<u64>,
    /// True if lines without effect are reported too: see [`Self::strict`].
    strict: bool,
}

#[derive(Deserialize)]
struct SeqOnly {
    seq: Option<u64>,
}

impl<R: BufRead> Reader<R> {
    /// Reads a ledger from its first byte.
    pub fn new(input: R) -> Self {
        Self::resume(input, End::start())
    }

    /// Continues after an earlier reading. `input` must start at `end.good`.
    pub fn resume(input: R, end: End) -> Self {
        let end = End { total: end.good, ..end };
        Self {
            input,
            buffer: Vec::new(),
            queue: VecDeque::new(),
            number: 0,
            end,
            claimed: None,
            left_out: &[],
            known: Proof::default(),
            altered: Vec::new(),
            strict: false,
        }
    }

    /// Also reports lines that have no effect: [`BadKind::Repeated`] and [`BadKind::Empty`]. becket writes a line twice only
    /// after a failed write, and never an empty one.
    pub fn strict(self) -> Self {
        Self { strict: true, ..self }
    }

    /// Leaves out entries of these kinds (by their JSON names) without parsing them. Their sequence numbers still count, and a commit may
    /// become empty. A commit that has another form than this version writes may contain them anyway.
    pub(crate) fn without(self, kinds: &'static [&'static str]) -> Self {
        Self { left_out: kinds, ..self }
    }

    /// Uses the result of another reader of the same ledger: lines that it verified are not verified again.
    pub(crate) fn with_proof(self, known: Proof) -> Self {
        Self { known, ..self }
    }

    /// Returns the verification result of this reading, which must have begun at the start.
    pub(crate) fn proof(&self) -> Proof {
        Proof { upto: self.end.good, altered: self.altered.clone() }
    }

    /// Returns the position up to which the ledger was read. It moves with each item.
    pub fn end(&self) -> &End {
        &self.end
    }

    /// Returns the next item, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns errors of the disk. Damage is an [`Item::Bad`].
    pub fn next_item(&mut self) -> io::Result<Option<Item>> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Ok(Some(item));
            }
            let Some((length, terminated)) = self.fill()? else { return Ok(None) };
            let offset = self.end.total;
            self.number += 1;
            self.end.total += length;
            if !self.buffer.is_empty() {
                self.judge(offset, length, terminated);
            } else if self.strict {
                let bad = BadRecord { line: self.number, offset, bytes: length, why: BadKind::Empty };
                self.queue.push_back(Item::Bad(bad));
            }
        }
    }

    /// Returns the line of the last commit, without its newline.
    pub fn raw_line(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the entries of the last commit as bytes.
    pub(crate) fn raw_entries(&self) -> Vec<&RawValue> {
        line::frame(&self.buffer)
            .and_then(|framed| framed.parts(&self.buffer).ok())
            .and_then(|(_, entries)| serde_json::from_slice(entries).ok())
            .unwrap_or_default()
    }

    /// Reads a line into the buffer, without its newline. If the line is longer than [`MAX_LINE`], only its start is kept. Returns its
    /// length in bytes and true if it ends with a newline.
    fn fill(&mut self) -> io::Result<Option<(u64, bool)>> {
        self.buffer.clear();
        let mut most = self.input.by_ref().take(MAX_LINE as u64 + 1);
        let mut length = most.read_until(b'\n', &mut self.buffer)?;
        let terminated = self.buffer.pop_if(|byte| *byte == b'\n').is_some();
        if self.buffer.len() > MAX_LINE {
            length += self.input.skip_until(b'\n')?;
        }
        Ok((length > 0).then_some((length as u64, terminated)))
    }

    fn judge(&mut self, offset: u64, bytes: u64, terminated: bool) {
        let number = self.number;
        let bad = |why| Item::Bad(BadRecord { line: number, offset, bytes, why });
        if self.buffer.len() > MAX_LINE {
            self.queue.push_back(bad(BadKind::TooLong));
            return;
        }
        let Some(framed) = line::frame(&self.buffer) else {
            self.queue.push_back(bad(BadKind::Torn));
            return;
        };
        let is_known = self.end.total <= self.known.upto;
        let authentic = if is_known { !self.known.altered.contains(&offset) } else { framed.is_authentic() };
        if !authentic {
            self.altered.push(offset);
            self.claimed = Some(framed.hash.to_owned());
            self.queue.push_back(bad(BadKind::Altered));
            return;
        }
        // The same line twice in a row: a write was reported as failed although the line was complete, and becket wrote it again.
        let repeated = framed.hash == self.end.head;
        let hash = framed.hash.to_owned();
        let parts = framed.parts(&self.buffer);
        self.end.good = self.end.total;
        self.end.open = !terminated;
        if repeated {
            self.queue.extend(self.strict.then(|| bad(BadKind::Repeated)));
            return;
        }
        let claimed = self.claimed.take();
        let head = std::mem::replace(&mut self.end.head, hash.clone());
        let (prev, json) = match parts {
            Ok(parts) => parts,
            Err(e) => {
                self.queue.push_back(bad(BadKind::Malformed(e.to_string())));
                return;
            }
        };
        let follows = prev == head || claimed.is_some_and(|claimed| claimed == prev);
        let Entries { entries, seqs } = match entries::read(json, self.left_out) {
            Ok(entries) => entries,
            Err(e) => {
                // The numbers of the entries that cannot be parsed are used up, so that the next line does not count as out of order.
                let seqs: Vec<SeqOnly> = serde_json::from_slice(json).unwrap_or_default();
                let last = seqs.iter().filter_map(|s| s.seq).filter(|s| *s <= MAX_SEQ).max();
                self.end.last_seq = self.end.last_seq.max(Seq(last.unwrap_or(0)));
                self.queue.push_back(bad(BadKind::Malformed(e.to_string())));
                return;
            }
        };
        let mut last = self.end.last_seq;
        for seq in seqs {
            if seq <= last || seq.0 > MAX_SEQ {
                // A copied or moved line is skipped, and the line after it still follows the line before it.
                self.end.head = if follows { hash } else { head };
                self.queue.push_back(bad(BadKind::OutOfOrder));
                return;
            }
            last = seq;
        }
        self.end.last_seq = last;
        if !follows {
            self.queue.push_back(bad(BadKind::ChainBreak));
        }
        for entry in entries.iter().filter(|e| has_a_known_kind_and_an_unknown_shape(e)) {
            self.queue.push_back(bad(BadKind::Entry(entry.seq)));
        }
        self.queue.push_back(Item::Commit(entries));
    }
}

/// Returns the ledger format and the becket version that the first 4 KiB of a ledger claim. Works for formats of later versions, too.
pub(crate) fn claimed_format(input: &mut impl io::Read) -> Option<(u32, String)> {
    const HEAD: u64 = 4 << 10;
    let mut head = Vec::new();
    input.take(HEAD).read_to_end(&mut head).ok()?;
    let head = String::from_utf8_lossy(&head);
    let line = head.split('\n').next().unwrap_or_default();
    // Quotes inside a JSON string are escaped, so neither key can occur inside a text.
    let after = |key: &str| line.split_once(key).map(|(_, rest)| rest.trim_start());
    let digits = after(r#""format":"#)?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let format = digits.get(..end)?.parse().ok()?;
    let version = after(r#""version":""#).and_then(|v| v.split('"').next()).unwrap_or_default();
    Some((format, version.to_owned()))
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_item().transpose()
    }
}

/// The kinds of entries that this version knows, by their JSON names.
const KINDS: &[&str] = &[
    "session",
    "system",
    "message",
    "part",
    "finish",
    "prune",
    "cut_inputs",
    "compaction",
    "revert",
    "pin",
    "reminder",
    "model_switch",
    "tools",
    "usage",
    "tool_journal",
    "permission",
    "hook",
    "state",
    "title",
    "interrupt",
    "turn_end",
    "notice",
    "request",
    "restore",
    "file_snapshot",
    "file_changes",
];

fn has_a_known_kind_and_an_unknown_shape(entry: &Entry) -> bool {
    let EntryKind::Unknown(map) = &entry.kind else { return false };
    map.get("kind").and_then(|kind| kind.as_str()).is_none_or(|kind| KINDS.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_kinds_are_those_of_the_book() {
        let book = include_str!("../../../../docs/session-format.md");
        let entries = book.split("## Entries").nth(1).and_then(|rest| rest.split("## Messages").next());
        let rows = entries.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("| `"));
        let mut named: Vec<&str> =
            rows.filter_map(|row| row.split('`').next()).filter(|kind| *kind != "kind").collect();
        let mut known = KINDS.to_vec();
        named.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, named);
        for kind in KINDS {
            let line = format!(r#"{{"seq":1,"time":1,"kind":"{kind}"}}"#);
            let entry: Entry = serde_json::from_str(&line).unwrap();
            let whole = !matches!(entry.kind, EntryKind::Unknown(_));
            assert!(whole || has_a_known_kind_and_an_unknown_shape(&entry), "{kind}");
        }
    }
}
