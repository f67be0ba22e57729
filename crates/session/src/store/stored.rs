//! Reads the entries of a stored session in order.
//!
//! Verifies the chain of commits through [`ledger`](crate::ledger); takes no lock and changes nothing.

use super::StoreError;
use crate::ledger::{BadRecord, Item, Proof, Reader};
use becket_types::Entry;
use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

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
    /// Returns proof of the lines that were verified so far, with which the same ledger is read again without verifying it.
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
