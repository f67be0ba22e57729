//! Reading a stored session in pages: from any position in its ledger, towards its start or its end.
//!
//! Owns the positions at which pages may begin, and the effects of later entries on a page. A rewind removes
//! messages that may be far before it; an undo of a compaction changes an earlier event. All pages of a
//! session together give the events of the whole session ([`crate::replay`]). The only difference is that the
//! undo of a compaction is reported at the end of the page with that compaction.
//!
//! becket never writes a rewind to a message that an earlier rewind has removed. So only the entries after a page determine which of its
//! messages are shown.
//!
//! A position is found by binary search in the file, so a page costs only its own length. In addition, the
//! rest of the file is searched once for reverts, without parsing it. Takes no lock and changes nothing.

use crate::context::edit;
use crate::ledger::{End, Item, Reader};
use crate::replay;
use crate::store::{StoreError, ledger_path};
use becket_types::{Entry, EntryKind, Event, Role, Seq};
use memchr::memmem;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Size of a page in bytes of the ledger, approximately.
const LENGTH: u64 = 512 * 1024;
/// A ledger up to this size in bytes is a single page.
const SINGLE_PAGE_BYTES: u64 = 2 * 1024 * 1024;
/// Number of bytes at the start of a line in which the number of its first entry is searched.
const HEAD: u64 = 512;

/// The events of a range of entries, as a front end shows them.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Number of the first entry of the page.
    pub from: Seq,
    /// Number of the entry after the last one of the page.
    pub to: Seq,
    pub events: Vec<Event>,
}

/// The pages of one session.
#[derive(Debug)]
pub struct Pages {
    ledger: PathBuf,
    length: u64,
    /// The last entry that is read. Later entries, and their effects on earlier ones, are left out. `None`: all entries are read.
    upto: Option<Seq>,
    /// The part of the file that was searched for reverts.
    seen: Range<u64>,
    /// The target of each revert, by the number of the entry that reverts it.
    reverts: BTreeMap<Seq, Seq>,
    /// Kinds of the reverted entries.
    targets: HashMap<Seq, Target>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// A message of the user. Reverting it is a rewind: everything after it is removed with it.
    UserMessage,
    Compaction,
    Revert,
    Other,
}

/// Effects of later reverts on earlier entries.
#[derive(Default)]
struct Effects {
    /// Ranges removed by rewinds.
    rewound: Vec<Range<Seq>>,
    /// Compactions that were undone or redone: the entry that did it, and true if the compaction is in force.
    reverted_compactions: HashMap<Seq, (Seq, bool)>,
}

/// Entries, each with the offset of its line.
type Located = Vec<(u64, Entry)>;

impl Pages {
    /// Makes pages of about 512 KiB of the ledger in this session's folder. Nothing is read before the first page is
    /// requested.
    pub fn open(session_dir: &Path) -> Self {
        Self::with_length(session_dir, LENGTH)
    }

    /// Makes pages of about `length` bytes.
    pub fn with_length(session_dir: &Path, length: u64) -> Self {
        Self {
            ledger: ledger_path(session_dir),
            length: length.max(1),
            upto: None,
            seen: 0..0,
            reverts: BTreeMap::new(),
            targets: HashMap::new(),
        }
    }

    /// Leaves out all entries after this one, also those that are appended while the pages are read: for a view of a session that another
    /// process continues.
    #[must_use]
    pub fn upto(mut self, last: Seq) -> Self {
        self.upto = Some(last);
        self
    }

    /// Returns the last page; the whole session if it is short.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Io`] if the ledger cannot be read, like all functions here.
    pub fn last(&mut self) -> Result<Page, StoreError> {
        let length = self.file()?.metadata().map_err(self.failed())?.len();
        let most = if length <= SINGLE_PAGE_BYTES.max(self.length) { length } else { self.length };
        self.backward(Seq(1), self.end(Seq(u64::MAX)), most)
    }

    /// Returns the page that ends before `to`, with entries from `from` on.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Io`] if the ledger cannot be read.
    pub fn before(&mut self, from: Seq, to: Seq) -> Result<Page, StoreError> {
        self.backward(from, self.end(to), self.length)
    }

