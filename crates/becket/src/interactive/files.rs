//! Completion of the project's files: listed in the background on the first request, matched while the user types.
//!
//! The rules are those of the search tools: files that git ignores are left out. When the user begins a new name and
//! the listing is older than [`FRESH`], it is made again. Until then the old listing is used. Only the last query is
//! answered.

use becket_tui::input::Reply;
use frizbee::{Config, Matcher};
use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Maximum number of matches that are returned.
const MATCHES: usize = 50;

/// Maximum number of files that are listed. Beyond this number, it is undefined which files are left out.
const MAX_FILES: usize = 1_000_000;

/// Age at which a listing is made again.
const FRESH: Duration = Duration::from_secs(2);

/// Paths relative to the root, the ones nearest to the root first.
type Listing = Arc<Vec<String>>;

pub(super) struct Files {
    root: PathBuf,
    listing: Arc<watch::Sender<Option<Listing>>>,
    walking: Arc<AtomicBool>,
    last_walk: Arc<Mutex<Option<Instant>>>,
    last: Arc<AtomicU64>,
}

impl Files {
    /// Creates the state; nothing is listed until the first request.
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            listing: Arc::new(watch::Sender::new(None)),
            walking: Arc::default(),
            last_walk: Arc::default(),
            last: Arc::default(),
        }
    }

    pub(super) fn ask(&self, query: String) -> BoxFuture<'static, Option<Reply>> {
        let walked = *self.last_walk.lock().unwrap_or_else(PoisonError::into_inner);
        if walked.is_none_or(|at| query.is_empty() && at.elapsed() > FRESH) {
            self.walk();
        }
        let last = Arc::clone(&self.last);
        let turn = last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut listing = self.listing.subscribe();
        Box::pin(async move {
            let paths = listing.wait_for(Option::is_some).await.ok()?.clone()?;
            if last.load(Ordering::Relaxed) != turn {
                return None;
            }
            let task = tokio::task::spawn_blocking(move || {
                let cut = (paths.len() >= MAX_FILES).then_some(MAX_FILES);
                let paths = matches(&paths, &query);
                Reply::Files { query, paths, cut }
            });
            task.await.ok()
        })
    }

    fn walk(&self) {
        if self.walking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (root, listing) = (self.root.clone(), Arc::clone(&self.listing));
        let (walking, walked) = (Arc::clone(&self.walking), Arc::clone(&self.last_walk));
        let work = move || {
            listing.send_replace(Some(Arc::new(list(&root))));
            *walked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            walking.store(false, Ordering::Release);
        };
        if std::thread::Builder::new().name("files".to_owned()).spawn(work).is_err() {
            // Without a thread there are no files to offer, but the user can still type them.
            self.walking.store(false, Ordering::Release);
        }
    }
}

/// Returns the files below a folder whose names fit a query, best first. Blocks.
pub(crate) fn suggestions(root: &Path, query: &str) -> Vec<PathBuf> {
    matches(&list(root), query)
}

fn list(root: &Path) -> Vec<String> {
    let files = crate::disk::walk(root)
        .build()
        .filter_map(Result::ok)
        .filter(|e| e.file_type().is_some_and(|t| !t.is_dir()));
    let relative = files.filter_map(|e| Some(e.path().strip_prefix(root).ok()?.to_str()?.to_owned()));
    let mut paths: Vec<String> = relative.take(MAX_FILES).collect();
    paths.sort_by_cached_key(|p| (p.bytes().filter(|b| *b == b'/').count(), p.clone()));
    paths
}

/// Returns matching paths, best first. For an empty query, those nearest to the root come first.
fn matches(paths: &[String], query: &str) -> Vec<PathBuf> {
    if query.is_empty() {
        return paths.iter().take(MATCHES).map(PathBuf::from).collect();
    }
    let found = Matcher::new(query, &Config::default()).match_list(paths);
    found.iter().take(MATCHES).filter_map(|m| paths.get(m.index as usize)).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("src/deep/lib.rs", ""),
            ("src/main.rs", ""),
            (".github/ci.yml", ""),
            (".gitignore", "out\n"),
            ("out/x.rs", ""),
            (".git/config", ""),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    #[tokio::test]
    async fn what_is_ignored_is_not_offered_and_the_last_question_is_answered() {
        let dir = tree();
        let files = Files::new(dir.path().to_owned());
        let early = files.ask(String::new());
        let Some(Reply::Files { paths, .. }) = early.await else { panic!("no answer") };
        let names = [".gitignore", ".github/ci.yml", "src/main.rs", "src/deep/lib.rs"];
        assert_eq!(paths, names.map(PathBuf::from));
        let (first, second) = (files.ask("m".into()), files.ask("main".into()));
        assert_eq!(first.await, None);
        assert_eq!(
            second.await,
            Some(Reply::Files { query: "main".into(), paths: vec!["src/main.rs".into()], cut: None })
        );
    }

    /// p95 of a key in a project of 100,000 files must be at most 50 ms, with room for a busy machine and a slow build.
    #[test]
    fn a_hundred_thousand_files_are_matched_within_a_key() {
        let parts =
            ["crates", "session", "context", "view", "parser", "model", "server", "client", "tests", "util"];
        let name = |i: usize| {
            let part = |n: usize| parts[i / 10_usize.pow(n as u32) % 10];
            format!("{}/{}/{}/{}_{i}.rs", part(0), part(1), part(2), part(3))
        };
        let paths: Vec<String> = (0..100_000).map(name).collect();
        // Takes the fastest of five runs, because a busy machine may delay any single one.
        let timed = |query: &str| {
            let once = |_| {
                let start = Instant::now();
                assert_eq!(matches(&paths, query).is_empty(), query == "xq");
                start.elapsed()
            };
            (0..5).map(once).min().unwrap_or_default()
        };
        let mut times: Vec<Duration> =
            ["s", "se", "ses", "sess", "sesvi", "sessview", "tests/util", "parser_99", "client.rs", "xq"]
                .map(timed)
                .to_vec();
        times.sort();
        let p95 = times[times.len() * 95 / 100];
        println!("p95 {p95:?} of the least of five each");
        assert!(p95 < Duration::from_millis(250), "{p95:?}");
    }
}
