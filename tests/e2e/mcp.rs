//! MCP servers through the built binary: a server of our own that behaves and misbehaves on demand.

use crate::support::{Api, Bench, Running, ask, request, run, run_with, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};
use std::path::Path;

/// The configuration of a fixture server.
pub(crate) fn fixture(words: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/mcp_server.py");
    let args: Vec<String> = std::iter::once(script.to_string_lossy().into_owned())
        .chain(words.iter().map(|w| (*w).to_owned()))
        .collect();
    json!({"command": "python3", "args": args})
}

fn config(servers: &[(&str, Value)]) -> String {
    let map: serde_json::Map<String, Value> =
        servers.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
    json!({"mcpServers": map}).to_string()
}

/// A run against these servers in which the model makes these calls, one a step; the texts of their results.
fn results(servers: &[(&str, Value)], flags: &[&str], calls: &[(&str, Value)]) -> Vec<String> {
    let bench = Bench::new(&[]);
    results_in(&bench, servers, flags, calls)
}

fn results_in(
    bench: &Bench,
    servers: &[(&str, Value)],
    flags: &[&str],
    calls: &[(&str, Value)],
) -> Vec<String> {
    let mut answers: Vec<Answer> = calls
        .iter()
        .enumerate()
        .map(|(n, (name, input))| Answer::tool(&format!("c{n}"), name, input.clone()))
        .collect();
    answers.push(Answer::text("done"));
    let server = MockServer::start(answers);
    let mut command = bench.print(Api::Anthropic, &server);
    command.args(["--permission-mode", "bypassPermissions", "--mcp-config", &config(servers)]);
    run(command.args(flags).args(["--", "go"])).expect(0);
    let last: Value = serde_json::from_str(server.requests().last().unwrap().text()).unwrap();
    let mut out = Vec::new();
    for message in last["messages"].as_array().unwrap() {
        for block in message["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_result" {
                out.push(match &block["content"] {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
            }
        }
    }
    assert_eq!(out.len(), calls.len(), "{last:#}");
    out
}

/// Names of the tools in a request.
fn offered(request: &str) -> Vec<String> {
    let request: Value = serde_json::from_str(request).unwrap();
    request["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_call_reaches_the_server_through_the_guard_and_the_ledger() {
    let bench = Bench::new(&[]);
    let call = || [Answer::tool("c1", "mcp__fix__echo", json!({"text": "hi"})), Answer::text("done")];
    let servers = config(&[("fix", fixture(&["plain"]))]);
    // No rule allows the call, so it is denied.
    let server = MockServer::start(call());
    run(bench.print(Api::Anthropic, &server).args(["--mcp-config", &servers, "--", "go"])).expect(5);
    assert!(server.requests()[1].text().contains("no rule allows mcp__fix__echo"));
    // A rule allows the call.
    let server = MockServer::start(call());
    let mut command = bench.print(Api::Anthropic, &server);
    run(command.args(["--mcp-config", &servers, "--allowedTools", "mcp__fix", "--", "go"])).expect(0);
    assert!(server.requests()[1].text().contains("Echo: hi"));
    let names = offered(server.requests()[1].text());
    assert!(
        names.contains(&"mcp__fix__echo".to_owned()) && names.contains(&"mcp__fix__Upper".to_owned()),
        "{names:?}"
    );
    let ledger = std::fs::read_to_string(bench.ledgers().last().unwrap()).unwrap();
    assert!(ledger.contains("mcp__fix__echo") && ledger.contains("Echo: hi"));
}

#[test]
fn slow_and_dead_servers_do_not_delay_the_first_prompt() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("done")]);
    let servers = config(&[("silent", fixture(&["silent"])), ("dead", fixture(&["dead"]))]);
    let before = std::time::Instant::now();
    run(bench.print(Api::Anthropic, &server).args(["--mcp-config", &servers, "--", "go"])).expect(0);
    // Waiting for the silent server would take half a minute.
    assert!(before.elapsed() < std::time::Duration::from_secs(20));
    // A required server is waited for.
    let mut needed = fixture(&["dead"]);
    needed["required"] = json!(true);
    let ran = run(bench.print(Api::Anthropic, &server).args([
        "--mcp-config",
        &config(&[("dead", needed)]),
        "--",
        "go",
    ]));
    let ran = ran.expect(1);
    assert!(ran.stderr.contains("the required MCP server dead cannot be reached"), "{}", ran.stderr);
    assert!(ran.stderr.contains("the database is not there"), "{}", ran.stderr);
}

