//! Messages of the interactive session: confirmations of commands, and the next step after a first message that failed.

use crate::support::Bench;
use crate::terminal::Terminal;
use becket_testkit::{Answer, MockServer, Reply};
use serde_json::json;

fn becket(bench: &Bench, address: &str) -> Terminal {
    let mut command = bench.command();
    command
        .env("TERM", "xterm-256color")
        .env("ANTHROPIC_API_KEY", "sk-ant-test")
        .env("ANTHROPIC_BASE_URL", address);
    command.args(["--model", "anthropic/claude-sonnet-4-5", "--max-wait", "1s"]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Describe a task");
    terminal
}

#[test]
fn commands_that_act_confirm_what_they_did() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("Done.").into());
    let mut terminal = becket(&bench, &server.url());
    terminal.send("go\r");
    terminal.shows("Done.");
    terminal.send("/rename the parser\r");
    terminal.shows("── the parser ──");
    terminal.send("/export notes.md\r");
    terminal.shows_words("Exported this session to");
    terminal.shows("notes.md");
    assert!(bench.project.read("notes.md").contains("Done."));
    terminal.send("/export notes.md\r");
    terminal.shows_words("already exists; name another file");
    terminal.send("/fork\r");
    terminal.shows_words("Forked. This copy is session");
}

/// A wrong key, an expired key and a server that is not there each have one message, which says what to do.
#[test]
fn a_first_message_that_fails_says_what_to_do() {
    let refusal = |message: &'static str| {
        let body =
            json!({ "type": "error", "error": { "type": "authentication_error", "message": message } });
        MockServer::with(move |_| Reply::json(401, &body))
    };
    for message in ["invalid x-api-key", "this key has expired"] {
        let (bench, server) = (Bench::new(&[]), refusal(message));
        let mut terminal = becket(&bench, &server.url());
        terminal.send("go\r");
        terminal.shows_words(message);
        terminal.shows_words("The key is from ANTHROPIC_API_KEY.");
        terminal.shows("Describe a task");
    }
    let bench = Bench::new(&[]);
    let mut terminal = becket(&bench, "http://127.0.0.1:1");
    terminal.send("go\r");
    terminal.shows_words("127.0.0.1:1");
    terminal.shows("Describe a task");
}
