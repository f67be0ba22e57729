//! Prepares and sends requests: facts for the machine, the budget, the view, the bytes.

use super::count::Count;
use super::reply::Reply;
use super::wire::Refusals;
use super::{Agent, Op, wall_clock};
use crate::host::lock;
use crate::machine::{Break, BreakKind, Facts, Input, Owed};
use crate::reply_error;
use crate::settings::{OPTIONS, scope};
use crate::spend::{RequestCost, Reservation, SPENT};
use crate::watch::Fate;
use becket_model::{ErrorKind, Model, ModelError, Prepared};
use becket_session::Durability;
use becket_session::context::budget::{Budget, Limits, Meter};
use becket_session::context::compaction::{Floor, Need, Owed as GovernorOwed, StopReason};
use becket_session::context::due;
use becket_types::{
    EntryKind, Event, Limit, Millis, NoticeLevel, Synthetic, Tokens, ToolSpec, TurnEnd, Usage,
};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait before a retry after an answer broke off. Longer waits, before an answer begins, are the model client's.
const MAX_DELAY: Millis = Millis(60_000);
/// Limit on changed files that a message to the model names.
const MAX_CHANGED: usize = 10;

impl Agent {
    /// Writes pending entries to the ledger, and switches to the model that the user has chosen.
    pub(super) fn settle_facts(&mut self) {
        self.core.flush(Durability::Buffered);
        self.report_usage();
        self.take_switch();
    }

    /// Starts an exact count of the context if the next decision needs one. Returns true if it runs.
    pub(super) fn count_first(&mut self) -> bool {
        self.settle_facts();
        let (used, budget) = (self.used(), self.budget());
        let threshold = budget.threshold(self.budget.policy.threshold);
        if !self.budget.meter.wants_exact_count(used, threshold) {
            return false;
        }
        let context = lock(&self.core.session).view_mut().context().clone();
        self.flow.op = Op::Count(Count::start(context, Arc::clone(&self.tools.specs)));
        true
    }

    /// Called with the count: makes the decision that waited for it.
    pub(super) fn counted(&mut self, exact: Option<Tokens>) {
        self.flow.op = Op::None;
        // If the tokenizer failed, use the estimate and do not try again.
        let exact = exact.unwrap_or_else(|| self.used());
        let base = self.base_now();
        self.budget.meter.count(exact, base);
        let facts = self.assess();
        self.feed(Input::Assessed(facts));
    }

    /// Collects the facts that the machine needs before a request.
    pub(super) fn assess(&mut self) -> Facts {
        self.settle_facts();
        Facts {
            over: self.hooking.end().or_else(|| self.limit_reached()),
            repetition: self.tools.repetition.verdict(),
            owed: self.owed(Need::Threshold),
        }
    }