    /// Returns the page that begins with `from`, with entries before `to`.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Io`] if the ledger cannot be read.
    pub fn after(&mut self, from: Seq, to: Seq) -> Result<Page, StoreError> {
        let mut file = self.file()?;
        let to = self.end(to);
        let start = self.line_of(&mut file, from)?;
        let mut entries = Located::new();
        let (mut behind_turn, mut end) = (true, to);
        for item in lines(&file, start).map_err(self.failed())? {
            let (at, entry) = item.map_err(self.failed())?;
            if entry.seq < from {
                continue;
            }
            if entry.seq >= to || at.saturating_sub(start) >= self.length && begins(behind_turn, &entry) {
                end = entry.seq.min(to);
                break;
            }
            behind_turn = matches!(entry.kind, EntryKind::TurnEnd { .. });
            entries.push((at, entry));
        }
        self.page(&mut file, from, end, start, entries)
    }

    /// Returns the first page in the range for which the predicate is true. The search starts at the end (`back`) or at the start.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Io`] if the ledger cannot be read.
    pub fn find(
        &mut self,
        range: Range<Seq>,
        back: bool,
        is: &mut dyn FnMut(&Page) -> bool,
    ) -> Result<Option<Page>, StoreError> {
        let (mut from, mut to) = (range.start, self.end(range.end));
        while from < to {
            let page = if back { self.before(from, to)? } else { self.after(from, to)? };
            if is(&page) {
                return Ok(Some(page));
            }
            if back {
                to = page.from.min(Seq(to.0 - 1));
            } else {
                from = page.to.max(from.next());
            }
        }
        Ok(None)
    }

    fn backward(&mut self, from: Seq, to: Seq, mut length: u64) -> Result<Page, StoreError> {
        let mut file = self.file()?;
        let whole = file.metadata().map_err(self.failed())?.len();
        let end = if to.0 == u64::MAX { whole } else { self.line_of(&mut file, to)? };
        loop {
            let floor = end.saturating_sub(length);
            let start = match floor {
                0 => 0,
                _ => line_behind(&mut file, floor - 1).map_err(self.failed())?,
            };
            let mut entries = Located::new();
            for item in lines(&file, start).map_err(self.failed())? {
                let (at, entry) = item.map_err(self.failed())?;
                if entry.seq >= to {
                    break;
                }
                entries.push((at, entry));
            }
            let at_start = floor == 0 || entries.first().is_some_and(|(_, first)| first.seq <= from);
            let first = if at_start {
                Some(entries.iter().take_while(|(_, entry)| entry.seq < from).count())
            } else {
                let behind_turn = |i: usize| {
                    i.checked_sub(1).is_some_and(|i| matches!(entries[i].1.kind, EntryKind::TurnEnd { .. }))
                };
                (0..entries.len()).find(|i| begins(behind_turn(*i), &entries[*i].1))
            };
            if let Some(first) = first {
                entries.drain(..first);
                let begin = match entries.first() {
                    Some((_, entry)) if !at_start => entry.seq,
                    _ => from,
                };
                let at = entries.first().map_or(start, |(at, _)| *at);
                return self.page(&mut file, begin, to, at, entries);
            }
            length = length.saturating_mul(4);
        }
    }

    /// Returns the events of these entries, after the effects of all later reverts. `start`: offset of the line with the first entry.
    fn page(
        &mut self,
        file: &mut File,
        from: Seq,
        to: Seq,
        start: u64,
        entries: Located,
    ) -> Result<Page, StoreError> {
        let behind_turn = entries.first().is_none_or(|(_, first)| !is_answer(first));
        let to = entries.last().map_or(to, |(_, last)| if to.0 == u64::MAX { last.seq.next() } else { to });
        self.look_for_reverts(file, start)?;
        let Effects { rewound: gone, reverted_compactions: undone } = self.effects(file)?;
        let compactions: Vec<Seq> = entries
            .iter()
            .filter(|(_, entry)| matches!(entry.kind, EntryKind::Compaction(_)))
            .map(|(_, entry)| entry.seq)
            .collect();
        let is_gone = |entry: &Entry| {
            !matches!(entry.kind, EntryKind::TurnEnd { .. })
                && gone.iter().any(|range| range.contains(&entry.seq))
        };
        let left = entries.into_iter().map(|(_, entry)| entry).filter(|entry| !is_gone(entry));
        let mut events = replay::events_from(left, !behind_turn);
        for entry in compactions {
            if let Some((by, counts)) = undone.get(&entry)
                && *by >= to
            {
                events.push(Event::CompactionReverted { entry, counts: *counts });
            }
        }
        Ok(Page { from, to, events })
    }

