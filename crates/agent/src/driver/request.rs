//! The requests of a turn: the facts that the machine needs before one, sending it, and the outcome of its answer.
//!
//! The bytes and the budget are those of `conversation`, the streamed answer is that of `reply`.

use super::compact::prune_if_cold;
use super::count::{self, Count};
use super::forked::{DEFERRED_CALL, OwnAnswer, deferred_call};
use super::reply::{Piece, Reply};
use super::sent::RecordFacts;
use super::text_calls;
use super::warming::count_warming;
use super::{Agent, Op};
use crate::host::lock;
use crate::machine::{self, Break, BreakKind, Facts, Input};
use crate::reply_error;
use crate::settings::scope;
use becket_model::{Model, ModelError, ModelEvent};
use becket_session::Durability;
use becket_session::context::budget::{Appended, Vocabulary};
use becket_session::context::compaction::CompactionReason;
use becket_session::context::due;
use becket_types::{EntryKind, Event, FinishReason, NoticeLevel, Part, Tokens, TurnEnd};
use serde_json::Value;
use std::sync::Arc;

impl Agent {
    /// Answers a request in place of the model, if there is something to answer. Returns false if the model is to be asked.
    pub(super) fn answer_itself(&mut self, step: u64, wrap_up: bool) -> bool {
        if wrap_up {
            self.tools.subagents.forked = None;
            return false;
        }
        let session = lock(&self.conversation.core.session);
        let deferred = deferred_call(session.view());
        let answer = match &deferred {
            Some(call) => Some(OwnAnswer::Part(Box::new(call.clone()), FinishReason::ToolCalls)),
            None => self.tools.fork_answer(session.view()),
        };
        let blobs = session.blob_store();
        drop(session);
        if deferred.is_some() {
            self.conversation
                .core
                .push(EntryKind::State { key: DEFERRED_CALL.to_owned(), value: Value::Null });
        }
        let (part, reason) = match answer {
            None => return false,
            Some(OwnAnswer::Failure(message)) => {
                let end = TurnEnd::Failed { message };
                self.flow.feed(Input::Broke(Break { kind: BreakKind::Final, end, fallback: false }));
                return true;
            }
            Some(OwnAnswer::Part(part, reason)) => (*part, reason),
        };
        self.conversation.core.emit(Event::StepStarted { step });
        let mut events = Vec::new();
        if let Part::Text { text, .. } = &part {
            events.push(ModelEvent::TextDelta { index: 0, text: text.clone() });
        }
        events.extend([ModelEvent::Part { index: 0, part }, ModelEvent::Finish(reason)]);
        let reply = Reply::from_becket(self.conversation.model(), events, step, blobs);
        self.flow.op = Op::Reply(Box::new(reply));
        true
    }

    /// Writes pending entries to the ledger, and switches to the model that the user has chosen.
    pub(super) fn settle_facts(&mut self) {
        self.conversation.core.flush(Durability::Buffered);
        self.conversation.report_usage();
        self.take_switch();
    }

    /// Starts an exact count of the context if the next decision needs one. Returns true if it runs.
    pub(super) fn count_first(&mut self) -> bool {
        self.settle_facts();
        let (used, budget) = (self.conversation.next_request_size(), self.conversation.budget());
        let threshold = budget.threshold(self.conversation.budget.policy.threshold);
        if !self.conversation.budget.meter.wants_exact_count(used, threshold) {
            return false;
        }
        let context = lock(&self.conversation.core.session).view_mut().context().clone();
        self.flow.op = Op::Count(Count::start(context, Arc::clone(&self.conversation.offered)));
        true
    }

    /// Called with the count: makes the decision that waited for it.
    pub(super) fn counted(&mut self, exact: Option<Tokens>) {
        self.flow.op = Op::None;
        // If the tokenizer failed, use the estimate and do not try again.
        let exact = exact.unwrap_or_else(|| self.conversation.next_request_size());
        let base = self.conversation.base_now();
        self.conversation.budget.meter.count(exact, base);
        let facts = self.assess();
        self.flow.feed(Input::Assessed(facts));
    }

