//! Agents with all their keys through the binary: `--agents` and `--agent`, memories, hooks and servers of an agent, and
//! subagents in the background.

use crate::mcp::fixture;
use crate::support::{Api, BOTH, Bench, run};
use crate::terminal::{Terminal, becket};
use becket_testkit::{Answer, Gate, MockServer, Recorded, Reply};
use serde_json::{Value, json};

fn task(id: &str, agent: &str, prompt: &str) -> Answer {
    Answer::tool(
        id,
        "task",
        json!({ "description": format!("to {prompt}"), "prompt": prompt, "agent": agent }),
    )
}

/// Answers a request by the last message in it: that of the main agent, or that of a subagent with a task.
fn by_prompt(mut answer: impl FnMut(&str, &Recorded) -> Answer + Send + 'static) -> MockServer {
    MockServer::with(move |request| {
        let text = request.text().to_owned();
        let whose = if text.contains("THE-TASK") && !text.contains("THE-JOB") { "sub" } else { "main" };
        Reply::from(answer(whose, request))
    })
}

#[test]
fn agents_of_the_command_line_have_their_keys() {
    for api in BOTH {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let agents = json!({
            "Writer": {
                "description": "Writes.", "prompt": "Write well.", "tools": ["Read", "Write"],
                "permissionMode": "acceptEdits", "maxTurns": 2, "skills": ["commit", "nope"],
            },
            "planner": { "prompt": "Plan.", "permissionMode": "plan" },
        });
        let write =
            |id: &str, path: &str| Answer::tool(id, "write", json!({ "path": path, "content": "x\n" }));
        let server = MockServer::start([
            task("t1", "writer", "write it"),
            write("w1", "new.txt"),
            write("w2", "more.txt"),
            Answer::text("I have to stop."),
            task("t2", "planner", "write it, too"),
            write("w3", "never.txt"),
            Answer::text("planned"),
            Answer::text("all done"),
        ]);
        let flags = ["--agents", &agents.to_string(), "--output-format", "json", "go"];
        let ran = run(bench.print(api, &server).args(flags)).expect(0);
        assert!(ran.stderr.contains("the agent writer works without the skill nope"), "{}", ran.stderr);
        let requests = server.requests();
        assert_eq!(requests[1].tool_names(), ["read", "write"], "{api:?}");
        assert!(requests[1].text().contains("Write well."));
        assert!(bench.project.exists("new.txt") && bench.project.exists("more.txt"), "acceptEdits holds");
        assert!(requests[4].text().contains("it was stopped after 2 requests"), "{}", requests[4].text());
        assert!(!bench.project.exists("never.txt"), "plan holds");
        assert!(requests[6].text().contains("permission mode plan"));
    }
}

