//! Google Gemini: `POST …/models/NAME:streamGenerateContent?alt=sse`, at Google's own address and on Vertex.
//!
//! Calls have no ids: results belong to calls by their order. Gemini signs its thoughts with a `thoughtSignature` on
//! one part of the answer, and becket sends the signature back on the same part only. `contents` comes last, so a
//! request is a byte prefix of the next one.

mod decode;
mod encode;

use crate::adapter::{HttpModel, Protocol, system_texts};
use crate::assemble::AnswerOf;
use crate::compat::Compat;
use crate::decoder::Decoder;
use crate::effort::{Family, family};
use crate::place::Place;
use crate::schema::for_server;
use crate::settings::Settings;
use crate::wire::put;
use crate::{ModelError, ModelInfo, Request, ToolChoice};
pub(crate) use decode::GeminiDecoder;
use encode::GeminiEncoder;
use serde_json::{Value, json};

pub(crate) struct Gemini {
    compat: Compat,
}

/// The model `name` of a provider that speaks this format.
pub(crate) fn open(
    place: &Place<'_>,
    name: &str,
    settings: &Settings,
) -> Result<HttpModel<Gemini>, ModelError> {
    let mut url = place.url(&format!("/{}:streamGenerateContent", place.gemini_path(name)), true)?;
    url.set_query(Some("alt=sse"));
    let transport = place.transport(url, &[], settings)?;
    Ok(HttpModel::new(place, name, Gemini { compat: place.compat.clone() }, transport, settings))
}

impl Protocol for Gemini {
    type Encoder = GeminiEncoder;

    fn head(&self, request: &Request<'_>, info: &ModelInfo) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 * 1024);
        let mut generation = json!({"maxOutputTokens": request.max_output.max(1)});
        if let Some(effort) = request.effort
            && info.reasoning
        {
            generation["thinkingConfig"] = thinking(effort, &info.name);
        }
        out.extend_from_slice(b"{\"generationConfig\":");
        put(&mut out, &generation);
        self.compat.put_body(&mut out);
        let system = system_texts(request);
        if !system.is_empty() {
            let parts: Vec<Value> = system.iter().map(|text| json!({"text": text})).collect();
            out.extend_from_slice(b",\"systemInstruction\":");
            put(&mut out, &json!({"parts": parts}));
        }
        if !request.tools.is_empty() {
            let declarations: Vec<Value> = request
                .tools
                .iter()
                .map(|t| {
                    let mut tool = json!({"name": t.name, "description": t.description});
                    let schema = for_server(&t.input_schema, &self.compat);
                    // An object without properties is refused.
                    if schema["properties"].as_object().is_some_and(|all| !all.is_empty()) {
                        tool["parameters"] = schema.into_owned();
                    }
                    tool
                })
                .collect();
            out.extend_from_slice(b",\"tools\":");
            put(&mut out, &json!([{"functionDeclarations": declarations}]));
        }
        out.extend_from_slice(b",\"contents\":[");
        out
    }

    fn tail(&self, request: &Request<'_>) -> &'static [u8] {
        if request.tool_choice == ToolChoice::None && !request.tools.is_empty() {
            br#"],"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}}"#
        } else {
            b"]}"
        }
    }

    fn decoder(&self, answer: AnswerOf) -> Box<dyn Decoder> {
        Box::new(GeminiDecoder::new(answer))
    }

    fn compat(&self) -> &Compat {
        &self.compat
    }

    fn max_body(&self) -> Option<usize> {
        None
    }
}

/// A level since Gemini 3, a budget of tokens before.
fn thinking(effort: &str, model: &str) -> Value {
    let off = matches!(effort, "off" | "none");
    let (major, flash) = match family(model) {
        Family::Gemini { major, flash, .. } => (major, flash),
        _ => (u32::MAX, model.contains("flash")),
    };
    if major < 3 {
        let budget = match effort {
            // The larger models cannot answer without thinking.
            _ if off && flash => 0,
            _ if off => 128,
            "minimal" => 512,
            "low" => 2_048,
            "medium" => 8_192,
            _ => 24_576,
        };
        return json!({"includeThoughts": !off, "thinkingBudget": budget});
    }
    let level = match effort {
        "minimal" if flash => "minimal",
        _ if off && flash => "minimal",
        _ if off => "low",
        "minimal" | "low" => "low",
        "medium" if flash => "medium",
        "medium" => "low",
        _ => "high",
    };
    json!({"includeThoughts": !off, "thinkingLevel": level})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_by_generation() {
        for (effort, model, want) in [
            ("high", "gemini-2.5-pro", json!({"includeThoughts": true, "thinkingBudget": 24_576})),
            ("max", "google/gemini-2.5-pro", json!({"includeThoughts": true, "thinkingBudget": 24_576})),
            ("off", "gemini-2.5-flash", json!({"includeThoughts": false, "thinkingBudget": 0})),
            ("off", "gemini-2.5-pro", json!({"includeThoughts": false, "thinkingBudget": 128})),
            (
                "xhigh",
                "models/gemini-3.1-pro-preview",
                json!({"includeThoughts": true, "thinkingLevel": "high"}),
            ),
            ("medium", "gemini-3-flash-preview", json!({"includeThoughts": true, "thinkingLevel": "medium"})),
            ("off", "gemini-3-pro-preview", json!({"includeThoughts": false, "thinkingLevel": "low"})),
            ("off", "gemini-3.8-flash", json!({"includeThoughts": false, "thinkingLevel": "minimal"})),
        ] {
            assert_eq!(thinking(effort, model), want, "{effort} {model}");
        }
    }
}
