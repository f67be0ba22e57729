//! Records files before and after each call in the ledger, so that the call can be undone.
//!
//! Files are read and kept on the blocking pool, inside the call's own future. The ledger is written when that future is
//! polled, at a moment when no other entry waits. The record of the files at risk is written before the call runs.

use crate::host::lock;
use crate::undo::SessionBlobs;
use becket_session::{Durability, Session, ledger};
use becket_snapshot::command::{CommandContext, classify};
use becket_snapshot::{History, Level, Recorder, Risk, Settings, summary};
use becket_tool::ToolEnv;
use becket_types::{Access, CallId, Effect, EntryKind, Event, FileChanges, NoticeLevel, ToolOutput};
use serde_json::Map;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// Largest script, in bytes, that is read for the files it may destroy.
const MAX_SCRIPT: u64 = 256 << 10;
/// Maximum number of changed files that a result names.
const MAX_CHANGES: usize = 100;
/// Name of the session state in which the shell keeps its directory.
const SHELL_CWD: &str = "shell_cwd";

/// The files that a call may change.
pub(super) enum FilesAtRisk {
    Nothing,
    Paths(Vec<PathBuf>),
    Command(Risk),
}

/// The recorder of one session, made when it is first needed.
pub(crate) struct Files {
    settings: Settings,
    session: Arc<Mutex<Session>>,
    store: Arc<SessionBlobs>,
    events: mpsc::UnboundedSender<Event>,
    recorder: Arc<Mutex<Option<Recorder>>>,
    /// Folders that joined the workspace while the session runs.
    added: Arc<Mutex<Vec<PathBuf>>>,
    /// For a subagent: the call that it works for. Its id is part of the names of the subagent's calls.
    below: Option<CallId>,
}

impl Files {
    pub(crate) fn new(
        settings: Settings,
        session: Arc<Mutex<Session>>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let store = Arc::new(SessionBlobs::new(&lock(&session)));
        Self {
            settings,
            session,
            store,
            events,
            recorder: Arc::default(),
            added: Arc::default(),
            below: None,
        }
    }

    /// The recorder for a subagent that works for `call`. Its changes are recorded in the session above, so that an undo there
    /// includes them.
    pub(super) fn for_subagent(&self, call: &CallId) -> Self {
        Self {
            settings: self.settings.clone(),
            session: Arc::clone(&self.session),
            store: Arc::clone(&self.store),
            events: self.events.clone(),
            recorder: Arc::clone(&self.recorder),
            added: Arc::clone(&self.added),
            below: Some(call.clone()),
        }
    }

    /// Records changes in this folder too, from the next call on.
    pub(super) fn add_folder(&self, folder: &Path) {
        lock(&self.added).push(folder.to_path_buf());
    }

    fn name(&self, call: &CallId) -> CallId {
        self.below.as_ref().map_or_else(|| call.clone(), |above| CallId(format!("{above}/{call}")))
    }

    /// Called before a call runs: saves the files that it may change, and records that in the ledger.
    pub(super) async fn before(&self, call: &CallId, touch: FilesAtRisk) {
        let level = match &touch {
            FilesAtRisk::Nothing => return,
            FilesAtRisk::Paths(_) => Level::Ordinary,
            FilesAtRisk::Command(risk) => risk.level,
        };
        let (settings, store) = (self.settings.clone(), Arc::clone(&self.store));
        let (recorder, call) = (Arc::clone(&self.recorder), self.name(call));
        let (dir, added) = (self.dir(), lock(&self.added).clone());
        let looked = tokio::task::spawn_blocking(move || {
            let mut slot = lock(&recorder);
            let (left, recorder) = ready(&mut slot, settings, store, dir.as_deref());
            recorder.add_roots(&added);
            let before = match touch {
                FilesAtRisk::Command(risk) => recorder.before_command(&call, risk),
                FilesAtRisk::Paths(paths) => recorder.before_paths(&call, &paths),
                FilesAtRisk::Nothing => recorder.before_paths(&call, &[]),
            };
            (left, before)
        });
        let Ok((left, before)) = looked.await else {
            return self.say(
                "The files that this tool call may change could not be saved, so undo cannot restore them."
                    .to_owned(),
            );
        };
        let mut entries: Vec<EntryKind> =
            left.into_iter().map(|changes| EntryKind::FileChanges(Box::new(changes))).collect();
        entries.push(EntryKind::FileSnapshot(Box::new(before.snapshot)));
        if let Some(text) = before.warning {
            entries.push(EntryKind::Notice { text: text.clone(), extra: Map::new() });
            self.say(text);
        }
        let durability = if level > Level::Ordinary { Durability::Synced } else { Durability::Buffered };
        self.append(entries, durability);
    }

