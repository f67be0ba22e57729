//! Answers as each API sends them: as a stream of events, or whole.
//!
//! Owns Anthropic Messages and Chat Completions; `wires` has Responses and Gemini, `converse` the format with binary messages.

use crate::answer::{Answer, Piece, Wire};
use crate::{converse, wires};
use serde_json::{Value, json};

impl Answer {
    fn has_tools(&self) -> bool {
        self.pieces().iter().any(|p| matches!(p, Piece::Tool { .. }))
    }

    pub(crate) fn stop_reason(&self, wire: Wire) -> &str {
        match (self.stop_word(), wire, self.has_tools()) {
            (Some(stop), ..) => stop,
            (None, Wire::Anthropic, true) => "tool_use",
            (None, Wire::Anthropic, false) => "end_turn",
            (None, Wire::Chat, true) => "tool_calls",
            (None, Wire::Chat | Wire::Responses | Wire::Gemini, _) => "stop",
            (None, Wire::Converse, true) => "tool_use",
            (None, Wire::Converse, false) => "end_turn",
        }
    }

    /// Returns the body of the answer for `wire`.
    pub fn body(&self, wire: Wire) -> Vec<u8> {
        match wire {
            Wire::Converse => converse::frames(self).concat(),
            _ => self.sse(wire).into_bytes(),
        }
    }

    /// Returns the event stream for `wire` as text. Not for [`Wire::Converse`], whose stream is binary.
    pub fn sse(&self, wire: Wire) -> String {
        self.events(wire).concat()
    }

    /// Returns the events of the stream in order, each with its blank line.
    pub fn events(&self, wire: Wire) -> Vec<String> {
        match wire {
            Wire::Anthropic => self.anthropic().iter().map(anthropic_event).collect(),
            Wire::Chat => {
                let mut events: Vec<String> = self.chat().iter().map(|v| format!("data: {v}\n\n")).collect();
                events.push("data: [DONE]\n\n".to_owned());
                events
            }
            Wire::Responses => wires::responses(self).iter().map(anthropic_event).collect(),
            Wire::Gemini => wires::gemini(self).iter().map(|v| format!("data: {v}\n\n")).collect(),
            Wire::Converse => panic!("the events of Converse are not text; use `body` or `converse::frames`"),
        }
    }

