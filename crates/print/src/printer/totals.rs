//! Cost and usage of all turns of the process. A program that sends several messages reads them in the latest result.

use crate::shapes;
use becket_types::{Cost, ModelUsage, TurnResult};
use serde_json::{Value, json};

/// The sums so far.
#[derive(Debug, Default)]
pub(super) struct Totals {
    cost: Cost,
    models: Vec<ModelUsage>,
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

    /// Writes the sums into a result.
    pub(super) fn stamp(&self, line: &mut Value) {
        line["total_cost_usd"] = json!(self.cost);
        line["modelUsage"] = shapes::model_usage(&self.models);
    }
}
