//! The interface between storage and the disk: every call that can fail for reasons outside becket goes
//! through [`Io`].
//!
//! [`Disk`] is the real implementation. Tests use one that fails at the n-th call, for every n. Reading whole
//! ledgers does not use this interface; readers are tested with real damaged files.

use super::sys::{self, PathState};
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;

/// The way in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; the file must exist.
    Read,
    /// For reading and appending; the file must exist.
    Append,
    /// For reading and appending; created if missing, emptied if it exists.
    Fresh,
    /// For appending; created if missing, otherwise unchanged.
    Touch,
    /// For appending; the file must not exist.
    New,
}

/// Operations of the disk that storage needs.
pub trait Io: Send + Sync + Debug {
    /// Creates the directory and its parents, private to the user. Succeeds if it exists.
    ///
    /// # Errors
    ///
    /// Returns the error of the system, for example if a parent cannot be written.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Opens a file in this mode. New files are private to the user.
    ///
    /// # Errors
    ///
    /// Returns the error of the system: `NotFound` for [`OpenMode::Read`] and [`OpenMode::Append`], `AlreadyExists` for
    /// [`OpenMode::New`], and others such as missing permission.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File>;
    /// Takes the lock of the file, or returns at once if another process has it. The lock ends when the file is closed.
    ///
    /// # Errors
    ///
    /// Returns [`TryLockError::WouldBlock`] if another process has the lock, or the error of the system.
    fn lock(&self, file: &File) -> Result<(), TryLockError>;
    /// Makes one `write(2)`; may write fewer bytes than requested.
    ///
    /// # Errors
    ///
    /// Returns the error of the system, for example of a full disk. Nothing was written then.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize>;
    /// Cuts a file to `len` bytes, or extends it with zeros.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()>;
    /// Returns the length of a file in bytes.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    fn len(&self, file: &File) -> io::Result<u64>;
    /// Calls `fdatasync(2)`.
    ///
    /// # Errors
    ///
    /// Returns the error of the disk. The written bytes may then be lost, and calling it again does not prove otherwise.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Syncs a directory, so that names that were created, renamed or removed in it survive a power loss.
    ///
    /// # Errors
    ///
    /// Returns the error of the system, for example if the directory does not exist.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file, and replaces a file that has the name `to`.
    ///
    /// # Errors
    ///
    /// Returns the error of the system, for example if `from` does not exist.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes a hard link; a copy if the file system has no hard links.
    ///
    /// # Errors
    ///
    /// Returns the error of the copy if neither works. A name that exists already is no error.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    ///
    /// Returns the error of the system: `NotFound` if there is no such file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a session's folder with everything in it.
    ///
    /// # Errors
    ///
    /// Returns the error of the system. Some of the files may have been removed before.
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }
    /// Releases a lock before its file is closed: a child process that is starting may hold a copy of the file.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    fn unlock(&self, file: &File) -> io::Result<()> {
        file.unlock()
    }
    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// Returns the error of the system: `NotFound` if there is no such file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Checks if `path` still names this file.
    ///
    /// # Errors
    ///
    /// Returns the error of the system. A path that does not exist is a result, not an error.
    fn named(&self, file: &File, path: &Path) -> io::Result<PathState> {
        sys::named(file, path)
    }
}

/// Writes all of `bytes`, normally with one call of [`Io::write`].
pub(crate) fn write_all(io: &dyn Io, file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match io.write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The real disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Io for Disk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        sys::private_dir(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        let mut options = OpenOptions::new();
        sys::private_file(&mut options);
        match mode {
            OpenMode::Read => options.read(true),
            OpenMode::Append => options.read(true).append(true),
            OpenMode::Fresh => {
                // `append` and `truncate` cannot be combined in one call.
                let file = options.read(true).append(true).create(true).open(path)?;
                file.set_len(0)?;
                return Ok(file);
            }
            OpenMode::Touch => options.append(true).create(true),
            OpenMode::New => options.append(true).create_new(true),
        };
        options.open(path)
    }

    fn lock(&self, file: &File) -> Result<(), TryLockError> {
        file.try_lock()
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn len(&self, file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        sys::sync_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::hard_link(from, to) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(_) => fs::copy(from, to).map(drop),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }
}
