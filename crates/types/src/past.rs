//! What a search of a session's own past found.

use crate::Seq;
use serde::{Deserialize, Serialize};

/// A place in what was said and done and is not shown to the model any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// What `recall` takes: a call id, or `m` and the number of a message.
    pub id: String,
    /// The ledger entry of the message.
    pub seq: Seq,
    /// `user`, `assistant`, `call of TOOL`, `output of TOOL`.
    pub who: String,
    /// The words around, a few lines at most.
    pub snippet: String,
}

/// The best places, and how many there are in all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Best first.
    pub places: Vec<Place>,
    /// Texts that hold at least one of the words.
    pub total: usize,
}