#[test]
fn a_server_that_lies_about_its_tools_is_bounded() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("c1", "mcp__evil__echo", json!({"text": "x"})),
        Answer::text("done"),
    ]);
    let mut command = bench.print(Api::Anthropic, &server);
    command.args(["--permission-mode", "bypassPermissions", "--context-window", "200000"]);
    // Without this key the tools would be deferred because of their size.
    let mut evil = fixture(&["hostile"]);
    evil["exposure"] = json!("direct");
    run(command.args(["--mcp-config", &config(&[("evil", evil)]), "--", "go"])).expect(0);
    let request: Value = serde_json::from_str(server.requests()[1].text()).unwrap();
    let tools = request["tools"].as_array().unwrap();
    let of =
        |name: &str| tools.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("{name}: {tools:?}"));
    assert!(!of("bash")["description"].as_str().unwrap().contains("evil"), "the core tool is as it was");
    let shadow = of("mcp__evil__bash")["description"].as_str().unwrap();
    assert!(shadow.starts_with("[from the MCP server \"evil\"; its own words]") && shadow.len() < 2_500);
    assert_eq!(of("mcp__evil__bomb")["input_schema"], json!({"type": "object", "properties": {}}));
    assert!(tools.iter().all(|t| t["name"].as_str().unwrap().len() <= 64));
    assert_eq!(tools.iter().filter(|t| t["name"].as_str().unwrap().starts_with("mcp__evil__n")).count(), 1);
}

#[test]
fn outputs_have_limits_and_the_rest_is_recalled() {
    let out = results(
        &[("fix", fixture(&["plain"]))],
        &[],
        &[
            ("mcp__fix__size", json!({"bytes": 1_600_000})),
            ("recall", json!({"id": "c0", "lines": "50000-50001"})),
            ("mcp__fix__size", json!({"bytes": 104_857_600})),
            ("mcp__fix__echo", json!({"text": "still here"})),
        ],
    );
    assert!(out[0].len() < 60_000 && out[0].contains("recall"));
    assert!(out[1].contains("0123456789abcde"));
    assert!(
        out[2].contains("the answer has 1") && out[2].contains("at most 16 MB"),
        "{}",
        &out[2][..200.min(out[2].len())]
    );
    assert_eq!(out[3], "Echo: still here");
}

#[test]
fn answers_that_come_twice_and_storms_of_notifications_change_nothing() {
    for mode in ["twice", "storm"] {
        let out = results(
            &[("fix", fixture(&[mode]))],
            &[],
            &[("mcp__fix__echo", json!({"text": "one"})), ("mcp__fix__echo", json!({"text": "two"}))],
        );
        assert_eq!(out, ["Echo: one", "Echo: two"], "{mode}");
    }
}

#[test]
fn a_server_that_dies_in_a_call_is_started_again() {
    let bench = Bench::new(&[]);
    let mark = bench.project.root().join("died");
    let echo = |text: &str| ("mcp__fix__echo", json!({"text": text}));
    let servers = [("fix", fixture(&["dies", &mark.to_string_lossy()]))];
    let out = results_in(&bench, &servers, &[], &[echo("one"), echo("two")]);
    assert!(
        out[0].contains("the effect of the call is unknown") && out[0].contains("out of memory"),
        "{}",
        out[0]
    );
    assert_eq!(out[1], "Echo: two");
}

#[test]
fn both_eras_of_the_protocol_are_spoken() {
    for mode in ["plain", "modern"] {
        let out = results(&[("fix", fixture(&[mode]))], &[], &[("mcp__fix__echo", json!({"text": mode}))]);
        assert_eq!(out, [format!("Echo: {mode}")]);
    }
}

#[test]
fn tools_that_come_later_are_told_and_questions_are_answered_by_defaults_or_cancelled() {
    let servers = [("fix", fixture(&["plain"]))];
    let out = results(
        &servers,
        &["--mcp-elicitation", "defaults"],
        &[
            ("mcp__fix__ask", json!({})),
            ("mcp__fix__late", json!({})),
            ("mcp__fix__grow", json!({})),
            ("mcp_search", json!({"query": "grown"})),
        ],
    );
    assert!(out[0].contains("\"accept\"") && out[0].contains("Ada"), "{}", out[0]);
    assert_eq!(&out[1..3], ["done", "done"]);
    assert!(results(&servers, &[], &[("mcp__fix__ask", json!({}))])[0].contains("\"cancel\""));
}

