//! Appending to `ledger.jsonl` through a disk that may fail at any call.
//!
//! A queue of lines precedes the file. [`DiskLedger::append`] adds a line to the queue and then writes from
//! its front, one `write(2)` per line, until the queue is empty or the disk fails. A line leaves the queue
//! only when the file contains it completely. The file itself is created together with its first line
//! (`ledger.new`, then renamed), so a `ledger.jsonl` without a complete first commit never exists.
//!
//! A line counts as written only if `lock` and `ledger.jsonl` still name the files that are open here. A
//! process that takes a session over replaces both (see [`super::take_over`]). So a process that was
//! suspended meanwhile writes to a file that nobody reads, and notices it.

use super::not_found_or;
use crate::store::{Durability, FromStart, Io, OpenMode, PathState, StoreError, layout, write_all};
use becket_types::SessionId;
use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The state of the file.
#[derive(Debug)]
pub(super) enum Stage {
    /// The file does not exist yet.
    New,
    Writable(File),
    /// The file cannot be opened for writing, and has `total` bytes. A later attempt may succeed.
    ReadOnly {
        total: u64,
    },
    /// Another process has taken the session over, or the folder was deleted. This process keeps its commits in memory permanently. The
    /// file is the one that this process had open, if any.
    Lost(Option<File>),
}

/// The state of the file's end.
#[derive(Debug)]
pub(super) struct FileEnd {
    /// Number of bytes in complete lines; `None` if unknown, and then nothing is ever cut off.
    pub(super) len: Option<u64>,
    /// True if the last complete line has no newline.
    pub(super) open: bool,
    /// True if an incomplete line that could not be cut off may follow the last complete one.
    pub(super) dirty: bool,
}

/// Lines and names that must still be synced to disk.
#[derive(Debug, Default)]
pub(super) struct SyncState {
    /// True once the names of a new file and its folders were synced.
    pub(super) named: bool,
    /// True if a line was written that must survive a power loss and is not synced yet.
    due: bool,
    failing: bool,
}

#[derive(Debug)]
pub(super) struct DiskLedger {
    pub(super) io: Arc<dyn Io>,
    pub(super) dir: PathBuf,
    pub(super) stage: Stage,
    /// The lock file. The lock is held as long as this value exists.
    pub(super) lock: Option<File>,
    pub(super) end: FileEnd,
    backlog: VecDeque<Vec<u8>>,
    pub(super) sync: SyncState,
    /// True if the last write failed.
    failing: bool,
    pub(super) warnings: Vec<String>,
    conflict: Option<StoreError>,
    taken_over: bool,
    /// True while new lines must wait, because a blob that they name is not on disk.
    waits_for_blobs: bool,
}

impl DiskLedger {
    pub(super) fn new(io: Arc<dyn Io>, dir: PathBuf) -> Self {
        Self {
            io,
            dir,
            stage: Stage::New,
            lock: None,
            end: FileEnd { len: Some(0), open: false, dirty: false },
            backlog: VecDeque::new(),
            sync: SyncState::default(),
            failing: false,
            warnings: Vec::new(),
            conflict: None,
            taken_over: false,
            waits_for_blobs: false,
        }
    }

    pub(super) fn is_taken_over(&self) -> bool {
        self.taken_over
    }

    /// Looks if this process still has the session, without writing anything.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::TakenOver`] if another process has taken it.
    pub(super) fn check_held(&mut self) -> Result<(), StoreError> {
        // If the folder is gone, the session continues in memory, which the next commit reports.
        let _ = self.still_ours();
        if self.taken_over { Err(self.refusal()) } else { Ok(()) }
    }

    fn refusal(&self) -> StoreError {
        StoreError::TakenOver { id: layout::id_of(&self.dir).unwrap_or_default() }
    }

    pub(super) fn hold(&mut self) {
        self.waits_for_blobs = true;
    }

    /// Ends a hold, and writes the lines that have waited.
    pub(super) fn release(&mut self) {
        if !std::mem::take(&mut self.waits_for_blobs) {
            return;
        }
        let waited = self.backlog.len();
        if waited > 0 && !self.failing && self.flush() {
            self.warnings.push(works_again(waited));
        }
    }

    pub(super) fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Returns the size of the file, if it contains the whole ledger and nothing else.
    pub(super) fn whole(&self) -> Option<u64> {
        let settled = self.backlog.is_empty() && !self.end.dirty && !self.end.open;
        self.end.len.filter(|_| settled && matches!(self.stage, Stage::Writable(_)))
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.backlog.iter()
    }

    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns the reason why a new ledger must not be created here, if there is one.
    pub(super) fn take_conflict(&mut self) -> Option<StoreError> {
        self.conflict.take()
    }

