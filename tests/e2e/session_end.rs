//! `SessionEnd` hooks: each way in which a session ends runs them once, with its reason, and a slow one does not keep the process.

use crate::sdk_answers::Session;
use crate::support::{Api, Bench, Running, run, says};
use crate::terminal::{Terminal, becket};
use becket_testkit::{Answer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Hooks that write the event and its reason or source as one line.
fn recording() -> Value {
    let record =
        json!([{ "hooks": [{ "type": "command", "command": "cat >>events.jsonl; echo >>events.jsonl" }] }]);
    json!({ "hooks": { "SessionStart": record, "SessionEnd": record } })
}

fn bench(hooks: &Value) -> Bench {
    let bench = Bench::new(&[]);
    bench.home.write(".claude/settings.json", hooks.to_string());
    bench
}

/// The events so far: `SessionEnd other`.
fn events(bench: &Bench) -> Vec<String> {
    let text = std::fs::read_to_string(bench.project.root().join("events.jsonl")).unwrap_or_default();
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).ok()?;
        let which = event["reason"].as_str().or(event["source"].as_str())?;
        Some(format!("{} {which}", event["hook_event_name"].as_str()?))
    };
    text.lines().filter_map(event).collect()
}

/// A headless run whose command runs.
fn in_a_command(bench: &Bench, server: &MockServer) -> Running {
    let mut command = bench.print(Api::Anthropic, server);
    let mut running = Running::start(command.args(["--permission-mode", "bypassPermissions", "go"]));
    running.close_stdin();
    let end = Instant::now() + Duration::from_mins(1);
    while !bench.project.exists("begun") {
        assert!(Instant::now() < end, "the command did not run");
        std::thread::yield_now();
    }
    running
}

fn sleeping() -> MockServer {
    MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "touch begun; sleep 600" })),
        Answer::text("done"),
    ])
}

#[test]
fn signals_end_a_headless_run_with_its_hooks() {
    for (signal, code) in [("-TERM", 143), ("-HUP", 143), ("-INT", 130)] {
        let (bench, server) = (bench(&recording()), sleeping());
        let running = in_a_command(&bench, &server);
        running.signal(signal);
        let ran = running.ended().expect(code);
        assert_eq!(events(&bench), ["SessionStart startup", "SessionEnd other"], "{signal}: {ran:?}");
        let kinds = bench.entries();
        let ended = kinds.iter().filter(|entry| entry["kind"] == "hook" && entry["event"] == "SessionEnd");
        assert_eq!(ended.count(), 1, "{signal}: the run of the hook is in the ledger");
        // After SIGTERM the turn is unfinished, as without hooks, so `--continue` has something to do.
        let server = MockServer::start([Answer::text("gone on")]);
        let ran = run(bench.print(Api::Anthropic, &server).arg("--continue"));
        assert_eq!(ran.code == 0, code == 143, "{signal}: {ran:?}");
    }
}

/// Returns the limit for an end that waits for no hook: much shorter than the hook, and long enough for a busy machine.
fn in_time(begun: Instant) -> bool {
    begun.elapsed() < Duration::from_mins(1)
}

#[test]
fn a_slow_hook_does_not_keep_a_process_that_a_signal_ends() {
    let slow = json!({ "hooks": { "SessionEnd": [{ "hooks": [{ "type": "command", "command": "sleep 300", "timeout": 300 }] }] } });
    for signal in ["-TERM", "-HUP"] {
        let (bench, server) = (bench(&slow), sleeping());
        let running = in_a_command(&bench, &server);
        let begun = Instant::now();
        running.signal(signal);
        running.ended().expect(143);
        assert!(in_time(begun), "{signal}: {:?}", begun.elapsed());
    }
    let (bench, server) = (bench(&slow), MockServer::start(Vec::<Answer>::new()));
    let mut terminal = Terminal::start(becket(&bench, &server));
    terminal.shows("Describe a task");
    let begun = Instant::now();
    terminal.signal(Signal::TERM);
    terminal.is_given_back();
    assert_eq!(terminal.child.wait().unwrap().code(), Some(143));
    assert!(in_time(begun), "{:?}", begun.elapsed());
}

#[test]
fn an_interactive_session_ends_with_its_reason() {
    for (end, reason) in [
        (None, "prompt_input_exit"),
        (Some(Signal::TERM), "other"),
        (Some(Signal::HUP), "other"),
        (Some(Signal::INT), "other"),
    ] {
        let (bench, server) = (bench(&recording()), MockServer::with(|_| Answer::text("Done.").into()));
        let mut terminal = Terminal::start(becket(&bench, &server));
        terminal.shows("Describe a task");
        match end {
            Some(signal) => terminal.signal(signal),
            None => terminal.send("\x04"),
        }
        terminal.is_given_back();
        terminal.child.wait().unwrap();
        let wanted = ["SessionStart startup".to_owned(), format!("SessionEnd {reason}")];
        assert_eq!(events(&bench), wanted, "{end:?}");
    }
}

