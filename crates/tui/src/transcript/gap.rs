//! Gaps: ranges of the session that are on disk and not in the transcript.
//!
//! A long session opens with its end alone, after a gap. A part of a gap is requested and inserted when it comes near
//! the view, is searched for, or is jumped to. So memory holds only what was looked at, however long the session is.
//! Turns that are far from the view become gaps again: see `eviction`.
//!
//! Owns the range and the state of one gap. A gap is a block of one line.

use crate::input::Want;
use becket_types::Seq;

/// A range of entries that are not in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first entry of the gap.
    pub from: Seq,
    /// The entry after the last one of the gap.
    pub to: Seq,
    pub(super) state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    /// A part of the gap was requested.
    Asked,
    /// The gap cannot be read, with the reason.
    Failed(String),
}

/// A part of a gap to request from the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub from: Seq,
    pub to: Seq,
    pub want: Want,
}

impl Gap {
    pub(super) fn new(from: Seq, to: Seq) -> Self {
        Self { from, to, state: State::Closed }
    }

    pub(super) fn is_readable(&self) -> bool {
        !matches!(self.state, State::Failed(_))
    }

    /// Returns the line that is shown for the gap.
    pub(super) fn line(&self) -> String {
        match &self.state {
            State::Failed(why) => format!("⋯ this part of the session cannot be read: {why}"),
            State::Closed | State::Asked => "⋯ more was said here".to_owned(),
        }
    }
}
