//! Detection of changes by others to files that the model has read or changed, so that the model can be told.
//!
//! The folders of at most [`LIMIT`] files are watched, without their subfolders. If there are more files,
//! those used longest ago are dropped. An event only makes a file suspect. It counts as changed if its
//! content is neither what the model knows nor what one of its calls left. Each change is reported once, and
//! another one only after the file was read again. If the system offers no file events, the files are
//! examined before each request instead, and one notice says so.
//!
//! This is a hint for the model and no protection: an edit checks the hash of the file itself. No thread is
//! started before the first file, and nothing wakes while nothing changes.

use crate::sync::lock;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// Maximum number of watched files, and therefore of folders.
pub const LIMIT: usize = 64;
/// Maximum size in bytes of a watched file. For larger files only the edit's own check remains.
const MAX_READ: u64 = 8 << 20;

/// The method of detecting changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watching {
    /// Events of the system, or examining the files if there are none.
    #[default]
    Events,
    /// Examining the files before each request.
    Looking,
    Off,
}

/// The kind of change that somebody else made to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    Changed,
    Gone,
}

pub(crate) struct Watch {
    state: Mutex<State>,
    /// Files with an event since they were last examined.
    suspects: Arc<Mutex<TouchedFiles>>,
}

#[derive(Default)]
struct TouchedFiles {
    tracked: HashSet<PathBuf>,
    touched: HashSet<PathBuf>,
}

struct State {
    watching: Watching,
    watcher: Option<RecommendedWatcher>,
    /// Ordered by last use, oldest first.
    tracked: VecDeque<TrackedFile>,
    notice: Option<String>,
}

struct TrackedFile {
    path: PathBuf,
    /// SHA-256 of the content that the model knows.
    hash: String,
    /// Content left by a call that the model has not read.
    own_content: Option<Content>,
    /// Size and times of the file when it was last compared.
    stamp: Option<Stamp>,
    reported: bool,
}

/// The state of a path.
#[derive(PartialEq, Eq)]
enum Content {
    Gone,
    /// SHA-256.
    Hash(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
}

impl Watch {
    pub(crate) fn new(watching: Watching) -> Self {
        let state = State { watching, watcher: None, tracked: VecDeque::new(), notice: None };
        Self { state: Mutex::new(state), suspects: Arc::default() }
    }

    /// Records that the model knows the file with this hash.
    pub(crate) fn track(&self, path: &Path, hash: &str) {
        let mut state = lock(&self.state);
        if state.watching == Watching::Off || path.file_name().is_none() {
            return;
        }
        // The paths are resolved, so their bytes can be compared. Comparing their components takes ten times as long.
        let known = state.tracked.iter().position(|tracked| tracked.path.as_os_str() == path.as_os_str());
        let new = known.is_none();
        if let Some(at) = known {
            state.tracked.remove(at);
        }
        let (hash, stamp) = (hash.to_owned(), stamp(path));
        state.tracked.push_back(TrackedFile {
            path: path.to_owned(),
            hash,
            own_content: None,
            stamp,
            reported: false,
        });
        let oldest = if state.tracked.len() > LIMIT { state.tracked.pop_front() } else { None };
        if let Some(oldest) = oldest {
            lock(&self.suspects).tracked.remove(&oldest.path);
            state.leave(&oldest.path);
        }
        if new {
            lock(&self.suspects).tracked.insert(path.to_owned());
            state.enter(path, &self.suspects);
        }
    }

    /// Records that a call of this session changed these files. Its result tells the model.
    pub(crate) fn note_own_changes<'a>(&self, paths: impl Iterator<Item = &'a Path>) {
        for path in paths {
            let mut state = lock(&self.state);
            if let Some(tracked) = state.tracked.iter_mut().find(|tracked| tracked.path == path) {
                tracked.own_content = content(path);
                tracked.stamp = stamp(path);
            }
        }
    }

