//! Messages as Chat Completions takes them.
//!
//! Tool messages hold text only there, so the images of a run of results follow it in one user message. The summary of a
//! compaction is a system message at its place.

use crate::adapter::Env;
use crate::ids::{wire_id, wire_name};
use crate::media::{Media, stub};
use crate::wire::{Encoder, put, put_str};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{ContextMessage, Part, Role, is_blank};
use serde_json::{Value, json};

/// Models that want their own reasoning back beside their calls (the vendors' "interleaved" or "preserved" thinking).
const ECHO: &[&str] = &[
    "deepseek-v3.2",
    "deepseek-v4",
    "deepseek-reasoner",
    "kimi-k2",
    "kimi-k3",
    "glm-4.5",
    "glm-4.6",
    "glm-4.7",
    "glm-5",
    "minimax-m",
];

#[derive(Default)]
pub(crate) struct ChatEncoder {
    started: bool,
    /// Image parts of the run of tool results that is still open.
    images: Vec<Value>,
}

impl Encoder for ChatEncoder {
    type Env<'a> = Env<'a>;

    fn message(&mut self, message: &ContextMessage, env: &Env<'_>, out: &mut Vec<u8>) {
        let message = &message.message;
        if message.role != Role::Tool {
            self.close(out);
            self.images.clear();
        }
        match message.role {
            Role::Tool => self.results(&message.parts, env, out),
            Role::Assistant => self.assistant(&message.parts, env, out),
            Role::User => {
                if let Some(content) = user_content(&message.parts, env) {
                    self.simple("user", &content, out);
                }
            }
            Role::System => {
                let text = message.text();
                if !is_blank(&text) {
                    let role = if env.official { "developer" } else { "system" };
                    self.simple(role, &Value::String(text), out);
                }
            }
        }
    }

    fn close(&self, out: &mut Vec<u8>) {
        if !self.images.is_empty() {
            out.extend_from_slice(b",{\"role\":\"user\",\"content\":");
            put(out, &self.images);
            out.push(b'}');
        }
    }
}

impl ChatEncoder {
    fn comma(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.started, true) {
            out.push(b',');
        }
    }

    fn simple(&mut self, role: &str, content: &Value, out: &mut Vec<u8>) {
        self.comma(out);
        out.extend_from_slice(format!("{{\"role\":\"{role}\",\"content\":").as_bytes());
        put(out, content);
        out.push(b'}');
    }

    fn assistant(&mut self, parts: &[Part], env: &Env<'_>, out: &mut Vec<u8>) {
        let mut text = String::new();
        let mut reasoning = String::new();
        let mut calls = Vec::new();
        let name = env.info.name.to_lowercase();
        let echo = ECHO.iter().any(|known| name.contains(known));
        for part in parts {
            match part {
                Part::Text { text: more, ignored: false, .. } if !is_blank(more) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(more);
                }
                Part::Reasoning { text: more, provider, model, .. }
                    if echo && *provider == env.info.provider && *model == env.info.name =>
                {
                    reasoning.push_str(more);
                }
                Part::ToolCall { call_id, name, input, .. } => {
                    env.seen.note(call_id);
                    let arguments = if input.is_object() { input.to_string() } else { "{}".to_owned() };
                    calls.push(json!({"id": wire_id(call_id.as_str(), env.ids), "type": "function",
                        "function": {"name": wire_name(name), "arguments": arguments}}));
                }
                _ => {}
            }
        }
        if text.is_empty() && calls.is_empty() {
            return;
        }
        self.comma(out);
        out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":");
        if text.is_empty() {
            out.extend_from_slice(b"null");
        } else {
            put_str(out, &text);
        }
        if !reasoning.is_empty() {
            out.extend_from_slice(b",\"reasoning_content\":");
            put_str(out, &reasoning);
        }
        if !calls.is_empty() {
            out.extend_from_slice(b",\"tool_calls\":");
            put(out, &calls);
        }
        out.push(b'}');
    }

    fn results(&mut self, parts: &[Part], env: &Env<'_>, out: &mut Vec<u8>) {
        let mut id = None;
        for part in parts {
            match part {
                Part::ToolResult { call_id, output, .. } => {
                    id = Some(call_id);
                    let output = if is_blank(output) { "(no output)" } else { output };
                    self.comma(out);
                    out.extend_from_slice(b"{\"role\":\"tool\",\"tool_call_id\":");
                    put_str(out, &wire_id(call_id.as_str(), env.ids));
                    out.extend_from_slice(b",\"content\":");
                    put_str(out, output);
                    out.push(b'}');
                }
                Part::Image { .. } => {
                    let of = id.map_or(String::new(), |id| format!(" of {}", wire_id(id.as_str(), env.ids)));
                    self.images.push(json!({"type": "text", "text": format!("[Image in the result{of}]")}));
                    self.images.extend(media_parts(part, env));
                }
                _ => {}
            }
        }
    }
}

/// A string where there is only text, as every server takes it; else parts.
fn user_content(parts: &[Part], env: &Env<'_>) -> Option<Value> {
    let mut content = Vec::new();
    for part in parts {
        match part {
            Part::Text { text, ignored: false, .. } if !is_blank(text) => {
                content.push(json!({"type": "text", "text": text}));
            }
            Part::Image { .. } | Part::File { .. } => content.extend(media_parts(part, env)),
            _ => {}
        }
    }
    if content.is_empty() {
        return None;
    }
    if content.iter().all(|part| part["type"] == "text") {
        let texts: Vec<&str> = content.iter().filter_map(|part| part["text"].as_str()).collect();
        return Some(Value::String(texts.join("\n\n")));
    }
    Some(Value::Array(content))
}

fn media_parts(part: &Part, env: &Env<'_>) -> Option<Value> {
    let media = match part {
        Part::Image { media_type, source, name, .. } if env.info.images => {
            env.media.image(source, media_type, name.as_deref(), env.blobs)
        }
        Part::Image { media_type, name, .. } => {
            stub(media_type, name.as_deref(), "this model reads no images")
        }
        Part::File { media_type, blob, name, .. } => {
            let name = name.as_deref();
            match env.blobs.get(blob) {
                Some(bytes)
                    if media_type == "application/pdf" && env.official && bytes.starts_with(b"%PDF") =>
                {
                    let data = format!("data:{media_type};base64,{}", STANDARD.encode(&bytes));
                    let file = json!({"filename": name.unwrap_or("document.pdf"), "file_data": data});
                    return Some(json!({"type": "file", "file": file}));
                }
                Some(bytes) => match String::from_utf8(bytes) {
                    Ok(text) if media_type.starts_with("text/") => {
                        Media::Text(format!("[Attached {media_type}: {}]\n{text}", name.unwrap_or("unnamed")))
                    }
                    _ => stub(media_type, name, "this model does not read such files"),
                },
                None => stub(media_type, name, "its bytes are not in the store"),
            }
        }
        _ => return None,
    };
    Some(match media {
        Media::Image { media_type, base64 } => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{base64}")}})
        }
        Media::Url(url) => json!({"type": "image_url", "image_url": {"url": url}}),
        Media::Text(text) => json!({"type": "text", "text": text}),
    })
}
