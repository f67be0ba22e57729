//! Platform-specific ways to open a directory without following links.
//!
//! One file per platform, all with the same functions.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{change_mode, open_dir, open_dir_at};

#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{change_mode, open_dir, open_dir_at};

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

/// Opens a directory component by component from the root, so that a link anywhere in the path is refused.
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
