//! Compaction as the driver does it: the snapshot, the requests for the summary, the commit, its undoing; and the prune
//! that costs nothing because the cache is cold.
//!
//! The rules are in `session::context::compaction`; here are only the model, the clock (90 s for all requests of one
//! compaction, those made ahead of time included) and the ledger. An interrupt drops the request and leaves the history as
//! it was.
//!
//! A summary is asked of the summary model; one that cannot be reached gives way to the running model and the fallback
//! models in turn, without a switch of the session's model.

use super::undo::Want;
use super::{Agent, Op, wall_clock};
use crate::host::lock;
use crate::machine::{CompactionEnd, Input, Phase};
use crate::reply_error;
use becket_model::{ErrorKind, Model, ModelError, ModelEvent, Request, ToolChoice};
use becket_session::Durability;
use becket_session::context::budget::Budget;
use becket_session::context::compaction::{
    self, Ask, Failure, InputKind, Need, Outcome, Owed, Request as SnapshotRequest, Snapshot, Step, Stop,
    StopReason, Summariser,
};
use becket_session::context::{present, prune};
use becket_types::{
    CompactionTrigger, Context, ContextMessage, EntryKind, Event, FinishReason, Message, MessageId,
    NoticeLevel, Provenance, SentRequest, Seq, Tokens, Usage, hex,
};
use futures::stream::{BoxStream, StreamExt as _};
use serde_json::{Map, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// For all summary requests of one compaction.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(90);
/// No summary is this long, in bytes: whoever writes on is not going to end.
const MAX_TEXT: usize = 1 << 20;

/// A compaction that waits for its summariser, or a summary that is made ahead of time.
pub(super) struct CompactionRun {
    pub(super) ask: Box<Ask>,
    trigger: CompactionTrigger,
    model: Arc<dyn Model>,
    stream: BoxStream<'static, Result<ModelEvent, ModelError>>,
    pub(super) deadline: Instant,
    sent: Instant,
    text: String,
    pub(super) usage: Usage,
    tries: Tries,
}

/// How far the summary requests of one compaction went to get an answer.
#[derive(Clone, Copy, Default)]
pub(super) struct Tries {
    /// Place in [`Agent::summarisers`].
    model: usize,
    /// The answer broke off once, and was asked for again.
    again: bool,
}

/// What came of one summary request.
pub(super) struct Asked(Result<String, Broken>);

enum Broken {
    Model(ModelError),
    Other(Failure),
}

impl CompactionRun {
    /// The whole answer, or why there is none. What came so far is kept in the run.
    pub(super) async fn next(&mut self) -> Asked {
        loop {
            let event = tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.deadline) => {
                    return Asked(Err(Broken::Other(Failure::Timeout)));
                }
                event = self.stream.next() => event,
            };
            if self.text.len() > MAX_TEXT {
                let endless = format!("its answer did not end within {MAX_TEXT} bytes");
                return Asked(Err(Broken::Other(Failure::Error(endless))));
            }
            match event {
                Some(Ok(ModelEvent::TextDelta { text, .. })) => self.text.push_str(&text),
                Some(Ok(ModelEvent::Part { part: becket_types::Part::Text { text, .. }, .. })) => {
                    // A whole part repeats its deltas.
                    if !self.text.ends_with(&text) {
                        self.text.push_str(&text);
                    }
                }
                Some(Ok(ModelEvent::Usage(usage))) => self.usage = usage,
                Some(Ok(ModelEvent::Finish(FinishReason::Refusal | FinishReason::ContentFilter))) => {
                    return Asked(Err(Broken::Other(Failure::Refusal)));
                }
                Some(Ok(ModelEvent::Finish(_))) => return Asked(Ok(std::mem::take(&mut self.text))),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Asked(Err(Broken::Model(error))),
                None => return Asked(Err(Broken::Model(reply_error::ended_early()))),
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

impl Agent {
    pub(super) fn compact(&mut self, trigger: CompactionTrigger) {
        if trigger == CompactionTrigger::Manual {
            self.give_up_preparation("a compaction by hand");
        }
        self.core.flush(Durability::Buffered);
        self.report_usage();
        if trigger == CompactionTrigger::Overflow {
            let (budget, used) = (self.budget(), self.used());
            let state = &mut self.budget;
            if let Owed::Stop(reason) =
                state.governor.owed(Need::Overflow, used, &budget, &state.policy, wall_clock())
            {
                let breakdown = self.full(reason);
                let breakdown = self.with_refusal(trigger, breakdown);
                self.core.emit(Event::CompactionFailed { reason: breakdown.clone() });
                return self.compaction_over(CompactionEnd::Failed(breakdown));
            }
        }
        self.core.emit(Event::CompactionStarted { trigger });
        self.core.pending.extend(self.host.read_files());
        self.core.flush(Durability::Buffered);
        let (step, took) = self.begin_compaction(trigger);
        match self.preparing.take() {
            // The summary is on its way already: this now waits for it.
            Some(mut run) if matches!(step, Step::Ask(_)) => {
                run.trigger = trigger;
                self.op = Op::Compaction(run);
            }
            other => {
                self.preparing = other;
                let deadline = Instant::now() + TIME_LIMIT.saturating_sub(took);
                self.compaction_step(trigger, step, deadline, Tries::default());
            }
        }
    }

    /// The first step of a compaction, and the time that its preparation took.
    pub(super) fn begin_compaction(&mut self, trigger: CompactionTrigger) -> (Step, Duration) {
        let prepared = if trigger == CompactionTrigger::Manual { None } else { self.prepared() };
        let snapshot = self.snapshot(trigger);
        let took = prepared.as_ref().map_or(0, |prepared| prepared.took.0);
        (compaction::begin_with(snapshot, prepared.as_ref()), Duration::from_millis(took))
    }

    pub(super) fn snapshot(&mut self, trigger: CompactionTrigger) -> Snapshot {
        let (floor, used, budget) = (self.floor(), self.used(), self.budget());
        let summariser = self.summariser(&self.summary_model());
        let focus = if trigger == CompactionTrigger::Manual { self.focus.take() } else { None };
        let request = SnapshotRequest {
            trigger,
            focus,
            floor,
            used,
            budget,
            summariser: Some(summariser),
            continuation_id: MessageId::new(),
            now: wall_clock(),
        };
        Snapshot::of(lock(&self.core.session).view(), request)
    }

    fn summariser(&mut self, model: &Arc<dyn Model>) -> Summariser {
        let running = Arc::ptr_eq(model, &self.wire.model);
        let info = model.info();
        let budget =
            if running { self.budget() } else { Budget::new(info.window, info.input_limit, info.max_output) };
        let cache_warm = running && self.wire.is_warm();
        Summariser { name: info.id.clone(), budget, prices: info.prices, cache_warm }
    }

    /// The model that summaries are asked of first.
    fn summary_model(&self) -> Arc<dyn Model> {
        Arc::clone(self.wire.summary_model.as_ref().unwrap_or(&self.wire.model))
    }

    /// The models that a summary may be asked of, in order.
    fn summarisers(&self) -> Vec<Arc<dyn Model>> {
        let own = self.wire.summary_model.iter();
        own.chain([&self.wire.model]).chain(&self.wire.fallbacks).map(Arc::clone).collect()
    }

    /// What a person is told when the context is full and not compacted.
    pub(super) fn stop_text(&mut self, reason: StopReason) -> String {
        self.core.flush(Durability::Buffered);
        let snapshot = self.snapshot(CompactionTrigger::Auto);
        let stop = compaction::stop(&snapshot, reason);
        self.stop_words(&stop)
    }

    /// Only who can type a command is told of one.
    fn stop_words(&self, stop: &Stop) -> String {
        if self.settings.headless { stop.headless() } else { stop.to_string() }
    }

    /// Behind what the provider said, where that is why it was compacted: our own count says something else then.
    fn with_refusal(&self, trigger: CompactionTrigger, reason: String) -> String {
        match &self.wire.last_error {
            Some(error) if trigger == CompactionTrigger::Overflow => {
                format!("{} {reason}", reply_error::sentence(&error.message))
            }
            _ => reason,
        }
    }

    fn compaction_step(
        &mut self,
        trigger: CompactionTrigger,
        mut step: Step,
        deadline: Instant,
        mut tries: Tries,
    ) {
        loop {
            match step {
                // The limit is used up, by a preparation perhaps: nothing is sent any more.
                Step::Ask(ask) if Instant::now() >= deadline => step = ask.answer(Err(Failure::Timeout)),
                Step::Ask(ask) => match self.send_ask(ask, trigger, deadline, tries) {
                    Ok(run) => {
                        self.op = Op::Compaction(run);
                        return;
                    }
                    Err((ask, error)) => step = self.answer_ask(ask, Err(Broken::Model(error)), &mut tries),
                },
                Step::Commit(outcome) if self.preview => return self.show_compaction(outcome),
                Step::Commit(outcome) => {
                    self.commit_compaction(trigger, *outcome);
                    return self.compaction_over(CompactionEnd::Done);
                }
                Step::Stop(stop) => {
                    self.budget.governor.failed(wall_clock());
                    let entry = self.budget.governor.entry();
                    self.core.push(entry);
                    let words = match trigger {
                        // It need not be full: whoever asked is told why nothing came of it.
                        CompactionTrigger::Manual => format!("{}. It holds {}.", stop.reason, stop.breakdown),
                        _ => self.stop_words(&stop),
                    };
                    let reason = self.with_refusal(trigger, words);
                    // People hear it by the event; the ledger keeps it.
                    self.core.push(EntryKind::Notice { text: reason.clone(), extra: Map::new() });
                    self.core.emit(Event::CompactionFailed { reason: reason.clone() });
                    return self.compaction_over(CompactionEnd::Failed(reason));
                }
                Step::Nothing(why) => {
                    // People hear it by the event; the ledger keeps it.
                    let text = format!("Not compacted: {why}.");
                    self.core.push(EntryKind::Notice { text, extra: Map::new() });
                    self.core.emit(Event::CompactionFailed { reason: why.to_owned() });
                    return self.compaction_over(CompactionEnd::Failed(why.to_owned()));
                }
                // The compaction waited for its preparation; this is the end of it.
                Step::Prepared(_) | Step::Unprepared(_) => {
                    self.core.flush(Durability::Buffered);
                    step = self.begin_compaction(trigger).0;
                    tries = Tries::default();
                }
            }
        }
    }

    pub(super) fn summary_came(&mut self, asked: Asked) {
        let Op::Compaction(run) = std::mem::replace(&mut self.op, Op::None) else { return };
        let (trigger, deadline) = (run.trigger, run.deadline);
        let (step, tries) = self.take_answer(*run, asked);
        self.compaction_step(trigger, step, deadline, tries);
    }

    /// What follows from the answer to one summary request; its usage is counted, a preparation's end is recorded.
    pub(super) fn take_answer(&mut self, run: CompactionRun, Asked(answer): Asked) -> (Step, Tries) {
        self.count_run(&run);
        let CompactionRun { ask, mut tries, deadline, .. } = run;
        let preparation = ask.preparation();
        let step = self.answer_ask(ask, answer, &mut tries);
        if let Some(preparation) = preparation {
            self.keep_preparation(preparation, &step, deadline);
        }
        (step, tries)
    }

    /// The request is dropped; the history stays as it was.
    pub(super) fn cancel_compaction(&mut self) {
        if let Op::Compaction(run) = std::mem::replace(&mut self.op, Op::None) {
            self.preparing = Some(run);
            self.give_up_preparation("an interrupt");
        }
    }

    /// Time and usage of a request that ended or is given up.
    pub(super) fn count_run(&mut self, run: &CompactionRun) {
        self.turn.api += run.sent.elapsed();
        let info = run.model.info().clone();
        self.spent(&info, run.usage, "summary", None);
    }

    /// An answer that broke off is asked for once more; a model that cannot be reached gives way to the next one.
    fn answer_ask(&mut self, ask: Box<Ask>, answer: Result<String, Broken>, tries: &mut Tries) -> Step {
        let error = match answer {
            Ok(text) => return ask.answer(Ok(text)),
            Err(Broken::Other(failure)) => return ask.answer(Err(failure)),
            Err(Broken::Model(error)) => error,
        };
        if matches!(error.kind, ErrorKind::StreamBroken | ErrorKind::Stalled) && !tries.again {
            tries.again = true;
            return ask.once_more();
        }
        let models = self.summarisers();
        if let Some(model) = models.get(tries.model)
            && self.is_laid_out_anew(model, &error)
        {
            return ask.once_more();
        }
        if let Some(next) = models.get(tries.model + 1)
            && reply_error::another_model_may_help(error.kind)
        {
            let failed = models.get(tries.model).map(|m| m.info().id.clone()).unwrap_or_default();
            let text = format!("{failed}: {error} The summary is asked of {}.", next.info().id);
            self.core.notice(NoticeLevel::Warning, text);
            *tries = Tries { model: tries.model + 1, again: false };
            let summariser = self.summariser(next);
            return ask.to_model(summariser);
        }
        ask.answer(Err(failure(&error)))
    }

    /// Sends one summary request.
    pub(super) fn send_ask(
        &mut self,
        ask: Box<Ask>,
        trigger: CompactionTrigger,
        deadline: Instant,
        tries: Tries,
    ) -> Result<Box<CompactionRun>, (Box<Ask>, ModelError)> {
        self.core.flush(Durability::Buffered);
        let request = ask.request();
        let prompt = json!({ "system": request.system, "prompt": request.prompt }).to_string();
        let model = self.summarisers().into_iter().nth(tries.model).unwrap_or_else(|| self.summary_model());
        let message = Arc::new(ContextMessage {
            message: Arc::new(Message::user(request.prompt)),
            provenance: Provenance { seq: Seq(0), message: None, applied: Vec::new() },
            tokens: Tokens(0),
        });
        let cached = request.input == InputKind::CachedPrefix;
        let mut context = if cached {
            lock(&self.core.session).view_mut().context().clone()
        } else {
            Context { system: Arc::from([Arc::from(request.system.as_str())]), ..Context::default() }
        };
        context.messages.push(message);
        // A generation of its own: what an adapter keeps of the running request is not continued by this one.
        self.wire.summaries += 1;
        context.generation = u64::MAX - self.wire.summaries;
        let request = Request {
            context: &context,
            tools: if cached { &self.specs } else { &[] },
            tool_choice: ToolChoice::None,
            max_output: request.max_output,
            effort: self.settings.effort.as_deref().filter(|_| cached),
            layout: None,
            blobs: &self.core.blobs,
        };
        match model.prepare(&request) {
            Ok(prepared) => {
                let (max_output, effort) = (request.max_output, request.effort.map(str::to_owned));
                let sent = SentRequest {
                    model: model.info().id.clone(),
                    purpose: "summary".to_owned(),
                    max_output,
                    effort,
                    no_calls: true,
                    layout: prepared.layout,
                    prompt: lock(&self.core.session).put_blob(prompt.as_bytes()).ok(),
                    bytes: prepared.len() as u64,
                    sha256: hex(&prepared.digest),
                };
                self.core.push(EntryKind::Request(Box::new(sent)));
                let (stream, sent) = (model.send(prepared), Instant::now());
                let (text, usage) = (String::new(), Usage::default());
                let run = CompactionRun { ask, trigger, model, stream, deadline, sent, text, usage, tries };
                Ok(Box::new(run))
            }
            Err(error) => Err((ask, error)),
        }
    }

    /// The operation ended, however.
    pub(super) fn compaction_over(&mut self, end: CompactionEnd) {
        self.preview = false;
        self.feed(Input::CompactionDone(end));
    }

    /// A compaction that is only shown: made as one by hand, and not appended.
    pub(super) fn plan_compaction(&mut self, focus: Option<String>) {
        if self.phase() != Phase::Idle {
            let text = "A compaction is shown beforehand only between turns. Interrupt this one and ask again, or compact \
                        without looking: /compact.";
            return self.core.say(NoticeLevel::Warning, text.to_owned());
        }
        self.focus = focus;
        self.preview = true;
        self.feed(Input::Compact);
    }

    fn show_compaction(&mut self, outcome: Box<Outcome>) {
        self.compaction_over(CompactionEnd::Cancelled);
        if self.phase() == Phase::Idle {
            return self.undo_asked(Want::Show(outcome));
        }
        let reason = "a message came before it could be shown; ask again when that is answered".to_owned();
        self.core.emit(Event::CompactionFailed { reason });
    }

    pub(super) fn commit_compaction(&mut self, trigger: CompactionTrigger, outcome: Outcome) {
        let Outcome { mut entries, report, notices } = outcome;
        let budget = self.budget();
        self.budget.governor.succeeded(report.tokens_after, &budget);
        self.budget.prepare_at = Tokens(0);
        let made = entries.clone();
        entries.push(self.budget.governor.entry());
        let seqs = self.core.append(entries, Durability::Synced);
        self.budget.meter.forget();
        self.turn.compactions += 1;
        for (kind, seq) in made.into_iter().zip(seqs) {
            match kind {
                EntryKind::Compaction(compaction) => self.core.emit(Event::CompactBoundary {
                    entry: seq,
                    trigger,
                    pre_tokens: compaction.tokens_before,
                    post_tokens: compaction.tokens_after,
                    summary: compaction.summary,
                    anchor: compaction.anchor,
                    tail_from: compaction.tail_from,
                    kept: compaction.kept,
                }),
                EntryKind::Message { mut message } => {
                    message.seq = seq;
                    self.core.emit(Event::SyntheticMessage { message });
                }
                EntryKind::Prune { calls, freed_tokens, .. } => {
                    self.core.emit(Event::Pruned {
                        entry: seq,
                        calls: calls.len() as u64,
                        freed: freed_tokens,
                    });
                }
                _ => {}
            }
        }
        for text in notices {
            self.core.notice(NoticeLevel::Warning, text);
        }
        // Rules are never entrusted to a summary: they are read again.
        self.refresh_rules();
        self.prove_present();
        self.core.tell_notices();
        self.tell_used();
    }

    /// Rules files, pins, open todos and the user's last words are looked for in what will be sent, byte for byte.
    fn prove_present(&mut self) {
        self.core.flush(Durability::Buffered);
        let found = present::check(lock(&self.core.session).view_mut());
        for missing in found.iter().filter(|item| !item.there) {
            let text = format!("After the compaction, this is missing from the context: {}.", missing.what);
            self.core.notice(NoticeLevel::Warning, text);
        }
    }

    /// The cache is cold anyway: old outputs may go, if that is worth it.
    pub(super) fn prune_if_cold(&mut self) {
        if !self.budget.policy.prune || !self.wire.is_cold() {
            return;
        }
        let entry = prune::cold(lock(&self.core.session).view(), wall_clock());
        let Some(EntryKind::Prune { calls, media, freed_tokens, reason }) = entry else { return };
        let count = calls.len() as u64;
        let seqs = self
            .core
            .append(vec![EntryKind::Prune { calls, media, freed_tokens, reason }], Durability::Buffered);
        if let Some(entry) = seqs.first() {
            self.core.emit(Event::Pruned { entry: *entry, calls: count, freed: freed_tokens });
        }
    }

    /// The last compaction counts as if it had not been; the view from before is back, exactly.
    pub(super) fn undo_compaction(&mut self) {
        let last = lock(&self.core.session).view().compaction().map(|(seq, _)| seq);
        self.give_up_preparation("an undo");
        let Some(entry) = last else {
            return self.core.say(NoticeLevel::Info, "There is no compaction to undo.".to_owned());
        };
        self.core.append(vec![EntryKind::Revert { entry }], Durability::Synced);
        self.budget.meter.forget();
        self.core.notice(NoticeLevel::Info, format!("The compaction of entry {entry} is undone."));
        self.core.tell_notices();
        self.core.emit(Event::CompactionReverted { entry, counts: false });
        self.tell_used();
    }
}
