//! Turns as programs of the Claude Agent SDK see them: totals, ends that a hook caused, turns for commands in the background, what
//! hooks give the model and commands, transcripts for hooks, and options of the SDK.

use crate::sandbox::skipped;
use crate::sdk_answers::Session;
use crate::support::{Api, Bench, run, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

const BYPASS: [&str; 2] = ["--permission-mode", "bypassPermissions"];

/// A bench whose user has one command hook.
fn with_hook(event: &str, command: &str) -> Bench {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let hooks = json!({ "hooks": { event: [{ "hooks": [{ "type": "command", "command": command }] }] } });
    bench.home.write(".claude/settings.json", hooks.to_string());
    bench
}

fn bash(id: &str, command: &str) -> Answer {
    Answer::tool(id, "bash", json!({ "command": command }))
}

/// The text that the model was sent last.
fn last_text(server: &MockServer) -> String {
    server.requests().last().unwrap().text().to_owned()
}

#[test]
fn cost_and_usage_of_models_are_those_of_all_turns() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("done").into());
    let mut session = Session::start(&bench, &server, &[]);
    let mut turn = |text: &str| {
        session.send(&says(text));
        session.result()
    };
    let tokens = |result: &Value| -> u64 {
        let models = result["modelUsage"].as_object().unwrap();
        models.values().map(|model| model["outputTokens"].as_u64().unwrap()).sum()
    };
    let first = turn("one");
    let second = turn("two");
    let cost = |result: &Value| result["total_cost_usd"].as_f64().unwrap();
    assert!(cost(&first) > 0.0, "{first}");
    assert!(cost(&second) > 1.5 * cost(&first), "{first} {second}");
    assert_eq!(tokens(&second), 2 * tokens(&first));
    assert_eq!(second["usage"]["output_tokens"], first["usage"]["output_tokens"], "of the turn alone");
    let third = turn("/cost");
    assert_eq!(third["total_cost_usd"], second["total_cost_usd"]);
    session.0.wait().expect(0);
}

#[test]
fn a_refused_prompt_is_a_result_and_no_failure() {
    let bench = with_hook("UserPromptSubmit", "grep -q good || { echo not this >&2; exit 2; }");
    let server = MockServer::start([Answer::text("fine")]);
    let mut session = Session::start(&bench, &server, &[]);
    let mut bad = says("bad");
    bad["uuid"] = json!("11111111-1111-4111-8111-111111111111");
    session.send(&bad);
    assert_eq!(session.line(&["\"init\""])["type"], "system");
    let result = session.result();
    assert_eq!(result["user_message_uuid"], bad["uuid"], "the program learns which message was refused");
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)), "{result}");
    let text = result["result"].as_str().unwrap();
    assert!(text.starts_with("UserPromptSubmit operation blocked by hook:\n"), "{text}");
    assert!(text.contains("not this") && text.ends_with("\n\nOriginal prompt: bad"), "{text}");
    assert_eq!((&result["num_turns"], result.get("errors")), (&json!(0), None), "{result}");
    session.send(&says("good"));
    assert_eq!(session.result()["result"], "fine");
    session.0.wait().expect(0);
    // A script that does not read lines must not take the refusal for an answer, so the exit code is 1.
    let server = MockServer::start([Answer::text("never")]);
    run(bench.print(Api::Anthropic, &server).arg("bad")).expect(1);
}

#[test]
fn a_hook_that_ends_the_turn_makes_no_failure() {
    let stop = r#"echo '{"continue":false,"stopReason":"halt now"}'"#;
    for (event, reason, text) in [
        ("PreToolUse", "hook_stopped", ""),
        ("PostToolUse", "hook_stopped", ""),
        ("Stop", "stop_hook_prevented", "done"),
    ] {
        let bench = with_hook(event, stop);
        let server = MockServer::start([bash("c1", "echo hi"), Answer::text("done")]);
        let mut session = Session::start(&bench, &server, &BYPASS);
        session.send(&says("go"));
        let result = session.result();
        assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)), "{result}");
        assert_eq!(
            (&result["terminal_reason"], &result["result"]),
            (&json!(reason), &json!(text)),
            "{result}"
        );
        session.0.wait().expect(0);
    }
}

