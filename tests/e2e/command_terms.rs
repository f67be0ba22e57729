//! `allowed-tools` and `model` of commands and skills, through the binary.

use crate::support::{Api, Bench, Running, ask, run, says};
use crate::terminal::{Terminal, becket};
use becket_testkit::{Answer, MockServer};
use serde_json::json;

const HEAD: &str =
    "---\ndescription: Makes a file\nallowed-tools: Bash(touch:*)\nmodel: claude-haiku-4-5\n---\n";

fn touch(id: &str, name: &str) -> Answer {
    Answer::tool(id, "bash", json!({ "command": format!("touch {name}") }))
}

fn models(server: &MockServer) -> Vec<String> {
    let model = |body: serde_json::Value| body["model"].as_str().unwrap_or_default().to_owned();
    server.requests().iter().map(|request| model(request.json())).collect()
}

#[test]
fn a_command_and_a_skill_of_the_user_have_their_tools_and_model_for_one_turn() {
    for skill in [false, true] {
        let bench = Bench::new(&[]);
        let (file, text) = if skill {
            let head = HEAD.replace("---\ndesc", "---\nname: make\ndesc");
            (".claude/skills/make/SKILL.md", head + "Make it.")
        } else {
            (".config/becket/commands/make.md", format!("{HEAD}Make $1."))
        };
        bench.home.write(file, text);
        let server =
            MockServer::start([touch("t1", "a"), Answer::text("made"), touch("t2", "b"), Answer::text("no")]);
        run(bench.print(Api::Anthropic, &server).arg("/make a")).expect(0);
        run(bench.print(Api::Anthropic, &server).args(["-c", "make b, too"])).expect(5);
        assert!(bench.project.exists("a") && !bench.project.exists("b"), "skill: {skill}");
        let (haiku, sonnet) = ("claude-haiku-4-5", "claude-sonnet-4-5");
        assert_eq!(models(&server), [haiku, haiku, sonnet, sonnet], "skill: {skill}");
    }
}

#[test]
fn over_the_wire_the_init_of_each_turn_names_its_model() {
    let bench = Bench::new(&[]);
    bench.home.write(".config/becket/commands/make.md", format!("{HEAD}Make $1."));
    let server =
        MockServer::start([touch("t1", "a"), Answer::text("made"), touch("t2", "b"), Answer::text("no")]);
    let mut running = Running::start(bench.print(Api::Anthropic, &server).args([
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
    ]));
    ask(&mut running, &says("/make a"), "\"type\":\"result\"");
    ask(&mut running, &says("make b, too"), "\"type\":\"result\"");
    let ran = running.wait();
    let inits: Vec<String> = ran
        .lines()
        .iter()
        .filter(|line| line["subtype"] == "init")
        .map(|line| line["model"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(inits, ["claude-haiku-4-5", "claude-sonnet-4-5"]);
    assert!(bench.project.exists("a") && !bench.project.exists("b"));
}

#[test]
fn rules_of_the_user_hold_against_a_command() {
    let bench = Bench::new(&[]);
    bench.home.write(".config/becket/commands/make.md", format!("{HEAD}Make $1."));
    for flags in [&["--disallowedTools", "Bash(touch:*)"][..], &["--permission-mode", "plan"]] {
        let server = MockServer::start([touch("t1", "a"), Answer::text("no")]);
        run(bench.print(Api::Anthropic, &server).args(flags).args(["--", "/make a"]));
        assert!(!bench.project.exists("a"), "{flags:?}");
    }
}

#[test]
fn a_project_s_command_allows_nothing_before_the_user_has_seen_it() {
    let bench = Bench::new(&[(".claude/commands/make.md", &format!("{HEAD}Make $1."))]);
    let server = || MockServer::start([touch("t1", "a"), Answer::text("done")]);
    let ran = run(bench.print(Api::Anthropic, &server()).arg("/make a")).expect(5);
    assert!(!bench.project.exists("a"));
    assert!(
        ran.stderr.contains("/make is a file of this project") && ran.stderr.contains("Bash(touch:*)"),
        "{}",
        ran.stderr
    );
    let trusting = server();
    run(bench.print(Api::Anthropic, &trusting).args(["--trust", "/make a"])).expect(0);
    assert!(bench.project.exists("a"));
    std::fs::remove_file(bench.project.path("a")).unwrap();

    // In the terminal it is shown, and allowed until it changes.
    let model = server();
    let mut terminal = Terminal::start(becket(&bench, &model));
    terminal.shows("Do you trust what is in this directory?");
    terminal.press_until("\x1b[A", "❯ 2 yes: I trust");
    terminal.send("2");
    terminal.shows("Describe a task");
    terminal.send("/make a\r");
    terminal.shows("allow this?");
    assert!(terminal.screen().contains("Bash(touch:*)"), "{}", terminal.screen());
    terminal.press_until("\t", "❯ 1 Yes");
    terminal.press_until("1", "done");
    assert!(bench.project.exists("a"), "{}", terminal.screen());
}

const FORK: &str = "---\nname: audit\ndescription: Audits a folder\ncontext: fork\nagent: Explore\n---\nAudit the folder $ARGUMENTS.\n";

fn sent(server: &MockServer) -> Vec<String> {
    server.requests().iter().map(|request| request.json()["messages"].to_string()).collect()
}

#[test]
fn a_skill_or_command_with_a_context_of_its_own_runs_in_a_subagent() {
    for file in [".claude/skills/audit/SKILL.md", ".config/becket/commands/audit.md"] {
        let bench = Bench::new(&[]);
        bench.home.write(file, FORK);
        let server = MockServer::start([Answer::text("src is sound"), Answer::text("as I said")]);
        let ran = run(bench
            .print(Api::Anthropic, &server)
            .args(["--output-format", "stream-json", "--verbose"])
            .arg("/audit src"))
        .expect(0);
        let lines = ran.lines();
        let result = lines.last().unwrap();
        assert_eq!((&result["result"], &result["num_turns"]), (&json!("src is sound"), &json!(1)), "{file}");
        let task = lines.iter().find(|line| line["message"]["content"][0]["name"] == "Task").unwrap();
        assert_eq!(task["message"]["content"][0]["input"]["subagent_type"], "Explore", "{file}");
        assert_eq!(sent(&server).len(), 1, "{file}");
        assert!(sent(&server)[0].contains("Audit the folder src."), "{file}");

        run(bench.print(Api::Anthropic, &server).args(["-c", "what was it?"])).expect(0);
        let later = sent(&server).pop().unwrap();
        assert!(later.contains("/audit src") && later.contains("src is sound"), "{later}");
        assert!(!later.contains("Audit the folder"), "{later}");
    }
}

#[test]
fn the_model_s_call_of_such_a_skill_has_the_subagent_s_answer() {
    let bench = Bench::new(&[]);
    bench.home.write(".claude/skills/audit/SKILL.md", FORK);
    let server = MockServer::start([
        Answer::tool("t1", "skill", json!({"name": "audit", "arguments": "src"})),
        Answer::text("src is sound"),
        Answer::text("the audit is done"),
    ]);
    let ran = run(bench.print(Api::Anthropic, &server).arg("audit src")).expect(0);
    assert_eq!(ran.stdout.trim(), "the audit is done");
    let sent = sent(&server);
    assert!(sent[1].contains("Audit the folder src.") && !sent[1].contains("\"audit src\""), "{}", sent[1]);
    assert!(sent[2].contains("src is sound") && !sent[2].contains("Audit the folder"), "{}", sent[2]);
}
