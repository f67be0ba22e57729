//! Classifies providers' errors, in all the dialects in which they are written.
//!
//! [`classify`] takes status, headers and body, and returns one [`ModelError`]: its kind, a text for people, whether a retry
//! may succeed, the time to wait, and the true token limit if the text names it. Two tables decide: phrases for a context
//! that is too long (with the number), and phrases for each kind. Codes may be strings or integers. Errors may have an outer
//! object or none, and may be arrays, plain text or HTML.

use crate::{ErrorKind, ModelError, body_limit};
use becket_types::{Millis, cut_end};
use regex::Regex;
use serde_json::Value;
use std::sync::LazyLock;

/// Longest text of a server that is shown to people, in bytes.
const SHOWN: usize = 600;

impl ModelError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            status: None,
            request_id: None,
            retryable: kind.may_heal(),
            retry_after: None,
            limit: None,
            sent: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl ErrorKind {
    /// True if sending the same request again may succeed although the user does nothing.
    pub(crate) fn may_heal(self) -> bool {
        match self {
            Self::RateLimit
            | Self::Overloaded
            | Self::Loading
            | Self::Server
            | Self::Network
            | Self::Dns
            | Self::Timeout
            | Self::Stalled
            | Self::StreamBroken
            | Self::Malformed => true,
            Self::Auth
            | Self::Billing
            | Self::NotFound
            | Self::Tls
            | Self::ContextOverflow
            | Self::TooLarge
            | Self::InvalidRequest
            | Self::Template
            | Self::Refusal
            | Self::Script
            | Self::WaitTooLong => false,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Auth => "refused the credentials",
            Self::Billing => "refuses for billing reasons",
            Self::NotFound => "does not know this model or address",
            Self::RateLimit => "limits the rate of requests",
            Self::Overloaded => "is overloaded",
            Self::Loading => "is still loading the model",
            Self::Server => "failed",
            Self::Network => "cannot be reached",
            Self::Dns => "has a name that cannot be resolved",
            Self::Tls => "cannot be trusted: TLS failed",
            Self::Timeout => "took too long",
            Self::Stalled => "stopped sending",
            Self::StreamBroken => "broke off its answer",
            Self::Malformed => "sent something that is not an answer",
            Self::ContextOverflow => "says that the prompt is too long",
            Self::TooLarge => "says that the request has too many bytes",
            Self::InvalidRequest => "refused the request as invalid",
            Self::Template => "cannot put these messages into its chat template",
            Self::Refusal => "refused to answer",
            Self::Script => "cannot go on",
            Self::WaitTooLong => "asks to wait too long",
        }
    }

    fn default_hint(self) -> Option<&'static str> {
        match self {
            Self::Auth => Some("Check the API key and that it may use this model (`becket doctor`)."),
            Self::Billing => {
                Some("Add credits or raise the spend limit at the provider, or choose another model.")
            }
            Self::NotFound => Some("Check the model's name (`becket models`) and the base URL."),
            Self::Tls => Some(
                "Check the address and the certificate of the server; a private issuer is named with SSL_CERT_FILE=FILE (PEM).",
            ),
            Self::ContextOverflow => Some("Compact the session, or switch to a model with a larger window."),
            Self::TooLarge => Some(body_limit::HINT),
            Self::RateLimit | Self::Overloaded => {
                Some("Try again later, or name a model to go on with (`--fallback-model`).")
            }
            Self::Loading => Some("Try again once the model is loaded."),
            Self::Server | Self::Timeout => Some("Try again; if it stays so, check the server."),
            Self::Template => {
                Some("Start the server with a chat template that supports tools, or choose another model.")
            }
            Self::InvalidRequest => Some("`becket context` shows what is sent; another model may take it."),
            _ => None,
        }
    }
}

/// A response that is no answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failure<'a> {
    /// HTTP status; absent for an error event inside a stream.
    pub status: Option<u16>,
    pub body: &'a str,
    /// The wait from the headers `retry-after-ms` or `retry-after`. The next fields are also from headers.
    pub retry_after: Option<Millis>,
    pub should_retry: Option<bool>,
    pub request_id: Option<&'a str>,
    /// The server's name in the message.
    pub server: &'a str,
    /// Codes of this server for a used-up quota. A retry never helps.
    pub fatal_codes: &'a [String],
}

