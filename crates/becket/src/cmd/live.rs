//! A stored session opened as an agent, so that subcommands change it by the same commands as a front end.
//!
//! Owns creating such an agent, sending it commands and ending it. The agent carries commands out, and the subcommand
//! prints. Calls no model, unless the caller built the agent with one.

use crate::cmd::{not_saved, open};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::no_model::NoModel;
use crate::recorded_settings::RecordedSettings;
use becket_agent::{
    Agent, AgentHandle, AgentParts, AgentSettings, Auxiliary, RequestSettings, SessionSettings, ToolSettings,
};
use becket_guard::{Guard, GuardSettings};
use becket_session::Session;
use becket_session::context::ModelScope;
use becket_session::store::{SessionSummary, canonical};
use becket_tool::{Registry, Tool, ToolEnv};
use becket_types::{
    Access, Command, CompactionPlan, ContextPlan, Event, NoticeLevel, Seq, ToolOutput, ToolSpec, UndoOutcome,
    UndoPlan,
};
use futures::future::BoxFuture;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, LocalSet};

/// The agent's answer to one command.
#[derive(Debug)]
pub(crate) enum Answer {
    UndoPlanned(Box<UndoPlan>),
    UndoDone(Box<UndoOutcome>),
    ContextPlanned(Box<ContextPlan>),
    ContextChanged,
    CompactionPlanned(Box<CompactionPlan>),
    Compacted,
    /// A compaction was undone, or redone.
    CompactionReverted(Seq),
    /// There is nothing to do, with the reason.
    Nothing(String),
}

/// A tool that is never called. Only its specification counts, for the size of the context.
struct RecordedTool(ToolSpec);

impl Tool for RecordedTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _: &Value, _: &ToolEnv) -> Result<Access, String> {
        Err("nothing runs here".to_owned())
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async { ToolOutput::error("nothing runs here") })
    }
}

/// An agent over a stored session, on this thread.
pub(crate) struct Live {
    runtime: Runtime,
    local: LocalSet,
    commands: mpsc::Sender<Command>,
    events: mpsc::UnboundedReceiver<Event>,
    agent: JoinHandle<Arc<Mutex<Session>>>,
    /// Warnings of the agent for the user.
    pub warnings: Vec<String>,
}

impl Live {
    /// Opens the session for writing. No model is called, so no key is needed, and an unreadable configuration does no
    /// harm.
    ///
    /// # Errors
    ///
    /// Returns a failure for the user if the session cannot be opened.
    pub(crate) fn open(environment: &Environment, summary: &SessionSummary) -> Result<Self, Failure> {
        Self::open_with(environment, summary, Vec::new())
    }

    /// Like [`Self::open`], with tools that are never called and only count for the size of the context.
    ///
    /// # Errors
    ///
    /// Fails like [`Self::open`].
    pub(crate) fn open_with(
        environment: &Environment,
        summary: &SessionSummary,
        specs: Vec<ToolSpec>,
    ) -> Result<Self, Failure> {
        let mut tools = Registry::new();
        for spec in specs {
            // An error is ignored: a specification that the registry refuses was not part of an earlier request either.
            let _ = tools.add(Arc::new(RecordedTool(spec)));
        }
        let mut session = open(environment, summary, ModelScope::no_model())?;
        let model = RecordedSettings::from_view(session.view()).model;
        let settings = crate::settings::readable(environment, &summary.cwd);
        let models = crate::models::session_model_settings(environment, settings, session.view());
        let info = crate::models::info(model.as_deref(), &models);
        session.view_mut().set_scope(becket_agent::scope(&info));
        let roots = vec![canonical(&session.info().cwd)];
        let snapshots = becket_snapshot::Settings {
            roots: roots.clone(),
            home: environment.home.clone(),
            exclude: vec![environment.data_dir.clone()],
            ..becket_snapshot::Settings::default()
        };
        let (agent, handle) = Agent::new(AgentParts {
            session,
            model: Arc::new(NoModel(info)),
            auxiliary: Auxiliary::default(),
            fallback_models: Vec::new(),
            cache: becket_session::context::cache::CachePolicy::default(),
            find_model: None,
            tools,
            guard: Guard::new(GuardSettings { roots: roots.clone(), ..GuardSettings::default() }),
            settings: AgentSettings {
                roots,
                session: SessionSettings { resumed: true, ..SessionSettings::default() },
                requests: RequestSettings { summaries: false, ..RequestSettings::default() },
                tools: ToolSettings { snapshots: Some(snapshots), ..ToolSettings::default() },
                ..AgentSettings::default()
            },
        });
        Ok(Self::run(crate::runtime()?, agent, handle))
    }

    /// Runs an agent that the caller built.
    pub(crate) fn run(runtime: Runtime, agent: Agent, handle: AgentHandle) -> Self {
        let local = LocalSet::new();
        let AgentHandle { commands, events, .. } = handle;
        let agent = {
            let _inside = runtime.enter();
            local.spawn_local(agent.run())
        };
        let mut live = Self { runtime, local, commands, events, agent, warnings: Vec::new() };
        // Events of the start do not answer any command.
        while let Some(event) = live.next() {
            if matches!(event, Event::SessionStarted { .. }) {
                break;
            }
        }
        while live.events.try_recv().is_ok() {}
        live
    }

    fn next(&mut self) -> Option<Event> {
        let Self { runtime, local, events, .. } = self;
        local.block_on(runtime, events.recv())
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Errors
    ///
    /// Returns a failure for the user if the agent refuses the command or ends.
    pub(crate) fn ask(&mut self, command: Command) -> Result<Answer, Failure> {
        let sent = self.local.block_on(&self.runtime, self.commands.send(command));
        sent.map_err(|_| Failure::error("the session ended before it got the command"))?;
        while let Some(event) = self.next() {
            match event {
                Event::UndoPlanned(plan) => return Ok(Answer::UndoPlanned(plan)),
                Event::UndoDone(outcome) => return Ok(Answer::UndoDone(outcome)),
                Event::ContextPlanned(plan) => return Ok(Answer::ContextPlanned(plan)),
                Event::ContextChanged { .. } => return Ok(Answer::ContextChanged),
                Event::CompactionPlanned(plan) => return Ok(Answer::CompactionPlanned(plan)),
                Event::CompactBoundary { .. } => return Ok(Answer::Compacted),
                Event::CompactionFailed { reason } | Event::NothingToDo { reason } => {
                    return Ok(Answer::Nothing(reason));
                }
                Event::CompactionReverted { entry, .. } => return Ok(Answer::CompactionReverted(entry)),
                Event::Notice { level: NoticeLevel::Error, text } => return Err(Failure::error(text)),
                Event::Notice { level: NoticeLevel::Warning, text } => self.warnings.push(text),
                // A notice of this level is about something else, so it answers no command.
                Event::Notice { level: NoticeLevel::Info, .. } => {}
                _ => {}
            }
        }
        Err(Failure::error("the session ended before the command was carried out"))
    }

    /// Ends the agent.
    ///
    /// # Errors
    ///
    /// Returns a failure for the user if its entries could not be saved.
    pub(crate) fn end(self) -> Result<(), Failure> {
        let Self { runtime, local, commands, agent, .. } = self;
        drop(commands);
        let session = local.block_on(&runtime, agent);
        let session = session.map_err(|e| Failure::error(format!("the session ended with an error: {e}")))?;
        let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
        if session.flush() { Ok(()) } else { Err(not_saved(&mut session)) }
    }
}
