//! Owns the phrases in which providers describe errors, and the kind that follows from status, codes and text.
//!
//! Pure. Two tables decide: phrases for a request that is too long, with the limit, and phrases for each kind.

use crate::ErrorKind;
use regex::Regex;
use std::sync::LazyLock;

/// Patterns for a prompt that is too long. The first group, if there is one, is the limit in tokens.
const OVERFLOW: &[&str] = &[
    // Anthropic: "prompt is too long: 210000 tokens > 200000 maximum"
    r"prompt is too long(?::? *\d+ tokens > (\d+))?",
    // Anthropic: "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"
    r"exceed context limit: \d+ \+ \d+ > (\d+)",
    // OpenAI, DeepSeek, vLLM, OpenRouter: "maximum context length is 128000 tokens"
    r"maximum context length (?:is|of) (\d+)",
    // OpenAI: "input tokens exceed the configured limit of 272000 tokens"
    r"exceed the configured limit of (\d+)",
    r"exceeds the context window",
    r"context_length_exceeded",
    // Gemini: "the input token count (1200000) exceeds the maximum number of tokens allowed (1048576)"
    r"exceeds the maximum number of tokens allowed \((\d+)\)",
    r"input token count.{0,40}exceeds the maximum",
    // Bedrock
    r"input is too long for requested model",
    r"too many input tokens(?:.{0,20}max input tokens: (\d+))?",
    // llama.cpp: "request (5000 tokens) exceeds the available context size (4096 tokens)"
    r"exceeds the available context size(?: \((\d+) tokens\))?",
    r"exceed_context_size",
    // Ollama
    r"input length exceeds (?:the |maximum )?context length",
    r"exceeded max context length",
    // LM Studio
    r"context length of only (\d+)",
    r"initial prompt is greater than the context length",
    // vLLM
    r"longer than the maximum model length of (\d+)",
    r"maximum input length of (\d+)",
    // Mistral: "Prompt contains 40000 tokens …, too large for model with 32768 maximum context length"
    r"too large for model with (\d+) maximum context length",
    // Moonshot
    r"exceeded model token limit:? *(\d+)?",
    // xAI
    r"maximum prompt length is (\d+)",
    // GitHub's proxy: "prompt token count of 128001 exceeds the limit of 128000"
    r"prompt token count of \d+ exceeds the limit of (\d+)",
    // SGLang: "The input (40000 tokens) is longer than the model's context length (32768 tokens)"
    r"longer than the model(?:'s)? context length(?: \((\d+) tokens\))?",
    // Cohere: "too many tokens: total number of tokens (prompt and prediction) cannot exceed 4096"
    r"total number of tokens .{0,40}cannot exceed (\d+)",
    // Text Generation Inference: "`inputs` must have less than 4096 tokens. Given: 5000"
    r"inputs` must have less than (\d+) tokens",
    // Text Generation Inference, Together
    r"inputs` tokens \+ `max_new_tokens` must be <= (\d+)",
    r"(?:inputs|input) tokens \+ .{0,20}must be <= (\d+)",
    // Groq, Cerebras
    r"reduce the length of the messages",
    // Z.ai, MiniMax
    r"prompt exceeds max length",
    r"context window exceeds limit",
    r"model_context_window_exceeded",
    // Groq, with status 413: a request that alone exceeds the limit for a minute
    r"tokens per min(?:ute)?\b.{0,20}limit (\d+), requested \d+",
];

/// Patterns for a body with too many bytes. The first group, if there is one, is the limit, and the second its unit.
const TOO_MANY_BYTES: &[&str] = &[
    // Anthropic
    r"request_too_large",
    // nginx, Cloudflare, Express, Vercel and most others, by the names that the status has had
    r"request entity too large",
    r"entity\.too\.large",
    r"(?:payload|content)[ _]too[ _]large",
    // Gemini, with status 400: "Request payload size exceeds the limit: 20971520 bytes."
    r"request payload size exceeds the limit(?::? *(\d+) *(bytes))?",
    // LiteLLM: "Request size is too large. Request size is 12.5 MB. Max size is 10 MB"
    r"request size is too large(?:.{0,60}max size is ([\d.]+) *([kmg]?b))?",
    // Bedrock: "Value at 'body' failed to satisfy constraint: Member must have length less than or equal to 25000000"
    r"member must have length less than or equal to (\d{6,})",
    // AWS Lambda: "Request must be smaller than 6291456 bytes for the InvokeFunction operation"
    r"request must be smaller than (\d+) (bytes)",
    // Go, Fastify
    r"request body (?:is )?too large",
    // axum
    r"request body: length limit exceeded",
    // actix: "JSON payload (3145728 bytes) is larger than allowed (limit: 2097152 bytes)."
    r"payload .{0,40}larger than allowed(?: \(limit: (\d+) (bytes)\))?",
    // aiohttp: "Maximum request body size 1048576 exceeded, actual body size 1200000"
    r"maximum request body size (\d+) exceeded",
    // Next.js: "Body exceeded 1mb limit"
    r"body exceeded ([\d.]+) ?([kmg]?b) limit",
    // Kong
    r"request size limit exceeded",
    // Services of one's own: "Maximum is 1048576 bytes", "exceeds 1048576 bytes"
    r"request (?:body )?(?:is )?(?:too large|exceeds).{0,20}?(\d+) (bytes)",
];

