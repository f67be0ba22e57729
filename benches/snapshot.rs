//! Measures scans of a workspace of 10,000 files: the first scan of a session, each one after it, one after ten files changed,
//! and one before a destructive command. `first_whole` is the first scan without the time limit. Half of the numbers are for
//! a repository in which everything is committed.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_snapshot::command::{CommandContext, classify};
use becket_snapshot::{History, Recorder, Settings, Store};
use becket_types::{BlobId, CallId};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FILES: usize = 10_000;

/// Blobs in memory: what is measured is looking, reading and hashing.
#[derive(Default)]
struct Blobs(Mutex<HashMap<BlobId, Vec<u8>>>);

impl Store for Blobs {
    fn put(&self, bytes: &[u8]) -> BlobId {
        let id = BlobId(format!("{:064x}", bytes.len()));
        self.0.lock().unwrap().insert(id.clone(), bytes.to_vec());
        id
    }
    fn get(&self, id: &BlobId) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(id).cloned()
    }
}

fn workspace(committed: bool) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for at in 0..FILES {
        let folder = root.join(format!("d{}/e{}", at % 50, at % 500));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("f{at}.rs")), format!("// file {at}\n").repeat(200)).unwrap();
    }
    if committed {
        let script = "git init -q . && find . -path ./.git -prune -o -type f -exec touch -d 2020-01-01 {} + \
                      && git add -A && git -c user.name=a -c user.email=a@b commit -qm one";
        assert!(Command::new("bash").args(["-c", script]).current_dir(&root).status().unwrap().success());
    }
    (dir, root)
}

fn recorder(root: &Path) -> Recorder {
    waiting(root, Settings::default().patience)
}

fn waiting(root: &Path, patience: Duration) -> Recorder {
    let settings = Settings { roots: vec![root.to_path_buf()], patience, ..Settings::default() };
    Recorder::new(settings, Arc::new(Blobs::default()), &History::default())
}

fn call(recorder: &mut Recorder, root: &Path, command: &str) {
    let id = CallId("c".to_owned());
    let around = CommandContext { cwd: root, home: None, script: &|_| None };
    let before = recorder.before_command(&id, classify(command, &around));
    std::hint::black_box((before, recorder.after(&id)));
}

fn snapshot(c: &mut Criterion) {
    let mut group = c.benchmark_group("snapshot");
    group.sample_size(10);
    for (name, committed) in [("repository", true), ("no_repository", false)] {
        let (_dir, root) = workspace(committed);
        group.bench_function(format!("{name}/first"), |b| {
            b.iter_batched(
                || recorder(&root),
                |mut r| call(&mut r, &root, "cargo test"),
                BatchSize::PerIteration,
            );
        });
        group.bench_function(format!("{name}/first_whole"), |b| {
            b.iter_batched(
                || waiting(&root, Duration::from_secs(20)),
                |mut r| call(&mut r, &root, "cargo test"),
                BatchSize::PerIteration,
            );
        });
        let mut warm = recorder(&root);
        for _ in 0..20 {
            call(&mut warm, &root, "cargo test");
        }
        group.bench_function(format!("{name}/repeated"), |b| b.iter(|| call(&mut warm, &root, "cargo test")));
        group.bench_function(format!("{name}/ten_changed"), |b| {
            let mut round = 0;
            b.iter(|| {
                round += 1;
                for at in 0..10 {
                    std::fs::write(root.join(format!("d{at}/e{at}/f{at}.rs")), format!("// {round}\n"))
                        .unwrap();
                }
                call(&mut warm, &root, "cargo test");
            });
        });
        group.bench_function(format!("{name}/destructive_first"), |b| {
            b.iter_batched(
                || recorder(&root),
                |mut r| call(&mut r, &root, "rm -rf d1"),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, snapshot);
criterion_main!(benches);
