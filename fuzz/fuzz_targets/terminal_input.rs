//! Fuzzes the input of the terminal interface with keys, pastes, mouse events, reports and random bytes, in two pieces. The bytes
//! go through the library's reader and ours to the panes. There must be no panic and no control character in a frame, and a key
//! typed afterwards must be read as a key.
#![no_main]

#[path = "../../crates/tui/tests/support/terminal.rs"]
mod terminal;

use libfuzzer_sys::fuzz_target;
use std::sync::{Mutex, OnceLock, PoisonError};
use terminal::{CLOSED, Line, shown};

/// Maximum size of an input in bytes. It fits into the terminal's buffer, so that writing never blocks.
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
