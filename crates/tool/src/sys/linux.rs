//! Linux. Owns two system calls; knows nothing of tools.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
use std::fs::{File, FileType};
use std::io;
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
