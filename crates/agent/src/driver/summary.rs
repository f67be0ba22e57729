//! The requests for one summary: the models that are asked, what is sent, and what follows from an answer or a failure.
//!
//! A summary has a fallback that needs no model, so its requests are retried for a few seconds only, and all of them
//! together have 90 s. Each model is asked at most once for one compaction. A model that fails gives way to the next one
//! that the failure does not concern as well, without a switch of the session's model.
//!
//! Invariant: an ask that is sent again carries the conversation as it was when the summary was first asked for. The view
//! may have grown since: calls that run now have no result yet, and a view built at that moment would call them
//! interrupted.

use super::conversation::Conversation;
use super::sent::{Question, RequestTerms, question_message};
use super::side_request_usage::SideRequestUsage;
use crate::host::lock;
use crate::reply_error;
use crate::spend::{RequestCost, Reservation};
use becket_model::{ErrorKind, Model, ModelError, ModelEvent, ToolChoice};
use becket_session::Durability;
use becket_session::context::budget::{Budget, estimate_text};
use becket_session::context::compaction::{Ask, Failure, InputKind, Step, Summariser, SummaryRequest};
use becket_types::{
    CacheLifetime, CompactionTrigger, Context, FinishReason, NoticeLevel, Tokens, ToolSpec, is_blank,
};
use futures::stream::{BoxStream, StreamExt as _};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time limit for all summary requests of one compaction, retries included.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(90);
/// No summary is this long, in bytes. A model that writes more is not going to end; what it wrote so far is used.
const MAX_TEXT: usize = 1 << 18;

/// A compaction that waits for its summariser, or a summary that is made ahead of time.
pub(super) struct CompactionRun {
    pub(super) ask: Box<Ask>,
    pub(super) trigger: CompactionTrigger,
    stream: BoxStream<'static, Result<ModelEvent, ModelError>>,
    pub(super) deadline: Instant,
    sent: Instant,
    text: String,
    usage: SideRequestUsage,
    pub(super) tries: SummaryAttempts,
    /// The share of the run's limits that the request holds.
    #[expect(dead_code, reason = "works by being dropped")]
    reservation: Option<Reservation>,
}

/// The models that one compaction asks for its summary, and the one that it asks now.
pub(super) struct SummaryAttempts {
    /// The model that is asked now.
    model: Arc<dyn Model>,
    /// Models that were not asked yet, in order.
    remaining_models: VecDeque<Arc<dyn Model>>,
    /// True if the answer broke off once, and was asked for again.
    was_repeated: bool,
    /// The longest answer that broke off.
    cut: String,
    /// The conversation as it was when the summary was first asked for. A repeated ask that continues the conversation
    /// sends this.
    prefix: Option<Context>,
}

impl SummaryAttempts {
    /// The next model to ask after this failure.
    fn next_after(&mut self, kind: ErrorKind) -> Option<Arc<dyn Model>> {
        let failed = self.model.info();
        let at = self
            .remaining_models
            .iter()
            .position(|model| may_help(kind, &failed.provider, &model.info().provider))?;
        self.remaining_models.remove(at)
    }
}

/// True if a model of the provider `other` may write the summary after one of `failed` did not. An error of the whole
/// provider (its key, its bill, the connection to it) affects all its models.
fn may_help(kind: ErrorKind, failed: &str, other: &str) -> bool {
    match kind {
        ErrorKind::Auth | ErrorKind::Billing | ErrorKind::Network | ErrorKind::Dns | ErrorKind::Tls => {
            failed != other
        }
        ErrorKind::InvalidRequest | ErrorKind::Template => true,
        kind => reply_error::another_model_may_help(kind),
    }
}

/// A request that could not even be made.
pub(super) struct Unsent {
    pub(super) ask: Box<Ask>,
    pub(super) tries: SummaryAttempts,
    pub(super) why: SummaryError,
}

/// The answer to one summary request, or its failure.
pub(super) struct SummaryAnswer(pub(super) Result<String, SummaryError>);

pub(super) enum SummaryError {
    Model(ModelError),
    Other(Failure),
}

