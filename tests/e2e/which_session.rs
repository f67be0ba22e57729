//! The session that a command without a name means, and a turn that was cut off.

use crate::support::{Api, BOTH, Bench, Running, run};
use becket_testkit::{Answer, MockServer, Reply};
use serde_json::{Value, json};

fn script(bench: &Bench, steps: &Value) -> String {
    let path = bench.home.root().join("script.json");
    std::fs::write(&path, serde_json::to_vec(&json!({ "steps": steps })).unwrap()).unwrap();
    format!("script:{}", path.display())
}

/// A run whose model only failed leaves a session in which there is nothing to undo, export or continue.
#[test]
fn a_run_that_failed_is_not_the_newest_session() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let steps = json!([
        { "text": "Now.", "calls": [{ "name": "bash", "input": { "command": "echo two > a.txt" } }] },
        { "text": "Done." },
    ]);
    let model = script(&bench, &steps);
    let free = ["--permission-mode", "bypassPermissions"];
    run(bench.command().args(["-p", "--model", &model, "change a"]).args(free)).expect(0);
    let server =
        MockServer::with(|_| Reply::anthropic_error(401, "authentication_error", "invalid x-api-key"));
    run(bench.print(Api::Anthropic, &server).arg("and now b")).expect(7);
    assert_eq!(bench.ledgers().len(), 2);

    let exported = run(bench.command().arg("export")).expect(0);
    assert!(exported.stdout.contains("change a"), "{}", exported.stdout);
    assert!(exported.stderr.contains("got no answer from its model"), "{}", exported.stderr);
    assert!(exported.stderr.contains("becket --resume "), "{}", exported.stderr);
    let again = script(&bench, &json!([{ "text": "Continued." }]));
    let continued = run(bench.command().args(["-p", "-c", "--model", &again, "go on"])).expect(0);
    assert!(continued.stderr.contains("got no answer from its model"), "{}", continued.stderr);
    assert_eq!(bench.ledgers().len(), 2, "it went on in the first one");
    // The newest turn changed no file, and the plan says which turn is taken back.
    let undone = run(bench.command().args(["undo", "--yes"])).expect(0).stdout;
    assert_eq!(bench.project.read("a.txt"), "one\n", "{undone}");
    assert!(undone.contains("1 call of the turn \"change a\""), "{undone}");
    assert!(undone.contains("1 newer turn changed no file"), "{undone}");
    assert!(undone.contains("a.txt +1 -1"), "{undone}");
    // If a project has only sessions that failed, the newest of them is used.
    let bench = Bench::new(&[]);
    run(bench.print(Api::Anthropic, &server).arg("the only one")).expect(7);
    let exported = run(bench.command().arg("export")).expect(0);
    assert!(exported.stdout.contains("the only one"), "{}", exported.stdout);
}

#[test]
fn an_undo_without_changes_names_the_session_that_has_some() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let steps = json!([
        { "text": "Now.", "calls": [{ "name": "bash", "input": { "command": "echo two > a.txt" } }] },
        { "text": "Done." },
    ]);
    let model = script(&bench, &steps);
    run(bench.command().args([
        "-p",
        "--model",
        &model,
        "--permission-mode",
        "bypassPermissions",
        "change a",
    ]))
    .expect(0);
    let model = script(&bench, &json!([{ "text": "An answer." }]));
    run(bench.command().args(["-p", "--model", &model, "only a question"])).expect(0);
    let nothing = run(bench.command().args(["undo", "--yes"])).expect(0).stdout;
    assert!(nothing.contains("Nothing to undo in") && nothing.contains("\"only a question\""), "{nothing}");
    let command = nothing.rsplit("becket ").next().unwrap().trim().to_owned();
    run(bench.command().args(command.split(' ')).arg("--yes")).expect(0);
    assert_eq!(bench.project.read("a.txt"), "one\n");
}

#[test]
fn a_turn_that_was_cut_off_is_told_and_continued_without_a_message() {
    let bench = Bench::new(&[]);
    let command = json!({ "command": "touch began; sleep 600" });
    let model = script(&bench, &json!([{ "text": "Now.", "calls": [{ "name": "bash", "input": command }] }]));
    let mut command = bench.command();
    command.args(["-p", "--model", &model, "--permission-mode", "bypassPermissions", "build it"]);
    let running = Running::start(&mut command);
    let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !bench.project.path("began").exists() {
        assert!(std::time::Instant::now() < end, "the command did not run");
        std::thread::yield_now();
    }
    running.signal("-KILL");
    running.wait();
    let model = script(&bench, &json!([{ "text": "It is built." }]));
    let continued = run(bench.command().args(["-p", "-c", "--model", &model])).expect(0);
    assert_eq!(continued.stdout.trim(), "It is built.");
    assert!(continued.stderr.contains("The last turn (\"build it\") was cut off"), "{}", continued.stderr);
    let complete = run(bench.command().args(["-p", "-c", "--model", &model])).expect(2);
    assert!(complete.stderr.contains("the last turn of this session is complete"), "{}", complete.stderr);
}

