//! Makes a summary ahead of time, in parallel with the turn, so that the compaction need not wait for it.
//!
//! Model: one request at a time, in `CompactionState::preparing`, which runs beside the current operation. It changes nothing
//! but one `State` entry ([`Prepared`]), which records the request, the messages that it covers, and its outcome. A compaction
//! that becomes due meanwhile takes the request over and waits for it.
//!
//! Invariants: there is at most one preparation for each compaction, also across restarts. The turn's own request is not
//! affected. An interrupt, another model, a manual compaction, an undo and the end of the session give the preparation up;
//! in a headless run also the end of the turn. Its usage until then is counted.

use super::conversation::Conversation;
use super::ledger::Core;
use super::summary::{CompactionRun, SummaryAnswer, SummaryAttempts, TIME_LIMIT, Unsent};
use super::wall_clock;
use crate::host::lock;
use becket_session::context::budget::part_of;
use becket_session::context::compaction::{self, Prepared, PreparedOutcome, Snapshot, Step};
use becket_types::{CompactedByHand, CompactionTrigger, Event, PreparationState, Tokens};
use std::time::Duration;
use tokio::time::Instant;

/// Growth, as a share of the usable window, after which a preparation that was not worth its cost is considered again.
const AGAIN: f64 = 0.02;
/// For this time after a preparation failed, a compaction does not ask the model. Later the server may work again.
const FRESH: Duration = Duration::from_mins(10);

/// A compaction that runs or is prepared.
#[derive(Default)]
pub(super) struct CompactionState {
    /// The summary that is being made ahead of time, in parallel with the operation.
    pub(super) preparing: Option<Box<CompactionRun>>,
    /// Time at which the last preparation of this process failed.
    failed_at: Option<Instant>,
    /// Focus of the requested manual compaction.
    pub(super) focus: Option<String>,
    /// Instructions of hooks for the summary of the running compaction.
    pub(super) instructions: Option<String>,
    /// Size of the context before and after the compaction that just ended.
    pub(super) sizes: Option<CompactedByHand>,
}

impl CompactionState {
    /// Takes the snapshot from which a compaction is computed, with the focus of the person and the instructions of hooks.
    pub(super) fn snapshot(
        &mut self,
        conversation: &mut Conversation,
        trigger: CompactionTrigger,
    ) -> Snapshot {
        let focus = if trigger == CompactionTrigger::Manual { self.focus.take() } else { None };
        let focus = match (focus, self.instructions.clone()) {
            (Some(focus), Some(more)) => Some(format!("{focus}\n{more}")),
            (focus, more) => focus.or(more),
        };
        conversation.snapshot(trigger, focus)
    }

    /// The ledger's record of the preparation for the next compaction.
    fn prepared(core: &Core) -> Option<Prepared> {
        let session = lock(&core.session);
        let view = session.view();
        let in_force = view.compaction().map(|(entry, _)| entry);
        Prepared::from_state(view.state(Prepared::KEY)).filter(|prepared| prepared.cover.after == in_force)
    }

    /// Returns the preparation that a compaction may use. A failed one is returned only for [`FRESH`] and only in the
    /// process that saw it fail. Then the compaction does not ask the summariser again.
    pub(super) fn usable(&self, core: &Core) -> Option<Prepared> {
        let fresh = self.failed_at.is_some_and(|at| at.elapsed() <= FRESH);
        Self::prepared(core).filter(|p| fresh || !matches!(p.outcome, PreparedOutcome::Failed { .. }))
    }

    /// Called after a step's request was sent: begins a preparation if the window is full enough.
    pub(super) fn prepare_summary(&mut self, conversation: &mut Conversation, step: u64) {
        let policy = &conversation.budget.policy;
        if !policy.prepare || !policy.auto_compact || self.preparing.is_some() {
            return;
        }
        let share = policy.threshold;
        let (used, budget) = (conversation.next_request_size(), conversation.budget());
        let due = budget.threshold(share);
        let begin = budget.prepare_from(share);
        // The first answer of a turn is often its last one. So a preparation begins only halfway between the size from
        // which it may begin and the size at which a compaction is due.
        let from = if step > 1 { begin } else { Tokens(begin.0.midpoint(due.0)) };
        if used < from.max(conversation.budget.prepare_at) || used >= due {
            return;
        }
        conversation.budget.prepare_at = used + Tokens(part_of(budget.usable(), AGAIN));
        self.begin(conversation);
    }

