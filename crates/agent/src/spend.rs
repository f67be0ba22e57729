//! What a turn and a run have used: usage, list price and time, and the limits on them.
//!
//! Model: money and tokens are limited per run of the agent (summaries included), time per turn. A limit is looked at
//! before each request, so the last answer may overshoot it.

use becket_model::ModelInfo;
use becket_types::{Cost, Millis, ModelUsage, PermissionDenial, Usage};
use std::time::Duration;
use tokio::time::Instant;

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
    /// Text of the last assistant message that had any.
    pub(crate) text: String,
    /// The last answer was cut by the output limit: what comes next belongs to the same text.
    pub(crate) text_goes_on: bool,
    pub(crate) stop_reason: Option<String>,
    /// The time limit ended the turn, not the user.
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

    /// The turn begins. What was used since the last one stays in the sums.
    pub(crate) fn begin(&mut self) {
        (self.started, self.api, self.compactions) = (Instant::now(), Duration::ZERO, 0);
    }

    pub(crate) fn add(&mut self, info: &ModelInfo, window: u64, usage: Usage) -> Cost {
        let cost = info.prices.map_or(Cost::default(), |prices| prices.cost(&usage));
        self.usage += usage;
        self.cost += cost;
        let known = self.models.iter().position(|m| m.model == info.id);
        let at = known.unwrap_or_else(|| {
            self.models.push(ModelUsage {
                model: info.id.clone(),
                usage: Usage::default(),
                cost: Cost::default(),
                context_window: window,
                max_output: info.max_output,
            });
            self.models.len() - 1
        });
        if let Some(model) = self.models.get_mut(at) {
            model.usage += usage;
            model.cost += cost;
        }
        cost
    }

    /// The text of an answer; an answer that continues a cut one is joined to it.
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

/// The sums of a run, and what they may be.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) max_usd: Option<f64>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) max_wall: Option<Duration>,
    pub(crate) spent: Cost,
    pub(crate) tokens: u64,
}

impl Limits {
    pub(crate) fn add(&mut self, usage: &Usage, cost: Cost) {
        self.spent += cost;
        self.tokens = self.tokens.saturating_add(usage.total().0);
    }

    /// Which limit is used up, for people.
    pub(crate) fn over(&self, turn_time: Duration) -> Option<String> {
        if let Some(max) = self.max_usd
            && self.spent.0 >= max
        {
            return Some(format!("spent ${:.4} of ${max:.4}", self.spent.0));
        }
        if let Some(max) = self.max_tokens
            && self.tokens >= max
        {
            return Some(format!("used {} of {max} tokens", self.tokens));
        }
        match self.max_wall {
            Some(max) if turn_time >= max => Some(over_time(max)),
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
            (Some(0.5), None, None, Some("spent $0.5000 of $0.5000")),
            (None, Some(1_000), None, Some("used 1000 of 1000 tokens")),
            (None, None, Some(second), Some("the time limit of 1 s is over")),
        ] {
            let mut limits = Limits { max_usd, max_tokens, max_wall, ..Limits::default() };
            limits.add(&usage, Cost(0.5));
            assert_eq!(limits.over(second).as_deref(), want);
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
