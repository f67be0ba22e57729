//! `becket replay`: the messages of a session again, in a fork, with another model and recorded or new results of tools.

use crate::support::{Api, Bench, entries, run};
use becket_testkit::{Answer, MockServer};
use serde_json::json;

fn read(id: &str, path: &str) -> Answer {
    Answer::tool(id, "read", json!({ "path": path }))
}

/// A session of two messages, each with a call. The files change afterwards.
fn recorded() -> (Bench, String) {
    let bench = Bench::new(&[("a.txt", "ancient words\n"), ("b.txt", "second file\n")]);
    let server = MockServer::start([
        read("c1", "a.txt"),
        Answer::text("It has ancient words."),
        read("c2", "b.txt"),
        Answer::text("And the second."),
    ]);
    let first = run(bench.print(Api::Chat, &server).args(["--output-format", "json", "look at a"])).expect(0);
    let session = first.result()["session_id"].as_str().unwrap().to_owned();
    run(bench.print(Api::Chat, &server).args(["--resume", &session, "look at b"])).expect(0);
    bench.project.write("a.txt", "modern words\n");
    bench.project.write("b.txt", "changed file\n");
    (bench, session)
}

/// All bodies that the server got, as one text.
fn sent(server: &MockServer) -> String {
    server
        .requests()
        .iter()
        .map(|request| String::from_utf8_lossy(&request.body).into_owned() + "\n")
        .collect()
}

fn replay(bench: &Bench, server: &MockServer, args: &[&str]) -> std::process::Command {
    let mut command = bench.command();
    command
        .env("OPENAI_API_KEY", "sk-test")
        .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
        .arg("replay")
        .args(args);
    command
}

#[test]
fn a_session_is_repeated_with_another_model_and_recorded_results() {
    let (bench, session) = recorded();
    let before = std::fs::read(&bench.ledgers()[0]).unwrap();
    let server = MockServer::start([
        read("x1", "a.txt"),
        read("x2", "nobody-read-this.txt"),
        Answer::text("Ancient, I say."),
        read("x3", "b.txt"),
        Answer::text("Also the second one."),
    ]);
    let ran = run(&mut replay(&bench, &server, &[&session, "--model", "openai/other-model"])).expect(0);
    assert_eq!(ran.stdout, "Ancient, I say.\nAlso the second one.\n");
    assert!(ran.stderr.contains("replayed 2 of 2 messages"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("becket sessions compare {session}")), "{}", ran.stderr);
    let all = sent(&server);
    for (words, there) in [
        ("other-model", true),
        ("look at a", true),
        ("ancient words", true),
        ("second file", true),
        ("has none for this call", true),
        ("modern words", false),
        ("changed file", false),
        ("It has ancient words.", false),
    ] {
        assert_eq!(all.contains(words), there, "{words}");
    }
    assert_eq!(bench.ledgers().len(), 2, "a session of its own");
    assert_eq!(std::fs::read(&bench.ledgers()[0]).unwrap(), before, "the recorded one is only read");
    let titled = entries(&bench.ledgers()[1]).iter().any(|entry| {
        entry["kind"] == "title"
            && entry["title"].as_str().unwrap().contains("replay with openai/other-model")
    });
    assert!(titled);
    let server = MockServer::start([Answer::text("One."), Answer::text("Two.")]);
    let ran =
        run(&mut replay(&bench, &server, &[&session, "--model", "openai/other-model", "--json"])).expect(0);
    let lines: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["result"], &lines[1]["result"]), (&json!("One."), &json!("Two.")), "{lines:?}");
    assert_eq!((&lines[2]["replayed"], &lines[2]["source"]), (&json!(2), &json!(session)), "{lines:?}");
}

#[test]
fn a_part_of_a_session_is_repeated_with_tools_that_run() {
    let (bench, session) = recorded();
    let server = MockServer::start([read("x1", "b.txt"), Answer::text("It changed.")]);
    let args = [&session, "--from", "2", "--tools", "run", "--model", "openai/other-model"];
    let ran = run(&mut replay(&bench, &server, &args)).expect(0);
    assert_eq!(ran.stdout, "It changed.\n");
    let all = sent(&server);
    assert!(all.contains("It has ancient words."), "what came before is there: {all}");
    assert!(all.contains("changed file") && !all.contains("And the second."), "{all}");
}

#[test]
fn a_place_that_does_not_exist_is_a_usage_error() {
    let (bench, session) = recorded();
    let server = MockServer::start(Vec::<Answer>::new());
    for args in [vec![session.as_str(), "--from", "3"], vec!["no-such-session"]] {
        run(&mut replay(&bench, &server, &args)).expect(2);
    }
    assert_eq!((server.requests().len(), bench.ledgers().len()), (0, 1));
}
