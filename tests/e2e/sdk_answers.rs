//! Lines that programs of the Claude Agent SDK and the codex SDK rely on: results of calls as data, the messages that an
//! answer belongs to, and commands that becket answers itself.

use crate::support::{Api, Bench, Running, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};
use std::process::Command;

const BYPASS: [&str; 2] = ["--permission-mode", "bypassPermissions"];

/// A driven session whose lines are read one by one.
pub(crate) struct Session(pub(crate) Running);

impl Session {
    pub(crate) fn start(bench: &Bench, server: &MockServer, args: &[&str]) -> Self {
        Self::run(bench.print(Api::Anthropic, server), args)
    }

    /// Starts this command of becket.
    pub(crate) fn run(mut command: Command, args: &[&str]) -> Self {
        command
            .args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"])
            .args(args);
        Self(Running::start(&mut command))
    }

    pub(crate) fn send(&mut self, line: &Value) {
        self.0.send(format!("{line}\n").as_bytes());
    }

    /// Returns the next line that has all these parts.
    pub(crate) fn line(&mut self, parts: &[&str]) -> Value {
        let line = self.0.line(|line| parts.iter().all(|part| line.contains(part)));
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn result(&mut self) -> Value {
        self.line(&["\"type\":\"result\""])
    }

    pub(crate) fn ask(&mut self, body: &Value) -> Value {
        let line = json!({ "type": "control_request", "request_id": "q", "request": body });
        self.send(&line);
        let answer = self.line(&["control_response", "\"request_id\":\"q\""])["response"].clone();
        assert_eq!(answer["subtype"], "success", "{answer}");
        answer["response"].clone()
    }
}

fn says_as(text: &str, uuid: &str) -> Value {
    let mut line = says(text);
    line["uuid"] = json!(uuid);
    line
}

#[test]
fn results_of_calls_are_data_without_sentences_of_becket() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let bash = |id: &str, command: &str| Answer::tool(id, "bash", json!({ "command": command }));
    let server = MockServer::start([
        bash("call_1", "true"),
        bash("call_2", "echo out; exit 3"),
        Answer::tool("call_3", "glob", json!({ "pattern": "*.nothing" })),
        Answer::tool("call_4", "grep", json!({ "pattern": "zzz", "mode": "files" })),
        Answer::text("done"),
    ]);
    let mut session = Session::start(&bench, &server, &BYPASS);
    session.send(&says("go"));
    let mut result = |id: &str| session.line(&["tool_use_result", id])["tool_use_result"].clone();
    let silent = result("call_1");
    assert_eq!((&silent["stdout"], &silent["interrupted"]), (&json!(""), &json!(false)), "{silent}");
    assert_eq!(result("call_2"), "Error: Exit code 3\nout");
    let none = result("call_3");
    assert_eq!((&none["filenames"], &none["numFiles"]), (&json!([]), &json!(0)), "{none}");
    let none = result("call_4");
    assert_eq!((&none["filenames"], &none["numFiles"]), (&json!([]), &json!(0)), "{none}");
    assert!(server.requests()[2].text().contains("[exit code 3]"), "the model reads the exit code");
    session.result();
    session.0.wait().expect(0);
}

/// The result tells an interrupt during a command from one during an answer.
#[test]
fn an_interrupted_command_is_told_as_such() {
    let bench = Bench::new(&[]);
    let command = json!({ "command": "echo begun; touch begun; sleep 600" });
    let server = MockServer::start([Answer::tool("call_1", "bash", command)]);
    let mut session = Session::start(&bench, &server, &BYPASS);
    session.send(&says("go"));
    let begun = bench.project.root().join("begun");
    let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !begun.exists() {
        assert!(std::time::Instant::now() < end, "the command did not run");
        std::thread::yield_now();
    }
    session.send(
        &json!({ "type": "control_request", "request_id": "i", "request": { "subtype": "interrupt" } }),
    );
    let result = session.line(&["tool_use_result", "call_1"])["tool_use_result"].clone();
    // On a slow machine, the call is given up before its tool has reported.
    let given_up = result.as_str().is_some_and(|text| text.starts_with("Error: Interrupted by the user"));
    assert!(
        given_up || (&result["stdout"], &result["interrupted"]) == (&json!("begun"), &json!(true)),
        "{result}"
    );
    assert_eq!(session.result()["terminal_reason"], "aborted_tools");
    session.0.wait();
}

