//! Records one call from its start to its end. Also completes the record of a call that a killed process left open.

use super::look::RepoRisks;
use super::{
    Before, Deadlines, INLINE, Open, Rank, Recorder, Wanted, What, canonical_parent, is_absent, shorten,
};
use crate::command::{GitRisk, Level, Risk};
use crate::git::Objects;
use crate::history::OpenCall;
use crate::interrupted;
use crate::keep::{Content, Pack};
use crate::observe;
use crate::sys;
use crate::walk::Sweep;
use becket_types::invisible::escaped;
use becket_types::{
    BlobId, CallId, ChangeCause, FileChange, FileChangeKind, FileChanges, FileContent, FileNode, FilePath,
    FileSnapshot, FileState, PathChange, SkippedPath,
};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Limit on folders that are named one by one because they could not be looked into.
const UNSEEN: usize = 20;

impl Recorder {
    /// Called before a call that changes files at known paths: keeps their present state.
    pub fn before_paths(&mut self, call: &CallId, paths: &[PathBuf]) -> Before {
        let mut all = Vec::new();
        for path in paths.iter().filter_map(|path| canonical_parent(path).or_else(|| Some(path.clone()))) {
            // If these directories do not exist, the call has to create them.
            all.extend(path.ancestors().skip(1).take_while(|dir| is_absent(dir)).map(Path::to_path_buf));
            all.push(path);
        }
        all.sort();
        all.dedup();
        let (files, skipped) = self.observe(&all);
        self.open = Some(Open {
            call: call.clone(),
            what: What::Paths(all),
            passed: HashSet::new(),
            missed: Vec::new(),
            risks: RepoRisks::new(),
        });
        Before { snapshot: self.snapshot(call, files, skipped, None), warning: None }
    }

    /// Called before a shell command: keeps the files that it puts at risk.
    pub fn before_command(&mut self, call: &CallId, mut risk: Risk) -> Before {
        self.name_git_dirs(&mut risk);
        risk.targets = real(risk.targets);
        risk.git_dirs = real(risk.git_dirs);
        let until = Deadlines::new(&self.settings, risk.level, 1);
        self.round += 1;
        let (sweep, risks) = self.look(&risk, until, None);
        let (files, mut skipped) = self.take_in(&sweep, &risk, until);
        skipped.extend(
            sweep.special.iter().filter(|path| risk.targets.iter().any(|t| path.starts_with(t))).map(
                |path| SkippedPath { path: FilePath(path.clone()), reason: "a special file".to_owned() },
            ),
        );
        let warning = warning(&risk, &skipped);
        let mut snapshot = self.snapshot(call, files, skipped, Some(&risk));
        snapshot.git = risks.values().any(|risk| *risk != GitRisk::None);
        let passed = sweep.passed_over();
        let (call, what, missed) = (call.clone(), What::Command(risk), sweep.missed);
        self.open = Some(Open { call, what, passed, missed, risks });
        Before { snapshot, warning }
    }

    fn snapshot(
        &self,
        call: &CallId,
        files: Vec<FileState>,
        skipped: Vec<SkippedPath>,
        risk: Option<&Risk>,
    ) -> FileSnapshot {
        let (files, manifest) = self.spill(files);
        FileSnapshot {
            call_id: call.clone(),
            files,
            manifest,
            skipped: shorten(skipped),
            ignored: risk.is_some_and(|risk| risk.ignored),
            git: risk.is_some_and(|risk| risk.git != GitRisk::None),
            undo: None,
        }
    }

    /// Writes a long list into a blob.
    fn spill<T: Serialize>(&self, list: Vec<T>) -> (Vec<T>, Option<BlobId>) {
        if list.len() <= INLINE {
            return (list, None);
        }
        match serde_json::to_vec(&list) {
            Ok(json) => (Vec::new(), Some(self.store.put(&json))),
            Err(_) => (list, None),
        }
    }

