//! The main job: a task goes in, files are read, edited, commands run, and the right bytes are on disk.

use crate::support::{Api, BOTH, Bench, run, run_with};
use becket_testkit::{Answer, MockServer, assert_prefix};
use serde_json::json;

const BUGGY: &str = "fn add(a: i32, b: i32) -> i32 {\r\n    a - b\r\n}\r\n";

fn fixing_answers() -> Vec<Answer> {
    vec![
        Answer::text("Let me look.").and_tool("c1", "read", json!({ "path": "add.rs" })).usage(900, 20),
        Answer::tool("c2", "edit", json!({ "path": "add.rs", "old": "    a - b", "new": "    a + b" }))
            .usage(1000, 20),
        Answer::tool("c3", "bash", json!({ "command": "grep -c 'a + b' add.rs > count.txt; cat count.txt" }))
            .usage(1100, 20),
        Answer::text("Fixed: `add` adds now.").usage(1200, 12),
    ]
}

#[test]
fn a_task_through_each_wire_ends_with_the_right_bytes_on_disk() {
    for api in BOTH {
        let bench = Bench::new(&[("add.rs", BUGGY)]);
        let server = MockServer::start(fixing_answers());
        let ran = run(bench.print(api, &server).args(["--permission-mode", "bypassPermissions", "fix add"]))
            .expect(0);
        assert_eq!(ran.stdout, "Fixed: `add` adds now.\n", "{api:?}");
        assert_eq!(bench.project.read("add.rs"), BUGGY.replace("a - b", "a + b"), "{api:?}: CRLF stays");
        assert_eq!(bench.project.read("count.txt"), "1\n", "{api:?}");
        let requests = server.requests();
        assert_eq!(requests.len(), 4, "{api:?}");
        assert_prefix(&requests);
        let last = requests.last().unwrap().text().to_owned();
        assert!(last.contains("a - b"), "the read's output reached the model: {last}");
    }
}

#[test]
fn parallel_reads_come_back_in_the_order_of_their_calls() {
    for api in BOTH {
        let bench = Bench::new(&[("a.txt", "AAA\n"), ("b.txt", "BBB\n"), ("c.txt", "CCC\n")]);
        let call = |n: &str| json!({ "path": format!("{n}.txt") });
        let server = MockServer::start([
            Answer::tool("1", "read", call("a")).and_tool("2", "read", call("b")).and_tool(
                "3",
                "read",
                call("c"),
            ),
            Answer::text("read"),
        ]);
        run(bench.print(api, &server).arg("read all")).expect(0);
        let second = server.requests()[1].text().to_owned();
        let at = |s: &str| second.rfind(s).unwrap_or_else(|| panic!("{s} is missing: {second}"));
        assert!(at("AAA") < at("BBB") && at("BBB") < at("CCC"), "{api:?}");
    }
}

#[test]
fn what_is_piped_in_is_added_to_the_prompt() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("ok"), Answer::text("ok")]);
    run_with(bench.print(Api::Chat, &server).arg("explain"), b"error: E0308\n").expect(0);
    let text = server.requests()[0].text().to_owned();
    assert!(text.contains("explain") && text.contains("error: E0308"), "{text}");
    run_with(&mut bench.print(Api::Chat, &server), b"only stdin\n").expect(0);
    assert!(server.requests()[1].text().contains("only stdin"));
}

#[test]
fn continue_and_resume_go_on_with_the_same_bytes() {
    for api in BOTH {
        let bench = Bench::new(&[("a.txt", "AAA\n")]);
        let server = MockServer::start([
            Answer::tool("1", "read", json!({ "path": "a.txt" })),
            Answer::text("one"),
            Answer::text("two"),
            Answer::text("three"),
        ]);
        run(bench.print(api, &server).arg("first")).expect(0);
        run(bench.print(api, &server).args(["--continue", "second"])).expect(0);
        let session = bench.ledgers()[0].parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let ran = run(bench.print(api, &server).args(["--resume", &session[..13], "third"])).expect(0);
        assert_eq!(ran.stdout, "three\n");
        assert_eq!(bench.ledgers().len(), 1, "{api:?}");
        assert_prefix(&server.requests());
    }
}

#[test]
fn a_fork_leaves_the_original_alone() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("one"), Answer::text("two")]);
    run(bench.print(Api::Anthropic, &server).arg("first")).expect(0);
    let before = std::fs::read(&bench.ledgers()[0]).unwrap();
    run(bench.print(Api::Anthropic, &server).args(["-c", "--fork-session", "second"])).expect(0);
    assert_eq!(bench.ledgers().len(), 2);
    assert_eq!(std::fs::read(&bench.ledgers()[0]).unwrap(), before);
    assert!(server.requests()[1].text().contains("first"));
}

