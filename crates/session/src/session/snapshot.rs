//! A session at one moment, apart from the running one, for pages that show it while it continues.
//!
//! The view is a copy of the one in memory, so the ledger is not processed again. The entries are read from the
//! session's own ledger, on the thread of the reader. Changes nothing.

use super::Session;
use crate::blobs::BlobStore;
use crate::context::View;
use crate::ledger::{BadRecord, Item, Proof, Reader};
use crate::session::SessionInfo;
use crate::store::StoreError;
use becket_types::{Entry, Millis, Seq};
use std::fmt;
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;

/// A session at one moment. It stays as it is while the session continues.
#[derive(Debug)]
pub struct Snapshot {
    pub info: SessionInfo,
    /// Its folder; for a session in memory, the folder it would have.
    pub dir: PathBuf,
    pub title: Option<String>,
    /// True if the ledger is on disk.
    pub is_persistent: bool,
    /// The time of the snapshot.
    pub time: Millis,
    pub view: View,
    pub blobs: Arc<BlobStore>,
    pub history: History,
}

/// The entries of a session up to the moment of a [`Snapshot`].
pub struct History {
    reader: Reader<Box<dyn BufRead + Send>>,
    last: Seq,
    /// Size of the file if all entries are on disk.
    saved: Option<u64>,
    dir: PathBuf,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Session {
    /// Returns the session as it is now. Copies the texts of the view; entries are read later.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Io`] if the ledger cannot be opened, and [`StoreError::NotFound`] if its file is missing.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let (policy, scope) = (self.view.policy().clone(), self.view.scope().clone());
        // A checkpoint that was just made does not contradict itself.
        let view = View::restore(policy.clone(), scope.clone(), self.view.checkpoint());
        let history = History {
            reader: self.ledger.read_apart()?,
            last: self.last_seq(),
            saved: self.ledger.end_on_disk().map(|end| end.good),
            dir: self.dir.clone(),
        };
        Ok(Snapshot {
            info: self.info.clone(),
            dir: self.dir.clone(),
            title: self.title.clone(),
            is_persistent: self.is_persistent(),
            time: self.now(),
            view: view.unwrap_or_else(|| View::new(policy, scope)),
            blobs: self.blob_store(),
            history,
        })
    }
}

impl History {
    /// Passes each entry to `take`, in order, except those of the kinds with these JSON names. Returns the unreadable
    /// records, and the verified lines for reading the same ledger from the disk again.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Io`] if the ledger cannot be read.
    pub fn read(
        self,
        without: &'static [&'static str],
        take: &mut dyn FnMut(Entry),
    ) -> Result<(Vec<BadRecord>, Proof), StoreError> {
        let Self { reader, last, saved, dir } = self;
        let mut reader = reader.without(without);
        let mut bad = Vec::new();
        while let Some(item) = reader.next_item().map_err(StoreError::io("read", &dir))? {
            match item {
                Item::Commit(entries) => {
                    // Later entries were appended after the snapshot, whose view does not have them.
                    entries.into_iter().filter(|entry| entry.seq <= last).for_each(&mut *take);
                }
                // A line after the end may be one that is being written now.
                Item::Bad(record) if saved.is_none_or(|end| record.offset < end) => bad.push(record),
                Item::Bad(_) => {}
            }
        }
        // Positions of lines that are not on disk yet prove nothing about the file.
        let proof = if saved.is_some() { reader.proof() } else { Proof::default() };
        Ok((bad, proof))
    }
}
