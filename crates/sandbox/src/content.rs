//! The contents of files and folders at one moment, for a comparison, and names for those that must not stay.
//!
//! Limits: of folders with more than [`MOST_FILES`] files, and of files over [`MOST_BYTES`], only names are kept.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(crate) const MOST_FILES: usize = 64;
pub(crate) const MOST_BYTES: u64 = 256 << 10;

/// The content of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    Link(PathBuf),
    File { mode: u32, content: Option<Vec<u8>> },
    Other,
}

pub(crate) fn state(place: &Path) -> BTreeMap<PathBuf, Kind> {
    let mut out = BTreeMap::new();
    look(place, &mut out);
    out
}

fn look(path: &Path, out: &mut BTreeMap<PathBuf, Kind>) {
    let Ok(meta) = path.symlink_metadata() else { return };
    let kind = if meta.is_dir() {
        Kind::Folder
    } else if meta.is_symlink() {
        Kind::Link(fs::read_link(path).unwrap_or_default())
    } else if meta.is_file() {
        let content = (out.len() < MOST_FILES).then(|| becket_files::read(path, MOST_BYTES).ok()).flatten();
        Kind::File { mode: meta.permissions().mode(), content }
    } else {
        Kind::Other
    };
    let folder = kind == Kind::Folder;
    out.insert(path.to_path_buf(), kind);
    if folder && out.len() < MOST_FILES * 4 {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            look(&entry.path(), out);
        }
    }
}

/// Names with a small number that are tried before one that nobody can prepare.
const NUMBERED: u32 = 20;

/// Renames a file or folder to a name in the same folder that no program obeys. A command may have taken names and rights
/// away to prevent that.
pub(crate) fn put_aside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let moment = || std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
    let free = (0..NUMBERED * 2).map(|n| match n {
        0 => path.with_file_name(format!("{name}.refused")),
        n if n < NUMBERED => path.with_file_name(format!("{name}.refused-{n}")),
        _ => path.with_file_name(format!("{name}.refused-{:x}", moment())),
    });
    let to = free.into_iter().find(|to| to.symlink_metadata().is_err())?;
    let moved = fs::rename(path, &to).or_else(|error| {
        let folder = path.parent().ok_or(error)?;
        let meta = fs::symlink_metadata(folder)?;
        if !meta.is_dir() {
            return Err(std::io::ErrorKind::NotADirectory.into());
        }
        let mode = meta.permissions().mode();
        fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700))?;
        let again = fs::rename(path, &to);
        fs::set_permissions(folder, fs::Permissions::from_mode(mode))?;
        again
    });
    moved.ok().map(|()| to)
}

/// True for the names that [`put_aside`] gives.
pub(crate) fn is_put_aside(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.as_encoded_bytes().starts_with(b"refused"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_put_aside_whatever_a_command_prepared() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        for n in 0..NUMBERED {
            let ending = if n == 0 { String::new() } else { format!("-{n}") };
            fs::write(dir.path().join(format!("x.refused{ending}")), "").unwrap();
        }
        fs::write(&path, "evil").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).unwrap();
        let to = put_aside(&path).unwrap();
        assert!(!path.exists() && fs::read_to_string(to).unwrap() == "evil");
        assert_eq!(dir.path().metadata().unwrap().permissions().mode() & 0o777, 0o500);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    }
}
