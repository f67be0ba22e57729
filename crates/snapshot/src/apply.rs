//! Carries out the plan of an undo or redo. Follows no link, replaces each file atomically, and keeps the present content
//! first.
//!
//! Order: existing directories of the plan become accessible to their owner; files and links that must not exist are deleted, then
//! directories that must not exist, deepest first; missing directories are created, shallowest first; files and links are restored;
//! last, the modes of directories are set. A restored file gets its old mode but a new modification time, because build tools must
//! see that it changed.

use crate::Store;
use crate::keep::{Caps, Keeper, Pack, Packs, Refused, content};
use crate::plan::{Action, Plan, PlannedPath, left_alone};
use crate::sys::{self, Kind, ParentFolder};
use becket_types::{
    CallId, FileChanges, FileContent, FileNode, FilePath, FileSnapshot, FileStamp, PathChange, SkippedPath,
    hex,
};
use sha2::{Digest as _, Sha256};
use std::io;
use std::path::Path;

/// The permission bit that lets the owner of a file read it.
pub(crate) const OWNER_READS: u32 = 0o400;

/// The result of carrying out a plan.
#[derive(Debug)]
pub struct Applied {
    /// The record for the ledger.
    pub changes: FileChanges,
    /// Paths that could not be changed, with the reason.
    pub failed: Vec<SkippedPath>,
}

/// Keeps the contents that the plan would overwrite. The returned record says the present state of every path and the wanted one.
/// It must be in the ledger before [`apply`] is called, so that a crash loses nothing.
pub fn prepare(plan: &mut Plan, id: &CallId, store: &dyn Store) -> FileSnapshot {
    let caps = Caps { file: u64::MAX, session: u64::MAX, total: u64::MAX };
    let (mut keeper, mut pack, mut skipped) = (Keeper::default(), Pack::default(), Vec::new());
    let mut opened = Opened::default();
    for planned in &mut plan.paths {
        if !matches!(planned.action, Action::Restore | Action::Delete) {
            continue;
        }
        if let Some(FileNode::File(file)) = &mut planned.now
            && let Err(why) = opened
                .keep(&planned.path, file, |file| keeper.keep(&planned.path, file, &mut pack, &caps, store))
        {
            planned.action = Action::Conflict(why.clone());
            skipped.push(SkippedPath { path: FilePath(planned.path.clone()), reason: why });
        }
    }
    keeper.close(&mut pack, store);
    let mut files = Vec::new();
    for planned in &mut plan.paths {
        if let Some(FileNode::File(file)) = &mut planned.now {
            keeper.place(file);
        }
        if matches!(planned.action, Action::Restore | Action::Delete) {
            let (before, after) = (planned.now.clone(), planned.want.clone());
            files.push(PathChange { path: FilePath(planned.path.clone()), before, after });
        }
    }
    let undo = Some(record(plan, files, left_alone(plan), store));
    let (files, manifest) = (Vec::new(), None);
    FileSnapshot { call_id: id.clone(), files, manifest, skipped, ignored: false, git: false, undo }
}

/// Makes the record of these changes for the ledger. A long list goes into a blob.
fn record(
    plan: &Plan,
    mut files: Vec<PathChange>,
    skipped: Vec<SkippedPath>,
    store: &dyn Store,
) -> FileChanges {
    let manifest = (files.len() > 64).then(|| serde_json::to_vec(&files).ok()).flatten();
    let manifest = manifest.map(|json| store.put(&json));
    if manifest.is_some() {
        files.clear();
    }
    FileChanges { cause: plan.cause.clone(), files, manifest, skipped, interrupted: false }
}

/// Files that their owner may not read (as after `chmod 000`) and that were made readable in order to keep them. Pairs of a file's
/// stamp before that and its present stamp. Several hard links to one file share a stamp.
#[derive(Default)]
struct Opened(Vec<(FileStamp, FileStamp)>);

impl Opened {
    /// Keeps a file with `keep`. If the file may not be read, it is made readable for its owner first, and stays so until the plan
    /// replaces or deletes it. The record has the original mode.
    ///
    /// # Errors
    ///
    /// Returns the reason in words for people. The file then has its original mode again.
    fn keep(
        &mut self,
        path: &Path,
        file: &mut FileContent,
        mut keep: impl FnMut(&mut FileContent) -> Result<(), Refused>,
    ) -> Result<(), String> {
        let changed = |_| "it changed while it was read".to_owned();
        if let Some((_, now)) = self.0.iter().find(|(before, _)| Some(*before) == file.stamp) {
            file.stamp = Some(*now);
        }
        match keep(file) {
            Err(Refused::Unreadable) => {}
            done => return done.map_err(changed),
        }
        let denied = |error: io::Error| format!("it cannot be read, nor its mode be changed: {error}");
        let Some(before) = file.stamp else { return Err(changed(Refused::Unreadable)) };
        let place = ParentFolder::open(path).map_err(denied)?;
        let now = place.set_file_mode(file.mode | OWNER_READS, before).map_err(denied)?;
        file.stamp = Some(now);
        let kept = keep(file);
        match kept {
            Ok(()) => self.0.push((before, now)),
            // If resetting the mode fails too, the failure to read is reported, because it explains more.
            Err(_) => _ = place.set_file_mode(file.mode, now),
        }
        kept.map_err(changed)
    }
}

