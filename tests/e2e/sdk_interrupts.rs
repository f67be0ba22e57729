//! Interrupts while a program of an SDK works for becket: it learns that nobody waits, and a late answer changes nothing.

use crate::sdk_answers::Session;
use crate::support::{Bench, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

/// The MCP message in a request to the program, and the request's id.
fn message(line: &Value) -> (&Value, &str) {
    (&line["request"]["message"], line["request_id"].as_str().unwrap())
}

fn respond(session: &mut Session, id: &str, response: &Value) {
    session.send(&json!({
        "type": "control_response", "response": { "subtype": "success", "request_id": id, "response": response },
    }));
}

/// Serves the MCP server `own` of the program until a tool is called. Returns the request with the call.
fn until_called(session: &mut Session) -> Value {
    loop {
        let line = session.line(&["\"mcp_message\""]);
        let (message, id) = message(&line);
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "own", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [{ "name": "wait", "inputSchema": { "type": "object" } }] }),
            "tools/call" => return line,
            _ => json!({}),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        respond(session, id, &json!({ "mcp_response": answer }));
    }
}

fn started(bench: &Bench, server: &MockServer) -> Session {
    let mut session = Session::start(bench, server, &["--permission-mode", "bypassPermissions"]);
    session.send(&json!({
        "type": "control_request", "request_id": "init",
        "request": { "subtype": "initialize", "hooks": null, "sdkMcpServers": ["own"] },
    }));
    session
}

#[test]
fn a_tool_of_the_program_is_cancelled_and_its_late_answer_has_no_effect() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("c1", "mcp__own__wait", json!({})),
        Answer::tool("c2", "mcp__own__wait", json!({})),
        Answer::text("went on"),
    ]);
    let mut session = started(&bench, &server);
    session.send(&says("go"));
    let call = until_called(&mut session);
    let (asked, id) = message(&call);
    session.send(
        &json!({ "type": "control_request", "request_id": "i", "request": { "subtype": "interrupt" } }),
    );
    // Two lines arrive, before or after the result: one makes the SDK give up the request, the other stops the server's work.
    let given_up = |line: &&Value| line["type"] == "control_cancel_request" && line["request_id"] == id;
    let is_told = |line: &&Value| line["request"]["message"]["method"] == "notifications/cancelled";
    let mut lines: Vec<Value> = Vec::new();
    let mut result = Value::Null;
    while result.is_null()
        || !lines.iter().any(|line| given_up(&line))
        || !lines.iter().any(|line| is_told(&line))
    {
        let line = session.line(&[""]);
        if line["type"] == "result" {
            result = line;
        } else {
            lines.push(line);
        }
    }
    assert_eq!(result["terminal_reason"], "aborted_tools", "{result}");
    assert_eq!(lines.iter().filter(given_up).count(), 1, "{lines:?}");
    let told: Vec<&Value> = lines.iter().filter(is_told).collect();
    assert_eq!(told.len(), 1, "{lines:?}");
    let (told, told_id) = message(told[0]);
    assert_eq!(told["params"]["requestId"], asked["id"], "{told}");
    respond(&mut session, told_id, &json!({ "mcp_response": { "jsonrpc": "2.0", "result": {} } }));

    // The late answer counts for no call: neither for the interrupted one, nor for the next.
    let answer = |id: &Value, text: &str| {
        let content = json!({ "content": [{ "type": "text", "text": text }] });
        json!({ "mcp_response": { "jsonrpc": "2.0", "id": id, "result": content } })
    };
    respond(&mut session, id, &answer(&asked["id"], "too late"));
    session.send(&says("again"));
    let call = until_called(&mut session);
    let (next, next_id) = message(&call);
    assert_ne!(next["id"], asked["id"]);
    respond(&mut session, id, &answer(&next["id"], "too late"));
    respond(&mut session, next_id, &answer(&next["id"], "in time"));
    let result = session.result();
    assert_eq!((&result["result"], &result["subtype"]), (&json!("went on"), &json!("success")), "{result}");
    session.0.wait().expect(0);
    let last = server.requests().last().unwrap().text().to_owned();
    assert!(last.contains("in time") && !last.contains("too late"), "{last}");
}

#[test]
fn a_question_and_a_hook_of_the_program_are_withdrawn() {
    let bench = Bench::new(&[]);
    let command = || json!({ "command": "touch made" });
    let server = MockServer::start([
        Answer::tool("c1", "bash", command()),
        Answer::tool("c2", "bash", command()),
        Answer::text("went on"),
    ]);
    let mut session = Session::start(&bench, &server, &["--permission-prompt-tool", "stdio"]);
    let hooks = json!({ "PreToolUse": [{ "matcher": null, "hookCallbackIds": ["h"] }] });
    session.ask(&json!({ "subtype": "initialize", "hooks": hooks }));
    for awaited in ["hook_callback", "can_use_tool"] {
        session.send(&says("go"));
        let mut asked = session.line(&["\"hook_callback\""]);
        if awaited == "can_use_tool" {
            let id = asked["request_id"].as_str().unwrap().to_owned();
            respond(&mut session, &id, &json!({}));
            asked = session.line(&["\"can_use_tool\""]);
        }
        let id = asked["request_id"].as_str().unwrap();
        session.send(
            &json!({ "type": "control_request", "request_id": "i", "request": { "subtype": "interrupt" } }),
        );
        let cancelled = session.line(&["control_cancel_request"]);
        assert_eq!(cancelled["request_id"], id, "{awaited}");
        // An agreement that comes too late runs nothing.
        respond(&mut session, id, &json!({ "behavior": "allow", "updatedInput": command() }));
    }
    session.send(&says("again"));
    session.result();
    session.0.wait();
    assert!(!bench.project.exists("made"));
}

/// A program may cancel a request that it has not sent yet, one that was answered, one twice, and one that nobody knows.
#[test]
fn a_cancellation_in_any_order_leaves_one_answer_for_each_request() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("done")]);
    // The server of the program is never answered, so requests about servers wait.
    let mut session = started(&bench, &server);
    let request =
        |id: &str, body: Value| json!({ "type": "control_request", "request_id": id, "request": body });
    let cost = || json!({ "subtype": "get_session_cost" });
    let cancel = |id: &str| json!({ "type": "control_cancel_request", "request_id": id });
    for line in [
        cancel("early"),
        request("early", cost()),
        cancel("early"),
        cancel("nobody"),
        request("held", json!({ "subtype": "mcp_reconnect", "serverName": "own" })),
        cancel("held"),
        cancel("held"),
        json!({ "type": "control_cancel_request" }),
        request("last", cost()),
    ] {
        session.send(&line);
    }
    let mut answers: Vec<(String, String)> = Vec::new();
    while answers.len() < 4 {
        let answer = session.line(&["\"control_response\""])["response"].clone();
        let word = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        let said = if word("subtype") == "error" { word("error") } else { word("subtype") };
        answers.push((word("request_id"), said));
    }
    answers.sort();
    let want = [
        ("early", "success"),
        ("held", "the request was withdrawn"),
        ("init", "success"),
        ("last", "success"),
    ];
    assert_eq!(answers, want.map(|(id, said)| (id.to_owned(), said.to_owned())));
    session.0.close_stdin();
    let ran = session.0.ended();
    assert!(ran.stderr.contains("a cancellation needs `request_id`"), "{}", ran.stderr);
    let more = ran.lines().iter().filter(|line| line["type"] == "control_response").count();
    assert_eq!(more, 4, "{}", ran.stdout);
}
