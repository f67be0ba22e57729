//! Fallback for platforms without their own file.

use rustix::fs::{Mode, OFlags, fchmod, openat};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    super::walk(path)
}

pub(crate) fn open_dir_at(dir: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}

pub(crate) fn change_mode(dir: impl AsFd, mode: u32) -> io::Result<()> {
    Ok(fchmod(dir, Mode::from_raw_mode(mode as _))?)
}
