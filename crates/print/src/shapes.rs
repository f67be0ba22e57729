//! Event shapes of `stream-json` and `json`: what other programs parse, under the names they know.

use becket_types::{FinishReason, ImageSource, Message, ModelUsage, Part, Role, TurnEnd, TurnResult, Usage};
use serde_json::{Map, Value, json};

/// Usage under Anthropic's names.
pub(crate) fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
    })
}

/// A content block under Anthropic's names; `None` for parts that have no block.
pub(crate) fn block(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text { text, .. } => json!({ "type": "text", "text": text }),
        Part::Reasoning { redacted: Some(data), .. } => json!({ "type": "redacted_thinking", "data": data }),
        Part::Reasoning { text, signature, .. } => {
            json!({ "type": "thinking", "thinking": text, "signature": signature.as_deref().unwrap_or("") })
        }
        Part::ToolCall { call_id, name, input, .. } => {
            json!({ "type": "tool_use", "id": call_id, "name": name, "input": input })
        }
        Part::ToolResult { call_id, output, is_error, .. } => {
            json!({ "type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": is_error })
        }
        Part::Image { media_type, source, .. } => {
            let source = match source {
                ImageSource::Base64(data) => {
                    json!({ "type": "base64", "media_type": media_type, "data": data })
                }
                ImageSource::Url(url) => json!({ "type": "url", "url": url }),
                ImageSource::Blob(id) => json!({ "type": "blob", "media_type": media_type, "blob": id }),
            };
            json!({ "type": "image", "source": source })
        }
        Part::File { media_type, blob, name, .. } => {
            json!({ "type": "document", "title": name, "source": { "type": "blob", "media_type": media_type, "blob": blob } })
        }
        Part::Unknown(_) => return None,
    })
}

fn blocks(message: &Message) -> Vec<Value> {
    message.parts.iter().filter_map(block).collect()
}

/// `message` of an `assistant` event: an Anthropic Message.
pub(crate) fn assistant_message(message: &Message, finish: &FinishReason, used: &Usage) -> Value {
    json!({
        "id": message.id,
        "type": "message",
        "role": "assistant",
        "model": message.metadata.model,
        "content": blocks(message),
        "stop_reason": finish.stop_reason(),
        "stop_sequence": null,
        "usage": usage(used),
    })
}

/// `message` of a `user` event.
pub(crate) fn user_message(message: &Message) -> Value {
    let role = if message.role == Role::System { "system" } else { "user" };
    let mut content = blocks(message);
    // Plain text stays plain, as clients send it themselves.
    if let [only] = content.as_mut_slice()
        && only["type"] == "text"
    {
        let text = only["text"].take();
        return json!({ "role": role, "content": text });
    }
    json!({ "role": role, "content": content })
}

/// The face of a tool's result that people see: its details.
pub(crate) fn tool_details(message: &Message) -> Option<&Value> {
    message.parts.iter().find_map(|part| match part {
        Part::ToolResult { details, .. } if !details.is_null() => Some(details),
        _ => None,
    })
}

/// `subtype`, `is_error` and `terminal_reason` of a result.
pub(crate) fn outcome(end: &TurnEnd) -> (&'static str, bool, &'static str) {
    match end {
        TurnEnd::Completed => ("success", false, "completed"),
        TurnEnd::Interrupted => ("error_during_execution", true, "aborted_streaming"),
        TurnEnd::MaxTurns { .. } => ("error_max_turns", true, "max_turns"),
        TurnEnd::Budget { .. } => ("error_max_budget_usd", true, "budget_exhausted"),
        TurnEnd::TokenLimit { .. } => ("error_max_tokens", true, "tokens_exhausted"),
        TurnEnd::TimeLimit { .. } => ("error_max_wall", true, "time_exhausted"),
        TurnEnd::NoAnswer { .. } => ("error_no_answer", true, "no_answer"),
        TurnEnd::CallsAsText { .. } => ("error_calls_as_text", true, "calls_as_text"),
        TurnEnd::Repetition { .. } => ("error_during_execution", true, "repetition"),
        TurnEnd::Refusal { .. } => ("error_during_execution", true, "refusal"),
        TurnEnd::ContextFull { .. } => ("error_during_execution", true, "prompt_too_long"),
        TurnEnd::NoRoom { .. } => ("error_no_room", true, "no_room"),
        TurnEnd::ModelError { .. } => ("error_during_execution", true, "api_error"),
        TurnEnd::Failed { .. } => ("error_during_execution", true, "internal_error"),
    }
}

