//! Chooses lifetime and warming from the pauses of a session.
//!
//! Model: the next pause is like one of the pauses so far, or a little shorter or longer. For each lifetime and each number of warming
//! requests, the keeper computes what the pauses would have cost on average: the warming requests, and the prefix written again where the
//! cache had expired. With a lifetime of an hour, every write to the cache also costs more. The cheapest combination is used.
//!
//! The lifetime changes to an hour only with a request that writes the whole prefix again anyway. A prefix that was written for five
//! minutes would expire after five minutes even if its later parts were written for an hour.

use super::{CacheTtl, CacheWarm, MIN_TOKENS, lead_time, most_warm, write_price};
use becket_types::{CacheLifetime, Millis, Prices};
use serde::{Deserialize, Serialize};

/// Maximum number of pauses that are kept; older ones are forgotten.
const REMEMBERED: usize = 64;
/// Pauses of at most this many seconds end before the first warming request is due, so they cost nothing. They count in the average, but
/// are not worth storing the keeper at once.
const SHORT: u64 = 270;
/// The next pause is assumed to be one of the earlier ones, multiplied by one of these factors.
const SPREAD: [f64; 3] = [0.8, 1.0, 1.25];
/// Number of turns over which writing a whole prefix for an hour has to pay. `benches/cache` found 4 to be better than 1, 8 and 12.
const HORIZON: f64 = 4.0;

/// Time without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub seconds: u64,
    /// True if no turn was running, so that warming requests were possible.
    pub idle: bool,
}

/// The request for which a lifetime is chosen.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The time since the previous request; `None` if there was none.
    pub pause: Option<Pause>,
    /// Size of the request in tokens.
    pub context: u64,
    /// True if the prefix of the request is in no cache, so that all of it is written again.
    pub cold: bool,
}

/// The pauses and writes of a session, and the choice that follows from them. Plain data, kept in a `State` entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Keeper {
    /// The lifetime that was chosen last.
    pub lifetime: CacheLifetime,
    /// Maximum number of warming requests in a row that pays.
    warm: u32,
    pauses: Vec<Pause>,
    /// Tokens written by requests whose prefix was cached.
    written: u64,
    turns: u64,
}

impl Keeper {
    /// Chooses the lifetime for a request, at the beginning of a turn or after a pause within one. `hour`: the server offers an hour.
    /// Returns true if the keeper should be stored: the choice changed, or the pause was longer than `SHORT` and may change a later choice.
    pub fn choose(
        &mut self,
        turn: Turn,
        ttl: CacheTtl,
        warm: CacheWarm,
        prices: &Prices,
        hour: bool,
    ) -> bool {
        let before = (self.lifetime, self.warm);
        self.turns += 1;
        if let Some(pause) = turn.pause {
            self.pauses.push(pause);
            let extra = self.pauses.len().saturating_sub(REMEMBERED);
            self.pauses.drain(..extra);
        }
        let five = self.best(CacheLifetime::FiveMinutes, warm, prices);
        let other = self.best(CacheLifetime::Hour, warm, prices);
        self.lifetime = match ttl {
            _ if !hour => CacheLifetime::FiveMinutes,
            CacheTtl::Fixed(lifetime) => lifetime,
            CacheTtl::Auto if !turn.cold && self.lifetime == CacheLifetime::FiveMinutes => self.lifetime,
            CacheTtl::Auto => {
                let context = turn.context as f64;
                let dearer = write_price(prices, CacheLifetime::Hour)
                    - write_price(prices, CacheLifetime::FiveMinutes);
                let again = if turn.cold { context / HORIZON } else { 0.0 };
                let each_turn = self.written as f64 / self.turns as f64;
                if other.0 * context + dearer * (each_turn + again) < five.0 * context {
                    CacheLifetime::Hour
                } else {
                    CacheLifetime::FiveMinutes
                }
            }
        };
        self.warm = match (warm, self.lifetime) {
            (CacheWarm::Off, _) => 0,
            (CacheWarm::Idle, lifetime) => most_warm(prices, lifetime),
            (CacheWarm::Auto, CacheLifetime::FiveMinutes) => five.1,
            (CacheWarm::Auto, CacheLifetime::Hour) => other.1,
        };
        before != (self.lifetime, self.warm) || turn.pause.is_some_and(|pause| pause.seconds > SHORT)
    }