    /// Collects the facts that the machine needs before a request.
    pub(super) fn assess(&mut self) -> Facts {
        self.settle_facts();
        Facts {
            over: self.hooking.end().or_else(|| self.conversation.limit_reached()),
            repetition: self.tools.repetition.verdict(),
            owed: self.conversation.required_action(CompactionReason::Threshold),
        }
    }

    /// Switches to the model that the user has chosen. Called between two requests.
    fn take_switch(&mut self) {
        if let Some(model) = self.conversation.wire.chosen.next.take() {
            self.use_model(model, "command");
        }
    }

    /// Sends the next requests to this model. Measurements that hold only for the previous model are forgotten. `source`:
    /// who chose the model, for hooks.
    pub(super) fn use_model(&mut self, model: Arc<dyn Model>, source: &str) {
        self.compaction.give_up_preparation(&mut self.conversation, "another model");
        let switch = EntryKind::ModelSwitch { model: model.info().id.clone() };
        lock(&self.conversation.core.session).view_mut().set_scope(scope(model.info()));
        let before = std::mem::replace(&mut self.conversation.wire.model, model);
        self.conversation.wire.cache.cold = true;
        // A report by the previous model that is not counted yet does not apply to this one.
        self.conversation.budget.report = None;
        self.conversation.budget.meter.forget_model();
        let vocabulary = Vocabulary::for_model(&self.conversation.wire.model.info().id);
        self.conversation.core.appended = Appended::new(vocabulary);
        self.conversation.budget.limits = self.conversation.learned_limits();
        self.conversation.core.append(vec![switch], Durability::Buffered);
        self.hooks().model_hooks(&before, source);
        self.show_live();
    }

    /// Switches to the next fallback model.
    pub(super) fn fall_back(&mut self) {
        let Some(model) = self.conversation.wire.fallbacks.pop_front() else { return };
        let why = self.conversation.wire.last_error.take().map_or_else(
            || "It gave no answer that can be used.".to_owned(),
            |error| reply_error::sentence(&error.message),
        );
        let text =
            format!("{}: {why} Going on with {}.", self.conversation.wire.model.info().id, model.info().id);
        self.conversation.core.notice(NoticeLevel::Warning, text);
        self.use_model(model, "auto");
    }

