//! Fallback for platforms without their own file. Has the same functions, but does not protect against a link
//! that is swapped in while a file is opened.

use rustix::fs::{Mode, OFlags, openat};
use std::ffi::OsStr;
use std::fs::{File, FileType};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

pub(crate) fn open_read(path: &Path) -> io::Result<File> {
    File::open(path)
}

pub(crate) fn special(kind: FileType) -> Option<&'static str> {
    (!kind.is_file() && !kind.is_dir() && !kind.is_symlink()).then_some("special file")
}

pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    super::walk(path)
}

pub(crate) fn open_dir_at(dir: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}
