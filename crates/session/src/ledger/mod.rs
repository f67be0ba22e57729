//! The ledger: what happened in a session, in order, and never rewritten.
//!
//! Model: one line of `ledger.jsonl` is one commit (see [`mod@line`]); [`Ledger`] appends commits, [`Reader`] reads them. The
//! chain of hashes and the sequence numbers are kept in memory, so appending costs what is new and nothing else. Every
//! commit goes through a backlog: in the normal case it is empty again at once; when the disk is full or gone, commits
//! wait there in order and are written as soon as that works again. So a commit is never refused because of the disk.
//!
//! Invariants:
//! - One writer: an OS lock on the file `lock` beside the ledger, which ends with the process, however it dies.
//! - Whole or not at all: one `write(2)` per commit; what a failed write left is cut off, or fenced by a newline.
//! - What is on disk is a prefix of what was committed, byte for byte.
//! - Nothing is deleted: a torn tail found at opening is moved to `ledger.torn-<n>`.
//!
//! Knows entries only as JSON with a sequence number; what they mean is the context engine's business.

mod ahead;
mod backwards;
mod entries;
pub mod line;
mod open;
mod reader;
mod take_over;
mod writer;

pub(crate) use ahead::read_to_end;
pub(crate) use backwards::has_line_ending;
pub use open::Opened;
pub(crate) use reader::claimed_format;
pub use reader::{BadKind, BadRecord, End, Item, Proof, Reader};
pub use take_over::take_over;

use crate::store::{Durability, Io, StoreError};
use becket_types::{Entry, Seq};
use line::Draft;
use serde::Serialize;
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use writer::DiskLedger;

/// A ledger that is open for appending.
#[derive(Debug)]
pub struct Ledger {
    place: Place,
    /// Hash of the last commit.
    head: String,
    last_seq: Seq,
}

#[derive(Debug)]
enum Place {
    /// Nothing of it goes to disk, ever.
    Memory(Vec<Vec<u8>>),
    Disk(Box<DiskLedger>),
}

/// Reads a ledger wherever its lines are.
pub type AnyReader<'a> = Reader<Box<dyn BufRead + 'a>>;

impl Ledger {
    /// A ledger that lives and dies with this process.
    pub fn memory() -> Self {
        Self::new(Place::Memory(Vec::new()))
    }

    /// A ledger in the folder `dir`, with its first commit. When the folder cannot be used the ledger stands in memory
    /// and a warning says so.
    ///
    /// # Errors
    /// [`StoreError::Exists`] or [`StoreError::Locked`] when there is such a ledger; [`StoreError::Encode`].
    pub fn create(io: Arc<dyn Io>, dir: &Path, first: &[Entry]) -> Result<Self, StoreError> {
        let mut ledger = Self::new(Place::Disk(Box::new(DiskLedger::new(io, dir.to_path_buf()))));
        ledger.append(first, Durability::Buffered)?;
        if let Place::Disk(disk) = &mut ledger.place
            && let Some(conflict) = disk.take_conflict()
        {
            return Err(conflict);
        }
        Ok(ledger)
    }

    fn new(place: Place) -> Self {
        Self { place, head: line::GENESIS.to_owned(), last_seq: Seq(0) }
    }

    /// The sequence number of the last entry; 0 when there is none.
    pub fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// Hash of the last commit.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Where the file ends, when all of the ledger is in it and it can be written.
    pub(crate) fn end_on_disk(&self) -> Option<End> {
        let Place::Disk(disk) = &self.place else { return None };
        let good = disk.whole()?;
        Some(End { good, total: good, open: false, head: self.head.clone(), last_seq: self.last_seq })
    }

    /// Commits that are not on disk although they should be.
    pub fn backlog(&self) -> usize {
        match &self.place {
            Place::Memory(_) => 0,
            Place::Disk(disk) => disk.backlog(),
        }
    }

    /// Whether it is kept on disk, now or as soon as the disk allows.
    pub fn is_persistent(&self) -> bool {
        matches!(self.place, Place::Disk(_))
    }

    /// Appends one commit. Its sequence numbers must go on from [`Ledger::last_seq`].
    ///
    /// # Errors
    /// For entries that cannot be a line ([`StoreError::Encode`], [`StoreError::TooLarge`]), and when another process took
    /// the ledger over ([`StoreError::TakenOver`]). Nothing happened then. A failing disk is a warning, see [`Ledger::take_warnings`].
    pub fn append(&mut self, entries: &[Entry], durability: Durability) -> Result<(), StoreError> {
        let Some(last) = entries.last() else { return Ok(()) };
        let last = last.seq;
        self.append_draft(self.draft(&entries)?, last, durability)
    }

