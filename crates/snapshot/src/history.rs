//! The ledger's record of files: their last known state, and the changes that can be undone and redone.
//!
//! Derived from entries and blobs alone, so it is the same after a crash and in another process. Changes form a stack: an
//! undo takes changes from its top, a redo takes back the last undo, and a new call discards the undos that could be redone.

use crate::Store;
use becket_types::{
    BlobId, CallId, ChangeCause, Entry, EntryKind, FileChanges, FileContent, FileNode, FileSnapshot,
    FileState, Message, MessageId, Millis, Origin, PathChange, Seq, SkippedPath,
};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::path::PathBuf;

/// One `file_changes` entry.
#[derive(Clone, Debug)]
pub struct Change {
    pub seq: Seq,
    /// The entry with which its call began. After a crash, the next process records the change, so messages may come between the
    /// two entries.
    pub begun: Seq,
    pub time: Millis,
    /// The time at which its call began.
    pub since: Millis,
    pub cause: ChangeCause,
    pub files: Vec<PathChange>,
    pub skipped: Vec<SkippedPath>,
    /// The tool's name and the first line of its input, for people.
    pub label: String,
}

/// A call that has started and whose end is not in the ledger.
#[derive(Clone, Debug)]
pub struct OpenCall {
    pub snapshot: FileSnapshot,
    pub time: Millis,
}

/// An undo that can be redone. Interrupted undos that it completed belong to it.
#[derive(Debug)]
struct Undone {
    /// The `file_changes` entries of undos, and of redos that were interrupted, oldest first.
    changes: Vec<Seq>,
    /// True if the last of these entries was interrupted. The next undo or redo then completes this step.
    is_open: bool,
}

/// A message of the user.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub seq: Seq,
    pub id: MessageId,
    pub time: Millis,
    pub text: String,
}

/// The state that undo and redo need, derived from the ledger.
#[derive(Debug, Default)]
pub struct History {
    tree: HashMap<PathBuf, FileNode>,
    changes: Vec<Change>,
    /// Changes of calls that are not undone, oldest first.
    done: Vec<Seq>,
    /// Undos that can be redone, oldest first.
    undone: Vec<Undone>,
    open: Option<OpenCall>,
    prompts: Vec<Prompt>,
    labels: HashMap<CallId, String>,
    /// The first entry about each call.
    begun: HashMap<CallId, Seq>,
    /// Kept contents that records name, by hash.
    contents: HashMap<BlobId, FileContent>,
    /// Number of records whose list of files could not be read.
    damaged: usize,
}

impl History {
    /// Derives the history from a ledger's entries.
    pub fn from_entries(entries: impl IntoIterator<Item = Entry>, store: &dyn Store) -> Self {
        let mut history = Self::default();
        for entry in entries {
            history.take(&entry, store);
        }
        history
    }

    /// Adds the next entry.
    pub fn take(&mut self, entry: &Entry, store: &dyn Store) {
        match &entry.kind {
            EntryKind::FileSnapshot(snapshot) => self.snapshot(entry, snapshot, store),
            EntryKind::FileChanges(changes) => self.change(entry, changes, store),
            EntryKind::ToolJournal { call_id, tool, subject, .. } => {
                let words: Vec<&str> = [tool, subject].into_iter().flatten().map(String::as_str).collect();
                self.labels.insert(call_id.clone(), words.join(" "));
                self.begun.entry(call_id.clone()).or_insert(entry.seq);
            }
            EntryKind::Message { message } if message.origin == Origin::User => self.prompt(entry, message),
            EntryKind::State { key, .. } if key == EntryKind::IMPORTED => self.forget_changes(),
            _ => {}
        }
    }

    /// Discards all changes, for a session that was imported from a file. The changes were made elsewhere, or invented, so
    /// restoring them could write anywhere.
    fn forget_changes(&mut self) {
        self.tree.clear();
        self.changes.clear();
        self.done.clear();
        self.undone.clear();
        self.open = None;
        self.contents.clear();
        self.damaged = 0;
    }

    fn prompt(&mut self, entry: &Entry, message: &Message) {
        let text = message.text();
        let text = text.lines().next().unwrap_or_default().to_owned();
        self.prompts.push(Prompt { seq: entry.seq, id: message.id, time: entry.time, text });
    }

