//! What the operating system decides about files: opening without following links or blocking, and kinds of files.
//!
//! Owns one file per platform, all with the same functions. Nothing else in this crate asks which platform it is.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{open_dir, open_dir_at, open_read, special};

#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{open_dir, open_dir_at, open_read, special};

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

/// A directory opened component by component from the root, so that a link anywhere on the way is refused.
fn walk(path: &Path) -> io::Result<OwnedFd> {
    let mut dir = open_dir_at(rustix::fs::CWD, "/".as_ref())?;
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => dir = open_dir_at(&dir, name)?,
            Component::ParentDir | Component::Prefix(_) => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    Ok(dir)
}
