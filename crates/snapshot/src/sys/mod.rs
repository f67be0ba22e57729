//! System calls that read and change files without following a symbolic link.
//!
//! Every path must be absolute and free of symbolic links. Directories on the way are opened so that a link among them is
//! an error: with `openat2` and `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS` on Linux, one component at a time elsewhere and on
//! old kernels. Replacing a file creates a new inode, so other hard links of the old one keep their content.

#[cfg(target_os = "linux")]
mod linux;

use becket_files::temporary;
use becket_types::{FileContent, FileStamp};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, Stat};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write as _};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Dir,
    Symlink,
    Special,
}

/// The parts of `lstat`'s result that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    pub size: u64,
    pub stamp: FileStamp,
    pub owner: (u32, u32),
}

impl Meta {
    fn from_stat(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode as RawMode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Dir,
            FileType::Symlink => Kind::Symlink,
            _ => Kind::Special,
        };
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Self {
            kind,
            mode: stat.st_mode & 0o7777,
            size: stat.st_size as u64,
            stamp: FileStamp(
                nanos(stat.st_mtime, stat.st_mtime_nsec as i64),
                nanos(stat.st_ctime, stat.st_ctime_nsec as i64),
                stat.st_ino,
            ),
            owner: (stat.st_uid, stat.st_gid),
        }
    }
}

/// User and group of this process, which own the files that it creates.
pub(crate) fn own_ids() -> (u32, u32) {
    static IDS: OnceLock<(u32, u32)> = OnceLock::new();
    *IDS.get_or_init(|| (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()))
}

pub(crate) fn lstat(path: &Path) -> io::Result<Meta> {
    Ok(Meta::from_stat(&rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?))
}

pub(crate) fn read_link(path: &Path) -> io::Result<PathBuf> {
    std::fs::read_link(path)
}

/// An open directory. Its entries are looked up by name, without walking the path again.
pub(crate) struct Listing(OwnedFd);

impl Listing {
    /// Opens a directory; a symbolic link in its place is an error.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    pub(crate) fn meta(&self) -> io::Result<Meta> {
        Ok(Meta::from_stat(&rustix::fs::fstat(&self.0)?))
    }

    /// The names in it, each with a flag if it is a directory; `None` if the listing does not say.
    pub(crate) fn names(&self) -> io::Result<Vec<(OsString, Option<bool>)>> {
        let mut out = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let is_dir = match entry.file_type() {
                    FileType::Unknown => None,
                    kind => Some(kind == FileType::Directory),
                };
                out.push((OsString::from_vec(name.to_vec()), is_dir));
            }
        }
        Ok(out)
    }

    pub(crate) fn child(&self, name: &OsStr) -> io::Result<Meta> {
        Ok(Meta::from_stat(&rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }
}

/// Reads a regular file's bytes and metadata. `None` if it is not a regular file, is larger than `max` bytes, or
/// changed while it was read.
pub(crate) fn read_file(path: &Path, max: u64) -> io::Result<Option<(Vec<u8>, Meta)>> {
    Ok(read_whole(path, max)?.map(|(bytes, meta, _)| (bytes, meta)))
}

/// Extended attributes: values in hex, by name.
pub(crate) type Attributes = BTreeMap<String, String>;

/// Reads like [`read_file`], together with user attributes and the access control list.
pub(crate) fn read_whole(path: &Path, max: u64) -> io::Result<Option<(Vec<u8>, Meta, Attributes)>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?);
    let meta = Meta::from_stat(&rustix::fs::fstat(&file)?);
    if meta.kind != Kind::File || meta.size > max {
        return Ok(None);
    }
    // If another program makes the file longer in the meantime, the comparison of its metadata below finds out. Reading at least
    // one byte detects files that report a size of 0 but have content, as in `/proc`.
    let mut bytes = Vec::with_capacity((meta.size as usize).max(1));
    Read::take(&mut file, meta.size.max(1)).read_to_end(&mut bytes)?;
    #[cfg(target_os = "linux")]
    let attributes = linux::attributes(file.as_fd());
    #[cfg(not(target_os = "linux"))]
    let attributes = Attributes::new();
    let same = bytes.len() as u64 == meta.size && Meta::from_stat(&rustix::fs::fstat(&file)?) == meta;
    Ok(same.then_some((bytes, meta, attributes)))
}