    fn anthropic(&self) -> Vec<Value> {
        let usage = json!({
            "input_tokens": self.usage_of().input, "output_tokens": 1,
            "cache_read_input_tokens": self.usage_of().cache_read, "cache_creation_input_tokens": self.usage_of().cache_write,
        });
        let mut out = vec![
            json!({"type": "message_start", "message": {"id": "msg_mock", "type": "message", "role": "assistant",
                "model": "mock", "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage}}),
            json!({"type": "ping"}),
        ];
        for (index, piece) in self.pieces().iter().enumerate() {
            let start = match piece {
                Piece::Text(_) => json!({"type": "text", "text": ""}),
                Piece::Reasoning { .. } => json!({"type": "thinking", "thinking": "", "signature": ""}),
                Piece::Redacted(data) => json!({"type": "redacted_thinking", "data": data}),
                Piece::Tool { id, name, .. } => {
                    json!({"type": "tool_use", "id": id, "name": name, "input": {}})
                }
            };
            out.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
            let delta = |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
            match piece {
                Piece::Text(text) => out.extend(
                    self.split(text).into_iter().map(|t| delta(json!({"type": "text_delta", "text": t}))),
                ),
                Piece::Reasoning { text, signature } => {
                    out.extend(
                        self.split(text)
                            .into_iter()
                            .map(|t| delta(json!({"type": "thinking_delta", "thinking": t}))),
                    );
                    let signature = signature.iter();
                    out.extend(signature.map(|s| delta(json!({"type": "signature_delta", "signature": s}))));
                }
                Piece::Redacted(_) => {}
                Piece::Tool { arguments, .. } => out.extend(
                    self.split(arguments)
                        .into_iter()
                        .map(|t| delta(json!({"type": "input_json_delta", "partial_json": t}))),
                ),
            }
            out.push(json!({"type": "content_block_stop", "index": index}));
        }
        let stop = self.stop_reason(Wire::Anthropic);
        out.push(json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
            "usage": {"output_tokens": self.usage_of().output}}));
        out.push(json!({"type": "message_stop"}));
        out
    }

    fn chat(&self) -> Vec<Value> {
        let chunk = |delta: Value, finish: Value| {
            json!({"id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 0, "model": "mock",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        };
        let mut out = vec![chunk(json!({"role": "assistant", "content": null}), Value::Null)];
        let mut calls = 0;
        for piece in self.pieces() {
            match piece {
                Piece::Text(text) => {
                    out.extend(
                        self.split(text).into_iter().map(|t| chunk(json!({"content": t}), Value::Null)),
                    );
                }
                Piece::Reasoning { text, .. } => out.extend(
                    self.split(text).into_iter().map(|t| chunk(json!({"reasoning_content": t}), Value::Null)),
                ),
                Piece::Redacted(_) => {}
                Piece::Tool { id, name, arguments } => {
                    let call = json!({"index": calls, "id": id, "type": "function",
                        "function": {"name": name, "arguments": ""}});
                    out.push(chunk(json!({"tool_calls": [call]}), Value::Null));
                    for text in self.split(arguments) {
                        let call = json!({"index": calls, "function": {"arguments": text}});
                        out.push(chunk(json!({"tool_calls": [call]}), Value::Null));
                    }
                    calls += 1;
                }
            }
        }
        out.push(chunk(json!({}), json!(self.stop_reason(Wire::Chat))));
        out.push(
            json!({"id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 0, "model": "mock",
            "choices": [], "usage": self.chat_usage()}),
        );
        out
    }

    fn chat_usage(&self) -> Value {
        let prompt = self.usage_of().input + self.usage_of().cache_read + self.usage_of().cache_write;
        let mut usage = json!({"prompt_tokens": prompt, "completion_tokens": self.usage_of().output,
            "total_tokens": prompt + self.usage_of().output,
            "prompt_tokens_details": {"cached_tokens": self.usage_of().cache_read}});
        if self.usage_of().billed > 0 {
            usage["cost"] = json!(self.usage_of().billed as f64 / 1e9);
        }
        usage
    }

    /// Returns the whole answer as one JSON body, as a server without streaming sends it.
    pub fn json(&self, wire: Wire) -> Value {
        let text = |f: fn(&Piece) -> Option<&str>| self.pieces().iter().filter_map(f).collect::<String>();
        match wire {
            Wire::Anthropic => {
                let content: Vec<Value> = self.pieces().iter().map(anthropic_block).collect();
                json!({"id": "msg_mock", "type": "message", "role": "assistant", "model": "mock", "content": content,
                    "stop_reason": self.stop_reason(wire), "stop_sequence": null,
                    "usage": {"input_tokens": self.usage_of().input, "output_tokens": self.usage_of().output,
                        "cache_read_input_tokens": self.usage_of().cache_read,
                        "cache_creation_input_tokens": self.usage_of().cache_write}})
            }
            Wire::Chat => {
                let calls: Vec<Value> = self
                    .pieces()
                    .iter()
                    .filter_map(|p| match p {
                        Piece::Tool { id, name, arguments } => Some(json!({"id": id, "type": "function",
                            "function": {"name": name, "arguments": arguments}})),
                        _ => None,
                    })
                    .collect();
                let mut message = json!({"role": "assistant", "content": text(|p| match p {
                    Piece::Text(t) => Some(t),
                    _ => None,
                })});
                if !calls.is_empty() {
                    message["tool_calls"] = Value::Array(calls);
                }
                json!({"id": "chatcmpl-mock", "object": "chat.completion", "created": 0, "model": "mock",
                    "choices": [{"index": 0, "message": message, "finish_reason": self.stop_reason(wire)}],
                    "usage": self.chat_usage()})
            }
            Wire::Responses => wires::responses_json(self),
            Wire::Gemini => wires::gemini_json(self),
            Wire::Converse => converse::json(self),
        }
    }
}

fn anthropic_block(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Reasoning { text, signature } => {
            json!({"type": "thinking", "thinking": text, "signature": signature.clone().unwrap_or_default()})
        }
        Piece::Redacted(data) => json!({"type": "redacted_thinking", "data": data}),
        Piece::Tool { id, name, arguments } => {
            let input: Value = serde_json::from_str(arguments).unwrap_or(Value::Null);
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
    }
}

fn anthropic_event(value: &Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default())
}
