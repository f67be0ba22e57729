//! Requests of a driving program about a session that runs: background commands, settings, files, lists. Each gets one answer.

use crate::support::{Api, Bench, Running, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A driven session.
struct Session {
    running: Running,
    next: u32,
}

impl Session {
    fn start(bench: &Bench, server: &MockServer, args: &[&str]) -> Self {
        let mut command = bench.print(Api::Anthropic, server);
        command
            .args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"])
            .args(args);
        Self { running: Running::start(&mut command), next: 0 }
    }

    /// Returns the whole answer to a request.
    fn answer(&mut self, body: &Value) -> Value {
        self.next += 1;
        let id = format!("q{}", self.next);
        let line = json!({ "type": "control_request", "request_id": id, "request": body });
        self.running.send(format!("{line}\n").as_bytes());
        let wanted = format!("\"request_id\":\"{id}\"");
        let answer = self.running.line(|line| line.contains("control_response") && line.contains(&wanted));
        serde_json::from_str::<Value>(&answer).unwrap()["response"].clone()
    }

    /// Returns the response to a request that succeeds.
    fn ask(&mut self, body: Value) -> Value {
        let answer = self.answer(&body);
        assert_eq!(answer["subtype"], "success", "{body}: {answer}");
        answer["response"].clone()
    }

    /// Returns the reason why a request is refused.
    fn refusal(&mut self, body: Value) -> String {
        let answer = self.answer(&body);
        assert_eq!(answer["subtype"], "error", "{body}: {answer}");
        answer["error"].as_str().unwrap().to_owned()
    }

    /// Answers a request of becket.
    fn respond(&mut self, asked: &Value, answer: Value) {
        let response = json!({ "subtype": "success", "request_id": asked["request_id"], "response": answer });
        let line = json!({ "type": "control_response", "response": response });
        self.running.send(format!("{line}\n").as_bytes());
    }

    fn turn(&mut self, text: &str) -> Value {
        self.running.send(format!("{}\n", says(text)).as_bytes());
        self.line(&["\"type\":\"result\""])
    }

    fn line(&mut self, parts: &[&str]) -> Value {
        let line = self.running.line(|line| parts.iter().all(|part| line.contains(part)));
        serde_json::from_str(&line).unwrap()
    }
}

/// A `Stop` hook that a program adds sends the model back once, like one in a settings file.
#[test]
fn a_stop_hook_of_a_program_sends_the_model_back_once() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("done").into());
    let mut session = Session::start(&bench, &server, &[]);
    let hooks = json!({ "Stop": [{ "hookCallbackIds": ["at_the_end"] }] });
    session.ask(json!({ "subtype": "initialize", "hooks": hooks }));
    session.running.send(format!("{}\n", says("go")).as_bytes());
    for (active, answer) in
        [(false, json!({ "decision": "block", "reason": "run the tests, too" })), (true, json!({}))]
    {
        let asked = session.line(&["hook_callback", "at_the_end"]);
        assert_eq!(asked["request"]["input"]["stop_hook_active"], active, "{asked}");
        let response = json!({ "subtype": "success", "request_id": asked["request_id"], "response": answer });
        let line = json!({ "type": "control_response", "response": response });
        session.running.send(format!("{line}\n").as_bytes());
    }
    assert_eq!(session.line(&["\"type\":\"result\""])["subtype"], "success");
    assert!(server.requests()[1].text().contains("run the tests, too"));
}

/// A rewind to a message that is not there is answered, and does not block the next one.
#[test]
fn a_rewind_to_an_unknown_message_is_refused_and_the_next_one_works() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("done").into());
    let mut session = Session::start(&bench, &server, &[]);
    session.turn("go");
    for unknown in
        ["00000000-0000-4000-8000-000000000000", "01890a5d-ac96-774b-bcce-b302099a8057", "nonsense"]
    {
        let why = session.refusal(json!({ "subtype": "rewind_files", "user_message_id": unknown }));
        assert!(why.contains("no such message") || why.contains("no user message"), "{unknown}: {why}");
    }
}

/// A value that cannot be meant changes nothing, neither the model nor the effort.
#[test]
fn a_model_or_an_effort_of_a_wrong_form_is_refused() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("done").into());
    let mut session = Session::start(&bench, &server, &[]);
    for (body, part) in [
        (json!({ "subtype": "set_model", "model": 3 }), "must be a string or null, not 3"),
        (
            json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": "x" }),
            "must be a whole number of at least 0, or null",
        ),
        (
            json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": -1 }),
            "must be a whole number of at least 0, or null",
        ),
    ] {
        let why = session.refusal(body.clone());
        assert!(why.contains(part), "{body}: {why}");
    }
    session.ask(json!({ "subtype": "set_model", "model": null }));
    session.ask(json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": null }));
}

