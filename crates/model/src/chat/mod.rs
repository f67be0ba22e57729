//! OpenAI Chat Completions: `POST /v1/chat/completions`, and everything compatible (llama.cpp, Ollama, vLLM, LM Studio,
//! OpenRouter, DeepSeek, Kimi, GLM, Mistral, …).
//!
//! Differences between servers are data, not code: see [`crate::compat`].

mod decode;
mod encode;

use crate::adapter::{HttpModel, Protocol, system_texts};
use crate::assemble::AnswerOf;
use crate::compat::{Compat, Dial, OutputLimit, SystemRole};
use crate::decoder::Decoder;
use crate::effort::{gateway_word, word};
use crate::ids::{FNV_START, fnv};
use crate::layout::AFTER_SYSTEM;
use crate::place::Place;
use crate::schema::for_server;
use crate::settings::Settings;
use crate::shortcut::Shortcut;
use crate::wire::put;
use crate::{ModelError, ModelInfo, Request, ToolChoice};
use becket_types::WireLayout;
pub(crate) use decode::ChatDecoder;
pub(crate) use encode::ChatEncoder;
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

pub(crate) struct Chat {
    compat: Compat,
}

/// The model `name` of a provider that speaks this format.
pub(crate) fn open(
    place: &Place<'_>,
    name: &str,
    settings: &Settings,
) -> Result<HttpModel<Chat>, ModelError> {
    let transport = place.transport(place.url("/chat/completions", true)?, &[], settings)?;
    Ok(HttpModel::new(place, name, Chat { compat: place.compat.clone() }, transport, settings))
}

impl Protocol for Chat {
    type Encoder = ChatEncoder;

    fn head(&self, request: &Request<'_>, info: &ModelInfo) -> Vec<u8> {
        let compat = &self.compat;
        let mut out = Vec::with_capacity(16 * 1024);
        out.extend_from_slice(b"{\"model\":");
        put(&mut out, info.name.as_str());
        let limit = match compat.output_limit {
            OutputLimit::MaxTokens => Some("max_tokens"),
            OutputLimit::MaxCompletionTokens => Some("max_completion_tokens"),
            OutputLimit::None => None,
        };
        if let Some(limit) = limit {
            out.extend_from_slice(format!(",\"{limit}\":{}", request.max_output.max(1)).as_bytes());
        }
        out.extend_from_slice(b",\"stream\":true");
        if compat.stream_usage {
            out.extend_from_slice(br#","stream_options":{"include_usage":true}"#);
        }
        if let Some(wanted) = request.effort
            && info.reasoning
        {
            let off = matches!(wanted, "off" | "none");
            let field = match compat.effort {
                Dial::ReasoningEffort => {
                    word(wanted, &info.name).map(|level| format!(",\"reasoning_effort\":\"{level}\""))
                }
                Dial::Reasoning => {
                    gateway_word(wanted).map(|level| format!(",\"reasoning\":{{\"effort\":\"{level}\"}}"))
                }
                Dial::Thinking if off => Some(",\"thinking\":{\"type\":\"disabled\"}".to_owned()),
                Dial::Thinking => Some(",\"thinking\":{\"type\":\"enabled\"}".to_owned()),
                Dial::None => None,
            };
            out.extend_from_slice(field.unwrap_or_default().as_bytes());
        }
        if compat.prompt_cache_key {
            out.extend_from_slice(b",\"prompt_cache_key\":");
            put(&mut out, &cache_key(request));
        }
        compat.put_body(&mut out);
        head_rest(request, compat, &mut out);
        out
    }

    fn tail(&self, request: &Request<'_>) -> &'static [u8] {
        tail(request)
    }

    fn decoder(&self, answer: AnswerOf) -> Box<dyn Decoder> {
        Box::new(Shortcut::new(ChatDecoder::new, answer))
    }

    fn compat(&self) -> &Compat {
        &self.compat
    }

    fn max_body(&self) -> Option<usize> {
        None
    }
}

/// A tool as it is sent, without a copy of its schema.
#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

/// Tools, the start of `messages`, and the system prompt as its first message.
pub(crate) fn head_rest(request: &Request<'_>, compat: &Compat, out: &mut Vec<u8>) {
    if !request.tools.is_empty() || compat.tools.sends_empty {
        let tools: Vec<_> = request
            .tools
            .iter()
            .map(|t| Tool {
                kind: "function",
                function: Function {
                    name: &t.name,
                    description: &t.description,
                    parameters: for_server(&t.input_schema, compat),
                    strict: compat.tools.says_strict.then_some(false),
                },
            })
            .collect();
        out.extend_from_slice(b",\"tools\":");
        put(out, &tools);
    }
    out.extend_from_slice(b",\"messages\":[");
    let system = system_texts(request);
    if !system.is_empty() {
        let as_user = request.layout.unwrap_or_default() >= WireLayout::NoSystem
            || compat.messages.system_role == SystemRole::User;
        let role = match compat.messages.system_role {
            _ if as_user => "user",
            SystemRole::Developer => "developer",
            SystemRole::System | SystemRole::User => "system",
        };
        out.extend_from_slice(format!("{{\"role\":\"{role}\",\"content\":").as_bytes());
        put(out, &system.join("\n\n"));
        out.push(b'}');
        if !request.context.messages.is_empty() {
            out.push(b',');
            if as_user {
                put(out, &json!({"role": "assistant", "content": AFTER_SYSTEM}));
                out.push(b',');
            }
        }
    }
}

pub(crate) fn tail(request: &Request<'_>) -> &'static [u8] {
    if request.tool_choice == ToolChoice::None && !request.tools.is_empty() {
        br#"],"tool_choice":"none"}"#
    } else {
        b"]}"
    }
}

/// The key by which the provider sends requests of one conversation to the machine that has cached their prefix. It is a hash
/// of the system prompt, which those requests share.
pub(crate) fn cache_key(request: &Request<'_>) -> String {
    let hash = system_texts(request).iter().fold(FNV_START, |hash, text| fnv(hash, text.as_bytes()));
    format!("becket-{hash:016x}")
}
