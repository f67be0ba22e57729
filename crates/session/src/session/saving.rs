//! Saving what the disk refused: blobs first, then the entries that name them.
//!
//! Invariant: no entry is written before the blobs that it names. While one of them waits in memory, the entry waits too, and
//! with it all later entries, because the ledger has an order.

use super::Session;
use crate::blobs::named_by;
use becket_types::Entry;
use std::collections::BTreeSet;

impl Session {
    /// Writes waiting blobs. If that fails, and one of these new entries names a waiting blob, the entries wait from now on.
    pub(super) fn settle_blobs(&mut self, entries: &[Entry]) {
        if self.blobs.flush() {
            self.ledger.release();
            return;
        }
        let mut named = BTreeSet::new();
        for entry in entries {
            named_by(entry, &self.blobs, &mut named);
        }
        if self.blobs.waits_for(&named) {
            self.ledger.hold();
        }
    }

    /// Returns the number of commits that are waiting for the disk.
    pub fn backlog(&self) -> usize {
        self.ledger.backlog()
    }

    /// True if commits are waiting for the disk, or were refused because another process has taken the session over.
    pub fn has_unsaved(&self) -> bool {
        self.ledger.backlog() > 0 || self.ledger.is_taken_over()
    }

    /// Tries again to write everything that waits for the disk. Returns true if nothing is waiting, and nothing was
    /// refused. Call it before exiting.
    pub fn flush(&mut self) -> bool {
        let blobs = self.blobs.flush();
        if blobs {
            self.ledger.release();
        }
        self.ledger.flush() && blobs
    }
}
