//! Converse, the format of Amazon Bedrock for models that have none of their own: `POST …/model/NAME/converse-stream`.
//!
//! The answer is a stream of binary messages (see `frames`). Roles alternate, and most models take no results of tools and
//! words of a user in one turn. `messages` comes last, so a request is a byte prefix of the next one.

mod decode;
mod encode;

use crate::adapter::{HttpModel, Protocol, system_texts};
use crate::assemble::AnswerOf;
use crate::compat::Compat;
use crate::decoder::Decoder;
use crate::effort::{Family, family};
use crate::layout::AFTER_SYSTEM;
use crate::place::Place;
use crate::schema::for_server;
use crate::settings::Settings;
use crate::wire::{put, put_list};
use crate::{ModelError, ModelInfo, Request};
use becket_types::WireLayout;
pub(crate) use decode::ConverseDecoder;
use encode::ConverseEncoder;
use serde_json::{Value, json};
use std::fmt::Write as _;

pub(crate) struct Converse {
    compat: Compat,
}

/// The model `name` of a provider that speaks this format.
pub(crate) fn open(
    place: &Place<'_>,
    name: &str,
    settings: &Settings,
) -> Result<HttpModel<Converse>, ModelError> {
    let url = place.url(&format!("/{}/converse-stream", segment(name)), true)?;
    let transport = place.transport(url, &[], settings)?;
    Ok(HttpModel::new(place, name, Converse { compat: place.compat.clone() }, transport, settings))
}

/// The name as one segment of a path: an inference profile is named by an ARN, which has colons and slashes.
fn segment(name: &str) -> String {
    name.bytes().fold(String::with_capacity(name.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// True for the models that keep a prefix where the request marks its end. The others refuse the mark.
fn marks_cache(name: &str) -> bool {
    name.contains("amazon.nova") || name.contains("anthropic.")
}

/// The mark for the end of a cached prefix, as a block of its own.
const MARK: &str = r#"{"cachePoint":{"type":"default"}}"#;

impl Protocol for Converse {
    type Encoder = ConverseEncoder;

    fn head(&self, request: &Request<'_>, info: &ModelInfo) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 * 1024);
        out.extend_from_slice(b"{\"inferenceConfig\":");
        put(&mut out, &json!({"maxTokens": request.max_output.max(1)}));
        if let Some(fields) = request.effort.and_then(|effort| thinking(effort, &info.name)) {
            out.extend_from_slice(b",\"additionalModelRequestFields\":");
            put(&mut out, &fields);
        }
        self.compat.put_body(&mut out);
        let texts = system_texts(request);
        let as_user = request.layout.unwrap_or_default() >= WireLayout::NoSystem;
        if !texts.is_empty() && !as_user {
            let blocks: Vec<Value> = texts.iter().map(|text| json!({"text": text})).collect();
            out.extend_from_slice(b",\"system\":[");
            put_list(&mut out, &blocks);
            if marks_cache(&info.name) {
                out.push(b',');
                out.extend_from_slice(MARK.as_bytes());
            }
            out.push(b']');
        }
        if !request.tools.is_empty() {
            let tools: Vec<Value> = request
                .tools
                .iter()
                .map(|t| {
                    let schema = for_server(&t.input_schema, &self.compat);
                    json!({"toolSpec": {"name": t.name, "description": t.description, "inputSchema": {"json": schema}}})
                })
                .collect();
            out.extend_from_slice(b",\"toolConfig\":");
            put(&mut out, &json!({"tools": tools}));
        }
        out.extend_from_slice(b",\"messages\":[");
        if !texts.is_empty() && as_user {
            put(&mut out, &json!({"role": "user", "content": [{"text": texts.join("\n\n")}]}));
            if !request.context.messages.is_empty() {
                out.push(b',');
                put(&mut out, &json!({"role": "assistant", "content": [{"text": AFTER_SYSTEM}]}));
                out.push(b',');
            }
        }
        out
    }

    /// There is no word for "no calls" in this format, and a request whose history has calls must name its tools. A call that
    /// comes all the same is handled like that of any other model.
    fn tail(&self, _: &Request<'_>) -> &'static [u8] {
        b"]}"
    }

    fn decoder(&self, answer: AnswerOf) -> Box<dyn Decoder> {
        Box::new(ConverseDecoder::new(answer))
    }

    fn compat(&self) -> &Compat {
        &self.compat
    }

    fn max_body(&self) -> Option<usize> {
        None
    }
}

/// The effort in the words of the model's vendor; each has its own field, and a model refuses fields that it does not know.
fn thinking(effort: &str, model: &str) -> Option<Value> {
    if family(model) != Family::Nova(2) || matches!(effort, "off" | "none") {
        return None;
    }
    // At `high`, these models refuse a limit on the output.
    let level = if matches!(effort, "minimal" | "low") { "low" } else { "medium" };
    Some(json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_of_the_path() {
        assert_eq!(segment("amazon.nova-pro-v1:0"), "amazon.nova-pro-v1%3A0");
        assert_eq!(
            segment("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.meta.x"),
            "arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Feu.meta.x"
        );
    }
}
