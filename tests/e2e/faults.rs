//! Tests faults of servers and networks. Each must end with a finished turn or one clear message, and never with a hang, an
//! unusable session or an action that is done twice.

use crate::support::{Api, BOTH, Bench, run};
use becket_testkit::{Answer, MockServer, Reply, Wire};
use serde_json::json;

fn wire(api: Api) -> Wire {
    match api {
        Api::Anthropic => Wire::Anthropic,
        Api::Chat => Wire::Chat,
    }
}

fn effect() -> Answer {
    Answer::text("Working on it now.")
        .and_tool("c1", "bash", json!({ "command": "echo x >> effects.txt" }))
        .usage(100, 10)
}

/// Scenarios of a stream that is cut anywhere: the turn recovers, the side effect happens once.
#[test]
fn a_stream_cut_anywhere_recovers_without_a_second_effect() {
    for api in BOTH {
        let length = Reply::from(effect()).body_bytes(wire(api)).len();
        // Twelve places over the whole stream, each odd so that they fall inside JSON and text alike.
        for cut in (0..12).map(|i| 1 + i * length / 12) {
            let bench = Bench::new(&[]);
            let server = MockServer::start([
                Reply::from(effect()).cut_at(cut),
                effect().into(),
                Answer::text("done").into(),
            ]);
            let ran = run(bench.print(api, &server).args(["--permission-mode", "bypassPermissions", "go"]))
                .expect(0);
            assert_eq!(ran.stdout, "done\n", "{api:?} cut at {cut}");
            assert_eq!(bench.project.read("effects.txt"), "x\n", "{api:?} cut at {cut} of {length}");
        }
    }
}

#[test]
fn partial_text_is_printed_when_the_stream_keeps_breaking() {
    for api in BOTH {
        let bench = Bench::new(&[]);
        let answer = || Answer::text("The first half of the answer, then nothing more comes.").deltas(8);
        let length = Reply::from(answer()).body_bytes(wire(api)).len();
        let server = MockServer::with(move |_| Reply::from(answer()).cut_at(length * 2 / 3));
        let ran = run(bench.print(api, &server).arg("go")).expect(7);
        assert!(ran.stdout.contains("The first half"), "{api:?}: {ran:?}");
        assert!(!ran.stderr.is_empty());
    }
}

#[test]
fn errors_that_never_heal_are_told_at_once() {
    let table: &[(Api, Reply, &str)] = &[
        (Api::Anthropic, Reply::anthropic_error(401, "authentication_error", "invalid x-api-key"), "key"),
        (
            Api::Chat,
            Reply::openai_error(401, "invalid_request_error", "invalid_api_key", "Incorrect API key"),
            "key",
        ),
        (Api::Anthropic, Reply::anthropic_error(404, "not_found_error", "model: nope"), "model"),
        (
            Api::Chat,
            Reply::openai_error(
                429,
                "insufficient_quota",
                "insufficient_quota",
                "You exceeded your current quota",
            ),
            "quota",
        ),
        (
            Api::Anthropic,
            Reply::anthropic_error(400, "invalid_request_error", "Your credit balance is too low"),
            "credit",
        ),
    ];
    for (api, reply, word) in table {
        let bench = Bench::new(&[]);
        let server = MockServer::start([reply.clone()]);
        let ran = run(bench.print(*api, &server).arg("go")).expect(7);
        assert_eq!(server.requests().len(), 1, "{word}: no retry");
        assert!(ran.stderr.to_lowercase().contains(word), "{word}: {}", ran.stderr);
        assert!(!ran.stderr.contains("sk-test"), "the key stays out of messages");
    }
}

#[test]
fn answers_that_are_no_answers() {
    let bodies: &[(&str, Reply)] = &[
        ("html", Reply::body(200, "text/html", "<html><body>Sign in to the hotel WLAN</body></html>")),
        ("no content", Reply::status(204)),
        ("empty", Reply::body(200, "text/event-stream", "")),
        ("wrong shape", Reply::body(200, "application/json", "{\"hello\":1}")),
        (
            "garbage gzip",
            Reply::body(200, "text/event-stream", "\u{1f}garbage").header("content-encoding", "gzip"),
        ),
    ];
    for api in BOTH {
        for (name, reply) in bodies {
            let bench = Bench::new(&[]);
            let reply = reply.clone();
            let server = MockServer::with(move |_| reply.clone());
            let ran = run(bench.print(api, &server).arg("go")).expect(7);
            assert!(server.requests().len() <= 4, "{api:?} {name}: {} requests", server.requests().len());
            assert!(!ran.stderr.is_empty(), "{api:?} {name}");
            // One bad answer alone does no harm: the next one counts.
            let bench = Bench::new(&[]);
            let mut first = Some(bodies.iter().find(|(n, _)| n == name).unwrap().1.clone());
            let server =
                MockServer::with(move |_| first.take().unwrap_or_else(|| Answer::text("fine").into()));
            let ran = run(bench.print(api, &server).arg("go"));
            assert_eq!((ran.code, ran.stdout.as_str()), (0, "fine\n"), "{api:?} {name}: {}", ran.stderr);
        }
    }
}

