//! The plan of a compaction and the information it would lose, as front ends show them, and what a turn says of its compactions.
//!
//! Data only: `session::context::compaction` finds what is lost, and nothing is decided here.

use crate::{CallId, MessageId, Seq, Tokens};
use serde::{Deserialize, Serialize};

/// One piece of information that the conversation had and the compacted context no longer has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The identifier, path or sentence itself.
    pub text: String,
    /// The last message that contains the text.
    pub seq: Seq,
    /// Number of times that the text occurs.
    pub times: u32,
    /// True if a message of the user contains the text.
    pub by_user: bool,
}

/// Everything that a compaction loses. Each list starts with the user's own words, then the most frequent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Names from code, without paths.
    pub identifiers: Vec<Lost>,
    pub paths: Vec<Lost>,
    /// Sentences of the model that record a decision.
    pub decisions: Vec<Lost>,
    /// Sentences of the user.
    pub constraints: Vec<Lost>,
    /// Number of tool outputs that leave the context. Each can be fetched again with `recall`.
    pub outputs: usize,
}

impl Loss {
    /// True if the compaction loses nothing from any of the lists. `outputs` does not count, because `recall` fetches them
    /// again.
    pub fn is_empty(&self) -> bool {
        self.lists().iter().all(|(_, list)| list.is_empty())
    }

    /// The lists with the names that user interfaces show.
    pub fn lists(&self) -> [(&'static str, &[Lost]); 4] {
        [
            ("your sentences", &self.constraints),
            ("decisions", &self.decisions),
            ("paths", &self.paths),
            ("identifiers", &self.identifiers),
        ]
    }
}

/// Text of the summarising model that was not accepted into the summary, and the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Section heading it was written under, without `#`; empty for text outside of sections.
    pub section: String,
    pub text: String,
    /// The reason in a few words.
    pub why: String,
}

/// The effect that a compaction would have. Nothing has happened yet. In JSON the fields of all parts are fields of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompactionPlan {
    /// Number that confirms this plan. A newer plan, a turn or a compaction makes it invalid.
    pub plan: u64,
    #[serde(flatten)]
    pub size: SizeChange,
    /// Categories that are not empty before or after the compaction.
    pub categories: Vec<CategoryChange>,
    /// Messages that leave the context, oldest first.
    pub gone: Vec<RemovedMessage>,
    /// Messages that stay word for word.
    pub stays: u64,
    /// Number of outputs that become stubs.
    pub stubs: u64,
    pub loss: Loss,
    #[serde(flatten)]
    pub protected: ProtectedContent,
    /// The summary exactly as the model would see it. Empty if replacing outputs by stubs is enough.
    pub summary: String,
    /// Text of the summarising model that was not accepted into the summary.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// Problems on the way: a summariser that failed, a summary that was rejected.
    pub notices: Vec<String>,
}

/// Estimated size of the context before and after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeChange {
    #[serde(rename = "tokens_before")]
    pub before: Tokens,
    #[serde(rename = "tokens_after")]
    pub after: Tokens,
}

/// The content that a compaction must not lose: rules files, pinned messages, open todos, the user's last message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedContent {
    /// Number of pieces that were found byte for byte in the new context. The others are named in `missing`.
    pub present: u64,
    /// The pieces that were not found, as in [`Present::what`].
    pub missing: Vec<String>,
    /// Each piece with the hash of its bytes.
    #[serde(default)]
    pub proofs: Vec<Present>,
}

/// Something that must be in the context after a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present {
    /// `rules AGENTS.md`, `pinned message 12`, `todo: …`, `last user message 40`.
    pub what: String,
    /// Hex SHA-256 of the piece's bytes as they are in the ledger.
    pub sha256: String,
    /// True if the piece was found in the new context, byte for byte.
    pub there: bool,
}

/// Size of one category of the context before and after the compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryChange {
    pub name: String,
    pub before: Tokens,
    pub after: Tokens,
}

/// A message that leaves the context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedMessage {
    pub seq: Seq,
    pub id: MessageId,
    /// `user`, `assistant`, `tool`.
    pub who: String,
    /// Ids of the calls in it, or of the call that it is the result of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallId>,
    /// becket's estimate of the message's size.
    pub tokens: Tokens,
    /// The first words of the message.
    pub words: String,
}

/// Compactions of a turn: those that the turn needed, or the one that the user asked for instead of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnCompaction {
    /// Number of compactions during the turn.
    #[serde(rename = "compactions")]
    pub count: u64,
    /// Set if this was not a turn but a manual compaction.
    #[serde(rename = "compacted", default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<CompactedByHand>,
}

/// Size of the context before and after a manual compaction. The sizes are equal if nothing was compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactedByHand {
    pub pre_tokens: Tokens,
    pub post_tokens: Tokens,
}
