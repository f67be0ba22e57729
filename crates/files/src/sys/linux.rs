//! System calls that open directories on Linux.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

const DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a directory by its absolute path. Refuses a link anywhere in the path.
pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    match openat2(CWD, path, DIR, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) => super::walk(path),
        other => Ok(other?),
    }
}

/// Opens a directory inside another one. Refuses a link.
pub(crate) fn open_dir_at(dir: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(openat(dir, name, DIR, Mode::empty())?)
}

/// Sets the permission bits of an open directory.
pub(crate) fn change_mode(dir: impl AsFd, mode: u32) -> io::Result<()> {
    // The descriptor is opened with `O_PATH`, so `fchmod` refuses it. This path of `/proc` works without the right to enter the directory,
    // which `.` would need.
    let name = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
    Ok(rustix::fs::chmodat(CWD, name, Mode::from_raw_mode(mode), AtFlags::empty())?)
}
