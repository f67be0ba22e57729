//! Identity of a file for the operating system, independent of its name.

use std::fs::File;
use std::io;

/// Returns the device and inode number of an open file.
#[cfg(unix)]
pub(crate) fn identity(file: &File) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Returns an error: this platform has no such identity, so sessions in PostgreSQL are not supported on it.
#[cfg(not(unix))]
pub(crate) fn identity(_: &File) -> io::Result<(u64, u64)> {
    Err(io::ErrorKind::Unsupported.into())
}
