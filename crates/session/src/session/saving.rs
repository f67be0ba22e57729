//! Saving what the disk refused: blobs first, then the entries that name them.
//!
//! Invariant: an entry is not written before all blobs that it names are on disk. While such a blob waits in memory, the entry waits too,
//! and all later entries with it, because a ledger is written in order.

use super::Session;
use crate::blobs::named_by;
use becket_types::Entry;
use std::collections::BTreeSet;

/// Writes waiting blobs. If that fails, and one of these new entries names a waiting blob, the entries wait from now on.
pub(super) fn settle_blobs(session: &mut Session, entries: &[Entry]) {
    if session.blobs.flush() {
        session.ledger.release();
        return;
    }
    let mut named = BTreeSet::new();
    for entry in entries {
        named_by(entry, &session.blobs, &mut named);
    }
    if session.blobs.waits_for(&named) {
        session.ledger.hold();
    }
}
