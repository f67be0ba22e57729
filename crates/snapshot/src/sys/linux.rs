//! Linux: opens paths so that the kernel itself refuses links and `..` (`openat2`, since 5.6); extended attributes.

use super::Attributes;
use becket_types::hex;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, XattrFlags, chmodat, fgetxattr, flistxattr, fsetxattr, fstat,
    openat,
};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

/// Limit on the attributes of one file in a record, in bytes.
const RECORDED: usize = 4 << 10;
/// Largest list of attribute names, and largest value, that the kernel supports, in bytes.
const LARGEST: usize = 64 << 10;

/// Copies user attributes and the access control list from one file to another, as far as the file system allows.
pub(super) fn copy_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    let (mut names, mut value) = (vec![0_u8; LARGEST], Vec::new());
    let Ok(length) = flistxattr(from, names.as_mut_slice()) else { return };
    names.truncate(length);
    for name in names.split_inclusive(|byte| *byte == 0) {
        if !name.starts_with(b"user.") && name != b"system.posix_acl_access\0" {
            continue;
        }
        value.resize(LARGEST, 0);
        if let Ok(name) = CStr::from_bytes_with_nul(name)
            && let Ok(length) = fgetxattr(from, name, value.as_mut_slice())
        {
            // If this file system cannot store the attribute, the replaced file did not have it either.
            let _ = fsetxattr(to, name, value.get(..length).unwrap_or_default(), XattrFlags::empty());
        }
    }
}

/// Reads the extended attributes for a record. Returns none if they are longer than [`RECORDED`].
pub(super) fn attributes(file: BorrowedFd<'_>) -> Attributes {
    let mut names = [0_u8; 1 << 10];
    let (mut out, mut left) = (Attributes::new(), RECORDED);
    let Ok(length) = flistxattr(file, names.as_mut_slice()) else { return out };
    for name in names.get(..length).unwrap_or_default().split_inclusive(|byte| *byte == 0) {
        let mut value = [0_u8; RECORDED];
        if (name.starts_with(b"user.") || name == b"system.posix_acl_access\0")
            && let Ok(name) = CStr::from_bytes_with_nul(name)
            && let Ok(key) = name.to_str()
            && let Ok(length) = fgetxattr(file, name, value.as_mut_slice())
            && let Some(value) = value.get(..length).filter(|value| value.len() <= left)
        {
            left -= value.len();
            out.insert(key.to_owned(), hex(value));
        }
    }
    out
}

/// Sets a file's attributes from a record, as far as the file system allows.
pub(super) fn set_attributes(file: BorrowedFd<'_>, attributes: &Attributes) {
    for (name, value) in attributes {
        let bytes: Option<Vec<u8>> = (0..value.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(value.get(at..at + 2)?, 16).ok())
            .collect();
        if let Some(bytes) = bytes.filter(|_| name.starts_with("user.") || name == "system.posix_acl_access")
        {
            let _ = fsetxattr(file, name.as_str(), &bytes, XattrFlags::empty());
        }
    }
}

/// Sets the permission bits of the file with this inode number, even if the file may not be read. Linux has no call
/// that changes the mode by name without following a link. So the file is opened with `O_PATH`, which needs no right to
/// read, and changed through `/proc/self/fd`.
pub(super) fn set_mode(dir: BorrowedFd<'_>, name: &OsStr, inode: u64, mode: u32) -> io::Result<()> {
    let file = openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if fstat(&file)?.st_ino != inode {
        return Err(io::Error::other("it changed while it was being restored"));
    }
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    chmodat(CWD, opened, Mode::from_raw_mode(mode), AtFlags::empty())?;
    Ok(())
}

/// Opens a directory below `root`; `None` if the kernel or a sandbox does not support the system call.
pub(super) fn open_beneath(root: BorrowedFd<'_>, relative: &Path) -> Option<io::Result<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, relative, flags, Mode::empty(), resolve) {
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM | rustix::io::Errno::INVAL) => None,
        other => Some(other.map_err(io::Error::from)),
    }
}
