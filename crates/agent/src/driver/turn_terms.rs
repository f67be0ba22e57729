//! Terms of a turn: the calls that a command or skill allows while its turn runs, and the model and effort that it names.
//!
//! They end with the turn, so that a later message has neither the rights nor the model of the command. The ledger gets the
//! session's own model back at once, because the session may be continued by another process.

use super::conversation::Conversation;
use super::toolset::Toolset;
use becket_guard::split_rules;
use becket_model::Model;
use becket_types::{Command, Event, NoticeLevel, TurnTerms};
use std::sync::Arc;

/// Puts the terms of a delivered prompt into force.
pub(super) fn begin_terms(terms: &TurnTerms, conversation: &mut Conversation, tools: &mut Toolset) {
    for rule in terms.allow.iter().flat_map(|rules| split_rules(rules)) {
        if let Err(error) = tools.guard.allow_for_turn(&rule) {
            let text = format!("The command allows {rule}, which is not a permission rule: {error}");
            conversation.core.emit_notice(NoticeLevel::Warning, text);
        }
    }
    if let Some(effort) = &terms.effort {
        let before = conversation.settings.requests.effort.replace(effort.clone());
        conversation.wire.chosen.effort_before_turn.get_or_insert(before);
        conversation
            .core
            .emit_notice(NoticeLevel::Info, format!("The command sets the effort of this turn: {effort}."));
    }
    let Some(name) = &terms.model else { return };
    let chosen = conversation.wire.chosen.next.clone().unwrap_or_else(|| conversation.model());
    match conversation.wire.choose(name) {
        Ok(model) if model.info().id == chosen.info().id => conversation.wire.chosen.next = Some(chosen),
        Ok(model) => {
            let id = model.info().id.clone();
            conversation.wire.chosen.before_turn.get_or_insert(chosen);
            let text = format!("The command asks for the model of this turn: {id}.");
            conversation.core.emit_notice(NoticeLevel::Info, text);
            conversation.core.emit(Event::ModelChosen { model: id });
        }
        Err(why) => {
            let id = &chosen.info().id;
            let text = format!(
                "The command asks for the model {name}, which cannot be used: {why} This turn runs with {id}."
            );
            conversation.core.emit_notice(NoticeLevel::Warning, text);
        }
    }
}

/// Ends the terms of the turn. Returns the session's model, if the turn ran with another one.
pub(super) fn end_terms(conversation: &mut Conversation, tools: &mut Toolset) -> Option<Arc<dyn Model>> {
    tools.subagents.forked = None;
    for rule in tools.guard.end_turn() {
        tools.subagents.pass_rules(&Command::revoke(&rule.to_string()));
    }
    if let Some(effort) = conversation.wire.chosen.effort_before_turn.take() {
        conversation.settings.requests.effort = effort;
    }
    let before = conversation.wire.chosen.before_turn.take()?;
    conversation.wire.chosen.next = None;
    (!Arc::ptr_eq(&before, &conversation.wire.model)).then_some(before)
}
