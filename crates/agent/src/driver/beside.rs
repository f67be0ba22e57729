//! Usage of a request beside the conversation: a summary, a title, a side question, a question of a hook, or one that keeps the
//! cache warm.
//!
//! Owns the choice between the server's numbers and an estimate, as [`super::reply`] makes it for a turn's request. A request
//! that failed or was given up counts only what was reported, because nobody knows how far the server got. Also owns the
//! budget of hooks, whose questions the host sends.

use super::{Agent, AgentHandle, Parentage};
use crate::settings::AgentParts;
use crate::spend::{self, Limits, RequestCost, Reservation};
use becket_model::{ModelEvent, ModelInfo};
use becket_session::context::budget::{estimate_part, estimate_text};
use becket_types::{CacheLifetime, Tokens, TurnEnd, Usage};

/// Usage of one request so far.
#[derive(Debug)]
pub(super) struct BesideUsage {
    reported: Usage,
    /// The expected size of the request.
    expected: Tokens,
    /// Estimated tokens of the answer's complete parts.
    output: Tokens,
    has_ended: bool,
}

impl BesideUsage {
    /// `expected`: the estimated size of the request.
    pub(super) fn new(expected: Tokens) -> Self {
        Self { reported: Usage::default(), expected, output: Tokens(0), has_ended: false }
    }

    /// Takes note of an event of the answer.
    pub(super) fn note(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Usage(usage) => self.reported = *usage,
            ModelEvent::Part { part, .. } => self.output += estimate_part(part),
            ModelEvent::Finish(_) => self.has_ended = true,
            _ => {}
        }
    }

    /// Returns the usage that counts: as the server reported it, or an estimate if it reports none.
    pub(super) fn counted(&self) -> Usage {
        if self.has_ended { self.reported.or_estimate(self.expected, self.output) } else { self.reported }
    }

    /// True if the server said that it read something from its cache.
    pub(super) fn was_cached(&self) -> bool {
        self.reported.cache_read > 0
    }
}

/// The limits of a session for the questions that its hooks ask models. The session counts and records what they use.
#[derive(Clone, Debug)]
pub struct HookBudget(Limits);

impl HookBudget {
    /// Returns the budget for the hooks of this agent's session.
    pub fn of(agent: &Agent) -> Self {
        Self(agent.conversation.spending.limits.of_hook())
    }

    /// Reserves the cost of a request with these texts. Also returns the output limit that it may have.
    ///
    /// # Errors
    ///
    /// Returns a message if the limits of the session leave no room for the request.
    pub fn request(
        &self,
        info: &ModelInfo,
        texts: &[&str],
        max_output: u64,
    ) -> Result<(HookRequest, u64), String> {
        let limits = self.0.clone();
        let read: u64 = texts.iter().map(|text| text.len() as u64 / 3).sum();
        let cost = RequestCost::estimate(info, read, 0, CacheLifetime::default());
        let most = limits.room(cost.input, cost.output_price, max_output).map_err(|end| {
            let what = end.limit().unwrap_or_default();
            format!("the limits of the session leave no room to ask a model ({what})")
        })?;
        let reservation = limits.reserve(cost.need(most));
        let expected = texts.iter().fold(Tokens(0), |sum, text| sum + estimate_text(text));
        let usage = BesideUsage::new(expected);
        Ok((HookRequest { limits, info: info.clone(), usage, reservation }, most))
    }

    /// Creates an agent that answers a hook within these limits.
    ///
    /// # Errors
    ///
    /// Returns a message if a limit of the session is reached.
    pub fn agent(&self, parts: AgentParts) -> Result<(Agent, AgentHandle), String> {
        let limits = self.0.clone();
        if let Some(over) = limits.over(std::time::Duration::ZERO).as_ref().and_then(TurnEnd::limit) {
            return Err(format!("the limits of the session leave no room to ask a model ({over})"));
        }
        Ok(Agent::made(parts, Some(Parentage { limits, files: None })))
    }
}

/// A request of a hook to a model. Its usage counts when it is dropped.
#[derive(Debug)]
pub struct HookRequest {
    limits: Limits,
    info: ModelInfo,
    usage: BesideUsage,
    #[expect(dead_code, reason = "works by being dropped")]
    reservation: Reservation,
}

impl HookRequest {
    /// Takes note of an event of the answer.
    pub fn note(&mut self, event: &ModelEvent) {
        self.usage.note(event);
    }
}

impl Drop for HookRequest {
    fn drop(&mut self) {
        let usage = self.usage.counted();
        if !usage.is_empty() {
            self.limits.add(spend::used(&self.info, self.info.window, usage));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{FinishReason, Part};

    #[test]
    fn an_answer_without_usage_is_estimated_and_one_that_broke_off_is_not() {
        let text = ModelEvent::Part { index: 0, part: Part::text("a few words of an answer") };
        let end = ModelEvent::Finish(FinishReason::Stop);
        let reported = ModelEvent::Usage(Usage { input: 7, output: 3, cache_read: 5, ..Usage::default() });
        let nothing = ModelEvent::Usage(Usage::default());
        for (events, want) in [
            (vec![&text, &end], (100, true)),
            (vec![&nothing, &text, &nothing, &end], (100, true)),
            (vec![&reported, &text, &end], (7, false)),
            // The stream has no end, so nobody knows how far the server got: only reported usage counts.
            (vec![&text], (0, false)),
            (vec![&reported, &text], (7, false)),
        ] {
            let mut usage = BesideUsage::new(Tokens(100));
            for event in &events {
                usage.note(event);
            }
            let counted = usage.counted();
            assert_eq!((counted.input, counted.estimated), want, "{events:?}");
            assert_eq!(counted.estimated, counted.output > 3, "{counted:?}");
            assert_eq!(usage.was_cached(), events.contains(&&reported));
        }
    }
}