    /// Collects the reverts in the file from the offset `start` on, if that part was not searched yet.
    fn look_for_reverts(&mut self, file: &mut File, start: u64) -> Result<(), StoreError> {
        let end = file.metadata().map_err(self.failed())?.len();
        if self.seen.is_empty() {
            self.seen = end..end;
        }
        for part in [start..self.seen.start, self.seen.end..end] {
            if part.is_empty() {
                continue;
            }
            for line in lines_with(file, part, br#""revert""#).map_err(self.failed())? {
                let entries: Vec<Entry> =
                    items(Reader::new(&line[..])).filter_map(Result::ok).map(|(_, entry)| entry).collect();
                // A message that was dropped from the context manually still belongs to the conversation.
                let by_hand: Vec<Seq> =
                    entries.iter().flat_map(|entry| edit::entries_of_manual_change(&entry.kind)).collect();
                let upto = self.upto;
                for entry in entries
                    .iter()
                    .filter(|e| upto.is_none_or(|upto| e.seq <= upto) && !by_hand.contains(&e.seq))
                {
                    if let EntryKind::Revert { entry: target } = entry.kind {
                        self.reverts.insert(entry.seq, target);
                    }
                }
            }
        }
        self.seen = start.min(self.seen.start)..end.max(self.seen.end);
        Ok(())
    }

    /// Computes the effects of all reverts that were collected.
    fn effects(&mut self, file: &mut File) -> Result<Effects, StoreError> {
        for target in self.reverts.values() {
            if !self.targets.contains_key(target) {
                let kind = target_at(file, *target).map_err(StoreError::io("read", &self.ledger))?;
                self.targets.insert(*target, kind);
            }
        }
        let Effects { rewound: mut gone, reverted_compactions: mut undone } = Effects::default();
        let mut undos = HashMap::new();
        for (by, target) in &self.reverts {
            match self.targets.get(target) {
                Some(Target::UserMessage) if !gone.iter().any(|range| range.contains(target)) => {
                    // This range contains every removed range that starts after its target, so those are dropped.
                    gone.retain(|range| range.start < *target);
                    gone.push(*target..*by);
                }
                Some(Target::Compaction) => {
                    undos.insert(*by, *target);
                    undone.insert(*target, (*by, false));
                }
                Some(Target::Revert) => {
                    if let Some(compaction) = undos.remove(target) {
                        undone.insert(compaction, (*by, true));
                    }
                }
                _ => {}
            }
        }
        Ok(Effects { rewound: gone, reverted_compactions: undone })
    }

    /// Returns the end of a range of entries, limited by `upto`. `Seq(u64::MAX)` means the end of the session.
    fn end(&self, to: Seq) -> Seq {
        self.upto.map_or(to, |last| to.min(last.next()))
    }

    fn file(&self) -> Result<File, StoreError> {
        File::open(&self.ledger).map_err(self.failed())
    }

    fn line_of(&self, file: &mut File, seq: Seq) -> Result<u64, StoreError> {
        line_of(file, seq).map_err(self.failed())
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> StoreError + '_ {
        StoreError::io("read", &self.ledger)
    }
}

/// True if a page may begin with this entry. `behind_turn`: the entry follows the end of a turn. A call and its result, and an answer and
/// its parts, must be on the same page, so otherwise only an answer may begin one.
fn begins(behind_turn: bool, entry: &Entry) -> bool {
    behind_turn || is_answer(entry)
}