    /// Keeps the present state of these paths. Returns the differences to the known state, and the paths that were not kept.
    fn observe(&mut self, paths: &[PathBuf]) -> (Vec<FileState>, Vec<SkippedPath>) {
        let (mut files, mut skipped, mut pack) = (Vec::new(), Vec::new(), Pack::default());
        for path in paths {
            let meta = sys::lstat(path).ok();
            let known = self.known.get(path).map(|(node, _)| node);
            if let (Some(known), Some(meta)) = (known, &meta)
                && observe::unchanged(known, meta)
                && !matches!(known, FileNode::File(file) if file.sha256.is_none())
            {
                continue;
            }
            let mut node = meta.and_then(|meta| observe::node(path, &meta));
            if let Some(FileNode::File(file)) = &mut node
                && let Err(refused) =
                    self.keeper.keep_now(path, file, &mut pack, &self.settings.caps, &*self.store)
            {
                let reason = refused.words().to_owned();
                skipped.push(SkippedPath { path: FilePath(path.clone()), reason });
            }
            files.push(FileState { path: FilePath(path.clone()), node });
        }
        self.keeper.close(&mut pack, &*self.store);
        for state in &mut files {
            match &mut state.node {
                Some(node) => {
                    if let FileNode::File(file) = node {
                        self.keeper.place(file);
                    }
                    self.known.insert(state.path.0.clone(), (node.clone(), self.round));
                }
                None => {
                    self.known.remove(&state.path.0);
                }
            }
        }
        (files, skipped)
    }

    /// Returns the changes of a call that has ended. `None` if no `before` function was called for it.
    pub fn after(&mut self, call: &CallId) -> Option<FileChanges> {
        let open = self.open.take_if(|open| open.call == *call)?;
        Some(self.close(open))
    }

    /// Closes a call that is still open, if there is one. All changes since its start count as its work.
    pub fn close_left_open(&mut self) -> Option<FileChanges> {
        let open = self.open.take()?;
        Some(self.close(open))
    }

    fn close(&mut self, open: Open) -> FileChanges {
        let (files, skipped) = match &open.what {
            What::Paths(paths) => {
                let before: HashMap<PathBuf, FileNode> = paths
                    .iter()
                    .filter_map(|path| Some((path.clone(), self.known.get(path)?.0.clone())))
                    .collect();
                let (now, skipped) = self.observe(paths);
                let changes = now.into_iter().map(|state| PathChange {
                    before: before.get(&state.path.0).cloned(),
                    path: state.path,
                    after: state.node,
                });
                (changes.collect(), skipped)
            }
            What::Command(risk) => {
                let until = Deadlines::new(&self.settings, risk.level, 2);
                let (sweep, _) = self.look(risk, until, Some(&open.risks));
                let (mut changes, mut skipped) =
                    self.compare(&sweep, until, &|path: &Path, _: &sys::Meta| {
                        !path.ancestors().any(|above| open.passed.contains(above))
                    });
                lose(&mut changes, &open.missed);
                if !changes.is_empty() {
                    skipped.extend(unseen(&open.missed));
                }
                (changes, skipped)
            }
        };
        self.changes(ChangeCause::Call(open.call), files, skipped)
    }

    /// Finds the changes of a call that a dead process left open, from the records alone: paths that differ from their record, and
    /// unrecorded files that are newer than the call. For an undo or redo, returns the paths that it had changed.
    pub fn recover(&mut self, left: &OpenCall) -> FileChanges {
        if let Some(intended) = &left.snapshot.undo {
            let mut changes = interrupted::changes_made(intended);
            (changes.files, changes.manifest) = self.spill(changes.files);
            self.restored(&changes);
            return changes;
        }
        // The dead process was about to write these files, perhaps in folders that it had still to make.
        for path in left.snapshot.files.iter().map(|state| &state.path.0) {
            let folder = path.ancestors().skip(1).find(|folder| folder.is_dir());
            if let (Some(folder), Some(name)) = (folder, path.file_name()) {
                becket_files::temporary::remove_left_beside(folder, &[name]);
            }
        }
        let mut objects = Objects::default();
        let git = match left.snapshot.git {
            false => GitRisk::None,
            true if self.known.keys().any(|path| objects.contains(path)) => GitRisk::Objects,
            true => GitRisk::State,
        };
        let risk = Risk { ignored: left.snapshot.ignored, git, nested: git, ..Risk::default() };
        let until = Deadlines::new(&self.settings, Level::Destructive, 1);
        let since = i64::try_from(left.time.0).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        for (_, round) in self.known.values_mut() {
            *round = self.round;
        }
        let (sweep, _) = self.look(&risk, until, None);
        let passed = sweep.passed_over();
        let hidden: Vec<PathBuf> = self
            .known
            .keys()
            .filter(|path| path.ancestors().any(|above| passed.contains(above)))
            .cloned()
            .collect();
        for path in hidden {
            if let Some((_, round)) = self.known.get_mut(&path) {
                *round = u64::MAX;
            }
        }
        let (files, skipped) =
            self.compare(&sweep, until, &|_: &Path, meta: &sys::Meta| meta.stamp.1 >= since);
        self.changes(ChangeCause::Call(left.snapshot.call_id.clone()), files, skipped)
    }

