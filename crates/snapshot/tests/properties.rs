//! Laws of undo over random sequences: n undos give each earlier state, n redos each later one (200 cases of up to 8
//! calls; `PROPTEST_CASES` for more). And what is kept stays small, nothing is written through links, and a session goes
//! on after its process is gone.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use becket_snapshot::{Action, Recorder, plan_redo, plan_undo};
use becket_types::{CallId, EntryKind};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use support::{Lab, tree};

/// One change to the workspace. Names come from a small pool, so that several changes concern the same path.
#[derive(Clone, Debug)]
enum Op {
    Write(u8, u8),
    Remove(u8),
    Dir(u8),
    Link(u8, u8),
    HardLink(u8, u8),
    Mode(u8, u32),
    Rename(u8, u8),
}

fn op() -> impl Strategy<Value = Op> {
    let name = 0u8..12;
    prop_oneof![
        4 => (name.clone(), any::<u8>()).prop_map(|(n, c)| Op::Write(n, c)),
        2 => name.clone().prop_map(Op::Remove),
        1 => name.clone().prop_map(Op::Dir),
        2 => (name.clone(), name.clone()).prop_map(|(a, b)| Op::Link(a, b)),
        1 => (name.clone(), name.clone()).prop_map(|(a, b)| Op::HardLink(a, b)),
        1 => (name.clone(), prop_oneof![Just(0o600), Just(0o644), Just(0o755)]).prop_map(|(n, m)| Op::Mode(n, m)),
        2 => (name.clone(), name).prop_map(|(a, b)| Op::Rename(a, b)),
    ]
}

fn name(n: u8) -> PathBuf {
    ["a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a", "f/g", "f/g/h"][usize::from(n) % 12].into()
}

/// Does what can be done; what cannot (a missing parent) changes nothing.
fn act(root: &Path, op: &Op) {
    let at = |n: &u8| root.join(name(*n));
    let _ = match op {
        Op::Write(n, c) => {
            // Never writes through a link, which may lead outside.
            if at(n).is_symlink() {
                let _ = fs::remove_file(at(n));
            }
            fs::write(at(n), vec![*c; usize::from(*c) * 3])
        }
        Op::Remove(n) => fs::remove_file(at(n)).or_else(|_| fs::remove_dir_all(at(n))),
        Op::Dir(n) => fs::create_dir(at(n)),
        Op::Link(a, b) => symlink(at(a), at(b)),
        Op::HardLink(a, b) => fs::hard_link(at(a), at(b)),
        Op::Mode(n, mode) => {
            if at(n).is_file() && !at(n).is_symlink() {
                fs::set_permissions(at(n), fs::Permissions::from_mode(*mode))
            } else {
                Ok(())
            }
        }
        Op::Rename(a, b) => fs::rename(at(a), at(b)),
    };
}

