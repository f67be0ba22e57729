//! Usage, list price and time of a turn and of a run, and their limits.
//!
//! Money and tokens are limited per run of the agent, including summaries and subagents; time is limited per
//! turn. Limits are checked before each request, so the last answer may exceed them. The usage of an agent
//! and its subagents is counted in one place ([`Spent`]), so that they share the limits.

use crate::host::lock;
use becket_model::ModelInfo;
use becket_types::{Cost, Millis, ModelUsage, PermissionDenial, TurnEnd, Usage};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Returns the usage of one answer of this model: as its provider billed it, otherwise at list price.
pub(crate) fn used(info: &ModelInfo, window: u64, usage: Usage) -> ModelUsage {
    ModelUsage {
        model: info.id.clone(),
        usage,
        cost: usage
            .billed_cost()
            .unwrap_or_else(|| info.prices.map_or(Cost::default(), |prices| prices.cost(&usage))),
        context_window: window,
        max_output: info.max_output,
    }
}

/// The sums of one turn.
#[derive(Debug)]
pub(crate) struct TurnSum {
    pub(crate) started: Instant,
    pub(crate) api: Duration,
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
    pub(crate) models: Vec<ModelUsage>,
    pub(crate) denials: Vec<PermissionDenial>,
    pub(crate) compactions: u64,
    pub(crate) steps: u64,
    /// Text of the last assistant message that had text.
    pub(crate) text: String,
    /// True if the output limit cut the last answer, so the next text continues it.
    pub(crate) text_goes_on: bool,
    pub(crate) stop_reason: Option<String>,
    /// True if the time limit, not the user, interrupted the turn.
    pub(crate) out_of_time: bool,
}

impl TurnSum {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            api: Duration::ZERO,
            usage: Usage::default(),
            cost: Cost::default(),
            models: Vec::new(),
            denials: Vec::new(),
            compactions: 0,
            steps: 0,
            text: String::new(),
            text_goes_on: false,
            stop_reason: None,
            out_of_time: false,
        }
    }

    /// Starts a turn. Usage since the previous turn stays in the sums.
    pub(crate) fn begin(&mut self) {
        (self.started, self.api, self.compactions) = (Instant::now(), Duration::ZERO, 0);
    }

    pub(crate) fn add(&mut self, used: ModelUsage) {
        self.usage += used.usage;
        self.cost += used.cost;
        match self.models.iter_mut().find(|m| m.model == used.model) {
            Some(model) => {
                model.usage += used.usage;
                model.cost += used.cost;
            }
            None => self.models.push(used),
        }
    }

    /// Adds the usage and the denials of subagents.
    pub(crate) fn take_in_subagents(&mut self, limits: &Limits) {
        if limits.is_below {
            return;
        }
        let mut spent = lock(&limits.spent);
        for used in std::mem::take(&mut spent.by_subagents) {
            self.add(used);
        }
        self.denials.append(&mut spent.denials);
    }

    /// Records the text of an answer. If it continues a cut answer, it is appended.
    pub(crate) fn say(&mut self, text: String, cut: bool) {
        if text.is_empty() {
            return;
        }
        if self.text_goes_on {
            self.text.push_str(&text);
        } else {
            self.text = text;
        }
        self.text_goes_on = cut;
    }
}

/// The usage of an agent and its subagents together.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    cost: Cost,
    tokens: u64,
    /// The part used by subagents, until their agent's turn adds it to its own sum.
    by_subagents: Vec<ModelUsage>,
    /// Calls of subagents that were denied, until the agent's turn adds them.
    denials: Vec<PermissionDenial>,
}

/// The limits of a run, and the usage so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) max_usd: Option<f64>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) max_wall: Option<Duration>,
    spent: Arc<Mutex<Spent>>,
    /// True for a subagent. Its usage is reported to the agent above it.
    is_below: bool,
}

impl Limits {
    pub(crate) fn new(max_usd: Option<f64>, max_tokens: Option<u64>, max_wall: Option<Duration>) -> Self {
        Self { max_usd, max_tokens, max_wall, ..Self::default() }
    }

