//! Decodes the events of Converse: blocks with an index, each begun, continued and ended, then the reason and the usage.
//!
//! Only a call has a start event; text and reasoning begin with their first delta. The usage comes last, after the reason.

use crate::ModelError;
use crate::assemble::{AnswerOf, Assembler};
use crate::counts::Counts;
use crate::decoder::Decoder;
use crate::json::{not_json, other_shape, parse_event};
use crate::kind::Kind;
use becket_types::{FinishReason, Usage};
use serde_json::{Value, json};

pub(crate) struct ConverseDecoder {
    assembler: Assembler,
    /// Calls by the server's index of their block.
    calls: Vec<(u64, usize)>,
    ended: bool,
}

impl ConverseDecoder {
    pub(crate) fn new(answer: AnswerOf) -> Self {
        Self { assembler: Assembler::new(answer), calls: Vec::new(), ended: false }
    }

    fn slot(&self, index: u64) -> Option<usize> {
        self.calls.iter().rev().find(|(at, _)| *at == index).map(|(_, slot)| *slot)
    }

    fn begin_call(&mut self, index: u64, call: &Value) -> usize {
        let word = |key: &str| call[key].as_str().unwrap_or_default();
        let slot = self.assembler.call(word("toolUseId"), word("name"));
        self.calls.push((index, slot));
        slot
    }

    fn delta(&mut self, index: u64, delta: &Value) {
        if let Some(text) = delta["text"].as_str() {
            self.assembler.text(text);
        }
        if let Some(json) = delta["toolUse"]["input"].as_str() {
            let slot = match self.slot(index) {
                Some(slot) => slot,
                None if json.is_empty() => return,
                None => self.begin_call(index, &Value::Null),
            };
            self.assembler.call_arguments(slot, json);
        }
        self.reasoning(&delta["reasoningContent"]);
    }

    fn reasoning(&mut self, content: &Value) {
        if let Some(text) = content["text"].as_str() {
            self.assembler.reasoning(text);
        }
        if let Some(signature) = content["signature"].as_str() {
            self.assembler.signature(signature);
        }
        if let Some(data) = content["redactedContent"].as_str() {
            self.assembler.redacted(data);
        }
    }

    fn usage(&mut self, usage: &Value) {
        let Some(mut counts) = Counts::of(usage) else { return };
        let usage = Usage {
            input: counts.at("/inputTokens"),
            output: counts.at("/outputTokens"),
            cache_read: counts.at("/cacheReadInputTokens"),
            cache_write: counts.at("/cacheWriteInputTokens"),
            ..Usage::default()
        };
        self.assembler.reported(usage, counts.is_wrong);
    }

    /// The error of an exception in the stream. Its name says what a status would say before the stream.
    fn exception(&self, name: &str, data: &str) -> ModelError {
        let said = parse_event::<Value>(data).unwrap_or_else(|| json!({"message": data}));
        let status = match name {
            "throttlingException" => 429,
            "validationException" => 400,
            "accessDeniedException" => 403,
            "resourceNotFoundException" => 404,
            "modelTimeoutException" => 408,
            "serviceUnavailableException" | "modelNotReadyException" => 503,
            _ => 500,
        };
        let message = ["message", "Message", "originalMessage"].iter().find_map(|key| said[*key].as_str());
        self.assembler
            .failed(&json!({"type": name, "code": status, "message": message.unwrap_or(data)}).to_string())
    }
}

fn reason(word: &str) -> FinishReason {
    match word {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "guardrail_intervened" | "content_filtered" | "content_filter" => FinishReason::ContentFilter,
        other => FinishReason::Other(other.to_owned()),
    }
}

impl Decoder for ConverseDecoder {
    fn event(&mut self, name: &str, data: &str) -> Result<(), ModelError> {
        if name.ends_with("Exception") {
            return Err(self.exception(name, data));
        }
        let value = parse_event::<Value>(data).ok_or_else(|| not_json(data, self.assembler.server()))?;
        let index = value["contentBlockIndex"].as_u64().unwrap_or(0);
        match name {
            "contentBlockStart" if value["start"]["toolUse"].is_object() => {
                self.begin_call(index, &value["start"]["toolUse"]);
            }
            "contentBlockDelta" => self.delta(index, &value["delta"]),
            "contentBlockStop" => match self.slot(index) {
                Some(slot) => self.assembler.call_closed(slot),
                None => self.assembler.close_part(),
            },
            "messageStop" => {
                self.assembler.stopped(reason(value["stopReason"].as_str().unwrap_or_default()));
            }
            "metadata" => {
                self.usage(&value["usage"]);
                self.ended = self.assembler.has_reason();
            }
            // `messageStart`, and events of later versions of the API.
            _ => {}
        }
        Ok(())
    }

    /// The answer of `converse`, which some gateways give in place of the stream.
    fn document(&mut self, json: &str) -> Result<(), ModelError> {
        let value = parse_event::<Value>(json).ok_or_else(|| not_json(json, self.assembler.server()))?;
        let Some(blocks) = value["output"]["message"]["content"].as_array() else {
            let refused = !value["message"].is_null() || !value["error"].is_null();
            return Err(if refused {
                self.assembler.failed(json)
            } else {
                other_shape(json, self.assembler.server())
            });
        };
        for (index, block) in blocks.iter().enumerate() {
            if let Some(text) = block["text"].as_str() {
                self.assembler.text(text);
            }
            let call = &block["toolUse"];
            if call.is_object() {
                let slot = self.begin_call(index as u64, call);
                self.assembler.call_arguments(slot, &call["input"].to_string());
                self.assembler.call_closed(slot);
            }
            self.reasoning(&block["reasoningContent"]["reasoningText"]);
            self.reasoning(&block["reasoningContent"]);
            self.assembler.close_part();
        }
        self.usage(&value["usage"]);
        self.assembler.stopped(reason(value["stopReason"].as_str().unwrap_or("end_turn")));
        self.ended = true;
        Ok(())
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn kind(&self) -> Kind {
        Kind::Converse
    }

    fn is_blank(&self) -> bool {
        self.calls.is_empty()
    }

    fn assembler(&mut self) -> &mut Assembler {
        &mut self.assembler
    }
}
