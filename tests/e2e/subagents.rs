//! Subagents through the built binary: a task of their own over real HTTP, linked sessions, the undo of what they did.

use crate::support::{Api, BOTH, Bench, run};
use becket_testkit::{Answer, MockServer, Recorded};
use serde_json::{Value, json};

fn task(id: &str, agent: &str, prompt: &str) -> Answer {
    Answer::tool(
        id,
        "task",
        json!({ "description": format!("to {prompt}"), "prompt": prompt, "agent": agent }),
    )
}

fn anywhere(request: &Recorded, words: &str) -> bool {
    request.text().contains(words)
}

#[test]
fn a_subagent_has_its_task_alone_and_its_last_words_come_back() {
    for api in BOTH {
        let bench = Bench::new(&[("a.txt", "needle\n")]);
        let server = MockServer::start([
            task("t1", "explore", "find the needle"),
            Answer::text("I search.").and_tool("c1", "grep", json!({ "pattern": "needle" })),
            Answer::text("It is in a.txt:1."),
            Answer::text("Found."),
        ]);
        let print = ["--output-format", "stream-json", "the great task"];
        let ran = run(bench.print(api, &server).args(print)).expect(0);
        let requests = server.requests();
        assert_eq!(requests.len(), 4, "{api:?}");
        assert!(!anywhere(&requests[1], "the great task") && anywhere(&requests[1], "find the needle"));
        assert!(!requests[1].tool_names().contains(&"task".to_owned()), "it has no subagents");
        assert!(requests[0].tool_names().contains(&"task".to_owned()));
        assert!(anywhere(&requests[3], "It is in a.txt:1.") && !anywhere(&requests[3], "I search."));

        let lines = ran.lines();
        let of = |kind: &str, nested: bool| -> Vec<&Value> {
            lines
                .iter()
                .filter(|l| l["type"] == kind && (l["parent_tool_use_id"] == "t1") == nested)
                .collect()
        };
        assert_eq!(of("assistant", true).len(), 1, "{api:?}: its call, and not its words");
        assert!(!of("assistant", true)[0].to_string().contains("I search."));
        assert_eq!(
            (of("assistant", false).len(), of("user", true).len(), of("user", false).len()),
            (2, 1, 1)
        );
        let subtypes: Vec<_> = of("system", true).iter().map(|l| l["subtype"].as_str().unwrap()).collect();
        assert_eq!(subtypes, ["task_started", "task_progress", "task_updated", "task_notification"]);
        let system = of("system", true);
        assert_eq!(system[0]["is_backgrounded"], false);
        assert!(system[1]["usage"]["total_tokens"].as_u64() > Some(0), "{api:?}: {}", system[1]);
        assert_eq!(system[2]["patch"]["status"], "completed");
        assert_eq!(ran.result()["num_turns"], 2);
        let session = of("system", true)[0]["task_id"].as_str().unwrap().to_owned();

        // The subagent's session is linked to its agent's: the list has only the agent's, the tree has both, and `-c`
        // continues the agent's.
        let becket = |args: &[&str]| run(bench.command().args(args));
        let list: Value = serde_json::from_str(&becket(&["sessions", "--json"]).expect(0).stdout).unwrap();
        assert_eq!(list.as_array().unwrap().len(), 1);
        let tree = becket(&["sessions", "tree"]).expect(0).stdout;
        assert!(tree.contains(&format!("  └ {session}")) && tree.contains("(subagent: explore)"), "{tree}");
        assert!(becket(&["context", &session]).expect(0).stdout.contains("find the needle"));
        for format in ["md", "html"] {
            let page =
                becket(&["export", list[0]["id"].as_str().unwrap(), "--format", format]).expect(0).stdout;
            assert!(page.contains(&format!("Subagent explore (2 requests, session {session})")), "{format}");
            assert!(page.contains("- grep needle"), "{format}");
            assert!(
                page.contains("Subagent explore: to find the needle") && page.contains("I search."),
                "{page}"
            );
        }
        let last = MockServer::start([Answer::text("again")]);
        run(bench.print(api, &last).args(["-c", "go on"])).expect(0);
        assert!(anywhere(&last.requests()[0], "the great task"));

        // The subagent's session goes into the trash and comes back with its agent's.
        let main = list[0]["id"].as_str().unwrap();
        assert!(becket(&["sessions", "rm", main]).expect(0).stdout.contains("with its subagent's"));
        assert_eq!(becket(&["sessions", "tree"]).expect(0).stdout, "There is no session yet.\n");
        assert!(
            becket(&["sessions", "restore", main]).expect(0).stdout.contains("with its subagent's is back")
        );
        assert!(becket(&["sessions", "tree"]).expect(0).stdout.contains(&session));
    }
}

