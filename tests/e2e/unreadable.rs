//! A file that cannot be read is reported with its path, in every command. It must never look as if it were gone.

use crate::support::{Bench, run};
use serde_json::json;
use std::os::unix::fs::symlink;
use std::path::Path;

const ID: &str = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b";

/// Replaces a path by a link to itself, which nobody can open, not even root.
fn make_unreadable(path: &Path) {
    if path.is_dir() {
        std::fs::rename(path, path.with_extension("aside")).unwrap();
    } else {
        let _ = std::fs::remove_file(path);
    }
    symlink(path, path).unwrap();
}

/// A bench with one session.
fn with_session() -> (Bench, String) {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let model = script(&bench);
    run(bench.command().args(["-p", "--model", &model, "the only task"])).expect(0);
    (bench, model)
}

fn script(bench: &Bench) -> String {
    let path = bench.home.root().join("script.json");
    let steps = json!({ "loop": true, "steps": [{ "text": "Done." }] });
    std::fs::write(&path, steps.to_string()).unwrap();
    format!("script:{}", path.display())
}

#[test]
fn sessions_that_cannot_be_read_are_an_error_in_every_command() {
    let (bench, model) = with_session();
    let sessions = bench.home.path(".local/share/becket/sessions");
    make_unreadable(&sessions);
    let commands: &[&[&str]] = &[
        &["sessions"],
        &["sessions", "--all"],
        &["sessions", "task"],
        &["sessions", "stats"],
        &["sessions", "tree"],
        &["sessions", "rename", ID, "x"],
        &["sessions", "rm", ID],
        &["export"],
        &["undo"],
        &["redo"],
        &["rewind"],
        &["cost"],
        &["cost", "--since", "7d"],
        &["context"],
        &["compact", "--preview"],
        &["audit"],
        &["doctor", "--repair"],
        &["-p", "--model", &model, "--continue", "go on"],
        &["-p", "--model", &model, "--resume", ID, "go on"],
        &["exec", "--skip-git-repo-check", "resume", "--last", "--model", &model, "go on"],
    ];
    for words in commands {
        let ran = run(bench.command().args(*words));
        assert_ne!(ran.code, 0, "{words:?}: {ran:?}");
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(told.contains(&*sessions.to_string_lossy()), "{words:?}: {told}");
        for gone in ["no session", "No session", "0 sessions"] {
            assert!(!told.contains(gone), "{words:?}: {told}");
        }
    }
    let doctor = run(bench.command().arg("doctor")).stdout;
    assert!(!doctor.contains("0 sessions") && doctor.contains(&*sessions.to_string_lossy()), "{doctor}");
}

#[test]
fn a_ledger_that_cannot_be_read_is_named_and_the_others_are_listed() {
    let (bench, model) = with_session();
    run(bench.command().args(["-p", "--model", &model, "the second task"])).expect(0);
    let ledgers = bench.ledgers();
    let id = ledgers[1].parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    make_unreadable(&ledgers[1]);
    let path = ledgers[1].to_string_lossy().into_owned();
    for words in [&["sessions"][..], &["sessions", "task"]] {
        let listed = run(bench.command().args(words)).expect(0);
        assert!(listed.stdout.contains("the only task"), "{words:?}: {listed:?}");
        assert!(listed.stderr.contains(&path), "{words:?}: {listed:?}");
    }
    for words in [
        &["export", &id][..],
        &["undo", &id],
        &["context", &id],
        &["-p", "--model", &model, "--resume", &id, "x"],
    ] {
        let ran = run(bench.command().args(words));
        assert!(ran.code != 0 && ran.stderr.contains(&path), "{words:?}: {ran:?}");
    }
}

/// A file that only allows things is not used if it cannot be read, and a note says so.
#[test]
fn own_files_that_cannot_be_read_are_named() {
    let (bench, model) = with_session();
    for file in [
        ".local/share/becket/trusted-directories",
        ".local/share/becket/trusted-content.jsonl",
        ".local/share/becket/mcp-approved.json",
        ".config/becket/commands",
        ".config/becket/agents",
        ".config/becket/AGENTS.md",
    ] {
        let path = bench.home.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        make_unreadable(&path);
        let ran = run(bench.command().args(["-p", "--model", &model, "hi"]));
        let path = path.to_string_lossy().into_owned();
        assert!(ran.stderr.contains(&path) && ran.stderr.contains("cannot be read"), "{file}: {ran:?}");
        std::fs::remove_file(&path).unwrap();
    }
    // A decision is not written over a file that could not be read.
    bench.project.write(".mcp.json", json!({ "mcpServers": { "x": { "command": "true" } } }).to_string());
    let approved = bench.home.path(".local/share/becket/mcp-approved.json");
    make_unreadable(&approved);
    let ran = run(bench.command().args(["mcp", "approve", "x"]));
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(std::fs::symlink_metadata(&approved).unwrap().is_symlink());
}
