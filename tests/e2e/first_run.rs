//! Tests the questions before the first session: which model, and whether the project is trusted.

use crate::support::{Api, Bench, run};
use crate::terminal::Terminal;
use becket_testkit::{Answer, MockServer, Reply};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

fn becket(bench: &Bench) -> Command {
    let mut command = bench.command();
    command.env("TERM", "xterm-256color");
    command
}

fn server() -> MockServer {
    MockServer::with(|_| Answer::text("Done.").into())
        .get("/v1/models", Reply::json(200, &json!({"data": [{"id": "qwen"}]})))
}

#[test]
fn a_server_that_is_found_is_chosen_and_kept() {
    let (bench, server) = (Bench::new(&[]), server());
    let mut command = becket(&bench);
    command.env("OPENAI_BASE_URL", format!("{}/v1", server.url()));
    let mut terminal = Terminal::start(command);
    terminal.shows("Which model should becket use?");
    terminal.shows("openai/qwen");
    // A server that was found has the cursor.
    terminal.shows("❯ 1 openai/qwen");
    terminal.press_until("\r", "Describe a task");
    terminal.send("go\r");
    terminal.shows("Done.");
    terminal.send("\x04");
    terminal.is_given_back();
    assert_eq!(server.requests()[0].json()["model"], "qwen");
    // The choice works without the variable, too.
    run(becket(&bench).args(["-p", "go"])).expect(0);
    assert_eq!(server.requests()[1].json()["model"], "qwen");
}

#[test]
fn the_address_of_a_server_is_taken() {
    let (bench, server) = (Bench::new(&[]), server());
    let mut terminal = Terminal::start(becket(&bench));
    terminal.shows("enter an address");
    terminal.press_until("\x1b[B", "❯ 2 enter an address");
    terminal.press_until("\r", "the address:");
    terminal.send("127.0.0.1:1\r");
    terminal.shows_words("no model server answers at http://127.0.0.1:1/v1. Start it, and it appears here;");
    terminal.press_until("\x1b[B", "❯ 2 enter an address");
    // The wrong address is shown again, to be corrected.
    terminal.press_until("\r", "the address: 127.0.0.1:1");
    terminal.send("\x15");
    terminal.send(server.url().trim_start_matches("http://"));
    terminal.shows("is asked for its models");
    terminal.send("\r");
    terminal.shows("❯ 1 openai/qwen");
    terminal.press_until("\r", "Describe a task");
    terminal.send("go\r");
    terminal.shows("Done.");
    // The hint of an empty composer shows that the turn has ended: while a turn runs, nothing can be forked.
    terminal.shows("Describe a task");
    // The next session of the same process uses the choice too.
    terminal.send("/fork\r");
    terminal.shows("Forked. This copy is session");
    terminal.send("again\r");
    terminal.until("the request of the copy", |_| server.requests().len() == 2);
    terminal.shows("Done.");
    terminal.send("\x04");
    terminal.is_given_back();
    let config = bench.home.read(".config/becket/config.toml");
    assert!(config.contains(&format!("base_url = \"{}/v1\"", server.url())), "{config}");
    assert!(config.contains("model = \"openai/qwen\""), "{config}");
}