fn lab() -> (tempfile::TempDir, Lab) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (root, home) = (base.join("work"), base.join("home"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&home).unwrap();
    (dir, Lab::new(&root, &home))
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn undo_and_redo_walk_through_every_state(
        calls in prop::collection::vec(prop::collection::vec(op(), 1..6), 1..8),
        restart in any::<bool>(),
    ) {
        let (_dir, mut lab) = lab();
        let root = lab.root.clone();
        let mut states = vec![tree(&root)];
        for ops in &calls {
            let id = lab.begin("make");
            for op in ops {
                act(&root, op);
            }
            lab.end(&id);
            if tree(&root) != states[states.len() - 1] {
                states.push(tree(&root));
            }
            if restart {
                lab.restart();
            }
        }
        for state in states.iter().rev().skip(1) {
            let (plan, applied) = lab.undo(1, false);
            prop_assert!(applied.failed.is_empty(), "{:?}", applied.failed);
            prop_assert_eq!(&tree(&root), state, "{:#?}", plan.paths);
        }
        prop_assert!(lab.history().last_calls(1).is_empty());
        for state in states.iter().skip(1) {
            let (plan, applied) = lab.redo().unwrap();
            prop_assert!(applied.failed.is_empty(), "{:?}", applied.failed);
            prop_assert_eq!(&tree(&root), state, "{:#?}", plan.paths);
        }
        prop_assert!(lab.redo().is_none());
        if states.len() > 1 {
            lab.undo(states.len(), false);
            prop_assert_eq!(&tree(&root), &states[0]);
        }
    }

    /// Undos and redos of all calls are killed one after another, each after some of its changes. The undo or redo that
    /// follows counts as one step with them.
    #[test]
    fn an_interrupted_undo_or_redo_can_be_completed_and_taken_back(
        calls in prop::collection::vec(prop::collection::vec(op(), 1..8), 2..4),
        kills in prop::collection::vec((any::<bool>(), 0usize..16), 1..4),
        redo_first in any::<bool>(),
    ) {
        let (_dir, mut lab) = lab();
        let root = lab.root.clone();
        let before = tree(&root);
        for ops in &calls {
            let id = lab.begin("make");
            for op in ops {
                act(&root, op);
            }
            lab.end(&id);
        }
        let after = tree(&root);
        for (is_undo, steps) in kills {
            let history = lab.history();
            let plan = if is_undo {
                Some(plan_undo(&history, &history.last_calls(calls.len()), false, &*lab.blobs))
            } else {
                plan_redo(&history, false, &*lab.blobs)
            };
            if let Some(plan) = plan.filter(becket_snapshot::Plan::changes_anything) {
                lab.interrupt(plan, steps);
            }
        }
        for is_redo in [redo_first, !redo_first, redo_first, !redo_first] {
            if is_redo {
                if let Some((plan, applied)) = lab.redo() {
                    prop_assert!(applied.failed.is_empty(), "{:?}", applied.failed);
                    prop_assert_eq!(&tree(&root), &after, "{:#?}", plan.paths);
                }
                prop_assert_eq!(&tree(&root), &after);
            } else {
                let (plan, applied) = lab.undo(calls.len(), false);
                prop_assert!(applied.failed.is_empty(), "{:?}", applied.failed);
                prop_assert_eq!(&tree(&root), &before, "{:#?}", plan.paths);
            }
        }
    }

    #[test]
    fn nothing_outside_is_written_whatever_links_stand_inside(
        ops in prop::collection::vec(op(), 1..10),
        traps in prop::collection::vec((0u8..12, 0u8..3), 1..8),
    ) {
        let (_dir, mut lab) = lab();
        let root = lab.root.clone();
        let outside = root.parent().unwrap().join("outside");
        fs::create_dir_all(outside.join("e/g")).unwrap();
        for file in ["a", "b", "e/a", "g"] {
            let _ = fs::write(outside.join(file), format!("precious {file}"));
        }
        for op in &ops {
            act(&root, op);
        }
        let id = lab.begin("rm -rf a b c d f");
        for n in ["a", "b", "c", "d", "f"] {
            let _ = fs::remove_file(root.join(n)).or_else(|_| fs::remove_dir_all(root.join(n)));
        }
        lab.end(&id);
        // Somebody puts links and other obstacles where undo has to write.
        for (n, kind) in &traps {
            let at = root.join(name(*n));
            let _ = match kind {
                0 => symlink(&outside, &at),
                1 => fs::hard_link(outside.join("a"), &at),
                _ => symlink(outside.join("b"), &at),
            };
        }
        let before = tree(&outside);
        lab.undo(1, true);
        prop_assert_eq!(tree(&outside), before);
    }
}

#[test]
fn five_hundred_edits_of_a_large_file_keep_each_content_once() {
    let (_dir, mut lab) = lab();
    let mut unique = 0;
    fs::write(lab.root.join("big"), vec![b'0'; 1 << 20]).unwrap();
    for round in 0..500u32 {
        let mut bytes = vec![b'x'; 1 << 20];
        bytes[..4].copy_from_slice(&(round % 50).to_le_bytes());
        unique += if round < 50 { bytes.len() } else { 0 };
        lab.write(&["big"], |root| fs::write(root.join("big"), &bytes).unwrap());
    }
    let ledger: usize = lab.entries.iter().map(|entry| serde_json::to_string(entry).unwrap().len()).sum();
    let kept = lab.blobs.bytes() + ledger;
    assert!(kept <= (unique + (1 << 20)) * 3 / 2, "{kept} bytes for {unique}");
    lab.undo(500, false);
    assert_eq!(fs::read(lab.root.join("big")).unwrap(), vec![b'0'; 1 << 20]);
}

#[test]
fn a_process_that_dies_in_the_middle_of_a_command_loses_nothing() {
    let (_dir, mut lab) = lab();
    for file in ["a", "b"] {
        fs::write(lab.root.join(file), file).unwrap();
    }
    let before = tree(&lab.root);
    let _ = lab.begin("./build");
    fs::remove_file(lab.root.join("a")).unwrap();
    fs::write(lab.root.join("b"), "changed").unwrap();
    // Files are written until one has a later time of change than the record, as a file of a call has.
    while fs::write(lab.root.join("new"), "n").is_ok() && !is_later(&lab) {}
    lab.restart();
    let (plan, _) = lab.undo(1, false);
    assert_eq!(tree(&lab.root), before, "{:#?}", plan.paths);
}

