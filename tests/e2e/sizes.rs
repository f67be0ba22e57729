//! The size of a context is the same wherever it is shown, also if the provider counts other tokens than becket estimates.

use crate::compaction::asks_for_summary;
use crate::support::{Api, Bench, Running, ask, request, run};
use crate::terminal::Terminal;
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

const SUMMARY: &str = "## Goal\nAnswer the questions.\n\n## Instructions\n\n## Progress\n\n### Done\n- looked at a.txt\n\n### In progress\n\n### Blocked\n\n## Decisions\n\n## Discoveries\n\n## Next steps\n\n## Relevant files\n";

/// A session whose provider reports `percent` per cent of the bytes of a request as its tokens. An estimate is about a quarter.
fn session(percent: u64) -> (Bench, MockServer) {
    let bench = Bench::new(&[("a.txt", &"line of a file\n".repeat(400))]);
    let mut answers = 0;
    let server = MockServer::with(move |request| {
        let reported = request.body.len() as u64 * percent / 100;
        if asks_for_summary(request) {
            return Answer::text(SUMMARY).usage(reported, 100).into();
        }
        answers += 1;
        let answer = match answers {
            1 => Answer::tool("c1", "read", json!({ "path": "a.txt" })),
            n => Answer::text(format!("answer {n}: {}", "words and words ".repeat(300))),
        };
        answer.usage(reported, 400).into()
    });
    for n in 0..4 {
        let mut command = bench.print(Api::Anthropic, &server);
        command.args((n > 0).then_some("-c"));
        run(command.arg(format!("question {n}"))).expect(0);
    }
    (bench, server)
}

fn becket(bench: &Bench, server: &MockServer) -> std::process::Command {
    let mut command = bench.command();
    command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
    command
}

fn page(bench: &Bench, server: &MockServer, arguments: &[&str]) -> Value {
    let ran = run(becket(bench, server).args(arguments)).expect(0);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

/// The size of the whole context, after a check that its spans add up to it.
fn shown(bench: &Bench, server: &MockServer) -> u64 {
    let context = page(bench, server, &["context", "--json"]);
    let spans = context["spans"].as_array().unwrap();
    let sum: u64 = spans.iter().map(|span| span["tokens"].as_u64().unwrap()).sum();
    assert_eq!(context["tokens"].as_u64(), Some(sum));
    sum
}

/// A size as pages print it.
fn short(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..10_000 => format!("{:.1}k", tokens as f64 / 1e3),
        _ => format!("{}k", tokens / 1_000),
    }
}

#[test]
fn all_places_show_one_size() {
    for percent in [12, 50] {
        let (bench, server) = session(percent);
        let size = shown(&bench, &server);
        // The size is what the provider reported last, plus the 400 tokens of the answer.
        let last = server.requests().last().unwrap().body.len() as u64 * percent / 100 + 400;
        assert_eq!(size, last, "{percent}");
        let counted = page(&bench, &server, &["context", "--json", "--exact"])["tokens"].as_u64().unwrap();
        assert!(counted.abs_diff(size) * 3 > size, "the estimate is another one: {counted} {size}");

        let dropped = page(&bench, &server, &["context", "--json", "--dry-run", "--drop", "c1"]);
        let pinned = page(&bench, &server, &["context", "--json", "--dry-run", "--pin", "c1"]);
        let preview = page(&bench, &server, &["compact", "--preview", "--json"]);
        for (what, plan) in [("--drop", &dropped), ("--pin", &pinned), ("--preview", &preview)] {
            assert_eq!(plan["tokens_before"].as_u64(), Some(size), "{percent} {what}: {plan}");
        }
        assert_eq!(pinned["tokens_after"].as_u64(), Some(size), "{percent}: {pinned}");
        let sum =
            |list: &Value| -> u64 { list.as_object().unwrap().values().filter_map(Value::as_u64).sum() };
        let before = sum(&preview["before"]);
        assert!(before.abs_diff(size) <= 10, "{percent}: the categories add up: {before} {size}");
        // The removed part is no larger than the conversation in the context.
        let removed: u64 =
            preview["dropped"].as_array().unwrap().iter().map(|m| m["tokens"].as_u64().unwrap()).sum();
        let conversation = preview["before"]["conversation"].as_u64().unwrap();
        assert!(removed > 0 && removed <= conversation + 10, "{percent}: {removed} {preview}");

        // A program and a person at the terminal continue the session and see nearly the same size. They are offered some
        // other tools, which differ by a few tokens.
        let near = |other: u64| other.abs_diff(size) * 20 <= size;
        let mut command = becket(&bench, &server);
        command.args(["--model", "anthropic/claude-sonnet-4-5", "-p", "--continue"]);
        command.args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
        let mut running = Running::start(&mut command);
        let usage =
            ask(&mut running, &request(&json!({ "subtype": "get_context_usage" })), "control_response");
        let usage = &usage["response"]["response"];
        let total = usage["totalTokens"].as_u64().unwrap();
        assert!(near(total), "{percent}: {usage}");
        let categories = usage["categories"].as_array().unwrap().iter().filter(|c| c["kind"] == "used");
        let sum: u64 = categories.map(|category| category["tokens"].as_u64().unwrap()).sum();
        assert_eq!(sum, total, "{percent}: {usage}");
        running.wait();
        let mut command = becket(&bench, &server);
        command
            .args(["--ax", "--continue", "--model", "anthropic/claude-sonnet-4-5"])
            .env("TERM", "xterm-256color");
        let mut terminal = Terminal::start(command);
        let said =
            |t: &Terminal| String::from_utf8_lossy(&t.bytes).split_whitespace().collect::<Vec<_>>().join(" ");
        terminal.until("the session", |t| said(t).contains("/quit to leave."));
        terminal.send("/context\n");
        terminal.until("the page", |t| said(t).contains("usable ("));
        let text = said(&terminal);
        let at = text.find(" tokens, ").unwrap_or_else(|| panic!("{text}"));
        let printed = text[..at].rsplit(' ').next().unwrap();
        let printed =
            printed.strip_suffix('k').map_or_else(|| printed.parse(), |k| k.parse().map(|k: f64| k * 1e3));
        assert!(near(printed.unwrap() as u64), "{percent}: {text}");
        drop(terminal);
        let text = run(becket(&bench, &server).arg("context")).expect(0).stdout;
        assert!(text.contains(&format!("in use {} ", short(size))), "{percent}: {text}");
        assert_eq!(shown(&bench, &server), size, "looking changes nothing");

        // A compaction, its undo and its redo end at the size that is shown after them.
        run(becket(&bench, &server).args(["compact", "--yes"])).expect(0);
        let compacted = shown(&bench, &server);
        assert!(compacted < size, "{percent}: {compacted} {size}");
        for what in ["--undo", "--redo"] {
            let before = shown(&bench, &server);
            let plan = page(&bench, &server, &["compact", what, "--json"]);
            assert_eq!(plan["tokens_before"].as_u64(), Some(before), "{percent} {what}: {plan}");
            assert_eq!(
                plan["tokens_after"].as_u64(),
                Some(shown(&bench, &server)),
                "{percent} {what}: {plan}"
            );
        }
    }
}
