//! Opening an existing ledger: take the lock, read it, move an incomplete end to a file of its own.

use super::writer::{DiskLedger, Stage, locked};
use super::{BadRecord, End, Item, Ledger, LedgerStorage, Reader, not_found_or, read_ahead, torn_path};
use crate::store::{Io, OpenMode, StoreError, layout, write_all};
use becket_types::Entry;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A ledger opened for appending, and its damage.
#[derive(Debug)]
pub struct Opened {
    pub ledger: Ledger,
    /// Damaged records before the last good line. They stay in the ledger.
    pub bad: Vec<BadRecord>,
    /// File to which the incomplete end was moved, if there was one.
    pub torn: Option<PathBuf>,
}

/// Time that an opener waits for the lock. If a process is killed while it starts a child, the child holds a
/// copy of the lock until it runs its own program, which takes milliseconds. If the lock is held longer,
/// another process is really writing.
const PATIENCE: Duration = Duration::from_millis(1500);
const POLL: Duration = Duration::from_millis(5);

fn take_lock(disk: &mut DiskLedger) -> io::Result<File> {
    let mut tries = PATIENCE.as_millis() / POLL.as_millis();
    loop {
        match disk.take_lock() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && tries > 0 => {
                tries -= 1;
                std::thread::sleep(POLL);
            }
            taken => return taken,
        }
    }
}

impl Ledger {
    /// Opens the ledger in `dir` and passes every entry to `visit`, in order. Only a few lines are in memory
    /// at a time.
    ///
    /// A ledger that can be read but not written opens too. Appended commits then wait in memory, and a
    /// warning says so.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Locked`], [`StoreError::NotFound`], or [`StoreError::Io`] if it cannot be read.
    pub fn open(io: Arc<dyn Io>, dir: &Path, visit: &mut dyn FnMut(&Entry)) -> Result<Opened, StoreError> {
        Self::open_after(io, dir, None, visit)
    }

    /// Like [`Ledger::open`], but the part before `from` is neither read nor checked. A line must end at `from`, and the caller must
    /// already know the content before it, as from a checkpoint.
    pub(crate) fn open_after(
        io: Arc<dyn Io>,
        dir: &Path,
        from: Option<End>,
        visit: &mut dyn FnMut(&Entry),
    ) -> Result<Opened, StoreError> {
        let path = layout::ledger_path(dir);
        let mut reading = io.open(&path, OpenMode::Read).map_err(|e| not_found_or(e, dir, &path))?;
        let mut disk = DiskLedger::new(io, dir.to_path_buf());
        disk.sync.named = true;
        match take_lock(&mut disk) {
            Ok(lock) => disk.lock = Some(lock),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(locked(dir)),
            // If no lock file can be created, nothing can be written either. The first append will report
            // that.
            Err(_) => {}
        }
        let start = from.as_ref().map_or(0, |end| end.good);
        reading.seek(SeekFrom::Start(start)).map_err(StoreError::io("read", &path))?;
        let input = BufReader::with_capacity(1 << 16, &reading);
        let mut reader = Reader::resume(input, from.unwrap_or_else(End::start));
        let mut bad: Vec<BadRecord> = Vec::new();
        let length = reading.metadata().map_or(0, |meta| meta.len());
        read_ahead::read_to_end(&mut reader, length.saturating_sub(start), &mut |item| {
            match item {
                Item::Commit(entries) => entries.iter().for_each(&mut *visit),
                Item::Bad(record) => bad.push(record),
            }
            ControlFlow::Continue(())
        })
        .map_err(StoreError::io("read", &path))?;
        let end = reader.end().clone();
        bad.retain(|record| record.offset < end.good);
        if !bad.is_empty() && start > 0 {
            let before = lines_before(&reading, start).map_err(StoreError::io("read", &path))?;
            for record in &mut bad {
                record.line += before;
            }
        }
        disk.end.len = Some(end.good);
        disk.end.open = end.open;
        disk.stage = Stage::ReadOnly { total: end.total };
        if disk.lock.is_some()
            && let Ok(file) = disk.io.open(&path, OpenMode::Append)
        {
            // The last line is complete except for its newline. The newline is added at once, so that a later failed write cannot damage
            // the line.
            if end.open && write_all(disk.io.as_ref(), &file, b"\n").is_ok() {
                disk.end.len = Some(end.good + 1);
                disk.end.open = false;
            }
            disk.stage = Stage::Writable(file);
        }
        let torn =
            if end.total > end.good { disk.set_torn_tail_aside(&reading, end.good, end.total) } else { None };
        let ledger =
            Self { head: end.head, last_seq: end.last_seq, place: LedgerStorage::Disk(Box::new(disk)) };
        Ok(Opened { ledger, bad, torn })
    }
}

/// Counts the lines in the first `bytes` of the file.
fn lines_before(mut file: &File, bytes: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(0))?;
    let (mut left, mut chunk, mut lines) = (file.take(bytes), vec![0; 1 << 16], 0);
    loop {
        let n = left.read(&mut chunk)?;
        if n == 0 {
            return Ok(lines);
        }
        lines += chunk.iter().take(n).filter(|byte| **byte == b'\n').count() as u64;
    }
}

impl DiskLedger {
    /// Moves the bytes after the last good line to their own file. If that fails, they stay, and the next line will be separated from them
    /// by a newline.
    fn set_torn_tail_aside(&mut self, reading: &File, good: u64, total: u64) -> Option<PathBuf> {
        let moved = match &self.stage {
            Stage::Writable(file) => self.copy_tail(reading, good, total).and_then(|path| {
                self.io.set_len(file, good)?;
                Ok(path)
            }),
            _ => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        };
        match moved {
            Ok(path) => {
                self.warnings.push(format!(
                    "The last write to this session was cut off ({} bytes) and set aside as {}. Everything before it is intact.",
                    total - good,
                    path.display()
                ));
                Some(path)
            }
            Err(error) => {
                self.end.len = None;
                self.end.dirty = true;
                self.warnings.push(format!(
                    "The last write to this session was cut off ({} bytes) and could not be set aside ({error}). It is skipped.",
                    total - good
                ));
                None
            }
        }
    }

    fn copy_tail(&self, mut reading: &File, good: u64, total: u64) -> io::Result<PathBuf> {
        let (path, aside) = self.new_torn_file()?;
        reading.seek(SeekFrom::Start(good))?;
        let mut left = reading.take(total - good);
        let mut chunk = vec![0; 1 << 16];
        loop {
            let n = left.read(&mut chunk)?;
            if n == 0 {
                break;
            }
            write_all(self.io.as_ref(), &aside, chunk.get(..n).unwrap_or_default())?;
        }
        self.io.sync(&aside)?;
        // The new file's name is made durable too, before the bytes are removed from the ledger.
        self.io.sync_dir(&self.dir)?;
        Ok(path)
    }

    fn new_torn_file(&self) -> io::Result<(PathBuf, File)> {
        let mut n = 1;
        loop {
            let path = torn_path(&self.dir, n);
            match self.io.open(&path, OpenMode::New) {
                Ok(file) => return Ok((path, file)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && n < u32::MAX => n += 1,
                Err(e) => return Err(e),
            }
        }
    }
}
