//! The token budget: what is known of the window, and of the size of what is in it.
//!
//! Owns the numbers. The rules of the budget are in `session::context::budget`. Does not decide what leaves the context.

use becket_session::context::Policy;
use becket_session::context::budget::{Appended, Limits, Meter};
use becket_session::context::compaction::{Floor, Governor};
use becket_session::context::view::KindTotals;
use becket_types::{Tokens, Usage};

/// State of the token budget.
pub(crate) struct BudgetState {
    pub(super) policy: Policy,
    pub(super) meter: Meter,
    pub(super) limits: Limits,
    pub(super) governor: Governor,
    /// System prompt and tools, in base tokens (`session::context::budget`: an estimate from bytes, the same for every
    /// model). Computed again when either changes.
    pub(super) floor: Option<Floor>,
    /// Tokens of the context by kind. Computed again together with `floor`.
    pub(super) kinds: KindTotals,
    /// Base tokens of the running request, and those of its messages that came after the provider's last report of usage.
    pub(super) sent: (Tokens, Appended),
    /// Usage of the last answer, which the meter gets when the answer's entries are in the view.
    pub(super) report: Option<Usage>,
    /// Size of the context from which a summary is considered again to be made ahead of time.
    pub(super) prepare_at: Tokens,
    /// Tokens of the last request that its provider caches; 0 if it reports no cache.
    pub(super) cached: Tokens,
    /// Output limit of the next request, if the limits of the run leave less room than usual.
    pub(super) output_cap: Option<u64>,
    pub(super) window_noticed: bool,
}

impl BudgetState {
    pub(super) fn new(policy: Policy, governor: Governor, window_noticed: bool) -> Self {
        Self {
            policy,
            meter: Meter::default(),
            limits: Limits::default(),
            governor,
            floor: None,
            kinds: KindTotals::default(),
            sent: (Tokens(0), Appended::default()),
            report: None,
            prepare_at: Tokens(0),
            cached: Tokens(0),
            output_cap: None,
            window_noticed,
        }
    }

    /// Called when the system prompt or the tools have changed: their sizes are computed again.
    pub(super) fn forget_sizes(&mut self) {
        (self.floor, self.kinds) = (None, KindTotals::default());
    }
}
