//! Makes a summary ahead of time, in parallel with the turn, so that the compaction need not wait for it. Also acts between
//! turns before the provider's cache expires, if that is configured: a warming request, or a compaction.
//!
//! Model: one request at a time, in `Agent::preparing`, which runs beside the current operation. It changes nothing but one
//! `State` entry ([`Prepared`]), which records the request, the messages that it covers, and its outcome. A compaction that
//! becomes due meanwhile takes the request over and waits for it.
//!
//! Invariants: there is at most one preparation for each compaction, also across restarts. The turn's own request is not
//! affected. An interrupt, another model, a manual compaction, an undo and the end of the session give the preparation up;
//! in a headless run also the end of the turn. Its usage until then is counted.
//!
//! A warming request is the running context with one short question at its end. Its answer is dropped: it enters neither the
//! history nor the view. Its usage counts like every other, with the purpose `warm`.

use super::sent::{Question, RequestTerms, asked};
use super::summary::{Asked, CompactionRun, TIME_LIMIT, Tries, Unsent};
use super::{Agent, Op, cache, wall_clock};
use crate::host::lock;
use crate::machine::{Input, Phase};
use crate::spend::RequestCost;
use becket_model::ToolChoice;
use becket_session::Durability;
use becket_session::context::budget::part_of;
use becket_session::context::cache::{idle_compaction_pays, warming_pays};
use becket_session::context::compaction::{self, Prepared, PreparedOutcome, Step};
use becket_types::{CompactionTrigger, Event, NoticeLevel, PreparationState, Tokens, Usage};
use std::time::Duration;
use tokio::time::Instant;

/// Growth, as a share of the usable window, after which a preparation that was not worth its cost is considered again.
const AGAIN: f64 = 0.02;
/// For this time after a preparation failed, a compaction does not ask the model. Later the server may work again.
const FRESH: Duration = Duration::from_mins(10);

impl Agent {
    /// The ledger's record of the preparation for the next compaction.
    pub(super) fn prepared(&self) -> Option<Prepared> {
        let session = lock(&self.core.session);
        let view = session.view();
        let in_force = view.compaction().map(|(entry, _)| entry);
        Prepared::from_state(view.state(Prepared::KEY)).filter(|prepared| prepared.cover.after == in_force)
    }

    /// The preparation for a compaction to use. A failed one counts only for a short time and only in the process that saw it
    /// fail; the summariser is then not asked again.
    pub(super) fn usable_preparation(&self) -> Option<Prepared> {
        let fresh = self.compaction.failed_at.is_some_and(|at| at.elapsed() <= FRESH);
        self.prepared().filter(|p| fresh || !matches!(p.outcome, PreparedOutcome::Failed { .. }))
    }

    /// Called after a step's request was sent: begins a preparation if the window is full enough.
    pub(super) fn prepare_summary(&mut self, step: u64) {
        let policy = &self.budget.policy;
        if !policy.prepare || !policy.auto_compact || self.compaction.preparing.is_some() {
            return;
        }
        let share = policy.threshold;
        let (used, budget) = (self.used(), self.budget());
        let due = budget.threshold(share);
        let begin = budget.prepare_from(share);
        // The first answer of a turn is often its last one, so begin only halfway between the threshold and the compaction.
        let from = if step > 1 { begin } else { Tokens(begin.0.midpoint(due.0)) };
        if used < from.max(self.budget.prepare_at) || used >= due {
            return;
        }
        self.budget.prepare_at = used + Tokens(part_of(budget.usable(), AGAIN));
        self.begin_preparation();
    }

    /// Called at the end of a turn: if the next prompt will need a compaction, its summary is made while the user types.
    pub(super) fn prepare_for_next_prompt(&mut self) {
        let policy = &self.budget.policy;
        if !policy.prepare || !policy.auto_compact || self.compaction.preparing.is_some() {
            return;
        }
        let share = policy.threshold;
        let (used, budget) = (self.used(), self.budget());
        if used >= budget.threshold(share) {
            self.begin_preparation();
        }
    }