/// The program keeps its input open and waits; the end of the command is a turn of its own.
#[test]
fn a_command_that_ends_in_the_background_wakes_the_model() {
    let bench = Bench::new(&[]);
    let command = "mkfifo gate; read -r rest < gate; echo DONE";
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": command, "background": "now", "description": "wait" })),
        Answer::text("started"),
        Answer::text("noticed"),
    ]);
    let mut session = Session::start(&bench, &server, &BYPASS);
    session.send(&says("go"));
    let first = session.result();
    assert_eq!((&first["result"], first.get("origin")), (&json!("started"), None), "{first}");
    std::fs::write(bench.project.root().join("gate"), "on\n").unwrap();
    let note = session.line(&["task_notification"]);
    assert_eq!((&note["status"], &note["task_id"]), (&json!("completed"), &json!("1")), "{note}");
    assert_eq!(session.line(&["\"init\""])["type"], "system");
    let second = session.result();
    assert_eq!((&second["result"], &second["subtype"]), (&json!("noticed"), &json!("success")), "{second}");
    assert_eq!(second["origin"], json!({ "kind": "task-notification" }), "{second}");
    let told = last_text(&server);
    assert!(told.contains("<task-notification>") && told.contains("wait"), "{told}");
    session.0.wait().expect(0);
}

/// Programs show `user` lines, and take the first for the message to which files can be rewound.
#[test]
fn what_a_hook_adds_is_no_message_of_the_user() {
    for event in ["UserPromptSubmit", "SessionStart", "PreToolUse"] {
        let context =
            json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": "ADDED" } });
        let bench = with_hook(event, &format!("echo '{context}'"));
        let server = MockServer::start([bash("c1", "echo hi"), Answer::text("done")]);
        let mut becket = bench.print(Api::Anthropic, &server);
        becket.args(BYPASS).args(["--output-format", "stream-json", "--verbose", "go"]);
        let ran = run(&mut becket).expect(0);
        assert!(last_text(&server).contains("ADDED"), "{event}: the model gets it");
        let lines = ran.lines();
        let of_user: Vec<&Value> = lines
            .iter()
            .filter(|line| line["type"] == "user" && line.to_string().contains("ADDED"))
            .collect();
        assert!(of_user.is_empty(), "{event}: {of_user:?}");
        let added: Vec<&Value> = lines.iter().filter(|line| line["subtype"] == "context_added").collect();
        assert_eq!(added.len(), 1, "{event}: {lines:?}");
        assert_eq!((&added[0]["type"], &added[0]["from"]), (&json!("system"), &json!("hook")), "{event}");
        assert!(added[0]["content"].as_str().unwrap().contains("ADDED"), "{event}");
    }
    // A hook that sends the model back speaks in the place of the user, as in Claude Code.
    let bench = with_hook("Stop", "[ -e back ] || { touch back; echo MORE >&2; exit 2; }");
    let server = MockServer::start([Answer::text("a"), Answer::text("b")]);
    let mut becket = bench.print(Api::Anthropic, &server);
    becket.args(["--output-format", "stream-json", "--verbose", "go"]);
    let lines = run(&mut becket).expect(0).lines();
    assert!(
        lines.iter().any(|line| line["type"] == "user" && line.to_string().contains("MORE")),
        "{lines:?}"
    );
}

#[test]
fn commands_get_variables_that_the_host_passes_on() {
    let echo = r#"echo "$PARENT_VAR|$MY_TOKEN|$ANTHROPIC_API_KEY|$CLAUDECODE""#;
    for (driver, pass, want) in [
        (None, json!([]), "|||"),
        (Some("sdk-py"), json!([]), "|||1"),
        (Some("sdk-ts"), json!(["PARENT_VAR"]), "pv|||1"),
        (Some("sdk-ts"), json!(["*"]), "pv|secret-value-1||1"),
    ] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([bash("c1", echo), Answer::text("done")]);
        let mut becket = bench.print(Api::Anthropic, &server);
        becket.env("PARENT_VAR", "pv").env("MY_TOKEN", "secret-value-1");
        if let Some(driver) = driver {
            becket.env("CLAUDE_CODE_ENTRYPOINT", driver);
        }
        let settings = json!({ "shell": { "pass": pass } }).to_string();
        let mut session = Session::run(becket, &["--settings", &settings, BYPASS[0], BYPASS[1]]);
        session.send(&says("go"));
        let result = session.line(&["tool_use_result"])["tool_use_result"]["stdout"].clone();
        assert_eq!(result, want, "{driver:?} {pass}");
        session.result();
        session.0.wait().expect(0);
    }
}