const BYPASS: [&str; 2] = ["--permission-mode", "bypassPermissions"];

#[test]
fn commands_in_the_background_are_tasks_that_a_program_can_read_and_stop() {
    let bench = Bench::new(&[]);
    let background = |id: &str, command: &str| {
        let input = json!({ "command": command, "background": "now", "description": format!("run {id}") });
        Answer::tool(id, "bash", input)
    };
    let server = MockServer::start([
        background("call_1", "until [ -e go ]; do sleep 0.02; done; echo all of it"),
        background("call_2", "echo it waits; sleep 600"),
        Answer::text("both run"),
        Answer::text("noticed"),
    ]);
    let mut session = Session::start(&bench, &server, &BYPASS);
    session.running.send(format!("{}\n", says("go")).as_bytes());
    let started = session.line(&["task_started", "call_1"]);
    assert_eq!((&started["task_id"], &started["task_type"]), (&json!("1"), &json!("local_bash")));
    assert_eq!((&started["is_backgrounded"], &started["description"]), (&json!(true), &json!("run call_1")));
    let listed = session.line(&["background_tasks_changed", "run call_2"]);
    let ids: Vec<&Value> = listed["tasks"].as_array().unwrap().iter().map(|task| &task["task_id"]).collect();
    assert_eq!(ids, ["1", "2"]);
    session.line(&["\"type\":\"result\""]);

    // The command is known before its shell has printed anything.
    let printed = json!({ "output": "it waits\n", "total_bytes": 9, "truncated": false });
    let read = json!({ "subtype": "get_task_output", "task_id": "2" });
    let deadline = Instant::now() + Duration::from_mins(1);
    while session.ask(read.clone()) != printed {
        assert!(Instant::now() < deadline, "the command printed nothing");
    }

    assert!(session.refusal(json!({ "subtype": "get_task_output", "task_id": "9" })).contains("\"9\""));
    assert!(session.refusal(json!({ "subtype": "stop_task", "task_id": "9" })).contains("no task"));
    let stop = json!({ "type": "control_request", "request_id": "stop", "request": { "subtype": "stop_task", "task_id": "2" } });
    session.running.send(format!("{stop}\n").as_bytes());
    let updated = session.line(&["task_updated", "\"2\""]);
    assert_eq!(updated["patch"]["status"], "killed");
    assert!(updated["patch"]["end_time"].as_u64().unwrap() > 1_700_000_000_000);
    assert_eq!(session.line(&["task_notification", "\"2\""])["status"], "stopped");
    let left = session.line(&["background_tasks_changed"]);
    assert_eq!(left["tasks"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(session.ask(read), printed);

    std::fs::write(bench.project.root().join("go"), "").unwrap();
    let ended = session.line(&["task_notification", "\"task_id\":\"1\""]);
    assert_eq!((&ended["status"], &ended["tool_use_id"]), (&json!("completed"), &json!("call_1")));
    let output = std::fs::read_to_string(ended["output_file"].as_str().unwrap()).unwrap();
    assert_eq!(output, "all of it\n");
    let none = session.line(&["background_tasks_changed"]);
    assert_eq!(none["tasks"], json!([]));
    // The end of the command is a turn of its own.
    assert_eq!(session.line(&["\"type\":\"result\""])["result"], "noticed");
    session.running.wait().expect(0);
}

#[test]
fn settings_and_rules_are_those_of_now_and_change_with_the_next_request() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("call_1", "bash", json!({ "command": "touch made" })),
        Answer::text("denied"),
        Answer::text("again"),
    ]);
    let allowed = ["--allowedTools", "Bash(touch:*)"];
    let mut session = Session::start(&bench, &server, &allowed);
    session.ask(json!({ "subtype": "initialize", "hooks": null }));
    let before = session.ask(json!({ "subtype": "get_settings" }));
    assert_eq!(before["applied"], json!({ "model": "claude-sonnet-4-5", "effort": null }));
    let change = json!({
        "model": "claude-opus-4-5", "effortLevel": "high",
        "permissions": { "deny": ["Bash(touch:*)"], "allow": ["Read(/srv/**)"], "defaultMode": "acceptEdits" },
    });
    session.ask(json!({ "subtype": "apply_flag_settings", "settings": change }));
    let now = session.ask(json!({ "subtype": "get_settings" }));
    assert_eq!(now["applied"], json!({ "model": "claude-opus-4-5", "effort": "high" }));
    assert_eq!(now["effective"]["permissions"]["defaultMode"], "acceptEdits");
    assert_eq!(now["effective"]["permissions"]["deny"], json!(["Bash(touch:*)"]));
    let flags = now["sources"].as_array().unwrap().iter().find(|s| s["source"] == "flagSettings").unwrap();
    assert_eq!(flags["settings"]["effortLevel"], "high");
    let rules = session.ask(json!({ "subtype": "list_permission_rules" }))["state"]["rules"].clone();
    let rule =
        |behavior: &str| rules.as_array().unwrap().iter().find(|rule| rule["behavior"] == behavior).cloned();
    assert_eq!(
        rule("deny").unwrap(),
        json!({ "behavior": "deny", "source": "flagSettings", "rule": "Bash(touch:*)", "editability": "session" })
    );
    assert_eq!(rule("allow").unwrap()["source"], "cliArg");

    session.turn("go");
    assert!(!bench.project.root().join("made").exists(), "a rule that was set while the session runs holds");
    let body = server.requests()[0].json();
    assert_eq!(body["model"], "claude-opus-4-5");
    session.ask(json!({ "subtype": "apply_flag_settings", "settings": { "model": null, "effortLevel": null, "permissions": null } }));
    let reset = session.ask(json!({ "subtype": "get_settings" }));
    assert_eq!(reset["applied"], before["applied"]);
    assert_eq!(reset["effective"]["permissions"]["deny"], json!([]));

    for (wrong, why) in [
        (json!({ "effortLevel": "huge" }), "low, medium"),
        (json!({ "outputStyle": "loud" }), "outputStyle"),
        (json!({ "permissions": { "defaultMode": "bold" } }), "bold"),
        (json!({ "permissions": { "deny": ["Bash("] } }), "Bash("),
        (json!({ "model": "nope/x" }), "nope"),
    ] {
        let said = session.refusal(json!({ "subtype": "apply_flag_settings", "settings": wrong }));
        assert!(said.contains(why), "{wrong}: {said}");
    }
    session.refusal(json!({ "subtype": "update_settings", "source": "userSettings", "settings": {} }));
    session.ask(json!({ "subtype": "update_settings", "source": "userSettings", "settings": { "effortLevel": "low" } }));
    assert!(bench.home.read(".config/becket/config.toml").contains("effort = \"low\""));
    let kept = session.ask(json!({ "subtype": "get_settings" }));
    assert_eq!(kept["applied"], before["applied"], "it counts for later sessions");
    session.running.wait().expect(0);
}

