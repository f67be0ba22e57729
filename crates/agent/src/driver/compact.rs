//! Runs a compaction: takes the snapshot, carries out the steps, commits the result, and undoes it. Also prunes old outputs
//! while the provider's cache is cold, which then costs nothing.
//!
//! The rules are in `session::context::compaction`, the requests for the summary in `summary`. This file owns only the time
//! limit (90 s for all requests of one compaction, including those made ahead of time) and the commit. An interrupt drops
//! the request and leaves the history unchanged.

use super::rules_files::RulesScope;
use super::summary::{Asked, CompactionRun, TIME_LIMIT, Tries, Unsent};
use super::undo::Want;
use super::{Agent, Op, wall_clock};
use crate::host::lock;
use crate::machine::{CompactionEnd, Input, Phase};
use crate::reply_error;
use crate::settings::SecretOutputs;
use becket_session::Durability;
use becket_session::context::compaction::{
    self, Failure, Need, Outcome, Owed, Request as SnapshotRequest, Snapshot, Step, Stop, StopReason,
};
use becket_session::context::{due, present};
use becket_types::{
    CompactedByHand, CompactionTrigger, EntryKind, Event, MessageId, NoticeLevel, Tokens, TurnEnd, TurnState,
};
use serde_json::Map;
use std::time::Duration;
use tokio::time::Instant;

