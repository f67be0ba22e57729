//! The conversation with the models: its record, the models, the size of the context, and the cost of requests.
//!
//! Owns the answers to the questions that every part of the driver asks: the budget of the running model, the size of the next
//! request, its bytes, and what of the run's limits is left for it. `request_size` makes a refused request smaller, and
//! `summary` asks for a summary; both extend this type.
//!
//! Does not decide which request is sent, and knows neither the state machine nor the running operation.

use super::budget::BudgetState;
use super::ledger::Core;
use super::wall_clock;
use super::wire::{Refusals, Wire, switch_words};
use crate::host::lock;
use crate::machine::{BreakKind, Owed};
use crate::quota::{QuotaWait, WAITING};
use crate::reply_error;
use crate::settings::{AgentSettings, OPTIONS};
use crate::spend::{self, RequestCost, Reservation, SPENT, TurnSum, millis};
use crate::spending::Spending;
use becket_model::{ErrorKind, Model, ModelError, ModelInfo, Prepared};
use becket_session::Durability;
use becket_session::context::budget::{Appended, Budget, Limits, Meter, Vocabulary};
use becket_session::context::compaction::{
    self, CompactionReason, Floor, Request as SnapshotRequest, Snapshot, Stop, StopReason,
    Verdict as GovernorOwed,
};
use becket_session::context::scale::ContextScale;
use becket_types::{
    CompactionTrigger, Cost, EntryKind, Event, Limit, MessageId, Millis, NoticeLevel, SystemItem, Tokens,
    ToolSpec, TurnCompaction, TurnEnd, TurnResult, TurnState, Usage,
};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait before a request is sent again whose answer broke off. If no answer began, the model client waits, perhaps longer.
const MAX_DELAY: Millis = Millis(60_000);

/// The conversation with the models.
pub(super) struct Conversation {
    pub(super) core: Core,
    pub(super) wire: Wire,
    pub(super) budget: BudgetState,
    pub(super) spending: Spending,
    /// Definitions of the tools that requests offer.
    pub(super) offered: Arc<[ToolSpec]>,
    pub(super) settings: AgentSettings,
}

impl Conversation {
    pub(super) fn model(&self) -> Arc<dyn Model> {
        Arc::clone(&self.wire.model)
    }

    /// Returns the blocks of the system prompt in force.
    pub(super) fn system_items(&self) -> Vec<SystemItem> {
        lock(&self.core.session).view().system_items().to_vec()
    }

    /// Returns the budget of the running model, with learned limits and the user's settings. Informs the user once if the
    /// window is assumed.
    pub(super) fn budget(&mut self) -> Budget {
        let model = self.model();
        let info = model.info();
        let requests = &self.settings.requests;
        if info.source == "default"
            && requests.context_window.is_none()
            && requests.known_assumption.as_ref() != Some(&info.id)
            && !self.budget.window_noticed
        {
            self.budget.window_noticed = true;
            let text = format!(
                "The context window of {} is not known; {} tokens are assumed (set --context-window).",
                info.id, info.window
            );
            self.core.notice(NoticeLevel::Warning, text);
        }
        self.quiet_budget()
    }

    /// Returns the budget without a word to the user: looking at a session changes nothing in it.
    fn quiet_budget(&self) -> Budget {
        let info = self.wire.model.info();
        let window = self.settings.requests.context_window.unwrap_or(info.window);
        let input = self.settings.requests.context_window.unwrap_or(info.input_limit);
        Budget::new(window, input, info.max_output).limited(self.budget.limits)
    }

    /// Estimated size of the next request, in base tokens.
    pub(super) fn base_now(&mut self) -> Tokens {
        self.floor().tools + lock(&self.core.session).view().estimated_tokens()
    }

    /// Expected size of the next request in tokens.
    pub(super) fn next_request_size(&mut self) -> Tokens {
        let base = self.base_now();
        self.budget.meter.used_with(base, self.core.appended)
    }

    /// The scale by which sizes of parts, which are estimates, add up to the size that people see.
    pub(super) fn scale(&mut self) -> ContextScale {
        ContextScale::new(self.next_request_size(), self.base_now())
    }

    /// System prompt and tools, in base tokens.
    pub(super) fn floor(&mut self) -> Floor {
        if let Some(floor) = self.budget.floor {
            return floor;
        }
        let floor = Floor::measure(&self.system_items(), &self.offered);
        self.budget.floor = Some(floor);
        floor
    }

