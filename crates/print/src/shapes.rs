//! JSON shapes of `stream-json` and `json`, with the names that other programs expect.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{
    BlobId, Blobs, FinishReason, ImageSource, Message, MessageId, ModelUsage, Part, PermissionDenial,
    RefusedPrompt, Role, TurnEnd, TurnResult, Usage, sdk_names,
};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Returns the id of a model as clients of the SDK expect it: `anthropic/` is removed. All other ids keep the name of
/// their provider.
pub(crate) fn model(id: &str) -> &str {
    id.strip_prefix("anthropic/").unwrap_or(id)
}

/// Converts a denied call, with the names of the SDK.
pub(crate) fn denial(denial: &PermissionDenial, cwd: &Path) -> Value {
    let mut out = json!({
        "tool_name": sdk_names::sdk_name(&denial.tool),
        "tool_use_id": denial.call_id,
        "tool_input": sdk_names::sdk_input(&denial.tool, &denial.input, cwd),
    });
    if !denial.reason.is_empty() {
        out["reason"] = json!(denial_text(denial));
    }
    out
}

/// Returns what was denied and why. If the reason does not say how a script can allow the call, that is added.
pub(crate) fn denial_text(denial: &PermissionDenial) -> String {
    format!("{}{}", denial.reason, denial.cause.advice_for_scripts())
}

/// Makes the result for a message that could not be used, so that no turn began.
pub(crate) fn no_turn(why: &str, session: &str) -> Value {
    json!({
        "type": "result", "subtype": "error_during_execution", "is_error": true, "duration_ms": 0,
        "duration_api_ms": 0, "num_turns": 0, "session_id": session, "uuid": MessageId::new(), "stop_reason": null,
        "total_cost_usd": 0.0, "usage": usage(&Usage::default()), "modelUsage": {}, "permission_denials": [],
        "terminal_reason": "turn_setup_failed", "result": "", "errors": [why],
    })
}

/// Returns the `assistant` line for a turn that ended because the model could not be reached or refused the request. SDKs read
/// the reason in its `error`. `None` for every other end.
pub(crate) fn failed_answer(end: &TurnEnd, session: &str) -> Option<Value> {
    let TurnEnd::ModelError { kind, message, .. } = end else { return None };
    let error = match kind.as_str() {
        "auth" => "authentication_failed",
        "billing" => "billing_error",
        "rate_limit" => "rate_limit",
        "overloaded" | "loading" => "overloaded",
        "not_found" => "model_not_found",
        "server" => "server_error",
        "invalid_request" | "template" | "context_overflow" | "too_large" => "invalid_request",
        _ => "unknown",
    };
    Some(json!({
        "type": "assistant", "parent_tool_use_id": null, "session_id": session, "uuid": MessageId::new(),
        "error": error,
        "message": {
            "id": MessageId::new(), "type": "message", "role": "assistant", "model": "<synthetic>",
            "content": [{ "type": "text", "text": message }], "stop_reason": "stop_sequence",
            "stop_sequence": "", "usage": usage(&Usage::default()),
        },
    }))
}

/// Converts usage, with Anthropic's names.
pub(crate) fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
    })
}

/// Converts a part to a content block with Anthropic's names; `None` for parts that have no block.
fn block(part: &Part, blobs: &dyn Blobs, cwd: &Path) -> Option<Value> {
    Some(match part {
        Part::Text { text, .. } => json!({ "type": "text", "text": text }),
        Part::Reasoning { redacted: Some(data), .. } => json!({ "type": "redacted_thinking", "data": data }),
        Part::Reasoning { text, signature, .. } => {
            json!({ "type": "thinking", "thinking": text, "signature": signature.as_deref().unwrap_or("") })
        }
        Part::ToolCall { call_id, name, input, .. } => {
            json!({
                "type": "tool_use", "id": call_id, "name": sdk_names::sdk_name(name),
                "input": sdk_names::sdk_input(name, input, cwd),
            })
        }
        Part::ToolResult { call_id, output, is_error, .. } => {
            json!({ "type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": is_error })
        }
        Part::Image { media_type, source, .. } => {
            let source = match source {
                ImageSource::Base64(data) => encoded(media_type, data),
                ImageSource::Url(url) if media_type == "application/pdf" => {
                    return Some(json!({ "type": "document", "source": { "type": "url", "url": url } }));
                }
                ImageSource::Url(url) => json!({ "type": "url", "url": url }),
                ImageSource::Blob(id) => match blobs.get(id) {
                    Some(bytes) => encoded(media_type, &STANDARD.encode(bytes)),
                    None => return Some(missing("image", media_type, id)),
                },
            };
            json!({ "type": "image", "source": source })
        }
        Part::File { media_type, blob, name, .. } => {
            let Some(bytes) = blobs.get(blob) else { return Some(missing("file", media_type, blob)) };
            let source = match String::from_utf8(bytes) {
                Ok(text) if media_type.starts_with("text/") => {
                    json!({ "type": "text", "media_type": "text/plain", "data": text })
                }
                Ok(text) => encoded(media_type, &STANDARD.encode(text)),
                Err(bytes) => encoded(media_type, &STANDARD.encode(bytes.as_bytes())),
            };
            json!({ "type": "document", "title": name, "source": source })
        }
        Part::Unknown(_) => return None,
    })
}