    fn snapshot(&mut self, entry: &Entry, snapshot: &FileSnapshot, store: &dyn Store) {
        for FileState { path, node } in self.list(&snapshot.files, snapshot.manifest.as_ref(), store) {
            self.set(path.0, node);
        }
        let mut snapshot = snapshot.clone();
        (snapshot.files, snapshot.manifest) = (Vec::new(), None);
        if let Some(undo) = &mut snapshot.undo {
            undo.files = self.list(&undo.files, undo.manifest.as_ref(), store);
            undo.manifest = None;
            for change in &undo.files {
                self.set(change.path.0.clone(), change.before.clone());
            }
        }
        self.open = Some(OpenCall { snapshot, time: entry.time });
    }

    fn change(&mut self, entry: &Entry, changes: &FileChanges, store: &dyn Store) {
        let files = self.list(&changes.files, changes.manifest.as_ref(), store);
        for change in &files {
            self.note(change.before.as_ref());
            self.set(change.path.0.clone(), change.after.clone());
        }
        let since = self.open.take().filter(|open| match &changes.cause {
            ChangeCause::Call(id) => open.snapshot.call_id == *id,
            ChangeCause::Undo(_) | ChangeCause::Redo(_) => false,
        });
        let since = since.map_or(entry.time, |open| open.time);
        match &changes.cause {
            _ if changes.interrupted && files.is_empty() => return,
            ChangeCause::Call(_) if files.is_empty() => return,
            ChangeCause::Call(_) => {
                self.done.push(entry.seq);
                self.undone.clear();
            }
            ChangeCause::Undo(of) => {
                if !changes.interrupted {
                    let left: Vec<Seq> =
                        of.iter().copied().filter(|seq| self.is_left(*seq, changes)).collect();
                    self.done.retain(|seq| !of.contains(seq) || left.contains(seq));
                }
                match self.undone.last_mut().filter(|last| last.is_open) {
                    Some(last) => {
                        last.changes.push(entry.seq);
                        last.is_open = changes.interrupted;
                    }
                    None => {
                        let is_open = changes.interrupted;
                        self.undone.push(Undone { changes: vec![entry.seq], is_open });
                    }
                }
            }
            ChangeCause::Redo(undo) => {
                let at = self.undone.iter().position(|undone| undone.changes.contains(undo));
                if let Some(undone) = at.and_then(|at| self.undone.get(at)) {
                    let of = self.calls_of(undone);
                    self.done.extend(of);
                    self.done.sort();
                    // A change that was undone only in part never left the list, so it may be there twice now.
                    self.done.dedup();
                }
                match at.and_then(|at| self.undone.get_mut(at)) {
                    Some(undone) if changes.interrupted => {
                        undone.changes.push(entry.seq);
                        undone.is_open = true;
                    }
                    _ => self.undone.retain(|undone| !undone.changes.contains(undo)),
                }
            }
        }
        let label = match &changes.cause {
            ChangeCause::Call(id) => self.labels.get(id).cloned().unwrap_or_default(),
            ChangeCause::Undo(_) => "undo".to_owned(),
            ChangeCause::Redo(_) => "redo".to_owned(),
        };
        let begun = match &changes.cause {
            ChangeCause::Call(id) => self.begun.get(id).copied(),
            ChangeCause::Undo(_) | ChangeCause::Redo(_) => None,
        };
        let (cause, skipped) = (changes.cause.clone(), changes.skipped.clone());
        let begun = begun.unwrap_or(entry.seq);
        let time = entry.time;
        self.changes.push(Change { seq: entry.seq, begun, time, since, cause, files, skipped, label });
    }

    /// True if this undo skipped a path of the change at `seq` that can still be restored, because of a conflict or a failure. The
    /// change can then be undone once more, which leaves the restored paths as they are.
    fn is_left(&self, seq: Seq, undo: &FileChanges) -> bool {
        // Two kinds of paths do not count, or they would keep earlier turns from being undone for ever: a directory into which a
        // person has put a file, and a file whose content was not kept.
        let counts = |change: &&PathChange| {
            !matches!(change.after, Some(FileNode::Dir { .. }))
                && !matches!(&change.before, Some(FileNode::File(file)) if file.sha256.is_none())
        };
        self.change_at(seq).is_some_and(|change| {
            let mut files = change.files.iter().filter(counts);
            files.any(|file| undo.skipped.iter().any(|skipped| skipped.path == file.path))
        })
    }