    /// Sends the request of this step.
    pub(super) fn request(&mut self, step: u64, attempt: u32, wrap_up: bool) {
        self.conversation.core.flush(Durability::Buffered);
        lock(&self.conversation.core.session).view_mut().set_calls_may_run(false);
        // From here on, only an answer to this request can be superseded, never an earlier one.
        self.tools.ids.last_entry = None;
        let source = self.conversation.settings.tools.source.as_ref();
        if let Some(offered) = self.tools.update_from(source, &self.conversation.offered) {
            self.conversation.offered = offered;
            self.conversation.budget.forget_sizes();
            if self.conversation.core.begun {
                self.tools.record(&mut self.conversation.core);
            }
        }
        prune_if_cold(&mut self.conversation);
        let used = self.conversation.next_request_size();
        let wire = &mut self.conversation.wire;
        if let Some(chosen) = wire.cache.choose(wire.model.info(), step == 1, used) {
            self.conversation.core.push(chosen);
        }
        self.tools
            .tell_changed_files(&self.conversation.settings.environment.cwd, &mut self.conversation.core);
        self.workspace().tell_changed_folders();
        self.hooks().config_hooks();
        let undone = self.conversation.settings.tools.confinement.as_ref().map(|one| one.undone());
        for line in undone.unwrap_or_default() {
            self.conversation.core.notice(NoticeLevel::Warning, line);
        }
        self.tools.tell_plan_mode(&mut self.conversation);
        let reminders = due::reminders(lock(&self.conversation.core.session).view(), step);
        self.conversation.core.append(reminders, Durability::Buffered);
        if !self.conversation.core.may_act()
            && let Some(message) = self.conversation.core.failed.take()
        {
            return self.flow.feed(Input::Broke(failed(message)));
        }
        if self.answer_itself(step, wrap_up) {
            return;
        }
        self.conversation.wire.wrap_up = wrap_up;
        count::measure_unreported(&mut self.conversation);
        self.conversation.budget.sent = (self.conversation.base_now(), self.conversation.core.appended);
        let estimate = self.conversation.next_request_size();
        let reservation = match self.conversation.reserve_request() {
            Ok(reservation) => reservation,
            // A subagent that runs in parallel has used the room since the limits were checked.
            Err(end) => {
                return self.flow.feed(Input::Broke(Break { kind: BreakKind::Final, end, fallback: false }));
            }
        };
        let prepared = self.conversation.prepare();
        // Record the images and files that the view left out of this request because it has too many, and report repairs.
        let media = lock(&self.conversation.core.session).view().media_due();
        self.conversation.core.pending.extend(media);
        self.conversation.core.tell_notices();
        let prepared = prepared.and_then(|prepared| match self.conversation.wire.refused(&prepared) {
            Some(error) => Err(error),
            None => Ok(prepared),
        });
        if let Ok(prepared) = &prepared {
            let terms = self.conversation.wire.terms(self.conversation.settings.requests.effort.as_deref());
            let facts = RecordFacts { estimate: Some(estimate), prompt: None };
            terms.record(&mut self.conversation.core, &*self.conversation.wire.model, prepared, facts);
        }
        self.conversation.core.flush(Durability::Buffered);
        match prepared {
            Ok(mut prepared) => {
                prepared.replaceable = !self.conversation.wire.fallbacks.is_empty();
                self.conversation.core.emit(Event::StepStarted { step });
                let delay =
                    self.conversation.retry_delay(attempt).or_else(|| self.conversation.quota_delay());
                count_warming(&mut self.conversation);
                self.conversation.wire.cache.note_request_sent();
                let blobs = lock(&self.conversation.core.session).blob_store();
                let reply = Reply::new(self.conversation.model(), prepared, delay, step, blobs);
                self.flow.op = Op::Reply(Box::new(reply.holding(reservation, estimate)));
                if attempt == 0 && !wrap_up {
                    self.compaction.prepare_summary(&mut self.conversation, step);
                }
            }
            Err(mut error) => {
                // The next try reserves its own share of the limits.
                drop(reservation);
                if self.conversation.is_made_smaller(&mut error) {
                    return self.request(step, attempt, wrap_up);
                }
                self.reply_broke_before(error);
            }
        }
    }

    /// Handles events of the stream. Deltas go to the front ends at once.
    pub(super) fn handle_pieces(&mut self, pieces: Vec<Piece>) {
        let Op::Reply(reply) = &mut self.flow.op else { return };
        let (events, end) = reply.read(pieces);
        for event in events {
            self.conversation.core.emit(event);
        }
        match end {
            None => reply.save_parts(&mut self.conversation.core, &mut self.tools.ids),
            Some(Ok(reason)) => self.answered(reason),
            Some(Err(error)) => self.reply_broke(error),
        }
    }

    /// Handles the end of an answer.
    fn answered(&mut self, reason: FinishReason) {
        let Op::Reply(mut reply) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
        let reason = reply.close(reason, self.conversation.wire.max_output);
        let empty = reply.answer.is_empty();
        let own = reply.is_own;
        if !own {
            text_calls::adopt(&self.conversation, &mut reply.answer, &reason);
        }
        let calls = reply.settle(&mut self.conversation, &mut self.tools.ids, &reason);
        self.tools.ids.answered();
        self.conversation.drop_refuted_limits(&reply.answer.usage);
        self.conversation.spending.turn.stop_reason = Some(reason.stop_reason().to_owned());
        self.conversation.wire.last_error = None;
        self.conversation.end_quota_wait();
        self.conversation.wire.refusals.smaller = 0;
        let mut written_calls = None;
        if !empty {
            // A call that becket makes in place of the model is no step. A text that repeats a subagent's answer is one.
            self.conversation.spending.turn.steps += u64::from(!own || calls == 0);
            if calls == 0 && !own {
                written_calls = text_calls::report(&mut self.conversation, &reply.answer);
            }
            self.conversation
                .spending
                .turn
                .say(reply.answer.take_text(), reason == FinishReason::Length && calls == 0);
            if self.conversation.budget.governor.step_succeeded() {
                let entry = self.conversation.budget.governor.entry();
                self.conversation.core.push(entry);
            }
        }
        let fallback = !self.conversation.wire.fallbacks.is_empty();
        let answer = machine::Answer { finish: reason, calls, empty, written_calls, fallback, own };
        self.flow.feed(Input::Answered(answer));
    }