    pub(super) fn learned_limits(&self) -> Limits {
        let session = lock(&self.core.session);
        let value = session.view().state(&Limits::key(&self.wire.model.info().id)).cloned();
        value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    }

    /// Called when a request was refused as too long: learns the model's limit. A refusal for too many bytes teaches nothing about tokens.
    pub(super) fn learn_limit(&mut self, error: &ModelError) {
        if error.kind != ErrorKind::ContextOverflow {
            return;
        }
        let used = self.next_request_size();
        if self.budget.limits.learn(error.limit, used) {
            self.keep_limits();
        }
    }

    /// Called before a turn: forgets a learned limit so small that nothing could be sent. The server may have been restarted
    /// with a larger window. If not, its next refusal teaches the same limit again.
    pub(super) fn doubt_limits(&mut self) {
        if self.budget.limits.effective().is_none() {
            return;
        }
        let (floor, budget) = (self.floor(), self.budget());
        if !floor.leaves_room(&budget, &self.budget.meter.estimator) {
            self.budget.limits = Limits::default();
        }
    }

    /// Called when a request was answered: drops learned limits that would have refused it.
    pub(super) fn drop_refuted_limits(&mut self, usage: &Usage) {
        if self.budget.limits.drop_refuted(usage.context()) {
            self.keep_limits();
        }
    }

    fn keep_limits(&mut self) {
        let value = serde_json::to_value(self.budget.limits).unwrap_or_default();
        self.core.push(EntryKind::State { key: Limits::key(&self.wire.model.info().id), value });
    }

    /// Records the provider's last report of the context's size, at the end of a turn. After a compaction there is no report
    /// yet, and that is recorded as well.
    pub(super) fn keep_meter(&mut self) {
        let model = &self.wire.model.info().id;
        let entry = self.budget.meter.entry(lock(&self.core.session).view().state(Meter::KEY), model);
        if let Some(entry) = entry {
            self.core.push(entry);
        }
    }

    /// Loads the report that an earlier process recorded for this model.
    pub(super) fn recall_meter(&mut self) {
        let kept =
            Meter::from_state(lock(&self.core.session).view().state(Meter::KEY), &self.wire.model.info().id);
        self.budget.meter = kept.unwrap_or_default();
        self.core.appended = Appended::new(Vocabulary::for_model(&self.wire.model.info().id));
    }

    /// Passes the provider's reported usage to the meter, once the answer is in the view and before anything else is appended.
    pub(super) fn report_usage(&mut self) {
        let Some(usage) = self.budget.report.take() else { return };
        let base_now = self.base_now();
        let (sent, appended) = self.budget.sent;
        if self.budget.meter.report_with(&usage, sent, base_now, appended) {
            self.core.appended.clear();
        }
        self.emit_context_used();
    }

    /// Informs front ends of the present size of the context.
    pub(super) fn emit_context_used(&mut self) {
        let used = self.next_request_size();
        self.emit_context_used_as(used);
    }

    /// Like [`Self::emit_context_used`], with a size that front ends already got in another event.
    pub(super) fn emit_context_used_as(&mut self, used: Tokens) {
        let budget = self.quiet_budget();
        let kinds = self.budget.kinds.update(lock(&self.core.session).view(), &self.offered);
        let mut kinds: Vec<_> = kinds.iter().map(|(kind, tokens)| (*kind, *tokens)).collect();
        let base = kinds.iter().map(|(_, tokens)| *tokens).sum();
        ContextScale::new(used, base).split(kinds.iter_mut().map(|(_, tokens)| tokens));
        self.core.emit(Event::ContextUsed {
            used,
            usable: Tokens(budget.usable()),
            window: Tokens(budget.window),
            threshold: budget.threshold(self.budget.policy.threshold),
            kinds,
        });
    }

    /// Returns what has to be done before the next request to make room for it.
    pub(super) fn required_action(&mut self, need: CompactionReason) -> Owed {
        let budget = self.budget();
        let used = self.next_request_size();
        let state = &mut self.budget;
        match state.governor.decide(need, used, &budget, &state.policy, wall_clock()) {
            GovernorOwed::No => Owed::No,
            GovernorOwed::Compact(_) => Owed::Compact,
            GovernorOwed::Stop(StopReason::NothingShown) => Owed::NoRoom(self.full(StopReason::NothingShown)),
            GovernorOwed::Stop(reason) => Owed::Full(self.full(reason)),
        }
    }