    /// Opens the part of the ledger that is on disk: the file that this process wrote, even if its name was deleted. `None` if there is
    /// none.
    pub(super) fn open_for_reading(&self) -> Result<Option<FromStart>, StoreError> {
        let path = layout::ledger_path(&self.dir);
        let file = match &self.stage {
            Stage::New | Stage::Lost(None) => return Ok(None),
            Stage::Writable(file) | Stage::Lost(Some(file)) => {
                file.try_clone().map_err(StoreError::io("read", &path))?
            }
            Stage::ReadOnly { .. } => File::open(&path).map_err(|e| not_found_or(e, &self.dir, &path))?,
        };
        Ok(Some(FromStart { file, at: 0 }))
    }

    /// # Errors
    ///
    /// Returns [`StoreError::TakenOver`] if this line was not saved. Everything else that a disk does is a
    /// warning.
    pub(super) fn append(&mut self, line: Vec<u8>, durability: Durability) -> Result<(), StoreError> {
        self.backlog.push_back(line);
        if durability == Durability::Synced {
            self.sync.due = true;
        }
        self.flush();
        if self.taken_over {
            self.backlog.clear();
            return Err(self.refusal());
        }
        Ok(())
    }

    /// Writes waiting lines in order, and syncs them to disk if that is due. Returns true if none is waiting.
    pub(super) fn flush(&mut self) -> bool {
        if matches!(self.stage, Stage::Lost(_)) {
            return self.backlog.is_empty() && !self.taken_over;
        }
        if self.waits_for_blobs {
            return self.backlog.is_empty();
        }
        let waited = self.backlog.len();
        match self.write_backlog() {
            Ok(()) => {
                if std::mem::take(&mut self.failing) {
                    self.warnings.push(works_again(waited));
                }
                self.sync_file();
                true
            }
            Err(error) => {
                if matches!(self.stage, Stage::Lost(_)) {
                    // The caller reports the line that it just appended. Lines that were already waiting are reported here.
                    if self.taken_over && self.backlog.len() > 1 {
                        self.warnings.push(format!(
                            "{} waiting writes were not saved and are in memory only, because another process took this session over.",
                            self.backlog.len() - 1
                        ));
                    }
                } else if let Some(conflict) = self.as_conflict(&error) {
                    self.stage = Stage::Lost(None);
                    self.warnings.push(format!("This session is not saved: {conflict}."));
                    self.conflict = Some(conflict);
                } else if !std::mem::replace(&mut self.failing, true) {
                    self.warnings.push(format!(
                        "Cannot save this session in {}: {error}. It goes on in memory and is saved as soon as \
                         writing works again; free some space or make the directory writable before you leave.",
                        self.dir.display()
                    ));
                }
                false
            }
        }
    }

