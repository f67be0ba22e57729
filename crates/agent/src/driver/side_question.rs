//! A question beside the conversation (`/btw`): the model sees the conversation, its answer is shown, and neither becomes a
//! part of it.
//!
//! Model: the request continues the conversation's bytes, so the provider's cache serves it, and forbids tool calls. It runs
//! beside everything else, also in the middle of a turn. It then sees the conversation as the last request of the turn
//! carried it. The ledger keeps question and answer as a notice, which no request shows. The cost counts as usual.

use super::conversation::Conversation;
use super::sent::{Question, RequestTerms, question_message};
use super::side_request_usage::SideRequestUsage;
use crate::host::lock;
use crate::reply_error;
use crate::spend::{RequestCost, Reservation};
use becket_model::{Model, ModelError, ModelEvent, ToolChoice};
use becket_session::context::budget::estimate_text;
use becket_types::{Context, EntryKind, Event, FinishReason, NoticeLevel, Part, is_blank};
use futures::stream::{BoxStream, StreamExt as _};
use serde_json::{Map, json};
use std::sync::Arc;

/// Put before the question.
const INTRODUCTION: &str = "This is a question beside the task. Answer it from the conversation above, briefly and without \
                            tools. Do not go on with the task: neither the question nor your answer stays in the conversation.";
/// Output limit in tokens. With an effort set it is that of other requests, because a different limit could change the
/// thinking budget, and with it the prefix that the provider has cached.
const MAX_OUTPUT: u64 = 4_000;

/// The running request.
struct SideRun {
    question: String,
    model: Arc<dyn Model>,
    stream: BoxStream<'static, Result<ModelEvent, ModelError>>,
    usage: SideRequestUsage,
    text: String,
    #[expect(dead_code, reason = "works by being dropped")]
    reservation: Reservation,
}

impl SideRun {
    /// Waits for the answer. `Err` says why there is none.
    async fn answer(&mut self) -> Result<String, String> {
        loop {
            let event = self.stream.next().await;
            if let Some(Ok(event)) = &event {
                self.usage.note(event);
            }
            match event {
                Some(Ok(ModelEvent::Part { part: Part::Text { text, .. }, .. })) => self.text.push_str(&text),
                Some(Ok(ModelEvent::Finish(FinishReason::Refusal | FinishReason::ContentFilter))) => {
                    return Err("The model refused to answer.".to_owned());
                }
                Some(Ok(ModelEvent::Finish(_))) if is_blank(&self.text) => {
                    return Err("The model answered without text.".to_owned());
                }
                Some(Ok(ModelEvent::Finish(_))) => return Ok(std::mem::take(&mut self.text)),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(reply_error::sentence(&error.message)),
                None => return Err("The answer broke off.".to_owned()),
            }
        }
    }
}

/// The side question of a session; there is at most one at a time.
#[derive(Default)]
pub(crate) struct SideQuestion {
    run: Option<SideRun>,
}

impl SideQuestion {
    /// Waits for the answer, for ever if there is no question.
    pub(super) async fn next(&mut self) -> Result<String, String> {
        match &mut self.run {
            Some(run) => run.answer().await,
            None => std::future::pending().await,
        }
    }

    /// Sends a side question. `Err` says why it was not sent.
    pub(super) fn ask(
        &mut self,
        question: String,
        is_idle: bool,
        conversation: &mut Conversation,
    ) -> Result<(), String> {
        if self.run.is_some() {
            return Err("Another side question is being answered. Ask again after its answer.".to_owned());
        }
        let model = conversation.model();
        let text = format!("{INTRODUCTION}\n\n{question}");
        let effort = conversation.settings.requests.effort.clone();
        let has_effort = effort.is_some() && conversation.wire.max_output > 0;
        let max_output =
            if has_effort { conversation.wire.max_output } else { MAX_OUTPUT.min(model.info().max_output) };
        let used = conversation.next_request_size();
        let expected = used + estimate_text(&text);
        let read = used.0 + text.len() as u64 / 3;
        let lifetime = conversation.wire.cache.lifetime();
        let cost = RequestCost::estimate(model.info(), read, conversation.cached_tokens(), lifetime);
        let limits = &conversation.spending.limits;
        let reservation = match limits.room(cost.input, cost.output_price, max_output) {
            Ok(most) if most == max_output => limits.reserve(cost.need(most)),
            Ok(_) => return Err("The limits of the run leave no room for a side question.".to_owned()),
            Err(end) => {
                let what = end.limit().unwrap_or_default();
                return Err(format!("The limits of the run leave no room for a side question ({what})."));
            }
        };
        let mut context = context_so_far(conversation, is_idle);
        context.messages.push(question_message(&text));
        context.generation = conversation.wire.own_generation();
        let terms = RequestTerms {
            purpose: "btw",
            max_output,
            effort: effort.as_deref(),
            tool_choice: ToolChoice::None,
            cache: lifetime,
        };
        let record = Question { system: "", prompt: &text };
        let prepared = terms.prepare_side_request(
            &mut conversation.core,
            &*model,
            &context,
            &conversation.offered,
            &record,
        );
        let stream = model.send(prepared.map_err(|error| reply_error::sentence(&error.message))?);
        let (usage, text) = (SideRequestUsage::new(expected), String::new());
        self.run = Some(SideRun { question, model, stream, usage, text, reservation });
        Ok(())
    }

    /// Shows and keeps the answer, or says why there is none.
    pub(super) fn take_answer(&mut self, answer: Result<String, String>, conversation: &mut Conversation) {
        let Some(question) = self.end(conversation) else { return };
        let core = &mut conversation.core;
        match answer {
            Ok(answer) => {
                let text = format!("Side question: {question}\n{answer}");
                let mut extra = Map::new();
                extra.insert("side_question".to_owned(), json!({ "question": question, "answer": answer }));
                core.push(EntryKind::Notice { text, extra });
                core.announce(Event::SideAnswer { question, answer });
            }
            Err(why) => {
                core.emit_notice(NoticeLevel::Error, format!("The side question has no answer: {why}"));
                core.emit(Event::SideQuestionFailed { why });
            }
        }
    }

    /// Ends the request, if one runs, and counts its usage. Returns the question.
    pub(super) fn end(&mut self, conversation: &mut Conversation) -> Option<String> {
        let run = self.run.take()?;
        let info = run.model.info().clone();
        conversation.record_usage(&info, run.usage.counted(), "btw", None);
        Some(run.question)
    }
}

/// Returns the conversation. In a turn, it is that of the last request: an answer that streams is not complete, and calls that
/// run have no results.
fn context_so_far(conversation: &Conversation, is_idle: bool) -> Context {
    let mut session = lock(&conversation.core.session);
    if is_idle { session.view_mut().context().clone() } else { session.view().last_context().clone() }
}
