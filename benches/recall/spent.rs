//! The cost of a session: each request pays a tenth for the prefix that it shares with the previous one, and the full price
//! for the rest.
//!
//! In input tokens at list price; an output token counts as five. A compaction changes all text after the removed part, so
//! that text is paid in full once more.

/// Price of an input token that the provider has cached, in prices of an uncached one.
const CACHED: f64 = 0.1;
/// Price of an output token, in prices of an uncached input token.
const OUTPUT: f64 = 5.0;

#[derive(Clone, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) tokens: f64,
    pub(crate) steps: u64,
    pub(crate) compactions: u64,
    /// Sum over the requests of the share of the window that they used.
    pub(crate) share: f64,
    /// Results that the model had not seen yet, and those of them of which the next request showed a line.
    pub(crate) due: u64,
    pub(crate) shown: u64,
    /// Facts and outputs that the model needed, and those of them that were in its context.
    pub(crate) needs: u64,
    pub(crate) met: u64,
}

impl Spent {
    /// Counts a request of `all` tokens, of which the previous request had the first `same`.
    pub(crate) fn request(&mut self, all: u64, same: u64, usable: u64) {
        self.steps += 1;
        self.tokens += same as f64 * CACHED + (all - same.min(all)) as f64;
        self.share += all as f64 / usable as f64;
    }

    /// Counts a request for a summary.
    pub(crate) fn summary(&mut self, input: u64, cached: u64, output: u64) {
        self.tokens += input as f64 + cached as f64 * CACHED + output as f64 * OUTPUT;
    }

    /// Counts a fact or output that the model needs. `there`: it is in the context. Returns true if the model must find it first.
    pub(crate) fn need(&mut self, there: bool) -> bool {
        self.needs += 1;
        self.met += u64::from(there);
        !there
    }

    pub(crate) fn answer(&mut self, tokens: u64) {
        self.tokens += tokens as f64 * OUTPUT;
    }
}
