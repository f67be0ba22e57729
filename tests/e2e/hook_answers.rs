//! Answers of hooks that only some events take, the keys of their input, and events outside the agent: expansions, questions of
//! servers, the list of tasks, changes of commands.

use crate::mcp::fixture;
use crate::support::{Api, Bench, Running, ask, request, run, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

/// A bench whose user has these hooks: event, matcher and command. Each command also appends its input to `seen`.
fn with_hooks(hooks: &[(&str, &str, &str)]) -> Bench {
    let bench = Bench::new(&[]);
    let mut table = json!({});
    for (event, matcher, command) in hooks {
        let command = format!("read -r input; printf '%s\\n' \"$input\" >> \"$HOME/seen\"; {command}");
        table[event] = json!([{ "matcher": matcher, "hooks": [{ "type": "command", "command": command }] }]);
    }
    bench.home.write(".claude/settings.json", json!({ "hooks": table }).to_string());
    bench
}

fn says_json(keys: Value) -> String {
    format!("echo '{}'", json!({ "hookSpecificOutput": keys }))
}

/// The inputs that hooks of an event got.
fn seen(bench: &Bench, event: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(bench.home.root().join("seen")).unwrap_or_default();
    let inputs = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    inputs.filter(|input| input["hook_event_name"] == event).collect()
}

const BYPASS: [&str; 2] = ["--permission-mode", "bypassPermissions"];

#[test]
fn a_deferred_call_ends_the_turn_and_is_named_in_the_result() {
    let defer =
        says_json(json!({ "permissionDecision": "defer", "permissionDecisionReason": "ask me later" }));
    let defer = format!("[ -e \"$HOME/decided\" ] || {defer}");
    let bench = with_hooks(&[("PreToolUse", "Bash", &defer)]);
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "touch made" })).and_tool(
            "c2",
            "write",
            json!({ "path": "b.txt", "content": "" }),
        ),
        Answer::text("never"),
    ]);
    let mut becket = bench.print(Api::Anthropic, &server);
    let result = run(becket.args(BYPASS).args(["--output-format", "json", "go"])).expect(0).result();
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)), "{result}");
    assert_eq!(result["stop_reason"], "tool_deferred");
    assert_eq!(result["terminal_reason"], "tool_deferred");
    let call = json!({ "id": "c1", "name": "Bash", "input": { "command": "touch made" } });
    assert_eq!(result["deferred_tool_use"], call);
    assert_eq!(server.requests().len(), 1);
    assert!(!bench.project.exists("made") && !bench.project.exists("b.txt"));
    // A continued session makes the same call and asks the hook again. First the hook defers the call once more.
    let next = MockServer::start([Answer::text("later"), Answer::text("never")]);
    let go_on = |text: &str| {
        run(bench.print(Api::Anthropic, &next).args(BYPASS).args([
            "--output-format",
            "json",
            "--continue",
            text,
        ]))
        .expect(0)
        .result()
    };
    assert_eq!(go_on("and now?")["terminal_reason"], "tool_deferred");
    assert!(next.requests().is_empty() && !bench.project.exists("made"));
    bench.home.write("decided", "");
    let result = go_on("I have agreed.");
    assert_eq!((&result["result"], &result["num_turns"]), (&json!("later"), &json!(1)));
    assert!(bench.project.exists("made") && !bench.project.exists("b.txt"));
    assert_eq!(seen(&bench, "PreToolUse").len(), 3);
    let asked = next.requests()[0].text().to_owned();
    assert!(asked.contains("a hook deferred this call") && asked.contains("again_"), "{asked}");
    // The call runs once.
    assert_eq!(go_on("and then?")["result"], "never");
    assert_eq!(seen(&bench, "PreToolUse").len(), 3);
}

#[test]
fn hooks_are_told_the_prompt_and_the_session_and_may_name_it() {
    let start = says_json(json!({ "sessionTitle": "A name", "initialUserMessage": "first of all" }));
    let bench = with_hooks(&[
        ("SessionStart", "", &start),
        ("UserPromptSubmit", "", "true"),
        ("PreToolUse", "Bash", "true"),
        ("Stop", "", "true"),
    ]);
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "true" })),
        Answer::text("done"),
        Answer::text("done"),
        Answer::text("done"),
    ]);
    let mut becket = bench.print(Api::Anthropic, &server);
    run(becket.args(BYPASS).args(["--output-format", "json", "go"])).expect(0);
    assert!(server.requests().iter().any(|request| request.text().contains("first of all")));
    let titles: Vec<Value> = bench.entries().into_iter().filter(|entry| entry["kind"] == "title").collect();
    assert_eq!(titles.last().unwrap()["title"], "A name");
    let prompts = seen(&bench, "UserPromptSubmit");
    assert!(prompts.iter().all(|input| input["source"] == "sdk"), "{prompts:?}");
    let (call, stop) = (&seen(&bench, "PreToolUse")[0], &seen(&bench, "Stop")[0]);
    assert!(call["prompt_id"].is_string());
    assert_eq!(call["prompt_id"], prompts[0]["prompt_id"]);
    assert_eq!((&stop["background_tasks"], &stop["session_crons"]), (&json!([]), &json!([])));
    assert!(stop["last_assistant_message"].is_string(), "{stop}");
    assert_eq!(seen(&bench, "SessionStart")[0]["source"], "startup");

    let fork = MockServer::start([Answer::text("x"), Answer::text("y")]);
    let again = ["--continue", "--fork-session", "go"];
    run(bench.print(Api::Anthropic, &fork).args(BYPASS).args(again)).expect(0);
    assert_eq!(seen(&bench, "SessionStart")[1]["source"], "fork");
}