    fn changes(&self, cause: ChangeCause, files: Vec<PathChange>, skipped: Vec<SkippedPath>) -> FileChanges {
        let (files, manifest) = self.spill(files);
        FileChanges { cause, files, manifest, skipped: shorten(skipped), interrupted: false }
    }

    /// The list of changes. A long list is read from its blob.
    pub fn listed(&self, changes: &FileChanges) -> Vec<PathChange> {
        let Some(id) = &changes.manifest else { return changes.files.clone() };
        self.store.get(id).and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
    }

    /// Finds the differences between a sweep and the known state. `is_new` decides if the call created an unknown file.
    fn compare(
        &mut self,
        sweep: &Sweep,
        until: Deadlines,
        is_new: &dyn Fn(&Path, &sys::Meta) -> bool,
    ) -> (Vec<PathChange>, Vec<SkippedPath>) {
        let mut before: HashMap<PathBuf, Option<FileNode>> = HashMap::new();
        let mut wanted: Vec<Wanted> = Vec::new();
        let mut fresh: Vec<(PathBuf, FileNode)> = Vec::new();
        let mut there: HashSet<&Path> = HashSet::with_capacity(sweep.seen.len());
        let mut objects = Objects::default();
        for seen in &sweep.seen {
            there.insert(&seen.path);
            let was = match self.known.get(&seen.path) {
                Some((_, round)) if *round != self.round => continue,
                Some((node, _)) if observe::unchanged(node, &seen.meta) => continue,
                Some((node, _)) => Some(node.clone()),
                None if is_new(&seen.path, &seen.meta) && !objects.contains(&seen.path) => None,
                None => continue,
            };
            let Some(node) = observe::node(&seen.path, &seen.meta) else { continue };
            if observe::same(was.as_ref(), Some(&node)) {
                continue;
            }
            before.insert(seen.path.clone(), was);
            match node {
                FileNode::File(file) => {
                    let rank = if seen.ignored { Rank::Bulk } else { Rank::Rest };
                    wanted.push(Wanted { rank, path: seen.path.clone(), file });
                }
                node => fresh.push((seen.path.clone(), node)),
            }
        }
        let gone: Vec<PathBuf> = self
            .known
            .iter()
            .filter(|(path, (_, round))| {
                *round == self.round && !there.contains(path.as_path()) && is_absent(path)
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            let was = self.known.remove(&path).map(|(node, _)| node);
            before.insert(path, was);
        }
        let skipped = self.keep_all(wanted, until, &mut fresh);
        let mut after: HashMap<PathBuf, FileNode> = HashMap::new();
        for (path, node) in fresh {
            self.known.insert(path.clone(), (node.clone(), self.round));
            after.insert(path, node);
        }
        let mut changes: Vec<PathChange> = before
            .into_iter()
            .map(|(path, before)| PathChange { after: after.remove(&path), before, path: FilePath(path) })
            .collect();
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        let mut skipped = skipped;
        self.leave_out_packed(&mut changes);
        self.fetch(&mut changes, &mut skipped);
        changes.retain(|change| !observe::same(change.before.as_ref(), change.after.as_ref()));
        (changes, skipped)
    }

    /// Leaves out files of objects that git still has in a pack. Git's own `gc` may run in the background and move thousands of
    /// objects into a pack; undo needs none of the old files.
    fn leave_out_packed(&self, changes: &mut Vec<PathChange>) {
        let in_git = |path: &Path| path.components().any(|part| part.as_os_str() == ".git");
        changes.retain(|change| !(change.path.0.ends_with("gc.pid") && in_git(&change.path.0)));
        for repo in self.repos.values().flatten().chain(&self.nested) {
            let loose = |change: &PathChange| {
                let is_gone = change.after.is_none() && matches!(change.before, Some(FileNode::File(_)));
                repo.loose_object(&change.path.0).filter(|_| is_gone)
            };
            let gone: Vec<String> = changes.iter().filter_map(loose).collect();
            if gone.is_empty() {
                continue;
            }
            let ids: Vec<&str> = gone.iter().map(String::as_str).collect();
            let there: HashSet<&str> =
                ids.iter().zip(repo.has(&ids)).filter(|(_, there)| *there).map(|(id, _)| *id).collect();
            changes.retain(|change| loose(change).is_none_or(|id| !there.contains(id.as_str())));
            // Also leave out the folders of these objects, unless a remaining change needs the folder.
            let needed: HashSet<PathBuf> =
                changes.iter().filter_map(|change| Some(change.path.0.parent()?.to_path_buf())).collect();
            let objects = repo.common.join("objects");
            changes.retain(|change| {
                let is_dir = change.after.is_none() && matches!(change.before, Some(FileNode::Dir { .. }));
                let is_of_objects = change.path.0.parent() == Some(objects.as_path())
                    && change.path.0.file_name().is_some_and(|name| name.len() == 2);
                !(is_dir && is_of_objects) || needed.contains(&change.path.0)
            });
        }
    }

    /// Fetches the earlier contents of changed files from the repositories whose index vouched for them.
    fn fetch(&mut self, changes: &mut [PathChange], skipped: &mut Vec<SkippedPath>) {
        let mut asked: Vec<(usize, String)> = Vec::new();
        for (at, change) in changes.iter().enumerate() {
            if let Some(FileNode::File(FileContent { sha256: None, git: Some(object), .. })) = &change.before
            {
                asked.push((at, object.clone()));
            }
        }
        if asked.is_empty() {
            return;
        }
        let repos: Vec<_> = self.repos.values().flatten().cloned().collect();
        let ids: Vec<&str> = asked.iter().map(|(_, id)| id.as_str()).collect();
        let mut found: Vec<Option<Vec<u8>>> = vec![None; ids.len()];
        for repo in repos {
            for (have, got) in found.iter_mut().zip(repo.objects(&ids)) {
                *have = have.take().or(got);
            }
        }
        let mut pack = Pack::default();
        for ((at, _), bytes) in asked.iter().zip(found) {
            let Some(change) = changes.get_mut(*at) else { continue };
            let Some(FileNode::File(file)) = &mut change.before else { continue };
            let refused = match bytes.filter(|bytes| bytes.len() as u64 == file.size) {
                None => Some("git could not read it from its repository"),
                Some(bytes) => self
                    .keeper
                    .take(Content::new(bytes), file, &mut pack, &self.settings.caps)
                    .err()
                    .map(|refused| refused.words()),
            };
            self.keeper.store_beside(&mut pack, &*self.store, 0, |_| ());
            if let Some(reason) = refused {
                skipped.push(SkippedPath { path: change.path.clone(), reason: reason.to_owned() });
            }
        }
        self.keeper.close(&mut pack, &*self.store);
        for (at, _) in asked {
            if let Some(FileNode::File(file)) = changes.get_mut(at).and_then(|c| c.before.as_mut()) {
                self.keeper.place(file);
            }
        }
    }
}

/// Resolves links to directories in the named paths. If a path itself is a link, its target is added.
fn real(targets: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found = Vec::with_capacity(targets.len());
    for target in targets {
        if sys::lstat(&target).is_ok_and(|meta| meta.kind == sys::Kind::Symlink) {
            found.extend(target.canonicalize());
        }
        found.push(canonical_parent(&target).unwrap_or(target));
    }
    found.sort();
    found.dedup();
    found
}

impl Sweep {
    /// All paths that exist but were not looked into.
    fn passed_over(&self) -> HashSet<PathBuf> {
        self.passed.iter().chain(&self.missed).chain(&self.special).cloned().collect()
    }
}

/// Adds folders that could not be looked into before the call and that the call deleted. They are recorded as files whose content
/// was not kept.
fn lose(changes: &mut Vec<PathChange>, missed: &[PathBuf]) {
    for path in missed.iter().filter(|path| is_absent(path)) {
        changes.retain(|change| change.path.0 != *path);
        let before = Some(FileNode::File(FileContent::default()));
        changes.push(PathChange { path: FilePath(path.clone()), before, after: None });
    }
    changes.sort_by(|a, b| a.path.cmp(&b.path));
}

/// The folders that could not be looked into before the call and are still there. The call may have changed files in them, and nobody
/// can tell: a plan to undo it names them.
fn unseen(missed: &[PathBuf]) -> Vec<SkippedPath> {
    let mut left: Vec<&PathBuf> = missed.iter().filter(|path| !is_absent(path)).collect();
    left.sort();
    left.dedup();
    let more = left.len().saturating_sub(UNSEEN);
    left.truncate(UNSEEN);
    let reason = "it could not be looked into before the call, so changes in it are not known";
    let mut out: Vec<SkippedPath> = left
        .into_iter()
        .map(|path| SkippedPath { path: FilePath(path.clone()), reason: reason.to_owned() })
        .collect();
    if let Some(last) = out.last_mut().filter(|_| more > 0) {
        last.reason = format!("and {more} more: {reason}");
    }
    out
}

/// A sentence for people if the command could destroy files that could not be kept. If the command destroys only the paths that it
/// names, only these paths count.
fn warning(risk: &Risk, skipped: &[SkippedPath]) -> Option<String> {
    let mut at_risk: Vec<&SkippedPath> = match risk.level {
        Level::Ordinary => return None,
        Level::Named => {
            let named = |path: &Path| risk.targets.iter().any(|target| path.starts_with(target));
            skipped.iter().filter(|s| named(&s.path.0)).collect()
        }
        Level::Destructive => skipped.iter().collect(),
    };
    // A folder and something in it can be skipped with the same path, which should be named once.
    let mut seen = BTreeSet::new();
    at_risk.retain(|skipped| seen.insert(&skipped.path.0));
    if at_risk.is_empty() {
        return None;
    }
    let name = |s: &&SkippedPath| format!("{} ({})", escaped(&s.path.0.to_string_lossy()), s.reason);
    let names: Vec<String> = at_risk.iter().take(3).map(name).collect();
    let more = at_risk.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("This command could destroy what undo cannot bring back: {}{more}.", names.join(", ")))
}