    /// Called at the end of a turn: if the next prompt will need a compaction, its summary is made while the user types.
    pub(super) fn prepare_for_next_prompt(&mut self, conversation: &mut Conversation) {
        let policy = &conversation.budget.policy;
        if !policy.prepare || !policy.auto_compact || self.preparing.is_some() {
            return;
        }
        let share = policy.threshold;
        let (used, budget) = (conversation.next_request_size(), conversation.budget());
        if used >= budget.threshold(share) {
            self.begin(conversation);
        }
    }

    fn begin(&mut self, conversation: &mut Conversation) {
        let allowed = conversation.budget.governor.may_prepare(wall_clock())
            && conversation.spending.limits.over(conversation.spending.turn.started.elapsed()).is_none();
        if !allowed || Self::prepared(&conversation.core).is_some() {
            return;
        }
        let snapshot = self.snapshot(conversation, CompactionTrigger::Auto);
        let Some(ask) = compaction::prepare(snapshot) else { return };
        if let Some(asked) = ask.preparation() {
            conversation.core.push(asked.entry());
        }
        conversation.core.emit(Event::SummaryPreparation { state: PreparationState::Began });
        let tries = conversation.tries();
        self.advance(conversation, Step::Ask(ask), Instant::now() + TIME_LIMIT, tries);
    }

    fn advance(
        &mut self,
        conversation: &mut Conversation,
        mut step: Step,
        deadline: Instant,
        mut tries: SummaryAttempts,
    ) {
        while let Step::Ask(ask) = step {
            match conversation.send_ask(ask, CompactionTrigger::Auto, deadline, tries) {
                Ok(run) => {
                    self.preparing = Some(run);
                    return;
                }
                Err(unsent) => {
                    let Unsent { ask, why, tries: back } = *unsent;
                    tries = back;
                    let preparation = ask.preparation();
                    step = conversation.answer_ask(ask, Err(why), &mut tries);
                    if let Some(preparation) = preparation {
                        self.record(conversation, preparation, &step, deadline);
                    }
                }
            }
        }
    }

    /// Handles the answer to the preparation's request.
    pub(super) fn take_preparation(&mut self, conversation: &mut Conversation, asked: SummaryAnswer) {
        let Some(run) = self.preparing.take() else { return };
        let deadline = run.deadline;
        let (step, tries) = self.take_answer(conversation, *run, asked);
        self.advance(conversation, step, deadline, tries);
    }

    /// Records the outcome of a preparation, if this step is its end.
    fn record(&mut self, conversation: &mut Conversation, asked: Prepared, step: &Step, deadline: Instant) {
        let mut prepared = match step {
            Step::Prepared(prepared) => {
                conversation.core.emit(Event::SummaryPreparation { state: PreparationState::Ready });
                prepared.as_ref().clone()
            }
            Step::Unprepared(why) => {
                self.failed_at = Some(Instant::now());
                let state = PreparationState::Failed { why: why.clone() };
                conversation.core.emit(Event::SummaryPreparation { state });
                Prepared { outcome: PreparedOutcome::Failed { why: why.clone() }, ..asked }
            }
            _ => return,
        };
        prepared.took = took(deadline);
        conversation.core.push(prepared.entry());
    }

    /// Gives up the preparation's request and counts its usage.
    pub(super) fn give_up_preparation(&mut self, conversation: &mut Conversation, why: &str) {
        let Some(run) = self.preparing.take() else { return };
        conversation.count_run(&run);
        if let Some(asked) = run.ask.preparation() {
            let outcome = PreparedOutcome::Cancelled { why: why.to_owned() };
            let took = took(run.deadline);
            conversation.core.push(Prepared { took, outcome, ..asked }.entry());
        }
    }

    /// Handles the answer to one summary request: counts its usage, records the end of a preparation, and returns the next step.
    pub(super) fn take_answer(
        &mut self,
        conversation: &mut Conversation,
        run: CompactionRun,
        SummaryAnswer(answer): SummaryAnswer,
    ) -> (Step, SummaryAttempts) {
        conversation.count_run(&run);
        let CompactionRun { ask, mut tries, deadline, .. } = run;
        let preparation = ask.preparation();
        let step = conversation.answer_ask(ask, answer, &mut tries);
        if let Some(preparation) = preparation {
            self.record(conversation, preparation, &step, deadline);
        }
        (step, tries)
    }
}

/// Returns how much of the time limit for summaries is used.
fn took(deadline: Instant) -> becket_types::Millis {
    let left = deadline.saturating_duration_since(Instant::now());
    crate::spend::millis(TIME_LIMIT.saturating_sub(left))
}

/// Waits for the next answer of the preparation, for ever if there is none.
pub(super) async fn next(run: &mut Option<Box<CompactionRun>>) -> SummaryAnswer {
    match run {
        Some(run) => run.next().await,
        None => std::future::pending().await,
    }
}