    /// Called after a call: records its changes, and names them in the output if the tool does not know them.
    pub(super) async fn after(&self, call: &CallId, output: &mut ToolOutput) {
        let (recorder, id) = (Arc::clone(&self.recorder), self.name(call));
        let looked = tokio::task::spawn_blocking(move || {
            lock(&recorder).as_mut().and_then(|recorder| {
                let changes = recorder.after(&id)?;
                let files = recorder.listed(&changes);
                Some((changes, files))
            })
        });
        let Ok(Some((changes, files))) = looked.await else { return };
        if output.changes.is_empty() {
            output.changes = summary(&files);
            output.changes.truncate(MAX_CHANGES);
        }
        self.close(changes);
    }

    /// Called between calls: closes a call that never ended, so that its changes are in the ledger.
    pub(super) fn settle(&self) {
        let mut slot = lock(&self.recorder);
        let dir = self.dir();
        let left = ready(&mut slot, self.settings.clone(), Arc::clone(&self.store), dir.as_deref()).0;
        drop(slot);
        if let Some(changes) = left {
            self.close(changes);
        }
    }

    /// Updates the recorder after an undo or a redo.
    pub(super) fn restored(&self, changes: &FileChanges) {
        if let Some(recorder) = lock(&self.recorder).as_mut() {
            recorder.restored(changes);
        }
    }

    fn dir(&self) -> Option<PathBuf> {
        let session = lock(&self.session);
        session.is_persistent().then(|| session.dir().to_path_buf())
    }

    fn close(&self, changes: FileChanges) {
        self.append(vec![EntryKind::FileChanges(Box::new(changes))], Durability::Buffered);
    }

    fn append(&self, entries: Vec<EntryKind>, durability: Durability) {
        if let Err(error) = lock(&self.session).append(entries, durability) {
            self.say(format!(
                "The file changes of a tool call could not be recorded, so undo cannot restore them: {error}"
            ));
        }
    }

    fn say(&self, text: String) {
        let _ = self.events.send(Event::Notice { level: NoticeLevel::Warning, text });
    }
}

/// Returns the recorder, created if needed, and the changes of the last call if that never ended.
fn ready<'a>(
    slot: &'a mut Option<Recorder>,
    settings: Settings,
    store: Arc<SessionBlobs>,
    dir: Option<&Path>,
) -> (Option<FileChanges>, &'a mut Recorder) {
    match slot {
        Some(known) => (known.close_left_open(), known),
        None => {
            let (fresh, left) = begin(settings, store, dir);
            (left, slot.insert(fresh))
        }
    }
}

/// Creates the first recorder of this process. Also returns the changes of a call that an earlier process left open.
fn begin(
    settings: Settings,
    store: Arc<SessionBlobs>,
    dir: Option<&Path>,
) -> (Recorder, Option<FileChanges>) {
    let items = dir.and_then(|dir| ledger::read(dir).ok());
    let entries = items.into_iter().flatten().map_while(Result::ok).flat_map(|item| match item {
        ledger::Item::Commit(entries) => entries,
        ledger::Item::Bad(_) => Vec::new(),
    });
    let history = History::from_entries(entries, &*store);
    let mut recorder = Recorder::new(settings, store, &history);
    let left = history.open().map(|open| recorder.recover(open));
    (recorder, left)
}

impl FilesAtRisk {
    /// The files that a call may change, known before it runs.
    pub(super) fn from_access(access: &Access, env: &ToolEnv, only_reads: bool, home: Option<&Path>) -> Self {
        match (access.effect, &access.command) {
            (Effect::Session | Effect::Read | Effect::Network | Effect::Delegate, _) => Self::Nothing,
            (Effect::Write, _) if !access.paths.is_empty() => Self::Paths(access.paths.clone()),
            (_, Some(_)) if only_reads => Self::Nothing,
            (_, Some(command)) => {
                let state = env.host.state(SHELL_CWD);
                let kept = state.as_ref().and_then(|value| value.as_str()).map(Path::new);
                let cwd = access.paths.first().map(PathBuf::as_path).or(kept).unwrap_or(&env.cwd);
                Self::Command(classify(command, &CommandContext { cwd, home, script: &read_script }))
            }
            _ => Self::Command(Risk::default()),
        }
    }
}

/// The text of a script; `None` unless it is a small text file.
fn read_script(path: &Path) -> Option<String> {
    let text = becket_files::read_text(path, MAX_SCRIPT).ok()?;
    (!text.contains('\0') && !text.is_empty()).then_some(text)
}
