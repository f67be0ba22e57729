//! Keeps the raw output of a command up to a limit: in memory while it is small, then in a file without a name.
//!
//! Model: the first [`HEAD`] bytes and the last [`TAIL`] bytes are kept; the tail is a ring in the file. The file never has
//! a name, so the system deletes it with the process, however that ends. It is never on a file system in memory, because
//! large outputs would fill the memory.

use crate::sys;
use becket_tool::Host;
use becket_types::BlobId;
use std::fs::{File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub(crate) const HEAD: u64 = 16 * 1024 * 1024;
pub(crate) const TAIL: u64 = 48 * 1024 * 1024;
/// Outputs of up to this many bytes stay in memory.
const IN_MEMORY: usize = 512 * 1024;
/// Maximum number of bytes that one session keeps.
const MAX_SESSION_BYTES: u64 = 1024 * 1024 * 1024;
/// Maximum number of bytes that all sessions together keep.
const MAX_ALL_SESSIONS_BYTES: u64 = 5 * MAX_SESSION_BYTES;

/// The folders for a session's outputs, and the number of bytes that are in use.
#[derive(Debug, Default)]
pub(crate) struct SpillStore {
    /// Candidates: the first that can be written and is on a disk is used.
    directories: Vec<PathBuf>,
    /// The folder in which all sessions keep their outputs.
    store: Option<PathBuf>,
    /// Bytes that this session has kept.
    used: AtomicU64,
    /// Bytes that all sessions together had kept when this one first needed a file.
    before: OnceLock<u64>,
}

impl SpillStore {
    pub(crate) fn new(directories: Vec<PathBuf>, store: Option<PathBuf>) -> Self {
        Self { directories, store, ..Self::default() }
    }

    fn file(&self) -> io::Result<File> {
        let used = self.used.load(Ordering::Relaxed);
        if used >= MAX_SESSION_BYTES {
            return Err(io::Error::other("this session has kept 1 GB of outputs already"));
        }
        let before = self.before.get_or_init(|| self.store.as_deref().map_or(0, bytes_below));
        if before + used >= MAX_ALL_SESSIONS_BYTES {
            return Err(io::Error::other("all sessions together keep 5 GB already; delete old ones"));
        }
        let mut failed = None;
        for directory in &self.directories {
            let made = std::fs::metadata(directory)
                .map(drop)
                .or_else(|_| private_folder(directory))
                .and_then(|()| {
                    if sys::is_in_memory(directory) {
                        return Err(io::Error::other(format!(
                            "{} is memory, not a disk",
                            directory.display()
                        )));
                    }
                    tempfile::tempfile_in(directory)
                });
            match made {
                Ok(file) => return Ok(file),
                Err(e) => drop(failed.get_or_insert(e)),
            }
        }
        Err(failed.unwrap_or_else(|| io::Error::other("there is no place for it")))
    }
}

/// Creates a folder that only its owner can read, or takes the access of others away from an existing one.
///
/// # Errors
///
/// Fails if the folder cannot be created or belongs to another user, or if its permissions cannot be changed.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    becket_files::private::dir(folder)?;
    let meta = std::fs::metadata(folder)?;
    let us = rustix::process::geteuid();
    if !us.is_root() && meta.uid() != us.as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder belongs to another user"));
    }
    if meta.mode() & 0o077 != 0 {
        std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Total size of the files below `directory`, in bytes.
fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |meta| meta.len()),
        _ => 0,
    };
    entries.map(size).sum()
}

pub(crate) struct Spill {
    store: Arc<SpillStore>,
    small: Vec<u8>,
    file: Option<File>,
    total: u64,
    failed: Option<String>,
}

impl Spill {
    pub(crate) fn new(place: Arc<SpillStore>) -> Self {
        Self { store: place, small: Vec::new(), file: None, total: 0, failed: None }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none()
            && let Err(e) = self.write(bytes)
        {
            self.failed = Some(e.to_string());
            self.small = Vec::new();
            self.file = None;
        }
        self.total += bytes.len() as u64;
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            if self.small.len() + bytes.len() <= IN_MEMORY {
                self.small.extend_from_slice(bytes);
                return Ok(());
            }
            let file = self.store.file()?;
            file.write_all_at(&self.small, 0)?;
            self.small = Vec::new();
            self.file = Some(file);
        }
        let Some(file) = &self.file else { return Ok(()) };
        let (mut at, mut rest) = (self.total, bytes);
        while !rest.is_empty() {
            let (place, room) = place_of(at);
            let n = rest.len().min(usize::try_from(room).unwrap_or(rest.len()));
            file.write_all_at(&rest[..n], place)?;
            at += n as u64;
            rest = &rest[n..];
        }
        Ok(())
    }

    /// Writes the output so far into the session's blob store. `Err` says why it is not kept.
    pub(crate) fn keep(&self, host: &dyn Host) -> Result<BlobId, String> {
        if let Some(why) = &self.failed {
            return Err(why.clone());
        }
        self.store.used.fetch_add(self.total.min(HEAD + TAIL), Ordering::Relaxed);
        match &self.file {
            None => host.put_blob(&self.small),
            Some(_) => host.put_blob_from(&mut *self.whole()?),
        }
    }

    /// Returns a reader of all bytes that are kept. `Err` says why none are.
    pub(crate) fn whole(&self) -> Result<Box<dyn Read + '_>, String> {
        if let Some(why) = &self.failed {
            return Err(why.clone());
        }
        let Some(file) = &self.file else { return Ok(Box::new(self.small.as_slice())) };
        let section = |from: u64, to: u64| Section { file, at: from, end: to };
        if self.total <= HEAD + TAIL {
            return Ok(Box::new(section(0, self.total)));
        }
        let note = format!("\n[{} bytes left out]\n", self.total - HEAD - TAIL);
        let seam = HEAD + (self.total - HEAD) % TAIL;
        let tail = section(seam, HEAD + TAIL).chain(section(HEAD, seam));
        Ok(Box::new(section(0, HEAD).chain(io::Cursor::new(note)).chain(tail)))
    }

    /// Returns the last `most` bytes. `most` must be at most [`TAIL`], because older bytes may be overwritten. `Err` says why none
    /// are kept.
    pub(crate) fn last(&self, most: usize) -> Result<Vec<u8>, String> {
        if let Some(why) = &self.failed {
            return Err(why.clone());
        }
        let Some(file) = &self.file else {
            return Ok(self.small[self.small.len().saturating_sub(most)..].to_vec());
        };
        let mut at = self.total.saturating_sub(most as u64);
        let mut out = Vec::with_capacity(most);
        while at < self.total {
            let (place, room) = place_of(at);
            let part = (self.total - at).min(room);
            let mut section = Section { file, at: place, end: place + part };
            section.read_to_end(&mut out).map_err(|error| error.to_string())?;
            at += part;
        }
        Ok(out)
    }
}