/// The parent directory of a path, opened without following any link, and the name in it.
pub(crate) struct ParentFolder {
    dir: OwnedFd,
    name: OsString,
}

impl ParentFolder {
    /// Opens the parent directory of `path`, one component after the other.
    ///
    /// # Errors
    ///
    /// Fails if a component is a symbolic link, is missing, or is not a directory, or if `path` is not absolute or
    /// contains `..`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "not an absolute path without dots");
        let parent = path.parent().ok_or_else(invalid)?;
        let name = path.file_name().ok_or_else(invalid)?.to_owned();
        let mut parts = parent.components();
        if parts.next() != Some(Component::RootDir) || parts.any(|p| !matches!(p, Component::Normal(_))) {
            return Err(invalid());
        }
        Ok(Self { dir: open_dir(parent)?, name })
    }

    /// Opens like [`ParentFolder::open`], and creates missing directories.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        match Self::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let parent = path.parent().filter(|p| p.parent().is_some()).ok_or(io::ErrorKind::NotFound)?;
        let above = Self::make(parent)?;
        match above.make_dir(0o755) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Self::open(path)
    }

    pub(crate) fn meta(&self) -> io::Result<Meta> {
        Ok(Meta::from_stat(&rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    pub(crate) fn make_dir(&self, mode: u32) -> io::Result<()> {
        rustix::fs::mkdirat(&self.dir, &self.name, Mode::from_raw_mode(mode as RawMode))?;
        Ok(())
    }

    /// Sets the permission bits of the directory at this place.
    pub(crate) fn set_dir_mode(&self, mode: u32) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty()) {
            Ok(dir) => rustix::fs::fchmod(dir, Mode::from_raw_mode(mode as RawMode))?,
            // A directory that its owner may not read cannot be opened, so change its mode by name. The check of its kind
            // shows that it is not a link.
            Err(rustix::io::Errno::ACCESS) if self.meta()?.kind == Kind::Dir => {
                rustix::fs::chmodat(
                    &self.dir,
                    &self.name,
                    Mode::from_raw_mode(mode as RawMode),
                    AtFlags::empty(),
                )?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Sets the permission bits of the regular file at this place, which must still have this stamp. Returns its new stamp.
    pub(crate) fn set_file_mode(&self, mode: u32, stamp: FileStamp) -> io::Result<FileStamp> {
        let meta = self.meta()?;
        if meta.kind != Kind::File || meta.stamp != stamp {
            return Err(io::Error::other("it changed while it was being restored"));
        }
        #[cfg(target_os = "linux")]
        linux::set_mode(self.dir.as_fd(), &self.name, stamp.2, mode)?;
        #[cfg(not(target_os = "linux"))]
        rustix::fs::chmodat(
            &self.dir,
            &self.name,
            Mode::from_raw_mode(mode as RawMode),
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
        Ok(self.meta()?.stamp)
    }

    pub(crate) fn remove(&self, kind: Kind) -> io::Result<()> {
        let flags = if kind == Kind::Dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&self.dir, &self.name, flags)?;
        Ok(())
    }

    /// Creates a symbolic link, replacing a file or link at this place.
    pub(crate) fn put_link(&self, target: &Path) -> io::Result<()> {
        let temp = temporary::name(&self.name);
        rustix::fs::symlinkat(target, &self.dir, &temp)?;
        self.settle(&temp)
    }

    /// Writes a regular file atomically, replacing a file or link at this place. It gets the attributes of the replaced file
    /// and those of the record.
    pub(crate) fn put_file(&self, bytes: &[u8], record: &FileContent) -> io::Result<()> {
        let temp = temporary::name(&self.name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.dir, &temp, flags, Mode::from_raw_mode(0o600))?);
        let written = file.write_all(bytes).and_then(|()| {
            if let Some((user, group)) = record.owner {
                // Only root may change a file's owner. For other users this fails, and the file is theirs.
                let ids = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
                let _ = rustix::fs::fchown(&file, Some(ids.0), Some(ids.1));
            }
            #[cfg(target_os = "linux")]
            if let Some(old) = self.standing() {
                linux::copy_attributes(old.as_fd(), file.as_fd());
            }
            #[cfg(target_os = "linux")]
            linux::set_attributes(file.as_fd(), &record.attributes);
            rustix::fs::fchmod(&file, Mode::from_raw_mode(record.mode as RawMode))?;
            Ok(())
        });
        match written {
            Ok(()) => self.settle(&temp),
            Err(error) => {
                let _ = rustix::fs::unlinkat(&self.dir, &temp, AtFlags::empty());
                Err(error)
            }
        }
    }

    /// Opens the regular file at this place for reading.
    #[cfg(target_os = "linux")]
    fn standing(&self) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        self.meta().ok().filter(|meta| meta.kind == Kind::File)?;
        rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty()).ok()
    }

    fn settle(&self, temp: &OsStr) -> io::Result<()> {
        rustix::fs::renameat(&self.dir, temp, &self.dir, &self.name).map_err(|error| {
            let _ = rustix::fs::unlinkat(&self.dir, temp, AtFlags::empty());
            io::Error::from(error)
        })
    }
}

