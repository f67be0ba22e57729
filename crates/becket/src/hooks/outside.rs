//! Hooks for events that happen outside the agent: the expansion of commands, questions of MCP servers, and changes of what a
//! session offers.
//!
//! Their input has the common keys of the session once it is open, except the permission mode. The agent records their runs in the
//! session's ledger. Their messages go to standard error, or to the log of the terminal.

use becket_hooks::Engine;
use becket_mcp::elicitation::{Answer, Ask, Elicitation, Form, Question, misfit};
use becket_types::{Command, HookCall, HookEvent, HookOutcome, SessionId};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc::{Sender, WeakSender};

/// Runs the hooks of a session for events that happen outside of its agent.
#[derive(Clone, Debug)]
pub(crate) struct OutsideHooks {
    engine: Engine,
    /// Input keys of every hook: id, transcript and directory of the session. Empty until [`Self::begin`].
    common: Arc<OnceLock<Map<String, Value>>>,
    /// Sends commands to the agent. It is weak, because the agent ends when the last strong sender is dropped.
    agent: Arc<OnceLock<WeakSender<Command>>>,
}

impl OutsideHooks {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, common: Arc::default(), agent: Arc::default() }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Names the session, once it is open. `folder`: that of its ledger, if it is kept.
    pub(crate) fn begin(&self, session: SessionId, folder: Option<&Path>, cwd: &Path) {
        let transcript = folder.map(becket_session::store::transcript_path).unwrap_or_default();
        let common = json!({
            "session_id": session, "transcript_path": transcript.to_string_lossy(), "cwd": cwd.to_string_lossy(),
        });
        if let Value::Object(common) = common {
            // The keys stay if they were set before: a session begins once.
            let _ = self.common.set(common);
        }
    }

    /// Names the agent that records runs.
    pub(crate) fn report_to(&self, agent: &Sender<Command>) {
        // The first agent stays if one was set before: a session has one agent.
        let _ = self.agent.set(agent.downgrade());
    }

    /// True if a hook waits for this event, whatever it matches.
    pub(crate) fn listens(&self, event: HookEvent) -> bool {
        self.engine.listens(event)
    }

    /// Runs the hooks of an event. `None`: no hook matches.
    pub(crate) async fn run(
        &self,
        event: HookEvent,
        subject: Option<&str>,
        keys: Value,
    ) -> Option<HookOutcome> {
        if !self.listens(event) {
            return None;
        }
        let mut input = self.common.get().cloned().unwrap_or_default();
        input.insert("hook_event_name".to_owned(), json!(event.as_str()));
        if let Value::Object(keys) = keys {
            input.extend(keys);
        }
        let call = HookCall { event, subject: subject.map(str::to_owned), call_id: None, input, watch: None };
        self.engine.status(&call)?;
        let outcome = self.engine.run(call).await;
        if let Some(agent) = self.agent.get().and_then(WeakSender::upgrade) {
            // An agent that has ended records nothing.
            let _ = agent.send(Command::RecordHooks { runs: outcome.runs.clone() }).await;
        }
        Some(outcome)
    }

    /// Runs the hooks for a prompt that a command expands to. Returns the prompt with the words that they add.
    ///
    /// # Errors
    ///
    /// Returns the reason if a hook refuses the prompt.
    pub(crate) async fn expansion(
        &self,
        kind: &str,
        name: &str,
        arguments: &str,
        mut prompt: String,
    ) -> Result<String, String> {
        let keys = json!({
            "expansion_type": kind, "command_name": name, "command_args": arguments, "prompt": prompt,
        });
        let outcome = self.run(HookEvent::UserPromptExpansion, Some(name), keys).await;
        let Some(outcome) = outcome else { return Ok(prompt) };
        if let Some(why) = outcome.block.map(|block| block.text).or(outcome.stop) {
            return Err(format!("a hook refused /{name}: {why}"));
        }
        for text in outcome.context {
            let _ = write!(prompt, "\n\n<hook event=\"UserPromptExpansion\">\n{}\n</hook>", text.text);
        }
        Ok(prompt)
    }
}