#[test]
fn files_are_read_within_the_rules_and_a_seeded_file_is_edited_without_a_read() {
    let bench = Bench::new(&[("a.txt", "one\n"), ("secret.txt", "hush\n"), ("src/deep.rs", "")]);
    let edit = json!({ "path": "a.txt", "old": "one", "new": "two" });
    let server = MockServer::start([
        Answer::tool("call_1", "edit", edit),
        Answer::text("done"),
        Answer::text("later"),
    ]);
    let args = ["--permission-mode", "acceptEdits", "--disallowedTools", "Read(./secret.txt)"];
    let mut session = Session::start(&bench, &server, &args);
    let read = |path: &str| json!({ "subtype": "read_file", "path": path });
    let file = session.ask(read("a.txt"));
    assert_eq!((&file["contents"], &file["lossy"]), (&json!("one\n"), &json!(false)));
    assert!(file["absPath"].as_str().unwrap().ends_with("/a.txt"));
    let part =
        session.ask(json!({ "subtype": "read_file", "path": "a.txt", "max_bytes": 2, "encoding": "base64" }));
    assert_eq!((&part["contents"], &part["truncated"]), (&json!("b24="), &json!(true)));
    std::os::unix::fs::symlink("secret.txt", bench.project.root().join("link")).unwrap();
    for path in ["secret.txt", "link", "/etc/hostname", "none.txt"] {
        session.refusal(read(path));
    }
    let found = session.ask(json!({ "subtype": "file_suggestions", "query": "deep" }));
    assert_eq!(found["suggestions"][0]["path"], "src/deep.rs");

    let changed = std::fs::metadata(bench.project.root().join("a.txt")).unwrap().modified().unwrap();
    let mtime = changed.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    session.ask(json!({ "subtype": "seed_read_state", "path": "a.txt", "mtime": mtime }));
    session.turn("go");
    assert_eq!(std::fs::read_to_string(bench.project.root().join("a.txt")).unwrap(), "two\n");
    let usage = session.ask(json!({ "subtype": "get_usage" }));
    assert_eq!(usage["session"]["total_lines_added"], 1, "{usage}");
    assert_eq!(usage["session"]["total_lines_removed"], 1);
    assert!(usage["session"]["model_usage"]["claude-sonnet-4-5"]["outputTokens"].is_u64());
    assert_eq!((&usage["rate_limits_available"], &usage["rate_limits"]), (&json!(false), &Value::Null));
    session.running.wait().expect(0);
}

