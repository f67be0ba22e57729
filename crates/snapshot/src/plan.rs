//! Plans an undo or redo, path by path, before anything is changed.
//!
//! Several changes of one path become one step: from the state after the newest change to the state before the oldest. If a path is
//! no longer in the state in which the newest change left it, a person or another program has changed it. That is a conflict: the
//! path stays as it is unless the undo is forced.

mod whole;

use crate::git::index_meaning;
use crate::history::Change;
use crate::keep::{Packs, content};
use crate::sys::{self, Kind};
use crate::{History, Store, observe};
use becket_types::{BlobId, ChangeCause, FileContent, FileNode, FilePath, PathChange, SkippedPath, hex};
use sha2::{Digest as _, Sha256};
use similar::{ChangeTag, TextDiff};
use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest file, in bytes, for which changed lines are counted.
const COUNTED: usize = 1 << 20;
/// Largest file, in bytes, that is read for comparison.
const COMPARED: u64 = 256 << 20;

/// The effect of a plan on one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The path gets its earlier content, mode or link target back.
    Restore,
    /// The path did not exist, so it is deleted.
    Delete,
    /// The path is already in the wanted state.
    Unchanged,
    /// The path was changed by others, so it is skipped. The text says why.
    Conflict(String),
    /// The path cannot be restored. The text says why.
    Lost(String),
}

/// One path of a plan.
#[derive(Clone, Debug)]
pub struct PlannedPath {
    pub path: PathBuf,
    pub action: Action,
    /// The wanted state; `None` if the path must not exist.
    pub want: Option<FileNode>,
    /// The present state; `None` if nothing is there.
    pub now: Option<FileNode>,
    /// Lines added and lines removed; `None` if they cannot be counted.
    pub lines: Option<(usize, usize)>,
    /// Size of the wanted content, in bytes.
    pub bytes: u64,
}

/// The plan of an undo or redo.
#[derive(Clone, Debug)]
pub struct Plan {
    pub cause: ChangeCause,
    /// Sorted by path.
    pub paths: Vec<PlannedPath>,
    /// Descriptions of the calls for people, newest first.
    pub labels: Vec<String>,
    /// Paths that were not kept when the calls ran.
    pub skipped: Vec<SkippedPath>,
    /// True if it also completes or takes back an undo or redo that was interrupted.
    pub resumes: bool,
}

impl Plan {
    /// Returns the number of paths whose action passes the test.
    pub fn count(&self, of: impl Fn(&Action) -> bool) -> usize {
        self.paths.iter().filter(|path| of(&path.action)).count()
    }

    /// True if applying the plan would change anything.
    pub fn changes_anything(&self) -> bool {
        self.count(|action| matches!(action, Action::Restore | Action::Delete)) > 0
    }

    /// True if the plan has nothing to do, now or with force: each path is as wanted, or cannot be restored.
    pub fn is_spent(&self) -> bool {
        !self.resumes && self.count(|action| !matches!(action, Action::Unchanged | Action::Lost(_))) == 0
    }

    /// Takes over the paths of another plan that cannot be restored, so that they are named.
    pub fn name_lost(&mut self, other: Self) {
        let named: HashSet<PathBuf> = self.paths.iter().map(|path| path.path.clone()).collect();
        let lost = other.paths.into_iter().filter(|path| matches!(path.action, Action::Lost(_)));
        self.paths.extend(lost.filter(|path| !named.contains(&path.path)));
        self.paths.sort_by(|a, b| a.path.cmp(&b.path));
    }

    /// Makes conflicts of the paths that would change and for which `why` gives a reason.
    pub fn leave(&mut self, why: impl Fn(&Path) -> Option<String>) {
        let changes = |path: &&mut PlannedPath| matches!(path.action, Action::Restore | Action::Delete);
        for path in self.paths.iter_mut().filter(changes) {
            if let Some(why) = why(&path.path) {
                path.action = Action::Conflict(why);
            }
        }
        keep_full_directories(&mut self.paths);
    }
}

/// The changes of one path, combined into one step.
struct Step {
    want: Option<FileNode>,
    left: Option<FileNode>,
    /// True if another program changed the path between two of the changes.
    gap: bool,
    /// True if the newest change belongs to an interrupted undo or redo. Its recorded state is the one that was found afterwards.
    resumes: bool,
}

impl Step {
    fn of(change: &PathChange, resumes: bool) -> Self {
        Self { want: change.before.clone(), left: change.after.clone(), gap: false, resumes }
    }
}

