//! An open directory, in which files are created and renamed by name.
//!
//! Owns writing without races: between the check that a path is allowed and the write, somebody may replace a directory on the way by a
//! symbolic link. A [`Dir`] is opened without following any link. Every later operation uses a name inside that open directory, never the
//! path again. So after such a replacement the operation fails, or it happens in the directory that was checked.
//!
//! The same is needed for becket's own files in a directory where a confined command can write: such a command can put a link, a pipe or a
//! hard link to another file under each name there. [`Dir::read_own`] reads only what an ordinary program wrote there, and
//! [`Dir::create_new`] writes through nothing that exists.
//!
//! Names are single path components. Knows no permission rule.

use crate::sys;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, mkdirat, openat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
}

impl Dir {
    /// Opens a directory by its canonical, absolute path.
    ///
    /// # Errors
    ///
    /// Fails if the directory does not exist, or if a component of the path is now a symbolic link.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: sys::open_dir(path)? })
    }

    /// Like [`Dir::open`], but creates missing directories. Also returns the created directories, outermost
    /// first.
    ///
    /// # Errors
    ///
    /// Fails if a directory cannot be created, or if a component of the path is a symbolic link.
    pub fn create(path: &Path) -> io::Result<(Self, Vec<PathBuf>)> {
        match Self::open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => return Ok((other?, Vec::new())),
        }
        let mut made = Vec::new();
        let mut at = PathBuf::new();
        let mut dir: Option<Self> = None;
        for part in path.components() {
            at.push(part);
            dir = Some(match (dir, part) {
                (Some(parent), Component::Normal(name)) => {
                    match mkdirat(&parent.fd, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) => made.push(at.clone()),
                        Err(Errno::EXIST) => {}
                        // `mkdir` may report one of these errors although the directory exists. Opening it below reports if it is missing.
                        Err(Errno::ROFS | Errno::ACCESS | Errno::PERM) if at.is_dir() => {}
                        Err(e) => return Err(e.into()),
                    }
                    Self { fd: sys::open_dir_at(&parent.fd, name)? }
                }
                _ => Self::open(&at)?,
            });
        }
        dir.map(|dir| (dir, made)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Opens a directory in this one. Refuses a symbolic link.
    ///
    /// # Errors
    ///
    /// Fails if there is no directory with this name.
    pub fn open_dir(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self { fd: sys::open_dir_at(&self.fd, name)? })
    }

    /// Returns the metadata of the entry with this name. A symbolic link is not followed.
    ///
    /// # Errors
    ///
    /// Fails if the directory has no entry with this name.
    pub fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Calls `each` with every entry (name, true for a directory, target of a symbolic link), in no order, until it
    /// returns false.
    ///
    /// # Errors
    ///
    /// Fails if the directory may not be listed.
    pub fn list(&self, mut each: impl FnMut(&OsStr, bool, Option<&Path>) -> bool) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt as _;
        let whole = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = openat(&self.fd, ".", whole, Mode::empty())?;
        for entry in rustix::fs::Dir::read_from(&listed)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                kind = self.stat(name).map_or(kind, |stat| FileType::from_raw_mode(stat.st_mode));
            }
            let target = (kind == FileType::Symlink)
                .then(|| rustix::fs::readlinkat(&self.fd, name, Vec::new()).unwrap_or_default());
            let target = target.as_ref().map(|target| Path::new(OsStr::from_bytes(target.to_bytes())));
            if !each(name, kind == FileType::Directory, target) {
                break;
            }
        }
        Ok(())
    }

    /// Opens a file for reading. Refuses a symbolic link, and does not wait for a writer if the file is a
    /// pipe.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing, is a link, or cannot be read.
    pub fn read(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK, 0)
    }

    /// Opens an existing file for reading and writing. Refuses a symbolic link.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing, is a link, or cannot be opened.
    pub fn read_write(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, OFlags::RDWR | OFlags::NONBLOCK, 0)
    }

    /// Creates a new file for writing.
    ///
    /// # Errors
    ///
    /// Fails if an entry with this name exists, or if the file cannot be created.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        self.open_file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)
    }

    /// Returns the content of a small file that becket or one of its commands wrote: a regular file of this user without further hard
    /// links, of at most `max` bytes. Follows no link, and never waits.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing, is of another kind, belongs to another user, has further names, or is larger.
    pub fn read_own(&self, name: &OsStr, max: u64) -> io::Result<Vec<u8>> {
        use std::os::unix::fs::MetadataExt as _;
        let file = self.read(name)?;
        let meta = file.metadata()?;
        // If the file has a second name, a command may have made a hard link to a file that it may not read itself.
        let is_own = meta.is_file() && meta.nlink() == 1 && meta.uid() == rustix::process::geteuid().as_raw();
        if !is_own {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not an ordinary file of this user",
            ));
        }
        let mut bytes = Vec::new();
        file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > max {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {max} bytes")));
        }
        Ok(bytes)
    }

    /// Returns the target of the symbolic link with this name.
    ///
    /// # Errors
    ///
    /// Fails if there is no link with this name.
    pub fn read_link(&self, name: &OsStr) -> io::Result<PathBuf> {
        use std::os::unix::ffi::OsStringExt as _;
        let target = rustix::fs::readlinkat(&self.fd, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Makes a directory with this name.
    ///
    /// # Errors
    ///
    /// Fails if an entry with this name exists, or if the directory cannot be made.
    pub fn make_dir(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(mkdirat(&self.fd, name, Mode::from_raw_mode(mode as _))?)
    }

    /// Makes a symbolic link with this name.
    ///
    /// # Errors
    ///
    /// Fails if an entry with this name exists, or if the link cannot be made.
    pub fn make_link(&self, name: &OsStr, target: &Path) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.fd, name)?)
    }

    /// Returns the permission bits of the directory itself.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn mode(&self) -> io::Result<u32> {
        Ok(rustix::fs::fstat(&self.fd)?.st_mode & 0o7777)
    }

    /// Sets the permission bits of the directory itself, wherever it is now.
    ///
    /// # Errors
    ///
    /// Fails if the directory belongs to another user.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        sys::change_mode(&self.fd, mode)
    }

    fn open_file(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(File::from(openat(&self.fd, name, flags, Mode::from_raw_mode(mode as _))?))
    }

    /// Renames within the directory. An existing entry named `to` is replaced.
    ///
    /// # Errors
    ///
    /// Fails if `from` is missing or the rename is refused.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Renames within the directory, without replacing an existing entry.
    ///
    /// # Errors
    ///
    /// Fails if an entry named `to` exists.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE) {
            // This file system cannot rename without replacing. Adding the new name and then removing the old
            // one has the same effect.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(&self.fd, from, &self.fd, to, AtFlags::empty())?;
                Ok(unlinkat(&self.fd, from, AtFlags::empty())?)
            }
            other => Ok(other?),
        }
    }

    /// Moves an entry to another directory of the same file system and names it `to` there. Does not replace an existing entry.
    ///
    /// # Errors
    ///
    /// Fails if `from` is missing, if an entry named `to` exists, or if the rename is refused.
    pub fn rename_to(&self, from: &OsStr, other: &Self, to: &OsStr) -> io::Result<()> {
        match renameat_with(&self.fd, from, &other.fd, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if other.stat(to).is_err() => {
                Ok(rustix::fs::renameat(&self.fd, from, &other.fd, to)?)
            }
            moved => Ok(moved?),
        }
    }

    /// Swaps the entries of two names atomically.
    ///
    /// # Errors
    ///
    /// Returns `Unsupported` if the file system cannot swap.
    pub fn exchange(&self, a: &OsStr, b: &OsStr) -> io::Result<()> {
        match renameat_with(&self.fd, a, &self.fd, b, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Err(io::ErrorKind::Unsupported.into()),
            other => Ok(other?),
        }
    }

    /// Deletes the file or link with this name.
    ///
    /// # Errors
    ///
    /// Fails if there is no such file, if it is a directory, or if the system does not allow it.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Flushes the directory's entries to disk. Some file systems cannot flush a directory; errors are ignored, because nothing else can be
    /// done.
    pub fn sync(&self) {
        let whole = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(fd) = openat(&self.fd, ".", whole, Mode::empty()) {
            let _ = rustix::fs::fsync(fd);
        }
    }
}