    fn begin_preparation(&mut self) {
        let allowed = self.budget.governor.may_prepare(wall_clock())
            && self.spending.limits.over(self.spending.turn.started.elapsed()).is_none();
        if !allowed || self.prepared().is_some() {
            return;
        }
        let snapshot = self.snapshot(CompactionTrigger::Auto);
        let Some(ask) = compaction::prepare(snapshot) else { return };
        if let Some(asked) = ask.preparation() {
            self.core.push(asked.entry());
        }
        self.core.emit(Event::SummaryPreparation { state: PreparationState::Began });
        let tries = self.tries();
        self.preparation_step(Step::Ask(ask), Instant::now() + TIME_LIMIT, tries);
    }

    fn preparation_step(&mut self, mut step: Step, deadline: Instant, mut tries: Tries) {
        while let Step::Ask(ask) = step {
            match self.send_ask(ask, CompactionTrigger::Auto, deadline, tries) {
                Ok(run) => {
                    self.compaction.preparing = Some(run);
                    return;
                }
                Err(unsent) => {
                    let Unsent { ask, why, tries: back } = *unsent;
                    tries = back;
                    let preparation = ask.preparation();
                    step = self.answer_ask(ask, Err(why), &mut tries);
                    if let Some(preparation) = preparation {
                        self.keep_preparation(preparation, &step, deadline);
                    }
                }
            }
        }
    }

    /// Handles the answer to the preparation's request.
    pub(super) fn preparation_came(&mut self, asked: Asked) {
        let Some(run) = self.compaction.preparing.take() else { return };
        let deadline = run.deadline;
        let (step, tries) = self.take_answer(*run, asked);
        self.preparation_step(step, deadline, tries);
    }

    /// Records the outcome of a preparation, if this step is its end.
    pub(super) fn keep_preparation(&mut self, asked: Prepared, step: &Step, deadline: Instant) {
        let mut prepared = match step {
            Step::Prepared(prepared) => {
                self.core.emit(Event::SummaryPreparation { state: PreparationState::Ready });
                prepared.as_ref().clone()
            }
            Step::Unprepared(why) => {
                self.compaction.failed_at = Some(Instant::now());
                let state = PreparationState::Failed { why: why.clone() };
                self.core.emit(Event::SummaryPreparation { state });
                Prepared { outcome: PreparedOutcome::Failed { why: why.clone() }, ..asked }
            }
            _ => return,
        };
        prepared.took = took(deadline);
        self.core.push(prepared.entry());
    }

    /// Gives up the preparation's request and counts its usage.
    pub(super) fn give_up_preparation(&mut self, why: &str) {
        let Some(run) = self.compaction.preparing.take() else { return };
        self.count_run(&run);
        if let Some(asked) = run.ask.preparation() {
            let outcome = PreparedOutcome::Cancelled { why: why.to_owned() };
            let took = took(run.deadline);
            self.core.push(Prepared { took, outcome, ..asked }.entry());
        }
    }

    /// The time at which something is to be done about the provider's cache. `None`: nothing is.
    pub(super) fn idle_at(&self) -> Option<Instant> {
        let waits = self.phase() == Phase::Idle && matches!(self.flow.op, Op::None) && !self.spending.in_turn;
        if !waits || !self.inbox.is_open || self.compaction.preparing.is_some() {
            return None;
        }
        self.wire.cache.act_at(self.wire.model.info())
    }

