//! Recognises an answer in another wire format than the one that was asked for, because the provider's `kind` is wrong.
//!
//! Pure. Only marks that no other format has count, so a deviation of a compatible server is not taken for another format.

use crate::kind::Kind;
use crate::{ErrorKind, ModelError};
use serde_json::Value;

/// Returns the format of an answer or of its first event; `None` if it is not known, or fits the expected format.
fn other_format(data: &Value, expected: Kind) -> Option<Kind> {
    // Gemini's answer without events is a list.
    let data = data.as_array().and_then(|list| list.first()).unwrap_or(data);
    let word = |key: &str| data[key].as_str().unwrap_or_default();
    let is = |kind: Kind| match kind {
        Kind::Chat => data["choices"].is_array() || word("object").starts_with("chat.completion"),
        Kind::Responses => word("type").starts_with("response.") || word("object") == "response",
        Kind::Anthropic => {
            word("type").starts_with("content_block_")
                || matches!(word("type"), "message" | "message_start" | "message_delta" | "message_stop")
        }
        Kind::Gemini => data["candidates"].is_array() || data["response"]["candidates"].is_array(),
        Kind::Converse => data["output"]["message"].is_object(),
    };
    if is(expected) {
        return None;
    }
    [Kind::Chat, Kind::Responses, Kind::Anthropic, Kind::Gemini].into_iter().find(|kind| is(*kind))
}

/// Returns the error for an answer, or for its first event, in another format.
pub(crate) fn refuse_other(
    json: &str,
    expected: Kind,
    server: &str,
    provider: &str,
) -> Result<(), ModelError> {
    let Some(found) = crate::json::parse_event(json).and_then(|data| other_format(&data, expected)) else {
        return Ok(());
    };
    let message =
        format!("{server} answered in the format of {}, not in that of {}.", found.words(), expected.words());
    let hint = format!("Set providers.{provider}.kind = \"{}\" in your configuration.", found.name());
    let mut error = ModelError::new(ErrorKind::Malformed, message).hint(hint);
    error.retryable = false;
    Err(error)
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic Messages",
            Self::Chat => "OpenAI Chat Completions",
            Self::Responses => "OpenAI Responses",
            Self::Gemini => "Google Gemini",
            Self::Converse => "Bedrock Converse",
        }
    }

    /// The value of `kind` in the configuration.
    fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Converse => "bedrock",
        }
    }
}
