//! Files that their owner may not read any more are undone like others. Root reads every file, so as root the test runs once
//! more as another user.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use becket_snapshot::Action;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use support::{Lab, tree};

/// The user and group `nobody`.
const NOBODY: u32 = 65_534;

fn undone_and_redone(command: &str) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (root, home) = (base.join("work"), base.join("home"));
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&home).unwrap();
    for (name, text) in [("a", "first\n"), ("b", "second\n")] {
        std::fs::write(root.join(name), text).unwrap();
    }
    std::fs::hard_link(root.join("b"), root.join("also")).unwrap();
    let before = tree(&root);
    let mut lab = Lab::new(&root, &home);
    lab.call(command);
    let modes = || {
        let entries = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap());
        let mut all: Vec<_> = entries
            .map(|entry| (entry.file_name(), entry.path().symlink_metadata().unwrap()))
            .map(|(name, meta)| (name, meta.permissions().mode(), meta.len()))
            .collect();
        all.sort();
        all
    };
    let changed = modes();
    let (plan, applied) = lab.undo(1, false);
    assert!(applied.failed.is_empty(), "{command}: {:?}", applied.failed);
    let left: Vec<_> = plan.paths.iter().filter(|path| matches!(path.action, Action::Conflict(_))).collect();
    assert!(left.is_empty(), "{command}: {left:?}");
    assert!(plan.changes_anything(), "{command}");
    assert_eq!(tree(&root), before, "{command}");
    let (_, applied) = lab.redo().unwrap();
    assert!(applied.failed.is_empty(), "{command}: {:?}", applied.failed);
    assert_eq!(modes(), changed, "{command}");
}

#[test]
fn files_that_their_owner_may_not_read_are_undone_and_redone() {
    for command in [
        "chmod 000 a",
        "chmod 200 a",
        "chmod a-r a b",
        "chmod 000 a b also",
        "echo other > a; chmod 000 a",
        "echo other > b; chmod 0 also; rm a",
        "rm a; echo other > a; chmod 000 a",
        "chmod 000 a; mv a c",
        "echo x > new; chmod 000 new",
        "chmod 000 a; ln a d",
    ] {
        undone_and_redone(command);
    }
    if rustix::process::geteuid().is_root() {
        as_another_user();
    }
}

/// Runs the test above as `nobody`, who may not look into the folder that this program was built in.
fn as_another_user() {
    let dir = tempfile::tempdir().unwrap();
    let again = dir.path().join("again");
    std::fs::copy(std::env::current_exe().unwrap(), &again).unwrap();
    for path in [dir.path(), &again] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let output = Command::new(&again)
        .args(["--exact", "files_that_their_owner_may_not_read_are_undone_and_redone"])
        .env("TMPDIR", dir.path())
        .env("HOME", dir.path())
        .current_dir(dir.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
