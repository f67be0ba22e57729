//! A summary that is made ahead of time, while the conversation still goes on, so that a compaction need not wait for it.
//!
//! A preparation asks for a summary of everything in the view; what is said meanwhile and afterwards is not in it. When
//! the compaction is due, the tail begins where the summary ends, if that is accepted; else the summariser is asked for
//! what came since alone, on top of the prepared summary. Nothing is ever left out of both.
//!
//! Invariants: at most one preparation for each compaction in force; a summary is used only while the messages that it
//! covers are the same, in the same order, behind the same earlier compaction; a prepared outcome passes the same checks
//! as any other.
//!
//! Plain data in a `State` entry: a resumed session uses what was paid for.

use super::layout::Measured;
use super::split::borders;
use super::{Failure, Snapshot};
use becket_types::{EntryKind, Millis, Seq};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Line in a summary behind which newer messages stand that it does not know.
pub(super) const NEWER: &str =
    "- This summary was written a little earlier: the messages behind it are newer, and they count.";

/// What a summary covers: the first messages of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cover {
    /// The compaction in force when it was asked for.
    pub after: Option<Seq>,
    /// So many messages.
    pub messages: usize,
    /// Of their ids. Another release may count otherwise: then the summary is not used.
    pub digest: u64,
    /// The newest of them.
    pub through: Seq,
}

impl Cover {
    /// The first `messages` of a snapshot.
    pub(super) fn of(snapshot: &Snapshot, messages: usize) -> Self {
        let covered = &snapshot.messages[..messages.min(snapshot.messages.len())];
        let mut hasher = DefaultHasher::new();
        for message in covered {
            message.id.hash(&mut hasher);
        }
        Self {
            after: snapshot.previous.as_ref().map(|p| p.entry),
            messages,
            digest: hasher.finish(),
            through: covered.iter().map(|m| m.seq).max().unwrap_or_default(),
        }
    }
}

/// A preparation: what it covers, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    #[serde(flatten)]
    pub cover: Cover,
    /// Time that its requests took; it counts to the limit of the compaction.
    #[serde(default)]
    pub took: Millis,
    #[serde(flatten)]
    pub outcome: PreparedOutcome,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum PreparedOutcome {
    /// The request was made.
    Asked { model: String, input: String },
    /// `summary` follows the template and has neither the engine's facts nor an anchor.
    Ready { model: String, input: String, model_calls: u32, summary: String },
    /// The summariser gave none; why.
    Failed { why: String },
    /// Given up: an interrupt, another model, the end of the session.
    Cancelled { why: String },
}

impl Prepared {
    /// Name of the `State` entry.
    pub const KEY: &'static str = "prepared_summary";

    /// Anything that is not a preparation counts as none.
    pub fn from_state(value: Option<&Value>) -> Option<Self> {
        value.and_then(|v| Self::deserialize(v).ok())
    }

    /// The entry that keeps it.
    pub fn entry(&self) -> EntryKind {
        EntryKind::State { key: Self::KEY.to_owned(), value: serde_json::to_value(self).unwrap_or_default() }
    }

    /// Number of the first message that the summary does not cover; `None` when it is none of this view.
    pub(super) fn ends_at(&self, measured: &Measured) -> Option<usize> {
        let snapshot = &measured.snapshot;
        let same = self.cover.messages <= snapshot.messages.len()
            && Cover::of(snapshot, self.cover.messages) == self.cover;
        let at = self.cover.messages;
        (same && borders(&snapshot.messages).get(at) == Some(&true)).then_some(at)
    }
}

/// Why a preparation failed, for people.
pub(super) fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Error(message) => format!("the summarising model failed: {message}"),
        Failure::Refusal => "the model refused to write a summary".to_owned(),
        Failure::Timeout => "the summary took longer than 90 seconds".to_owned(),
        Failure::Overflow => "the summary request was too long for the model".to_owned(),
    }
}
