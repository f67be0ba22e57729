//! A workspace with everything in it, a ledger in memory, and calls that really run. Shared by the tests of this crate.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(dead_code, reason = "each test file uses a part of it")]

use becket_snapshot::command::{CommandContext, classify};
use becket_snapshot::{Applied, History, Plan, Recorder, Settings, Store, apply, plan_redo, plan_undo};
use becket_types::{BlobId, CallId, Entry, EntryKind, FileChanges, Millis, Seq, hex};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Blobs in memory, each once.
#[derive(Default)]
pub(crate) struct Blobs(Mutex<HashMap<BlobId, Vec<u8>>>);

impl Store for Blobs {
    fn put(&self, bytes: &[u8]) -> BlobId {
        let id = BlobId(hex(&Sha256::digest(bytes)));
        self.0.lock().unwrap().insert(id.clone(), bytes.to_vec());
        id
    }
    fn get(&self, id: &BlobId) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(id).cloned()
    }
}

impl Blobs {
    /// Bytes of all blobs, before compression.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().unwrap().values().map(Vec::len).sum()
    }
}

/// A session: a workspace and what its ledger says.
pub(crate) struct Lab {
    pub(crate) root: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) blobs: Arc<Blobs>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) recorder: Recorder,
}

impl Lab {
    pub(crate) fn new(root: &Path, home: &Path) -> Self {
        let blobs = Arc::new(Blobs::default());
        let recorder =
            Recorder::new(settings(root, home), Arc::clone(&blobs) as Arc<dyn Store>, &History::default());
        Self { root: root.to_path_buf(), home: home.to_path_buf(), blobs, entries: Vec::new(), recorder }
    }

    pub(crate) fn append(&mut self, kind: EntryKind) {
        let seq = Seq(self.entries.len() as u64 + 1);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        // Through JSON, as in a ledger.
        let entry = Entry { seq, time: Millis(time), kind };
        self.entries.push(serde_json::from_str(&serde_json::to_string(&entry).unwrap()).unwrap());
    }

    pub(crate) fn history(&self) -> History {
        History::from_entries(self.entries.iter().cloned(), &*self.blobs)
    }

    /// A new process: nothing is known but the ledger and the blobs.
    pub(crate) fn restart(&mut self) {
        let history = self.history();
        self.recorder = Recorder::new(
            settings(&self.root, &self.home),
            Arc::clone(&self.blobs) as Arc<dyn Store>,
            &history,
        );
        if let Some(open) = history.open() {
            let changes = self.recorder.recover(open);
            self.append(EntryKind::FileChanges(Box::new(changes)));
        }
    }

    pub(crate) fn begin(&mut self, command: &str) -> CallId {
        let id = CallId(format!("c{}", self.entries.len()));
        let script = |path: &Path| std::fs::read_to_string(path).ok();
        let risk =
            classify(command, &CommandContext { cwd: &self.root, home: Some(&self.home), script: &script });
        let before = self.recorder.before_command(&id, risk);
        self.append(EntryKind::FileSnapshot(Box::new(before.snapshot)));
        id
    }

    pub(crate) fn end(&mut self, id: &CallId) {
        let changes = self.recorder.after(id).unwrap();
        self.append(EntryKind::FileChanges(Box::new(changes)));
    }

    /// Runs a command as a call.
    pub(crate) fn call(&mut self, command: &str) -> Output {
        let id = self.begin(command);
        let output = self.shell(command);
        self.end(&id);
        output
    }

    /// Runs a command as somebody else would.
    pub(crate) fn shell(&self, command: &str) -> Output {
        let mut shell = Command::new("bash");
        shell.args(["-c", command]).current_dir(&self.root).stdin(Stdio::null());
        environment(&mut shell, &self.home).output().unwrap()
    }

    /// Changes files at known paths as an edit tool does.
    pub(crate) fn write(&mut self, paths: &[&str], change: impl FnOnce(&Path)) {
        let id = CallId(format!("c{}", self.entries.len()));
        let paths: Vec<PathBuf> = paths.iter().map(|path| self.root.join(path)).collect();
        let before = self.recorder.before_paths(&id, &paths);
        self.append(EntryKind::FileSnapshot(Box::new(before.snapshot)));
        change(&self.root);
        self.end(&id);
    }

    pub(crate) fn carry_out(&mut self, mut plan: Plan) -> (Plan, Applied) {
        if !plan.changes_anything() {
            let changes = FileChanges {
                cause: plan.cause.clone(),
                files: Vec::new(),
                manifest: None,
                skipped: Vec::new(),
                interrupted: false,
            };
            return (plan, Applied { changes, failed: Vec::new() });
        }
        let id = CallId(format!("u{}", self.entries.len()));
        let before = apply::prepare(&mut plan, &id, &*self.blobs);
        self.append(EntryKind::FileSnapshot(Box::new(before)));
        let applied = apply::apply(&plan, &*self.blobs);
        self.append(EntryKind::FileChanges(Box::new(applied.changes.clone())));
        self.restart();
        (plan, applied)
    }

    /// Carries out a plan in a process that dies after this number of changes. Returns true if the plan has more.
    pub(crate) fn interrupt(&mut self, mut plan: Plan, steps: usize) -> bool {
        let id = CallId(format!("u{}", self.entries.len()));
        let before = apply::prepare(&mut plan, &id, &*self.blobs);
        self.append(EntryKind::FileSnapshot(Box::new(before)));
        apply::apply_steps(&plan, &*self.blobs, steps);
        self.restart();
        let is_open = |entry: &Entry| matches!(&entry.kind, EntryKind::FileChanges(c) if c.interrupted);
        self.entries.last().is_some_and(is_open)
    }

