//! Messages as Anthropic takes them.
//!
//! Everything between two answers of the model is one user message: the results of a batch of calls directly after the
//! calls, then the other text. Roles alternate, which some gateways demand. The last message stays open in the cache
//! and is closed at send time, so that no byte ever depends on what comes later.
//!
//! Servers that put the same messages into a chat template of their own may need a stricter layout; Anthropic's never does.

use super::mark;
use crate::adapter::Env;
use crate::ids::{wire_id, wire_name};
use crate::layout::{AFTER_RESULTS, call_text, result_text, summary_text};
use crate::media::Media;
use crate::wire::{Encoder, put, put_str};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{
    CacheLifetime, CallId, ContextMessage, Origin, Part, Role, Synthetic, WireLayout, is_blank,
};
use serde_json::json;

#[derive(Default)]
pub(crate) struct AnthropicEncoder {
    /// True once a message is written, so a comma comes before the next.
    started: bool,
    /// The message to which more blocks may be added.
    open: Open,
    /// True if the last block is a tool result.
    after_result: bool,
    /// True once the first user message has its mark for the end of a cached prefix.
    marked: bool,
    /// Calls that are written later, each directly before its result. Used only for layouts with one call per assistant
    /// message.
    later: Vec<Call>,
}

type Call = (CallId, Vec<u8>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Open {
    #[default]
    None,
    User,
    Assistant,
}

impl Encoder for AnthropicEncoder {
    type Env<'a> = Env<'a>;

    fn message(&mut self, message: &ContextMessage, env: &Env<'_>, out: &mut Vec<u8>) {
        let message = &message.message;
        let mut blocks = Blocks::default();
        match message.role {
            Role::Assistant => {
                let mut calls = blocks.assistant(&message.parts, env);
                if env.layout >= WireLayout::SingleCalls && calls.len() > 1 {
                    self.later = calls.split_off(1);
                }
                blocks.0.extend(calls.into_iter().map(|(_, block)| block));
                return self.write(Open::Assistant, &blocks, None, out);
            }
            Role::Tool if env.layout == WireLayout::TextOnly => blocks.results_as_text(&message.parts, env),
            Role::Tool => {
                if let Some(Part::ToolResult { call_id, .. }) = message.parts.first()
                    && let Some(at) = self.later.iter().position(|(id, _)| id == call_id)
                {
                    let (_, block) = self.later.remove(at);
                    self.write(Open::Assistant, &Blocks(vec![block]), None, out);
                }
                blocks.results(&message.parts, env);
                self.write(Open::User, &blocks, None, out);
                self.after_result = true;
                return;
            }
            Role::User | Role::System => {
                if message.origin == Origin::Synthetic(Synthetic::CompactionSummary) {
                    let text = message.text();
                    if !is_blank(&text) {
                        blocks.text(&summary_text(&text));
                    }
                } else {
                    blocks.user(&message.parts, env);
                }
            }
        }
        if self.after_result && !blocks.0.is_empty() && separates(env) {
            let mut filler = Blocks::default();
            filler.text(AFTER_RESULTS);
            self.write(Open::Assistant, &filler, None, out);
        }
        self.write(Open::User, &blocks, (message.role != Role::Tool).then_some(env.cache), out);
    }

    fn close(&self, out: &mut Vec<u8>) {
        if self.open != Open::None {
            out.extend_from_slice(b"]}");
        }
    }
}

/// True if an assistant message separates tool results from a user's words. llama.cpp moves words before the results of the
/// same message; Claude takes both in one message, and with thinking it takes no filler.
fn separates(env: &Env<'_>) -> bool {
    let claude = env.info.name.to_lowercase().contains("claude");
    !env.layout.is_standard() || (env.compat.messages.strict_order && !claude)
}

impl AnthropicEncoder {
    /// Adds blocks to the open message of this role, or opens one. `may_mark`: the lifetime for the mark of a cached
    /// prefix, if these blocks may get it. Only the first such blocks do.
    fn write(&mut self, role: Open, blocks: &Blocks, may_mark: Option<CacheLifetime>, out: &mut Vec<u8>) {
        if blocks.0.is_empty() {
            return;
        }
        if self.open == role {
            out.push(b',');
        } else {
            self.close(out);
            self.open = role;
            if std::mem::replace(&mut self.started, true) {
                out.push(b',');
            }
            out.extend_from_slice(if role == Open::User {
                b"{\"role\":\"user\",\"content\":["
            } else {
                b"{\"role\":\"assistant\",\"content\":["
            });
        }
        self.after_result = false;
        let mark = may_mark.filter(|_| !self.marked);
        self.marked |= mark.is_some();
        blocks.write(mark, out);
    }
}

/// Content blocks, each a JSON object.
#[derive(Default)]
struct Blocks(Vec<Vec<u8>>);

impl Blocks {
    fn write(&self, mark_last: Option<CacheLifetime>, out: &mut Vec<u8>) {
        for (i, block) in self.0.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            if let Some(cache) = mark_last
                && i + 1 == self.0.len()
            {
                out.extend_from_slice(&block[..block.len() - 1]);
                out.extend_from_slice(mark(cache).as_bytes());
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
            Media::Document { url, name } => {
                let source = json!({"type": "url", "url": url});
                let title = name.as_deref().unwrap_or("document");
                self.json(&json!({"type": "document", "source": source, "title": title}));
            }
            Media::Text(text) => self.text(&text),
        }
    }

    fn user(&mut self, parts: &[Part], env: &Env<'_>) {
        for part in parts {
            match part {
                Part::Text { text, ignored: false, .. } => self.text(text),
                Part::Image { media_type, source, name, .. } if env.info.images => {
                    self.media(env.image(source, media_type, name.as_deref()));
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

    /// Adds the parts of an assistant message. Where a message may hold one call, gives the calls instead of adding them.
    fn assistant(&mut self, parts: &[Part], env: &Env<'_>) -> Vec<Call> {
        let mut calls = Vec::new();
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
                    if env.layout == WireLayout::TextOnly {
                        self.text(&call_text(&wire_name(name), input));
                        continue;
                    }
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
                    if env.layout >= WireLayout::SingleCalls {
                        calls.push((call_id.clone(), block));
                    } else {
                        // A thinking block between two calls keeps its place.
                        self.0.push(block);
                    }
                }
                _ => {}
            }
        }
        calls
    }

    /// Results as text, each with its images after it.
    fn results_as_text(&mut self, parts: &[Part], env: &Env<'_>) {
        for part in parts {
            match part {
                Part::ToolResult { name, output, .. } => {
                    let output = if is_blank(output) { "(no output)" } else { output };
                    self.text(&result_text(&wire_name(name), output));
                }
                Part::Image { .. } => self.user(std::slice::from_ref(part), env),
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
                images.write(None, &mut block);
                block.push(b']');
            }
            block.extend_from_slice(if *is_error { b",\"is_error\":true}" } else { b"}" });
            self.0.push(block);
        }
    }
}
