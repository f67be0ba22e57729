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

/// Renames a file or folder to a name in the same folder that no program obeys.
pub(crate) fn put_aside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let free = (0..100).map(|n| match n {
        0 => path.with_file_name(format!("{name}.refused")),
        n => path.with_file_name(format!("{name}.refused-{n}")),
    });
    let to = free.into_iter().find(|to| to.symlink_metadata().is_err())?;
    fs::rename(path, &to).ok().map(|()| to)
}
