//! Runs subagents: a call of `task`, or of a tool that delegates its work, is an agent of its own, which runs beside the loop.
//!
//! Model: the subagent gets a session of its own that is linked to this one, all tools except `task`, a copy of the present
//! guard, and the remaining limits of this agent, which both share. Its events go to the front ends inside
//! [`Event::Subagent`], except streamed deltas and minor notes. A person's decisions for it arrive by
//! [`Command::ToSubagent`]. A call in the foreground waits for its subagent. A call in the background has its result at
//! once; when its subagent ends, the model gets a message, which begins a turn if none runs. A call can be moved to the
//! background while it runs.
//!
//! Invariants:
//! - A subagent may do nothing that this agent may not, except what the mode in the user's own definition of its kind allows.
//!   Its guard is a copy. A mode that is set here is set there too (a kind that only reads stays in `plan`). A rule that is allowed there for the session is allowed here too.
//! - In the foreground it ends before its call does: it is interrupted with the call, and dropped when the call is given up.
//! - The end of each task of the background is reported to the model once, unless the session ends first. A resumed session
//!   tells the model which tasks were lost.
//! - Its changes to files are recorded in this session, so that an undo of the turn reverts them.
//! - The result says how it ended. Every end except completion is an error.

use super::background::{Ended, MAX_RUNNING, RunMode, Running, SubagentInfo, end_text, next_task};
use super::files::Files;
use super::inbox::Inbox;
use super::subagent_run::{SubagentRun, wait_for_subagent};
use super::tools::ToolRunner;
use super::{Agent, Op};
use crate::host::lock;
use crate::machine::Input;
use crate::settings::{AgentParts, AgentSettings, HookAgent, scope};
use crate::spend::Limits;
use crate::subagent::{KindTools, TASK, Task, TaskTool};
use becket_guard::Guard;
use becket_model::Model;
use becket_session::context::cache::CachePolicy;
use becket_session::{Durability, Session};
use becket_tool::{ToolEnv, ToolSource};
use becket_types::{
    CallId, Command, Decision, DeliveryMode, Event, Message, NoticeLevel, Part, PermissionMode, PromptInput,
    SessionId, Synthetic, ToolOutput, TurnEnd,
};
use futures::future::{AbortHandle, Abortable, BoxFuture, FutureExt as _};
use serde_json::{Map, json};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The parts that a subagent shares with the agent that it works for.
pub(super) struct Parentage {
    pub(super) limits: Limits,
    /// The recorder for the file changes of its calls.
    pub(super) files: Option<Arc<Files>>,
    /// The sessions that it works for, down to that agent's. It stops when another process takes one of them over.
    pub(super) sessions: Vec<Arc<Mutex<Session>>>,
}

