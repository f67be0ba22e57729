//! Runs destructive commands through bash on a dirty tree and undoes them. Everything must be restored: files byte for byte,
//! modes, links, empty directories, and git's report of the repository. A command whose program is missing changes nothing
//! and does not count; at least 150 must have destroyed something. Of the second list every third runs, or all with
//! `BECKET_ALL=1`. Files that programs write in the home directory are not compared.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Lab, dirty, repository, tree};

#[test]
fn every_destructive_command_is_undone() {
    eprintln!("{}", all(include_str!("destructive.txt").lines().collect(), 150));
}

#[test]
fn every_further_destructive_command_is_undone() {
    let lines: Vec<&str> = include_str!("destructive_more.txt").lines().collect();
    let whole = std::env::var_os("BECKET_ALL").is_some();
    let (step, least) = if whole { (1, 230) } else { (3, 70) };
    eprintln!("{}", all(lines.into_iter().step_by(step).collect(), least));
}

/// Runs the commands of a list; at least `least` must have destroyed something.
fn all(mut commands: Vec<&str>, least: usize) -> String {
    commands.retain(|line| !line.is_empty() && !line.starts_with("##"));
    let (next, destroyed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let problems: Mutex<Vec<String>> = Mutex::default();
    let idle: Mutex<Vec<&str>> = Mutex::default();
    let template = tempfile::tempdir().unwrap();
    let work = dirty(&template.path().canonicalize().unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match one(work.parent().unwrap(), &command.replace("\\n", "\n")) {
                        Ok(true) => {
                            destroyed.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(false) => idle.lock().unwrap().push(command),
                        Err(problem) => problems.lock().unwrap().push(format!("{command}\n{problem}")),
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), commands.len(), problems.join("\n\n"));
    let count = destroyed.into_inner();
    let idle = idle.into_inner().unwrap();
    let report = format!(
        "{count} of {} commands destroyed something; these changed nothing: {idle:#?}",
        commands.len()
    );
    assert!(count >= least, "{report}");
    report
}

/// Runs and undoes a command. Returns true if it changed anything; `Err` lists what was not restored.
fn one(template: &Path, command: &str) -> Result<bool, String> {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let copied = Command::new("cp").arg("-a").arg(template.join(".")).arg(&base).status().unwrap();
    assert!(copied.success());
    let (root, home) = (base.join("work"), base.join("home"));
    let mut lab = Lab::new(&root, &home);
    // The second worktree's links name the template.
    let repaired = lab.shell("printf 'gitdir: %s/.git/worktrees/wt\\n' \"$PWD\" > ../wt/.git; printf '%s/.git\\n' \"$(cd ../wt && pwd)\" > .git/worktrees/wt/gitdir; git update-index -q --refresh");
    drop(repaired);
    let _ = repository(&root, &home);
    let all = || {
        let mut tree = tree(&base);
        tree.retain(|path, _| !path.starts_with(&home));
        tree
    };
    let before = (all(), repository(&root, &home));
    lab.call(command);
    let changed = all() != before.0 || repository(&root, &home) != before.1;
    if !changed {
        return Ok(false);
    }
    if lab.history().last_calls(1).is_empty() {
        return Err("it changed something, and no change was recorded".to_owned());
    }
    let (plan, applied) = lab.undo(1, false);
    let mut problem = String::new();
    for path in plan.paths.iter().filter(|p| {
        matches!(p.action, becket_snapshot::Action::Conflict(_) | becket_snapshot::Action::Lost(_))
    }) {
        let _ = writeln!(problem, "  {:?} {}", path.action, path.path.display());
    }
    for failed in &applied.failed {
        let _ = writeln!(problem, "  failed {}: {}", failed.path.0.display(), failed.reason);
    }
    let after = (all(), repository(&root, &home));
    for (path, what) in &before.0 {
        if after.0.get(path) != Some(what) {
            let _ = writeln!(problem, "  {}: {what} became {:?}", path.display(), after.0.get(path));
        }
    }
    for path in after.0.keys().filter(|path| !before.0.contains_key(*path)) {
        let _ = writeln!(problem, "  {} is left over", path.display());
    }
    if after.1 != before.1 {
        let _ = writeln!(problem, "  git before:\n{}\n  git after:\n{}", before.1, after.1);
    }
    if problem.is_empty() { Ok(true) } else { Err(problem) }
}

/// Git packs objects in the background while a command runs. Undo has nothing to do with that, unless objects were lost.
#[test]
fn objects_that_git_packs_meanwhile_are_no_changes() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (root, home) = (base.join("work"), base.join("home"));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::create_dir_all(&home).unwrap();
    let mut lab = Lab::new(&root, &home);
    lab.shell(
        "git init -q .; for n in 1 2 3 4 5 6 7 8 9; do echo $n > f$n; git add -A; git commit -qm $n; done",
    );
    let in_git = |lab: &Lab| -> Vec<String> {
        let history = lab.history();
        let changes = history.last_calls(1);
        let paths =
            changes.iter().flat_map(|change| &change.files).map(|file| file.path.0.display().to_string());
        paths.filter(|path| path.contains("/.git/objects/") && !path.contains("/pack")).collect()
    };
    let id = lab.begin("find . -name 'f*' -delete; git gc -q");
    lab.shell("rm f1 f2; git gc -q; echo 1 host > .git/gc.pid");
    lab.end(&id);
    assert_eq!(in_git(&lab), Vec::<String>::new());
    let (plan, applied) = lab.undo(1, false);
    assert!(applied.failed.is_empty() && root.join("f1").exists(), "{plan:?}");
    assert!(lab.shell("git fsck --strict").status.success());
    // If a command deletes an object of git, undo restores it.
    lab.shell("echo new > g; git add g; git commit -qm g");
    lab.call("rm -rf .git/objects/*");
    assert!(!in_git(&lab).is_empty());
    lab.undo(1, false);
    assert!(lab.shell("git fsck --strict && git show HEAD:g").status.success());
}
