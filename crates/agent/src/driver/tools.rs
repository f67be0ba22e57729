//! Runs the tool calls of one answer: checks them, asks for permission, and gives each exactly one result.
//!
//! Order: calls start in the model's order. Read-only calls run in parallel, at most [`SIDE_BY_SIDE`]. Any other call waits
//! for all calls before it and runs alone, so writes to one path, and reads after writes, keep their order. Results enter
//! the ledger in the order of the calls.
//!
//! Journal: `intended` for every call that may run, `started` before it runs (synced if it has side effects), `finished`
//! with its result in one commit. The result of a call says what happened to it in every case.
//!
//! `batch` holds the running calls, `outcome` runs one call and words its result.

use super::Op;
use super::conversation::Conversation;
use super::files::FilesAtRisk;
use super::flow::Flow;
use super::forked::DEFERRED_CALL;
use super::hooks::{HookCaller, HookState};
use super::rules_files::{KnownRules, RulesScope};
use super::toolset::Toolset;
use crate::answer::Call;
use crate::host::lock;
use crate::machine::{Input, NotRun};
use crate::settings::SecretOutputs;
use crate::spend::millis;
use becket_guard::Verdict;
use becket_session::Durability;
use becket_session::secrets::masked_in;
use becket_tool::{Host, Tool, ToolEnv};
use becket_types::{
    Access, DeferredCall, DenialCause, Effect, EntryKind, Event, HookEvent, HookText, JournalState,
    NoticeLevel, PermissionDenial, PermissionRequest, RuleOffer, SandboxLevel, Verb,
};
use futures::future::FutureExt as _;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

mod batch;
mod call_hooks;
mod decision;
mod limit;
mod outcome;
mod todo_hooks;
mod updates;

pub(super) use batch::{Batch, FinishedCall, HookVerdict};
use batch::{Slot, SlotState};
use limit::limit_step;
use outcome::{
    asked_as_text, asked_person, call_tool, denial, interrupted, invalid_arguments, journal, journal_result,
    mask_secrets, masked_secret, not_run, permission, refused_hosts, result_message, run, subject,
    unless_nobody,
};
use todo_hooks::TodoHooks;

/// Limit on read-only calls that run at the same time.
const SIDE_BY_SIDE: usize = 8;
/// The result of a call that a hook leaves to a later run.
const DEFERRED: &str =
    "Not run: a hook deferred this call until the session is continued. Then the same call is made again.";
/// The reason in the result of a call that this process may no longer make.
const SESSION_LOST: &str = "the session can no longer be written here.";
/// Largest text of a file, in bytes, that a program gets as it was before a call. A line for programs has at most 1 MiB.
const MOST_ORIGINAL: usize = 400_000;
/// Time that a cancelled tool has to report what it has done.
const GRACE: Duration = Duration::from_secs(2);

/// The state of the next call after an attempt to start it.
enum CallStart {
    Running {
        alone: bool,
    },
    Settled,
    /// The call cannot start yet: it waits for running calls, or for an answer about it.
    Blocked,
}

/// Runs the calls of an answer.
pub(super) struct ToolRunner<'a> {
    pub(super) flow: &'a mut Flow,
    pub(super) conversation: &'a mut Conversation,
    pub(super) tools: &'a mut Toolset,
    pub(super) rules: &'a mut KnownRules,
    pub(super) hooking: &'a mut HookState,
}

