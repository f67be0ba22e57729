//! Folders that join the workspace: by a program, in the terminal, and again when the session is continued.

use crate::support::{Api, Bench, Running, ask, request, run, says};
use crate::terminal::{Terminal, becket};
use becket_testkit::{Answer, MockServer, Project};
use serde_json::json;

fn read(id: &str, folder: &Project, name: &str) -> Answer {
    Answer::tool(id, "read", json!({ "path": folder.path(name) }))
}

#[test]
fn a_program_adds_a_folder_and_the_session_keeps_it() {
    let (bench, lib) = (Bench::new(&[]), Project::new(&[("a.txt", "LIB-A\n"), ("b.txt", "LIB-B\n")]));
    let server = MockServer::start([
        read("r1", &lib, "a.txt"),
        Answer::text("seen"),
        read("r2", &lib, "b.txt"),
        Answer::text("again"),
    ]);
    let mut running = Running::start(bench.print(Api::Anthropic, &server).args([
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
    ]));
    let add = |path: &str| request(&json!({ "subtype": "add_directory", "path": path }));
    let refused = ask(&mut running, &add("not-there"), "control_response");
    assert_eq!(refused["response"]["subtype"], "error");
    let why = refused["response"]["error"].as_str().unwrap();
    assert!(why.starts_with("not-there was not added to the workspace: No such file"), "{why}");
    let added = ask(&mut running, &add(lib.root().to_str().unwrap()), "control_response");
    assert_eq!(added["response"]["subtype"], "success", "{added}");
    let result = ask(&mut running, &says("look"), "\"type\":\"result\"");
    assert_eq!(
        (result["result"].as_str(), result["permission_denials"].as_array().unwrap().len()),
        (Some("seen"), 0)
    );
    running.wait().expect(0);
    assert!(server.requests()[1].text().contains("LIB-A"));

    let ran = run(bench.print(Api::Anthropic, &server).args(["-c", "and the other"])).expect(0);
    assert!(server.requests()[3].text().contains("LIB-B"), "{}", server.requests()[3].text());
    assert!(ran.stderr.contains("this session also works in "), "{}", ran.stderr);

    // The folder is gone: one line, and the session goes on.
    drop(lib);
    let server = MockServer::start([Answer::text("fine")]);
    let ran = run(bench.print(Api::Anthropic, &server).args(["-c", "and now"])).expect(0);
    assert!(ran.stderr.contains("is missing and was left out"), "{}", ran.stderr);
}

#[test]
fn a_folder_of_the_command_line_counts_in_later_runs_of_the_session_only() {
    let (bench, lib) = (Bench::new(&[]), Project::new(&[("a.txt", "LIB-A\n")]));
    let once = || MockServer::start([read("r1", &lib, "a.txt"), Answer::text("done")]);
    let folder = lib.root().to_str().unwrap();
    for (flags, allowed) in
        [(&["--add-dir", folder, "--", "look"][..], true), (&["-c", "look"], true), (&["look"], false)]
    {
        let server = once();
        // A run that ends after a denial has an exit code of its own.
        run(bench.print(Api::Chat, &server).args(flags)).expect(if allowed { 0 } else { 5 });
        assert_eq!(server.requests()[1].text().contains("LIB-A"), allowed, "{flags:?}");
    }
}

#[test]
fn add_dir_in_the_terminal() {
    let (bench, lib) = (Bench::new(&[]), Project::new(&[("a.txt", "LIB-A\n")]));
    let server = MockServer::start([read("r1", &lib, "a.txt"), Answer::text("I have read it")]);
    let mut terminal = Terminal::start(becket(&bench, &server));
    terminal.shows("Describe a task");
    terminal.send("/add-dir nowhere\r");
    terminal.shows_words("nowhere was not added to the workspace: No such file");
    terminal.send(&format!("/add-dir {}\r", lib.root().display()));
    terminal.shows_words("to the workspace. The session keeps it.");
    terminal.send("/add-dir\r");
    terminal.shows_words("The workspace: ");
    terminal.send("/status\r");
    terminal.shows(" also ");
    terminal.press_until("\x1b", "Describe a task");
    terminal.send("read it\r");
    terminal.shows("I have read it");
    assert!(server.requests()[1].text().contains("LIB-A"));
}