#[test]
fn a_permission_hook_suggests_and_changes_rules() {
    let allow = says_json(json!({ "decision": { "behavior": "allow", "updatedPermissions": [
        { "type": "addRules", "behavior": "allow", "destination": "session",
          "rules": [{ "toolName": "Bash", "ruleContent": "touch:*" }] },
    ] } }));
    let bench = with_hooks(&[("PermissionRequest", "Bash", &allow)]);
    let touch =
        |id: &str, name: &str| Answer::tool(id, "bash", json!({ "command": format!("touch {name}") }));
    let server = MockServer::start([touch("c1", "one"), touch("c2", "two"), Answer::text("done")]);
    run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    assert!(bench.project.exists("one") && bench.project.exists("two"));
    let asked = seen(&bench, "PermissionRequest");
    assert_eq!(asked.len(), 1, "the rule of the first answer covers the second call");
    let suggestion = &asked[0]["permission_suggestions"][0];
    assert_eq!(
        (&suggestion["type"], &suggestion["rules"][0]["toolName"]),
        (&json!("addRules"), &json!("Bash"))
    );
}

#[test]
fn a_hook_may_refuse_a_task_of_the_list() {
    let bench = with_hooks(&[
        ("TaskCreated", "", "case $input in *forbidden*) echo not that >&2; exit 2;; esac"),
        ("TaskCompleted", "", "true"),
    ]);
    let list = |id: &str, items: Value| Answer::tool(id, "todo", json!({ "items": items }));
    let server = MockServer::start([
        list("c1", json!([{ "content": "look", "status": "pending" }])),
        list(
            "c2",
            json!([{ "content": "look", "status": "completed" }, { "content": "forbidden", "status": "pending" }]),
        ),
        Answer::text("done"),
    ]);
    run(bench.print(Api::Anthropic, &server).args(BYPASS).arg("go")).expect(0);
    let last = server.requests()[2].text().to_owned();
    assert!(last.contains("The list was not changed") && last.contains("not that"), "{last}");
    let created: Vec<Value> = seen(&bench, "TaskCreated").iter().map(|i| i["task_subject"].clone()).collect();
    assert_eq!(created, ["look", "forbidden"]);
    let completed = seen(&bench, "TaskCompleted");
    assert_eq!(completed[0]["task_subject"], "look");
    assert_eq!(completed[0]["task_id"], seen(&bench, "TaskCreated")[0]["task_id"]);
}

