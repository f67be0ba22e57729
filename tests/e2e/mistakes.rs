//! Mistakes on the command line: each gets one clear message and the documented exit code, and none costs a request.

use crate::support::{Bench, Ran, run};
use crate::terminal::Terminal;
use becket_testkit::{Answer, MockServer, Reply};
use serde_json::{Value, json};

/// Arguments, and a part of the message. `%` is a prompt.
const RUNS: &[(&[&str], &str)] = &[
    (&["-p", "--modle", "x", "%"], "--model"),
    (&["--pritn", "%"], "--print"),
    (&["-p", "--model"], "--model"),
    (&["-p", "--resume"], "--resume"),
    (&["-p", "--output-format", "jsno", "%"], "json"),
    (&["-p", "--input-format", "xml", "%"], "stream-json"),
    (&["-p", "--max-turns", "many", "%"], "many"),
    (&["-p", "--max-turns", "0", "%"], "a whole number above 0"),
    (&["-p", "--max-turns=-1", "%"], "-1"),
    (&["-p", "--max-turns", "1.5", "%"], "1.5"),
    (&["-p", "--max-budget-usd", "free", "%"], "free"),
    (&["-p", "--max-budget-usd=-3", "%"], "an amount above 0"),
    (&["-p", "--max-budget-usd", "nan", "%"], "an amount above 0"),
    (&["-p", "--max-tokens", "lots", "%"], "a whole number of tokens"),
    (&["-p", "--max-wall", "soon", "%"], "expected seconds"),
    (&["-p", "--max-wait", "5 parsecs", "%"], "expected seconds"),
    (&["-p", "--context-window", "12", "%"], "4,000"),
    (&["-p", "--context-window", "big", "%"], "a whole number of tokens"),
    (&["-p", "--effort", "hgih", "%"], "did you mean high"),
    (&["-p", "--thinking", "xx", "%"], "adaptive"),
    (&["-p", "/model gtp5x"], "names no model"),
    (&["-p", "--name", "", "%"], "a title needs a letter"),
    (&["-p", "--name", " \u{200b}", "%"], "a title needs a letter"),
    (&["-p", "--model", "", "%"], "model"),
    (&["-p", "--model", "gtp5x", "%"], "names no model"),
    (&["-p", "--model", "grok/x", "%"], "groq/x"),
    (&["-p", "--model", "anthropic/", "%"], "model"),
    (&["-p", "--model", "groq/x", "%"], "GROQ_API_KEY"),
    (&["-p", "--model", "openai/gpt-5.6", "%"], "OPENAI_API_KEY"),
    (&["-p", "--fallback-model", "nope/x", "%"], "nope"),
    (&["-p", "--permission-mode", "bold", "%"], "bold"),
    (&["-p", "--sandbox", "loose", "%"], "loose"),
    (&["-p", "--allowedTools", "Bash(", "--", "%"], "Bash("),
    (&["-p", "--tools", "bsh", "%"], "did you mean bash?"),
    (&["-p", "--settings", "{", "%"], "--settings"),
    (&["-p", "--settings", "[]", "%"], "--settings"),
    (&["-p", "--settings", "absent.json", "%"], "absent.json"),
    (&["-p", "--settings", ".", "%"], "is not a regular file"),
    (&["-p", "--settings", "{\"limits\":{\"max_turns\":\"many\"}}", "%"], "whole number"),
    (&["-p", "--settings", "{\"model\":3}", "%"], "model"),
    (&["-p", "--setting-sources", "usr", "%"], "user"),
    (&["-p", "-C", "absent", "%"], "absent"),
    (&["-p", "-C", "a.txt", "%"], "a.txt"),
    (&["-p", "--add-dir", "absent", "--", "%"], "absent"),
    (&["-p", "--add-dir", "a.txt", "--", "%"], "a.txt"),
    (&["-p", "--mcp-config", "{", "--", "%"], "--mcp-config"),
    (&["-p", "--mcp-config", "absent.json", "--", "%"], "absent.json"),
    (&["-p", "--mcp-config", ".", "--", "%"], "--mcp-config"),
    (&["-p", "--mcp-config", "{\"mcpServers\":{\"a\":{}}}", "--", "%"], "--mcp-config"),
    (&["-p", "--json-schema", "{", "%"], "schema"),
    (&["-p", "--json-schema", "{\"type\":3}", "%"], "schema"),
    (&["-p", "--json-schema", "absent.json", "%"], "schema"),
    (&["-p", "--agents", "{", "%"], "--agents"),
    (&["-p", "--agents", "[1]", "%"], "--agents"),
    (&["-p", "--system-prompt-file", "absent.md", "%"], "absent.md"),
    (&["-p", "--system-prompt-file", ".", "%"], "--system-prompt-file"),
    (&["-p", "--append-system-prompt-file", "absent.md", "%"], "absent.md"),
    (&["-p", "--system-prompt", "a", "--system-prompt-file", "a.txt", "%"], "cannot be used with"),
    (&["-p", "-c", "-r", "x", "%"], "cannot be used with"),
    (&["-p", "-c", "--take-over", "--fork-session", "%"], "cannot be used with"),
    (&["-p", "-c", "%"], "session"),
    (&["-p", "-r", "absent", "%"], "absent"),
    (&["-p", "-r", "", "%"], "session"),
    (&["-p", "--session-id", "not-a-uuid", "%"], "not-a-uuid"),
    (&["-p", "--fork-session", "%"], "--continue"),
    (&["-p", "--take-over", "%"], "--continue"),
    (&["-p", ""], "empty"),
    (&["-p", "   "], "empty"),
    (&["-p", "-"], "there is no prompt"),
    (&["-p"], "task"),
    (&["-p", "fix", "the", "bug"], "\"fix the bug\""),
    (&["-p", "doctr"], "becket doctor"),
    (&["-p", "sesions"], "becket sessions"),
    (&["doctr"], "becket doctor"),
    (&["sesions", "list"], "becket sessions"),
    (&["resume"], "becket --resume"),
    (&["refactor"], "-- refactor"),
    (&["-p", "--input-format", "stream-json", "--output-format", "text"], "no message came on stdin"),
];

