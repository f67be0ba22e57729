//! Usage, list price and time of a turn and of a run, and their limits.
//!
//! Money and tokens are limited for a session, including summaries and subagents, and time for a turn. The usage of an
//! agent and its subagents is counted in one place ([`Account`]), so that they share the limits.
//!
//! Before a request is sent, its estimated input and its output limit are reserved. A request that does not fit gets a
//! lower output limit, or is not sent. So the limits are exceeded by the error of the estimate at most.

use crate::host::lock;
use crate::settings::{NewLimits, RunLimits};
use becket_model::ModelInfo;
use becket_session::context::cache::write_price;
use becket_types::{
    AnswerText, CacheLifetime, Cost, Limit, Millis, ModelUsage, PermissionDenial, TurnEnd, Usage,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Name of the session state that holds what is used of the limits.
pub(crate) const SPENT: &str = "spent";
/// An answer with less room than this, in tokens, is not worth its request.
const LEAST_OUTPUT: u64 = 1_024;
/// Share of a limit at which a warning is given.
const WARN_AT: f64 = 0.8;

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
    /// Of the conversation's own requests, without those beside it.
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
    pub(crate) models: Vec<ModelUsage>,
    pub(crate) denials: Vec<PermissionDenial>,
    pub(crate) compactions: u64,
    pub(crate) steps: u64,
    /// Text of the last assistant message that had text.
    pub(crate) text: AnswerText,
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
            text: AnswerText::default(),
            text_goes_on: false,
            stop_reason: None,
            out_of_time: false,
        }
    }

    /// Starts a turn. Usage since the previous turn stays in the sums.
    pub(crate) fn begin(&mut self) {
        (self.started, self.api, self.compactions) = (Instant::now(), Duration::ZERO, 0);
    }

    /// Adds one request of the conversation.
    pub(crate) fn add_own(&mut self, used: ModelUsage) {
        self.usage += used.usage;
        self.add(used);
    }

    /// Adds requests beside the conversation.
    pub(crate) fn add(&mut self, used: ModelUsage) {
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
        if limits.is_below() {
            return;
        }
        let mut account = lock(&limits.account);
        for used in std::mem::take(&mut account.by_subagents) {
            self.add(used);
        }
        self.denials.append(&mut account.denials);
    }

    /// Records the text of an answer. If it continues a cut answer, it is appended.
    pub(crate) fn say(&mut self, text: AnswerText, cut: bool) {
        if text.is_empty() {
            return;
        }
        if self.text_goes_on {
            self.text.append("", text);
        } else {
            self.text = text;
        }
        self.text_goes_on = cut;
    }
}

/// The most that one request may use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Need {
    pub(crate) usd: f64,
    pub(crate) tokens: u64,
}

/// The expected cost of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestCost {
    pub(crate) input: Need,
    /// US dollars for a token of output.
    pub(crate) output_price: f64,
}

impl RequestCost {
    /// `read`: tokens of input. `cached`: input tokens that the provider probably has in its cache.
    /// `lifetime`: lifetime of the cache into which the other input tokens are written.
    pub(crate) fn estimate(info: &ModelInfo, read: u64, cached: u64, lifetime: CacheLifetime) -> Self {
        let prices = info.prices.unwrap_or_default();
        let cached = cached.min(read);
        let fresh = write_price(&prices, lifetime);
        let usd = ((read - cached) as f64 * fresh + cached as f64 * prices.cache_read) / 1_000_000.0;
        Self { input: Need { usd, tokens: read }, output_price: prices.output / 1_000_000.0 }
    }

    /// Returns the need of the request if its answer has `output` tokens.
    pub(crate) fn need(&self, output: u64) -> Need {
        Need {
            usd: self.input.usd + output as f64 * self.output_price,
            tokens: self.input.tokens.saturating_add(output),
        }
    }
}

