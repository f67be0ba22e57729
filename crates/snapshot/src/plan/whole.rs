//! Decisions of a plan that concern several paths together: repositories that calls created, and folders that no longer exist.

use super::{Action, PlannedPath, Step, look};
use crate::git::{Objects, Repo, is_git_dir};
use crate::sys;
use becket_types::FileNode;
use becket_types::invisible::escaped;
use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Maximum number of paths that are deleted with a repository although no change records that a call wrote them.
const MOST: usize = 20_000;
/// Maximum size of these paths together, in bytes. They are saved before they are deleted.
const BYTES: u64 = 100_000_000;

/// Removes the deletion of new objects of repositories from a plan. Objects do no harm, and commits that others made since may need
/// them.
pub(super) fn keep_objects(steps: &mut BTreeMap<PathBuf, Step>) {
    let mut objects = Objects::default();
    steps.retain(|path, step| step.want.is_some() || !objects.contains(path));
}

/// If the calls created a repository, deletes it as a whole with its objects, or not at all: if any of its files has changed since,
/// somebody uses it.
pub(super) fn repositories(paths: &mut Vec<PlannedPath>, force: bool) {
    let is_head = |p: &&PlannedPath| p.want.is_none() && p.now.is_some() && p.path.ends_with("HEAD");
    let folders = paths.iter().filter(is_head).filter_map(|p| p.path.parent());
    let mut created: Vec<PathBuf> = folders.filter(|dir| is_git_dir(dir)).map(Path::to_path_buf).collect();
    created.sort();
    let mut done: Vec<PathBuf> = Vec::new();
    for dir in created {
        if done.iter().any(|above| dir.starts_with(above)) {
            continue;
        }
        forget_objects(&dir, paths);
        match others(&dir, paths, force) {
            Ok(more) => paths.extend(more),
            Err(why) => leave(&dir, paths, why),
        }
        done.push(dir);
    }
    paths.sort_by(|a, b| a.path.cmp(&b.path));
}

/// Plans no restore of objects that one call created and a later one deleted. The ledger records their deletion only.
fn forget_objects(dir: &Path, paths: &mut [PlannedPath]) {
    let mut objects = Objects::default();
    for p in paths.iter_mut().filter(|p| p.want.is_some() && p.path.starts_with(dir)) {
        if objects.contains(&p.path) {
            p.want = None;
            p.action = if p.now.is_some() { Action::Delete } else { Action::Unchanged };
        }
    }
}

/// The paths of a repository that the plan does not name yet.
///
/// # Errors
///
/// Returns the reason in words for people if the repository must stay.
fn others(dir: &Path, paths: &[PlannedPath], force: bool) -> Result<Vec<PlannedPath>, &'static str> {
    let changed = "its repository was changed since, so all of it stays";
    let mine = || paths.iter().filter(|p| p.path.starts_with(dir));
    if mine().any(|p| matches!(p.action, Action::Conflict(_) | Action::Lost(_))) {
        return Err(changed);
    }
    let planned: HashSet<&Path> = mine().map(|p| p.path.as_path()).collect();
    let (mut more, mut bytes, mut objects) = (Vec::new(), 0, Objects::default());
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        let listing = std::fs::read_dir(&dir).map_err(|_| "its repository cannot be read")?;
        for entry in listing {
            let path = entry.map_err(|_| "its repository cannot be read")?.path();
            let meta = sys::lstat(&path).map_err(|_| changed)?;
            if meta.kind == sys::Kind::Dir {
                dirs.push(path.clone());
            }
            if planned.contains(path.as_path()) {
                continue;
            }
            if !force && !objects.contains(&path) {
                return Err(changed);
            }
            bytes += meta.size;
            if more.len() >= MOST || bytes > BYTES {
                return Err("its repository is too large to be saved before it is deleted");
            }
            let now = look(&path).map_err(|_| changed)?.0;
            more.push(PlannedPath { path, action: Action::Delete, want: None, now, lines: None, bytes: 0 });
        }
    }
    Ok(more)
}

/// Leaves a repository alone, and the `.git` file that leads to it from its working tree.
fn leave(dir: &Path, paths: &mut [PlannedPath], why: &str) {
    let leads = |p: &PlannedPath| {
        p.path.ends_with(".git")
            && p.path.parent().and_then(Repo::at).is_some_and(|repo| repo.dir.starts_with(dir))
    };
    for p in paths {
        let acts = matches!(p.action, Action::Restore | Action::Delete);
        if acts && (p.path.starts_with(dir) || leads(p)) {
            p.action = Action::Conflict(why.to_owned());
        }
    }
}

/// Turns paths whose folder no longer exists into conflicts, unless the plan restores the folder too. The person who deleted or
/// renamed the folder would not look for the files there.
pub(super) fn folders(paths: &mut [PlannedPath]) {
    let is_back =
        |p: &&PlannedPath| p.action == Action::Restore && matches!(p.want, Some(FileNode::Dir { .. }));
    let back: HashSet<PathBuf> = paths.iter().filter(is_back).map(|p| p.path.clone()).collect();
    for p in paths {
        if p.now.is_some() || !matches!(p.action, Action::Restore | Action::Conflict(_)) {
            continue;
        }
        let is_gone = |dir: &&Path| sys::lstat(dir).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        let gone = p.path.ancestors().skip(1).take_while(is_gone).last();
        if let Some(gone) = gone.filter(|gone| !back.contains(*gone)) {
            let gone = gone.to_string_lossy();
            let gone = escaped(&gone);
            p.action = Action::Conflict(format!("its folder {gone} does not exist any more"));
        }
    }
}
