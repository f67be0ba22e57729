//! Subagents as everybody but the agent knows them: whom a session works for, and what came of it.
//!
//! Data only: how a subagent is made and run is the agent's business.

use crate::{CallId, Cost, Millis, SessionId, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// In a session's first entry: it is a subagent's, and works for a call of another session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentOf {
    pub session: SessionId,
    pub call_id: CallId,
    /// Which kind of subagent.
    pub agent: String,
}

impl SubagentOf {
    /// Its key among the first entry's `extra`.
    pub const KEY: &str = "subagent_of";

    /// From a first entry's `extra`; `None` for a session of a person's.
    pub fn of(extra: &Map<String, Value>) -> Option<Self> {
        Self::deserialize(extra.get(Self::KEY)?).ok()
    }
}

/// What a subagent did: the `details` of its call's result, under [`SubagentReport::KEY`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubagentReport {
    pub agent: String,
    /// The task in a few words.
    pub description: String,
    /// Its own session.
    pub session: SessionId,
    /// Requests answered.
    pub steps: u64,
    /// Its calls, in order; the first ones are left out where there are many.
    pub calls: Vec<SubagentCall>,
    pub calls_left_out: u64,
    pub usage: Usage,
    pub cost: Cost,
    pub duration: Millis,
}

/// A call of a subagent's, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentCall {
    pub name: String,
    /// What it was about: a path, a command, a pattern.
    pub subject: String,
    /// It failed, was denied or interrupted.
    pub failed: bool,
}

impl SubagentReport {
    pub const KEY: &str = "subagent";

    /// From the details of a result; `None` where no subagent made it.
    pub fn of(details: &Value) -> Option<Self> {
        Self::deserialize(details.get(Self::KEY)?).ok()
    }
}

/// For exports: who it was, where its session is, and its calls, a line each.
impl fmt::Display for SubagentReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subagent {} ({} requests, session {})", self.agent, self.steps, self.session)?;
        if self.calls_left_out > 0 {
            write!(f, "\n- … {} earlier calls", self.calls_left_out)?;
        }
        for SubagentCall { name, subject, failed } in &self.calls {
            let failed = if *failed { " (failed)" } else { "" };
            write!(f, "\n- {name} {subject}{failed}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_back_and_anything_else_is_no_subagent() {
        let of =
            SubagentOf { session: SessionId::new(), call_id: CallId("c".into()), agent: "explore".into() };
        let extra = Map::from_iter([(SubagentOf::KEY.to_owned(), json!(of))]);
        assert_eq!(SubagentOf::of(&extra), Some(of));
        for extra in [json!({}), json!({"subagent_of": 3}), json!({"subagent_of": {"session": "x"}})] {
            assert_eq!(SubagentOf::of(extra.as_object().unwrap()), None, "{extra}");
        }
        let report = SubagentReport {
            agent: "general".into(),
            description: "find it".into(),
            session: SessionId::new(),
            steps: 2,
            calls: vec![SubagentCall { name: "read".into(), subject: "a.rs".into(), failed: false }],
            calls_left_out: 3,
            usage: Usage::default(),
            cost: Cost(0.1),
            duration: Millis(5),
        };
        assert_eq!(SubagentReport::of(&json!({ SubagentReport::KEY: report })), Some(report.clone()));
        assert_eq!(SubagentReport::of(&Value::Null), None);
        let shown = format!(
            "Subagent general (2 requests, session {})\n- … 3 earlier calls\n- read a.rs",
            report.session
        );
        assert_eq!(report.to_string(), shown);
    }
}
