//! The keyboard protocol: used where the terminal says that it has it, and switched off on every way out.

use crate::support::Bench;
use crate::terminal::{Terminal, becket, silent};
use rustix::process::Signal;

/// A terminal that has the protocol, with no flags set, and its device attributes.
const HAS_IT: &str = "\x1b[?0u\x1b[?62;22c";
const HAS_IT_NOT: &str = "\x1b[?62;22c";
const PUSH: &[u8] = b"\x1b[>1u";
const POP: &[u8] = b"\x1b[<1u";

fn count(terminal: &Terminal, bytes: &[u8]) -> usize {
    terminal.bytes.windows(bytes.len()).filter(|window| *window == bytes).count()
}

fn started(bench: &Bench, answer: &str) -> Terminal {
    let server = silent();
    let mut terminal = Terminal::typed(becket(bench, &server), answer);
    terminal.shows("Describe a task");
    terminal
}

#[test]
fn shift_enter_is_a_new_line_where_the_terminal_reports_it() {
    let bench = Bench::new(&[]);
    let mut terminal = started(&bench, HAS_IT);
    terminal.until("the protocol", |t| count(t, PUSH) == 1);
    terminal.send("first\x1b[13;2usecond");
    terminal.until("two lines", |t| {
        let screen = t.screen();
        let mut lines = screen.lines().skip_while(|line| !line.contains("› first"));
        lines.next().is_some() && lines.next().is_some_and(|line| line.trim() == "second")
    });
    // Ctrl-C clears the line, Ctrl-D leaves; both as this protocol reports them.
    terminal.send("\x1b[99;5u/help\r");
    terminal.press_until("\x1b[6~", "new line; so do Alt-Enter, Ctrl-J");
    terminal.send("\x1b[27u");
    terminal.shows("Describe a task");
    terminal.send("\x1b[100;5u");
    terminal.is_given_back();
    assert_eq!((count(&terminal, PUSH), count(&terminal, POP)), (1, 1));
}

#[test]
fn the_protocol_ends_with_a_signal_and_with_a_kill() {
    for signal in [Signal::TERM, Signal::HUP, Signal::KILL] {
        let bench = Bench::new(&[]);
        let mut terminal = started(&bench, HAS_IT);
        terminal.until("the protocol", |t| count(t, PUSH) == 1);
        terminal.signal(signal);
        terminal.is_given_back();
        assert_eq!(count(&terminal, POP), 1, "{signal:?}");
        let at = |bytes: &[u8]| terminal.bytes.windows(bytes.len()).rposition(|window| window == bytes);
        assert!(at(POP) < at(b"\x1b[?1049l"), "{signal:?}: the flags belong to the alternate screen");
    }
}

#[test]
fn an_editor_gets_the_keyboard_as_it_was() {
    let bench = Bench::new(&[]);
    let server = silent();
    let mut command = becket(&bench, &server);
    command.env("VISUAL", "true");
    let mut terminal = Terminal::typed(command, HAS_IT);
    terminal.until("the protocol", |t| count(t, PUSH) == 1);
    terminal.send("\x1b[103;5u");
    terminal.until("becket again", |t| count(t, PUSH) == 2 && count(t, POP) == 1);
    terminal.send("\x1b[100;5u");
    terminal.is_given_back();
    assert_eq!((count(&terminal, PUSH), count(&terminal, POP)), (2, 2));
}

#[test]
fn a_terminal_that_has_it_not_is_left_alone() {
    let bench = Bench::new(&[]);
    let mut terminal = started(&bench, HAS_IT_NOT);
    terminal.send("/help\r");
    terminal.press_until("\x1b[6~", "this terminal does not report Shift-Enter");
    terminal.send("\x1b");
    terminal.shows("Describe a task");
    terminal.send("\x04");
    terminal.is_given_back();
    assert_eq!((count(&terminal, PUSH), count(&terminal, POP)), (0, 0));
}