    /// Handles a request that failed before its answer or in the middle of it.
    fn reply_broke(&mut self, mut error: ModelError) {
        // This must come first: the bytes can be computed only while nothing was appended.
        let begun = match &self.flow.op {
            Op::Reply(reply) => reply.answer.begun,
            _ => return,
        };
        if !begun
            && (self.conversation.wire.refusals.is_laid_out_anew(
                &*self.conversation.wire.model,
                &error,
                &mut self.conversation.core,
            ) || self.conversation.is_made_smaller(&mut error)
                || self.conversation.begins_quota_wait(&error))
        {
            let Op::Reply(reply) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
            self.conversation.spending.turn.api += reply.elapsed();
            let (step, wrap_up) = (reply.step, self.conversation.wire.wrap_up);
            // Dropping the reply releases its share of the run's limits, which the next request needs.
            drop(reply);
            return self.request(step, 0, wrap_up);
        }
        if !begun {
            self.conversation.remember_refusal(&error);
        }
        let Op::Reply(mut reply) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
        reply.answer.close();
        let kind = reply_error::kind(&error, begun);
        self.conversation.learn_limit(&error);
        reply.settle(&mut self.conversation, &mut self.tools.ids, &FinishReason::Error);
        self.conversation.spending.turn.say(reply.answer.take_text(), false);
        // Calls of a broken answer never run. The next attempt may use their ids again.
        self.tools.ids.forget_last();
        self.conversation.spending.turn.stop_reason = Some(FinishReason::Error.stop_reason().to_owned());
        let end = self.conversation.broken_end(&error, kind);
        let fallback = self.conversation.wire.may_fall_back(&error);
        self.conversation.wire.last_error = Some(error);
        self.flow.feed(Input::Broke(Break { kind, end, fallback }));
    }

    /// Removes the last answer from the view.
    pub(super) fn supersede(&mut self) {
        if let Some(entry) = self.tools.ids.last_entry.take() {
            self.conversation.core.flush(Durability::Buffered);
            self.conversation.budget.report = None;
            self.conversation.core.append(vec![EntryKind::Revert { entry }], Durability::Buffered);
            self.tools.ids.forget_last();
        }
    }

    /// Handles an interrupt by the user: the text so far is kept.
    pub(super) fn cancel_request(&mut self) {
        let Op::Reply(mut reply) = std::mem::replace(&mut self.flow.op, Op::None) else {
            return self.flow.feed(Input::Cancelled { calls: 0 });
        };
        reply.interrupt();
        let calls = reply.settle(&mut self.conversation, &mut self.tools.ids, &FinishReason::Interrupted);
        self.tools.ids.answered();
        self.conversation.spending.turn.say(reply.answer.take_text(), false);
        self.conversation.spending.turn.stop_reason =
            Some(FinishReason::Interrupted.stop_reason().to_owned());
        self.flow.feed(Input::Cancelled { calls });
    }

    /// Handles a request that could not be sent.
    fn reply_broke_before(&mut self, error: ModelError) {
        let kind = reply_error::kind(&error, false);
        self.conversation.learn_limit(&error);
        let end = self.conversation.broken_end(&error, kind);
        let fallback = self.conversation.wire.may_fall_back(&error);
        self.conversation.wire.last_error = Some(error);
        self.flow.feed(Input::Broke(Break { kind, end, fallback }));
    }
}

/// The final error for a failure on this machine.
fn failed(message: String) -> Break {
    Break { kind: BreakKind::Final, end: TurnEnd::Failed { message }, fallback: false }
}
