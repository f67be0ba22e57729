//! File tools in a forest of links that changes while they work: directories and files are swapped for links that lead
//! outside. Files outside stay as they are, and their content is in no result.
//!
//! `BECKET_RACE_SECONDS` sets how long it runs (3). With `BECKET_RACE_UNJUDGED` set, calls do not keep to the paths that were
//! judged: the test fails then, which shows that it finds the hole.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use becket_tool::testing::{TestHost, env};
use becket_tool::{Tool, ToolEnv};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A word in every file outside.
const OUTSIDE: &str = "outside-31f0";
/// Names that are swapped with links of the same name in `links`, and where each link leads.
const SWAPPED: [(&str, &str); 4] = [("a", "a"), ("a2/b", "a/b"), ("d", "a/b/c"), ("f.txt", "secret.txt")];

fn tools() -> Vec<Arc<dyn Tool>> {
    let mut all = becket_tool_edit::tools();
    all.push(Arc::new(becket_tool_read::Read::new()));
    all.push(Arc::new(becket_tool_search::Grep::new()));
    all.push(Arc::new(becket_tool_search::Glob::new()));
    all
}

/// Every file and link below a folder, with content or target.
fn state(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut out = BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                todo.push(path.clone());
                out.insert(path, String::new());
            } else {
                let text = fs::read_to_string(&path).unwrap();
                out.insert(path, text);
            }
        }
    }
    out
}

struct Forest {
    _dir: tempfile::TempDir,
    env: ToolEnv,
    _host: Arc<TestHost>,
    outside: PathBuf,
    links: PathBuf,
}

impl Forest {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (project, outside, links) = (base.join("x/project"), base.join("outside"), base.join("links"));
        for path in ["a/b/c/f.txt", "a2/b/c/f.txt", "d/f.txt", "f.txt", "plain/f.txt"] {
            let path = project.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "inside\nsecond\n").unwrap();
        }
        for path in ["a/b/c/f.txt", "secret.txt"] {
            let path = outside.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("inside {OUTSIDE}\nsecond\n")).unwrap();
        }
        fs::create_dir(&links).unwrap();
        for (number, (_, target)) in SWAPPED.iter().enumerate() {
            symlink(outside.join(target), links.join(number.to_string())).unwrap();
        }
        let (env, host) = env(&project);
        Self { _dir: dir, env, _host: host, outside, links }
    }

    /// Swaps each name with its link, again and again, at different moments.
    fn swap(&self, stop: &AtomicBool) {
        let mut round = 0_usize;
        while !stop.load(Ordering::Relaxed) {
            round += 1;
            for (number, (name, _)) in SWAPPED.iter().enumerate() {
                let link = self.links.join(number.to_string());
                // A name below another swapped name is left alone: if that other one is a link at this moment, files outside
                // would be swapped.
                if name.starts_with("a2") || !name.contains('/') {
                    let _ = renameat_with(CWD, self.env.cwd.join(name), CWD, &link, RenameFlags::EXCHANGE);
                }
                for _ in 0..(round * (number + 7)) % 613 * 10 {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

/// The call with this number: a tool and its input.
fn call(number: usize) -> (&'static str, Value) {
    const FILES: [&str; 5] = ["a/b/c/f.txt", "a2/b/c/f.txt", "d/f.txt", "f.txt", "a/../d/./f.txt"];
    const FOLDERS: [&str; 5] = ["a", "a2/b/c", "d", ".", "a/b"];
    let (file, folder) = (FILES[number / 9 % 5], FOLDERS[number / 9 % 5]);
    match number % 9 {
        0 | 1 => ("read", json!({"path": file})),
        2 => ("read", json!({"path": folder})),
        3 => ("edit", json!({"path": file, "old": "inside", "new": "inside"})),
        4 => (
            "edit",
            json!({"path": file, "old": "second\n", "new": "second\nsecond\n", "replace_all": false}),
        ),
        5 => (
            "write",
            json!({"path": format!("{folder}/new-{}/n.txt", number % 7), "content": format!("{number}\n")}),
        ),
        6 => ("grep", json!({"pattern": "inside", "path": folder})),
        7 => ("glob", json!({"pattern": "**/*.txt", "path": folder})),
        _ => (
            "apply_patch",
            json!({"patch": format!(
                "*** Begin Patch\n*** Update File: {file}\n@@\n-inside\n+inside\n second\n*** Add File: {folder}/p{number}.txt\n+x\n*** End Patch\n"
            )}),
        ),
    }
}

#[test]
fn nothing_outside_is_read_or_changed_while_links_are_swapped() {
    let forest = Forest::new();
    let probe =
        renameat_with(CWD, forest.env.cwd.join("d"), CWD, forest.links.join("2"), RenameFlags::EXCHANGE);
    if probe.is_err() {
        println!("skipped: this file system cannot swap two names");
        return;
    }
    let before = state(&forest.outside);
    let seconds = std::env::var("BECKET_RACE_SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let unjudged = std::env::var_os("BECKET_RACE_UNJUDGED").is_some();
    let end = Instant::now() + Duration::from_secs(seconds);
    let (stop, next, told) = (AtomicBool::new(false), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let (permitted, succeeded) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| forest.swap(&stop));
        let work = || {
            let tools = tools();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            while Instant::now() < end {
                let (name, input) = call(next.fetch_add(1, Ordering::Relaxed));
                let Some(tool) = tools.iter().find(|tool| tool.spec().name == name) else { continue };
                let Ok(access) = tool.access(&input, &forest.env) else { continue };
                // The guard would ask about a call with another path, so such calls are not made.
                if !access.paths.iter().all(|path| forest.env.is_inside(path)) {
                    continue;
                }
                permitted.fetch_add(1, Ordering::Relaxed);
                let judged = Some(access.paths.into()).filter(|_| !unjudged);
                let env = ToolEnv { judged, ..forest.env.clone() };
                let output = runtime.block_on(tool.run(input.clone(), &env));
                succeeded.fetch_add(usize::from(!output.is_error), Ordering::Relaxed);
                let details = output.details.to_string();
                if output.content.contains(OUTSIDE) || details.contains(OUTSIDE) {
                    told.lock().unwrap().push(format!("{name} {input}: {}", output.content));
                }
            }
        };
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let told = told.into_inner().unwrap();
    assert!(told.is_empty(), "{} calls told what is outside, such as {}", told.len(), told[0]);
    // Only `outside` is compared. The folder `links` holds files of the project as long as their names are swapped.
    assert_eq!(state(&forest.outside), before, "the outside was changed");
    let (permitted, succeeded) = (permitted.into_inner(), succeeded.into_inner());
    println!("{permitted} calls permitted, {succeeded} succeeded");
    assert!(permitted > 50 && succeeded > 20, "{permitted} calls permitted, {succeeded} succeeded");
}
