//! System calls that open files on Linux. Knows nothing about tools.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
use std::fs::{File, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens a file for reading. Refuses symbolic links and does not wait for a writer.
///
/// `openat2` refuses links anywhere in the path. If the kernel does not have `openat2`, or a seccomp filter forbids it, only a link
/// in the last component is refused.
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

/// Returns the name of a kind of file that must not be opened, because reading it blocks, never ends, or has
/// side effects.
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
