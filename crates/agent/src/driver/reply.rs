//! Processes an answer while it streams: sends deltas to the front ends at once, appends complete parts to the ledger
//! as they arrive, and interprets the end of the stream.

use super::{Agent, Op, wall_clock};
use crate::answer::{Answer, FROM_TEXT};
use crate::host::lock;
use crate::machine::{self, Break, Input, Note};
use crate::quota::{Pause, QuotaWait, WAITING};
use crate::reply_error;
use crate::spend::{Reservation, millis};
use crate::written_calls::{flat_call, typed, written_calls};
use becket_model::{Model, ModelError, ModelEvent, ModelInfo, Prepared};
use becket_session::Durability;
use becket_types::{
    Cost, EntryKind, Event, FinishReason, MessageId, Millis, NoticeLevel, Part, Seq, Synthetic, Tokens, Usage,
};
use futures::future::FutureExt as _;
use futures::stream::{BoxStream, StreamExt as _};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of events that are processed together if they are available.
const BATCH: usize = 256;

/// One event of the stream.
pub(super) type Piece = Result<ModelEvent, ModelError>;

/// The running request.
pub(super) struct Reply {
    model: Arc<dyn Model>,
    /// The request, while it waits to be sent.
    waiting: Option<(Prepared, Pause)>,
    stream: Option<BoxStream<'static, Piece>>,
    pub(super) answer: Answer,
    sent: Instant,
    first_content: Option<Instant>,
    /// Number of the step in its turn.
    step: u64,
    /// The share of the run's limits that the request holds.
    reservation: Option<Reservation>,
}

impl Reply {
    pub(super) fn new(model: Arc<dyn Model>, prepared: Prepared, delay: Option<Duration>, step: u64) -> Self {
        let info = model.info();
        let answer = Answer::new(info.id.clone(), info.provider.clone());
        let now = Instant::now();
        let (waiting, stream) = match delay {
            Some(delay) => (Some((prepared, Pause::new(delay))), None),
            None => (None, Some(model.send(prepared))),
        };
        Self { model, waiting, stream, answer, sent: now, first_content: None, step, reservation: None }
    }

    /// Keeps a share of the run's limits until the answer is counted.
    pub(super) fn holding(self, reservation: Option<Reservation>) -> Self {
        Self { reservation, ..self }
    }

    /// Returns all available events, at least one.
    pub(super) async fn next(&mut self) -> Vec<Piece> {
        if let Some((_, pause)) = &self.waiting {
            pause.over().await;
            if let Some((prepared, _)) = self.waiting.take() {
                self.sent = Instant::now();
                self.stream = Some(self.model.send(prepared));
            }
        }
        let Some(stream) = &mut self.stream else { return vec![Err(reply_error::ended_early())] };
        let mut pieces = Vec::new();
        let mut next = stream.next().await;
        loop {
            let Some(piece) = next else {
                pieces.push(Err(reply_error::ended_early()));
                break;
            };
            let last = matches!(piece, Err(_) | Ok(ModelEvent::Finish(_)));
            pieces.push(piece);
            if last || pieces.len() >= BATCH {
                break;
            }
            match stream.next().now_or_never() {
                Some(more) => next = more,
                None => break,
            }
        }
        pieces
    }
}

impl Agent {
    pub(super) fn reply_came(&mut self, pieces: Vec<Piece>) {
        let Op::Reply(reply) = &mut self.flow.op else { return };
        let mut events = Vec::new();
        let mut end = None;
        for piece in pieces {
            match piece {
                Ok(event) => {
                    if let Some(reason) = reply.answer.take(event, &mut events) {
                        end = Some(Ok(reason));
                        break;
                    }
                }
                Err(error) => {
                    end = Some(Err(error));
                    break;
                }
            }
        }
        if reply.answer.has_content && reply.first_content.is_none() {
            reply.first_content = Some(Instant::now());
        }
        for event in events {
            self.core.emit(event);
        }
        match end {
            None => self.save_parts(),
            Some(Ok(reason)) => self.answered(reason),
            Some(Err(error)) => self.reply_broke(error),
        }
    }

    /// Appends complete parts to the ledger that are not in it yet. Call ids are made unique before.
    fn save_parts(&mut self) {
        let Op::Reply(reply) = &mut self.flow.op else { return };
        self.tools.ids.admit(reply.answer.unsaved_parts());
        let entries = reply.answer.unsaved();
        if entries.is_empty() {
            return;
        }
        let seqs = self.core.append(entries, Durability::Buffered);
        if let Op::Reply(reply) = &mut self.flow.op {
            note_entry(&mut reply.answer, &seqs);
        }
    }

