//! Tests compaction, pruning, the continuation and the summary through the whole program: a long headless turn in a small
//! window loses nothing and repeats nothing.

use crate::support::{BOTH, Bench, Running, run};
use becket_testkit::{Answer, Gate, MockServer, Recorded, Reply, prefix_breaks};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

pub(crate) const SUMMARY: &str = "## Goal\nRun the numbered steps.\n\n## Instructions\n- one after the other\n\n## Progress\n\n### Done\n\n### In progress\n- the steps\n\n### Blocked\n\n## Decisions\n\n## Discoveries\n\n## Next steps\n- the next number\n\n## Relevant files\n";

/// True if this request asks for a summary: its last message holds the template, and not a finished summary with the same
/// headings.
pub(crate) fn asks_for_summary(request: &Recorded) -> bool {
    let last = request.messages().last().map(ToString::to_string).unwrap_or_default();
    last.contains("## Relevant files") && !last.contains("<context-summary>")
}

/// A model that calls `bash` with `echo N >> log.txt` for N in 1..=calls, then says that it is done.
pub(crate) fn counting_model(calls: usize) -> (MockServer, Arc<Mutex<usize>>) {
    let next = Arc::new(Mutex::new(0));
    let state = Arc::clone(&next);
    let server = MockServer::with(move |request| {
        let tokens = request.text().len() as u64 / 4;
        if asks_for_summary(request) {
            return Answer::text(SUMMARY).usage(tokens, 200).into();
        }
        let mut n = state.lock().unwrap();
        *n += 1;
        if *n > calls {
            return Answer::text("all steps done").usage(tokens, 10).into();
        }
        // 2 kB of output a step, so that a 32k window fills every few dozen steps.
        let command = format!("echo {n} >> log.txt; seq -w {n}00000 {n}00250 | head -c 2000");
        Answer::text(format!("Step {n}. Next step: {}", *n + 1))
            .and_tool(&format!("call_{n}"), "bash", json!({ "command": command }))
            .usage(tokens, 60)
            .into()
    });
    (server, next)
}

#[test]
fn two_hundred_calls_in_a_32k_window_are_each_done_once() {
    for api in BOTH {
        let bench = Bench::new(&[]);
        let (server, _) = counting_model(200);
        let ran = run(bench.print(api, &server).args([
            "--context-window",
            "32000",
            "--permission-mode",
            "bypassPermissions",
            "--output-format",
            "stream-json",
            "do the 200 steps",
        ]))
        .expect(0);
        let log: Vec<usize> = bench.project.read("log.txt").lines().map(|l| l.parse().unwrap()).collect();
        assert_eq!(log, (1..=200).collect::<Vec<_>>(), "{api:?}: each side effect once, in order");

        let lines = ran.lines();
        let count = |f: &dyn Fn(&Value) -> bool| lines.iter().filter(|l| f(l)).count();
        let boundaries = count(&|l| l["subtype"] == "compact_boundary");
        let continuations = count(&|l| l["metadata"]["compaction_continue"] == true);
        assert!(boundaries >= 2, "{api:?}: {boundaries} compactions");
        assert_eq!(continuations, boundaries, "{api:?}: exactly one continuation each");
        assert_eq!(ran.result()["result"], "all steps done");

        let entries = bench.entries();
        let kind = |kind: &str| entries.iter().filter(|e| e["kind"] == kind).count();
        assert_eq!(kind("compaction"), boundaries, "{api:?}");

        // P7: outside recorded boundaries every request is a byte prefix of the next.
        let turns: Vec<Recorded> = server.requests().into_iter().filter(|r| !asks_for_summary(r)).collect();
        let recorded = kind("compaction") + kind("prune") + kind("revert");
        let breaks = prefix_breaks(&turns);
        assert!(
            breaks.len() <= recorded,
            "{api:?}: prefix breaks at {breaks:?}, {recorded} recorded boundaries"
        );

        // P6: the user's words are in every request, verbatim; never above the window.
        for request in &turns {
            assert!(request.text().contains("do the 200 steps"), "{api:?}");
            assert!(request.text().len() < 32_000 * 4, "{api:?}: {} bytes", request.text().len());
        }
    }
}

#[test]
fn print_text_shows_nothing_of_a_compaction() {
    let bench = Bench::new(&[]);
    let (server, _) = counting_model(60);
    let ran = run(bench.print(BOTH[0], &server).args([
        "--context-window",
        "32000",
        "--permission-mode",
        "bypassPermissions",
        "do the 200 steps",
    ]))
    .expect(0);
    assert_eq!(ran.stdout, "all steps done\n");
    assert!(ran.stderr.contains("context compacted"), "{}", ran.stderr);
    let export = run(bench.command().args(["export"])).expect(0);
    assert!(!export.stdout.contains("## Relevant files"), "the summary is not for people");
    assert!(export.stdout.lines().all(|l| l.trim() != "continue"));
}