/// Programs send an empty message to open a session whose files they rewind.
#[test]
fn an_empty_message_has_a_result_and_costs_nothing() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("done")]);
    let mut session = Session::start(&bench, &server, &[]);
    session.send(&says_as("", "11111111-1111-4111-8111-111111111111"));
    assert_eq!(session.line(&["\"init\""])["type"], "system");
    let result = session.result();
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)), "{result}");
    assert_eq!((&result["num_turns"], &result["result"]), (&json!(0), &json!("")), "{result}");
    assert_eq!(result["user_message_uuid"], "11111111-1111-4111-8111-111111111111");
    assert_eq!(server.requests().len(), 0);
    session.send(&says("go"));
    assert_eq!(session.result()["result"], "done");
    session.0.wait().expect(0);
}

#[test]
fn answers_and_results_name_the_messages_that_they_answer() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("one"), Answer::text("two")]);
    let mut session = Session::start(&bench, &server, &["--include-partial-messages"]);
    for uuid in ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"] {
        session.send(&says_as("go", uuid));
        let first = session.line(&["message_start"]);
        let answer = session.line(&["\"type\":\"assistant\""]);
        let result = session.result();
        for line in [first, answer, result] {
            assert_eq!(line["user_message_uuid"], uuid, "{line}");
            assert_eq!(line["user_message_uuids"], json!([uuid]), "{line}");
        }
    }
    session.send(&says("go"));
    session.0.wait();
}

/// `/clear` comes while a turn runs, and the prompt after it waits for it.
#[test]
fn a_cleared_conversation_is_not_sent_again() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("SECRETANSWER"), Answer::text("fresh")]);
    let mut session = Session::start(&bench, &server, &[]);
    session.send(&says("SECRETPROMPT"));
    session.send(&says_as("/clear", "33333333-3333-4333-8333-333333333333"));
    session.send(&says("second"));
    assert_eq!(session.result()["result"], "SECRETANSWER");
    let reset = session.line(&["conversation_reset"]);
    assert_eq!((&reset["type"], &reset["trigger"]), (&json!("conversation_reset"), &json!("clear")));
    assert_eq!(reset["user_message_uuid"], "33333333-3333-4333-8333-333333333333");
    let cleared = session.result();
    assert_eq!((&cleared["subtype"], &cleared["result"]), (&json!("success"), &json!("")), "{cleared}");
    assert_eq!(session.result()["result"], "fresh");
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert!(!requests[1].text().contains("SECRET"), "{}", requests[1].text());
    // A second `/clear` finds nothing to clear, which is no error.
    session.send(&says("/clear"));
    assert_eq!(session.result()["subtype"], "success");
    session.send(&says("/clear"));
    assert_eq!(session.result()["subtype"], "success");
    session.0.wait().expect(0);
}

#[test]
fn the_context_has_a_size_before_the_first_turn() {
    let bench = Bench::new(&[("CLAUDE.md", "Use tabs.\n")]);
    let server = MockServer::start([Answer::text("done")]);
    let mut session = Session::start(&bench, &server, &[]);
    let usage = session.ask(&json!({ "subtype": "get_context_usage" }));
    assert!(usage["totalTokens"].as_u64().unwrap() > 500, "{usage}");
    assert!(usage["maxTokens"].as_u64().unwrap() > 100_000, "{usage}");
    let ids: Vec<&str> =
        usage["categories"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    for id in ["system_prompt", "system_tools", "memory_files", "free_space"] {
        assert!(ids.contains(&id), "{id}: {usage}");
    }
    assert!(usage["memoryFiles"][0]["path"].as_str().unwrap().ends_with("CLAUDE.md"), "{usage}");
    session.send(&says("go"));
    session.result();
    let later = session.ask(&json!({ "subtype": "get_context_usage" }));
    assert!(later["totalTokens"].as_u64() > usage["totalTokens"].as_u64(), "{later}");
    session.0.wait().expect(0);
}

/// Menus of programs list the commands that becket answers, and agents have the names that calls have.
#[test]
fn commands_and_agents_have_the_names_that_programs_know() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("done")]);
    let mut session = Session::start(&bench, &server, &[]);
    let greeting = session.ask(&json!({ "subtype": "initialize", "hooks": null }));
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    for name in ["clear", "compact", "context", "cost", "model", "status"] {
        assert!(names(&greeting["commands"]).iter().any(|known| known == name), "{name}: {greeting}");
    }
    assert!(names(&greeting["agents"]).iter().any(|name| name == "general-purpose"), "{greeting}");
    session.send(&says("go"));
    let init = session.line(&["\"init\""]);
    assert!(init["slash_commands"].as_array().unwrap().contains(&json!("clear")), "{init}");
    assert!(init["agents"].as_array().unwrap().contains(&json!("general-purpose")), "{init}");
    session.result();
    session.0.wait().expect(0);
}

