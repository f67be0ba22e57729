//! Names of files and folders that are not UTF-8, or that hold a line break or an escape: tools, undo, every output format,
//! continued sessions and the terminal work with them.

use crate::support::{Bench, Ran, run};
use crate::terminal::Terminal;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAMES: [&[u8]; 4] = [b"caf\xe9.txt", b"a\nb.txt", b"esc\x1b[31m.txt", b"\xff\xfe"];
const FORMATS: [&[&str]; 5] = [
    &[],
    &["--output-format", "json"],
    &["--output-format", "json", "--verbose"],
    &["--output-format", "stream-json", "--verbose"],
    &["--input-format", "text", "--output-format", "stream-json", "--verbose", "--include-partial-messages"],
];

fn script(bench: &Bench, commands: &[&str]) -> String {
    let calls: Vec<Value> =
        commands.iter().map(|c| json!({ "name": "bash", "input": { "command": c } })).collect();
    let steps = json!([
        { "text": "Now.", "calls": calls },
        { "text": "Look.", "calls": [{ "name": "glob", "input": { "pattern": "**" } },
                                     { "name": "grep", "input": { "pattern": "old" } },
                                     { "name": "read", "input": { "path": "." } }] },
        { "text": "Done." },
    ]);
    let path = bench.home.root().join("script.json");
    std::fs::write(&path, serde_json::to_vec(&json!({ "steps": steps })).unwrap()).unwrap();
    format!("script:{}", path.display())
}

fn printed(bench: &Bench, model: &str, cwd: &Path, more: &[&str]) -> Command {
    let mut command = bench.command();
    command.current_dir(cwd).args(["-p", "--model", model, "--permission-mode", "bypassPermissions"]);
    command.args(more);
    command
}

fn fill(folder: &Path) -> Vec<PathBuf> {
    let paths: Vec<PathBuf> = NAMES.iter().map(|name| folder.join(OsStr::from_bytes(name))).collect();
    for path in &paths {
        std::fs::write(path, "old\n").unwrap();
    }
    paths
}

fn has_result(ran: &Ran, more: &[&str]) {
    match more.contains(&"json") {
        false if more.is_empty() => assert!(ran.stdout.contains("Done."), "{ran:?}"),
        false => assert_eq!(ran.result()["result"], "Done.", "{ran:?}"),
        true => assert!(ran.stdout.contains("\"result\":\"Done.\""), "{ran:?}"),
    }
}

#[test]
fn commands_make_change_and_delete_files_of_any_name() {
    let folder = OsStr::from_bytes(b"dir\xe9 x");
    for (number, more) in FORMATS.iter().enumerate() {
        // Every second run works in a folder whose own name is not UTF-8.
        let bench = Bench::new(&[]);
        let cwd = if number % 2 == 0 {
            bench.project.root().to_owned()
        } else {
            bench.project.path("").join(folder)
        };
        std::fs::create_dir_all(&cwd).unwrap();
        let names = fill(&cwd);
        let model = script(
            &bench,
            &[
                "rm -- caf*",
                "for f in *; do printf 'more\\n' >> \"$f\"; done",
                "touch \"$(printf 'new\\351.txt')\"",
            ],
        );
        let ran = run(printed(&bench, &model, &cwd, more).arg("go")).expect(0);
        has_result(&ran, more);
        assert!(!names[0].exists() && cwd.join(OsStr::from_bytes(b"new\xe9.txt")).exists(), "{more:?}");
        assert_eq!(std::fs::read_to_string(&names[1]).unwrap(), "old\nmore\n");
        let again = run(printed(&bench, &model, &cwd, more).args(["-c", "again"]));
        has_result(&again.expect(0), more);
        for what in [&["sessions", "--json"][..], &["undo", "--dry-run", "--json"], &["context", "--json"]] {
            let shown = run(bench.command().current_dir(&cwd).args(what)).expect(0).stdout;
            shown
                .lines()
                .for_each(|line| assert!(serde_json::from_str::<Value>(line).is_ok(), "{what:?}: {shown}"));
        }
        run(bench.command().current_dir(&cwd).args(["undo", "--yes"])).expect(0);
        run(bench.command().current_dir(&cwd).args(["undo", "--yes"])).expect(0);
        for path in &names {
            assert_eq!(std::fs::read_to_string(path).unwrap(), "old\n", "{more:?} {}", path.display());
        }
        assert!(!cwd.join(OsStr::from_bytes(b"new\xe9.txt")).exists(), "{more:?}");
    }
}

#[test]
fn exec_and_added_folders_take_any_name() {
    let bench = Bench::new(&[]);
    let other = bench.home.root().join(OsStr::from_bytes(b"sub\xe9"));
    std::fs::create_dir(&other).unwrap();
    fill(bench.project.root());
    let model = script(&bench, &["rm -- caf*"]);
    let mut command = bench.command();
    command.args(["exec", "--json", "--skip-git-repo-check", "--model", &model]);
    command.args(["--sandbox", "danger-full-access", "go"]);
    let ran = run(&mut command).expect(0);
    assert!(ran.stdout.contains("turn.completed"), "{ran:?}");
    let mut command = printed(&bench, &model, bench.project.root(), &["--add-dir"]);
    run(command.arg(&other).args(["--", "go"])).expect(0);
    let mut command = bench.command();
    command.arg("-C").arg(&other).args(["-p", "--model", &model, "go"]);
    run(&mut command);
    let missing = printed(&bench, &model, bench.project.root(), &["--add-dir"])
        .arg(OsStr::from_bytes(b"no\xe9"))
        .args(["--", "go"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_command_file_that_is_no_text_is_refused_and_not_sent() {
    let bench = Bench::new(&[]);
    std::fs::create_dir_all(bench.project.path(".claude/commands")).unwrap();
    std::fs::write(bench.project.path(".claude/commands/bad.md"), b"caf\xe9").unwrap();
    let model = script(&bench, &[]);
    let ran = run(printed(&bench, &model, bench.project.root(), &[]).arg("/bad x")).expect(2);
    assert!(ran.stderr.contains("bad.md") && ran.stderr.contains("not UTF-8"), "{ran:?}");
}

#[test]
fn the_terminal_works_in_a_folder_of_any_name() {
    let bench = Bench::new(&[]);
    let cwd = bench.project.path("").join(OsStr::from_bytes(b"dir\xe9 x"));
    std::fs::create_dir_all(&cwd).unwrap();
    fill(&cwd);
    let model = script(&bench, &["rm -- caf*"]);
    let mut command = bench.command();
    command.current_dir(&cwd).env("TERM", "xterm-256color");
    command.args(["--model", &model, "--permission-mode", "bypassPermissions", "do it now"]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Done.");
    terminal.signal(Signal::TERM);
    terminal.is_given_back();
    assert!(!cwd.join(OsStr::from_bytes(b"caf\xe9.txt")).exists());
}
