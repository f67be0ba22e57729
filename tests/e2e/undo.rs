//! Undo through the binary: a scripted model edits and destroys, and everything comes back.

use crate::support::{Api, Bench, Running, ask, request, run, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every file, link and directory but git's own, with bytes, target and mode.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut out = BTreeMap::new();
    let mut dirs = vec![root.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            let (path, meta) = (entry.path(), entry.metadata().unwrap());
            if path.file_name().is_some_and(|n| n == ".git") {
                continue;
            }
            let mode = meta.permissions().mode();
            let what = if meta.is_symlink() {
                format!("link {}", std::fs::read_link(&path).unwrap().display())
            } else if meta.is_dir() {
                dirs.push(path.clone());
                format!("dir {mode:o}")
            } else {
                format!("file {mode:o} {:?}", std::fs::read(&path).unwrap())
            };
            out.insert(path, what);
        }
    }
    out
}

pub(crate) fn script(bench: &Bench, steps: &Value) -> PathBuf {
    let path = bench.home.root().join("script.json");
    std::fs::write(&path, serde_json::to_vec(&json!({ "steps": steps })).unwrap()).unwrap();
    path
}

pub(crate) fn bash(commands: &[&str]) -> Value {
    let calls: Vec<Value> =
        commands.iter().map(|c| json!({ "name": "bash", "input": { "command": c } })).collect();
    json!([{ "text": "Now.", "calls": calls }, { "text": "Done." }])
}

pub(crate) fn play(bench: &Bench, steps: &Value, prompt: &str, more: &[&str]) {
    let script = script(bench, steps);
    let model = format!("script:{}", script.display());
    let mut command = bench.command();
    command.args(["-p", "--model", &model]);
    if !more.contains(&"--permission-mode") {
        command.args(["--permission-mode", "bypassPermissions"]);
    }
    command.args(more).arg(prompt);
    run(&mut command).expect(0);
}

pub(crate) fn becket(bench: &Bench, args: &[&str], code: i32) -> String {
    run(bench.command().args(args)).expect(code).stdout
}

fn git(bench: &Bench, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args).current_dir(bench.project.root());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// A repository with everything that a working tree can have.
fn dirty() -> Bench {
    let bench = Bench::new(&[
        ("kept.txt", "tracked, unchanged\n"),
        ("changed.txt", "before\n"),
        ("src/a.rs", "fn a() {}\n"),
        (".gitignore", "ignored/\n.env\n"),
    ]);
    git(&bench, &["init", "-q"]);
    git(&bench, &["add", "."]);
    git(&bench, &["commit", "-qm", "one"]);
    for (name, text) in [
        ("changed.txt", "after\n"),
        ("new.txt", "untracked\n"),
        (".env", "SECRET=1\n"),
        ("ignored/x.bin", "\0\u{1}bin"),
    ] {
        bench.project.write(name, text);
    }
    std::os::unix::fs::symlink("kept.txt", bench.project.path("link")).unwrap();
    std::fs::create_dir(bench.project.path("empty")).unwrap();
    bench
}

#[test]
fn an_edit_is_undone_and_redone_in_other_processes() {
    let bench = Bench::new(&[("a.txt", "one\ntwo\n")]);
    let steps = json!([
        { "text": "Read.", "calls": [{ "name": "read", "input": { "path": "a.txt" } }] },
        { "text": "Edit.", "calls": [
            { "name": "edit", "input": { "path": "a.txt", "old": "two", "new": "2" } },
            { "name": "write", "input": { "path": "deep/er/b.txt", "content": "new\n" } },
        ] },
        { "text": "Done." },
    ]);
    let before = tree(bench.project.root());
    play(&bench, &steps, "edit", &[]);
    let after = tree(bench.project.root());
    assert_eq!(bench.project.read("a.txt"), "one\n2\n");
    let shown = becket(&bench, &["undo", "--dry-run"], 0);
    assert!(shown.contains("restore") && shown.contains("a.txt +1 -1"), "{shown}");
    assert!(shown.starts_with("Would be undone: "), "{shown}");
    assert_eq!(tree(bench.project.root()), after, "a dry run changes nothing");
    let refused = run(bench.command().arg("undo")).expect(2);
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    assert!(refused.stdout.starts_with("Would be undone: "), "{}", refused.stdout);
    let done = becket(&bench, &["undo", "--yes"], 0);
    assert!(done.starts_with("Undone: "), "{done}");
    assert_eq!(tree(bench.project.root()), before);
    assert!(becket(&bench, &["undo", "--yes"], 0).contains("Nothing to undo"));
    becket(&bench, &["redo", "--yes"], 0);
    assert_eq!(tree(bench.project.root()), after);
    becket(&bench, &["undo", "--yes", "--calls", "1"], 0);
    assert_eq!(bench.project.read("a.txt"), "one\n2\n");
    assert!(!bench.project.path("deep").exists());
}

