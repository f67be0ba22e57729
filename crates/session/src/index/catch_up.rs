//! Updating the index: of each ledger, only what was appended since the last time is read.
//!
//! A transaction reads a batch of one or many ledgers, and first looks up where reading of each stopped. So
//! processes that update in parallel do not add a line twice. Many ledgers share a transaction, because every
//! commit adds a segment to the full-text table, and segments must be merged later.

use super::IndexError;
use super::batch::{self, Batch};
use crate::store::{layout, millis, session_dirs};
use becket_types::{Millis, SessionId};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of ledger bytes in one transaction, so that other processes do not wait long.
const BATCH: u64 = 4 << 20;
/// Minimum number of sessions in a new index for which its file is compacted at once.
const MANY: u64 = 8;

/// The result of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaughtUp {
    /// Number of sessions with new content.
    pub sessions: u64,
    /// Number of sessions whose folder was deleted.
    pub removed: u64,
    /// Number of sessions that could not be read.
    pub unreadable: u64,
}

/// A ledger that is not completely in the index.
struct OutdatedLedger {
    id: SessionId,
    dir: PathBuf,
    modified: Millis,
}

/// Reads what was appended to the ledgers since the last time. Ledgers that cannot be read are counted
/// and skipped.
pub(super) fn catch_up(connection: &mut Connection, root: &Path) -> Result<CaughtUp, IndexError> {
    let mut done = CaughtUp::default();
    let known = known(connection)?;
    let (mut seen, mut behind) = (BTreeSet::new(), Vec::new());
    for dir in session_dirs(root, None)? {
        let Some(id) = layout::id_of(&dir) else { continue };
        let name = id.to_string();
        // Counts as seen before its file is read: a session that cannot be read now stays in the index.
        seen.insert(name.clone());
        let Ok(metadata) = fs::metadata(layout::ledger_path(&dir)) else {
            done.unreadable += 1;
            continue;
        };
        let now = (metadata.len(), dir.clone());
        if known.get(&name) == Some(&now) {
            continue;
        }
        let modified = metadata.modified().map(millis).unwrap_or_default();
        behind.push(OutdatedLedger { id, dir, modified });
    }
    read_all(connection, &behind, &mut done)?;
    let gone: Vec<&String> = known.keys().filter(|id| !seen.contains(*id)).collect();
    if !gone.is_empty() {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for id in &gone {
            batch::forget(&transaction, id)?;
        }
        transaction.commit()?;
        done.removed = gone.len() as u64;
    }
    if known.is_empty() && done.sessions >= MANY {
        // Compacting only saves space, so it is skipped if another process uses the index.
        let _ = compact(connection);
    }
    Ok(done)
}

/// Returns ledger length and folder of every session in the index.
fn known(connection: &Connection) -> Result<BTreeMap<String, (u64, PathBuf)>, IndexError> {
    let mut statement = connection.prepare_cached("SELECT id, bytes, dir FROM sessions")?;
    let rows = statement.query_map([], |row| {
        let dir = crate::store::path_from_bytes(&row.get::<_, Vec<u8>>(2)?);
        Ok((row.get(0)?, (row.get::<_, i64>(1)? as u64, dir)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read_all(
    connection: &mut Connection,
    ledgers: &[OutdatedLedger],
    done: &mut CaughtUp,
) -> Result<(), IndexError> {
    let mut rest = ledgers.iter().peekable();
    while rest.peek().is_some() {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut room = BATCH;
        while let Some(ledger) = rest.peek().filter(|_| room > 0) {
            match read_some(&transaction, ledger, &mut room) {
                // The rest of this ledger follows in the next transaction.
                Ok(false) => break,
                Ok(true) => done.sessions += 1,
                Err(IndexError::Io(_)) => done.unreadable += 1,
                Err(error) => return Err(error),
            }
            rest.next();
        }
        transaction.commit()?;
    }
    Ok(())
}

/// Releases the space of deleted sessions and empties the write-ahead log. Fails if another process uses the index.
pub(super) fn compact(connection: &Connection) -> Result<(), IndexError> {
    connection.execute_batch("INSERT INTO texts (texts) VALUES ('optimize'); VACUUM;")?;
    // If a reader still uses the log, this has no effect, and a later writer empties it.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Reads about `room` bytes of a ledger into the index. Returns true if its end was reached. If the ledger
/// cannot be read, nothing is written.
fn read_some(
    transaction: &Transaction<'_>,
    ledger: &OutdatedLedger,
    room: &mut u64,
) -> Result<bool, IndexError> {
    let OutdatedLedger { id, dir, modified } = ledger;
    let (batch, read) = Batch::read(batch::stored(transaction, *id)?, *id, dir, *modified, *room)?;
    batch.save(transaction)?;
    *room = room.saturating_sub(read);
    Ok(batch.whole)
}
