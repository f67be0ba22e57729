//! OpenAI Responses: `POST /v1/responses`, and servers that speak it (Azure, Bedrock, llama.cpp, vLLM).
//!
//! Nothing is stored at the server: each request brings the full history, and reasoning comes back encrypted (`store: false`).
//! The items of `input` come last in the body, so a request is a byte prefix of the next one.

mod decode;
mod encode;

use crate::adapter::{HttpModel, Protocol, system_texts};
use crate::assemble::AnswerOf;
use crate::chat::cache_key;
use crate::compat::Compat;
use crate::decoder::Decoder;
use crate::effort::word;
use crate::layout::AFTER_SYSTEM;
use crate::place::Place;
use crate::schema::for_server;
use crate::settings::Settings;
use crate::wire::put;
use crate::{ModelError, ModelInfo, Request, ToolChoice};
use becket_types::WireLayout;
pub(crate) use decode::ResponsesDecoder;
use encode::{ResponsesEncoder, message_item};
use serde_json::json;

pub(crate) struct Responses {
    compat: Compat,
}

/// The model `name` of a provider that speaks this format.
pub(crate) fn open(
    place: &Place<'_>,
    name: &str,
    settings: &Settings,
) -> Result<HttpModel<Responses>, ModelError> {
    let transport = place.transport(place.url("/responses", true)?, &[], settings)?;
    Ok(HttpModel::new(place, name, Responses { compat: place.compat.clone() }, transport, settings))
}

impl Protocol for Responses {
    type Encoder = ResponsesEncoder;

    fn head(&self, request: &Request<'_>, info: &ModelInfo) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 * 1024);
        out.extend_from_slice(b"{\"model\":");
        put(&mut out, info.name.as_str());
        out.extend_from_slice(
            format!(",\"max_output_tokens\":{},\"stream\":true,\"store\":false", request.max_output.max(16))
                .as_bytes(),
        );
        if info.reasoning {
            // Without the encrypted reasoning, a model that called a tool would not know its own thoughts in the next step.
            out.extend_from_slice(br#","include":["reasoning.encrypted_content"]"#);
            if let Some(effort) = request.effort.and_then(|wanted| word(wanted, &info.name)) {
                let field = format!(",\"reasoning\":{{\"effort\":\"{effort}\",\"summary\":\"auto\"}}");
                out.extend_from_slice(field.as_bytes());
            }
        }
        if self.compat.prompt_cache_key {
            out.extend_from_slice(b",\"prompt_cache_key\":");
            put(&mut out, &cache_key(request));
        }
        self.compat.put_body(&mut out);
        let system = system_texts(request).join("\n\n");
        let as_user = request.layout.unwrap_or_default() >= WireLayout::NoSystem;
        if !system.is_empty() && !as_user {
            out.extend_from_slice(b",\"instructions\":");
            put(&mut out, &system);
        }
        if !request.tools.is_empty() || self.compat.tools.sends_empty {
            let tools: Vec<_> = request
                .tools
                .iter()
                .map(|t| {
                    // The API takes schemas as strict by default, but few tools have schemas that obey its rules for strict
                    // ones.
                    json!({"type": "function", "name": t.name, "description": t.description,
                        "parameters": for_server(&t.input_schema, &self.compat), "strict": false})
                })
                .collect();
            out.extend_from_slice(b",\"tools\":");
            put(&mut out, &tools);
        }
        out.extend_from_slice(b",\"input\":[");
        if !system.is_empty() && as_user {
            put(&mut out, &message_item("user", &[json!({"type": "input_text", "text": system})]));
            if !request.context.messages.is_empty() {
                out.push(b',');
                let done = [json!({"type": "output_text", "text": AFTER_SYSTEM})];
                put(&mut out, &message_item("assistant", &done));
                out.push(b',');
            }
        }
        out
    }

    fn tail(&self, request: &Request<'_>) -> &'static [u8] {
        if request.tool_choice == ToolChoice::None && !request.tools.is_empty() {
            br#"],"tool_choice":"none"}"#
        } else {
            b"]}"
        }
    }

    fn decoder(&self, answer: AnswerOf) -> Box<dyn Decoder> {
        Box::new(ResponsesDecoder::new(answer))
    }

    fn compat(&self) -> &Compat {
        &self.compat
    }

    fn max_body(&self) -> Option<usize> {
        None
    }
}