/// Largest picture, in bytes, that is also in the `tool_use_result` of its call. The line already holds it once for the model, and
/// has at most 1 MiB.
const MOST_PICTURE: usize = 256 * 1024;

/// Returns the result of a call that has read a picture, in the SDK's shape. `None` for another call, or a large picture.
pub(crate) fn picture(parts: &[Part], details: &Value, blobs: &dyn Blobs) -> Option<Value> {
    if details["kind"] != "image" {
        return None;
    }
    let image = |part: &Part| match part {
        Part::Image { media_type, source: ImageSource::Blob(id), .. } => {
            Some((media_type.clone(), blobs.get(id)?))
        }
        _ => None,
    };
    let (media_type, bytes) =
        parts.iter().find_map(image).filter(|(_, bytes)| bytes.len() <= MOST_PICTURE)?;
    let (width, height) = (&details["width"], &details["height"]);
    Some(json!({
        "type": "image",
        "file": {
            "base64": STANDARD.encode(&bytes), "type": media_type, "originalSize": bytes.len(),
            "dimensions": { "originalWidth": width, "originalHeight": height },
        },
    }))
}

fn encoded(media_type: &str, data: &str) -> Value {
    json!({ "type": "base64", "media_type": media_type, "data": data })
}

fn missing(what: &str, media_type: &str, id: &BlobId) -> Value {
    json!({ "type": "text", "text": format!("[{what} {media_type}: its bytes are not in this session, blob {id}]") })
}

/// Converts a message to blocks. Images and files of a tool result are inside its block.
fn blocks(message: &Message, blobs: &dyn Blobs, cwd: &Path) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for part in &message.parts {
        let Some(block) = block(part, blobs, cwd) else { continue };
        let media = matches!(part, Part::Image { .. } | Part::File { .. });
        match out.last_mut() {
            Some(last) if media && last["type"] == "tool_result" => {
                let content = &mut last["content"];
                if let Some(text) = content.as_str() {
                    *content = json!([{ "type": "text", "text": text }]);
                }
                if let Some(content) = content.as_array_mut() {
                    content.push(block);
                }
            }
            _ => out.push(block),
        }
    }
    out
}

/// `message` of an `assistant` event: an Anthropic Message.
pub(crate) fn assistant_message(
    message: &Message,
    finish: &FinishReason,
    used: &Usage,
    blobs: &dyn Blobs,
    cwd: &Path,
) -> Value {
    json!({
        "id": message.id,
        "type": "message",
        "role": "assistant",
        "model": model(message.metadata.model.as_deref().unwrap_or_default()),
        "content": blocks(message, blobs, cwd),
        "stop_reason": finish.stop_reason(),
        "stop_sequence": null,
        "usage": usage(used),
    })
}

/// `message` of a `user` event.
pub(crate) fn user_message(message: &Message, blobs: &dyn Blobs) -> Value {
    let role = if message.role == Role::System { "system" } else { "user" };
    let mut content = blocks(message, blobs, Path::new(""));
    // A single text is sent as a string and not as a list of blocks, as clients send it themselves.
    if let [only] = content.as_mut_slice()
        && only["type"] == "text"
    {
        let text = only["text"].take();
        return json!({ "role": role, "content": text });
    }
    json!({ "role": role, "content": content })
}

