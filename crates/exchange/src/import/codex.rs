//! Import from Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-….jsonl`.
//!
//! Each line is one record: `{timestamp, type, payload}` with the types `session_meta`, `turn_context`,
//! `response_item`, `event_msg`, `compacted`. Older files have the items without this wrapper. The
//! conversation consists of the `response_item` records; `event_msg` repeats them for front ends.
//! Instructions and the environment, which the program writes as user messages, are not imported, because
//! becket has its own.

use super::{Conversation, arguments, data_url, millis, reasoning, text};
use becket_types::{CallId, Message, Millis, Part, Role};
use serde_json::{Value, json};
use std::collections::HashMap;

pub(super) fn read(file: &str) -> Conversation {
    let mut reader = Reader::default();
    for line in file.lines().filter(|l| !l.trim().is_empty()) {
        match text::record(line) {
            Some(record) => reader.record(&record),
            None => reader.out.leave_out("unreadable lines"),
        }
    }
    reader.out
}

#[derive(Default)]
struct Reader {
    out: Conversation,
    names: HashMap<String, String>,
}

impl Reader {
    fn record(&mut self, record: &Value) {
        let time = millis(&record["timestamp"]);
        let Some(payload) = record.get("payload") else {
            return self.bare(time, record);
        };
        match record["type"].as_str() {
            Some("session_meta") => self.meta(payload),
            Some("turn_context") => {
                if let Some(model) = payload["model"].as_str() {
                    self.out.model = Some(model.to_owned());
                }
            }
            Some("response_item") => self.item(time, payload),
            // These records repeat the conversation for front ends. Only content that no other record has is counted as left out.
            Some("event_msg") => {
                if payload["type"] == "turn_aborted" {
                    self.out.leave_out("marks of interrupted turns");
                }
            }
            Some("compacted") => self.out.leave_out("summaries of compactions (their originals are carried)"),
            other => self.out.leave_out(format!("records of kind {}", other.unwrap_or("unknown"))),
        }
    }

    /// Reads a record of the older format, an item without the wrapper.
    fn bare(&mut self, time: Millis, record: &Value) {
        if record["type"].is_string() {
            self.item(time, record);
        } else if record["record_type"].is_null() {
            self.meta(record);
        }
    }

    fn meta(&mut self, meta: &Value) {
        let text = |key: &str| meta[key].as_str().map(str::to_owned);
        // The first `session_meta` is the session's own. Further ones belong to sessions that it was forked from, so they do not replace
        // its facts.
        self.out.id = self.out.id.take().or_else(|| text("id"));
        self.out.cwd = self.out.cwd.take().or_else(|| text("cwd").map(Into::into));
        if meta["instructions"].is_string() || meta["base_instructions"].is_object() {
            self.out.leave_out("instructions of the program");
        }
    }

    fn item(&mut self, time: Millis, item: &Value) {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("message") => self.message(time, item),
            Some("reasoning") => self.thinking(time, item),
            Some("function_call") => {
                self.call(time, text("call_id"), text("name"), arguments(&item["arguments"]));
            }
            Some("custom_tool_call") => {
                self.call(time, text("call_id"), text("name"), arguments(&item["input"]));
            }
            Some("local_shell_call") => {
                let id = item["call_id"].as_str().or_else(|| item["id"].as_str()).unwrap_or_default();
                self.call(time, id, "local_shell", json!({ "command": item["action"]["command"] }));
            }
            Some("function_call_output" | "custom_tool_call_output") => self.output(time, item),
            // Internal to the program.
            Some(kind @ ("ghost_snapshot" | "compaction" | "compaction_summary")) => {
                self.out.leave_out(format!("items of kind {kind}"));
            }
            _ => {
                let note = self.out.note("items", item);
                self.answer(time, vec![note]);
            }
        }
    }

    fn message(&mut self, time: Millis, item: &Value) {
        let mut parts = Vec::new();
        for block in &self.out.blocks(&item["content"]) {
            match (block["text"].as_str(), block["image_url"].as_str()) {
                (Some(text), _) if is_boilerplate(text) => self.out.leave_out("instructions of the program"),
                (Some(text), _) if text.trim().is_empty() => {}
                (Some(text), _) => parts.push(Part::text(text)),
                (None, Some(url)) => match data_url(url) {
                    Some(part) => parts.push(part),
                    None => self.out.leave_out("images by address"),
                },
                (None, None) => parts.push(self.out.note("blocks", block)),
            }
        }
        match item["role"].as_str() {
            _ if parts.is_empty() => {}
            Some("user") => {
                let mut message = Message::user("");
                message.parts = parts;
                self.out.messages.push((time, message));
            }
            Some("assistant") => self.answer(time, parts),
            _ => self.out.leave_out("instructions of the program"),
        }
    }

    fn thinking(&mut self, time: Millis, item: &Value) {
        let texts = |key: &str| -> Vec<&str> {
            let blocks = item[key].as_array().map(Vec::as_slice).unwrap_or_default();
            blocks.iter().filter_map(|b| b["text"].as_str()).collect()
        };
        let text = [texts("summary"), texts("content")].concat().join("\n\n");
        if item["encrypted_content"].is_string() {
            self.out.leave_out("encrypted reasoning");
        }
        if !text.trim().is_empty() {
            let model = self.out.model.clone().unwrap_or_else(|| "unknown".to_owned());
            self.answer(time, vec![reasoning("openai", &model, &text, None)]);
        }
    }

    fn call(&mut self, time: Millis, id: &str, name: &str, input: Value) {
        self.names.insert(id.to_owned(), name.to_owned());
        self.answer(time, vec![Part::tool_call(id, name, input)]);
    }

    /// Adds parts to the current answer. An answer ends with a result or the user's next message.
    fn answer(&mut self, time: Millis, parts: Vec<Part>) {
        match self.out.messages.last_mut() {
            Some((_, last)) if last.role == Role::Assistant => last.parts.extend(parts),
            _ => self.out.messages.push((time, Message::assistant(parts))),
        }
    }

    fn output(&mut self, time: Millis, item: &Value) {
        let id = item["call_id"].as_str().unwrap_or_default();
        let name = self.names.get(id).cloned().unwrap_or_else(|| "unknown".to_owned());
        let output = &item["output"];
        let content = output.get("content").unwrap_or(output);
        let mut images = Vec::new();
        let text = match content {
            Value::String(text) => unwrapped(text),
            Value::Array(blocks) => {
                images.extend(blocks.iter().filter_map(|b| b["image_url"].as_str()).filter_map(data_url));
                blocks.iter().filter_map(|b| b["text"].as_str()).collect::<Vec<_>>().join("\n")
            }
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let mut message = Message::tool_result(CallId::from(id), name, text, output["success"] == false);
        message.parts.extend(images);
        self.out.messages.push((time, message));
    }
}

/// Unwraps a command's output in older files: `{"output": …, "metadata": {"exit_code": …}}`.
fn unwrapped(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) if map.contains_key("metadata") => {
            map.get("output").and_then(Value::as_str).unwrap_or(text).to_owned()
        }
        _ => text.to_owned(),
    }
}

fn is_boilerplate(text: &str) -> bool {
    let text = text.trim_start();
    [
        "<environment_context>",
        "<user_instructions>",
        "<permissions instructions>",
        "<turn_aborted>",
        "<INSTRUCTIONS>",
    ]
    .iter()
    .any(|tag| text.starts_with(tag))
        || text.starts_with("# AGENTS.md instructions")
}