/// Subcommands, with the exit code where it is not 2.
const COMMANDS: &[(&[&str], &str, i32)] = &[
    (&["sessions", "rm"], "name at least one session", 2),
    (&["sessions", "rm", "absent"], "absent", 2),
    (&["sessions", "fork", "absent"], "absent", 2),
    (&["sessions", "rename", "absent", "x"], "absent", 2),
    (&["sessions", "restore", "absent"], "absent", 2),
    (&["sessions", "search"], "required arguments", 2),
    (&["sessions", "serach", "foo"], "becket sessions search", 2),
    (&["sessions", "renam", "a", "b"], "becket sessions rename", 2),
    (&["export"], "there is no session of", 2),
    (&["export", "absent"], "absent", 2),
    (&["export", "absent", "--format", "pdf"], "pdf", 2),
    (&["import", "absent.jsonl"], "absent.jsonl", 2),
    (&["import", "."], "folder", 2),
    (&["import", "a.txt"], "a.txt", 2),
    (&["undo", "absent"], "absent", 2),
    (&["undo", "--yse"], "--yse", 2),
    (&["redo", "absent"], "absent", 2),
    (&["rewind"], "there is no session", 2),
    (&["rewind", "absent"], "absent", 2),
    (&["context", "absent"], "absent", 2),
    (&["compact", "absent"], "absent", 2),
    (&["compact", "--nope"], "--nope", 2),
    (&["config", "nope"], "nope", 2),
    (&["models", "--nope"], "--nope", 2),
    (&["doctor", "session", "absent"], "absent", 2),
    (&["login", "gorq"], "groq", 2),
    (&["logout"], "PROVIDER", 2),
    (&["logout", "gorq"], "groq", 2),
    (&["auth"], "status", 2),
    (&["auth", "state"], "status", 2),
    (&["screenshot"], "EVENTS", 2),
    (&["screenshot", "absent.jsonl", "-o", "x.svg"], "absent.jsonl", 2),
    (&["screenshot", ".", "-o", "x.svg"], "cannot read .", 2),
    (&["screenshot", "a.txt", "-o", "x.svg"], "not an event", 2),
    (&["screenshot", "a.txt", "-o", "x.pdf"], ".svg", 2),
    (&["screenshot", "a.txt", "-o", "x.svg", "--size", "0x0"], "120x40", 2),
    (&["screenshot", "a.txt", "-o", "x.svg", "--theme", "pink"], "dark", 2),
    (&["permissions"], "Usage", 2),
    (&["permissions", "nope"], "nope", 2),
    (&["hooks", "test", "Nope"], "PreToolUse", 2),
    (&["hooks", "test", "PreTolUse"], "did you mean PreToolUse?", 2),
    (&["hooks", "test", "Stop", "--input", "["], "JSON object", 2),
    (&["audit", "--since", "someday"], "someday", 2),
    (&["verify", "absent"], "absent", 2),
    (&["verify", "--record"], "--anchor", 2),
    (&["mcp", "get", "absent"], "absent", 2),
    (&["mcp", "remove", "absent"], "absent", 2),
    (&["mcp", "approve", "absent"], "absent", 2),
    (&["mcp", "add-json", "x", "{"], "JSON", 2),
    (&["mcp", "add"], "NAME", 2),
    (&["help", "nope"], "nope", 2),
    (&["man", "nope"], "nope", 2),
    (&["completions", "tcsh"], "bash", 2),
    (&["exec", "--nope"], "--nope", 2),
    (&["demo", "--nope"], "--nope", 2),
];

