//! What belongs to a file besides its content: owner, mode, extended attributes (access lists and capabilities are some).
//!
//! Invariant: a file that takes over has exactly what the other has, or the call fails; labels that only the system gives
//! (`security.*`, `trusted.*`) are left to it, capabilities are not. Writes no content.

use crate::file::FileError;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const CAPABILITY: &[u8] = b"security.capability";
/// Set-user-id and set-group-id: what the system takes from a file that is written to.
const SET_ID: u32 = 0o6000;

/// Owner, attributes and mode of `old` for `new`.
pub(crate) fn take_over(new: &File, old: &File) -> io::Result<()> {
    let (meta, mine) = (old.metadata()?, new.metadata()?);
    if (mine.uid(), mine.gid()) != (meta.uid(), meta.gid()) {
        std::os::unix::fs::fchown(new, Some(meta.uid()), Some(meta.gid()))?;
    }
    let theirs = attributes(old)?;
    let by_system =
        |name: &[u8]| name != CAPABILITY && (name.starts_with(b"security.") || name.starts_with(b"trusted."));
    // The directory may have given the new file an access list that the old one does not have.
    for (name, _) in attributes(new)? {
        if !theirs.iter().any(|(other, _)| *other == name) && !by_system(&name) {
            rustix::fs::fremovexattr(new, name.as_slice())?;
        }
    }
    for (name, value) in &theirs {
        match rustix::fs::fsetxattr(new, name.as_slice(), value, XattrFlags::empty()) {
            Err(e) if !by_system(name) => return Err(e.into()),
            _ => {}
        }
    }
    // Last: a change of owner or of the access list takes bits away.
    set_mode(new, meta.mode() & 0o7777)
}

/// Sets the mode, and fails where the system leaves a bit out without a word.
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))?;
    let got = file.metadata()?.mode() & 0o7777;
    if got == mode { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// All extended attributes; none where the file system has none.
fn attributes(file: &File) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut buffer = vec![0u8; 64 * 1024];
    let length = match rustix::fs::flistxattr(file, buffer.as_mut_slice()) {
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        other => other?,
    };
    let names: Vec<Vec<u8>> =
        buffer[..length].split(|b| *b == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
    let mut out = Vec::with_capacity(names.len());
    for name in names {
        let size = rustix::fs::fgetxattr(file, name.as_slice(), buffer.as_mut_slice())?;
        out.push((name, buffer[..size].to_vec()));
    }
    Ok(out)
}

/// What a write into a file takes from it: the system clears these for safety. Given back after the write.
pub(crate) struct Rights {
    mode: u32,
    capability: Option<Vec<u8>>,
}

impl Rights {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let mut value = vec![0u8; 1024];
        let capability = rustix::fs::fgetxattr(file, CAPABILITY, value.as_mut_slice()).ok();
        let capability = capability.map(|size| value[..size].to_vec());
        Ok(Self { mode: file.metadata()?.mode() & 0o7777, capability })
    }

    /// Fails before anything is written where they could not be given back.
    pub(crate) fn check(&self, file: &File, path: &Path) -> Result<(), FileError> {
        let Ok(meta) = file.metadata() else { return Ok(()) };
        let root = rustix::process::geteuid().is_root();
        let owner = meta.uid() == rustix::process::geteuid().as_raw();
        let in_group = || {
            let mut groups = rustix::process::getgroups().unwrap_or_default();
            groups.push(rustix::process::getegid());
            groups.iter().any(|group| group.as_raw() == meta.gid())
        };
        let keeps_mode = self.mode & SET_ID == 0 || owner && (self.mode & 0o2000 == 0 || in_group());
        if root || keeps_mode && self.capability.is_none() {
            return Ok(());
        }
        Err(FileError::Refused(format!(
            "{} has rights (mode {:04o}) that a write by anybody but its owner takes away; nothing was changed. Its owner or root must edit it.",
            path.display(),
            self.mode
        )))
    }

    pub(crate) fn give_back(&self, file: &File) -> io::Result<()> {
        if file.metadata()?.mode() & 0o7777 != self.mode {
            set_mode(file, self.mode)?;
        }
        if let Some(value) = &self.capability {
            rustix::fs::fsetxattr(file, CAPABILITY, value, XattrFlags::empty())?;
        }
        Ok(())
    }
}