/// A name with a line end looks like no second line of the plan.
#[test]
fn a_plan_has_one_line_for_each_path() {
    let bench = Bench::new(&[("important.txt", "kept\n")]);
    play(&bench, &bash(&["printf x > $'a\\n  delete   important.txt'"]), "work", &[]);
    let shown = becket(&bench, &["undo", "--dry-run"], 0);
    let lines: Vec<&str> = shown.lines().filter(|line| line.trim_start().starts_with("delete ")).collect();
    assert_eq!(lines.len(), 1, "{shown}");
    assert!(lines[0].contains("a\\n  delete   important.txt"), "{shown}");
}

/// `kill -9` as soon as the first path has changed. The next undo or redo counts as one step with the killed one, wherever
/// the kill has met it.
#[test]
fn a_killed_undo_or_redo_is_completed_or_taken_back() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let before = tree(bench.project.root());
    let work = "mkdir n; for i in $(seq 300); do echo $i > n/$i; done; echo two > a.txt";
    play(&bench, &bash(&[work]), "work", &[]);
    let after = tree(bench.project.root());
    let killed = |action: &str, from: &BTreeMap<PathBuf, String>| {
        // Files are deleted from the last one on, and written from the first one on.
        let (first, was_there) = if action == "redo" { ("n", false) } else { ("n/99", true) };
        let mut running = Running::start(bench.command().args([action, "--yes"]));
        while bench.project.path(first).exists() == was_there && running.child.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        running.child.kill().unwrap();
        running.wait();
        assert_ne!(&tree(bench.project.root()), from, "{action} had begun");
    };
    for next in ["redo", "undo"] {
        killed("undo", &after);
        becket(&bench, &[next, "--yes"], 0);
        assert_eq!(&tree(bench.project.root()), if next == "redo" { &after } else { &before }, "{next}");
    }
    becket(&bench, &["redo", "--yes"], 0);
    assert_eq!(tree(bench.project.root()), after, "what the killed undo did comes back too");
    for next in ["undo", "redo"] {
        becket(&bench, &["undo", "--yes"], 0);
        assert_eq!(tree(bench.project.root()), before);
        killed("redo", &before);
        becket(&bench, &[next, "--yes"], 0);
        assert_eq!(&tree(bench.project.root()), if next == "redo" { &after } else { &before }, "{next}");
    }
}

#[test]
fn what_commands_destroy_comes_back() {
    let bench = dirty();
    let (before, status) = (tree(bench.project.root()), git(&bench, &["status", "--porcelain"]));
    let commands = [
        "ls",
        "rm -rf src new.txt link empty .env",
        "git reset -q --hard && git clean -fdxq",
        "echo over > kept.txt; chmod 755 kept.txt",
        "rm -rf .git",
    ];
    play(&bench, &bash(&commands), "destroy", &[]);
    assert!(!bench.project.path(".git").exists());
    let shown = becket(&bench, &["undo", "--yes"], 0);
    assert_eq!(tree(bench.project.root()), before, "{shown}");
    assert_eq!(git(&bench, &["status", "--porcelain"]), status);
}

