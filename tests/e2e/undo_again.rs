//! Undo where something came between: a kill in the middle, a turn with nothing left, and files that somebody else wrote.

use crate::machines::behind;
use crate::support::{Bench, Running, run};
use crate::undo::{bash, becket, play, tree};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Starts a session whose model makes these steps. Each has a script of its own, so that sessions can run side by side.
fn session(bench: &Bench, name: &str, steps: &Value) -> Command {
    let path = bench.home.root().join(format!("{name}.json"));
    fs::write(&path, serde_json::to_vec(&json!({ "steps": steps })).unwrap()).unwrap();
    let mut command = bench.command();
    let model = format!("script:{}", path.display());
    command.args(["-p", "--permission-mode", "bypassPermissions", "--model", &model, name]);
    command
}

fn writing(path: &str, content: &str) -> Value {
    let call = json!({ "name": "write", "input": { "path": path, "content": content } });
    json!([{ "text": "Now.", "calls": [call] }, { "text": "Done." }])
}

fn wait_until(what: impl Fn() -> bool) {
    while !what() {
        std::hint::spin_loop();
    }
}

#[test]
fn a_turn_with_nothing_left_to_take_back_hides_no_earlier_one() {
    let bench = Bench::new(&[("a.txt", "one\n"), ("b.txt", "one\n")]);
    play(&bench, &bash(&["echo two > a.txt"]), "first", &[]);
    play(&bench, &bash(&["echo two > b.txt"]), "second", &["--continue"]);
    bench.project.write("b.txt", "one\n");
    let shown = becket(&bench, &["undo", "--yes"], 0);
    assert!(shown.contains("of the turn \"first\"") && shown.contains("1 newer turn"), "{shown}");
    assert_eq!(bench.project.read("a.txt"), "one\n");
    let shown = becket(&bench, &["undo", "--yes"], 0);
    assert!(shown.contains("Nothing to undo"), "{shown}");
    // A content that was never saved is named, and the turn before it is undone.
    let bench = Bench::new(&[("a.txt", "one\n"), ("large.bin", &"x".repeat(11 << 20))]);
    play(&bench, &bash(&["echo two > a.txt"]), "first", &[]);
    play(&bench, &bash(&["rm large.bin"]), "second", &["--continue"]);
    let shown = becket(&bench, &["undo", "--yes"], 1);
    assert!(shown.contains("lost") && shown.contains("large.bin"), "{shown}");
    assert_eq!(bench.project.read("a.txt"), "one\n", "{shown}");
}

#[test]
fn a_redo_lists_no_conflict_of_the_undo_as_not_saved() {
    let bench = Bench::new(&[("a.txt", "one\n"), ("b.txt", "one\n")]);
    play(&bench, &bash(&["echo two > a.txt; echo two > b.txt"]), "work", &[]);
    bench.project.write("b.txt", "mine\n");
    assert!(becket(&bench, &["undo", "--yes"], 1).contains("changed since"));
    let shown = becket(&bench, &["redo", "--yes"], 0);
    assert!(!shown.contains("was not saved") && shown.contains("a.txt"), "{shown}");
    assert_eq!((bench.project.read("a.txt"), bench.project.read("b.txt")), ("two\n".into(), "mine\n".into()));
}

/// `kill -9` as soon as the first path has changed. The same rewind again ends like one that was not interrupted.
#[test]
fn a_killed_rewind_ends_as_one_that_was_not() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    play(&bench, &bash(&["echo zero > first.txt"]), "first", &[]);
    let before = tree(bench.project.root());
    let work = "mkdir n; for i in $(seq 300); do echo $i > n/$i; done; echo two > a.txt";
    play(&bench, &bash(&[work]), "second", &["--continue"]);
    let ledgers = bench.ledgers();
    let id = ledgers[0].parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let words = ["rewind", id.as_str(), "2", "--both", "--yes"];
    let mut running = Running::start(bench.command().args(words));
    while bench.project.path("n/99").exists() && running.child.try_wait().unwrap().is_none() {
        std::hint::spin_loop();
    }
    running.child.kill().unwrap();
    running.wait();
    let left = fs::read_dir(bench.project.path("n")).map_or(0, Iterator::count);
    let shown = becket(&bench, &words, 0);
    assert_eq!(tree(bench.project.root()), before, "{shown}");
    assert!(shown.contains("The conversation goes back to before"), "{shown}");
    assert!(
        left == 0 || shown.contains("was interrupted. This one counts as one step with it."),
        "{left}: {shown}"
    );
    assert!(shown.contains("The conversation went back to before"), "{shown}");
    becket(&bench, &["redo", "--yes"], 0);
    assert_eq!(bench.project.read("a.txt"), "two\n");
    assert_eq!(fs::read_dir(bench.project.path("n")).unwrap().count(), 300);
}