/// Lets hooks answer the questions of MCP servers, and look at the answers that others give.
pub(crate) struct HookedAsk {
    pub hooks: OutsideHooks,
    /// Answers the question if no hook does.
    pub otherwise: Elicitation,
}

impl Ask for HookedAsk {
    fn completed(&self, server: &str, id: &str) {
        self.otherwise.completed(server, id);
    }

    fn ask(&self, question: Question) -> BoxFuture<'static, Answer> {
        let (hooks, otherwise) = (self.hooks.clone(), self.otherwise.clone());
        Box::pin(async move {
            let keys = question_json(&question);
            let server = question.server.clone();
            let first = hooks.run(HookEvent::Elicitation, Some(&server), keys.clone()).await;
            let answer = match first.and_then(|outcome| hook_answer(outcome, &question)) {
                Some(answer) => answer,
                None => otherwise.answer(question.clone()).await,
            };
            let mut result = json!({ "mcp_server_name": server, "action": "cancel", "mode": keys["mode"], "elicitation_id": question.id });
            match &answer {
                Answer::Accept(content) => {
                    result["action"] = json!("accept");
                    result["content"] = json!(content);
                }
                Answer::Decline => result["action"] = json!("decline"),
                Answer::Cancel => {}
            }
            let last = hooks.run(HookEvent::ElicitationResult, Some(&server), result).await;
            last.and_then(|outcome| hook_answer(outcome, &question)).unwrap_or(answer)
        })
    }
}

fn question_json(question: &Question) -> Value {
    let mut keys = json!({ "mcp_server_name": question.server, "message": question.message });
    match &question.form {
        Form::Fields(schema) => {
            keys["mode"] = json!("form");
            keys["requested_schema"] = schema.clone();
        }
        Form::Url(url) => {
            keys["mode"] = json!("url");
            keys["url"] = json!(url);
            keys["elicitation_id"] = json!(question.id);
        }
    }
    keys
}

/// Returns the answer that hooks give. `None` if it does not fit the form. A hook that blocks declines.
fn hook_answer(outcome: HookOutcome, question: &Question) -> Option<Answer> {
    if outcome.block.is_some() || outcome.stop.is_some() {
        return Some(Answer::Decline);
    }
    let (action, content) = outcome.special.elicitation?;
    match (action.as_str(), &question.form) {
        ("decline", _) => Some(Answer::Decline),
        ("accept", Form::Url(_)) => Some(Answer::Accept(Map::new())),
        ("accept", Form::Fields(schema)) => {
            let content = content.and_then(|content| content.as_object().cloned()).unwrap_or_default();
            misfit(schema, &content).is_none().then_some(Answer::Accept(content))
        }
        _ => Some(Answer::Cancel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::HookSpecial;

    #[test]
    fn an_answer_of_a_hook_fits_the_form_or_is_none() {
        let schema = json!({ "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let question =
            Question { server: "s".into(), message: "?".into(), id: None, form: Form::Fields(schema) };
        let answer = |action: &str, content: Value| {
            let elicitation = Some((action.to_owned(), Some(content)));
            let special = HookSpecial { elicitation, ..HookSpecial::default() };
            hook_answer(HookOutcome { special, ..HookOutcome::default() }, &question)
        };
        let content = json!({ "n": 1 }).as_object().unwrap().clone();
        assert_eq!(answer("accept", json!({ "n": 1 })), Some(Answer::Accept(content)));
        assert_eq!(answer("accept", json!({ "n": "1" })), None);
        assert_eq!(answer("decline", json!({})), Some(Answer::Decline));
        assert_eq!(answer("cancel", json!({})), Some(Answer::Cancel));
        assert_eq!(hook_answer(HookOutcome::default(), &question), None);
    }
}
