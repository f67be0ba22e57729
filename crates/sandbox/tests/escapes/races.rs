//! A forest of links, some of which another thread swaps while commands are judged and run: each leads into the workspace at one
//! moment and to a secret or outside at the next. Judging cannot win such a race; the confinement must.

use crate::ground::{Ground, SECRET, grounds};
use crate::unjudged::{Watch, below};
use becket_guard::{Guard, GuardSettings, Rules, Verdict};
use becket_sandbox::BackendKind;
use becket_types::SandboxLevel::{ReadOnly, Workspace};
use becket_types::{Access, PermissionMode};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Reads through names that lead into the workspace at one moment and outside or to a secret at the next.
const READS: &[&str] = &[
    "cat swap/f",
    "cat dir/f",
    "head -c 99 swap/f",
    "grep -r . dir",
    "ls -l swap/",
    "wc -c dir/f",
    "cat chain9/f",
    "cat swap/../dir/f",
    "find dir/ -name f",
];
const WRITES: &[&str] = &[
    "echo x > swap/new",
    "echo x >> dir/f",
    "mkdir -p dir/made",
    "cp a.txt swap/copy",
    "mv dir/copy dir/moved; rm -rf swap/moved",
    "ln -sf a.txt dir/link",
    "cd dir && echo x > new; truncate -s 0 f",
    "cat swap/f dir/f",
];

/// Changes of attributes. They have no effect with bubblewrap; Landlock has no rule for permission bits and times: see the
/// limits in `docs/sandbox.md`.
const ATTRIBUTES: &[&str] =
    &["touch -d 2001-01-01 swap/f", "chmod 777 swap/f dir/f", "chmod -R 777 forest/*/"];

/// The writes that a backend keeps inside.
fn writes(kind: BackendKind) -> Vec<&'static str> {
    let more = if kind == BackendKind::Bubblewrap { ATTRIBUTES } else { &[] };
    WRITES.iter().chain(more).copied().collect()
}

/// Links to files and folders, inside and outside, over each other, in circles.
fn plant(base: &Path) {
    let at = |name: &str| base.join(name);
    for (dir, text) in [("ws/inside", "inside\n"), ("ws/dir", "inside\n"), ("home/.ssh", SECRET)] {
        fs::create_dir_all(at(dir)).unwrap();
        fs::write(at(dir).join("f"), text).unwrap();
    }
    fs::write(at("outside/f"), "as it was").unwrap();
    symlink("inside", at("ws/swap")).unwrap();
    symlink(at("home/.ssh"), at("ws/other")).unwrap();
    symlink("swap", at("ws/chain0")).unwrap();
    for n in 1..10 {
        symlink(format!("chain{}", n - 1), at(&format!("ws/chain{n}"))).unwrap();
    }
    let forest = at("ws/forest");
    fs::create_dir(&forest).unwrap();
    for n in 0..100 {
        symlink(format!("{}", (n + 1) % 100), forest.join(n.to_string())).unwrap();
        symlink(format!("../{}home/.ssh/f", "../ws/../".repeat(n % 7 + 1)), forest.join(format!("s{n}")))
            .unwrap();
        symlink(at("outside"), forest.join(format!("o{n}"))).unwrap();
    }
}

/// Swaps `swap` between a folder inside and places outside, and `dir` with a link to a secret.
fn swap_until(stop: &AtomicBool, base: &Path) -> usize {
    let at = |name: &str| base.join(name);
    let targets = [PathBuf::from("inside"), at("home/.ssh"), PathBuf::from("dir"), at("outside")];
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        // Over the old one in one step, so that there is always a link.
        if symlink(&targets[rounds % targets.len()], at("ws/next")).is_ok() {
            let _ = fs::rename(at("ws/next"), at("ws/swap"));
        }
        let _ = renameat_with(CWD, at("ws/dir"), CWD, at("ws/other"), RenameFlags::EXCHANGE);
        rounds += 1;
        std::thread::yield_now();
    }
    rounds
}

fn judge(base: &Path) -> Guard {
    let settings = GuardSettings {
        rules: Rules::default(),
        mode: PermissionMode::Default,
        roots: vec![base.join("ws")],
        home: base.join("home"),
        own: Vec::new(),
    };
    let resolve = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    Guard::new(settings).with_resolver(Arc::new(resolve))
}