    /// Counts the tokens that a request wrote after its cached prefix.
    pub fn wrote(&mut self, tokens: u64) {
        self.written += tokens;
    }

    /// True if one more request that only keeps `tokens` warm pays. `sent`: number of such requests since the last real one.
    pub fn warms(&self, tokens: u64, sent: u32) -> bool {
        tokens >= MIN_TOKENS && sent < self.warm
    }

    /// Computes the cost of the pauses so far with this lifetime, for the number of warming requests at which it is lowest. Returns the
    /// average cost of a pause in dollars per million tokens of context, and that number.
    fn best(&self, lifetime: CacheLifetime, warm: CacheWarm, prices: &Prices) -> (f64, u32) {
        let most = if warm == CacheWarm::Off { 0 } else { most_warm(prices, lifetime) };
        let each = |most| self.average(lifetime, most, prices);
        (0..=most).map(|most| (each(most), most)).min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
    }

    fn average(&self, lifetime: CacheLifetime, most: u32, prices: &Prices) -> f64 {
        let all = lifetime.duration();
        let (lasts, every) = (all.0 as f64 / 1_000.0, (all.0 - lead_time(all).0) as f64 / 1_000.0);
        let cold = write_price(prices, lifetime) - prices.cache_read;
        let sum: f64 = self
            .pauses
            .iter()
            .flat_map(|pause| SPREAD.map(|part| (pause.seconds as f64 * part, pause.idle)))
            .map(|(seconds, idle)| {
                let needed = (seconds / every).ceil().max(1.0) - 1.0;
                let sent = if idle { needed.min(f64::from(most)) } else { 0.0 };
                let expired = seconds - sent * every > lasts;
                sent * prices.cache_read + if expired { cold } else { 0.0 }
            })
            .sum();
        sum / (self.pauses.len().max(1) * SPREAD.len()) as f64
    }

    /// Reads the keeper that an earlier process stored. Older versions stored the lifetime alone.
    pub fn from_state(value: &serde_json::Value) -> Option<Self> {
        let alone = || serde_json::from_value(value.clone()).ok();
        serde_json::from_value(value.clone())
            .ok()
            .or_else(|| alone().map(|lifetime| Self { lifetime, ..Self::default() }))
    }

