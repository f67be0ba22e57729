//! Decisions about the provider's prompt cache, by the model's prices: the lifetime that requests ask for, requests that only
//! keep the cache warm, and a compaction before the cache expires.
//!
//! Pure. The driver passes sizes and pauses in; `benches/cache` compares the decisions with the best ones in hindsight.

use becket_types::{CacheLifetime, Millis, Prices, Usage};

mod keeper;
pub use keeper::{Keeper, Pause, Turn};

/// The user's choice of a lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheTtl {
    /// Five minutes at first, then the lifetime that is cheaper for the pauses of this session ([`Keeper`]).
    #[default]
    Auto,
    Fixed(CacheLifetime),
}

/// The user's choice about requests that only keep the cache warm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheWarm {
    #[default]
    Off,
    /// As many in a row as would have paid for the pauses of this session so far. None before the first pause that is long enough to need
    /// one.
    Auto,
    /// Also before such a pause, as long as they cost at most half of what a request with an expired cache costs.
    Idle,
}

/// Settings for the provider's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachePolicy {
    pub ttl: CacheTtl,
    /// Small requests between turns that read the cached prefix, so that it does not expire.
    pub warm: CacheWarm,
    /// Compact between turns before the cache expires, if that pays.
    pub idle_compaction: bool,
}

/// Maximum number of consecutive requests that only keep a cache warm, by its lifetime. With five minutes they cover a pause of 27 minutes
/// and cost half of a request with an expired cache; with an hour they cover an afternoon.
const MOST_WARM: [(CacheLifetime, u32); 2] = [(CacheLifetime::FiveMinutes, 5), (CacheLifetime::Hour, 3)];
/// Minimum number of tokens that an extra request must keep warm, or that a compaction must save, to be worth it.
const MIN_TOKENS: u64 = 8_000;
/// Expected length of a summary, in tokens, for the price of a compaction.
const SUMMARY: u64 = 1_500;
/// A compaction has to save this many times its cost, because the user may also come back in time, or never.
const MARGIN: f64 = 2.0;

/// The time before the end of a lifetime at which becket acts: a tenth of the lifetime, at most five minutes. This is long enough for a
/// slow request.
pub fn lead_time(lifetime: Millis) -> Millis {
    Millis((lifetime.0 / 10).min(5 * 60 * 1000))
}

/// Returns the price of writing a token into the cache, in dollars per million.
pub fn write_price(prices: &Prices, lifetime: CacheLifetime) -> f64 {
    match lifetime {
        CacheLifetime::FiveMinutes => prices.cache_write.max(prices.input),
        CacheLifetime::Hour => prices.cache_write_hour(),
    }
}

/// Returns the maximum number of consecutive requests that only keep the cache warm. Together they cost at most half of what an expired
/// cache costs more than a warm one.
fn most_warm(prices: &Prices, lifetime: CacheLifetime) -> u32 {
    let most = MOST_WARM.iter().find(|(of, _)| *of == lifetime).map_or(0, |(_, most)| *most);
    let (each, cold) = (prices.cache_read, write_price(prices, lifetime) - prices.cache_read);
    if each <= 0.0 || cold <= 0.0 { 0 } else { most.min((cold / 2.0 / each + 1e-9) as u32) }
}

/// True if a compaction from `used` to about `after` tokens saves more than it costs, provided that the next request finds the cache
/// expired.
pub fn idle_compaction_pays(prices: &Prices, lifetime: CacheLifetime, used: u64, after: u64) -> bool {
    if used < after.saturating_add(MIN_TOKENS) {
        return false;
    }
    let cost = prices.cost(&Usage { cache_read: used, output: SUMMARY, ..Usage::default() }).0;
    let saved = (used - after) as f64 * write_price(prices, lifetime) / 1_000_000.0;
    saved > MARGIN * cost
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPUS: Prices = Prices { input: 5.0, output: 25.0, cache_read: 0.5, cache_write: 6.25 };
    use CacheLifetime::{FiveMinutes, Hour};

    #[test]
    fn warming_ends_before_it_costs_more_than_half_of_a_cold_request() {
        for (lifetime, most) in [(FiveMinutes, 5), (Hour, 3)] {
            assert_eq!(most_warm(&OPUS, lifetime), most, "{lifetime:?}");
        }
        assert_eq!(most_warm(&Prices::default(), FiveMinutes), 0, "a model on this machine");
        let no_discount = Prices { cache_read: 5.0, cache_write: 5.0, ..OPUS };
        assert_eq!(most_warm(&no_discount, FiveMinutes), 0, "no cache");
        let dear = Prices { cache_read: 2.0, cache_write: 5.0, ..OPUS };
        assert_eq!(most_warm(&dear, FiveMinutes), 0, "one of them costs more than half");
    }

    #[test]
    fn a_compaction_while_idle_needs_a_large_context() {
        for (used, after, pays) in
            [(20_000, 15_000, false), (30_000, 15_000, false), (100_000, 15_000, true), (10, 20, false)]
        {
            assert_eq!(idle_compaction_pays(&OPUS, FiveMinutes, used, after), pays, "{used}");
        }
        assert!(!idle_compaction_pays(&Prices::default(), FiveMinutes, 100_000, 15_000), "nothing to save");
    }

    #[test]
    fn becket_acts_before_the_end_of_a_lifetime() {
        assert_eq!(lead_time(FiveMinutes.duration()), Millis(30_000));
        assert_eq!(lead_time(Hour.duration()), Millis(300_000));
    }
}
