//! Tests reminders: a message that arrives while the agent works is answered in the same turn. It is wrapped once and has the
//! same bytes in every later request, while the ledger and the exports keep the user's own words.

use crate::support::{BOTH, Bench, Running, run};
use becket_testkit::{Answer, Gate, MockServer, Reply, assert_prefix};
use serde_json::{Value, json};

fn user(text: &str) -> Vec<u8> {
    format!(
        "{}\n",
        json!({ "type": "user", "message": { "role": "user", "content": text }, "parent_tool_use_id": null })
    )
    .into_bytes()
}

const WRAPPED: &str = "<system-reminder>\\nThe user sent the following message:\\n  use tabs, please \\n\\nPlease address this message and continue with your tasks.\\n</system-reminder>";

#[test]
fn a_message_on_stdin_mid_turn_is_answered_in_that_turn() {
    for api in BOTH {
        let bench = Bench::new(&[("a.txt", "AAA\n")]);
        let gate = Gate::new();
        let read = || json!({ "path": "a.txt" });
        let server = MockServer::start([
            Reply::from(Answer::tool("1", "read", read())),
            Reply::from(Answer::tool("2", "read", read())).gate_before(&gate),
            Answer::tool("3", "read", json!({ "path": "a.txt", "limit": 1 })).into(),
            Answer::text("with tabs").into(),
            Answer::text("bye").into(),
        ]);
        let mut running = Running::start(bench.print(api, &server).args([
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--replay-user-messages",
        ]));
        running.send(&user("indent it"));
        gate.wait_reached();
        // The second request is under way: the message comes in the middle of the turn.
        running.send(&user("  use tabs, please "));
        // Lines are handled in order: once this is answered, the message before it is in the inbox.
        running.send(b"{\"type\":\"control_request\",\"request_id\":\"r1\",\"request\":{\"subtype\":\"initialize\"}}\n");
        running.line(|l| l.contains("control_response"));
        gate.open();
        running.line(|l| l.contains("\"type\":\"result\""));
        running.send(&user("thanks"));
        running.line(|l| l.contains("\"type\":\"result\""));
        let ran = running.wait().expect(0);

        let requests = server.requests();
        assert_eq!(requests.len(), 5, "{api:?}");
        assert!(!requests[1].text().contains("use tabs"), "{api:?}");
        for request in &requests[2..] {
            assert_eq!(request.text().matches(WRAPPED).count(), 1, "{api:?}: {}", request.text());
        }
        assert!(
            !requests[4].text().contains("<system-reminder>\\nThe user sent the following message:\\nthanks")
        );
        assert_prefix(&requests);
        let results = ran.lines().iter().filter(|l| l["type"] == "result").count();
        assert_eq!(results, 2, "the steered message is part of the first turn");
        let words: Vec<Value> = bench
            .entries()
            .into_iter()
            .filter(|e| e["kind"] == "message" && e["message"]["origin"] == "user")
            .map(|e| e["message"]["parts"][0]["text"].clone())
            .collect();
        assert_eq!(words, [json!("indent it"), json!("  use tabs, please "), json!("thanks")], "{api:?}");
        assert!(!ran.stdout.contains("system-reminder"));
        let export = run(bench.command().args(["export", "--format", "md"])).expect(0);
        assert!(export.stdout.contains("use tabs, please") && !export.stdout.contains("system-reminder"));
    }
}