#[test]
fn what_a_person_changed_since_is_left_alone_unless_forced() {
    let bench = dirty();
    play(&bench, &bash(&["echo model > new.txt; rm changed.txt"]), "go", &[]);
    bench.project.write("new.txt", "person\n");
    let shown = becket(&bench, &["undo", "--yes"], 1);
    assert!(shown.contains("conflict") && shown.contains("changed since"), "{shown}");
    assert_eq!(bench.project.read("new.txt"), "person\n");
    assert_eq!(bench.project.read("changed.txt"), "after\n");
    becket(&bench, &["redo", "--yes"], 0);
    becket(&bench, &["undo", "--yes", "--force"], 0);
    assert_eq!(bench.project.read("new.txt"), "untracked\n");
    becket(&bench, &["redo", "--yes"], 0);
    assert_eq!(bench.project.read("new.txt"), "person\n", "what force overwrote was kept first");
}

#[test]
fn a_command_that_was_running_when_becket_was_killed_is_undone() {
    let bench = dirty();
    let before = tree(bench.project.root());
    let script = script(&bench, &bash(&["rm -rf src new.txt; echo x > added.txt; echo READY; sleep 600"]));
    let model = format!("script:{}", script.display());
    let mut command = bench.command();
    command.args(["-p", "--model", &model, "--permission-mode", "bypassPermissions"]);
    command.args(["--output-format", "stream-json", "--verbose", "--include-partial-messages", "go"]);
    let running = Running::start(&mut command);
    let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !bench.project.path("added.txt").exists() {
        assert!(std::time::Instant::now() < end, "the command did not run");
        std::thread::yield_now();
    }
    running.signal("-KILL");
    running.wait();
    // The next process records what the command did, after its own first message. Each turn keeps its changes all the same.
    play(&bench, &bash(&["echo y > second.txt"]), "second", &["-c"]);
    let shown = becket(&bench, &["undo", "--yes"], 0);
    assert!(shown.contains("1 call of the turn \"second\""), "{shown}");
    assert!(bench.project.exists("added.txt") && !bench.project.exists("second.txt"), "{shown}");
    let shown = becket(&bench, &["undo", "--yes"], 0);
    assert!(shown.contains("of the turn \"go\""), "{shown}");
    assert_eq!(tree(bench.project.root()), before, "{shown}");
}

#[test]
fn rewind_goes_back_to_before_a_message() {
    let bench = Bench::new(&[("a.txt", "0\n")]);
    play(&bench, &bash(&["echo 1 > a.txt"]), "first", &[]);
    play(&bench, &bash(&["echo 2 > a.txt"]), "second", &["-c"]);
    let id = bench.ledgers()[0].parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let listed = becket(&bench, &["rewind", &id], 0);
    assert!(listed.contains("first") && listed.contains("second"), "{listed}");
    assert_eq!(
        becket(&bench, &["rewind"], 0).matches("rewind").count(),
        2,
        "the newest session, and how to go on"
    );
    let listed = becket(&bench, &["rewind", &id, "--json"], 0);
    let rows: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&rows[1]["message"], &rows[1]["text"]), (&json!(2), &json!("second")), "{rows}");
    becket(&bench, &["rewind", &id, "2", "--both", "--yes"], 0);
    assert_eq!(bench.project.read("a.txt"), "1\n");
    let view = becket(&bench, &["context", &id, "--json"], 0);
    assert!(!view.contains("second"), "{view}");
    let reverts = bench.entries().into_iter().filter(|e| e["kind"] == "revert").count();
    assert!(reverts >= 2, "{reverts}");
    becket(&bench, &["rewind", &id, "1", "--files", "--yes"], 0);
    assert_eq!(bench.project.read("a.txt"), "0\n");
    becket(&bench, &["rewind", &id, "99", "--files", "--yes"], 2);
    becket(&bench, &["rewind", &id, "1", "--yes"], 2);
}