/// Every kind of change, and a kill after each step of its undo and of its redo.
#[test]
fn an_undo_and_a_redo_may_die_after_any_step() {
    let make = "mkdir -m 700 locked turned; mkdir -m 755 d opened; echo 1 > d/a; echo 2 > file; echo 3 > turned/x; ln -s file link; \
                echo 4 > secret; chmod 755 locked turned; mkdir keep; echo 5 > keep/k";
    let work = "rm -r d turned; echo t > turned; rm link file; ln -s keep file; mkdir -p new/deep link; echo n > new/deep/n; \
                echo l > link/l; chmod 750 opened locked; echo s > opened/s; chmod 000 secret; echo kk > keep/k";
    for (is_undo, retried) in [(true, true), (true, false), (false, true), (false, false)] {
        for steps in 0.. {
            let (_dir, mut lab) = lab();
            let root = lab.root.clone();
            assert!(lab.shell(make).status.success());
            let before = tree(&root);
            assert!(lab.call(work).status.success());
            let after = tree(&root);
            if !is_undo {
                lab.undo(1, false);
            }
            let history = lab.history();
            let plan = if is_undo {
                plan_undo(&history, &history.last_calls(1), false, &*lab.blobs)
            } else {
                plan_redo(&history, false, &*lab.blobs).unwrap()
            };
            // Temporary files that a killed process leaves when it was about to replace `keep/k` and `file`.
            for left in [".k.becket-4194399-2", ".file.becket-4194399-3"] {
                let dir = if left.starts_with(".k") { root.join("keep") } else { root.clone() };
                fs::write(dir.join(left), "half").unwrap();
            }
            let goes_on = lab.interrupt(plan, steps);
            for is_undo in [is_undo == retried, is_undo != retried] {
                let applied = if is_undo {
                    Some(lab.undo(1, false).1)
                } else {
                    // There is nothing to redo if the undo was killed before its first change.
                    lab.redo().map(|(_, applied)| applied)
                };
                let failed = applied.map(|applied| applied.failed).unwrap_or_default();
                assert!(failed.is_empty(), "{steps}: {failed:?}");
                assert_eq!(tree(&root), if is_undo { before.clone() } else { after.clone() }, "{steps}");
            }
            if !goes_on {
                assert!(steps > 15, "{steps}");
                break;
            }
        }
    }
}

/// An undo of several calls is interrupted; then the last call alone is undone. The other calls are as they were before both undos.
#[test]
fn a_smaller_undo_takes_back_the_rest_of_an_interrupted_one() {
    let (_dir, mut lab) = lab();
    lab.call("echo 1 > a; echo 1 > b");
    let middle = tree(&lab.root);
    lab.call("echo 2 > c");
    let after = tree(&lab.root);
    let history = lab.history();
    let plan = plan_undo(&history, &history.last_calls(2), false, &*lab.blobs);
    assert!(lab.interrupt(plan, 2));
    lab.undo(1, false);
    assert_eq!(tree(&lab.root), middle);
    lab.redo().unwrap();
    assert_eq!(tree(&lab.root), after);
    assert!(lab.redo().is_none());
}

/// Small contents share one blob. Contents that an interrupted undo has restored are found there when a later undo needs them.
#[test]
fn what_an_interrupted_undo_restored_is_found_when_it_is_lost_again() {
    let (_dir, mut lab) = lab();
    for name in ["a", "b", "c"] {
        fs::write(lab.root.join(name), format!("content of {name}")).unwrap();
    }
    lab.call("for i in a b c; do echo 1 > $i; done");
    let history = lab.history();
    let plan = plan_undo(&history, &history.last_calls(1), false, &*lab.blobs);
    assert!(lab.interrupt(plan, 2));
    let before = tree(&lab.root);
    lab.call("rm a b c");
    let (plan, applied) = lab.undo(1, false);
    assert!(applied.failed.is_empty(), "{:?}", applied.failed);
    assert_eq!(tree(&lab.root), before, "{:#?}", plan.paths);
}

/// A path that a person changes after the crash is a conflict for the undo that goes on, and for the redo.
#[test]
fn what_a_person_changes_after_an_interrupted_undo_stays() {
    for is_redo in [false, true] {
        let (_dir, mut lab) = lab();
        fs::write(lab.root.join("a"), "0").unwrap();
        fs::write(lab.root.join("b"), "0").unwrap();
        lab.call("echo 1 > a; echo 1 > b");
        let history = lab.history();
        let plan = plan_undo(&history, &history.last_calls(1), false, &*lab.blobs);
        assert!(lab.interrupt(plan, 1));
        fs::write(lab.root.join("a"), "person").unwrap();
        let plan = if is_redo { lab.redo().unwrap().0 } else { lab.undo(1, false).0 };
        assert!(matches!(plan.paths[0].action, Action::Conflict(_)), "{:?}", plan.paths);
        assert_eq!(fs::read_to_string(lab.root.join("a")).unwrap(), "person");
        assert_eq!(fs::read_to_string(lab.root.join("b")).unwrap(), if is_redo { "1\n" } else { "0" });
    }
}