/// Splits a path into its directory and its file name; `None` for a path without a name.
pub fn split(path: &Path) -> Option<(&Path, OsString)> {
    Some((path.parent()?, path.file_name()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_is_made_or_opened_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("in/a")).unwrap();
        std::fs::create_dir(root.join("out")).unwrap();
        symlink(root.join("out"), root.join("in/link")).unwrap();
        assert!(Dir::open(&root.join("in/link")).is_err());
        assert!(Dir::create(&root.join("in/link/new")).is_err());
        let (_, made) = Dir::create(&root.join("in/a/b/c")).unwrap();
        assert_eq!(made, [root.join("in/a/b"), root.join("in/a/b/c")]);
        assert!(std::fs::read_dir(root.join("out")).unwrap().next().is_none());
    }

    #[test]
    fn a_file_of_a_command_is_read_only_if_it_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        std::fs::write(at("secret"), "SECRET").unwrap();
        std::fs::hard_link(at("secret"), at("hard")).unwrap();
        symlink("secret", at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        std::fs::write(at("own"), "text").unwrap();
        let held = Dir::open(&root).unwrap();
        for name in ["secret", "hard", "link", "zero", "pipe", "folder", "absent"] {
            assert!(held.read_own(name.as_ref(), 99).is_err(), "{name}");
        }
        assert_eq!(held.read_own("own".as_ref(), 4).unwrap(), b"text");
        assert!(held.read_own("own".as_ref(), 3).is_err());
        let mode = held.mode().unwrap();
        held.set_mode(0o500).unwrap();
        assert_eq!(Dir::open(&root).unwrap().mode().unwrap(), 0o500);
        held.set_mode(mode).unwrap();
    }

    #[test]
    fn a_swap_after_opening_leaves_the_work_where_it_was_meant() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("in")).unwrap();
        std::fs::create_dir(root.join("out")).unwrap();
        let held = Dir::open(&root.join("in")).unwrap();
        std::fs::rename(root.join("in"), root.join("moved")).unwrap();
        symlink(root.join("out"), root.join("in")).unwrap();
        drop(held.create_new("f".as_ref(), 0o600).unwrap());
        assert!(root.join("moved/f").is_file() && !root.join("out/f").exists());
        symlink("/etc/passwd", root.join("moved/l")).unwrap();
        assert!(held.read("l".as_ref()).is_err() && held.read_write("l".as_ref()).is_err());
        assert!(held.rename_new("l".as_ref(), "f".as_ref()).is_err());
        held.exchange("l".as_ref(), "f".as_ref()).unwrap();
        assert!(root.join("moved/f").is_symlink());
    }
}