#[test]
fn an_overflow_the_provider_reports_is_answered_by_one_compaction() {
    for api in BOTH {
        let bench = Bench::new(&[("big.txt", &"lorem ipsum dolor\n".repeat(1500))]);
        let mut refused = false;
        let mut step = 0;
        let server = MockServer::with(move |request| {
            if asks_for_summary(request) {
                return Answer::text(SUMMARY).usage(500, 100).into();
            }
            step += 1;
            match step {
                1..=4 => Answer::tool(
                    &format!("c{step}"),
                    "read",
                    json!({ "path": "big.txt", "offset": step, "limit": 700 }),
                )
                .usage(2000, 10)
                .into(),
                _ if !refused => {
                    refused = true;
                    Reply::openai_error(
                        400,
                        "exceed_context_size_error",
                        "400",
                        "request (20481 tokens) exceeds the available context size (16384 tokens), try increasing it",
                    )
                }
                _ => Answer::text("read it").usage(2000, 10).into(),
            }
        });
        let ran =
            run(bench.print(api, &server).args(["--output-format", "stream-json", "read it all"])).expect(0);
        let boundaries: Vec<Value> =
            ran.lines().into_iter().filter(|l| l["subtype"] == "compact_boundary").collect();
        assert_eq!(boundaries.len(), 1, "{api:?}");
        assert_eq!(boundaries[0]["compact_metadata"]["cause"], "overflow");
        assert_eq!(ran.result()["result"], "read it");
    }
}

#[test]
fn a_summariser_that_fails_gives_way_to_the_fallback() {
    let bench = Bench::new(&[]);
    let mut n = 0;
    let server = MockServer::with(move |request| {
        let tokens = request.text().len() as u64 / 4;
        if asks_for_summary(request) {
            return Reply::anthropic_error(400, "invalid_request_error", "no summaries today");
        }
        n += 1;
        if n > 60 {
            return Answer::text("end").usage(tokens, 10).into();
        }
        let command = format!("echo {n} >> log.txt; seq -w {n}00000 {n}00250 | head -c 2000");
        Answer::tool(&format!("call_{n}"), "bash", json!({ "command": command })).usage(tokens, 60).into()
    });
    let ran = run(bench.print(BOTH[0], &server).args([
        "--context-window",
        "32000",
        "--permission-mode",
        "bypassPermissions",
        "do the steps",
    ]))
    .expect(0);
    assert_eq!(ran.stdout, "end\n");
    assert_eq!(bench.project.read("log.txt").lines().count(), 60);
    let sources: Vec<Value> =
        bench.entries().iter().filter(|e| e["kind"] == "compaction").map(|e| e["source"].clone()).collect();
    assert!(!sources.is_empty() && sources.iter().all(|s| s == "fallback"), "{sources:?}");
}

#[test]
fn a_message_typed_while_it_compacts_is_delivered_once() {
    let bench = Bench::new(&[]);
    let gate = Gate::new();
    let gate_in_server = gate.clone();
    let mut n = 0;
    let mut gated = false;
    let server = MockServer::with(move |request| {
        let tokens = request.text().len() as u64 / 4;
        if asks_for_summary(request) {
            let reply = Reply::from(Answer::text(SUMMARY).usage(tokens, 200));
            if gated {
                return reply;
            }
            gated = true;
            return reply.gate_before(&gate_in_server);
        }
        n += 1;
        if n > 45 {
            return Answer::text("end").usage(tokens, 10).into();
        }
        let command = format!("seq -w {n}00000 {n}00250 | head -c 2000");
        Answer::tool(&format!("call_{n}"), "bash", json!({ "command": command })).usage(tokens, 60).into()
    });
    let mut running = Running::start(bench.print(BOTH[0], &server).args([
        "--context-window",
        "32000",
        "--permission-mode",
        "bypassPermissions",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
    ]));
    running.send(b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"do the steps\"}}\n");
    gate.wait_reached();
    running.send(
        b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"typed during the compaction\"}}\n",
    );
    gate.open();
    running.line(|l| l.contains("\"type\":\"result\""));
    running.wait().expect(0);
    let delivered = bench
        .entries()
        .iter()
        .filter(|e| e["kind"] == "message" && e.to_string().contains("typed during"))
        .count();
    assert_eq!(delivered, 1);
    assert!(server.requests().last().unwrap().text().contains("typed during the compaction"));
}

