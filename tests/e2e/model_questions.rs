//! Questions and plans of the model in the terminal, and the tools that are offered for them.

use crate::support::{Api, Bench, Running, ask, request, run, says};
use crate::terminal::{Terminal, becket};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

fn questions() -> Value {
    json!({"questions": [{"question": "Which database?", "header": "Database", "multiSelect": false, "options": [
        {"label": "sqlite", "description": "one file"}, {"label": "postgres", "description": "a server"}]}]})
}

#[test]
fn a_question_is_answered_on_the_screen_and_the_answer_is_in_the_ledger() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::tool("c1", "ask_user", questions()), Answer::text("all done")]);
    let mut command = becket(&bench, &server);
    // No mode spares the question.
    command.args(["--permission-mode", "bypassPermissions"]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Describe a task");
    terminal.send("go\r");
    terminal.shows("The model asks you");
    terminal.press_until("\t", "❯ ( ) sqlite");
    terminal.send("\x1b[B\r");
    terminal.shows("❯ 1 Give these answers");
    terminal.press_until("\r", "all done");
    let result = server.requests()[1].text().to_owned();
    let want = "User has answered your questions: \\\"Which database?\\\"=\\\"postgres\\\"";
    assert!(result.contains(want), "{result}");
    let ledger = serde_json::to_string(&bench.entries()).unwrap();
    assert!(ledger.contains("\"answers\":{\"Which database?\":\"postgres\"}"), "{ledger}");
}

#[test]
fn a_plan_is_agreed_to_on_the_screen_and_the_tools_stay_the_same() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("c1", "exit_plan", json!({"plan": "# Steps\n\n1. write a.txt"})),
        Answer::tool("c2", "write", json!({"path": "a.txt", "content": "planned\n"})),
        Answer::text("all done"),
    ]);
    let mut command = becket(&bench, &server);
    command.args(["--permission-mode", "plan"]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Describe a task");
    terminal.send("go\r");
    terminal.shows("Carry out this plan?");
    terminal.shows("1. write a.txt");
    terminal.press_until("\t", "❯ 1 Yes, and ask me");
    terminal.send("2");
    terminal.shows("all done");
    terminal.shows("acceptEdits");
    assert!(bench.project.exists("a.txt"));
    let requests = server.requests();
    let tools = |at: usize| requests[at].json()["tools"].clone();
    assert!(requests[0].text().contains("Permission mode plan: read and search"));
    assert!(
        tools(0).is_array() && tools(0) == tools(1) && tools(1) == tools(2),
        "the tools do not change with the mode"
    );
}

/// A session that a program drives, in which the model asks and then ends.
fn driven(bench: &Bench, server: &MockServer, flags: &[&str]) -> Running {
    let mut command = bench.print(Api::Anthropic, server);
    command.args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    Running::start(command.args(["--permission-prompt-tool", "stdio"]).args(flags))
}

/// The names of the tools of a request.
fn tools(server: &MockServer, request: usize) -> Vec<String> {
    let body = server.requests()[request].json();
    let names = body["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str());
    names.map(str::to_owned).collect()
}

#[test]
fn a_mode_that_asks_nobody_denies_and_an_interrupt_ends_the_question() {
    let asking = || MockServer::start([Answer::tool("c1", "ask_user", questions()), Answer::text("done")]);
    let (bench, server) = (Bench::new(&[]), asking());
    let mut running = driven(&bench, &server, &["--permission-mode", "dontAsk"]);
    ask(&mut running, &says("go"), "\"type\":\"result\"");
    running.wait();
    let result = server.requests()[1].text().to_owned();
    assert!(result.contains("permission mode dontAsk asks nobody"), "{result}");

    let (bench, server) = (Bench::new(&[]), asking());
    let mut running = driven(&bench, &server, &[]);
    let asked = ask(&mut running, &says("go"), "can_use_tool");
    assert_eq!(asked["request"]["requires_user_interaction"], true, "{asked}");
    running.send(format!("{}\n", request(&json!({"subtype": "interrupt"}))).as_bytes());
    let cancelled = running.line(|line| line.contains("control_cancel_request"));
    assert!(cancelled.contains(asked["request_id"].as_str().unwrap()), "{cancelled}");
    running.wait();
    let ledger = serde_json::to_string(&bench.entries()).unwrap();
    assert!(ledger.contains("Not run: the user interrupted before it was started."), "{ledger}");
}

#[test]
fn a_hook_answers_in_place_of_the_user() {
    let answer = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow",
        "updatedInput": {"questions": questions()["questions"], "answers": {"Which database?": "sqlite"}}}});
    let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "AskUserQuestion", "hooks": [
        {"type": "command", "command": format!("echo '{answer}'")}]}]}});
    let bench = Bench::new(&[]);
    bench.home.write(".claude/settings.json", hooks.to_string());
    let server = MockServer::start([Answer::tool("c1", "ask_user", questions()), Answer::text("done")]);
    let mut running = driven(&bench, &server, &[]);
    ask(&mut running, &says("go"), "\"type\":\"result\"");
    let ran = running.wait();
    assert!(!ran.stdout.contains("can_use_tool"), "{}", ran.stdout);
    let result = server.requests()[1].text().to_owned();
    assert!(result.contains("\\\"Which database?\\\"=\\\"sqlite\\\""), "{result}");
}

#[test]
fn subagents_and_runs_without_anybody_to_ask_have_no_questions() {
    let bench = Bench::new(&[]);
    let task = json!({"prompt": "look", "description": "looks"});
    let server = MockServer::start([
        Answer::tool("c1", "task", task),
        Answer::text("the subagent is done"),
        Answer::text("done"),
    ]);
    let mut running = driven(&bench, &server, &[]);
    ask(&mut running, &says("go"), "\"type\":\"result\"");
    running.wait();
    let has = |request: usize, name: &str| tools(&server, request).iter().any(|tool| tool == name);
    for name in ["ask_user", "exit_plan"] {
        assert!(has(0, name) && !has(1, name) && has(2, name), "{name}");
    }
    let alone = MockServer::start([Answer::text("done")]);
    run(bench.print(Api::Anthropic, &alone).args(["--permission-mode", "plan", "go"])).expect(0);
    let names = tools(&alone, 0);
    for name in ["ask_user", "exit_plan", "notebook_edit"] {
        assert!(!names.iter().any(|tool| tool == name), "{name}");
    }
    assert!(alone.requests()[0].text().contains("present it as your answer"));
}
