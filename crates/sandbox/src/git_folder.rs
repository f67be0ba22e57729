//! The folders `.git` of the places that a command may write, moved back if a command has renamed one.
//!
//! With Landlock, a command can rename `.git`. If becket only put settings and hooks back in a new `.git`, git would not accept
//! that folder without a `HEAD`: it would use a bare repository that the command prepared in the workspace's own folder. So the
//! folder itself is moved back.
//!
//! A renamed folder is looked for where the command could write, a few levels deep. Follows no link, and deletes nothing.

use crate::content::{put_aside, real_path};
use crate::policy::Policy;
use becket_files::dir::Dir;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Limits of the search: levels of folders, entries in all, and folders of one level that are open at once.
const DEEPEST: usize = 4;
const MOST_ENTRIES: usize = 20_000;
const MOST_OPEN: usize = 200;

/// Device and inode of a folder.
type Id = (u64, u64);

/// Device and inode of each folder `.git`, by its resolved path.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GitFolders(#[serde(with = "crate::record::map")] BTreeMap<PathBuf, Id>);

impl GitFolders {
    pub(crate) fn before(policy: &Policy) -> Self {
        let dots = policy.write.iter().map(|place| real_path(&place.join(".git")));
        Self(
            dots.filter_map(|dot| Some((dot.clone(), id(&Dir::open(dot.parent()?).ok()?, ".git".as_ref())?)))
                .collect(),
        )
    }

    /// Moves each folder `.git` that was renamed back to its name. A file or folder that has taken the name is put aside. Adds one
    /// line for each to `out`.
    pub(crate) fn restore(&self, places: &[PathBuf], out: &mut Vec<String>) {
        for (dot, known) in &self.0 {
            let Some(home) = dot.parent().and_then(|parent| Dir::open(parent).ok()) else { continue };
            let now = id(&home, ".git".as_ref());
            if now == Some(*known) {
                continue;
            }
            let nearest = dot.parent().map(Path::to_path_buf);
            let mut places = nearest.iter().chain(places);
            let Some(found) = places.find_map(|place| find(place, *known)) else { continue };
            let shown = found.path.join(&found.name);
            if home.stat(".git".as_ref()).is_ok() && put_aside(dot).is_none() {
                out.push(format!(
                    "{} was renamed to {}, and could not be moved back",
                    dot.display(),
                    shown.display()
                ));
                continue;
            }
            out.push(match found.folder.rename_to(&found.name, &home, ".git".as_ref()) {
                Ok(()) => format!("{} was renamed to {}; it is back", dot.display(), shown.display()),
                Err(why) => {
                    format!(
                        "{} was renamed to {}, and could not be moved back: {why}",
                        dot.display(),
                        shown.display()
                    )
                }
            });
        }
    }
}

/// The position of the renamed folder: its parent, and its name there.
struct Found {
    path: PathBuf,
    folder: Dir,
    name: OsString,
}

fn id(folder: &Dir, name: &OsStr) -> Option<Id> {
    let stat = folder.stat(name).ok()?;
    let is_folder = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
    is_folder.then_some((stat.st_dev, stat.st_ino))
}

/// Searches below `place` for a folder, nearest levels first.
fn find(place: &Path, known: Id) -> Option<Found> {
    let mut level = vec![(place.to_path_buf(), Dir::open(&place.canonicalize().ok()?).ok()?)];
    let mut left = MOST_ENTRIES;
    for _ in 0..DEEPEST {
        let mut next = Vec::new();
        for (path, folder) in level {
            let mut names = Vec::new();
            let _ = folder.list(|name, is_folder, _| {
                left = left.saturating_sub(1);
                if is_folder {
                    names.push(name.to_owned());
                }
                left > 0
            });
            if let Some(name) = names.iter().find(|name| id(&folder, name) == Some(known)) {
                return Some(Found { path, folder, name: name.clone() });
            }
            let inner = names.iter().filter_map(|name| Some((path.join(name), folder.open_dir(name).ok()?)));
            next.extend(inner.take(MOST_OPEN.saturating_sub(next.len())).collect::<Vec<_>>());
        }
        level = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_renamed_folder_is_moved_back_wherever_it_is() {
        for (to, new) in [("old", false), ("a/b/old", false), ("old", true), (".git.bak", true)] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            fs::create_dir_all(root.join(".git/refs")).unwrap();
            fs::create_dir_all(root.join("a/b")).unwrap();
            fs::write(root.join(".git/HEAD"), "mine").unwrap();
            let dot = root.join(".git");
            let before =
                GitFolders([(dot.clone(), id(&Dir::open(&root).unwrap(), ".git".as_ref()).unwrap())].into());
            let restored = || {
                let mut lines = Vec::new();
                before.restore(std::slice::from_ref(&root), &mut lines);
                lines
            };
            assert_eq!(restored(), Vec::<String>::new());
            fs::rename(&dot, root.join(to)).unwrap();
            if new {
                fs::create_dir(&dot).unwrap();
                fs::write(dot.join("HEAD"), "evil").unwrap();
            }
            let lines = restored();
            assert!(lines.len() == 1 && lines[0].ends_with("; it is back"), "{to}: {lines:?}");
            assert_eq!(fs::read_to_string(dot.join("HEAD")).unwrap(), "mine", "{to}");
            assert_eq!(root.join(".git.refused/HEAD").exists(), new, "{to}");
            // A removed folder was not renamed: nothing can be moved back.
            fs::remove_dir_all(&dot).unwrap();
            assert_eq!(restored(), Vec::<String>::new());
        }
    }
}
