//! The price of a session: its requests against a cache with two lifetimes, under a rule or as well as one can in hindsight.
//!
//! The cache holds a prefix. Its beginning may be kept for an hour, the rest for five minutes, each since the last use. Reading
//! is cheap and renews; what is not there is written, at the price of the chosen lifetime.

use becket_session::context::cache::{CacheTtl, ahead, lifetime, warming_pays, write_price};
use becket_types::{CacheLifetime, Millis, Prices};
use std::collections::BTreeMap;

/// A request, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Seconds since the previous one.
    pub(crate) gap: u64,
    pub(crate) total: u64,
    /// Tokens at its beginning that the previous request of the conversation had, too.
    pub(crate) same: u64,
    pub(crate) output: u64,
    /// A request of its own, such as one for a summary, which neither reads nor changes the conversation's prefix.
    pub(crate) apart: bool,
    /// The first request of a turn: the lifetime may change here.
    pub(crate) begins: bool,
}

/// Seconds before the end of a lifetime at which a warming request goes out.
pub(crate) fn warm_every(of: CacheLifetime) -> u64 {
    (of.duration().0 - ahead(of.duration()).0) / 1_000
}

/// The prefix in the cache, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    /// Kept for an hour.
    hour: u64,
    all: u64,
}

impl Kept {
    fn after(self, gap: u64) -> u64 {
        match gap {
            0..=300 => self.all,
            301..=3_600 => self.hour,
            _ => 0,
        }
    }
}

const MILLION: f64 = 1_000_000.0;

fn sends(prices: &Prices, kept: Kept, survived: u64, request: &Request, of: CacheLifetime) -> (f64, Kept) {
    let output = request.output as f64 * prices.output;
    if request.apart {
        return ((request.total as f64 * prices.input + output) / MILLION, kept);
    }
    let hit = survived.min(request.same).min(request.total);
    let fresh = (request.total - hit) as f64 * write_price(prices, of);
    let hour = match of {
        // Parts that are kept for an hour come first.
        CacheLifetime::Hour if hit <= kept.hour => request.total,
        _ => kept.hour.min(hit),
    };
    let cost = hit as f64 * prices.cache_read + fresh + output;
    (cost / MILLION, Kept { hour, all: request.total })
}

/// The cost under a rule for the lifetime, with or without warming requests.
pub(crate) fn by_rule(requests: &[Request], prices: &Prices, ttl: CacheTtl, warm: bool) -> f64 {
    let (mut cost, mut kept, mut of) = (0.0, Kept::default(), CacheLifetime::default());
    for (n, request) in requests.iter().enumerate() {
        let mut gap = request.gap;
        if warm && request.begins {
            let every = warm_every(of);
            let mut sent = 0;
            while gap > every && warming_pays(prices, of, kept.all, sent) {
                cost += kept.all as f64 * prices.cache_read / MILLION;
                (gap, sent) = (gap - every, sent + 1);
            }
        }
        let pause = (n > 0).then_some(Millis(request.gap * 1_000));
        of = lifetime(ttl, of, pause);
        let (each, next) = sends(prices, kept, kept.after(gap), request, of);
        (cost, kept) = (cost + each, next);
    }
    cost
}

/// The lowest cost of these requests: each turn has the lifetime, and each pause the number of warming requests, that turn out
/// best.
pub(crate) fn in_hindsight(requests: &[Request], prices: &Prices) -> f64 {
    let mut states = BTreeMap::from([((CacheLifetime::FiveMinutes as u8, Kept::default()), 0.0)]);
    for request in requests {
        let mut next: BTreeMap<(u8, Kept), f64> = BTreeMap::new();
        for ((chosen, kept), cost) in &states {
            for of in [CacheLifetime::FiveMinutes, CacheLifetime::Hour] {
                if !request.begins && of as u8 != *chosen {
                    continue;
                }
                for survived in [kept.after(request.gap), kept.all] {
                    let mut all = *cost;
                    if survived > kept.after(request.gap) {
                        let every = if kept.hour == kept.all {
                            CacheLifetime::Hour
                        } else {
                            CacheLifetime::FiveMinutes
                        };
                        let pings = request.gap / warm_every(every);
                        all += pings as f64 * kept.all as f64 * prices.cache_read / MILLION;
                    }
                    let (each, then) = sends(prices, *kept, survived, request, of);
                    let best = next.entry((of as u8, then)).or_insert(f64::INFINITY);
                    *best = best.min(all + each);
                }
            }
        }
        states = next;
    }
    states.into_values().fold(f64::INFINITY, f64::min)
}