/// The limits of a run, its usage so far, and what its open requests may still use.
#[derive(Debug, Default)]
struct Account {
    most: RunLimits,
    cost: Cost,
    tokens: u64,
    reserved: Need,
    /// Limits in money, tokens and time whose warning was given.
    warned: [bool; 3],
    warned_of_price: bool,
    /// The part used by subagents, until their agent's turn adds it to its own sum.
    by_subagents: Vec<ModelUsage>,
    /// The part used by questions of hooks to models, until the session records it.
    by_hooks: Vec<ModelUsage>,
    /// Calls of subagents that were denied, until the agent's turn adds them.
    denials: Vec<PermissionDenial>,
}

/// The part that somebody has in a session, who shares its account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Share {
    #[default]
    Session,
    /// Its usage is reported to the agent above it.
    Subagent,
    /// A question of a hook to a model. The session records its usage.
    Hook,
}

/// The account that an agent shares with its subagents and its hooks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    account: Arc<Mutex<Account>>,
    share: Share,
}

/// The share of the limits that an open request holds. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    account: Arc<Mutex<Account>>,
    need: Need,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let reserved = &mut lock(&self.account).reserved;
        reserved.usd -= self.need.usd;
        reserved.tokens = reserved.tokens.saturating_sub(self.need.tokens);
    }
}

impl Limits {
    pub(crate) fn new(most: RunLimits) -> Self {
        let account = Account { most, ..Account::default() };
        Self { account: Arc::new(Mutex::new(account)), share: Share::Session }
    }

    /// Makes the limits of a subagent: the same account. The agent above watches the time.
    pub(crate) fn for_subagent(&self) -> Self {
        Self { share: Share::Subagent, ..self.clone() }
    }

    /// Makes the limits of a question of a hook: the same account.
    pub(crate) fn of_hook(&self) -> Self {
        Self { share: Share::Hook, ..self.clone() }
    }

    /// True for those who are not the session itself.
    fn is_below(&self) -> bool {
        self.share != Share::Session
    }

    /// Time limit of a turn.
    pub(crate) fn max_wall(&self) -> Option<Duration> {
        if self.is_below() { None } else { lock(&self.account).most.max_wall }
    }

    /// True if requests must be estimated before they are sent.
    pub(crate) fn are_counted(&self) -> bool {
        let most = lock(&self.account).most;
        most.max_usd.is_some() || most.max_tokens.is_some()
    }

    /// Returns a warning the first time that a limit in money does not count a model.
    pub(crate) fn unpriced(&self, info: &ModelInfo) -> Option<String> {
        let mut account = lock(&self.account);
        let usd = account.most.max_usd.filter(|_| info.prices.is_none() && !self.is_below())?;
        let text = format!(
            "{} has no list price. Its requests count towards the limit of ${usd:.2} only if the provider reports their cost.",
            info.id
        );
        (!std::mem::replace(&mut account.warned_of_price, true)).then_some(text)
    }

    pub(crate) fn set(&self, change: Limit) {
        let mut account = lock(&self.account);
        match change {
            Limit::Usd(most) => (account.most.max_usd, account.warned[0]) = (most, false),
            Limit::Tokens(most) => (account.most.max_tokens, account.warned[1]) = (most, false),
            Limit::Turns(most) => account.most.max_turns = most,
            Limit::Wall(most) => {
                account.most.max_wall = most.map(|Millis(ms)| Duration::from_millis(ms));
                account.warned[2] = false;
            }
        }
    }

    /// All limits and what is used of them, for people.
    pub(crate) fn describe(&self) -> String {
        let account = lock(&self.account);
        let of = |used: String, most: Option<String>| match most {
            Some(most) => format!("{used} of {most}"),
            None => format!("{used}, no limit"),
        };
        let RunLimits { max_turns, max_usd, max_tokens, max_wall } = account.most;
        let any = |limit: Option<String>| limit.unwrap_or_else(|| "no limit".to_owned());
        format!(
            "Money: {}. Tokens: {}. Requests of a turn: {}. Time of a turn: {}.",
            of(format!("${:.4}", account.cost.0), max_usd.map(|usd| format!("${usd:.4}"))),
            of(account.tokens.to_string(), max_tokens.map(|tokens| tokens.to_string())),
            any(max_turns.map(|n| format!("at most {n}"))),
            any(max_wall.map(|wall| format!("at most {} s", wall.as_secs()))),
        )
    }