impl CompactionRun {
    /// Returns the answer, or the reason for its absence. An answer that exceeds the time limit or breaks off twice is returned
    /// in part, because a cut summary is worth more than none.
    pub(super) async fn next(&mut self) -> SummaryAnswer {
        loop {
            let event = tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.deadline) => {
                    return SummaryAnswer(self.cut().ok_or(SummaryError::Other(Failure::Timeout)));
                }
                event = self.stream.next() => event,
            };
            if let Some(Ok(event)) = &event {
                self.usage.note(event);
            }
            if self.text.len() > MAX_TEXT {
                let endless = format!("its answer did not end within {MAX_TEXT} bytes");
                return SummaryAnswer(self.cut().ok_or(SummaryError::Other(Failure::Error(endless))));
            }
            match event {
                Some(Ok(ModelEvent::TextDelta { text, .. })) => self.text.push_str(&text),
                Some(Ok(ModelEvent::Part { part: becket_types::Part::Text { text, .. }, .. })) => {
                    // A whole part repeats its deltas.
                    if !self.text.ends_with(&text) {
                        self.text.push_str(&text);
                    }
                }
                Some(Ok(ModelEvent::Finish(FinishReason::Refusal | FinishReason::ContentFilter))) => {
                    return SummaryAnswer(Err(SummaryError::Other(Failure::Refusal)));
                }
                Some(Ok(ModelEvent::Finish(_))) => return SummaryAnswer(Ok(std::mem::take(&mut self.text))),
                Some(Ok(_)) => {}
                Some(Err(error)) => return self.broke(error),
                None => return self.broke(reply_error::ended_early()),
            }
        }
    }

    /// Returns the longest answer that broke off, if it has text below the heading of a section.
    fn cut(&mut self) -> Option<String> {
        let (text, cut) = (std::mem::take(&mut self.text), std::mem::take(&mut self.tries.cut));
        let longest = if text.len() >= cut.len() { text } else { cut };
        let mut lines = longest.lines().skip_while(|line| !line.starts_with("## "));
        lines.any(|line| !line.starts_with('#') && !is_blank(line)).then_some(longest)
    }

    fn broke(&mut self, error: ModelError) -> SummaryAnswer {
        let is_cut = matches!(error.kind, ErrorKind::StreamBroken | ErrorKind::Stalled);
        let cut = if is_cut { self.cut() } else { None };
        match cut {
            Some(cut) if self.tries.was_repeated => SummaryAnswer(Ok(cut)),
            cut => {
                self.tries.cut = cut.unwrap_or_default();
                SummaryAnswer(Err(SummaryError::Model(error)))
            }
        }
    }
}

fn failure(error: &ModelError) -> Failure {
    match error.kind {
        ErrorKind::ContextOverflow | ErrorKind::TooLarge => Failure::Overflow,
        ErrorKind::Refusal => Failure::Refusal,
        _ => Failure::Error(error.message.clone()),
    }
}

impl Conversation {
    pub(super) fn summariser(&mut self, model: &Arc<dyn Model>) -> Summariser {
        let running = Arc::ptr_eq(model, &self.wire.model);
        let info = model.info();
        let budget =
            if running { self.budget() } else { Budget::new(info.window, info.input_limit, info.max_output) };
        let cache_warm = running && self.wire.is_warm();
        Summariser { name: info.id.clone(), budget, prices: info.prices, cache_warm }
    }

    /// The model that summaries are asked of first.
    pub(super) fn summary_model(&self) -> Arc<dyn Model> {
        Arc::clone(self.wire.auxiliary.summary.as_ref().unwrap_or(&self.wire.model))
    }

    /// The models that a new compaction may ask, each once.
    pub(super) fn tries(&self) -> SummaryAttempts {
        let model = self.summary_model();
        let mut others: VecDeque<Arc<dyn Model>> = VecDeque::new();
        for other in std::iter::once(&self.wire.model).chain(&self.wire.fallbacks) {
            let same = |model: &Arc<dyn Model>| model.info().id == other.info().id;
            if !same(&model) && !others.iter().any(same) {
                others.push_back(Arc::clone(other));
            }
        }
        SummaryAttempts {
            model,
            remaining_models: others,
            was_repeated: false,
            cut: String::new(),
            prefix: None,
        }
    }

