//! The introduction of a driving program: what cannot be used is refused as a whole, and names work as they are written.

use crate::support::*;
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

/// A request that is refused has no effect: no hook is asked, no server is started, and the prompt stays becket's own.
#[test]
fn an_introduction_that_cannot_be_used_is_refused_as_a_whole() {
    let group = json!([{ "hookCallbackIds": ["h"] }]);
    for (field, part) in [
        (json!({ "hooks": [1] }), "hooks must be an object of events"),
        (json!({ "hooks": { "PreToolUse": "x" } }), "hooks.PreToolUse must be a list"),
        (json!({ "hooks": { "PreToolUse": [{ "matcher": "Write" }] } }), "hookCallbackIds"),
        (json!({ "hooks": { "PreToolUse": group, "Nope": group } }), "Nope"),
        (
            json!({ "hooks": { "PreToolUse": group }, "appendSystemPrompt": 3 }),
            "appendSystemPrompt must be a string",
        ),
        (json!({ "skills": "x" }), "skills must be a list of strings"),
        (json!({ "title": 3 }), "title must be a string"),
        (json!({ "mcpServers": { "a": {} } }), "neither a command nor a url"),
        (json!({ "sdkMcpServers": "x" }), "sdkMcpServers must be a list of strings"),
    ] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([
            Answer::tool("c1", "write", json!({ "path": "a.txt", "content": "x" })),
            Answer::text("done"),
        ]);
        let mut body = json!({ "subtype": "initialize", "systemPrompt": "MINE" });
        for (key, value) in field.as_object().unwrap() {
            body[key] = value.clone();
        }
        let lines = format!("{}\n{}\n", request(&body), says("go"));
        let mut command = bench.print(Api::Chat, &server);
        command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
        let ran = run_with(command.args(["--permission-mode", "acceptEdits"]), lines.as_bytes()).expect(0);
        let answers: Vec<Value> =
            ran.lines().into_iter().filter(|line| line["type"] == "control_response").collect();
        let error = answers[0]["response"]["error"].as_str().unwrap_or_default();
        assert!(answers.len() == 1 && error.contains(part), "{field}: {answers:?}");
        assert!(!ran.stdout.contains("hook_callback"), "{field}: {}", ran.stdout);
        assert!(!server.requests()[0].text().contains("MINE"), "{field}");
        assert_eq!(bench.project.read("a.txt"), "x", "{field}");
    }
}

/// A skill whose name was changed is called as its file writes it: by a prompt, and in the introduction.
#[test]
fn a_skill_is_called_by_the_name_in_its_file() {
    let bench = Bench::new(&[]);
    let skill = "---\nname: under_score\ndescription: d\n---\nThe skill's text.\n";
    bench.home.write(".config/becket/skills/under_score/SKILL.md", skill);
    bench
        .home
        .write(".config/becket/skills/other/SKILL.md", "---\nname: other\ndescription: OTHER\n---\nx\n");
    let server = MockServer::with(|_| Answer::text("fine").into());
    run(bench.print(Api::Chat, &server).arg("/under_score now")).expect(0);
    assert!(server.requests()[0].text().contains("The skill's text."), "{}", server.requests()[0].text());
    let hello = request(&json!({ "subtype": "initialize", "skills": ["under_score"] }));
    let lines = format!("{hello}\n{}\n{}\n", says("go"), says("/under_score again"));
    let mut command = bench.print(Api::Chat, &server);
    command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
    run_with(&mut command, lines.as_bytes()).expect(0);
    let sent = server.requests();
    assert!(
        sent[1].text().contains("under-score") && !sent[1].text().contains("OTHER"),
        "{}",
        sent[1].text()
    );
    assert!(sent[2].text().contains("The skill's text."), "{}", sent[2].text());
}

