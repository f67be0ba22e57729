//! Answers as OpenAI Responses and Google Gemini stream them, and as they send them whole.

use crate::answer::{Answer, Piece};
use serde_json::{Value, json};

fn numbered(out: Vec<Value>) -> Vec<Value> {
    let number = |(at, mut event): (usize, Value)| {
        event["sequence_number"] = json!(at);
        event
    };
    out.into_iter().enumerate().map(number).collect()
}

/// Returns a piece of an answer as a complete output item of the Responses API.
fn item(index: usize, piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "message", "id": format!("msg_{index}"), "role": "assistant",
            "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}),
        Piece::Reasoning { text, signature } => json!({"type": "reasoning", "id": format!("rs_{index}"),
            "summary": [{"type": "summary_text", "text": text}], "encrypted_content": signature}),
        Piece::Redacted(data) => {
            json!({"type": "reasoning", "id": format!("rs_{index}"), "summary": [], "encrypted_content": data})
        }
        Piece::Tool { id, name, arguments } => json!({"type": "function_call", "id": format!("fc_{index}"),
            "call_id": id, "name": name, "arguments": arguments, "status": "completed"}),
    }
}

pub(crate) fn response(answer: &Answer, output: Vec<Value>) -> Value {
    let usage = answer.usage_of();
    let input = usage.input + usage.cache_read + usage.cache_write;
    let (status, details) = match answer.stop_word() {
        Some("max_output_tokens" | "max_tokens" | "length") => {
            ("incomplete", json!({"reason": "max_output_tokens"}))
        }
        Some(other) => ("incomplete", json!({"reason": other})),
        None => ("completed", Value::Null),
    };
    json!({"id": "resp_mock", "object": "response", "status": status, "incomplete_details": details,
        "error": null, "model": "mock", "output": output,
        "usage": {"input_tokens": input, "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": input + usage.output}})
}

pub(crate) fn responses_json(answer: &Answer) -> Value {
    let output = answer.pieces().iter().enumerate().map(|(index, piece)| item(index, piece)).collect();
    response(answer, output)
}

pub(crate) fn responses(answer: &Answer) -> Vec<Value> {
    let start = json!({"id": "resp_mock", "object": "response", "status": "in_progress", "output": []});
    let mut out = vec![
        json!({"type": "response.created", "response": start}),
        json!({"type": "response.in_progress", "response": start}),
    ];
    for (index, piece) in answer.pieces().iter().enumerate() {
        let whole = item(index, piece);
        let id = whole["id"].clone();
        let event = |kind: &str, field: &str, value: Value| {
            let mut event = json!({"type": format!("response.{kind}"), "item_id": id, "output_index": index});
            event[field] = value;
            event
        };
        let mut begun = whole.clone();
        for (field, empty) in [("content", json!([])), ("arguments", json!("")), ("summary", json!([]))] {
            if !begun[field].is_null() {
                begun[field] = empty;
            }
        }
        out.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        let (kind, text) = match piece {
            Piece::Text(text) => ("output_text", text.as_str()),
            Piece::Reasoning { text, .. } => ("reasoning_summary_text", text.as_str()),
            Piece::Tool { arguments, .. } => ("function_call_arguments", arguments.as_str()),
            Piece::Redacted(_) => ("", ""),
        };
        for delta in answer.split(text) {
            out.push(event(&format!("{kind}.delta"), "delta", json!(delta)));
        }
        if !kind.is_empty() {
            let field = if matches!(piece, Piece::Tool { .. }) { "arguments" } else { "text" };
            out.push(event(&format!("{kind}.done"), field, json!(text)));
        }
        out.push(json!({"type": "response.output_item.done", "output_index": index, "item": whole}));
    }
    let end = responses_json(answer);
    let kind = if end["status"] == "completed" { "response.completed" } else { "response.incomplete" };
    out.push(json!({"type": kind, "response": end}));
    numbered(out)
}

fn parts(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"text": text}),
        Piece::Reasoning { text, .. } => json!({"text": text, "thought": true}),
        Piece::Redacted(data) => json!({"text": "", "thoughtSignature": data}),
        Piece::Tool { id, name, arguments } => {
            let args: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
            let mut call = json!({"functionCall": {"name": name, "args": args}});
            if !id.is_empty() {
                call["functionCall"]["id"] = json!(id);
            }
            call
        }
    }
}

fn chunk(parts: Vec<Value>, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(word) = finish {
        candidate["finishReason"] = json!(word);
    }
    json!({"candidates": [candidate], "modelVersion": "mock", "responseId": "r_mock"})
}

/// Returns the chunks of Gemini's stream. A signature of reasoning is sent with the first call, or in a part of its own at the end.
pub(crate) fn gemini(answer: &Answer) -> Vec<Value> {
    let mut out = Vec::new();
    let signature = answer.pieces().iter().find_map(|piece| match piece {
        Piece::Reasoning { signature, .. } => signature.clone(),
        _ => None,
    });
    let mut unsigned = signature;
    for piece in answer.pieces() {
        match piece {
            Piece::Text(text) => {
                out.extend(
                    answer.split(text).into_iter().map(|text| chunk(vec![json!({"text": text})], None)),
                );
            }
            Piece::Reasoning { text, .. } => out.extend(
                answer
                    .split(text)
                    .into_iter()
                    .map(|text| chunk(vec![json!({"text": text, "thought": true})], None)),
            ),
            Piece::Redacted(_) => out.push(chunk(vec![parts(piece)], None)),
            Piece::Tool { .. } => {
                let mut part = parts(piece);
                if let Some(signature) = unsigned.take() {
                    part["thoughtSignature"] = json!(signature);
                }
                out.push(chunk(vec![part], None));
            }
        }
    }
    let finish = match answer.stop_word() {
        None => "STOP",
        Some("max_tokens" | "length" | "max_output_tokens") => "MAX_TOKENS",
        Some(other) => other,
    };
    let last = unsigned.into_iter().map(|signature| json!({"text": "", "thoughtSignature": signature}));
    let mut end = chunk(last.collect(), Some(finish));
    end["usageMetadata"] = gemini_usage(answer);
    out.push(end);
    out
}

fn gemini_usage(answer: &Answer) -> Value {
    let usage = answer.usage_of();
    let prompt = usage.input + usage.cache_read + usage.cache_write;
    json!({"promptTokenCount": prompt, "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning, "cachedContentTokenCount": usage.cache_read,
        "totalTokenCount": prompt + usage.output})
}

pub(crate) fn gemini_json(answer: &Answer) -> Value {
    let mut whole = chunk(answer.pieces().iter().map(parts).collect(), Some("STOP"));
    whole["usageMetadata"] = gemini_usage(answer);
    whole
}