    /// Compacts or warms the provider's cache, whatever is configured and pays. A compaction comes first, because after it there
    /// is nothing left to keep warm.
    pub(super) fn act_before_expiry(&mut self) {
        let (info, lifetime) = (self.model().info().clone(), self.wire.cache.lifetime);
        let cached = self.budget.cached.0;
        let Some(prices) = info.prices.filter(|_| cached > 0 && self.wire.is_warm()) else {
            self.wire.cache.over = true;
            return;
        };
        let policy = self.wire.cache.policy;
        if policy.idle_compaction && self.may_compact_idle() {
            let (used, after) = (self.used().0, self.size_after_compaction());
            if idle_compaction_pays(&prices, lifetime, used, after) {
                self.wire.cache.over = true;
                let text = "Compacting while idle, because the provider's cache is about to expire.";
                self.core.notice(NoticeLevel::Info, text.to_owned());
                return self.feed(Input::CompactIdle);
            }
        }
        if policy.warm && warming_pays(&prices, lifetime, cached, self.wire.cache.warmed) {
            return self.warm();
        }
        self.wire.cache.over = true;
    }

    fn may_compact_idle(&mut self) -> bool {
        self.budget.policy.auto_compact
            && self.budget.governor.may_prepare(wall_clock())
            && self.spending.limits.over(Duration::ZERO).is_none()
    }

    /// The expected size of the context after a compaction.
    fn size_after_compaction(&mut self) -> u64 {
        let budget = self.budget();
        let tail = self.budget.policy.keep_recent_tokens;
        let tail = tail.unwrap_or_else(|| (budget.usable() / 10).clamp(1_000, 8_000));
        self.floor().total().0 + tail + cache::SUMMARY_AND_STATE
    }

    /// Sends a request that only keeps the cache warm. If it cannot be sent, the cache expires.
    fn warm(&mut self) {
        self.wire.cache.over = true;
        self.core.flush(Durability::Buffered);
        let model = self.model();
        let max_output =
            if self.settings.requests.effort.is_some() { self.wire.max_output } else { cache::MAX_OUTPUT };
        let (used, cached) = (self.used().0, self.cached_tokens());
        let cost = RequestCost::of(model.info(), used, cached, self.wire.cache.lifetime);
        let reservation = match self.spending.limits.room(cost.input, cost.output_price, max_output) {
            Ok(most) if most == max_output => Some(self.spending.limits.reserve(cost.need(most))),
            // The limits of the run are for its task.
            _ => return,
        };
        let mut context = lock(&self.core.session).view_mut().context().clone();
        context.messages.push(asked(cache::QUESTION));
        context.generation = self.wire.own_generation();
        let terms = RequestTerms {
            purpose: "warm",
            max_output,
            effort: self.settings.requests.effort.as_deref(),
            // Another choice would be another prefix for some providers.
            tool_choice: ToolChoice::Auto,
            cache: self.wire.cache.lifetime,
        };
        let question = Question { system: "", prompt: cache::QUESTION };
        let prepared = terms.prepare_beside(&mut self.core, &*model, &context, &self.tools.specs, &question);
        let Ok(prepared) = prepared else { return };
        self.wire.cache.last_sent = Some(Instant::now());
        let stream = model.send(prepared);
        self.wire.cache.warmed += 1;
        self.wire.cache.over = false;
        self.wire.cache.warming =
            Some(cache::Warming { model, stream, usage: Usage::default(), reservation });
    }

    /// Counts the usage of the warming request, if one runs, and ends it.
    pub(super) fn count_warming(&mut self) {
        if let Some(run) = self.wire.cache.warming.take() {
            if run.usage.cache_read == 0 {
                // The provider kept nothing, so one more request would pay the full price again.
                self.wire.cache.over = true;
            }
            let info = run.model.info().clone();
            self.spent(&info, run.usage, "warm", None);
        }
    }
}

/// Time used of the limit.
fn took(deadline: Instant) -> becket_types::Millis {
    let left = deadline.saturating_duration_since(Instant::now());
    crate::spend::millis(TIME_LIMIT.saturating_sub(left))
}

/// Waits for the next answer of the preparation, for ever if there is none.
pub(super) async fn next(run: &mut Option<Box<CompactionRun>>) -> Asked {
    match run {
        Some(run) => run.next().await,
        None => std::future::pending().await,
    }
}
