//! The git directories inside a git directory: those of submodules (`modules/NAME`) and of further work trees (`worktrees/NAME`).
//!
//! `git status` in the workspace also looks into each submodule, and obeys its configuration there. Looks only at directories that
//! exist now. If a command makes such a directory, git obeys it only once an entry of the index names it, and `gitlinks` checks
//! that. Reads a few small files.

use becket_types::{OBEYED_IN_GIT_DIR, lexical};
use std::fs;
use std::path::{Path, PathBuf};

/// Names of submodules may contain slashes, so their directories lie at different depths.
const DEPTH: usize = 5;
const MOST: usize = 100;

/// Returns the paths that change what git runs in these directories, and the `.git` of each of their work trees.
pub(crate) fn protected(git_dir: &Path) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    find(&git_dir.join("modules"), DEPTH, &mut dirs);
    find(&git_dir.join("worktrees"), 1, &mut dirs);
    let mut out = Vec::new();
    for dir in dirs {
        out.extend(OBEYED_IN_GIT_DIR.iter().chain(&["gitdir"]).map(|name| dir.join(name)));
        out.extend(pointer(&dir));
    }
    out
}

/// Adds the directories below `folder` that look like git directories.
fn find(folder: &Path, depth: usize, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if out.len() >= MOST || depth == 0 {
            return;
        }
        let path = entry.path();
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // An earlier command may have moved one of the two away.
        if ["HEAD", "config"].iter().any(|name| path.join(name).symlink_metadata().is_ok()) {
            // A submodule may have submodules.
            find(&path.join("modules"), depth - 1, out);
            out.push(path);
        } else {
            find(&path, depth - 1, out);
        }
    }
}

/// Returns the `.git` file of the work tree that belongs to the git directory of a submodule or further work tree.
pub(crate) fn pointer(dir: &Path) -> Option<PathBuf> {
    let read = |name: &str| becket_files::read(&dir.join(name), 64 << 10).ok();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
    if let Some(file) = read("gitdir").and_then(text) {
        return Some(lexical(&dir.join(file.trim_end())));
    }
    let config = read("config").and_then(text)?;
    let tree = config
        .lines()
        .find_map(|line| line.trim().strip_prefix("worktree")?.trim_start().strip_prefix('='))?;
    Some(lexical(&dir.join(tree.trim().trim_matches('"')).join(".git")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submodules_and_work_trees_are_found_with_their_pointers() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        let make = |dir: &str, file: &str, text: &str| {
            let dir = git.join(dir);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(dir.join(file), text).unwrap();
        };
        make("modules/lib/deep", "config", "[core]\n\tworktree = ../../../../lib/deep\n");
        make("modules/lib/deep/modules/inner", "config", "[core]\n\tbare = false\n");
        make("worktrees/other", "gitdir", "/elsewhere/other/.git\n");
        fs::create_dir_all(git.join("modules/no")).unwrap();
        let found = protected(&git);
        for path in [
            git.join("modules/lib/deep/config"),
            git.join("modules/lib/deep/hooks"),
            git.join("modules/lib/deep/modules/inner/config"),
            git.join("worktrees/other/config.worktree"),
            git.join("worktrees/other/gitdir"),
            folder.path().join("lib/deep/.git"),
            PathBuf::from("/elsewhere/other/.git"),
        ] {
            assert!(found.contains(&path), "{}: {found:#?}", path.display());
        }
        assert!(!found.iter().any(|path| path.starts_with(git.join("modules/no"))));
        assert!(protected(&folder.path().join("nothing")).is_empty());
    }
}
