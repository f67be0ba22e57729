//! Messages as Anthropic takes them.
//!
//! Everything between two answers of the model is one user message: the results of a batch of calls right behind the
//! calls, then what else was said. Roles alternate, which some gateways demand. The last user message stays open in the
//! cache and is closed at send time, so that no byte ever depends on what comes later.

use super::CACHE;
use crate::adapter::Env;
use crate::ids::{wire_id, wire_name};
use crate::media::Media;
use crate::wire::{Encoder, put, put_str};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{ContextMessage, Origin, Part, Role, Synthetic, is_blank};
use serde_json::json;

#[derive(Default)]
pub(crate) struct AnthropicEncoder {
    /// Something stands in the array, so a comma comes first.
    started: bool,
    /// The last message is the user's and open: more blocks may follow.
    user_open: bool,
    /// The stable breakpoint is set.
    marked: bool,
}

impl Encoder for AnthropicEncoder {
    type Env<'a> = Env<'a>;

    fn message(&mut self, message: &ContextMessage, env: &Env<'_>, out: &mut Vec<u8>) {
        let message = &message.message;
        let mut blocks = Blocks::default();
        match message.role {
            Role::Assistant => {
                blocks.assistant(&message.parts, env);
                return self.assistant(&blocks, out);
            }
            Role::Tool => blocks.results(&message.parts, env),
            Role::User | Role::System => {
                if message.origin == Origin::Synthetic(Synthetic::CompactionSummary) {
                    let text = message.text();
                    if !is_blank(&text) {
                        blocks.text(&format!("<context-summary>\n{text}\n</context-summary>"));
                    }
                } else {
                    blocks.user(&message.parts, env);
                }
            }
        }
        self.user(&blocks, message.role != Role::Tool, out);
    }

    fn close(&self, out: &mut Vec<u8>) {
        if self.user_open {
            out.extend_from_slice(b"]}");
        }
    }
}

impl AnthropicEncoder {
    fn comma(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.started, true) {
            out.push(b',');
        }
    }

    fn assistant(&mut self, blocks: &Blocks, out: &mut Vec<u8>) {
        if blocks.0.is_empty() {
            return;
        }
        self.close(out);
        self.user_open = false;
        self.comma(out);
        out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":[");
        blocks.write(false, out);
        out.extend_from_slice(b"]}");
    }

    /// `may_mark`: the stable breakpoint goes behind the first words of a user.
    fn user(&mut self, blocks: &Blocks, may_mark: bool, out: &mut Vec<u8>) {
        if blocks.0.is_empty() {
            return;
        }
        if self.user_open {
            out.push(b',');
        } else {
            self.comma(out);
            self.user_open = true;
            out.extend_from_slice(b"{\"role\":\"user\",\"content\":[");
        }
        let mark = may_mark && !self.marked;
        self.marked |= mark;
        blocks.write(mark, out);
    }
}

/// Content blocks, each a JSON object.
#[derive(Default)]
struct Blocks(Vec<Vec<u8>>);

