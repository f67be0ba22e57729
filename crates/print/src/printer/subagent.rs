//! Lines of tasks: of commands in the background, and of subagents. `background_tasks_changed` has the whole list after each
//! change.
//!
//! Lines of subagents, with `parent_tool_use_id`: calls, results, notes and retries in the agent's own format, and a
//! line at the start and at the end of each subagent. Their text is left out unless it was requested, so that joining
//! the text of all `assistant` lines gives only the agent's text.

use super::background::{ShellTask, ShellTaskEnd, Task, now};
use super::{Format, Printer};
use crate::shapes;
use becket_types::{CallId, Event, Message, Part, TurnEnd, TurnResult};
use serde_json::{Value, json};
use std::io;
use std::time::Instant;

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
        self.add_background_task(
            json!({ "task_id": id, "task_type": "local_bash", "description": task.description }),
        )
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
        self.remove_background_task(&json!(id))
    }

    /// Records that a subagent now runs in the background.
    pub(super) fn moved_to_background(&mut self, call: &CallId) -> io::Result<()> {
        self.tasks.detached.insert(call.clone());
        let Some(task) = self.tasks.subagents.get(call) else { return Ok(()) };
        let (id, entry) = (json!(task.session), task.entry());
        self.task_updated_by(&id, json!({ "is_backgrounded": true }))?;
        self.add_background_task(entry)
    }

    /// True if the subagent of this call is in the background.
    pub(super) fn is_backgrounded(&self, call: &CallId) -> bool {
        self.tasks.detached.contains(call)
    }

    /// Writes the lines that must precede the notification about the end of a subagent. Removes and returns the subagent's task.
    pub(super) fn subagent_ends(&mut self, call: &CallId, status: &str) -> io::Result<Option<Task>> {
        let Some(task) = self.tasks.subagents.remove(call) else { return Ok(None) };
        self.task_updated_by(&json!(task.session), json!({ "status": status, "end_time": now() }))?;
        Ok(Some(task))
    }

    /// Removes a subagent that has ended from the list of background tasks.
    pub(super) fn subagent_gone(&mut self, call: &CallId, task: Option<&Task>) -> io::Result<()> {
        self.tasks.detached.remove(call);
        match task {
            Some(task) => self.remove_background_task(&json!(task.session)),
            None => Ok(()),
        }
    }

    /// Adds a task to the list of background tasks, and writes the list.
    pub(super) fn add_background_task(&mut self, entry: Value) -> io::Result<()> {
        self.tasks.listed.push(entry);
        self.background_changed()
    }

    fn remove_background_task(&mut self, id: &Value) -> io::Result<()> {
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

    pub(super) fn subagent_event(&mut self, call: &CallId, event: &Event) -> io::Result<()> {
        self.lines.parent = Some(call.clone());
        let written = self.nested_event(call, event);
        self.lines.parent = None;
        written
    }

    fn nested_event(&mut self, call: &CallId, event: &Event) -> io::Result<()> {
        self.note(event)?;
        if matches!(self.options.format, Format::Text | Format::Codex) {
            return Ok(());
        }
        if let (Event::AssistantMessage { usage, .. }, Some(task)) =
            (event, self.tasks.subagents.get_mut(call))
        {
            task.tokens += usage.total().0;
        }
        match event {
            Event::SessionStarted { session, title, model, .. } => {
                let input = self.calls.get(call).map(|(_, input)| input.clone()).unwrap_or_default();
                let body = json!({
                    "task_id": session, "description": title, "model": shapes::model(model),
                    "task_type": "local_agent", "prompt": input.get("prompt"),
                    "subagent_type": input.get("agent").or_else(|| input.get("subagent_type")),
                    "is_backgrounded": self.is_backgrounded(call),
                });
                let task = Task {
                    session: *session,
                    calls: 0,
                    tokens: 0,
                    began: Instant::now(),
                    description: title.clone().unwrap_or_default(),
                    kind: body["subagent_type"].clone(),
                };
                let entry = task.entry();
                self.tasks.subagents.insert(call.clone(), task);
                if let Some(mirror) = &mut self.mirror {
                    let facts = json!({ "agentType": body["subagent_type"], "description": title });
                    let line = mirror.begin_task(call.as_str(), &session.to_string(), facts);
                    self.output.emit(line)?;
                }
                self.task_line("task_started", call, body)?;
                if self.is_backgrounded(call) { self.add_background_task(entry) } else { Ok(()) }
            }
            Event::TurnFinished(result) => {
                let status = match result.end {
                    TurnEnd::Completed => "completed",
                    TurnEnd::Interrupted => "killed",
                    _ => "failed",
                };
                let task = self.subagent_ends(call, status)?;
                self.mirror.iter_mut().for_each(|mirror| mirror.end_task(call.as_str()));
                let body = self.task_end(task.as_ref(), result);
                self.task_line("task_notification", call, body)?;
                self.subagent_gone(call, task.as_ref())
            }
            Event::ToolStarted { name, .. } => {
                self.stream(event)?;
                let Some(task) = self.tasks.subagents.get_mut(call) else { return Ok(()) };
                task.calls += 1;
                let body = json!({
                    "task_id": task.session, "description": becket_types::sdk_names::sdk_name(name),
                    "last_tool_name": becket_types::sdk_names::sdk_name(name),
                    "usage": {
                        "total_tokens": task.tokens, "tool_uses": task.calls,
                        "duration_ms": task.began.elapsed().as_millis() as u64,
                    },
                });
                self.task_line("task_progress", call, body)
            }
            Event::UserMessage { message, .. } => {
                let line = self.lines.user(message);
                self.mirrored(&line)?;
                if self.options.subagent_text { self.output.emit(line) } else { Ok(()) }
            }
            Event::AssistantMessage { message, finish, usage, ttft, .. } if !self.options.subagent_text => {
                // Other lines leave the text of a subagent out, but a transcript needs it.
                if self.mirror.is_some() {
                    let whole = self.lines.assistant(message, finish, usage, *ttft);
                    self.mirrored(&whole)?;
                }
                let Some(message) = calls_of(message) else { return Ok(()) };
                self.remember_calls(&message);
                let line = self.lines.assistant(&message, finish, usage, *ttft);
                self.output.emit(line)
            }
            event => self.stream(event),
        }
    }

    fn task_line(&mut self, subtype: &str, call: &CallId, body: Value) -> io::Result<()> {
        let mut line = self.lines.system_line(subtype, body);
        line["tool_use_id"] = json!(call);
        line["parent_tool_use_id"] = json!(call);
        self.output.emit(line)
    }

    fn task_end(&self, task: Option<&Task>, result: &TurnResult) -> Value {
        let status = match result.end {
            TurnEnd::Completed => "completed",
            TurnEnd::Interrupted => "stopped",
            _ => "failed",
        };
        let whole = result.whole_usage();
        let mut usage = shapes::usage(&whole);
        usage["total_tokens"] = json!(whole.total());
        usage["tool_uses"] = json!(task.map_or(0, |task| task.calls));
        usage["duration_ms"] = json!(result.duration);
        let file = task.and_then(|task| self.lines.facts.ledger_of(task.session));
        json!({
            "task_id": task.map(|task| task.session), "output_file": file.unwrap_or_default(),
            "status": status,
            "summary": shapes::explain(&result.end).unwrap_or_else(|| result.text.to_string()),
            "num_turns": result.steps,
            "duration_ms": result.duration,
            "total_cost_usd": result.cost,
            "usage": usage,
        })
    }
}

/// Returns the message without its text; `None` if nothing else is in it.
fn calls_of(message: &Message) -> Option<Message> {
    let mut message = message.clone();
    message.parts.retain(|part| matches!(part, Part::ToolCall { .. }));
    (!message.parts.is_empty()).then_some(message)
}
