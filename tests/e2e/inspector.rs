//! The context inspector: the exact bytes of every request, what they are made of, and changes by hand.

use crate::compaction::counting_model;
use crate::support::{Api, BOTH, Bench, Running, ask, request, run, says};
use crate::terminal::{Terminal, becket, silent};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

fn requests(bench: &Bench) -> Vec<Value> {
    let ran = run(bench.command().args(["context", "--requests", "--json"])).expect(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn every_request_can_be_printed_byte_for_byte_summaries_included() {
    for api in BOTH {
        let bench = Bench::new(&[("AGENTS.md", "Say \"moin\" first.\n")]);
        let (server, _) = counting_model(70);
        run(bench.print(api, &server).args([
            "--context-window",
            "32000",
            "--permission-mode",
            "bypassPermissions",
            "--effort",
            "low",
            "do the 200 steps",
        ]))
        .expect(0);
        let sent = server.requests();
        let rows = requests(&bench);
        assert_eq!(rows.len(), sent.len(), "{api:?}: one record for each request");
        let summaries: Vec<u64> = rows
            .iter()
            .filter(|r| r["purpose"] == "summary")
            .map(|r| r["request"].as_u64().unwrap())
            .collect();
        assert!(!summaries.is_empty(), "{api:?}: a summary was asked for");
        assert!(rows.iter().any(|r| r["boundary"].to_string().contains("compaction")), "{api:?}");
        // Looks at every seventh request, all summaries, and the requests after them.
        let chosen = rows
            .iter()
            .map(|r| r["request"].as_u64().unwrap())
            .filter(|n| n % 7 == 1 || summaries.contains(n) || summaries.contains(&(n - 1)));
        for n in chosen {
            let ran = run(bench.command().args(["context", "--request", &n.to_string()])).expect(0);
            assert!(
                sent.iter().any(|r| r.body == ran.stdout.as_bytes()),
                "{api:?}: request {n} was sent like this"
            );
        }
    }
}

#[test]
fn spans_say_where_each_part_is_from_and_what_the_cache_had() {
    let bench = Bench::new(&[("a.txt", "needle in a file\n"), ("AGENTS.md", "Be brief.\n")]);
    let server = MockServer::start([
        Answer::tool("c1", "read", json!({ "path": "a.txt" })).usage(2000, 20).cached(0, 1500),
        Answer::text("found the needle").usage(100, 20).cached(2000, 80),
    ]);
    run(bench.print(Api::Anthropic, &server).arg("look for the needle")).expect(0);
    let ran = run(bench.command().args(["context", "--request", "2", "--json"])).expect(0);
    let made: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(made["proven"], true);
    let body = made["body"].as_str().unwrap();
    assert_eq!(body.as_bytes(), server.requests()[1].body);
    let spans = made["spans"].as_array().unwrap();
    let span = |wanted: &dyn Fn(&Value) -> bool| {
        spans.iter().find(|s| wanted(s)).unwrap_or_else(|| panic!("{spans:#?}"))
    };
    let bytes = |s: &Value| &body[s["from"].as_u64().unwrap() as usize..s["to"].as_u64().unwrap() as usize];

    let rules = span(&|s| s["kind"] == "rules" && s["label"].as_str().unwrap().ends_with("AGENTS.md"));
    assert!(bytes(rules).contains("Be brief."));
    assert_eq!((&rules["cache"], &rules["sent_before"]), (&json!("read"), &json!(true)));
    let output = span(&|s| s["kind"] == "tool_output");
    assert!(output["source"].as_str().unwrap().contains("a.txt"), "{output}");
    assert!(bytes(output).contains("needle in a file") && !bytes(output).contains("look for"));
    assert_eq!(output["sent_before"], false);
    assert_ne!(output["cache"], "read");
    assert!(bytes(span(&|s| s["kind"] == "user")).contains("look for the needle"));

    // The diff shows exactly what was added since the request before.
    assert_eq!(made["diff"]["removed"], json!([]));
    let kinds: Vec<&str> =
        made["diff"]["added"].as_array().unwrap().iter().map(|s| s["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["tool_call", "tool_output"]);
    let text =
        run(bench.command().args(["context", "--request", "last", "--spans", "--diff"])).expect(0).stdout;
    for word in ["as recorded", "2.0k from the cache", "AGENTS.md", "call c1", "those of request 1"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let none = run(bench.command().args(["context", "--request", "3"])).expect(2);
    assert!(none.stderr.contains("numbered 1 to 2"), "{}", none.stderr);
}

#[test]
fn items_are_dropped_collapsed_and_pinned_and_all_of_it_can_be_taken_back() {
    let long = "a line of a long file\n".repeat(300);
    let bench = Bench::new(&[("a.txt", &long), ("b.txt", "small\n")]);
    let mut step = 0;
    let server = MockServer::with(move |_| {
        step += 1;
        match step {
            1 => Answer::tool("c1", "read", json!({ "path": "a.txt" })).into(),
            3 => Answer::tool("c2", "read", json!({ "path": "b.txt" })).into(),
            n => Answer::text(format!("answer {n}")).into(),
        }
    });
    for (n, prompt) in ["first question", "second question", "third question"].iter().enumerate() {
        let mut command = bench.print(Api::Anthropic, &server);
        if n > 0 {
            command.arg("-c");
        }
        run(command.arg(prompt)).expect(0);
    }
    let spans = |bench: &Bench| -> Vec<Value> {
        let ran = run(bench.command().args(["context", "--json"])).expect(0);
        let page: Value = serde_json::from_str(&ran.stdout).unwrap();
        page["spans"].as_array().unwrap().clone()
    };
    let before = spans(&bench);
    let seq = |kind: &str, text: &str| {
        let is = |s: &&Value| s["kind"] == kind && s["preview"].as_str().unwrap().contains(text);
        before.iter().find(is).unwrap_or_else(|| panic!("{kind} {text}"))["seq"].to_string()
    };
    let edit = |arguments: &[&str]| {
        let mut command = bench.command();
        run(command.arg("context").args(arguments))
    };

    // A dry run only shows the change. Without a terminal and without `--yes` nothing is changed either.
    let shown = edit(&["--drop", &seq("user", "first question"), "--dry-run"]).expect(0);
    assert!(shown.stdout.contains("Cache: the first 0 of"), "{}", shown.stdout);
    assert!(edit(&["--drop", &seq("user", "first question")]).expect(2).stderr.contains("--yes"));
    assert_eq!(spans(&bench), before);

    // A call is dropped together with its result. The last user message cannot be dropped.
    edit(&["--drop", &seq("tool_output", "small"), "--yes"]).expect(0);
    let dropped = spans(&bench);
    assert!(!dropped.iter().any(|s| s["preview"].as_str().unwrap().contains("b.txt")), "{dropped:#?}");
    let last = edit(&["--drop", &seq("user", "third question"), "--yes"]).expect(2);
    assert!(last.stderr.contains("cannot be dropped"), "{}", last.stderr);

    let collapsed = edit(&["--collapse", "c1", "--yes", "--json"]).expect(0);
    let effect: Value = serde_json::from_str(&collapsed.stdout).unwrap();
    assert!(
        effect["tokens_after"].as_u64().unwrap() + 1000 < effect["tokens_before"].as_u64().unwrap(),
        "{effect}"
    );
    let stub = |spans: &[Value]| {
        spans.iter().any(|s| s["preview"].as_str().unwrap().contains("<tool-output-compacted id=\"c1\""))
    };
    assert!(stub(&spans(&bench)));
    edit(&["--pin", "c1", "--yes"]).expect(0);
    assert!(!stub(&spans(&bench)), "what is pinned is whole");

    // Undo the changes one by one, newest first, and redo them. The next request then has the same bytes as without that.
    edit(&["--undo", "--yes"]).expect(0);
    assert!(stub(&spans(&bench)));
    edit(&["--undo", "--yes"]).expect(0);
    assert_eq!(spans(&bench), dropped);
    edit(&["--redo", "--yes"]).expect(0);
    assert!(stub(&spans(&bench)));
    edit(&["--undo", "--yes"]).expect(0);
    edit(&["--undo", "--yes"]).expect(0);
    assert_eq!(spans(&bench), before);
    assert!(edit(&["--undo", "--yes"]).expect(2).stderr.contains("no change"));
    run(bench.print(Api::Anthropic, &server).args(["-c", "fourth question"])).expect(0);
    let text = server.requests().last().unwrap().text().to_owned();
    assert!(
        text.contains("first question") && text.contains("a line of a long file") && text.contains("small")
    );
    let rows = requests(&bench);
    let exact = run(bench.command().args(["context", "--request", &rows.len().to_string()])).expect(0);
    assert_eq!(exact.stdout.as_bytes(), server.requests().last().unwrap().body);
}

/// Other front ends change the context by control requests, between turns. The next request is what the plan said.
#[test]
fn the_context_is_changed_by_control_requests() {
    for api in BOTH {
        let bench = Bench::new(&[("a.txt", &"a line of a long file\n".repeat(300))]);
        let server = MockServer::start([
            Answer::tool("c1", "read", json!({ "path": "a.txt" })),
            Answer::text("read"),
            Answer::text("second answer"),
            Answer::text("third answer"),
            Answer::text("fourth answer"),
        ]);
        let mut command = bench.print(api, &server);
        command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
        let mut running = Running::start(&mut command);
        let turn = |running: &mut Running, words: &str| {
            ask(running, &says(words), "\"type\":\"result\"");
        };
        let change = |body: Value| {
            let mut body = body;
            body["subtype"] = json!("change_context");
            request(&body)
        };
        let carry_out = |plan: &Value| request(&json!({ "subtype": "carry_out", "plan": plan["plan"] }));
        turn(&mut running, "read the file");

        let collapse = change(json!({ "change": "collapse", "items": ["c1"] }));
        let plan = ask(&mut running, &collapse, "\"context_planned\"");
        let tokens = |plan: &Value, key: &str| plan[key].as_u64().unwrap();
        assert!(tokens(&plan, "tokens_after") + 1000 < tokens(&plan, "tokens_before"), "{plan}");
        // A plan changes nothing, and a turn makes it void.
        turn(&mut running, "go on");
        assert!(server.requests()[2].text().contains("a line of a long file"));
        running.send(format!("{}\n", carry_out(&plan)).as_bytes());
        let void: Value =
            serde_json::from_str(&running.line(|l| l.contains("\"system\"") && l.contains("plan"))).unwrap();
        assert_ne!(void["subtype"], "context_changed", "{void}");

        let plan = ask(&mut running, &collapse, "\"context_planned\"");
        ask(&mut running, &carry_out(&plan), "\"context_changed\"");
        turn(&mut running, "and on");
        let requests = server.requests();
        let sent = requests[3].text();
        assert!(
            !sent.contains("a line of a long file\\na line of a long file\\na line") && sent.contains("c1"),
            "{sent}"
        );

        let undo = ask(&mut running, &change(json!({ "change": "undo" })), "\"context_planned\"");
        assert!(tokens(&undo, "tokens_before") + 1000 < tokens(&undo, "tokens_after"), "{undo}");
        ask(&mut running, &carry_out(&undo), "\"context_changed\"");
        turn(&mut running, "still on");
        assert!(server.requests()[4].text().contains("a line of a long file"));

        // A change that cannot be made is answered with a notice, and the session continues.
        running.send(format!("{}\n", change(json!({ "change": "drop", "items": ["99999"] }))).as_bytes());
        let refused = running.line(|l| l.contains("99999"));
        assert!(!refused.contains("context_planned"), "{refused}");
        running.send(format!("{}\n", change(json!({ "change": "shuffle" }))).as_bytes());
        let refused = running.line(|l| l.contains("shuffle"));
        assert!(refused.contains("\"subtype\":\"error\""), "{refused}");
        running.close_stdin();
        running.wait().expect(0);
    }
}

/// The agent has the session in memory, so its pages need no file.
#[test]
fn pages_are_right_without_a_session_on_disk() {
    let (bench, server) = (Bench::new(&[("AGENTS.md", "Indent with tabs.\n")]), silent());
    let mut command = becket(&bench, &server);
    command.arg("--no-session-persistence");
    let mut terminal = Terminal::start(command);
    terminal.shows("Do you trust what is in this directory?");
    terminal.press_until("\x1b[A", "❯ 2 yes: I trust");
    terminal.send("2");
    terminal.shows("Describe a task");
    terminal.send("say done\r");
    terminal.shows("Done.");
    for (page, parts) in [
        ("/context\r", ["By kind", "assistant"]),
        ("/memory\r", ["Rules files", "AGENTS.md"]),
        ("/cost\r", ["By model", "claude-sonnet-4-5"]),
        ("/inspect\r", ["now", "Esc"]),
        ("/inspect 1\r", ["request 1: ", "as recorded"]),
    ] {
        terminal.send(page);
        for part in parts {
            terminal.shows(part);
        }
        terminal.press_until("\x1b", "Describe a task");
    }
    assert!(!bench.home.root().join(".local/share/becket/sessions").exists());
    terminal.send("\x04");
    terminal.is_given_back();
}
