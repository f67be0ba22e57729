//! Tasks that outlive their call: commands and subagents in the background. Owns the lines about them: `task_started`,
//! `task_updated`, `task_notification`, and `background_tasks_changed` with the whole list after each change.
//!
//! The lines of a running subagent are made in `subagent`.

use super::subagent::Task;
use super::{Format, Printer};
use becket_types::CallId;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// The tasks that lines have named and that still run.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Tasks of running subagents, by the call that they work for.
    pub(super) subagents: HashMap<CallId, Task>,
    /// Calls whose subagents are in the background. The event may come before the subagent's first one.
    detached: HashSet<CallId>,
    /// The entries of `background_tasks_changed`.
    listed: Vec<Value>,
}

/// A command that runs in the background.
#[derive(Clone, Copy, Debug)]
pub struct ShellTask<'a> {
    /// The number of the job.
    pub id: u64,
    /// The call that started it.
    pub call: &'a CallId,
    pub description: &'a str,
}

/// The end of a command in the background.
#[derive(Clone, Debug)]
pub struct ShellTaskEnd {
    /// `completed`, `failed` or `killed`.
    pub status: &'static str,
    pub summary: String,
    /// The file with its output; empty if there is none.
    pub output_file: String,
}

impl Printer {
    /// Writes the lines about a command that runs in the background from now on.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn shell_task_started(&mut self, task: ShellTask<'_>) -> io::Result<()> {
        let id = task.id.to_string();
        let body = json!({
            "task_id": id, "tool_use_id": task.call, "description": task.description, "task_type": "local_bash",
            "is_backgrounded": true,
        });
        self.task_system_line("task_started", body)?;
        self.listed(json!({ "task_id": id, "task_type": "local_bash", "description": task.description }))
    }

    /// Writes the lines about the end of a command that ran in the background.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn shell_task_ended(&mut self, task: ShellTask<'_>, end: &ShellTaskEnd) -> io::Result<()> {
        let id = task.id.to_string();
        self.task_updated(&id, json!({ "status": end.status, "end_time": now() }))?;
        let status = if end.status == "killed" { "stopped" } else { end.status };
        let body = json!({
            "task_id": id, "tool_use_id": task.call, "status": status, "output_file": end.output_file,
            "summary": end.summary,
        });
        self.task_system_line("task_notification", body)?;
        self.unlisted(&json!(id))
    }

    /// Notes that a subagent is in the background.
    pub(super) fn moved_to_background(&mut self, call: &CallId) -> io::Result<()> {
        self.tasks.detached.insert(call.clone());
        let Some(task) = self.tasks.subagents.get(call) else { return Ok(()) };
        let (id, entry) = (json!(task.session), task.entry());
        self.task_updated_by(&id, json!({ "is_backgrounded": true }))?;
        self.listed(entry)
    }

    /// True if the subagent of this call is in the background.
    pub(super) fn is_backgrounded(&self, call: &CallId) -> bool {
        self.tasks.detached.contains(call)
    }

    /// Writes the lines that come before the notification about the end of a subagent, and forgets the subagent.
    pub(super) fn subagent_ends(&mut self, call: &CallId, status: &str) -> io::Result<Option<Task>> {
        let Some(task) = self.tasks.subagents.remove(call) else { return Ok(None) };
        self.task_updated_by(&json!(task.session), json!({ "status": status, "end_time": now() }))?;
        Ok(Some(task))
    }

    /// Takes a subagent that has ended from the list of the background.
    pub(super) fn subagent_gone(&mut self, call: &CallId, task: Option<&Task>) -> io::Result<()> {
        self.tasks.detached.remove(call);
        match task {
            Some(task) => self.unlisted(&json!(task.session)),
            None => Ok(()),
        }
    }

    /// Adds a task to the list of the background, and writes the list.
    pub(super) fn listed(&mut self, entry: Value) -> io::Result<()> {
        self.tasks.listed.push(entry);
        self.background_changed()
    }

    fn unlisted(&mut self, id: &Value) -> io::Result<()> {
        let before = self.tasks.listed.len();
        self.tasks.listed.retain(|entry| entry["task_id"] != *id);
        if self.tasks.listed.len() == before { Ok(()) } else { self.background_changed() }
    }

    fn background_changed(&mut self) -> io::Result<()> {
        let body = json!({ "tasks": self.tasks.listed });
        self.task_system_line("background_tasks_changed", body)
    }

    fn task_updated(&mut self, id: &str, patch: Value) -> io::Result<()> {
        self.task_updated_by(&json!(id), patch)
    }

    fn task_updated_by(&mut self, id: &Value, patch: Value) -> io::Result<()> {
        self.task_system_line("task_updated", json!({ "task_id": id, "patch": patch }))
    }

    fn task_system_line(&mut self, subtype: &str, body: Value) -> io::Result<()> {
        if matches!(self.options.format, Format::Text | Format::Codex) {
            return Ok(());
        }
        let line = self.lines.system_line(subtype, body);
        self.output.emit(line)
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
