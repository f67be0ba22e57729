//! Looks at files before and after a call: keeps those at risk before it, and finds the call's changes after it.
//!
//! Mechanism: [`Recorder`]'s field `known` holds the file states derived from the ledger. `before_paths` and `before_command` look
//! at the workspace, keep the contents of the files at risk, and return the differences to `known` as a [`FileSnapshot`], which
//! must be written to the ledger before the call runs. [`Recorder::after`] looks again and returns the changes. Unchanged tracked
//! files are not read beforehand, unless the command names them or may destroy anything. If a call has changed one, its content is
//! fetched from the repository at once.
//!
//! Cost: calls that only read files do not come here. For an ordinary command, looking and reading stop after
//! [`Settings::patience`], and files that were not kept are named. A command that destroys what it names waits up to
//! [`Settings::limit`] for the named paths, and no longer than an ordinary one for the rest. A command that may destroy anything
//! waits up to that limit for everything. The size limits apply to all commands.

mod calls;
mod look;

pub use calls::summary;

use crate::command::{Level, Risk};
use crate::git::{Index, Objects, Repo};
use crate::keep::{Caps, Content, Keeper, Pack, Refused};
use crate::sys;
use crate::walk::{Seen, Sweep, Walker};
use crate::{History, Store, observe};
use becket_types::{
    CallId, FileChanges, FileContent, FileNode, FilePath, FileSnapshot, FileState, SkippedPath,
};
use look::RepoRisks;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest list of paths that is written into the ledger; a longer one goes into a blob.
const INLINE: usize = 64;
/// Limit on skipped paths that are named one by one.
const NAMED: usize = 100;
/// Limit, in bytes, on ignored files and git objects kept before one command. Otherwise build output would use up the session's
/// limit.
const BULK: u64 = 100_000_000;

/// Size, in bytes, from which on a batch of files that are read together is complete.
const BATCH: u64 = 4 << 20;

/// The times until which a call waits for its files to be kept.
#[derive(Clone, Copy)]
struct Deadlines {
    /// For paths that the command names, ignored files at risk and git objects.
    named: Instant,
    /// For all other files.
    rest: Instant,
}

impl Deadlines {
    fn new(settings: &Settings, level: Level, divisor: u32) -> Self {
        let now = Instant::now();
        let (patience, limit) = (settings.patience / divisor, settings.limit);
        match level {
            Level::Ordinary => Self { named: now + patience, rest: now + patience },
            Level::Named => Self { named: now + limit, rest: now + patience },
            Level::Destructive => Self { named: now + limit, rest: now + limit },
        }
    }

    fn for_rank(&self, rank: Rank) -> Instant {
        if rank == Rank::Rest { self.rest } else { self.named }
    }
}

/// A file that should be kept.
struct Wanted {
    rank: Rank,
    path: PathBuf,
    file: FileContent,
}

/// The order in which files are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Named,
    Rest,
    Bulk,
}

/// Settings of a recorder: the folders that it watches, and its limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directories of the session, as canonical paths. The home directory, its ancestors, and `/` are never walked.
    pub roots: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    /// becket's own folders, which are never walked.
    pub exclude: Vec<PathBuf>,
    pub caps: Caps,
    /// The folder with the blobs of all sessions. Its size counts for the limit on all sessions together.
    pub all_sessions: Option<PathBuf>,
    /// Time limit for looking and reading before an ordinary command. Half of it applies after the command.
    pub patience: Duration,
    /// Time limit for looking and reading before a destructive command.
    pub limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            home: None,
            exclude: Vec::new(),
            caps: Caps::default(),
            all_sessions: None,
            patience: Duration::from_millis(80),
            limit: Duration::from_secs(20),
        }
    }
}

/// Records the changes that calls make to files. There is one per session.
pub struct Recorder {
    settings: Settings,
    store: Arc<dyn Store>,
    keeper: Keeper,
    /// Last known state of each path, and the number of the round in which it was last seen.
    known: HashMap<PathBuf, (FileNode, u64)>,
    /// Number of the last look before a command.
    round: u64,
    walker: Walker,
    repos: HashMap<PathBuf, Option<Repo>>,
    /// The repositories that the last look found, except those of the roots.
    nested: Vec<Repo>,
    indexes: HashMap<PathBuf, Index>,
    /// The call that is running.
    open: Option<Open>,
}

/// A call that has started and not ended.
struct Open {
    call: CallId,
    what: What,
    /// Paths that existed before the call but were not looked into. Files that are found below them later do not count as the
    /// call's work.
    passed: HashSet<PathBuf>,
    /// Paths that were left out for lack of time or permission.
    missed: Vec<PathBuf>,
    risks: RepoRisks,
}

enum What {
    Paths(Vec<PathBuf>),
    Command(Risk),
}