    /// Appends entries of another ledger as they are, byte for byte.
    pub(crate) fn append_raw(&mut self, entries: &[&RawValue], last: Seq) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.append_draft(self.draft(&entries)?, last, Durability::Buffered)
    }

    /// The next line with these entries, to look at before it is appended.
    pub(crate) fn draft(&self, entries: &impl Serialize) -> Result<Draft, StoreError> {
        Ok(Draft::new(&self.head, entries)?)
    }

    /// Appends a line that [`Ledger::draft`] made last; `last` is the number of its last entry.
    pub(crate) fn append_draft(
        &mut self,
        draft: Draft,
        last: Seq,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let limit = line::MAX_LINE - 1024;
        let bytes = draft.entries().len();
        if bytes > limit {
            return Err(StoreError::TooLarge { bytes: bytes as u64, limit: limit as u64 });
        }
        let (line, hash) = draft.finish();
        match &mut self.place {
            Place::Memory(lines) => lines.push(line),
            Place::Disk(disk) => disk.append(line, durability)?,
        }
        self.head = hash;
        self.last_seq = last;
        Ok(())
    }

    /// Tries again to write what waits. True when nothing waits any more.
    pub fn flush(&mut self) -> bool {
        match &mut self.place {
            Place::Memory(_) => true,
            Place::Disk(disk) => disk.flush(),
        }
    }

    /// What the user must know, in plain sentences, since last asked.
    pub fn take_warnings(&mut self) -> Vec<String> {
        match &mut self.place {
            Place::Memory(_) => Vec::new(),
            Place::Disk(disk) => disk.take_warnings(),
        }
    }

    /// As [`Ledger::read`], from a copy of what waits in memory: the ledger may be appended to meanwhile.
    pub fn read_apart(&self) -> Result<Reader<Box<dyn BufRead + Send>>, StoreError> {
        let copy = |lines: &mut dyn Iterator<Item = &Vec<u8>>| -> Cursor<Vec<u8>> {
            Cursor::new(lines.flatten().copied().collect())
        };
        let input: Box<dyn BufRead + Send> = match &self.place {
            Place::Memory(lines) => Box::new(copy(&mut lines.iter())),
            Place::Disk(disk) => {
                let waiting = copy(&mut disk.waiting());
                match disk.open_for_reading()? {
                    Some(file) => {
                        Box::new(BufReader::with_capacity(1 << 16, file).chain(&b"\n"[..]).chain(waiting))
                    }
                    None => Box::new(waiting),
                }
            }
        };
        Ok(Reader::new(input))
    }

    /// Reads the whole ledger again, what waits in memory included.
    pub fn read(&self) -> Result<AnyReader<'_>, StoreError> {
        let input: Box<dyn BufRead + '_> = match &self.place {
            Place::Memory(lines) => Box::new(BufReader::new(Lines::new(lines.iter()))),
            Place::Disk(disk) => {
                let waiting = Lines::new(disk.waiting());
                match disk.open_for_reading()? {
                    // The newline fences off what a failed write may have left.
                    Some(file) => Box::new(BufReader::new(file.chain(&b"\n"[..]).chain(waiting))),
                    None => Box::new(BufReader::new(waiting)),
                }
            }
        };
        Ok(Reader::new(input))
    }
}

/// Reads the ledger of a session that may be open elsewhere. Takes no lock and changes nothing.
pub fn read(session_dir: &Path) -> Result<Reader<BufReader<File>>, StoreError> {
    let path = crate::store::ledger_path(session_dir);
    let file = File::open(&path).map_err(|e| not_found_or(e, session_dir, &path))?;
    Ok(Reader::new(BufReader::with_capacity(1 << 16, file)))
}

fn not_found_or(error: io::Error, session_dir: &Path, path: &Path) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            StoreError::NotFound { query: session_dir.display().to_string() }
        }
        _ => StoreError::io("read", path)(error),
    }
}

/// Where set-aside tails go: the first free `ledger.torn-<n>`.
fn torn_path(dir: &Path, n: u32) -> PathBuf {
    dir.join(format!("ledger.torn-{n}"))
}

/// Lines in memory as one stream of bytes.
struct Lines<'a, I> {
    lines: I,
    now: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a Vec<u8>>> Lines<'a, I> {
    fn new(lines: I) -> Self {
        Self { lines, now: &[] }
    }
}

impl<'a, I: Iterator<Item = &'a Vec<u8>>> Read for Lines<'a, I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.now.is_empty() {
            match self.lines.next() {
                Some(line) => self.now = line,
                None => return Ok(0),
            }
        }
        self.now.read(buffer)
    }
}
