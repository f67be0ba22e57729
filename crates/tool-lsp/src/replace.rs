//! Replacing the content of an existing file.
//!
//! A file that becket's user owns and that has one name is replaced atomically (written beside it, synced, renamed) and keeps its
//! mode. A file with several names, another owner or extended attributes would lose these by that, so it is written in place.

use rustix::fs::listxattr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum size in bytes. Larger files are not formatted or renamed in.
pub(crate) const MAX_FILE: u64 = 1 << 20;

/// Returns the text of a UTF-8 file of at most [`MAX_FILE`] bytes.
///
/// # Errors
///
/// Returns the reason if the file cannot be read, is larger, or is not UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let (file, meta) = becket_tool::paths::open_file(path).map_err(|e| e.to_string())?;
    if meta.len() > MAX_FILE {
        return Err(format!("{} is larger than 1 MB", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))
}

/// Replaces the content of `path` by `new`, if it is still `old`.
///
/// # Errors
///
/// Returns a message if the file has changed or cannot be written.
pub(crate) fn replace(path: &Path, old: &str, new: &str) -> Result<(), String> {
    let fail = |e: io::Error| format!("{}: {e}", path.display());
    if read_text(path)? != old {
        return Err(format!("{} was changed by another program at the same time", path.display()));
    }
    let meta = path.symlink_metadata().map_err(fail)?;
    if plain(path, &meta) { rename_over(path, &meta, new) } else { in_place(path, new) }.map_err(fail)
}

fn plain(path: &Path, meta: &Metadata) -> bool {
    let ours = meta.uid() == rustix::process::geteuid().as_raw();
    let attributes = listxattr(path, &mut [0_u8; 4096][..]).unwrap_or(0);
    meta.is_file() && meta.nlink() == 1 && ours && attributes == 0
}

fn rename_over(path: &Path, meta: &Metadata, new: &str) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(".becket-").tempfile_in(dir)?;
    file.write_all(new.as_bytes())?;
    file.as_file().set_permissions(meta.permissions())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    File::open(dir)?.sync_all()
}

fn in_place(path: &Path, new: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(new.as_bytes())?;
    file.set_len(new.len() as u64)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn mode_and_names_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a.sh");
        std::fs::write(&path, "old and long\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).unwrap();
        replace(&path, "old and long\n", "new\n").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o751);
        let other = path.with_file_name("b.sh");
        std::fs::hard_link(&path, &other).unwrap();
        replace(&path, "new\n", "n\n").unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "n\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_not_what_was_read_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a");
        std::fs::write(&path, "somebody's").unwrap();
        assert!(replace(&path, "ours", "new").unwrap_err().contains("another program"));
        std::fs::write(&path, b"\xff\xfe").unwrap();
        assert!(read_text(&path).unwrap_err().contains("not UTF-8"));
        std::fs::write(&path, vec![b'x'; MAX_FILE as usize + 1]).unwrap();
        assert!(read_text(&path).unwrap_err().contains("larger than"));
        assert_eq!(std::fs::read(&path).unwrap().len(), MAX_FILE as usize + 1);
    }
}
