//! Stored sessions as files: where they are, how they are found, and the seam to the disk.
//!
//! The truth of a session is its folder (`ledger.jsonl` and `blobs/`); everything here works from folders alone, without
//! the index. Listing reads only the first and the last part of long ledgers. Takes no lock and changes nothing.

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

/// How much a commit must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process: `write(2)`.
    Buffered,
    /// A power loss as well: `write(2)` and `fdatasync(2)`.
    Synced,
}

/// The world outside that a session touches: its disk and its clock. Tests bring their own.
#[derive(Clone)]
pub struct Outside {
    pub io: Arc<dyn Io>,
    /// Stamps entries; for people, nothing is ordered by it.
    pub clock: Arc<dyn Fn() -> Millis + Send + Sync>,
}

/// Where sessions are kept when nothing else is said: the disk, until the program names another place.
static PLACE: OnceLock<Arc<dyn Io>> = OnceLock::new();

/// From here on sessions are kept there. Once, before any session is touched; true when that was so.
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

/// 0 for moments before 1970: a clock that is that wrong is a display problem, not an error.
pub(crate) fn millis(time: SystemTime) -> Millis {
    Millis(time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64))
}

/// The entries of a stored session in order; what cannot be read comes as a [`BadRecord`] in its place.
pub fn read_entries(session_dir: &Path) -> Result<Entries, StoreError> {
    Ok(Entries { reader: crate::ledger::read(session_dir)?, queue: VecDeque::new() })
}

/// [`read_entries`] without those of some kinds, given by their names in JSON: for whoever wants little of a long session. They
/// are proven like all others and not looked into. An entry that is written in an unusual way may come nevertheless.
pub fn read_entries_without(
    session_dir: &Path,
    kinds: &'static [&'static str],
) -> Result<Entries, StoreError> {
    Ok(Entries { reader: crate::ledger::read(session_dir)?.without(kinds), queue: VecDeque::new() })
}

/// See [`read_entries`].
pub struct Entries {
    reader: Reader<BufReader<File>>,
    queue: VecDeque<Entry>,
}

impl Entries {
    /// What reading so far has proven, for reading again.
    pub fn proof(&self) -> Proof {
        self.reader.proof()
    }
}

impl Iterator for Entries {
    /// Outside: the disk failed. Inside: one record is damaged, the next call goes on behind it.
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