/// The finding of a text about the length of the prompt in tokens, or of the body in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    No,
    /// The prompt or the body is too long; the text names no limit.
    Yes,
    /// The prompt or the body is too long; this is the limit in tokens or bytes.
    Beyond(u64),
}

pub(super) fn overflow(text: &str) -> Overflow {
    static PATTERNS: LazyLock<Vec<Regex>> =
        LazyLock::new(|| OVERFLOW.iter().filter_map(|p| Regex::new(p).ok()).collect());
    // Numbers may be grouped: 200,000.
    let text = ungroup(text);
    let mut hit = false;
    for pattern in PATTERNS.iter() {
        if let Some(found) = pattern.captures(&text) {
            hit = true;
            if let Some(limit) = found.get(1).and_then(|m| m.as_str().parse().ok()).filter(|n| *n > 0) {
                return Overflow::Beyond(limit);
            }
        }
    }
    if hit { Overflow::Yes } else { Overflow::No }
}

/// Looks for words about the bytes of the body. A limit is in bytes.
pub(super) fn too_many_bytes(text: &str) -> Overflow {
    static PATTERNS: LazyLock<Vec<Regex>> =
        LazyLock::new(|| TOO_MANY_BYTES.iter().filter_map(|p| Regex::new(p).ok()).collect());
    let text = ungroup(text);
    let mut hit = Overflow::No;
    for found in PATTERNS.iter().filter_map(|pattern| pattern.captures(&text)) {
        let number = found.get(1).and_then(|number| number.as_str().parse::<f64>().ok());
        let unit = match found.get(2).map_or("bytes", |unit| unit.as_str()) {
            "kb" => 1024.0,
            "mb" => 1024.0 * 1024.0,
            "gb" => 1024.0 * 1024.0 * 1024.0,
            _ => 1.0,
        };
        let limit = number.map(|number| (number * unit) as u64).filter(|limit| *limit > 0);
        if let Some(limit) = limit {
            return Overflow::Beyond(limit);
        }
        hit = Overflow::Yes;
    }
    hit
}

fn ungroup(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_digit);
    let keep = |(i, c): (usize, char)| {
        let grouping =
            c == ',' && digit(i.checked_sub(1)) && (1..=3).all(|k| digit(Some(i + k))) && !digit(Some(i + 4));
        (!grouping).then_some(c)
    };
    text.char_indices().filter_map(keep).collect()
}

/// Phrases in type, code or message that decide the kind. They take precedence over the status.
const WORDS: &[(ErrorKind, &[&str])] = &[
    (
        ErrorKind::Billing,
        &[
            "credit balance is too low",
            "insufficient_quota",
            "insufficient balance",
            "insufficient credits",
            "insufficient funds",
            "more credits",
            "billing_error",
            "billing_hard_limit",
            "billing_not_active",
            "spend limit",
            "spending limit",
            "payment required",
            "out of credits",
            "account is not active",
            "arrearage",
        ],
    ),
    // llama.cpp; Hugging Face's servers.
    (ErrorKind::Loading, &["loading model", "is currently loading"]),
    (ErrorKind::Overloaded, &["overloaded", "server_is_overloaded", "no available workers", "at capacity"]),
    (
        ErrorKind::Auth,
        &[
            "authentication_error",
            "permission_error",
            "invalid_api_key",
            "api key not valid",
            "invalid x-api-key",
            "incorrect api key",
            "invalid api key",
            "organization has been disabled",
            "account_deactivated",
            "token has expired",
            "expiredtoken",
            "api key expired",
            "api key has expired",
            "expired api key",
            "expired_api_key",
        ],
    ),
    (
        ErrorKind::NotFound,
        &[
            "model_not_found",
            "not_found_error",
            "try pulling it first",
            "model does not exist",
            "no such model",
            "is not a valid model id",
            // Bedrock
            "model identifier is invalid",
            "on-demand throughput isn",
            // LiteLLM, Mistral
            "invalid model name",
            "invalid_model",
        ],
    ),
    (
        ErrorKind::Refusal,
        &[
            "content_policy_violation",
            "content management policy",
            "responsibleaipolicyviolation",
            "content_filter",
        ],
    ),
    // llama.cpp answers 500 to a history in which a tool call was cut. A retry never helps.
    (
        ErrorKind::InvalidRequest,
        &[
            "failed to parse tool call arguments",
            "invalid_request_error",
            "failed to parse messages",
            "json.exception",
        ],
    ),
    (
        ErrorKind::RateLimit,
        &[
            "rate_limit_error",
            "rate_limit_exceeded",
            "resource_exhausted",
            "too many requests",
            "throttlingexception",
        ],
    ),
    (ErrorKind::Timeout, &["timeout_error", "deadline_exceeded"]),
    (ErrorKind::Server, &["api_error", "server_error", "internal_error", "internal server error"]),
];

