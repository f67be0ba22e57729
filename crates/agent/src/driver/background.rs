//! The runs of subagents: in the foreground, where a call waits for the result, or in the background.
//!
//! Plain state, and the list of tasks as the session keeps it. The driver's task polls all runs, and [`super::subagent`]
//! decides what their ends mean. A run is dropped when its call is given up, and all runs are dropped with the agent.

use super::ledger::Core;
use super::wall_clock;
use crate::host::lock;
use crate::subagent::{Kind, Task};
use becket_types::{
    CallId, Command, EntryKind, Fork, NoticeLevel, Part, PermissionMode, SessionId, Synthetic, ToolOutput,
};
use futures::future::{AbortHandle, Abortable, BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Name of the session state: `[{id, call, agent, description, session, state}]`.
const STATE: &str = "background_tasks";
/// Maximum number of tasks that run in the background at the same time.
pub(super) const MAX_RUNNING: usize = 8;
/// Maximum number of ended tasks that the session state lists. The oldest are dropped.
const MOST_ENDED: usize = 32;

/// The agent's handle on a running subagent.
pub(super) struct Running {
    /// Channel for answers and messages to the subagent; `None` once no person or program is left to send them.
    pub(super) commands: Option<mpsc::Sender<Command>>,
    pub(super) kind: Kind,
    /// For each of the subagent's open questions, by call: the rule that "allow for the session" would add.
    pub(super) offers: Arc<Mutex<HashMap<CallId, String>>>,
    pub(super) cancel: CancellationToken,
    pub(super) about: SubagentInfo,
    pub(super) abort: AbortHandle,
    pub(super) mode: RunMode,
}

/// Facts about a subagent for people and for the model.
#[derive(Clone, Debug)]
pub(super) struct SubagentInfo {
    pub(super) description: String,
    pub(super) session: SessionId,
}

/// The relation of a run to its call.
pub(super) enum RunMode {
    /// A call waits for the output.
    Foreground(oneshot::Sender<ToolOutput>),
    /// No call waits. The number names the task for the user and the model.
    Background(u64),
}

/// A run that has ended.
pub(super) struct Ended {
    pub(super) call: CallId,
    /// `None`: the run was given up.
    pub(super) output: Option<ToolOutput>,
}

/// The running subagents, by the call that they work for.
#[derive(Default)]
pub(crate) struct Subagents {
    pub(super) running: HashMap<CallId, Running>,
    runs: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// The command of the user that a subagent works on in this turn.
    pub(super) forked: Option<ForkedCommand>,
}

impl Subagents {
    /// Returns the task that a subagent gets. If the call was made for a command of the user, the prompt is the whole text
    /// that the command expands to.
    pub(super) fn whole_task(&self, call: &CallId, task: Task) -> Task {
        match &self.forked {
            Some(forked) if forked.is_call(call) => forked.whole_task(task),
            _ => task,
        }
    }

    /// Waits for the end of a run, for ever if there is none.
    pub(super) async fn next(&mut self) -> Ended {
        match self.runs.next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// Adds a run.
    pub(super) fn add(
        &mut self,
        call: CallId,
        running: Running,
        run: Abortable<BoxFuture<'static, ToolOutput>>,
    ) {
        let id = call.clone();
        let run = AssertUnwindSafe(run).catch_unwind();
        let ended = async move {
            let output = match run.await {
                Ok(output) => output.ok(),
                Err(_) => Some(ToolOutput::error("The subagent stopped because of an internal error.")),
            };
            Ended { call: id, output }
        };
        self.runs.push(ended.boxed());
        self.running.insert(call, running);
    }

    pub(super) fn get(&self, call: &CallId) -> Option<&Running> {
        self.running.get(call)
    }

    /// Gives up a run in the foreground, because its call was given up.
    pub(super) fn give_up(&mut self, call: &CallId) {
        let waits = |running: &Running| matches!(running.mode, RunMode::Foreground(_));
        if self.running.get(call).is_some_and(waits)
            && let Some(running) = self.running.remove(call)
        {
            running.abort.abort();
        }
    }

    /// True if a call waits for a subagent.
    pub(super) fn any_in_foreground(&self) -> bool {
        self.running.values().any(|running| matches!(running.mode, RunMode::Foreground(_)))
    }

    pub(super) fn in_background(&self) -> impl Iterator<Item = (&CallId, &Running)> {
        self.running.iter().filter(|(_, running)| matches!(running.mode, RunMode::Background(_)))
    }

    /// Called when no person is left to ask. Closes the channels of commands to the subagents, so that they ask no more questions.
    pub(super) fn nobody_decides(&mut self) {
        for running in self.running.values_mut() {
            running.commands = None;
        }
    }

    /// Sends a command to all running subagents. A subagent whose queue is full does not get it.
    fn send(&self, command: impl Fn(&Running) -> Option<Command>) {
        for running in self.running.values() {
            if let (Some(commands), Some(command)) = (&running.commands, command(running)) {
                let _ = commands.try_send(command);
            }
        }
    }

    pub(super) fn set_mode(&self, mode: PermissionMode) {
        self.send(|running| {
            (!running.kind.read_only).then(|| Command::SetMode { mode: running.kind.mode(mode).to_string() })
        });
    }

    /// Records the state of a task in the ledger.
    pub(super) fn record(&self, call: &CallId, number: u64, state: &str, core: &mut Core) {
        let Some(running) = self.running.get(call) else { return };
        let task = task(call, running, number, state, wall_clock().0);
        let tasks = with_task(tasks(core), task);
        core.push(EntryKind::State { key: STATE.to_owned(), value: Value::Array(tasks) });
    }

    /// Describes the subagents of the background for hooks.
    pub(super) fn summaries(&self) -> Vec<Value> {
        let one = |(_, running): (&CallId, &Running)| {
            json!({
                "id": running.about.session, "type": "subagent", "status": "running",
                "description": running.about.description, "agent_type": running.kind.name,
            })
        };
        self.in_background().map(one).collect()
    }

    /// Passes a change of rules to the guards of running subagents.
    pub(super) fn pass_rules(&self, change: &Command) {
        self.send(|_| Some(change.clone()));
    }
}

/// Returns the list of tasks as the session keeps it, with pending entries.
fn tasks(core: &Core) -> Vec<Value> {
    let state = lock(&core.session).view().state(STATE).cloned();
    let pending = core.pending.iter().rev().find_map(|entry| match entry {
        EntryKind::State { key, value } if key == STATE => Some(value.clone()),
        _ => None,
    });
    pending.or(state).and_then(|value| value.as_array().cloned()).unwrap_or_default()
}

/// Returns the number of the next task.
pub(super) fn next_task(core: &Core) -> u64 {
    tasks(core).iter().filter_map(|task| task["id"].as_u64()).max().unwrap_or_default() + 1
}

/// Tells the model of a resumed session which tasks ended with the earlier process.
pub(super) fn tell_lost_tasks(core: &mut Core) {
    let mut tasks = tasks(core);
    let lost = mark_lost_tasks(&mut tasks);
    if lost.is_empty() {
        return;
    }
    core.push(EntryKind::State { key: STATE.to_owned(), value: Value::Array(tasks) });
    let text = format!(
        "These background tasks ended with the earlier process of this session, and their results are lost: {}. Look at \
         what they changed before you start them again.",
        lost.join(", ")
    );
    core.notice(NoticeLevel::Warning, text.clone());
    core.synthetic(Synthetic::Reminder, text, Map::new());
}

/// Adds the task to the list, in place of its earlier record. Of the ended tasks, the oldest above [`MOST_ENDED`] are
/// removed.
fn with_task(mut tasks: Vec<Value>, mut task: Value) -> Vec<Value> {
    if let Some(at) = tasks.iter().position(|known| known["id"] == task["id"]) {
        task["since"] = tasks.remove(at)["since"].clone();
    }
    tasks.push(task);
    let ended = tasks.iter().filter(|task| task["state"] != "running").count();
    let mut surplus = ended.saturating_sub(MOST_ENDED);
    tasks.retain(|task| {
        let goes = surplus > 0 && task["state"] != "running";
        surplus -= usize::from(goes);
        !goes
    });
    tasks
}

/// Returns one task as the session keeps it.
fn task(call: &CallId, running: &Running, number: u64, state: &str, now: u64) -> Value {
    json!({
        "id": number, "call": call, "agent": running.kind.name, "description": running.about.description,
        "session": running.about.session, "state": state, "since": now,
    })
}

/// Marks the tasks that a dead process left, and describes them.
fn mark_lost_tasks(tasks: &mut [Value]) -> Vec<String> {
    let text = |task: &Value, key: &str| task[key].as_str().unwrap_or_default().to_owned();
    let left = tasks.iter_mut().filter(|task| task["state"] == "running");
    left.map(|task| {
        task["state"] = json!("lost");
        let (agent, about, session) = (text(task, "agent"), text(task, "description"), text(task, "session"));
        format!("{} ({agent}: {about}; its session is {session})", task["id"])
    })
    .collect()
}

/// Describes the end of a task.
pub(super) fn end_text(state: &str) -> &'static str {
    match state {
        "completed" => "is done",
        "stopped" => "was stopped",
        _ => "failed",
    }
}

/// A command that a subagent works on in this turn.
#[derive(Debug)]
pub(super) struct ForkedCommand {
    /// The command as the user typed it.
    pub(super) typed: String,
    pub(super) fork: Fork,
    pub(super) images: Vec<Part>,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    /// True if the command came during a turn. After the subagent's end, the model continues that turn.
    pub(super) steered: bool,
    /// The call of `task`, once it was written.
    pub(super) call: Option<CallId>,
}

impl ForkedCommand {
    pub(super) fn is_call(&self, call: &CallId) -> bool {
        self.call.as_ref() == Some(call)
    }

    /// Returns the task with the whole prompt in place of the command.
    pub(super) fn whole_task(&self, mut task: Task) -> Task {
        task.prompt.clone_from(&self.fork.prompt);
        task.images.clone_from(&self.images);
        task.kind.model = self.model.clone().or(task.kind.model);
        task.kind.run.effort = self.effort.clone().or(task.kind.run.effort);
        task
    }

    pub(super) fn input(&self) -> Value {
        let mut input = json!({ "description": self.typed, "prompt": self.typed });
        if let Some(agent) = &self.fork.agent {
            input["agent"] = json!(agent);
        }
        input
    }
}
