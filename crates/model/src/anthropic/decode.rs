//! Decodes Anthropic's event stream. Also accepts the deviations of compatible servers: no pings, no outer type on
//! errors, tool blocks without `input`, blocks without a start event.

use crate::ModelError;
use crate::assemble::{AnswerOf, Assembler};
use crate::billed::billed;
use crate::counts::Counts;
use crate::decoder::Decoder;
use crate::json::{not_json, other_shape, parse_event};
use crate::kind::Kind;
use becket_types::{FinishReason, Usage};
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Text,
    Thinking,
    Tool(usize),
    Other,
}

pub(crate) struct AnthropicDecoder {
    assembler: Assembler,
    /// Blocks by the server's index.
    blocks: Vec<(u64, Block)>,
    ended: bool,
}

/// The usual shapes, typed for speed; anything that does not fit goes through [`Event::lenient`].
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    index: u64,
    delta: Option<Delta>,
    content_block: Option<Value>,
    message: Option<Value>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Delta {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

impl Event {
    fn lenient(value: &Value, name: &str) -> Self {
        let text = |holder: &Value, key: &str| holder[key].as_str().map(str::to_owned);
        let some = |key: &str| Some(&value[key]).filter(|v| !v.is_null()).cloned();
        let delta = some("delta").map(|d| Delta {
            kind: text(&d, "type"),
            text: text(&d, "text"),
            thinking: text(&d, "thinking"),
            signature: text(&d, "signature"),
            partial_json: match &d["partial_json"] {
                Value::String(json) => Some(json.clone()),
                Value::Null => None,
                object => Some(object.to_string()),
            },
            stop_reason: text(&d, "stop_reason"),
        });
        Self {
            kind: text(value, "type").unwrap_or_else(|| name.to_owned()),
            index: value["index"].as_u64().unwrap_or(0),
            delta,
            content_block: some("content_block"),
            message: some("message"),
            usage: some("usage"),
            error: some("error"),
        }
    }
}

impl AnthropicDecoder {
    pub(crate) fn new(answer: AnswerOf) -> Self {
        Self { assembler: Assembler::new(answer), blocks: Vec::new(), ended: false }
    }

    fn block(&self, index: u64) -> Option<Block> {
        self.blocks.iter().rev().find(|(i, _)| *i == index).map(|(_, block)| *block)
    }

    fn block_start(&mut self, index: u64, content: &Value) {
        let text = |key: &str| content[key].as_str().unwrap_or_default();
        let block = match content["type"].as_str() {
            Some("text") => {
                self.assembler.close_part();
                self.assembler.text(text("text"));
                Block::Text
            }
            Some("thinking") => {
                self.assembler.close_part();
                self.assembler.reasoning(text("thinking"));
                if !text("signature").is_empty() {
                    self.assembler.signature(text("signature"));
                }
                Block::Thinking
            }
            Some("redacted_thinking") => {
                self.assembler.redacted(text("data"));
                Block::Other
            }
            Some("tool_use") => {
                let slot = self.assembler.call(text("id"), text("name"));
                // The protocol sends `{}` here and the arguments as deltas; some servers send them whole.
                if let Some(input) = content["input"].as_object().filter(|map| !map.is_empty()) {
                    self.assembler.call_arguments(slot, &Value::Object(input.clone()).to_string());
                }
                Block::Tool(slot)
            }
            _ => Block::Other,
        };
        self.blocks.push((index, block));
    }

    fn delta(&mut self, index: u64, delta: &Delta) {
        let known = self.block(index);
        match delta.kind.as_deref() {
            Some("text_delta") => {
                // A new text block after another one is a part of its own.
                self.assembler.text(delta.text.as_deref().unwrap_or_default());
            }
            Some("thinking_delta") => self.assembler.reasoning(delta.thinking.as_deref().unwrap_or_default()),
            Some("signature_delta") => {
                self.assembler.signature(delta.signature.as_deref().unwrap_or_default());
            }
            Some("input_json_delta") => {
                let json = delta.partial_json.as_deref().unwrap_or_default();
                let slot = match known {
                    Some(Block::Tool(slot)) => slot,
                    _ if json.is_empty() => return,
                    _ => {
                        let slot = self.assembler.call("", "");
                        self.blocks.push((index, Block::Tool(slot)));
                        slot
                    }
                };
                self.assembler.call_arguments(slot, json);
            }
            _ => {}
        }
    }

    fn block_stop(&mut self, index: u64) {
        match self.block(index) {
            Some(Block::Tool(slot)) => self.assembler.call_closed(slot),
            Some(Block::Text | Block::Thinking) => self.assembler.close_part(),
            Some(Block::Other) | None => {}
        }
    }

    /// Takes the content of a whole message, unless deltas have brought it.
    fn whole(&mut self, message: &Value) {
        if self.assembler.has_content() {
            return;
        }
        for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
            self.block_start(index as u64, block);
            self.block_stop(index as u64);
        }
        if self.assembler.has_content()
            && let Some(word) = message["stop_reason"].as_str()
        {
            self.assembler.stopped(reason(word));
        }
    }

    /// Counts are cumulative; a later event may leave some out.
    fn usage(&mut self, value: &Value) {
        let Some(mut counts) = Counts::of(value) else { return };
        let old = self.assembler.usage_so_far();
        let mut count = |pointer: &str, old: u64| counts.find(pointer).unwrap_or(old);
        let usage = Usage {
            input: count("/input_tokens", old.input),
            output: count("/output_tokens", old.output),
            cache_read: count("/cache_read_input_tokens", old.cache_read),
            cache_write: count("/cache_creation_input_tokens", old.cache_write),
            cache_write_hour: count("/cache_creation/ephemeral_1h_input_tokens", old.cache_write_hour),
            reasoning: count("/output_tokens_details/thinking_tokens", old.reasoning),
            billed: billed(value).max(old.billed),
            estimated: false,
        };
        self.assembler.reported(usage, counts.is_wrong);
    }
}

