//! Bytes from a terminal, through the library's reader and ours, to the panes: cut anywhere, mixed with typing, or nonsense.
//!
//! One test, since the library has one reader a process: it takes a pseudo-terminal for its standard input. The property runs
//! 300 cases (`PROPTEST_CASES` sets more). Times stand still, so that a busy machine parts nothing that belongs together.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_tui::app::App;
use becket_tui::decoder::{Decoded, Decoder, QUIET};
use becket_tui::input::Input;
use becket_tui::picture;
use becket_tui::terminal::surface::Surface;
use becket_tui::theme::Theme;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, poll, read};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use pty_process::blocking::{Pty, open};
use ratatui::layout::Size;
use std::cell::RefCell;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// What a terminal sends without anybody typing.
const REPORTS: [&str; 11] = [
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
];

/// Ends whatever the library waits for: a paste, a string, a mouse of either kind, an answer about the keyboard. Twice, since
/// a broken character takes one byte with it and the old mouse three.
const CLOSED: &str = "\x1b[201~\x1b\\\x07~mu\x1b[201~\x1b\\\x07~mu";
/// A key that no keyboard has: the last one of what was written.
const LAST: char = '\u{10fffd}';

struct Line {
    pty: Pty,
    decoder: Decoder,
    now: Instant,
}

impl Line {
    fn write(&mut self, bytes: &[u8]) {
        (&self.pty).write_all(bytes).unwrap();
    }

    /// What has arrived after a short wait. Where the machine is slow it comes with what is written next.
    fn come(&mut self) -> Vec<Decoded> {
        let mut out = Vec::new();
        while poll(Duration::from_millis(1)).unwrap() {
            out.extend(read().into_iter().flat_map(|event| self.decoder.take(event, self.now)));
        }
        out
    }

    /// Everything that was written, and of the quiet after it. The last key is written now, and taken out again.
    fn all(&mut self) -> Vec<Decoded> {
        self.write(LAST.to_string().as_bytes());
        let last = Event::Key(KeyEvent::new(KeyCode::Char(LAST), KeyModifiers::NONE));
        let end = Instant::now() + Duration::from_mins(1);
        let mut out = Vec::new();
        loop {
            assert!(poll(end.saturating_duration_since(Instant::now())).unwrap(), "nothing more: {out:?}");
            let Ok(event) = read() else { continue };
            let is_last = event == last;
            out.extend(self.decoder.take(event, self.now));
            if is_last {
                break;
            }
        }
        out.extend(self.decoder.expire(self.now + QUIET));
        out
    }
}

/// What was typed and pasted, without the last key.
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
        let size = Size::new(60, 12);
        let (mut app, mut surface) = (App::new(Theme::plain()), Surface::new(size).unwrap());
        for one in decoded {
            match one {
                Decoded::Background(r, g, b) => drop(app.update(Input::Background(r, g, b))),
                Decoded::Event(Event::Key(key)) => drop(app.update(Input::Key(key))),
                Decoded::Event(Event::Paste(text)) => drop(app.update(Input::Paste(text))),
                Decoded::Event(Event::Mouse(mouse)) => drop(app.update(Input::Mouse(mouse))),
                Decoded::Event(_) => {}
            }
        }
        let (cells, _) = surface.cells(size, |frame| drop(app.draw(frame))).unwrap();
        let shown = picture::text(cells);
        prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", shown);
        Ok(())
    });
    run.unwrap();
}

#[test]
fn what_a_terminal_sends_is_read_as_what_it_is() {
    let (pty, slave) = open().unwrap();
    // The library reads on until nothing is there.
    rustix::io::ioctl_fionbio(&slave, true).unwrap();
    rustix::stdio::dup2_stdin(&slave).unwrap();
    crossterm::terminal::enable_raw_mode().unwrap();
    let mut line = Line { pty, decoder: Decoder::default(), now: Instant::now() };
    reports_are_no_text(&mut line);
    keys_are_whole_however_they_are_cut(&mut line);
    nonsense_is_survived(&mut line);
}