    /// The message for a full context. Also records the governor's state.
    pub(super) fn full(&mut self, reason: StopReason) -> String {
        let entry = self.budget.governor.entry();
        self.core.push(entry);
        let text = self.stop_text(reason);
        // Otherwise an answer reports the size to front ends, but this request is not sent or was refused.
        self.emit_context_used();
        text
    }

    /// The message for the user when the context is full and cannot be compacted.
    pub(super) fn stop_text(&mut self, reason: StopReason) -> String {
        self.core.flush(Durability::Buffered);
        let snapshot = self.snapshot(CompactionTrigger::Auto, None);
        let stop = compaction::stop(&snapshot, reason);
        self.stop_words(&stop)
    }

    /// The reason for a stop in words. Without a user (headless), it must not advise commands that only a user can type.
    pub(super) fn stop_words(&self, stop: &Stop) -> String {
        if self.settings.asking.headless { stop.headless() } else { stop.to_string() }
    }

    /// Adds the provider's refusal to `reason` if that refusal caused the compaction, because our own count may disagree with it.
    pub(super) fn with_refusal(&self, trigger: CompactionTrigger, reason: String) -> String {
        match &self.wire.last_error {
            Some(error) if trigger == CompactionTrigger::Overflow => {
                format!("{} {reason}", reply_error::sentence(&error.message))
            }
            _ => reason,
        }
    }

    /// The data from which a compaction is computed. `focus`: the request of the person, and the instructions of hooks.
    pub(super) fn snapshot(&mut self, trigger: CompactionTrigger, focus: Option<String>) -> Snapshot {
        let (floor, used, budget) = (self.floor(), self.next_request_size(), self.budget());
        let summariser = self.summariser(&self.summary_model());
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
        let mut snapshot = Snapshot::take(lock(&self.core.session).view(), request);
        if trigger == CompactionTrigger::Manual && !self.spending.in_turn {
            // A compaction by hand between turns continues nothing, so it does not matter how the last turn ended.
            snapshot.turn_state = TurnState::AwaitingUser;
        }
        snapshot
    }

    /// The end of the turn if this error is final. After an overflow it says what fills the window.
    pub(super) fn broken_end(&mut self, error: &ModelError, kind: BreakKind) -> TurnEnd {
        if kind != BreakKind::Overflow {
            return reply_error::end(error, &self.wire.model.info().name);
        }
        let reason =
            if self.budget.policy.auto_compact { StopReason::NotEnough } else { StopReason::AutoOff };
        if !self.budget.policy.auto_compact {
            // Record that the session has stopped, so that a resumed one does not send the same request again.
            self.required_action(CompactionReason::Overflow);
        }
        let said = reply_error::sentence(&error.message);
        TurnEnd::ContextFull { breakdown: format!("{said} {}", self.full(reason)) }
    }

    /// Builds the bytes of the next request from the present view.
    pub(super) fn prepare(&mut self) -> Result<Prepared, ModelError> {
        let budget = self.budget();
        let reserve = budget.reserve().max(1);
        self.wire.max_output = self.settings.requests.max_output.map_or(reserve, |max| max.min(reserve));
        self.wire.max_output = self.wire.max_output.min(self.budget.output_cap.unwrap_or(u64::MAX));
        let mut session = lock(&self.core.session);
        session.view_mut().context();
        if let Err(violation) = session.view_mut().check() {
            // This is a defect of the view. Send the request anyway: the provider may accept it, and a check must not make a
            // session unusable.
            self.core.emit_notice(NoticeLevel::Error, format!("The conversation breaks a rule of the providers, so the next request may be refused: {violation}"));
        }
        let stubs = session.view().tool_stubs(&self.offered);
        let with_stubs: Vec<ToolSpec>;
        let tools = if stubs.is_empty() {
            &*self.offered
        } else {
            with_stubs = self.offered.iter().cloned().chain(stubs).collect();
            &with_stubs
        };
        let terms = self.wire.terms(self.settings.requests.effort.as_deref());
        terms.prepare(&self.core, &*self.wire.model, session.view_mut().context(), tools)
    }

