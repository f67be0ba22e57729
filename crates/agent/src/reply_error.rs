//! The reaction of the loop to a failed request: retry, compact, or end. A pure table.

use crate::machine::BreakKind;
use becket_model::{ErrorKind, ModelError};
use becket_types::TurnEnd;

/// Converts an error for the machine. `begun`: part of the answer had arrived.
///
/// The model client has already retried errors before the start of an answer, so they are final here.
pub(crate) fn kind(error: &ModelError, begun: bool) -> BreakKind {
    match error.kind {
        ErrorKind::ContextOverflow => BreakKind::Overflow,
        ErrorKind::Malformed if begun => BreakKind::Malformed,
        ErrorKind::StreamBroken | ErrorKind::Stalled if begun => BreakKind::Stream,
        ErrorKind::RateLimit
        | ErrorKind::Overloaded
        | ErrorKind::Loading
        | ErrorKind::Server
        | ErrorKind::Network
        | ErrorKind::Timeout
            if begun && error.retryable =>
        {
            BreakKind::Stream
        }
        _ => BreakKind::Final,
    }
}

/// Returns the end of the turn for a final error.
pub(crate) fn end(error: &ModelError, model: &str) -> TurnEnd {
    if error.kind == ErrorKind::Refusal {
        return TurnEnd::Refusal { reason: error.message.clone() };
    }
    let mut message = match &error.hint {
        Some(hint) => format!("{} {hint}", sentence(&error.message)),
        None => error.message.clone(),
    };
    // A server of the user's own is named by its address, and has other models than the catalog.
    if error.kind == ErrorKind::NotFound
        && !error.message.starts_with("http")
        && let Some(near) = becket_model::catalog::near(model)
    {
        message = format!("{} Did you mean {near}?", sentence(&message));
    }
    TurnEnd::ModelError { kind: name(error.kind), message, status: error.status }
}

/// Adds a full stop if the text has no final punctuation, so that another sentence can follow.
pub(crate) fn sentence(text: &str) -> String {
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{text}{stop}")
}

/// Returns the machine name of an error kind, as used in JSON.
pub(crate) fn name(kind: ErrorKind) -> String {
    let json = serde_json::to_value(kind).ok();
    json.and_then(|json| json.as_str().map(str::to_owned)).unwrap_or_else(|| "error".to_owned())
}

/// True if `--fallback-model` applies to this error. It applies to every failure except a refusal to answer, and a script or
/// recording that has no answer. A context that is too long is compacted first.
pub(crate) fn another_model_may_help(kind: ErrorKind) -> bool {
    !matches!(kind, ErrorKind::Refusal | ErrorKind::Script)
}

/// Makes the error for a stream that stopped without its final event.
pub(crate) fn ended_early() -> ModelError {
    ModelError {
        kind: ErrorKind::StreamBroken,
        message: "The answer ended without its end event.".to_owned(),
        hint: None,
        status: None,
        request_id: None,
        retryable: true,
        retry_after: None,
        limit: None,
        sent: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_means() {
        use BreakKind as B;
        use ErrorKind as E;
        for (kind_of, begun, want) in [
            (E::ContextOverflow, false, B::Overflow),
            (E::TooLarge, false, B::Final),
            (E::Malformed, true, B::Malformed),
            (E::Malformed, false, B::Final),
            (E::StreamBroken, true, B::Stream),
            (E::StreamBroken, false, B::Final),
            (E::Stalled, true, B::Stream),
            (E::Stalled, false, B::Final),
            (E::Overloaded, true, B::Stream),
            (E::Overloaded, false, B::Final),
            (E::Server, true, B::Stream),
            (E::Network, false, B::Final),
            (E::Auth, true, B::Final),
            (E::Billing, false, B::Final),
            (E::InvalidRequest, false, B::Final),
            (E::Tls, false, B::Final),
        ] {
            let error = ModelError { kind: kind_of, ..ended_early() };
            assert_eq!(kind(&error, begun), want, "{kind_of:?} {begun}");
        }
        assert_eq!(name(E::StreamBroken), "stream_broken");
    }
}