    /// Returns the usage so far, for the session's ledger; `None` if no limit counts it.
    pub(crate) fn to_state(&self) -> Option<Value> {
        if self.is_below() || !self.are_counted() {
            return None;
        }
        let account = lock(&self.account);
        Some(json!({ "usd": account.cost.0, "tokens": account.tokens }))
    }

    /// Adds the usage of earlier processes to the limits that were not set for this run alone.
    pub(crate) fn recall(&self, kept: &Value, new_limits: NewLimits) {
        let mut account = lock(&self.account);
        if !new_limits.usd {
            account.cost += Cost(kept["usd"].as_f64().unwrap_or_default());
        }
        if !new_limits.tokens {
            account.tokens = account.tokens.saturating_add(kept["tokens"].as_u64().unwrap_or_default());
        }
    }

    pub(crate) fn add(&self, used: ModelUsage) {
        let mut account = lock(&self.account);
        account.cost += used.cost;
        account.tokens = account.tokens.saturating_add(used.usage.total().0);
        match self.share {
            Share::Session => {}
            Share::Subagent => account.by_subagents.push(used),
            Share::Hook => account.by_hooks.push(used),
        }
    }

    /// Takes what hooks have used since the last call, for the session's record. The limits have counted it already.
    pub(crate) fn take_from_hooks(&self) -> Vec<ModelUsage> {
        if self.is_below() { Vec::new() } else { std::mem::take(&mut lock(&self.account).by_hooks) }
    }

    pub(crate) fn denied(&self, denial: &PermissionDenial) {
        if self.share == Share::Subagent {
            lock(&self.account).denials.push(denial.clone());
        }
    }

    /// Returns the end of the turn if a limit is reached.
    pub(crate) fn over(&self, turn_time: Duration) -> Option<TurnEnd> {
        let (most, cost, tokens) = {
            let account = lock(&self.account);
            (account.most, account.cost.0, account.tokens)
        };
        if let Some(max) = most.max_usd
            && cost >= max
        {
            return Some(TurnEnd::Budget { what: format!("spent ${cost:.4} of ${max:.4}") });
        }
        if let Some(max) = most.max_tokens
            && tokens >= max
        {
            return Some(TurnEnd::TokenLimit { what: format!("used {tokens} of {max} tokens") });
        }
        match self.max_wall() {
            Some(max) if turn_time >= max => Some(TurnEnd::TimeLimit { what: over_time(max) }),
            _ => None,
        }
    }

    /// Returns a warning the first time that a limit is used up to 80 %.
    pub(crate) fn warning(&self, turn_time: Duration) -> Option<String> {
        if self.is_below() {
            return None;
        }
        let mut account = lock(&self.account);
        let RunLimits { max_usd, max_tokens, max_wall, .. } = account.most;
        let (cost, tokens) = (account.cost.0, account.tokens);
        let used = [
            max_usd.map(|max| (cost / max, format!("${cost:.4} of ${max:.4}"))),
            max_tokens.map(|max| (tokens as f64 / max as f64, format!("{tokens} of {max} tokens"))),
            max_wall.map(|max| {
                let share = turn_time.as_secs_f64() / max.as_secs_f64();
                (share, format!("{} of {} s for this turn", turn_time.as_secs(), max.as_secs()))
            }),
        ];
        let mut due = Vec::new();
        for (warned, used) in account.warned.iter_mut().zip(used) {
            let Some((share, text)) = used else { continue };
            // A new turn starts with a low share of the time limit, so its warning may be given again.
            if share < WARN_AT {
                *warned = false;
            } else if !std::mem::replace(warned, true) {
                due.push(text);
            }
        }
        (!due.is_empty()).then(|| format!("More than 80 % of a limit is used: {}.", due.join(", ")))
    }