#[test]
fn a_rewind_leaves_the_context_that_was_there_before_the_message() {
    let bench = Bench::new(&[]);
    play(&bench, &bash(&["echo one"]), "first", &[]);
    let before = becket(&bench, &["context", "--json"], 0);
    let spans = |page: &str| {
        let mut spans = serde_json::from_str::<Value>(page).unwrap()["spans"].clone();
        // Sizes are left out, because estimates change with each report of the provider.
        spans.as_array_mut().unwrap().iter_mut().for_each(|span| span["tokens"] = Value::Null);
        spans
    };
    play(&bench, &bash(&["echo two"]), "second", &["-c"]);
    play(&bench, &bash(&["echo three"]), "third", &["-c"]);
    let seq = |word: &str| {
        let page = spans(&becket(&bench, &["context", "--json"], 0));
        let found = page.as_array().unwrap().iter().find(|s| s["preview"] == word).cloned();
        found.unwrap()["seq"].to_string()
    };
    // The rewind to before "second" also takes back the changes of the context since then: "first" is in the context again.
    becket(&bench, &["context", "--drop", &seq("second"), "--yes"], 0);
    becket(&bench, &["context", "--undo", "--yes"], 0);
    becket(&bench, &["context", "--drop", &seq("first"), "--yes"], 0);
    let id = bench.ledgers()[0].parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    becket(&bench, &["rewind", &id, "2", "--conversation", "--yes"], 0);
    assert_eq!(spans(&becket(&bench, &["context", "--json"], 0)), spans(&before));
}

#[test]
fn commands_that_only_read_leave_no_record() {
    let bench = dirty();
    play(&bench, &bash(&["ls -la", "cat kept.txt", "git status"]), "look", &["--permission-mode", "default"]);
    assert!(bench.entries().iter().all(|e| e["kind"] != "file_snapshot"));
}

#[test]
fn a_running_session_undoes_redoes_and_rewinds() {
    let bench = Bench::new(&[("a.txt", "0\n")]);
    let mut steps = bash(&["echo 1 > a.txt"]).as_array().unwrap().clone();
    steps.extend(bash(&["echo 2 > a.txt; echo new > b.txt"]).as_array().unwrap().clone());
    steps.push(json!({ "text": "Bye." }));
    let model = format!("script:{}", script(&bench, &Value::Array(steps)).display());
    let mut command = bench.command();
    command.args(["-p", "--model", &model, "--permission-mode", "bypassPermissions"]);
    command.args([
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--replay-user-messages",
    ]);
    let mut running = Running::start(&mut command);
    ask(&mut running, &says("first"), "\"type\":\"result\"");
    let second = ask(&mut running, &says("second"), "\"isReplay\":true");
    running.line(|l| l.contains("\"type\":\"result\""));
    let plan = ask(&mut running, &request(&json!({ "subtype": "undo" })), "undo_planned");
    let fates: Vec<&Value> = plan["paths"].as_array().unwrap().iter().map(|path| &path["fate"]).collect();
    assert_eq!(fates, [&json!("restore"), &json!("delete")], "{plan}");
    assert_eq!(bench.project.read("a.txt"), "2\n", "a plan changes nothing");
    let carry_out = |plan: &Value| request(&json!({ "subtype": "carry_out", "plan": plan["plan"] }));
    let done = ask(&mut running, &carry_out(&plan), "undo_done");
    assert_eq!((&done["restored"], &done["deleted"]), (&json!(1), &json!(1)), "{done}");
    assert_eq!(bench.project.read("a.txt"), "1\n");
    let plan = ask(&mut running, &request(&json!({ "subtype": "redo" })), "undo_planned");
    ask(&mut running, &carry_out(&plan), "undo_done");
    assert_eq!(bench.project.read("b.txt"), "new\n");
    let back = json!({ "subtype": "rewind", "to": second["uuid"], "what": "both" });
    let plan = ask(&mut running, &request(&back), "undo_planned");
    assert_eq!(plan["conversation"]["text"], "second", "{plan}");
    ask(&mut running, &carry_out(&plan), "undo_done");
    assert_eq!(bench.project.read("a.txt"), "1\n");
    assert!(!bench.project.path("b.txt").exists());
    ask(&mut running, &says("third"), "\"type\":\"result\"");
    running.wait().expect(0);
    let view = becket(&bench, &["context", "--json"], 0);
    assert!(view.contains("third") && !view.contains("second"), "{view}");
    // `becket undo` in another process also undoes what the running session did.
    becket(&bench, &["undo", "--yes"], 0);
    assert_eq!(bench.project.read("a.txt"), "0\n");
}

