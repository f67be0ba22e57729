//! Timing of drafts: the text in the composer is passed to the host a second after it changed, so that a crash does not
//! lose it.
//!
//! Owns only the timing. The composer owns the text, and the host owns the file.

use crate::input::{Effect, Request, Timer};

/// Delay between a change and saving, in milliseconds.
const LATER: u64 = 1_000;

/// State of saving the draft.
#[derive(Debug, Default)]
pub struct Draft {
    waiting: bool,
    /// The host has a saved draft.
    kept: bool,
}

impl Draft {
    /// Schedules saving after a change of the text. A text that was deleted is forgotten at once, because the user may leave
    /// before the delay is over.
    pub fn changed(&mut self, is_empty: bool) -> Vec<Effect> {
        if is_empty {
            return self.gone();
        }
        if std::mem::replace(&mut self.waiting, true) {
            return Vec::new();
        }
        vec![Effect::Wake(LATER, Timer::Draft)]
    }

    /// Records that the host returned a draft, which is therefore still saved.
    pub fn restored(&mut self) {
        self.kept = true;
    }

    /// Saves `text`, the content of the composer, after the delay.
    pub fn due(&mut self, text: String) -> Vec<Effect> {
        self.waiting = false;
        if text.trim().is_empty() {
            return self.gone();
        }
        self.kept = true;
        vec![Effect::Ask(Request::Draft { text: Some(text) })]
    }

    /// Removes the saved draft, because the text was sent or discarded.
    pub fn gone(&mut self) -> Vec<Effect> {
        if !std::mem::take(&mut self.kept) {
            return Vec::new();
        }
        vec![Effect::Ask(Request::Draft { text: None })]
    }
}
