//! Writes becket's own files, which only their owner may use: what people typed, decided and set, and what becket
//! noted about servers and models.
//!
//! Invariants:
//! - New folders have mode 0700 and new files mode 0600, whatever the umask is. This includes missing parents, so that nobody else can
//!   exchange a folder on the way.
//! - [`append`] removes the access of others from a file that an older version created readable for them.
//! - After [`replace`], also if it fails, the file has the complete old or the complete new content.
//!
//! Does not change the mode of folders that exist: they may be the user's own.

use crate::temporary;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Creates a folder and its missing parents.
///
/// # Errors
///
/// Fails like [`std::fs::create_dir_all`].
pub fn dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Appends to a file in one write, so that the data of processes that append at the same time does not mix. Creates the file and its
/// folder.
///
/// # Errors
///
/// Fails if the folder or the file cannot be made, opened or written.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        dir(parent)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    file.write_all(bytes)
}

/// Writes a new file beside the old one and renames it into place, so that no reader sees a part of the content. Creates the folder.
///
/// # Errors
///
/// Fails if the folder or the file cannot be made, written or renamed. The old file stays as it was.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        dir(parent)?;
        temporary::remove_left(parent);
    }
    let new = path.with_file_name(temporary::name(path.file_name().unwrap_or_default()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // The old file stays. Only the incomplete new file is removed, if it exists.
        let _ = std::fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folders_and_files_are_for_their_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a/b/lines");
        append(&file, b"one\n").unwrap();
        assert_eq!(
            (mode(&root.path().join("a")), mode(&root.path().join("a/b")), mode(&file)),
            (0o700, 0o700, 0o600)
        );

        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        append(&file, b"two\n").unwrap();
        assert_eq!((std::fs::read(&file).unwrap(), mode(&file)), (b"one\ntwo\n".to_vec(), 0o600));

        replace(&file, b"new").unwrap();
        assert_eq!((std::fs::read(&file).unwrap(), mode(&file)), (b"new".to_vec(), 0o600));
        assert_eq!(std::fs::read_dir(root.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays_and_leaves_nothing_beside_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("folder");
        std::fs::create_dir_all(folder.join("full")).unwrap();
        assert!(replace(&folder, b"new").is_err());
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