/// Plans the undo of these changes, which are ordered newest first. With `force`, paths in conflict are overwritten. If the last
/// undo or redo was interrupted, the plan also takes back the changes that it made.
pub fn plan_undo(history: &History, changes: &[&Change], force: bool, store: &dyn Store) -> Plan {
    let mut steps = taken_back(&history.interrupted());
    for change in changes {
        for file in &change.files {
            match steps.get_mut(&file.path.0) {
                Some(step) => {
                    step.gap |= !step.resumes && !observe::same(step.want.as_ref(), file.after.as_ref());
                    step.resumes = false;
                    step.want.clone_from(&file.before);
                }
                None => {
                    steps.insert(file.path.0.clone(), Step::of(file, false));
                }
            }
        }
    }
    let cause = ChangeCause::Undo(changes.iter().map(|change| change.seq).collect());
    let labels = changes.iter().map(|change| change.label.clone()).collect();
    // The same folder may have been skipped by each call.
    let mut named = HashSet::new();
    let all = changes.iter().flat_map(|change| &change.skipped);
    let skipped = all.filter(|one| named.insert((&one.path, &one.reason))).cloned().collect();
    Plan { resumes: history.is_interrupted(), ..build(cause, steps, labels, skipped, force, store) }
}

/// Plans to take back the last undo; `None` if there is none. With `force`, paths in conflict are overwritten.
pub fn plan_redo(history: &History, force: bool, store: &dyn Store) -> Option<Plan> {
    let undo = history.redoable()?;
    let steps = taken_back(&history.redo_chain());
    let cause = ChangeCause::Redo(undo.seq);
    let calls = history.redoes();
    let labels = calls.iter().filter_map(|seq| history.change_at(*seq)).map(|change| change.label.clone());
    // A path that the undo left alone is no part of it, so there is nothing about it to redo.
    let plan = build(cause, steps, labels.collect(), Vec::new(), force, store);
    Some(Plan { resumes: history.is_interrupted(), ..plan })
}

/// The steps that take back the changes of an undo and of the interrupted ones before it. `chain` is ordered newest first.
fn taken_back(chain: &[&Change]) -> BTreeMap<PathBuf, Step> {
    let mut steps: BTreeMap<PathBuf, Step> = BTreeMap::new();
    for file in chain.iter().flat_map(|change| &change.files) {
        match steps.get_mut(&file.path.0) {
            Some(step) if observe::same(step.want.as_ref(), file.after.as_ref()) => {
                step.want.clone_from(&file.before);
            }
            // Between these two changes somebody else changed the path, and a forced undo overwrote that. The step restores that
            // content, so older changes do not count.
            Some(_) => {}
            None => {
                steps.insert(file.path.0.clone(), Step::of(file, true));
            }
        }
    }
    steps
}

fn build(
    cause: ChangeCause,
    mut steps: BTreeMap<PathBuf, Step>,
    labels: Vec<String>,
    skipped: Vec<SkippedPath>,
    force: bool,
    store: &dyn Store,
) -> Plan {
    whole::keep_objects(&mut steps);
    let mut packs = Packs::default();
    let mut paths: Vec<PlannedPath> =
        steps.into_iter().map(|(path, step)| plan_path(path, step, force, store, &mut packs)).collect();
    whole::repositories(&mut paths, force);
    if !force {
        whole::folders(&mut paths);
    }
    keep_full_directories(&mut paths);
    Plan { cause, paths, labels, skipped, resumes: false }
}

/// Removes the deletion of directories that cannot be deleted because the plan leaves something in them.
fn keep_full_directories(paths: &mut [PlannedPath]) {
    // Paths are sorted, so in reverse a directory comes after its entries.
    for at in (0..paths.len()).rev() {
        let Some(dir) = paths.get(at) else { continue };
        if dir.action != Action::Delete || !matches!(dir.now, Some(FileNode::Dir { .. })) {
            continue;
        }
        let mut below = paths.iter().skip(at + 1).take_while(|path| path.path.starts_with(&dir.path));
        let why = below.find_map(|path| match path.action {
            Action::Conflict(_) => Some(Action::Conflict("it contains a path that is left alone".to_owned())),
            Action::Lost(_) => Some(Action::Lost("it contains a path that cannot be restored".to_owned())),
            _ => None,
        });
        let Some(why) = why else { continue };
        if let Some(dir) = paths.get_mut(at) {
            dir.action = why;
        }
    }
}

fn plan_path(path: PathBuf, step: Step, force: bool, store: &dyn Store, packs: &mut Packs) -> PlannedPath {
    let Step { want, left, gap, .. } = step;
    let (now, bytes_now) = match look(&path) {
        Ok(found) => found,
        Err(why) => {
            return PlannedPath {
                path,
                action: Action::Conflict(why),
                want,
                now: None,
                lines: None,
                bytes: 0,
            };
        }
    };
    let wanted = match &want {
        Some(FileNode::File(file)) => Some((file, content(file, store, packs))),
        _ => None,
    };
    let bytes = wanted.as_ref().map_or(0, |(file, _)| file.size);
    let lines = count(bytes_now.as_deref(), wanted.as_ref().and_then(|(_, bytes)| bytes.as_deref()));
    let action = if same_now(
        &path,
        want.as_ref(),
        now.as_ref(),
        bytes_now.as_deref(),
        wanted.as_ref().and_then(|w| w.1.as_deref()),
    ) {
        Action::Unchanged
    } else if let Some((file, None)) = &wanted
        && !only_mode(file, now.as_ref())
    {
        Action::Lost(
            if file.sha256.is_some() {
                "its content is missing from the session"
            } else {
                "its content was not kept"
            }
            .to_owned(),
        )
    } else if gap && !force {
        Action::Conflict("changed outside becket between the tool calls".to_owned())
    } else if !force && !as_left(&path, left.as_ref(), now.as_ref(), bytes_now.as_deref(), store, packs) {
        Action::Conflict("changed since".to_owned())
    } else if want.is_none() {
        Action::Delete
    } else {
        Action::Restore
    };
    PlannedPath { path, action, want, now, lines, bytes }
}

