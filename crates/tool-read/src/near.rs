//! Suggestions for a path that does not exist.
//!
//! Owns the looking around: first names like it in the nearest existing directory, then the same file name anywhere below the
//! working directory. Bounded by entries, not by luck: at most [`ENTRIES`] names are looked at. Opens nothing.

use becket_tool::{ToolEnv, paths};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use unicode_normalization::UnicodeNormalization as _;

/// Names that are looked at for the same file name elsewhere.
const ENTRIES: usize = 5_000;
/// Paths that are offered.
const OFFERED: usize = 3;
/// Folders of other people's files.
const FOREIGN: &[&str] = &["node_modules", "target", "vendor", "dist", "build", "__pycache__", "venv"];

/// At most three paths, best first.
pub(crate) fn paths(path: &Path, env: &ToolEnv) -> Vec<PathBuf> {
    let near = paths::suggestions(path);
    if !near.is_empty() {
        return near;
    }
    if let Some(same) = composed_otherwise(path) {
        return vec![same];
    }
    let Some(name) = path.file_name().and_then(|n| n.to_str()) else { return Vec::new() };
    elsewhere(name, &env.cwd)
}

/// The only file beside `path` whose name is the same but for its letters with marks: some systems write `é` as two characters.
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

/// Files called `name` below `root`, the nearest to it first. Case does not count.
fn elsewhere(name: &str, root: &Path) -> Vec<PathBuf> {
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
