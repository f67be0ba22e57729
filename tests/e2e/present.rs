//! Looks for content that must never be lost in the bytes that the model server received: the rules file, a pinned message,
//! open todos and the last user message must be in every request after every compaction, byte for byte.

use crate::compaction::asks_for_summary;
use crate::support::{BOTH, Bench, run};
use becket_testkit::{Answer, MockServer, Recorded};
use serde_json::{Value, json};

const RULES: &str = "# Rules\n\nSay \"moin\" first;\tnever `rm -rf` – ünïcode 👍 \\n stays.\n";
const PINNED: &str = "The key's name is\n  \"k-4711\\x\" <b>&amp;</b>,\ttwo spaces before it.";
const TODO: &str = "write the \"summary\" of <step> 7 & 8 – später";
const LAST: &str = "do the steps\n\n  - \"one\" by one\n\tand nothing else: 100 % ünïcode 👍";
const SUMMARY: &str = "## Goal\nRun the steps.\n\n## Instructions\n\n## Progress\n\n### Done\n\n### In progress\n- the steps\n\n### Blocked\n\n## Decisions\n\n## Discoveries\n\n## Next steps\n- the next number\n\n## Relevant files\n";
/// A line that is only in the summary, so a request with it comes after a compaction.
const GOAL: &str = "Run the steps.";
const STEPS: usize = 110;

/// Every string of a request, those in arguments of calls included.
fn strings(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            if let Ok(inner @ Value::Object(_)) = serde_json::from_str(text) {
                strings(&inner, out);
            }
            out.push(text.clone());
        }
        Value::Array(values) => values.iter().for_each(|value| strings(value, out)),
        Value::Object(map) => map.values().for_each(|value| strings(value, out)),
        _ => {}
    }
}

/// A todo list first, then step after step, each with 2 kB of output.
fn model() -> MockServer {
    let mut n = 0;
    MockServer::with(move |request| {
        let tokens = request.text().len() as u64 / 4;
        if asks_for_summary(request) {
            return Answer::text(SUMMARY).usage(tokens, 200).into();
        }
        n += 1;
        let answer = match n {
            1 => Answer::text("Noted."),
            2 => {
                let items = json!([
                    {"content": "look around", "status": "completed"},
                    {"content": TODO, "status": "pending"},
                ]);
                Answer::tool("todo_1", "todo", json!({ "items": items }))
            }
            n if n > STEPS => Answer::text("all done"),
            n => Answer::text(format!("Step {n}.")).and_tool(
                &format!("call_{n}"),
                "bash",
                json!({ "command": format!("echo {n}; seq -w {n}00000 {n}00250 | head -c 2000") }),
            ),
        };
        answer.usage(tokens, 60).into()
    })
}

#[test]
fn what_must_never_be_lost_is_in_every_request_after_every_compaction() {
    for api in BOTH {
        let bench = Bench::new(&[("AGENTS.md", RULES)]);
        let server = model();
        run(bench.print(api, &server).arg(PINNED)).expect(0);
        let context = run(bench.command().args(["context", "--json"])).expect(0);
        let context: Value = serde_json::from_str(&context.stdout).unwrap();
        let pinned = context["spans"].as_array().unwrap().iter().find(|span| span["kind"] == "user").unwrap();
        run(bench.command().args(["context", "--pin", &pinned["seq"].to_string(), "--yes"])).expect(0);
        let ran = run(bench.print(api, &server).args([
            "-c",
            "--context-window",
            "32000",
            "--permission-mode",
            "bypassPermissions",
            "--output-format",
            "stream-json",
            LAST,
        ]))
        .expect(0);
        let compactions = ran.lines().iter().filter(|line| line["subtype"] == "compact_boundary").count();
        assert!(compactions >= 2, "{api:?}: {compactions} compactions");

        let requests = server.requests();
        let turns: Vec<&Recorded> = requests.iter().filter(|r| !asks_for_summary(r)).collect();
        assert_eq!(turns.len(), STEPS + 1, "{api:?}");
        let mut after = 0;
        // From the third request on, which is the first one after the todo list.
        for (n, request) in turns.iter().enumerate().skip(2) {
            let mut texts = Vec::new();
            strings(&request.json(), &mut texts);
            after += usize::from(texts.iter().any(|text| text.contains(GOAL)));
            for (what, wanted) in
                [("rules", RULES.trim_end()), ("pinned", PINNED), ("todo", TODO), ("last user message", LAST)]
            {
                let there = texts.iter().any(|text| text.contains(wanted));
                assert!(there, "{api:?}: the {what} is not in request {}: {}", n + 1, request.text());
            }
        }
        assert!(after > compactions, "{api:?}: {after} requests came after a compaction");
    }
}