impl ToolRunner<'_> {
    fn hooks(&mut self) -> HookCaller<'_> {
        HookCaller {
            conversation: self.conversation,
            hooking: self.hooking,
            flow: self.flow,
            tools: self.tools,
        }
    }

    /// Takes the answer of hooks about a waiting call, and continues with the calls.
    pub(super) fn call_judged(&mut self, judged: HookVerdict) {
        if let Some(updates) = &judged.outcome.updated_permissions {
            updates::carry_out(updates, self.tools, self.conversation);
        }
        self.hooks().call_judged(judged);
        self.advance();
    }

    pub(super) fn run_tools(&mut self) {
        let calls = std::mem::take(&mut self.tools.ids.last_calls);
        let aliases = &self.conversation.settings.tools.aliases;
        let calls = calls.into_iter().map(|call| self.tools.resolve_call(call, aliases)).collect();
        self.flow.op = Op::Tools(Box::new(Batch::new(calls)));
        self.advance();
    }

    /// Starts all calls that may run now, writes the results that are ready, and ends the batch when all are written.
    fn advance(&mut self) {
        let Op::Tools(mut batch) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
        if !self.conversation.core.may_act() {
            self.give_up_calls(&mut batch);
        }
        let mut synced = Durability::Buffered;
        // Ask about a result before asking about a later call.
        self.waits_for_secrets(&mut batch);
        while batch.next < batch.slots.len() && !batch.asks_secrets {
            match self.start_next_call(&mut batch) {
                CallStart::Running { alone } => {
                    batch.has_exclusive_call = alone;
                    if alone {
                        synced = Durability::Synced;
                    }
                }
                CallStart::Settled => {}
                CallStart::Blocked => break,
            }
            batch.next += 1;
        }
        self.conversation.core.flush(synced);
        if !self.conversation.core.may_act() {
            self.give_up_calls(&mut batch);
        }
        self.conversation.report_usage();
        self.write_results(&mut batch);
        if batch.is_over() {
            if self.hooks().batch_hooks(&mut batch) {
                return;
            }
            self.end_batch(&batch.touched, batch.hook_texts);
        } else {
            self.flow.op = Op::Tools(batch);
        }
    }

    /// Checks the next call, asks for permission, and starts it.
    fn start_next_call(&mut self, batch: &mut Batch) -> CallStart {
        let index = batch.next;
        let (running, alone) = (batch.running.len(), batch.has_exclusive_call);
        let Some(slot) = batch.slots.get_mut(index) else { return CallStart::Blocked };
        match slot.state {
            SlotState::Waiting => {}
            SlotState::Asking { .. } => return CallStart::Blocked,
            SlotState::Running | SlotState::Done { .. } => return CallStart::Settled,
        }
        if alone || running >= SIDE_BY_SIDE {
            return CallStart::Blocked;
        }
        let (tool, mut env, access) = match self.check(&slot.call, &batch.cancel, &slot.partial) {
            Ok(checked) => checked,
            Err(why) => {
                slot.refuse(why);
                return CallStart::Settled;
            }
        };
        if !access.is_read_only() && running > 0 {
            return CallStart::Blocked;
        }
        slot.subject = subject(&access, &env);
        if self.hooking.deferred.is_some() {
            slot.refuse("Not run: the turn ends before this call, because another call is deferred.");
            return CallStart::Settled;
        }
        if !std::mem::replace(&mut slot.journaled, true) {
            if !self.tools.ids.may_run(&slot.call) {
                slot.refuse(
                    "Not run: this same call, under the same id, has run already; its result is above. If you mean to \
                     repeat it, make a new call.",
                );
                return CallStart::Settled;
            }
            self.conversation.core.push(journal(slot, JournalState::Intended, Value::Null));
        }
        if self.conversation.settings.hooks.engine.is_some()
            && self.hooks().ask_pre_hooks(slot, index, &access, &batch.judging)
        {
            return CallStart::Blocked;
        }
        let judged = self.tools.guard.explain(&tool.spec().name, &access, &slot.call.input);
        if slot.hooks.defers(&judged.verdict) && self.can_defer() {
            self.defer(slot, tool.spec().name.clone());
            return CallStart::Settled;
        }
        let (by, decided_by, verdict) = slot.hooks.combine(judged.by, judged.rule, judged.verdict);
        let verdict = if slot.call.from_text { asked_as_text(verdict) } else { verdict };
        let (by, verdict) = match asked_person(&*tool, self.tools.guard.mode(), &slot.hooks, (by, verdict)) {
            Ok(judged) => judged,
            Err(why) => {
                slot.refuse(why);
                return CallStart::Settled;
            }
        };
        (env.variables, env.sandbox) = (judged.variables, judged.level);
        if self.conversation.settings.hooks.engine.is_some()
            && let Verdict::Ask { reason, rule } = &verdict
            && self.hooks().ask_request_hooks(slot, index, &access, (reason, rule.as_deref()), &batch.judging)
        {
            return CallStart::Blocked;
        }
        let (by, verdict) = slot.hooks.with_request_answer(by, verdict);
        let asking = &self.conversation.settings.asking;
        match unless_nobody(asking.headless && !asking.asks_host, verdict) {
            Verdict::Allow { why } => {
                self.conversation.core.push(permission(slot, Verb::Allow, by, decided_by, &why));
                self.agreed(&*tool);
            }
            Verdict::Deny { reason, cause, .. } => {
                self.conversation.core.push(denial(slot, by, decided_by, &reason, &cause));
                self.hooks().call_denied(&slot.call, &access, &reason);
                self.deny(slot, reason, cause);
                return CallStart::Settled;
            }
            Verdict::Ask { reason, rule } => {
                return self.ask(slot, &*tool, &env, access, (reason, rule));
            }
        }
        self.launch(batch, index, (tool, env, access), Vec::new())
    }

    /// Asks for permission. The call waits for the answer.
    fn ask(
        &mut self,
        slot: &mut Slot,
        tool: &dyn Tool,
        env: &ToolEnv,
        access: Access,
        (reason, rule): (String, Option<String>),
    ) -> CallStart {
        // Do not ask for permission for a call that cannot work. Its error may quote files, so the model gets it only if it
        // may read them.
        if self.tools.may_read_all(&access)
            && let Some(why) = tool.refusal(&slot.call.input, env)
        {
            slot.refuse(why);
            return CallStart::Settled;
        }
        let scripts = self.tools.guard.script_state(&access);
        let offer = rule.clone().map(|rule| RuleOffer {
            covers: becket_guard::covers(&rule),
            parts: self.tools.guard.part_rules(&tool.spec().name, &access, &slot.call.input),
            rule,
        });
        self.conversation.core.announce(Event::PermissionAsked(Box::new(PermissionRequest {
            call_id: slot.call.id.clone(),
            tool: slot.call.name.clone(),
            input: slot.call.input.clone(),
            nearest: self.tools.guard.nearest(&tool.spec().name, &access),
            secrets: None,
            access: access.clone(),
            reason,
            offer,
            preview: tool.preview(&slot.call.input, env),
        })));
        let asked = format!("becket needs your permission to use {}", slot.call.name);
        slot.state = SlotState::Asking { access, rule, scripts };
        self.hooks().notification_hooks("permission_prompt", &asked);
        CallStart::Blocked
    }

    /// Leaves a call to a later run, and ends the turn.
    fn defer(&mut self, slot: &mut Slot, name: String) {
        let (id, input) = (slot.call.id.clone(), slot.call.input.clone());
        let call = DeferredCall { id, name, input };
        let value = serde_json::to_value(&call).unwrap_or_default();
        self.conversation.core.push(EntryKind::State { key: DEFERRED_CALL.to_owned(), value });
        self.hooking.deferred = Some(call);
        slot.refuse(DEFERRED);
    }

    /// True if a hook may defer a call: no person waits for the turn, and the session is not that of a subagent, which
    /// nobody continues.
    fn can_defer(&self) -> bool {
        self.conversation.settings.asking.headless && !self.conversation.settings.is_subagent()
    }

    /// Makes all checks of a call that come before permission. Returns the tool, its environment and the access that it needs.
    fn check(
        &self,
        call: &Call,
        cancel: &CancellationToken,
        partial: &Arc<Mutex<String>>,
    ) -> Result<(Arc<dyn Tool>, ToolEnv, Access), String> {
        if let Some(text) = &call.invalid {
            return Err(invalid_arguments(text));
        }
        let late = || self.conversation.settings.tools.source.as_ref()?.late(&call.name);
        let Some(tool) = self.tools.registry.get(&call.name).cloned().or_else(late) else {
            return Err(self.tools.registry.unknown(&call.name));
        };
        let mut env = ToolEnv {
            cwd: self.conversation.settings.environment.cwd.clone(),
            roots: self.conversation.settings.roots.as_slice().into(),
            call_id: call.id.clone(),
            cancel: cancel.child_token(),
            progress: self.conversation.core.progress(call.id.clone(), Arc::clone(partial)),
            host: Arc::clone(&self.tools.host) as Arc<dyn Host>,
            may_read: Arc::new(|_: &Path| false),
            variables: &[],
            sandbox: SandboxLevel::Off,
            judged: None,
        };
        let access = tool.access(&call.input, &env)?;
        env.judged = Some(access.paths.as_slice().into());
        // The model saw a mask in place of a secret. Writing it would replace the secret by the mask.
        if self.conversation.settings.tools.secrets != SecretOutputs::Send
            && !access.is_read_only()
            && let Some(kind) = masked_in(&call.input)
        {
            return Err(masked_secret(kind));
        }
        env.may_read = Arc::new(self.tools.guard.may_read(&tool.spec().name, &access, &call.input));
        Ok((tool, env, access))
    }

    /// Starts a permitted call. It is not polled before its journal entry is written.
    /// `rejected` are the hunks of its preview that the user has left out.
    fn launch(
        &mut self,
        batch: &mut Batch,
        index: usize,
        (tool, env, access): (Arc<dyn Tool>, ToolEnv, Access),
        rejected: Vec<usize>,
    ) -> CallStart {
        let Some(slot) = batch.slots.get_mut(index) else { return CallStart::Blocked };
        let alone = !access.is_read_only();
        let around = env.clone();
        let (call, known) = match self.subagent(&slot.call.name, &env, &slot.call.input) {
            Some(Ok((session, call))) => (call, json!({ "subagent": session })),
            Some(Err(why)) => {
                slot.refuse(why);
                return CallStart::Settled;
            }
            None => (call_tool(tool, slot.call.input.clone(), env, rejected), Value::Null),
        };
        self.conversation.core.push(journal(slot, JournalState::Started, known));
        self.conversation.core.announce(Event::ToolStarted {
            call_id: slot.call.id.clone(),
            name: slot.call.name.clone(),
            input: slot.call.input.clone(),
        });
        slot.state = SlotState::Running;
        slot.started = Some(Instant::now());
        let after = self.hooks().after_hooks(&slot.call, &access);
        let todo = TodoHooks::for_call(&self.hooks(), &slot.call);
        let hook = (access.effect == Effect::Write)
            .then(|| self.conversation.settings.tools.edit_hook.clone())
            .flatten();
        let (mode, paths) = (self.tools.guard.mode(), access.paths.clone());
        let home = self
            .conversation
            .settings
            .tools
            .snapshots
            .as_ref()
            .and_then(|snapshots| snapshots.home.as_deref());
        let (files, touch) = (self.tools.files.clone(), self.tools.touches(&access, &around, home));
        let (id, host) = (slot.call.id.clone(), Arc::clone(&self.tools.host));
        batch.touched.extend(access.paths);
        let call = run(call, around.cancel.clone(), self.conversation.settings.tools.timeout);
        batch.running.push(
            async move {
                let files = files.filter(|_| !matches!(touch, FilesAtRisk::Nothing));
                if let Some(files) = &files {
                    files.before(&id, touch).await;
                }
                let started = Instant::now();
                if let Some(hook) = &hook {
                    hook.before(&paths, mode, &around).await;
                }
                let mut output = call.await;
                if let Some(hook) = &hook {
                    output = becket_tool::hook::noted(&**hook, output, mode, &around).await;
                }
                let time = started.elapsed();
                if let Some(files) = &files {
                    files.after(&id, &mut output).await;
                }
                host.watch().note_own_changes(output.changes.iter().map(|change| change.path.as_path()));
                let mut hooked = match todo {
                    Some(todo) => todo.run(&mut output, &around.cancel).await,
                    None => Vec::new(),
                };
                if let Some(after) = after {
                    hooked.extend(after.run(&mut output, time, &around.cancel).await);
                }
                FinishedCall { index, output, time, hooked }
            }
            .boxed(),
        );
        CallStart::Running { alone }
    }

    fn deny(&mut self, slot: &mut Slot, reason: String, cause: DenialCause) {
        slot.refuse(format!("Permission denied, not run: {reason}{}.", cause.advice_for_model()));
        let denial = PermissionDenial {
            tool: slot.call.name.clone(),
            call_id: slot.call.id.clone(),
            input: slot.call.input.clone(),
            reason,
            cause,
        };
        self.conversation.spending.limits.denied(&denial);
        self.conversation.spending.turn.denials.push(denial.clone());
        self.conversation.core.announce(Event::PermissionDenied(denial));
    }

    pub(super) fn tools_done(&mut self, done: Vec<FinishedCall>) {
        let Op::Tools(batch) = &mut self.flow.op else { return };
        let mut hook_answers = Vec::new();
        for FinishedCall { index, output, time, hooked } in done {
            if let Some(slot) = batch.slots.get_mut(index) {
                slot.state = SlotState::Done { output, time };
            }
            hook_answers.extend(hooked);
            batch.has_exclusive_call = false;
        }
        if batch.given_up {
            batch.running.clear();
            for slot in &mut batch.slots {
                if matches!(slot.state, SlotState::Running) {
                    self.tools.subagents.give_up(&slot.call.id);
                    let partial = std::mem::take(&mut *lock(&slot.partial));
                    slot.settle(interrupted(&partial));
                }
            }
        }
        for (event, outcome) in hook_answers {
            self.hooks().tool_hooked(event, outcome);
        }
        self.advance();
    }

    /// Cancels the running calls and starts no others. A second request does not wait for them any longer.
    pub(super) fn cancel_tools(&mut self) {
        let Op::Tools(batch) = &mut self.flow.op else { return };
        // A subagent itself waits for its own calls, so it gets twice the time.
        let calm = if self.tools.subagents.any_in_foreground() { 2 * GRACE } else { GRACE };
        let patience = if batch.cancel.is_cancelled() { Duration::ZERO } else { calm };
        batch.cancel.cancel();
        batch.judging.clear();
        batch.grace = Some(Instant::now() + patience);
        if std::mem::take(&mut batch.asks_secrets)
            && let Some(slot) = batch.slots.get_mut(batch.written)
        {
            slot.send_secrets = Some(false);
        }
        for slot in &mut batch.slots {
            if matches!(slot.state, SlotState::Waiting | SlotState::Asking { .. }) {
                slot.settle(not_run(NotRun::Interrupted));
            }
        }
        batch.next = batch.slots.len();
        self.advance();
    }

    /// Ends all calls, because this process may not act for the session any more. A call whose start could not be recorded has
    /// not been polled, so it does nothing.
    fn give_up_calls(&mut self, batch: &mut Batch) {
        batch.cancel.cancel();
        batch.judging.clear();
        batch.running.clear();
        for slot in &mut batch.slots {
            if !matches!(slot.state, SlotState::Done { .. }) {
                self.tools.subagents.give_up(&slot.call.id);
                let done = if slot.started.is_some() { "Not completed" } else { "Not run" };
                slot.refuse(format!("{done}: {SESSION_LOST}"));
            }
        }
        (batch.next, batch.has_exclusive_call, batch.asks_secrets) = (batch.slots.len(), false, false);
    }

    /// Writes the results that are ready, in the order of the calls, in one commit.
    fn write_results(&mut self, batch: &mut Batch) {
        let (state, mut reads) = self.tools.host.drain();
        for entry in state {
            self.conversation.core.push(entry);
        }
        while !self.waits_for_secrets(batch) {
            let Some(slot) = batch.slots.get_mut(batch.written) else { break };
            let SlotState::Done { output, time } = &mut slot.state else { break };
            let (mut output, time) = (std::mem::take(output), *time);
            batch.written += 1;
            if slot.send_secrets != Some(true)
                && self.conversation.settings.tools.secrets != SecretOutputs::Send
                && let Some(kinds) = mask_secrets(&mut output)
            {
                let name = &slot.call.name;
                // If the person has just decided about these secrets, no notice is needed.
                if slot.send_secrets.is_none() {
                    self.conversation.core.emit_notice(
                        NoticeLevel::Warning,
                        format!(
                            "becket masked {kinds} in the output of {name} before sending it to the model. To send secrets unchanged, set secrets = \"send\"."
                        ),
                    );
                }
            }
            for refusal in refused_hosts(slot, &output) {
                self.conversation.core.push(refusal);
            }
            let duration = outcome::duration(&output, time);
            self.tools.repetition.record(&slot.call.name, &slot.call.input, &output.content, output.is_error);
            if slot.started.is_some() {
                let result = journal_result(&output, std::mem::take(&mut reads), duration);
                self.conversation.core.push(journal(slot, JournalState::Finished, result));
            }
            let changes = output.changes.clone();
            // Only a driving program gets the text of the file before the change.
            let wanted = self.conversation.settings.asking.headless;
            let original = output.original.take().filter(|text| wanted && text.len() <= MOST_ORIGINAL);
            let mut message = result_message(&slot.call, output);
            message.seq = self.conversation.core.next_seq();
            self.conversation.core.push(EntryKind::Message { message: message.clone() });
            self.conversation.core.announce(Event::ToolFinished { message, changes, duration, original });
        }
        self.conversation.core.flush(Durability::Buffered);
    }

    /// Gives every call of the last answer a result without running it.
    pub(super) fn close_calls(&mut self, why: NotRun) {
        for call in std::mem::take(&mut self.tools.ids.last_calls) {
            let mut message = result_message(&call, not_run(why));
            message.seq = self.conversation.core.next_seq();
            self.conversation.core.push(EntryKind::Message { message: message.clone() });
            self.conversation.core.announce(Event::ToolFinished {
                message,
                changes: Vec::new(),
                duration: millis(Duration::ZERO),
                original: None,
            });
        }
    }

    /// Ends a batch: all results and the answers of their hooks are present.
    pub(super) fn end_batch(&mut self, touched: &[PathBuf], hook_texts: Vec<(HookEvent, HookText)>) {
        // Rules are added first: they are not cut because of the step's size.
        let usable = self.conversation.budget().usable();
        let known = self.rules.below.len();
        self.rules.give_below(
            touched,
            &RulesScope::new(&self.conversation.settings, usable),
            &mut self.conversation.core,
        );
        let fresh = self.rules.below.get(known..).unwrap_or_default().to_vec();
        self.hooks().instructions_hooks(&fresh, "nested_traversal");
        self.conversation.core.flush(Durability::Buffered);
        let (budget, used) = (self.conversation.budget(), self.conversation.next_request_size());
        limit_step(&mut self.conversation.core, &self.conversation.budget, &budget, used);
        for (event, text) in hook_texts {
            self.hooks().tell_model(event, text);
        }
        self.hooks().flush_pending_context();
        self.flow.feed(Input::ToolsDone);
    }
}
