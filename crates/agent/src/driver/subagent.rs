//! Runs subagents: a call of `task` is an agent of its own, which runs beside the loop.
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

use super::background::{self, About, Ended, MOST, Place, Running, STATE, in_words};
use super::{Agent, Parentage};
use crate::host::lock;
use crate::machine::Input;
use crate::settings::{AgentParts, AgentSettings, HookAgent, scope};
use crate::subagent::{KindTools, TASK, Task, TaskTool};
use becket_guard::Guard;
use becket_model::Model;
use becket_session::Durability;
use becket_session::context::cache::CachePolicy;
use becket_tool::{Keep, ToolEnv, ToolSource, finish};
use becket_types::{
    CallId, Command, Decision, DeliveryMode, EntryKind, Event, FileChange, NoticeLevel, Part, PermissionMode,
    PromptInput, SessionId, SubagentCall, SubagentReport, Synthetic, ToolOutput, TurnEnd, TurnResult,
    cut_end, is_blank, subject,
};
use futures::future::{AbortHandle, Abortable, BoxFuture, FutureExt as _};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Limit on the calls that a report lists.
const MAX_CALLS: usize = 200;
/// Limit on a call's subject in the report, in bytes.
const MAX_SUBJECT: usize = 200;

impl Agent {
    /// The subagent that this call asks for; `None` for every other call. `Err` is a message for the model.
    pub(super) fn subagent(
        &mut self,
        name: &str,
        env: &ToolEnv,
        input: &serde_json::Value,
    ) -> Option<Result<(SessionId, BoxFuture<'static, ToolOutput>), String>> {
        if !name.trim().eq_ignore_ascii_case(TASK) || self.settings.subagents.is_empty() {
            return None;
        }
        Some(self.begin_subagent(env, input))
    }

    fn begin_subagent(
        &mut self,
        env: &ToolEnv,
        input: &serde_json::Value,
    ) -> Result<(SessionId, BoxFuture<'static, ToolOutput>), String> {
        let task = TaskTool::new(Arc::clone(&self.settings.subagents)).task(input)?;
        let over = self.spending.limits.over(self.spending.turn.started.elapsed());
        if let Some(over) = over.as_ref().and_then(TurnEnd::limit) {
            return Err(format!("Not run: budget limit reached ({over})."));
        }
        let mut tools = self.tools.registry.clone();
        tools.retain(|name| task.kind.has(name));
        if tools.is_empty() && self.settings.tools.source.is_none() {
            return Err(format!("Not run: the agent {} has no tool that is here.", task.kind.name));
        }
        let model = self.subagent_model(&task);
        let session =
            lock(&self.core.session).for_subagent(env.call_id.clone(), &task.kind.name, scope(model.info()));
        let session = session.map_err(|error| format!("Not run: its session cannot be made: {error}."))?;
        let id = session.id();
        let parts = AgentParts {
            session,
            model,
            auxiliary: self.wire.auxiliary.clone(),
            fallback_models: self.wire.fallbacks.iter().cloned().collect(),
            cache: CachePolicy { ttl: self.wire.cache.policy.ttl, ..CachePolicy::default() },
            find_model: None,
            tools,
            guard: self.subagent_guard(&task),
            settings: self.subagent_settings(&task, id),
        };
        let parentage = Parentage {
            limits: self.spending.limits.below(),
            files: self.tools.files.as_ref().map(|files| Arc::new(files.for_subagent(&env.call_id))),
        };
        let (agent, handle) = Agent::made(parts, Some(parentage));
        let prompt = PromptInput {
            parts: vec![Part::text(task.prompt.clone())],
            mode: DeliveryMode::Queue,
            client_id: None,
        };
        // The channel is new, so it has room.
        for command in [Command::Prompt(prompt), Command::EndInput] {
            let _ = handle.commands.try_send(command);
        }
        // In the background, it goes on when the call has ended.
        let cancel = CancellationToken::new();
        let in_background = task.background;
        let watched = Watched {
            task,
            session: id,
            env: ToolEnv { cancel: cancel.clone(), ..env.clone() },
            commands: handle.commands.downgrade(),
            events: self.core.events.clone(),
            offers: Arc::default(),
        };
        let (abort, registration) = AbortHandle::new_pair();
        let (sender, receiver) = oneshot::channel();
        let running = Running {
            commands: Some(handle.commands),
            kind: watched.task.kind.clone(),
            offers: Arc::clone(&watched.offers),
            cancel: cancel.clone(),
            about: About { description: watched.task.description.clone(), session: id },
            abort,
            place: Place::Foreground(sender),
        };
        let run = Abortable::new(watched.run(agent, handle.events).boxed(), registration);
        self.tools.subagents.add(env.call_id.clone(), running, run);
        if in_background && self.background_is_full().is_none() {
            self.detach(&env.call_id);
        }
        let call = waited(receiver, cancel, env.cancel.clone());
        Ok((id, call.boxed()))
    }

