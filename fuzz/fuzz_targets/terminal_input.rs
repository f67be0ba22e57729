//! What a terminal sends: keys, pastes, mice, reports, nonsense, in two pieces. Through the library's reader and ours to the
//! panes: no panic, no control character on a frame, and what is typed next is read as a key.
#![no_main]

use becket_tui::app::App;
use becket_tui::decoder::{Decoded, Decoder, QUIET};
use becket_tui::input::Input;
use becket_tui::picture;
use becket_tui::terminal::surface::Surface;
use becket_tui::theme::Theme;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, poll, read};
use libfuzzer_sys::fuzz_target;
use pty_process::blocking::{Pty, open};
use ratatui::layout::Size;
use std::io::Write as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What an input holds at most: a terminal's buffer takes it, so that nobody waits.
const LONGEST: usize = 2_048;
/// Ends whatever the library waits for: a paste, a string, a mouse of either kind, an answer about the keyboard. Twice, since
/// a broken character takes one byte with it and the old mouse three.
const CLOSED: &str = "\x1b[201~\x1b\\\x07~mu\x1b[201~\x1b\\\x07~mu";
/// The last key of an input; no keyboard has it.
const LAST: char = '\u{10fffd}';

/// The other end of a pseudo-terminal that is our standard input from now on.
fn terminal() -> &'static Pty {
    static TERMINAL: OnceLock<Pty> = OnceLock::new();
    TERMINAL.get_or_init(|| {
        let (pty, slave) = open().unwrap();
        // The library reads on until nothing is there.
        rustix::io::ioctl_fionbio(&slave, true).unwrap();
        rustix::stdio::dup2_stdin(&slave).unwrap();
        crossterm::terminal::enable_raw_mode().unwrap();
        pty
    })
}

/// What can be read by then; all that was written if it ends with [`LAST`].
fn take(decoder: &mut Decoder, now: Instant, wait: Duration) -> (Vec<Decoded>, bool) {
    let last = Event::Key(KeyEvent::new(KeyCode::Char(LAST), KeyModifiers::NONE));
    let mut out = Vec::new();
    while poll(wait).unwrap() {
        let Ok(event) = read() else { continue };
        let is_last = event == last;
        out.extend(decoder.take(event, now));
        if is_last {
            return (out, true);
        }
    }
    (out, false)
}

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let (head, tail) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let mut pty = terminal();
    let (mut decoder, now) = (Decoder::default(), Instant::now());
    pty.write_all(head).unwrap();
    let (mut decoded, _) = take(&mut decoder, now, Duration::from_micros(200));
    pty.write_all(tail).unwrap();
    pty.write_all(format!("{CLOSED}{LAST}").as_bytes()).unwrap();
    let (rest, whole) = take(&mut decoder, now, Duration::from_secs(10));
    assert!(whole, "the reader waits for more");
    decoded.extend(rest);
    decoded.extend(decoder.expire(now + QUIET));
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
    assert!(picture::text(cells).chars().all(|c| c == '\n' || !c.is_control()));
});