#[test]
fn tools_that_do_not_fit_are_found_by_a_search_and_called_through_one_tool() {
    let bench = Bench::new(&[]);
    let mut deferred = fixture(&["plain"]);
    deferred["exposure"] = json!("deferred");
    let server = MockServer::start([
        Answer::tool("c1", "mcp_search", json!({"query": "says it again"})),
        Answer::tool("c2", "mcp_call", json!({"tool": "mcp__fix__echo", "arguments": {"text": "found"}})),
        Answer::tool("c3", "mcp_call", json!({"tool": "bash", "arguments": {"command": "true"}})),
        Answer::text("done"),
    ]);
    let mut command = bench.print(Api::Anthropic, &server);
    command.args(["--allowedTools", "mcp__fix__echo", "--mcp-config", &config(&[("fix", deferred)])]);
    run(command.args(["--", "go"])).expect(0);
    let requests = server.requests();
    becket_testkit::assert_prefix(&requests);
    let last = requests.last().unwrap().text();
    assert!(last.contains("input schema:") && last.contains("Echo: found"));
    assert!(
        last.contains("mcp_call needs the name of a tool of an MCP server"),
        "core tools are not called through it"
    );
    assert!(!offered(last).contains(&"mcp__fix__echo".to_owned()));
}

#[test]
fn servers_are_added_listed_and_removed() {
    let bench = Bench::new(&[]);
    let becket = |args: &[&str]| run(bench.command().args(args));
    let script = fixture(&["plain"])["args"][0].as_str().unwrap().to_owned();
    becket(&["mcp", "add", "fix", "--", "python3", &script, "plain"]).expect(0);
    assert!(
        becket(&["mcp", "add", "fix", "--", "true"])
            .expect(2)
            .stderr
            .contains("there is an MCP server fix already")
    );
    becket(&["mcp", "add-json", "dead", &fixture(&["dead"]).to_string(), "--scope", "user"]).expect(0);
    let list = becket(&["mcp", "list"]).expect(0).stdout;
    assert!(list.contains("fix") && list.contains("connected, 6 tools"), "{list}");
    assert!(list.contains("failed: ") && list.contains("the database is not there"), "{list}");
    let get: Value =
        serde_json::from_str(&becket(&["mcp", "get", "fix", "--json"]).expect(0).stdout).unwrap();
    assert_eq!((&get["status"], &get["scope"]), (&json!("connected"), &json!("local")));
    let json_of = |args: &[&str]| -> Value { serde_json::from_str(&becket(args).expect(0).stdout).unwrap() };
    assert_eq!(json_of(&["mcp", "remove", "fix", "--json"])["removed"], "fix");
    assert_eq!(json_of(&["mcp", "add", "other", "--json", "--", "true"])["added"], "other");
    assert!(json_of(&["mcp", "add-json", "third", "{\"command\":\"true\"}", "--json"])["file"].is_string());
    assert_eq!(json_of(&["mcp", "reset-project-choices", "--json"])["reset"], 0);
    assert!(becket(&["mcp", "get", "fix"]).expect(2).stderr.contains("there is no MCP server fix"));
}

#[test]
fn a_server_of_the_project_is_used_only_as_somebody_allowed_it() {
    let marker = "ran.txt";
    let entry = |word: &str| json!({"command": "sh", "args": ["-c", format!("echo {word} >> {marker}")]});
    let bench = Bench::new(&[(".mcp.json", &json!({"mcpServers": {"p": entry("one")}}).to_string())]);
    let ran = || {
        let server = MockServer::start([Answer::text("done")]);
        run(bench.print(Api::Anthropic, &server).arg("go")).expect(0)
    };
    let asked = |stderr: &str| stderr.contains("you have not allowed it as it is now");
    let marked = || bench.project.root().join(marker).exists();
    assert!(asked(&ran().stderr) && !marked());
    run(bench.command().args(["mcp", "list"])).expect(0);
    assert!(!marked(), "looking starts nothing that is not allowed");
    let approved = run(bench.command().args(["mcp", "approve", "p", "--json"])).expect(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&approved).unwrap()["approved"], "p");
    run(bench.command().args(["mcp", "list"])).expect(0);
    assert!(marked(), "an allowed server is started");
    assert!(!asked(&ran().stderr), "a file that the server writes is no part of what was allowed");
    bench.project.write(".mcp.json", json!({"mcpServers": {"p": entry("two")}}).to_string());
    assert!(asked(&ran().stderr), "a changed entry is asked for again");
    bench.project.write(".mcp.json", json!({"mcpServers": {"p": entry("one")}}).to_string());
    assert!(!asked(&ran().stderr));
    run(bench.command().args(["mcp", "reset-project-choices"])).expect(0);
    assert!(asked(&ran().stderr));
}