/// Forms in which programs print their insides.
const INSIDES: [&str; 11] = [
    "panicked",
    "RUST_BACKTRACE",
    "Some(",
    "Err(",
    "Ok(",
    "Error {",
    "Os {",
    "kind: ",
    "ErrorKind",
    "Custom {",
    "called `",
];

/// Returns the faults of an answer to a mistake.
fn faults(ran: &Ran, part: &str, code: i32) -> Vec<String> {
    let mut out = Vec::new();
    if ran.code != code {
        out.push(format!("exit code {} in place of {code}", ran.code));
    }
    if !ran.stderr.contains(part) {
        out.push(format!("no {part:?} in the message"));
    }
    out.extend(
        INSIDES.iter().filter(|text| ran.stderr.contains(**text)).map(|text| format!("shows {text:?}")),
    );
    if ran.stderr.lines().count() > 16 {
        out.push(format!("{} lines", ran.stderr.lines().count()));
    }
    out
}

/// The failure as JSON on stdout.
fn as_json(ran: &Ran) -> Option<Value> {
    let line = ran.stdout.lines().next_back()?;
    serde_json::from_str::<Value>(line).ok()?.get("error").filter(|e| e["message"].is_string()).cloned()
}

/// An unknown option is never suggested as a task, which would be sent.
#[test]
fn no_tip_makes_a_task_of_an_option() {
    let bench = Bench::new(&[]);
    for option in ["--yolo", "-x", "-m"] {
        let ran = run(bench.command().arg(option)).expect(2);
        assert!(ran.stderr.contains(option) && !ran.stderr.contains("to pass"), "{option}: {}", ran.stderr);
    }
    let ran = run(bench.command().arg("--modle")).expect(2);
    assert!(ran.stderr.contains("--model"), "{}", ran.stderr);
    let ran = run(bench.command().arg("update")).expect(2);
    assert!(ran.stderr.contains("use: the package manager"), "{}", ran.stderr);
}

#[test]
fn every_mistake_gets_one_clear_message_and_costs_nothing() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let server = MockServer::with(|_| Answer::text("paid").into());
    let command = |args: &[&str]| {
        let mut command = bench.command();
        command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
        command.args(args.iter().map(|arg| if *arg == "%" { "say hello" } else { arg }));
        command
    };
    let mut wrong = Vec::new();
    let mut told = |args: &[&str], ran: &Ran, faults: Vec<String>| {
        if !faults.is_empty() {
            wrong.push(format!(
                "{args:?}: {}\n  stdout: {}\n  stderr: {}",
                faults.join(", "),
                ran.stdout,
                ran.stderr
            ));
        }
    };
    for (args, part) in RUNS {
        let ran = run(&mut command(args));
        let mut found = faults(&ran, part, 2);
        if !ran.stdout.is_empty() {
            found.push("something on stdout".to_owned());
        }
        told(args, &ran, found);
        if args.iter().any(|arg| matches!(*arg, "--output-format" | "--input-format")) {
            continue;
        }
        let args = [&["--output-format", "json"], *args].concat();
        // If the case begins with a command, `--output-format json` comes last.
        let args = if args[2].starts_with('-') { args } else { [&args[2..], &args[..2]].concat() };
        let ran = run(&mut command(&args));
        let mut found = faults(&ran, part, 2);
        if as_json(&ran).is_none_or(|error| error["exit_code"] != 2) {
            found.push("no error as JSON".to_owned());
        }
        told(&args, &ran, found);
    }
    for (args, part, code) in COMMANDS {
        let ran = run(&mut command(args));
        let mut found = faults(&ran, part, *code);
        if !ran.stdout.is_empty() {
            found.push("something on stdout".to_owned());
        }
        told(args, &ran, found);
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        RUNS.len() * 2 + COMMANDS.len(),
        wrong.join("\n")
    );
    // A name that no model has is looked up in the list of the user's server, which costs nothing.
    assert_eq!(server.requests().len(), 0, "a mistake costs nothing");
    assert!(bench.ledgers().is_empty(), "a mistake makes no session");
}

