//! What is left of planted facts after compactions, by engine and summariser: the programme and its table.
//!
//! Run as `cargo run -p becket-session --example recall`, and in small by the test `recall_bench`.

pub(crate) mod engines;
pub(crate) mod summariser;
pub(crate) mod task;

use engines::{Engine, Left, run};
use summariser::Summariser;
use task::Task;

/// What one engine keeps with one summariser after so many compactions, over all tasks. Shares are in percent.
pub(crate) struct Row {
    pub(crate) present: f64,
    pub(crate) reachable: f64,
    pub(crate) vaguely: f64,
    pub(crate) plan: f64,
    /// Of the context, on average.
    pub(crate) tokens: u64,
}

/// One engine with one summariser: a row for each number of compactions.
pub(crate) fn table(
    engine: Engine,
    tasks: u64,
    compactions: &[usize],
    window: u64,
    summariser: &Summariser,
) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for compactions in compactions.iter().copied() {
        let left: Vec<Left> = (0..tasks)
            .map(|number| run(engine, number, &Task::new(number, compactions, window), window, summariser))
            .collect::<Result<_, _>>()?;
        let facts = |of: fn(&Left) -> &Vec<bool>| share(left.iter().flat_map(|one| of(one).iter().copied()));
        rows.push(Row {
            present: facts(|left| &left.present),
            reachable: facts(|left| &left.reachable),
            vaguely: facts(|left| &left.vaguely),
            plan: share(left.iter().map(|one| one.plan)),
            tokens: left.iter().map(|one| one.tokens).sum::<u64>() / tasks.max(1),
        });
    }
    Ok(rows)
}

fn share(of: impl Iterator<Item = bool>) -> f64 {
    let (kept, all) = of.fold((0u32, 0u32), |(kept, all), one| (kept + u32::from(one), all + 1));
    100.0 * f64::from(kept) / f64::from(all.max(1))
}