impl Agent {
    pub(super) fn compact(&mut self, trigger: CompactionTrigger) {
        if trigger == CompactionTrigger::Manual {
            self.give_up_preparation("a compaction by hand");
        }
        if !self.spending.in_turn {
            self.spending.turn.begin();
            // Close the calls that a dead process left open, as before a turn. A plan writes nothing else.
            let is_open = !lock(&self.core.session).view().open_calls().is_empty();
            if self.core.begun && (is_open || self.phase() != Phase::Planning) {
                self.begin_ledger();
            }
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
        self.core.pending.extend(self.tools.host.read_files());
        self.core.flush(Durability::Buffered);
        let (step, took) = self.begin_compaction(trigger);
        match self.compaction.preparing.take() {
            // The summary is already being made ahead of time, so the compaction takes that request over and waits for it.
            Some(mut run) if matches!(step, Step::Ask(_)) => {
                run.trigger = trigger;
                self.flow.op = Op::Compaction(run);
            }
            other => {
                self.compaction.preparing = other;
                let deadline = Instant::now() + TIME_LIMIT.saturating_sub(took);
                let tries = self.tries();
                self.compaction_step(trigger, step, deadline, tries);
            }
        }
    }

    /// Returns the first step of a compaction, and the time that its preparation has used of the limit.
    pub(super) fn begin_compaction(&mut self, trigger: CompactionTrigger) -> (Step, Duration) {
        // The user may have repaired the cause of a failed preparation, so a manual compaction asks again.
        let prepared = if trigger == CompactionTrigger::Manual { None } else { self.usable_preparation() };
        let usable = self.budget().usable();
        let (rules, is_changed) = self.rules.kept(&RulesScope::of(&self.settings, usable), &mut self.core);
        if is_changed {
            self.prompt_changed();
        }
        let mut snapshot = self.snapshot(trigger);
        snapshot.disk.rules = Some(rules);
        if self.budget.policy.reattach > 0.0 {
            let cwd = &self.settings.environment.cwd;
            let mask = self.settings.tools.secrets != SecretOutputs::Send;
            snapshot.disk.files = self.tools.files_to_attach(&snapshot, cwd, mask);
        }
        let took = prepared.as_ref().map_or(0, |prepared| prepared.took.0);
        (compaction::begin_with(snapshot, prepared.as_ref()), Duration::from_millis(took))
    }

    pub(super) fn snapshot(&mut self, trigger: CompactionTrigger) -> Snapshot {
        let (floor, used, budget) = (self.floor(), self.used(), self.budget());
        let summariser = self.summariser(&self.summary_model());
        let focus = if trigger == CompactionTrigger::Manual { self.compaction.focus.take() } else { None };
        let focus = match (focus, self.hooking.instructions.clone()) {
            (Some(focus), Some(more)) => Some(format!("{focus}\n{more}")),
            (focus, more) => focus.or(more),
        };
        let request = SnapshotRequest {
            trigger,
            focus,
            floor,
            used,
            budget,
            summariser: Some(summariser).filter(|_| self.settings.requests.summaries),
            continuation_id: MessageId::new(),
            now: wall_clock(),
        };
        let mut snapshot = Snapshot::of(lock(&self.core.session).view(), request);
        if trigger == CompactionTrigger::Manual && !self.spending.in_turn {
            // However the last turn ended, the agent waits for the user after this.
            snapshot.turn_state = TurnState::AwaitingUser;
        }
        snapshot
    }

    /// The message for the user when the context is full and cannot be compacted.
    pub(super) fn stop_text(&mut self, reason: StopReason) -> String {
        self.core.flush(Durability::Buffered);
        let snapshot = self.snapshot(CompactionTrigger::Auto);
        let stop = compaction::stop(&snapshot, reason);
        self.stop_words(&stop)
    }

    /// The reason for a stop in words. Without a user (headless), it must not advise commands that only a user can type.
    fn stop_words(&self, stop: &Stop) -> String {
        if self.settings.asking.headless { stop.headless() } else { stop.to_string() }
    }

    /// Adds the provider's refusal to `reason` if that refusal caused the compaction, because our own count may disagree with it.
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
                // The time limit is used up, perhaps by a preparation, so send nothing more.
                Step::Ask(ask) if Instant::now() >= deadline => step = ask.answer(Err(Failure::Timeout)),
                Step::Ask(ask) => match self.send_ask(ask, trigger, deadline, tries) {
                    Ok(run) => {
                        self.flow.op = Op::Compaction(run);
                        return;
                    }
                    Err(unsent) => {
                        let Unsent { ask, why, tries: back } = *unsent;
                        tries = back;
                        step = self.answer_ask(ask, Err(why), &mut tries);
                    }
                },
                Step::Commit(outcome) if self.phase() == Phase::Planning => {
                    return self.show_compaction(outcome);
                }
                Step::Commit(outcome) => {
                    self.commit_compaction(trigger, *outcome);
                    return self.compaction_over(CompactionEnd::Done);
                }
                Step::Stop(stop) => {
                    let words = match trigger {
                        // The user asked for this although the context may not be full, so say why nothing was compacted.
                        CompactionTrigger::Manual => format!("{}. It holds {}.", stop.reason, stop.breakdown),
                        _ => self.stop_words(&stop),
                    };
                    let (used, usable) = (self.used(), Tokens(self.budget().usable()));
                    if trigger == CompactionTrigger::Manual && used < usable {
                        // A context that is too small to be compacted is no failure.
                        self.compaction.sizes = Some(CompactedByHand { pre_tokens: used, post_tokens: used });
                    }
                    let reason = self.with_refusal(trigger, words);
                    // A plan must leave no trace in the ledger.
                    if self.phase() != Phase::Planning {
                        self.budget.governor.failed(wall_clock());
                        let entry = self.budget.governor.entry();
                        self.core.push(entry);
                        // The event informs the user; this entry keeps it in the ledger.
                        self.core.push(EntryKind::Notice { text: reason.clone(), extra: Map::new() });
                    }
                    self.core.emit(Event::CompactionFailed { reason: reason.clone() });
                    return self.compaction_over(CompactionEnd::Failed(reason));
                }
                Step::Nothing(why) => {
                    if self.phase() != Phase::Planning {
                        // The event informs the user; this entry keeps it in the ledger.
                        let text = format!("Not compacted: {why}.");
                        self.core.push(EntryKind::Notice { text, extra: Map::new() });
                    }
                    self.core.emit(Event::CompactionFailed { reason: why.to_owned() });
                    let used = self.used();
                    self.compaction.sizes = Some(CompactedByHand { pre_tokens: used, post_tokens: used });
                    return self.compaction_over(CompactionEnd::Failed(why.to_owned()));
                }
                // The compaction waited for its preparation, which has ended now.
                Step::Prepared(_) | Step::Unprepared(_) => {
                    self.core.flush(Durability::Buffered);
                    step = self.begin_compaction(trigger).0;
                    tries = self.tries();
                }
            }
        }
    }

    pub(super) fn summary_came(&mut self, asked: Asked) {
        let Op::Compaction(run) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
        let (trigger, deadline) = (run.trigger, run.deadline);
        let (step, tries) = self.take_answer(*run, asked);
        self.compaction_step(trigger, step, deadline, tries);
    }

    /// Handles the answer to one summary request: counts its usage, records the end of a preparation, and returns the next step.
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

    /// Drops the request and leaves the history unchanged.
    pub(super) fn cancel_compaction(&mut self) {
        if let Op::Compaction(run) = std::mem::replace(&mut self.flow.op, Op::None) {
            self.compaction.preparing = Some(run);
            self.give_up_preparation("an interrupt");
        }
    }

    /// Called when a compaction has ended, for whatever reason.
    pub(super) fn compaction_over(&mut self, end: CompactionEnd) {
        let compacted = self.compaction.sizes.take();
        self.hooking.instructions = None;
        if self.phase() == Phase::Planning {
            return self.feed(Input::CompactionPlanned);
        }
        let by_hand = matches!(self.phase(), Phase::Compacting { trigger: CompactionTrigger::Manual, .. });
        if self.settings.asking.headless && !self.spending.in_turn && by_hand {
            self.tell_compacted_by_hand(&end, compacted);
        }
        self.feed(Input::CompactionDone(end));
    }

    /// Emits a result for a manual compaction between turns, because a headless caller waits for one as after a turn.
    fn tell_compacted_by_hand(&mut self, end: &CompactionEnd, compacted: Option<CompactedByHand>) {
        let (end, text) = match (end, compacted) {
            (CompactionEnd::Done, Some(CompactedByHand { pre_tokens, post_tokens })) => {
                let text = format!("The context was compacted from {pre_tokens} to {post_tokens} tokens.");
                (TurnEnd::Completed, text)
            }
            (CompactionEnd::Failed(why) | CompactionEnd::Refused(why), Some(_)) => {
                (TurnEnd::Completed, format!("Not compacted: {}.", why.trim_end_matches('.')))
            }
            (CompactionEnd::Refused(what), None) => {
                (TurnEnd::HookStopped { what: what.clone() }, String::new())
            }
            (CompactionEnd::Failed(why), None) => {
                (TurnEnd::ContextFull { breakdown: why.clone() }, String::new())
            }
            (CompactionEnd::Cancelled | CompactionEnd::Done, _) => (TurnEnd::Interrupted, String::new()),
        };
        let used = self.used();
        self.core.flush(Durability::Synced);
        self.core.tell_notices();
        self.core.flush(Durability::Buffered);
        self.spending.turn.text = text;
        let mut result = self.take_result(end);
        result.compaction.by_hand =
            Some(compacted.unwrap_or(CompactedByHand { pre_tokens: used, post_tokens: used }));
        self.core.emit(Event::TurnFinished(Box::new(result)));
    }

    /// Plans a compaction that is only shown. It runs like a manual one, but is not written to the ledger.
    pub(super) fn plan_compaction(&mut self, focus: Option<String>) {
        if self.phase() != Phase::Idle {
            let text = "A compaction is shown beforehand only between turns. Interrupt this one and ask again, or compact \
                        without looking: /compact.";
            return self.core.say(NoticeLevel::Warning, text.to_owned());
        }
        self.compaction.focus = focus;
        self.feed(Input::PlanCompaction);
    }

    fn show_compaction(&mut self, outcome: Box<Outcome>) {
        self.feed(Input::CompactionPlanned);
        if self.phase() == Phase::Idle {
            return self.undo_asked(Want::Show(outcome));
        }
        let reason = "a message came before it could be shown; ask again when that is answered".to_owned();
        self.core.emit(Event::CompactionFailed { reason });
    }

    pub(super) fn commit_compaction(&mut self, trigger: CompactionTrigger, outcome: Outcome) {
        let Outcome { mut entries, report, notices } = outcome;
        self.compaction.sizes =
            Some(CompactedByHand { pre_tokens: report.tokens_before, post_tokens: report.tokens_after });
        let budget = self.budget();
        // The next request begins with other bytes than those that the provider has cached.
        self.budget.cached = Tokens(0);
        self.wire.cache.over = true;
        self.budget.governor.succeeded(report.tokens_after, &budget);
        self.budget.governor.showed(report.blind);
        if report.blind {
            // The compaction removed results from the context, so repeating those calls is no mistake of the model.
            self.tools.repetition.reset();
        }
        self.budget.prepare_at = Tokens(0);
        let made = entries.clone();
        entries.push(self.budget.governor.entry());
        let seqs = self.core.append(entries, Durability::Synced);
        self.budget.meter.forget();
        self.spending.turn.compactions += 1;
        for (kind, seq) in made.into_iter().zip(seqs) {
            match kind {
                EntryKind::Compaction(compaction) => {
                    if self.settings.hooks.engine.is_some() {
                        self.compacted_hooks(trigger, &compaction.summary);
                    }
                    self.core.emit(Event::CompactBoundary {
                        entry: seq,
                        trigger,
                        pre_tokens: compaction.tokens_before,
                        post_tokens: compaction.tokens_after,
                        summary: compaction.summary,
                        anchor: compaction.anchor,
                        tail_from: compaction.tail_from,
                        kept: compaction.kept,
                        left_out: compaction.left_out,
                    });
                }
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
        self.rules.recall(&self.core);
        self.prove_present();
        self.core.tell_notices();
        self.tell_used();
    }

    /// Checks that rules files, pins, open todos and the user's last words are in the new context, byte for byte.
    fn prove_present(&mut self) {
        self.core.flush(Durability::Buffered);
        let found = present::check(lock(&self.core.session).view_mut());
        for missing in found.iter().filter(|item| !item.there) {
            let text = format!("After the compaction, this is missing from the context: {}.", missing.what);
            self.core.notice(NoticeLevel::Warning, text);
        }
    }

    /// Prunes old outputs if the provider's cache is cold and pruning saves enough. With a warm cache it would lose the prefix.
    pub(super) fn prune_if_cold(&mut self) {
        if !self.budget.policy.prune || !self.wire.is_cold() {
            return;
        }
        let entry = due::cold_prune(lock(&self.core.session).view(), wall_clock());
        let Some(EntryKind::Prune { calls, media, cuts, freed_tokens, reason }) = entry else { return };
        let count = calls.len() as u64;
        let seqs = self.core.append(
            vec![EntryKind::Prune { calls, media, cuts, freed_tokens, reason }],
            Durability::Buffered,
        );
        if let Some(entry) = seqs.first() {
            self.core.emit(Event::Pruned { entry: *entry, calls: count, freed: freed_tokens });
        }
    }

    /// Undoes the last compaction. The view becomes exactly the one that it replaced.
    pub(super) fn undo_compaction(&mut self) {
        let last = lock(&self.core.session).view().compaction().map(|(seq, _)| seq);
        self.give_up_preparation("an undo");
        let Some(entry) = last else {
            return self.core.say(NoticeLevel::Info, "There is no compaction to undo.".to_owned());
        };
        self.core.append(vec![EntryKind::Revert { entry }], Durability::Synced);
        self.budget.meter.forget();
        self.rules.recall(&self.core);
        self.core.emit(Event::CompactionReverted { entry, counts: false });
        self.core.notice(NoticeLevel::Info, format!("The compaction of entry {entry} is undone."));
        self.core.tell_notices();
        self.tell_used();
    }
}
