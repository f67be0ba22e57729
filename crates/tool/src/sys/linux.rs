//! Linux. Owns the system calls that open things; knows nothing of tools.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{File, FileType};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens for reading, never through a symbolic link and never waiting for a writer.
///
/// `openat2` refuses links anywhere in the path; where a kernel or a seccomp filter has no `openat2`, links are refused in
/// the last component only.
pub(crate) fn open_read(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(fd) => Ok(File::from(fd)),
        Err(Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) => {
            Ok(File::from(open(path, flags | OFlags::NOFOLLOW, Mode::empty())?))
        }
        Err(errno) => Err(errno.into()),
    }
}

const DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory by its absolute path, with no link anywhere on the way.
pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    match openat2(CWD, path, DIR, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) => super::walk(path),
        other => Ok(other?),
    }
}

/// A directory in another one; a link is refused.
pub(crate) fn open_dir_at(dir: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(openat(dir, name, DIR, Mode::empty())?)
}

/// The name of a kind of file that must not be opened: reading it blocks, never ends, or has effects.
pub(crate) fn special(kind: FileType) -> Option<&'static str> {
    if kind.is_fifo() {
        Some("named pipe")
    } else if kind.is_socket() {
        Some("socket")
    } else if kind.is_char_device() {
        Some("character device")
    } else if kind.is_block_device() {
        Some("block device")
    } else {
        None
    }
}
