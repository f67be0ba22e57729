//! The price of a session: its requests against a cache with two lifetimes, under a rule or as well as one can in hindsight.
//!
//! The cache holds a prefix. Its beginning may be kept for an hour, the rest for five minutes, each since the last use. Reading
//! is cheap and renews; what is not there is written, at the price of the chosen lifetime.

use becket_session::context::cache::{CacheTtl, CacheWarm, Keeper, Turn, lead_time, write_price};
use becket_types::{CacheLifetime, Millis, Prices};
use std::collections::BTreeMap;

/// A request, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Seconds since the previous request.
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

/// Seconds after the last use of the cache at which a warming request goes out, shortly before the lifetime ends.
pub(crate) fn warm_every(of: CacheLifetime) -> u64 {
    (of.duration().0 - lead_time(of.duration()).0) / 1_000
}

/// The prefix in the cache, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    /// Tokens at the beginning of the prefix that are kept for an hour; the rest is kept for five minutes.
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

/// A session under a rule for lifetime and warming, request by request.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    ttl: CacheTtl,
    warm: CacheWarm,
    prices: Prices,
    keeper: Keeper,
    kept: Kept,
    first: bool,
    pub(crate) cost: f64,
}

impl Account {
    pub(crate) fn new(prices: Prices, ttl: CacheTtl, warm: CacheWarm) -> Self {
        let (keeper, kept) = (Keeper::default(), Kept::default());
        Self { ttl, warm, prices, keeper, kept, first: true, cost: 0.0 }
    }

    pub(crate) fn lifetime(&self) -> CacheLifetime {
        self.keeper.lifetime
    }

    /// Seconds since the cache was used last, after the warming requests of this pause, and their number.
    fn unused(&self, gap: u64, begins: bool) -> (u64, u32) {
        let (mut gap, mut sent, every) = (gap, 0, warm_every(self.keeper.lifetime));
        while begins && gap > every && self.keeper.warms(self.kept.all, sent) {
            (gap, sent) = (gap - every, sent + 1);
        }
        (gap, sent)
    }

    /// True if the cache has expired for a request after this pause.
    pub(crate) fn is_cold(&self, gap: u64, begins: bool) -> bool {
        self.unused(gap, begins).0 > self.keeper.lifetime.duration().0 / 1_000
    }

    pub(crate) fn send(&mut self, request: &Request) {
        let (gap, sent) = self.unused(request.gap, request.begins);
        self.cost += f64::from(sent) * self.kept.all as f64 * self.prices.cache_read / MILLION;
        let cold = self.is_cold(request.gap, request.begins);
        if request.begins {
            let pause = (!self.first).then(|| Keeper::pause(Millis(request.gap * 1_000), true));
            let turn = Turn { pause, context: request.total, cold };
            self.keeper.choose(turn, self.ttl, self.warm, &self.prices, true);
        }
        let survived = self.kept.after(gap);
        if !cold && !request.apart {
            self.keeper.wrote(request.total - survived.min(request.same).min(request.total));
        }
        let (each, kept) = sends(&self.prices, self.kept, survived, request, self.keeper.lifetime);
        (self.kept, self.first) = (kept, false);
        self.cost += each;
    }
}

/// The cost under a rule for the lifetime, with or without warming requests.
pub(crate) fn by_rule(requests: &[Request], prices: &Prices, ttl: CacheTtl, warm: CacheWarm) -> f64 {
    let mut account = Account::new(*prices, ttl, warm);
    for request in requests {
        account.send(request);
    }
    account.cost
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