/// A summary is asked for at 0.70 of the window and held back; the turn's steps go on meanwhile, and the compaction at 0.90
/// finds it there.
#[test]
fn the_turn_goes_on_while_its_summary_is_prepared() {
    let bench = Bench::new(&[]);
    let gate = Gate::new();
    let gate_in_server = gate.clone();
    let steps = Arc::new(Mutex::new(0));
    let steps_in_server = Arc::clone(&steps);
    let server = MockServer::with(move |request| {
        let tokens = request.text().len() as u64 / 4;
        if asks_for_summary(request) {
            return Reply::from(Answer::text(SUMMARY).usage(tokens, 200)).gate_before(&gate_in_server);
        }
        let mut n = steps_in_server.lock().unwrap();
        *n += 1;
        if *n > 90 {
            return Answer::text("end").usage(tokens, 10).into();
        }
        let command = format!("seq -w {n}00000 {n}00100 | head -c 800");
        Answer::text(format!("Step {n}."))
            .and_tool(&format!("call_{n}"), "bash", json!({ "command": command }))
            .usage(tokens, 60)
            .into()
    });
    let mut running = Running::start(bench.print(BOTH[0], &server).args([
        "--context-window",
        "24000",
        "--permission-mode",
        "bypassPermissions",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
    ]));
    running.send(b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"do the steps\"}}\n");
    gate.wait_reached();
    let then = *steps.lock().unwrap();
    running.line(|l| l.contains(&format!("Step {}.", then + 2)));
    gate.open();
    running.line(|l| l.contains("\"type\":\"result\""));
    running.wait().expect(0);
    let entries = bench.entries();
    let compactions: Vec<&Value> = entries.iter().filter(|e| e["kind"] == "compaction").collect();
    assert!(!compactions.is_empty());
    assert_eq!(compactions[0]["input"], "prepared");
    let summaries = server.requests().iter().filter(|r| asks_for_summary(r)).count();
    assert!(summaries <= compactions.len() + 1, "{summaries} summaries, {} compactions", compactions.len());
    let turns: Vec<Recorded> = server.requests().into_iter().filter(|r| !asks_for_summary(r)).collect();
    assert!(prefix_breaks(&turns).len() <= compactions.len());
}

/// The boundary waits for no request: the summary is complete before the last step ahead of the boundary, and the server
/// answers no other request for a summary until the turn has continued.
#[test]
fn a_boundary_with_a_prepared_summary_waits_for_no_request() {
    let bench = Bench::new(&[]);
    let (summary, hold, others) = (Gate::new(), Gate::new(), Gate::new());
    let gates = (summary.clone(), hold.clone(), others.clone());
    let (mut steps, mut summaries, mut meanwhile) = (0, 0, 0);
    let server = MockServer::with(move |request| {
        let tokens = request.text().len() as u64 / 4;
        if asks_for_summary(request) {
            summaries += 1;
            let gate = if summaries == 1 { &gates.0 } else { &gates.2 };
            return Reply::from(Answer::text(SUMMARY).usage(tokens, 200)).gate_before(gate);
        }
        steps += 1;
        if steps > 90 {
            return Answer::text("end").usage(tokens, 10).into();
        }
        let command = format!("echo {steps} >> log.txt; seq -w {steps}00000 {steps}00100 | head -c 800");
        let step = Reply::from(
            Answer::text(format!("Step {steps}."))
                .and_tool(&format!("call_{steps}"), "bash", json!({ "command": command }))
                .usage(tokens, 60),
        );
        meanwhile += usize::from(summaries == 1);
        if meanwhile == 3 { step.gate_before(&gates.1) } else { step }
    });
    let mut running = Running::start(bench.print(BOTH[0], &server).args([
        "--context-window",
        "24000",
        "--permission-mode",
        "bypassPermissions",
        "--output-format",
        "stream-json",
        "do the steps",
    ]));
    running.close_stdin();
    summary.wait_reached();
    hold.wait_reached();
    let held = server.requests().len();
    summary.open();
    running.line(|l| l.contains("A summary is prepared"));
    hold.open();
    running.line(|l| l.contains("compact_boundary"));
    running.line(|l| l.contains("\"type\":\"assistant\"") && l.contains("Step "));
    let requests = server.requests();
    others.open();
    running.wait().expect(0);
    let after = requests.iter().position(|r| r.text().contains("<context-summary>")).unwrap();
    assert!(after >= held, "{after} {held}");
    assert!(
        requests[held..=after].iter().all(|r| !asks_for_summary(r)),
        "nothing is asked between the prepared summary and the step behind the boundary"
    );
    let compactions: Vec<Value> = bench.entries().into_iter().filter(|e| e["kind"] == "compaction").collect();
    assert_eq!(compactions[0]["input"], "prepared");
    let log: Vec<usize> = bench.project.read("log.txt").lines().map(|l| l.parse().unwrap()).collect();
    assert_eq!(log, (1..=90).collect::<Vec<_>>());
}
