//! Results of a search in the part of a session that the model no longer sees.

use crate::Seq;
use serde::{Deserialize, Serialize};

/// One match: a message or a tool output that the model no longer sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecallMatch {
    /// Argument for the `recall` tool: a call id, or `m` and the number of a message.
    pub id: String,
    /// The ledger entry of the message.
    pub seq: Seq,
    /// `user`, `assistant`, `call of TOOL`, `output of TOOL`.
    pub who: String,
    /// The matching words with their surroundings, a few lines at most.
    pub snippet: String,
}

/// The best matches, and the number of all matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecallMatches {
    /// Best first.
    pub places: Vec<RecallMatch>,
    /// Number of texts that contain at least one of the words.
    pub total: usize,
}
