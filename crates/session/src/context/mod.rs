//! The context engine: `view(ledger, policy) -> Context`. Pure: no clock, no disk, no network, no async, no randomness.
//!
//! Time and ids come in as arguments; the one model call of a compaction is split into a plan and a finish.

pub mod budget;
pub mod compaction;
pub mod continuation;
pub mod cut;
pub mod edit;
pub mod escape;
pub mod media;
pub mod present;
pub mod prune;
pub mod reminder;
pub mod repair;
pub mod shrink;
pub mod summary;
pub mod tail_anchor;
pub mod validate;
pub mod view;

pub(crate) use view::Shown;
pub use view::View;

/// The numbers and lists that the engine works with. Defaults are the ones of `docs/context-engine.md`.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// T9: globs of tool names whose outputs are never pruned, beside `skill` and what tools declare.
    pub protect: Vec<String>,
    /// T9: outputs behind the n-th user message from the end stay.
    pub skip_turns: usize,
    /// T9: newest tokens of tool output that stay in a lone-turn run.
    pub hot_tokens: u64,
    /// T9 outside compactions: only in batches that free at least this much.
    pub prune_batch: u64,
    /// `prune = off`.
    pub prune: bool,
    /// T8: share of the usable window at which a compaction is owed.
    pub threshold: f64,
    pub auto_compact: bool,
    /// T8: ask for the summary ahead of time, in the background.
    pub prepare: bool,
    /// T8: user turns in the tail.
    pub tail_turns: usize,
    /// Tail budget in tokens; `None`: clamp(0.10 × usable, 1,000, 8,000).
    pub keep_recent_tokens: Option<u64>,
    /// T8: share of the usable window for files whose content comes along with a compaction; 0: none.
    pub reattach: f64,
    /// Tail anchor, in characters.
    pub anchor_chars: usize,
    /// Custom T12 template.
    pub template: Option<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            protect: vec!["skill".to_owned()],
            skip_turns: 2,
            hot_tokens: 40_000,
            prune_batch: 30_000,
            prune: true,
            threshold: 0.90,
            auto_compact: true,
            prepare: true,
            tail_turns: 2,
            keep_recent_tokens: None,
            reattach: 0.15,
            anchor_chars: 1_500,
            template: None,
        }
    }
}

/// The model that the view is built for: what it can take.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelScope {
    pub provider: String,
    /// Name on the wire; signed reasoning of any other model is dropped.
    pub model: String,
    pub images: bool,
    /// Images in one request, at most.
    pub max_images: usize,
    /// Bytes of all media in one request, at most.
    pub max_media_bytes: u64,
}

impl ModelScope {
    /// The scope where no request is made: every medium is kept.
    pub fn no_model() -> Self {
        Self {
            provider: String::new(),
            model: String::new(),
            images: true,
            max_images: usize::MAX,
            max_media_bytes: u64::MAX,
        }
    }
}
