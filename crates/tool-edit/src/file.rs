//! Reading a file in order to change it: its bytes, and a stamp that identifies its state.
//!
//! Owns what is refused before reading (kernel files, special files, huge files) and the wording of system
//! errors. `store` writes.

use becket_tool::paths;
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum size in bytes of a file that is edited.
pub(crate) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Identifies the state of a file between reading and replacing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub device: u64,
    pub inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn from_metadata(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

impl From<&rustix::fs::Stat> for Stamp {
    fn from(stat: &rustix::fs::Stat) -> Self {
        Self {
            device: stat.st_dev as _,
            inode: stat.st_ino as _,
            size: stat.st_size as _,
            modified: (stat.st_mtime as _, stat.st_mtime_nsec as _),
            changed: (stat.st_ctime as _, stat.st_ctime_nsec as _),
        }
    }
}

/// The bytes of an existing file, and its state when they were read.
#[derive(Debug)]
pub(crate) struct Current {
    pub bytes: Vec<u8>,
    pub stamp: Stamp,
    /// Permission bits.
    pub mode: u32,
}

/// The reason why a file was not read or written. The text is for the model.
#[derive(Debug)]
pub(crate) enum FileError {
    Missing,
    /// Another program wrote, created or removed the file after becket looked at it.
    Changed,
    Refused(String),
}

impl From<String> for FileError {
    fn from(text: String) -> Self {
        Self::Refused(text)
    }
}

/// Reads a regular file of at most [`MAX_BYTES`].
///
/// # Errors
///
/// Returns the reason for the model.
pub(crate) fn read(path: &Path) -> Result<Current, FileError> {
    if let Some(tree) = ["/proc", "/sys"].iter().find(|tree| path.starts_with(tree)) {
        return Err(format!("{} is not edited: {tree} holds no ordinary files.", path.display()).into());
    }
    let (mut file, meta) = paths::open_file(path).map_err(|error| match error {
        error if error.is_not_found() => FileError::Missing,
        error => FileError::Refused(error.to_string()),
    })?;
    if meta.len() > MAX_BYTES {
        return Err(FileError::Refused(format!(
            "{} is {} MB; files over {} MB are not edited here. Use a command such as sed.",
            path.display(),
            meta.len() / (1024 * 1024),
            MAX_BYTES / (1024 * 1024)
        )));
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize + 1);
    Read::by_ref(&mut file)
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| FileError::Refused(format!("{}: {e}", path.display())))?;
    Ok(Current { bytes, stamp: Stamp::from_metadata(&meta), mode: meta.mode() & 0o7777 })
}

/// Describes a system error for the model.
pub(crate) fn explain(path: &Path, error: &io::Error) -> FileError {
    let what = match error.kind() {
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".to_owned(),
        io::ErrorKind::FileTooLarge => "it would be larger than files may be here".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::InvalidFilename => "the file name is too long or not allowed".to_owned(),
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            "a symbolic link is now in its path".to_owned()
        }
        io::ErrorKind::NotADirectory => "something on its path is no directory".to_owned(),
        _ => error.to_string(),
    };
    FileError::Refused(format!("{} could not be written: {what}. Nothing was changed.", path.display()))
}