/// Metadata of a path; `None` if nothing is there, or if a directory on the way is a link.
pub(crate) fn meta_at(path: &Path) -> io::Result<Option<Meta>> {
    let away = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
    };
    match ParentFolder::open(path).and_then(|place| place.meta()) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if away(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens an absolute directory path without following a link.
fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let root =
        rustix::fs::openat(CWD, "/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let Ok(relative) = path.strip_prefix("/") else { return Err(io::ErrorKind::InvalidInput.into()) };
    if relative.as_os_str().is_empty() {
        return Ok(root);
    }
    #[cfg(target_os = "linux")]
    if let Some(opened) = linux::open_beneath(root.as_fd(), relative) {
        return opened;
    }
    by_component(root, relative)
}

/// Opens a directory on any system: each component is opened within the previous one and must not be a link.
fn by_component(root: OwnedFd, relative: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = root;
    for part in relative.components() {
        let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
        dir = rustix::fs::openat(&dir, name, flags, Mode::empty())?;
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_mode(mode: u32) -> FileContent {
        FileContent { mode, ..FileContent::default() }
    }

    #[test]
    fn no_link_is_followed_in_either_way() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("real/in")).unwrap();
        std::os::unix::fs::symlink(base.join("real"), base.join("link")).unwrap();
        assert!(ParentFolder::open(&base.join("real/in/x")).is_ok());
        assert!(ParentFolder::open(&base.join("link/in/x")).is_err());
        assert!(ParentFolder::open(&base.join("real/../real/in/x")).is_err());
        assert!(ParentFolder::open(Path::new("relative/x")).is_err());
        let root = || rustix::fs::openat(CWD, "/", OFlags::RDONLY, Mode::empty()).unwrap();
        let inside = |p: &str| base.join(p).strip_prefix("/").unwrap().to_path_buf();
        assert!(by_component(root(), &inside("real/in")).is_ok());
        assert!(by_component(root(), &inside("link/in")).is_err());
    }

    #[test]
    fn a_file_is_replaced_and_its_other_names_keep_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::write(base.join("a"), "old").unwrap();
        std::fs::hard_link(base.join("a"), base.join("b")).unwrap();
        ParentFolder::open(&base.join("a")).unwrap().put_file(b"new", &with_mode(0o755)).unwrap();
        assert_eq!(std::fs::read(base.join("a")).unwrap(), b"new");
        assert_eq!(std::fs::read(base.join("b")).unwrap(), b"old");
        assert_eq!(lstat(&base.join("a")).unwrap().mode, 0o755);
        assert_eq!(std::fs::read_dir(&base).unwrap().count(), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_is_replaced_leaves_its_attributes_to_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().canonicalize().unwrap().join("a");
        std::fs::write(&file, "old").unwrap();
        // If the file system has no attributes, none can be lost.
        let set = rustix::fs::setxattr(&file, "user.a", b"one", rustix::fs::XattrFlags::empty());
        ParentFolder::open(&file).unwrap().put_file(b"new", &with_mode(0o4755)).unwrap();
        let mut value = [0; 9];
        let kept = rustix::fs::getxattr(&file, "user.a", value.as_mut_slice());
        assert!(set.is_err() || value.get(..kept.unwrap()) == Some(b"one"));
        assert_eq!((std::fs::read(&file).unwrap(), lstat(&file).unwrap().mode), (b"new".to_vec(), 0o4755));
    }
}