/// Returns the position in the file of byte `at` of the output, and the number of bytes from there that are in order.
fn place_of(at: u64) -> (u64, u64) {
    if at < HEAD {
        return (at, HEAD - at);
    }
    let in_ring = (at - HEAD) % TAIL;
    (HEAD + in_ring, TAIL - in_ring)
}

/// A part of a file, read without moving its cursor.
struct Section<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let n = self.file.read_at(&mut buffer[..want], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_tool::testing::TestHost;

    #[test]
    fn the_folder_is_private_also_where_it_was_not() {
        let room = tempfile::tempdir().unwrap();
        let folder = room.path().join("data/spill");
        let mode = || std::fs::metadata(&folder).unwrap().mode() & 0o777;
        private_folder(&folder).unwrap();
        assert_eq!(mode(), 0o700);
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        private_folder(&folder).unwrap();
        assert_eq!(mode(), 0o700);
        std::fs::write(room.path().join("file"), "").unwrap();
        assert!(private_folder(&room.path().join("file")).is_err());
        if !rustix::process::geteuid().is_root() {
            assert!(private_folder(Path::new("/usr")).is_err(), "the folder of another user");
        }
    }

    fn kept(total: u64) -> (Vec<u8>, u64) {
        let host = TestHost::default();
        let directory = tempfile::tempdir().unwrap();
        let place = Arc::new(SpillStore::new(vec![directory.path().to_owned()], None));
        let mut spill = Spill::new(Arc::clone(&place));
        let mut at = 0u64;
        while at < total {
            let n = 1_000_003.min(total - at);
            let chunk: Vec<u8> = (at..at + n).map(|i| (i % 251) as u8).collect();
            spill.push(&chunk);
            at += n;
        }
        let id = spill.keep(&host).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "no file with a name");
        (host.get_blob(&id).unwrap(), place.used.load(Ordering::Relaxed))
    }

    #[test]
    fn whole_up_to_the_limit_and_both_ends_beyond() {
        for total in [0, 1, IN_MEMORY as u64, IN_MEMORY as u64 + 1, HEAD + 5] {
            let (bytes, used) = kept(total);
            assert_eq!((bytes.len() as u64, used), (total, total));
            assert!(bytes.iter().enumerate().all(|(i, b)| *b == (i as u64 % 251) as u8));
        }
        let total = HEAD + TAIL + 7_654_321;
        let (bytes, used) = kept(total);
        let note = b"\n[7654321 bytes left out]\n";
        assert_eq!(used, HEAD + TAIL);
        assert_eq!(bytes.len() as u64, HEAD + TAIL + note.len() as u64);
        let (head, rest) = bytes.split_at(HEAD as usize);
        let tail = rest.strip_prefix(note.as_slice()).unwrap();
        assert!(head.iter().enumerate().all(|(i, b)| *b == (i as u64 % 251) as u8));
        assert!(tail.iter().enumerate().all(|(i, b)| *b == ((total - TAIL + i as u64) % 251) as u8));
    }

    fn refused(place: SpillStore) -> String {
        let mut spill = Spill::new(Arc::new(place));
        spill.push(&vec![b'x'; IN_MEMORY + 1]);
        spill.keep(&TestHost::default()).unwrap_err()
    }

    #[test]
    fn what_is_full_keeps_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let disk = || vec![directory.path().to_owned()];
        let full = SpillStore { used: AtomicU64::new(MAX_SESSION_BYTES), ..SpillStore::new(disk(), None) };
        assert!(refused(full).contains("1 GB"));
        let store = tempfile::tempdir().unwrap();
        std::fs::create_dir(store.path().join("a")).unwrap();
        File::create(store.path().join("a/blob")).unwrap().set_len(MAX_ALL_SESSIONS_BYTES).unwrap();
        assert!(refused(SpillStore::new(disk(), Some(store.path().to_owned()))).contains("5 GB"));
        assert!(refused(SpillStore::default()).contains("no place"));
    }

    #[test]
    fn memory_is_no_disk() {
        let shm = PathBuf::from("/dev/shm");
        if !sys::is_in_memory(&shm) {
            return;
        }
        assert_eq!(refused(SpillStore::new(vec![shm.clone()], None)), "/dev/shm is memory, not a disk");
        // The next folder is used if the first is in memory.
        let disk = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(Arc::new(SpillStore::new(vec![shm, disk.path().to_owned()], None)));
        spill.push(&vec![b'x'; IN_MEMORY + 1]);
        assert_eq!(spill.keep(&TestHost::default()).is_ok(), !sys::is_in_memory(disk.path()));
    }
}
