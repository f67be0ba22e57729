//! Identity of a file for the operating system, independent of its current name.

use std::fs::File;
use std::io;

/// Device and number of an open file.
#[cfg(unix)]
pub(crate) fn identity(file: &File) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Not known on this platform: sessions in PostgreSQL are not supported there.
#[cfg(not(unix))]
pub(crate) fn identity(_: &File) -> io::Result<(u64, u64)> {
    Err(io::ErrorKind::Unsupported.into())
}
