//! Compaction as the driver does it: the snapshot, the requests for the summary, the commit, its undoing; and the prune
//! that costs nothing because the cache is cold.
//!
//! The rules are in `session::context::compaction`; here are only the model, the clock (90 s for all requests of one
//! compaction) and the ledger. An interrupt drops the request and leaves the history as it was.

use super::{Agent, Op, wall_clock};
use crate::host::lock;
use crate::machine::{CompactionEnd, Input};
use becket_model::{ErrorKind, Model, ModelError, ModelEvent, Request, ToolChoice};
use becket_session::Durability;
use becket_session::context::budget::Budget;
use becket_session::context::compaction::{
    self, Ask, Failure, InputKind, Need, Outcome, Owed, Request as SnapshotRequest, Snapshot, Step,
    StopReason, Summariser,
};
use becket_session::context::prune;
use becket_types::{
    CompactionTrigger, Context, ContextMessage, EntryKind, Event, FinishReason, Message, MessageId,
    NoticeLevel, Provenance, Seq, Tokens, Usage,
};
use futures::stream::{BoxStream, StreamExt as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// For all summary requests of one compaction.
const TIME_LIMIT: Duration = Duration::from_secs(90);

/// A compaction that waits for its summariser.
pub(super) struct CompactionRun {
    ask: Box<Ask>,
    trigger: CompactionTrigger,
    model: Arc<dyn Model>,
    stream: BoxStream<'static, Result<ModelEvent, ModelError>>,
    deadline: Instant,
    sent: Instant,
    text: String,
    usage: Usage,
}

/// What came of one summary request.
pub(super) struct Asked(Result<String, Failure>);

impl CompactionRun {
    /// The whole answer, or why there is none. What came so far is kept in the run.
    pub(super) async fn next(&mut self) -> Asked {
        loop {
            let event = tokio::select! {
                event = self.stream.next() => event,
                () = tokio::time::sleep_until(self.deadline) => return Asked(Err(Failure::Timeout)),
            };
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
                    return Asked(Err(Failure::Refusal));
                }
                Some(Ok(ModelEvent::Finish(_))) => return Asked(Ok(std::mem::take(&mut self.text))),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Asked(Err(failure(&error))),
                None => return Asked(Err(Failure::Error("its answer ended early".to_owned()))),
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
        self.core.flush(Durability::Buffered);
        self.report_usage();
        if trigger == CompactionTrigger::Overflow {
            let (budget, used) = (self.budget(), self.used());
            let state = &mut self.budget;
            if let Owed::Stop(reason) =
                state.governor.owed(Need::Overflow, used, &budget, &state.policy, wall_clock())
            {
                let breakdown = self.full(reason);
                self.core.emit(Event::CompactionFailed { reason: breakdown.clone() });
                return self.feed(Input::CompactionDone(CompactionEnd::Failed(breakdown)));
            }
        }
        self.core.emit(Event::CompactionStarted { trigger });
        self.core.pending.extend(self.host.read_files());
        self.core.flush(Durability::Buffered);
        let snapshot = self.snapshot(trigger);
        self.compaction_step(trigger, compaction::begin(snapshot), Instant::now() + TIME_LIMIT);
    }

    fn snapshot(&mut self, trigger: CompactionTrigger) -> Snapshot {
        let (floor, used, budget) = (self.floor(), self.used(), self.budget());
        let summariser = self.summariser();
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

    fn summariser(&mut self) -> Summariser {
        let budget = match &self.wire.summary_model {
            Some(model) => {
                let info = model.info();
                Budget::new(info.window, info.input_limit, info.max_output)
            }
            None => self.budget(),
        };
        let model = self.summary_model();
        let info = model.info();
        let cache_warm = self.wire.summary_model.is_none() && self.wire.is_warm();
        Summariser { name: info.id.clone(), budget, prices: info.prices, cache_warm }
    }

    fn summary_model(&self) -> Arc<dyn Model> {
        Arc::clone(self.wire.summary_model.as_ref().unwrap_or(&self.wire.model))
    }

    /// What a person is told when the context is full and not compacted.
    pub(super) fn stop_text(&mut self, reason: StopReason) -> String {
        self.core.flush(Durability::Buffered);
        let snapshot = self.snapshot(CompactionTrigger::Auto);
        compaction::stop(&snapshot, reason).to_string()
    }

    fn compaction_step(&mut self, trigger: CompactionTrigger, mut step: Step, deadline: Instant) {
        loop {
            match step {
                Step::Ask(ask) => match self.ask(&ask) {
                    Ok((model, stream)) => {
                        let sent = Instant::now();
                        let (text, usage) = (String::new(), Usage::default());
                        let run = CompactionRun { ask, trigger, model, stream, deadline, sent, text, usage };
                        self.op = Op::Compaction(Box::new(run));
                        return;
                    }
                    Err(error) => step = ask.answer(Err(failure(&error))),
                },
                Step::Commit(outcome) => return self.commit_compaction(trigger, *outcome),
                Step::Stop(stop) => {
                    self.budget.governor.failed(wall_clock());
                    let entry = self.budget.governor.entry();
                    self.core.push(entry);
                    let reason = stop.to_string();
                    self.core.notice(NoticeLevel::Warning, reason.clone());
                    self.core.emit(Event::CompactionFailed { reason: reason.clone() });
                    return self.feed(Input::CompactionDone(CompactionEnd::Failed(reason)));
                }
                Step::Nothing(why) => {
                    self.core.say(NoticeLevel::Info, format!("Not compacted: {why}."));
                    self.core.emit(Event::CompactionFailed { reason: why.to_owned() });
                    return self.feed(Input::CompactionDone(CompactionEnd::Failed(why.to_owned())));
                }
            }
        }
    }

    pub(super) fn summary_came(&mut self, Asked(answer): Asked) {
        let Op::Compaction(run) = std::mem::replace(&mut self.op, Op::None) else { return };
        let CompactionRun { ask, trigger, model, deadline, sent, usage, .. } = *run;
        self.turn.api += sent.elapsed();
        let info = model.info().clone();
        self.spent(&info, usage, "summary", None);
        self.compaction_step(trigger, ask.answer(answer), deadline);
    }

    /// Sends one summary request.
    #[expect(clippy::type_complexity, reason = "a model and its stream")]
    fn ask(
        &mut self,
        ask: &Ask,
    ) -> Result<(Arc<dyn Model>, BoxStream<'static, Result<ModelEvent, ModelError>>), ModelError> {
        let request = ask.request();
        let model = self.summary_model();
        let message = Arc::new(ContextMessage {
            message: Message::user(request.prompt),
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
            blobs: &self.core.blobs,
        };
        let prepared = model.prepare(&request)?;
        let stream = model.send(prepared);
        Ok((model, stream))
    }

    fn commit_compaction(&mut self, trigger: CompactionTrigger, outcome: Outcome) {
        let Outcome { mut entries, report, notices } = outcome;
        let budget = self.budget();
        self.budget.governor.succeeded(report.tokens_after, &budget);
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
        self.core.tell_notices();
        self.feed(Input::CompactionDone(CompactionEnd::Done));
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
        let Some(entry) = last else {
            return self.core.say(NoticeLevel::Info, "There is no compaction to undo.".to_owned());
        };
        self.core.append(vec![EntryKind::Revert { entry }], Durability::Synced);
        self.budget.meter.forget();
        self.core.notice(NoticeLevel::Info, format!("The compaction of entry {entry} is undone."));
        self.core.tell_notices();
    }
}
