//! `stream_event` lines (`--include-partial-messages`): the deltas of an answer in the shape of Anthropic's stream.
//!
//! The input of a call whose names differ between becket and the SDK comes as one delta at its end, because keys can be
//! exchanged only when the JSON is whole.

use super::{Format, Printer};
use crate::shapes;
use becket_types::{Event, MessageId, Usage, sdk_names};
use serde_json::{Value, json};
use std::io;

/// The message whose deltas are being written.
#[derive(Debug)]
pub(super) struct Streaming {
    message: MessageId,
    /// The open block.
    block: Option<u32>,
    /// The call of the open block whose input is collected: its tool and the text so far.
    collected: Option<(String, String)>,
}

impl Printer {
    /// Writes a delta. Returns false if the event is not a delta.
    pub(super) fn delta_event(&mut self, event: &Event) -> io::Result<bool> {
        let wanted = self.options.partial && self.options.format == Format::StreamJson;
        match event {
            Event::TextDelta { message, index, text } if wanted => {
                self.open(*message, *index, || json!({ "type": "text", "text": "" }))?;
                self.delta(*index, &json!({ "type": "text_delta", "text": text }))?;
            }
            Event::ReasoningDelta { message, index, text } if wanted => {
                let start = || json!({ "type": "thinking", "thinking": "", "signature": "" });
                self.open(*message, *index, start)?;
                self.delta(*index, &json!({ "type": "thinking_delta", "thinking": text }))?;
            }
            Event::ToolCallDelta { message, index, call_id, name, json: part } if wanted => {
                let known = sdk_names::sdk_name(name);
                let start = || json!({ "type": "tool_use", "id": call_id, "name": known, "input": {} });
                if self.open(*message, *index, start)? && sdk_names::renames(name) {
                    self.collect(name);
                }
                match self.streaming.as_mut().and_then(|streaming| streaming.collected.as_mut()) {
                    Some((_, text)) => text.push_str(part),
                    None => {
                        self.delta(*index, &json!({ "type": "input_json_delta", "partial_json": part }))?;
                    }
                }
            }
            Event::TextDelta { .. } | Event::ReasoningDelta { .. } | Event::ToolCallDelta { .. } => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn collect(&mut self, tool: &str) {
        if let Some(streaming) = &mut self.streaming {
            streaming.collected = Some((tool.to_owned(), String::new()));
        }
    }

    /// Opens message and block unless they are open. Returns true if the block is new.
    fn open(&mut self, message: MessageId, index: u32, start: impl FnOnce() -> Value) -> io::Result<bool> {
        if self.streaming.as_ref().is_none_or(|open| open.message != message) {
            self.streaming = Some(Streaming { message, block: None, collected: None });
            let body = json!({ "type": "message_start", "message": {
                "id": message, "type": "message", "role": "assistant", "model": self.model(), "content": [],
                "stop_reason": null, "stop_sequence": null, "usage": shapes::usage(&Usage::default()),
            } });
            self.stream_event(&body)?;
        }
        let open = self.streaming.as_ref().and_then(|streaming| streaming.block);
        if open == Some(index) {
            return Ok(false);
        }
        self.close_block()?;
        if let Some(streaming) = &mut self.streaming {
            streaming.block = Some(index);
        }
        self.stream_event(
            &json!({ "type": "content_block_start", "index": index, "content_block": start() }),
        )?;
        Ok(true)
    }

    fn delta(&mut self, index: u32, delta: &Value) -> io::Result<()> {
        self.stream_event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }))
    }

    fn close_block(&mut self) -> io::Result<()> {
        let Some(streaming) = &mut self.streaming else { return Ok(()) };
        let Some(index) = streaming.block.take() else { return Ok(()) };
        if let Some((tool, text)) = streaming.collected.take() {
            let whole = match serde_json::from_str(&text) {
                Ok(input) => sdk_names::sdk_input(&tool, &input, &self.cwd).to_string(),
                // The input of a call that is cut off or malformed is printed unchanged.
                Err(_) => text,
            };
            self.delta(index, &json!({ "type": "input_json_delta", "partial_json": whole }))?;
        }
        self.stream_event(&json!({ "type": "content_block_stop", "index": index }))
    }

    pub(super) fn close_stream(&mut self, stop_reason: &str, usage: &Usage) -> io::Result<()> {
        if self.streaming.is_none() {
            return Ok(());
        }
        self.close_block()?;
        self.streaming = None;
        self.stream_event(&json!({
            "type": "message_delta",
            "delta": { "stop_reason": stop_reason, "stop_sequence": null },
            "usage": shapes::usage(usage),
        }))?;
        self.stream_event(&json!({ "type": "message_stop" }))
    }

    fn stream_event(&mut self, event: &Value) -> io::Result<()> {
        let line = json!({
            "type": "stream_event", "event": event, "parent_tool_use_id": null,
            "session_id": self.session, "uuid": MessageId::new(),
        });
        self.line(line)
    }
}