fn is_answer(entry: &Entry) -> bool {
    matches!(&entry.kind, EntryKind::Message { message } if message.role == Role::Assistant)
}

/// Returns readable entries from an offset at which a line begins, each with the offset of its line.
fn lines(file: &File, start: u64) -> io::Result<impl Iterator<Item = io::Result<(u64, Entry)>> + use<>> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(start))?;
    let end = End { good: start, total: start, ..End::start() };
    Ok(items(Reader::resume(BufReader::with_capacity(1 << 16, file), end)))
}

fn items<R: BufRead>(mut reader: Reader<R>) -> impl Iterator<Item = io::Result<(u64, Entry)>> {
    let mut queue = Vec::new().into_iter();
    std::iter::from_fn(move || {
        loop {
            if let Some(entry) = queue.next() {
                return Some(Ok(entry));
            }
            match reader.next_item() {
                // Damaged lines are skipped without a report, because opening the session reports them.
                Ok(Some(Item::Bad(_))) => {}
                Ok(Some(Item::Commit(entries))) => {
                    let at = reader.end().total.saturating_sub(reader.raw_line().len() as u64 + 1);
                    queue = entries.into_iter().map(|entry| (at, entry)).collect::<Vec<_>>().into_iter();
                }
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

/// Returns the start of the first line after the one that contains this byte.
fn line_behind(file: &mut File, byte: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(byte))?;
    let mut input = BufReader::with_capacity(1 << 12, file);
    Ok(byte + input.skip_until(b'\n')? as u64)
}

/// Returns the start of the line with the entry of this number, or of the next line if there is none.
fn line_of(file: &mut File, seq: Seq) -> io::Result<u64> {
    let end = file.metadata()?.len();
    // Binary search. The wanted line begins at `low` or later, and before `high`.
    let (mut low, mut high) = (0, end);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let start = line_behind(file, middle - 1)?;
        match first_seq(file, start, high)? {
            Some((at, first)) if first <= seq => low = at,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Returns the first line in the range whose start has an entry number: its offset and that number.
fn first_seq(file: &mut File, mut start: u64, end: u64) -> io::Result<Option<(u64, Seq)>> {
    while start < end {
        file.seek(SeekFrom::Start(start))?;
        let mut head = Vec::new();
        file.by_ref().take(HEAD).read_to_end(&mut head)?;
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if let Some(seq) = seq_in(line) {
            return Ok(Some((start, seq)));
        }
        start = line_behind(file, start)?;
    }
    Ok(None)
}

/// Parses the number in `…"entries":[{"seq":12,…`.
fn seq_in(head: &[u8]) -> Option<Seq> {
    let at = memmem::find(head, br#""seq":"#)? + 6;
    let digits = head[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let text: String = digits.map(|byte| char::from(*byte)).collect();
    text.parse().ok().map(Seq)
}

/// Returns the complete lines in a part of the file that contain these bytes. The part must end with a complete line.
fn lines_with(file: &mut File, part: Range<u64>, bytes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    file.seek(SeekFrom::Start(part.start))?;
    let mut input = BufReader::with_capacity(1 << 18, file.take(part.end - part.start));
    let finder = memmem::Finder::new(bytes);
    let (mut out, mut line) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        if finder.find(&line).is_some() {
            out.push(std::mem::take(&mut line));
        }
        line.clear();
    }
    Ok(out)
}

/// Returns the kind of the entry with this number, as far as a revert of it matters.
fn target_at(file: &mut File, seq: Seq) -> io::Result<Target> {
    let start = line_of(file, seq)?;
    for item in lines(file, start)? {
        let (_, entry) = item?;
        if entry.seq > seq {
            break;
        }
        if entry.seq == seq {
            return Ok(match &entry.kind {
                EntryKind::Message { message } if replay::is_written_by_user(message) => Target::UserMessage,
                EntryKind::Compaction(_) => Target::Compaction,
                EntryKind::Revert { .. } => Target::Revert,
                _ => Target::Other,
            });
        }
    }
    Ok(Target::Other)
}
