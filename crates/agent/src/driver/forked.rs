//! Answers that becket writes in place of the model: for commands of the user that a subagent works on (`context: fork`), and for
//! a call that a hook has deferred.
//!
//! Model of a command: the user's message holds the command as it was typed. becket writes the model's part of the turn: first a call of
//! `task`, and when the subagent has ended, its answer as the answer of the turn. So the subagent runs, is shown and is
//! judged like every other, the history is one that any provider accepts, and the session's model is not asked. The call names
//! only the command. The prompt that the file expands to reaches the subagent alone.
//!
//! The session's model continues instead if the subagent went to the background, or if the command came during a turn.
//!
//! A deferred call is made again, under a new id, before the first request of the next turn. Hooks and rules judge it again.

use super::background::ForkedCommand;
use super::conversation::Conversation;
use super::toolset::Toolset;
use crate::subagent::{TASK, TaskTool};
use becket_session::context::View;
use becket_types::{CallId, DeferredCall, FinishReason, MessageId, NoticeLevel, Part, PromptInput};
use std::sync::Arc;

/// Name of the session state that holds a deferred call.
pub(super) const DEFERRED_CALL: &str = "deferred_call";

/// Prepares the subagent of a delivered command. If there can be none, the command's prompt replaces the command in the
/// message, so that the session's model works on it.
pub(super) fn begin_fork(
    input: &mut PromptInput,
    steered: bool,
    conversation: &mut Conversation,
    tools: &mut Toolset,
) {
    let Some(fork) = input.terms.fork.take() else { return };
    let Some(Part::Text { text: typed, .. }) = input.parts.first_mut() else { return };
    let kinds = &conversation.settings.subagents;
    let why = if kinds.is_empty() || tools.registry.get(TASK).is_none() {
        Some("this session has no subagents")
    } else if conversation.settings.prompt.answer.is_some() {
        Some("this run has a JSON schema for its answer")
    } else if tools.subagents.forked.is_some() {
        Some("another command already runs in a subagent in this turn")
    } else {
        None
    };
    if let Some(why) = why {
        *typed = fork.prompt;
        let text = format!("The command runs in this conversation and not in a subagent: {why}.");
        return conversation.core.emit_notice(NoticeLevel::Info, text);
    }
    let (model, effort) = (input.terms.model.take(), input.terms.effort.take());
    let typed = typed.clone();
    let images = input.parts.iter().filter(|part| matches!(part, Part::Image { .. })).cloned().collect();
    let mut forked = ForkedCommand { typed, fork, images, model, effort, steered, call: None };
    if let Err(why) = TaskTool::new(Arc::clone(kinds)).task(&forked.input()) {
        let text = format!(
            "The command names an agent that cannot be used: {why} It runs in the agent general instead."
        );
        conversation.core.emit_notice(NoticeLevel::Warning, text);
        forked.fork.agent = None;
    }
    tools.subagents.forked = Some(forked);
}

/// The result of a call in the view: its text, and true if it is an error. `None`: there is none, or the subagent is still at
/// work in the background.
fn result_of(view: &View, call: &CallId) -> Option<(String, bool)> {
    let message = view.live().rev().find(|message| message.result_of() == Some(call))?;
    message.parts.iter().find_map(|part| match part {
        Part::ToolResult { output, is_error, details, .. } if details["background"].is_null() => {
            Some((output.clone(), *is_error))
        }
        _ => None,
    })
}

/// An answer in place of the model's.
pub(super) enum OwnAnswer {
    Part(Box<Part>, FinishReason),
    /// The turn ends with this error.
    Failure(String),
}

impl Toolset {
    /// Returns what is to be done next for a command with a subagent. `None`: the model is to be asked.
    pub(super) fn fork_answer(&mut self, view: &View) -> Option<OwnAnswer> {
        let forked = self.subagents.forked.as_mut()?;
        let Some(call) = &forked.call else {
            let call = new_id("fork");
            let part = Part::tool_call(call.as_str(), TASK, forked.input());
            forked.call = Some(call);
            return Some(OwnAnswer::Part(Box::new(part), FinishReason::ToolCalls));
        };
        let result = result_of(view, call);
        let steered = forked.steered;
        self.subagents.forked = None;
        match result? {
            _ if steered => None,
            (text, true) => Some(OwnAnswer::Failure(text)),
            (text, false) => Some(OwnAnswer::Part(Box::new(Part::text(text)), FinishReason::Stop)),
        }
    }
}

/// Returns a new id that every provider takes: of at most 40 characters, without punctuation that one of them refuses.
fn new_id(kind: &str) -> CallId {
    CallId(format!("{kind}_{}", MessageId::new().to_string().replace('-', "")))
}

/// Returns the call that an earlier turn deferred.
pub(super) fn deferred_call(view: &View) -> Option<Part> {
    let call: DeferredCall = serde_json::from_value(view.state(DEFERRED_CALL)?.clone()).ok()?;
    Some(Part::tool_call(new_id("again").0, call.name, call.input))
}
