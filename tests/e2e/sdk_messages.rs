//! Several messages of a program at once. Programs of the Python SDK read up to one result for each of their messages; others name
//! a message's moment by its priority.

use crate::sdk_answers::Session;
use crate::sdk_types::{fields, of_package};
use crate::support::{Api, Bench, run_with, says};
use becket_testkit::{Answer, Gate, MockServer, Reply};
use serde_json::{Value, json};

const BYPASS: [&str; 2] = ["--permission-mode", "bypassPermissions"];

fn session(bench: &Bench, server: &MockServer, entrypoint: &str, args: &[&str]) -> Session {
    let mut becket = bench.print(Api::Anthropic, server);
    becket.env("CLAUDE_CODE_ENTRYPOINT", entrypoint).env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1");
    Session::run(becket, args)
}

fn says_as(text: &str, uuid: &str, priority: Option<&str>) -> Value {
    let mut line = says(text);
    line["uuid"] = json!(uuid);
    if let Some(priority) = priority {
        line["priority"] = json!(priority);
    }
    line
}

/// A model that repeats the last message of the user, after a call for the first one.
fn repeats(gate: &Gate) -> MockServer {
    let gate = gate.clone();
    let mut requests = 0;
    MockServer::with(move |request| {
        requests += 1;
        match requests {
            1 => Reply::from(Answer::tool("c1", "read", json!({ "path": "a.txt" }))).gate_before(&gate),
            _ => {
                let text = request.text();
                let last = ["first", "second", "third", "fourth"]
                    .into_iter()
                    .max_by_key(|word| text.rfind(word).map_or(0, |at| at + 1));
                Answer::text(format!("to {}", last.unwrap())).into()
            }
        }
    })
}

#[test]
fn each_message_of_the_python_sdk_has_its_own_turn_and_result() {
    let bench = Bench::new(&[("a.txt", "AAA\n")]);
    let gate = Gate::new();
    let server = repeats(&gate);
    let mut session = session(&bench, &server, "sdk-py", &BYPASS);
    session.send(&says("first"));
    gate.wait_reached();
    // While the first turn runs, the program sends two messages, a command that becket answers itself, and another message.
    for text in ["second", "third", "/status", "fourth"] {
        session.send(&says(text));
    }
    let usage = session.ask(&json!({ "subtype": "get_session_cost" }));
    assert!(usage["text"].is_string(), "{usage}");
    gate.open();
    session.0.close_stdin();
    let ran = session.0.ended().expect(0);
    let lines = ran.lines();
    let results: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result").collect();
    let texts: Vec<&str> = results.iter().map(|result| result["result"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), 5, "{texts:?}");
    assert_eq!((texts[0], texts[1], texts[2], texts[4]), ("to first", "to second", "to third", "to fourth"));
    assert!(texts[3].starts_with("becket "), "{texts:?}");
    let queued: Vec<u64> =
        results.iter().map(|result| result["queued_turn_count"].as_u64().unwrap()).collect();
    assert_eq!(queued, [4, 3, 2, 1, 0]);
    let index: Vec<u64> = results.iter().map(|result| result["result_index"].as_u64().unwrap()).collect();
    assert_eq!(index, [0, 1, 2, 3, 4]);
    let of = |subtype: &str| lines.iter().filter(|line| line["subtype"] == subtype).collect::<Vec<_>>();
    assert_eq!(of("init").len(), 5, "each turn begins with system/init");
    // `idle` is sent once, at the very end: an SDK that reads it closes its side, and hooks of a later turn could not ask it.
    let states: Vec<&str> =
        of("session_state_changed").iter().map(|line| line["state"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "idle").count(), 1, "{states:?}");
    assert_eq!(states.last(), Some(&"idle"));
}

#[test]
fn a_priority_decides_if_a_message_joins_the_running_turn() {
    for (entrypoint, priority, turns) in [
        ("sdk-py", Some("next"), 1),
        ("sdk-py", Some("now"), 1),
        ("sdk-py", Some("later"), 2),
        ("sdk-py", None, 2),
        ("sdk-ts", Some("later"), 2),
        ("sdk-ts", None, 1),
        ("cli", None, 1),
    ] {
        let bench = Bench::new(&[("a.txt", "AAA\n")]);
        let gate = Gate::new();
        let server = repeats(&gate);
        let mut session = session(&bench, &server, entrypoint, &BYPASS);
        session.send(&says_as("first", "11111111-1111-4111-8111-111111111111", None));
        gate.wait_reached();
        session.send(&says_as("second", "22222222-2222-4222-8222-222222222222", priority));
        session.ask(&json!({ "subtype": "get_session_cost" }));
        gate.open();
        session.0.close_stdin();
        let lines = session.0.ended().expect(0).lines();
        let results: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result").collect();
        assert_eq!(results.len(), turns, "{entrypoint} {priority:?}");
        let last = results.last().unwrap();
        assert_eq!(last["result"], "to second", "{entrypoint} {priority:?}");
        // The result names all messages that its turn has answered.
        let named: usize =
            results.iter().map(|result| result["user_message_uuids"].as_array().unwrap().len()).sum();
        assert_eq!(named, 2, "{entrypoint} {priority:?}");
    }
}