/// A host that restricts a run relies on it: its rules hold in `bypassPermissions`, or the run does not begin.
#[test]
fn managed_settings_of_a_host_hold_or_the_run_does_not_begin() {
    let deny = r#"{"permissions":{"deny":["Write"]}}"#;
    let hello = |managed: Value| request(&json!({ "subtype": "initialize", "managedSettings": managed }));
    let good = hello(json!({ "permissions": { "deny": ["Write"] } }));
    let plain = request(&json!({ "subtype": "initialize" }));
    let follow = "--managed-settings-in-initialize";
    // The flags, the lines before the prompt, and the reason for a refusal.
    for (flags, lines, part) in [
        (&["--managed-settings", deny][..], vec![plain.clone()], None),
        (&["--managed-settings", deny][..], vec![], None),
        (&[follow][..], vec![good.clone()], None),
        (&[][..], vec![good], None),
        (&[follow][..], vec![plain], Some("--managed-settings-in-initialize")),
        (&[follow][..], vec![], Some("--managed-settings-in-initialize")),
        (&["--managed-settings", "{"][..], vec![], Some("not JSON")),
        (
            &["--managed-settings", r#"{"permissions":{"deny":["Bash("]}}"#][..],
            vec![],
            Some("permissions.deny"),
        ),
        (
            &["--managed-settings", r#"{"sandbox":{"enabled":true}}"#][..],
            vec![],
            Some("cannot enforce sandbox"),
        ),
        (&[][..], vec![hello(json!({ "allowedMcpServers": [] }))], Some("cannot enforce allowedMcpServers")),
        (&[][..], vec![hello(json!("x"))], Some("JSON object")),
    ] {
        let bench = Bench::new(&[]);
        let server = MockServer::start([
            Answer::tool("c1", "write", json!({ "path": "a.txt", "content": "x" })),
            Answer::text("done"),
        ]);
        let input: String = lines
            .iter()
            .cloned()
            .chain([says("go")])
            .fold(String::new(), |text, line| text + &format!("{line}\n"));
        let mut command = bench.print(Api::Chat, &server);
        command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
        command.args(["--permission-mode", "bypassPermissions", "--allowedTools", "Write"]).args(flags);
        let ran = run_with(&mut command, input.as_bytes()).expect(if part.is_some() { 2 } else { 0 });
        assert!(ran.stderr.contains(part.unwrap_or_default()), "{flags:?}: {}", ran.stderr);
        assert_eq!(server.requests().is_empty(), part.is_some(), "{flags:?}");
        assert!(!ran.stderr.contains("has no effect"), "{flags:?}: {}", ran.stderr);
        assert!(!ran.stdout.contains("unused_fields"), "{flags:?}: {}", ran.stdout);
        assert!(!bench.project.root().join("a.txt").exists(), "{flags:?}");
        // A program that waits for the answer to its request gets one, which names the reason.
        if let (Some(part), [line]) = (part, &lines[..])
            && !line["request"]["managedSettings"].is_null()
        {
            let refused =
                |line: &Value| line["response"]["error"].as_str().is_some_and(|error| error.contains(part));
            assert!(ran.lines().iter().any(refused), "{flags:?}: {}", ran.stdout);
        }
    }
}

/// Text for subagents reaches each of them, built in or not, and the session's own agent never.
#[test]
fn a_text_for_subagents_is_a_part_of_their_prompts_alone() {
    for by_flag in [false, true] {
        let bench = Bench::new(&[]);
        let task = |id: &str, agent: &str| {
            Answer::tool(id, "task", json!({ "description": "d", "prompt": "look", "agent": agent }))
        };
        let server = MockServer::start([
            task("c1", "explore"),
            Answer::text("seen"),
            task("c2", "own"),
            Answer::text("seen, too"),
            Answer::text("done"),
        ]);
        let agents = json!({ "own": { "description": "d", "prompt": "OWN PROMPT" } });
        let mut body = json!({ "subtype": "initialize", "hooks": null, "agents": agents });
        let mut command = bench.print(Api::Anthropic, &server);
        command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
        if by_flag {
            command.args(["--append-subagent-system-prompt", "ADDED"]);
        } else {
            body["appendSubagentSystemPrompt"] = json!("ADDED");
        }
        let lines = format!("{}\n{}\n", request(&body), says("go"));
        let ran = run_with(&mut command, lines.as_bytes()).expect(0);
        assert!(!ran.stdout.contains("unused_fields") && !ran.stderr.contains("no effect"), "{}", ran.stderr);
        let requests = server.requests();
        let added: Vec<bool> = requests.iter().map(|request| request.text().contains("ADDED")).collect();
        assert_eq!(added, [false, true, false, true, false], "by the flag: {by_flag}");
        assert!(requests[3].text().contains("OWN PROMPT\\n\\nADDED"), "{}", requests[3].text());
    }
}

/// The last message of the user in a request.
fn last_message(request: &becket_testkit::Recorded) -> String {
    let messages = request.json()["messages"].as_array().unwrap().clone();
    let texts: Vec<String> = messages
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| match &message["content"] {
            Value::String(text) => text.clone(),
            parts => parts
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect::<Vec<_>>()
                .join("|"),
        })
        .collect();
    texts.last().unwrap().clone()
}

#[test]
fn an_agent_begins_with_its_own_prompt() {
    let agents = json!({ "x": { "description": "d", "prompt": "p", "initialPrompt": "BEGIN" } }).to_string();
    let as_x = ["--agents", &agents, "--agent", "x"];
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("fine").into());
    let last = || last_message(server.requests().last().unwrap());

    // The agent's first prompt is sent as a turn of its own, or in front of the user's prompt. In a continued session it is not sent again.
    run(bench.print(Api::Anthropic, &server).args(as_x)).expect(0);
    assert!(last().ends_with("BEGIN"), "{}", last());
    run(bench.print(Api::Anthropic, &server).args(as_x).arg("and more")).expect(0);
    assert!(last().ends_with("BEGIN\n\nand more"), "{}", last());
    run(bench.print(Api::Anthropic, &server).args(as_x).args(["--continue", "again"])).expect(0);
    assert!(last().ends_with("again") && !last().contains("BEGIN"), "{}", last());
    run(bench.print(Api::Anthropic, &server).args(["--agents", &agents, "hello"])).expect(0);
    assert!(!last().contains("BEGIN"), "only for the session's own agent: {}", last());

    // An agent without such a first prompt needs a prompt of the user. Without one, no session is made.
    let before = bench.ledgers().len();
    let plain = json!({ "y": { "description": "d", "prompt": "p" } }).to_string();
    let ran = run(bench.print(Api::Anthropic, &server).args(["--agents", &plain, "--agent", "y"])).expect(2);
    assert!(ran.stderr.contains("there is no prompt"), "{}", ran.stderr);
    assert_eq!(bench.ledgers().len(), before);

    // The first prompt may be a command.
    bench.home.write(".config/becket/commands/greet.md", "Greet in the style of: $ARGUMENTS\n");
    let commands =
        json!({ "x": { "description": "d", "prompt": "p", "initialPrompt": "/greet" } }).to_string();
    run(bench.print(Api::Anthropic, &server).args(["--agents", &commands, "--agent", "x", "a pirate"]))
        .expect(0);
    assert!(last().contains("Greet in the style of: a pirate"), "{}", last());
}