#[test]
fn no_persistence_leaves_no_session() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("one")]);
    run(bench.print(Api::Anthropic, &server).args(["--no-session-persistence", "first"])).expect(0);
    assert_eq!(bench.ledgers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_is_not_kept_is_not_written_to_the_session_it_goes_on_from() {
    let bench = Bench::new(&[]);
    let server = MockServer::start(["one", "two", "three"].map(Answer::text));
    run(bench.print(Api::Anthropic, &server).arg("first")).expect(0);
    let before = std::fs::read(&bench.ledgers()[0]).unwrap();
    run(bench.print(Api::Anthropic, &server).args(["-c", "--no-session-persistence", "second"])).expect(0);
    assert!(server.requests()[1].text().contains("first"));
    assert_eq!((bench.ledgers().len(), std::fs::read(&bench.ledgers()[0]).unwrap()), (1, before));
}

#[test]
fn a_session_that_goes_on_says_what_it_cannot_take() {
    let bench = Bench::new(&[]);
    let server = MockServer::start(["one", "two", "{\"n\": 3}"].map(Answer::text));
    let same = ["--append-system-prompt", "Mind the gap."];
    run(bench.print(Api::Anthropic, &server).args(same).arg("first")).expect(0);
    let id = "7e57c0de-0000-4000-8000-000000000001";
    let copy = ["-c", "--fork-session", "--session-id", id, "--system-prompt", "You are a parrot.", "second"];
    let ran = run(bench.print(Api::Anthropic, &server).args(same).args(copy)).expect(0);
    assert!(ran.stderr.contains("--system-prompt has no effect"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("--append-system-prompt"), "it is there as before: {}", ran.stderr);
    assert!(!server.requests()[1].text().contains("parrot"));
    // The schema reaches the model after the prompt, and the words of the user stay what they were.
    let schema = "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}";
    let ran = run(bench.print(Api::Anthropic, &server).args(["-r", id, "--json-schema", schema, "third"]));
    assert_eq!(ran.expect(0).stdout, "{\"n\":3}\n");
    assert_eq!(server.requests().len(), 3);
    assert!(server.requests()[2].text().contains("must be one JSON value"));
    assert_prefix(&server.requests());
}

/// A tool that is not offered to this kind of model is run all the same, and neither it nor a name that the model made up
/// changes a byte of what was sent before.
#[test]
fn tools_that_are_not_offered_are_found_and_slips_keep_the_prefix() {
    for (api, model, tool) in [
        (Api::Chat, "openai/gpt-5.2", json!({ "path": "a.txt", "old_string": "old", "new_string": "new" })),
        (
            Api::Anthropic,
            "anthropic/claude-sonnet-4-5",
            json!({ "patch": "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch\n" }),
        ),
    ] {
        let bench = Bench::new(&[("a.txt", "old\n")]);
        let name = if tool.get("patch").is_some() { "apply_patch" } else { "edit" };
        let server = MockServer::start([
            Answer::tool("c1", "read", json!({ "path": "a.txt" })),
            Answer::tool("c2", name, tool),
            Answer::tool("c3", "no_such_tool", json!({})),
            Answer::text("done"),
        ]);
        let args = ["--model", model, "--permission-mode", "acceptEdits", "go"];
        let mut command = bench.command();
        let command = match api {
            Api::Chat => command.env("OPENAI_BASE_URL", server.url()).env("OPENAI_API_KEY", "sk-test"),
            Api::Anthropic => {
                command.env("ANTHROPIC_BASE_URL", server.url()).env("ANTHROPIC_API_KEY", "sk-test")
            }
        };
        run(command.arg("-p").args(args)).expect(0);
        assert_eq!(bench.project.read("a.txt"), "new\n", "{model}");
        assert!(!server.requests()[0].text().contains(&format!("\"name\":\"{name}\"")), "{model}");
        assert!(server.requests()[3].text().contains("There is no tool named `no_such_tool`"));
        assert_prefix(&server.requests());
    }
}

/// Whatever program a project was set up for, its skills and rules are found from any folder inside it.
#[test]
fn skills_and_rules_of_every_known_folder_are_found_from_a_folder_inside() {
    let folders = [
        ".becket/skills",
        ".agents/skills",
        ".claude/skills",
        ".codex/skills",
        ".opencode/skills",
        ".github/skills",
    ];
    let head = |n: usize| format!("---\nname: skill-{n}\ndescription: DESCRIPTION-{n}\n---\nbody\n");
    let bench = Bench::new(&[(".claude/CLAUDE.md", "RULE-CLAUDE\n"), ("a/b/x.txt", "X\n")]);
    std::fs::create_dir(bench.project.path(".git")).unwrap();
    for (n, folder) in folders.iter().enumerate() {
        bench.project.write(&format!("{folder}/skill-{n}/SKILL.md"), head(n));
    }
    // The nearest one of a name counts.
    bench
        .project
        .write("a/.github/skills/skill-0/SKILL.md", "---\nname: skill-0\ndescription: NEAREST\n---\nbody\n");
    let server = MockServer::start([Answer::text("done")]);
    let mut command = bench.print(Api::Anthropic, &server);
    run(command.current_dir(bench.project.path("a/b")).args(["--trust", "go"])).expect(0);
    let sent = server.requests()[0].text().to_owned();
    for (n, folder) in folders.iter().enumerate().skip(1) {
        assert!(sent.contains(&format!("DESCRIPTION-{n}")), "{folder}: {sent}");
    }
    assert!(sent.contains("NEAREST") && !sent.contains("DESCRIPTION-0"), "{sent}");
    assert!(sent.contains("RULE-CLAUDE"), "{sent}");
}

#[test]
fn rules_files_reach_the_model_root_first_and_nested_ones_on_reading() {
    let bench = Bench::new(&[
        ("AGENTS.md", "RULE-ROOT\n@extra.md\n"),
        ("extra.md", "RULE-IMPORTED\n"),
        ("sub/AGENTS.md", "RULE-SUB\n"),
        ("sub/x.txt", "X\n"),
    ]);
    std::fs::create_dir(bench.project.path(".git")).unwrap();
    let server =
        MockServer::start([Answer::tool("1", "read", json!({ "path": "sub/x.txt" })), Answer::text("done")]);
    run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    let requests = server.requests();
    let first = requests[0].text();
    assert!(first.contains("RULE-ROOT") && first.contains("RULE-IMPORTED") && !first.contains("RULE-SUB"));
    assert!(requests[1].text().contains("RULE-SUB"));
    assert_prefix(&requests);
}
