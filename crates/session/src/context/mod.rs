//! The context engine: `view(ledger, policy) -> Context`. Pure: no clock, no disk, no network, no async, no
//! randomness.
//!
//! Time and ids are passed as arguments. The model call of a compaction is split into a plan before it and a
//! finish after it.

pub mod budget;
pub mod cache;
pub mod compaction;
pub mod continuation;
pub mod cut;
pub mod due;
pub mod edit;
pub mod escape;
pub mod input;
pub mod media;
pub mod present;
pub mod prune;
pub mod reminder;
pub mod repair;
pub mod rewind;
pub mod scale;
pub mod shrink;
pub mod summary;
pub mod tail_anchor;
pub mod validate;
pub mod view;

pub use view::View;
pub(crate) use view::VisibleContent;

/// Numbers and lists that configure the engine. `docs/context-engine.md` explains the defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Prune: globs of tool names whose outputs are never pruned: [`Policy::PROTECTED`], the names of the configuration, and tools that
    /// declare it.
    pub protect: Vec<String>,
    /// Prune: outputs after the n-th user message from the end stay.
    pub skip_turns: usize,
    /// Prune: tokens of the newest tool outputs that stay while there are fewer user turns than `skip_turns`.
    pub hot_tokens: u64,
    /// Prune outside of compactions: minimum number of tokens that a batch must free.
    pub prune_batch: u64,
    /// False switches pruning off.
    pub prune: bool,
    /// Compaction: share of the usable window at which a compaction is due.
    pub threshold: f64,
    /// Compaction: true if it starts without the user, at the threshold and after a request that was refused as too long.
    pub auto_compact: bool,
    /// Compaction: true if the summary is prepared in the background before the threshold.
    pub prepare: bool,
    /// Compaction: number of user turns in the tail.
    pub tail_turns: usize,
    /// Compaction: size of the tail in tokens; `None`: clamp(0.10 × usable, 1,000, 8,000).
    pub keep_recent_tokens: Option<u64>,
    /// Compaction: share of the usable window for attached file contents; 0: none.
    pub reattach: f64,
    pub summary: SummaryPolicy,
}

/// The form of a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryPolicy {
    /// Maximum length of the tail anchor in characters.
    pub anchor_chars: usize,
    /// Text of the user's own template; `None`: the default template.
    pub template: Option<String>,
}

impl Default for SummaryPolicy {
    fn default() -> Self {
        Self { anchor_chars: 1_500, template: None }
    }
}

impl Policy {
    /// Always the first element of [`Policy::protect`].
    pub const PROTECTED: &str = "skill";
    /// Value of [`Policy::skip_turns`]; no key of the configuration changes it.
    pub const SKIP_TURNS: usize = 2;
    /// Value of [`Policy::hot_tokens`]; no key of the configuration changes it.
    pub const HOT_TOKENS: u64 = 40_000;
    /// Value of [`Policy::prune_batch`]; no key of the configuration changes it.
    pub const PRUNE_BATCH: u64 = 30_000;

    /// Returns the policy of a session that is only read or copied: nothing is pruned, and nothing is compacted. Earlier compactions still
    /// apply, because they are entries of the ledger and do not depend on a policy.
    pub fn reading() -> Self {
        Self { prune: false, auto_compact: false, prepare: false, ..Self::default() }
    }
}

/// For tests. The program makes its policy from the configuration, in one function.
impl Default for Policy {
    fn default() -> Self {
        Self {
            protect: vec![Self::PROTECTED.to_owned()],
            skip_turns: Self::SKIP_TURNS,
            hot_tokens: Self::HOT_TOKENS,
            prune_batch: Self::PRUNE_BATCH,
            prune: true,
            threshold: 0.90,
            auto_compact: true,
            prepare: true,
            tail_turns: 2,
            keep_recent_tokens: None,
            reattach: 0.15,
            summary: SummaryPolicy::default(),
        }
    }
}

/// The model that the view is built for, and its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelScope {
    pub provider: String,
    /// Name on the wire. Signed reasoning of any other model is dropped.
    pub model: String,
    /// True if the model reads images. Otherwise images become text.
    pub images: bool,
    /// Maximum number of images in one request.
    pub max_images: usize,
    /// Maximum number of bytes of all media in one request.
    pub max_media_bytes: u64,
}

impl ModelScope {
    /// Returns the scope for a view without requests: all media are kept.
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
