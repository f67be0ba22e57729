//! What a compaction would do and what it loses, as front ends are shown it.
//!
//! Data only: what is lost is found in `session::context::compaction`, and nothing is decided by it.

use crate::{Seq, Tokens};
use serde::{Deserialize, Serialize};

/// One thing that was said and stands nowhere in what is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    pub text: String,
    /// The last message that says it.
    pub seq: Seq,
    pub times: u32,
    pub by_user: bool,
}

/// What a compaction loses. The most said first; what the user said before all else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    pub identifiers: Vec<Lost>,
    pub paths: Vec<Lost>,
    /// Sentences of the model that tell of a decision.
    pub decisions: Vec<Lost>,
    /// Sentences of the user.
    pub constraints: Vec<Lost>,
    /// Outputs of tools among what leaves; each comes back with `recall`.
    pub outputs: usize,
}

impl Loss {
    pub fn is_empty(&self) -> bool {
        self.lists().iter().all(|(_, list)| list.is_empty())
    }

    /// The lists under the names people know them by.
    pub fn lists(&self) -> [(&'static str, &[Lost]); 4] {
        [
            ("your sentences", &self.constraints),
            ("decisions", &self.decisions),
            ("paths", &self.paths),
            ("identifiers", &self.identifiers),
        ]
    }
}

/// Text of a summarising model that did not get into the summary, and the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The section it stood in, without `#`; empty for text outside of sections.
    pub section: String,
    pub text: String,
    pub why: String,
}

/// What a compaction would do. Nothing has happened yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompactionPlan {
    /// The number by which it is confirmed; another plan, a turn or a compaction makes it void.
    pub plan: u64,
    pub tokens_before: Tokens,
    pub tokens_after: Tokens,
    /// The categories that hold anything before or after.
    pub categories: Vec<CategoryChange>,
    /// Messages that leave the context, oldest first.
    pub gone: Vec<FoldedMessage>,
    /// Messages that stay word for word.
    pub stays: u64,
    /// Outputs that become stubs.
    pub stubs: u64,
    pub loss: Loss,
    /// Rules files, pinned messages, open todos and the user's last message: how many were found byte for byte, and which
    /// were not.
    pub present: u64,
    pub missing: Vec<String>,
    /// Exactly what the model would see; empty where outputs that become stubs are enough.
    pub summary: String,
    /// Text of the summarising model that is not in the summary.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// What went wrong on the way: a summariser that failed, a summary that was not taken.
    pub notices: Vec<String>,
}

/// A category of the context before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryChange {
    pub name: String,
    pub before: Tokens,
    pub after: Tokens,
}

/// A message that leaves the context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedMessage {
    pub seq: Seq,
    /// `user`, `assistant`, `tool`.
    pub who: String,
    pub tokens: Tokens,
    /// Its first words.
    pub words: String,
}
