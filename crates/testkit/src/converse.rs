//! Answers as Amazon Bedrock's Converse sends them: binary messages, each with headers, a payload and checksums.

use crate::answer::{Answer, Piece, Wire};
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

/// Content type of a response body that consists of such messages.
pub const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";

/// Returns one message with this payload: the event `name`, or the exception `name` if it ends in `Exception`.
pub fn frame(name: &str, payload: &Value) -> Vec<u8> {
    let kind = if name.ends_with("Exception") { "exception" } else { "event" };
    let header = |name: String, value: &str| Header::new(name, HeaderValue::String(value.to_owned().into()));
    let message = Message::new(payload.to_string().into_bytes())
        .add_header(header(format!(":{kind}-type"), name))
        .add_header(header(":content-type".to_owned(), "application/json"))
        .add_header(header(":message-type".to_owned(), kind));
    let mut out = Vec::new();
    write_message_to(&message, &mut out).expect("a message of a test is small");
    out
}

/// Returns the messages of the answer in order, each as bytes.
pub fn frames(answer: &Answer) -> Vec<Vec<u8>> {
    let mut out = vec![frame("messageStart", &json!({"role": "assistant", "p": "abc"}))];
    for (index, piece) in answer.pieces().iter().enumerate() {
        let delta =
            |delta: Value| frame("contentBlockDelta", &json!({"contentBlockIndex": index, "delta": delta}));
        match piece {
            Piece::Text(text) => {
                out.extend(answer.split(text).into_iter().map(|text| delta(json!({"text": text}))));
            }
            Piece::Reasoning { text, signature } => {
                let part = |part: Value| delta(json!({"reasoningContent": part}));
                out.extend(answer.split(text).into_iter().map(|text| part(json!({"text": text}))));
                out.extend(signature.iter().map(|text| part(json!({"signature": text}))));
            }
            Piece::Redacted(data) => {
                out.push(delta(json!({"reasoningContent": {"redactedContent": data}})));
            }
            Piece::Tool { id, name, arguments } => {
                let start = json!({"toolUse": {"toolUseId": id, "name": name}});
                out.push(frame("contentBlockStart", &json!({"contentBlockIndex": index, "start": start})));
                let pieces = answer.split(arguments).into_iter();
                out.extend(pieces.map(|text| delta(json!({"toolUse": {"input": text}}))));
            }
        }
        out.push(frame("contentBlockStop", &json!({"contentBlockIndex": index})));
    }
    out.push(frame("messageStop", &json!({"stopReason": answer.stop_reason(Wire::Converse)})));
    out.push(frame("metadata", &json!({"usage": usage(answer), "metrics": {"latencyMs": 1}})));
    out
}

fn usage(answer: &Answer) -> Value {
    let usage = answer.usage_of();
    json!({"inputTokens": usage.input, "outputTokens": usage.output,
        "totalTokens": usage.input + usage.cache_read + usage.cache_write + usage.output,
        "cacheReadInputTokens": usage.cache_read, "cacheWriteInputTokens": usage.cache_write})
}

fn block(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"text": text}),
        Piece::Reasoning { text, signature } => {
            json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}})
        }
        Piece::Redacted(data) => json!({"reasoningContent": {"redactedContent": data}}),
        Piece::Tool { id, name, arguments } => {
            let input: Value = serde_json::from_str(arguments).unwrap_or(Value::Null);
            json!({"toolUse": {"toolUseId": id, "name": name, "input": input}})
        }
    }
}

pub(crate) fn json(answer: &Answer) -> Value {
    let content: Vec<Value> = answer.pieces().iter().map(block).collect();
    json!({"output": {"message": {"role": "assistant", "content": content}},
        "stopReason": answer.stop_reason(Wire::Converse), "usage": usage(answer), "metrics": {"latencyMs": 1}})
}