    /// Remembers a permanently refused request by its bytes. They are the same only until something is appended, so this must
    /// come first when a request fails.
    pub(super) fn remember_refusal(&mut self, error: &ModelError) {
        if !Refusals::is_permanent(error) {
            return;
        }
        if let Ok(prepared) = self.prepare() {
            self.wire.remember_refusal(&prepared, error);
        }
    }

    /// Tokens of the next request that the provider probably has in its cache.
    pub(super) fn cached_tokens(&self) -> u64 {
        if self.wire.is_warm() { self.budget.cached.0 } else { 0 }
    }

    /// The expected cost of the next request, and the output limit that it may have.
    pub(super) fn room(&mut self) -> Result<(RequestCost, u64), TurnEnd> {
        let reserve = self.budget().reserve().max(1);
        let want = self.settings.requests.max_output.map_or(reserve, |max| max.min(reserve));
        let read = self.next_request_size().0;
        let cost = RequestCost::estimate(
            self.wire.model.info(),
            read,
            self.cached_tokens(),
            self.wire.cache.lifetime(),
        );
        Ok((cost, self.spending.limits.room(cost.input, cost.output_price, want)?))
    }

    /// Sets the output limit of the next request, and reserves what it may cost.
    pub(super) fn reserve_request(&mut self) -> Result<Option<Reservation>, TurnEnd> {
        self.budget.output_cap = None;
        if !self.spending.limits.are_counted() {
            return Ok(None);
        }
        let (cost, most) = self.room()?;
        self.budget.output_cap = Some(most);
        Ok(Some(self.spending.limits.reserve(cost.need(most))))
    }

    /// Records what is used of the limits, so that a resumed session continues the count.
    pub(super) fn keep_spent(&mut self) {
        if let Some(value) = self.spending.limits.to_state() {
            self.core.push(EntryKind::State { key: SPENT.to_owned(), value });
        }
    }

    /// Adds the usage of one request to the ledger and the sums.
    pub(super) fn record_usage(
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
        let used = spend::used(info, window, usage);
        let cost = used.cost;
        let turn = &mut self.spending.turn;
        if purpose == "turn" {
            turn.add_own(used.clone());
        } else {
            turn.add(used.clone());
        }
        self.spending.limits.add(used);
        if purpose == "turn" && !usage.estimated {
            self.wire.cache.count(&usage);
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
        self.count_hooks();
        self.keep_spent();
        cost
    }

    /// Counts and records what hooks have used by asking models.
    pub(super) fn count_hooks(&mut self) {
        let entries = self.spending.take_from_hooks(self.core.resumed);
        if !entries.is_empty() {
            for entry in entries {
                self.core.push(entry);
            }
            self.keep_spent();
        }
    }

    /// Takes the sums of the turn. Later usage, by a manual compaction or a summary made ahead of time, counts for the next turn.
    pub(super) fn take_result(&mut self, end: TurnEnd) -> TurnResult {
        self.count_hooks();
        let turn = &mut self.spending.turn;
        turn.take_in_subagents(&self.spending.limits);
        let result = TurnResult {
            end,
            text: std::mem::take(&mut turn.text),
            stop_reason: turn.stop_reason.take(),
            steps: turn.steps,
            duration: millis(turn.started.elapsed()),
            api_duration: millis(turn.api),
            usage: turn.usage,
            cost: turn.cost,
            models: std::mem::take(&mut turn.models),
            denials: std::mem::take(&mut turn.denials),
            compaction: TurnCompaction { count: turn.compactions, by_hand: None },
            unsaved: self.core.failed.is_some() || lock(&self.core.session).has_unsaved(),
        };
        self.spending.turn = TurnSum::new();
        result
    }

    /// The delay before this attempt. Also announces it to the user.
    pub(super) fn retry_delay(&mut self, attempt: u32) -> Option<Duration> {
        let error = self.wire.last_error.take();
        if attempt == 0 {
            return None;
        }
        let asked = error.as_ref().and_then(|error| error.retry_after);
        let delay = asked.unwrap_or(Millis(500 << attempt.min(6))).min(MAX_DELAY);
        self.core.emit(Event::Retry {
            attempt,
            max: crate::machine::MAX_RETRIES,
            delay,
            status: error.as_ref().and_then(|error| error.status),
            error: error.map(|error| error.message).unwrap_or_default(),
        });
        Some(Duration::from_millis(delay.0))
    }

    /// Begins to wait for the provider's quota, if this error is one that only time heals and the run may wait. The wait is
    /// recorded, so that a later process continues it.
    pub(super) fn begins_quota_wait(&mut self, error: &ModelError) -> bool {
        let now = wall_clock();
        let Some(wait) = QuotaWait::after(error, &self.wire.model.info().id, now) else { return false };
        self.core.emit(Event::QuotaUsedUp { until: wait.until });
        if !self.settings.limits.wait_for_quota || self.wire.may_fall_back(error) {
            return false;
        }
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
            self.core.emit_notice(NoticeLevel::Warning, text);
        }
        self.wire.quota = Some(wait);
    }

