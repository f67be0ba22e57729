//! Calls that a model wrote into its text, because its server did not read them.
//!
//! They run nothing unless the user has chosen to be asked about them. The reader of such text is `crate::written_calls`.

use super::conversation::Conversation;
use crate::answer::{Answer, FROM_TEXT};
use crate::written_calls::{flat_call, typed, written_calls};
use becket_types::{FinishReason, MessageId, NoticeLevel, Part, ToolSpec};
use serde_json::Value;

/// If the user has chosen to be asked about calls in text: turns the calls with which the model's text ends into tool
/// calls. All of them must be calls of known tools with a readable input. Otherwise [`report`] handles them.
pub(super) fn adopt(conversation: &Conversation, answer: &mut Answer, reason: &FinishReason) {
    let may_run = matches!(reason, FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_));
    let calls = answer.parts.iter().any(|part| matches!(part, Part::ToolCall { .. }));
    if !conversation.wire.model.info().server.asks_text_calls
        || !may_run
        || calls
        || conversation.wire.wrap_up
    {
        return;
    }
    let Some(Part::Text { text, .. }) = answer.parts.last() else { return };
    let names: Vec<&str> = conversation.offered.iter().map(|spec| spec.name.as_str()).collect();
    let found = written_calls(text, &names).or_else(|| flat_call(text, schemas(&conversation.offered)));
    let Some(written) = found.filter(|found| found.is_the_end) else { return };
    let known = |name: &str| conversation.offered.iter().find(|spec| spec.name.eq_ignore_ascii_case(name));
    let made: Option<Vec<Part>> = written
        .names
        .iter()
        .zip(written.inputs)
        .map(|(name, input)| {
            let spec = known(name)?;
            let id = format!("text_{}", MessageId::new()).replace('-', "");
            let mut part = Part::tool_call(id, spec.name.clone(), typed(input?, &spec.input_schema));
            if let Part::ToolCall { extra, .. } = &mut part {
                extra.insert(FROM_TEXT.to_owned(), true.into());
            }
            Some(part)
        })
        .collect();
    answer.parts.extend(made.unwrap_or_default());
}

/// The names and schemas of the offered tools.
fn schemas(offered: &[ToolSpec]) -> impl Iterator<Item = (&str, &Value)> + Clone {
    offered.iter().map(|spec| (spec.name.as_str(), &*spec.input_schema))
}

/// Handles calls that the model wrote into its text. They run nothing, so the user may think that becket did not
/// work. Calls that may be an example give a notice. If the answer ends with such calls, the turn ends with the
/// returned text.
pub(super) fn report(conversation: &mut Conversation, answer: &Answer) -> Option<String> {
    let texts = answer.parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text),
        _ => None,
    });
    let names: Vec<&str> = conversation.offered.iter().map(|spec| spec.name.as_str()).collect();
    let found = |text: &String| {
        written_calls(text, &names).or_else(|| flat_call(text, schemas(&conversation.offered)))
    };
    let written = texts.into_iter().find_map(found)?;
    let text = written.explain(&conversation.wire.model.info().id);
    if written.is_the_end {
        return Some(text);
    }
    conversation.core.notice(NoticeLevel::Warning, text);
    None
}
