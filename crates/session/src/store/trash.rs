//! The trash: deleted sessions, kept for 30 days, which can be restored unchanged.
//!
//! A session is its folder, so deleting it is one rename to `trash/<project>/<session>`, with the time in its
//! own file `trashed`. Sessions that another process writes are neither moved nor deleted. Only [`purge`]
//! deletes permanently, and only sessions that have been here long enough; [`discard_unused`] deletes a
//! session in which nothing ever happened.

use super::{
    Io, OpenMode, SessionSummary, StoreError, layout, refuse_elsewhere, session_dirs, summary, write_all,
};
use becket_types::{Millis, SessionId};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Time for which a session is kept in the trash.
pub const RETENTION: Millis = Millis(30 * 86_400_000);
/// Maximum size in bytes of a ledger with only its first entry, for any project path.
const MOST_OF_A_FIRST_ENTRY: u64 = 64 * 1024;
const STAMP: &str = "trashed";

/// A session in the trash.
#[derive(Clone, Debug)]
pub struct Trashed {
    pub summary: SessionSummary,
    /// Time of the removal, in milliseconds since 1970.
    pub at: Millis,
    /// Size of the whole folder in bytes.
    pub bytes: u64,
}

/// Moves a session to the trash below `trash`.
///
/// # Errors
///
/// Returns [`StoreError::Locked`] if a process writes it, [`StoreError::Exists`] if it is already there.
pub fn throw_away(io: &dyn Io, trash: &Path, dir: &Path, now: Millis) -> Result<PathBuf, StoreError> {
    let failed = || StoreError::io("throw away", dir);
    let _lock = locked(io, dir)?;
    let target = trash.join(project_of(dir)).join(dir.file_name().unwrap_or_default());
    if target.exists() {
        return Err(StoreError::Exists { id: layout::id_of(dir).unwrap_or_default() });
    }
    io.create_dir(target.parent().unwrap_or(trash)).map_err(failed())?;
    let stamp = io.open(&dir.join(STAMP), OpenMode::Fresh).map_err(failed())?;
    write_all(io, &stamp, now.0.to_string().as_bytes()).map_err(failed())?;
    io.rename(dir, &target).map_err(failed())?;
    Ok(target)
}

/// Returns all sessions in the trash, most recently deleted first.
///
/// # Errors
///
/// Returns [`StoreError::Io`] if a folder of the trash cannot be read.
pub fn trashed(trash: &Path) -> Result<Vec<Trashed>, StoreError> {
    let of = |dir: &PathBuf| {
        let stamp = fs::read_to_string(dir.join(STAMP)).ok();
        let at = stamp.and_then(|text| text.trim().parse().ok()).map(Millis);
        let summary = summary(dir)?;
        // If no time is recorded, the last write counts. A recorded time before the last write came from a wrong clock, so the last write
        // counts too.
        Some(Trashed { at: at.unwrap_or_default().max(summary.ledger.updated), bytes: size(dir), summary })
    };
    let mut found: Vec<Trashed> = session_dirs(trash, None)?.iter().filter_map(of).collect();
    found.sort_by_key(|t| std::cmp::Reverse((t.at, t.summary.id)));
    Ok(found)
}

/// Moves a session back to its folder below `root`.
///
/// # Errors
///
/// Returns [`StoreError::Exists`] if a session with that id exists again, in its project or another one.
pub fn bring_back(io: &dyn Io, root: &Path, trashed: &Trashed) -> Result<PathBuf, StoreError> {
    let dir = &trashed.summary.dir;
    let failed = || StoreError::io("bring back", dir);
    let target = root.join(project_of(dir)).join(dir.file_name().unwrap_or_default());
    if target.exists() {
        return Err(StoreError::Exists { id: trashed.summary.id });
    }
    let project = target.parent().unwrap_or(root);
    refuse_elsewhere(root, project, trashed.summary.id)?;
    io.create_dir(project).map_err(failed())?;
    io.rename(dir, &target).map_err(failed())?;
    let _ = io.remove(&target.join(STAMP));
    Ok(target)
}

/// Deletes permanently all sessions that have been in the trash for [`RETENTION`], or all sessions. Returns their
/// ids and sizes in bytes.
///
/// # Errors
///
/// Returns [`StoreError::Io`] for the first folder that cannot be deleted; earlier ones are deleted.
pub fn purge(io: &dyn Io, trash: &Path, now: Millis, all: bool) -> Result<Vec<(SessionId, u64)>, StoreError> {
    let mut gone = Vec::new();
    for old in trashed(trash)? {
        let dir = &old.summary.dir;
        if !(all || now.0.saturating_sub(old.at.0) >= RETENTION.0) || locked(io, dir).is_err() {
            continue;
        }
        io.remove_dir(dir).map_err(StoreError::io("delete", dir))?;
        gone.push((old.summary.id, old.bytes));
    }
    Ok(gone)
}

/// Deletes a session in which nothing happened: it has only its first entry and no file beside its ledger. Returns true if it was deleted.
/// Does nothing while a process has it open for writing.
///
/// # Errors
///
/// Returns [`StoreError::Io`] if it cannot be read or deleted.
pub fn discard_unused(io: &dyn Io, dir: &Path) -> Result<bool, StoreError> {
    let failed = || StoreError::io("discard", dir);
    if !dir.exists() {
        return Ok(false);
    }
    let Ok(_lock) = locked(io, dir) else { return Ok(false) };
    for file in fs::read_dir(dir).map_err(failed())? {
        let name = file.map_err(failed())?.file_name();
        if name != layout::LOCK && name != layout::LEDGER {
            return Ok(false);
        }
    }
    let ledger = layout::ledger_path(dir);
    if fs::metadata(&ledger).map_err(failed())?.len() > MOST_OF_A_FIRST_ENTRY {
        return Ok(false);
    }
    let ledger = fs::read(ledger).map_err(failed())?;
    if ledger.iter().position(|b| *b == b'\n').is_none_or(|at| at + 1 != ledger.len()) {
        return Ok(false);
    }
    io.remove_dir(dir).map_err(failed())?;
    Ok(true)
}

/// Takes the lock of a session until it is dropped, so that no other process writes it.
fn locked(io: &dyn Io, dir: &Path) -> Result<fs::File, StoreError> {
    let path = dir.join(layout::LOCK);
    let file = io.open(&path, OpenMode::Touch).map_err(StoreError::io("lock", &path))?;
    match io.lock(&file) {
        Ok(()) => Ok(file),
        Err(_) => Err(StoreError::Locked {
            id: layout::id_of(dir).unwrap_or_default().to_string(),
            dir: dir.to_path_buf(),
        }),
    }
}

fn project_of(dir: &Path) -> PathBuf {
    dir.parent().and_then(Path::file_name).map(PathBuf::from).unwrap_or_default()
}

/// Returns the size of all files below a folder in bytes. Links are not followed.
pub fn size(dir: &Path) -> u64 {
    fn walk(dir: &Path) -> io::Result<u64> {
        let mut sum = 0;
        for entry in fs::read_dir(dir)?.flatten() {
            let metadata = entry.metadata()?;
            sum += if metadata.is_dir() { walk(&entry.path()).unwrap_or(0) } else { metadata.len() };
        }
        Ok(sum)
    }
    walk(dir).unwrap_or(0)
}
