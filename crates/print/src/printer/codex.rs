//! JSON lines as `codex exec --json` prints them: a thread, its turns, and the items that a turn consists of.
//!
//! Commands, edits, searches of the web, todo lists and tools of servers have items of their own. Every other tool of
//! becket is an item of a tool call, on a server named `becket`.

use super::output::Output;
use crate::shapes;
use becket_types::{
    CallId, Event, FileChange, FileChangeKind, Message, Part, TurnEnd, TurnResult, Usage, sdk_names,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;

/// The tool through which a model returns the value for a schema. Codex has no such tool, so its calls are no items.
const STRUCTURED: &str = "StructuredOutput";

/// Items of the current turn.
#[derive(Debug, Default)]
pub(super) struct Items {
    count: u64,
    /// Calls that were started: the id of the item, the tool and the input.
    open: HashMap<CallId, (String, String, Value)>,
    denied: Vec<CallId>,
    /// The item of the todo list: its id and content.
    todo: Option<(String, Value)>,
    /// Texts of the model after it passed the value for the schema. The value has to be the last message, so these texts are
    /// written only if the value is not used.
    after_value: Option<Vec<String>>,
}

impl Items {
    /// Writes the lines for an event.
    pub(super) fn event(&mut self, event: &Event, out: &mut Output) -> io::Result<()> {
        match event {
            Event::SessionStarted { session, .. } => {
                out.line(json!({ "type": "thread.started", "thread_id": session }))
            }
            Event::UserMessage { steered: false, message, .. } if message.visibility().user => {
                out.line(json!({ "type": "turn.started" }))
            }
            Event::AssistantMessage { message, .. } => self.said(message, out),
            Event::ToolStarted { call_id, name, input } => self.tool_started(call_id, name, input, out),
            Event::PermissionDenied(denial) => {
                self.denied.push(denial.call_id.clone());
                let known = (self.id(), denial.tool.clone(), denial.input.clone());
                self.open.insert(denial.call_id.clone(), known);
                Ok(())
            }
            Event::ToolFinished { message, changes, .. } => self.tool_finished(message, changes, out),
            _ => Ok(()),
        }
    }

    fn said(&mut self, message: &Message, out: &mut Output) -> io::Result<()> {
        for part in &message.parts {
            let (kind, text) = match part {
                Part::Text { text, .. } => ("agent_message", text),
                Part::Reasoning { text, .. } => ("reasoning", text),
                _ => continue,
            };
            if becket_types::is_blank(text) {
                continue;
            }
            if let (Some(held), "agent_message") = (&mut self.after_value, kind) {
                held.push(text.clone());
            } else {
                let id = self.id();
                item_line(out, "completed", json!({ "id": id, "type": kind, "text": text }))?;
            }
        }
        Ok(())
    }

    fn tool_started(&mut self, call: &CallId, name: &str, input: &Value, out: &mut Output) -> io::Result<()> {
        let tool = sdk_names::own_name(name).into_owned();
        // The value for the schema is the last message of the turn, and the item of the todo list is written when the result is
        // known. So neither is written here.
        if matches!(tool.as_str(), "todo" | STRUCTURED) {
            self.open.insert(call.clone(), (String::new(), tool, input.clone()));
            return Ok(());
        }
        let id = self.id();
        let item = item(&id, &tool, input, None);
        self.open.insert(call.clone(), (id, tool.clone(), input.clone()));
        if is_edit(&tool) { Ok(()) } else { item_line(out, "started", item) }
    }

    fn tool_finished(
        &mut self,
        message: &Message,
        changes: &[FileChange],
        out: &mut Output,
    ) -> io::Result<()> {
        let found = message.parts.iter().find_map(|part| match part {
            Part::ToolResult { call_id, name, output, is_error, details, .. } => {
                Some((call_id, name, output, *is_error, details))
            }
            _ => None,
        });
        let Some((call, name, output, failed, details)) = found else { return Ok(()) };
        let (id, tool, input) = match self.open.remove(call) {
            Some(known) => known,
            // The call was refused before it started.
            None => (self.id(), sdk_names::own_name(name).into_owned(), Value::Null),
        };
        match tool.as_str() {
            "todo" => return self.todo(&input, details, out),
            STRUCTURED => {
                if !failed {
                    self.after_value = Some(Vec::new());
                }
                return Ok(());
            }
            _ => {}
        }
        let status = match (failed, self.denied.contains(call)) {
            (_, true) => "declined",
            (true, false) => "failed",
            (false, false) => "completed",
        };
        let end = Ended { output, status, details, changes };
        item_line(out, "completed", item(&id, &tool, &input, Some(&end)))
    }

    fn todo(&mut self, input: &Value, details: &Value, out: &mut Output) -> io::Result<()> {
        let items = details.get("items").or_else(|| input.get("items")).cloned().unwrap_or_default();
        let items: Vec<Value> = items
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| json!({ "text": item["content"], "completed": item["status"] == "completed" }))
            .collect();
        let (kind, id) = match &self.todo {
            Some((id, _)) => ("updated", id.clone()),
            None => ("started", self.id()),
        };
        let item = json!({ "id": id, "type": "todo_list", "items": items });
        self.todo = Some((id, item.clone()));
        item_line(out, kind, item)
    }

    /// The end of a turn. `structured`: the value for the schema, which is the last message.
    pub(super) fn result(
        &mut self,
        result: &TurnResult,
        structured: Option<&Value>,
        why: Option<&str>,
        out: &mut Output,
    ) -> io::Result<()> {
        if let Some((_, item)) = self.todo.take() {
            item_line(out, "completed", item)?;
        }
        let held = self.after_value.take();
        for text in held.iter().flatten().filter(|_| structured.is_none()) {
            let id = self.id();
            item_line(out, "completed", json!({ "id": id, "type": "agent_message", "text": text }))?;
        }
        if let Some(value) = structured {
            let text = value.to_string();
            if held.is_some() || result.text.trim() != text {
                let id = self.id();
                item_line(out, "completed", json!({ "id": id, "type": "agent_message", "text": text }))?;
            }
        }
        self.open.clear();
        self.denied.clear();
        match why.map(str::to_owned).or_else(|| shapes::explain(&result.end)) {
            None => out.line(json!({ "type": "turn.completed", "usage": usage(&result.usage) })),
            Some(message) => {
                if !matches!(result.end, TurnEnd::Interrupted) {
                    out.line(json!({ "type": "error", "message": message }))?;
                }
                out.line(json!({ "type": "turn.failed", "error": { "message": message } }))
            }
        }
    }

    fn id(&mut self) -> String {
        let id = format!("item_{}", self.count);
        self.count += 1;
        id
    }
}