    fn write_backlog(&mut self) -> io::Result<()> {
        while let Some(line) = self.backlog.pop_front() {
            let written = self
                .ready()
                .and_then(|()| self.still_ours())
                .and_then(|()| self.write_line(&line))
                .and_then(|()| self.still_ours());
            if let Err(error) = written {
                // The write may have failed because another process has taken the session. This check finds that out and records it.
                let _ = self.still_ours();
                self.backlog.push_front(line);
                return Err(error);
            }
        }
        Ok(())
    }

    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        // The file gets its name only after its first line, so that no ledger without a first commit can exist.
        if matches!(self.stage, Stage::New) {
            return self.establish(line);
        }
        let Stage::Writable(file) = &self.stage else { return Err(io::ErrorKind::PermissionDenied.into()) };
        let io = self.io.as_ref();
        if self.end.dirty
            && let Some(len) = self.end.len
            && io.set_len(file, len).is_ok()
        {
            self.end.dirty = false;
        }
        let bytes = if self.end.dirty || self.end.open {
            let fenced = [b"\n", line].concat();
            write_all(io, file, &fenced).map(|()| fenced.len())
        } else {
            write_all(io, file, line).map(|()| line.len())
        };
        match bytes {
            Ok(bytes) => {
                self.end.len = if self.end.dirty {
                    io.len(file).ok()
                } else {
                    self.end.len.map(|len| len + bytes as u64)
                };
                self.end.dirty = false;
                self.end.open = false;
                Ok(())
            }
            Err(error) => {
                self.end.dirty = self.end.len.is_none_or(|len| io.set_len(file, len).is_err());
                Err(error)
            }
        }
    }

    /// Called before a write to check that this process may write, and after it to check that the line went
    /// to the file that others read.
    fn still_ours(&mut self) -> io::Result<()> {
        let Stage::Writable(file) = &self.stage else { return Ok(()) };
        // The lock is checked last, because a takeover replaces it first. If it is still ours here, a line that was written before is in
        // the copy that a later takeover makes.
        let of_ledger = self.io.named(file, &layout::ledger_path(&self.dir));
        let of_lock = self.lock.as_ref().map(|lock| self.io.named(lock, &self.dir.join(layout::LOCK)));
        // If the check itself fails, nothing changes. The next line checks again.
        match (of_lock, of_ledger) {
            (Some(Ok(PathState::Other)), _) => {
                self.taken_over = true;
                self.lose();
            }
            (_, Ok(PathState::Nothing | PathState::Other)) => {
                self.warnings.push(format!(
                    "The folder of this session ({}) was deleted, moved or replaced while it ran: from here on it is kept \
                     in memory only.",
                    self.dir.display()
                ));
                self.lose();
            }
            (Some(Ok(PathState::Nothing)), _) => match self.take_lock() {
                Ok(lock) => self.lock = Some(lock),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.taken_over = true;
                    self.lose();
                }
                Err(_) => {}
            },
            _ => {}
        }
        if matches!(self.stage, Stage::Lost(_)) { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
    }

    fn lose(&mut self) {
        let file = match std::mem::replace(&mut self.stage, Stage::Lost(None)) {
            Stage::Writable(file) => Some(file),
            _ => None,
        };
        self.stage = Stage::Lost(file);
    }

    /// Opens a file for writing that could only be read until now. Does nothing in any other state.
    fn ready(&mut self) -> io::Result<()> {
        let Stage::ReadOnly { total } = self.stage else { return Ok(()) };
        if self.lock.is_none() {
            self.lock = Some(self.take_lock()?);
        }
        let file = self.io.open(&layout::ledger_path(&self.dir), OpenMode::Append)?;
        if self.io.len(&file)? != total {
            // Another process has written to the file while this one had no lock, so its history differs from ours.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.stage = Stage::Writable(file);
        Ok(())
    }

    /// Creates the folder, the lock and the file with its first line. The file gets its name last.
    fn establish(&mut self, first: &[u8]) -> io::Result<()> {
        self.io.create_dir(&self.dir)?;
        if self.lock.is_none() {
            self.lock = Some(self.take_lock()?);
        }
        let path = layout::ledger_path(&self.dir);
        match self.io.open(&path, OpenMode::Read) {
            Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let new = self.dir.join(layout::LEDGER_NEW);
        let file = self.io.open(&new, OpenMode::Fresh)?;
        write_all(self.io.as_ref(), &file, first)?;
        self.io.rename(&new, &path)?;
        self.end.len = Some(first.len() as u64);
        self.stage = Stage::Writable(file);
        Ok(())
    }

    /// Takes the lock of the folder. Returns `WouldBlock` if another process has it.
    pub(super) fn take_lock(&mut self) -> io::Result<File> {
        let path = self.dir.join(layout::LOCK);
        // Locking needs no write permission, so an existing lock file can be locked on a read-only disk too.
        let file = match self.io.open(&path, OpenMode::Touch) {
            Ok(file) => file,
            Err(error) => self.io.open(&path, OpenMode::Read).map_err(|_| error)?,
        };
        match self.io.lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => self.warnings.push(format!(
                "The file system of {} has no file locks ({error}), so becket cannot stop a second process from writing to this session. Do not open it twice.",
                self.dir.display()
            )),
        }
        Ok(file)
    }

    fn as_conflict(&self, error: &io::Error) -> Option<StoreError> {
        let id = layout::id_of(&self.dir);
        match error.kind() {
            io::ErrorKind::WouldBlock => Some(locked(&self.dir)),
            io::ErrorKind::AlreadyExists if self.lock.is_some() && matches!(self.stage, Stage::New) => {
                Some(StoreError::Exists { id: id.unwrap_or(SessionId(uuid::Uuid::nil())) })
            }
            _ => None,
        }
    }

    fn sync_file(&mut self) {
        if !self.sync.due {
            return;
        }
        let Stage::Writable(file) = &self.stage else { return };
        let forced =
            self.io.sync(file).and_then(|()| if self.sync.named { Ok(()) } else { self.sync_names() });
        match forced {
            Ok(()) => {
                self.sync.named = true;
                self.sync.due = false;
                self.sync.failing = false;
            }
            // The sync stays due, so the next commit tries again.
            Err(error) => {
                if !std::mem::replace(&mut self.sync.failing, true) {
                    self.warnings.push(format!(
                        "{} was written but could not be synced to disk ({error}): a power failure now may lose its last entries.",
                        layout::ledger_path(&self.dir).display()
                    ));
                }
            }
        }
    }

    /// Makes the names of the session's folder, its project's folder and the root durable, because a new
    /// ledger may have created all three.
    fn sync_names(&self) -> io::Result<()> {
        self.dir
            .ancestors()
            .take(3)
            .filter(|dir| !dir.as_os_str().is_empty())
            .try_for_each(|dir| self.io.sync_dir(dir))
    }
}

impl Drop for DiskLedger {
    /// Unlocks explicitly. Closing the file is not enough, because a child process that another thread is
    /// starting holds a copy of it until it runs its own program.
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            let _ = self.io.unlock(lock);
        }
    }
}

fn works_again(waited: usize) -> String {
    format!("Saving works again: {waited} waiting writes are on disk now.")
}

pub(super) fn locked(dir: &Path) -> StoreError {
    let id = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    StoreError::Locked { id, dir: dir.to_path_buf() }
}