    /// Records that the wait for the quota is over.
    pub(super) fn end_quota_wait(&mut self) {
        if self.wire.quota.take().is_some() {
            self.core.push(EntryKind::State { key: WAITING.to_owned(), value: serde_json::Value::Null });
        }
    }

    /// The end of the turn if a limit is reached, or if the next request would exceed one. Warns the user before.
    pub(super) fn limit_reached(&mut self) -> Option<TurnEnd> {
        let time = self.spending.turn.started.elapsed();
        if let Some(end) = self.spending.limits.over(time) {
            return Some(end);
        }
        if let Some(mut text) = self.spending.limits.warning(time) {
            if !self.settings.asking.headless {
                text.push_str(" /limits shows and raises them.");
            }
            self.core.notice(NoticeLevel::Warning, text);
        }
        if let Some(text) = self.spending.limits.unpriced(self.wire.model.info()) {
            self.core.notice(NoticeLevel::Warning, text);
        }
        if self.spending.limits.are_counted() { self.room().err() } else { None }
    }

    /// Changes a limit, and tells the user all of them. `Err` says why it was not changed.
    pub(super) fn change_limit(&mut self, change: Option<Limit>) -> Result<(), String> {
        if let Some(change) = change {
            self.settings.limits.ceilings.allow(change)?;
            self.spending.limits.set(change);
            let (name, value) = crate::settings::option(change);
            self.keep_option(name, value);
            self.keep_spent();
        }
        self.core.emit_notice(NoticeLevel::Info, self.spending.limits.describe());
        Ok(())
    }

    /// Records a changed option for later runs of the session.
    fn keep_option(&mut self, name: &str, value: Value) {
        let set = |options: &mut Value| {
            if !options.is_object() {
                *options = Value::Object(Map::new());
            }
            options[name] = value;
        };
        if !self.core.resumed
            && let Some((_, options)) =
                self.settings.session.states.iter_mut().find(|(key, _)| key == OPTIONS)
        {
            // The options of this run are written with the session's first entries, which is still to come.
            return set(options);
        }
        let mut options = lock(&self.core.session).view().state(OPTIONS).cloned().unwrap_or_default();
        set(&mut options);
        self.core
            .append(vec![EntryKind::State { key: OPTIONS.to_owned(), value: options }], Durability::Buffered);
    }

    /// Sends the next requests to this model, which the user has chosen.
    pub(super) fn choose_model(&mut self, model: Arc<dyn Model>) {
        // The user's choice outlasts the turn.
        self.wire.chosen.before_turn = None;
        let id = model.info().id.clone();
        let used = self.core.begun.then(|| self.next_request_size());
        let is_fixed = self.settings.requests.context_window.is_some();
        self.core.emit_notice(
            NoticeLevel::Info,
            switch_words::words(self.wire.model.info(), model.info(), is_fixed, used),
        );
        self.wire.chosen.next = Some(model);
        self.core.emit(Event::ModelChosen { model: id });
    }

    /// Sets the effort of the next requests. Later runs of the session keep it.
    pub(super) fn set_effort(&mut self, effort: Option<String>) {
        let level = effort.as_deref().unwrap_or("the default of the model");
        let unsent = if self.wire.model.info().reasoning {
            ""
        } else {
            " The model has no such setting, so it is not sent."
        };
        self.core
            .emit_notice(NoticeLevel::Info, format!("Effort: {level}, from the next request on.{unsent}"));
        self.keep_option("effort", Value::from(effort.clone()));
        self.settings.requests.effort = effort;
        // The user's choice outlasts the turn of a command.
        self.wire.chosen.effort_before_turn = None;
    }

    /// Called when blocks of the system prompt have changed. The provider's cached prefix begins with them, so it is lost.
    pub(super) fn prompt_changed(&mut self) {
        self.budget.forget_sizes();
        self.wire.cache.cold = true;
    }
}