impl Blocks {
    fn write(&self, mark_last: bool, out: &mut Vec<u8>) {
        for (i, block) in self.0.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            if mark_last && i + 1 == self.0.len() {
                out.extend_from_slice(&block[..block.len() - 1]);
                out.extend_from_slice(CACHE.as_bytes());
            } else {
                out.extend_from_slice(block);
            }
        }
    }

    fn text(&mut self, text: &str) {
        if is_blank(text) {
            return;
        }
        let mut block = b"{\"type\":\"text\",\"text\":".to_vec();
        put_str(&mut block, text);
        block.push(b'}');
        self.0.push(block);
    }

    fn json(&mut self, value: &serde_json::Value) {
        let mut block = Vec::new();
        put(&mut block, value);
        self.0.push(block);
    }

    fn media(&mut self, media: Media) {
        match media {
            Media::Image { media_type, base64 } => {
                let mut block = format!(
                    "{{\"type\":\"image\",\"source\":{{\"type\":\"base64\",\"media_type\":\"{media_type}\",\"data\":\""
                )
                .into_bytes();
                block.extend_from_slice(base64.as_bytes());
                block.extend_from_slice(b"\"}}");
                self.0.push(block);
            }
            Media::Url(url) => self.json(&json!({"type": "image", "source": {"type": "url", "url": url}})),
            Media::Text(text) => self.text(&text),
        }
    }

    fn user(&mut self, parts: &[Part], env: &Env<'_>) {
        for part in parts {
            match part {
                Part::Text { text, ignored: false, .. } => self.text(text),
                Part::Image { media_type, source, name, .. } if env.info.images => {
                    self.media(env.media.image(source, media_type, name.as_deref(), env.blobs));
                }
                Part::Image { media_type, name, .. } => {
                    self.media(crate::media::stub(media_type, name.as_deref(), "this model reads no images"));
                }
                Part::File { media_type, blob, name, .. } => {
                    self.file(media_type, blob, name.as_deref(), env);
                }
                _ => {}
            }
        }
    }

    fn file(&mut self, media_type: &str, blob: &becket_types::BlobId, name: Option<&str>, env: &Env<'_>) {
        let Some(bytes) = env.blobs.get(blob) else {
            return self.media(crate::media::stub(media_type, name, "its bytes are not in the store"));
        };
        if media_type == "application/pdf" && env.info.images && bytes.starts_with(b"%PDF") {
            let source = json!({"type": "base64", "media_type": media_type, "data": STANDARD.encode(&bytes)});
            return self
                .json(&json!({"type": "document", "source": source, "title": name.unwrap_or("document")}));
        }
        match String::from_utf8(bytes) {
            Ok(text) if media_type.starts_with("text/") => {
                self.text(&format!("[Attached {media_type}: {}]\n{text}", name.unwrap_or("unnamed")));
            }
            _ => self.media(crate::media::stub(media_type, name, "this model does not read such files")),
        }
    }

    fn assistant(&mut self, parts: &[Part], env: &Env<'_>) {
        for part in parts {
            match part {
                Part::Text { text, ignored: false, .. } => self.text(text),
                Part::Reasoning { text, signature, redacted, provider, model, .. }
                    if *provider == env.info.provider && *model == env.info.name =>
                {
                    if let Some(data) = redacted {
                        self.json(&json!({"type": "redacted_thinking", "data": data}));
                    } else if let Some(signature) = signature {
                        self.json(&json!({"type": "thinking", "thinking": text, "signature": signature}));
                    }
                }
                Part::ToolCall { call_id, name, input, .. } => {
                    env.seen.note(call_id);
                    let mut block = b"{\"type\":\"tool_use\",\"id\":".to_vec();
                    put_str(&mut block, &wire_id(call_id.as_str(), env.ids));
                    block.extend_from_slice(b",\"name\":");
                    put_str(&mut block, &wire_name(name));
                    block.extend_from_slice(b",\"input\":");
                    if input.is_object() {
                        put(&mut block, input);
                    } else {
                        block.extend_from_slice(b"{}");
                    }
                    block.push(b'}');
                    self.0.push(block);
                }
                _ => {}
            }
        }
    }

    /// A tool message: one result, and the images that belong into it.
    fn results(&mut self, parts: &[Part], env: &Env<'_>) {
        for (i, part) in parts.iter().enumerate() {
            let Part::ToolResult { call_id, output, is_error, .. } = part else { continue };
            let mut images = Blocks::default();
            let next = parts[i + 1..].iter().position(|p| matches!(p, Part::ToolResult { .. }));
            images.user(&parts[i + 1..next.map_or(parts.len(), |n| i + 1 + n)], env);
            let output = if is_blank(output) { "(no output)" } else { output };
            let mut block = b"{\"type\":\"tool_result\",\"tool_use_id\":".to_vec();
            put_str(&mut block, &wire_id(call_id.as_str(), env.ids));
            block.extend_from_slice(b",\"content\":");
            if images.0.is_empty() {
                put_str(&mut block, output);
            } else {
                block.extend_from_slice(b"[{\"type\":\"text\",\"text\":");
                put_str(&mut block, output);
                block.extend_from_slice(b"},");
                images.write(false, &mut block);
                block.push(b']');
            }
            block.extend_from_slice(if *is_error { b",\"is_error\":true}" } else { b"}" });
            self.0.push(block);
        }
    }
}
