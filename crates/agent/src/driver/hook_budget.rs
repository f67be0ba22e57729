//! The budget for questions of hooks to models, which the host of the agent sends.
//!
//! Owns how they share the limits of the session, and how their usage gets to the session, which records it.

use super::side_request_usage::SideRequestUsage;
use super::subagent::Parentage;
use super::{Agent, AgentHandle};
use crate::settings::AgentParts;
use crate::spend::{self, Limits, RequestCost, Reservation};
use becket_model::{ModelEvent, ModelInfo};
use becket_session::context::budget::estimate_text;
use becket_types::{CacheLifetime, Tokens, TurnEnd};

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
        let usage = SideRequestUsage::new(expected);
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
        Ok(Agent::build(parts, Some(Parentage { limits, files: None, sessions: Vec::new() })))
    }
}

/// A request of a hook to a model. Its usage counts when it is dropped.
#[derive(Debug)]
pub struct HookRequest {
    limits: Limits,
    info: ModelInfo,
    usage: SideRequestUsage,
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
