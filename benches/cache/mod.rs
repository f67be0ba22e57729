//! The cost of a session under becket's rules for the provider's cache, beside the best policy in hindsight and the rules of
//! other agents.
//!
//! Run as `cargo run -p becket-agent --example cache`, and in small by the test `cache_bench`.

pub(crate) mod becket;
pub(crate) mod price;
pub(crate) mod rules;
pub(crate) mod shapes;

use becket::{AtPause, Plan, Run};
use becket_session::context::cache::{CacheTtl, CacheWarm};
use becket_types::{CacheLifetime, Prices};
use price::{by_rule, in_hindsight};
use rules::Rules;
use shapes::{Shape, Step};

/// A way to run a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// `threshold`: share of the usable window at which older history is compacted.
    Becket {
        ttl: CacheTtl,
        warm: CacheWarm,
        idle_compaction: bool,
        threshold: f64,
    },
    Other(Rules, CacheLifetime),
}

const fn becket(ttl: CacheTtl, warm: CacheWarm, idle_compaction: bool) -> Way {
    Way::Becket { ttl, warm, idle_compaction, threshold: 0.9 }
}

/// A low threshold forgets more and repeats less.
const fn early(threshold: f64, idle_compaction: bool) -> Way {
    Way::Becket { ttl: CacheTtl::Auto, warm: CacheWarm::Auto, idle_compaction, threshold }
}

use CacheLifetime::{FiveMinutes, Hour};

pub(crate) const WAYS: [(Way, &str); 13] = [
    (becket(CacheTtl::Auto, CacheWarm::Auto, false), "becket"),
    (
        becket(CacheTtl::Fixed(FiveMinutes), CacheWarm::Off, false),
        "`cache_ttl = \"5m\"`, `cache_warm = \"off\"`",
    ),
    (becket(CacheTtl::Fixed(Hour), CacheWarm::Off, false), "`cache_ttl = \"1h\"`, `cache_warm = \"off\"`"),
    (becket(CacheTtl::Auto, CacheWarm::Off, false), "`cache_warm = \"off\"`"),
    (becket(CacheTtl::Auto, CacheWarm::Idle, false), "`cache_warm = \"idle\"`"),
    (becket(CacheTtl::Auto, CacheWarm::Auto, true), "`idle_compaction`"),
    (early(0.3, false), "`threshold = 0.3`"),
    (early(0.3, true), "0.3 and `idle_compaction`"),
    (early(0.2, true), "0.2 and `idle_compaction`"),
    (Way::Other(Rules::Opencode, FiveMinutes), "opencode's rules"),
    (Way::Other(Rules::Codex, FiveMinutes), "Codex's rules"),
    (Way::Other(Rules::ClaudeCode, FiveMinutes), "Claude Code's, 5 min"),
    (Way::Other(Rules::ClaudeCode, Hour), "Claude Code's, 1 h"),
];

/// Cost of a session in dollars, how many outputs the model needed, and how many of these were in its context.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) usd: f64,
    pub(crate) needs: u64,
    pub(crate) met: u64,
}

impl Cost {
    fn of(run: &Run, usd: f64) -> Self {
        Self { usd, needs: run.needs, met: run.met }
    }

    fn add(&mut self, other: Self) {
        self.usd += other.usd;
        self.needs += other.needs;
        self.met += other.met;
    }

    pub(crate) fn percent(&self) -> f64 {
        100.0 * self.met as f64 / self.needs.max(1) as f64
    }
}

/// One shape of session: the cost of each way, and of the best policies in hindsight.
pub(crate) struct Row {
    pub(crate) ways: Vec<Cost>,
    /// The cheapest policy under which at most two percentage points fewer of the needed outputs are in the context than under becket's.
    pub(crate) alike: Cost,
    pub(crate) cheapest: Cost,
}

/// The search for the best policies in hindsight. It takes most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// No search: becket's own policy counts as the best one.
    No,
    /// A decision for each pause.
    Each,
    /// One decision for each group of neighbouring pauses, with this number of groups.
    Groups(u32),
}

pub(crate) fn row(
    shape: &Shape,
    seeds: u64,
    window: u64,
    prices: Prices,
    search: Search,
) -> Result<Row, String> {
    let mut row =
        Row { ways: vec![Cost::default(); WAYS.len()], alike: Cost::default(), cheapest: Cost::default() };
    for seed in 0..seeds {
        let steps = shape.steps(seed);
        for ((way, _), sum) in WAYS.iter().zip(&mut row.ways) {
            sum.add(cost(*way, &steps, window, prices)?);
        }
        let own = cost(WAYS[0].0, &steps, window, prices)?;
        let found = match search {
            Search::No => vec![own],
            Search::Each => best(&steps, window, prices, own, None)?,
            Search::Groups(groups) => best(&steps, window, prices, own, Some(groups))?,
        };
        let least =
            |found: &[Cost]| found.iter().copied().min_by(|a, b| a.usd.total_cmp(&b.usd)).unwrap_or(own);
        row.cheapest.add(least(&found));
        let alike: Vec<Cost> =
            found.into_iter().filter(|cost| cost.percent() >= own.percent() - 2.0).collect();
        row.alike.add(least(&alike));
    }
    Ok(row)
}

