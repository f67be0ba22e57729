//! Bytes from a terminal, through the library's reader and the decoder, to the panes: split anywhere, mixed with
//! typing, or nonsense.
//!
//! One test per process: it uses a pseudo-terminal as its standard input, and the library has one reader per process.
//! The property runs 300 cases (`PROPTEST_CASES` sets more).
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "support/terminal.rs"]
mod terminal;

use becket_tui::decoder::Decoded;
use crossterm::event::{Event, KeyCode};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use terminal::{CLOSED, LAST, Line, shown};

/// Bytes that a terminal sends without any key being pressed.
const REPORTS: [&str; 13] = [
    "\x1b[<35;10;10M",
    "\x1b[<0;1;1m",
    "\x1b[<65;200;50M",
    "\x1b[M !!",
    "\x1b[I",
    "\x1b[O",
    "\x1b[?1;2c",
    "\x1b[12;40R",
    "\x1b]11;rgb:1e1e/1e1e/2e2e\x07",
    "\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\",
    "\x1b]10;rgb:ffff/ffff/ffff\x07",
    // Answers to another program's queries, which the library does not know, followed by an answer that ends them.
    "\x1b[?2026;2$y\x1b[?62;4;22c",
    "\x1b[?997;1n\x1b[?6c",
];

/// Returns the typed and pasted text without the last key.
fn text(decoded: &[Decoded]) -> String {
    let shown = decoded.iter().map(|one| match one {
        Decoded::Event(Event::Key(key)) => format!("{:?} ", key.code),
        Decoded::Event(Event::Paste(text)) => format!("paste {text:?} "),
        _ => String::new(),
    });
    shown.collect::<String>().replace(&format!("{:?} ", KeyCode::Char(LAST)), "").replace(LAST, "")
}

fn reports_are_no_text(line: &mut Line) {
    for report in REPORTS {
        for cut in 0..report.len() {
            line.write(b"a");
            line.write(&report.as_bytes()[..cut]);
            let mut out = line.come();
            line.write(&report.as_bytes()[cut..]);
            line.write(b"b");
            out.extend(line.all());
            assert_eq!(text(&out), "Char('a') Char('b') ", "{report:?} cut at {cut}: {out:?}");
        }
    }
}

fn keys_are_whole_however_they_are_cut(line: &mut Line) {
    for (sequence, want) in [
        ("\x1b[A", "Up "),
        ("\x1bOA", "Up "),
        ("\x1b[3~", "Delete "),
        ("\x1b[Z", "BackTab "),
        ("\u{65e5}", "Char('\u{65e5}') "),
        ("\x1b[200~y\rn\x1b[201~", "paste "),
    ] {
        for cut in 0..sequence.len() {
            line.write(&sequence.as_bytes()[..cut]);
            let mut out = line.come();
            line.write(&sequence.as_bytes()[cut..]);
            out.extend(line.all());
            let shown = text(&out);
            let parts = 1 + usize::from(want == "paste ");
            assert!(
                shown.starts_with(want) && shown.matches(' ').count() == parts,
                "{sequence:?} cut at {cut}: {shown}"
            );
        }
    }
}

fn nonsense_is_survived(line: &mut Line) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let bytes = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..20),
        2 => prop::sample::select(REPORTS.to_vec()).prop_map(|report| report.as_bytes().to_vec()),
        2 => "[\x1b\\[\\]O0-9;<>?MmA~\x07]{0,16}".prop_map(String::into_bytes),
        1 => "\x1b\\[200~[a-z\x1b\r日]{0,30}".prop_map(String::into_bytes),
        1 => "[ -~é日👍]{0,10}".prop_map(String::into_bytes),
    ];
    let line = RefCell::new(line);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let run = runner.run(&prop::collection::vec(bytes, 1..5), |pieces| {
        let mut line = line.borrow_mut();
        let mut decoded = Vec::new();
        for piece in &pieces {
            line.write(piece);
            decoded.extend(line.come());
        }
        line.write(CLOSED.as_bytes());
        decoded.extend(line.all());
        let shown = shown(decoded);
        prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", shown);
        Ok(())
    });
    run.unwrap();
}

#[test]
fn what_a_terminal_sends_is_read_as_what_it_is() {
    let mut line = Line::take();
    reports_are_no_text(&mut line);
    keys_are_whole_however_they_are_cut(&mut line);
    nonsense_is_survived(&mut line);
}
