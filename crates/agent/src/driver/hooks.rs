//! The events at which hooks run, and the effects of their answers.
//!
//! Hooks that decide are an operation ([`Op::Hooks`]): while they run no other action is performed, so the prompt, the
//! end of the turn or the compaction that they judge waits. Hooks that only observe run in parallel with the loop.
//! Hooks of tool calls belong to their batch, see `tools::call_hooks`.
//!
//! Invariants:
//! - Without hooks, the cost is one comparison with `None`.
//! - An interrupt ends hooks for which the loop waits. A prompt that they had not judged yet is withdrawn.
//! - Each run is an entry of the ledger. A text for the model names its hook.

use super::conversation::Conversation;
use super::flow::Flow;
use super::inbox::Inbox;
use super::toolset::Toolset;
use super::{Op, Wake};
use crate::hooks::{mask, masked};
use crate::host::lock;
use crate::machine::{Input, PromptId};
use crate::settings::{AgentSettings, SecretOutputs};
use becket_model::Model;
use becket_session::store::transcript_path;
use becket_types::{
    CallId, Command, CompactionTrigger, DeferredCall, EndReason, EntryKind, Event, HookCall, HookEvent,
    HookOutcome, HookRun, HookText, HookWatch, MessageId, NoticeLevel, RefusedPrompt, Synthetic, TurnEnd,
};
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::FuturesUnordered;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The files that a step touched, and texts of hooks for the model.
type EndOfBatch = (Vec<PathBuf>, Vec<(HookEvent, HookText)>);

/// Time limit for hooks at the end of the session, because the user waits for the shell.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The same limit if a signal ends the process.
const SIGNALLED_END: Duration = Duration::from_millis(1_500);

/// Hooks for whose answers the loop waits.
pub(super) struct HookWait {
    run: BoxFuture<'static, Vec<HookOutcome>>,
    pub(super) then: AfterHooks,
}

impl HookWait {
    pub(super) async fn next(&mut self) -> Vec<HookOutcome> {
        (&mut self.run).await
    }
}

/// The next step after the hooks have answered.
pub(super) enum AfterHooks {
    Nothing,
    Deliver {
        prompts: Vec<PromptId>,
        steered: bool,
    },
    Stop {
        sent_back: u32,
    },
    EndBatch {
        touched: Vec<PathBuf>,
        hook_texts: Vec<(HookEvent, HookText)>,
    },
    Compact {
        trigger: CompactionTrigger,
    },
    /// The conversation was cleared. `receipt`: the id of the program's request.
    Clear {
        receipt: Option<String>,
    },
}

/// State of the driver about hooks.
#[derive(Default)]
pub(crate) struct HookState {
    /// The reason why a hook ends the turn.
    pub(super) stop: Option<String>,
    /// The prompt of the turn, if a hook refused it.
    pub(super) refused: Option<RefusedPrompt>,
    /// A call that a hook wants to be decided later. The turn ends before it.
    pub(super) deferred: Option<DeferredCall>,
    /// A title that a hook gives the session. It waits until the ledger has its first entries.
    pub(super) title: Option<String>,
    /// Id of the turn's prompt, which hooks get as `prompt_id`.
    prompt: Option<String>,
    /// Hooks for which nobody waits.
    pub(super) observing: FuturesUnordered<BoxFuture<'static, HookOutcome>>,
    /// Entries that wait until the ledger of the session has its first entries.
    pending_entries: Vec<EntryKind>,
    pending_context: Vec<(HookEvent, HookText)>,
    /// A switch of the model that hooks judge.
    pub(super) switching: Option<Switching>,
    /// The reason for the end of the session, if the front end has said it.
    pub(super) leaving: Option<EndReason>,
}

/// A switch of the model that hooks judge.
pub(crate) struct Switching {
    pub(super) run: BoxFuture<'static, HookOutcome>,
    pub(super) model: Arc<dyn Model>,
    /// The request of a program that waits for the result.
    pub(super) receipt: Option<String>,
}

impl HookState {
    /// Returns the end of the turn, if a hook has ended it.
    pub(super) fn end(&self) -> Option<TurnEnd> {
        if let Some(call) = &self.deferred {
            return Some(TurnEnd::Deferred { call: call.clone() });
        }
        let refused = self.refused.clone();
        self.stop.clone().map(|what| TurnEnd::HookStopped { what, refused })
    }
}