/// Carries out the plan as far as possible. A path that fails is reported in [`Applied::failed`]; the others are still carried out.
pub fn apply(plan: &Plan, store: &dyn Store) -> Applied {
    apply_steps(plan, store, usize::MAX)
}

/// Like [`apply`], but stops after this number of changes, as if the process were killed at that moment. For tests.
pub fn apply_steps(plan: &Plan, store: &dyn Store, steps: usize) -> Applied {
    let mut run = Run { store, packs: Packs::default(), failed: Vec::new(), steps };
    let acts: Vec<&PlannedPath> =
        plan.paths.iter().filter(|p| matches!(p.action, Action::Restore | Action::Delete)).collect();
    let is_dir = |node: &Option<FileNode>| matches!(node, Some(FileNode::Dir { .. }));
    for p in acts.iter().filter(|p| is_dir(&p.want) && is_dir(&p.now)) {
        // The entries of the directory must be accessible for the next steps. The mode of the directory is set at the end.
        run.attempt(p, |place, _| place.set_dir_mode(0o700));
    }
    // Paths are sorted, so a directory comes before its entries, and after them in reverse.
    for p in acts
        .iter()
        .rev()
        .filter(|p| p.now.is_some() && !is_dir(&p.now) && (p.want.is_none() || is_dir(&p.want)))
    {
        run.attempt(p, |place, _| place.remove(place.meta()?.kind));
    }
    for p in acts.iter().rev().filter(|p| is_dir(&p.now) && !is_dir(&p.want)) {
        run.attempt(p, |place, _| place.remove(Kind::Dir));
    }
    for p in acts.iter().filter(|p| is_dir(&p.want) && !is_dir(&p.now)) {
        run.attempt(p, |place, _| place.make_dir(0o700));
    }
    for p in acts.iter().filter(|p| p.want.is_some() && !is_dir(&p.want)) {
        run.attempt(p, |place, run| run.put(place, p));
    }
    for p in acts.iter().rev() {
        if let Some(FileNode::Dir { mode }) = &p.want {
            run.attempt(p, |place, _| place.set_dir_mode(*mode));
        }
    }
    let Run { failed, .. } = run;
    let mut files = Vec::new();
    for p in acts {
        if failed.iter().any(|f: &SkippedPath| f.path.0 == p.path) {
            continue;
        }
        let mut after = p.want.clone();
        if let Some(FileNode::File(file)) = &mut after {
            file.stamp = sys::lstat(&p.path).ok().map(|meta| meta.stamp);
        }
        files.push(PathChange { path: FilePath(p.path.clone()), before: p.now.clone(), after });
    }
    let mut skipped = left_alone(plan);
    skipped.extend(failed.iter().cloned());
    Applied { changes: record(plan, files, skipped, store), failed }
}

struct Run<'a> {
    store: &'a dyn Store,
    packs: Packs,
    failed: Vec<SkippedPath>,
    /// Number of changes that may still be made.
    steps: usize,
}

impl Run<'_> {
    fn attempt(&mut self, p: &PlannedPath, act: impl FnOnce(&ParentFolder, &mut Self) -> io::Result<()>) {
        let Some(steps) = self.steps.checked_sub(1) else { return };
        self.steps = steps;
        let place = if p.want.is_some() { ParentFolder::make(&p.path) } else { ParentFolder::open(&p.path) };
        let outcome = place.and_then(|place| act(&place, self));
        if let Err(error) = outcome
            && !self.failed.iter().any(|f| f.path.0 == p.path)
        {
            let reason = match error.kind() {
                io::ErrorKind::DirectoryNotEmpty => {
                    "it contains files that this undo does not cover".to_owned()
                }
                _ => error.to_string(),
            };
            self.failed.push(SkippedPath { path: FilePath(p.path.clone()), reason });
        }
    }

    /// Restores a file or link, unless the path has changed since the plan was made.
    fn put(&mut self, place: &ParentFolder, p: &PlannedPath) -> io::Result<()> {
        let found = place.meta().ok();
        let expected = match (&p.now, &found) {
            (Some(FileNode::File(now)), Some(meta)) => {
                meta.kind != Kind::File || now.stamp == Some(meta.stamp) || holds(&p.path, now)
            }
            _ => true,
        };
        if !expected {
            return Err(io::Error::other("it changed while it was being restored"));
        }
        match &p.want {
            Some(FileNode::Symlink { target }) => place.put_link(&target.0),
            Some(FileNode::File(file)) => match content(file, self.store, &mut self.packs) {
                Some(bytes) => place.put_file(&bytes, file),
                None => Err(io::Error::other("its content is missing from the session")),
            },
            _ => Ok(()),
        }
    }
}

/// True if the file still has the content that the plan saw. The stamp does not tell, because deleting another hard link to the
/// file has just changed its stamp.
fn holds(path: &Path, now: &FileContent) -> bool {
    match (&now.sha256, sys::read_file(path, now.size)) {
        (Some(id), Ok(Some((bytes, meta)))) => {
            // The file may have been made readable for its owner in order to keep it.
            (meta.mode == now.mode || meta.mode == now.mode | OWNER_READS)
                && hex(&Sha256::digest(bytes)) == id.as_str()
        }
        _ => false,
    }
}