pub(crate) fn cost(way: Way, steps: &[Step], window: u64, prices: Prices) -> Result<Cost, String> {
    match way {
        Way::Becket { ttl, warm, idle_compaction, threshold } => {
            let run =
                becket::run(steps, window, prices, threshold, &Plan::Own { ttl, warm, idle_compaction })?;
            Ok(Cost::of(&run, by_rule(&run.requests, &prices, ttl, warm)))
        }
        Way::Other(rules, lifetime) => {
            let run = rules::run(rules, steps, window);
            Ok(Cost::of(&run, by_rule(&run.requests, &prices, CacheTtl::Fixed(lifetime), CacheWarm::Off)))
        }
    }
}

/// becket's own session with single decisions replaced, to tell the causes of a difference apart: name, and cost.
pub(crate) fn parts(steps: &[Step], window: u64, prices: Prices) -> Result<Vec<(String, Cost)>, String> {
    let pauses = steps.iter().filter(|step| step.gap > 300).count();
    let plan = |warm| Plan::Own { ttl: CacheTtl::Auto, warm, idle_compaction: false };
    let auto = |run: &Run, warm| Cost::of(run, by_rule(&run.requests, &prices, CacheTtl::Auto, warm));
    let mut out = Vec::new();
    for (name, warm) in [
        ("own", CacheWarm::Auto),
        ("own, not warmed", CacheWarm::Off),
        ("own, always warmed", CacheWarm::Idle),
    ] {
        let run = becket::run(steps, window, prices, 0.9, &plan(warm))?;
        out.push((name.to_owned(), auto(&run, warm)));
        out.push((format!("{name}, best lifetimes"), Cost::of(&run, in_hindsight(&run.requests, &prices))));
    }
    for decision in [AtPause::Nothing, AtPause::Prune, AtPause::Compact] {
        let run = becket::run(steps, window, prices, 0.9, &Plan::Given(vec![decision; pauses]))?;
        out.push((format!("{decision:?} at each pause"), auto(&run, CacheWarm::Auto)));
        out.push((
            format!("{decision:?}, best lifetimes"),
            Cost::of(&run, in_hindsight(&run.requests, &prices)),
        ));
    }
    Ok(out)
}

/// Looks for the best decisions with the whole session known: each threshold with one decision at all pauses, every
/// combination of decisions if there are few pauses or `groups` of them, otherwise the best one with single pauses changed, one
/// after the other. The lifetimes and the warming requests of each are the optimum.
fn best(
    steps: &[Step],
    window: u64,
    prices: Prices,
    own: Cost,
    groups: Option<u32>,
) -> Result<Vec<Cost>, String> {
    const DECISIONS: [AtPause; 3] = [AtPause::Nothing, AtPause::Prune, AtPause::Compact];
    const FEW: u32 = 4;
    let pauses = steps.iter().filter(|step| step.gap > 300).count();
    let with = |threshold: f64, plan: Vec<AtPause>| -> Result<Cost, String> {
        let run = becket::run(steps, window, prices, threshold, &Plan::Given(plan))?;
        Ok(Cost::of(&run, in_hindsight(&run.requests, &prices)))
    };
    let mut found = vec![own];
    for threshold in [0.2, 0.3, 0.5, 0.7] {
        for decision in DECISIONS {
            found.push(with(threshold, vec![decision; pauses])?);
        }
    }
    let groups = if pauses <= FEW as usize { Some(pauses as u32) } else { groups };
    if let Some(groups) = groups {
        for number in 0..3usize.pow(groups) {
            let decision =
                |n: usize| DECISIONS[number / 3usize.pow((n * groups as usize / pauses) as u32) % 3];
            found.push(with(0.9, (0..pauses).map(decision).collect())?);
        }
        return Ok(found);
    }
    for decision in DECISIONS {
        let mut plan = vec![decision; pauses];
        let mut least = with(0.9, plan.clone())?;
        found.push(least);
        for at in 0..pauses {
            for other in DECISIONS.into_iter().filter(|other| *other != decision) {
                let before = std::mem::replace(&mut plan[at], other);
                let cost = with(0.9, plan.clone())?;
                found.push(cost);
                if cost.usd < least.usd {
                    least = cost;
                } else {
                    plan[at] = before;
                }
            }
        }
    }
    Ok(found)
}