#[test]
fn a_wrong_definition_is_one_message_before_anything_runs() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("never")]);
    for (flags, words) in [
        (["--agents", "{nope"], "--agents"),
        (["--agents", r#"{"a": {}}"#], "`prompt` is missing"),
        (["--agents", "missing.json"], "there is no file missing.json"),
        (["--agent", "nobody"], "there is no agent \"nobody\""),
    ] {
        let ran = run(bench.print(Api::Chat, &server).args(flags).arg("go")).expect(2);
        assert!(ran.stderr.contains(words), "{flags:?}: {}", ran.stderr);
    }
    assert!(server.requests().is_empty());
}

#[test]
fn a_session_runs_as_an_agent_and_stays_one() {
    let bench = Bench::new(&[]);
    bench.home.write(
        ".config/becket/agents/reviewer.md",
        "---\nname: reviewer\ndescription: Reviews.\ntools: Read, Grep, Task\neffort: low\n---\nBe very strict.\n",
    );
    let server = MockServer::start([Answer::text("fine")]);
    run(bench.print(Api::Anthropic, &server).args(["--agent", "reviewer", "go"])).expect(0);
    let first = &server.requests()[0];
    assert_eq!(first.tool_names(), ["grep", "read", "task"]);
    assert!(first.text().contains("Be very strict."));
    // A subagent does not inherit the prompt of the session's agent.
    let server = MockServer::start([
        task("t1", "explore", "look"),
        Answer::text("looked"),
        Answer::text("still fine"),
    ]);
    run(bench.print(Api::Anthropic, &server).args(["-c", "go on"])).expect(0);
    let requests = server.requests();
    assert_eq!(requests[0].tool_names(), ["grep", "read", "task"], "the session keeps its agent");
    assert!(!requests[1].text().contains("Be very strict."));
    assert!(requests[2].text().contains("Be very strict."));
    // The agent is gone: the session continues without it, and says so.
    std::fs::remove_file(bench.home.path(".config/becket/agents/reviewer.md")).unwrap();
    let server = MockServer::start([Answer::text("alone")]);
    let ran = run(bench.print(Api::Anthropic, &server).args(["-c", "and now"])).expect(0);
    assert!(
        ran.stderr.contains("ran as the agent reviewer, which is not defined any more"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_agent_keeps_a_memory_from_run_to_run() {
    let bench = Bench::new(&[]);
    bench.home.write(
        ".config/becket/agents/keeper.md",
        "---\nname: keeper\ndescription: Keeps.\ntools: Read\nmemory: user\n---\nKeep notes.\n",
    );
    let mut at = 0;
    let server = MockServer::with(move |request| {
        at += 1;
        Reply::from(match at {
            1 => task("t1", "keeper", "THE-TASK"),
            2 => {
                let text = request.text();
                let from = text.find("earlier runs are in ").unwrap() + "earlier runs are in ".len();
                let folder = text[from..].split(". Look").next().unwrap().to_owned();
                Answer::tool(
                    "w1",
                    "write",
                    json!({ "path": format!("{folder}/MEMORY.md"), "content": "tabs, not spaces\n" }),
                )
            }
            3 => Answer::text("noted"),
            _ => Answer::text("done"),
        })
    });
    run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    assert!(!server.requests()[2].text().contains("Permission denied"), "{}", server.requests()[2].text());
    let server = MockServer::start([task("t1", "keeper", "again"), Answer::text("ok"), Answer::text("done")]);
    run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    assert!(server.requests()[1].text().contains("tabs, not spaces"));
}

#[test]
fn hooks_of_an_agent_run_while_it_works_and_those_of_a_skill_once_it_is_loaded() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    bench.home.write(
        ".config/becket/agents/careful.md",
        "---\nname: careful\ndescription: Careful.\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          command: \"echo no commands >&2; exit 2\"\n  Stop:\n    - hooks:\n        - type: command\n          command: \"touch stopped\"\n---\nx\n",
    );
    bench.home.write(
        ".claude/skills/guarded/SKILL.md",
        "---\nname: guarded\ndescription: Guarded work.\nhooks:\n  PreToolUse:\n    - matcher: Read\n      hooks:\n        - type: command\n          command: \"echo no reading >&2; exit 2\"\n---\nWork.\n",
    );
    let bash = |id: &str| Answer::tool(id, "bash", json!({ "command": "echo fine" }));
    let read = |id: &str| Answer::tool(id, "read", json!({ "path": "a.txt" }));
    let server = MockServer::start([
        bash("b1"),
        task("t1", "careful", "run it"),
        bash("b2"),
        Answer::text("I could not"),
        read("r1"),
        Answer::tool("s1", "skill", json!({ "name": "guarded" })),
        read("r2"),
        Answer::text("done"),
    ]);
    let flags = ["--permission-mode", "bypassPermissions", "go"];
    run(bench.print(Api::Anthropic, &server).args(flags));
    let requests = server.requests();
    assert!(requests[1].text().contains("fine"), "the agent's hooks are not the session's");
    assert!(requests[3].text().contains("Permission denied, not run: no commands"));
    assert!(bench.project.exists("stopped"), "Stop of an agent is SubagentStop");
    assert!(requests[5].text().contains("one") && !requests[5].text().contains("no reading"));
    assert!(requests[7].text().contains("Permission denied, not run: no reading"));
    let listed = run(bench.command().args(["hooks", "list"])).expect(0).stdout;
    assert!(listed.contains("agent: ") && listed.contains("skill: "), "{listed}");
    // A session that continues has its loaded skill.
    let server = MockServer::start([read("r3"), Answer::text("done")]);
    run(bench.print(Api::Anthropic, &server).args(["-c", "--permission-mode", "bypassPermissions", "go"]));
    assert!(server.requests()[1].text().contains("no reading"));
}

#[test]
fn hooks_in_files_of_a_project_do_not_run_unasked() {
    let bench = Bench::new(&[]);
    let hooks =
        "hooks:\n  PreToolUse:\n    - hooks:\n        - type: command\n          command: \"touch ran\"\n";
    bench.project.write(".claude/agents/evil.md", format!("---\ndescription: d\n{hooks}---\nx\n"));
    bench
        .project
        .write(".claude/skills/bad/SKILL.md", format!("---\nname: bad\ndescription: d\n{hooks}---\nx\n"));
    let calls = || {
        [
            Answer::tool("s1", "skill", json!({ "name": "bad" })),
            task("t1", "evil", "go"),
            Answer::tool("b1", "glob", json!({ "pattern": "*" })),
            Answer::text("done"),
            Answer::text("done"),
        ]
    };
    let server = MockServer::start(calls());
    let ran = run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    assert!(!bench.project.exists("ran"), "{ran:?}");
    assert!(ran.stderr.contains("evil.md") && ran.stderr.contains("SKILL.md"), "{}", ran.stderr);
    let server = MockServer::start(calls());
    run(bench.print(Api::Anthropic, &server).args(["--trust", "go"])).expect(0);
    assert!(bench.project.exists("ran"));
}

#[test]
fn a_server_of_an_agent_is_its_own() {
    let bench = Bench::new(&[]);
    let agents = json!({
        "caller": {
            "description": "Calls.", "prompt": "Call.", "tools": ["Read"],
            "mcpServers": [{ "own": fixture(&["plain"]) }],
        },
        "reader": { "prompt": "Read.", "tools": ["Read"] },
    });
    let shared = json!({ "mcpServers": { "all": fixture(&["plain"]) } });
    let server = MockServer::start([
        task("t1", "caller", "call it"),
        Answer::tool("c1", "mcp__own__echo", json!({ "text": "hi" })),
        Answer::text("called"),
        task("t2", "reader", "read it"),
        Answer::tool("c2", "mcp__all__echo", json!({ "text": "hi" })),
        Answer::text("refused"),
        Answer::tool("c3", "mcp__own__echo", json!({ "text": "hi" })),
        Answer::text("done"),
    ]);
    let flags = ["--permission-mode", "bypassPermissions", "--agents", &agents.to_string()];
    let more = ["--mcp-config", &shared.to_string(), "--", "go"];
    run(bench.print(Api::Anthropic, &server).args(flags).args(more)).expect(0);
    let requests = server.requests();
    assert!(requests[2].text().contains("Echo: hi"), "{}", requests[2].text());
    assert!(!requests[5].text().contains("Echo: hi"), "an agent has only the tools that it names");
    let names = requests[7].tool_names();
    assert!(
        // A server that had not started at the first request is found by a search.
        names.iter().any(|n| n == "mcp__all__echo" || n == "mcp_search")
            && !names.iter().any(|n| n == "mcp__own__echo"),
        "{names:?}"
    );
    assert!(!requests[7].text().contains("Echo: hi"), "the session does not have the agent's server");
}

#[test]
fn a_task_in_the_background_reports_back_before_the_run_ends() {
    for api in BOTH {
        let bench = Bench::new(&[("a.txt", "needle\n")]);
        let mut main = 0;
        let server = by_prompt(move |whose, request| match whose {
            "sub" => Answer::text("It is in a.txt."),
            _ => {
                main += 1;
                match main {
                    1 => Answer::tool(
                        "t1",
                        "task",
                        json!({
                            "description": "find", "prompt": "THE-TASK", "agent": "explore",
                            "run_in_background": true,
                        }),
                    ),
                    2 => {
                        assert!(request.text().contains("Started in the background as task 1"));
                        Answer::text("I wait.")
                    }
                    _ => Answer::text("Found in a.txt."),
                }
            }
        });
        let flags = ["--output-format", "stream-json", "THE-JOB"];
        let ran = run(bench.print(api, &server).args(flags)).expect(0);
        let lines = ran.lines();
        let results: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result").collect();
        assert_eq!(results.len(), 1, "{api:?}: one prompt has one result");
        assert_eq!(results[0]["result"], "Found in a.txt.");
        let last = server.requests().last().unwrap().text().to_owned();
        assert!(last.contains("<task-notification>") && last.contains("It is in a.txt."), "{last}");
        let of = |subtype: &str| lines.iter().filter(|line| line["subtype"] == subtype).count();
        assert_eq!((of("task_started"), of("task_notification")), (1, 1));
        let ran = run(bench.print(api, &server).args(["--output-format", "json", "THE-JOB"]));
        assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    }
}

#[test]
fn an_agent_that_names_the_background_runs_there() {
    let bench = Bench::new(&[]);
    let agents = json!({ "slow": { "prompt": "Look.", "background": true } });
    let mut main = 0;
    let server = by_prompt(move |whose, _| {
        if whose == "sub" {
            return Answer::text("looked");
        }
        main += 1;
        match main {
            1 => task("t1", "slow", "THE-TASK"),
            _ => Answer::text("done"),
        }
    });
    run(bench.print(Api::Chat, &server).args(["--agents", &agents.to_string(), "THE-JOB"])).expect(0);
    let last = server.requests().last().unwrap().text().to_owned();
    assert!(last.contains("The background task 1 (slow: to THE-TASK) is done."), "{last}");
}

#[test]
fn a_hook_asks_a_tool_of_a_server() {
    let bench = Bench::new(&[]);
    bench.home.write(
        ".claude/settings.json",
        json!({ "hooks": { "UserPromptSubmit": [{ "hooks": [{
            "type": "mcp_tool", "server": "fix", "tool": "echo", "input": { "text": "you asked: ${prompt}" },
        }] }] } })
        .to_string(),
    );
    let servers = json!({ "mcpServers": { "fix": fixture(&["plain"]) } }).to_string();
    let server = MockServer::start([Answer::text("done")]);
    run(bench.print(Api::Anthropic, &server).args(["--mcp-config", &servers, "--", "what now"])).expect(0);
    let first = server.requests()[0].text().to_owned();
    assert!(first.contains("Echo: you asked: what now") && first.contains("<hook event"), "{first}");
    // If there is no such server, one line reports the hook, and the run continues.
    let server = MockServer::start([Answer::text("done")]);
    let ran = run(bench.print(Api::Anthropic, &server).arg("what now")).expect(0);
    assert!(ran.stderr.contains("there are no MCP servers here"), "{}", ran.stderr);
}

#[test]
fn a_hook_that_is_an_agent_looks_before_it_judges() {
    let bench = Bench::new(&[("freeze.txt", "until monday\n")]);
    bench.home.write(
        ".claude/settings.json",
        json!({ "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [{
            "type": "agent", "prompt": "JUDGE: is there a freeze? $ARGUMENTS",
        }] }] } })
        .to_string(),
    );
    let mut judge = 0;
    let mut main = 0;
    let server = MockServer::with(move |request| {
        let answer = if request.text().contains("JUDGE") {
            judge += 1;
            match judge {
                1 => {
                    assert_eq!(request.tool_names(), ["glob", "grep", "read"]);
                    Answer::tool("j1", "read", json!({ "path": "freeze.txt" }))
                }
                _ => {
                    assert!(request.text().contains("until monday"));
                    Answer::text(r#"{"ok": false, "reason": "frozen until monday"}"#)
                }
            }
        } else {
            main += 1;
            match main {
                1 => Answer::tool("b1", "bash", json!({ "command": "touch made" })),
                _ => Answer::text("I stop."),
            }
        };
        Reply::from(answer)
    });
    let flags = ["--permission-mode", "bypassPermissions", "go"];
    run(bench.print(Api::Anthropic, &server).args(flags));
    assert!(!bench.project.exists("made"));
    let last = server.requests().last().unwrap().text().to_owned();
    assert!(last.contains("Permission denied, not run: frozen until monday"), "{last}");
    assert_eq!(bench.ledgers().len(), 1, "the judge's session is not kept");
}

