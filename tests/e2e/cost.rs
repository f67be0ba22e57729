//! Costs as they were billed, and `becket cost`.

use crate::support::{Api, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

const PROMPT: &str = "find the needle in the haystack";

/// A cost that the provider reports counts, and not the list price.
#[test]
fn what_the_provider_billed_counts() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("fine").usage(1_000, 10).billed(12_300_000)]);
    let mut command = bench.command();
    command.env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", format!("{}/v1", server.url())).args([
        "-p",
        "--model",
        "openai/gpt-5-mini",
        "--output-format",
        "json",
        "go",
    ]);
    let ran = run(&mut command).expect(0);
    assert!((ran.result()["total_cost_usd"].as_f64().unwrap() - 0.0123).abs() < 1e-9, "{}", ran.stdout);
}

/// `becket cost` adds up a session and its subagents.
#[test]
fn becket_cost_shows_a_session_with_its_subagents() {
    let bench = Bench::new(&[("a.txt", "needle\n")]);
    let server = MockServer::start([
        Answer::tool("t1", "task", json!({"description": "d", "prompt": "find it", "agent": "explore"}))
            .usage(10_000, 100),
        Answer::text("It is in a.txt.").usage(2_000, 50),
        Answer::text("Found.").usage(11_000, 100).cached(5_000, 0),
    ]);
    let ran = run(bench.print(Api::Anthropic, &server).args(["--output-format", "json", PROMPT])).expect(0);
    let total = ran.result()["total_cost_usd"].as_f64().unwrap();
    let cost = |args: &[&str]| run(bench.command().arg("cost").args(args)).expect(0).stdout;
    let bill: Value = serde_json::from_str(&cost(&["--json"])).unwrap();
    assert!((bill["sum"]["usd"].as_f64().unwrap() - total).abs() < 1e-9, "{bill} {total}");
    assert_eq!((&bill["sum"]["requests"], &bill["sum"]["cached"]), (&json!(3), &json!(5_000)));
    let purposes: Vec<&str> =
        bill["purposes"].as_array().unwrap().iter().map(|p| p["purpose"].as_str().unwrap()).collect();
    assert_eq!(purposes, ["subagent", "turn"]);
    assert_eq!(bill["subagents"][0]["agent"], "explore");
    assert_eq!(bill["subagents"][0]["sum"]["read"], 2_000);
    assert_eq!(bill["requests"].as_array().unwrap().len(), 2);
    let table = cost(&[]);
    for words in ["by model", "by purpose", "by subagent", "anthropic/claude-sonnet-4-5", "3 requests"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let page = cost(&["--html", "cost.html"]);
    assert_eq!(page, "cost.html\n");
    let page = bench.project.read("cost.html");
    assert!(page.contains("subagent explore") && page.contains("<svg"), "{page}");
    let days: Value = serde_json::from_str(&cost(&["--since", "7d", "--json"])).unwrap();
    assert_eq!(days["days"][0]["requests"], 3);
    run(bench.command().args(["cost", "--since", "soon"])).expect(2);
    run(bench.command().args(["cost", "nosuchsession"])).expect(2);
}
