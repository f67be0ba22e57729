//! Messages as items of `input`.
//!
//! Text, calls, results and reasoning are items of their own, in the order in which they came. Results hold text alone: their
//! images follow the batch in one message, as all servers take it. Reasoning goes back only to the model that made it, and only
//! before something that it led to: the API refuses reasoning without what follows it.

use crate::adapter::Env;
use crate::content::{ContentForm, media, pdf};
use crate::ids::{wire_id, wire_name};
use crate::layout::{AFTER_RESULTS, call_text, summary_text};
use crate::media::Media;
use crate::wire::{Encoder, put};
use becket_types::{ContextMessage, Origin, Part, Role, Synthetic, WireLayout, is_blank};
use serde_json::{Value, json};

/// The key of a text's phase in the extra fields of its part.
pub(super) const PHASE: &str = "phase";

#[derive(Default)]
pub(crate) struct ResponsesEncoder {
    /// True once an item is written, so a comma comes before the next.
    started: bool,
    /// True if the last item is a result.
    after_result: bool,
    /// Images of the run of results that is still open.
    images: Vec<Value>,
}

pub(super) fn message_item(role: &str, content: &[Value]) -> Value {
    json!({"type": "message", "role": role, "content": content})
}

impl Encoder for ResponsesEncoder {
    type Env<'a> = Env<'a>;

    fn message(&mut self, message: &ContextMessage, env: &Env<'_>, out: &mut Vec<u8>) {
        let message = &message.message;
        match message.role {
            Role::Tool if env.layout == WireLayout::TextOnly => {
                let content = CONTENT.of_results(&message.parts, env);
                self.user(&content, env, out);
            }
            Role::Tool => self.results(&message.parts, env, out),
            Role::Assistant => {
                let items = assistant(&message.parts, env);
                if !items.is_empty() {
                    self.flush_images(out);
                    for item in &items {
                        self.item(item, out);
                    }
                }
            }
            Role::User | Role::System => {
                let content = if message.origin == Origin::Synthetic(Synthetic::CompactionSummary) {
                    let text = message.text();
                    if is_blank(&text) {
                        Vec::new()
                    } else {
                        vec![json!({"type": "input_text", "text": summary_text(&text)})]
                    }
                } else {
                    CONTENT.of_user(&message.parts, env)
                };
                self.user(&content, env, out);
            }
        }
    }

    fn close(&self, out: &mut Vec<u8>) {
        if !self.images.is_empty() {
            if self.started {
                out.push(b',');
            }
            put(out, &message_item("user", &self.images));
        }
    }
}

impl ResponsesEncoder {
    fn item(&mut self, item: &Value, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.started, true) {
            out.push(b',');
        }
        put(out, item);
        self.after_result = false;
    }

    fn flush_images(&mut self, out: &mut Vec<u8>) {
        if !self.images.is_empty() {
            let images = std::mem::take(&mut self.images);
            self.item(&message_item("user", &images), out);
        }
    }

    fn user(&mut self, content: &[Value], env: &Env<'_>, out: &mut Vec<u8>) {
        if content.is_empty() {
            return;
        }
        if self.after_result && self.images.is_empty() && !env.layout.is_standard() {
            let filler = json!({"type": "output_text", "text": AFTER_RESULTS});
            self.item(&message_item("assistant", &[filler]), out);
        }
        self.flush_images(out);
        self.item(&message_item("user", content), out);
    }

    fn results(&mut self, parts: &[Part], env: &Env<'_>, out: &mut Vec<u8>) {
        let mut of = String::new();
        for part in parts {
            match part {
                Part::ToolResult { call_id, output, .. } => {
                    let id = wire_id(call_id.as_str(), env.ids);
                    of = format!(" of {id}");
                    let output = if is_blank(output) { "(no output)" } else { output };
                    let item = json!({"type": "function_call_output", "call_id": id, "output": output});
                    self.item(&item, out);
                    self.after_result = true;
                }
                Part::Image { .. } => {
                    self.images
                        .push(json!({"type": "input_text", "text": format!("[Image in the result{of}]")}));
                    self.images.extend(media_part(part, env));
                }
                _ => {}
            }
        }
    }
}

fn assistant(parts: &[Part], env: &Env<'_>) -> Vec<Value> {
    let mut items = Vec::new();
    // Reasoning waits for the text or call that it led to.
    let mut thoughts = Vec::new();
    for part in parts {
        match part {
            Part::Text { text, ignored: false, extra, .. } if !is_blank(text) => {
                items.append(&mut thoughts);
                let mut item = message_item("assistant", &[json!({"type": "output_text", "text": text})]);
                // Servers that know no phases never sent one.
                if let Some(phase) = extra.get(PHASE) {
                    item[PHASE] = phase.clone();
                }
                items.push(item);
            }
            Part::Reasoning { text, signature: Some(encrypted), provider, model, .. }
                if *provider == env.info.provider && *model == env.info.name =>
            {
                let summary: Vec<Value> = if is_blank(text) {
                    Vec::new()
                } else {
                    vec![json!({"type": "summary_text", "text": text})]
                };
                thoughts
                    .push(json!({"type": "reasoning", "summary": summary, "encrypted_content": encrypted}));
            }
            Part::ToolCall { call_id, name, input, .. } => {
                env.seen.note(call_id);
                items.append(&mut thoughts);
                if env.layout == WireLayout::TextOnly {
                    let text = call_text(&wire_name(name), input);
                    items.push(message_item("assistant", &[json!({"type": "output_text", "text": text})]));
                    continue;
                }
                let arguments = if input.is_object() { input.to_string() } else { "{}".to_owned() };
                items.push(json!({"type": "function_call", "call_id": wire_id(call_id.as_str(), env.ids),
                    "name": wire_name(name), "arguments": arguments}));
            }
            _ => {}
        }
    }
    items
}

const CONTENT: ContentForm = ContentForm { text: "input_text", media: media_part };

fn media_part(part: &Part, env: &Env<'_>) -> Option<Value> {
    if let Some((name, data)) = pdf(part, env) {
        return Some(json!({"type": "input_file", "filename": name, "file_data": data}));
    }
    Some(match media(part, env)? {
        Media::Image { media_type, base64 } => {
            json!({"type": "input_image", "image_url": format!("data:{media_type};base64,{base64}")})
        }
        Media::Url(url) => json!({"type": "input_image", "image_url": url}),
        Media::Document { url, .. } => json!({"type": "input_file", "file_url": url}),
        Media::Text(text) => json!({"type": "input_text", "text": text}),
    })
}