#[test]
fn ctrl_b_moves_a_command_and_a_subagent_to_the_background() {
    let bench = Bench::new(&[]);
    let gate = Gate::new();
    let held = gate.clone();
    let mut main = 0;
    let server = MockServer::with(move |request| {
        let text = request.text();
        if text.contains("THE-TASK") && !text.contains("THE-JOB") {
            return Reply::from(Answer::text("looked")).gate_before(&held);
        }
        main += 1;
        Reply::from(match main {
            1 => Answer::tool("b1", "bash", json!({ "command": "sleep 1000" })),
            2 => Answer::text("It runs on."),
            3 => task("t1", "general", "THE-TASK"),
            4 => Answer::text("I go on."),
            _ => Answer::text("It told me."),
        })
    });
    let mut command = becket(&bench, &server);
    command.args(["--permission-mode", "bypassPermissions"]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Describe a task");
    terminal.send("THE-JOB\r");
    terminal.shows("sleep 1000");
    terminal.press_until("\x02", "It runs on.");
    terminal.send("/tasks\r");
    terminal.shows_words("job 1 running for");
    terminal.send("\x1b");
    terminal.shows("Describe a task");
    terminal.send("/tasks stop job 1\r");
    terminal.shows_words("job 1 killed after");
    terminal.send("now the other\r");
    terminal.press_until("\x02", "I go on.");
    terminal.send("/tasks\r");
    terminal.shows_words("running · general: to THE-TASK");
    terminal.send("\x1b");
    terminal.shows("Describe a task");
    gate.open();
    terminal.shows("It told me.");
    terminal.shows_words("Background task 1 (general: to THE-TASK) is done.");
    terminal.send("/agents\r");
    terminal.shows_words("explore only reads");
}

#[test]
fn the_examples_of_the_guide_work() {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/agents.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let blocks = |language: &str| -> Vec<String> {
        let begin = format!("```{language}\n");
        guide.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
    };
    let bench = Bench::new(&[]);
    bench.home.write(".config/becket/agents/reviewer.md", &blocks("markdown")[0]);
    let bin = bench.home.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_becket"), bin.join("becket")).unwrap();
    // Blocks of the kind `console` are run by `cargo xtask book`; this test runs those of the kind `sh`.
    let lines: Vec<String> = blocks("sh").concat().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    for (line, words) in lines.iter().zip(["- namer: Finds names."]) {
        let server = MockServer::start([Answer::text("done")]);
        let mut command = bench.command();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("BECKET_MODEL", "anthropic/claude-sonnet-4-5");
        command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", line]).current_dir(bench.project.root()).env_clear();
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        run(&mut shell).expect(0);
        assert!(server.requests()[0].text().contains(words), "{line}");
    }
}

#[test]
fn the_agent_of_a_session_starts_only_the_agents_that_it_names() {
    let bench = Bench::new(&[]);
    let agents = json!({
        "lead": { "description": "Leads.", "prompt": "Lead.", "tools": "Agent(worker, ghost), Read" },
        "worker": { "description": "Works.", "prompt": "Work.", "tools": "Read" },
    });
    let server = MockServer::start([
        task("t1", "explore", "look"),
        task("t2", "worker", "work"),
        Answer::text("worked"),
        Answer::text("all done"),
    ]);
    let flags = ["--agents", &agents.to_string(), "--agent", "lead", "go"];
    let ran = run(bench.print(Api::Chat, &server).args(flags)).expect(0);
    assert!(ran.stderr.contains("names the agent ghost, which is not defined"), "{}", ran.stderr);
    let requests = server.requests();
    let mut names = requests[0].tool_names();
    names.sort();
    assert_eq!(names, ["read", "task"]);
    assert!(
        requests[1].text().contains("There is no agent \\\"explore\\\". Agents: worker."),
        "{}",
        requests[1].text()
    );
    assert!(requests[3].text().contains("worked"));
}

#[test]
fn agents_are_listed_with_the_place_of_each() {
    let bench = Bench::new(&[(
        ".claude/agents/tester.md",
        "---\ndescription: Tests it.\ntools: Read, Bash\n---\nTest.\n",
    )]);
    bench.home.write(
        ".config/becket/agents/reviewer.md",
        "---\ndescription: Reviews.\nmaxTurns: 3\n---\nReview.\n",
    );
    let list = |flags: &[&str]| run(bench.command().arg("agents").args(flags)).expect(0).stdout;
    let text = list(&[]);
    for part in [
        "reviewer  ",
        "from: you, ",
        "at most: 3 requests",
        "from: built in",
        "used by `becket -p` alone: you have not trusted this project",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let listed: Value = serde_json::from_str(&list(&["--json", "--trust"])).unwrap();
    let tester = listed["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "tester").unwrap();
    assert_eq!((&tester["source"], &tester["used"]), (&json!("the project"), &json!(true)));
    assert!(
        tester["file"].as_str().unwrap().ends_with("tester.md") && tester["keys"]["tools"] == "read, bash"
    );
}

#[test]
fn lists_know_the_plugins_that_the_caller_names() {
    let hooks =
        json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "echo kit-hook" }] }] } });
    let servers = json!({ "mcpServers": { "fix": crate::mcp::fixture(&["plain"]) } });
    let bench = Bench::new(&[
        ("kit/agents/critic.md", "---\nname: critic\ndescription: Finds faults\n---\nBe strict.\n"),
        ("kit/hooks/hooks.json", &hooks.to_string()),
        ("kit/.mcp.json", &servers.to_string()),
    ]);
    let listed = |words: &[&str]| run(bench.command().args(words)).expect(0).stdout;
    for (words, name) in [
        (&["agents", "--json"][..], "\"kit:critic\""),
        (&["hooks", "list", "--json"], "echo kit-hook"),
        (&["mcp", "list", "--json"], "\"plugin:kit:fix\""),
        (&["mcp", "get", "plugin:kit:fix"], "connected"),
    ] {
        let with: Vec<&str> = words.iter().copied().chain(["--plugin-dir", "kit"]).collect();
        let shown = listed(&with);
        assert!(shown.contains(name), "{words:?}: {shown}");
        if name.starts_with('"') {
            assert!(!listed(words).contains(name), "{words:?}");
        }
    }
    let without = listed(&["mcp", "list", "--json", "--plugin-dir-no-mcp", "kit"]);
    assert!(!without.contains("plugin:kit:fix"), "{without}");
    let ran = run(bench.command().args(["agents", "--plugin-dir", "nowhere"])).expect(0);
    assert!(ran.stderr.contains("nowhere"), "{}", ran.stderr);
}