/// A file from somebody else can name any file and any content as what was there before. A file of one's own is a backup.
#[test]
fn changes_of_an_imported_session_are_undone_only_if_the_user_made_the_file() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let write = |text: &str| {
        json!([
            { "text": "Read.", "calls": [{ "name": "read", "input": { "path": "a.txt" } }] },
            { "text": "Write.", "calls": [{ "name": "write", "input": { "path": "a.txt", "content": text } }] },
            { "text": "Done." },
        ])
    };
    play(&bench, &write("two\n"), "write", &[]);
    assert_eq!(bench.project.read("a.txt"), "two\n");
    let file = becket(&bench, &["export", "--format", "jsonl", "--with-secrets", "--blobs"], 0);
    bench.project.write("moved.jsonl", &file);
    let id = bench.ledgers().remove(0).parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let again = |args: &[&str]| {
        becket(&bench, &["sessions", "rm", &id], 0);
        becket(&bench, &["sessions", "gc", "--now"], 0);
        becket(&bench, &[&["import", "moved.jsonl"], args].concat(), 0)
    };

    let told = again(&[]);
    assert!(told.contains("cannot be undone here") && told.contains("--trust"), "{told}");
    assert!(becket(&bench, &["undo", "--yes"], 0).contains("Nothing to undo"));
    // Importing the same file again leads to the same session.
    assert!(becket(&bench, &["import", "moved.jsonl"], 0).contains("already exists here: the same"));
    // Changes that are made here can be undone here.
    play(&bench, &write("three\n"), "write", &["--continue"]);
    assert_eq!(bench.project.read("a.txt"), "three\n");
    assert!(becket(&bench, &["import", "moved.jsonl"], 0).contains("continues after it"));
    becket(&bench, &["undo", "--yes"], 0);
    assert_eq!(bench.project.read("a.txt"), "two\n");
    assert!(becket(&bench, &["undo", "--yes"], 0).contains("Nothing to undo"));
    // Importing the file with an incomplete line at its end gives no right to undo either, and neither does a fork.
    bench.project.write("moved.jsonl", file.clone() + "{\"torn");
    again(&[]);
    becket(&bench, &["sessions", "fork", &id, "--name", "copy"], 0);
    for session in [id.as_str(), "copy"] {
        assert!(becket(&bench, &["undo", session, "--yes"], 0).contains("Nothing to undo"), "{session}");
    }
    bench.project.write("moved.jsonl", &file);
    again(&["--trust"]);
    becket(&bench, &["undo", &id, "--yes"], 0);
    assert_eq!(bench.project.read("a.txt"), "one\n");
}

#[test]
fn a_rewind_past_a_failed_turn_leaves_the_turn_before_it_complete() {
    let bench = Bench::new(&[("a.txt", "text\n")]);
    let mut n = 0;
    let server = MockServer::with(move |request| {
        let text = request.text();
        n += 1;
        if text.contains("zz-second") && !text.contains("zz-third") {
            // The model repeats the call until becket ends the turn.
            return Answer::tool(&format!("c{n}"), "read", json!({ "path": "a.txt" })).into();
        }
        Answer::text("done").into()
    });
    run(bench.print(Api::Chat, &server).arg("zz-first")).expect(0);
    run(bench.print(Api::Chat, &server).args(["-c", "zz-second"])).expect(8);
    let id = bench.ledgers()[0].parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    becket(&bench, &["rewind", &id, "2", "--conversation", "--yes"], 0);
    // After the rewind there is no unfinished turn to continue.
    let sent = server.requests().len();
    let ran = run(bench.print(Api::Chat, &server).arg("-c")).expect(2);
    assert!(ran.stderr.contains("is complete") && !ran.stderr.contains("cut off"), "{}", ran.stderr);
    assert_eq!(server.requests().len(), sent);
    let ran = run(bench.print(Api::Chat, &server).args(["-c", "zz-third"])).expect(0);
    assert!(!ran.stderr.contains("cut off"), "{}", ran.stderr);
}

