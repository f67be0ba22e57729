//! Anthropic Messages: `POST /v1/messages`, and servers that speak it.
//!
//! Cache breakpoints have fixed places, so a longer conversation changes no bytes that were sent; only another lifetime of
//! the cache does. One is on the last system block (it covers the tools too), one on the last block of the first user
//! message. The third, for the end of the conversation, is a top-level field: the server places it. The summary of a
//! compaction is a user text block, so the system prompt stays as it is, and cached.

mod decode;
mod encode;

use crate::adapter::{HttpModel, Protocol, system_texts};
use crate::assemble::AnswerOf;
use crate::compat::Compat;
use crate::credential::Auth;
use crate::decoder::Decoder;
use crate::effort::{Family, claude_word, family};
use crate::layout::AFTER_SYSTEM;
use crate::place::Place;
use crate::schema::for_server;
use crate::settings::Settings;
use crate::shortcut::Shortcut;
use crate::threads::{self, Threads};
use crate::wire::put;
use crate::{ModelError, ModelInfo, Request, ToolChoice};
use becket_types::{CacheLifetime, WireLayout};
pub(crate) use decode::AnthropicDecoder;
use encode::AnthropicEncoder;
use serde_json::json;

/// The API's version, sent with every request.
const VERSION: &str = "2023-06-01";
/// Largest request in bytes that the Messages API takes.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// The mark for the end of a cached prefix, as the last field of a block.
pub(crate) fn mark(cache: CacheLifetime) -> &'static str {
    match cache {
        CacheLifetime::FiveMinutes => r#","cache_control":{"type":"ephemeral"}}"#,
        CacheLifetime::Hour => r#","cache_control":{"type":"ephemeral","ttl":"1h"}}"#,
    }
}

pub(crate) struct Anthropic {
    compat: Compat,
    /// True for Anthropic's own servers, whose limit on bytes is known.
    official: bool,
    /// True for Vertex, where the address names the model, and the body the version.
    vertex: bool,
    /// Set if the configuration asks for message threads.
    threads: Option<Threads>,
}

/// The model `name` of a provider that speaks this format.
pub(crate) fn open(
    place: &Place<'_>,
    name: &str,
    settings: &Settings,
) -> Result<HttpModel<Anthropic>, ModelError> {
    let vertex = place.endpoint.auth == Some(Auth::Google);
    let url = if vertex {
        place.url(&format!("/publishers/anthropic/models/{name}:streamRawPredict"), true)?
    } else {
        place.url("/messages", false)?
    };
    let official = url.host_str().is_some_and(|h| h == "anthropic.com" || h.ends_with(".anthropic.com"));
    let mut headers = vec![("anthropic-version", VERSION.to_owned())];
    let threaded = place.compat.message_threads;
    if threaded {
        headers.push((threads::BETA.0, threads::BETA.1.to_owned()));
    }
    let transport = place.transport(url, &headers, settings)?;
    let threads = threaded.then(Threads::default);
    let protocol = Anthropic { compat: place.compat.clone(), official, vertex, threads };
    Ok(HttpModel::new(place, name, protocol, transport, settings))
}

impl Protocol for Anthropic {
    type Encoder = AnthropicEncoder;