/// `PATH` often names folders of the project. A name without a path in the user's own configuration never means a program there.
#[test]
fn a_project_plants_no_program_of_a_users_server() {
    let bench = Bench::new(&[("a.txt", "x")]);
    let program = |path: std::path::PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path
    };
    let inside = program(bench.project.path("node_modules/.bin/planted"), "#!/bin/sh\ntouch planted-ran\n");
    program(bench.project.path("planted"), "#!/bin/sh\ntouch planted-ran\n");
    let server = fixture(&["plain"])["args"][0].as_str().unwrap().to_owned();
    let mine =
        program(bench.home.path("tools/planted"), &format!("#!/bin/sh\nexec python3 '{server}' plain\n"));
    let folders = [".", "node_modules/.bin", ""].map(std::path::PathBuf::from).into_iter();
    let places = [bench.project.root().to_owned(), inside.parent().unwrap().to_owned()];
    let system = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
    let all = folders.chain(places).chain([mine.parent().unwrap().to_owned()]).chain(system);
    let path = std::env::join_paths(all).unwrap();
    let becket = |words: &[&str]| run(bench.command().env("PATH", &path).args(words));
    becket(&["mcp", "add", "mine", "--scope", "user", "--", "planted"]).expect(0);
    let get = becket(&["mcp", "get", "mine"]).expect(0).stdout;
    assert!(get.contains("connected, 6 tools"), "{get}");
    assert!(get.contains(&format!("planted runs {}", mine.display())), "{get}");
    let server = MockServer::start([Answer::text("done")]);
    run(bench.print(Api::Anthropic, &server).env("PATH", &path).arg("go")).expect(0);
    assert!(!bench.project.exists("planted-ran"));

    // A server of the project may run it, and the page on which it is allowed shows its path and its text.
    bench.project.write(".mcp.json", json!({"mcpServers": {"p": {"command": "planted"}}}).to_string());
    let get = becket(&["mcp", "get", "p"]).expect(0).stdout;
    assert!(get.contains(&format!("planted runs {}", bench.project.path("planted").display())), "{get}");
    assert!(get.contains("touch planted-ran"), "{get}");
    assert!(!bench.project.exists("planted-ran"));
    becket(&["mcp", "approve", "p"]).expect(0);
    // If the same name leads to another program, the server must be allowed again.
    let other = std::env::join_paths([mine.parent().unwrap().to_owned(), "/usr/bin".into(), "/bin".into()]);
    let list = run(bench.command().env("PATH", other.unwrap()).args(["mcp", "list"])).expect(0).stdout;
    assert!(list.contains("not allowed yet"), "{list}");
}

#[test]
fn a_server_whose_script_has_changed_is_asked_about_again() {
    let entry = json!({"command": "sh", "args": ["./my server.sh"]});
    let bench = Bench::new(&[
        (".mcp.json", &json!({"mcpServers": {"p": entry}}).to_string()),
        ("my server.sh", "echo one >> ran.txt\n"),
    ]);
    let asked = || {
        let server = MockServer::start([Answer::text("done")]);
        let ran = run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
        ran.stderr.contains("you have not allowed it as it is now")
    };
    assert!(asked() && !bench.project.exists("ran.txt"));
    let get = run(bench.command().args(["mcp", "get", "p"])).expect(0).stdout;
    assert!(get.contains("my server.sh, 20 bytes") && get.contains("echo one >> ran.txt"), "{get}");
    run(bench.command().args(["mcp", "approve", "p"])).expect(0);
    assert!(!asked());
    run(bench.command().args(["mcp", "list"])).expect(0);
    assert!(bench.project.exists("ran.txt"), "an allowed server is started");
    std::fs::remove_file(bench.project.path("ran.txt")).unwrap();
    bench.project.write("my server.sh", "echo two >> ran.txt\n");
    assert!(asked() && !bench.project.exists("ran.txt"));
    bench.project.write("my server.sh", "echo one >> ran.txt\n");
    assert!(!asked());
}

