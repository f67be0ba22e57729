//! Linux: the kernel itself refuses links and ways out of a directory (`openat2`, since 5.6).

use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// Opens a directory below `root`; `None` where the kernel or a sandbox does not know the call.
pub(super) fn open_beneath(root: BorrowedFd<'_>, relative: &Path) -> Option<io::Result<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, relative, flags, Mode::empty(), resolve) {
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM | rustix::io::Errno::INVAL) => None,
        other => Some(other.map_err(io::Error::from)),
    }
}
