//! Runs a compaction: takes the snapshot, carries out the steps, commits the result, and undoes it. Also prunes old outputs
//! while the provider's cache is cold, which then costs nothing.
//!
//! The rules are in `session::context::compaction`, the requests for the summary in `summary`. This file only keeps the
//! time limit (90 s for all requests of one compaction, including those made ahead of time) and commits. An interrupt drops
//! the request and leaves the history unchanged.

use super::conversation::Conversation;
use super::count;
use super::flow::Flow;
use super::hooks::{HookCaller, HookState};
use super::ledger::Core;
use super::prepare::CompactionState;
use super::rules_files::{KnownRules, RulesScope};
use super::start::FirstEntries;
use super::summary::{SummaryAnswer, SummaryAttempts, TIME_LIMIT, Unsent};
use super::toolset::Toolset;
use super::undo::{UndoRequest, Undoing};
use super::{Op, wall_clock};
use crate::host::lock;
use crate::machine::{CompactionEnd, Input, Phase};
use crate::settings::SecretOutputs;
use becket_session::Durability;
use becket_session::context::compaction::{self, CompactionReason, Failure, Outcome, Step, Verdict};
use becket_session::context::{due, present};
use becket_types::{CompactedByHand, CompactionTrigger, EntryKind, Event, NoticeLevel, Tokens, TurnEnd};
use serde_json::Map;
use std::time::Duration;
use tokio::time::Instant;

/// Runs compactions.
pub(super) struct Compactor<'a> {
    pub(super) flow: &'a mut Flow,
    pub(super) conversation: &'a mut Conversation,
    pub(super) state: &'a mut CompactionState,
    pub(super) rules: &'a mut KnownRules,
    pub(super) tools: &'a mut Toolset,
    pub(super) hooking: &'a mut HookState,
    pub(super) undoing: &'a mut Undoing,
}