/// Summarizes the changes of a call for people and for the model: files and links, without a repository's own files.
pub fn summary(files: &[PathChange]) -> Vec<FileChange> {
    let is_dir = |node: &Option<FileNode>| matches!(node, Some(FileNode::Dir { .. }) | None);
    files
        .iter()
        .filter(|change| !(is_dir(&change.before) && is_dir(&change.after)))
        .filter(|change| !change.path.0.components().any(|part| part.as_os_str() == ".git"))
        .map(|change| FileChange {
            path: change.path.0.clone(),
            kind: match (&change.before, &change.after) {
                (None, _) => FileChangeKind::Add,
                (_, None) => FileChangeKind::Delete,
                _ => FileChangeKind::Update,
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_warned_of_what_the_command_puts_at_risk() {
        let risk = Risk { level: Level::Destructive, ..Risk::default() };
        let named = |path: &str| SkippedPath { path: FilePath(path.into()), reason: "too large".to_owned() };
        let told = warning(&risk, &[named("/p/a\n  delete   b\u{2028}\u{1b}[2J")]).unwrap();
        assert!(told.contains("/p/a\\n  delete   b\\u{2028}\\u{1b}[2J (too large)"), "{told}");
        let skipped = ["/p/log", "/p/other"].map(|path| SkippedPath {
            path: FilePath(path.into()),
            reason: "there was no time to keep it".to_owned(),
        });
        for (level, target, want) in [
            (Level::Ordinary, "/p/log", &[][..]),
            (Level::Named, "/p/log", &["/p/log"]),
            (Level::Named, "/p", &["/p/log", "/p/other"]),
            (Level::Named, "/elsewhere", &[]),
            (Level::Destructive, "/p/log", &["/p/log", "/p/other"]),
        ] {
            let risk = Risk { level, targets: vec![target.into()], ..Risk::default() };
            let told = warning(&risk, &skipped);
            assert_eq!(told.is_some(), !want.is_empty(), "{level:?} {target}: {told:?}");
            let told = told.unwrap_or_default();
            for path in ["/p/log", "/p/other"] {
                assert_eq!(told.contains(path), want.contains(&path), "{level:?} {target}: {told}");
            }
        }
    }
}