fn item_line(out: &mut Output, what: &str, item: Value) -> io::Result<()> {
    out.line(json!({ "type": format!("item.{what}"), "item": item }))
}

/// The end of a call.
struct Ended<'a> {
    output: &'a str,
    status: &'a str,
    details: &'a Value,
    changes: &'a [FileChange],
}

fn is_edit(tool: &str) -> bool {
    matches!(tool, "edit" | "multi_edit" | "write" | "apply_patch")
}

fn item(id: &str, tool: &str, input: &Value, end: Option<&Ended<'_>>) -> Value {
    let status = end.map_or("in_progress", |end| end.status);
    if tool == "bash" {
        return json!({
            "id": id, "type": "command_execution", "command": input["command"],
            "aggregated_output": end.map_or("", |end| sdk_names::printed(end.output, end.details)),
            "exit_code": end.and_then(|end| end.details.get("exit_code")), "status": status,
        });
    }
    if is_edit(tool) {
        let changes: Vec<Value> = end
            .iter()
            .flat_map(|end| end.changes)
            .map(|change| {
                let kind = match change.kind {
                    FileChangeKind::Add => "add",
                    FileChangeKind::Delete => "delete",
                    FileChangeKind::Update => "update",
                };
                json!({ "path": change.path.to_string_lossy(), "kind": kind })
            })
            .collect();
        // Items of this type can only be completed or failed, so a refused edit has failed.
        let status = if status == "completed" { "completed" } else { "failed" };
        return json!({ "id": id, "type": "file_change", "changes": changes, "status": status });
    }
    if tool == "web_search" {
        return json!({ "id": id, "type": "web_search", "query": input["query"] });
    }
    let (server, name) = match tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some(split) => split,
        None => ("becket", tool),
    };
    let failed = end.is_some_and(|end| end.status != "completed");
    let status = if status == "declined" { "failed" } else { status };
    json!({
        "id": id, "type": "mcp_tool_call", "server": server, "tool": name, "arguments": input,
        "result": end.filter(|_| !failed).map(|end| json!({
            "content": [{ "type": "text", "text": end.output }], "structured_content": null,
        })),
        "error": end.filter(|_| failed).map(|end| json!({ "message": end.output })), "status": status,
    })
}

/// Codex counts tokens from the cache as input too.
fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "cached_input_tokens": usage.cache_read, "cache_write_input_tokens": usage.cache_write,
        "output_tokens": usage.output, "reasoning_output_tokens": usage.reasoning,
    })
}
