//! The ledger: everything that happened in a session, in order. It is never rewritten.
//!
//! One line of `ledger.jsonl` is one commit (see [`mod@line`]). [`Ledger`] appends commits, [`Reader`] reads them. The last hash and
//! sequence number are kept in memory, so appending costs only what is new. Every commit goes through a queue, which is normally written
//! and empty again at once. If the disk is full or missing, commits wait in the queue, in order, and are written as soon as the disk works
//! again. So a commit is never refused because of the disk.
//!
//! Invariants:
//! - There is one writer: an OS lock on the file `lock` beside the ledger. The lock ends with the process in any case.
//! - A commit is written completely or not at all: one `write(2)` per commit. If a write fails, the bytes that were already written are cut
//!   off, or separated by a newline.
//! - The content of the disk is a prefix of what was committed, byte for byte.
//! - Nothing is deleted: an incomplete end found when opening is moved to `ledger.torn-<n>`.
//!
//! Knows entries only as JSON with a sequence number. Their meaning belongs to the context engine.

mod backwards;
mod entries;
pub mod line;
mod open;
mod read_ahead;
mod reader;
mod take_over;
mod writer;

pub(crate) use backwards::has_line_ending;
pub use open::Opened;
pub(crate) use read_ahead::read_to_end;
pub use reader::{BadKind, BadRecord, End, Item, Proof, Reader};
pub(crate) use reader::{MAX_SEQ, claimed_format};
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
    place: LedgerStorage,
    /// Hash of the last commit.
    head: String,
    last_seq: Seq,
}

#[derive(Debug)]
enum LedgerStorage {
    /// Lines that are never written to disk.
    Memory(Vec<Vec<u8>>),
    Disk(Box<DiskLedger>),
}

/// A reader of a ledger in memory or on disk.
pub type AnyReader<'a> = Reader<Box<dyn BufRead + 'a>>;

impl Ledger {
    /// Makes a ledger that is kept only in memory.
    pub fn memory() -> Self {
        Self::new(LedgerStorage::Memory(Vec::new()))
    }

    /// Creates a ledger in the folder `dir` with its first commit. If the folder cannot be used, the ledger
    /// is kept in memory and a warning says so.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Exists`] or [`StoreError::Locked`] if the folder already has a ledger, or [`StoreError::Encode`].
    pub fn create(io: Arc<dyn Io>, dir: &Path, first: &[Entry]) -> Result<Self, StoreError> {
        let mut ledger = Self::new(LedgerStorage::Disk(Box::new(DiskLedger::new(io, dir.to_path_buf()))));
        ledger.append(first, Durability::Buffered)?;
        if let LedgerStorage::Disk(disk) = &mut ledger.place
            && let Some(conflict) = disk.take_conflict()
        {
            return Err(conflict);
        }
        Ok(ledger)
    }

    fn new(place: LedgerStorage) -> Self {
        Self { place, head: line::GENESIS.to_owned(), last_seq: Seq(0) }
    }

    /// Returns the sequence number of the last entry; 0 if there is none.
    pub fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// Returns the hash of the last commit.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Returns the end of the ledger's file. `None` if the ledger is not on disk, if commits are waiting, or if the file is not writable.
    pub(crate) fn end_on_disk(&self) -> Option<End> {
        let LedgerStorage::Disk(disk) = &self.place else { return None };
        let good = disk.whole()?;
        Some(End { good, total: good, open: false, head: self.head.clone(), last_seq: self.last_seq })
    }

    /// Returns the number of commits that are waiting for the disk.
    pub fn backlog(&self) -> usize {
        match &self.place {
            LedgerStorage::Memory(_) => 0,
            LedgerStorage::Disk(disk) => disk.backlog(),
        }
    }

    /// True if another process took the ledger over, and a commit was refused because of that.
    pub(crate) fn is_taken_over(&self) -> bool {
        matches!(&self.place, LedgerStorage::Disk(disk) if disk.is_taken_over())
    }

    /// Looks if another process has taken the ledger over since the last commit.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::TakenOver`] if one has.
    pub(crate) fn check_held(&mut self) -> Result<(), StoreError> {
        match &mut self.place {
            LedgerStorage::Memory(_) => Ok(()),
            LedgerStorage::Disk(disk) => disk.check_held(),
        }
    }

    /// Keeps new commits in memory until [`Ledger::release`], because they depend on something that is not on disk yet.
    pub(crate) fn hold(&mut self) {
        if let LedgerStorage::Disk(disk) = &mut self.place {
            disk.hold();
        }
    }

    /// Ends a [`Ledger::hold`], and writes the commits that have waited.
    pub(crate) fn release(&mut self) {
        if let LedgerStorage::Disk(disk) = &mut self.place {
            disk.release();
        }
    }

