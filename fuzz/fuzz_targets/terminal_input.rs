//! What a terminal sends: keys, pastes, mice, reports, nonsense, in two pieces. Through the library's reader and ours to the
//! panes: no panic, no control character on a frame, and what is typed next is read as a key.
#![no_main]

#[path = "../../crates/tui/tests/support/terminal.rs"]
mod terminal;

use libfuzzer_sys::fuzz_target;
use std::sync::{Mutex, OnceLock, PoisonError};
use terminal::{CLOSED, Line, shown};

/// What an input holds at most: a terminal's buffer takes it, so that nobody waits.
const LONGEST: usize = 2_048;

fuzz_target!(|input: (u16, &[u8])| {
    static LINE: OnceLock<Mutex<Line>> = OnceLock::new();
    let mut line =
        LINE.get_or_init(|| Mutex::new(Line::take())).lock().unwrap_or_else(PoisonError::into_inner);
    let (cut, bytes) = input;
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let (head, tail) = bytes.split_at(usize::from(cut).min(bytes.len()));
    line.write(head);
    let mut decoded = line.come();
    line.write(tail);
    line.write(CLOSED.as_bytes());
    decoded.extend(line.all());
    assert!(shown(decoded).chars().all(|c| c == '\n' || !c.is_control()));
});
