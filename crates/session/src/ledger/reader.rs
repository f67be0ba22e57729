//! Reading a ledger forward: commits as they come, and what could not be read, set aside and named.
//!
//! Model: every line is judged on its own (does it prove itself?) and in its place (does it follow the line before, do
//! its sequence numbers grow?). A line that fails is reported as a [`BadRecord`] and passed over; the rest goes on, so no
//! damage to one line costs another. Nothing is ever changed here. Memory holds one line at a time.
//!
//! Invariant: the sequence numbers of the entries that come out grow strictly.

use super::entries::{self, Entries};
use super::line::{self, MAX_LINE};
use becket_types::{Entry, EntryKind, Seq};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, Read as _};

/// Sequence numbers beyond this are damage: JSON readers in other languages could not hold them.
const MAX_SEQ: u64 = 1 << 53;

/// What comes next in a ledger.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// The entries of one commit.
    Commit(Vec<Entry>),
    Bad(BadRecord),
}

/// A line, or an entry in it, that could not be taken as it is. It stays in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// Counted from 1.
    pub line: u64,
    /// Where the line starts, in bytes.
    pub offset: u64,
    pub bytes: u64,
    pub why: BadKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadKind {
    /// Not a whole line: a write that never ended.
    Torn,
    /// The bytes are not those that the hash was made of.
    Altered,
    /// Longer than any line that is written.
    TooLong,
    /// It proves itself, but its entries cannot be read.
    Malformed(String),
    /// Its sequence numbers do not follow those before: a repeated or displaced line.
    OutOfOrder,
    /// Its entries are read, but lines before it are missing or were exchanged.
    ChainBreak,
    /// One entry has a known kind and an unknown shape; it is kept and has no effect.
    Entry(Seq),
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} ({} bytes at {}): ", self.line, self.bytes, self.offset)?;
        match &self.why {
            BadKind::Torn => f.write_str("not a whole line; passed over, kept in the file"),
            BadKind::Altered => f.write_str("changed after it was written; passed over, kept in the file"),
            BadKind::TooLong => f.write_str("too long; passed over, kept in the file"),
            BadKind::Malformed(why) => write!(f, "unreadable record (kept): {why}"),
            BadKind::OutOfOrder => f.write_str("repeated or out of order; passed over, kept in the file"),
            BadKind::ChainBreak => {
                f.write_str("does not follow the line before: lines are missing or were exchanged")
            }
            BadKind::Entry(seq) => write!(f, "unreadable entry {seq} (kept, has no effect)"),
        }
    }
}

/// Where a ledger ends, as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Behind the last line that proves itself, its newline included. What follows is a torn tail.
    pub good: u64,
    /// All bytes read.
    pub total: u64,
    /// The last good line has no newline yet.
    pub open: bool,
    /// Hash of the last good line.
    pub head: String,
    pub last_seq: Seq,
}

impl End {
    /// Nothing was read yet.
    pub(crate) fn start() -> Self {
        Self { good: 0, total: 0, open: false, head: line::GENESIS.to_owned(), last_seq: Seq(0) }
    }
}

/// That lines prove themselves, as an earlier reading of the same ledger found: for whoever reads it again at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Behind the last of them.
    upto: u64,
    /// Where those before it start that do not.
    altered: Vec<u64>,
}

/// Reads one ledger from its start (or from the [`End`] of an earlier reading).
pub struct Reader<R> {
    input: R,
    buffer: Vec<u8>,
    queue: VecDeque<Item>,
    number: u64,
    end: End,
    /// The hash that a damaged line before claims: its follower is still in its place.
    claimed: Option<String>,
    left_out: &'static [&'static str],
    /// Of an earlier reading.
    known: Proof,
    /// Where lines start that were changed.
    altered: Vec<u64>,
}

#[derive(Deserialize)]
struct SeqOnly {
    seq: Option<u64>,
}

impl<R: BufRead> Reader<R> {
    pub fn new(input: R) -> Self {
        Self::resume(input, End::start())
    }

    /// Goes on behind an earlier reading; `input` starts at `end.good`.
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
        }
    }

    /// From here on entries of these kinds (their names in JSON) are left out, and not looked into; they still have their place
    /// in the order. A commit may come out empty. One that is written in an unusual way has them nevertheless.
    pub(crate) fn without(self, kinds: &'static [&'static str]) -> Self {
        Self { left_out: kinds, ..self }
    }

    /// Does not prove again what was proven a moment ago.
    pub(crate) fn knowing(self, known: Proof) -> Self {
        Self { known, ..self }
    }

    /// What this reading from the start has proven so far.
    pub(crate) fn proof(&self) -> Proof {
        Proof { upto: self.end.good, altered: self.altered.clone() }
    }

    pub fn end(&self) -> &End {
        &self.end
    }

    /// The next item, or `None` at the end. An error is the disk's; damage is an [`Item::Bad`].
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
            }
        }
    }

    /// The line of the commit that came last, without its newline.
    pub fn raw_line(&self) -> &[u8] {
        &self.buffer
    }

    /// The entries of the commit that came last, as their bytes.
    pub fn raw_entries(&self) -> Vec<&RawValue> {
        line::frame(&self.buffer)
            .and_then(|framed| framed.parts(&self.buffer).ok())
            .and_then(|(_, entries)| serde_json::from_slice(entries).ok())
            .unwrap_or_default()
    }

    /// Reads a line into the buffer, without its newline; a line beyond the limit leaves only its start there.
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
        // A write that was reported as failed and was whole after all: the same commit twice in a row.
        let repeated = framed.hash == self.end.head;
        let hash = framed.hash.to_owned();
        let parts = framed.parts(&self.buffer);
        self.end.good = self.end.total;
        self.end.open = !terminated;
        if repeated {
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
                // The numbers it used up stay used.
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
                // A displaced line says nothing about where the chain stands.
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

/// The format and the version of becket that a ledger's first bytes claim, whatever its lines look like otherwise.
pub(crate) fn claimed_format(input: &mut impl io::Read) -> Option<(u32, String)> {
    const HEAD: u64 = 4 << 10;
    let mut head = Vec::new();
    input.take(HEAD).read_to_end(&mut head).ok()?;
    let head = String::from_utf8_lossy(&head);
    let line = head.split('\n').next().unwrap_or_default();
    // A quote inside a JSON string is escaped, so neither key occurs in anybody's text.
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

/// The kinds of this version, by their JSON names.
const KINDS: &[&str] = &[
    "session",
    "system",
    "message",
    "part",
    "finish",
    "prune",
    "compaction",
    "revert",
    "pin",
    "reminder",
    "model_switch",
    "tools",
    "usage",
    "tool_journal",
    "permission",
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
