//! `--ax` on a real terminal: what a screen reader gets. Plain lines, one after the other; nothing is ever redrawn.

use crate::support::Bench;
use crate::terminal::Terminal;
use becket_testkit::{Answer, Gate, MockServer, Reply};
use pty_process::blocking::Pty;
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::json;
use std::process::Command;

fn becket(bench: &Bench, server: &MockServer) -> Command {
    let mut command = bench.command();
    command
        .env("ANTHROPIC_API_KEY", "sk-test")
        .env("ANTHROPIC_BASE_URL", server.url())
        .env("TERM", "xterm-256color")
        .args(["--ax", "--model", "anthropic/claude-sonnet-4-5"]);
    command
}

/// All that was written so far.
fn written(terminal: &Terminal) -> String {
    String::from_utf8_lossy(&terminal.bytes).into_owned()
}

fn says(terminal: &mut Terminal, text: &str) {
    terminal.until(text, |t| written(t).contains(text));
}

/// True if the terminal itself edits and echoes lines.
fn is_line_by_line(pty: &Pty) -> bool {
    tcgetattr(pty).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
}

#[test]
fn a_turn_a_question_and_an_interrupt_are_lines_and_nothing_is_redrawn() {
    let bench = Bench::new(&[]);
    let gate = Gate::new();
    let server = MockServer::start([
        Reply::from(Answer::tool("1", "bash", json!({ "command": "touch made.txt && echo \u{1b}[31mred" }))),
        Answer::text("First line.\n\nSecond **line**.").into(),
        Reply::from(Answer::text("never said")).gate_before(&gate),
    ]);
    let mut terminal = Terminal::start(becket(&bench, &server));
    says(&mut terminal, "/quit to leave.\r\n");
    assert!(is_line_by_line(&terminal.pty));
    terminal.send("make it\n");
    says(&mut terminal, "or /n and why.\r\n");
    assert!(!bench.project.exists("made.txt"), "it asks first");
    // An answer that comes too soon has no effect, and becket says so.
    let mut answers = 0;
    while !written(&terminal).contains("bash ended") {
        terminal.send("/y\n");
        answers += 1;
        terminal.until("what came of the answer", |t| {
            let said = written(t);
            said.contains("bash ended") || said.matches("Answer again.").count() == answers
        });
    }
    says(&mut terminal, "Done. Your turn.\r\n");
    assert!(bench.project.exists("made.txt"));

    terminal.send("and on\n");
    gate.wait_reached();
    // The output is read first, because Ctrl-C discards output that the terminal has not passed on yet.
    says(&mut terminal, "and on\r\n");
    assert!(is_line_by_line(&terminal.pty));
    terminal.send("\x03");
    says(&mut terminal, "Interrupted. Your turn.\r\n");
    gate.open();
    terminal.send("/quit\n");
    terminal.until("the end", |t| !t.bytes.is_empty() && written(t).ends_with("/quit\r\n"));
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));

    let said = written(&terminal);
    let order = [
        "make it\r\n",
        "Question: bash wants to run.\r\n",
        "bash ended",
        "becket: First line.\r\n",
        "Second **line**.\r\n",
        "Done. Your turn.\r\n",
        "and on\r\n",
        "Interrupted. Your turn.\r\n",
    ];
    let mut from = 0;
    for line in order {
        let at =
            said[from..].find(line).unwrap_or_else(|| panic!("{line:?} is missing or out of order:\n{said}"));
        from += at + line.len();
        assert_eq!(said.matches(line).count(), 1, "{line:?} is said once:\n{said}");
    }
    // The terminal has echoed the messages already.
    assert!(!said.contains("You: "), "{said}");
    // No cursor is moved, nothing is erased or coloured, no row is written over.
    assert!(!said.contains('\x1b') && !said.contains('\x08'), "{said:?}");
    assert!(!said.replace("\r\n", "\n").contains('\r'), "{said:?}");
    assert!(!said.contains("never said"), "{said}");
}

/// A terminal that can move no cursor gets the same lines without being asked for.
#[test]
fn a_dumb_terminal_gets_plain_lines() {
    let (bench, server) = (Bench::new(&[]), MockServer::start([Answer::text("Here.")]));
    let mut command = bench.command();
    command.env("ANTHROPIC_API_KEY", "sk-test").env("ANTHROPIC_BASE_URL", server.url());
    command.env("TERM", "dumb").args(["--model", "anthropic/claude-sonnet-4-5"]);
    let mut terminal = Terminal::start(command);
    says(&mut terminal, "/quit to leave.\r\n");
    terminal.send("hello\n");
    says(&mut terminal, "becket: Here.\r\n");
    says(&mut terminal, "Done. Your turn.\r\n");
    terminal.send("/quit\n");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
    assert!(!written(&terminal).contains('\x1b'), "{:?}", written(&terminal));
}