    fn list<T: DeserializeOwned + Clone>(
        &mut self,
        inline: &[T],
        manifest: Option<&BlobId>,
        store: &dyn Store,
    ) -> Vec<T> {
        let Some(id) = manifest else { return inline.to_vec() };
        let list = store.get(id).and_then(|json| serde_json::from_slice(&json).ok());
        if list.is_none() {
            self.damaged += 1;
        }
        list.unwrap_or_default()
    }

    fn set(&mut self, path: PathBuf, node: Option<FileNode>) {
        self.note(node.as_ref());
        match node {
            Some(node) => self.tree.insert(path, node),
            None => self.tree.remove(&path),
        };
    }

    fn note(&mut self, node: Option<&FileNode>) {
        if let Some(FileNode::File(file)) = node
            && let Some(id) = &file.sha256
        {
            self.contents.entry(id.clone()).or_insert_with(|| file.clone());
        }
    }

    /// The last recorded state of each path.
    pub fn tree(&self) -> &HashMap<PathBuf, FileNode> {
        &self.tree
    }

    /// All kept contents, each once.
    pub fn contents(&self) -> impl Iterator<Item = &FileContent> {
        self.contents.values()
    }

    /// The call that was running when the previous process died.
    pub fn open(&self) -> Option<&OpenCall> {
        self.open.as_ref()
    }

