//! Undo of a session: planning it, showing the plan, carrying it out, and recording it in the ledger.
//!
//! The only implementation, used by a running session and by `becket undo`. `becket_snapshot` decides about
//! each path. This module owns the session, the order of records and file changes, and the conversation. Asks
//! nobody.

mod others;

use crate::host::lock;
use becket_session::blobs::BlobStore;
use becket_session::context::rewind;
use becket_session::store::StoreError;
use becket_session::{Durability, Session};
use becket_snapshot::history::{Change, Prompt};
use becket_snapshot::{Action, History, Plan, PlannedPath, Store, apply, plan_redo, plan_undo};
use becket_types::{
    BlobId, Blobs as _, CallId, ConversationPlan, EntryKind, FileChanges, FileNode, FilePath, ModeChange,
    NodeKind, PathFate, PathPlan, Seq, SkippedPath, UndoKind, UndoOutcome, UndoPlan, UndoTurn,
};
pub(crate) use others::Others;
use std::sync::{Arc, Mutex};

/// The blobs of a session, as the recorder and the plans of `becket_snapshot` need them.
pub struct SessionBlobs(Arc<BlobStore>);

impl SessionBlobs {
    /// Shares the blobs of the session, in memory or on disk.
    pub fn new(session: &Session) -> Self {
        Self(session.blob_store())
    }
}

impl Store for SessionBlobs {
    fn put(&self, bytes: &[u8]) -> BlobId {
        self.0.put(bytes)
    }
    fn get(&self, id: &BlobId) -> Option<Vec<u8>> {
        self.0.get(id)
    }
}

/// The changes that an undo takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoScope {
    /// Changes of the last turn that changed files.
    LastTurn,
    /// Changes of the last calls that changed files.
    LastCalls(usize),
    /// Changes after this entry.
    Since(Seq),
    /// Changes of the last undo.
    LastUndo,
}

/// The turns whose changes a plan takes back, newest first, and the number of turns after them.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    taken: Vec<UndoTurn>,
    newer: u64,
}

/// A planned undo.
#[derive(Debug)]
pub struct Draft {
    pub kind: UndoKind,
    pub turns: Turns,
    /// The plan for files; `None` if only the conversation is taken back.
    pub files: Option<Plan>,
    /// Words about changes in the plan that may be somebody else's, as in [`UndoPlan::doubt`].
    pub doubt: Option<String>,
    /// Number of damaged file records.
    pub damaged: usize,
    /// The plan for the conversation; `None` if only files are taken back.
    pub conversation: Option<Conversation>,
}

/// A conversation that is taken back to the state before a message.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The user's message. It is taken back, too.
    pub to: Prompt,
    /// The entries to cancel, newest first.
    pub entries: Vec<Seq>,
    /// Numbers of entries that leave the conversation, and that come back into it.
    pub moved: rewind::Moved,
}

/// Returns the history of files in the session's ledger.
///
/// # Errors
///
/// Fails if the ledger cannot be read.
pub fn history(session: &Session, store: &dyn Store) -> Result<History, StoreError> {
    Ok(History::from_entries(session.entries()?, store))
}

/// The turns of these changes. `seqs`: the entries with which their calls began, newest first.
fn turns(history: &History, seqs: &[Seq]) -> Turns {
    let mut out = Turns::default();
    for seq in seqs {
        let Some(prompt) = history.prompts().iter().rev().find(|prompt| prompt.seq < *seq) else { continue };
        if out.taken.last().is_none_or(|turn| turn.message != prompt.id) {
            let (message, text, time) = (prompt.id, prompt.text.clone(), prompt.time);
            out.taken.push(UndoTurn { message, text, time });
        }
    }
    if let Some(newest) = seqs.iter().max() {
        out.newer = history.prompts().iter().filter(|prompt| prompt.seq > *newest).count() as u64;
    }
    out
}

/// The plan for files, and the turns whose changes it takes back.
#[derive(Debug)]
pub(crate) struct FilesPlan {
    pub plan: Plan,
    pub turns: Turns,
    /// Words about changes in the plan that may be somebody else's, as in [`UndoPlan::doubt`].
    pub doubt: Option<String>,
}