    fn answered(&mut self, reason: FinishReason) {
        let Op::Reply(mut reply) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
        reply.answer.close();
        let reason = self.true_reason(reason, &reply.answer);
        let empty = reply.answer.is_empty();
        self.adopt_written_calls(&mut reply.answer, &reason);
        let calls = self.settle(&mut reply, &reason);
        self.tools.ids.answered();
        self.limit_worked(&reply.answer.usage);
        self.spending.turn.stop_reason = Some(reason.stop_reason().to_owned());
        self.wire.last_error = None;
        self.end_quota_wait();
        self.wire.refusals.smaller = 0;
        let mut written_calls = None;
        if !empty {
            self.spending.turn.steps += 1;
            if calls == 0 {
                written_calls = self.written_calls(&reply.answer);
            }
            self.spending.turn.say(reply.answer.take_text(), reason == FinishReason::Length && calls == 0);
            if self.budget.governor.step_succeeded() {
                let entry = self.budget.governor.entry();
                self.core.push(entry);
            }
        }
        let fallback = !self.wire.fallbacks.is_empty();
        let answer = machine::Answer { finish: reason, calls, empty, written_calls, fallback };
        self.feed(Input::Answered(answer));
    }

    /// Makes calls of those that end the model's text, if the user has chosen to be asked about them. All of them must be
    /// calls of known tools with a readable input. Otherwise they are reported as usual.
    fn adopt_written_calls(&self, answer: &mut Answer, reason: &FinishReason) {
        let may_run = matches!(reason, FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_));
        let calls = answer.parts.iter().any(|part| matches!(part, Part::ToolCall { .. }));
        if !self.wire.model.info().server.asks_text_calls || !may_run || calls || self.wire.wrap_up {
            return;
        }
        let Some(Part::Text { text, .. }) = answer.parts.last() else { return };
        let names: Vec<&str> = self.tools.specs.iter().map(|spec| spec.name.as_str()).collect();
        let found = written_calls(text, &names).or_else(|| flat_call(text, self.schemas()));
        let Some(written) = found.filter(|found| found.is_the_end) else { return };
        let known = |name: &str| self.tools.specs.iter().find(|spec| spec.name.eq_ignore_ascii_case(name));
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
    fn schemas(&self) -> impl Iterator<Item = (&str, &Value)> + Clone {
        self.tools.specs.iter().map(|spec| (spec.name.as_str(), &*spec.input_schema))
    }

    /// Handles calls that the model wrote into its text. They run nothing, so the user may think that becket did not
    /// work. Calls that may be an example give a notice. If the answer ends with such calls, the turn ends with the
    /// returned text.
    fn written_calls(&mut self, answer: &Answer) -> Option<String> {
        let texts = answer.parts.iter().filter_map(|part| match part {
            Part::Text { text, .. } => Some(text),
            _ => None,
        });
        let names: Vec<&str> = self.tools.specs.iter().map(|spec| spec.name.as_str()).collect();
        let found = |text: &String| written_calls(text, &names).or_else(|| flat_call(text, self.schemas()));
        let written = texts.into_iter().find_map(found)?;
        let text = written.explain(&self.wire.model.info().id);
        if written.is_the_end {
            return Some(text);
        }
        self.core.notice(NoticeLevel::Warning, text);
        None
    }

    /// Adds the usage of one request to the ledger and the sums.
    pub(super) fn spent(
        &mut self,
        info: &ModelInfo,
        usage: Usage,
        purpose: &str,
        message: Option<MessageId>,
    ) -> Cost {
        if usage.is_empty() {
            return Cost::default();
        }
        let window = self.settings.requests.context_window.unwrap_or(info.window);
        let used = crate::spend::used(info, window, usage);
        let cost = used.cost;
        self.spending.turn.add(used.clone());
        self.spending.limits.add(used);
        if purpose == "turn" {
            let caches = usage.cache_read + usage.cache_write > 0;
            self.budget.cached = if caches { usage.context() } else { Tokens(0) };
        }
        self.core.push(EntryKind::Usage {
            message,
            model: info.id.clone(),
            usage,
            cost_usd: cost.0,
            purpose: purpose.to_owned(),
        });
        self.keep_spent();
        cost
    }

