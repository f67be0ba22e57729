//! Runs subagents: a call of `task` is an agent of its own, which runs inside the call's future.
//!
//! Model: the subagent gets a session of its own that is linked to this one, all tools except `task`, a copy of the present
//! guard, and the remaining limits of this agent, which both share. Its events go to the front ends inside
//! [`Event::Subagent`], except streamed deltas and minor notes. A person's decisions for it arrive by
//! [`Command::ToSubagent`].
//!
//! Invariants:
//! - A subagent may do nothing that this agent may not. Its guard is a copy. A mode that is set here is set there too (a
//!   kind that only reads stays in `plan`). A rule that is allowed there for the session is allowed here too.
//! - It ends before its call does: it is interrupted with the call, and dropped when the call is given up.
//! - Its changes to files are recorded in this session, so that an undo of the turn reverts them.
//! - The result says how it ended. Every end except completion is an error.

use super::{Agent, Parentage};
use crate::host::lock;
use crate::settings::{AgentParts, AgentSettings, scope};
use crate::subagent::{TASK, Task, TaskTool};
use becket_guard::Guard;
use becket_model::Model;
use becket_tool::{Keep, ToolEnv, finish};
use becket_types::{
    CallId, Command, Decision, DeliveryMode, Event, FileChange, NoticeLevel, Part, PermissionMode,
    PromptInput, SessionId, SubagentCall, SubagentReport, ToolOutput, TurnEnd, TurnResult, cut_end, is_blank,
    subject,
};
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// Limit on the calls that a report lists.
const MAX_CALLS: usize = 200;
/// Limit on a call's subject in the report, in bytes.
const MAX_SUBJECT: usize = 200;

/// The agent's handle on a running subagent.
struct Running {
    commands: mpsc::Sender<Command>,
    follows_mode: bool,
    /// The rule that each of its open questions offers.
    offers: Arc<Mutex<HashMap<CallId, String>>>,
}

/// The running subagents, by the call that they work for.
#[derive(Default)]
pub(crate) struct Subagents(HashMap<CallId, Running>);

impl Subagents {
    pub(super) fn over(&mut self, call: &CallId) {
        self.0.remove(call);
    }

    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Called when no person is left to ask. Closes the subagents' commands, from which they learn it.
    pub(super) fn nobody_decides(&mut self) {
        self.0.clear();
    }

    pub(super) fn set_mode(&self, mode: PermissionMode) {
        for running in self.0.values().filter(|running| running.follows_mode) {
            // This fails for a subagent that has ended or whose queue is full; the latter keeps its present mode.
            let _ = running.commands.try_send(Command::SetMode { mode: mode.to_string() });
        }
    }

    /// Withdraws a rule from running subagents' copies of the guard. A subagent whose queue is full keeps the rule.
    pub(super) fn revoke(&self, rule: &str) {
        for running in self.0.values() {
            let _ = running.commands.try_send(Command::Revoke { rule: rule.to_owned() });
        }
    }
}

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
        let over = self.limits.over(self.turn.started.elapsed());
        if let Some(over) = over.as_ref().and_then(TurnEnd::limit) {
            return Err(format!("Not run: budget limit reached ({over})."));
        }
        let mut tools = self.tools.clone();
        tools.retain(|name| task.kind.has(name));
        if tools.is_empty() {
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
            find_model: None,
            tools,
            guard: self.subagent_guard(&task),
            settings: AgentSettings {
                hook_agent: Some((id.to_string(), task.kind.name.clone())),
                ..self.subagent_settings(&task)
            },
        };
        let parentage = Parentage {
            limits: self.limits.below(),
            files: self.files.as_ref().map(|files| Arc::new(files.for_subagent(&env.call_id))),
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
        let watched = Watched {
            task,
            session: id,
            env: env.clone(),
            commands: handle.commands.downgrade(),
            events: self.core.events.clone(),
            offers: Arc::default(),
        };
        let running = Running {
            commands: handle.commands,
            follows_mode: !watched.task.kind.read_only,
            offers: Arc::clone(&watched.offers),
        };
        self.subagents.0.insert(env.call_id.clone(), running);
        Ok((id, watched.run(agent, handle.events).boxed()))
    }

    /// The model that the subagent's kind names, or the one for subagents, or this agent's. If the named one is not available,
    /// this agent's model is used and the user gets a notice.
    fn subagent_model(&self, task: &Task) -> Arc<dyn Model> {
        let (Some(name), Some(find)) = (&task.kind.model, &self.find_model) else {
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
        let mut guard = self.guard.clone();
        if task.kind.read_only {
            guard.set_mode(PermissionMode::Plan);
        }
        guard
    }

    fn subagent_settings(&self, task: &Task) -> AgentSettings {
        let silent = task.kind.read_only && self.guard.mode() == PermissionMode::DontAsk;
        let mut settings = AgentSettings {
            // Its mode is `plan`, which asks in cases where this agent's mode denies.
            headless: self.settings.headless || silent,
            asks_host: self.settings.asks_host && !silent,
            resumed: false,
            snapshots: None,
            subagents: Arc::default(),
            states: Vec::new(),
            title: Some(task.description.clone()),
            ..self.settings.clone()
        };
        settings.prompt.answer = None;
        settings.prompt.append = Some(match settings.prompt.append.take() {
            Some(appended) => format!("{appended}\n\n{}", task.kind.instruction()),
            None => task.kind.instruction(),
        });
        settings
    }

    /// Passes a front end's command on to a subagent.
    pub(super) fn pass_to_subagent(&mut self, call: &CallId, command: Command) {
        let Some(running) = self.subagents.0.get(call) else { return };
        let mut granted = None;
        match &command {
            Command::Decide { call_id, decision } => {
                granted =
                    lock(&running.offers).remove(call_id).filter(|_| *decision == Decision::AllowSession);
            }
            Command::Interrupt | Command::Grant { .. } | Command::Forbid { .. } => {}
            _ => {
                let text = "A subagent takes decisions, rules and interrupts, nothing else.".to_owned();
                return self.core.say(NoticeLevel::Warning, text);
            }
        }
        let _ = running.commands.try_send(command);
        if let Some(rule) = granted {
            self.grant(&rule);
        }
    }
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
        TurnEnd::Repetition { what } => format!("it went round in circles: {what}"),
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