    /// The end of the turn if a limit is reached, or if the next request would exceed one. Warns the user before.
    fn limit_reached(&mut self) -> Option<TurnEnd> {
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

    /// Tokens of the next request that the provider probably has in its cache.
    pub(super) fn cached_tokens(&self) -> u64 {
        if self.wire.is_warm() { self.budget.cached.0 } else { 0 }
    }

    /// The expected cost of the next request, and the output limit that it may have.
    fn room(&mut self) -> Result<(RequestCost, u64), TurnEnd> {
        let reserve = self.budget().reserve().max(1);
        let want = self.settings.requests.max_output.map_or(reserve, |max| max.min(reserve));
        let read = self.used().0;
        let cost =
            RequestCost::of(self.wire.model.info(), read, self.cached_tokens(), self.wire.cache.lifetime);
        Ok((cost, self.spending.limits.room(cost.input, cost.output_price, want)?))
    }

    /// Sets the output limit of the next request, and reserves what it may cost.
    fn reserve_request(&mut self) -> Result<Option<Reservation>, TurnEnd> {
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
        if let Some(value) = self.spending.limits.kept() {
            self.core.push(EntryKind::State { key: SPENT.to_owned(), value });
        }
    }

    /// Changes a limit, and tells the user all of them. `Err` says why it was not changed.
    pub(super) fn change_limit(&mut self, change: Option<Limit>) -> Result<(), String> {
        if let Some(change) = change {
            self.settings.limits.ceilings.allow(change)?;
            self.spending.limits.set(change);
            if let Limit::Turns(most) = change {
                self.flow.change(|state| state.limit_turns(most));
            }
            let (name, value) = crate::settings::option(change);
            self.keep_option(name, value);
            self.keep_spent();
        }
        self.core.say(NoticeLevel::Info, self.spending.limits.describe());
        Ok(())
    }

    /// Records a changed option for later runs of the session.
    pub(super) fn keep_option(&mut self, name: &str, value: Value) {
        let set = |options: &mut Value| {
            if !options.is_object() {
                *options = Value::Object(Map::new());
            }
            options[name] = value;
        };
        if !self.rules.resumed
            && let Some((_, options)) =
                self.settings.session.states.iter_mut().find(|(key, _)| key == OPTIONS)
        {
            // The options of this run are not in the ledger yet.
            return set(options);
        }
        let mut options = lock(&self.core.session).view().state(OPTIONS).cloned().unwrap_or_default();
        set(&mut options);
        self.core
            .append(vec![EntryKind::State { key: OPTIONS.to_owned(), value: options }], Durability::Buffered);
    }

    pub(super) fn owed(&mut self, need: Need) -> Owed {
        let budget = self.budget();
        let used = self.used();
        let state = &mut self.budget;
        match state.governor.owed(need, used, &budget, &state.policy, wall_clock()) {
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
        self.stop_text(reason)
    }

    /// The budget of the running model, with learned limits and the user's settings.
    pub(super) fn budget(&mut self) -> Budget {
        let model = self.model();
        let info = model.info();
        if info.source == "default"
            && self.settings.requests.context_window.is_none()
            && !self.budget.window_noticed
        {
            self.budget.window_noticed = true;
            let text = format!(
                "The context window of {} is not known; {} tokens are assumed (set --context-window).",
                info.id, info.window
            );
            self.core.notice(NoticeLevel::Warning, text);
        }
        let window = self.settings.requests.context_window.unwrap_or(info.window);
        let input = self.settings.requests.context_window.unwrap_or(info.input_limit);
        Budget::new(window, input, info.max_output).limited(self.budget.limits)
    }

    /// Base estimate of the next request, in tokens.
    pub(super) fn base_now(&mut self) -> Tokens {
        self.floor().tools + lock(&self.core.session).view().estimated_tokens()
    }

    pub(super) fn used(&mut self) -> Tokens {
        let base = self.base_now();
        self.budget.meter.used(base)
    }

    /// System prompt and tools, in base tokens.
    pub(super) fn floor(&mut self) -> Floor {
        if let Some(floor) = self.budget.floor {
            return floor;
        }
        let floor = Floor::of(&self.system_items(), &self.tools.specs);
        self.budget.floor = Some(floor);
        floor
    }

    pub(super) fn learned_limits(&self) -> Limits {
        let session = lock(&self.core.session);
        let value = session.view().state(&Limits::key(&self.wire.model.info().id)).cloned();
        value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    }

    /// Called when a request was refused as too long: learns the model's limit. A refusal for too many bytes teaches nothing
    /// about tokens.
    pub(super) fn learn_limit(&mut self, error: &ModelError) {
        if error.kind != ErrorKind::ContextOverflow {
            return;
        }
        let used = self.used();
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
    pub(super) fn limit_worked(&mut self, usage: &Usage) {
        if self.budget.limits.worked(usage.context()) {
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
    }

    /// Chooses another model for the next request. `Err` says why the model stays the same.
    pub(super) fn set_model(&mut self, name: &str) -> Result<(), String> {
        let model = self.wire.choose(name)?;
        self.core.say(NoticeLevel::Info, format!("The next request goes to {}.", model.info().id));
        self.core.emit(Event::ModelChosen { model: model.info().id.clone() });
        Ok(())
    }

    /// Switches to the model that the user has chosen. Called between two requests.
    fn take_switch(&mut self) {
        if let Some(model) = self.wire.switch.take() {
            self.use_model(model);
        }
    }

    fn use_model(&mut self, model: Arc<dyn Model>) {
        self.give_up_preparation("another model");
        let switch = EntryKind::ModelSwitch { model: model.info().id.clone() };
        lock(&self.core.session).view_mut().set_scope(scope(model.info()));
        self.wire.model = model;
        self.wire.cache.cold = true;
        // A report by the previous model that is not counted yet does not apply to this one.
        self.budget.report = None;
        self.budget.meter.forget();
        self.budget.limits = self.learned_limits();
        self.core.append(vec![switch], Durability::Buffered);
    }

    /// Switches to the next fallback model.
    pub(super) fn fall_back(&mut self) {
        let Some(model) = self.wire.fallbacks.pop_front() else { return };
        let why = self.wire.last_error.take().map_or_else(
            || "It answered without any text or tool call.".to_owned(),
            |error| reply_error::sentence(&error.message),
        );
        let text = format!("{}: {why} Going on with {}.", self.wire.model.info().id, model.info().id);
        self.core.notice(NoticeLevel::Warning, text);
        self.use_model(model);
    }

    /// Sends the request of this step.
    pub(super) fn request(&mut self, step: u64, attempt: u32, wrap_up: bool) {
        self.core.flush(Durability::Buffered);
        lock(&self.core.session).view_mut().set_calls_may_run(false);
        // From here on, only an answer to this request can be superseded, never an earlier one.
        self.tools.ids.last_entry = None;
        if self.tools.take_in(self.settings.tools.source.as_ref()) {
            self.budget.forget_sizes();
            if self.core.begun {
                self.tools.record(&mut self.core);
            }
        }
        self.prune_if_cold();
        self.wire.cache.choose_lifetime(self.wire.model.info());
        self.tell_changed_files();
        let reminders = due::reminders(lock(&self.core.session).view(), step);
        self.core.append(reminders, Durability::Buffered);
        if let Some(message) = self.core.failed.take() {
            return self.feed(Input::Broke(failed(message)));
        }
        self.wire.wrap_up = wrap_up;
        self.budget.base_sent = self.base_now();
        let reservation = match self.reserve_request() {
            Ok(reservation) => reservation,
            // Another agent took the room since the limits were looked at.
            Err(end) => {
                return self.feed(Input::Broke(Break { kind: BreakKind::Final, end, fallback: false }));
            }
        };
        let prepared = self.prepare();
        // Report repairs of the view for this request before it is sent.
        let media = lock(&self.core.session).view().media_due();
        self.core.pending.extend(media);
        self.core.tell_notices();
        let prepared = prepared.and_then(|prepared| match self.wire.refused(&prepared) {
            Some(error) => Err(error),
            None => Ok(prepared),
        });
        if let Ok(prepared) = &prepared {
            let terms = self.wire.terms(self.settings.requests.effort.as_deref());
            terms.record(&mut self.core, &*self.wire.model, prepared, None);
        }
        self.core.flush(Durability::Buffered);
        match prepared {
            Ok(mut prepared) => {
                prepared.replaceable = !self.wire.fallbacks.is_empty();
                self.core.emit(Event::StepStarted { step });
                let delay = self.retry_delay(attempt).or_else(|| self.quota_delay());
                self.count_warming();
                self.wire.cache.used();
                let reply = Reply::new(self.model(), prepared, delay, step);
                self.flow.op = Op::Reply(Box::new(reply.holding(reservation)));
                if attempt == 0 && !wrap_up {
                    self.prepare_summary(step);
                }
            }
            Err(mut error) => {
                // The next try reserves its own share of the limits.
                drop(reservation);
                if self.is_made_smaller(&mut error) {
                    return self.request(step, attempt, wrap_up);
                }
                self.reply_broke_before(error);
            }
        }
    }

    /// Informs the model of files that it has read and that others have changed since. Each change is reported once, in a
    /// message of its own.
    fn tell_changed_files(&mut self) {
        let changed = self.tools.host.watch().changed();
        if let Some(text) = self.tools.host.watch().notice() {
            self.core.notice(NoticeLevel::Info, text);
        }
        if changed.is_empty() {
            return;
        }
        let cwd = &self.settings.environment.cwd;
        let mut lines: Vec<String> = Vec::new();
        for (path, fate) in changed.iter().take(MAX_CHANGED) {
            let what = match fate {
                Fate::Changed => "changed on disk since you read it",
                Fate::Gone => "is gone from disk since you read it",
            };
            lines.push(format!("{} {what}.", path.strip_prefix(cwd).unwrap_or(path).display()));
        }
        if changed.len() > MAX_CHANGED {
            lines.push(format!(
                "{} more files that you read changed on disk, too.",
                changed.len() - MAX_CHANGED
            ));
        }
        self.core.synthetic(Synthetic::Reminder, lines.join("\n"), Map::new());
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
            self.core.say(NoticeLevel::Error, format!("The history breaks a rule of providers: {violation}"));
        }
        let stubs = session.view().tool_stubs(&self.tools.specs);
        let with_stubs: Vec<ToolSpec>;
        let tools = if stubs.is_empty() {
            &*self.tools.specs
        } else {
            with_stubs = self.tools.specs.iter().cloned().chain(stubs).collect();
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

    fn reply_broke_before(&mut self, error: ModelError) {
        let kind = reply_error::kind(&error, false);
        self.learn_limit(&error);
        let end = self.broken_end(&error, kind);
        let fallback = self.wire.may_fall_back(&error);
        self.wire.last_error = Some(error);
        self.feed(Input::Broke(Break { kind, end, fallback }));
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
            self.owed(Need::Overflow);
        }
        let said = reply_error::sentence(&error.message);
        TurnEnd::ContextFull { breakdown: format!("{said} {}", self.full(reason)) }
    }

    /// The delay before this attempt. Also announces it to the user.
    fn retry_delay(&mut self, attempt: u32) -> Option<Duration> {
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
}

/// The final error for a failure on this machine.
fn failed(message: String) -> Break {
    Break { kind: BreakKind::Final, end: TurnEnd::Failed { message }, fallback: false }
}
