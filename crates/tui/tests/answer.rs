//! An answer of the terminal that is under way when the terminal is restored. It is read, so that the shell does not
//! take it for typing.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_tui::terminal::{Place, Screen};
use crossterm::event::{Event, KeyCode, KeyEvent, poll, read};
use pty_process::blocking::{Pty, open};
use std::io::{self, Write};
use std::time::{Duration, Instant};

const ANSWER: &[u8] = b"\x1b[?62;22c";

/// A terminal that answers at once: its answer has arrived as soon as the query is written.
struct Answering {
    pty: Pty,
    /// Keys that the user types just before.
    typed: &'static [u8],
}

impl Write for Answering {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.windows(3).any(|b| b == b"\x1b[c") {
            (&self.pty).write_all(self.typed)?;
            (&self.pty).write_all(ANSWER)?;
            let end = Instant::now() + Duration::from_mins(1);
            while waiting() < self.typed.len() + ANSWER.len() {
                assert!(Instant::now() < end, "the answer does not arrive");
                std::thread::yield_now();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the number of bytes that the next reader of the terminal would get.
fn waiting() -> usize {
    rustix::io::ioctl_fionread(rustix::stdio::stdin()).unwrap() as usize
}

/// One test per process, because the library has one reader per process.
#[test]
fn an_answer_on_its_way_is_not_left_for_the_shell_and_typing_is_kept() {
    let (pty, slave) = open().unwrap();
    pty.resize(pty_process::Size::new(24, 80)).unwrap();
    // The library reads until nothing is left, so the terminal must not block.
    rustix::io::ioctl_fionbio(&slave, true).unwrap();
    rustix::stdio::dup2_stdin(&slave).unwrap();
    // The library asks the standard output for the size.
    let output = rustix::io::dup(rustix::stdio::stdout()).unwrap();
    rustix::stdio::dup2_stdout(&slave).unwrap();
    let screen = Screen::enter(Answering { pty, typed: b"x" }, Place::Alternate);
    rustix::stdio::dup2_stdout(&output).unwrap();
    let mut screen = screen.unwrap();
    // On a busy machine the wait for the answer may be over before the answer is read. The test then tries again.
    let mut times = 1;
    loop {
        screen.leave().unwrap();
        if waiting() == 0 {
            break;
        }
        assert!(times < 50, "{} bytes are left for the shell", waiting());
        times += 1;
        screen.resume().unwrap();
    }
    for _ in 0..times {
        assert!(poll(Duration::ZERO).unwrap(), "what was typed is lost");
        assert_eq!(read().unwrap(), Event::Key(KeyEvent::from(KeyCode::Char('x'))));
    }
    assert!(!poll(Duration::ZERO).unwrap(), "an answer was taken for a key");
}
