//! Messages as Chat Completions takes them, in an order that the chat templates of model families accept.
//!
//! There is one system message, at the start (`head_rest` writes it). Everything else becomes user, assistant and tool
//! messages: the summary of a compaction is a block in a user message, messages of one role in a row are joined, results
//! follow their calls directly, and an assistant message separates results from a user message. Tool messages hold text
//! only, so the images of a run of results follow it in one user message.
//!
//! The last message stays open until another role follows, so a request is a byte prefix of the next one up to the content
//! of its last message. Content that was text becomes parts if an image is joined to it.

use crate::adapter::Env;
use crate::assemble::DETAILS;
use crate::compat::ReasoningField;
use crate::content::{ContentForm, media, pdf};
use crate::ids::{wire_id, wire_name};
use crate::layout::{AFTER_RESULTS, call_text, summary_text};
use crate::media::Media;
use crate::wire::{Encoder, put, put_str};
use becket_types::{ContextMessage, Origin, Part, Role, Synthetic, WireLayout, is_blank};
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
    /// True once a message is written, so a comma comes before the next.
    started: bool,
    /// True if the last written message is a tool result.
    after_result: bool,
    /// True if an assistant message is put between tool results and a user message.
    separates: bool,
    /// True if a call without text has an empty string as content instead of `null`.
    empty_content: bool,
    /// The field for a model's own reasoning, where it is not the usual one.
    reasoning_field: Option<String>,
    /// The message that may still grow.
    open: Open,
    /// Image parts of the run of tool results that is still open.
    images: Vec<Value>,
}

#[derive(Default)]
enum Open {
    #[default]
    None,
    /// Content parts.
    User(Vec<Value>),
    Assistant(Assistant),
}

#[derive(Default)]
struct Assistant {
    text: String,
    reasoning: String,
    /// OpenRouter's records of the reasoning.
    details: Vec<Value>,
    calls: Vec<Value>,
}

impl Encoder for ChatEncoder {
    type Env<'a> = Env<'a>;

    fn message(&mut self, message: &ContextMessage, env: &Env<'_>, out: &mut Vec<u8>) {
        // OpenAI's own server takes any order, and its models need no filler.
        self.separates = env.compat.messages.strict_order || !env.layout.is_standard();
        self.empty_content = !env.layout.is_standard() || !env.compat.messages.null_content;
        if let (None, ReasoningField::Named(field)) =
            (&self.reasoning_field, &env.compat.messages.reasoning_field)
        {
            self.reasoning_field = Some(field.clone());
        }
        let message = &message.message;
        match message.role {
            Role::Tool if env.layout == WireLayout::TextOnly => {
                self.user(CONTENT.of_results(&message.parts, env), out);
            }
            Role::Tool => self.results(&message.parts, env, out),
            Role::Assistant => self.assistant(assistant(&message.parts, env), out),
            Role::User | Role::System => {
                if message.origin == Origin::Synthetic(Synthetic::CompactionSummary) {
                    let text = message.text();
                    if !is_blank(&text) {
                        self.user(vec![json!({"type": "text", "text": summary_text(&text)})], out);
                    }
                } else {
                    self.user(CONTENT.of_user(&message.parts, env), out);
                }
            }
        }
    }

    fn close(&self, out: &mut Vec<u8>) {
        match &self.open {
            Open::None if self.images.is_empty() => {}
            Open::None => self.write_user(&self.images, out),
            Open::User(content) => self.write_user(content, out),
            Open::Assistant(turn) => self.write_assistant(turn, out),
        }
    }
}

impl ChatEncoder {
    fn user(&mut self, content: Vec<Value>, out: &mut Vec<u8>) {
        if content.is_empty() {
            return;
        }
        if !self.images.is_empty() {
            self.open = Open::User(std::mem::take(&mut self.images));
        }
        if let Open::User(parts) = &mut self.open {
            parts.extend(content);
        } else {
            self.flush(out);
            self.open = Open::User(content);
        }
    }

    fn assistant(&mut self, turn: Assistant, out: &mut Vec<u8>) {
        if turn.text.is_empty() && turn.calls.is_empty() {
            return;
        }
        if let Open::Assistant(open) = &mut self.open {
            open.join(turn);
        } else {
            self.flush(out);
            self.open = Open::Assistant(turn);
        }
    }

    fn results(&mut self, parts: &[Part], env: &Env<'_>, out: &mut Vec<u8>) {
        let mut id = None;
        for part in parts {
            match part {
                Part::ToolResult { call_id, output, .. } => {
                    id = Some(call_id);
                    let output = if is_blank(output) { "(no output)" } else { output };
                    let call_id = wire_id(call_id.as_str(), env.ids);
                    self.write_call(&call_id, env, out);
                    self.comma(out);
                    out.extend_from_slice(b"{\"role\":\"tool\",\"tool_call_id\":");
                    put_str(out, &call_id);
                    out.extend_from_slice(b",\"content\":");
                    put_str(out, output);
                    out.push(b'}');
                    self.started = true;
                    self.after_result = true;
                }
                Part::Image { .. } => {
                    let of = id.map_or(String::new(), |id| format!(" of {}", wire_id(id.as_str(), env.ids)));
                    self.images.push(json!({"type": "text", "text": format!("[Image in the result{of}]")}));
                    self.images.extend(media_part(part, env));
                }
                _ => {}
            }
        }
    }