    /// Returns the files that somebody else changed, each change once.
    pub(crate) fn changed(&self) -> Vec<(PathBuf, FileChange)> {
        let mut state = lock(&self.state);
        let looking = state.watching == Watching::Looking;
        let touched = std::mem::take(&mut lock(&self.suspects).touched);
        let mut changed = Vec::new();
        for tracked in &mut state.tracked {
            let now = if looking { stamp(&tracked.path) } else { None };
            let suspect = touched.contains(&tracked.path) || looking && now != tracked.stamp;
            if !suspect || tracked.reported {
                continue;
            }
            tracked.stamp = now;
            // The file is too large or not readable, so nothing can be reported.
            let Some(content) = content(&tracked.path) else { continue };
            let fate = match &content {
                Content::Hash(hash) if *hash == tracked.hash => continue,
                _ if tracked.own_content.as_ref() == Some(&content) => continue,
                Content::Hash(_) => FileChange::Changed,
                Content::Gone => FileChange::Gone,
            };
            tracked.reported = true;
            changed.push((tracked.path.clone(), fate));
        }
        changed
    }

    /// Returns a notice once, if events are not available.
    pub(crate) fn notice(&self) -> Option<String> {
        lock(&self.state).notice.take()
    }
}

impl State {
    /// Watches the folder of a new file.
    fn enter(&mut self, path: &Path, suspects: &Arc<Mutex<TouchedFiles>>) {
        if self.watching != Watching::Events {
            return;
        }
        let Some(dir) = path.parent() else { return };
        let others = self.tracked.iter().filter(|tracked| tracked.path.as_os_str() != path.as_os_str());
        if self.watcher.is_some()
            && others.map(|tracked| tracked.path.parent()).any(|other| other == Some(dir))
        {
            return;
        }
        let started = match self.watcher.take() {
            Some(watcher) => Ok(watcher),
            None => start(Arc::clone(suspects)),
        };
        let watched = started.and_then(|mut watcher| {
            let outcome = watcher.watch(dir, RecursiveMode::NonRecursive);
            match outcome {
                // A deleted file is not a reason to give up.
                Err(error) if !matches!(error.kind, notify::ErrorKind::PathNotFound) && dir.exists() => {
                    Err(error)
                }
                _ => Ok(watcher),
            }
        });
        match watched {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => {
                self.watching = Watching::Looking;
                self.notice = Some(format!(
                    "Files cannot be watched ({}). They are examined before each request instead.",
                    why(&error)
                ));
            }
        }
    }

    fn leave(&mut self, path: &Path) {
        let Some(dir) = path.parent() else { return };
        if self.tracked.iter().any(|tracked| tracked.path.parent() == Some(dir)) {
            return;
        }
        if let Some(watcher) = &mut self.watcher {
            // A deleted folder is no longer watched anyway, so the error is ignored.
            let _ = watcher.unwatch(dir);
        }
    }
}

fn start(suspects: Arc<Mutex<TouchedFiles>>) -> notify::Result<RecommendedWatcher> {
    notify::recommended_watcher(move |event: notify::Result<Event>| {
        let Ok(event) = event else { return };
        let mut suspects = lock(&suspects);
        if event.need_rescan() {
            // The system lost events, so any file may have changed.
            let TouchedFiles { tracked, touched } = &mut *suspects;
            touched.clone_from(tracked);
            return;
        }
        if matches!(event.kind, EventKind::Access(_)) {
            return;
        }
        for path in event.paths {
            if suspects.tracked.contains(&path) {
                suspects.touched.insert(path);
            }
        }
    })
}

fn why(error: &notify::Error) -> String {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => "the system's limit of watches is reached".to_owned(),
        notify::ErrorKind::Io(error) => error.to_string(),
        _ => error.to_string(),
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some(Stamp { len: meta.len(), modified: meta.modified().ok() })
}