impl Compactor<'_> {
    /// Runs a compaction, or begins to wait for its summary.
    pub(super) fn compact(&mut self, trigger: CompactionTrigger) {
        if trigger == CompactionTrigger::Manual {
            self.state.give_up_preparation(self.conversation, "a compaction by hand");
        }
        if !self.conversation.spending.in_turn {
            self.conversation.spending.turn.begin();
            // As before a turn, write the entries that close the calls of a dead process. A plan writes nothing else.
            let is_open = !lock(&self.conversation.core.session).view().open_calls().is_empty();
            if self.conversation.core.begun && (is_open || self.flow.phase() != Phase::Planning) {
                let (conversation, rules, tools) =
                    (&mut *self.conversation, &mut *self.rules, &mut *self.tools);
                let first = FirstEntries { conversation, rules, tools }.write();
                self.hooks().instructions_hooks(&first, "session_start");
            }
        }
        self.conversation.core.flush(Durability::Buffered);
        self.conversation.report_usage();
        if trigger == CompactionTrigger::Overflow {
            let (budget, used) = (self.conversation.budget(), self.conversation.next_request_size());
            let state = &mut self.conversation.budget;
            if let Verdict::Stop(reason) =
                state.governor.decide(CompactionReason::Overflow, used, &budget, &state.policy, wall_clock())
            {
                let breakdown = self.conversation.full(reason);
                let breakdown = self.conversation.with_refusal(trigger, breakdown);
                self.conversation.core.emit(Event::CompactionFailed { reason: breakdown.clone() });
                return self.finish_compaction(CompactionEnd::Failed(breakdown));
            }
        }
        self.conversation.core.emit(Event::CompactionStarted { trigger });
        self.conversation.core.pending.extend(self.tools.host.read_files());
        self.conversation.core.flush(Durability::Buffered);
        let (step, took) = self.begin_compaction(trigger);
        match self.state.preparing.take() {
            // The summary is already being made ahead of time, so the compaction takes that request over and waits for it.
            Some(mut run) if matches!(step, Step::Ask(_)) => {
                run.trigger = trigger;
                self.flow.op = Op::Compaction(run);
            }
            other => {
                self.state.preparing = other;
                let deadline = Instant::now() + TIME_LIMIT.saturating_sub(took);
                let tries = self.conversation.tries();
                self.compaction_step(trigger, step, deadline, tries);
            }
        }
    }

    /// Returns the first step of a compaction, and the time that its preparation has used of the limit.
    pub(super) fn begin_compaction(&mut self, trigger: CompactionTrigger) -> (Step, Duration) {
        // The user may have repaired the cause of a failed preparation, so a manual compaction asks again.
        let prepared = if trigger == CompactionTrigger::Manual {
            None
        } else {
            self.state.usable(&self.conversation.core)
        };
        let usable = self.conversation.budget().usable();
        let (rules, is_changed) = self.rules.for_compaction(
            &RulesScope::new(&self.conversation.settings, usable),
            &mut self.conversation.core,
        );
        if is_changed {
            self.conversation.prompt_changed();
        }
        let mut snapshot = self.state.snapshot(self.conversation, trigger);
        snapshot.disk.rules = Some(rules);
        if self.conversation.budget.policy.reattach > 0.0 {
            let cwd = &self.conversation.settings.environment.cwd;
            let mask = self.conversation.settings.tools.secrets != SecretOutputs::Send;
            snapshot.disk.files = self.tools.files_to_attach(&snapshot, cwd, mask);
        }
        let took = prepared.as_ref().map_or(0, |prepared| prepared.took.0);
        (compaction::begin_with(snapshot, prepared.as_ref()), Duration::from_millis(took))
    }

    fn compaction_step(
        &mut self,
        trigger: CompactionTrigger,
        mut step: Step,
        deadline: Instant,
        mut tries: SummaryAttempts,
    ) {
        loop {
            match step {
                // The time limit is used up, perhaps by a preparation, so send nothing more.
                Step::Ask(ask) if Instant::now() >= deadline => step = ask.answer(Err(Failure::Timeout)),
                Step::Ask(ask) => match self.conversation.send_ask(ask, trigger, deadline, tries) {
                    Ok(run) => {
                        self.flow.op = Op::Compaction(run);
                        return;
                    }
                    Err(unsent) => {
                        let Unsent { ask, why, tries: back } = *unsent;
                        tries = back;
                        step = self.conversation.answer_ask(ask, Err(why), &mut tries);
                    }
                },
                Step::Commit(outcome) if self.flow.phase() == Phase::Planning => {
                    return self.show_compaction(outcome);
                }
                Step::Commit(outcome) => {
                    self.commit_compaction(trigger, *outcome);
                    return self.finish_compaction(CompactionEnd::Done);
                }
                Step::Stop(stop) => {
                    let words = match trigger {
                        // The user asked for this although the context may not be full, so say why nothing was compacted.
                        CompactionTrigger::Manual => format!("{}. It holds {}.", stop.reason, stop.breakdown),
                        _ => self.conversation.stop_words(&stop),
                    };
                    let (used, usable) =
                        (self.conversation.next_request_size(), Tokens(self.conversation.budget().usable()));
                    if trigger == CompactionTrigger::Manual && used < usable {
                        // A context that is too small to be compacted is no failure.
                        self.state.sizes = Some(CompactedByHand { pre_tokens: used, post_tokens: used });
                    }
                    let reason = self.conversation.with_refusal(trigger, words);
                    // A plan must leave no trace in the ledger.
                    if self.flow.phase() != Phase::Planning {
                        self.conversation.budget.governor.failed(wall_clock());
                        let entry = self.conversation.budget.governor.entry();
                        self.conversation.core.push(entry);
                        // The event informs the user; this entry keeps it in the ledger.
                        self.conversation
                            .core
                            .push(EntryKind::Notice { text: reason.clone(), extra: Map::new() });
                    }
                    self.conversation.core.emit(Event::CompactionFailed { reason: reason.clone() });
                    return self.finish_compaction(CompactionEnd::Failed(reason));
                }
                Step::Nothing(why) => {
                    if self.flow.phase() != Phase::Planning {
                        // The event informs the user; this entry keeps it in the ledger.
                        let text = format!("Not compacted: {why}.");
                        self.conversation.core.push(EntryKind::Notice { text, extra: Map::new() });
                    }
                    self.conversation.core.emit(Event::CompactionFailed { reason: why.to_owned() });
                    let used = self.conversation.next_request_size();
                    self.state.sizes = Some(CompactedByHand { pre_tokens: used, post_tokens: used });
                    return self.finish_compaction(CompactionEnd::Failed(why.to_owned()));
                }
                // The compaction waited for its preparation, which has ended now.
                Step::Prepared(_) | Step::Unprepared(_) => {
                    self.conversation.core.flush(Durability::Buffered);
                    step = self.begin_compaction(trigger).0;
                    tries = self.conversation.tries();
                }
            }
        }
    }

    pub(super) fn take_summary(&mut self, asked: SummaryAnswer) {
        let Op::Compaction(run) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
        let (trigger, deadline) = (run.trigger, run.deadline);
        let (step, tries) = self.state.take_answer(self.conversation, *run, asked);
        self.compaction_step(trigger, step, deadline, tries);
    }

    /// Drops the request and leaves the history unchanged.
    pub(super) fn cancel_compaction(&mut self) {
        if let Op::Compaction(run) = std::mem::replace(&mut self.flow.op, Op::None) {
            self.state.preparing = Some(run);
            self.state.give_up_preparation(self.conversation, "an interrupt");
        }
    }

    /// Called when a compaction has ended, for whatever reason.
    pub(super) fn finish_compaction(&mut self, end: CompactionEnd) {
        let compacted = self.state.sizes.take();
        self.state.instructions = None;
        if self.flow.phase() == Phase::Planning {
            return self.flow.feed(Input::CompactionPlanned);
        }
        let by_hand =
            matches!(self.flow.phase(), Phase::Compacting { trigger: CompactionTrigger::Manual, .. });
        if self.conversation.settings.asking.headless && !self.conversation.spending.in_turn && by_hand {
            tell_compacted_by_hand(self.conversation, &end, compacted);
        }
        self.flow.feed(Input::CompactionDone(end));
    }

    fn show_compaction(&mut self, outcome: Box<Outcome>) {
        self.flow.feed(Input::CompactionPlanned);
        if self.flow.phase() == Phase::Idle {
            // `ask` refuses only during a turn, and the machine is idle here.
            let _ = self.undoing.ask(UndoRequest::Show(outcome), Phase::Idle);
            return self.flow.feed(Input::Restore);
        }
        let reason = "a message came before it could be shown; ask again when that is answered".to_owned();
        self.conversation.core.emit(Event::CompactionFailed { reason });
    }

    pub(super) fn commit_compaction(&mut self, trigger: CompactionTrigger, outcome: Outcome) {
        let Outcome { mut entries, report, notices } = outcome;
        self.state.sizes =
            Some(CompactedByHand { pre_tokens: report.tokens_before, post_tokens: report.tokens_after });
        let budget = self.conversation.budget();
        // The next request begins with other bytes than those that the provider has cached.
        self.conversation.budget.cached = Tokens(0);
        self.conversation.wire.cache.is_done = true;
        self.conversation.budget.governor.succeeded(report.tokens_after, &budget);
        self.conversation.budget.governor.note_shown(report.blind);
        if report.blind {
            // The compaction removed results from the context, so the model makes no mistake if it repeats those calls.
            self.tools.repetition.reset();
        }
        self.conversation.budget.prepare_at = Tokens(0);
        let made = entries.clone();
        entries.push(self.conversation.budget.governor.entry());
        let seqs = self.conversation.core.append(entries, Durability::Synced);
        count::forget_report(self.conversation);
        self.conversation.spending.turn.compactions += 1;
        for (kind, seq) in made.into_iter().zip(seqs) {
            match kind {
                EntryKind::Compaction(compaction) => {
                    if self.conversation.settings.hooks.engine.is_some() {
                        self.hooks().compacted_hooks(trigger, &compaction.summary);
                    }
                    self.conversation.core.emit(Event::compact_boundary(seq, *compaction));
                }
                EntryKind::Message { mut message } => {
                    message.seq = seq;
                    self.conversation.core.emit(Event::SyntheticMessage { message });
                }
                EntryKind::Prune { calls, freed_tokens, .. } => {
                    self.conversation.core.emit(Event::Pruned {
                        entry: seq,
                        calls: calls.len() as u64,
                        freed: freed_tokens,
                    });
                }
                _ => {}
            }
        }
        for text in notices {
            self.conversation.core.notice(NoticeLevel::Warning, text);
        }
        self.rules.recall(&self.conversation.core);
        prove_present(&mut self.conversation.core);
        self.conversation.core.tell_notices();
        // Front ends get the size that the compaction reported. Until the provider reports the new size, `emit_context_used` would
        // only send a second estimate of the same context.
        self.conversation.emit_context_used_as(report.tokens_after);
    }

    /// Undoes the last compaction. The view becomes exactly the one that it replaced.
    pub(super) fn undo_compaction(&mut self) {
        let last = lock(&self.conversation.core.session).view().compaction().map(|(seq, _)| seq);
        self.state.give_up_preparation(self.conversation, "an undo");
        let Some(entry) = last else {
            return self.conversation.core.nothing_to_do("There is no compaction to undo.".to_owned());
        };
        self.conversation.core.append(vec![EntryKind::Revert { entry }], Durability::Synced);
        count::forget_report(self.conversation);
        self.rules.recall(&self.conversation.core);
        self.conversation.core.emit(Event::CompactionReverted { entry, counts: false });
        self.conversation
            .core
            .notice(NoticeLevel::Info, format!("The compaction of entry {entry} is undone."));
        self.conversation.core.tell_notices();
        self.conversation.emit_context_used();
    }

    fn hooks(&mut self) -> HookCaller<'_> {
        HookCaller {
            conversation: self.conversation,
            hooking: self.hooking,
            flow: self.flow,
            tools: self.tools,
        }
    }
}