/// A message that comes during the last answer is not part of that turn, so no result loses its text.
#[test]
fn a_message_during_the_last_answer_has_a_turn_and_a_result_of_its_own() {
    for (entrypoint, priority) in [("sdk-ts", None), ("cli", None), ("sdk-ts", Some("next"))] {
        let bench = Bench::new(&[]);
        let gate = Gate::new();
        let (opens, mut requests) = (gate.clone(), 0);
        let server = MockServer::with(move |_| {
            requests += 1;
            let answer = Reply::from(Answer::text(format!("answer {requests}")));
            if requests == 1 { answer.gate_before(&opens) } else { answer }
        });
        let mut session = session(&bench, &server, entrypoint, &[]);
        let id = |n: u32| format!("{n}{n}{n}{n}{n}{n}{n}{n}-1111-4111-8111-111111111111");
        session.send(&says_as("first", &id(1), None));
        gate.wait_reached();
        session.send(&says_as("second", &id(2), priority));
        session.send(&says_as("third", &id(3), priority));
        session.ask(&json!({ "subtype": "get_session_cost" }));
        gate.open();
        session.0.close_stdin();
        let lines = session.0.ended().expect(0).lines();
        let results: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result").collect();
        assert_eq!(results.len(), 3, "{entrypoint}: {results:?}");
        for (result, n) in results.into_iter().zip(1..) {
            assert_eq!(result["result"], format!("answer {n}"), "{entrypoint}");
            assert_eq!(result["user_message_uuids"], json!([id(n)]), "{entrypoint}");
            assert_eq!(result["queued_turn_count"], 3 - n, "{entrypoint}");
        }
        assert_eq!(server.requests().len(), 3, "{entrypoint}");
    }
}

/// Lines that come at once, before the first request is sent.
#[test]
fn each_line_of_a_pipe_has_its_result() {
    let bench = Bench::new(&[]);
    let mut requests = 0;
    let server = MockServer::with(move |_| {
        requests += 1;
        Answer::text(format!("answer {requests}")).into()
    });
    let mut becket = bench.print(Api::Chat, &server);
    becket.args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    let input: String = ["one", "two", "three"].map(|text| format!("{}\n", says(text))).concat();
    let lines = run_with(&mut becket, input.as_bytes()).expect(0).lines();
    let results = lines.iter().filter(|line| line["type"] == "result");
    let texts: Vec<&str> = results.map(|result| result["result"].as_str().unwrap()).collect();
    assert_eq!(texts, ["answer 1", "answer 2", "answer 3"]);
}

#[test]
fn waiting_messages_are_listed_withdrawn_and_survive_an_interrupt() {
    let bench = Bench::new(&[("a.txt", "AAA\n")]);
    let gate = Gate::new();
    let server = repeats(&gate);
    let mut session = session(&bench, &server, "sdk-py", &BYPASS);
    let id = |n: u32| format!("{n}{n}{n}{n}{n}{n}{n}{n}-1111-4111-8111-111111111111");
    session.send(&says_as("first", &id(1), None));
    gate.wait_reached();
    session.send(&says_as("second", &id(2), None));
    session.send(&says_as("third", &id(3), None));
    let answer = session.ask(&json!({ "subtype": "cancel_async_message", "message_uuid": id(2) }));
    assert_eq!(answer["cancelled"], true, "{answer}");
    let receipt = session.ask(&json!({ "subtype": "interrupt" }));
    assert_eq!(receipt["still_queued"], json!([id(3)]), "{receipt}");
    let result = session.result();
    assert_eq!(
        (&result["subtype"], &result["queued_turn_count"]),
        (&json!("error_during_execution"), &json!(1))
    );
    let result = session.result();
    assert_eq!((&result["result"], &result["user_message_uuid"]), (&json!("to third"), &json!(id(3))));
    gate.open();
    session.0.wait().expect(0);

    // With `cancel_queued`, none of them runs.
    let (bench, gate) = (Bench::new(&[("a.txt", "AAA\n")]), Gate::new());
    let server = repeats(&gate);
    let mut session = self::session(&bench, &server, "sdk-py", &BYPASS);
    session.send(&says_as("first", &id(1), None));
    gate.wait_reached();
    session.send(&says_as("second", &id(2), None));
    session.send(&says_as("third", &id(3), None));
    let receipt = session.ask(&json!({ "subtype": "interrupt", "cancel_queued": true }));
    assert_eq!((&receipt["cancelled"], &receipt["still_queued"]), (&json!([id(2), id(3)]), &json!([])));
    session.result();
    gate.open();
    session.0.close_stdin();
    let ran = session.0.ended();
    assert_eq!(ran.lines().iter().filter(|line| line["type"] == "result").count(), 1);
    assert_eq!(server.requests().len(), 1);
}

