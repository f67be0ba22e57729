//! Writing a file so that there is always a whole one: the old or the new.
//!
//! Model: new content goes into a temporary file in the same directory, is synced, takes over mode, owner and extended
//! attributes, and is renamed over the old one. Where a rename would break something (hard links, an owner or attributes
//! that cannot be given to the new file, a directory that may not be written to), the file is written in place, without
//! being emptied first. A file that changed since it was looked at is not replaced.
//!
//! Paths come resolved: a symbolic link at the end of one is refused.

use becket_tool::paths;
use rustix::fs::{RenameFlags, XattrFlags};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Larger files are for commands, not for edits.
pub(crate) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What identifies the state of a file between reading and replacing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// The bytes of an existing file, and what it looked like when they were read.
#[derive(Debug)]
pub(crate) struct Current {
    pub bytes: Vec<u8>,
    pub stamp: Stamp,
}

/// Why a file was not read or written. The text is for the model.
#[derive(Debug)]
pub(crate) enum FileError {
    Missing,
    /// Somebody else wrote between our reading and our writing.
    Changed,
    Refused(String),
}

impl From<String> for FileError {
    fn from(text: String) -> Self {
        Self::Refused(text)
    }
}

/// Reads a regular file of at most [`MAX_BYTES`].
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
    Ok(Current { bytes, stamp: Stamp::of(&meta) })
}

/// A new file, with the directories above it. Fails if something came to be there in the meantime.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let parent = parent(path)?;
    std::fs::create_dir_all(parent)
        .map_err(|e| format!("The directory {} cannot be created: {e}.", parent.display()))?;
    let temp = Temp::new(path, 0o666).map_err(|e| explain(path, &e))?;
    temp.fill(bytes).map_err(|e| explain(path, &e))?;
    let renamed =
        rustix::fs::renameat_with(rustix::fs::CWD, &temp.path, rustix::fs::CWD, path, RenameFlags::NOREPLACE);
    match renamed {
        Ok(()) => temp.keep(),
        Err(rustix::io::Errno::EXIST) => return Err(FileError::Changed),
        // No such rename on this file system: a link does the same, and the temporary name goes with `temp`.
        Err(_) => match std::fs::hard_link(&temp.path, path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(FileError::Changed),
            Err(e) => return Err(explain(path, &e)),
        },
    }
    sync_directory(parent);
    Ok(())
}

/// New content for a file that still is as `stamp` says.
pub(crate) fn replace(path: &Path, bytes: &[u8], stamp: &Stamp) -> Result<(), FileError> {
    let meta = unchanged(path, stamp)?;
    if meta.permissions().mode() & 0o222 == 0 {
        return Err(FileError::Refused(format!(
            "{} is read-only (mode {:04o}); nothing was changed. If it is meant to be edited, make it writable first (chmod u+w).",
            path.display(),
            meta.permissions().mode() & 0o7777
        )));
    }
    if meta.nlink() > 1 {
        return in_place(path, bytes, stamp);
    }
    let temp = match Temp::new(path, 0o600) {
        Ok(temp) => temp,
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return in_place(path, bytes, stamp),
        Err(e) => return Err(explain(path, &e)),
    };
    temp.fill(bytes).map_err(|e| explain(path, &e))?;
    if take_over(&temp.file, path, &meta).is_err() {
        drop(temp);
        return in_place(path, bytes, stamp);
    }
    unchanged(path, stamp)?;
    match std::fs::rename(&temp.path, path) {
        Ok(()) => temp.keep(),
        // A sticky directory, a mount point: the name cannot be given away, the content can be.
        Err(e) if matches!(e.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy) => {
            drop(temp);
            return in_place(path, bytes, stamp);
        }
        Err(e) => return Err(explain(path, &e)),
    }
    if let Some(parent) = path.parent() {
        sync_directory(parent);
    }
    Ok(())
}