#[test]
fn its_words_come_when_they_are_asked_for() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        task("t1", "general", "think"),
        Answer::text("I thought."),
        Answer::text("So be it."),
    ]);
    let flags = ["--output-format", "stream-json", "--forward-subagent-text", "go"];
    let ran = run(bench.print(Api::Anthropic, &server).args(flags)).expect(0);
    let words: Vec<String> = ran
        .lines()
        .iter()
        .filter(|l| l["parent_tool_use_id"] == "t1" && l["type"] != "system")
        .map(|l| l["message"]["content"].to_string())
        .collect();
    assert_eq!(words.len(), 2, "{words:?}");
    assert!(words[0].contains("think") && words[1].contains("I thought."), "{words:?}");
}

#[test]
fn what_it_may_not_do_is_denied_and_what_it_did_is_undone() {
    let bench = Bench::new(&[("a.txt", "first\n"), ("secret.txt", "s\n")]);
    let server = MockServer::start([
        task("t1", "general", "write"),
        Answer::tool("c1", "write", json!({ "path": "b.txt", "content": "new\n" }))
            .and_tool("c2", "bash", json!({ "command": "echo second > a.txt" }))
            .and_tool("c3", "read", json!({ "path": "secret.txt" })),
        Answer::text("written"),
        Answer::text("done"),
    ]);
    let flags = ["--permission-mode", "bypassPermissions", "--disallowedTools", "Read(./secret.txt)"];
    let print = ["--output-format", "json", "--", "go"];
    let ran = run(bench.print(Api::Chat, &server).args(flags).args(print)).expect(0);
    assert_eq!(bench.project.read("a.txt"), "second\n");
    let denied = ran.result()["permission_denials"].clone();
    assert_eq!((denied.as_array().unwrap().len(), &denied[0]["tool_use_id"]), (1, &json!("c3")));
    let undone = run(bench.command().args(["undo", "--yes"])).expect(0);
    assert_eq!(bench.project.read("a.txt"), "first\n", "{undone:?}");
    assert!(!bench.project.exists("b.txt"));
}

#[test]
fn a_file_describes_an_agent_and_a_rule_takes_them_all_away() {
    let bench = Bench::new(&[]);
    bench.project.write(
        ".claude/agents/reviewer.md",
        "---\nname: reviewer\ndescription: Reviews changes.\ntools: Read, Grep\n---\nBe very strict.\n",
    );
    bench.project.write(".claude/agents/broken.md", "no head\n");
    let server =
        MockServer::start([task("t1", "reviewer", "review"), Answer::text("fine"), Answer::text("done")]);
    let ran = run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    assert!(
        ran.stderr.contains("broken.md is left out: it does not begin with frontmatter"),
        "{}",
        ran.stderr
    );
    let requests = server.requests();
    assert!(anywhere(&requests[0], "- reviewer: Reviews changes."));
    assert!(anywhere(&requests[1], "Be very strict.") && !anywhere(&requests[0], "Be very strict."));
    assert_eq!(requests[1].tool_names(), ["grep", "read"]);

    let server = MockServer::start([Answer::text("alone")]);
    run(bench.print(Api::Anthropic, &server).args(["--disallowedTools", "Task", "--", "go"])).expect(0);
    assert!(!server.requests()[0].tool_names().contains(&"task".to_owned()));
}
