//! `--record FILE` and `--model replay:FILE`: a run plays back without network and key, and says where it differs.

use crate::support::{Api, BOTH, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

fn task() -> MockServer {
    MockServer::start([
        Answer::text("I look.").and_tool("c1", "read", json!({ "path": "a.txt" })),
        Answer::tool("t1", "task", json!({"description": "d", "prompt": "count it", "agent": "explore"})),
        Answer::text("One line."),
        Answer::tool("c2", "edit", json!({ "path": "a.txt", "old": "one", "new": "two" })),
        Answer::text("Changed one to two."),
    ])
}

#[test]
fn a_recorded_run_plays_back_without_network_and_key() {
    for api in BOTH {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let server = task();
        let edits = ["--permission-mode", "acceptEdits", "--output-format", "json", "change it"];
        let record = ["--record", "run.jsonl"];
        let first = run(bench.print(api, &server).args(record).args(edits)).expect(0);
        assert_eq!(bench.project.read("a.txt"), "two\n");
        let path = bench.project.path("run.jsonl");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{api:?}");
        let text = bench.project.read("run.jsonl");
        assert!(!text.contains("sk-test"), "{api:?}: no key in the recording");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().filter(|line| line.get("request").is_some()).count(), 5, "{api:?}");
        drop(server);

        // The same files, another home, no key, no server.
        bench.project.write("a.txt", "one\n");
        let other = Bench::new(&[]);
        let mut replay = other.command();
        replay.current_dir(bench.project.root()).args(["-p", "--model", "replay:run.jsonl"]).args(edits);
        let second = run(&mut replay).expect(0);
        assert_eq!(bench.project.read("a.txt"), "two\n", "{api:?}: the tools run again");
        for field in ["result", "num_turns", "total_cost_usd", "usage", "subtype"] {
            assert_eq!(first.result()[field], second.result()[field], "{api:?} {field}");
        }
    }
}

#[test]
fn a_run_that_differs_stops_at_the_first_request_that_does() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let server = task();
    let edits = ["--permission-mode", "acceptEdits", "change it"];
    run(bench.print(Api::Anthropic, &server).args(["--record", "run.jsonl"]).args(edits)).expect(0);
    // The file has other content than when the run was recorded.
    bench.project.write("a.txt", "one more\n");
    let ran = run(bench.command().args(["-p", "--model", "replay:run.jsonl"]).args(edits)).expect(7);
    for words in
        ["Request 2 of the recording differs at messages[2].content[0].content", "recorded:", "one more"]
    {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    assert_eq!(bench.project.read("a.txt"), "one more\n", "nothing ran after it");
    // A replay with another task fails at the first request.
    let ran = run(bench.command().args(["-p", "--model", "replay:run.jsonl", "something else"])).expect(7);
    assert!(ran.stderr.contains("Request 1 of the recording differs at"), "{}", ran.stderr);
}

#[test]
fn files_that_cannot_be_recordings_are_refused() {
    let bench = Bench::new(&[("taken.jsonl", "precious\n"), ("text.txt", "hello\n")]);
    let server = MockServer::start([Answer::text("fine")]);
    let refused = |args: &[&str], words: &str| {
        let ran = run(bench.print(Api::Chat, &server).args(args).arg("go")).expect(2);
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    };
    refused(&["--record", "taken.jsonl"], "name a file that does not exist yet");
    refused(&["--record", "no/folder/run.jsonl"], "cannot create");
    let replay = |file: &str, words: &str| {
        let model = format!("replay:{file}");
        let ran = run(bench.command().args(["-p", "--model", &model, "go"])).expect(2);
        assert!(ran.stderr.contains(words), "{file}: {}", ran.stderr);
    };
    replay("text.txt", "Line 1 of the recording cannot be read");
    replay("absent.jsonl", "Cannot read absent.jsonl");
    replay("", "needs a file");
    assert_eq!(bench.project.read("taken.jsonl"), "precious\n");
    assert!(server.requests().is_empty());
}
