//! The part of the workspace that hooks and MCP servers may write: what is in its folders already, and what is no file that
//! other programs obey.
//!
//! Such a program may run as long as the session, so a check at its end comes too late, and a check in between can be
//! raced. It gets no right on the workspace's own folder, only on the entries in it. The kernel then keeps it from making a
//! protected name there, whether it exists or not. Reads folders, and follows no links.

use becket_types::{obeyed, obeyed_in};
use std::fs;
use std::path::{Path, PathBuf};

/// Most entries of one folder, because each is a mount or a rule of its own. Folders come first.
const MOST: usize = 200;

/// Returns the entries of `roots` that such a program may write: none of a folder that is or contains the home folder, where
/// the settings of all other programs are.
pub(crate) fn writable(roots: &[PathBuf], home: &Path) -> Vec<PathBuf> {
    let narrow = roots.iter().filter(|root| !home.starts_with(root));
    narrow.flat_map(|root| entries(root, roots)).collect()
}

fn entries(root: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    let protected = obeyed_in(root);
    let mut found: Vec<(bool, PathBuf)> = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        let leads_to_protected = obeyed(Path::new(&entry.file_name())).is_some()
            || protected.iter().any(|place| place.starts_with(&path));
        // Another folder of the workspace gets its own entries.
        let has_root = roots.iter().any(|other| other.starts_with(&path));
        if (kind.is_dir() || kind.is_file()) && !leads_to_protected && !has_root {
            found.push((kind.is_file(), path));
        }
    }
    found.sort();
    found.into_iter().take(MOST).map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_nothing_obeys_are_writable() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for folder in [".git/hooks", ".config", ".vscode", "src", "sub/inner"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["a.txt", ".envrc", ".bashrc", "HEAD"] {
            fs::write(root.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        let at = |name: &str| root.join(name);
        let home = Path::new("/home/u");
        let root = root.to_path_buf();
        let all = [at("sub"), at("src"), at("HEAD"), at("a.txt")];
        let mut found = writable(std::slice::from_ref(&root), home);
        found.sort();
        let mut want = all.to_vec();
        want.sort();
        assert_eq!(found, want);
        assert!(!writable(&[root.clone(), at("sub/inner")], home).contains(&at("sub")));
        assert!(writable(&[at("nothing")], home).is_empty());
        assert!(writable(std::slice::from_ref(&root), &at("u")).is_empty());
    }
}