    /// Undoes the last calls; the plan and what came of it.
    pub(crate) fn undo(&mut self, calls: usize, force: bool) -> (Plan, Applied) {
        let history = self.history();
        let plan = plan_undo(&history, &history.last_calls(calls), force, &*self.blobs);
        self.carry_out(plan)
    }

    pub(crate) fn redo(&mut self) -> Option<(Plan, Applied)> {
        let plan = plan_redo(&self.history(), false, &*self.blobs)?;
        Some(self.carry_out(plan))
    }
}

fn settings(root: &Path, home: &Path) -> Settings {
    // A long limit, because these tests are about contents, not about a busy machine's speed.
    let patience = std::time::Duration::from_secs(20);
    Settings {
        roots: vec![root.to_path_buf()],
        home: Some(home.to_path_buf()),
        patience,
        ..Settings::default()
    }
}

/// Sets an environment that has nothing of the machine's own settings.
pub(crate) fn environment<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    let path = std::env::var_os("PATH").unwrap();
    command.env_clear().env("PATH", path).env("HOME", home).env("LANG", "C.UTF-8");
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
        command.env(name, "a");
    }
    for name in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
        command.env(name, "a@b");
    }
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("FILTER_BRANCH_SQUELCH_WARNING", "1")
        .env("GIT_EDITOR", "true")
}

/// Every path below `root` with its kind, mode and content; a repository's own files are left out.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut out = BTreeMap::new();
    let mut dirs = vec![root.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        let Ok(listing) = std::fs::read_dir(&dir) else { continue };
        for entry in listing.map(Result::unwrap) {
            let path = entry.path();
            if entry.file_name() == ".git" {
                continue;
            }
            // In a folder without the execute permission, the owner sees the names of files, and root sees everything.
            let Ok(meta) = entry.metadata() else {
                out.insert(path, "in a locked folder".to_owned());
                continue;
            };
            let mode = meta.permissions().mode() & 0o7777;
            let what = if meta.is_symlink() {
                format!("link {:?}", std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
            } else if meta.is_dir() {
                dirs.push(path.clone());
                format!("dir {mode:o}")
            } else if meta.is_file() {
                match std::fs::read(&path) {
                    Ok(bytes) => format!("file {mode:o} {} {:?}", bytes.len(), Sha256::digest(&bytes)),
                    Err(error) => format!("file {mode:o} {:?}", error.kind()),
                }
            } else {
                "special".to_owned()
            };
            out.insert(path, what);
        }
    }
    out
}

/// The repository's state as git reports it: status, index, references, stash, settings.
pub(crate) fn repository(root: &Path, home: &Path) -> String {
    let script = "git status --porcelain -z --ignored; git ls-files -s -z; git for-each-ref; git symbolic-ref -q HEAD; \
                  git rev-parse HEAD; git stash list; git stash show -p; git config -l --local; git worktree list; \
                  git log --oneline --all --reflog | sort; cat .git/config; git reflog";
    let mut shell = Command::new("bash");
    match environment(shell.args(["-c", script]).current_dir(root), home).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        // The folder is locked for all users but root.
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// A working tree with every kind of file and git state that a command can destroy.
pub(crate) fn dirty(base: &Path) -> PathBuf {
    let root = base.join("work");
    std::fs::create_dir(&root).unwrap();
    let script = r#"
set -e
git init -q -b main .
mkdir -p src/deep notes
for f in tracked staged both unstaged; do echo "first of $f" > $f.txt; done
for f in src/main.rs src/lib.rs src/deep/mod.rs; do echo "// $f" > $f; done
printf '\0\1\2\377bin' > bin.dat
printf '#!/bin/sh\nrm -rf src untracked.txt\n' > clean.sh; chmod 755 clean.sh
printf 'import os, shutil\nos.remove("untracked.txt")\nshutil.rmtree("notes")\n' > gone.py
printf 'clean:\n\trm -rf ignored build.log notes\nall:\n\techo made > made.txt\n' > Makefile
ln -s tracked.txt link; ln -s src dirlink
printf 'ignored/\n*.log\n.env\n' > .gitignore
printf 'with space\n' > 'with space.txt'
git add -A; git commit -qm one; git tag v1
git switch -qc other; echo other > tracked.txt; echo o > only-other.txt; git add -A; git commit -qm other
git switch -q main; echo two >> src/lib.rs; git commit -qam two
echo stashed >> tracked.txt; git stash -q
git worktree add -q ../wt other 2>/dev/null
find . -path ./.git -prune -o -type f -exec touch -d '2020-01-01' {} +
git update-index -q --refresh || true
echo staged >> staged.txt; git add staged.txt
echo staged >> both.txt; git add both.txt; echo unstaged >> both.txt
echo unstaged >> unstaged.txt
echo untracked > untracked.txt; echo note > notes/n.md
mkdir -p ignored/sub empty; echo obj > ignored/out.o; echo deep > ignored/sub/x.o
echo SECRET=1 > .env; echo log > build.log; chmod 600 .env
printf 'x' > "$(printf 'caf\351.txt')"
chmod 750 notes
mkdir pk && echo packed > pk/untracked.txt && echo old > pk/tracked.txt
(cd pk && tar cf ../../a.tar untracked.txt tracked.txt && (zip -q ../../a.zip untracked.txt tracked.txt || true)); rm -rf pk
printf -- '--- a/unstaged.txt\n+++ b/unstaged.txt\n@@ -1,2 +1,2 @@\n-first of unstaged\n+patched\n unstaged\n' > ../p.diff
echo untracked.txt > ../list
"#;
    let mut shell = Command::new("bash");
    let home = base.join("home");
    std::fs::create_dir(&home).unwrap();
    let output = environment(shell.args(["-c", script]).current_dir(&root), &home).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    assert!(root.join(odd).exists());
    root
}
