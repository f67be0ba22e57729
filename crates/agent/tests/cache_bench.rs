//! The bench of the provider's cache in small, so that it goes on working and its claims go on holding.

#[path = "../../../benches/cache/mod.rs"]
#[expect(dead_code, reason = "the programme uses the rest of it")]
mod cache;

use becket_session::context::cache::{CacheTtl, CacheWarm};
use becket_types::{CacheLifetime, Prices};
use cache::price::{Request, by_rule, in_hindsight};
use cache::shapes::SHAPES;
use cache::{WAYS, cost};

const PRICES: Prices = Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };

fn request(gap: u64, total: u64, same: u64) -> Request {
    Request { gap, total, same, output: 0, apart: false, begins: true }
}

#[test]
fn a_price_follows_from_what_is_cached() {
    let million = 1_000_000;
    let of = |gap, ttl, warm| {
        let requests = [request(0, million, 0), request(gap, million, million)];
        by_rule(&requests, &PRICES, ttl, warm)
    };
    let (five, hour) = (CacheTtl::Fixed(CacheLifetime::FiveMinutes), CacheTtl::Fixed(CacheLifetime::Hour));
    for (gap, ttl, warm, want) in [
        (60, five, CacheWarm::Off, 3.75 + 0.3),
        (480, five, CacheWarm::Off, 3.75 + 3.75),
        (480, hour, CacheWarm::Off, 6.0 + 0.3),
        (480, five, CacheWarm::Idle, 3.75 + 0.3 + 0.3),
        // In mode `auto` no warming request is sent, because nothing is known of the session's pauses yet.
        (480, five, CacheWarm::Auto, 3.75 + 3.75),
        (50_000, hour, CacheWarm::Off, 6.0 + 6.0),
    ] {
        let got = of(gap, ttl, warm);
        assert!((got - want).abs() < 1e-9, "{gap} s, {ttl:?}, {warm:?}: {got}");
    }
    let requests = [request(0, million, 0), request(480, million, million)];
    assert!((in_hindsight(&requests, &PRICES) - 4.35).abs() < 1e-9, "one warming request is the best");
}

#[test]
fn no_rule_is_better_than_hindsight() {
    for shape in SHAPES {
        let steps = shape.steps(7);
        let run = cache::becket::run(
            &steps,
            200_000,
            PRICES,
            0.9,
            &cache::becket::Plan::Own { ttl: CacheTtl::Auto, warm: CacheWarm::Auto, idle_compaction: false },
        );
        let requests = run.unwrap().requests;
        let best = in_hindsight(&requests, &PRICES);
        for ttl in [CacheTtl::Auto, CacheTtl::Fixed(CacheLifetime::FiveMinutes)] {
            for warm in [CacheWarm::Off, CacheWarm::Auto, CacheWarm::Idle] {
                let rule = by_rule(&requests, &PRICES, ttl, warm);
                assert!(best <= rule + 1e-9, "{}: {best} {rule} {ttl:?} {warm:?}", shape.name);
            }
        }
    }
}

#[test]
fn every_way_runs_every_shape() {
    for shape in SHAPES {
        for (way, name) in WAYS {
            let cost = cost(way, &shape.steps(1), 200_000, PRICES).unwrap();
            assert!(cost.usd > 0.0 && cost.needs > 10, "{}: {name} {cost:?}", shape.name);
        }
    }
}
