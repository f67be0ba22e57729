//! Changes of somebody else among those that an undo would take back.
//!
//! becket records every file that differs after a command. It cannot see which process wrote a file, so what a person or another
//! session wrote meanwhile is in the record as well. The records of other sessions tell about theirs: such a file is a conflict. Of
//! a person nothing is recorded, and the times of a file tell no more than that it changed while the command ran. So the plan says
//! which files may be meant, if the command ran long enough for somebody to write one.
//!
//! Reads the ledgers of other sessions, and writes nothing.

use super::SessionBlobs;
use becket_session::blobs::BlobStore;
use becket_session::store::{self, Disk};
use becket_snapshot::history::Change;
use becket_snapshot::{Action, History, Plan};
use becket_types::Millis;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Maximum number of other sessions that are read, the most recently written first.
const SESSIONS: usize = 50;

/// A command that ran for a shorter time, in milliseconds, leaves nobody the time to write a file beside it.
const LONG: u64 = 2_000;

/// Tools whose changes are exactly the files that they name.
const EXACT: &[&str] = &["edit", "multi_edit", "write", "apply_patch"];

/// The files that other sessions wrote.
#[derive(Debug, Default)]
pub(crate) struct Others(HashMap<PathBuf, Vec<Written>>);

/// A call of another session that changed a file.
#[derive(Debug)]
struct Written {
    session: String,
    since: Millis,
    time: Millis,
}

impl Others {
    /// Reads the sessions beside the one in `dir` that were written since its first change that can be undone.
    pub(crate) fn beside(dir: &Path, history: &History) -> Self {
        let mut out = Self::default();
        let commands = history.undoable().filter(|change| !is_exact(change));
        let Some(since) = commands.map(|change| change.since).min() else { return out };
        let Some(root) = dir.parent().and_then(Path::parent) else { return out };
        let mut dirs: Vec<(Millis, PathBuf)> = store::session_dirs(root, None)
            .unwrap_or_default()
            .into_iter()
            .filter(|other| other != dir)
            .filter_map(|other| Some((written(&other)?, other)))
            .filter(|(time, _)| *time >= since)
            .collect();
        dirs.sort_by_key(|(time, _)| Reverse(*time));
        for (_, other) in dirs.iter().take(SESSIONS) {
            out.read(other, since);
        }
        out
    }

    fn read(&mut self, dir: &Path, from: Millis) {
        let Ok(entries) = store::read_entries_without(dir, &["message"]) else { return };
        let blobs = SessionBlobs(Arc::new(BlobStore::in_memory(Arc::new(Disk), Some(dir))));
        let history = History::from_entries(entries.flatten().flatten(), &blobs);
        let session = store::id_of(dir).map(|id| id.to_string()).unwrap_or_default();
        for change in history.calls().filter(|change| change.time >= from) {
            for file in &change.files {
                let (since, time) = (change.since, change.time);
                let one = Written { session: session.clone(), since, time };
                self.0.entry(file.path.0.clone()).or_default().push(one);
            }
        }
    }

    /// Says which other session wrote the file while one of these commands ran, if there is one.
    pub(crate) fn writer(&self, path: &Path, changes: &[&Change]) -> Option<String> {
        let written = self.0.get(path)?;
        let mut own = changes.iter().filter(|change| !is_exact(change) && changes_file(change, path));
        let meets =
            |change: &Change| written.iter().find(|one| one.since <= change.time && change.since <= one.time);
        own.find_map(|change| meets(change))
            .map(|one| format!("another session ({}) wrote it while this command ran", one.session))
    }
}

/// One sentence about files that somebody else may have written while a long command ran; `None` if there are none.
pub(crate) fn doubt(plan: &Plan, changes: &[&Change]) -> Option<String> {
    let taken_back = plan.paths.iter().filter(|path| matches!(path.action, Action::Restore | Action::Delete));
    let taken_back: Vec<&Path> = taken_back.map(|path| path.path.as_path()).collect();
    let long = |change: &&&Change| !is_exact(change) && change.time.0.saturating_sub(change.since.0) >= LONG;
    let mut of: Vec<(&Change, usize)> = Vec::new();
    for change in changes.iter().filter(long) {
        let unnamed = |path: &&&Path| changes_file(change, path) && !is_named(&change.label, path);
        let count = taken_back.iter().filter(unnamed).count();
        if count > 0 {
            of.push((change, count));
        }
    }
    let (longest, _) = of.iter().max_by_key(|(change, _)| change.time.0 - change.since.0)?;
    let count: usize = of.iter().map(|(_, count)| count).sum();
    let command = longest.label.strip_prefix("bash ").unwrap_or(&longest.label);
    let seconds = (longest.time.0 - longest.since.0) / 1_000;
    let files = if count == 1 { "1 path".to_owned() } else { format!("{count} paths") };
    Some(format!(
        "{files} changed while `{}` ran ({seconds} s) and {} not named in it. becket cannot tell who wrote a file: if you or \
         another program did so meanwhile, that is taken back as well",
        becket_types::cut_end(command, 60),
        if count == 1 { "is" } else { "are" },
    ))
}

fn is_exact(change: &Change) -> bool {
    EXACT.contains(&change.label.split(' ').next().unwrap_or_default())
}

fn changes_file(change: &Change, path: &Path) -> bool {
    change.files.iter().any(|file| file.path.0 == path)
}

/// True if the description of a call has the name of the file or of its folder.
fn is_named(label: &str, path: &Path) -> bool {
    let names = [path.file_name(), path.parent().and_then(Path::file_name)];
    names.into_iter().flatten().any(|name| label.contains(&*name.to_string_lossy()))
}

/// The time at which a session was last written.
fn written(dir: &Path) -> Option<Millis> {
    let modified = std::fs::metadata(store::ledger_path(dir)).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    Some(Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}