/// Phrases of chat templates, and of the servers that run them, when they refuse the order or kind of messages.
const TEMPLATE: &[&str] = &[
    // Mistral, Gemma, Llama 2, Command-R; Anthropic's word for the same is "roles must alternate between".
    "roles must alternate",
    // Qwen
    "system message must be",
    "no user query found",
    // Gemma 2
    "system role not supported",
    "system role is not supported",
    "only user and assistant roles",
    "only user, system and assistant roles",
    "only user, assistant and tool roles",
    // Llama 3.x
    "only supports single tool",
    // Mistral's templates and API
    "tool call ids should be alphanumeric",
    "tool call id was",
    "unexpected role",
    "expected last role",
    "not the same number of function calls and responses",
    // gpt-oss
    "message has tool role, but",
    // The engines: llama.cpp, vLLM, LM Studio, MLX
    "raise_exception",
    "jinja",
    "value is not callable",
    "chat template",
    "chat_template",
    "templateerror",
    "nonetype",
];

/// Phrases of the same servers for errors that no layout of messages can avoid.
const NOT_THE_MESSAGES: &[&str] =
    &["--jinja", "--chat-template", "template is not set", "no chat template", "provide a chat template"];

fn is_template(status: Option<u16>, text: &str) -> bool {
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    !matches!(status, Some(401..=408 | 413 | 429 | 503 | 529)) && says(TEMPLATE) && !says(NOT_THE_MESSAGES)
}

/// True if the provider refuses the country of the request, which no other key changes.
pub(super) fn is_unserved_place(text: &str) -> bool {
    ["unsupported_country", "country, region, or territory not supported", "user location is not supported"]
        .iter()
        .any(|words| text.contains(words))
}

pub(super) fn kind_of(status: Option<u16>, codes: &str, text: &str) -> ErrorKind {
    if is_template(status, text) {
        return ErrorKind::Template;
    }
    // A type such as `invalid_request_error` is less precise than the status, so only the phrases of the table count.
    let word =
        |kind: ErrorKind| WORDS.iter().any(|(k, words)| *k == kind && words.iter().any(|w| text.contains(w)));
    if word(ErrorKind::Billing) || status == Some(402) {
        return ErrorKind::Billing;
    }
    if too_many_bytes(text) != Overflow::No {
        return ErrorKind::TooLarge;
    }
    if is_unserved_place(text) {
        return ErrorKind::InvalidRequest;
    }
    match status {
        Some(511) => return ErrorKind::Network,
        Some(401 | 403) => return ErrorKind::Auth,
        // 501: the server takes no POST at all, such as one for files.
        Some(404 | 405 | 410 | 501) => return ErrorKind::NotFound,
        Some(408) => return ErrorKind::Timeout,
        Some(413) => return ErrorKind::TooLarge,
        Some(429) => return ErrorKind::RateLimit,
        Some(529) => return ErrorKind::Overloaded,
        _ => {}
    }
    for kind in [
        ErrorKind::Auth,
        ErrorKind::NotFound,
        ErrorKind::Refusal,
        ErrorKind::Loading,
        ErrorKind::Overloaded,
        ErrorKind::InvalidRequest,
        ErrorKind::RateLimit,
        ErrorKind::Timeout,
        ErrorKind::Server,
    ] {
        // A message's words must not override a clear 4xx status. Only codes may.
        let clear = matches!(status, Some(400..=499))
            && !matches!(kind, ErrorKind::Auth | ErrorKind::NotFound | ErrorKind::Refusal);
        let place = if clear { codes } else { text };
        if WORDS.iter().any(|(k, words)| *k == kind && words.iter().any(|w| place.contains(w))) {
            return kind;
        }
    }
    match status {
        Some(503) => ErrorKind::Overloaded,
        Some(504) => ErrorKind::Timeout,
        Some(409 | 425) => ErrorKind::Server,
        Some(500..) => ErrorKind::Server,
        Some(300..=499) => ErrorKind::InvalidRequest,
        _ => ErrorKind::Server,
    }
}
