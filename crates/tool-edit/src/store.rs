//! Atomic and reversible writing: at every moment the file has its old or its new content.
//!
//! New content is written to a temporary file in the same directory. It gets the mode, owner and extended
//! attributes, is synced, and is swapped with the old file atomically. The old file is then compared with the
//! content that was read. If another program wrote in the meantime, the swap is reversed and the write has
//! not happened. The old file is kept aside until [`Done::keep`], so that several files can be written all or
//! nothing.
//!
//! If swapping would break something (hard links, an owner or attributes that cannot be set, a directory that
//! is not writable), the file is written in place, without truncating it first.
//!
//! Paths are resolved by the caller. Their directories are held open ([`Dir`]), so that a link that appears
//! later is not followed.

use crate::faithful::{ClearedBits, copy_metadata};
use crate::file::{Current, FileError, Stamp, explain};
use becket_tool::dir::{self, Dir};
use becket_tool::temporary;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One written file. The write can still be undone.
#[derive(Debug)]
#[must_use = "keep it or undo it"]
pub(crate) struct WrittenFile {
    path: PathBuf,
    dir: Arc<Dir>,
    name: OsString,
    how: WriteMethod,
}

#[derive(Debug)]
enum WriteMethod {
    /// The old file has the name `aside`. `replaced` is true if a new file has the original name.
    Aside { aside: OsString, replaced: bool },
    /// The file did not exist. These directories were created for it, outermost first.
    Created { made: Vec<PathBuf> },
    /// Written in place, or renamed over the old file because the file system cannot swap two files. `old` is the old content.
    InPlace { old: Vec<u8> },
}

impl WrittenFile {
    /// Makes the write final.
    pub(crate) fn keep(self) {
        if let WriteMethod::Aside { aside, .. } = &self.how {
            let _ = self.dir.remove(aside);
        }
    }

    /// Restores the previous state.
    ///
    /// # Errors
    ///
    /// Returns a message that says what must be done by hand.
    pub(crate) fn undo(self) -> Result<(), String> {
        let failed = |e: io::Error| format!("{} could not be put back: {e}.", self.path.display());
        match &self.how {
            WriteMethod::Aside { aside, replaced: true } => {
                self.dir.exchange(aside, &self.name).map_err(failed)?;
                self.dir.remove(aside).map_err(failed)?;
            }
            WriteMethod::Aside { aside, replaced: false } => {
                self.dir.rename_new(aside, &self.name).map_err(failed)?;
            }
            WriteMethod::Created { made } => {
                self.dir.remove(&self.name).map_err(failed)?;
                for dir in made.iter().rev() {
                    let _ = std::fs::remove_dir(dir);
                }
            }
            WriteMethod::InPlace { old } => {
                let file = self.dir.read_write(&self.name).map_err(failed)?;
                fill_in_place(&file, old).map_err(failed)?;
            }
        }
        self.dir.sync();
        Ok(())
    }
}

fn open(path: &Path) -> Result<(Arc<Dir>, OsString), FileError> {
    let (parent, name) = split(path)?;
    let dir = Dir::open(parent).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FileError::Changed,
        _ => explain(path, &e),
    })?;
    temporary::remove_left(parent);
    Ok((Arc::new(dir), name))
}