#[test]
fn lists_and_side_questions_are_answered_and_unknown_requests_refused() {
    let hook = json!({ "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [
        { "type": "command", "command": "true", "timeout": 5 },
    ] }] } });
    let bench = Bench::new(&[]);
    std::fs::create_dir_all(bench.home.root().join(".claude")).unwrap();
    std::fs::write(bench.home.root().join(".claude/settings.json"), hook.to_string()).unwrap();
    let server = MockServer::with(|request| {
        let text = if request.text().contains("question beside") { "in b.rs" } else { "done" };
        Answer::text(text).into()
    });
    let mut session = Session::start(&bench, &server, &BYPASS);
    let greeting = session.ask(json!({ "subtype": "initialize", "hooks": null }));
    let models = session.ask(json!({ "subtype": "list_models" }))["models"].clone();
    assert_eq!(models, greeting["models"]);
    let models = models.as_array().unwrap();
    assert_eq!(
        (&models[0]["value"], &models[0]["resolvedModel"]),
        (&json!("default"), &json!("claude-sonnet-4-5"))
    );
    assert!(models.len() > 3, "the models of the key that is there");
    assert!(models.iter().all(|model| model["displayName"].is_string()));

    let listing = session.ask(json!({ "subtype": "get_hooks_listing" }));
    assert_eq!(listing["events"][0]["name"], "PreToolUse");
    let row = &listing["hooks"][0];
    assert_eq!((&row["source"], &row["matcher"]), (&json!("userSettings"), &json!("Bash")));
    assert_eq!((&row["commandText"], &row["timeout"]), (&json!("true"), &json!(5.0)));
    assert!(listing["eventCatalog"].as_array().unwrap().len() > 30);
    let again = json!({ "PostToolUse": [{ "hookCallbackIds": ["h1"] }] });
    session.ask(json!({ "subtype": "initialize", "hooks": again }));
    session.ask(json!({ "subtype": "initialize", "hooks": again }));
    let listing = session.ask(json!({ "subtype": "get_hooks_listing" }));
    let callbacks = listing["hooks"].as_array().unwrap().iter().filter(|row| row["type"] == "callback");
    assert_eq!(callbacks.count(), 1, "a repeated initialize replaces its hooks");

    session.turn("go");
    let side = session.ask(json!({ "subtype": "side_question", "question": "where is it?" }));
    assert_eq!(side, json!({ "response": "in b.rs", "synthetic": false }));
    let title =
        json!({ "subtype": "generate_session_title", "description": "Fix it\nsoon", "persist": true });
    assert_eq!(session.ask(title), json!({ "title": "Fix it" }));
    let plugins = session.ask(json!({ "subtype": "reload_plugins" }));
    assert_eq!((&plugins["plugins"], &plugins["error_count"]), (&json!([]), &json!(0)));
    assert!(plugins["commands"].as_array().unwrap().iter().any(|command| command["name"] == "compact"));
    let styles = session.ask(json!({ "subtype": "reload_output_styles" }));
    assert_eq!(styles, json!({ "available_output_styles": ["default"] }));
    for subtype in
        ["mcp_call", "mcp_read_resource", "side_question", "seed_read_state", "set_cwd", "frobnicate"]
    {
        session.refusal(json!({ "subtype": subtype }));
    }
    session.running.wait().expect(0);
}

