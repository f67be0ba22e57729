//! Metadata of a replaced file: owner, mode, extended attributes (including access lists and capabilities).
//!
//! Invariant: the new file gets exactly the metadata of the old one, or the call fails. Attributes that only the system
//! assigns (`security.*`, `trusted.*`) are left to the system, except capabilities. Writes no content.

use crate::file::FileError;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const CAPABILITY: &[u8] = b"security.capability";
/// Set-user-id and set-group-id bits. The system clears them when a file is written.
const SET_ID: u32 = 0o6000;

/// Copies owner, attributes and mode from `old` to `new`.
///
/// # Errors
///
/// Fails if the owner, an attribute or the mode cannot be set.
pub(crate) fn copy_metadata(new: &File, old: &File) -> io::Result<()> {
    let (meta, mine) = (old.metadata()?, new.metadata()?);
    if (mine.uid(), mine.gid()) != (meta.uid(), meta.gid()) {
        std::os::unix::fs::fchown(new, Some(meta.uid()), Some(meta.gid()))?;
    }
    let theirs = attributes(old)?;
    let by_system =
        |name: &[u8]| name != CAPABILITY && (name.starts_with(b"security.") || name.starts_with(b"trusted."));
    // The directory's defaults may have given the new file an access list that the old one lacks.
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
    // The mode comes last, because changing the owner or the access list clears bits.
    set_mode(new, meta.mode() & 0o7777)
}

/// Sets the mode. Fails if the system silently omitted a bit.
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))?;
    let got = file.metadata()?.mode() & 0o7777;
    if got == mode { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Returns all extended attributes; empty if the file system does not support them.
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

/// Mode bits and capabilities that the system clears when a file is written. They are restored after the
/// write.
pub(crate) struct ClearedBits {
    mode: u32,
    capability: Option<Vec<u8>>,
}

impl ClearedBits {
    pub(crate) fn read(file: &File) -> io::Result<Self> {
        let mut value = vec![0u8; 1024];
        let capability = rustix::fs::fgetxattr(file, CAPABILITY, value.as_mut_slice()).ok();
        let capability = capability.map(|size| value[..size].to_vec());
        Ok(Self { mode: file.metadata()?.mode() & 0o7777, capability })
    }

    /// Call this before a write in place: it fails if mode or capabilities could not be restored afterwards.
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
            "{} has permission bits (mode {:04o}) that are lost if another user writes it; nothing was changed. Its owner or root must edit it.",
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