/// The facts that an error's body contains.
#[derive(Debug, Default)]
struct Facts {
    message: String,
    /// Type, code and status words, in lower case, separated by blanks.
    codes: String,
    /// Each code as it was written, numbers too.
    all_codes: Vec<String>,
    /// A status inside the body, used if the real one is 200 or absent.
    number: Option<u16>,
    window: Option<u64>,
    /// Limit on bytes, as Express gives it beside its text.
    bytes: Option<u64>,
    request_id: Option<String>,
    retry: Option<Millis>,
}

impl Facts {
    fn has_code(&self, codes: &[String]) -> bool {
        self.all_codes.iter().any(|own| codes.contains(own))
    }
}

/// Turns a failure into a typed error.
pub(crate) fn classify(failure: &Failure<'_>) -> ModelError {
    let facts = facts(failure.body);
    let status = failure.status.filter(|s| *s >= 300).or(facts.number);
    let text = format!("{} {}", facts.codes, facts.message).to_lowercase();
    let overflow = overflow(&text);
    let kind = match overflow {
        // A request with more tokens than the limit of a minute will never fit, so it counts as too long.
        Overflow::Yes | Overflow::Beyond(_)
            if status == Some(413) || (!text.contains("per minute") && status != Some(429)) =>
        {
            ErrorKind::ContextOverflow
        }
        _ if facts.has_code(failure.fatal_codes) => ErrorKind::Billing,
        _ => kind_of(status, &facts.codes, &text),
    };
    let said = if facts.message.is_empty() { String::new() } else { format!(": {}", shown(&facts.message)) };
    let status_words = status.map_or(String::new(), |s| format!(" (status {s})"));
    let mut error = ModelError::new(kind, format!("{} {}{status_words}{said}", failure.server, kind.words()));
    error.status = status;
    error.request_id = failure.request_id.map(str::to_owned).or(facts.request_id);
    error.retry_after = failure.retry_after.or(facts.retry);
    error.hint = hint_for(kind, &text).map(str::to_owned);
    if kind == ErrorKind::ContextOverflow {
        error.limit = if let Overflow::Beyond(limit) = overflow { Some(limit) } else { facts.window };
    }
    if kind == ErrorKind::TooLarge {
        error.limit =
            if let Overflow::Beyond(limit) = too_many_bytes(&text) { Some(limit) } else { facts.bytes };
    }
    if let Some(should) = failure.should_retry {
        // A server may forbid any retry. But if it allows one for an error that is permanent, that is ignored.
        let never = matches!(kind, ErrorKind::Auth | ErrorKind::Billing | ErrorKind::Template);
        error.retryable = should && !never;
    }
    error
}

fn hint_for(kind: ErrorKind, text: &str) -> Option<&'static str> {
    if kind == ErrorKind::NotFound && text.contains("try pulling it first") {
        return Some("Pull the model on the server first: `ollama pull NAME`.");
    }
    kind.default_hint()
}

