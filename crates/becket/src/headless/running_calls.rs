//! Calls that run, and the moments at which a program gets a sign of life of each.
//!
//! Pure: the time is handed in.

use becket_types::{CallId, Event, Part};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Time between two signs of life of a call.
const HEARTBEAT: Duration = Duration::from_secs(30);

struct RunningCall {
    tool: String,
    parent: Option<CallId>,
    began: Instant,
    /// Number of signs of life so far.
    beats: u32,
}

impl RunningCall {
    fn next(&self) -> Instant {
        self.began + HEARTBEAT * (self.beats + 1)
    }
}

/// A sign of life that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heartbeat {
    pub(super) call: CallId,
    pub(super) tool: String,
    pub(super) parent: Option<CallId>,
    pub(super) seconds: u64,
}

/// The calls that run now, those of subagents too.
#[derive(Default)]
pub(super) struct RunningCalls(HashMap<CallId, RunningCall>);

impl RunningCalls {
    /// Updates the running calls by an event of the agent.
    pub(super) fn observe(&mut self, event: &Event, now: Instant) {
        self.observe_nested(event, None, now);
    }

    fn observe_nested(&mut self, event: &Event, parent: Option<&CallId>, now: Instant) {
        match event {
            Event::ToolStarted { call_id, name, .. } => {
                let call = RunningCall { tool: name.clone(), parent: parent.cloned(), began: now, beats: 0 };
                self.0.insert(call_id.clone(), call);
            }
            Event::ToolFinished { message, .. } => {
                for part in &message.parts {
                    if let Part::ToolResult { call_id, .. } = part {
                        self.0.remove(call_id);
                    }
                }
            }
            Event::Subagent { call_id, what } => match &**what {
                Event::TurnFinished(_) => self.0.retain(|_, call| call.parent.as_ref() != Some(call_id)),
                what => self.observe_nested(what, Some(call_id), now),
            },
            Event::TurnFinished(_) => self.0.retain(|_, call| call.parent.is_some()),
            _ => {}
        }
    }

    /// True if the session itself, and no subagent, runs this call.
    pub(super) fn has(&self, call: &CallId) -> bool {
        self.0.get(call).is_some_and(|call| call.parent.is_none())
    }

    /// Returns the time of the next sign of life.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().map(RunningCall::next).min()
    }

    /// Returns the signs of life that are due now, and counts them.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Heartbeat> {
        let due = self.0.iter_mut().filter(|(_, call)| call.next() <= now);
        due.map(|(id, call)| {
            call.beats += 1;
            let seconds = now.duration_since(call.began).as_secs();
            Heartbeat { call: id.clone(), tool: call.tool.clone(), parent: call.parent.clone(), seconds }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_gives_a_sign_of_life_each_half_minute_until_it_ends() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let id = |id: &str| CallId::from(id);
        let began =
            |name: &str| Event::ToolStarted { call_id: id(name), name: "bash".into(), input: json!({}) };
        let mut calls = RunningCalls::default();
        calls.observe(&began("a"), at(0));
        calls.observe(&Event::Subagent { call_id: id("a"), what: Box::new(began("b")) }, at(10));
        assert_eq!(calls.next(), Some(at(30)));
        assert!(calls.due(at(29)).is_empty());
        let beat = |call: &str, parent: Option<&str>, seconds| Heartbeat {
            call: id(call),
            tool: "bash".into(),
            parent: parent.map(id),
            seconds,
        };
        assert_eq!(calls.due(at(30)), [beat("a", None, 30)]);
        assert_eq!(calls.due(at(41)), [beat("b", Some("a"), 31)]);
        assert_eq!(calls.next(), Some(at(60)));
        let result = becket_types::TurnResult::failed(String::new());
        calls.observe(&Event::TurnFinished(Box::new(result)), at(50));
        assert_eq!(calls.next(), Some(at(70)), "a call of a subagent in the background goes on");
    }
}