/// Sessions, agents, models and servers that are named and are not there: one message says what, why and what to do.
#[test]
fn what_is_named_and_not_there_gets_one_clear_message() {
    let bench = Bench::new(&[]);
    let agent =
        |model: &str| format!("---\nname: mine\ndescription: Reviews.\nmodel: {model}\n---\nReview.\n");
    let becket = |words: &[&str]| {
        let mut command = bench.command();
        run(command
            .env("OPENAI_API_KEY", "sk-test")
            .env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
            .args(words))
    };
    let clear = |ran: Ran, code: i32, parts: &[&str]| {
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.code, code, "{parts:?}: {all}");
        for part in parts {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert!(all.lines().count() <= 2, "{parts:?}: {all}");
        assert!(!INSIDES.iter().any(|text| all.contains(text)), "{all}");
    };
    clear(
        becket(&["models", "--remote"]),
        7,
        &["openai: http://127.0.0.1:1 cannot be reached: Connection refused"],
    );
    for (model, why) in
        [("nowhere/none", "there is no provider named `nowhere`"), ("sonet", "did you mean sonnet?")]
    {
        bench.home.write(".claude/agents/mine.md", agent(model));
        let ran = becket(&["-p", "--agent", "mine", "hi"]);
        clear(ran, 2, &["the agent mine names a model that cannot be used", model, why, "becket models"]);
    }
    // In a terminal, `-r` would show an empty list; becket reports instead that there is no session.
    let mut command = bench.command();
    command.env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    command.env("TERM", "xterm-256color").arg("-r");
    Terminal::start(command).shows_words("there is no session of");

    bench.project.write("script.json", json!({"loop": true, "steps": [{"text": "Done."}]}).to_string());
    becket(&["-p", "--model", "script:script.json", "--name", "one", "hi"]).expect(0);
    let ledger = bench.ledgers()[0].clone();
    let id = ledger.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    clear(becket(&["sessions", "restore", &id]), 2, &["it is among your sessions", "becket --resume"]);
    becket(&["sessions", "rm", "one"]).expect(0);
    let back = format!("bring it back first: becket sessions restore {id}");
    for words in [
        &["-p", "--resume", &id, "hi"][..],
        &["-p", "--resume", "one", "hi"],
        &["export", &id[..12]],
        &["sessions", "rm", &id],
    ] {
        clear(becket(words), 2, &["is in the trash", &back]);
    }
    becket(&["sessions", "restore", &id[..12]]).expect(0);
    becket(&["-p", "--model", "script:script.json", "--resume", &id, "hi"]).expect(0);
}

/// The list is asked for only after the error, and a server without one changes nothing.
#[test]
fn a_model_that_the_server_does_not_know_leads_to_those_that_it_has() {
    let refused = || {
        MockServer::with(|_| {
            let message = "The model `tst-model` does not exist.";
            Reply::json(404, &json!({"error": {"message": message, "code": "model_not_found"}}))
        })
    };
    let list = json!({"data": [{"id": "other"}, {"id": "test-model"}, {"id": "third"}]});
    for (server, part) in [
        (
            refused().get("/v1/models", Reply::json(200, &list)),
            "The server has the models test-model, other, third.",
        ),
        (refused(), "`becket models --remote` lists those of the server"),
    ] {
        let bench = Bench::new(&[]);
        let mut command = bench.command();
        command.env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", format!("{}/v1", server.url()));
        let ran = run(command.args(["-p", "--model", "openai/tst-model", "hi"]));
        assert_ne!(ran.code, 0);
        assert!(ran.stderr.contains("does not exist") && ran.stderr.contains(part), "{}", ran.stderr);
        assert!(ran.stderr.lines().count() <= 3, "{}", ran.stderr);
    }
}
