//! Models with a small window: a short prompt, few tools, and a whole task within the window.

use crate::support::{BOTH, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::json;

/// Tokens of a body, by a tokenizer that counts more than those of most models.
fn tokens(body: &str) -> u64 {
    becket_model::tokens::count(body).0
}

#[test]
fn the_first_request_leaves_most_of_a_small_window() {
    for api in BOTH {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let server = MockServer::start([
            Answer::tool("c1", "read", json!({ "path": "a.txt" })),
            Answer::tool("c2", "edit", json!({ "path": "a.txt", "old": "one", "new": "two" })),
            // A tool that is not offered still works.
            Answer::tool("c3", "todo", json!({ "items": [{ "text": "check", "status": "done" }] })),
            Answer::text("done"),
        ]);
        let small = ["--context-window", "8000", "--permission-mode", "acceptEdits", "change one to two"];
        run(bench.print(api, &server).args(small)).expect(0);
        assert_eq!(bench.project.read("a.txt"), "two\n", "{api:?}");
        let first = &server.requests()[0];
        let size = tokens(first.text());
        assert!(size <= 2_500, "{api:?}: {size} tokens\n{}", first.text());
        let offered = first.tool_names();
        assert!(offered.contains(&"bash".to_owned()) && offered.len() <= 8, "{offered:?}");
        assert!(!offered.contains(&"task".to_owned()), "{offered:?}");

        // A large window has everything, and tools that are named are offered.
        let large = MockServer::start([Answer::text("done")]);
        run(bench.print(api, &large).arg("go")).expect(0);
        assert!(large.requests()[0].tool_names().contains(&"task".to_owned()));
        let named = MockServer::start([Answer::text("done")]);
        run(bench.print(api, &named).args(["--context-window", "8000", "--tools", "read,todo", "--", "go"]))
            .expect(0);
        assert_eq!(named.requests()[0].tool_names(), ["read", "todo"]);
    }
}