#[test]
fn an_expansion_is_judged_and_its_prompt_gets_words() {
    let add = says_json(json!({ "additionalContext": "mind the gap" }));
    let judge = format!("case $input in *forbidden*) echo no >&2; exit 2;; esac; {add}");
    let bench = with_hooks(&[("UserPromptExpansion", "say", &judge)]);
    bench.home.write(".claude/commands/say.md", "Say $ARGUMENTS.\n");
    let server = MockServer::with(|_| Answer::text("said").into());
    run(bench.print(Api::Anthropic, &server).arg("/say hello")).expect(0);
    let asked = server.requests()[0].text().to_owned();
    assert!(asked.contains("Say hello.") && asked.contains("mind the gap"), "{asked}");
    let runs = bench.entries().into_iter().filter(|entry| entry["event"] == "UserPromptExpansion");
    assert_eq!(runs.map(|run| run["result"].clone()).collect::<Vec<_>>(), [json!("ok")], "runs are recorded");
    let input = &seen(&bench, "UserPromptExpansion")[0];
    assert_eq!((&input["command_name"], &input["command_args"]), (&json!("say"), &json!("hello")));
    assert_eq!((&input["expansion_type"], &input["prompt"]), (&json!("slash_command"), &json!("Say hello.")));
    assert!(
        input["session_id"].is_string()
            && input["transcript_path"].as_str().unwrap().ends_with("transcript.jsonl")
    );

    let ran = run(bench.print(Api::Anthropic, &server).arg("/say forbidden"));
    assert!(ran.code != 0 && ran.stderr.contains("a hook refused /say: no"), "{ran:?}");
    let mut becket = bench.print(Api::Anthropic, &server);
    becket.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
    let mut running = Running::start(&mut becket);
    let refused = ask(&mut running, &says("/say forbidden"), "\"type\":\"result\"");
    assert_eq!((&refused["is_error"], &refused["num_turns"]), (&json!(false), &json!(0)));
    let text = refused["result"].as_str().unwrap();
    assert!(text.starts_with("UserPromptExpansion operation blocked by hook:\n"), "{text}");
    assert!(text.ends_with("\n\nOriginal prompt: /say forbidden"), "{text}");
    assert_eq!(ask(&mut running, &says("/say hello"), "\"type\":\"result\"")["result"], "said");
    running.wait();
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn hooks_answer_questions_of_servers_and_change_answers() {
    let answer = |name: &str| says_json(json!({ "action": "accept", "content": { "name": name } }));
    let config = json!({ "mcpServers": { "fix": fixture(&["plain"]) } }).to_string();
    for (event, hook, want) in [
        ("Elicitation", answer("Bob"), "Bob"),
        ("ElicitationResult", answer("Eve"), "Eve"),
        ("ElicitationResult", "exit 2".to_owned(), "decline"),
    ] {
        let bench = with_hooks(&[(event, "fix", &hook)]);
        let server =
            MockServer::start([Answer::tool("c1", "mcp__fix__ask", json!({})), Answer::text("done")]);
        let mut becket = bench.print(Api::Anthropic, &server);
        run(becket.args(BYPASS).args(["--mcp-config", &config, "--", "go"])).expect(0);
        let result = server.requests()[1].text().to_owned();
        assert!(result.contains(want), "{event}: {result}");
        let input = &seen(&bench, event)[0];
        assert_eq!(input["mcp_server_name"], "fix");
        if event == "Elicitation" {
            assert_eq!((&input["message"], &input["mode"]), (&json!("Your name?"), &json!("form")));
        } else {
            assert_eq!(input["action"], "cancel", "nobody can be asked");
        }
    }
}

#[test]
fn a_change_of_commands_is_judged_before_the_program_sees_it() {
    let bench =
        with_hooks(&[("ConfigChange", "skills", "case $(ls .claude/commands) in *bad*) exit 2;; esac")]);
    let server = MockServer::with(|_| Answer::text("ok").into());
    let mut becket = bench.print(Api::Anthropic, &server);
    becket.args(BYPASS).args(["--input-format", "stream-json", "--output-format", "stream-json"]);
    let mut running = Running::start(&mut becket);
    let reload = request(&json!({ "subtype": "reload_skills" }));
    ask(&mut running, &reload, "control_response");
    bench.home.write(".claude/commands/good.md", "Good.\n");
    let told = ask(&mut running, &reload, "commands_changed");
    assert!(told["commands"].to_string().contains("good"));
    assert_eq!(seen(&bench, "ConfigChange")[0]["source"], "skills");
    bench.home.write(".claude/commands/bad.md", "Bad.\n");
    bench.project.write(".claude/commands/bad.md", "");
    ask(&mut running, &reload, "control_response");
    let ran = running.wait();
    assert!(ran.stderr.contains("a hook refused that commands and skills change"), "{ran:?}");
    assert!(!ran.stdout.contains("\"bad\""), "{}", ran.stdout);
}

#[test]
fn a_tool_of_a_server_decides_about_permissions() {
    let bench = Bench::new(&[]);
    let config = json!({ "mcpServers": { "fix": fixture(&["decides"]) } }).to_string();
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "echo out > one" })),
        Answer::tool("c2", "bash", json!({ "command": "touch two" })),
        Answer::text("done"),
    ]);
    let args = ["--permission-prompt-tool", "mcp__fix__decide", "--mcp-config", &config, "--"];
    run(bench.print(Api::Anthropic, &server).args(args).arg("go"));
    assert!(bench.project.exists("one") && !bench.project.exists("two"));
    assert!(server.requests()[2].text().contains("the tool says no"));
    let none = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "touch three" })),
        Answer::text("done"),
    ]);
    run(bench.print(Api::Anthropic, &none).args([
        "--permission-prompt-tool",
        "mcp__gone__decide",
        "--",
        "go",
    ]));
    assert!(!bench.project.exists("three"), "a tool that is not there denies");
}