fn facts(body: &str) -> Facts {
    let body = body.trim_start_matches('\u{feff}').trim();
    let Ok(json) = serde_json::from_str::<Value>(body) else {
        return Facts { message: plain(body), ..Facts::default() };
    };
    let root = match &json {
        Value::Array(items) => items.first().unwrap_or(&Value::Null),
        other => other,
    };
    let error = match &root["error"] {
        Value::Null => root,
        Value::String(inner) if inner.trim_start().starts_with('{') => return facts(inner),
        other => other,
    };
    let mut facts = Facts::default();
    if let Value::String(text) = error {
        facts.message.clone_from(text);
    }
    for key in ["type", "code", "status", "reason"] {
        for holder in [error, root] {
            match &holder[key] {
                Value::String(word) if word != "error" => {
                    facts.all_codes.push(word.clone());
                    facts.codes.push_str(&word.to_lowercase());
                    facts.codes.push(' ');
                }
                Value::Number(n) => {
                    facts.all_codes.push(n.to_string());
                    facts.number = facts.number.or(n.as_u64().and_then(http_status));
                }
                _ => {}
            }
        }
    }
    if let Some(code) = facts.codes.split(' ').find_map(|c| c.parse::<u64>().ok()).and_then(http_status) {
        facts.number = facts.number.or(Some(code));
    }
    if facts.message.is_empty() {
        facts.message = ["message", "detail", "error_description", "msg", "title"]
            .iter()
            .find_map(|key| [&error[*key], &root[*key]].into_iter().find(|v| !v.is_null()))
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .unwrap_or_default();
    }
    // OpenRouter passes the upstream's own words on in `metadata.raw`.
    if let Some(raw) = error["metadata"]["raw"].as_str() {
        facts.message = format!("{} ({})", facts.message, shown(raw));
    }
    if facts.message.is_empty() {
        facts.message = plain(body);
    }
    facts.window = error["n_ctx"].as_u64();
    facts.bytes = ["limit", "max_size"].iter().find_map(|key| error[*key].as_u64());
    facts.request_id = root["request_id"].as_str().map(str::to_owned);
    facts.retry = retry_in_details(error).or_else(|| retry_in_text(&facts.message));
    facts
}

fn http_status(n: u64) -> Option<u16> {
    (300..600).contains(&n).then_some(n as u16)
}

/// Google's `details: [{"retryDelay": "12s"}]`.
fn retry_in_details(error: &Value) -> Option<Millis> {
    let details = error["details"].as_array()?;
    let delay = details.iter().find_map(|d| d["retryDelay"].as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    millis(seconds)
}

/// OpenAI's "Please try again in 1.2s" (also `350ms`, `2m3.5s`).
fn retry_in_text(message: &str) -> Option<Millis> {
    let lower = message.to_lowercase();
    let (_, rest) = lower.split_once("try again in ")?;
    let mut seconds = 0.0;
    let mut number = String::new();
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '0'..='9' | '.' => number.push(c),
            'h' => seconds += 3600.0 * std::mem::take(&mut number).parse::<f64>().ok()?,
            'm' if chars.peek() == Some(&'s') => {
                chars.next();
                seconds += std::mem::take(&mut number).parse::<f64>().ok()? / 1000.0;
            }
            'm' => seconds += 60.0 * std::mem::take(&mut number).parse::<f64>().ok()?,
            's' => seconds += std::mem::take(&mut number).parse::<f64>().ok()?,
            _ => break,
        }
    }
    if seconds > 0.0 { millis(seconds) } else { None }
}

fn millis(seconds: f64) -> Option<Millis> {
    (seconds.is_finite() && seconds >= 0.0).then(|| Millis((seconds * 1000.0).min(1e15) as u64))
}

fn shown(text: &str) -> String {
    let text = text.trim();
    let head = cut_end(text, SHOWN);
    if head.len() == text.len() { head.to_owned() } else { format!("{head}…") }
}

/// The text of a body that is not JSON. For HTML it is the page's title.
fn plain(body: &str) -> String {
    if !body.starts_with('<') {
        return shown(body);
    }
    let lower = body.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|start| {
        let end = lower[start..].find("</title>")? + start;
        body.get(start + 7..end)
    });
    title.map_or_else(|| "an HTML page".to_owned(), |t| format!("an HTML page: {}", shown(t)))
}

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
    // Groq, with status 413
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
enum Overflow {
    No,
    /// It is too long; no limit is named.
    Yes,
    /// It is too long for this many tokens or bytes.
    Beyond(u64),
}

fn overflow(text: &str) -> Overflow {
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
fn too_many_bytes(text: &str) -> Overflow {
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

fn kind_of(status: Option<u16>, codes: &str, text: &str) -> ErrorKind {
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
    match status {
        Some(401 | 403) => return ErrorKind::Auth,
        Some(404 | 405 | 410) => return ErrorKind::NotFound,
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

#[cfg(test)]
mod tests;
