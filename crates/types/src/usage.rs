//! Token counts, their cost, and sums of both.

use crate::Millis;
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign};

/// A number of model tokens, reported by a provider or estimated by becket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl Add for Tokens {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl std::iter::Sum for Tokens {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self(0), Add::add)
    }
}
impl std::fmt::Display for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Tokens that one request used, as the provider reported them.
///
/// `input` counts only input that was not cached. Tokens read from or written to the provider's cache are in
/// `cache_read` and `cache_write`, and are never counted twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the request that were neither read from nor written to the provider's cache.
    pub input: u64,
    /// Tokens of the answer, including reasoning.
    pub output: u64,
    /// Tokens that the provider read from its cache.
    pub cache_read: u64,
    /// Tokens that the provider wrote to its cache. They are not counted in `input`.
    pub cache_write: u64,
    /// The part of `cache_write` that the provider keeps for an hour and bills at the price of such writes.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_hour: u64,
    /// The part of `output` that was reasoning, if the provider reports it.
    #[serde(skip_serializing_if = "is_zero")]
    pub reasoning: u64,
    /// The cost that the provider billed, in billionths of a US dollar; 0 if it does not say.
    #[serde(skip_serializing_if = "is_zero")]
    pub billed: u64,
    /// True if the numbers of tokens are becket's estimate, because the provider reported none. In a sum: true if that is so
    /// for a part of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Total usage of several requests, and its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    pub usage: Usage,
    pub cost: Cost,
}

impl Usage {
    /// Returns the size of everything the model read: fresh input, cache reads and cache writes.
    pub fn context(&self) -> Tokens {
        Tokens(self.input.saturating_add(self.cache_read).saturating_add(self.cache_write))
    }

    /// Returns the size of the context and the answer together.
    pub fn total(&self) -> Tokens {
        self.context() + Tokens(self.output)
    }

    /// True if the provider reported nothing: no tokens and no cost.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the usage as the provider reported it, or one with these estimates if the provider reported no tokens.
    pub fn or_estimate(self, input: Tokens, output: Tokens) -> Self {
        if self.total() > Tokens(0) {
            return self;
        }
        Self { input: input.0, output: output.0, estimated: true, ..self }
    }

    /// Returns the cost that the provider billed; `None` if it reported none.
    pub fn billed_cost(&self) -> Option<Cost> {
        (self.billed > 0).then(|| Cost(self.billed as f64 / 1e9))
    }
}

impl Add for Usage {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self {
            input: self.input.saturating_add(o.input),
            output: self.output.saturating_add(o.output),
            cache_read: self.cache_read.saturating_add(o.cache_read),
            cache_write: self.cache_write.saturating_add(o.cache_write),
            cache_write_hour: self.cache_write_hour.saturating_add(o.cache_write_hour),
            reasoning: self.reasoning.saturating_add(o.reasoning),
            billed: self.billed.saturating_add(o.billed),
            estimated: self.estimated || o.estimated,
        }
    }
}
impl AddAssign for Usage {
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}

/// Time for which a provider keeps a prefix in its cache after the last use, where a request can choose it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheLifetime {
    #[default]
    FiveMinutes,
    Hour,
}

impl CacheLifetime {
    /// Returns the time for which a provider keeps the prefix after its last use.
    pub fn duration(self) -> Millis {
        match self {
            Self::FiveMinutes => Millis(5 * 60 * 1000),
            Self::Hour => Millis(60 * 60 * 1000),
        }
    }

    /// Returns true for five minutes, the default, which is left out of the JSON.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// List prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

impl Prices {
    /// Returns the price of a cache write that lasts for an hour. Anthropic's models alone have such writes, and on every
    /// platform they cost twice the input price.
    pub fn cache_write_hour(&self) -> f64 {
        2.0 * self.input
    }

    /// Returns the cost of `usage` at these prices.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let per = |tokens: u64, price: f64| tokens as f64 * price / 1_000_000.0;
        let hour = usage.cache_write_hour.min(usage.cache_write);
        Cost(
            per(usage.input, self.input)
                + per(usage.output, self.output)
                + per(usage.cache_read, self.cache_read)
                + per(usage.cache_write - hour, self.cache_write)
                + per(hour, self.cache_write_hour()),
        )
    }
}

/// A change of one limit of a run; `None` removes the limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "limit", content = "most", rename_all = "snake_case")]
pub enum Limit {
    /// US dollars.
    Usd(Option<f64>),
    /// Tokens read and written.
    Tokens(Option<u64>),
    /// Answered requests of a turn.
    Turns(Option<u64>),
    /// Time of a turn.
    Wall(Option<Millis>),
}

/// A cost in US dollars, as the provider billed it or else at list prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(pub f64);

impl Add for Cost {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self(self.0 + o.0)
    }
}
impl AddAssign for Cost {
    fn add_assign(&mut self, o: Self) {
        self.0 += o.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_count_once_in_the_context() {
        let usage = Usage { input: 10, output: 5, cache_read: 90, cache_write: 7, ..Usage::default() };
        assert_eq!(usage.context(), Tokens(107));
        assert_eq!(usage.total(), Tokens(112));
    }

    #[test]
    fn cost_is_the_sum_over_the_four_prices() {
        let prices = Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
        let usage = Usage { input: 1_000_000, output: 100_000, cache_read: 2_000_000, ..Usage::default() };
        assert!((prices.cost(&usage).0 - (3.0 + 1.5 + 0.6)).abs() < 1e-9);
        let usage = Usage { cache_write: 1_000_000, cache_write_hour: 400_000, ..Usage::default() };
        assert!(
            (prices.cost(&usage).0 - (0.6 * 3.75 + 0.4 * 6.0)).abs() < 1e-9,
            "an hour costs twice the input"
        );
    }
}
