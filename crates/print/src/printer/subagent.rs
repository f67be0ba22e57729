//! Lines of subagents, with `parent_tool_use_id`: calls, results, notes and retries in the agent's own format, and a
//! line at the start and at the end of each subagent. Their text is left out unless it was requested, so that joining
//! the text of all `assistant` lines gives only the agent's text.

use super::{Format, Printer};
use crate::shapes;
use becket_types::{CallId, Event, Message, Part, SessionId, TurnEnd, TurnResult};
use serde_json::{Value, json};
use std::io;
use std::time::Instant;

/// A running subagent.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) session: SessionId,
    calls: u64,
    /// Tokens of all its requests so far.
    tokens: u64,
    began: Instant,
    description: String,
    kind: Value,
}

impl Task {
    /// Returns the entry of the list of background tasks.
    pub(super) fn entry(&self) -> Value {
        json!({
            "task_id": self.session, "task_type": "local_agent", "subagent_type": self.kind,
            "description": self.description,
        })
    }
}

impl Printer {
    pub(super) fn nested(&mut self, call: &CallId, event: &Event) -> io::Result<()> {
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
                if self.is_backgrounded(call) { self.listed(entry) } else { Ok(()) }
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
                // A transcript has the text, which the other lines leave out.
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
        let mut usage = shapes::usage(&result.usage);
        usage["total_tokens"] = json!(result.usage.total());
        usage["tool_uses"] = json!(task.map_or(0, |task| task.calls));
        usage["duration_ms"] = json!(result.duration);
        let file = task.and_then(|task| self.lines.facts.ledger_of(task.session));
        json!({
            "task_id": task.map(|task| task.session), "output_file": file.unwrap_or_default(),
            "status": status,
            "summary": shapes::explain(&result.end).unwrap_or_else(|| result.text.clone()),
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