/// The result of looking at files before a call.
#[derive(Debug)]
pub struct Before {
    pub snapshot: FileSnapshot,
    /// One sentence for people, if a destructive command could destroy files that could not be kept.
    pub warning: Option<String>,
}

impl Recorder {
    /// Creates a recorder that continues from the records of `history`.
    pub fn new(settings: Settings, store: Arc<dyn Store>, history: &History) -> Self {
        let mut keeper = Keeper::default();
        for file in history.contents() {
            keeper.know(file);
        }
        if let Some(all) = &settings.all_sessions {
            keeper.elsewhere = used_below(all);
        }
        let known = history.tree().iter().map(|(path, node)| (path.clone(), (node.clone(), 0))).collect();
        Self {
            settings,
            store,
            keeper,
            known,
            round: 0,
            walker: Walker::default(),
            repos: HashMap::new(),
            nested: Vec::new(),
            indexes: HashMap::new(),
            open: None,
        }
    }

    /// Adds folders to watch. Has no effect while a call runs, because older files of the folder would count as the call's work.
    pub fn add_roots(&mut self, added: &[PathBuf]) {
        if self.open.is_none() {
            let fresh = added.iter().filter(|root| !self.settings.roots.contains(root)).cloned();
            let fresh: Vec<PathBuf> = fresh.collect();
            self.settings.roots.extend(fresh);
        }
    }

    /// Updates the known state after an undo or a redo.
    pub fn restored(&mut self, changes: &FileChanges) {
        for change in self.listed(changes) {
            for node in [&change.before, &change.after] {
                if let Some(FileNode::File(file)) = node {
                    self.keeper.know(file);
                }
            }
            match change.after {
                Some(node) => self.known.insert(change.path.0, (node, self.round)),
                None => self.known.remove(&change.path.0),
            };
        }
    }

    /// The id of the git object that holds the file's present content, if a repository has one.
    fn vouched(&self, seen: &Seen) -> Option<String> {
        self.indexes.values().find_map(|index| index.object(&seen.path, &seen.meta)).map(str::to_owned)
    }

    /// Updates `known` from a sweep and keeps the contents of the files at risk. Returns the differences, and the paths that were
    /// not kept.
    fn take_in(
        &mut self,
        sweep: &Sweep,
        risk: &Risk,
        until: Deadlines,
    ) -> (Vec<FileState>, Vec<SkippedPath>) {
        let mut fresh: Vec<(PathBuf, FileNode)> = Vec::new();
        let mut wanted: Vec<Wanted> = Vec::new();
        let round = self.round;
        let mut objects = Objects::default();
        for seen in &sweep.seen {
            let direct = risk.everything
                || risk.targets.iter().any(|target| seen.path.starts_with(target))
                || seen.path.components().any(|part| part.as_os_str() == ".git");
            let known = self.known.get_mut(&seen.path);
            let file = match known {
                Some((node, last)) if observe::unchanged(node, &seen.meta) => {
                    *last = round;
                    match node {
                        FileNode::File(file) if file.sha256.is_none() => file.clone(),
                        _ => continue,
                    }
                }
                _ => match observe::node(&seen.path, &seen.meta) {
                    Some(FileNode::File(file)) => file,
                    Some(node) => {
                        if self.known.get(&seen.path).is_none_or(|(known, _)| *known != node) {
                            fresh.push((seen.path.clone(), node.clone()));
                        }
                        self.known.insert(seen.path.clone(), (node, round));
                        continue;
                    }
                    None => continue,
                },
            };
            let git = self.vouched(seen);
            if git.is_some() && !direct {
                let node = FileNode::File(FileContent { git, ..file });
                if self.known.get(&seen.path).is_none_or(|(known, _)| *known != node) {
                    fresh.push((seen.path.clone(), node.clone()));
                }
                self.known.insert(seen.path.clone(), (node, round));
            } else {
                let rank = match direct {
                    _ if objects.contains(&seen.path) || (seen.ignored && (direct || risk.ignored)) => {
                        Rank::Bulk
                    }
                    true => Rank::Named,
                    false => Rank::Rest,
                };
                wanted.push(Wanted { rank, path: seen.path.clone(), file: FileContent { git, ..file } });
            }
        }
        let mut skipped = self.keep_all(wanted, until, &mut fresh);
        skipped.extend(sweep.missed.iter().map(|path| SkippedPath {
            path: FilePath(path.clone()),
            reason: "there was no time to look into it, or it may not be read".to_owned(),
        }));
        let gone = self.gone();
        let mut files: Vec<FileState> = fresh
            .into_iter()
            .map(|(path, node)| FileState { path: FilePath(path), node: Some(node) })
            .collect();
        files.extend(gone.into_iter().map(|path| FileState { path: FilePath(path), node: None }));
        (files, skipped)
    }

