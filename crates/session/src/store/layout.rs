//! Paths of stored sessions: `<root>/<project>/<session>/{ledger.jsonl, lock, blobs/}`.
//!
//! A project is the canonical path of a working directory, so every alias of a directory (symbolic link, `.`,
//! trailing slash) is the same project. Its folder name is a readable slug and 24 hex digits of the SHA-256
//! of the path's bytes. So two paths never share a folder, regardless of their bytes and length.

use becket_types::{SessionId, hex};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

pub(crate) const LEDGER: &str = "ledger.jsonl";
/// Name of a new ledger until its first commit is complete.
pub(crate) const LEDGER_NEW: &str = "ledger.new";
pub(crate) const LOCK: &str = "lock";
/// The state of the view after processing the ledger; derived data.
pub(crate) const CHECKPOINT: &str = "checkpoint";
/// Name of a new checkpoint until it is complete.
pub(crate) const CHECKPOINT_NEW: &str = "checkpoint.new";
/// Name of the folder with the blobs of a session.
pub const BLOBS: &str = "blobs";

const SLUG: usize = 40;
const DIGITS: usize = 24;

/// Returns the path that identifies a project: canonical, or only absolute if the directory no longer exists.
pub fn canonical(cwd: &Path) -> PathBuf {
    cwd.canonicalize().or_else(|_| std::path::absolute(cwd)).unwrap_or_else(|_| cwd.to_path_buf())
}

/// Returns the folder name of the project that `cwd` belongs to.
pub fn project_name(cwd: &Path) -> String {
    let path = canonical(cwd);
    let digest = hex(&Sha256::digest(path.as_os_str().as_encoded_bytes()));
    let last = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let mut slug = String::new();
    for c in last.chars().take(SLUG) {
        let c = if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        if c != '-' || !slug.ends_with('-') {
            slug.push(c);
        }
    }
    let slug = slug.trim_matches('-');
    format!("{}-{}", if slug.is_empty() { "dir" } else { slug }, &digest[..DIGITS])
}

pub(crate) fn project_dir(root: &Path, cwd: &Path) -> PathBuf {
    root.join(project_name(cwd))
}

/// Returns the folder of a session: `root/PROJECT/ID`. The project's name is made from `cwd`. Nothing is read or created.
pub fn session_dir(root: &Path, cwd: &Path, id: SessionId) -> PathBuf {
    project_dir(root, cwd).join(id.to_string())
}

/// Returns the path of the ledger in a session's folder.
pub fn ledger_path(session_dir: &Path) -> PathBuf {
    session_dir.join(LEDGER)
}

/// Returns the path of the copy of the conversation that hooks read, in a session's folder.
pub fn transcript_path(session_dir: &Path) -> PathBuf {
    session_dir.join("transcript.jsonl")
}

/// Returns the id in the name of a session's folder.
pub fn id_of(session_dir: &Path) -> Option<SessionId> {
    session_dir.file_name()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_readable_and_differ_where_paths_differ() {
        let names: Vec<String> =
            ["/a/my_app", "/a/my-app", "/a/my.app", "/a/My_App", "/", "/ä", "/a/my_app/x"]
                .iter()
                .map(|p| project_name(Path::new(p)))
                .collect();
        assert!(names[0].starts_with("my-app-") && names[0].len() == "my-app-".len() + DIGITS);
        assert!(names[4].starts_with("dir-"));
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn every_alias_of_a_directory_is_one_project() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        std::fs::create_dir(&real).unwrap();
        let want = project_name(&real);
        assert_eq!(project_name(&real.join(".")), want);
        assert_eq!(project_name(&real.join("../real/")), want);
        #[cfg(unix)]
        {
            let link = dir.path().join("link");
            std::os::unix::fs::symlink(&real, &link).unwrap();
            assert_eq!(project_name(&link), want);
        }
    }

    proptest! {
        #[test]
        fn any_two_paths_have_two_names(a in "(/[^/\0]{1,60}){1,70}", b in "(/[^/\0]{1,60}){1,70}") {
            let (a, b) = (canonical(Path::new(&a)), canonical(Path::new(&b)));
            let (x, y) = (project_name(&a), project_name(&b));
            prop_assert_eq!(a == b, x == y);
            prop_assert!(x.len() <= SLUG + 1 + DIGITS);
            prop_assert!(x.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-'));
        }

        #[cfg(unix)]
        #[test]
        fn any_bytes_in_a_path_make_a_name(bytes in proptest::collection::vec(1u8..=255, 1..5000)) {
            let path = super::super::sys::path_from_bytes(&bytes);
            prop_assert!(project_name(&path).len() <= SLUG + 1 + DIGITS);
            prop_assert_eq!(path.as_os_str().as_encoded_bytes(), &bytes[..]);
        }
    }
}
