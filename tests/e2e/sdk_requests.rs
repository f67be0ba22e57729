//! Control requests that the official TypeScript SDK can send: each is answered with a success that is real, or with an error that
//! says what to use. The list is compared with the source of the installed package.

use crate::sdk_answers::Session;
use crate::sdk_types::of_package;
use crate::support::{Bench, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

/// The expected answer to a control request.
enum Answered {
    Success,
    /// An error with this text.
    Error(&'static str),
}

/// Requests with a body to try, and their answers. `mcp_toggle` and others need the server `fix`.
fn requests() -> Vec<(&'static str, Value, Answered)> {
    use Answered::{Error, Success};
    let none = || json!({});
    let server = || json!({ "serverName": "fix" });
    vec![
        ("apply_flag_settings", json!({ "settings": {} }), Success),
        ("background_tasks", none(), Success),
        ("can_use_tool", none(), Error("becket sends this request")),
        ("cancel_async_message", json!({ "message_uuid": "x" }), Success),
        ("channel_enable", none(), Error("send them as messages")),
        ("claim_session", none(), Error("start a process for each")),
        ("claude_authenticate", none(), Error("becket login")),
        ("claude_oauth_callback", none(), Error("becket login")),
        ("claude_oauth_wait_for_completion", none(), Error("becket login")),
        ("elicitation", none(), Error("becket sends this request")),
        ("export_conversation", none(), Error("becket export")),
        ("file_suggestions", json!({ "query": "a" }), Success),
        ("generate_session_title", json!({ "description": "a" }), Success),
        ("get_binary_version", none(), Success),
        ("get_chrome_browsers", none(), Error("add an MCP server")),
        ("get_chrome_dialog", none(), Error("add an MCP server")),
        ("get_context_usage", none(), Success),
        ("get_hooks_listing", none(), Success),
        ("get_memory_dialog", none(), Error("get_context_usage")),
        ("get_plan", none(), Error("ExitPlanMode")),
        ("get_sandbox_dialog", none(), Error("becket sandbox")),
        ("get_session_cost", none(), Success),
        ("get_settings", none(), Success),
        ("get_skills_dialog", none(), Error("reload_skills")),
        ("get_status", none(), Error("get_settings")),
        ("get_task_output", none(), Error("needs `task_id`")),
        ("get_usage", none(), Success),
        ("hook_callback", none(), Error("becket sends this request")),
        ("initialize", none(), Success),
        ("interrupt", none(), Success),
        ("list_models", none(), Success),
        ("list_permission_rules", none(), Success),
        ("mcp_authenticate", server(), Error("becket mcp login")),
        ("mcp_call", none(), Error("needs `tool`")),
        ("mcp_clear_auth", server(), Error("becket mcp logout")),
        ("mcp_message", none(), Error("becket sends this request")),
        ("mcp_oauth_callback_url", server(), Error("becket mcp login")),
        ("mcp_read_resource", none(), Error("needs `serverName` and `uri`")),
        ("mcp_reconnect", server(), Success),
        ("mcp_set_servers", json!({ "servers": {} }), Success),
        ("mcp_status", none(), Success),
        ("mcp_toggle", json!({ "serverName": "fix", "enabled": false }), Success),
        ("message_rated", none(), Error("no feedback")),
        ("prompt_draft_activity", none(), Error("suggests no prompts")),
        ("read_file", json!({ "path": "a.txt" }), Success),
        ("register_repo_root", json!({ "path": "." }), Success),
        ("reload_output_styles", none(), Success),
        ("reload_plugins", none(), Success),
        ("reload_skills", none(), Success),
        ("remote_control", none(), Error("on the other machine")),
        ("rename_session", json!({ "title": "t" }), Success),
        ("request_user_dialog", none(), Error("becket sends this request")),
        ("rewind_files", none(), Error("needs `user_message_id`")),
        ("seed_read_state", none(), Error("seed_read_state needs")),
        ("select_chrome_browser", none(), Error("add an MCP server")),
        ("set_chrome_browser_hints", none(), Error("add an MCP server")),
        ("set_color", none(), Error("chooses its own")),
        ("set_cwd", none(), Error("add_directory")),
        ("set_has_subscribers", none(), Success),
        ("set_max_thinking_tokens", json!({ "max_thinking_tokens": null }), Success),
        ("set_mcp_permission_mode_override", json!({ "serverName": "fix", "mode": "default" }), Success),
        ("set_model", json!({ "model": null }), Success),
        ("set_permission_mode", json!({ "mode": "default" }), Success),
        ("set_prompt_suggestions_paused", none(), Error("suggests no prompts")),
        ("side_question", none(), Error("needs `question`")),
        ("stop_task", none(), Error("needs `task_id`")),
        ("submit_feedback", none(), Error("no feedback")),
        ("submit_survey_feedback", none(), Error("no feedback")),
        ("ultrareview_launch", none(), Error("/review")),
        ("update_settings", none(), Error("update_settings")),
    ]
}

/// A request that a new version of the package can send fails here until somebody has decided about it.
#[test]
fn every_control_request_of_the_package_has_an_answer() {
    let test = "every_control_request_of_the_package_has_an_answer";
    let (Some(types), Some(source)) = (of_package(test, "sdk.d.ts"), of_package(test, "sdk.mjs")) else {
        return;
    };
    let word =
        |rest: &str| -> String { rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let mut sent: Vec<String> = source.split("this.request({subtype:\"").skip(1).map(word).collect();
    for declared in types.split("declare type SDKControl").skip(1) {
        let (name, body) = declared.split_once(" = {").unwrap_or_default();
        let body = body.split("\n};").next().unwrap_or_default();
        if name.ends_with("Request") && !name.contains(char::is_whitespace) {
            sent.extend(body.split("subtype: '").skip(1).take(1).map(word));
        }
    }
    sent.sort();
    sent.dedup();
    assert!(sent.len() > 60, "{sent:?}");
    let rows = requests();
    for name in &sent {
        let known = rows.iter().any(|(known, ..)| known == name);
        assert!(known, "the request {name} is new: how is it answered?");
    }
    let bench = Bench::new(&[("a.txt", "a\n")]);
    let config = json!({ "mcpServers": { "fix": crate::mcp::fixture(&[]) } }).to_string();
    let server = MockServer::with(|_| Answer::text("done").into());
    let mut session = Session::start(&bench, &server, &["--mcp-config", &config]);
    for (name, mut body, wanted) in rows {
        body["subtype"] = json!(name);
        let line = json!({ "type": "control_request", "request_id": name, "request": body });
        session.send(&line);
        let id = format!("\"request_id\":\"{name}\"");
        let answer = session.line(&["control_response", &id])["response"].clone();
        match wanted {
            Answered::Success => assert_eq!(answer["subtype"], "success", "{name}: {answer}"),
            Answered::Error(part) => {
                let why = answer["error"].as_str().unwrap_or_default();
                assert!(why.contains(part), "{name}: {answer}");
                assert!(!why.contains("docs/headless.md lists"), "{name} has no advice: {answer}");
            }
        }
    }
    session.0.wait();
}

/// A pinned server is asked about in a mode that asks about nothing.
#[test]
fn calls_of_a_pinned_server_are_asked_about() {
    let bench = Bench::new(&[]);
    let config = json!({ "mcpServers": { "fix": crate::mcp::fixture(&[]) } }).to_string();
    let call = |id: &str| Answer::tool(id, "mcp__fix__echo", json!({ "text": "hi" }));
    let server = MockServer::start([
        call("c1"),
        Answer::text("one"),
        call("c2"),
        Answer::text("two"),
        call("c3"),
        Answer::text("three"),
        call("c4"),
        Answer::text("four"),
    ]);
    let args = [
        "--permission-mode",
        "bypassPermissions",
        "--permission-prompt-tool",
        "stdio",
        "--mcp-config",
        &config,
    ];
    let mut session = Session::start(&bench, &server, &args);
    let pin = |mode: Value| json!({ "subtype": "set_mcp_permission_mode_override", "serverName": "fix", "mode": mode });
    assert_eq!(session.ask(&pin(json!("default"))), json!({}));
    session.send(&says("go"));
    let asked = session.line(&["can_use_tool"]);
    assert_eq!(asked["request"]["tool_name"], "mcp__fix__echo");
    let no = json!({ "subtype": "success", "request_id": asked["request_id"],
        "response": { "behavior": "deny", "message": "not now" } });
    session.send(&json!({ "type": "control_response", "response": no }));
    session.result();
    assert!(server.requests()[1].text().contains("not now"));
    // `auto` asks too, unless a rule allows the call.
    assert_eq!(session.ask(&pin(json!("auto"))), json!({}));
    session.send(&says("again"));
    let asked = session.line(&["can_use_tool"]);
    let allow = json!({ "type": "addRules", "rules": [{ "toolName": "mcp__fix__echo" }], "behavior": "allow", "destination": "session" });
    let yes = json!({ "subtype": "success", "request_id": asked["request_id"], "response":
        { "behavior": "allow", "updatedInput": asked["request"]["input"], "updatedPermissions": [allow] } });
    session.send(&json!({ "type": "control_response", "response": yes }));
    assert_eq!(session.result()["result"], "two");
    session.send(&says("a third time"));
    assert_eq!(session.result()["result"], "three", "the rule of the answer allows the call");
    // `default` asks in spite of the rule, and `null` about nothing.
    assert_eq!(session.ask(&pin(json!("default"))), json!({}));
    assert_eq!(session.ask(&pin(Value::Null)), json!({}));
    session.send(&says("at last"));
    assert_eq!(session.result()["result"], "four");
    assert!(!server.requests()[7].text().contains("Permission denied, not run: mcp__fix"));
    let unknown =
        json!({ "subtype": "set_mcp_permission_mode_override", "serverName": "gone", "mode": "default" });
    assert!(session.ask(&unknown)["warning"].as_str().unwrap().contains("gone"));
    session.0.wait();
}

#[test]
fn only_a_running_call_is_moved_to_the_background() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("call_1", "bash", json!({ "command": "touch begun; sleep 600", "timeout": 600_000 })),
        Answer::text("done"),
    ]);
    let mut session = Session::start(&bench, &server, &["--permission-mode", "bypassPermissions"]);
    let moves = |call: &str| json!({ "subtype": "background_tasks", "tool_use_id": call });
    assert_eq!(session.ask(&moves("call_1")), json!({ "backgrounded": false }));
    session.send(&says("go"));
    let begun = bench.project.root().join("begun");
    let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !begun.exists() {
        assert!(std::time::Instant::now() < end, "the command did not run");
        std::thread::yield_now();
    }
    assert_eq!(session.ask(&moves("call_1")), json!({ "backgrounded": true }));
    assert_eq!(session.result()["result"], "done");
    let seen = session.0.wait().stdout;
    assert!(
        seen.contains("the user moved it to the background") && !seen.contains("timedOutAfterMs"),
        "{seen}"
    );
}