#[test]
fn a_repository_below_the_project_comes_back_with_its_commits() {
    let bench = Bench::new(&[("proj/f.txt", "s\n")]);
    for args in
        [&["init", "-q", "proj"][..], &["-C", "proj", "add", "."], &["-C", "proj", "commit", "-qm", "first"]]
    {
        git(&bench, args);
    }
    bench.project.write("proj/f.txt", "s2\n");
    git(&bench, &["-C", "proj", "commit", "-qam", "second"]);
    play(&bench, &bash(&["(cd proj && git reset -q --hard HEAD~1)", "rm -rf proj"]), "destroy", &[]);
    assert!(!bench.project.path("proj").exists());
    let shown = becket(&bench, &["undo", "--yes"], 0);
    assert_eq!(git(&bench, &["-C", "proj", "log", "--format=%s"]), "second\nfirst\n", "{shown}");
    assert_eq!(git(&bench, &["-C", "proj", "status", "--porcelain"]), "", "{shown}");
    git(&bench, &["-C", "proj", "fsck", "--full"]);
}

/// A repository in the project with one commit of these files.
fn inner(bench: &Bench, name: &str, files: &[(&str, &[u8])]) {
    git(bench, &["init", "-q", name]);
    for (file, bytes) in files {
        std::fs::write(bench.project.path(&format!("{name}/{file}")), bytes).unwrap();
    }
    git(bench, &["-C", name, "add", "."]);
    git(bench, &["-C", name, "commit", "-qm", "first"]);
}

/// Returns what becket says while the model runs one command.
fn played(command: &mut Command, bench: &Bench, text: &str) -> crate::support::Ran {
    let model = format!("script:{}", script(bench, &bash(&[text])).display());
    command.args(["-p", "--permission-mode", "bypassPermissions", "--model", &model, "go"]);
    run(command).expect(0)
}

/// Objects of git may be too large to be saved. The user learns that before the command runs, and again from undo.
#[test]
fn a_repository_that_is_too_large_to_be_saved_is_named_at_the_start_and_by_undo() {
    let bench = Bench::new(&[("a.txt", "a\n")]);
    // Bytes that git cannot compress below the limit for one file.
    let mut state = 1u32;
    let large: Vec<u8> = (0..11 << 20)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as u8
        })
        .collect();
    inner(&bench, "inner", &[("f.txt", b"s\n"), ("large.bin", &large)]);
    let id = git(&bench, &["-C", "inner", "rev-parse", "HEAD:large.bin"]);
    let (folder, name) = id.trim().split_at(2);
    let object = format!("inner/.git/objects/{folder}/{name}");
    let ran = played(&mut bench.command(), &bench, "rm -rf inner");
    let warning = "This command could destroy what undo cannot bring back";
    let line = ran.stderr.lines().find(|line| line.contains(warning)).unwrap_or_default();
    assert!(line.contains(&object) && line.contains("inner/large.bin"), "{}", ran.stderr);
    assert!(!bench.project.path("inner").exists());

    let plan: Value = serde_json::from_str(&becket(&bench, &["undo", "--dry-run", "--json"], 1)).unwrap();
    let paths = plan["plan"]["paths"].as_array().unwrap();
    let mut lost: Vec<&str> =
        paths.iter().filter(|p| p["fate"] == "lost").map(|p| p["path"].as_str().unwrap()).collect();
    lost.sort_unstable();
    let is_named = |name: &str| lost.iter().any(|path| path.ends_with(name));
    assert!(is_named(&object) && is_named("inner/large.bin") && lost.len() == 2, "{lost:?}");
    let shown = becket(&bench, &["undo", "--dry-run"], 1);
    assert!(!bench.project.path("inner").exists(), "{shown}");
    assert!(shown.lines().any(|line| line.contains("lost") && line.contains("inner/large.bin")), "{shown}");
    let shown = becket(&bench, &["undo", "--yes"], 1);
    assert_eq!(bench.project.read("inner/f.txt"), "s\n", "{shown}");
    assert_eq!(git(&bench, &["-C", "inner", "log", "--format=%s"]), "first\n", "{shown}");
    assert!(!bench.project.path("inner/large.bin").exists(), "{shown}");
}