#[test]
fn a_program_gets_the_turn_with_which_an_agent_begins() {
    let agents = json!({ "x": { "description": "d", "prompt": "p", "initialPrompt": "BEGIN" } });
    let hello = request(&json!({ "subtype": "initialize", "hooks": null, "agents": agents }));
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("fine").into());
    let started = |entrypoint: &str| {
        let mut command = bench.print(Api::Anthropic, &server);
        command.env("CLAUDE_CODE_ENTRYPOINT", entrypoint);
        command.args(["--input-format", "stream-json", "--output-format", "stream-json", "--agent", "x"]);
        let mut running = Running::start(&mut command);
        ask(&mut running, &hello, "control_response");
        running
    };
    let last = || last_message(server.requests().last().unwrap());

    // If the program sends no message, the first prompt is a turn of its own.
    let mut running = started("sdk-ts");
    running.line(|line| line.contains("\"type\":\"result\""));
    assert!(last().ends_with("BEGIN"), "{}", last());
    ask(&mut running, &says("more"), "\"type\":\"result\"");
    assert!(last().ends_with("more"), "{}", last());
    let ran = running.wait().expect(0);
    assert_eq!(ran.lines().iter().filter(|line| line["type"] == "result").count(), 2);

    // The Python SDK reads one result for each message, so the first prompt is put in front of the first message.
    let mut running = started("sdk-py");
    ask(&mut running, &says("hello"), "\"type\":\"result\"");
    assert!(last().ends_with("BEGIN\n\nhello"), "{}", last());
    ask(&mut running, &says("more"), "\"type\":\"result\"");
    assert!(last().ends_with("more") && !last().contains("BEGIN"), "{}", last());
    let ran = running.wait().expect(0);
    assert_eq!(ran.lines().iter().filter(|line| line["type"] == "result").count(), 2);
}