fn reason(word: &str) -> FinishReason {
    match word {
        // A pause follows only tools that the server runs, and becket offers none.
        "end_turn" | "stop_sequence" | "stop" | "pause_turn" => FinishReason::Stop,
        "tool_use" | "tool_calls" => FinishReason::ToolCalls,
        "max_tokens" | "length" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::Refusal,
        other => FinishReason::Other(other.to_owned()),
    }
}

impl Decoder for AnthropicDecoder {
    fn event(&mut self, name: &str, data: &str) -> Result<(), ModelError> {
        if data.trim().is_empty() {
            return Ok(());
        }
        if data.trim() == "[DONE]" {
            self.ended = self.assembler.has_reason();
            return Ok(());
        }
        let event = match serde_json::from_str::<Event>(data) {
            Ok(event) => event,
            Err(_) => {
                let value =
                    parse_event::<Value>(data).ok_or_else(|| not_json(data, self.assembler.server()))?;
                Event::lenient(&value, name)
            }
        };
        if event.error.is_some() || event.kind == "error" {
            return Err(self.assembler.failed(data));
        }
        match event.kind.as_str() {
            "content_block_delta" => {
                if let Some(delta) = &event.delta {
                    self.delta(event.index, delta);
                }
            }
            "content_block_start" => {
                self.block_start(event.index, event.content_block.as_ref().unwrap_or(&Value::Null));
            }
            "content_block_stop" => self.block_stop(event.index),
            "message_start" => {
                if let Some(message) = &event.message {
                    if let Some(id) = message["id"].as_str() {
                        let _ = self.assembler.answer_of().id.set(id.to_owned());
                    }
                    self.usage(&message["usage"]);
                    // A server that does not stream may give the whole message here.
                    self.whole(message);
                }
            }
            "message_delta" => {
                if let Some(usage) = &event.usage {
                    self.usage(usage);
                }
                if let Some(word) = event.delta.and_then(|d| d.stop_reason) {
                    self.assembler.stopped(reason(&word));
                }
            }
            "message_stop" => self.ended = true,
            "message" => {
                let message = parse_event::<Value>(data).unwrap_or_default();
                self.usage(&message["usage"]);
                self.whole(&message);
                self.ended = self.assembler.has_reason();
            }
            // `ping`, and events of later versions of the API.
            _ => {}
        }
        Ok(())
    }

    fn document(&mut self, json: &str) -> Result<(), ModelError> {
        let value = parse_event::<Value>(json).ok_or_else(|| not_json(json, self.assembler.server()))?;
        if value["type"] == "error" || !value["error"].is_null() || !value["detail"].is_null() {
            return Err(self.assembler.failed(json));
        }
        if !value["content"].is_array() {
            return Err(other_shape(json, self.assembler.server()));
        }
        self.whole(&value);
        self.usage(&value["usage"]);
        self.assembler.stopped(reason(value["stop_reason"].as_str().unwrap_or("end_turn")));
        self.ended = true;
        Ok(())
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn kind(&self) -> Kind {
        Kind::Anthropic
    }

    fn is_blank(&self) -> bool {
        self.blocks.is_empty()
    }

    fn assembler(&mut self) -> &mut Assembler {
        &mut self.assembler
    }
}