/// The model ends its work without a word: it is asked once more, and then the run ends with its own code.
#[test]
fn an_empty_last_answer_is_no_server_that_cannot_be_reached() {
    for api in BOTH {
        for (answers, code) in [(1, 0), (9, 11)] {
            let bench = Bench::new(&[("a.txt", "one\n")]);
            let mut count = 0;
            let server = MockServer::with(move |_| {
                count += 1;
                match count {
                    1 => Answer::new().and_tool("c1", "read", json!({ "path": "a.txt" })).into(),
                    n if n <= answers + 1 => Answer::new().into(),
                    _ => Answer::text("All done.").into(),
                }
            });
            let ran = run(bench.print(api, &server).args(["--output-format", "json", "go"])).expect(code);
            assert_eq!(server.requests().len(), 3, "{api:?}");
            let result = ran.result();
            if code == 0 {
                assert_eq!(result["result"], "All done.", "{api:?}");
            } else {
                assert_eq!(result["subtype"], "error_no_answer", "{api:?}");
                assert!(
                    ran.stderr.contains("twice in a row") && ran.stderr.contains("is kept"),
                    "{}",
                    ran.stderr
                );
            }
        }
    }
}

#[test]
fn an_overloaded_server_is_asked_again_and_retry_after_is_kept() {
    for api in BOTH {
        let bench = Bench::new(&[]);
        let server = MockServer::start([
            Reply::anthropic_error(529, "overloaded_error", "Overloaded").header("retry-after-ms", "20"),
            Reply::openai_error(503, "server_error", "x", "try later").header("retry-after", "0"),
            Answer::text("here").into(),
        ]);
        let ran = run(bench.print(api, &server).args(["--output-format", "stream-json", "go"])).expect(0);
        let retries = ran.lines().iter().filter(|l| l["subtype"] == "api_retry").count();
        assert_eq!(retries, 2, "{api:?}");
    }
}

#[test]
fn a_wait_longer_than_allowed_ends_the_run() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| {
        Reply::anthropic_error(429, "rate_limit_error", "slow down").header("retry-after", "3600")
    });
    let ran = run(bench.print(Api::Anthropic, &server).args(["--max-wait", "5", "go"])).expect(7);
    assert!(
        ran.stderr.contains("3600") || ran.stderr.contains("1 h") || ran.stderr.contains("60 min"),
        "{}",
        ran.stderr
    );
}

#[test]
fn arguments_that_are_not_json_are_reported_to_the_model_and_not_run() {
    for api in BOTH {
        let bench = Bench::new(&[]);
        let server = MockServer::start([
            Answer::new().and_raw_tool("c1", "bash", "{\"command\": \"echo x >> effects.txt\",,"),
            Answer::text("understood"),
            Answer::text("again"),
        ]);
        run(bench.print(api, &server).args(["--permission-mode", "bypassPermissions", "go"])).expect(0);
        assert!(!bench.project.exists("effects.txt"), "{api:?}");
        assert!(server.requests()[1].text().contains("JSON"), "{api:?}: {}", server.requests()[1].text());
        // The session can be continued.
        run(bench.print(api, &server).args(["-c", "more"])).expect(0);
    }
}

#[test]
fn a_call_cut_by_the_output_limit_is_not_run() {
    for api in BOTH {
        for stop in ["length", "tool_calls"] {
            let reason = match (api, stop) {
                (Api::Anthropic, "length") => "max_tokens",
                (Api::Anthropic, _) => "tool_use",
                (Api::Chat, other) => other,
            };
            let bench = Bench::new(&[]);
            let server = MockServer::start([
                Answer::new().and_raw_tool("c1", "bash", "{\"command\": \"echo x >> eff").stop(reason),
                Answer::text("smaller parts then"),
            ]);
            run(bench.print(api, &server).args(["--permission-mode", "bypassPermissions", "go"])).expect(0);
            assert!(!bench.project.exists("effects.txt"), "{api:?} {reason}");
            assert_eq!(server.requests().len(), 2, "{api:?} {reason}");
        }
    }
}

#[test]
fn calls_that_are_always_cut_end_with_what_happened() {
    for api in BOTH {
        let bench = Bench::new(&[]);
        let reason = if api == Api::Anthropic { "max_tokens" } else { "length" };
        let server = MockServer::with(move |_| {
            Answer::new().and_raw_tool("c1", "bash", "{\"command\": \"echo x >> eff").stop(reason).into()
        });
        let ran = run(bench.print(api, &server).args(["--permission-mode", "bypassPermissions", "go"]));
        assert!(ran.stderr.contains("4 answers in a row were cut by the output limit"), "{}", ran.stderr);
        assert_eq!((ran.code, server.requests().len()), (11, 4), "{api:?}");
        assert!(server.requests()[1].text().contains("make it again in smaller parts"), "{api:?}");
    }
}

