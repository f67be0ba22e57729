//! Stored sessions as files: their paths, how they are found, and the interface to the disk.
//!
//! The truth of a session is its folder (`ledger.jsonl` and `blobs/`). Everything here works with folders
//! alone, without the index. Listing reads only the first and last part of long ledgers, takes no lock and
//! changes nothing.

mod error;
mod io;
pub(crate) mod layout;
mod listing;
mod stored;
mod sys;
pub mod trash;

pub use error::{Candidate, StoreError};
pub(crate) use io::write_all;
pub use io::{Disk, Io, OpenMode};
pub use layout::{BLOBS, canonical, id_of, ledger_path, project_name, session_dir, transcript_path};
pub(crate) use listing::{CWD_BYTES, cwd_of, refuse_elsewhere};
pub use listing::{
    LedgerFigures, SessionSummary, TRASH, find, first_words, list, most_recent, session_dirs,
    session_dirs_in, subagents, summary, unreadable,
};
pub use stored::{Entries, read_entries, read_entries_without};
pub use sys::PathState;
pub(crate) use sys::{FromStart, path_from_bytes};

use becket_types::Millis;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// The failures that a commit must survive, and how it is written for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process: one `write(2)`.
    Buffered,
    /// A power loss as well: `write(2)` and `fdatasync(2)`.
    Synced,
}

/// The disk and the clock that a session uses. Tests supply their own.
#[derive(Clone)]
pub struct Outside {
    /// The disk: every call that can fail goes through it.
    pub io: Arc<dyn Io>,
    /// Gives the time of new entries. It is only shown to people; the order of entries does not depend on it.
    pub clock: Arc<dyn Fn() -> Millis + Send + Sync>,
}

/// The storage that sessions use by default: the one of [`set_default_storage`], otherwise the disk.
static DEFAULT_STORAGE: OnceLock<Arc<dyn Io>> = OnceLock::new();

/// Sets the default storage. Call it once, before any session is used. Returns false if it was already set.
pub fn set_default_storage(place: Arc<dyn Io>) -> bool {
    DEFAULT_STORAGE.set(place).is_ok()
}

impl Default for Outside {
    fn default() -> Self {
        let io = DEFAULT_STORAGE.get().map_or_else(|| Arc::new(Disk) as Arc<dyn Io>, Arc::clone);
        Self { io, clock: Arc::new(wall_clock) }
    }
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("io", &self.io).finish_non_exhaustive()
    }
}

pub(crate) fn wall_clock() -> Millis {
    millis(SystemTime::now())
}

/// Converts a time; 0 for times before 1970, because such a wrong clock only affects the display.
pub(crate) fn millis(time: SystemTime) -> Millis {
    Millis(time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64))
}
