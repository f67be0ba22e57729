//! Reads JSON as models and servers write it: arguments of calls, events of streams, and the errors of both.
//!
//! Accepts only deviations that leave no doubt about the meaning.

use crate::{ErrorKind, ModelError};
use serde_json::{Map, Value};

/// The result of parsing a call's arguments.
#[derive(Debug, PartialEq)]
pub(crate) enum Arguments {
    Object(Map<String, Value>),
    Empty,
    /// The text ends in the middle of a value.
    Incomplete,
    Invalid,
}

/// Parses a call's arguments. Accepts deviations that leave no doubt about the meaning: a byte order mark, an empty text or
/// `null` for no arguments, an object that was encoded twice. Anything else that is not a JSON object is invalid. The
/// parser limits the depth to 128.
pub(crate) fn parse_arguments(text: &str) -> Arguments {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if text.is_empty() {
        return Arguments::Empty;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) => Arguments::Object(map),
        Ok(Value::Null) => Arguments::Object(Map::new()),
        Ok(Value::String(inner)) => match serde_json::from_str::<Value>(&inner) {
            Ok(Value::Object(map)) => Arguments::Object(map),
            _ => Arguments::Invalid,
        },
        Ok(_) => Arguments::Invalid,
        Err(error) if error.is_eof() => Arguments::Incomplete,
        Err(_) => Arguments::Invalid,
    }
}

/// Parses the JSON of an event or of a whole answer, as [`becket_types::parse_json`] does.
pub(crate) fn parse_event<T: serde::de::DeserializeOwned>(data: &str) -> Option<T> {
    becket_types::parse_json(data).ok()
}

/// The error for an event that is not JSON: the stream is broken, and the message quotes the event.
pub(crate) fn not_json(data: &str, server: &str) -> ModelError {
    let shown = becket_types::cut_end(data.trim(), 120);
    ModelError::new(ErrorKind::StreamBroken, format!("{server} sent an event that is not JSON: `{shown}`."))
        .hint("Try again; if it stays so, check the server, or a proxy in between.")
}

/// The error for a complete JSON document that is not an answer of a model.
pub(crate) fn other_shape(data: &str, server: &str) -> ModelError {
    let shown = becket_types::cut_end(data.trim(), 120);
    let message = format!("{server} answered with JSON that is no answer ({} bytes): `{shown}`", data.len());
    ModelError::new(ErrorKind::Malformed, message)
        .hint("Check that the base URL points at the right kind of model API.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn arguments_table() {
        let deep = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
        for (text, want) in [
            (r#"{"a":1}"#, Arguments::Object(json!({"a":1}).as_object().unwrap().clone())),
            (" \u{feff}{}", Arguments::Object(Map::new())),
            ("\u{feff} {}", Arguments::Object(Map::new())),
            ("", Arguments::Empty),
            (" \n", Arguments::Empty),
            ("null", Arguments::Object(Map::new())),
            (r#""{\"a\":1}""#, Arguments::Object(json!({"a":1}).as_object().unwrap().clone())),
            (r#""text""#, Arguments::Invalid),
            ("[1]", Arguments::Invalid),
            ("{\"a\":", Arguments::Incomplete),
            ("{\"a\":\"x", Arguments::Incomplete),
            (r#"{"a":1}{"a":1}"#, Arguments::Invalid),
            (r#"{"a":NaN}"#, Arguments::Invalid),
            (r#"{"a":"\ud800"}"#, Arguments::Invalid),
            (&deep, Arguments::Invalid),
        ] {
            assert_eq!(parse_arguments(text), want, "{text:.40}");
        }
    }

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        for (text, want) in [
            (r#""\ud83d\ude00""#, Some("😀")),
            (r#""\ud83d""#, Some("\u{fffd}")),
            (r#""a\\ud83d""#, Some("a\\ud83d")),
            (r#""\ude00\ud83d x""#, Some("\u{fffd}\u{fffd} x")),
            (r#""\ud83"#, None),
        ] {
            assert_eq!(parse_event::<String>(text).as_deref(), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parsers(text in "\\PC{0,60}|(\\\\u[dD8-9a-f]{0,4}|[{}\":,\\\\])*") {
            let _ = parse_arguments(&text);
            let _ = parse_event::<Value>(&text);
        }
    }
}