    /// Makes a [`Pause`] of this length. `idle`: no turn was running.
    pub fn pause(elapsed: Millis, idle: bool) -> Pause {
        Pause { seconds: elapsed.0 / 1_000, idle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CacheLifetime::{FiveMinutes, Hour};

    const SONNET: Prices = Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };

    /// Simulates turns of 15,000 tokens, separated by pauses of these lengths in minutes. Returns the last choice.
    fn after(minutes: &[u64], warm: CacheWarm) -> (CacheLifetime, u32) {
        let mut keeper = Keeper::default();
        for (n, minutes) in [0].iter().chain(minutes).enumerate() {
            let pause = (n > 0).then_some(Pause { seconds: minutes * 60, idle: true });
            let lasts = keeper.lifetime.duration().0 / 1_000
                + u64::from(keeper.warm)
                    * (keeper.lifetime.duration().0 - lead_time(keeper.lifetime.duration()).0)
                    / 1_000;
            let turn = Turn { pause, context: 20_000 + 15_000 * n as u64, cold: minutes * 60 > lasts };
            keeper.choose(turn, CacheTtl::Auto, warm, &SONNET, true);
            keeper.wrote(15_000);
        }
        (keeper.lifetime, keeper.warm)
    }

    #[test]
    fn the_choice_follows_from_the_pauses() {
        use CacheWarm::{Auto, Idle, Off};
        for (minutes, warm, want) in [
            (&[][..], Auto, (FiveMinutes, 0)),
            (&[1, 1, 3, 3], Auto, (FiveMinutes, 0)),
            // Two warming requests are cheaper than the higher price of each write with an hour.
            (&[8], Auto, (FiveMinutes, 2)),
            (&[8, 8, 8, 8], Auto, (FiveMinutes, 2)),
            (&[40], Auto, (Hour, 0)),
            (&[40, 40, 40], Auto, (Hour, 0)),
            // A night (840 minutes) is never bridged. One pause of 8 minutes among ten short ones does not make an hour pay.
            (&[1, 1, 840], Auto, (FiveMinutes, 0)),
            (&[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8], Auto, (FiveMinutes, 2)),
            (&[8, 8], Off, (Hour, 0)),
            (&[840], Off, (FiveMinutes, 0)),
            (&[], Idle, (FiveMinutes, 5)),
        ] {
            assert_eq!(after(minutes, warm), want, "{minutes:?} {warm:?}");
        }
    }

    #[test]
    fn a_tool_that_takes_long_cannot_be_bridged_by_warming() {
        let choose = |idle| {
            let mut keeper = Keeper::default();
            let pause = Some(Pause { seconds: 480, idle });
            let turn = Turn { pause, context: 100_000, cold: true };
            keeper.choose(turn, CacheTtl::Auto, CacheWarm::Auto, &SONNET, true);
            (keeper.lifetime, keeper.warm)
        };
        assert_eq!(choose(true), (FiveMinutes, 2));
        assert_eq!(choose(false), (Hour, 0));
    }

    #[test]
    fn a_fixed_lifetime_and_a_server_without_an_hour_are_kept() {
        for (ttl, hour, want) in [
            (CacheTtl::Fixed(Hour), true, Hour),
            (CacheTtl::Fixed(Hour), false, FiveMinutes),
            (CacheTtl::Fixed(FiveMinutes), true, FiveMinutes),
            (CacheTtl::Auto, false, FiveMinutes),
        ] {
            let mut keeper = Keeper::default();
            let pause = Some(Pause { seconds: 2_400, idle: true });
            keeper.choose(Turn { pause, context: 90_000, cold: true }, ttl, CacheWarm::Off, &SONNET, hour);
            assert_eq!(keeper.lifetime, want, "{ttl:?} {hour}");
        }
    }

    #[test]
    fn an_hour_does_not_begin_while_the_prefix_is_cached_for_five_minutes() {
        let mut keeper = Keeper::default();
        let turn = |cold| Turn { pause: Some(Pause { seconds: 2_400, idle: true }), context: 90_000, cold };
        keeper.choose(turn(false), CacheTtl::Auto, CacheWarm::Off, &SONNET, true);
        assert_eq!(keeper.lifetime, FiveMinutes);
        keeper.choose(turn(true), CacheTtl::Auto, CacheWarm::Off, &SONNET, true);
        assert_eq!(keeper.lifetime, Hour);
    }

    #[test]
    fn a_session_of_an_older_version_keeps_its_lifetime() {
        let lifetime = serde_json::to_value(Hour).unwrap();
        assert_eq!(Keeper::from_state(&lifetime).unwrap().lifetime, Hour);
        let mut keeper = Keeper::default();
        let pause = Some(Pause { seconds: 480, idle: true });
        keeper.choose(
            Turn { pause, context: 9_000, cold: true },
            CacheTtl::Auto,
            CacheWarm::Auto,
            &SONNET,
            true,
        );
        assert_eq!(Keeper::from_state(&serde_json::to_value(&keeper).unwrap()), Some(keeper));
        assert_eq!(Keeper::from_state(&serde_json::json!(7)), None);
    }
}