/// Reads the present state of a path, with the hash of its content. Also returns the bytes if it is a file. `Err` says in a few
/// words why it cannot be read.
pub(crate) fn look(path: &Path) -> Result<(Option<FileNode>, Option<Vec<u8>>), String> {
    let meta = match sys::meta_at(path) {
        Ok(Some(meta)) => meta,
        Ok(None) => return Ok((None, None)),
        Err(error) => return Err(format!("it cannot be examined: {error}")),
    };
    if meta.kind == Kind::Special {
        return Err("a special file is there".to_owned());
    }
    let Some(mut node) = observe::node(path, &meta) else { return Err("it cannot be read".to_owned()) };
    let FileNode::File(file) = &mut node else { return Ok((Some(node), None)) };
    match sys::read_file(path, COMPARED) {
        Ok(Some((bytes, _))) => {
            file.sha256 = Some(BlobId(hex(&Sha256::digest(&bytes))));
            Ok((Some(node), Some(bytes)))
        }
        // The owner may not be allowed to read the file. Then only the metadata tell if it is as the change left it.
        Ok(None) => Ok((Some(node), None)),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok((Some(node), None)),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

fn only_mode(want: &FileContent, now: Option<&FileNode>) -> bool {
    matches!(now, Some(FileNode::File(now)) if want.stamp.is_some_and(|w| now.stamp.is_some_and(|n| w.0 == n.0 && w.2 == n.2)) && want.size == now.size)
}

fn same_now(
    path: &Path,
    want: Option<&FileNode>,
    now: Option<&FileNode>,
    bytes: Option<&[u8]>,
    wanted: Option<&[u8]>,
) -> bool {
    observe::same(want, now) || same_index(path, bytes, wanted)
}

/// True if a path is still in the state that the change left.
fn as_left(
    path: &Path,
    left: Option<&FileNode>,
    now: Option<&FileNode>,
    bytes: Option<&[u8]>,
    store: &dyn Store,
    packs: &mut Packs,
) -> bool {
    if observe::same(left, now) {
        return true;
    }
    match (left, now) {
        // The content was not read when the change was recorded, so compare the metadata.
        (Some(FileNode::File(left)), Some(FileNode::File(now))) if left.sha256.is_none() => {
            left.stamp == now.stamp && left.size == now.size && left.mode == now.mode
        }
        (Some(FileNode::File(left)), Some(FileNode::File(_))) if path.ends_with("index") => {
            same_index(path, bytes, content(left, store, packs).as_deref())
        }
        _ => false,
    }
}

/// True for two git indexes with the same meaning. Git rewrites its index when it merely reads files, so the bytes may
/// differ.
fn same_index(path: &Path, a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) if path.ends_with("index") => {
            index_meaning(a).is_some_and(|a| index_meaning(b).is_some_and(|b| a == b))
        }
        _ => false,
    }
}

/// Counts the lines that are added and removed between two texts; `None` for large or binary ones.
fn count(from: Option<&[u8]>, to: Option<&[u8]>) -> Option<(usize, usize)> {
    let text = |bytes: Option<&[u8]>| -> Option<String> {
        let bytes = bytes.unwrap_or_default();
        (bytes.len() <= COUNTED && !bytes.contains(&0)).then(|| String::from_utf8_lossy(bytes).into_owned())
    };
    if from.is_none() && to.is_none() {
        return None;
    }
    let (from, to) = (text(from)?, text(to)?);
    let diff = TextDiff::configure().timeout(Duration::from_millis(50)).diff_lines(&from, &to);
    let mut lines = (0, 0);
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => lines.0 += 1,
            ChangeTag::Delete => lines.1 += 1,
            ChangeTag::Equal => {}
        }
    }
    Some(lines)
}

/// The paths that a plan skips, as a record with reasons.
pub(crate) fn left_alone(plan: &Plan) -> Vec<SkippedPath> {
    let reason = |path: &PlannedPath| match &path.action {
        Action::Conflict(why) | Action::Lost(why) => {
            Some(SkippedPath { path: FilePath(path.path.clone()), reason: why.clone() })
        }
        _ => None,
    };
    plan.paths.iter().filter_map(reason).collect()
}