/// Opens the deepest folder of a path that exists. A new file is written there, and its folders are made when it is complete, so
/// that a process that is killed meanwhile leaves none. Also returns true if it is `parent` itself.
fn deepest(parent: &Path) -> Result<(Arc<Dir>, bool), FileError> {
    for folder in parent.ancestors() {
        match Dir::open(folder) {
            Ok(dir) => {
                temporary::remove_left(folder);
                return Ok((Arc::new(dir), folder == parent));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(not_made(parent, &e)),
        }
    }
    Err(FileError::Changed)
}

fn not_made(folder: &Path, error: &io::Error) -> FileError {
    FileError::Refused(format!("The directory {} cannot be created: {error}.", folder.display()))
}

fn split(path: &Path) -> Result<(&Path, OsString), FileError> {
    dir::split(path).ok_or_else(|| FileError::Refused(format!("{} is no file name.", path.display())))
}

/// Creates a file and missing directories above it. Fails if something has appeared at the path. If the file
/// is moved, it gets owner, mode and attributes of `like`, its old path.
pub(crate) fn create(path: &Path, bytes: &[u8], like: Option<&Path>) -> Result<WrittenFile, FileError> {
    let (parent, name) = split(path)?;
    let (above, is_there) = deepest(parent)?;
    let temp = Temp::new(&above, &name, 0o666)
        .map_err(|e| if is_there { explain(path, &e) } else { not_made(parent, &e) })?;
    (&temp.file).write_all(bytes).map_err(|e| explain(path, &e))?;
    if let Some(like) = like {
        let (dir, name) = open(like)?;
        dir.read(&name).and_then(|old| copy_metadata(&temp.file, &old)).map_err(|e| {
            format!(
                "{} cannot be moved with its owner, mode and attributes: {e}; nothing was changed. Use mv.",
                like.display()
            )
        })?;
    }
    temp.file.sync_all().map_err(|e| explain(path, &e))?;
    let (dir, made) = if is_there {
        (Arc::clone(&above), Vec::new())
    } else {
        let (dir, made) = Dir::create(parent).map_err(|e| not_made(parent, &e))?;
        (Arc::new(dir), made)
    };
    let moved =
        if is_there { above.rename_new(&temp.name, &name) } else { above.rename_to(&temp.name, &dir, &name) };
    if let Err(error) = moved {
        for dir in made.iter().rev() {
            let _ = std::fs::remove_dir(dir);
        }
        return Err(match error.kind() {
            io::ErrorKind::AlreadyExists => FileError::Changed,
            _ => explain(path, &error),
        });
    }
    temp.keep();
    dir.sync();
    Ok(WrittenFile { path: path.to_owned(), dir, name, how: WriteMethod::Created { made } })
}

/// Replaces the content of a file, if the file is still in the state `current`.
pub(crate) fn replace(path: &Path, bytes: &[u8], current: &Current) -> Result<WrittenFile, FileError> {
    let (dir, name) = open(path)?;
    let linked = unchanged(path, &dir, &name, &current.stamp)?;
    if current.mode & 0o222 == 0 {
        return Err(read_only(path, current.mode));
    }
    if linked {
        return in_place(path, dir, name, bytes, current);
    }
    let temp = match Temp::new(&dir, &name, 0o600) {
        Ok(temp) => temp,
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            return in_place(path, dir, name, bytes, current);
        }
        Err(e) => return Err(explain(path, &e)),
    };
    (&temp.file).write_all(bytes).map_err(|e| explain(path, &e))?;
    let taken = dir.read(&name).and_then(|old| copy_metadata(&temp.file, &old));
    if taken.is_err() {
        drop(temp);
        return in_place(path, dir, name, bytes, current);
    }
    temp.file.sync_all().map_err(|e| explain(path, &e))?;
    let how = match dir.exchange(&temp.name, &name) {
        Ok(()) => {
            if !is_still(&dir, &temp.name, current) {
                put_back(&temp, &name);
                return Err(FileError::Changed);
            }
            temp.keep();
            WriteMethod::Aside { aside: temp.name.clone(), replaced: true }
        }
        Err(e) if e.kind() == io::ErrorKind::Unsupported => {
            unchanged(path, &dir, &name, &current.stamp)?;
            dir.rename(&temp.name, &name).map_err(|e| explain(path, &e))?;
            temp.keep();
            WriteMethod::InPlace { old: current.bytes.clone() }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(FileError::Changed),
        // In a sticky directory or at a mount point the file cannot be swapped, but its content can be
        // written.
        Err(e) if matches!(e.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy) => {
            drop(temp);
            return in_place(path, dir, name, bytes, current);
        }
        Err(e) => return Err(explain(path, &e)),
    };
    dir.sync();
    Ok(WrittenFile { path: path.to_owned(), dir, name, how })
}

/// Deletes a file, if it is still in the state `current`.
pub(crate) fn delete(path: &Path, current: &Current) -> Result<WrittenFile, FileError> {
    let (dir, name) = open(path)?;
    unchanged(path, &dir, &name, &current.stamp)?;
    let aside = temporary::name(&name);
    dir.rename_new(&name, &aside).map_err(|e| explain(path, &e))?;
    if !is_still(&dir, &aside, current) {
        return Err(match dir.rename_new(&aside, &name) {
            Ok(()) => FileError::Changed,
            Err(e) => {
                // A name that is never cleared away.
                let copy = temporary::copy_name(&name);
                let held = if dir.rename_new(&aside, &copy).is_ok() { copy } else { aside };
                FileError::Refused(format!(
                    "{} was written by another program while it was deleted ({e}); what it held is in {}.",
                    path.display(),
                    path.with_file_name(&held).display()
                ))
            }
        });
    }
    dir.sync();
    Ok(WrittenFile { path: path.to_owned(), dir, name, how: WriteMethod::Aside { aside, replaced: false } })
}

fn read_only(path: &Path, mode: u32) -> FileError {
    FileError::Refused(format!(
        "{} is read-only (mode {mode:04o}); nothing was changed. If it is meant to be edited, make it writable first (chmod u+w).",
        path.display(),
    ))
}

/// Checks that the file is unchanged. Returns true if it has other names (hard links).
fn unchanged(path: &Path, dir: &Dir, name: &OsStr, stamp: &Stamp) -> Result<bool, FileError> {
    match dir.stat(name) {
        Ok(stat) if Stamp::from(&stat) == *stamp => Ok(stat.st_nlink > 1),
        Ok(_) => Err(FileError::Changed),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(FileError::Changed),
        Err(e) => Err(explain(path, &e)),
    }
}

/// Compares the content, because the timestamps of file systems are too coarse to show every write.
fn is_still(dir: &Dir, name: &OsStr, current: &Current) -> bool {
    let Ok(mut file) = dir.read(name) else { return false };
    let Ok(meta) = file.metadata() else { return false };
    if (meta.dev(), meta.ino()) != (current.stamp.device, current.stamp.inode) {
        return false;
    }
    same_content(&mut file, &current.bytes)
}

fn same_content(file: &mut impl Read, want: &[u8]) -> bool {
    let mut buffer = vec![0u8; 64 * 1024];
    let mut rest = want;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return rest.is_empty(),
            Ok(n) => match rest.strip_prefix(&buffer[..n]) {
                Some(left) => rest = left,
                None => return false,
            },
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// Reverses a swap, so that the content that another program wrote gets its name back. If yet another file
/// has appeared under the name in the meantime, that one wins. Only becket's own file is ever deleted.
fn put_back(temp: &Temp, name: &OsStr) {
    for _ in 0..100 {
        if temp.dir.exchange(&temp.name, name).is_err() || temp.is_ours() {
            break;
        }
    }
    if !temp.is_ours() {
        // The content of another program does not stay under a name that is cleared away later.
        let _ = temp.dir.rename_new(&temp.name, &temporary::copy_name(name));
    }
}

/// Writes into the file itself. A copy of the new content is kept beside it until the write is done, so that
/// a crash loses nothing. If the copy cannot be made, the write proceeds without it.
fn in_place(
    path: &Path,
    dir: Arc<Dir>,
    name: OsString,
    bytes: &[u8],
    current: &Current,
) -> Result<WrittenFile, FileError> {
    let copy = Temp::named(&dir, temporary::copy_name(&name), 0o600).and_then(|temp| {
        (&temp.file).write_all(bytes)?;
        temp.file.sync_all()?;
        Ok(temp)
    });
    let mut file = dir.read_write(&name).map_err(|e| explain(path, &e))?;
    let meta = file.metadata().map_err(|e| explain(path, &e))?;
    let same = (meta.dev(), meta.ino()) == (current.stamp.device, current.stamp.inode);
    if !same || !same_content(&mut file, &current.bytes) {
        return Err(FileError::Changed);
    }
    ClearedBits::read(&file).map_err(|e| explain(path, &e))?.check(&file, path)?;
    if let Err(e) = fill_in_place(&file, bytes) {
        if fill_in_place(&file, &current.bytes).is_ok() {
            return Err(explain(path, &e));
        }
        let place = copy.map_or(String::new(), |copy| {
            copy.keep();
            format!(" The whole new content is in {}.", path.with_file_name(&copy.name).display())
        });
        let text = format!("{} could not be written completely: {e}.{place}", path.display());
        return Err(FileError::Refused(text));
    }
    drop(copy);
    Ok(WrittenFile {
        path: path.to_owned(),
        dir,
        name,
        how: WriteMethod::InPlace { old: current.bytes.clone() },
    })
}

fn fill_in_place(file: &File, bytes: &[u8]) -> io::Result<()> {
    let rights = ClearedBits::read(file)?;
    file.write_all_at(bytes, 0)?;
    file.set_len(bytes.len() as u64)?;
    rights.give_back(file)?;
    file.sync_all()
}

/// A temporary file beside another one. Dropping it deletes the file, if it is still becket's own.
struct Temp {
    dir: Arc<Dir>,
    name: OsString,
    file: File,
    kept: std::cell::Cell<bool>,
}

impl Temp {
    fn new(dir: &Arc<Dir>, beside: &OsStr, mode: u32) -> io::Result<Self> {
        Self::named(dir, temporary::name(beside), mode)
    }

    fn named(dir: &Arc<Dir>, name: OsString, mode: u32) -> io::Result<Self> {
        let file = dir.create_new(&name, mode)?;
        Ok(Self { dir: Arc::clone(dir), name, file, kept: std::cell::Cell::new(false) })
    }

    fn is_ours(&self) -> bool {
        let (Ok(stat), Ok(meta)) = (self.dir.stat(&self.name), self.file.metadata()) else { return false };
        let at = Stamp::from(&stat);
        (at.device, at.inode) == (meta.dev(), meta.ino())
    }

    fn keep(&self) {
        self.kept.set(true);
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.kept.get() && self.is_ours() {
            let _ = self.dir.remove(&self.name);
        }
    }
}