#[test]
fn an_export_replaces_a_file_only_with_force_and_says_what_it_wrote() {
    let bench = Bench::new(&[("mine.md", "My own words.\n")]);
    let model = script(&bench, &json!([{ "text": "An answer." }]));
    run(bench.command().args(["-p", "--model", &model, "a question"])).expect(0);
    let refused = run(bench.command().args(["export", "-o", "mine.md"])).expect(2);
    assert!(refused.stderr.contains("mine.md exists") && refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(bench.project.read("mine.md"), "My own words.\n");
    let told = run(bench.command().args(["export", "-o", "mine.md", "--force", "--json"])).expect(0);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(told["file"], "mine.md");
    let text = bench.project.read("mine.md");
    assert_eq!(told["bytes"], text.len(), "{told}");
    assert!(text.contains("An answer."), "{text}");
    let told = run(bench.command().args(["export", "-o", "new.md"])).expect(0).stdout;
    assert!(told.contains("is in new.md"), "{told}");
}

#[test]
fn a_model_that_the_project_chose_is_named() {
    let bench = Bench::new(&[(".becket/config.toml", "model = \"anthropic/claude-haiku-4-5\"\n")]);
    let server = MockServer::start([Answer::text("ok"), Answer::text("ok")]);
    let mut command = bench.command();
    command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
    let ran = run(command.args(["-p", "hello"])).expect(0);
    assert!(ran.stderr.contains("the model anthropic/claude-haiku-4-5 is the choice of"), "{}", ran.stderr);
    let ran = run(command.args(["--model", "anthropic/claude-sonnet-4-5"])).expect(0);
    assert!(!ran.stderr.contains("is the choice of"), "{}", ran.stderr);
}

#[test]
fn a_task_without_quotes_is_shown_with_them() {
    let bench = Bench::new(&[]);
    let ran = run(bench.command().args(["fix", "the", "bug"])).expect(2);
    assert!(ran.stderr.contains("becket \"fix the bug\""), "{}", ran.stderr);
}

/// Prompt, tools and lines agree about the folder in which a session continues.
#[test]
fn a_session_that_continues_in_another_folder_says_so_to_the_model_and_the_user() {
    for api in BOTH {
        let bench = Bench::new(&[("old/a.txt", "a\n"), ("new/b.txt", "b\n")]);
        let (old, new) = (bench.project.path("old"), bench.project.path("new"));
        let server = MockServer::with(|request| {
            if request.text().contains("pwd") && !request.text().contains("\"c1\"") {
                Answer::tool("c1", "bash", json!({ "command": "ls" })).into()
            } else {
                Answer::text("Done.").into()
            }
        });
        let print = |folder: &std::path::Path, more: &[&str]| {
            let mut command = bench.print(api, &server);
            run(command.current_dir(folder).args(["--output-format", "stream-json", "--verbose"]).args(more))
                .expect(0)
        };
        let first = print(&old, &["hi"]);
        let id = first.result()["session_id"].as_str().unwrap().to_owned();
        let moved = print(&new, &["--resume", &id, "pwd?"]);
        assert!(
            moved.stderr.contains("This session worked in ") && moved.stderr.contains("continues in "),
            "{moved:?}"
        );
        assert!(moved.stdout.contains("b.txt") && !moved.stdout.contains("a.txt"), "{moved:?}");
        let sent = server.requests().last().unwrap().text().to_owned();
        let line = |folder: &std::path::Path| {
            format!("Working directory: {}", folder.canonicalize().unwrap().display())
        };
        assert!(sent.contains(&line(&new)) && !sent.contains(&line(&old)), "{sent}");
        assert!(sent.contains("The working directory is now "), "{sent}");
        // There is one notice for each change.
        let again = print(&new, &["--resume", &id, "more"]);
        assert!(!again.stderr.contains("This session worked in "), "{again:?}");
        let fork = print(&old, &["--resume", &id, "--fork-session", "more"]);
        assert!(fork.stderr.contains("This session worked in "), "{fork:?}");
        let sent = server.requests().last().unwrap().text().to_owned();
        assert!(sent.contains(&line(&old)) && !sent.contains(&line(&new)), "{sent}");
    }
}

#[test]
fn a_session_is_continued_from_one_of_its_messages() {
    let bench = Bench::new(&[]);
    let server = MockServer::start(["first answer", "second answer", "third answer"].map(Answer::text));
    let json = ["--output-format", "stream-json", "--verbose"];
    let lines = run(bench.print(Api::Anthropic, &server).args(json).arg("QUESTION-1")).expect(0).lines();
    let answer = lines.iter().find(|line| line["type"] == "assistant").unwrap();
    let (session, uuid) = (answer["session_id"].as_str().unwrap(), answer["uuid"].as_str().unwrap());
    run(bench.print(Api::Anthropic, &server).args(["-c", "QUESTION-2"])).expect(0);
    let at = format!("--resume-session-at={uuid}");
    let mut command = bench.print(Api::Anthropic, &server);
    let result = run(command.args(json).args(["--resume", session, &at, "QUESTION-3"])).expect(0).result();
    let sent = server.requests()[2].text().to_owned();
    assert!(sent.contains("QUESTION-1") && sent.contains("first answer") && sent.contains("QUESTION-3"));
    assert!(!sent.contains("QUESTION-2"), "{sent}");
    assert_ne!(result["session_id"], session, "the session itself keeps all its messages");
    assert_eq!(bench.ledgers().len(), 2);

    for (flags, words) in [
        (["--resume", session, "--resume-session-at=nope"], "takes the uuid of a message"),
        (
            ["--resume", session, "--resume-session-at=01890a5d-ac96-774b-bcce-b302099a8057"],
            "the session has no message 01890a5d",
        ),
    ] {
        let ran = run(bench.print(Api::Anthropic, &server).args(flags).arg("go")).expect(2);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}