    /// Writes the calls before the result of `id`: all of their message, or this one alone where a message may hold one.
    fn write_call(&mut self, id: &str, env: &Env<'_>, out: &mut Vec<u8>) {
        let single = env.layout >= WireLayout::SingleCalls;
        if let Open::Assistant(turn) = &mut self.open
            && single
            && turn.calls.len() > 1
            && let Some(at) = turn.calls.iter().position(|call| call["id"] == id)
        {
            let rest = Assistant { calls: turn.calls.split_off(at + 1), ..Assistant::default() };
            self.flush(out);
            self.open = Open::Assistant(rest);
        } else if !matches!(self.open, Open::None) {
            self.flush(out);
        }
    }

    /// Writes the open message, which grows no more. Images of results wait while a message is open before them.
    fn flush(&mut self, out: &mut Vec<u8>) {
        let before = out.len();
        self.close(out);
        if out.len() > before {
            self.started = true;
            self.after_result = false;
        }
        if matches!(std::mem::take(&mut self.open), Open::None) {
            self.images.clear();
        }
    }

    fn comma(&self, out: &mut Vec<u8>) {
        if self.started {
            out.push(b',');
        }
    }

    fn write_user(&self, content: &[Value], out: &mut Vec<u8>) {
        self.comma(out);
        if self.after_result && self.separates {
            out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":");
            put_str(out, AFTER_RESULTS);
            out.extend_from_slice(b"},");
        }
        out.extend_from_slice(b"{\"role\":\"user\",\"content\":");
        // A string where there is only text, as every server takes it; else parts.
        let texts: Option<Vec<&str>> = content.iter().map(|part| part["text"].as_str()).collect();
        match texts {
            Some(texts) => put_str(out, &texts.join("\n\n")),
            None => put(out, content),
        }
        out.push(b'}');
    }

    fn write_assistant(&self, turn: &Assistant, out: &mut Vec<u8>) {
        self.comma(out);
        out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":");
        if turn.text.is_empty() && !self.empty_content {
            out.extend_from_slice(b"null");
        } else {
            put_str(out, &turn.text);
        }
        if !turn.reasoning.is_empty() {
            out.push(b',');
            put_str(out, self.reasoning_field.as_deref().unwrap_or("reasoning_content"));
            out.push(b':');
            put_str(out, &turn.reasoning);
        }
        if !turn.details.is_empty() {
            out.extend_from_slice(b",\"reasoning_details\":");
            put(out, &turn.details);
        }
        if !turn.calls.is_empty() {
            out.extend_from_slice(b",\"tool_calls\":");
            put(out, &turn.calls);
        }
        out.push(b'}');
    }
}

impl Assistant {
    fn add_text(&mut self, text: &str, separator: &str) {
        if !self.text.is_empty() && !text.is_empty() {
            self.text.push_str(separator);
        }
        self.text.push_str(text);
    }

    fn join(&mut self, other: Self) {
        self.add_text(&other.text, "\n\n");
        self.reasoning.push_str(&other.reasoning);
        self.details.extend(other.details);
        self.calls.extend(other.calls);
    }
}

fn assistant(parts: &[Part], env: &Env<'_>) -> Assistant {
    let mut turn = Assistant::default();
    let name = env.info.name.to_lowercase();
    let echo = match env.compat.messages.reasoning_field {
        ReasoningField::ByModel => ECHO.iter().any(|known| name.contains(known)),
        ReasoningField::Named(_) => true,
        ReasoningField::None => false,
    };
    for part in parts {
        match part {
            Part::Text { text, ignored: false, .. } if !is_blank(text) => turn.add_text(text, "\n"),
            Part::Reasoning { redacted: Some(details), provider, model, extra, .. }
                if extra.contains_key(DETAILS)
                    && *provider == env.info.provider
                    && *model == env.info.name =>
            {
                turn.details.extend(serde_json::from_str::<Vec<Value>>(details).unwrap_or_default());
            }
            Part::Reasoning { text, provider, model, .. }
                if echo && *provider == env.info.provider && *model == env.info.name =>
            {
                turn.reasoning.push_str(text);
            }
            Part::ToolCall { call_id, name, input, .. } => {
                env.seen.note(call_id);
                if env.layout == WireLayout::TextOnly {
                    turn.add_text(&call_text(&wire_name(name), input), "\n\n");
                    continue;
                }
                let arguments = if input.is_object() { input.to_string() } else { "{}".to_owned() };
                turn.calls.push(json!({"id": wire_id(call_id.as_str(), env.ids), "type": "function",
                    "function": {"name": wire_name(name), "arguments": arguments}}));
            }
            _ => {}
        }
    }
    turn
}

const CONTENT: ContentForm = ContentForm { text: "text", media: media_part };

fn media_part(part: &Part, env: &Env<'_>) -> Option<Value> {
    if let Some((name, data)) = pdf(part, env) {
        return Some(json!({"type": "file", "file": {"filename": name, "file_data": data}}));
    }
    Some(match media(part, env)? {
        Media::Image { media_type, base64 } => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{base64}")}})
        }
        Media::Url(url) => json!({"type": "image_url", "image_url": {"url": url}}),
        // The format has no part for a document that the server fetches.
        Media::Document { url, .. } => json!({"type": "text", "text": format!("[Document: {url}]")}),
        Media::Text(text) => json!({"type": "text", "text": text}),
    })
}
