//! The hooks `TaskCreated` and `TaskCompleted`: they run when a call of `todo` adds an entry to the list, or completes one.
//!
//! A hook that refuses makes the call fail with its reason, and the list stays as it was.

use super::super::hooks::HookCaller;
use crate::answer::Call;
use crate::hooks::{Hooks, masked};
use crate::settings::SecretOutputs;
use becket_tool::{Host, sha256};
use becket_types::{HookCall, HookEvent, HookOutcome, ToolOutput};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Name of the session state that holds the list.
const LIST: &str = "todo";

/// The hooks for one call of `todo`.
pub(super) struct TodoHooks {
    hooks: Arc<dyn Hooks>,
    created: Option<HookCall>,
    completed: Option<HookCall>,
    /// The list before the call.
    before: Value,
    host: Arc<dyn Host>,
    masks: bool,
}

impl TodoHooks {
    /// Returns the hooks for a call that changes the list of tasks; `None` for every other call.
    pub(super) fn for_call(caller: &HookCaller<'_>, call: &Call) -> Option<Self> {
        let (settings, tools) = (&caller.conversation.settings, caller.tools);
        let hooks = settings.hooks.engine.clone()?;
        if tools.own_name(&call.name) != LIST {
            return None;
        }
        let created = caller.hook_call(HookEvent::TaskCreated, None, json!({}));
        let completed = caller.hook_call(HookEvent::TaskCompleted, None, json!({}));
        (created.is_some() || completed.is_some()).then(|| Self {
            hooks,
            created,
            completed,
            before: tools.host.state(LIST).unwrap_or_default(),
            host: Arc::clone(&tools.host) as Arc<dyn Host>,
            masks: settings.tools.secrets != SecretOutputs::Send,
        })
    }

    /// Runs the hooks for each entry that is new or completed, until one refuses. An interrupt ends them.
    pub(super) async fn run(
        self,
        output: &mut ToolOutput,
        cancel: &CancellationToken,
    ) -> Vec<(HookEvent, HookOutcome)> {
        let mut answers = Vec::new();
        if output.is_error || output.interrupted {
            return answers;
        }
        let list = self.host.state(LIST).unwrap_or_default();
        for (event, subject) in changes(&self.before, &list) {
            let call = match event {
                HookEvent::TaskCreated => &self.created,
                _ => &self.completed,
            };
            let Some(mut call) = call.clone() else { continue };
            // The list has no ids, so an entry is known by its words.
            let id = sha256(subject.as_bytes()).get(..12).unwrap_or_default().to_owned();
            call.input.insert("task_id".to_owned(), json!(id));
            call.input.insert("task_subject".to_owned(), json!(subject));
            let outcome = tokio::select! {
                outcome = self.hooks.run(call) => outcome,
                () = cancel.cancelled() => return answers,
            };
            let mut outcome = if self.masks { masked(outcome) } else { outcome };
            let refused = outcome.block.take().map(|block| block.text).or_else(|| outcome.stop.clone());
            answers.push((event, outcome));
            if let Some(why) = refused {
                self.host.set_state(LIST, self.before);
                *output = ToolOutput::error(format!(
                    "The list was not changed: a {event} hook refused \"{subject}\": {why}"
                ));
                return answers;
            }
        }
        answers
    }
}

/// Returns the entries that are new, and those that are completed now, each with its event.
fn changes(before: &Value, after: &Value) -> Vec<(HookEvent, String)> {
    let entries = |list: &Value| -> Vec<(String, bool)> {
        let entries = list.as_array().into_iter().flatten();
        entries
            .filter_map(|entry| Some((entry["content"].as_str()?.to_owned(), entry["status"] == "completed")))
            .collect()
    };
    let before = entries(before);
    let known = |subject: &String| before.iter().find(|(known, _)| known == subject);
    let mut out = Vec::new();
    for (subject, completed) in entries(after) {
        if known(&subject).is_none() {
            out.push((HookEvent::TaskCreated, subject.clone()));
        }
        if completed && known(&subject).is_none_or(|(_, was)| !was) {
            out.push((HookEvent::TaskCompleted, subject));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_completed_entries_are_found_by_their_words() {
        let list = |items: &[(&str, &str)]| -> Value {
            items.iter().map(|(content, status)| json!({ "content": content, "status": status })).collect()
        };
        let before = list(&[("a", "pending"), ("b", "completed")]);
        let after = list(&[("a", "completed"), ("b", "completed"), ("c", "in_progress"), ("d", "completed")]);
        let found: Vec<String> =
            changes(&before, &after).iter().map(|(event, subject)| format!("{event} {subject}")).collect();
        assert_eq!(found, ["TaskCompleted a", "TaskCreated c", "TaskCreated d", "TaskCompleted d"]);
        assert!(changes(&after, &list(&[])).is_empty());
    }
}