#[test]
fn an_interrupt_can_discard_the_prompts_that_wait() {
    let bench = Bench::new(&[]);
    let wait = json!({ "command": "touch began; sleep 600" });
    let server = MockServer::start([Answer::tool("call_1", "bash", wait), Answer::text("after")]);
    let mut session = Session::start(&bench, &server, &BYPASS);
    session.running.send(format!("{}\n", says("go")).as_bytes());
    session.line(&["assistant", "call_1"]);
    let mut queued = says("and then?");
    queued["uuid"] = json!("00000000-0000-4000-8000-000000000001");
    queued["priority"] = json!("later");
    session.running.send(format!("{queued}\n").as_bytes());
    let receipt = session.ask(json!({ "subtype": "interrupt", "cancel_queued": true }));
    assert_eq!(receipt, json!({ "still_queued": [], "cancelled": ["00000000-0000-4000-8000-000000000001"] }));
    session.line(&["\"type\":\"result\""]);
    let ran = session.running.wait().expect(130);
    assert_eq!(server.requests().len(), 1, "the discarded prompt starts no turn: {}", ran.stdout);
}

/// A program must not take a change for done that was not made.
#[test]
fn a_request_that_changes_nothing_is_answered_with_an_error() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let server = MockServer::start([
        Answer::tool("c1", "Write", json!({ "file_path": "b.txt", "content": "two\n" })),
        Answer::text("done"),
    ]);
    let mut session = Session::start(&bench, &server, &["--permission-mode", "bypassPermissions"]);
    session.ask(json!({ "subtype": "initialize" }));
    for (request, part) in [
        (json!({ "subtype": "undo" }), ""),
        (json!({ "subtype": "redo" }), ""),
        (json!({ "subtype": "carry_out", "plan": 7 }), "is out of date"),
        (
            json!({ "subtype": "change_context", "change": "collapse", "items": ["call_9"] }),
            "Nothing was changed",
        ),
        (json!({ "subtype": "edit_compaction", "plan": 7, "summary": "s" }), "is out of date"),
    ] {
        let why = session.refusal(request.clone());
        assert!(!why.is_empty() && why.contains(part), "{request}: {why}");
    }
    session.turn("write");
    assert!(bench.project.exists("b.txt"));
    session.ask(json!({ "subtype": "undo" }));
    let plan = session.line(&["undo_planned"])["plan"].clone();
    session.ask(json!({ "subtype": "carry_out", "plan": plan }));
    session.line(&["undo_done"]);
    assert!(!bench.project.exists("b.txt"));
    assert!(session.refusal(json!({ "subtype": "carry_out", "plan": plan })).contains("is out of date"));
}

#[test]
fn a_program_learns_that_the_work_at_an_address_is_done() {
    let bench = Bench::new(&[]);
    let server =
        MockServer::start([Answer::tool("c1", "mcp__fix__visit", json!({})), Answer::text("all done")]);
    let config = json!({ "mcpServers": { "fix": crate::mcp::fixture(&["visits"]) } }).to_string();
    let mut session =
        Session::start(&bench, &server, &["--permission-mode", "bypassPermissions", "--mcp-config", &config]);
    session.running.send(format!("{}\n", says("go")).as_bytes());
    let asked = session.line(&["control_request", "elicitation"]);
    let request = &asked["request"];
    assert_eq!((&request["mode"], &request["elicitation_id"]), (&json!("url"), &json!("visit-1")));
    let response = json!({ "subtype": "success", "request_id": asked["request_id"], "response": { "action": "accept" } });
    let line = json!({ "type": "control_response", "response": response });
    session.running.send(format!("{line}\n").as_bytes());
    let done = session.line(&["elicitation_complete"]);
    assert_eq!((&done["mcp_server_name"], &done["elicitation_id"]), (&json!("fix"), &json!("visit-1")));
    assert!(
        done["session_id"].as_str().is_some_and(|id| !id.is_empty()) && done["uuid"].is_string(),
        "{done}"
    );
    session.line(&["\"type\":\"result\""]);
    session.running.wait().expect(0);
}