/// Plans the files; `None` if there is no change to undo. `force`: conflicts are overwritten. `others`: the records of other
/// sessions.
pub(crate) fn plan_files(
    history: &History,
    scope: UndoScope,
    force: bool,
    store: &dyn Store,
    others: &Others,
) -> Option<FilesPlan> {
    let of = |changes: &[&Change]| {
        let mut plan = plan_undo(history, changes, force, store);
        if !force {
            plan.leave(|path| others.writer(path, changes));
        }
        let begun: Vec<Seq> = changes.iter().map(|change| change.begun).collect();
        FilesPlan { doubt: others::doubt(&plan, changes), turns: turns(history, &begun), plan }
    };
    let some = |changes: Vec<&Change>| (!changes.is_empty()).then(|| of(&changes));
    match scope {
        UndoScope::LastUndo => {
            let plan = plan_redo(history, force, store)?;
            let begun: Vec<Seq> = history.redoes().iter().rev().map(|seq| history.begun(*seq)).collect();
            Some(FilesPlan { plan, turns: turns(history, &begun), doubt: None })
        }
        UndoScope::LastCalls(count) => some(history.last_calls(count)),
        UndoScope::Since(seq) => some(history.since(seq)),
        UndoScope::LastTurn => {
            // A turn with nothing left to take back must not keep the earlier ones from being undone. The plan names the contents that it lost.
            let mut spent: Vec<FilesPlan> = Vec::new();
            for changes in history.turns() {
                let mut found = of(&changes);
                if found.plan.is_spent() {
                    spent.push(found);
                    continue;
                }
                for other in spent {
                    found.plan.name_lost(other.plan);
                }
                return Some(found);
            }
            // No file is changed, but the plan names what is lost.
            spent
                .into_iter()
                .find(|found| !found.plan.paths.iter().all(|path| path.action == Action::Unchanged))
        }
    }
}

/// Plans the conversation: every entry from this message on that affects the view and is not cancelled yet.
///
/// # Errors
///
/// Fails if the ledger cannot be read.
pub(crate) fn plan_conversation(session: &Session, to: &Prompt) -> Result<Conversation, StoreError> {
    let entries = rewind::entries_to_cancel(session.view(), session.entries()?, to.seq);
    let moved = rewind::moved(session.view(), session.entries()?, &entries);
    Ok(Conversation { to: to.clone(), entries, moved })
}

impl Draft {
    /// True if carrying it out would change anything.
    pub fn changes_anything(&self) -> bool {
        self.files.as_ref().is_some_and(|files| files.changes_anything() || files.resumes)
            || self.conversation.as_ref().is_some_and(|c| !c.entries.is_empty())
    }

    /// Returns the paths that the undo leaves as they are: those in conflict, and those whose earlier content is lost.
    pub fn left(&self) -> Vec<SkippedPath> {
        let paths = self.files.iter().flat_map(|plan| &plan.paths);
        let left = paths.filter_map(|path| match &path.action {
            Action::Conflict(why) | Action::Lost(why) => {
                Some(SkippedPath { path: FilePath(path.path.clone()), reason: why.clone() })
            }
            _ => None,
        });
        left.collect()
    }

    /// Returns the plan for display, with this number.
    pub fn shown(&self, plan: u64) -> UndoPlan {
        let files = self.files.as_ref();
        let unchanged = files.map_or(0, |files| files.count(|action| *action == Action::Unchanged));
        UndoPlan {
            plan,
            kind: self.kind,
            turns: self.turns.taken.clone(),
            newer: self.turns.newer,
            calls: files.map(|files| files.labels.clone()).unwrap_or_default(),
            paths: files.iter().flat_map(|files| &files.paths).filter_map(path_plan).collect(),
            unchanged: unchanged as u64,
            skipped: files.map(|files| files.skipped.clone()).unwrap_or_default(),
            damaged: self.damaged as u64,
            conversation: self.conversation.as_ref().map(Conversation::shown),
            resumed: files.is_some_and(|files| files.resumes),
            doubt: self.doubt.clone(),
        }
    }
}

