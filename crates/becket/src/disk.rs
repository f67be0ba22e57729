//! Access to files for the guard (names in a folder, and the text of small files), and walks over a project.
//!
//! A folder or file that cannot be read completely is an error, never an empty answer. The guard then asks the user.

use becket_guard::Files;
use ignore::WalkBuilder;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Maximum number of bytes of a file. A git configuration that is larger is not an ordinary one.
const MAX_BYTES: u64 = 1 << 20;

/// Makes a walk over the files of a project. It includes hidden files, but not files that git ignores and not `.git` itself.
///
/// A folder whose ignore rules are a pipe, a device or huge is left out, because the walk would wait for them.
pub(crate) fn walk(root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder.hidden(false).require_git(false).git_global(false).follow_links(false);
    if !root.ancestors().all(becket_files::ignore_rules_are_plain) {
        builder.ignore(false).git_ignore(false).git_exclude(false);
    }
    builder.filter_entry(|entry| {
        let folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let plain = || !folder || becket_files::ignore_rules_are_plain(entry.path());
        entry.depth() == 0 || (entry.file_name() != ".git" && plain())
    });
    builder
}

/// Access to the real file system, for the guard.
pub(crate) struct Disk;

impl Files for Disk {
    fn entries(&self, dir: &Path) -> io::Result<Vec<(String, bool)>> {
        let mut out = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name =
                entry.file_name().into_string().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            let kind = entry.file_type()?;
            let folder = kind.is_dir() || (kind.is_symlink() && entry.path().is_dir());
            out.push((name, folder));
        }
        Ok(out)
    }

    fn text(&self, path: &Path) -> io::Result<String> {
        becket_files::read_text(path, MAX_BYTES)
    }

    fn names_of_file(&self, path: &Path) -> u64 {
        path.symlink_metadata().map_or(1, |meta| if meta.is_file() { meta.nlink() } else { 1 })
    }
}