/// A script must not take half an answer for a whole one, in any format.
#[test]
fn an_answer_that_is_always_cut_is_no_success() {
    for api in BOTH {
        for format in ["text", "json", "stream-json"] {
            let bench = Bench::new(&[]);
            let reason = if api == Api::Anthropic { "max_tokens" } else { "length" };
            let server = MockServer::with(move |_| Answer::text("half").stop(reason).into());
            let flags = ["--verbose", "--output-format", format, "go"];
            let ran = run(bench.print(api, &server).args(flags)).expect(11);
            assert_eq!(server.requests().len(), 4, "{api:?} {format}");
            if format == "text" {
                assert_eq!(ran.stdout.trim(), "halfhalfhalfhalf", "{api:?}");
                assert!(ran.stderr.contains("The answer is not complete"), "{}", ran.stderr);
                continue;
            }
            let result = ran.lines().pop().unwrap();
            let result = result.as_array().and_then(|lines| lines.last()).unwrap_or(&result);
            assert_eq!(
                (&result["subtype"], &result["is_error"]),
                (&serde_json::json!("error_no_answer"), &serde_json::json!(true)),
                "{result}"
            );
            assert!(result["errors"][0].as_str().unwrap().contains("The answer is not complete"), "{result}");
            assert_eq!(result["result"], "halfhalfhalfhalf", "{result}");
        }
    }
}

#[test]
fn a_stream_torn_in_its_last_event_broke_off() {
    for api in BOTH {
        let bench = Bench::new(&[]);
        let answer = || Reply::from(Answer::text("🦀🦀🦀🦀").deltas(1));
        let bytes = answer().body_bytes(wire(api));
        let crab = bytes.windows(4).position(|w| w == "🦀".as_bytes());
        // Cuts inside a character if the wire has it as UTF-8, otherwise inside JSON.
        let cut = crab.map_or(bytes.len() / 2, |at| at + 2);
        let server = MockServer::start([answer().cut_at(cut), Answer::text("whole").into()]);
        let ran = run(bench.print(api, &server).arg("go")).expect(0);
        assert_eq!(ran.stdout, "whole\n", "{api:?}");
        assert!(ran.stderr.contains("broke off in the middle"), "{api:?}: {}", ran.stderr);
    }
}

#[test]
fn the_same_call_again_and_again_is_stopped() {
    let bench = Bench::new(&[("a.txt", "A\n")]);
    let mut n = 0;
    let server = MockServer::with(move |_| {
        n += 1;
        Answer::tool(&format!("c{n}"), "read", json!({ "path": "a.txt" })).into()
    });
    let ran = run(bench.print(Api::Chat, &server).arg("go")).expect(8);
    assert!(server.requests().len() <= 6, "{} requests", server.requests().len());
    assert!(ran.stderr.contains("same"), "{}", ran.stderr);
}

#[test]
fn limits_end_the_run_with_their_own_codes() {
    let endless = || {
        let mut n = 0;
        MockServer::with(move |_| {
            n += 1;
            Answer::tool(&format!("c{n}"), "glob", json!({ "pattern": format!("*.{n}") }))
                .usage(100_000, 1000)
                .into()
        })
    };
    let bench = Bench::new(&[]);
    let server = endless();
    let ran =
        run(bench.print(Api::Anthropic, &server).args(["--max-turns", "3", "--output-format", "json", "go"]));
    let ran = ran.expect(3);
    assert_eq!(ran.lines()[0]["subtype"], "error_max_turns");
    assert!(server.requests().len() <= 4, "three, and one to wrap up");

    let bench = Bench::new(&[]);
    let server = endless();
    let ran = run(bench.print(Api::Anthropic, &server).args([
        "--max-budget-usd",
        "0.5",
        "--output-format",
        "json",
        "go",
    ]));
    let ran = ran.expect(4);
    assert_eq!(ran.lines()[0]["subtype"], "error_max_budget_usd");
    assert!(ran.lines()[0]["total_cost_usd"].as_f64().unwrap() < 1.0);

    let server = endless();
    let limited = ["--max-tokens", "250k", "--output-format", "json", "go"];
    let ran = run(bench.print(Api::Anthropic, &server).args(limited)).expect(4);
    assert_eq!(ran.lines()[0]["subtype"], "error_max_tokens");

    // A limit in time has an exit code and a sub-type of its own, apart from limits in money and tokens.
    let server = MockServer::start([Answer::tool("c1", "bash", json!({ "command": "sleep 60" }))]);
    let limited =
        ["--max-wall", "2", "--output-format", "json", "--allowedTools", "Bash(sleep *)", "--", "go"];
    let ran = run(bench.print(Api::Anthropic, &server).args(limited)).expect(13);
    assert_eq!(ran.lines()[0]["subtype"], "error_max_wall");
}

#[test]
fn nobody_listens() {
    let bench = Bench::new(&[]);
    // A port that no server is given: one that was free a moment ago may be another test's now.
    let address = "127.0.0.1:9";
    let started = std::time::Instant::now();
    let ran = run(bench
        .command()
        .env("OPENAI_BASE_URL", format!("http://{address}/v1"))
        .args(["-p", "--model", "openai/x", "go"]))
    .expect(7);
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    assert!(ran.stderr.contains(address), "{}", ran.stderr);
}