    /// All changes of calls, also those that are undone, oldest first.
    pub fn calls(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| matches!(change.cause, ChangeCause::Call(_)))
    }

    /// Changes of calls that are not undone, oldest first.
    pub fn undoable(&self) -> impl DoubleEndedIterator<Item = &Change> {
        self.done.iter().filter_map(|seq| self.change_at(*seq))
    }

    /// The newest undo, which a redo would take back.
    pub fn redoable(&self) -> Option<&Change> {
        self.redo_chain().into_iter().find(|change| matches!(change.cause, ChangeCause::Undo(_)))
    }

    /// The changes that a redo would take back, newest first: the newest undo, and the interrupted undos and redos of the same
    /// step.
    pub(crate) fn redo_chain(&self) -> Vec<&Change> {
        let last = self.undone.last().map(|undone| undone.changes.as_slice()).unwrap_or_default();
        last.iter().rev().filter_map(|seq| self.change_at(*seq)).collect()
    }

    /// The changes of the newest step, newest first, if its last undo or redo was interrupted and was not completed since.
    pub(crate) fn interrupted(&self) -> Vec<&Change> {
        if self.is_interrupted() { self.redo_chain() } else { Vec::new() }
    }

    /// The changes of calls that a redo would make again, newest first.
    pub fn redoes(&self) -> Vec<Seq> {
        self.undone.last().map(|undone| self.calls_of(undone)).unwrap_or_default()
    }

    fn calls_of(&self, undone: &Undone) -> Vec<Seq> {
        let changes = undone.changes.iter().filter_map(|seq| self.change_at(*seq));
        let calls = changes.filter_map(|change| match &change.cause {
            ChangeCause::Undo(of) => Some(of),
            _ => None,
        });
        let mut calls: Vec<Seq> = calls.flatten().copied().collect();
        calls.sort();
        calls.dedup();
        calls.reverse();
        calls
    }

    /// The user's messages, oldest first.
    pub fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    /// Number of records whose list of files is missing or damaged.
    pub fn damaged(&self) -> usize {
        self.damaged
    }

    pub(crate) fn change_at(&self, seq: Seq) -> Option<&Change> {
        self.changes.binary_search_by_key(&seq, |change| change.seq).ok().and_then(|at| self.changes.get(at))
    }

    /// The entry with which the call of the change at `seq` began.
    pub fn begun(&self, seq: Seq) -> Seq {
        self.change_at(seq).map_or(seq, |change| change.begun)
    }

    /// The changes of calls that began after this entry of the ledger, newest first.
    pub fn since(&self, seq: Seq) -> Vec<&Change> {
        self.undoable().rev().take_while(|change| change.begun > seq).collect()
    }

    /// The changes of the last `count` calls, newest first.
    pub fn last_calls(&self, count: usize) -> Vec<&Change> {
        self.undoable().rev().take(count).collect()
    }

    /// The changes of the last turn that changed files, newest first.
    pub fn last_turn(&self) -> Vec<&Change> {
        self.turns().next().unwrap_or_default()
    }

    /// The changes of each turn that changed files, newest first.
    pub fn turns(&self) -> impl Iterator<Item = Vec<&Change>> {
        let mut left: Vec<&Change> = self.undoable().rev().collect();
        std::iter::from_fn(move || {
            let last = left.first()?;
            let prompt = self.prompts.iter().rev().find(|prompt| prompt.seq < last.begun);
            let begin = prompt.map_or(Seq(0), |prompt| prompt.seq);
            let older = left.iter().position(|change| change.begun <= begin).unwrap_or(left.len());
            let rest = left.split_off(older);
            Some(std::mem::replace(&mut left, rest))
        })
    }

    /// True if the last undo or redo was interrupted, and none has completed it.
    pub fn is_interrupted(&self) -> bool {
        self.undone.last().is_some_and(|undone| undone.is_open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::JournalState;
    use serde_json::Value;

    struct Nothing;

    impl Store for Nothing {
        fn put(&self, _: &[u8]) -> BlobId {
            unreachable!("nothing is kept")
        }
        fn get(&self, _: &BlobId) -> Option<Vec<u8>> {
            None
        }
    }

    /// The change of a call that a crash cut off is recorded after the next message. It belongs to the turn of its call.
    #[test]
    fn a_change_belongs_to_the_turn_in_which_its_call_began() {
        let call = |id: &str| EntryKind::ToolJournal {
            call_id: CallId::from(id),
            state: JournalState::Started,
            tool: None,
            subject: None,
            result: Value::Null,
        };
        let change = |id: &str| {
            let path = becket_types::FilePath(PathBuf::from(format!("/{id}")));
            let path = PathChange { path, before: None, after: None };
            EntryKind::FileChanges(Box::new(FileChanges {
                cause: ChangeCause::Call(CallId::from(id)),
                files: vec![path],
                manifest: None,
                skipped: Vec::new(),
                interrupted: false,
            }))
        };
        let said = |text: &str| EntryKind::Message { message: Message::user(text) };
        let kinds =
            [said("first"), call("a"), said("second"), change("a"), call("b"), change("b"), said("third")];
        let entries = kinds.into_iter().enumerate().map(|(n, kind)| Entry {
            seq: Seq(n as u64 + 1),
            time: Millis(0),
            kind,
        });
        let history = History::from_entries(entries, &Nothing);
        let names = |changes: Vec<&Change>| -> Vec<String> {
            changes.iter().map(|change| change.files[0].path.0.display().to_string()).collect()
        };
        assert_eq!(names(history.last_turn()), ["/b"]);
        assert_eq!(names(history.since(Seq(3))), ["/b"]);
        assert_eq!(names(history.since(Seq(1))), ["/b", "/a"]);
        assert_eq!(history.begun(Seq(4)), Seq(2));
    }

    /// An undo that leaves a path alone can be repeated for that path, and redone without counting its call twice.
    #[test]
    fn a_change_that_was_undone_in_part_can_still_be_undone() {
        let at = |name: &str| becket_types::FilePath(PathBuf::from(name));
        let file = |name: &str| PathChange { path: at(name), before: None, after: None };
        let changes = |cause: ChangeCause, files: &[&str], left: &[&str]| {
            let reason = || "changed since".to_owned();
            let skipped = left.iter().map(|name| SkippedPath { path: at(name), reason: reason() }).collect();
            let files = files.iter().copied().map(file).collect();
            let interrupted = false;
            EntryKind::FileChanges(Box::new(FileChanges {
                cause,
                files,
                manifest: None,
                skipped,
                interrupted,
            }))
        };
        let mut history = History::default();
        let mut seq = 0;
        let mut then = |kind: EntryKind| {
            seq += 1;
            history.take(&Entry { seq: Seq(seq), time: Millis(0), kind }, &Nothing);
            let done: Vec<Seq> = history.undoable().map(|change| change.seq).collect();
            (done, history.redoable().map(|change| change.seq))
        };
        let undo = ChangeCause::Undo(vec![Seq(1)]);
        then(changes(ChangeCause::Call(CallId::from("a")), &["/x", "/y"], &[]));
        assert_eq!(then(changes(undo.clone(), &["/x"], &["/y"])), (vec![Seq(1)], Some(Seq(2))));
        assert_eq!(then(changes(undo, &["/y"], &[])), (Vec::new(), Some(Seq(3))));
        assert_eq!(then(changes(ChangeCause::Redo(Seq(3)), &["/y"], &[])), (vec![Seq(1)], Some(Seq(2))));
        assert_eq!(then(changes(ChangeCause::Redo(Seq(2)), &["/x"], &[])), (vec![Seq(1)], None));
    }
}
