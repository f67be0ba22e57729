//! Money and tokens: limits hold before a request, over a resume and for subagents; costs as they were billed, and shown;
//! a used-up quota is waited for.

use crate::sdk_answers::Session;
use crate::support::{Api, Bench, Running, entries, run, says};
use crate::terminal::{Terminal, becket, silent};
use becket_testkit::{Answer, MockServer, Reply};
use serde_json::{Value, json};

const PROMPT: &str = "find the needle in the haystack";

/// A model that goes on for ever, at 10,000 tokens a request.
fn endless() -> MockServer {
    let mut n = 0;
    MockServer::with(move |_| {
        n += 1;
        Answer::tool(&format!("c{n}"), "glob", json!({ "pattern": format!("*.{n}") }))
            .usage(10_000, 1_000)
            .into()
    })
}

/// The limit in money is not exceeded, because a request is estimated before it is sent.
#[test]
fn a_request_that_would_exceed_the_budget_is_not_sent() {
    let bench = Bench::new(&[]);
    let server = endless();
    let limited = ["--max-budget-usd", "0.3", "--output-format", "json"];
    let ran = run(bench.print(Api::Anthropic, &server).args(limited).arg(PROMPT)).expect(4);
    let result = ran.result();
    assert_eq!(result["subtype"], "error_max_budget_usd");
    let spent = result["total_cost_usd"].as_f64().unwrap();
    assert!(spent > 0.2 && spent <= 0.3, "{result}");
    assert!(result.to_string().contains("the next request may cost $"), "{result}");
    assert!(ran.stderr.contains("More than 80 % of a limit is used: $0.2"), "{}", ran.stderr);
    // The output limit shrinks with the room that is left.
    let limits: Vec<u64> =
        server.requests().iter().map(|request| request.json()["max_tokens"].as_u64().unwrap()).collect();
    assert!(limits.windows(2).all(|pair| pair[1] <= pair[0]), "{limits:?}");
    assert!(limits[0] > 10_000 && *limits.last().unwrap() < 10_000, "{limits:?}");
    assert!(limits.iter().all(|limit| *limit >= 1_024), "{limits:?}");

    // A resumed session goes on counting; a limit that is set for a run counts from its start.
    let sent = server.requests().len();
    let ran = run(bench.print(Api::Anthropic, &server).args(["-c", "go on"])).expect(4);
    assert!(ran.stderr.contains("of $0.3000"), "{}", ran.stderr);
    assert_eq!(server.requests().len(), sent, "nothing was sent");
    run(bench.print(Api::Anthropic, &server).args(["-c", "--max-budget-usd", "0.1", "go on"])).expect(4);
    assert!(server.requests().len() > sent);

    // A budget that is too small for any request sends none.
    let bench = Bench::new(&[]);
    let server = endless();
    run(bench.print(Api::Anthropic, &server).args(["--max-budget-usd", "0.001", "go"])).expect(4);
    assert!(server.requests().is_empty());
}

#[test]
fn tokens_are_reserved_like_money() {
    let bench = Bench::new(&[]);
    let server = endless();
    let limited = ["--max-tokens", "50k", "--output-format", "json"];
    let ran = run(bench.print(Api::Chat, &server).args(limited).arg(PROMPT)).expect(4);
    assert_eq!(ran.result()["subtype"], "error_max_tokens");
    let sent = server.requests().len();
    assert!((2..=4).contains(&sent), "{sent}");
    assert!(ran.stderr.contains("tokens."), "a warning: {}", ran.stderr);
}

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

/// The notice about an unknown price is shown once.
#[test]
fn a_budget_for_a_model_without_price_says_so() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("fine")]);
    let ran = run(bench.print(Api::Chat, &server).args(["--max-budget-usd", "1", "go"])).expect(0);
    assert_eq!(ran.stderr.matches("has no list price").count(), 1, "{}", ran.stderr);
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

fn used_up(seconds: &str) -> Reply {
    Reply::anthropic_error(429, "rate_limit_error", "You have used up your quota.")
        .header("retry-after", seconds)
}