/// Emits a result for a manual compaction between turns, because a headless caller waits for one as after a turn.
fn tell_compacted_by_hand(
    conversation: &mut Conversation,
    end: &CompactionEnd,
    compacted: Option<CompactedByHand>,
) {
    let (end, text) = match (end, compacted) {
        (CompactionEnd::Done, Some(CompactedByHand { pre_tokens, post_tokens })) => {
            let text = format!("The context was compacted from {pre_tokens} to {post_tokens} tokens.");
            (TurnEnd::Completed, text)
        }
        (CompactionEnd::Failed(why) | CompactionEnd::Refused(why), Some(_)) => {
            (TurnEnd::Completed, format!("Not compacted: {}.", why.trim_end_matches('.')))
        }
        (CompactionEnd::Refused(what), None) => {
            (TurnEnd::HookStopped { what: what.clone(), refused: None }, String::new())
        }
        (CompactionEnd::Failed(why), None) => {
            (TurnEnd::ContextFull { breakdown: why.clone() }, String::new())
        }
        (CompactionEnd::Cancelled | CompactionEnd::Done, _) => (TurnEnd::Interrupted, String::new()),
    };
    let used = conversation.next_request_size();
    conversation.core.flush(Durability::Synced);
    conversation.core.tell_notices();
    conversation.core.flush(Durability::Buffered);
    conversation.spending.turn.text = text.into();
    let mut result = conversation.take_result(end);
    result.compaction.by_hand =
        Some(compacted.unwrap_or(CompactedByHand { pre_tokens: used, post_tokens: used }));
    conversation.core.emit(Event::TurnFinished(Box::new(result)));
}

