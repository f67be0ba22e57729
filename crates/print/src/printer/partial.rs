//! `stream_event` lines (`--include-partial-messages`): the deltas of an answer in the shape of Anthropic's stream.
//!
//! If the tool's names for arguments differ between becket and the SDK, the input of a call comes as one delta at its end: keys can
//! be renamed only when the JSON is complete.

use super::answered;
use super::lines::SessionLines;
use super::output::Output;
use crate::shapes;
use becket_types::{Event, MessageId, Usage, sdk_names};
use serde_json::{Value, json};
use std::io;

/// The message whose deltas are being written.
#[derive(Debug)]
struct Streaming {
    message: MessageId,
    /// The open block.
    block: Option<u32>,
    /// The call of the open block whose input is collected: its tool and the text so far.
    collected: Option<(String, String)>,
}

/// The deltas of a run, if they are wanted.
#[derive(Debug)]
pub(super) struct Partial {
    wanted: bool,
    streaming: Option<Streaming>,
    /// The user message that the last line has named, so that it is not named on each line.
    named: Option<String>,
}

impl Partial {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, streaming: None, named: None }
    }

    /// Writes a delta. Returns false if the event is not a delta.
    pub(super) fn event(
        &mut self,
        event: &Event,
        lines: &SessionLines,
        out: &mut Output,
    ) -> io::Result<bool> {
        let (wanted, to) = (self.wanted, &mut EventLines { lines, out });
        match event {
            Event::TextDelta { message, index, text } if wanted => {
                self.open(*message, *index, to, || json!({ "type": "text", "text": "" }))?;
                to.delta(*index, &json!({ "type": "text_delta", "text": text }))?;
            }
            Event::ReasoningDelta { message, index, text } if wanted => {
                let start = || json!({ "type": "thinking", "thinking": "", "signature": "" });
                self.open(*message, *index, to, start)?;
                to.delta(*index, &json!({ "type": "thinking_delta", "thinking": text }))?;
            }
            Event::ToolCallDelta { message, index, call_id, name, json: part } if wanted => {
                let known = sdk_names::sdk_name(name);
                let start = || json!({ "type": "tool_use", "id": call_id, "name": known, "input": {} });
                if self.open(*message, *index, to, start)? && sdk_names::renames(name) {
                    self.collect(name);
                }
                match self.streaming.as_mut().and_then(|streaming| streaming.collected.as_mut()) {
                    Some((_, text)) => text.push_str(part),
                    None => {
                        to.delta(*index, &json!({ "type": "input_json_delta", "partial_json": part }))?;
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
    fn open(
        &mut self,
        message: MessageId,
        index: u32,
        to: &mut EventLines<'_>,
        start: impl FnOnce() -> Value,
    ) -> io::Result<bool> {
        if self.streaming.as_ref().is_none_or(|open| open.message != message) {
            self.streaming = Some(Streaming { message, block: None, collected: None });
            let body = json!({ "type": "message_start", "message": {
                "id": message, "type": "message", "role": "assistant", "model": to.lines.model(), "content": [],
                "stop_reason": null, "stop_sequence": null, "usage": shapes::usage(&Usage::default()),
            } });
            let keys = to.lines.answered.keys();
            let keys = keys.filter(|(own, _)| self.named.as_deref() != Some(*own));
            self.named = keys.map(|(own, _)| own.to_owned()).or(self.named.take());
            to.stamped(&body, keys)?;
        }
        let open = self.streaming.as_ref().and_then(|streaming| streaming.block);
        if open == Some(index) {
            return Ok(false);
        }
        self.close_block(to)?;
        if let Some(streaming) = &mut self.streaming {
            streaming.block = Some(index);
        }
        to.event(&json!({ "type": "content_block_start", "index": index, "content_block": start() }))?;
        Ok(true)
    }

    fn close_block(&mut self, to: &mut EventLines<'_>) -> io::Result<()> {
        let Some(streaming) = &mut self.streaming else { return Ok(()) };
        let Some(index) = streaming.block.take() else { return Ok(()) };
        if let Some((tool, text)) = streaming.collected.take() {
            let whole = match serde_json::from_str(&text) {
                Ok(input) => sdk_names::sdk_input(&tool, &input, &to.lines.cwd).to_string(),
                // An input that is cut off or malformed is printed unchanged.
                Err(_) => text,
            };
            to.delta(index, &json!({ "type": "input_json_delta", "partial_json": whole }))?;
        }
        to.event(&json!({ "type": "content_block_stop", "index": index }))
    }

    /// Writes the end of the open message, if there is one.
    pub(super) fn close(
        &mut self,
        stop_reason: &str,
        usage: &Usage,
        lines: &SessionLines,
        out: &mut Output,
    ) -> io::Result<()> {
        let to = &mut EventLines { lines, out };
        if self.streaming.is_none() {
            return Ok(());
        }
        self.close_block(to)?;
        self.streaming = None;
        to.event(&json!({
            "type": "message_delta",
            "delta": { "stop_reason": stop_reason, "stop_sequence": null },
            "usage": shapes::usage(usage),
        }))?;
        to.event(&json!({ "type": "message_stop" }))
    }
}

/// `stream_event` lines.
struct EventLines<'a> {
    lines: &'a SessionLines,
    out: &'a mut Output,
}

impl EventLines<'_> {
    fn event(&mut self, event: &Value) -> io::Result<()> {
        self.stamped(event, None)
    }

    /// Writes a line with the ids of the user messages that it answers.
    fn stamped(&mut self, event: &Value, keys: Option<(&str, &[String])>) -> io::Result<()> {
        let mut line = json!({
            "type": "stream_event", "event": event, "parent_tool_use_id": null,
            "session_id": self.lines.session, "uuid": MessageId::new(),
        });
        if let Some(keys) = keys {
            answered::stamp(&mut line, keys);
        }
        self.out.line(line)
    }

    fn delta(&mut self, index: u32, delta: &Value) -> io::Result<()> {
        self.event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }))
    }
}
