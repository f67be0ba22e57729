//! `kill -9` at random moments: every session opens, nothing acknowledged is lost, the next prompt goes on.

use crate::support::{Api, Bench, Running, entries, run};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Returns the number of kills. The nightly run sets a higher one with `BECKET_TEST_KILLS`.
fn kills() -> u64 {
    std::env::var("BECKET_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

#[test]
fn a_killed_session_opens_loses_nothing_and_goes_on() {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for round in 0..kills() {
        // xorshift: the same moments in every run, up to the machine's own jitter.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let bench = Bench::new(&[("a.txt", "A\n")]);
        let mut step = 0;
        let server = MockServer::with(move |request| {
            if request.text().contains("second prompt") {
                return Answer::text("went on").into();
            }
            step += 1;
            Answer::text(format!("step {step}"))
                .and_tool(
                    &format!("c{step}"),
                    "bash",
                    json!({ "command": format!("echo {step} >> log.txt") }),
                )
                .into()
        });
        let mut running = Running::start(bench.print(Api::Chat, &server).args([
            "--permission-mode",
            "bypassPermissions",
            "--output-format",
            "stream-json",
            "--replay-user-messages",
            "first prompt",
        ]));
        running.close_stdin();
        // The prompt is acknowledged; from here on the kill may come at any time.
        running.line(|l| l.contains("isReplay"));
        for _ in 0..state % 12 {
            running.line(|_| true);
        }
        let end = Instant::now() + Duration::from_micros((state >> 8) % 4_000);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        running.child.kill().unwrap();
        let acknowledged = running.wait();
        let shown: Vec<String> = acknowledged
            .stdout
            .lines()
            .filter_map(|l| serde_json::from_str::<Value>(l).ok())
            .filter(|l| l["type"] == "assistant" || l["type"] == "user")
            .filter_map(|l| l["uuid"].as_str().map(str::to_owned))
            .collect();

        let ran = run(bench.print(Api::Chat, &server).args(["--continue", "second prompt"])).expect(0);
        assert_eq!(ran.stdout, "went on\n", "round {round}");
        let ledger = entries(&bench.ledgers()[0]);
        let kept: Vec<&str> = ledger
            .iter()
            .filter(|e| e["kind"] == "message")
            .map(|e| e["message"]["id"].as_str().unwrap())
            .collect();
        for id in &shown {
            assert!(kept.contains(&id.as_str()), "round {round}: message {id} was shown and is lost");
        }
        // No action twice: the log counts up without a repeat.
        if bench.project.exists("log.txt") {
            let log = bench.project.read("log.txt");
            let numbers: Vec<u64> = log.lines().map(|l| l.parse().unwrap()).collect();
            assert!(numbers.windows(2).all(|w| w[0] < w[1]), "round {round}: {numbers:?}");
        }
        let last = server.requests().last().unwrap().text().to_owned();
        assert!(last.contains("first prompt"), "round {round}");
    }
}