#[test]
fn a_hook_at_the_start_sets_variables_for_commands() {
    let hook = r#"printf 'export FOO=bar\nexport PATH="$PATH:/extra"\nexport BAD=$(touch evil)\n' >> "$CLAUDE_ENV_FILE"; echo "$CLAUDE_ENV_FILE" > where"#;
    let bench = with_hook("SessionStart", hook);
    let server =
        MockServer::start([bash("c1", r#"echo "foo=$FOO bad=$BAD"; echo "$PATH""#), Answer::text("done")]);
    run(bench.print(Api::Anthropic, &server).args(BYPASS).arg("go")).expect(0);
    let told = last_text(&server);
    assert!(told.contains("foo=bar bad=\\n") && told.contains(":/extra"), "{told}");
    assert!(!bench.project.exists("evil"));
    let file = bench.project.read("where");
    assert!(!std::path::Path::new(file.trim()).exists(), "the file is gone with the hook");
}

/// Hooks for Claude Code read the last answer and the usage from the transcript.
#[test]
fn hooks_read_a_transcript() {
    let hook = r#"python3 -c 'import json,sys,shutil; i=json.load(sys.stdin); shutil.copy(i["transcript_path"], "copy.jsonl")'"#;
    let bench = with_hook("Stop", hook);
    let server = MockServer::start([bash("c1", "echo hi"), Answer::text("the end")]);
    run(bench.print(Api::Anthropic, &server).args(BYPASS).arg("go")).expect(0);
    let lines: Vec<Value> =
        bench.project.read("copy.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["user", "assistant", "user", "assistant"], "{lines:?}");
    assert_eq!(lines[0]["message"], json!({ "role": "user", "content": "go" }));
    assert_eq!(lines[1]["message"]["content"][0]["name"], "Bash");
    assert_eq!(lines[2]["message"]["content"][0]["tool_use_id"], "c1");
    assert_eq!(lines[3]["message"]["content"], json!([{ "type": "text", "text": "the end" }]));
    assert!(lines[3]["message"]["usage"]["output_tokens"].as_u64().unwrap() > 0, "{}", lines[3]);
    for pair in lines.windows(2) {
        assert_eq!(pair[1]["parentUuid"], pair[0]["uuid"]);
    }
    // A continued session goes on in the same file.
    let server = MockServer::start([Answer::text("more")]);
    run(bench.print(Api::Anthropic, &server).args(["--continue", "again"])).expect(0);
    assert_eq!(bench.project.read("copy.jsonl").lines().count(), 6);
    // If there are no hooks, there is no transcript.
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("done")]);
    run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    let ledger = bench.ledgers().pop().unwrap();
    assert!(!ledger.with_file_name("transcript.jsonl").exists());
}

#[test]
fn settings_of_a_host_that_restrict_the_sandbox_hold() {
    let bench = Bench::new(&[("private/key.txt", "TOPSECRET\n"), ("fixed/a.txt", "one\n")]);
    if skipped(&bench) {
        return;
    }
    let (root, outside) = (bench.project.root(), tempfile::tempdir().unwrap());
    let target = outside.path().join("x");
    let settings = json!({ "sandbox": {
        "enabled": true, "autoAllowBashIfSandboxed": true, "allowUnsandboxedCommands": false,
        "filesystem": { "denyRead": [root.join("private")], "denyWrite": [root.join("fixed")] },
    } });
    let settings = settings.to_string();
    let command = "cat private/key.txt; echo two > fixed/b.txt; echo three > free.txt; exit 1";
    let out = Answer::tool(
        "c2",
        "bash",
        json!({ "command": format!("touch {}", target.display()), "unconfined": true }),
    );
    let server = MockServer::start([bash("c1", command), out, Answer::text("done")]);
    let ran = run(bench.print(Api::Anthropic, &server).args(["--settings", &settings, "go"]));
    assert!(!ran.stderr.contains("unknown key"), "{}", ran.stderr);
    let told = last_text(&server);
    assert!(!told.contains("TOPSECRET") && !bench.project.exists("fixed/b.txt"), "{told}");
    assert_eq!(bench.project.read("free.txt"), "three\n", "{told}");
    assert!(!told.contains("repeat the call with"), "{told}");
    assert!(!target.exists(), "{told}");
}

#[test]
fn a_copy_leaves_out_no_other_turn_than_the_one_that_is_named() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("done").into());
    for text in ["one", "two", "three"] {
        let mut becket = bench.print(Api::Anthropic, &server);
        if text != "one" {
            becket.arg("--continue");
        }
        run(becket.arg(text)).expect(0);
    }
    let (entries, ledger) = (bench.entries(), bench.ledgers().pop().unwrap());
    let session = ledger.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let ids = |role: &str| -> Vec<String> {
        let messages = entries.iter().filter(|entry| entry["message"]["role"] == role);
        messages.map(|entry| entry["message"]["id"].as_str().unwrap().to_owned()).collect()
    };
    let (prompts, answers) = (ids("user"), ids("assistant"));
    assert_eq!((prompts.len(), answers.len()), (3, 3), "{entries:?}");
    for (at, turn, fits) in [
        (&answers[1], &prompts[2], true),
        (&answers[0], &prompts[1], false),
        (&answers[1], &prompts[1], false),
        (&answers[2], &prompts[2], false),
    ] {
        let mut becket = bench.print(Api::Anthropic, &server);
        becket.args(["--resume", &session, "--resume-session-at", at, "--resume-drops-turn", turn, "again"]);
        let ran = run(&mut becket);
        if fits {
            ran.expect(0);
        } else {
            let ran = ran.expect(2);
            assert!(ran.stderr.contains("Resume rejected by --resume-drops-turn:"), "{}", ran.stderr);
        }
    }
}

