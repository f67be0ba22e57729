//! Suggestions for a path that does not exist.
//!
//! Owns the search: first similar names in the nearest existing directory, then the same file name anywhere below the
//! working directory. At most [`ENTRIES`] names are examined below the working directory. Opens nothing.

use becket_tool::{ToolEnv, paths};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use unicode_normalization::UnicodeNormalization as _;

/// Number of names examined to find the same file name elsewhere.
const ENTRIES: usize = 5_000;
/// Maximum number of suggestions.
const OFFERED: usize = 3;
/// Folders of dependencies and build outputs, which are skipped.
const FOREIGN: &[&str] = &["node_modules", "target", "vendor", "dist", "build", "__pycache__", "venv"];

/// Returns at most three paths, best first.
pub(crate) fn paths(path: &Path, env: &ToolEnv) -> Vec<PathBuf> {
    let near = paths::suggestions(path);
    if !near.is_empty() {
        return near;
    }
    if let Some(same) = composed_otherwise(path) {
        return vec![same];
    }
    let Some(name) = path.file_name().and_then(|n| n.to_str()) else { return Vec::new() };
    files_named(name, &env.cwd)
}

/// Returns the only file beside `path` whose name has the same ASCII characters once accents are removed. Some systems
/// write `é` as two characters.
fn composed_otherwise(path: &Path) -> Option<PathBuf> {
    let bare = |name: &str| -> Option<String> {
        let marked = |c: char| !c.is_ascii();
        name.contains(marked).then(|| name.nfd().filter(char::is_ascii).collect())
    };
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    let wanted = bare(name)?;
    let names = std::fs::read_dir(folder).ok()?.take(ENTRIES).flatten();
    let mut same = names.filter(|e| e.file_name().to_str().and_then(bare).as_deref() == Some(&wanted));
    same.next().filter(|_| same.next().is_none()).map(|entry| entry.path())
}

/// Returns files named `name` below `root`, the nearest to `root` first. Case is ignored.
fn files_named(name: &str, root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = ENTRIES;
    let mut folders = VecDeque::from([root.to_owned()]);
    while let Some(folder) = folders.pop_front() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        let mut names: Vec<(String, bool)> = Vec::new();
        for entry in entries.flatten() {
            if left == 0 {
                break;
            }
            left -= 1;
            if let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) {
                names.push((name, kind.is_dir()));
            }
        }
        names.sort_unstable();
        for (other, is_folder) in names {
            if other.to_lowercase() == name.to_lowercase() {
                found.push(folder.join(&other));
                if found.len() == OFFERED {
                    return found;
                }
            } else if is_folder && !other.starts_with('.') && !FOREIGN.contains(&other.as_str()) {
                folders.push_back(folder.join(other));
            }
        }
        if left == 0 {
            break;
        }
    }
    found
}