    /// Sends the model a message of becket, or informs the user.
    pub(super) fn note(&mut self, note: &Note) {
        match note {
            Note::CallsAsText(what) => self.core.notice(NoticeLevel::Warning, what.clone()),
            for_model => self.core.synthetic(Synthetic::Reminder, for_model.text(), Map::new()),
        }
    }

    /// Returns the true reason for the end. Some servers report a cut answer as finished, but its token count reveals
    /// the cut.
    fn true_reason(&self, reason: FinishReason, answer: &Answer) -> FinishReason {
        let cut = self.wire.max_output > 0 && answer.usage.output >= self.wire.max_output;
        match reason {
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_) if cut => {
                FinishReason::Length
            }
            other => other,
        }
    }

    /// Adds the rest of the answer, its end and its usage to the pending commit, which is written together with the
    /// entries of the tools, or before the next wait. Returns the number of calls.
    fn settle(&mut self, reply: &mut Reply, reason: &FinishReason) -> usize {
        self.spending.turn.api += reply.sent.elapsed();
        let Reply { answer, model, .. } = &mut *reply;
        self.tools.ids.admit(answer.unsaved_parts());
        if answer.entry.is_none() && !answer.parts.is_empty() {
            let entries = answer.unsaved();
            answer.entry = Some(self.core.next_seq());
            self.core.pending.extend(entries);
        }
        self.core.pending.extend(answer.unsaved());
        let message = answer.entry.map(|_| answer.id);
        if let Some(message) = message {
            self.core.push(EntryKind::Finish { message, reason: reason.clone() });
        }
        let info = model.info().clone();
        let usage = answer.usage;
        let cost = self.spent(&info, usage, "turn", message);
        drop(reply.reservation.take());
        if !usage.is_empty() {
            self.budget.report = Some(usage);
        }
        self.show(reply, reason, cost);
        self.last_answer(reply.answer.entry, reply.answer.calls())
    }

    /// Remembers the answer for the machine's next action.
    fn last_answer(&mut self, entry: Option<Seq>, calls: Vec<crate::answer::Call>) -> usize {
        let count = calls.len();
        self.tools.ids.last_entry = entry;
        self.tools.ids.last_calls = calls;
        count
    }

    fn show(&mut self, reply: &Reply, finish: &FinishReason, cost: Cost) {
        let answer = &reply.answer;
        if answer.parts.is_empty() {
            return;
        }
        self.core.announce(Event::AssistantMessage {
            message: answer.message(answer.parts.clone()),
            finish: finish.clone(),
            usage: answer.usage,
            cost,
            ttft: reply.first_content.map(|at| millis(at - reply.sent)),
            api_time: millis(reply.sent.elapsed()),
        });
    }

    /// Passes the provider's reported usage to the meter, once the answer is in the view and before anything else is
    /// appended.
    pub(super) fn report_usage(&mut self) {
        let Some(usage) = self.budget.report.take() else { return };
        let base_now = self.base_now();
        let sent = self.budget.base_sent;
        self.budget.meter.report(&usage, sent, base_now);
        self.tell_used();
    }

    /// Informs front ends of the present size of the context.
    pub(super) fn tell_used(&mut self) {
        let base_now = self.base_now();
        let budget = self.budget();
        let kinds = self.budget.kinds.update(lock(&self.core.session).view(), &self.tools.specs);
        let kinds = kinds.iter().map(|(kind, tokens)| (*kind, *tokens)).collect();
        self.core.emit(Event::ContextUsed {
            used: self.budget.meter.used(base_now),
            usable: Tokens(budget.usable()),
            window: Tokens(budget.window),
            threshold: budget.threshold(self.budget.policy.threshold),
            kinds,
        });
    }

    /// Handles a request that failed before its answer or in the middle of it.
    fn reply_broke(&mut self, mut error: ModelError) {
        // This must come first: the bytes can be computed only while nothing was appended.
        let begun = match &self.flow.op {
            Op::Reply(reply) => reply.answer.begun,
            _ => return,
        };
        if !begun
            && (self.wire.refusals.is_laid_out_anew(&*self.wire.model, &error, &mut self.core)
                || self.is_made_smaller(&mut error)
                || self.begins_quota_wait(&error))
        {
            let Op::Reply(reply) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
            self.spending.turn.api += reply.sent.elapsed();
            let (step, wrap_up) = (reply.step, self.wire.wrap_up);
            // Gives its share of the limits back, which the next request needs.
            drop(reply);
            return self.request(step, 0, wrap_up);
        }
        if !begun {
            self.remember_refusal(&error);
        }
        let Op::Reply(mut reply) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
        reply.answer.close();
        let kind = reply_error::kind(&error, begun);
        self.learn_limit(&error);
        self.settle(&mut reply, &FinishReason::Error);
        self.spending.turn.say(reply.answer.take_text(), false);
        // Calls of a broken answer never run. The next attempt may use their ids again.
        self.tools.ids.forget_last();
        self.spending.turn.stop_reason = Some(FinishReason::Error.stop_reason().to_owned());
        let end = self.broken_end(&error, kind);
        let fallback = self.wire.may_fall_back(&error);
        self.wire.last_error = Some(error);
        self.feed(Input::Broke(Break { kind, end, fallback }));
    }

    /// Begins to wait for the provider's quota, if this error is one that only time heals and the run may wait. The wait is
    /// recorded, so that a later process continues it.
    fn begins_quota_wait(&mut self, error: &ModelError) -> bool {
        if !self.settings.limits.wait_for_quota || self.wire.may_fall_back(error) {
            return false;
        }
        let now = wall_clock();
        let Some(wait) = QuotaWait::after(error, &self.wire.model.info().id, now) else { return false };
        let said = reply_error::sentence(&error.message);
        let text = format!("{said} becket waits {}. An interrupt ends the wait.", wait.words(now));
        self.core.notice(NoticeLevel::Warning, text);
        let value = serde_json::to_value(&wait).unwrap_or_default();
        self.core.append(vec![EntryKind::State { key: WAITING.to_owned(), value }], Durability::Synced);
        self.wire.quota = Some(wait);
        true
    }

    /// The rest of the wait for the provider's quota. Also announces it to the user.
    pub(super) fn quota_delay(&mut self) -> Option<Duration> {
        let wait = self.wire.quota.as_ref().filter(|_| self.settings.limits.wait_for_quota)?;
        let left = wait.left(wall_clock())?;
        self.core.emit(Event::Retry {
            attempt: 1,
            max: 1,
            delay: Millis(left.as_millis() as u64),
            status: None,
            error: wait.why.clone(),
        });
        Some(left)
    }

    /// Loads the wait that an earlier process recorded for this model, and informs the user.
    pub(super) fn recall_quota_wait(&mut self) {
        let value = lock(&self.core.session).view().state(WAITING).cloned().unwrap_or_default();
        let Ok(wait) = serde_json::from_value::<QuotaWait>(value) else { return };
        if wait.model != self.wire.model.info().id {
            return;
        }
        let now = wall_clock();
        if wait.left(now).is_some() {
            let advice = if self.settings.limits.wait_for_quota {
                "The next request waits for it."
            } else {
                "--wait-for-quota waits for it."
            };
            let text = format!("The quota of {} is used up {}. {advice}", wait.model, wait.words(now));
            self.core.say(NoticeLevel::Warning, text);
        }
        self.wire.quota = Some(wait);
    }

    /// Records that the wait for the quota is over.
    fn end_quota_wait(&mut self) {
        if self.wire.quota.take().is_some() {
            self.core.push(EntryKind::State { key: WAITING.to_owned(), value: serde_json::Value::Null });
        }
    }

    /// Removes the last answer from the view.
    pub(super) fn supersede(&mut self) {
        if let Some(entry) = self.tools.ids.last_entry.take() {
            self.core.flush(Durability::Buffered);
            self.budget.report = None;
            self.core.append(vec![EntryKind::Revert { entry }], Durability::Buffered);
            self.tools.ids.forget_last();
        }
    }

    /// Handles an interrupt by the user: the text so far is kept.
    pub(super) fn cancel_request(&mut self) {
        let Op::Reply(mut reply) = std::mem::replace(&mut self.flow.op, Op::None) else {
            return self.feed(Input::Cancelled { calls: 0 });
        };
        reply.stream = None;
        reply.answer.close();
        let calls = self.settle(&mut reply, &FinishReason::Interrupted);
        self.tools.ids.answered();
        self.spending.turn.say(reply.answer.take_text(), false);
        self.spending.turn.stop_reason = Some(FinishReason::Interrupted.stop_reason().to_owned());
        self.feed(Input::Cancelled { calls });
    }
}

/// The first entry of an answer is its message.
fn note_entry(answer: &mut Answer, seqs: &[Seq]) {
    if answer.entry.is_none() {
        answer.entry = seqs.first().copied();
    }
}
