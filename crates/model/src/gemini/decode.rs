//! Gemini's chunks: each holds parts of one candidate, calls come whole and without ids, and no event says that it is the last.

use super::encode::{SIGNATURE, SIGNER};
use crate::ModelError;
use crate::assemble::{AnswerOf, Assembler};
use crate::counts::Counts;
use crate::decoder::Decoder;
use crate::json::{not_json, other_shape, parse_event};
use crate::kind::Kind;
use becket_types::{FinishReason, Usage};
use serde_json::Value;

pub(crate) struct GeminiDecoder {
    assembler: Assembler,
    calls: usize,
    ended: bool,
}

impl GeminiDecoder {
    pub(crate) fn new(answer: AnswerOf) -> Self {
        Self { assembler: Assembler::new(answer), calls: 0, ended: false }
    }

    fn part(&mut self, part: &Value) {
        let signature = part["thoughtSignature"].as_str().filter(|text| !text.is_empty());
        if let Some(call) = part.get("functionCall").filter(|call| call.is_object()) {
            let slot = self
                .assembler
                .call(call["id"].as_str().unwrap_or_default(), call["name"].as_str().unwrap_or_default());
            self.calls += 1;
            if let Some(signature) = signature {
                let by =
                    format!("{}/{}", self.assembler.answer_of().provider, self.assembler.answer_of().model);
                self.assembler.call_extra(slot, SIGNATURE, Value::from(signature));
                self.assembler.call_extra(slot, SIGNER, Value::from(by));
            }
            let arguments = match &call["args"] {
                Value::Null => "{}".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            self.assembler.call_arguments(slot, &arguments);
            self.assembler.call_closed(slot);
            return;
        }
        let text = part["text"].as_str().unwrap_or_default();
        if part["thought"].as_bool() == Some(true) {
            if !text.is_empty() {
                self.assembler.reasoning(text);
            }
        } else {
            self.assembler.text(text);
        }
        if let Some(signature) = signature {
            // The signature belongs to no call, so it becomes a part of its own at this place.
            self.assembler.close_part();
            self.assembler.signature(signature);
            self.assembler.close_part();
        }
    }

    fn chunk(&mut self, chunk: &Value) {
        // Some gateways wrap each chunk in `response`. Google's own servers, also Vertex, do not.
        let chunk = if chunk["response"].is_object() { &chunk["response"] } else { chunk };
        let candidates = chunk["candidates"].as_array();
        let first = |c: &&Value| c["index"].as_u64().unwrap_or(0) == 0;
        for candidate in candidates.into_iter().flatten().filter(first) {
            for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
                self.part(part);
            }
            if let Some(word) = candidate["finishReason"].as_str() {
                let finish = reason(word);
                if finish == FinishReason::Other("MALFORMED_FUNCTION_CALL".to_owned()) {
                    let said = candidate["finishMessage"].as_str().unwrap_or_default();
                    self.assembler.notice(format!(
                        "The model wrote a call that cannot be read{}{}.",
                        if said.is_empty() { "" } else { ": " },
                        becket_types::cut_end(said, 200)
                    ));
                }
                self.assembler.stopped(finish);
            }
        }
        if let Some(word) = chunk["promptFeedback"]["blockReason"].as_str()
            && word != "BLOCK_REASON_UNSPECIFIED"
        {
            self.assembler.notice(format!("The provider blocked the prompt ({word})."));
            self.assembler.stopped(FinishReason::ContentFilter);
        }
        self.usage(&chunk["usageMetadata"]);
    }

    fn usage(&mut self, usage: &Value) {
        let Some(mut counts) = Counts::of(usage) else { return };
        let prompt = counts.at("/promptTokenCount") + counts.at("/toolUsePromptTokenCount");
        let cached = counts.at("/cachedContentTokenCount").min(prompt);
        let thoughts = counts.at("/thoughtsTokenCount");
        let usage = Usage {
            input: prompt - cached,
            output: counts.at("/candidatesTokenCount") + thoughts,
            cache_read: cached,
            cache_write: 0,
            cache_write_hour: 0,
            reasoning: thoughts,
            billed: 0,
            estimated: false,
        };
        self.assembler.reported(usage, counts.is_wrong);
    }
}

fn reason(word: &str) -> FinishReason {
    match word {
        "STOP" | "FINISH_REASON_UNSPECIFIED" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
            FinishReason::ContentFilter
        }
        other => FinishReason::Other(other.to_owned()),
    }
}

impl Decoder for GeminiDecoder {
    fn event(&mut self, name: &str, data: &str) -> Result<(), ModelError> {
        let trimmed = data.trim();
        if trimmed.is_empty() {
            return Ok(());
        }
        if trimmed == "[DONE]" {
            self.ended = self.assembler.has_reason();
            return Ok(());
        }
        let value = parse_event::<Value>(data).ok_or_else(|| not_json(data, self.assembler.server()))?;
        if name == "error" || !value["error"].is_null() {
            return Err(self.assembler.failed(data));
        }
        self.chunk(&value);
        Ok(())
    }

    /// Without `alt=sse`, the chunks are one list.
    fn document(&mut self, json: &str) -> Result<(), ModelError> {
        let value = parse_event::<Value>(json).ok_or_else(|| not_json(json, self.assembler.server()))?;
        let one = std::slice::from_ref(&value);
        let chunks = value.as_array().map_or(one, Vec::as_slice);
        if chunks.iter().any(|chunk| !chunk["error"].is_null()) {
            return Err(self.assembler.failed(json));
        }
        if !chunks.iter().any(|chunk| chunk["candidates"].is_array() || chunk["promptFeedback"].is_object()) {
            return Err(other_shape(json, self.assembler.server()));
        }
        for chunk in chunks {
            self.chunk(chunk);
        }
        if !self.assembler.has_reason() {
            self.assembler.stopped(FinishReason::Stop);
        }
        self.ended = true;
        Ok(())
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn kind(&self) -> Kind {
        Kind::Gemini
    }

    fn is_blank(&self) -> bool {
        self.calls == 0
    }

    fn assembler(&mut self) -> &mut Assembler {
        &mut self.assembler
    }
}
