//! A pseudo-terminal as the standard input of this process: returns what the library's reader and the decoder make of
//! bytes, and what the panes show then. For the tests and the fuzz target of the decoder. One per process, because the
//! library has one reader per process.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_tui::app::App;
use becket_tui::decoder::{Decoded, Decoder, QUIET};
use becket_tui::input::Input;
use becket_tui::picture;
use becket_tui::terminal::surface::Surface;
use becket_tui::theme::Theme;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, poll, read};
use pty_process::blocking::{Pty, open};
use ratatui::layout::Size;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Ends everything that the library may be waiting for: a paste, a string, a mouse report of either kind, an answer
/// about the keyboard. It is repeated because an invalid character consumes one byte of it, and the old mouse report
/// three.
pub(crate) const CLOSED: &str = "\x1b[201~\x1b\\\x07~mu\x1b[201~\x1b\\\x07~mu";
/// A key that no keyboard has. It marks the end of the written bytes.
pub(crate) const LAST: char = '\u{10fffd}';

pub(crate) struct Line {
    pty: Pty,
    decoder: Decoder,
    /// This clock stands still, so that a slow machine does not split sequences.
    now: Instant,
}

impl Line {
    /// Replaces the standard input of the process.
    pub(crate) fn take() -> Self {
        let (pty, slave) = open().unwrap();
        // The library reads until nothing is left, so the terminal must not block.
        rustix::io::ioctl_fionbio(&slave, true).unwrap();
        rustix::stdio::dup2_stdin(&slave).unwrap();
        crossterm::terminal::enable_raw_mode().unwrap();
        Self { pty, decoder: Decoder::default(), now: Instant::now() }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        (&self.pty).write_all(bytes).unwrap();
    }

    /// Returns the events that arrive within a short wait. On a slow machine they come with the next bytes.
    pub(crate) fn come(&mut self) -> Vec<Decoded> {
        let mut out = Vec::new();
        while poll(Duration::from_millis(1)).unwrap() {
            out.extend(read().into_iter().flat_map(|event| self.decoder.take(event, self.now)));
        }
        out
    }

    /// Writes the last key and returns all events, including those after the quiet.
    pub(crate) fn all(&mut self) -> Vec<Decoded> {
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

/// Returns what the panes show after these events.
pub(crate) fn shown(decoded: Vec<Decoded>) -> String {
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
    picture::text(cells)
}