    /// Returns the output limit for a request that reads `input` and wants to write `want` tokens at `price` dollars
    /// each. It may be lower than `want`.
    ///
    /// # Errors
    ///
    /// Returns the end of the turn if the limits leave no room for a useful answer.
    pub(crate) fn room(&self, input: Need, price: f64, want: u64) -> Result<u64, TurnEnd> {
        let account = lock(&self.account);
        let least = want.min(LEAST_OUTPUT);
        let (cost, tokens, reserved) = (account.cost.0, account.tokens, account.reserved);
        let mut most = want;
        if let Some(max) = account.most.max_usd {
            let left = max - cost - reserved.usd - input.usd;
            if price > 0.0 {
                most = most.min((left / price).max(0.0) as u64);
            }
            if left < 0.0 || most < least {
                let next = input.usd + least as f64 * price;
                let what = format!("spent ${cost:.4} of ${max:.4}; the next request may cost ${next:.4}");
                return Err(TurnEnd::Budget { what });
            }
        }
        if let Some(max) = account.most.max_tokens {
            let used = tokens.saturating_add(reserved.tokens).saturating_add(input.tokens);
            most = most.min(max.saturating_sub(used));
            if most < least {
                let next = input.tokens.saturating_add(least);
                let what = format!("used {tokens} of {max} tokens; the next request may need {next}");
                return Err(TurnEnd::TokenLimit { what });
            }
        }
        Ok(most)
    }