/// Reads a file's state; `None` if it is not a regular file, too large, or not readable.
fn content(path: &Path) -> Option<Content> {
    match becket_files::read(path, MAX_READ) {
        Ok(bytes) => Some(Content::Hash(becket_tool::sha256(&bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(Content::Gone),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::write;

    fn playing(watching: Watching, names: &[&str]) -> (tempfile::TempDir, Watch) {
        let dir = tempfile::tempdir().unwrap();
        let watch = Watch::new(watching);
        for name in names {
            write(dir.path().join(name), *name).unwrap();
            watch.track(&dir.path().join(name), &becket_tool::sha256(name.as_bytes()));
        }
        (dir, watch)
    }

    /// Waits for an event about a file.
    fn told_of(watch: &Watch, path: &Path) {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !lock(&watch.suspects).touched.contains(path) {
            assert!(std::time::Instant::now() < end, "no event");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_foreign_change_is_told_once_and_again_after_it_was_read() {
        for watching in [Watching::Events, Watching::Looking] {
            let (dir, watch) = playing(watching, &["a", "b"]);
            let path = dir.path().join("a");
            let event = || {
                if watching == Watching::Events {
                    told_of(&watch, &path);
                }
            };
            assert_eq!(watch.changed(), []);
            // Editors save like this: another file replaces the old one.
            write(dir.path().join("new"), "theirs").unwrap();
            std::fs::rename(dir.path().join("new"), &path).unwrap();
            event();
            assert_eq!(watch.changed(), [(path.clone(), FileChange::Changed)]);
            write(&path, "theirs again").unwrap();
            event();
            assert_eq!(watch.changed(), [], "told once");
            watch.track(&path, &becket_tool::sha256(b"theirs again"));
            std::fs::remove_file(&path).unwrap();
            event();
            assert_eq!(watch.changed(), [(path.clone(), FileChange::Gone)]);
            assert_eq!(watch.notice(), None);
        }
    }

    #[test]
    fn what_calls_change_and_what_stays_the_same_is_not_told() {
        for watching in [Watching::Events, Watching::Looking] {
            let (dir, watch) = playing(watching, &["a", "b"]);
            let (a, b) = (dir.path().join("a"), dir.path().join("b"));
            // An edit: the file and the model's knowledge of it change together.
            write(&a, "edited").unwrap();
            watch.track(&a, &becket_tool::sha256(b"edited"));
            // A command: its result is known as own_content, but the model has not read it.
            write(&b, "by a command").unwrap();
            watch.note_own_changes([b.as_path()].into_iter());
            if watching == Watching::Events {
                told_of(&watch, &a);
                told_of(&watch, &b);
            }
            assert_eq!(watch.changed(), []);
            write(&b, "by somebody").unwrap();
            if watching == Watching::Events {
                told_of(&watch, &b);
            }
            assert_eq!(watch.changed(), [(b, FileChange::Changed)]);
        }
    }

    #[test]
    fn no_more_than_the_limit_is_followed_and_the_latest_stay() {
        let dir = tempfile::tempdir().unwrap();
        let watch = Watch::new(Watching::Events);
        for n in 0..200 {
            let folder = dir.path().join(n.to_string());
            std::fs::create_dir(&folder).unwrap();
            write(folder.join("f"), "x").unwrap();
            watch.track(&folder.join("f"), &becket_tool::sha256(b"x"));
        }
        assert_eq!(lock(&watch.state).tracked.len(), LIMIT);
        assert_eq!(lock(&watch.suspects).tracked.len(), LIMIT);
        let last = dir.path().join("199/f");
        write(&last, "y").unwrap();
        write(dir.path().join("0/f"), "y").unwrap();
        told_of(&watch, &last);
        assert_eq!(watch.changed(), [(last, FileChange::Changed)]);
    }

    #[test]
    fn without_events_it_looks_and_says_so_once() {
        let (dir, watch) = playing(Watching::Events, &["a"]);
        let error = notify::Error::new(notify::ErrorKind::MaxFilesWatch);
        assert_eq!(why(&error), "the system's limit of watches is reached");
        {
            // Switches to examining files, as happens after such an error.
            let mut state = lock(&watch.state);
            (state.watching, state.watcher) = (Watching::Looking, None);
            state.notice = Some(why(&error));
        }
        assert!(watch.notice().is_some() && watch.notice().is_none());
        write(dir.path().join("a"), "longer than before").unwrap();
        assert_eq!(watch.changed(), [(dir.path().join("a"), FileChange::Changed)]);
    }

    #[test]
    fn files_that_are_not_there_are_no_reason_to_give_up() {
        let watch = Watch::new(Watching::Events);
        watch.track(Path::new("/nowhere/at/all"), "hash");
        watch.track(Path::new("/"), "hash");
        assert_eq!(watch.notice(), None);
        assert_eq!(watch.changed(), []);
    }
}
