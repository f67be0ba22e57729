//! Messages as Converse takes them: turns of `user` and `assistant` that alternate, each of blocks.
//!
//! The results of a batch of calls are one turn directly after the calls. The next words of a user are a turn of their own, with an
//! assistant's words in between. The last turn stays open in the cache and is closed at send time, with the mark for the end
//! of the cached prefix where the model knows one.

use super::{MARK, marks_cache};
use crate::adapter::Env;
use crate::ids::{wire_id, wire_name};
use crate::layout::{AFTER_RESULTS, call_text, result_text, summary_text};
use crate::media::{Media, stub};
use crate::wire::{Encoder, put_list};
use becket_types::{ContextMessage, Origin, Part, Role, Synthetic, WireLayout, is_blank};
use serde_json::{Value, json};

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Open {
    #[default]
    None,
    User,
    Results,
    Assistant,
}

#[derive(Default)]
pub(crate) struct ConverseEncoder {
    /// True once a turn is written, so a comma comes before the next.
    started: bool,
    /// The turn to which more blocks may be added.
    open: Open,
    /// True if the model keeps a prefix whose end is marked.
    marks: bool,
}

impl Encoder for ConverseEncoder {
    type Env<'a> = Env<'a>;

    fn message(&mut self, message: &ContextMessage, env: &Env<'_>, out: &mut Vec<u8>) {
        let message = &message.message;
        self.marks = marks_cache(&env.info.name);
        match message.role {
            Role::Tool if env.layout == WireLayout::TextOnly => {
                self.write(Open::User, &results_as_text(&message.parts, env), out);
            }
            Role::Tool => self.write(Open::Results, &results(&message.parts, env), out),
            Role::Assistant => self.write(Open::Assistant, &assistant(&message.parts, env), out),
            Role::User | Role::System => {
                let blocks = if message.origin == Origin::Synthetic(Synthetic::CompactionSummary) {
                    let text = message.text();
                    if is_blank(&text) { Vec::new() } else { vec![json!({"text": summary_text(&text)})] }
                } else {
                    user(&message.parts, env)
                };
                if self.open == Open::Results && !blocks.is_empty() {
                    self.write(Open::Assistant, &[json!({"text": AFTER_RESULTS})], out);
                }
                self.write(Open::User, &blocks, out);
            }
        }
    }

    fn close(&self, out: &mut Vec<u8>) {
        if self.open == Open::User && self.marks {
            out.push(b',');
            out.extend_from_slice(MARK.as_bytes());
        }
        if self.open != Open::None {
            out.extend_from_slice(b"]}");
        }
    }
}

impl ConverseEncoder {
    fn write(&mut self, turn: Open, blocks: &[Value], out: &mut Vec<u8>) {
        if blocks.is_empty() {
            return;
        }
        if self.open == turn {
            out.push(b',');
        } else {
            if self.open != Open::None {
                out.extend_from_slice(b"]}");
            }
            self.open = turn;
            if std::mem::replace(&mut self.started, true) {
                out.push(b',');
            }
            let role = if turn == Open::Assistant { "assistant" } else { "user" };
            out.extend_from_slice(format!("{{\"role\":\"{role}\",\"content\":[").as_bytes());
        }
        put_list(out, blocks);
    }
}

fn user(parts: &[Part], env: &Env<'_>) -> Vec<Value> {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Text { text, ignored: false, .. } if !is_blank(text) => Some(json!({"text": text})),
            Part::Image { .. } | Part::File { .. } => Some(attachment(part, env)),
            _ => None,
        })
        .collect()
}

/// An image as a block, or the words that replace it and other files.
fn attachment(part: &Part, env: &Env<'_>) -> Value {
    let media = match part {
        Part::Image { media_type, source, name, .. } if env.info.images => {
            env.image(source, media_type, name.as_deref())
        }
        Part::Image { media_type, name, .. } => {
            stub(media_type, name.as_deref(), "this model reads no images")
        }
        Part::File { media_type, blob, name, .. } => match env.blobs.get(blob).map(String::from_utf8) {
            Some(Ok(text)) if media_type.starts_with("text/") => Media::Text(format!(
                "[Attached {media_type}: {}]\n{text}",
                name.as_deref().unwrap_or("unnamed")
            )),
            Some(_) => stub(media_type, name.as_deref(), "this model does not read such files"),
            None => stub(media_type, name.as_deref(), "its bytes are not in the store"),
        },
        _ => Media::Text(String::new()),
    };
    match media {
        Media::Image { media_type, base64 } => {
            let format = media_type.strip_prefix("image/").unwrap_or(media_type);
            json!({"image": {"format": format, "source": {"bytes": &*base64}}})
        }
        // The format has no part for an attachment that the server fetches.
        Media::Url(url) => json!({"text": format!("[Image: {url}]")}),
        Media::Document { url, .. } => json!({"text": format!("[Document: {url}]")}),
        Media::Text(text) => json!({"text": text}),
    }
}

fn assistant(parts: &[Part], env: &Env<'_>) -> Vec<Value> {
    let mut blocks = Vec::new();
    for part in parts {
        match part {
            Part::Text { text, ignored: false, .. } if !is_blank(text) => blocks.push(json!({"text": text})),
            Part::Reasoning { text, signature, redacted, provider, model, .. }
                if *provider == env.info.provider && *model == env.info.name =>
            {
                if let Some(data) = redacted {
                    blocks.push(json!({"reasoningContent": {"redactedContent": data}}));
                } else if let Some(signature) = signature {
                    let own = json!({"text": text, "signature": signature});
                    blocks.push(json!({"reasoningContent": {"reasoningText": own}}));
                }
            }
            Part::ToolCall { call_id, name, input, .. } => {
                env.seen.note(call_id);
                let name = wire_name(name);
                if env.layout == WireLayout::TextOnly {
                    blocks.push(json!({"text": call_text(&name, input)}));
                    continue;
                }
                let input = if input.is_object() { input.clone() } else { json!({}) };
                let id = wire_id(call_id.as_str(), env.ids);
                blocks.push(json!({"toolUse": {"toolUseId": id, "name": name, "input": input}}));
            }
            _ => {}
        }
    }
    blocks
}

fn results(parts: &[Part], env: &Env<'_>) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    for part in parts {
        match part {
            Part::ToolResult { call_id, output, is_error, .. } => {
                let output = if is_blank(output) { "(no output)" } else { output };
                let id = wire_id(call_id.as_str(), env.ids);
                let mut result = json!({"toolUseId": id, "content": [{"text": output}]});
                // Other models refuse the field.
                if *is_error && marks_cache(&env.info.name) {
                    result["status"] = json!("error");
                }
                blocks.push(json!({"toolResult": result}));
            }
            // An image belongs to the result before it.
            Part::Image { .. } => {
                let content = blocks.last_mut().and_then(|last| last["toolResult"]["content"].as_array_mut());
                if let Some(content) = content {
                    content.push(attachment(part, env));
                }
            }
            _ => {}
        }
    }
    blocks
}

/// Results as text, each with its images after it.
fn results_as_text(parts: &[Part], env: &Env<'_>) -> Vec<Value> {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::ToolResult { name, output, .. } => {
                let output = if is_blank(output) { "(no output)" } else { output };
                Some(json!({"text": result_text(&wire_name(name), output)}))
            }
            Part::Image { .. } => Some(attachment(part, env)),
            _ => None,
        })
        .collect()
}
