//! A copy of a session at one moment, for exports and views that read it while the session continues.
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

/// A session at one moment. It does not change while the session continues.
#[derive(Debug)]
pub struct Snapshot {
    pub info: SessionInfo,
    /// Folder of the session; for a session in memory, the folder that it would have.
    pub dir: PathBuf,
    pub title: Option<String>,
    /// True if the ledger is on disk.
    pub is_persistent: bool,
    /// The time of the snapshot.
    pub time: Millis,
    pub view: View,
    pub blobs: Arc<BlobStore>,
    /// The entries of the session up to this moment.
    pub history: History,
}

/// The entries of a session up to the moment of a [`Snapshot`].
pub struct History {
    reader: Reader<Box<dyn BufRead + Send>>,
    last: Seq,
    /// Size in bytes of the ledger file, if all entries are on disk.
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
        // A checkpoint that was just made is always valid, so the fallback, an empty view, is never used.
        let view = View::restore(policy.clone(), scope.clone(), self.view.checkpoint());
        let history = History {
            reader: self.ledger.read_snapshot()?,
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
    /// Passes each entry to `take`, in order, except those of the kinds with these JSON names. Returns the unreadable records, and proof of
    /// the verified lines, with which the same ledger is read from the disk again without verifying it.
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
                    // Entries that were appended after the snapshot are left out, because its view does not have them.
                    entries.into_iter().filter(|entry| entry.seq <= last).for_each(&mut *take);
                }
                // A damaged line after the end of the snapshot may be a line that is being written now.
                Item::Bad(record) if saved.is_none_or(|end| record.offset < end) => bad.push(record),
                Item::Bad(_) => {}
            }
        }
        // If some lines are only in memory, their offsets differ from those in the file, so the proof would be wrong.
        let proof = if saved.is_some() { reader.proof() } else { Proof::default() };
        Ok((bad, proof))
    }
}