#[test]
fn a_debug_file_has_everything_that_is_printed() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("done")]);
    let file = bench.project.path("debug.log");
    let file = file.to_str().unwrap();
    let mut session = Session::start(&bench, &server, &["--debug-file", file]);
    session.send(&says("go"));
    session.result();
    session.0.wait().expect(0);
    let log = bench.project.read("debug.log");
    assert!(log.contains("\"subtype\":\"init\"") && log.contains("\"type\":\"result\""), "{log}");
}

/// A server may ask for the folders of the workspace.
#[test]
fn servers_are_told_the_folders_of_the_workspace() {
    const SERVER: &str = r#"
import json, sys
def send(line): print(json.dumps(line), flush=True)
asked = None
for line in sys.stdin:
    m = json.loads(line)
    method = m.get("method")
    if method == "initialize":
        offered = "roots" in m["params"]["capabilities"]
        send({"jsonrpc": "2.0", "id": m["id"], "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "r", "version": "1"}}})
    elif method == "tools/list":
        send({"jsonrpc": "2.0", "id": m["id"], "result": {"tools": [{"name": "roots", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        asked = m["id"]
        send({"jsonrpc": "2.0", "id": "r1", "method": "roots/list"})
    elif m.get("id") == "r1":
        text = f"offered={offered} " + json.dumps(m.get("result"))
        send({"jsonrpc": "2.0", "id": asked, "result": {"content": [{"type": "text", "text": text}]}})
    elif "id" in m and method:
        send({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}})
"#;
    let bench = Bench::new(&[]);
    bench.project.write("server.py", SERVER);
    let config =
        json!({ "mcpServers": { "r": { "command": "python3", "args": [bench.project.path("server.py")] } } });
    let server = MockServer::start([Answer::tool("c1", "mcp__r__roots", json!({})), Answer::text("done")]);
    let config = config.to_string();
    let mut becket = bench.print(Api::Anthropic, &server);
    becket.args(["--mcp-config", &config]).args(BYPASS).args(["--", "go"]);
    run(&mut becket).expect(0);
    let told = last_text(&server);
    let root = bench.project.root().canonicalize().unwrap();
    assert!(told.contains("offered=True"), "{told}");
    assert!(told.contains(&format!("file://{}", root.display())), "{told}");
}