    /// Keeps contents: named paths first, ignored files last, and small files before large ones.
    fn keep_all(
        &mut self,
        mut wanted: Vec<Wanted>,
        until: Deadlines,
        fresh: &mut Vec<(PathBuf, FileNode)>,
    ) -> Vec<SkippedPath> {
        wanted.sort_by(|a, b| (a.rank, a.file.size, &a.path).cmp(&(b.rank, b.file.size, &b.path)));
        let mut bulk = BULK;
        let (mut pack, mut skipped) = (Pack::default(), Vec::new());
        let from = fresh.len();
        let mut wanted = VecDeque::from(wanted);
        while !wanted.is_empty() {
            let batch = next_batch(&mut wanted, &mut bulk);
            let caps = &self.settings.caps;
            let read = |at: usize| match batch.get(at) {
                Some((want, true)) if Instant::now() < until.for_rank(want.rank) => {
                    let (file, content) = Content::read_now(&want.path, want.file.clone(), caps);
                    (Some(file), content)
                }
                Some((_, false)) => (None, Err(Refused::Bulk)),
                _ => (None, Err(Refused::NoTime)),
            };
            let contents = self.keeper.store_beside(&mut pack, &*self.store, batch.len(), read);
            for ((Wanted { path, file, .. }, _), (now, content)) in batch.into_iter().zip(contents) {
                let mut file = now.unwrap_or(file);
                let was_known = self
                    .known
                    .get(&path)
                    .is_some_and(|(n, _)| matches!(n, FileNode::File(f) if f.stamp == file.stamp));
                let caps = &self.settings.caps;
                if let Err(refused) = content.and_then(|c| self.keeper.take(c, &mut file, &mut pack, caps)) {
                    if !was_known || refused == Refused::NoTime {
                        let reason = refused.words().to_owned();
                        skipped.push(SkippedPath { path: FilePath(path.clone()), reason });
                    }
                    if was_known {
                        continue;
                    }
                }
                fresh.push((path, FileNode::File(file)));
            }
        }
        self.keeper.close(&mut pack, &*self.store);
        for (path, node) in fresh.iter_mut().skip(from) {
            if let FileNode::File(file) = node {
                self.keeper.place(file);
            }
            self.known.insert(path.clone(), (node.clone(), self.round));
        }
        skipped
    }

    /// Removes from `known` the paths that existed in the previous round and no longer do, and returns them.
    fn gone(&mut self) -> Vec<PathBuf> {
        let last = self.round.saturating_sub(1);
        let gone: Vec<PathBuf> = self
            .known
            .iter()
            .filter(|(path, (_, round))| *round == last && *round != self.round && is_absent(path))
            .map(|(path, _)| path.clone())
            .collect();
        for path in &gone {
            self.known.remove(path);
        }
        gone
    }
}

fn is_absent(path: &Path) -> bool {
    sys::meta_at(path).is_ok_and(|meta| meta.is_none())
}

/// `path` with its parent made canonical, so that only the last name can be a link.
fn canonical_parent(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

/// Total size of the files below a folder, in bytes. Stops counting after 20 ms, so that the start is not delayed.
fn used_below(dir: &Path) -> u64 {
    let (mut sum, mut dirs) = (0, vec![dir.to_path_buf()]);
    let end = Instant::now() + Duration::from_millis(20);
    while let Some(dir) = dirs.pop() {
        if Instant::now() > end {
            break;
        }
        let Ok(listing) = std::fs::read_dir(&dir) else { continue };
        for entry in listing.flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => dirs.push(entry.path()),
                Ok(meta) => sum += meta.len(),
                Err(_) => {}
            }
        }
    }
    sum
}

/// Takes the next files to read together, about [`BATCH`] bytes, each with true if it may be kept. `bulk`: the bytes that files of
/// [`Rank::Bulk`] may still use.
fn next_batch(wanted: &mut VecDeque<Wanted>, bulk: &mut u64) -> Vec<(Wanted, bool)> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH
        && let Some(want) = wanted.pop_front()
    {
        let size = want.file.size;
        let may = want.rank != Rank::Bulk || size <= *bulk;
        if may {
            *bulk -= if want.rank == Rank::Bulk { size } else { 0 };
            bytes += size;
        }
        batch.push((want, may));
    }
    batch
}

/// Cuts the list to [`NAMED`] paths, and adds one entry that counts the others.
fn shorten(mut skipped: Vec<SkippedPath>) -> Vec<SkippedPath> {
    if skipped.len() > NAMED {
        let more = skipped.len() - NAMED;
        skipped.truncate(NAMED);
        if let Some(last) = skipped.last().cloned() {
            let reason = format!("and {more} more: {}", last.reason);
            skipped.push(SkippedPath { reason, ..last });
        }
    }
    skipped
}