    /// Makes the limits of a subagent: the same limits on the same shared sum. The agent above watches the
    /// time.
    pub(crate) fn below(&self) -> Self {
        Self { max_wall: None, is_below: true, ..self.clone() }
    }

    pub(crate) fn add(&self, used: ModelUsage) {
        let mut spent = lock(&self.spent);
        spent.cost += used.cost;
        spent.tokens = spent.tokens.saturating_add(used.usage.total().0);
        if self.is_below {
            spent.by_subagents.push(used);
        }
    }

    pub(crate) fn denied(&self, denial: &PermissionDenial) {
        if self.is_below {
            lock(&self.spent).denials.push(denial.clone());
        }
    }

    /// Returns the end of the turn if a limit is reached.
    pub(crate) fn over(&self, turn_time: Duration) -> Option<TurnEnd> {
        let (cost, tokens) = {
            let spent = lock(&self.spent);
            (spent.cost.0, spent.tokens)
        };
        if let Some(max) = self.max_usd
            && cost >= max
        {
            return Some(TurnEnd::Budget { what: format!("spent ${cost:.4} of ${max:.4}") });
        }
        if let Some(max) = self.max_tokens
            && tokens >= max
        {
            return Some(TurnEnd::TokenLimit { what: format!("used {tokens} of {max} tokens") });
        }
        match self.max_wall {
            Some(max) if turn_time >= max => Some(TurnEnd::TimeLimit { what: over_time(max) }),
            _ => None,
        }
    }
}

pub(crate) fn over_time(max: Duration) -> String {
    format!("the time limit of {} s is over", max.as_secs())
}

pub(crate) fn millis(duration: Duration) -> Millis {
    Millis(duration.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_say_what_is_used_up() {
        let usage = Usage { input: 600, output: 400, ..Usage::default() };
        let second = Duration::from_secs(1);
        for (max_usd, max_tokens, max_wall, want) in [
            (None, None, None, None),
            (Some(0.6), Some(1_001), Some(2 * second), None),
            (Some(0.5), None, None, Some(TurnEnd::Budget { what: "spent $0.5000 of $0.5000".to_owned() })),
            (
                None,
                Some(1_000),
                None,
                Some(TurnEnd::TokenLimit { what: "used 1000 of 1000 tokens".to_owned() }),
            ),
            (
                None,
                None,
                Some(second),
                Some(TurnEnd::TimeLimit { what: "the time limit of 1 s is over".to_owned() }),
            ),
        ] {
            let limits = Limits::new(max_usd, max_tokens, max_wall);
            // A subagent's usage counts like the agent's own.
            let below = limits.below();
            for (limits, cost) in [(&limits, 0.2), (&below, 0.3)] {
                let usage = Usage { input: usage.input / 2, output: usage.output / 2, ..Usage::default() };
                limits.add(spent(usage, cost));
            }
            assert_eq!(limits.over(second), want);
            assert_eq!(below.over(Duration::ZERO), limits.over(Duration::ZERO));
        }
    }

    fn spent(usage: Usage, cost: f64) -> ModelUsage {
        ModelUsage { model: "p/m".to_owned(), usage, cost: Cost(cost), context_window: 1, max_output: 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_takes_in_once_what_its_subagents_used() {
        let limits = Limits::new(None, None, None);
        let usage = Usage { input: 10, ..Usage::default() };
        limits.add(spent(usage, 1.0));
        limits.below().add(spent(usage, 0.25));
        limits.below().add(spent(usage, 0.25));
        let mut sum = TurnSum::new();
        for _ in 0..2 {
            sum.take_in_subagents(&limits);
            assert_eq!((sum.usage.input, sum.cost, sum.models.len()), (20, Cost(0.5), 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_answer_and_its_continuation_are_one_text() {
        let mut sum = TurnSum::new();
        sum.say("first".to_owned(), false);
        sum.say("second, cu".to_owned(), true);
        sum.say("t".to_owned(), false);
        assert_eq!(sum.text, "second, cut");
        sum.say(String::new(), false);
        sum.say("last".to_owned(), false);
        assert_eq!(sum.text, "last");
    }
}