/// The answer of a turn that fits no schema is asked for again before the next message has its turn.
#[test]
fn a_message_waits_for_the_schema_of_the_one_before() {
    let bench = Bench::new(&[]);
    let gate = Gate::new();
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let structured = |id: &str, n: u32| Answer::tool(id, "StructuredOutput", json!({ "n": n }));
    let server = MockServer::start([
        Reply::from(Answer::text("no JSON")).gate_before(&gate),
        structured("c1", 1).into(),
        Answer::text("one").into(),
        structured("c2", 2).into(),
        Answer::text("two").into(),
    ]);
    let mut session = session(&bench, &server, "sdk-py", &["--json-schema", schema]);
    session.send(&says("first"));
    gate.wait_reached();
    session.send(&says("second"));
    session.ask(&json!({ "subtype": "get_session_cost" }));
    gate.open();
    for n in [1, 2] {
        let result = session.result();
        assert_eq!(result["structured_output"], json!({ "n": n }), "{result}");
    }
    session.0.wait().expect(0);
}

/// A prompt that a hook refuses is a turn of its own, whether or not the program has named it.
#[test]
fn a_refused_message_holds_nothing_back() {
    let bench = Bench::new(&[]);
    let hook = "grep -q bad && { echo not this >&2; exit 2; } || exit 0";
    let hooks =
        json!({ "hooks": { "UserPromptSubmit": [{ "hooks": [{ "type": "command", "command": hook }] }] } });
    bench.home.write(".claude/settings.json", hooks.to_string());
    let server = MockServer::with(|_| Answer::text("fine").into());
    for entrypoint in ["sdk-py", "sdk-ts"] {
        let mut session = session(&bench, &server, entrypoint, &[]);
        session.send(&says("bad"));
        assert!(session.result()["result"].as_str().unwrap().contains("not this"), "{entrypoint}");
        session.send(&says("/status"));
        assert!(session.result()["result"].as_str().unwrap().starts_with("becket "), "{entrypoint}");
        session.send(&says("good"));
        assert_eq!(session.result()["result"], "fine", "{entrypoint}");
        session.0.wait().expect(0);
    }
}

/// The fields of a message, each with what becket does with it. A field that a new version of the package brings fails the test
/// until somebody has decided about it.
const FIELDS: &[(&str, &str)] = &[
    ("type", "acts"),
    ("message", "acts"),
    ("parent_tool_use_id", "always null for a program"),
    ("isSynthetic", "of lines that becket writes"),
    ("tool_use_result", "of lines that becket writes"),
    ("priority", "acts"),
    ("origin", "of lines that becket writes"),
    ("shouldQuery", "acts"),
    ("timestamp", "the session has its own times"),
    ("client_composed", "acts"),
    ("uuid", "acts"),
    ("pasted_content", "acts"),
    ("inline_pastes", "their texts are in the message"),
    ("session_id", "a process has one session"),
    ("agent_id", "of lines that becket writes"),
    ("subagent_type", "of lines that becket writes"),
    ("task_description", "of lines that becket writes"),
];

#[test]
fn every_field_of_a_message_is_known() {
    let Some(types) = of_package("every_field_of_a_message_is_known", "sdk.d.ts") else { return };
    for (field, _) in fields(&types, "SDKUserMessage") {
        assert!(
            FIELDS.iter().any(|(known, _)| *known == field),
            "{field} is new: what does becket do with it?"
        );
    }
}

/// A message that asks for no turn has no result, and comes with the next one. Pasted texts are a part of their message.
#[test]
fn a_message_without_a_turn_comes_with_the_next_one() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("fine").into());
    let mut session = session(&bench, &server, "sdk-ts", &[]);
    let mut context = says("the build is broken");
    context["shouldQuery"] = json!(false);
    session.send(&context);
    session.send(&says("/status"));
    assert!(session.result()["result"].as_str().unwrap().starts_with("becket "));
    assert!(server.requests().is_empty());
    let mut question = says("why?");
    question["pasted_content"] = json!(["error: no such file"]);
    session.send(&question);
    assert_eq!(session.result()["result"], "fine");
    let sent = server.requests().remove(0).text().to_owned();
    let wanted =
        "the build is broken\\n\\nwhy?\\n\\n<pasted_content>\\nerror: no such file\\n</pasted_content>";
    assert!(sent.contains(wanted), "{sent}");
    session.send(&context);
    session.0.close_stdin();
    let ran = session.0.ended().expect(0);
    assert!(ran.stderr.contains("was not followed by another"), "{}", ran.stderr);
    assert_eq!(ran.lines().iter().filter(|line| line["type"] == "result").count(), 2);
}