fn unchanged(path: &Path, stamp: &Stamp) -> Result<Metadata, FileError> {
    match path.symlink_metadata() {
        Ok(meta) if Stamp::of(&meta) == *stamp => Ok(meta),
        Ok(_) => Err(FileError::Changed),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(FileError::Changed),
        Err(e) => Err(explain(path, &e)),
    }
}

/// Mode, owner and extended attributes of the old file for the new one. `Err` when one cannot be kept.
fn take_over(new: &File, old: &Path, meta: &Metadata) -> io::Result<()> {
    let mine = new.metadata()?;
    if (mine.uid(), mine.gid()) != (meta.uid(), meta.gid()) {
        std::os::unix::fs::fchown(new, Some(meta.uid()), Some(meta.gid()))?;
    }
    // After the owner: a change of owner clears set-user-id bits.
    new.set_permissions(std::fs::Permissions::from_mode(meta.permissions().mode() & 0o7777))?;
    let old = File::open(old)?;
    let mut names = vec![0u8; 64 * 1024];
    let length = match rustix::fs::flistxattr(&old, names.as_mut_slice()) {
        Ok(length) => length,
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    for name in names[..length].split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0u8; 64 * 1024];
        let size = rustix::fs::fgetxattr(&old, name, value.as_mut_slice())?;
        match rustix::fs::fsetxattr(new, name, &value[..size], XattrFlags::empty()) {
            Ok(()) => {}
            // Labels of the system are given by the system.
            Err(_) if name.starts_with(b"security.") || name.starts_with(b"trusted.") => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Writes into the file itself. A copy of the new content stands beside it until that is done, so that a crash in the
/// middle loses nothing; where no copy can be made, the write goes ahead without one.
fn in_place(path: &Path, bytes: &[u8], stamp: &Stamp) -> Result<(), FileError> {
    let copy = Temp::new(path, 0o600).and_then(|temp| temp.fill(bytes).map(|()| temp)).ok();
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .map_err(|e| explain(path, &e))?;
    let meta = file.metadata().map_err(|e| explain(path, &e))?;
    if Stamp::of(&meta) != *stamp {
        return Err(FileError::Changed);
    }
    let written = file
        .write_all_at(bytes, 0)
        .and_then(|()| file.set_len(bytes.len() as u64))
        .and_then(|()| file.sync_all());
    match (written, copy) {
        (Ok(()), _) => Ok(()),
        (Err(e), Some(copy)) => {
            let text = format!(
                "{} could not be written completely: {e}. The whole new content is in {}.",
                path.display(),
                copy.path.display()
            );
            copy.keep();
            Err(FileError::Refused(text))
        }
        (Err(e), None) => Err(explain(path, &e)),
    }
}

fn parent(path: &Path) -> Result<&Path, FileError> {
    path.parent().ok_or_else(|| FileError::Refused(format!("{} is no file name.", path.display())))
}

/// The rename is on disk only when the directory is. Some file systems cannot sync one; then there is nothing to do.
fn sync_directory(path: &Path) {
    if let Ok(directory) = File::open(path) {
        let _ = directory.sync_all();
    }
}

fn explain(path: &Path, error: &io::Error) -> FileError {
    let what = match error.kind() {
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::InvalidFilename => "the file name is too long or not allowed".to_owned(),
        _ => error.to_string(),
    };
    FileError::Refused(format!("{} could not be written: {what}. Nothing was changed.", path.display()))
}

/// A file beside another one; gone when dropped.
struct Temp {
    path: PathBuf,
    file: File,
    kept: std::cell::Cell<bool>,
}

impl Temp {
    fn new(beside: &Path, mode: u32) -> io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let mut name = std::ffi::OsString::from(".");
        // Long names leave no room for more.
        let base = beside.file_name().unwrap_or_default();
        name.push(if base.len() > 200 { "file".as_ref() } else { base });
        name.push(format!(".{}-{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
        let path = beside.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
        Ok(Self { path, file, kept: std::cell::Cell::new(false) })
    }

    fn fill(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        self.file.sync_all()
    }

    fn keep(&self) {
        self.kept.set(true);
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.kept.get() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
