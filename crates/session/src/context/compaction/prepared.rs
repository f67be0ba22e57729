//! A summary that is made in advance while the conversation continues, so that a compaction does not have to
//! wait for it.
//!
//! A preparation requests a summary of everything in the view at that time; later messages are not in it.
//! When the compaction is due, the tail begins where the summary ends, if that size is accepted. Otherwise
//! the summariser is asked for the later messages only, on top of the prepared summary. So every message is
//! in the summary or in the tail.
//!
//! Invariants: there is at most one preparation per compaction in force. A summary is used only while the
//! messages that it covers are the same, in the same order, after the same earlier compaction. A prepared
//! outcome passes the same checks as any other.
//!
//! Plain data in a `State` entry, so a resumed session uses the summary that was already paid for.

use super::layout::Measured;
use super::split::borders;
use super::{Failure, Snapshot};
use becket_types::{EntryKind, Millis, Seq};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Line in a summary that says that newer messages follow which it does not cover.
pub(super) const NEWER: &str =
    "- This summary was written a little earlier: the messages behind it are newer, and they count.";

/// The messages that a prepared summary covers: the first ones of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoveredMessages {
    /// The compaction in force when the summary was requested; `None`: there was none.
    pub after: Option<Seq>,
    /// Number of messages.
    pub messages: usize,
    /// Hash of the ids of these messages. Another release may compute it differently; then the summary is not used.
    pub digest: u64,
    /// The newest covered message.
    pub through: Seq,
}

impl CoveredMessages {
    /// Describes the first `messages` messages of a snapshot.
    pub(super) fn from_snapshot(snapshot: &Snapshot, messages: usize) -> Self {
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

/// A preparation: the messages that it covers, and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    #[serde(flatten)]
    pub cover: CoveredMessages,
    /// Duration of its requests. Counts towards the time limit of the compaction.
    #[serde(default)]
    pub took: Millis,
    #[serde(flatten)]
    pub outcome: PreparedOutcome,
}

/// The progress of a summary that is prepared in the background. In JSON, `outcome` names the variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum PreparedOutcome {
    /// The request was sent.
    Asked { model: String, input: String },
    /// The summary is ready. It follows the template, without the sections that becket fills in and without
    /// an anchor.
    Ready { model: String, input: String, model_calls: u32, summary: String },
    /// The summariser failed, with the reason.
    Failed { why: String },
    /// The preparation was cancelled: an interrupt, another model, the end of the session.
    Cancelled { why: String },
}

impl Prepared {
    /// Name of the `State` entry.
    pub const KEY: &'static str = "prepared_summary";

    /// Reads a preparation. An invalid value counts as none.
    pub fn from_state(value: Option<&Value>) -> Option<Self> {
        value.and_then(|v| Self::deserialize(v).ok())
    }

    /// Returns the entry that stores this preparation.
    pub fn entry(&self) -> EntryKind {
        EntryKind::State { key: Self::KEY.to_owned(), value: serde_json::to_value(self).unwrap_or_default() }
    }

    /// Returns the index of the first message that the summary does not cover; `None` if the summary does not
    /// belong to this view.
    pub(super) fn ends_at(&self, measured: &Measured) -> Option<usize> {
        let snapshot = &measured.snapshot;
        let same = self.cover.messages <= snapshot.messages.len()
            && CoveredMessages::from_snapshot(snapshot, self.cover.messages) == self.cover;
        let at = self.cover.messages;
        (same && borders(&snapshot.messages).get(at) == Some(&true)).then_some(at)
    }
}

/// Describes for people why a preparation failed.
pub(super) fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Error(message) => format!("the summarising model failed: {message}"),
        Failure::Refusal => "the model refused to write a summary".to_owned(),
        Failure::Timeout => "the summary took longer than 90 seconds".to_owned(),
        Failure::Overflow => "the summary request was too long for the model".to_owned(),
    }
}