/// A session that was started without permission for it never stops asking, whichever request wants that. A refused request
/// changes nothing.
#[test]
fn a_session_enters_bypass_permissions_only_with_permission_from_its_start() {
    for (args, may) in [
        (&[][..], false),
        (&["--permission-mode", "acceptEdits"][..], false),
        (&["--allow-dangerously-skip-permissions"][..], true),
        (&["--dangerously-skip-permissions"][..], true),
        (&BYPASS[..], true),
    ] {
        let bench = Bench::new(&[]);
        let server = MockServer::with(|_| Answer::text("done").into());
        let mut session = Session::start(&bench, &server, args);
        let permissions = json!({ "deny": ["WebFetch"], "defaultMode": "bypassPermissions" });
        for body in [
            json!({ "subtype": "set_permission_mode", "mode": "bypassPermissions" }),
            json!({ "subtype": "apply_flag_settings", "settings": { "permissions": permissions } }),
        ] {
            session.ask(json!({ "subtype": "set_permission_mode", "mode": "plan" }));
            if may {
                session.ask(body);
            } else {
                let why = session.refusal(body);
                assert!(why.contains("not launched with --dangerously-skip-permissions"), "{args:?}: {why}");
            }
            let now = session.ask(json!({ "subtype": "get_settings" }))["effective"]["permissions"].clone();
            let mode = if may { "bypassPermissions" } else { "plan" };
            assert_eq!(now["defaultMode"], mode, "{args:?}");
            assert!(may || now["deny"] == json!([]), "{args:?}: {now}");
        }
    }
}

/// The answer to a permission question cannot turn off the next question.
#[test]
fn an_answer_does_not_set_bypass_permissions() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("call_1", "bash", json!({ "command": "touch one" })),
        Answer::tool("call_2", "bash", json!({ "command": "touch two" })),
        Answer::text("done"),
    ]);
    let mut session = Session::start(&bench, &server, &["--permission-prompt-tool", "stdio"]);
    session.running.send(format!("{}\n", says("go")).as_bytes());
    let asked = session.line(&["can_use_tool", "touch one"]);
    let update = json!({ "type": "setMode", "mode": "bypassPermissions", "destination": "session" });
    let allow = json!({
        "behavior": "allow", "updatedInput": asked["request"]["input"], "updatedPermissions": [update],
    });
    session.respond(&asked, allow);
    let asked = session.line(&["can_use_tool", "touch two"]);
    session.respond(&asked, json!({ "behavior": "deny", "message": "no" }));
    session.line(&["\"type\":\"result\""]);
    let exists = |name: &str| bench.project.root().join(name).exists();
    assert_eq!((exists("one"), exists("two")), (true, false));
}

/// Rules in the managed settings of the host hold in every mode, and no request or answer of the session removes them.
#[test]
fn managed_settings_of_the_host_cannot_be_removed() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("call_1", "bash", json!({ "command": "mkdir one" })),
        Answer::tool("call_2", "bash", json!({ "command": "touch denied" })),
        Answer::tool("call_3", "bash", json!({ "command": "mkdir two" })),
        Answer::text("done"),
    ]);
    let managed = r#"{"permissions":{"deny":["Bash(touch:*)"],"ask":["Bash(mkdir:*)"]}}"#;
    let args = ["--managed-settings", managed, "--permission-prompt-tool", "stdio", BYPASS[0], BYPASS[1]];
    let mut session = Session::start(&bench, &server, &args);
    let rules = session.ask(json!({ "subtype": "list_permission_rules" }))["state"]["rules"].clone();
    for behavior in ["deny", "ask"] {
        let rule = rules.as_array().unwrap().iter().find(|rule| rule["behavior"] == behavior).unwrap();
        assert_eq!((&rule["source"], &rule["editability"]), (&json!("policySettings"), &json!("readonly")));
    }
    let permissions = json!({ "allow": ["Bash"], "ask": [], "deny": [] });
    session.ask(json!({ "subtype": "apply_flag_settings", "settings": { "permissions": permissions } }));
    session.running.send(format!("{}\n", says("go")).as_bytes());
    let remove = |behavior: &str, content: &str| {
        let rules = json!([{ "toolName": "Bash", "ruleContent": content }]);
        json!({ "type": "removeRules", "behavior": behavior, "rules": rules, "destination": "session" })
    };
    let asked = session.line(&["can_use_tool", "mkdir one"]);
    let allow = json!({
        "behavior": "allow", "updatedInput": asked["request"]["input"],
        "updatedPermissions": [remove("deny", "touch:*"), remove("ask", "mkdir:*")],
    });
    session.respond(&asked, allow);
    let asked = session.line(&["can_use_tool", "mkdir two"]);
    session.respond(&asked, json!({ "behavior": "deny", "message": "no" }));
    session.line(&["\"type\":\"result\""]);
    let exists = |name: &str| bench.project.root().join(name).exists();
    assert_eq!((exists("one"), exists("denied"), exists("two")), (true, false, false));
}