    /// Holds a share of the limits while a request is open, so that agents that run side by side stay within them
    /// together.
    pub(crate) fn reserve(&self, need: Need) -> Reservation {
        let mut account = lock(&self.account);
        account.reserved.usd += need.usd;
        account.reserved.tokens = account.reserved.tokens.saturating_add(need.tokens);
        Reservation { account: Arc::clone(&self.account), need }
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

    fn limits(max_usd: Option<f64>, max_tokens: Option<u64>, max_wall: Option<Duration>) -> Limits {
        Limits::new(RunLimits { max_turns: None, max_usd, max_tokens, max_wall })
    }

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
            let limits = limits(max_usd, max_tokens, max_wall);
            // A subagent's usage counts like the agent's own.
            let below = limits.for_subagent();
            for (limits, cost) in [(&limits, 0.2), (&below, 0.3)] {
                let usage = Usage { input: usage.input / 2, output: usage.output / 2, ..Usage::default() };
                limits.add(spent(usage, cost));
            }
            assert_eq!(limits.over(second), want);
            assert_eq!(below.over(Duration::ZERO), limits.over(Duration::ZERO));
        }
    }

    /// Open requests of several agents together never reserve more than a limit.
    #[test]
    fn a_request_gets_the_room_that_open_ones_leave() {
        let limits = limits(Some(1.0), Some(100_000), None);
        let price = 1.0 / 100_000.0;
        let input = Need { usd: 0.1, tokens: 10_000 };
        assert_eq!(limits.room(input, price, 32_000), Ok(32_000));
        let first = limits.reserve(Need { usd: 0.42, tokens: 42_000 });
        assert_eq!(
            limits.for_subagent().room(input, price, 64_000),
            Ok(48_000),
            "0.48 dollars, 48,000 tokens are left"
        );
        let second = limits.for_subagent().reserve(Need { usd: 0.47, tokens: 47_000 });
        let end = limits.room(input, price, 64_000).unwrap_err();
        assert_eq!(
            end,
            TurnEnd::Budget {
                what: "spent $0.0000 of $1.0000; the next request may cost $0.1102".to_owned()
            }
        );
        drop((first, second));
        assert_eq!(limits.room(input, price, 90_000), Ok(90_000));
        limits.set(Limit::Usd(None));
        limits.add(spent(Usage { input: 89_500, ..Usage::default() }, 0.0));
        let end = limits.room(input, price, 64_000).unwrap_err();
        let what = "used 89500 of 100000 tokens; the next request may need 11024".to_owned();
        assert_eq!(end, TurnEnd::TokenLimit { what });
        limits.set(Limit::Tokens(Some(1_000_000)));
        assert_eq!(limits.room(input, price, 64_000), Ok(64_000));
        // An answer that is short anyway needs no more room than that.
        limits.set(Limit::Tokens(Some(99_600)));
        assert_eq!(limits.room(input, price, 100), Ok(100));
    }

    #[test]
    fn a_warning_comes_once_for_each_limit_and_again_after_a_change() {
        let second = Duration::from_secs(1);
        let limits = limits(Some(1.0), Some(1_000), Some(10 * second));
        assert_eq!(limits.warning(second), None);
        limits.add(spent(Usage { input: 900, ..Usage::default() }, 0.5));
        assert_eq!(limits.for_subagent().warning(second), None);
        let text = "More than 80 % of a limit is used: 900 of 1000 tokens.";
        assert_eq!(limits.warning(second).as_deref(), Some(text));
        assert_eq!(limits.warning(second), None);
        limits.add(spent(Usage::default(), 0.3));
        let text = "More than 80 % of a limit is used: $0.8000 of $1.0000, 8 of 10 s for this turn.";
        assert_eq!(limits.warning(8 * second).as_deref(), Some(text));
        limits.set(Limit::Usd(Some(0.9)));
        assert!(limits.warning(8 * second).is_some_and(|text| text.contains("of $0.9000")));
    }

    #[test]
    fn usage_goes_on_after_a_resume_unless_the_limit_is_new() {
        let before = limits(Some(1.0), None, None);
        before.add(spent(Usage { input: 700, ..Usage::default() }, 0.25));
        let kept = before.to_state().unwrap();
        for (new_limits, want) in [
            (NewLimits::default(), "Money: $0.2500 of $2.0000. Tokens: 700, no limit."),
            (NewLimits { usd: true, tokens: false }, "Money: $0.0000 of $2.0000. Tokens: 700, no limit."),
        ] {
            let after = limits(Some(2.0), None, None);
            after.recall(&kept, new_limits);
            assert!(after.describe().starts_with(want), "{}", after.describe());
        }
        assert_eq!(limits(None, None, None).to_state(), None);
    }

    fn spent(usage: Usage, cost: f64) -> ModelUsage {
        ModelUsage { model: "p/m".to_owned(), usage, cost: Cost(cost), context_window: 1, max_output: 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_takes_in_once_what_its_subagents_used() {
        let limits = limits(None, None, None);
        let usage = Usage { input: 10, ..Usage::default() };
        limits.add(spent(usage, 1.0));
        limits.for_subagent().add(spent(usage, 0.25));
        limits.for_subagent().add(spent(usage, 0.25));
        limits.of_hook().add(spent(usage, 0.125));
        assert_eq!(limits.take_from_hooks(), [spent(usage, 0.125)]);
        assert!(limits.take_from_hooks().is_empty() && limits.describe().starts_with("Money: $1.6250"));
        let mut sum = TurnSum::new();
        for _ in 0..2 {
            sum.take_in_subagents(&limits);
            assert_eq!((sum.models[0].usage.input, sum.cost, sum.models.len()), (20, Cost(0.5), 1));
            assert!(sum.usage.is_empty(), "only the turn's own requests count here");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_answer_and_its_continuation_are_one_text() {
        let mut sum = TurnSum::new();
        sum.say("first".into(), false);
        sum.say("second, cu".into(), true);
        sum.say("t".into(), false);
        assert_eq!(sum.text, "second, cut");
        sum.say("".into(), false);
        sum.say("last".into(), false);
        assert_eq!(sum.text, "last");
    }
}