#[test]
fn what_another_session_wrote_while_a_command_ran_is_a_conflict() {
    let bench = Bench::new(&[("own.txt", "one\n"), ("shared.txt", "one\n")]);
    let waits =
        "echo two > own.txt; touch started; while [ ! -e go ]; do sleep 0.02; done; rm go started; sleep 2";
    let first = Running::start(&mut session(&bench, "first", &bash(&[waits])));
    wait_until(|| bench.project.path("started").exists());
    run(&mut session(&bench, "second", &writing("made.txt", "by the second\n"))).expect(0);
    bench.project.write("person.txt", "by a person\n");
    bench.project.write("go", "");
    assert_eq!(first.wait().code, 0);
    let id = |name: &str| {
        let ledger = bench
            .ledgers()
            .into_iter()
            .find(|ledger| fs::read_to_string(ledger).unwrap().contains(&format!("\"text\":\"{name}\"")));
        ledger.unwrap().parent().unwrap().file_name().unwrap().to_string_lossy().into_owned()
    };
    let (first, second) = (id("first"), id("second"));
    let shown = becket(&bench, &["undo", &first, "--yes"], 1);
    let line = shown.lines().find(|line| line.contains("made.txt")).unwrap_or_default();
    assert!(
        line.contains("conflict") && line.contains(&format!("another session ({second}) wrote it")),
        "{shown}"
    );
    assert_eq!(bench.project.read("made.txt"), "by the second\n");
    assert_eq!(bench.project.read("own.txt"), "one\n");
    // Of a person nothing is recorded; the plan says what it cannot know.
    assert!(shown.contains("becket cannot tell who wrote a file"), "{shown}");
    // The call that names its file is the one whose change it is.
    becket(&bench, &["undo", &second, "--yes"], 0);
    assert!(!bench.project.exists("made.txt"));
}

/// The temporary names in a folder.
fn temporary(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.to_string_lossy().contains(".becket-")).collect()
}

/// Killed when the new file is complete, and its folders would be made: nothing new is there but a temporary file, which the next
/// write in the folder removes.
#[test]
fn a_killed_write_leaves_no_folder_and_its_temporary_file_goes() {
    let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=mkdirat:error=EIO:signal=SIGKILL"]
        .map(OsStr::new);
    if Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status().is_ok_and(|ran| ran.success())
    {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let root = bench.project.root().to_path_buf();
        let write = session(&bench, "large", &writing("new/deep/large.txt", "line\n"));
        run(&mut behind(&strace, &write));
        let left = temporary(&root);
        let [left] = left.as_slice() else { panic!("{left:?}") };
        assert!(left.file_name().unwrap().to_string_lossy().starts_with(".large.txt.becket-"), "{left:?}");
        assert!(!bench.project.exists("new"));
        let old = SystemTime::now() - Duration::from_mins(1);
        File::options().write(true).open(left).unwrap().set_modified(old).unwrap();
        run(&mut session(&bench, "small", &writing("small.txt", "x\n"))).expect(0);
        assert_eq!(temporary(&root), Vec::<PathBuf>::new());
    } else {
        println!("skipped: strace does not work here");
    }
}

/// A rewind makes a branch. Going back to a message of the other branch changes between them.
#[test]
fn a_message_of_another_branch_is_marked_and_its_return_announced() {
    let bench = Bench::new(&[]);
    let answer = json!([{ "text": "An answer." }]);
    play(&bench, &answer, "first", &[]);
    play(&bench, &answer, "second", &["-c"]);
    play(&bench, &answer, "third", &["-c"]);
    let unmarked = becket(&bench, &["rewind"], 0);
    assert!(!unmarked.contains("(taken out)"), "{unmarked}");
    let id = bench.ledgers()[0].parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let plain = becket(&bench, &["rewind", &id, "2", "--conversation", "--yes"], 0);
    assert!(plain.contains("4 entries are no longer part of it."), "{plain}");
    play(&bench, &answer, "fourth", &["-c"]);
    let listed = becket(&bench, &["rewind", &id], 0);
    for (text, is_out) in [("first", false), ("second", true), ("third", true), ("fourth", false)] {
        let line = listed.lines().find(|line| line.ends_with(text)).unwrap();
        assert_eq!(line.contains("(taken out)"), is_out, "{listed}");
    }
    let rows: Vec<Value> = serde_json::from_str(&becket(&bench, &["rewind", &id, "--json"], 0)).unwrap();
    assert_eq!(rows.iter().map(|row| &row["taken_out"]).collect::<Vec<_>>(), [false, true, true, false]);
    let planned = becket(&bench, &["rewind", &id, "3", "--conversation", "--dry-run"], 0);
    let words =
        "2 entries are no longer part of it, and 2 entries that an earlier change took out of it come back.";
    assert!(planned.contains(words), "{planned}");
    becket(&bench, &["rewind", &id, "3", "--conversation", "--yes"], 0);
    let marks: Vec<bool> = becket(&bench, &["rewind", &id], 0)
        .lines()
        .filter(|line| line.starts_with("  "))
        .map(|line| line.contains("(taken out)"))
        .collect();
    assert_eq!(marks, [false, false, true, true]);
}