fn secrets(base: &Path, names: &[&str]) -> Watch {
    Watch::new(below(&names.iter().map(|name| base.join(name)).collect::<Vec<_>>()))
}

/// Runs `work` while another thread swaps.
fn while_swapping(ground: &Ground, work: impl FnOnce()) {
    let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| rounds.store(swap_until(&stop, &ground.base), Ordering::Relaxed));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        swapper.join().unwrap();
        result.unwrap();
    });
    assert!(rounds.load(Ordering::Relaxed) > 200, "{rounds:?}");
}

#[test]
fn links_that_change_while_a_command_is_judged_and_runs_lead_to_no_secret() {
    for (kind, ground) in grounds() {
        plant(&ground.base);
        let guard = judge(&ground.base);
        let watch = secrets(&ground.base, &["home", "outside/f"]);
        let before = ground.fingerprint(&["home", "outside"]);
        watch.seen();
        let (mut allowed, mut asked) = (0, 0);
        while_swapping(&ground, || {
            for command in READS.iter().cycle().take(READS.len() * 20) {
                match guard.check("bash", &Access::execute(*command), &Value::Null) {
                    Verdict::Allow { .. } => allowed += 1,
                    _ => asked += 1,
                }
                // The command runs whatever the guard says: if the guard sees the link lead outside, the link may lead
                // inside a moment later.
                let output = ground.run(ReadOnly, command);
                let text = String::from_utf8_lossy(&output.stdout);
                assert!(!text.contains(SECRET) && !text.contains("as it was"), "{kind:?}: {command}: {text}");
            }
        });
        assert!(watch.seen().is_empty(), "{kind:?}");
        assert!(ground.fingerprint(&["home", "outside"]) == before, "{kind:?}");
        println!("{kind:?}: {allowed} allowed, {asked} asked about");
        assert!(
            allowed > 0 && asked > 0,
            "{kind:?}: {allowed} allowed, {asked} asked about: there was no race"
        );
    }
}

#[test]
fn links_that_change_while_a_command_runs_lead_no_write_outside() {
    for (kind, ground) in grounds() {
        plant(&ground.base);
        let watch = secrets(&ground.base, &["home/.ssh/f", "home/.ssh/id_rsa"]);
        let before = ground.fingerprint(&["home", "outside"]);
        watch.seen();
        while_swapping(&ground, || {
            let writes = writes(kind);
            for command in writes.iter().cycle().take(writes.len() * 20) {
                let output = ground.run(Workspace, command);
                let text = String::from_utf8_lossy(&output.stdout);
                assert!(!text.contains(SECRET), "{kind:?}: {command}: {text}");
            }
        });
        assert!(watch.seen().is_empty(), "{kind:?}");
        assert!(ground.fingerprint(&["home", "outside"]) == before, "{kind:?}");
    }
}

/// Folders of the workspace that bubblewrap mounts, because protected files are in them, are swapped for links while a command is
/// set up. bubblewrap follows links.
#[test]
fn mounts_lead_nowhere_else_while_folders_are_swapped() {
    for (kind, ground) in grounds() {
        let at = |name: &str| ground.base.join(name);
        symlink("../home/.ssh", at("ws/other")).unwrap();
        symlink("../outside", at("ws/another")).unwrap();
        fs::create_dir(at("ws/.vscode")).unwrap();
        let before = ground.fingerprint(&["home", "outside"]);
        let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let swap =
                        |a: &str, b: &str| renameat_with(CWD, at(a), CWD, at(b), RenameFlags::EXCHANGE);
                    let _ = swap("ws/.git", "ws/another");
                    let _ = swap("ws/.vscode", "ws/other");
                    rounds.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
            for _ in 0..150 {
                let output = ground.run(
                    Workspace,
                    "cat .vscode/* other/* \"$HOME\"/.ssh/*; echo x > .git/new; echo x > another/new; echo x > .vscode/new",
                );
                let text = String::from_utf8_lossy(&output.stdout);
                if text.contains(SECRET) {
                    stop.store(true, Ordering::Relaxed);
                    panic!("{kind:?}: {output:?}");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(rounds.load(Ordering::Relaxed) > 200, "{rounds:?}");
        let after = ground.fingerprint(&["home", "outside"]);
        let changed: Vec<_> = after.iter().filter(|(path, text)| before.get(*path) != Some(text)).collect();
        assert!(after == before, "{kind:?}: {changed:?}");
    }
}
