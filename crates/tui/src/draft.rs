//! When the text in the composer is handed to the host, so that a crash does not take it: a second after it changed.
//!
//! Owns only the timing; the text is the composer's, the file the host's.

use crate::input::{Effect, Request, Timer};

/// From a change to the disk, in milliseconds.
const LATER: u64 = 1_000;

#[derive(Debug, Default)]
pub struct Draft {
    waiting: bool,
    /// The host has one.
    kept: bool,
}

impl Draft {
    /// The text changed.
    pub fn changed(&mut self) -> Vec<Effect> {
        if std::mem::replace(&mut self.waiting, true) {
            return Vec::new();
        }
        vec![Effect::Wake(LATER, Timer::Draft)]
    }

    /// The host gave one back: it still has it.
    pub fn restored(&mut self) {
        self.kept = true;
    }

    /// The time has come; `text` is what is in the composer.
    pub fn due(&mut self, text: String) -> Vec<Effect> {
        self.waiting = false;
        if text.trim().is_empty() {
            return self.gone();
        }
        self.kept = true;
        vec![Effect::Ask(Request::Draft { text: Some(text) })]
    }

    /// It was sent, or thrown away.
    pub fn gone(&mut self) -> Vec<Effect> {
        if !std::mem::take(&mut self.kept) {
            return Vec::new();
        }
        vec![Effect::Ask(Request::Draft { text: None })]
    }
}