    fn head(&self, request: &Request<'_>, info: &ModelInfo) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 * 1024);
        if self.vertex {
            out.extend_from_slice(br#"{"anthropic_version":"vertex-2023-10-16""#);
        } else {
            out.extend_from_slice(b"{\"model\":");
            put(&mut out, info.name.as_str());
        }
        out.extend_from_slice(format!(",\"max_tokens\":{}", request.max_output.max(1)).as_bytes());
        out.extend_from_slice(b",\"stream\":true");
        if let Some(effort) = request.effort
            && info.reasoning
        {
            thinking(effort, &info.name, request.max_output, &mut out);
        }
        out.extend_from_slice(mark(request.cache).trim_end_matches('}').as_bytes());
        out.push(b'}');
        self.compat.put_body(&mut out);
        let blocks = system_texts(request);
        let as_user = request.layout.unwrap_or_default() >= WireLayout::NoSystem;
        if !blocks.is_empty() && !as_user {
            out.extend_from_slice(b",\"system\":[");
            for (i, text) in blocks.iter().enumerate() {
                out.extend_from_slice(if i == 0 {
                    b"{\"type\":\"text\",\"text\":"
                } else {
                    b",{\"type\":\"text\",\"text\":"
                });
                put(&mut out, *text);
                out.extend_from_slice(if i + 1 == blocks.len() {
                    mark(request.cache).as_bytes()
                } else {
                    b"}"
                });
            }
            out.push(b']');
        }
        if !request.tools.is_empty() {
            out.extend_from_slice(b",\"tools\":");
            let tools: Vec<_> = request
                .tools
                .iter()
                .map(|t| {
                    let schema = for_server(&t.input_schema, &self.compat);
                    json!({"name": t.name, "description": t.description, "input_schema": schema})
                })
                .collect();
            put(&mut out, &tools);
        }
        out.extend_from_slice(b",\"messages\":[");
        if !blocks.is_empty() && as_user {
            let text = |text: &str| json!([{"type": "text", "text": text}]);
            put(&mut out, &json!({"role": "user", "content": text(&blocks.join("\n\n"))}));
            if !request.context.messages.is_empty() {
                out.push(b',');
                put(&mut out, &json!({"role": "assistant", "content": text(AFTER_SYSTEM)}));
                out.push(b',');
            }
        }
        out
    }

    fn tail(&self, request: &Request<'_>) -> &'static [u8] {
        if request.tool_choice == ToolChoice::None && !request.tools.is_empty() {
            br#"],"tool_choice":{"type":"none"}}"#
        } else {
            b"]}"
        }
    }

    fn decoder(&self, answer: AnswerOf) -> Box<dyn Decoder> {
        Box::new(Shortcut::new(AnthropicDecoder::new, answer))
    }

    fn compat(&self) -> &Compat {
        &self.compat
    }

    fn max_body(&self) -> Option<usize> {
        self.official.then_some(MAX_BODY)
    }

    fn threads(&self) -> Option<&Threads> {
        self.threads.as_ref()
    }
}

/// Effort as the model's generation takes it: a word since Claude 4.6, a token budget before.
fn thinking(effort: &str, model: &str, max_output: u64, out: &mut Vec<u8>) {
    if matches!(effort, "off" | "none") {
        return;
    }
    // A model without a known name is probably a new one.
    let version = match family(model) {
        Family::Claude(major, minor) => (major, minor),
        _ => (u32::MAX, 0),
    };
    if version < (4, 6) {
        let wanted: u64 = match effort {
            "minimal" | "low" => 4_096,
            "medium" => 10_000,
            "high" => 24_000,
            _ => 48_000,
        };
        // The budget lies within the output limit and is at least 1,024, or thinking stays off.
        let budget = wanted.min(max_output.saturating_sub(1_024));
        if budget >= 1_024 {
            out.extend_from_slice(
                format!(",\"thinking\":{{\"type\":\"enabled\",\"budget_tokens\":{budget}}}").as_bytes(),
            );
        }
        return;
    }
    let Some(word) = claude_word(effort, version) else { return };
    let fields =
        format!(",\"thinking\":{{\"type\":\"adaptive\"}},\"output_config\":{{\"effort\":\"{word}\"}}");
    out.extend_from_slice(fields.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_by_generation() {
        for (effort, model, max, want) in [
            (
                "high",
                "claude-sonnet-5-5",
                8192,
                r#","thinking":{"type":"adaptive"},"output_config":{"effort":"high"}"#,
            ),
            (
                "xhigh",
                "claude-opus-4-6",
                8192,
                r#","thinking":{"type":"adaptive"},"output_config":{"effort":"high"}"#,
            ),
            (
                "xhigh",
                "claude-opus-4-7",
                8192,
                r#","thinking":{"type":"adaptive"},"output_config":{"effort":"xhigh"}"#,
            ),
            (
                "high",
                "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
                32_000,
                r#","thinking":{"type":"enabled","budget_tokens":24000}"#,
            ),
            (
                "high",
                "anthropic/claude-sonnet-4.5",
                32_000,
                r#","thinking":{"type":"enabled","budget_tokens":24000}"#,
            ),
            (
                "high",
                "claude-sonnet-4@20250514",
                32_000,
                r#","thinking":{"type":"enabled","budget_tokens":24000}"#,
            ),
            ("high", "claude-haiku-4-5", 32_000, r#","thinking":{"type":"enabled","budget_tokens":24000}"#),
            (
                "high",
                "claude-sonnet-4-20250514",
                8192,
                r#","thinking":{"type":"enabled","budget_tokens":7168}"#,
            ),
            ("low", "claude-haiku-4-5", 1500, ""),
            ("off", "claude-opus-5", 8192, ""),
        ] {
            let mut out = Vec::new();
            thinking(effort, model, max, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want, "{effort} {model}");
        }
    }
}
