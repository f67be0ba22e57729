//! Taking a session over from a process that holds it: hung, stopped, or in a terminal that nobody can reach.
//!
//! An OS lock cannot be taken away from its process. So the file `lock` is replaced by a new one, which is locked here, and
//! then `ledger.jsonl` by a copy of itself. The other process notices the first at its next line, which then does not count;
//! and whatever it still writes, stopped between any two instructions, goes into the file that nobody reads any more. A
//! line that counted there was written before the lock was replaced, and so is in the copy.

use super::not_found_or;
use super::writer::locked;
use crate::store::{Io, OpenMode, StoreError, layout, write_all};
use std::fs::{File, TryLockError};
use std::io::Read;
use std::path::Path;

const LOCK_NEW: &str = "lock.new";
const LEDGER_COPY: &str = "ledger.copy";

/// Makes the session in `dir` free to be opened, whoever holds it. That process can add nothing more; it says so when it
/// tries.
///
/// # Errors
/// [`StoreError::Locked`] while another process is taking it over, [`StoreError::NotFound`], [`StoreError::Io`]; the ledger
/// is as it was then.
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
    // Opened only now: whoever took it over before us put another file there.
    let reading = io.open(&path, OpenMode::Read).map_err(failed())?;
    let copied = copy(io, &reading, dir).map_err(failed());
    // A child that another thread is just starting may hold a copy of it.
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