/// Why a turn did not end well, in a sentence; `None` when it did.
pub(crate) fn explain(end: &TurnEnd) -> Option<String> {
    Some(match end {
        TurnEnd::Completed => return None,
        TurnEnd::Interrupted => "interrupted".to_owned(),
        TurnEnd::MaxTurns { limit } => {
            format!("stopped after {limit} turns (--max-turns); raise the limit, or go on with --continue")
        }
        TurnEnd::Budget { what } | TurnEnd::TokenLimit { what } | TurnEnd::TimeLimit { what } => {
            format!("{what}; raise the limit, or go on with --continue")
        }
        TurnEnd::Repetition { what } | TurnEnd::NoAnswer { what } | TurnEnd::CallsAsText { what } => {
            what.clone()
        }
        TurnEnd::Refusal { reason } => format!("the model declined to answer: {reason}"),
        TurnEnd::ContextFull { breakdown } => breakdown.clone(),
        TurnEnd::NoRoom { what } => what.clone(),
        TurnEnd::ModelError { message, .. } | TurnEnd::Failed { message } => message.clone(),
    })
}

pub(crate) fn model_usage(models: &[ModelUsage]) -> Value {
    let mut out = Map::new();
    for m in models {
        out.insert(
            m.model.clone(),
            json!({
                "inputTokens": m.usage.input,
                "outputTokens": m.usage.output,
                "cacheReadInputTokens": m.usage.cache_read,
                "cacheCreationInputTokens": m.usage.cache_write,
                "webSearchRequests": 0,
                "costUSD": m.cost.0,
                "contextWindow": m.context_window,
                "maxOutputTokens": m.max_output,
            }),
        );
    }
    Value::Object(out)
}

/// The `result` event, which is also the whole of `--output-format json`.
pub(crate) fn result(
    r: &TurnResult,
    session: &str,
    uuid: &str,
    structured: Option<&Value>,
    schema_error: Option<&str>,
) -> Value {
    let (mut subtype, mut is_error, mut terminal_reason) = outcome(&r.end);
    if schema_error.is_some() && !is_error {
        (subtype, is_error, terminal_reason) =
            ("error_max_structured_output_retries", true, "structured_output_retry_exhausted");
    }
    let mut out = json!({
        "type": "result",
        "subtype": subtype,
        "is_error": is_error,
        "duration_ms": r.duration,
        "duration_api_ms": r.api_duration,
        "num_turns": r.steps,
        "session_id": session,
        "uuid": uuid,
        "stop_reason": r.stop_reason,
        "total_cost_usd": r.cost,
        "usage": usage(&r.usage),
        "modelUsage": model_usage(&r.models),
        "permission_denials": r.denials,
        "terminal_reason": terminal_reason,
        // The text is there also when the turn failed: what was produced is never thrown away.
        "result": r.text,
    });
    if let TurnEnd::ModelError { status: Some(status), .. } = &r.end {
        out["api_error_status"] = json!(status);
    }
    if r.unsaved {
        out["session_saved"] = json!(false);
    }
    if let Some(compacted) = &r.compacted {
        out["compaction"] = json!(compacted);
    }
    if let Some(why) = explain(&r.end).or_else(|| schema_error.map(str::to_owned)) {
        out["errors"] = json!([why]);
    }
    if let Some(value) = structured {
        out["structured_output"] = value.clone();
    }
    out
}
