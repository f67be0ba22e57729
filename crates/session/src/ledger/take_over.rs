//! Taking a session over from a process that holds it: hung, suspended, or in a terminal that nobody can
//! reach.
//!
//! An OS lock cannot be taken away from its process. Therefore the file `lock` is replaced by a new one that is locked here, and then
//! `ledger.jsonl` by a copy of itself. The other process notices the new lock when it writes its next line, and that line is not part of
//! the session. Anything it still writes, at whatever instruction it was suspended, goes into the old file that nobody reads any more. A
//! line that the other process successfully committed was written before the lock was replaced, so the copy contains it.

use super::not_found_or;
use super::writer::locked;
use crate::store::{Io, OpenMode, StoreError, layout, write_all};
use std::fs::{File, TryLockError};
use std::io::Read;
use std::path::Path;

const LOCK_NEW: &str = "lock.new";
const LEDGER_COPY: &str = "ledger.copy";

/// Takes the session in `dir` from the process that holds it, so that it can be opened. The old holder can add nothing more, and reports
/// that when it tries.
///
/// # Errors
///
/// Returns [`StoreError::Locked`] if another process is taking it over, [`StoreError::NotFound`], or
/// [`StoreError::Io`]; the ledger is unchanged then.
pub fn take_over(io: &dyn Io, dir: &Path) -> Result<(), StoreError> {
    let path = layout::ledger_path(dir);
    io.open(&path, OpenMode::Read).map_err(|e| not_found_or(e, dir, &path))?;
    let failed = || StoreError::io("take over", dir);
    let new = dir.join(LOCK_NEW);
    let lock = io.open(&new, OpenMode::Touch).map_err(failed())?;
    match io.lock(&lock) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(locked(dir)),
        Err(TryLockError::Error(error)) => return Err(failed()(error)),
    }
    io.rename(&new, &dir.join(layout::LOCK)).map_err(failed())?;
    // The ledger is opened only after the lock was replaced, because an earlier takeover may have replaced the file.
    let reading = io.open(&path, OpenMode::Read).map_err(failed())?;
    let copied = copy(io, &reading, dir).map_err(failed());
    // Unlocked explicitly, because a child that another thread is starting may hold a copy of the lock.
    let _ = io.unlock(&lock);
    copied
}

fn copy(io: &dyn Io, mut reading: &File, dir: &Path) -> std::io::Result<()> {
    let path = dir.join(LEDGER_COPY);
    let file = io.open(&path, OpenMode::Fresh)?;
    let mut chunk = vec![0; 1 << 16];
    loop {
        let n = reading.read(&mut chunk)?;
        if n == 0 {
            break;
        }
        write_all(io, &file, chunk.get(..n).unwrap_or_default())?;
    }
    io.sync(&file)?;
    io.rename(&path, &layout::ledger_path(dir))?;
    io.sync_dir(dir)
}
