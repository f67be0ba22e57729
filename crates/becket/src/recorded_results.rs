//! Results of calls from a stored session, in place of running the tools: for `becket replay`.
//!
//! Invariants: a recorded call touches nothing, so it needs no permission. A call is the same if tool and input are the same,
//! whatever the order of the keys. If a call was recorded several times, its results are given in their order, and the last
//! one is repeated. Tools that act only inside the session (`todo`, `recall`, `skill`, `StructuredOutput`) run as always. Subagents are not
//! offered, because their work is not in the session's own record.

use becket_tool::{Registry, Tool, ToolEnv};
use becket_types::{Access, CallId, Entry, EntryKind, Message, Part, ToolOutput, ToolSpec, sdk_names};
use futures::future::BoxFuture;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Tools without an effect outside of the session.
const SESSION_TOOLS: [&str; 4] = ["todo", "recall", "skill", "StructuredOutput"];

/// The results of a session's calls, by tool and input.
#[derive(Debug, Default)]
pub(crate) struct RecordedResults {
    session: String,
    results: Mutex<HashMap<(String, String), VecDeque<ToolOutput>>>,
}

impl RecordedResults {
    /// The results of the calls in these entries.
    pub(crate) fn from_entries<'a>(session: String, entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut calls: HashMap<CallId, (String, String)> = HashMap::new();
        let mut results: HashMap<(String, String), VecDeque<ToolOutput>> = HashMap::new();
        for entry in entries {
            let parts = match &entry.kind {
                EntryKind::Message { message: Message { parts, .. } } => parts.as_slice(),
                EntryKind::Part { part, .. } => std::slice::from_ref(part),
                _ => &[],
            };
            for (at, part) in parts.iter().enumerate() {
                match part {
                    Part::ToolCall { call_id, name, input, .. } => {
                        calls.insert(call_id.clone(), key(name, input));
                    }
                    Part::ToolResult { call_id, output, is_error, interrupted: false, .. } => {
                        let Some(key) = calls.get(call_id) else { continue };
                        let images = parts[at + 1..].iter().take_while(|part| part.is_media()).cloned();
                        results.entry(key.clone()).or_default().push_back(ToolOutput {
                            is_error: *is_error,
                            images: images.collect(),
                            ..ToolOutput::text(output.clone())
                        });
                    }
                    _ => {}
                }
            }
        }
        Self { session, results: Mutex::new(results) }
    }

    /// Removes `task`, and replaces the other tools by ones that answer from the recording, except those that act only inside the session.
    pub(crate) fn answer_for(self: &Arc<Self>, tools: &mut Registry) {
        tools.retain(|name| name != "task");
        tools.wrap(|name, inner| {
            if SESSION_TOOLS.contains(&name) {
                return inner;
            }
            Arc::new(RecordedTool { inner, results: Arc::clone(self) })
        });
    }

    fn result(&self, name: &str, input: &Value) -> ToolOutput {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let found = results.get_mut(&key(name, input)).and_then(|outputs| match outputs.len() {
            0 | 1 => outputs.front().cloned(),
            _ => outputs.pop_front(),
        });
        found.unwrap_or_else(|| {
            ToolOutput::error(format!(
                "Not run: this run gets the results of calls from the recording of session {}, which has none for this call. \
                 Go on without it, or make a call that you know to be recorded.",
                self.session
            ))
        })
    }
}

fn key(name: &str, input: &Value) -> (String, String) {
    (sdk_names::own_name(name).to_ascii_lowercase(), canonical(input))
}

/// Returns JSON text with the keys of all objects sorted, so that their order makes no difference.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, String> = fields.iter().map(|(k, v)| (k, canonical(v))).collect();
            let fields: Vec<String> = sorted.into_iter().map(|(k, v)| format!("{k:?}:{v}")).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

struct RecordedTool {
    inner: Arc<dyn Tool>,
    results: Arc<RecordedResults>,
}

impl Tool for RecordedTool {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn access(&self, _input: &Value, _env: &ToolEnv) -> Result<Access, String> {
        Ok(Access::session())
    }

    fn run<'a>(&'a self, input: Value, _env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        let output = self.results.result(&self.inner.spec().name, &input);
        Box::pin(std::future::ready(output))
    }

    fn stands_for(&self, input: &Value) -> Option<(String, Value)> {
        self.inner.stands_for(input)
    }

    fn protected(&self) -> bool {
        self.inner.protected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{Millis, Seq};
    use serde_json::json;

    #[test]
    fn results_come_in_their_order_and_the_last_one_stays() {
        let entry = |message| Entry { seq: Seq(1), time: Millis(0), kind: EntryKind::Message { message } };
        let call = |id: &str, input| Message::assistant(vec![Part::tool_call(id, "Read", input)]);
        let result = |id: &str, text: &str| Message::tool_result(CallId(id.into()), "read", text, false);
        let entries = [
            entry(call("c1", json!({"path": "a", "limit": 1}))),
            entry(result("c1", "first")),
            entry(call("c2", json!({"limit": 1, "path": "a"}))),
            entry(result("c2", "second")),
        ];
        let recorded = RecordedResults::from_entries("s".to_owned(), entries.iter());
        let asked = |input| recorded.result("read", &input);
        assert_eq!(asked(json!({"path": "a", "limit": 1})).content, "first");
        assert_eq!(asked(json!({"path": "a", "limit": 1})).content, "second");
        assert_eq!(asked(json!({"limit": 1, "path": "a"})).content, "second");
        assert!(asked(json!({"path": "b"})).is_error);
    }
}
