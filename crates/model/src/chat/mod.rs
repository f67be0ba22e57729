//! OpenAI Chat Completions: `POST /v1/chat/completions`, and everything compatible (llama.cpp, Ollama, vLLM, LM Studio,
//! OpenRouter, DeepSeek, Kimi, GLM, Mistral, …).
//!
//! What only OpenAI's own host takes goes only there: `max_completion_tokens`, PDF parts.

mod decode;
mod encode;

use crate::adapter::{HttpModel, Protocol, system_texts};
use crate::assemble::AnswerOf;
use crate::http::{Transport, join};
use crate::ids::IdRule;
use crate::layout::AFTER_SYSTEM;
use crate::settings::{Credential, Settings};
use crate::shortcut::Shortcut;
use crate::stream::Decoder;
use crate::wire::put;
use crate::{ErrorKind, ModelError, ModelInfo, Request, ToolChoice};
use becket_types::WireLayout;
pub(crate) use decode::ChatDecoder;
pub(crate) use encode::ChatEncoder;
use serde_json::json;

const BASE_URL: &str = "https://api.openai.com/v1";

/// Whose dialect of the same API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    OpenAi,
    OpenRouter,
    Mistral,
    Compatible,
}

pub(crate) struct Chat {
    host: Host,
}

/// The model `openai/name`.
pub(crate) fn open(name: &str, settings: &Settings) -> Result<HttpModel<Chat>, ModelError> {
    let endpoint = &settings.openai;
    let url = join(endpoint.base_url.as_deref().unwrap_or(BASE_URL), "/chat/completions", true)?;
    let host = match url.host_str().unwrap_or_default() {
        h if h == "api.openai.com" || h.ends_with(".openai.com") || h.ends_with(".openai.azure.com") => {
            Host::OpenAi
        }
        h if h.ends_with("openrouter.ai") => Host::OpenRouter,
        h if h.ends_with("mistral.ai") => Host::Mistral,
        _ => Host::Compatible,
    };
    let mut headers = Vec::new();
    match &endpoint.credential {
        Some(Credential::ApiKey(key) | Credential::Bearer(key)) => {
            headers.push(("authorization", format!("Bearer {}", key.expose())));
        }
        None if host == Host::Compatible => {}
        None => {
            return Err(ModelError::new(ErrorKind::Auth, "There is no key for the OpenAI API.")
                .hint("Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that needs none."));
        }
    }
    let transport = Transport::new(url, "OPENAI_BASE_URL", endpoint, &headers, settings)?;
    Ok(HttpModel::new(("openai", name), Chat { host }, transport, settings))
}

impl Protocol for Chat {
    type Encoder = ChatEncoder;

    fn head(&self, request: &Request<'_>, info: &ModelInfo) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 * 1024);
        out.extend_from_slice(b"{\"model\":");
        put(&mut out, info.name.as_str());
        let limit = if self.host == Host::OpenAi { "max_completion_tokens" } else { "max_tokens" };
        out.extend_from_slice(
            format!(",\"{limit}\":{},\"stream\":true", request.max_output.max(1)).as_bytes(),
        );
        if self.host != Host::Mistral {
            // Mistral reports usage unasked and refuses fields it does not know.
            out.extend_from_slice(br#","stream_options":{"include_usage":true}"#);
        }
        if let Some(effort) = request.effort.and_then(effort)
            && info.reasoning
        {
            if self.host == Host::OpenRouter {
                out.extend_from_slice(format!(",\"reasoning\":{{\"effort\":\"{effort}\"}}").as_bytes());
            } else {
                out.extend_from_slice(format!(",\"reasoning_effort\":\"{effort}\"").as_bytes());
            }
        }
        head_rest(request, &mut out);
        out
    }

    fn tail(&self, request: &Request<'_>) -> &'static [u8] {
        tail(request)
    }

    fn decoder(&self, answer: AnswerOf) -> Box<dyn Decoder> {
        Box::new(Shortcut::new(ChatDecoder::new, answer))
    }

    fn ids(&self) -> IdRule {
        match self.host {
            Host::OpenAi => IdRule::Short,
            Host::Mistral => IdRule::Nine,
            Host::OpenRouter | Host::Compatible => IdRule::Any,
        }
    }

    fn official(&self) -> bool {
        self.host == Host::OpenAi
    }

    fn max_body(&self) -> Option<usize> {
        None
    }
}

/// Tools, the start of `messages`, and the system prompt as its first message.
pub(crate) fn head_rest(request: &Request<'_>, out: &mut Vec<u8>) {
    if !request.tools.is_empty() {
        let tools: Vec<_> = request
            .tools
            .iter()
            .map(|t| {
                let function =
                    json!({"name": t.name, "description": t.description, "parameters": t.input_schema});
                json!({"type": "function", "function": function})
            })
            .collect();
        out.extend_from_slice(b",\"tools\":");
        put(out, &tools);
    }
    out.extend_from_slice(b",\"messages\":[");
    let system = system_texts(request);
    if !system.is_empty() {
        let as_user = request.layout.unwrap_or_default() >= WireLayout::NoSystem;
        let role = if as_user { "user" } else { "system" };
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

fn effort(word: &str) -> Option<&'static str> {
    Some(match word {
        "off" | "none" => return None,
        "minimal" => "minimal",
        "low" => "low",
        "medium" => "medium",
        "xhigh" | "max" | "ultracode" => "xhigh",
        _ => "high",
    })
}