#[test]
fn a_cleared_conversation_ends_and_another_begins() {
    let (bench, server) = (bench(&recording()), MockServer::with(|_| Answer::text("Done.").into()));
    let mut terminal = Terminal::start(becket(&bench, &server));
    terminal.shows("Describe a task");
    terminal.send("hello\r");
    // Before the end of the turn, /clear would be refused.
    terminal.shows("done in");
    terminal.send("/clear\r");
    terminal.until("the new session", |_| events(&bench).len() >= 3);
    terminal.shows("Describe a task");
    terminal.send("\x04");
    terminal.is_given_back();
    terminal.child.wait().unwrap();
    let wanted =
        ["SessionStart startup", "SessionEnd clear", "SessionStart clear", "SessionEnd prompt_input_exit"];
    assert_eq!(events(&bench), wanted);
}

#[test]
fn a_program_that_clears_the_conversation_sees_its_hooks() {
    let context = json!({ "hookSpecificOutput": { "hookEventName": "SessionStart", "additionalContext": "begun anew" } });
    let mut hooks = recording();
    hooks["hooks"]["SessionStart"][0]["matcher"] = json!("clear");
    let more = json!({ "matcher": "clear", "hooks": [{ "type": "command", "command": format!("echo '{context}'") }] });
    hooks["hooks"]["SessionStart"].as_array_mut().unwrap().push(more);
    let (bench, server) = (bench(&hooks), MockServer::start(["one", "two"].map(Answer::text)));
    let mut session = Session::start(&bench, &server, &[]);
    session.send(&says("remember the zebra"));
    session.result();
    session.send(&says("/clear"));
    session.send(&says("hello again"));
    session.line(&["conversation_reset"]);
    session.result();
    assert_eq!(session.result()["result"], "two");
    session.0.wait().expect(0);
    assert_eq!(events(&bench), ["SessionEnd clear", "SessionStart clear", "SessionEnd other"]);
    let last = server.requests()[1].text().to_owned();
    assert!(last.contains("begun anew") && !last.contains("zebra"), "{last}");
}

/// The id of the only session.
fn id(bench: &Bench) -> String {
    let ledgers = bench.ledgers();
    assert_eq!(ledgers.len(), 1, "{ledgers:?}");
    ledgers[0].parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_resumed_session_begins_as_resumed() {
    let (bench, server) = (bench(&recording()), MockServer::with(|_| Answer::text("Done.").into()));
    run(bench.print(Api::Anthropic, &server).arg("hello")).expect(0);
    let id = id(&bench);
    let mut wanted = vec!["SessionStart startup", "SessionEnd other"];
    for (arguments, source) in [
        (&["--continue"][..], "SessionStart resume"),
        (&["--resume", &id], "SessionStart resume"),
        (&["--resume", &id, "--fork-session"], "SessionStart fork"),
    ] {
        run(bench.print(Api::Anthropic, &server).args(arguments).arg("again")).expect(0);
        wanted.extend([source, "SessionEnd other"]);
        assert_eq!(events(&bench), wanted, "{arguments:?}");
    }
    // The official SDKs resume with the id in the same argument.
    let mut session = Session::start(&bench, &server, &[&format!("--resume={id}")]);
    session.send(&says("and again"));
    session.result();
    session.0.wait().expect(0);
    wanted.extend(["SessionStart resume", "SessionEnd other"]);
    assert_eq!(events(&bench), wanted);
}

#[test]
fn a_session_that_is_left_for_another_ends_with_the_reason_resume() {
    let (bench, server) = (bench(&recording()), MockServer::with(|_| Answer::text("Done.").into()));
    run(bench.print(Api::Anthropic, &server).arg("hello")).expect(0);
    let id = id(&bench);
    let mut terminal = Terminal::start(becket(&bench, &server));
    terminal.shows("Describe a task");
    terminal.send("another task\r");
    terminal.shows("done in");
    terminal.send(&format!("/resume {id}\r"));
    terminal.until("the resumed session", |_| events(&bench).len() >= 5);
    terminal.shows("hello");
    terminal.send("\x04");
    terminal.is_given_back();
    terminal.child.wait().unwrap();
    let wanted = [
        "SessionStart startup",
        "SessionEnd other",
        "SessionStart startup",
        "SessionEnd resume",
        "SessionStart resume",
        "SessionEnd prompt_input_exit",
    ];
    assert_eq!(events(&bench), wanted);
}
