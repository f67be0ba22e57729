//! Inputs of calls that are longer than a line that the SDKs read (1 MiB): a program sees a part of them, and none of them is carried
//! out in part.

use crate::sdk_answers::Session;
use crate::support::{Api, Bench, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

fn long() -> String {
    "a line of the file\n".repeat(80_000)
}

/// A session of a model whose window has room for long inputs.
fn session(bench: &Bench, server: &MockServer, flags: &[&str]) -> Session {
    let mut becket = bench.print(Api::Chat, server);
    becket.args(["--context-window", "4000000"]);
    Session::run(becket, flags)
}

fn respond(session: &mut Session, request: &Value, response: &Value) {
    session.send(&json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": request["request_id"], "response": response },
    }));
}

/// The Python SDK returns the input that it got, if the program allows a call as it is.
#[test]
fn a_long_input_that_a_program_allows_is_carried_out_whole() {
    for by_hook in [false, true] {
        let bench = Bench::new(&[]);
        let content = long();
        let server = MockServer::start([
            Answer::tool("c1", "write", json!({ "path": "a.txt", "content": content })).deltas(0),
            Answer::text("done"),
        ]);
        let flags: &[&str] = if by_hook {
            &["--permission-mode", "acceptEdits"]
        } else {
            &["--permission-prompt-tool", "stdio"]
        };
        let mut session = session(&bench, &server, flags);
        let hooks = json!({ "PreToolUse": [{ "matcher": "Write", "hookCallbackIds": ["h"] }] });
        session.ask(&json!({ "subtype": "initialize", "hooks": by_hook.then_some(hooks) }));
        session.send(&says("go"));
        let kind = if by_hook { "\"hook_callback\"" } else { "\"can_use_tool\"" };
        let asked = session.line(&[kind]);
        assert!(asked.to_string().len() < 1024 * 1024);
        let mut input = asked["request"]["input"].clone();
        if by_hook {
            input = input["tool_input"].take();
        }
        assert!(input["content"].as_str().unwrap().contains("bytes left out of this line"));
        // The path is changed, and the text is left as it was shown.
        let path = bench.project.path("b.txt");
        input["file_path"] = json!(path);
        let answer = if by_hook {
            json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": input } })
        } else {
            json!({ "behavior": "allow", "updatedInput": input })
        };
        respond(&mut session, &asked, &answer);
        let result = session.result();
        assert_eq!(result["result"], "done", "{result}");
        session.0.wait().expect(0);
        assert!(!bench.project.exists("a.txt"));
        assert!(bench.project.read("b.txt") == content, "by the hook: {by_hook}");
    }
}

#[test]
fn a_server_of_the_program_does_not_get_a_part_of_its_arguments() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("c1", "mcp__own__keep", json!({ "text": long() })).deltas(0),
        Answer::text("done"),
    ]);
    let mut session = session(&bench, &server, &["--permission-mode", "bypassPermissions"]);
    session.send(&json!({
        "type": "control_request", "request_id": "init",
        "request": { "subtype": "initialize", "hooks": null, "sdkMcpServers": ["own"] },
    }));
    session.send(&says("go"));
    let result = loop {
        let line = session.line(&[""]);
        if line["type"] == "result" {
            break line;
        }
        let message = &line["request"]["message"];
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "own", "version": "1" },
            }),
            Some("tools/list") => {
                json!({ "tools": [{ "name": "keep", "inputSchema": { "type": "object" } }] })
            }
            Some("tools/call") => panic!("the server got a part: {}", line["request_id"]),
            Some(_) => json!({}),
            None => continue,
        };
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        respond(&mut session, &line, &json!({ "mcp_response": answer }));
    };
    assert_eq!(result["result"], "done", "{result}");
    session.0.wait().expect(0);
    let told = server.requests().last().unwrap().text().to_owned();
    assert!(told.contains("longer than 1 MiB"), "{}", &told[told.len() - 2000..]);
}
