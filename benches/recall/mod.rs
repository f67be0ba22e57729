//! Planted facts that are left after compactions, and the cost of a session, by engine: the programme and its tables.
//!
//! Run as `cargo run -p becket-session --example recall`, and in small by the test `recall_bench`.

pub(crate) mod becket;
pub(crate) mod engines;
pub(crate) mod language;
pub(crate) mod plain;
pub(crate) mod spent;
pub(crate) mod summariser;
pub(crate) mod task;

use engines::{ENGINES, Engine, Left, cost, run};
use serde_json::{Value, json};
use summariser::Summariser;
use task::Kind;

/// Result of one engine with one summariser after `compactions` compactions, over all tasks. Shares are in percent.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) compactions: usize,
    /// Share of the facts that are in the context, and of those that are there or in the results of one search.
    pub(crate) present: f64,
    pub(crate) reachable: f64,
    pub(crate) plan: f64,
    /// Commands that would be run a second time, over all tasks.
    pub(crate) repeated: u64,
    pub(crate) per_hundred: f64,
    /// Share of the usable window that a request fills, on average.
    pub(crate) used: f64,
    /// Share of the results of which the next request showed the model at least a line.
    pub(crate) seen: f64,
    /// Kinds of the facts that are neither in the context nor found.
    pub(crate) lost: Vec<Kind>,
}

impl Row {
    fn of(compactions: usize, left: &[Left]) -> Self {
        let facts = |of: fn(&Left) -> &Vec<bool>| share(left.iter().flat_map(|one| of(one).iter().copied()));
        let sum = |of: fn(&Left) -> f64| left.iter().map(of).sum::<f64>();
        let steps = sum(|left| left.spent.steps as f64).max(1.0);
        Self {
            compactions,
            present: facts(|left| &left.present),
            reachable: facts(|left| &left.reachable),
            plan: share(left.iter().map(|one| one.plan)),
            repeated: left.iter().map(|one| one.repeated).sum(),
            per_hundred: 100.0 * sum(|left| left.spent.compactions as f64) / steps,
            used: 100.0 * sum(|left| left.spent.share) / steps,
            lost: left.iter().flat_map(|one| one.lost.iter().copied()).collect(),
            seen: 100.0 * sum(|left| left.spent.shown as f64) / sum(|left| left.spent.due as f64).max(1.0),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let Self { compactions, present, reachable, plan, repeated, per_hundred, used, seen, lost } = self;
        let lost: Vec<String> = lost.iter().map(|kind| format!("{kind:?}")).collect();
        json!({
            "compactions": compactions, "present": present, "reachable": reachable, "plan": plan, "repeated": repeated,
            "per_hundred_steps": per_hundred, "window_used": used, "seen": seen, "lost": lost,
        })
    }
}

/// Runs these tasks with one engine and one summariser. Returns a row for each number of compactions. A task's number also
/// decides its language.
pub(crate) fn table(
    engine: Engine,
    tasks: &[u64],
    compactions: &[usize],
    window: u64,
    summariser: &Summariser,
) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for compactions in compactions.iter().copied() {
        let left: Result<Vec<Left>, String> =
            tasks.iter().map(|number| run(engine, *number, compactions, window, summariser)).collect();
        rows.push(Row::of(compactions, &left?));
    }
    Ok(rows)
}

/// A policy, what tasks cost under it, and how much of what the model needed was in its context.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    pub(crate) policy: String,
    /// Average cost of a task, in input tokens at list price (see [`spent`]).
    pub(crate) tokens: f64,
    /// Percentage of the needed facts and outputs that were in the context.
    pub(crate) met: f64,
}

/// Prices tasks of eight windows under each policy: the engines, and becket under a grid of thresholds and tails. The first
/// is becket as it is.
pub(crate) fn costs(tasks: &[u64], window: u64, summariser: &Summariser) -> Result<Vec<Cost>, String> {
    const WINDOWS: usize = 8;
    let mut policies: Vec<(String, Engine)> =
        ENGINES.iter().map(|(engine, name)| ((*name).to_owned(), *engine)).collect();
    for threshold in [0.50, 0.60, 0.70, 0.80, 0.95] {
        for tail in [None, Some(0.10), Some(0.30)] {
            let name = match tail {
                None => format!("becket at {threshold}"),
                Some(tail) => format!("becket at {threshold}, tail {tail}"),
            };
            policies.push((name, Engine::Tuned { threshold, tail }));
        }
    }
    let mut costs = Vec::new();
    for (policy, engine) in policies {
        let (mut tokens, mut needs, mut met) = (0.0, 0, 0);
        for number in tasks {
            let spent = cost(engine, *number, WINDOWS, window, summariser)
                .map_err(|error| format!("{policy}: {error}"))?;
            tokens += spent.tokens / tasks.len() as f64;
            (needs, met) = (needs + spent.needs, met + spent.met);
        }
        costs.push(Cost { policy, tokens, met: 100.0 * met as f64 / needs.max(1) as f64 });
    }
    Ok(costs)
}

fn share(of: impl Iterator<Item = bool>) -> f64 {
    let (kept, all) = of.fold((0u32, 0u32), |(kept, all), one| (kept + u32::from(one), all + 1));
    100.0 * f64::from(kept) / f64::from(all.max(1))
}