    /// True if the ledger is kept on disk, now or as soon as the disk allows it.
    pub fn is_persistent(&self) -> bool {
        matches!(self.place, LedgerStorage::Disk(_))
    }

    /// Appends one commit. Its sequence numbers must continue after [`Ledger::last_seq`].
    ///
    /// # Errors
    ///
    /// Fails for entries that cannot be a line ([`StoreError::Encode`], [`StoreError::TooLarge`]), and if another process took the ledger
    /// over ([`StoreError::TakenOver`]). In these cases nothing was appended. A failing disk is only a warning, see
    /// [`Ledger::take_warnings`].
    pub fn append(&mut self, entries: &[Entry], durability: Durability) -> Result<(), StoreError> {
        let Some(last) = entries.last() else { return Ok(()) };
        let last = last.seq;
        self.append_draft(self.draft(&entries)?, last, durability)
    }

    /// Appends entries of another ledger unchanged, byte for byte.
    pub(crate) fn append_raw(&mut self, entries: &[&RawValue], last: Seq) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.append_draft(self.draft(&entries)?, last, Durability::Buffered)
    }

    /// Makes the next line with these entries, so that it can be examined before it is appended.
    pub(crate) fn draft(&self, entries: &impl Serialize) -> Result<Draft, StoreError> {
        Ok(Draft::new(&self.head, entries)?)
    }

    /// Appends the line that [`Ledger::draft`] made. No other line may have been appended since. `last` is the number of its last entry.
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
            LedgerStorage::Memory(lines) => lines.push(line),
            LedgerStorage::Disk(disk) => disk.append(line, durability)?,
        }
        self.head = hash;
        self.last_seq = last;
        Ok(())
    }

    /// Tries again to write waiting commits. Returns true if none is waiting any longer.
    pub fn flush(&mut self) -> bool {
        match &mut self.place {
            LedgerStorage::Memory(_) => true,
            LedgerStorage::Disk(disk) => disk.flush(),
        }
    }

    /// Returns the warnings for the user since the last call, as sentences.
    pub fn take_warnings(&mut self) -> Vec<String> {
        match &mut self.place {
            LedgerStorage::Memory(_) => Vec::new(),
            LedgerStorage::Disk(disk) => disk.take_warnings(),
        }
    }

    /// Like [`Ledger::read`], but copies the waiting commits, so that the ledger may be appended to while the reader is in use.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened.
    pub(crate) fn read_snapshot(&self) -> Result<Reader<Box<dyn BufRead + Send>>, StoreError> {
        let copy = |lines: &mut dyn Iterator<Item = &Vec<u8>>| -> Cursor<Vec<u8>> {
            Cursor::new(lines.flatten().copied().collect())
        };
        let input: Box<dyn BufRead + Send> = match &self.place {
            LedgerStorage::Memory(lines) => Box::new(copy(&mut lines.iter())),
            LedgerStorage::Disk(disk) => {
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

    /// Reads the whole ledger from its start, including waiting commits.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened.
    pub fn read(&self) -> Result<AnyReader<'_>, StoreError> {
        let input: Box<dyn BufRead + '_> = match &self.place {
            LedgerStorage::Memory(lines) => Box::new(BufReader::new(Lines::new(lines.iter()))),
            LedgerStorage::Disk(disk) => {
                let waiting = Lines::new(disk.waiting());
                match disk.open_for_reading()? {
                    // The file may end with a part of a failed write. The newline separates it from the waiting lines.
                    Some(file) => Box::new(BufReader::new(file.chain(&b"\n"[..]).chain(waiting))),
                    None => Box::new(BufReader::new(waiting)),
                }
            }
        };
        Ok(Reader::new(input))
    }
}

/// Reads the ledger of a session that may be open elsewhere. Takes no lock and changes nothing.
///
/// # Errors
///
/// Returns [`StoreError::NotFound`], or [`StoreError::Io`] if the file cannot be opened.
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

/// Returns the n-th path of a file for an incomplete end of the ledger.
fn torn_path(dir: &Path, n: u32) -> PathBuf {
    dir.join(format!("ledger.torn-{n}"))
}

/// Lines in memory as one stream of bytes.
struct Lines<'a, I> {
    lines: I,
    current: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a Vec<u8>>> Lines<'a, I> {
    fn new(lines: I) -> Self {
        Self { lines, current: &[] }
    }
}

impl<'a, I: Iterator<Item = &'a Vec<u8>>> Read for Lines<'a, I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.lines.next() {
                Some(line) => self.current = line,
                None => return Ok(0),
            }
        }
        self.current.read(buffer)
    }
}