#[test]
fn documents_and_images_by_address_reach_the_provider() {
    // "%PDF-1.1\n"
    const DATA: &str = "JVBERi0xLjEK";
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("seen").into());
    let mut session = Session::start(&bench, &server, &[]);
    let mut send = |blocks: Value| {
        session.send(&json!({ "type": "user", "message": { "role": "user", "content": blocks } }));
        session.result()
    };
    let pdf = json!({ "type": "base64", "media_type": "application/pdf", "data": DATA });
    let result = send(json!([
        { "type": "text", "text": "look" },
        { "type": "document", "title": "a.pdf", "source": pdf },
        { "type": "image", "source": { "type": "url", "url": "https://example.com/a.png" } },
        { "type": "document", "source": { "type": "content", "content": [{ "type": "text", "text": "whole text" }] } },
        { "type": "search_result", "source": "https://example.com", "title": "T",
          "content": [{ "type": "text", "text": "found text" }] },
    ]));
    assert_eq!(result["result"], "seen", "{result}");
    let body = server.requests()[0].json();
    let blocks = body["messages"][0]["content"].as_array().unwrap().clone();
    let has = |kind: &str, source: &Value| {
        blocks.iter().any(|block| block["type"] == kind && block["source"] == *source)
    };
    assert!(has("document", &pdf), "{blocks:?}");
    assert!(has("image", &json!({ "type": "url", "url": "https://example.com/a.png" })), "{blocks:?}");
    let text = server.requests()[0].text().to_owned();
    assert!(text.contains("whole text") && text.contains("found text"), "{text}");
    let address = json!({ "type": "url", "url": "https://example.com/a.pdf" });
    let result = send(json!([{ "type": "document", "title": "paper", "source": address }]));
    assert_eq!(result["result"], "seen", "{result}");
    let body = server.requests()[1].json();
    let last = body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    let wanted = |block: &Value| block["type"] == "document" && block["source"] == address;
    assert!(last.as_array().unwrap().iter().any(wanted), "{last}");
    session.0.wait();
}

/// An attachment that the model's server cannot get is never left out in silence.
#[test]
fn an_address_that_the_server_does_not_fetch_is_an_error() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("seen").into());
    let mut session = Session::run(bench.print(Api::Chat, &server), &[]);
    let mut send = |source: Value, kind: &str| {
        let block = json!({ "type": kind, "source": source });
        session.send(&json!({
            "type": "user", "uuid": "u-1", "message": { "role": "user", "content": [block] },
        }));
        session.result()
    };
    let page = json!({ "type": "url", "url": "https://example.com/a.png" });
    assert_eq!(send(page, "image")["result"], "seen", "images are fetched");
    for (source, why) in [
        (json!({ "type": "url", "url": "https://example.com/a.pdf" }), "fetches no documents; download it"),
        (json!({ "type": "file", "file_id": "f_1" }), "becket does not use the provider's file store"),
    ] {
        let refused = send(source, "document");
        assert!(refused["errors"][0].as_str().unwrap().contains(why), "{refused}");
        assert_eq!((&refused["is_error"], &refused["user_message_uuid"]), (&json!(true), &json!("u-1")));
    }
    assert_eq!(server.requests().len(), 1);
    session.0.wait();
}

/// A program may send its first request again, as it was, and gets the answer again.
#[test]
fn the_first_request_can_be_sent_again() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("done")]);
    let mut session = Session::start(&bench, &server, &[]);
    let request = json!({ "subtype": "initialize", "hooks": null, "systemPrompt": ["Be brief."] });
    let greeting = session.ask(&request);
    assert_eq!(session.ask(&request), greeting);
    session.send(&says("go"));
    session.result();
    assert_eq!(session.ask(&request)["agents"], greeting["agents"]);
    session.0.wait().expect(0);
}
