//! Classifies providers' errors, in all the dialects in which they are written.
//!
//! [`classify`] takes status, headers and body, and returns one [`ModelError`]: its kind, a text for people, whether a retry
//! may succeed, the time to wait, and the true token limit if the text names it. Two tables decide: phrases for a context
//! that is too long (with the number), and phrases for each kind. Codes may be strings or integers. Errors may have an outer
//! object or none, and may be arrays, plain text or HTML.

#[cfg(test)]
mod hint_tests;
mod phrases;
#[cfg(test)]
mod tests;

use self::phrases::{Overflow, kind_of, overflow, too_many_bytes};
use crate::{ErrorKind, ModelError, body_limit};
use becket_types::{Millis, cut_end};
use serde_json::Value;

/// Longest text of a server that is shown to people, in bytes.
const SHOWN: usize = 600;

impl ModelError {
    /// Makes an error without hint, status and limits. `message`: one or two sentences for people. The kind decides if a retry may
    /// help.
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

    /// Adds advice for the user: one sentence that says what to do.
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

    pub(crate) fn default_hint(self) -> Option<&'static str> {
        match self {
            Self::Auth => Some("Check the API key and that it may use this model (`becket doctor`)."),
            Self::Billing => {
                Some("Add credits or raise the spend limit at the provider, or choose another model.")
            }
            Self::NotFound => Some(
                "Check the model's name (`becket models --remote` lists those of the server) and the base URL.",
            ),
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

/// Status "Network Authentication Required".
const LOGIN_OF_NETWORK: u16 = 511;

/// The next step where the page of a network may have answered in place of the provider.
pub(crate) const SIGN_IN: &str = "If this network asks for a login (hotel, train), open any web page in a browser and sign in, then try again.";

/// A response that is not an answer of a model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failure<'a> {
    /// HTTP status; absent for an error event inside a stream.
    pub status: Option<u16>,
    pub body: &'a str,
    /// The wait from the headers `retry-after-ms` or `retry-after`. `should_retry` and `request_id` are from headers, too.
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
    // A quota that is filled again at a known time needs no credits, only a wait.
    let kind = if kind == ErrorKind::Billing && fills_again(&text) { ErrorKind::WaitTooLong } else { kind };
    let said =
        if facts.message.is_empty() { String::new() } else { format!(": {}", printable(&facts.message)) };
    let status_words = status.map_or(String::new(), |s| format!(" (status {s})"));
    let mut error = ModelError::new(kind, format!("{} {}{status_words}{said}", failure.server, kind.words()));
    error.status = status;
    error.request_id = failure.request_id.map(str::to_owned).or(facts.request_id);
    error.retry_after = failure.retry_after.or(facts.retry);
    error.hint = hint_for(kind, &text).map(str::to_owned);
    if status == Some(LOGIN_OF_NETWORK) {
        (error.hint, error.retryable) = (Some(SIGN_IN.to_owned()), false);
    }
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

/// True if the text says that a limit of use is lifted later: "Your limit will reset at 2026-11-27 09:00:00".
fn fills_again(text: &str) -> bool {
    let quota = ["limit", "quota", "usage"].iter().any(|word| text.contains(word));
    let later = [
        "reset at",
        "resets at",
        "will reset",
        "reset on",
        "resets on",
        "reset in",
        "resets in",
        "reset after",
    ];
    quota && later.iter().any(|words| text.contains(words))
}

fn hint_for(kind: ErrorKind, text: &str) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if kind == ErrorKind::WaitTooLong {
        return Some("Wait until then (`--wait-for-quota` waits), or choose another model.");
    }
    let is_old = [
        "signature expired",
        "signature not yet current",
        "is now earlier than",
        "requesttimetooskewed",
        "request has expired",
        "clock",
    ];
    if kind == ErrorKind::Auth && has(&is_old) {
        return Some(
            "The clock of this machine differs from the server's: correct the time (`timedatectl` shows it), then try again.",
        );
    }
    if kind == ErrorKind::Auth && has(&["security token included in the request is expired", "expiredtoken"])
    {
        return Some(
            "The login at the cloud has expired: log in again (AWS: `aws sso login`), then try again.",
        );
    }
    let is_expired_key = text.contains("key") && text.contains("expired");
    if kind == ErrorKind::Auth && is_expired_key {
        return Some(
            "Make a new key at the provider and put it in place of this one (`becket login PROVIDER` saves one).",
        );
    }
    if kind == ErrorKind::InvalidRequest && phrases::is_unserved_place(text) {
        return Some(
            "The provider does not serve the country that this request comes from (a VPN or proxy counts); choose another provider.",
        );
    }
    if kind == ErrorKind::Auth && text.contains("an html page") {
        return Some(
            "A proxy or a firewall answered in place of the provider: check the base URL, HTTPS_PROXY and the network.",
        );
    }
    if kind == ErrorKind::NotFound && text.contains("on-demand throughput isn") {
        return Some("Name an inference profile: put us., eu., apac. or global. before the model's name.");
    }
    if kind == ErrorKind::InvalidRequest {
        if has(&[
            "max_completion_tokens' instead",
            "use 'max_completion_tokens",
            "max_completion_tokens instead",
        ]) {
            return Some(
                "Set `compat.output_limit = \"max_completion_tokens\"` in [providers.NAME] of your configuration.",
            );
        }
        if has(&[
            "max_tokens",
            "max_completion_tokens",
            "max_output_tokens",
            "completion tokens",
            "output tokens",
        ]) && has(&["too large", "at most", "maximum", "less than or equal", "exceed", "greater than"])
        {
            return Some(
                "Set the model's `max_output` in [[providers.NAME.models]] of your configuration to the number that the server names.",
            );
        }
        if has(&["effort", "thinking", "xhigh", "budget_tokens"])
            && has(&[
                "not support",
                "unsupported",
                "supported values",
                "invalid value",
                "not allowed",
                "unknown",
            ])
        {
            return Some(
                "Choose another `--effort`, or leave it out; `compat.effort = \"none\"` in [providers.NAME] never sends one.",
            );
        }
    }
    if kind == ErrorKind::NotFound && text.contains("try pulling it first") {
        return Some("Pull the model on the server first: `ollama pull NAME`.");
    }
    kind.default_hint()
}

fn facts(body: &str) -> Facts {
    let body = body.trim_start_matches('\u{feff}').trim();
    let Ok(json) = becket_types::parse_json::<Value>(body) else {
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
        facts.message = format!("{} ({})", facts.message, printable(raw));
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

/// Describes a body that is not an answer, and what to check.
pub(crate) fn not_an_answer(body: &[u8]) -> (String, String) {
    const CHECK: &str = "Check that the base URL points at a model API and not at a web page or a proxy.";
    let start = body.trim_ascii_start();
    if start.first() == Some(&b'<') {
        let title = plain(&String::from_utf8_lossy(start)).replacen("an HTML page", "a web page", 1);
        return (title, format!("{CHECK} {SIGN_IN}"));
    }
    let what = if start.is_empty() {
        "nothing"
    } else if start.starts_with(b"\x1f\x8b") {
        "compressed bytes"
    } else {
        "something that is neither an event stream nor JSON"
    };
    (what.to_owned(), CHECK.to_owned())
}

fn printable(text: &str) -> String {
    let text = text.trim();
    let head = cut_end(text, SHOWN);
    if head.len() == text.len() { head.to_owned() } else { format!("{head}…") }
}

/// The text of a body that is not JSON. For HTML it is the page's title.
fn plain(body: &str) -> String {
    if !body.starts_with('<') {
        return printable(body);
    }
    let lower = body.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|start| {
        let end = lower[start..].find("</title>")? + start;
        body.get(start + 7..end)
    });
    title.map_or_else(|| "an HTML page".to_owned(), |t| format!("an HTML page: {}", printable(t)))
}
