//! Stored sessions as files: their paths, how they are found, and the interface to the disk.
//!
//! The truth of a session is its folder (`ledger.jsonl` and `blobs/`). Everything here works with folders
//! alone, without the index. Listing reads only the first and last part of long ledgers, takes no lock and
//! changes nothing.

mod error;
mod io;
pub(crate) mod layout;
mod listing;
mod sys;
pub mod trash;

pub use error::{Candidate, StoreError};
pub(crate) use io::write_all;
pub use io::{Disk, Io, Named, OpenMode};
pub use layout::{canonical, ledger_path, project_dir, project_name, session_dir};
pub(crate) use listing::{CWD_BYTES, cwd_of, session_dirs_in};
pub use listing::{SessionSummary, find, list, most_recent, session_dirs, subagents, summary};
pub(crate) use sys::{FromStart, path_from_bytes};

use crate::ledger::{BadRecord, Item, Proof, Reader};
use becket_types::{Entry, Millis};
use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// The failures that a commit must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process: `write(2)`.
    Buffered,
    /// A power loss as well: `write(2)` and `fdatasync(2)`.
    Synced,
}

/// The disk and the clock that a session uses. Tests supply their own.
#[derive(Clone)]
pub struct Outside {
    pub io: Arc<dyn Io>,
    /// Timestamps of entries. For people only; nothing is ordered by it.
    pub clock: Arc<dyn Fn() -> Millis + Send + Sync>,
}

/// The default storage: the disk, unless the program sets another.
static PLACE: OnceLock<Arc<dyn Io>> = OnceLock::new();

/// Sets the default storage. Call it once, before any session is used. Returns false if it was already set.
pub fn keep_in(place: Arc<dyn Io>) -> bool {
    PLACE.set(place).is_ok()
}

impl Default for Outside {
    fn default() -> Self {
        let io = PLACE.get().map_or_else(|| Arc::new(Disk) as Arc<dyn Io>, Arc::clone);
        Self { io, clock: Arc::new(wall_clock) }
    }
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("io", &self.io).finish_non_exhaustive()
    }
}

fn wall_clock() -> Millis {
    millis(SystemTime::now())
}

/// Converts a time; 0 for times before 1970, because such a wrong clock only affects the display.
pub(crate) fn millis(time: SystemTime) -> Millis {
    Millis(time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64))
}

/// Returns the entries of a stored session in order. Unreadable records are returned as a [`BadRecord`] in
/// their place.
///
/// # Errors
///
/// Returns [`StoreError::NotFound`], or [`StoreError::Io`] if the ledger cannot be opened.
pub fn read_entries(session_dir: &Path) -> Result<Entries, StoreError> {
    Ok(Entries { reader: crate::ledger::read(session_dir)?, queue: VecDeque::new() })
}

/// Like [`read_entries`] without entries of some kinds, given by their JSON names, for callers that need
/// little of a long session. They are verified like all others but not parsed. An entry written in an unusual
/// form may be returned anyway.
///
/// # Errors
///
/// Returns the errors of [`read_entries`].
pub fn read_entries_without(
    session_dir: &Path,
    kinds: &'static [&'static str],
) -> Result<Entries, StoreError> {
    Ok(Entries { reader: crate::ledger::read(session_dir)?.without(kinds), queue: VecDeque::new() })
}

/// Iterator over entries; see [`read_entries`].
pub struct Entries {
    reader: Reader<BufReader<File>>,
    queue: VecDeque<Entry>,
}

impl Entries {
    /// Returns the lines that were verified so far, for reading them again.
    pub fn proof(&self) -> Proof {
        self.reader.proof()
    }
}

impl Iterator for Entries {
    /// Outer error: the disk failed. Inner error: one record is damaged, and the next call continues after
    /// it.
    type Item = std::io::Result<Result<Entry, BadRecord>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.queue.pop_front() {
                return Some(Ok(Ok(entry)));
            }
            match self.reader.next_item() {
                Ok(Some(Item::Commit(entries))) => self.queue.extend(entries),
                Ok(Some(Item::Bad(record))) => return Some(Ok(Err(record))),
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
