//! Bringing the index up to the ledgers: of each, only what was appended since last time.
//!
//! A transaction reads a batch, of one ledger or of many, and first asks of each where reading stopped; so processes that
//! catch up side by side do not read a line into the index twice. Many in one, because each transaction that is closed
//! makes another piece of the table of words, and pieces are merged again and again.

use super::batch::{self, Batch};
use super::{Index, IndexError};
use crate::store::{layout, millis, session_dirs};
use becket_types::{Millis, SessionId};
use rusqlite::{Transaction, TransactionBehavior};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// Bytes of ledger in one transaction, so that nobody waits long.
const BATCH: u64 = 4 << 20;
/// From this many sessions on, a new index is merged into its smallest form at once.
const MANY: u64 = 8;

/// What a catch-up did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaughtUp {
    /// Sessions with something new.
    pub sessions: u64,
    /// Sessions whose folder is gone.
    pub removed: u64,
    /// Sessions that could not be read now.
    pub unreadable: u64,
}

/// A ledger that the index has not read to its end.
struct Behind {
    id: SessionId,
    dir: PathBuf,
    modified: Millis,
}

impl Index {
    /// Reads what the ledgers got since last time. A ledger that cannot be read is counted and passed over.
    pub fn catch_up(&mut self) -> Result<CaughtUp, IndexError> {
        let mut done = CaughtUp::default();
        let known = self.known()?;
        let (mut seen, mut behind) = (BTreeSet::new(), Vec::new());
        for dir in session_dirs(&self.root, None) {
            let Some(id) = layout::id_of(&dir) else { continue };
            let name = id.to_string();
            let Ok(metadata) = fs::metadata(layout::ledger_path(&dir)) else {
                done.unreadable += 1;
                continue;
            };
            let now = (metadata.len(), dir.clone());
            seen.insert(name.clone());
            if known.get(&name) == Some(&now) {
                continue;
            }
            let modified = metadata.modified().map(millis).unwrap_or_default();
            behind.push(Behind { id, dir, modified });
        }
        self.read_all(&behind, &mut done)?;
        let gone: Vec<&String> = known.keys().filter(|id| !seen.contains(*id)).collect();
        if !gone.is_empty() {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for id in &gone {
                batch::forget(&transaction, id)?;
            }
            transaction.commit()?;
            done.removed = gone.len() as u64;
        }
        if known.is_empty() && done.sessions >= MANY {
            // Its size is a matter of space alone: where somebody else is at it, it stays as it is.
            let _ = self.compact();
        }
        Ok(done)
    }

    /// Ledger length and folder of every session in the index.
    fn known(&self) -> Result<BTreeMap<String, (u64, PathBuf)>, IndexError> {
        let mut statement = self.connection.prepare_cached("SELECT id, bytes, dir FROM sessions")?;
        let rows = statement.query_map([], |row| {
            let dir = crate::store::path_from_bytes(&row.get::<_, Vec<u8>>(2)?);
            Ok((row.get(0)?, (row.get::<_, i64>(1)? as u64, dir)))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn read_all(&mut self, ledgers: &[Behind], done: &mut CaughtUp) -> Result<(), IndexError> {
        let mut rest = ledgers.iter().peekable();
        while rest.peek().is_some() {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut room = BATCH;
            while let Some(ledger) = rest.peek().filter(|_| room > 0) {
                match read_some(&transaction, ledger, &mut room) {
                    // Its rest comes with the next transaction.
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
}

/// Reads about `room` bytes of a ledger into the index. True when its end is reached. Where the ledger cannot be read,
/// nothing of this was written.
fn read_some(transaction: &Transaction<'_>, ledger: &Behind, room: &mut u64) -> Result<bool, IndexError> {
    let Behind { id, dir, modified } = ledger;
    let (batch, read) = Batch::read(batch::stored(transaction, *id)?, *id, dir, *modified, *room)?;
    batch.save(transaction)?;
    *room = room.saturating_sub(read);
    Ok(batch.whole)
}
