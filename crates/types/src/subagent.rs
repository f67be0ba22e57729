//! Subagents from the outside: the call that a subagent works for, and its report.
//!
//! Data only: the agent crate makes and runs subagents.

use crate::{CallId, Cost, Millis, SessionId, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// Marks a subagent's session in its first entry, and names the session and call it works for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentOf {
    pub session: SessionId,
    pub call_id: CallId,
    /// Name of the kind of subagent.
    pub agent: String,
}

impl SubagentOf {
    /// The key in the first entry's `extra`.
    pub const KEY: &str = "subagent_of";

    /// Reads the mark from a first entry's `extra`; `None` for a session that a person started.
    pub fn from_extra(extra: &Map<String, Value>) -> Option<Self> {
        Self::deserialize(extra.get(Self::KEY)?).ok()
    }
}

/// The work of a subagent: the `details` of its call's result, under [`SubagentReport::KEY`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubagentReport {
    /// Name of the subagent's kind, such as `explore`.
    pub agent: String,
    /// The task in a few words.
    pub description: String,
    /// The subagent's own session.
    pub session: SessionId,
    /// Number of requests that were answered.
    pub steps: u64,
    /// The subagent's calls, in order. If there are too many, the first ones are omitted and counted in
    /// `calls_left_out`.
    pub calls: Vec<SubagentCall>,
    pub calls_left_out: u64,
    pub usage: Usage,
    pub cost: Cost,
    pub duration: Millis,
}

/// One call of a subagent, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentCall {
    pub name: String,
    /// The path, command or pattern of the call.
    pub subject: String,
    /// True if the call failed, was denied or was interrupted.
    pub failed: bool,
}

impl SubagentReport {
    /// The field of a result's details that holds the report.
    pub const KEY: &str = "subagent";

    /// Reads the report from the details of a result; `None` if no subagent made the result.
    pub fn from_details(details: &Value) -> Option<Self> {
        Self::deserialize(details.get(Self::KEY)?).ok()
    }
}

/// Text for exports: the kind of subagent, its session, and its calls, one line each.
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
        assert_eq!(SubagentOf::from_extra(&extra), Some(of));
        for extra in [json!({}), json!({"subagent_of": 3}), json!({"subagent_of": {"session": "x"}})] {
            assert_eq!(SubagentOf::from_extra(extra.as_object().unwrap()), None, "{extra}");
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
        assert_eq!(
            SubagentReport::from_details(&json!({ SubagentReport::KEY: report })),
            Some(report.clone())
        );
        assert_eq!(SubagentReport::from_details(&Value::Null), None);
        let shown = format!(
            "Subagent general (2 requests, session {})\n- … 3 earlier calls\n- read a.rs",
            report.session
        );
        assert_eq!(report.to_string(), shown);
    }
}