/// Nobody can tell what a command changed in a folder that becket could not look into.
#[test]
fn a_repository_that_cannot_be_looked_into_is_named_at_the_start_and_by_undo() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new(&[("a.txt", "a\n")]);
    inner(&bench, "inner", &[("f.txt", b"s\n")]);
    let closed = bench.project.path("inner/.git");
    let mode = |mode: u32| std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0);
    let Some(mut command) = crate::support::without_privileges(&bench.command()) else {
        mode(0o755);
        return;
    };
    let ran = played(&mut command, &bench, "rm -rf a.txt inner");
    let warning = ran.stderr.lines().find(|line| line.contains("undo cannot bring back")).unwrap_or_default();
    assert!(warning.contains("inner/.git (") && warning.contains("may not be read"), "{}", ran.stderr);
    assert!(!bench.project.path("a.txt").exists() && !bench.project.path("inner/f.txt").exists());
    mode(0o755);

    let named = "it could not be looked into before the call, so changes in it are not known";
    let shown = becket(&bench, &["undo", "--dry-run"], 0);
    let lines: Vec<&str> = shown.lines().filter(|line| line.contains(named)).collect();
    assert!(
        matches!(lines[..], [one] if one.contains("was not saved: ") && one.contains("inner/.git (")),
        "{shown}"
    );
    let plan: Value = serde_json::from_str(&becket(&bench, &["undo", "--dry-run", "--json"], 0)).unwrap();
    assert_eq!(plan["plan"]["skipped"].as_array().map(Vec::len), Some(1), "{plan}");
    becket(&bench, &["undo", "--yes"], 0);
    assert_eq!(
        (bench.project.read("a.txt"), bench.project.read("inner/f.txt")),
        ("a\n".into(), "s\n".into())
    );
}

#[test]
fn a_project_folder_that_was_renamed_is_not_made_again_in_silence() {
    let bench = Bench::new(&[("old/f.txt", "1\n"), ("old/g.txt", "1\n"), ("third/x", "")]);
    let script = script(&bench, &bash(&["echo 2 > f.txt; rm g.txt"]));
    let model = format!("script:{}", script.display());
    let mut command = bench.command();
    command.args(["-p", "--model", &model, "--permission-mode", "bypassPermissions", "go"]);
    run(command.current_dir(bench.project.path("old"))).expect(0);
    let id = bench.ledgers()[0].parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let (old, new) = (bench.project.path("old"), bench.project.path("new"));
    let undo = |from: &Path, code: i32, more: &[&str]| {
        let mut command = bench.command();
        command.args(["undo", &id]).args(more).current_dir(from);
        run(&mut command).expect(code).stdout
    };
    let whole = |name: &str| old.join(name).display().to_string();
    let shown = undo(&bench.project.path("third"), 0, &["--dry-run"]);
    assert!(shown.contains(&whole("f.txt")) && shown.contains(&whole("g.txt")), "{shown}");
    std::fs::rename(&old, &new).unwrap();
    let shown = undo(&new, 1, &["--yes"]);
    let why = format!("its folder {} does not exist any more", old.display());
    assert_eq!(shown.matches(&why).count(), 2, "{shown}");
    assert!(shown.contains(&whole("f.txt")) && shown.contains("No file is changed."), "{shown}");
    assert!(!old.exists() && !new.join("g.txt").exists());
}
