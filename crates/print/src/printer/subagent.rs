//! Lines of subagents, under `parent_tool_use_id`: their calls and results, notes and retries as the agent's own, a
//! line when one begins and one when it ends. What they say is left out unless it is asked for, so that who joins the text
//! of all `assistant` lines gets the agent's words alone.

use super::{Format, Printer};
use crate::shapes;
use becket_types::{CallId, Event, Message, MessageId, Part, TurnEnd, TurnResult};
use serde_json::{Value, json};
use std::io;

impl Printer {
    pub(super) fn nested(&mut self, call: &CallId, event: &Event) -> io::Result<()> {
        self.parent = Some(call.clone());
        let written = self.nested_event(call, event);
        self.parent = None;
        written
    }

    fn nested_event(&mut self, call: &CallId, event: &Event) -> io::Result<()> {
        self.note(event)?;
        if self.options.format == Format::Text {
            return Ok(());
        }
        match event {
            Event::SessionStarted { session, title, model, .. } => {
                let body = json!({ "task_id": session, "description": title, "model": model });
                self.task_line("task_started", call, body)
            }
            Event::TurnFinished(result) => self.task_line("task_notification", call, task_end(result)),
            Event::UserMessage { message, .. } if self.options.subagent_text => {
                let line = self.user(message);
                self.emit(line)
            }
            Event::UserMessage { .. } => Ok(()),
            Event::AssistantMessage { message, finish, usage, cost, ttft, api_time }
                if !self.options.subagent_text =>
            {
                let Some(message) = calls_of(message) else { return Ok(()) };
                self.stream(&Event::AssistantMessage {
                    message,
                    finish: finish.clone(),
                    usage: *usage,
                    cost: *cost,
                    ttft: *ttft,
                    api_time: *api_time,
                })
            }
            event => self.stream(event),
        }
    }

    fn task_line(&mut self, subtype: &str, call: &CallId, body: Value) -> io::Result<()> {
        let mut line = json!({
            "type": "system", "subtype": subtype, "session_id": self.session, "uuid": MessageId::new(),
            "tool_use_id": call, "parent_tool_use_id": call,
        });
        if let (Value::Object(line), Value::Object(body)) = (&mut line, body) {
            line.extend(body);
        }
        self.emit(line)
    }
}

fn task_end(result: &TurnResult) -> Value {
    let status = match result.end {
        TurnEnd::Completed => "completed",
        TurnEnd::Interrupted => "stopped",
        _ => "failed",
    };
    json!({
        "status": status,
        "summary": shapes::explain(&result.end),
        "num_turns": result.steps,
        "duration_ms": result.duration,
        "total_cost_usd": result.cost,
        "usage": shapes::usage(&result.usage),
    })
}

/// The message without what is said in it; `None` when nothing else is there.
fn calls_of(message: &Message) -> Option<Message> {
    let mut message = message.clone();
    message.parts.retain(|part| matches!(part, Part::ToolCall { .. }));
    (!message.parts.is_empty()).then_some(message)
}