#[test]
fn own_tools_are_served_under_the_same_permissions() {
    let bench = Bench::new(&[("a.txt", "inside\n")]);
    let line = |id: u64, method: &str, params: Value| {
        format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    let call = |id, name: &str, arguments: Value| {
        line(id, "tools/call", json!({"name": name, "arguments": arguments}))
    };
    let input = [
        line(1, "initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})),
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n".to_owned(),
        line(2, "tools/list", json!({})),
        call(3, "read", json!({"path": "a.txt"})),
        call(4, "write", json!({"path": "b.txt", "content": "x"})),
        call(5, "bash", json!({"command": "echo ran > c.txt"})),
    ]
    .concat();
    let mut command = bench.command();
    command.args(["mcp", "serve", "--allowedTools", "Write"]);
    let answers = crate::support::run_with(&mut command, input.as_bytes()).expect(0).lines();
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    let text = |n: usize| answers[n]["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(answers[1]["result"]["tools"].as_array().unwrap().iter().any(|t| t["name"] == "grep"));
    assert!(text(2).contains("inside"));
    assert!(bench.project.exists("b.txt"), "{}", text(3));
    assert!(text(4).contains("there is no user to ask here") && !bench.project.exists("c.txt"));
}

#[test]
fn a_program_brings_servers_in_its_introduction() {
    let bench = Bench::new(&[]);
    bench
        .project
        .write(".claude/commands/greet.md", "---\ndescription: Greets.\nargument-hint: NAME\n---\nhello\n");
    let server = MockServer::start([
        Answer::tool("c1", "mcp__own__echo", json!({"text": "hi"})),
        Answer::text("done"),
    ]);
    let mut command = bench.command();
    command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
    command.args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    command.args([
        "--await-initialize",
        "--model",
        "claude-sonnet-4-5",
        "--permission-mode",
        "bypassPermissions",
    ]);
    let servers = json!({"own": fixture(&["plain"])});
    let lines = [
        json!({"type": "control_request", "request_id": "1", "request": {"subtype": "initialize", "mcpServers": servers}}),
        json!({"type": "user", "message": {"role": "user", "content": "go"}, "parent_tool_use_id": null}),
    ];
    let input: String = lines.iter().map(|line| line.to_string() + "\n").collect();
    let ran = run_with(&mut command, input.as_bytes()).expect(0);
    let lines = ran.lines();
    let answer = lines.iter().find(|line| line["type"] == "control_response").unwrap();
    assert_eq!(answer["response"]["response"]["mcp_servers_applied"], true, "{answer}");
    let commands = answer["response"]["response"]["commands"].as_array().unwrap();
    let greet = json!({"name": "greet", "description": "Greets.", "argumentHint": "NAME"});
    assert!(commands.contains(&greet), "{commands:?}");
    assert!(server.requests()[1].text().contains("Echo: hi"), "{}", server.requests()[1].text());
}

/// A becket that a program drives.
fn driven(bench: &Bench, server: &MockServer) -> Running {
    let mut command = bench.command();
    command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
    command.args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    command.args(["--model", "claude-sonnet-4-5", "--permission-mode", "bypassPermissions"]);
    Running::start(&mut command)
}

/// The answer to a control request.
fn answer(running: &mut Running, body: &Value) -> Value {
    ask(running, &request(body), "\"control_response\"")["response"].clone()
}

/// The `system/init` line of a turn, which is waited for.
fn turn(running: &mut Running, prompt: &str) -> Value {
    let init = ask(running, &says(prompt), "\"subtype\":\"init\"");
    running.line(|line| line.contains("\"type\":\"result\""));
    init
}

fn has(init: &Value, list: &str, name: &str) -> bool {
    init[list].as_array().unwrap().contains(&json!(name))
}

#[test]
fn a_program_replaces_its_servers_in_a_running_session() {
    let bench = Bench::new(&[]);
    let echo = Answer::tool("c1", "mcp__one__echo", json!({"text": "first"}));
    let server = MockServer::start([echo, Answer::text("done"), Answer::text("gone")]);
    let set = |servers: Value| json!({"subtype": "mcp_set_servers", "servers": servers});
    let mut running = driven(&bench, &server);
    let servers = json!({"one": fixture(&["prompts"]), "dead": fixture(&["dead"]), "odd": {"type": "tin"}});
    let first = answer(&mut running, &set(servers))["response"].clone();
    assert_eq!((&first["added"], &first["removed"]), (&json!(["one", "dead"]), &json!([])));
    assert!(first["errors"]["dead"].as_str().unwrap().contains("the database is not there"), "{first}");
    assert!(first["errors"]["odd"].as_str().unwrap().contains("tin"), "{first}");
    let init = turn(&mut running, "go");
    assert!(has(&init, "tools", "mcp__one__echo") && has(&init, "slash_commands", "mcp__one__greet"));
    let second = answer(&mut running, &set(json!({"two": fixture(&["plain"])})))["response"].clone();
    assert_eq!(second, json!({"added": ["two"], "removed": ["dead", "one"], "errors": {}}));
    assert_eq!(answer(&mut running, &json!({"subtype": "mcp_set_servers"}))["subtype"], "error");
    let init = turn(&mut running, "again");
    assert!(!has(&init, "tools", "mcp__one__echo") && has(&init, "tools", "mcp__two__echo"), "{init}");
    assert!(!has(&init, "slash_commands", "mcp__one__greet"), "{init}");
    running.wait().expect(0);
    let requests = server.requests();
    assert!(requests[1].text().contains("Echo: first"), "{}", requests[1].text());
    assert!(offered(requests[2].text()).contains(&"mcp__two__echo".to_owned()));
    // A tool that the history calls stays as a stub without inputs, because providers refuse a history with unknown tools.
    let request: Value = serde_json::from_str(requests[2].text()).unwrap();
    let one =
        request["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "mcp__one__echo").unwrap();
    assert!(!one.to_string().contains("\"text\""), "{one}");
}

#[test]
fn a_program_switches_a_server_off_and_on() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("off"), Answer::text("on")]);
    let toggle =
        |name: &str, enabled: bool| json!({"subtype": "mcp_toggle", "serverName": name, "enabled": enabled});
    let mut running = driven(&bench, &server);
    let servers = json!({"subtype": "initialize", "mcpServers": {"one": fixture(&["plain"])}});
    assert_eq!(answer(&mut running, &servers)["response"]["mcp_servers_applied"], true);
    assert_eq!(answer(&mut running, &toggle("one", false))["subtype"], "success");
    assert!(!has(&turn(&mut running, "first"), "tools", "mcp__one__echo"));
    assert_eq!(answer(&mut running, &toggle("one", true))["subtype"], "success");
    assert!(has(&turn(&mut running, "second"), "tools", "mcp__one__echo"));
    assert_eq!(answer(&mut running, &toggle("none", true))["subtype"], "error");
    assert_eq!(
        answer(&mut running, &json!({"subtype": "mcp_toggle", "serverName": "one"}))["subtype"],
        "error"
    );
    running.wait().expect(0);
    let requests = server.requests();
    let is_offered = |at: usize| offered(requests[at].text()).contains(&"mcp__one__echo".to_owned());
    assert!(!is_offered(0) && is_offered(1));
}

#[test]
fn lines_that_come_while_servers_start_are_held_in_their_order() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("done")]);
    let set = |servers: Value| request(&json!({"subtype": "mcp_set_servers", "servers": servers}));
    let mut running = driven(&bench, &server);
    // All lines are sent at once, and the input ends directly after them.
    for line in [
        set(json!({"one": fixture(&["plain"])})),
        set(json!({"one": fixture(&["prompts"])})),
        says("/mcp__one__greet Ada"),
    ] {
        running.send(format!("{line}\n").as_bytes());
    }
    running.close_stdin();
    let ran = running.wait().expect(0);
    let answers = ran.lines().into_iter().filter(|line| line["type"] == "control_response");
    let answers: Vec<Value> = answers.map(|line| line["response"]["response"].clone()).collect();
    assert_eq!(
        answers,
        [
            json!({"added": ["one"], "removed": [], "errors": {}}),
            json!({"added": ["one"], "removed": ["one"], "errors": {}}),
        ]
    );
    assert!(server.requests()[0].text().contains("Greet Ada."), "{}", server.requests()[0].text());
}

#[test]
fn a_server_that_does_not_start_is_named_at_the_end() {
    let bench = Bench::new(&[]);
    let server =
        MockServer::start([Answer::tool("c1", "bash", json!({ "command": "true" })), Answer::text("done")]);
    let servers = r#"{"mcpServers":{"bad":{"command":"nosuchprog-of-becket"}}}"#;
    let mut command = bench.print(Api::Anthropic, &server);
    let ran =
        run(command.args(["--mcp-config", servers, "--allowedTools", "Bash(true)", "--", "go"])).expect(0);
    assert!(ran.stderr.contains("the MCP server bad was not used: "), "{ran:?}");
}