/// Returns the details of a tool's result, which front ends show. `None` if it has none.
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
        TurnEnd::HookStopped { .. } => ("error_during_execution", true, "hook_stopped"),
        TurnEnd::Deferred { .. } => ("success", false, "tool_deferred"),
        TurnEnd::ModelError { .. } => ("error_during_execution", true, "api_error"),
        TurnEnd::Failed { .. } => ("error_during_execution", true, "internal_error"),
    }
}

/// Makes the result of a turn that a hook ended a success: the program wrote the hook and wanted this, and its SDK would throw an
/// exception for an error. If no step has run, this holds only for a refused prompt.
pub(crate) fn ended_by_hook(line: &mut Value, end: &TurnEnd) -> bool {
    let TurnEnd::HookStopped { refused, .. } = end else { return false };
    if refused.is_none() && line["num_turns"] == 0 {
        return false;
    }
    (line["subtype"], line["is_error"]) = (json!("success"), json!(false));
    line.as_object_mut().map(|line| line.remove("errors"));
    if let Some(RefusedPrompt { prompt, reason, .. }) = refused {
        line["result"] = json!(format!(
            "UserPromptSubmit operation blocked by hook:\n{reason}\n\nOriginal prompt: {prompt}"
        ));
    }
    true
}

/// Why a turn did not end well, in a sentence; `None` when it did.
pub(crate) fn explain(end: &TurnEnd) -> Option<String> {
    Some(match end {
        TurnEnd::Completed | TurnEnd::Deferred { .. } => return None,
        TurnEnd::Interrupted => "interrupted".to_owned(),
        TurnEnd::MaxTurns { limit } => {
            let requests = if *limit == 1 { "request" } else { "requests" };
            format!("stopped after {limit} {requests} (--max-turns); raise the limit, or use --continue")
        }
        TurnEnd::Budget { what } | TurnEnd::TokenLimit { what } | TurnEnd::TimeLimit { what } => {
            format!("{what}; raise the limit, or use --continue")
        }
        TurnEnd::Repetition { what } => {
            format!("{what}; use --continue and say what to do instead, or name another model")
        }
        TurnEnd::NoAnswer { what } | TurnEnd::CallsAsText { what } => what.clone(),
        TurnEnd::Refusal { reason } => format!("the model declined to answer: {reason}"),
        TurnEnd::ContextFull { breakdown } => breakdown.clone(),
        TurnEnd::NoRoom { what } | TurnEnd::HookStopped { what, .. } => what.clone(),
        TurnEnd::ModelError { message, .. } | TurnEnd::Failed { message } => message.clone(),
    })
}

/// Returns the reason for the failure of a turn in which no answer fits the schema. `answers`: the number of answers.
pub(crate) fn misfit(problem: &str, answers: u32) -> String {
    format!(
        "none of {answers} answers fits --json-schema ({problem}); make the schema simpler, or name another model"
    )
}

pub(crate) fn model_usage(models: &[ModelUsage]) -> Value {
    let mut out = Map::new();
    for m in models {
        out.insert(
            model(&m.model).to_owned(),
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

/// Makes the `result` event. It is also the whole output of `--output-format json`.
pub(crate) fn result(
    r: &TurnResult,
    session: &str,
    uuid: &str,
    structured: Option<&Value>,
    schema_error: Option<&str>,
    cwd: &Path,
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
        "permission_denials": r.denials.iter().map(|d| denial(d, cwd)).collect::<Vec<_>>(),
        "terminal_reason": terminal_reason,
        // The text is included even if the turn failed, so that nothing the model wrote is lost.
        "result": r.text.as_str(),
    });
    if let TurnEnd::Deferred { call } = &r.end {
        out["stop_reason"] = json!("tool_deferred");
        out["deferred_tool_use"] = json!({
            "id": call.id, "name": sdk_names::sdk_name(&call.name),
            "input": sdk_names::sdk_input(&call.name, &call.input, cwd),
        });
    }
    if let TurnEnd::ModelError { status: Some(status), .. } = &r.end {
        out["api_error_status"] = json!(status);
    }
    if r.unsaved {
        out["session_saved"] = json!(false);
    }
    if let Some(compacted) = &r.compaction.by_hand {
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