    /// The model that the subagent's kind names, or the one for subagents, or this agent's. If the named one is not available,
    /// this agent's model is used and the user gets a notice.
    fn subagent_model(&self, task: &Task) -> Arc<dyn Model> {
        let (Some(name), Some(find)) = (&task.kind.model, &self.wire.find_model) else {
            return self.wire.auxiliary.subagent.clone().unwrap_or_else(|| self.model());
        };
        find(name).unwrap_or_else(|error| {
            let text = format!(
                "The agent {} runs on this session's model: the one it names, {name}, cannot be had ({}).",
                task.kind.name,
                error.trim_end_matches('.')
            );
            self.core.say(NoticeLevel::Warning, text);
            self.model()
        })
    }

    fn subagent_guard(&self, task: &Task) -> Guard {
        let mut guard = self.tools.guard.clone();
        guard.set_mode(task.kind.mode(self.tools.guard.mode()));
        for rule in task.kind.memory_rules() {
            // A folder that no rule can name is asked about.
            let _ = guard.allow_for_session(&rule);
        }
        guard
    }

    fn subagent_settings(&self, task: &Task, session: SessionId) -> AgentSettings {
        let kind = &task.kind;
        let own_mode = kind.mode(self.tools.guard.mode());
        let silent = own_mode == PermissionMode::Plan && self.tools.guard.mode() == PermissionMode::DontAsk;
        let source = self.settings.tools.source.as_ref().map(|source| {
            let source = source.whole().unwrap_or_else(|| Arc::clone(source));
            Arc::new(KindTools { source, kind: kind.clone() }) as Arc<dyn ToolSource>
        });
        let mut settings = self.settings.clone();
        // Its mode is `plan`, which asks in cases where this agent's mode denies.
        settings.asking.headless |= silent;
        settings.asking.asks_host &= !silent;
        settings.session.resumed = false;
        settings.session.states = Vec::new();
        settings.session.title = Some(task.description.clone());
        settings.tools.snapshots = None;
        settings.tools.source = source;
        settings.subagents = Arc::default();
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
            return self.core.say(NoticeLevel::Warning, "This subagent does not run any more.".to_owned());
        };
        let mut granted = None;
        match &command {
            Command::Decide { call_id, decision } => {
                granted =
                    lock(&running.offers).remove(call_id).filter(|_| *decision == Decision::AllowSession);
            }
            Command::Interrupt | Command::Prompt(_) | Command::Grant { .. } | Command::Forbid { .. } => {}
            _ => {
                let text =
                    "A subagent takes messages, decisions, rules and interrupts, nothing else.".to_owned();
                return self.core.say(NoticeLevel::Warning, text);
            }
        }
        if let Some(commands) = &running.commands {
            let _ = commands.try_send(command);
        }
        if let Some(rule) = granted {
            self.tools.grant(&rule, &self.core);
        }
    }

    /// Passes a front end's command on to a task of the background.
    pub(super) fn pass_to_task(&mut self, task: u64, command: Command) {
        let found = self.tools.subagents.in_background().find_map(|(call, running)| match running.place {
            Place::Background(number) if number == task => Some(call.clone()),
            _ => None,
        });
        let Some(call) = found else {
            return self.core.say(NoticeLevel::Warning, format!("No background task {task} is running."));
        };
        let done = if command == Command::Interrupt { "Stopping" } else { "Message sent to" };
        self.core.say(NoticeLevel::Info, format!("{done} background task {task}."));
        self.pass_to_subagent(&call, command);
    }

    /// Returns the reason if no further task can run in the background.
    pub(super) fn background_is_full(&self) -> Option<String> {
        if self.settings.prompt.answer.is_some() {
            return Some(
                "the answer of this run has a fixed form, so it waits for all of its work".to_owned(),
            );
        }
        let running = self.tools.subagents.in_background().count();
        (running >= MOST).then(|| format!("{running} subagents run there, the most there can be"))
    }

    /// Moves running commands and subagents to the background: those of one call, or of all.
    pub(super) fn move_to_background(&mut self, only: Option<&CallId>) {
        let calls: Vec<(CallId, String)> = match &self.flow.op {
            super::Op::Tools(batch) => batch.running_calls(),
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
        let text = match (moved, why) {
            (0, Some(why)) => format!("Nothing was moved to the background: {why}."),
            (0, None) => "Nothing that runs now can be moved to the background.".to_owned(),
            (1, _) => "Moved to the background. /tasks shows it.".to_owned(),
            (n, _) => format!("Moved {n} calls to the background. /tasks shows them."),
        };
        self.core.say(NoticeLevel::Info, text);
    }

    /// Moves a subagent to the background: its call gets a result now. Returns false if it is there already.
    pub(super) fn detach(&mut self, call: &CallId) -> bool {
        let number = self.next_task();
        let Some(running) = self.tools.subagents.running.get_mut(call) else { return false };
        if matches!(running.place, Place::Background(_)) {
            return false;
        }
        let place = std::mem::replace(&mut running.place, Place::Background(number));
        let text = format!(
            "Started in the background as task {number}. Go on with other work or end your turn; a message brings the result \
             when it is there. Do not wait for it with commands, and do not do its work yourself."
        );
        if let Place::Foreground(sender) = place {
            let details = json!({ "background": number, "session": running.about.session });
            // The call may have been given up in the meantime.
            let _ = sender.send(ToolOutput { details, ..ToolOutput::text(text) });
        }
        self.keep_task(call, number, "running");
        self.feed(Input::Background { running: true });
        true
    }

    /// Handles the end of a subagent.
    pub(super) fn subagent_ended(&mut self, Ended { call, output }: Ended) {
        let Some(output) = output else { return };
        let Some(running) = self.tools.subagents.running.get(&call) else { return };
        let number = match running.place {
            Place::Background(number) => number,
            Place::Foreground(_) => {
                if let Some(Running { place: Place::Foreground(sender), .. }) =
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
        self.keep_task(&call, number, state);
        let Some(running) = self.tools.subagents.running.remove(&call) else { return };
        let (name, about) = (&running.kind.name, &running.about);
        let text = format!(
            "<task-notification>\nThe background task {number} ({name}: {}) {}.\n\n{}\n</task-notification>",
            about.description,
            in_words(state),
            output.content.trim()
        );
        self.core.notice(
            NoticeLevel::Info,
            format!("Background task {number} ({name}: {}) {}.", about.description, in_words(state)),
        );
        self.core.flush(Durability::Buffered);
        self.tell_of_task(&call, text);
        if self.tools.subagents.in_background().next().is_none() {
            self.feed(Input::Background { running: false });
        }
    }

    /// Queues a message for the model about a task. It is delivered like a prompt.
    fn tell_of_task(&mut self, call: &CallId, text: String) {
        let mut message = becket_types::Message::synthetic(Synthetic::Reminder, text);
        message.metadata.extra = Map::from_iter([("task".to_owned(), json!(call))]);
        let id = self.inbox.put_note(message, format!("task-{call}"));
        self.feed(Input::Prompt { id, mode: DeliveryMode::Steer });
    }

    /// Ends all tasks of the background without a message to the model.
    pub(super) fn drop_background(&mut self) {
        let calls: Vec<CallId> = self.tools.subagents.in_background().map(|(call, _)| call.clone()).collect();
        for call in &calls {
            let Some(running) = self.tools.subagents.running.get(call) else { continue };
            let Place::Background(number) = running.place else { continue };
            self.keep_task(call, number, "stopped");
            if let Some(running) = self.tools.subagents.running.remove(call) {
                running.cancel.cancel();
                running.abort.abort();
            }
        }
        if !calls.is_empty() {
            self.feed(Input::Background { running: false });
        }
    }

    /// Ends the tasks of the background with an interrupt after the end of the input: nobody could stop them later.
    pub(super) fn interrupt_background(&mut self) {
        if self.flow.input_ended() {
            self.drop_background();
        }
    }

    fn tasks(&self) -> Vec<Value> {
        let state = lock(&self.core.session).view().state(STATE).cloned();
        let pending = self.core.pending.iter().rev().find_map(|entry| match entry {
            EntryKind::State { key, value } if key == STATE => Some(value.clone()),
            _ => None,
        });
        pending.or(state).and_then(|value| value.as_array().cloned()).unwrap_or_default()
    }

    fn next_task(&self) -> u64 {
        self.tasks().iter().filter_map(|task| task["id"].as_u64()).max().unwrap_or_default() + 1
    }

    /// Records the state of a task in the ledger.
    fn keep_task(&mut self, call: &CallId, number: u64, state: &str) {
        let Some(running) = self.tools.subagents.running.get(call) else { return };
        let task = background::task(call, running, number, state, super::wall_clock().0);
        let tasks = background::listed(self.tasks(), task);
        self.core.push(EntryKind::State { key: STATE.to_owned(), value: Value::Array(tasks) });
    }

    /// Tells the model of a resumed session which tasks ended with the earlier process.
    pub(super) fn tell_lost_tasks(&mut self) {
        let mut tasks = self.tasks();
        let lost = background::lost(&mut tasks);
        if lost.is_empty() {
            return;
        }
        self.core.push(EntryKind::State { key: STATE.to_owned(), value: Value::Array(tasks) });
        let text = format!(
            "These background tasks ended with the earlier process of this session, and their results are lost: {}. Look at \
             what they changed before you start them again.",
            lost.join(", ")
        );
        self.core.notice(NoticeLevel::Warning, text.clone());
        self.core.synthetic(Synthetic::Reminder, text, Map::new());
    }
}

/// Waits for a subagent in the foreground. An interrupt of the call interrupts it.
async fn waited(
    mut receiver: oneshot::Receiver<ToolOutput>,
    subagent: CancellationToken,
    call: CancellationToken,
) -> ToolOutput {
    let output = tokio::select! {
        biased;
        output = &mut receiver => output,
        () = call.cancelled() => {
            subagent.cancel();
            receiver.await
        }
    };
    output.unwrap_or_else(|_| ToolOutput::error("The subagent was given up."))
}

/// A subagent's run, from the view of its call.
struct Watched {
    task: Task,
    session: SessionId,
    env: ToolEnv,
    /// Weak, so that the subagent's commands end when no person is left to decide.
    commands: mpsc::WeakSender<Command>,
    events: mpsc::UnboundedSender<Event>,
    offers: Arc<Mutex<HashMap<CallId, String>>>,
}

/// Facts that are collected during the run.
#[derive(Default)]
struct Gathered {
    calls: Vec<(CallId, SubagentCall)>,
    left_out: u64,
    changes: Vec<FileChange>,
    result: Option<TurnResult>,
}

impl Watched {
    async fn run(self, agent: Agent, mut events: mpsc::UnboundedReceiver<Event>) -> ToolOutput {
        let mut gathered = Gathered::default();
        let mut run = std::pin::pin!(agent.run());
        let (mut running, mut told) = (true, false);
        loop {
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(event) => self.saw(event, &mut gathered),
                    None => break,
                },
                () = self.env.cancel.cancelled(), if !told => {
                    told = true;
                    if let Some(commands) = self.commands.upgrade() {
                        let _ = commands.try_send(Command::Interrupt);
                    }
                }
                _ = &mut run, if running => running = false,
            }
        }
        self.output(gathered)
    }

    fn saw(&self, event: Event, gathered: &mut Gathered) {
        match &event {
            Event::TextDelta { .. }
            | Event::ReasoningDelta { .. }
            | Event::ToolCallDelta { .. }
            | Event::ToolOutput { .. }
            | Event::ContextUsed { .. }
            | Event::SummaryPreparation { .. }
            | Event::Notice { level: NoticeLevel::Info, .. } => return,
            Event::PermissionAsked(request) => {
                if let Some(offer) = &request.offer {
                    lock(&self.offers).insert(request.call_id.clone(), offer.rule.clone());
                }
            }
            Event::ToolStarted { call_id, name, input } => gathered.call(call_id, name, subject(input)),
            Event::PermissionDenied(denial) => {
                gathered.call(&denial.call_id, &denial.tool, subject(&denial.input));
            }
            Event::ToolFinished { message, changes, .. } => {
                for part in &message.parts {
                    if let Part::ToolResult { call_id, name, is_error, interrupted, .. } = part {
                        gathered.ended(call_id, name, *is_error || *interrupted);
                    }
                }
                for change in changes {
                    // The last change of a path counts.
                    gathered.changes.retain(|known| known.path != change.path);
                    gathered.changes.push(change.clone());
                }
            }
            Event::TurnFinished(result) => gathered.result = Some((**result).clone()),
            _ => {}
        }
        let call_id = self.env.call_id.clone();
        let _ = self.events.send(Event::Subagent { call_id, what: Box::new(event) });
    }

    fn output(self, gathered: Gathered) -> ToolOutput {
        let Gathered { calls, left_out, changes, result } = gathered;
        let (text, why, interrupted) = match &result {
            Some(result) => {
                let (why, interrupted) = shortfall(result);
                (result.text.as_str(), why, interrupted)
            }
            None => ("", Some("it never began".to_owned()), false),
        };
        let content = match &why {
            None => text.to_owned(),
            Some(why) if is_blank(text) => format!("The subagent did not finish: {why}."),
            Some(why) => format!("The subagent did not finish: {why}.\nIts last words:\n{text}"),
        };
        let report = SubagentReport {
            agent: self.task.kind.name,
            description: self.task.description,
            session: self.session,
            steps: result.as_ref().map_or(0, |r| r.steps),
            calls: calls.into_iter().map(|(_, call)| call).collect(),
            calls_left_out: left_out,
            usage: result.as_ref().map(|r| r.usage).unwrap_or_default(),
            cost: result.as_ref().map(|r| r.cost).unwrap_or_default(),
            duration: result.as_ref().map(|r| r.duration).unwrap_or_default(),
        };
        let output = ToolOutput {
            content,
            is_error: why.is_some(),
            interrupted,
            details: json!({ SubagentReport::KEY: report }),
            changes,
            ..ToolOutput::default()
        };
        finish(output, Keep::HeadTail, &self.env)
    }
}