#[test]
fn a_key_is_pasted_kept_for_its_owner_and_never_shown() {
    let (bench, server) = (Bench::new(&[]), server());
    let start = || {
        let mut command = becket(&bench);
        command.env("ANTHROPIC_BASE_URL", server.url());
        Terminal::start(command)
    };
    let mut terminal = start();
    terminal.shows("paste a key");
    terminal.press_until("\r", "the key:");
    terminal.send("\x1b[200~sk-ant-api03-SECRETSECRET\x1b[201~");
    terminal.shows("a key for anthropic");
    terminal.send("\r");
    terminal.shows("Describe a task");
    terminal.send("go\r");
    terminal.shows("Done.");
    terminal.send("\x04");
    terminal.is_given_back();
    assert!(!terminal.bytes.windows(6).any(|w| w == b"SECRET"));
    let file = bench.home.path(".config/becket/credentials.toml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&file).unwrap().contains("sk-ant-api03-SECRETSECRET"));
    assert!(bench.home.read(".config/becket/config.toml").starts_with("model = \"anthropic/"));
    // The next start asks nothing.
    let mut terminal = start();
    terminal.shows("Describe a task");
    terminal.send("again\r");
    terminal.shows("Done.");
    let sent = server.requests();
    assert!(sent.iter().all(|r| r.header("x-api-key") == Some("sk-ant-api03-SECRETSECRET")), "{sent:?}");
}

#[test]
fn nothing_of_a_project_is_used_before_it_is_trusted() {
    let bench = Bench::new(&[
        (".becket/commands/build.md", "Built: !`touch ran.txt`\n"),
        (".becket/skills/own/SKILL.md", "---\nname: own\ndescription: A SKILL OF THE PROJECT\n---\nbody\n"),
        (".becket/config.toml", "[context]\ntail_turns = 7\n[permissions]\ndeny = [\"Read(x)\"]\n"),
        ("AGENTS.md", "RULES OF THE PROJECT\n"),
        (".claude/rules/style.md", "STYLE OF THE PROJECT\n"),
    ]);
    let server = server();
    let start = || {
        let mut command = becket(&bench);
        command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
        command.args(["--model", "anthropic/claude-sonnet-4-5"]);
        Terminal::start(command)
    };
    let mut terminal = start();
    terminal.shows("Do you trust what is in this directory?");
    terminal.shows("❯ 1 no: work here without these");
    terminal.shows("rules     AGENTS.md");
    terminal.shows("rules     .claude/rules");
    terminal.press_until("\r", "Describe a task");
    terminal.shows_words("skills are not loaded until the folder is trusted");
    terminal.send("\x15/build\r");
    terminal.shows("no command /build");
    terminal.send("\x15go\r");
    terminal.shows("Done.");
    drop(terminal);
    for text in ["A SKILL OF THE PROJECT", "RULES OF THE PROJECT", "STYLE OF THE PROJECT"] {
        assert!(!server.requests()[0].text().contains(text), "{text}");
    }

    let mut terminal = start();
    terminal.shows("Do you trust what is in this directory?");
    terminal.press_until("\x1b[A", "❯ 2 yes: I trust");
    terminal.send("2");
    terminal.shows("Describe a task");
    drop(terminal);

    // The project is trusted from now on. A custom command that would run a program is still shown first.
    let mut terminal = start();
    terminal.shows("Describe a task");
    terminal.send("go\r");
    terminal.shows("Done.");
    terminal.send("/build\r");
    terminal.shows("touch ran.txt");
    for text in ["A SKILL OF THE PROJECT", "RULES OF THE PROJECT", "STYLE OF THE PROJECT"] {
        assert!(server.requests()[1].text().contains(text), "{text}");
    }
    assert!(!bench.project.exists("ran.txt"));
}

#[test]
fn a_server_that_wants_a_key_is_told_from_one_that_is_silent() {
    let bench = Bench::new(&[]);
    let refusal = Reply::json(401, &json!({"error": {"message": "no key"}}));
    let server = MockServer::with(|_| Answer::text("Done.").into()).get("/v1/models", refusal);
    let mut terminal = Terminal::start(becket(&bench));
    terminal.shows("enter an address");
    terminal.press_until("\x1b[B", "❯ 2 enter an address");
    terminal.press_until("\r", "the address:");
    terminal.send(&format!("{}\r", server.url()));
    terminal.shows_words("/v1 answers, but wants a key");
    terminal.press_until("\r", "the key:");
    terminal.send("SECRET-of-my-own\r");
    terminal.shows_words("answers, but refuses the key");
    assert!(!terminal.bytes.windows(6).any(|w| w == b"SECRET"));
    assert!(!bench.home.exists(".config/becket/credentials.toml"), "a refused key is not kept");
}

#[test]
fn a_session_that_cannot_be_opened_leaves_the_other_one_open() {
    let (bench, server) = (Bench::new(&[]), server());
    run(bench.print(Api::Chat, &server).args(["--name", "of another server", "go"])).expect(0);
    let mut command = becket(&bench);
    command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
    let mut terminal = Terminal::start(command);
    // The first screen names the model that the key picks.
    terminal.press_until("\r", "Describe a task");
    terminal.send("first words\r");
    terminal.shows("Done.");
    terminal.send("/resume of another server\r");
    terminal.shows_words("The other session was not opened: There is no key for the OpenAI API.");
    terminal.shows_words("this session ran with openai/test-model; --model continues it with another one.");
    terminal.shows("first words");
    terminal.send("\x04");
    terminal.is_given_back();
}