#[test]
fn commands_of_becket_are_answered_without_a_request() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("from the model").into());
    let ran = run(bench.print(Api::Anthropic, &server).arg("/cost")).expect(0);
    assert!(ran.stdout.starts_with("Total cost: $0.0000"), "{ran:?}");
    let ran = run(bench.print(Api::Anthropic, &server).args(["--output-format", "json", "/clear"])).expect(0);
    assert!(ran.result()["result"].as_str().unwrap().contains("terminal only"));
    assert!(server.requests().is_empty() && bench.ledgers().is_empty(), "nothing is left behind");

    let mut becket = bench.print(Api::Anthropic, &server);
    becket.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
    let mut running = Running::start(&mut becket);
    assert_eq!(ask(&mut running, &says("go"), "\"type\":\"result\"")["result"], "from the model");
    let output = ask(&mut running, &says("/context"), "local_command_output");
    assert!(output["content"].as_str().unwrap().contains("tokens"), "{output}");
    running.line(|line| line.contains("\"type\":\"result\""));
    let result = ask(&mut running, &says("/model"), "\"type\":\"result\"");
    assert_eq!(
        (&result["result"], &result["num_turns"]),
        (&json!("The model is anthropic/claude-sonnet-4-5."), &json!(0))
    );
    running.wait().expect(0);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_policy_of_the_program_for_a_tool_of_its_server_holds_in_every_mode() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("ok").into());
    let mut becket = bench.print(Api::Anthropic, &server);
    becket.args(BYPASS).args(["--input-format", "stream-json", "--output-format", "stream-json"]);
    let mut running = Running::start(&mut becket);
    let initialize = json!({
        "subtype": "initialize", "hooks": null, "sdkMcpServers": ["own"],
        "sdkMcpServerConfigs": { "own": { "tools": [
            { "name": "wipe", "permission_policy": "always_deny" },
            { "name": "post", "permission_policy": "always_ask" },
            { "name": "look", "permission_policy": "always_allow" },
        ] } },
    });
    let greeting = ask(&mut running, &request(&initialize), "control_response");
    assert!(greeting["response"]["response"].get("unused_fields").is_none(), "{greeting}");
    let rules = ask(&mut running, &request(&json!({ "subtype": "list_permission_rules" })), "\"state\"");
    let rules = rules["response"]["response"]["state"]["rules"].as_array().unwrap().clone();
    let rules: Vec<(String, String)> = rules
        .iter()
        .map(|rule| {
            (rule["behavior"].as_str().unwrap().to_owned(), rule["rule"].as_str().unwrap().to_owned())
        })
        .collect();
    let want = [("ask", "mcp__own__post"), ("deny", "mcp__own__wipe")];
    assert_eq!(rules, want.map(|(behavior, rule)| (behavior.to_owned(), rule.to_owned())));
    let call = request(&json!({ "subtype": "mcp_call", "tool": "mcp__own__wipe" }));
    assert_eq!(ask(&mut running, &call, "\"subtype\":\"error\"")["response"]["subtype"], "error");
    running.wait();
}

/// The official SDKs close their side first and still read. A program that never answers does not keep becket alive.
#[test]
fn a_callback_at_the_end_of_a_session_is_called_and_delays_the_exit_little() {
    enum End {
        Closed,
        Answered,
        Silent,
    }
    for (end, code) in [(End::Closed, 0), (End::Answered, 130), (End::Silent, 130)] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([Answer::text("done")]);
        let mut becket = bench.print(Api::Anthropic, &server);
        becket.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
        let mut running = Running::start(&mut becket);
        let mut hooks = json!({ "SessionEnd": [{ "hookCallbackIds": ["bye"] }] });
        if matches!(end, End::Silent) {
            hooks["SessionEnd"][0]["timeout"] = json!(0.3);
        }
        let initialize = request(&json!({ "subtype": "initialize", "hooks": hooks }));
        ask(&mut running, &initialize, "control_response");
        ask(&mut running, &says("go"), "\"type\":\"result\"");
        match end {
            End::Closed => running.close_stdin(),
            End::Answered | End::Silent => running.signal("-INT"),
        }
        let call: Value = serde_json::from_str(&running.line(|line| line.contains("hook_callback"))).unwrap();
        let (id, input) = (&call["request"]["callback_id"], &call["request"]["input"]);
        assert_eq!((id, &input["reason"]), (&json!("bye"), &json!("other")), "{call}");
        if matches!(end, End::Answered) {
            let response = json!({ "subtype": "success", "request_id": call["request_id"], "response": {} });
            running.send(
                format!("{}\n", json!({ "type": "control_response", "response": response })).as_bytes(),
            );
        }
        running.ended().expect(code);
        let runs: Vec<Value> = bench.entries().into_iter().filter(|entry| entry["kind"] == "hook").collect();
        assert_eq!(runs.len(), 1, "{runs:?}");
        let result = if matches!(end, End::Silent) { "timed_out" } else { "ok" };
        assert_eq!(runs[0].get("result").unwrap_or(&json!("ok")), result, "{runs:?}");
    }
}