impl Conversation {
    /// Returns the plan for display: the message, its text, and how many entries leave and come back.
    pub fn shown(&self) -> ConversationPlan {
        let rewind::Moved { out: entries, back: returning } = self.moved;
        ConversationPlan { to: self.to.id, text: self.to.text.clone(), entries, returning }
    }
}

fn path_plan(path: &PlannedPath) -> Option<PathPlan> {
    let fate = match &path.action {
        Action::Restore => PathFate::Restore,
        Action::Delete => PathFate::Delete,
        Action::Conflict(why) => PathFate::Conflict { why: why.clone() },
        Action::Lost(why) => PathFate::Lost { why: why.clone() },
        Action::Unchanged => return None,
    };
    let node = path.want.as_ref().map(|node| match node {
        FileNode::File(_) => NodeKind::File,
        FileNode::Symlink { .. } => NodeKind::Symlink,
        FileNode::Dir { .. } => NodeKind::Dir,
    });
    let lines = path.lines.map(|(plus, minus)| (plus as u64, minus as u64));
    let mode = match (&path.want, &path.now) {
        (Some(FileNode::File(want)), Some(FileNode::File(now))) => {
            ModeChange::between(Some(now.mode), want.mode)
        }
        (Some(FileNode::File(want)), _) => ModeChange::between(None, want.mode),
        (Some(FileNode::Dir { mode }), Some(FileNode::Dir { mode: now })) => {
            ModeChange::between(Some(*now), *mode)
        }
        // The permission bits of a new directory are not reported: its execute bits only let it be entered.
        (Some(FileNode::Dir { mode }), _) => ModeChange::between(Some(mode & 0o777), *mode),
        _ => None,
    };
    Some(PathPlan { path: FilePath(path.path.clone()), fate, node, lines, bytes: path.bytes, mode })
}

/// Carries out the draft, files first, and records the result in the ledger. Reads and writes files, so do
/// not call it on a thread that must not block.
///
/// # Errors
///
/// Fails if the session cannot be written. If that happens before the first file, no file was changed.
pub fn carry_out(
    session: &Mutex<Session>,
    store: &dyn Store,
    draft: Draft,
    plan: u64,
) -> Result<(UndoOutcome, Option<FileChanges>), String> {
    let left = draft.left();
    let Draft { kind, files, conversation, .. } = draft;
    let mut outcome =
        UndoOutcome { plan, kind, restored: 0, deleted: 0, left, failed: Vec::new(), conversation: None };
    let mut changed = None;
    if let Some(mut files) = files.filter(|files| files.changes_anything() || files.resumes) {
        let name = if kind == UndoKind::Redo { "redo" } else { "undo" };
        let id = CallId(format!("{name}-{}", lock(session).last_seq().next()));
        let before = apply::prepare(&mut files, &id, store);
        write(session, vec![EntryKind::FileSnapshot(Box::new(before))])?;
        let applied = apply::apply(&files, store);
        changed = Some(applied.changes.clone());
        write(session, vec![EntryKind::FileChanges(Box::new(applied.changes))])?;
        let done = |wanted: &Action| {
            let failed = |path: &PlannedPath| applied.failed.iter().any(|f| f.path.0 == path.path);
            files.paths.iter().filter(|path| path.action == *wanted && !failed(path)).count() as u64
        };
        (outcome.restored, outcome.deleted) = (done(&Action::Restore), done(&Action::Delete));
        outcome.failed = applied.failed;
    }
    if let Some(conversation) = conversation {
        let reverts = conversation.entries.iter().map(|entry| EntryKind::Revert { entry: *entry }).collect();
        write(session, reverts)?;
        outcome.conversation = Some(conversation.shown());
    }
    Ok((outcome, changed))
}

fn write(session: &Mutex<Session>, entries: Vec<EntryKind>) -> Result<(), String> {
    let mut session = lock(session);
    session.append(entries, Durability::Synced).map_err(|error| error.to_string())?;
    if session.flush() { Ok(()) } else { Err("the session cannot be written".to_owned()) }
}
