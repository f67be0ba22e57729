//! Saving what the disk refused: blobs first, then the entries that name them.
//!
//! Invariant: no entry is written before the blobs that it names. While one of them waits in memory, the entry waits too, and
//! with it all later entries, because the ledger has an order.

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