    /// Reserves the cost of a summary request. `Err`: the reason why the limits of the run do not allow it.
    fn reserve_summary(
        &mut self,
        model: &Arc<dyn Model>,
        request: &SummaryRequest,
    ) -> Result<Option<Reservation>, String> {
        if !self.spending.limits.are_counted() {
            return Ok(None);
        }
        // Three bytes a token are few for any tokenizer, so the estimate is on the safe side.
        let text = (request.system.len() + request.prompt.len()) as u64 / 3;
        let (read, cached) = match request.input {
            InputKind::CachedPrefix => (self.next_request_size().0 + text, self.cached_tokens()),
            InputKind::PrunedHead => (text, 0),
        };
        let cost = RequestCost::estimate(model.info(), read, cached, CacheLifetime::default());
        match self.spending.limits.room(cost.input, cost.output_price, request.max_output) {
            Ok(most) if most == request.max_output => Ok(Some(self.spending.limits.reserve(cost.need(most)))),
            Ok(_) => Err("the limits of the run leave no room for its request".to_owned()),
            Err(end) => Err(format!(
                "the limits of the run leave no room for its request ({})",
                end.limit().unwrap_or_default()
            )),
        }
    }

    /// Counts the time and usage of a request that ended or is given up.
    pub(super) fn count_run(&mut self, run: &CompactionRun) {
        self.spending.turn.api += run.sent.elapsed();
        let info = run.tries.model.info().clone();
        self.record_usage(&info, run.usage.counted(), "summary", None);
    }

    /// An answer that broke off is asked for once more. A model that fails gives way to the next one.
    pub(super) fn answer_ask(
        &mut self,
        ask: Box<Ask>,
        answer: Result<String, SummaryError>,
        tries: &mut SummaryAttempts,
    ) -> Step {
        let error = match answer {
            Ok(text) => return ask.answer(Ok(text)),
            Err(SummaryError::Other(failure)) => return ask.answer(Err(failure)),
            Err(SummaryError::Model(error)) => error,
        };
        if matches!(error.kind, ErrorKind::StreamBroken | ErrorKind::Stalled) && !tries.was_repeated {
            tries.was_repeated = true;
            return ask.once_more();
        }
        if self.wire.refusals.is_laid_out_anew(&*tries.model, &error, &mut self.core) {
            return ask.once_more();
        }
        let Some(next) = tries.next_after(error.kind) else { return ask.answer(Err(failure(&error))) };
        let text = format!("{}: {error} The summary is asked of {}.", tries.model.info().id, next.info().id);
        self.core.notice(NoticeLevel::Warning, text);
        let summariser = self.summariser(&next);
        (tries.model, tries.was_repeated) = (next, false);
        ask.to_model(summariser)
    }

    /// Sends one summary request.
    pub(super) fn send_ask(
        &mut self,
        ask: Box<Ask>,
        trigger: CompactionTrigger,
        deadline: Instant,
        mut tries: SummaryAttempts,
    ) -> Result<Box<CompactionRun>, Box<Unsent>> {
        self.core.flush(Durability::Buffered);
        let request = ask.request();
        let reservation = match self.reserve_summary(&tries.model, &request) {
            Ok(reservation) => reservation,
            Err(why) => {
                return Err(Box::new(Unsent { ask, tries, why: SummaryError::Other(Failure::Error(why)) }));
            }
        };
        let cached = request.input == InputKind::CachedPrefix;
        let running = if cached { self.next_request_size() } else { Tokens(0) };
        let expected = running + estimate_text(&request.system) + estimate_text(&request.prompt);
        let mut context = if cached {
            let first = || lock(&self.core.session).view_mut().context().clone();
            tries.prefix.get_or_insert_with(first).clone()
        } else {
            Context { system: Arc::from([Arc::from(request.system.as_str())]), ..Context::default() }
        };
        context.messages.push(question_message(&request.prompt));
        context.generation = self.wire.own_generation();
        let terms = RequestTerms {
            purpose: "summary",
            max_output: request.max_output,
            effort: self.settings.requests.effort.as_deref().filter(|_| cached),
            tool_choice: ToolChoice::None,
            cache: if cached { self.wire.cache.lifetime() } else { CacheLifetime::default() },
        };
        let tools: &[ToolSpec] = if cached { &self.offered } else { &[] };
        let question = Question { system: &request.system, prompt: &request.prompt };
        let prepared = terms.prepare_side_request(&mut self.core, &*tries.model, &context, tools, &question);
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Err(Box::new(Unsent { ask, tries, why: SummaryError::Model(error) })),
        };
        let (stream, sent) = (tries.model.send(prepared), Instant::now());
        let (text, usage) = (String::new(), SideRequestUsage::new(expected));
        let run = CompactionRun { ask, trigger, stream, deadline, sent, text, usage, tries, reservation };
        Ok(Box::new(run))
    }
}
