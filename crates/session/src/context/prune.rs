//! T9: old tool outputs become stubs.
use super::Policy;
use becket_types::{CallId, Message, Millis, PrunedCall, Tokens};
use std::collections::HashSet;

/// What [`prune`] works with.
#[derive(Clone, Debug)]
pub struct PrunePolicy {
    pub skip_turns: usize,
    pub hot_tokens: u64,
    /// Globs of tool names that are never pruned.
    pub protect: globset::GlobSet,
    pub pinned: HashSet<CallId>,
    /// Stamp of `metadata.time.compacted`.
    pub now: Millis,
    /// `prune = off` when false.
    pub enabled: bool,
}

impl PrunePolicy {
    pub fn new(policy: &Policy, now: Millis) -> Self {
        Self {
            skip_turns: policy.skip_turns,
            hot_tokens: policy.hot_tokens,
            protect: globset::GlobSet::empty(),
            pinned: HashSet::new(),
            now,
            enabled: policy.prune,
        }
    }
}

/// Outputs chosen to become stubs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    pub calls: Vec<PrunedCall>,
    /// What the stubs save, by our estimate.
    pub freed: Tokens,
}

pub fn prune(messages: &[Message], _policy: &PrunePolicy) -> (Vec<Message>, Vec<PrunedCall>) {
    (messages.to_vec(), Vec::new())
}

/// What [`prune`] would choose from the live messages of a view.
pub fn select(_view: &super::View, _now: Millis) -> Selection {
    Selection::default()
}
