//! A session that another process has open, shown without being continued.

use crate::support::Bench;
use crate::terminal::{Terminal, becket};
use becket_testkit::{Answer, MockServer};

fn server() -> MockServer {
    let mut answers = 0;
    MockServer::with(move |_| {
        answers += 1;
        Answer::text(format!("Answer number {answers}.")).into()
    })
}

/// A terminal in which a session is open that has one message.
fn opened(bench: &Bench, server: &MockServer) -> Terminal {
    let mut first = Terminal::start(becket(bench, server));
    first.shows("Describe a task");
    first.send("explain the parser\r");
    first.shows("Answer number 1.");
    first
}

fn second(bench: &Bench, server: &MockServer, flags: &[&str]) -> Terminal {
    let mut command = becket(bench, server);
    command.args(flags);
    Terminal::start(command)
}

#[test]
fn reading_a_session_shows_it_and_sends_changes_and_saves_nothing() {
    let (bench, server) = (Bench::new(&[]), server());
    let _first = opened(&bench, &server);
    let sent = server.requests().len();
    let ledger = std::fs::read(&bench.ledgers()[0]).unwrap();

    let mut reading = second(&bench, &server, &["-c"]);
    reading.shows("read       show all of it");
    reading.send("read\r");
    reading.shows_words("Open for reading only, because another process has session");
    reading.shows_words("Nothing is sent to the model, changed or saved.");
    reading.shows("explain the parser");
    reading.shows("Answer number 1.");
    // A message comes back into the composer, and a line says why.
    reading.send("and the lexer?\r");
    reading.shows_words("This session is open for reading only: nothing is sent to the model");
    reading.shows("› and the lexer?");
    reading.send("\x15/undo\r");
    reading.until("a second refusal", |t| t.screen().matches("is open for reading only:").count() == 2);
    assert_eq!(server.requests().len(), sent);
    assert_eq!((bench.ledgers().len(), std::fs::read(&bench.ledgers()[0]).unwrap()), (1, ledger));

    // A copy continues with the same conversation.
    reading.send("\x15/fork\r");
    reading.shows("Forked. This copy is session");
    reading.shows("Answer number 1.");
    reading.send("and the lexer?\r");
    reading.shows("Answer number 2.");
    assert_eq!(bench.ledgers().len(), 2);
}

#[test]
fn a_copy_that_is_not_saved_shows_its_conversation_and_says_so() {
    let (bench, server) = (Bench::new(&[]), server());
    let _first = opened(&bench, &server);
    let mut copy = second(&bench, &server, &["-c", "--fork-session", "--no-session-persistence"]);
    copy.shows_words("that is not saved: what you add is lost when you leave it.");
    copy.shows("Answer number 1.");
    copy.send("more\r");
    copy.shows("Answer number 2.");
    assert_eq!(bench.ledgers().len(), 1);
}
