//! Holds the usage of a run: the limits that all share, the sums of the turn, and the usage of hooks.

use crate::spend::{Limits, TurnSum};
use becket_types::{Cost, EntryKind, ModelUsage};

/// The limits of the run, and what the turn has used of them.
pub(crate) struct Spending {
    pub(crate) limits: Limits,
    pub(crate) turn: TurnSum,
    /// Usage of hooks that the ledger does not have yet.
    pub(crate) of_hooks: Vec<ModelUsage>,
    pub(crate) in_turn: bool,
}

impl Spending {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, turn: TurnSum::new(), of_hooks: Vec::new(), in_turn: false }
    }

    /// Adds what hooks have used to the sums of the turn. Returns the entries for it if the ledger takes entries already.
    pub(crate) fn take_from_hooks(&mut self, recorded: bool) -> Vec<EntryKind> {
        for used in self.limits.take_from_hooks() {
            self.turn.add(used.clone());
            self.of_hooks.push(used);
        }
        let ready = if recorded { std::mem::take(&mut self.of_hooks) } else { Vec::new() };
        let entry = |ModelUsage { model, usage, cost: Cost(cost_usd), .. }| EntryKind::Usage {
            message: None,
            model,
            usage,
            cost_usd,
            purpose: "hook".to_owned(),
        };
        ready.into_iter().map(entry).collect()
    }
}