fn is_later(lab: &Lab) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let meta = fs::metadata(lab.root.join("new")).unwrap();
    let millis = meta.ctime() as u64 * 1000 + meta.ctime_nsec() as u64 / 1_000_000;
    millis > lab.entries.last().unwrap().time.0
}

#[test]
fn a_persons_change_between_two_calls_is_a_conflict() {
    let (_dir, mut lab) = lab();
    let file = lab.root.join("a");
    fs::write(&file, "0").unwrap();
    lab.call("echo 1 > a");
    fs::write(&file, "person").unwrap();
    lab.call("echo 22 > a");
    let (plan, _) = lab.undo(2, false);
    assert!(matches!(plan.paths[0].action, Action::Conflict(_)), "{:?}", plan.paths);
    assert_eq!(fs::read_to_string(&file).unwrap(), "22\n");
    lab.undo(1, false);
    assert_eq!(fs::read_to_string(&file).unwrap(), "person");
}

/// A directory stays with the file in it that a person has changed. The undo that is forced afterwards deletes both.
#[test]
fn a_conflict_in_a_new_directory_can_be_forced_after_the_rest_was_undone() {
    let (_dir, mut lab) = lab();
    let before = tree(&lab.root);
    lab.call("mkdir new; echo 1 > new/a; echo 1 > b");
    fs::write(lab.root.join("new/a"), "person").unwrap();
    let (plan, applied) = lab.undo(1, false);
    let conflicts: Vec<_> =
        plan.paths.iter().filter(|path| matches!(path.action, Action::Conflict(_))).collect();
    assert_eq!(conflicts.len(), 2, "{:?}", plan.paths);
    assert!(applied.failed.is_empty(), "{:?}", applied.failed);
    assert_eq!(fs::read_to_string(lab.root.join("new/a")).unwrap(), "person");
    assert!(!lab.root.join("b").exists());
    let (plan, applied) = lab.undo(1, true);
    assert!(applied.failed.is_empty(), "{:?}", applied.failed);
    assert_eq!(tree(&lab.root), before, "{:?}", plan.paths);
    assert_eq!(lab.history().undoable().count(), 0);
    lab.redo().unwrap();
    assert_eq!(fs::read_to_string(lab.root.join("new/a")).unwrap(), "person", "its content was kept first");
    lab.redo().unwrap();
    assert!(lab.root.join("b").exists());
    assert!(lab.redo().is_none());
}

#[test]
fn files_too_large_are_named_and_home_is_never_walked() {
    let (_dir, mut lab) = lab();
    fs::write(lab.root.join("huge"), vec![0; 10_000_001]).unwrap();
    lab.call("rm huge");
    let (plan, _) = lab.undo(1, false);
    assert!(matches!(plan.paths[0].action, Action::Lost(_)), "{:?}", plan.paths);
    let named = lab.entries.iter().any(|entry| match &entry.kind {
        EntryKind::FileSnapshot(snapshot) => snapshot.skipped.iter().any(|s| s.path.0.ends_with("huge")),
        _ => false,
    });
    assert!(named);

    let settings = becket_snapshot::Settings {
        roots: vec![lab.root.clone(), "/".into()],
        home: Some(lab.root.join("below")),
        ..becket_snapshot::Settings::default()
    };
    fs::write(lab.root.join("mine"), "x").unwrap();
    let mut wide = Recorder::new(settings, lab.blobs.clone(), &becket_snapshot::History::default());
    let before = wide.before_command(&CallId("c".into()), becket_snapshot::Risk::default());
    assert!(before.snapshot.files.is_empty() && before.snapshot.manifest.is_none());
}

#[test]
fn a_hard_link_made_by_a_call_goes_and_the_other_name_gets_its_bytes_back() {
    let (_dir, mut lab) = lab();
    fs::write(lab.root.join("f"), "before").unwrap();
    let before = tree(&lab.root);
    let id = lab.begin("make");
    fs::hard_link(lab.root.join("f"), lab.root.join("b")).unwrap();
    fs::write(lab.root.join("b"), "through the link").unwrap();
    lab.end(&id);
    let (plan, applied) = lab.undo(1, false);
    assert!(applied.failed.is_empty(), "{:?}", applied.failed);
    assert_eq!(tree(&lab.root), before, "{:#?}", plan.paths);
}