/// `--wait-for-quota` waits longer than `--max-wait`, and the session is answered in the end.
#[test]
fn a_used_up_quota_is_waited_for() {
    let bench = Bench::new(&[]);
    let soon = Reply::anthropic_error(429, "rate_limit_error", "You have used up your quota.");
    let soon = soon.header("retry-after-ms", "300");
    let server = MockServer::start([soon, Answer::text("fine").into()]);
    let waiting = ["--max-wait", "100ms", "--wait-for-quota", "go"];
    let ran = run(bench.print(Api::Anthropic, &server).args(waiting)).expect(0);
    assert_eq!(ran.stdout, "fine\n");
    assert!(ran.stderr.contains("becket waits until"), "{}", ran.stderr);
    assert_eq!(server.requests().len(), 2);
    let states: Vec<Value> =
        bench.entries().into_iter().filter(|entry| entry["key"] == "waiting_until").collect();
    assert_eq!(states.len(), 2, "{states:?}");
    assert!(states[1]["value"].is_null(), "{states:?}");

    // Without the flag, the wait is an error as before.
    let bench = Bench::new(&[]);
    let server = MockServer::start([used_up("3600")]);
    run(bench.print(Api::Anthropic, &server).arg("go")).expect(7);
}

/// A process that dies while it waits leaves the wait in the session, and the next one knows of it.
#[test]
fn the_wait_for_a_quota_survives_the_process() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([used_up("7200"), Answer::text("fine").into()]);
    let waiting = ["--output-format", "stream-json", "--verbose", "--wait-for-quota", "go"];
    let mut running = Running::start(bench.print(Api::Anthropic, &server).args(waiting));
    running.close_stdin();
    let told: Value = serde_json::from_str(&running.line(|line| line.contains("rate_limit_event"))).unwrap();
    assert_eq!(told["rate_limit_info"]["status"], "rejected");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let left = told["rate_limit_info"]["resetsAt"].as_u64().unwrap() - now;
    assert!((7_000..=7_200).contains(&left), "{told}");
    running.line(|line| line.contains("api_retry"));
    running.signal("-KILL");
    running.wait();
    let kept = entries(&bench.ledgers()[0]);
    let wait = kept.iter().rfind(|entry| entry["key"] == "waiting_until").unwrap();
    assert_eq!(wait["value"]["model"], "anthropic/claude-sonnet-4-5");

    // The next process continues the wait, unless a setting forbids it.
    let mut running = Running::start(bench.print(Api::Anthropic, &server).args([
        "--continue",
        "--output-format",
        "stream-json",
        "--verbose",
    ]));
    running.close_stdin();
    let line: Value = serde_json::from_str(&running.line(|line| line.contains("api_retry"))).unwrap();
    assert!(line["retry_delay_ms"].as_u64().unwrap() > 7_000_000, "{line}");
    running.signal("-KILL");
    running.wait();
    assert_eq!(server.requests().len(), 1, "nothing was sent while it waited");
    let now = ["--continue", "--settings", r#"{"limits":{"wait_for_quota":false}}"#];
    let ran = run(bench.print(Api::Anthropic, &server).args(now)).expect(0);
    assert!(ran.stderr.contains("is used up until"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "fine\n");
}

/// In the terminal, a limit that ended a turn is raised in place, and the session goes on.
#[test]
fn a_limit_is_raised_in_the_terminal() {
    let bench = Bench::new(&[]);
    let server = silent();
    let mut command = becket(&bench, &server);
    command.args(["--max-budget-usd", "0.001"]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Describe a task");
    terminal.send("go\r");
    terminal.shows_words("stopped at the budget: spent $0.0000 of $0.0010");
    assert!(server.requests().is_empty());
    terminal.send("/limits usd 5\r");
    terminal.shows_words("Money: $0.0000 of $5.0000.");
    terminal.send("go on\r");
    terminal.shows("Done.");
    terminal.send("/effort high\r");
    terminal.shows_words("Effort: high, from the next request on.");
    terminal.send("/limits usd x\r");
    terminal.shows_words("is not an amount above 0");
}

/// A server that reports no usage does not switch a limit off.
#[test]
fn tokens_that_a_server_does_not_report_are_estimated() {
    let bench = Bench::new(&[("a.txt", &"words and words\n".repeat(200))]);
    let mut n = 0;
    let server = MockServer::with(move |_| {
        n += 1;
        // Different lines, because a model that repeats itself is stopped.
        Answer::tool(&format!("c{n}"), "read", json!({ "path": "a.txt", "offset": n })).usage(0, 0).into()
    });
    let limited = ["--max-tokens", "60k", "--output-format", "json"];
    let ran = run(bench.print(Api::Chat, &server).args(limited).arg(PROMPT)).expect(4);
    assert_eq!(ran.result()["subtype"], "error_max_tokens");
    let sent = server.requests().len();
    assert!((2..=15).contains(&sent), "{sent}");
    let used = &ran.result()["usage"];
    let input = used["input_tokens"].as_u64().unwrap();
    assert!((10_000..=60_000).contains(&input), "{used}");
    let shown = run(bench.command().arg("cost")).expect(0).stdout;
    assert!(shown.contains(&format!("{sent} requests")), "{shown}");
    assert!(shown.contains("estimated: the provider reported no usage"), "{shown}");
    let shown = run(bench.command().args(["cost", "--json"])).expect(0).stdout;
    let bill: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(bill["sum"]["estimated"], sent, "{bill}");

    // If a server reports usage, becket counts exactly that.
    let bench = Bench::new(&[]);
    run(bench.print(Api::Chat, &MockServer::start([Answer::text("done")])).arg("go")).expect(0);
    let shown = run(bench.command().arg("cost")).expect(0).stdout;
    assert!(shown.contains("100 tokens read") && !shown.contains("estimated"), "{shown}");
}

/// Cost in a result: `total_cost_usd`, or `costUSD` of one model.
fn usd(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no cost: {value}"))
}

/// Results for programs are checked against the list prices of the catalog: input, output, cache reads and cache writes, in US
/// dollars for a million tokens.
#[test]
fn a_program_gets_the_costs_that_the_list_prices_give() {
    const SONNET: [f64; 4] = [3.0, 15.0, 0.3, 3.75];
    const HAIKU: [f64; 4] = [1.0, 5.0, 0.1, 1.25];
    let cost = |prices: [f64; 4], tokens: [u64; 4]| -> f64 {
        tokens
            .iter()
            .zip(prices)
            .map(|(count, price)| f64::from(u32::try_from(*count).unwrap()) * price)
            .sum::<f64>()
            / 1e6
    };
    let bench = Bench::new(&[]);
    let task = json!({ "agent": "scout", "description": "look", "prompt": "look around" });
    let server = MockServer::start([
        Answer::tool("c1", "task", task).usage(1_000, 200).cached(0, 4_000),
        // The subagent, on a model of its own.
        Answer::text("seen").usage(700, 30).cached(0, 0),
        Answer::text("one").usage(50, 100).cached(4_000, 900),
        Answer::text("two").usage(10, 20).cached(4_900, 0),
        Answer::text("three").usage(2_000, 10).cached(0, 100),
    ]);
    let agents = json!({ "scout": { "description": "looks", "prompt": "Look.", "model": "anthropic/claude-haiku-4-5", "tools": ["Read"] } });
    let mut session = Session::start(
        &bench,
        &server,
        &["--agents", &agents.to_string(), "--permission-mode", "bypassPermissions"],
    );
    let near = |found: f64, wanted: f64| (found - wanted).abs() < 1e-9;
    let sonnet = "claude-sonnet-4-5";
    let haiku = "claude-haiku-4-5";
    let mut turn = |text: &str| {
        session.send(&says(text));
        session.result()
    };

    let first = turn("go");
    let of_haiku = cost(HAIKU, [700, 30, 0, 0]);
    let mut of_sonnet = cost(SONNET, [1_050, 300, 4_000, 4_900]);
    let model = |result: &Value, name: &str| {
        let models = result["modelUsage"].as_object().unwrap();
        let found = models.iter().find(|(known, _)| known.contains(name));
        found.unwrap_or_else(|| panic!("no usage of {name}: {result}")).1.clone()
    };
    let own = model(&first, sonnet);
    assert!(near(usd(&own["costUSD"]), of_sonnet), "{own} {of_sonnet}");
    let counts = ["inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
    assert_eq!(counts.map(|key| own[key].as_u64().unwrap()), [1_050, 300, 4_000, 4_900], "{own}");
    let other = model(&first, haiku);
    assert!(near(usd(&other["costUSD"]), of_haiku), "{other} {of_haiku}");
    assert_eq!(counts.map(|key| other[key].as_u64().unwrap()), [700, 30, 0, 0], "{other}");
    assert_eq!((&own["contextWindow"], &own["maxOutputTokens"]), (&json!(200_000), &json!(64_000)));
    assert!(near(usd(&first["total_cost_usd"]), of_sonnet + of_haiku), "{first}");
    // `usage` is that of the turn's own requests, as in Claude Code: the subagent's stand in `modelUsage` alone.
    let usage = |result: &Value| {
        ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
            .map(|key| result["usage"][key].as_u64().unwrap())
    };
    assert_eq!(usage(&first), [1_050, 300, 4_000, 4_900]);

    // `total_cost_usd` adds up the turns of the process; `usage` does not.
    let second = turn("more");
    of_sonnet += cost(SONNET, [10, 20, 4_900, 0]);
    assert!(near(usd(&second["total_cost_usd"]), of_sonnet + of_haiku), "{second}");
    assert_eq!(usage(&second), [10, 20, 4_900, 0]);

    // Another model counts at its own prices.
    let set = json!({ "type": "control_request", "request_id": "m", "request": { "subtype": "set_model", "model": haiku } });
    session.send(&set);
    session.line(&["control_response", "\"m\""]);
    session.send(&says("cheaper"));
    let third = session.result();
    let of_haiku = of_haiku + cost(HAIKU, [2_000, 10, 0, 100]);
    assert!(near(usd(&model(&third, haiku)["costUSD"]), of_haiku), "{third}");
    assert!(near(usd(&model(&third, sonnet)["costUSD"]), of_sonnet), "{third}");
    assert!(near(usd(&third["total_cost_usd"]), of_sonnet + of_haiku), "{third}");
    let told = session.ask(&json!({ "subtype": "get_session_cost" }));
    assert!(near(usd(&told["total_cost_usd"]), of_sonnet + of_haiku), "{told}");
    session.0.wait().expect(0);
}

/// Questions of hooks to a model count for the session, and the limits of the session hold for them.
#[test]
fn a_budget_holds_for_the_questions_of_hooks() {
    for kind in ["prompt", "agent"] {
        let bench = Bench::new(&[]);
        let hook = json!({ "type": kind, "prompt": "May it run?" });
        let hooks = json!({ "hooks": { "PreToolUse": [{ "hooks": [hook] }] } });
        bench.home.write(".claude/settings.json", hooks.to_string());
        let mut n = 0;
        let server = MockServer::with(move |request| {
            if request.text().contains("You judge one moment") {
                return Answer::text("{\"ok\": true}").usage(10_000, 100).into();
            }
            n += 1;
            Answer::tool(&format!("c{n}"), "glob", json!({ "pattern": format!("*.{n}") }))
                .usage(100, 10)
                .into()
        });
        let limited = ["--max-budget-usd", "0.3", "--output-format", "json"];
        let ran = run(bench.print(Api::Anthropic, &server).args(limited).arg(PROMPT)).expect(4);
        let result = ran.result();
        let spent = usd(&result["total_cost_usd"]);
        assert!(spent > 0.15 && spent <= 0.3, "{kind}: {result}");
        // `usage` is that of the turn's own requests; `modelUsage` has all.
        let own = result["usage"]["input_tokens"].as_u64().unwrap();
        let all = &result["modelUsage"]["claude-sonnet-4-5"]["inputTokens"];
        let all = all.as_u64().unwrap_or_else(|| panic!("{kind}: {result}"));
        assert!(own < 2_000 && all > 40_000, "{kind}: {result}");
        let bill = run(bench.command().args(["cost", "--json"])).expect(0).stdout;
        let bill: Value = serde_json::from_str(&bill).unwrap();
        let purpose = |name: &str| {
            let found = bill["purposes"].as_array().unwrap().iter().find(|row| row["purpose"] == name);
            usd(&found.unwrap_or_else(|| panic!("{kind}: no {name}: {bill}"))["usd"])
        };
        assert!((usd(&bill["sum"]["usd"]) - spent).abs() < 1e-9, "{kind}: {bill} {spent}");
        assert!((purpose("hook") + purpose("turn") - spent).abs() < 1e-9, "{kind}: {bill}");
        // A resumed session goes on counting.
        let sent = server.requests().len();
        run(bench.print(Api::Anthropic, &server).args(["-c", "go on"])).expect(4);
        assert_eq!(server.requests().len(), sent, "{kind}: nothing was sent");
    }
}
