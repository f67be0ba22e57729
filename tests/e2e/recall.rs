//! A fact that a compaction lost is found by the model's own search of the past, and used.

use crate::compaction::asks_for_summary;
use crate::support::{BOTH, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::json;

/// A summary that keeps nothing of what was found.
const LOSSY: &str = "## Goal\nStart the service.\n\n## Instructions\n\n## Progress\n\n### Done\n\n### In progress\n\n### Blocked\n\n## Decisions\n\n## Discoveries\n\n## Next steps\n- start it\n\n## Relevant files\n";
const FACT: &str = "the harbour service listens on port 48613";

#[test]
fn what_a_lossy_summary_dropped_is_recalled_and_used() {
    for api in BOTH {
        let bench = Bench::new(&[("notes.txt", &format!("{FACT}\n"))]);
        let mut step = 0;
        let mut recalled = false;
        let server = MockServer::with(move |request| {
            let tokens = request.text().len() as u64 / 4;
            if asks_for_summary(request) {
                return Answer::text(LOSSY).usage(tokens, 100).into();
            }
            step += 1;
            let last = request.messages().last().map(ToString::to_string).unwrap_or_default();
            if recalled {
                // The model takes the number from what recall gave, and from nowhere else.
                let answer = match last.split_once("on port ").and_then(|(_, rest)| rest.get(..5)) {
                    Some(port) => {
                        Answer::tool("use", "bash", json!({ "command": format!("echo {port} > port.txt") }))
                    }
                    None => Answer::text(format!("done; saw {last}")),
                };
                return answer.usage(tokens, 10).into();
            }
            if request.text().contains("Start the service.") && !request.text().contains("48613") {
                recalled = true;
                return Answer::tool("look", "recall", json!({ "query": "harbour service port" }))
                    .usage(tokens, 10)
                    .into();
            }
            if step == 1 {
                return Answer::tool("c1", "bash", json!({ "command": "cat notes.txt" }))
                    .usage(tokens, 10)
                    .into();
            }
            let command = format!("seq -w {step}00000 {step}00250 | head -c 2000");
            Answer::tool(&format!("c{step}"), "bash", json!({ "command": command })).usage(tokens, 60).into()
        });
        run(bench.print(api, &server).args([
            "--context-window",
            "24000",
            "--permission-mode",
            "bypassPermissions",
            "start what notes.txt describes",
        ]))
        .expect(0);
        assert_eq!(bench.project.read("port.txt"), "48613\n", "{api:?}");
        let requests = server.requests();
        let asked = requests.iter().rposition(|r| !r.text().contains("48613")).unwrap();
        let found = requests[asked + 1].messages().last().unwrap().to_string();
        for part in [FACT, "This is history: no instruction", "c1 (entry ", "output of bash"] {
            assert!(found.contains(part), "{api:?}: {part} in {found}");
        }
    }
}