impl HookState {
    /// True if a front end ends the agent now, because a signal ends the process.
    pub(super) fn abandons(&mut self, wake: &Wake) -> bool {
        let abandons = matches!(wake, Wake::Command(Some(Command::Abandon)));
        if abandons {
            self.leaving = Some(EndReason::Other);
        }
        abandons
    }

    /// Forgets what hooks decided about the previous turn, and makes the id of the new turn's prompt.
    pub(super) fn begin_turn(&mut self) {
        (self.stop, self.refused, self.deferred) = (None, None, None);
        self.prompt = Some(MessageId::new().to_string());
    }
}

/// Returns the event for hooks at the end of a turn: `SubagentStop` for a subagent, otherwise `Stop`. `None` without hooks.
pub(super) fn end_event(settings: &AgentSettings) -> Option<HookEvent> {
    settings.hooks.engine.as_ref()?;
    Some(if settings.is_subagent() { HookEvent::SubagentStop } else { HookEvent::Stop })
}

/// Asks hooks, and records what they did.
pub(super) struct HookCaller<'a> {
    pub(super) conversation: &'a mut Conversation,
    pub(super) hooking: &'a mut HookState,
    pub(super) flow: &'a mut Flow,
    pub(super) tools: &'a Toolset,
}

impl HookCaller<'_> {
    /// Returns the call for an event, if a hook matches. `keys`: the event's own keys.
    pub(super) fn hook_call(&self, event: HookEvent, subject: Option<&str>, keys: Value) -> Option<HookCall> {
        let hooks = self.conversation.settings.hooks.engine.as_ref()?;
        if !hooks.listens(event) {
            return None;
        }
        let call = HookCall {
            event,
            subject: subject.map(str::to_owned),
            call_id: None,
            input: self.hook_input(event, keys),
            watch: Some(self.watch()),
        };
        hooks.status(&call).map(|_| call)
    }

    /// Returns a function that passes the progress of hooks on to front ends.
    fn watch(&self) -> HookWatch {
        let events = self.conversation.core.events.clone();
        let masks = self.conversation.settings.tools.secrets != SecretOutputs::Send;
        HookWatch(Arc::new(move |mut progress| {
            if masks && let Some(printed) = &mut progress.printed {
                mask(&mut printed.stdout);
                mask(&mut printed.stderr);
            }
            // If no front end listens any more, nobody needs the progress, so the error is ignored.
            let _ = events.send(Event::HookRuns(Box::new(progress)));
        }))
    }

    fn hook_input(&self, event: HookEvent, keys: Value) -> Map<String, Value> {
        let (id, transcript) = {
            let session = lock(&self.conversation.core.session);
            (session.id(), transcript_path(session.dir()))
        };
        let mut input = Map::new();
        let mut put = |key: &str, value: Value| {
            input.insert(key.to_owned(), value);
        };
        put("session_id", json!(id));
        put("transcript_path", json!(transcript.to_string_lossy()));
        put("cwd", json!(self.conversation.settings.environment.cwd.to_string_lossy()));
        put("permission_mode", json!(self.tools.guard.mode().to_string()));
        put("hook_event_name", json!(event.as_str()));
        if let Some(prompt) = &self.hooking.prompt {
            put("prompt_id", json!(prompt));
        }
        if let Some(effort) = &self.conversation.settings.requests.effort {
            put("effort", json!({ "level": effort }));
        }
        if let Some(agent) = &self.conversation.settings.hooks.agent {
            if let Some(id) = &agent.id {
                put("agent_id", json!(id));
            }
            put("agent_type", json!(agent.kind));
        }
        if let Value::Object(keys) = keys {
            input.extend(keys);
        }
        input
    }

    pub(super) fn run_hooks(&self, call: HookCall) -> Option<BoxFuture<'static, HookOutcome>> {
        let hooks = self.conversation.settings.hooks.engine.as_ref()?;
        let status = hooks.status(&call).flatten();
        self.conversation.core.emit(Event::HooksStarted { hook_event: call.event.to_string(), status });
        let run = hooks.run(call);
        let masks = self.conversation.settings.tools.secrets != SecretOutputs::Send;
        Some(if masks { run.map(masked).boxed() } else { run })
    }

    /// Waits for these hooks before any other action. Returns false if there are none.
    fn wait_for_hooks(&mut self, calls: Vec<HookCall>, then: AfterHooks) -> bool {
        let runs: Vec<_> = calls.into_iter().filter_map(|call| self.run_hooks(call)).collect();
        if runs.is_empty() {
            return false;
        }
        self.flow.op = Op::Hooks(Box::new(HookWait { run: Box::pin(futures::future::join_all(runs)), then }));
        true
    }

    /// Runs hooks that only observe; nobody waits for them.
    pub(super) fn run_observing_hooks(&mut self, event: HookEvent, subject: Option<&str>, keys: Value) {
        let call = self.hook_call(event, subject, keys);
        if let Some(run) = call.and_then(|call| self.run_hooks(call)) {
            self.hooking.observing.push(run);
        }
    }

    /// Records the runs of hooks that have answered, their messages for people, and their texts for the model.
    pub(super) fn record_hooks(&mut self, outcome: HookOutcome) {
        let event = outcome.runs.first().and_then(|run| HookEvent::parse(&run.event));
        self.record_runs(&outcome);
        // The texts wait until a message may be appended.
        let texts = outcome.context.into_iter().chain(outcome.block);
        self.hooking
            .pending_context
            .extend(texts.map(|text| (event.unwrap_or(HookEvent::Notification), text)));
        if outcome.special.retry {
            let from = outcome.runs.first().map(|run| run.hook.clone()).unwrap_or_default();
            let text = "The call that was denied may be made again.".to_owned();
            self.hooking.pending_context.push((HookEvent::PermissionDenied, HookText { from, text }));
        }
        self.hooking.title = outcome.special.title.or(self.hooking.title.take());
        if let Some(stop) = outcome.stop {
            self.hooking.stop = Some(stop);
        }
    }

    /// Writes runs to the ledger, or keeps them until the ledger has its first entries.
    pub(super) fn keep_runs(&mut self, runs: &[HookRun]) {
        for run in runs {
            let entry = EntryKind::Hook(Box::new(run.clone()));
            if self.conversation.core.resumed {
                self.conversation.core.push(entry);
            } else {
                self.hooking.pending_entries.push(entry);
            }
        }
    }

    pub(super) fn record_runs(&mut self, outcome: &HookOutcome) {
        self.keep_runs(&outcome.runs);
        for run in &outcome.runs {
            self.conversation.core.announce(Event::HookFinished(Box::new(run.clone())));
        }
        for message in &outcome.messages {
            let level = if message.warning { NoticeLevel::Warning } else { NoticeLevel::Info };
            self.conversation.core.emit_notice(level, message.text.clone());
        }
    }

    /// Sends the text of a hook to the model, marked as such.
    pub(super) fn tell_model(&mut self, event: HookEvent, HookText { from, text }: HookText) {
        // The model gets only the first word of the hook's command, because the rest may contain a key. People see the
        // whole command in the inspector.
        let name = from.split_whitespace().next().unwrap_or_default().replace('"', "'");
        let marked = format!("<hook event=\"{event}\" from=\"{name}\">\n{text}\n</hook>");
        let mut extra = Map::new();
        extra.insert("hook".to_owned(), Value::from(format!("{event}: {from}")));
        self.conversation.core.synthetic(Synthetic::Hook, marked, extra);
    }

    /// Appends the waiting texts at a point where a message is allowed: after prompts, and after the results of a step.
    pub(super) fn flush_pending_context(&mut self) {
        for entry in std::mem::take(&mut self.hooking.pending_entries) {
            self.conversation.core.push(entry);
        }
        for (event, text) in std::mem::take(&mut self.hooking.pending_context) {
            self.tell_model(event, text);
        }
    }

    pub(super) fn session_start_hooks(&mut self) {
        if self.conversation.settings.hooks.engine.is_none() {
            return;
        }
        if self.conversation.settings.is_subagent() {
            let kind = self.conversation.settings.hooks.agent.as_ref().map(|agent| agent.kind.clone());
            let calls =
                self.hook_call(HookEvent::SubagentStart, kind.as_deref(), json!({})).into_iter().collect();
            self.wait_for_hooks(calls, AfterHooks::Nothing);
            return;
        }
        let session = &self.conversation.settings.session;
        let source = match (session.forked, session.resumed) {
            (true, _) => "fork",
            (false, true) => "resume",
            (false, false) if session.cleared => "clear",
            (false, false) => "startup",
        };
        let calls = self.session_start_call(source).into_iter().collect();
        self.wait_for_hooks(calls, AfterHooks::Nothing);
    }

    fn session_start_call(&self, source: &str) -> Option<HookCall> {
        let keys = json!({ "source": source, "model": self.conversation.wire.model.info().id });
        self.hook_call(HookEvent::SessionStart, Some(source), keys)
    }

    fn session_end_run(&self, reason: EndReason) -> Option<BoxFuture<'static, HookOutcome>> {
        let reason = reason.as_str();
        let call = self.hook_call(HookEvent::SessionEnd, Some(reason), json!({ "reason": reason }))?;
        self.run_hooks(call)
    }

    /// Runs the hooks of a conversation that was cleared: those at its end, then those at the start of the next one. Returns
    /// false if there are none.
    pub(super) fn cleared_hooks(&mut self, receipt: Option<String>) -> bool {
        let end = self.session_end_run(EndReason::Clear);
        let start = self.session_start_call("clear").and_then(|call| self.run_hooks(call));
        if end.is_none() && start.is_none() {
            return false;
        }
        let run = async {
            let mut outcomes = Vec::new();
            if let Some(end) = end {
                outcomes.extend(tokio::time::timeout(END_TIMEOUT, end).await);
            }
            if let Some(start) = start {
                outcomes.push(start.await);
            }
            outcomes
        };
        self.flow.op =
            Op::Hooks(Box::new(HookWait { run: run.boxed(), then: AfterHooks::Clear { receipt } }));
        true
    }

    /// Runs hooks at the end of the session, together with those that still observe. Returns their answers, without those that
    /// took too long.
    pub(super) fn session_end_hooks(&mut self) -> BoxFuture<'static, Vec<HookOutcome>> {
        if self.conversation.settings.hooks.engine.is_none() || self.conversation.settings.is_subagent() {
            return std::future::ready(Vec::new()).boxed();
        }
        let run = self.session_end_run(self.hooking.leaving.unwrap_or(EndReason::Other));
        let beside = std::mem::take(&mut self.hooking.observing);
        let all = async {
            let mut outcomes = match run {
                Some(run) => vec![run.await],
                None => Vec::new(),
            };
            outcomes.extend(futures::StreamExt::collect::<Vec<_>>(beside).await);
            outcomes
        };
        // If a signal ends the process, whoever sent it does not wait for long.
        let limit = if self.hooking.leaving == Some(EndReason::Other) { SIGNALLED_END } else { END_TIMEOUT };
        // A hook that takes longer is ended with the session.
        let limited = tokio::time::timeout(limit, all);
        limited.map(Result::unwrap_or_default).boxed()
    }

    /// Records the answers of hooks at the end of the session.
    pub(super) fn record_session_end(&mut self, outcomes: &[HookOutcome]) {
        self.conversation.count_hooks();
        for outcome in outcomes {
            self.record_runs(outcome);
        }
        if !self.conversation.core.resumed {
            // The session never wrote its first entries, so it is empty, and the runs of its hooks are not recorded either.
            self.hooking.pending_entries.clear();
        }
    }

    /// Runs hooks for waiting prompts before they are delivered. Returns false if there are none.
    pub(super) fn prompt_hooks(&mut self, prompts: &[PromptId], steered: bool, inbox: &Inbox) -> bool {
        if self.conversation.settings.hooks.engine.is_none() || self.conversation.settings.is_subagent() {
            return false;
        }
        let texts: Vec<String> = prompts.iter().filter_map(|id| inbox.text(*id)).collect();
        let source = if self.conversation.settings.asking.headless { "sdk" } else { "user" };
        let title = lock(&self.conversation.core.session).title().map(str::to_owned);
        let calls = texts.iter().filter_map(|text| {
            let mut keys = json!({ "prompt": text, "source": source });
            if let Some(title) = &title {
                keys["session_title"] = json!(title);
            }
            self.hook_call(HookEvent::UserPromptSubmit, None, keys)
        });
        let calls: Vec<HookCall> = calls.collect();
        self.wait_for_hooks(calls, AfterHooks::Deliver { prompts: prompts.to_vec(), steered })
    }

    /// Runs hooks at the end of a turn, which may send the model back.
    pub(super) fn stop_hooks(&mut self, sent_back: u32) {
        let event = end_event(&self.conversation.settings).unwrap_or(HookEvent::Stop);
        let mut keys = json!({
            "stop_hook_active": sent_back > 0,
            "last_assistant_message": &*self.conversation.spending.turn.text,
            "background_tasks": self.tools.subagents.summaries(), "session_crons": [],
        });
        if event == HookEvent::SubagentStop {
            let session = lock(&self.conversation.core.session);
            keys["agent_transcript_path"] = json!(transcript_path(session.dir()).to_string_lossy());
        }
        let agent = self.conversation.settings.hooks.agent.as_ref().filter(|agent| agent.id.is_some());
        let kind = agent.map(|agent| agent.kind.clone());
        let calls: Vec<HookCall> = self.hook_call(event, kind.as_deref(), keys).into_iter().collect();
        if !self.wait_for_hooks(calls, AfterHooks::Stop { sent_back }) {
            self.flow.feed(Input::StopAsked { go_on: false });
        }
    }

    /// Runs hooks before a compaction. Returns false if there are none.
    pub(super) fn compact_hooks(&mut self, trigger: CompactionTrigger, focus: Option<&str>) -> bool {
        if self.conversation.settings.hooks.engine.is_none() {
            return false;
        }
        let name = trigger_name(trigger);
        let keys = json!({ "trigger": name, "custom_instructions": focus.unwrap_or_default() });
        let calls = self.hook_call(HookEvent::PreCompact, Some(name), keys).into_iter().collect();
        self.wait_for_hooks(calls, AfterHooks::Compact { trigger })
    }

    pub(super) fn failure_hooks(&mut self, end: &TurnEnd) {
        if self.conversation.settings.hooks.engine.is_none() {
            return;
        }
        let (kind, message) = match end {
            TurnEnd::ModelError { kind, message, .. } => (kind, message),
            TurnEnd::Refusal { reason } => (reason, reason),
            _ => return,
        };
        let keys = json!({ "error": kind, "error_details": message, "last_assistant_message": &*self.conversation.spending.turn.text });
        self.run_observing_hooks(HookEvent::StopFailure, Some(kind.as_str()), keys);
    }

    /// Runs `PostToolBatch` hooks for the results of a step and waits for them. If no hook matches, `Err` returns `touched`
    /// and `hook_texts`.
    pub(super) fn wait_after_batch(
        &mut self,
        keys: Value,
        touched: Vec<PathBuf>,
        hook_texts: Vec<(HookEvent, HookText)>,
    ) -> Result<(), EndOfBatch> {
        match self.hook_call(HookEvent::PostToolBatch, None, keys) {
            Some(call) => {
                self.wait_for_hooks(vec![call], AfterHooks::EndBatch { touched, hook_texts });
                Ok(())
            }
            None => Err((touched, hook_texts)),
        }
    }

    /// Runs hooks for a call that was denied, but not by a person.
    pub(super) fn denied_hooks(&mut self, tool: &str, input: Value, id: &CallId, reason: &str) {
        let keys = json!({ "tool_name": tool, "tool_input": input, "tool_use_id": id, "reason": reason });
        self.run_observing_hooks(HookEvent::PermissionDenied, Some(tool), keys);
    }

    /// Runs hooks that notify a person who is asked something.
    pub(super) fn notification_hooks(&mut self, kind: &str, message: &str) {
        let keys = json!({ "message": message, "title": "becket", "notification_type": kind });
        self.run_observing_hooks(HookEvent::Notification, Some(kind), keys);
    }

    /// Runs hooks after a compaction.
    pub(super) fn compacted_hooks(&mut self, trigger: CompactionTrigger, summary: &str) {
        let name = trigger_name(trigger);
        self.run_observing_hooks(
            HookEvent::PostCompact,
            Some(name),
            json!({ "trigger": name, "compact_summary": summary }),
        );
        if !self.conversation.settings.is_subagent() {
            let call = self.session_start_call("compact");
            self.hooking.observing.extend(call.and_then(|call| self.run_hooks(call)));
        }
    }
}

fn trigger_name(trigger: CompactionTrigger) -> &'static str {
    match trigger {
        CompactionTrigger::Manual => "manual",
        CompactionTrigger::Auto | CompactionTrigger::Overflow => "auto",
    }
}
