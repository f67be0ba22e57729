//! Messages as `contents`: turns of `user` and `model`, each of parts.
//!
//! The results of a batch of calls are one turn directly after the calls, in the order of the calls; their images follow in the
//! next turn. A turn stays open in the cache until one of another sort follows, and is closed at send time.

use crate::adapter::Env;
use crate::content::media;
use crate::ids::wire_name;
use crate::layout::summary_text;
use crate::media::Media;
use crate::wire::{Encoder, put_list};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{ContextMessage, Origin, Part, Role, Synthetic, is_blank};
use serde_json::{Map, Value, json};

/// Keys in the extra fields of a call: the signature of the thought before it, and the model that signed it.
pub(super) const SIGNATURE: &str = "thought_signature";
pub(super) const SIGNER: &str = "thought_signer";
/// Google's own word in place of the signature, for a call that another model made.
const UNSIGNED: &str = "skip_thought_signature_validator";

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Open {
    #[default]
    None,
    User,
    Model,
    Results,
}

#[derive(Default)]
pub(crate) struct GeminiEncoder {
    started: bool,
    /// The turn to which more parts may be added.
    open: Open,
    /// Images of the run of results that is still open.
    images: Vec<Value>,
}

impl Encoder for GeminiEncoder {
    type Env<'a> = Env<'a>;

    fn message(&mut self, message: &ContextMessage, env: &Env<'_>, out: &mut Vec<u8>) {
        let message = &message.message;
        match message.role {
            Role::Tool => {
                let parts = self.results(&message.parts, env);
                self.write(Open::Results, &parts, out);
            }
            Role::Assistant => {
                let parts = model(&message.parts, env);
                if !parts.is_empty() {
                    self.flush_images(out);
                    self.write(Open::Model, &parts, out);
                }
            }
            Role::User | Role::System => {
                let parts = if message.origin == Origin::Synthetic(Synthetic::CompactionSummary) {
                    let text = message.text();
                    if is_blank(&text) { Vec::new() } else { vec![json!({"text": summary_text(&text)})] }
                } else {
                    user(&message.parts, env)
                };
                if !parts.is_empty() {
                    self.flush_images(out);
                    self.write(Open::User, &parts, out);
                }
            }
        }
    }

    fn close(&self, out: &mut Vec<u8>) {
        if self.open != Open::None {
            out.extend_from_slice(b"]}");
        }
        if !self.images.is_empty() {
            if self.started {
                out.push(b',');
            }
            out.extend_from_slice(b"{\"role\":\"user\",\"parts\":[");
            put_list(out, &self.images);
            out.extend_from_slice(b"]}");
        }
    }
}

impl GeminiEncoder {
    fn write(&mut self, turn: Open, parts: &[Value], out: &mut Vec<u8>) {
        if parts.is_empty() {
            return;
        }
        if self.open == turn {
            out.push(b',');
        } else {
            if self.open != Open::None {
                out.extend_from_slice(b"]}");
            }
            if std::mem::replace(&mut self.started, true) {
                out.push(b',');
            }
            let role = if turn == Open::Model { "model" } else { "user" };
            out.extend_from_slice(format!("{{\"role\":\"{role}\",\"parts\":[").as_bytes());
            self.open = turn;
        }
        put_list(out, parts);
    }

    fn flush_images(&mut self, out: &mut Vec<u8>) {
        if !self.images.is_empty() {
            let images = std::mem::take(&mut self.images);
            self.write(Open::User, &images, out);
        }
    }

    fn results(&mut self, parts: &[Part], env: &Env<'_>) -> Vec<Value> {
        let mut turn = Vec::new();
        let mut of = String::new();
        for part in parts {
            match part {
                Part::ToolResult { name, output, is_error, .. } => {
                    let name = wire_name(name);
                    of = format!(" of {name}");
                    let output = if is_blank(output) { "(no output)" } else { output };
                    let key = if *is_error { "error" } else { "output" };
                    let mut response = Map::new();
                    response.insert(key.to_owned(), Value::from(output));
                    turn.push(json!({"functionResponse": {"name": name, "response": response}}));
                }
                Part::Image { .. } => {
                    self.images.push(json!({"text": format!("[Image in the result{of}]")}));
                    self.images.extend(media_part(part, env));
                }
                _ => {}
            }
        }
        turn
    }
}

fn model(parts: &[Part], env: &Env<'_>) -> Vec<Value> {
    let mut turn = Vec::new();
    let signer = format!("{}/{}", env.info.provider, env.info.name);
    let mut first_call = true;
    for part in parts {
        match part {
            Part::Text { text, ignored: false, .. } if !is_blank(text) => turn.push(json!({"text": text})),
            // A signature that came without a call is sent back on an empty part, as it came.
            Part::Reasoning { signature: Some(signature), provider, model, .. }
                if *provider == env.info.provider && *model == env.info.name =>
            {
                turn.push(json!({"text": "", "thoughtSignature": signature}));
            }
            Part::ToolCall { call_id, name, input, extra, .. } => {
                env.seen.note(call_id);
                let args = if input.is_object() { input.clone() } else { json!({}) };
                let mut call = json!({"functionCall": {"name": wire_name(name), "args": args}});
                let own = extra.get(SIGNATURE).filter(|_| extra.get(SIGNER).is_some_and(|by| *by == signer));
                if let Some(signature) = own {
                    call["thoughtSignature"] = signature.clone();
                } else if first_call && env.info.name.contains("gemini-3") {
                    call["thoughtSignature"] = Value::from(UNSIGNED);
                }
                first_call = false;
                turn.push(call);
            }
            _ => {}
        }
    }
    // A turn of nothing but signatures is left out.
    if turn.iter().all(|part| part["text"] == "") { Vec::new() } else { turn }
}

fn user(parts: &[Part], env: &Env<'_>) -> Vec<Value> {
    let mut turn = Vec::new();
    for part in parts {
        match part {
            Part::Text { text, ignored: false, .. } if !is_blank(text) => turn.push(json!({"text": text})),
            Part::Image { .. } | Part::File { .. } => turn.extend(media_part(part, env)),
            _ => {}
        }
    }
    turn
}

fn media_part(part: &Part, env: &Env<'_>) -> Option<Value> {
    if let Part::File { media_type, blob, .. } = part
        && media_type == "application/pdf"
        && env.compat.messages.pdf
        && let Some(bytes) = env.blobs.get(blob)
        && bytes.starts_with(b"%PDF")
    {
        return Some(json!({"inlineData": {"mimeType": media_type, "data": STANDARD.encode(&bytes)}}));
    }
    Some(match media(part, env)? {
        Media::Image { media_type, base64 } => {
            json!({"inlineData": {"mimeType": media_type, "data": &*base64}})
        }
        Media::Url(url) => json!({"fileData": {"fileUri": url}}),
        Media::Document { url, .. } => json!({"fileData": {"fileUri": url, "mimeType": "application/pdf"}}),
        Media::Text(text) => json!({"text": text}),
    })
}