/// Checks that rules files, pins, open todos and the user's last words are in the new context, byte for byte.
fn prove_present(core: &mut Core) {
    core.flush(Durability::Buffered);
    let found = present::check(lock(&core.session).view_mut());
    for missing in found.iter().filter(|item| !item.there) {
        let text = format!(
            "The compaction lost something that must stay in the context: {}. To undo it: /compact undo, or becket compact --undo",
            missing.what
        );
        core.notice(NoticeLevel::Warning, text);
    }
}

/// Prunes old outputs if the provider's cache is cold and pruning saves enough. With a warm cache it would lose the prefix.
pub(super) fn prune_if_cold(conversation: &mut Conversation) {
    if !conversation.budget.policy.prune || !conversation.wire.is_cold() {
        return;
    }
    let entry = due::cold_prune(lock(&conversation.core.session).view(), wall_clock());
    let Some(EntryKind::Prune { calls, media, cuts, freed_tokens, reason }) = entry else { return };
    let count = calls.len() as u64;
    let seqs = conversation
        .core
        .append(vec![EntryKind::Prune { calls, media, cuts, freed_tokens, reason }], Durability::Buffered);
    if let Some(entry) = seqs.first() {
        conversation.core.emit(Event::Pruned { entry: *entry, calls: count, freed: freed_tokens });
    }
}
