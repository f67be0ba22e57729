//! Cost and usage of all turns of the process. A program that sends several messages reads them in the latest result.

use crate::shapes;
use becket_types::{Cost, ModelUsage, TurnResult};
use serde_json::{Value, json};

/// The sums so far.
#[derive(Debug, Default)]
pub(super) struct Totals {
    cost: Cost,
    models: Vec<ModelUsage>,
    /// Number of results written so far.
    results: u64,
    /// Messages of the program that wait for a turn.
    pub(super) queued: usize,
}

impl Totals {
    /// Adds a turn.
    pub(super) fn add(&mut self, result: &TurnResult) {
        self.cost += result.cost;
        for more in &result.models {
            match self.models.iter_mut().find(|known| known.model == more.model) {
                Some(known) => {
                    known.usage += more.usage;
                    known.cost += more.cost;
                    (known.context_window, known.max_output) = (more.context_window, more.max_output);
                }
                None => self.models.push(more.clone()),
            }
        }
    }

    /// Adds to a result its number, from 0, and the number of messages that wait.
    pub(super) fn number(&mut self, line: &mut Value) {
        line["queued_turn_count"] = json!(self.queued);
        line["result_index"] = json!(self.results);
        self.results += 1;
    }

    /// Writes the sums into a result.
    pub(super) fn stamp(&self, line: &mut Value) {
        line["total_cost_usd"] = json!(self.cost);
        line["modelUsage"] = shapes::model_usage(&self.models);
    }
}