impl Gathered {
    fn call(&mut self, id: &CallId, name: &str, subject: &str) {
        let line = subject.lines().find(|line| !is_blank(line)).unwrap_or_default().trim();
        let subject = cut_end(line, MAX_SUBJECT).to_owned();
        self.calls.push((id.clone(), SubagentCall { name: name.to_owned(), subject, failed: false }));
        if self.calls.len() > MAX_CALLS {
            self.calls.remove(0);
            self.left_out += 1;
        }
    }

    fn ended(&mut self, id: &CallId, name: &str, failed: bool) {
        match self.calls.iter_mut().rev().find(|(known, _)| known == id) {
            Some((_, call)) => call.failed = failed,
            // The call was refused before it started.
            None if failed => {
                self.call(id, name, "");
                self.ended(id, name, true);
            }
            None => {}
        }
    }
}

/// Returns the reason if the turn ended without an answer, and true if it was interrupted.
fn shortfall(result: &TurnResult) -> (Option<String>, bool) {
    let why = match &result.end {
        TurnEnd::Completed if is_blank(&result.text) => "it ended without an answer".to_owned(),
        TurnEnd::Completed => return (None, false),
        TurnEnd::Interrupted => return (Some("it was interrupted".to_owned()), true),
        TurnEnd::MaxTurns { limit } => format!("it was stopped after {limit} requests"),
        TurnEnd::Budget { what } | TurnEnd::TokenLimit { what } => {
            format!("it was stopped at the budget: {what}")
        }
        TurnEnd::TimeLimit { what } => format!("it was stopped: {what}"),
        TurnEnd::Repetition { what } => format!("the model repeated itself: {what}"),
        TurnEnd::Refusal { reason } => format!("its model declined to answer: {reason}"),
        TurnEnd::ContextFull { breakdown } => format!("its context is full: {breakdown}"),
        TurnEnd::NoRoom { what }
        | TurnEnd::NoAnswer { what }
        | TurnEnd::CallsAsText { what }
        | TurnEnd::HookStopped { what } => what.clone(),
        TurnEnd::ModelError { message, .. } | TurnEnd::Failed { message } => message.clone(),
    };
    (Some(why.trim_end_matches('.').to_owned()), false)
}