impl ToolRunner<'_> {
    /// The subagent that this call asks for; `None` for every other call. `Err` is a message for the model.
    pub(super) fn subagent(
        &mut self,
        name: &str,
        env: &ToolEnv,
        input: &serde_json::Value,
    ) -> Option<Result<(SessionId, BoxFuture<'static, ToolOutput>), String>> {
        if self.conversation.settings.subagents.is_empty() {
            return None;
        }
        let kinds = TaskTool::new(Arc::clone(&self.conversation.settings.subagents));
        let task = if name.trim().eq_ignore_ascii_case(TASK) {
            kinds.task(input).map(|task| self.tools.subagents.whole_task(&env.call_id, task))
        } else {
            let delegation = self.tools.registry.get(name)?.delegates(input)?;
            delegation.and_then(|delegation| kinds.delegated(delegation))
        };
        Some(task.and_then(|task| self.begin_subagent(env, task)))
    }

    fn begin_subagent(
        &mut self,
        env: &ToolEnv,
        mut task: Task,
    ) -> Result<(SessionId, BoxFuture<'static, ToolOutput>), String> {
        let over = self.conversation.spending.limits.over(self.conversation.spending.turn.started.elapsed());
        if let Some(over) = over.as_ref().and_then(TurnEnd::limit) {
            return Err(format!("Not run: budget limit reached ({over})."));
        }
        let mut tools = self.tools.registry.clone();
        tools.retain(|name| task.kind.has(name));
        // A subagent gets no tool that asks the user: it works for the model, and only that model speaks to the user.
        let asks: Vec<String> = tools.all_names();
        let asks =
            asks.into_iter().filter(|name| tools.get(name).is_some_and(|tool| tool.asks_person().is_some()));
        let asks: Vec<String> = asks.collect();
        tools.retain(|name| !asks.iter().any(|asks| asks == name));
        if tools.is_empty() && self.conversation.settings.tools.source.is_none() {
            return Err(format!(
                "Not run: none of the tools of the agent {} is available in this session.",
                task.kind.name
            ));
        }
        let model = self.subagent_model(&task);
        let session = lock(&self.conversation.core.session).for_subagent(
            env.call_id.clone(),
            &task.kind.name,
            scope(model.info()),
        );
        let session = session.map_err(|error| format!("Not run: its session cannot be made: {error}."))?;
        let (id, blobs) = (session.id(), session.blobs());
        let parts = AgentParts {
            session,
            model,
            auxiliary: self.conversation.wire.auxiliary.clone(),
            fallback_models: self.conversation.wire.fallbacks.iter().cloned().collect(),
            cache: CachePolicy { ttl: self.conversation.wire.cache.policy.ttl, ..CachePolicy::default() },
            find_model: None,
            tools,
            guard: self.subagent_guard(&task),
            settings: self.subagent_settings(&task, id),
        };
        let parentage = Parentage {
            limits: self.conversation.spending.limits.for_subagent(),
            files: self.tools.files.as_ref().map(|files| Arc::new(files.for_subagent(&env.call_id))),
            sessions: self.conversation.core.lineage().cloned().collect(),
        };
        let (agent, handle) = Agent::build(parts, Some(parentage));
        let mut parts = vec![Part::text(task.prompt.clone())];
        parts.append(&mut task.images);
        let prompt = PromptInput { parts, mode: DeliveryMode::Queue, ..PromptInput::default() };
        // The channel is new, so it has room.
        for command in [Command::Prompt(prompt), Command::EndInput] {
            let _ = handle.commands.try_send(command);
        }
        // In the background, the subagent continues when the call has ended.
        let cancel = CancellationToken::new();
        let in_background = task.background;
        let watched = SubagentRun {
            task,
            session: id,
            blobs,
            env: ToolEnv { cancel: cancel.clone(), ..env.clone() },
            commands: handle.commands.downgrade(),
            events: self.conversation.core.events.clone(),
            offers: Arc::default(),
        };
        let (abort, registration) = AbortHandle::new_pair();
        let (sender, receiver) = oneshot::channel();
        let running = Running {
            commands: Some(handle.commands),
            kind: watched.task.kind.clone(),
            offers: Arc::clone(&watched.offers),
            cancel: cancel.clone(),
            about: SubagentInfo { description: watched.task.description.clone(), session: id },
            abort,
            mode: RunMode::Foreground(sender),
        };
        let run = Abortable::new(watched.run(agent, handle.events).boxed(), registration);
        self.tools.subagents.add(env.call_id.clone(), running, run);
        if in_background && self.background_is_full().is_none() {
            self.detach(&env.call_id);
        }
        let call = wait_for_subagent(receiver, cancel, env.cancel.clone());
        Ok((id, call.boxed()))
    }

    /// The model that the subagent's kind names, or the one for subagents, or this agent's. If the named one is not available,
    /// this agent's model is used and the user gets a notice.
    fn subagent_model(&self, task: &Task) -> Arc<dyn Model> {
        let (Some(name), Some(find)) = (&task.kind.model, &self.conversation.wire.find_model) else {
            return self
                .conversation
                .wire
                .auxiliary
                .subagent
                .clone()
                .unwrap_or_else(|| self.conversation.model());
        };
        find(name).unwrap_or_else(|error| {
            let text = format!(
                "The agent {} runs on this session's model, because its own model, {name}, cannot be used ({}).",
                task.kind.name,
                error.trim_end_matches('.')
            );
            self.conversation.core.emit_notice(NoticeLevel::Warning, text);
            self.conversation.model()
        })
    }

    fn subagent_guard(&self, task: &Task) -> Guard {
        let mut guard = self.tools.guard.clone();
        let mode = task.kind.mode(self.tools.guard.mode());
        // The mode of an agent's definition is no way around the limits of the session.
        if guard.may_enter(mode).is_ok() {
            guard.set_mode(mode);
        }
        for rule in task.kind.memory_rules() {
            // If no rule can name the folder, the error is ignored, and its use is asked about.
            let _ = guard.allow_for_session(&rule);
        }
        guard
    }

    fn subagent_settings(&self, task: &Task, session: SessionId) -> AgentSettings {
        let kind = &task.kind;
        let own_mode = kind.mode(self.tools.guard.mode());
        let silent = own_mode == PermissionMode::Plan && self.tools.guard.mode() == PermissionMode::DontAsk;
        let source = self.conversation.settings.tools.source.as_ref().map(|source| {
            let source = source.whole().unwrap_or_else(|| Arc::clone(source));
            Arc::new(KindTools { source, kind: kind.clone() }) as Arc<dyn ToolSource>
        });
        let mut settings = self.conversation.settings.clone();
        // In `plan`, the subagent would ask about calls that this agent's mode `dontAsk` denies. Without anybody to ask, it
        // denies them.
        settings.asking.headless |= silent;
        settings.asking.asks_host &= !silent;
        settings.session.resumed = false;
        settings.session.states = Vec::new();
        settings.session.title = Some(task.description.clone());
        settings.tools.snapshots = None;
        settings.tools.source = source;
        settings.subagents = Arc::default();
        settings.hooks.files = Vec::new();
        settings.hooks.agent = Some(HookAgent { id: Some(session.to_string()), kind: kind.name.clone() });
        if let Some(effort) = &kind.run.effort {
            settings.requests.effort = Some(effort.clone());
        }
        let max_turns = &mut settings.limits.run.max_turns;
        *max_turns = kind.run.max_turns.into_iter().chain(*max_turns).min();
        (settings.prompt.answer, settings.prompt.agent) = (None, None);
        settings.prompt.append = Some(match settings.prompt.append.take() {
            Some(appended) => format!("{appended}\n\n{}", task.kind.instruction()),
            None => task.kind.instruction(),
        });
        settings
    }

    /// Passes a front end's command on to a subagent.
    pub(super) fn pass_to_subagent(&mut self, call: &CallId, command: Command) {
        let Some(running) = self.tools.subagents.get(call) else {
            return self
                .conversation
                .core
                .emit_notice(NoticeLevel::Warning, "This subagent does not run any more.".to_owned());
        };
        let mut granted = None;
        match &command {
            Command::Decide { call_id, decision } => {
                granted =
                    lock(&running.offers).remove(call_id).filter(|_| *decision == Decision::AllowSession);
            }
            Command::Interrupt | Command::Prompt(_) => {}
            _ => {
                let text = "A subagent takes messages, decisions and interrupts, nothing else.".to_owned();
                return self.conversation.core.emit_notice(NoticeLevel::Warning, text);
            }
        }
        if let Some(commands) = &running.commands {
            let _ = commands.try_send(command);
        }
        if let Some(rule) = granted {
            self.tools.grant(rule, self.conversation);
        }
    }

    /// Passes a front end's command on to a task of the background.
    pub(super) fn pass_to_task(&mut self, task: u64, command: Command) {
        let found = self.tools.subagents.in_background().find_map(|(call, running)| match running.mode {
            RunMode::Background(number) if number == task => Some(call.clone()),
            _ => None,
        });
        let Some(call) = found else {
            return self
                .conversation
                .core
                .emit_notice(
                    NoticeLevel::Warning,
                    format!(
                        "No background task {task} is running. /tasks lists them; a command is stopped with /tasks stop job {task}."
                    ),
                );
        };
        let done = if command == Command::Interrupt { "Stopping" } else { "Message sent to" };
        self.conversation.core.emit_notice(NoticeLevel::Info, format!("{done} background task {task}."));
        self.pass_to_subagent(&call, command);
    }

    /// Returns the reason if no further task can run in the background.
    pub(super) fn background_is_full(&self) -> Option<String> {
        if self.conversation.settings.prompt.answer.is_some() {
            return Some(
                "this run has a JSON schema for its answer, so it waits for all of its work".to_owned(),
            );
        }
        let running = self.tools.subagents.in_background().count();
        (running >= MAX_RUNNING)
            .then(|| format!("{running} subagents already run in the background, which is the limit"))
    }

    /// Moves running commands and subagents to the background: those of one call, or of all calls. `Err` says why the named
    /// call, or any call, was not moved.
    pub(super) fn move_to_background(&mut self, only: Option<&CallId>) -> Result<(), String> {
        let calls: Vec<(CallId, String)> = match &self.flow.op {
            Op::Tools(batch) => batch.running_calls(),
            _ => Vec::new(),
        };
        let mut moved = 0;
        let mut why = None;
        for (call, name) in calls.into_iter().filter(|(call, _)| only.is_none_or(|only| only == call)) {
            let done = if self.tools.subagents.get(&call).is_some() {
                match self.background_is_full() {
                    Some(full) => {
                        why = Some(full);
                        false
                    }
                    None => self.detach(&call),
                }
            } else {
                self.tools.registry.get(&name).is_some_and(|tool| tool.detach(&call))
            };
            moved += u32::from(done);
        }
        let is_full = why.is_some();
        let text = match (moved, why) {
            (0, Some(why)) => format!("Nothing was moved to the background: {why}."),
            (0, None) => "Nothing that runs now can be moved to the background.".to_owned(),
            (1, _) => "Moved to the background. /tasks shows it.".to_owned(),
            (n, _) => format!("Moved {n} calls to the background. /tasks shows them."),
        };
        self.conversation.core.emit_notice(NoticeLevel::Info, text.clone());
        if moved == 0 && (only.is_some() || is_full) { Err(text) } else { Ok(()) }
    }

    /// Moves a subagent to the background: its call gets a result now. Returns false if it is there already.
    pub(super) fn detach(&mut self, call: &CallId) -> bool {
        let number = next_task(&self.conversation.core);
        let Some(running) = self.tools.subagents.running.get_mut(call) else { return false };
        if matches!(running.mode, RunMode::Background(_)) {
            return false;
        }
        let mode = std::mem::replace(&mut running.mode, RunMode::Background(number));
        let text = format!(
            "Started in the background as task {number}. Go on with other work or end your turn; a message brings the result \
             when it is there. Do not wait for it with commands, and do not do its work yourself."
        );
        if let RunMode::Foreground(sender) = mode {
            let details = json!({ "background": number, "session": running.about.session });
            // The call may have been given up in the meantime.
            let _ = sender.send(ToolOutput { details, ..ToolOutput::text(text) });
        }
        self.tools.subagents.record(call, number, "running", &mut self.conversation.core);
        self.conversation.core.emit(Event::MovedToBackground { call_id: call.clone() });
        self.flow.feed(Input::Background { running: true });
        true
    }

    /// Handles the end of a subagent.
    pub(super) fn subagent_ended(&mut self, Ended { call, output }: Ended, inbox: &mut Inbox) {
        let Some(output) = output else { return };
        let Some(running) = self.tools.subagents.running.get(&call) else { return };
        let number = match running.mode {
            RunMode::Background(number) => number,
            RunMode::Foreground(_) => {
                if let Some(Running { mode: RunMode::Foreground(sender), .. }) =
                    self.tools.subagents.running.remove(&call)
                {
                    let _ = sender.send(output);
                }
                return;
            }
        };
        let state = match (output.interrupted, output.is_error) {
            (true, _) => "stopped",
            (false, true) => "failed",
            (false, false) => "completed",
        };
        self.tools.subagents.record(&call, number, state, &mut self.conversation.core);
        let Some(running) = self.tools.subagents.running.remove(&call) else { return };
        let (name, about) = (&running.kind.name, &running.about);
        let text = format!(
            "<task-notification>\nThe background task {number} ({name}: {}) {}.\n\n{}\n</task-notification>",
            about.description,
            end_text(state),
            output.content.trim()
        );
        self.conversation.core.notice(
            NoticeLevel::Info,
            format!("Background task {number} ({name}: {}) {}.", about.description, end_text(state)),
        );
        self.conversation.core.flush(Durability::Buffered);
        // The message for the model is delivered like a prompt.
        let mut message = Message::synthetic(Synthetic::Reminder, text);
        message.metadata.extra = Map::from_iter([("task".to_owned(), json!(call))]);
        let id = inbox.put_note(message, format!("task-{call}"));
        self.flow.feed(Input::Prompt { id, mode: DeliveryMode::Steer });
        if self.tools.subagents.in_background().next().is_none() {
            self.flow.feed(Input::Background { running: false });
        }
    }

    /// Ends all tasks of the background without a message to the model.
    pub(super) fn drop_background(&mut self) {
        let calls: Vec<CallId> = self.tools.subagents.in_background().map(|(call, _)| call.clone()).collect();
        for call in &calls {
            let Some(running) = self.tools.subagents.running.get(call) else { continue };
            let RunMode::Background(number) = running.mode else { continue };
            self.tools.subagents.record(call, number, "stopped", &mut self.conversation.core);
            if let Some(running) = self.tools.subagents.running.remove(call) {
                running.cancel.cancel();
                running.abort.abort();
            }
        }
        if !calls.is_empty() {
            self.flow.feed(Input::Background { running: false });
        }
    }

    /// Ends the tasks of the background with an interrupt after the end of the input: nobody could stop them later.
    pub(super) fn interrupt_background(&mut self) {
        if self.flow.input_ended() {
            self.drop_background();
        }
    }
}
