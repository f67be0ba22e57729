//! Questions of a server to the user: a form, or an address to visit.
//!
//! Owns the answers that need no person: defaults and cancelling. The host passes a function that asks the user. An
//! answer contains only fields of the form.

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The treatment of questions from servers.
#[derive(Clone, Default)]
pub enum Elicitation {
    /// Every question is cancelled.
    #[default]
    Cancel,
    /// Forms are accepted with their default values, if these fill every required field. Other forms, and questions with
    /// an address, are cancelled.
    Defaults,
    /// The host asks the user.
    Ask(Arc<dyn Ask>),
}

/// The host's function that asks the user.
pub trait Ask: Send + Sync {
    /// Shows the question to the user and waits for the answer. The host checks the values of a form with [`misfit`].
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer>;

    /// Called when a server reports that the work at an address is done. `id`: [`Question::id`] of the question with that address.
    fn completed(&self, _server: &str, _id: &str) {}
}

/// A question of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub server: String,
    pub message: String,
    /// The server's id of the question, if the question is an address.
    pub id: Option<String>,
    pub form: Form,
}

/// The form of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A flat JSON Schema of an object.
    Fields(Value),
    /// An address to visit, for example to log in.
    Url(String),
}

/// The user's answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The values of the form by field name; empty for an address.
    Accept(Map<String, Value>),
    /// The user said no.
    Decline,
    /// The question was closed without an answer.
    Cancel,
}

impl Elicitation {
    /// Tells the host that the work at an address is done.
    pub fn completed(&self, server: &str, id: &str) {
        if let Self::Ask(host) = self {
            host.completed(server, id);
        }
    }

    /// Returns the answer to a question.
    pub async fn answer(&self, question: Question) -> Answer {
        match (self, &question.form) {
            (Self::Ask(host), _) => host.ask(question).await,
            (Self::Defaults, Form::Fields(schema)) => defaults(schema),
            (Self::Defaults, Form::Url(_)) | (Self::Cancel, _) => Answer::Cancel,
        }
    }
}

/// Accepts the form with its default values; cancels if a required field has no default.
pub(crate) fn defaults(schema: &Value) -> Answer {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let mut content = Map::new();
    for (name, field) in properties {
        if let Some(default) = field.get("default") {
            content.insert(name.clone(), default.clone());
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    let missing =
        required.into_iter().flatten().filter_map(Value::as_str).any(|name| !content.contains_key(name));
    if missing { Answer::Cancel } else { Answer::Accept(content) }
}

/// Returns a message about the first field that does not match the form.
pub fn misfit(schema: &Value, content: &Map<String, Value>) -> Option<String> {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !content.contains_key(name) {
            return Some(format!("{name} is required"));
        }
    }
    for (name, value) in content {
        let Some(field) = properties.get(name) else { return Some(format!("there is no field {name}")) };
        let fits = match field.get("type").and_then(Value::as_str) {
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            Some("array") => value.is_array(),
            _ => true,
        };
        if !fits || !is_listed(field, value) || !is_within(field, value) || !has_form(field, value) {
            return Some(format!("{name} does not fit {field}"));
        }
    }
    None
}

/// True if the value is one of the values that the field lists. If the value is a list, each entry must be.
fn is_listed(field: &Value, value: &Value) -> bool {
    if let (Some(items), Some(values)) = (field.get("items"), value.as_array()) {
        return values.iter().all(|value| is_listed(items, value));
    }
    let listed = field.get("enum").and_then(Value::as_array).is_none_or(|all| all.contains(value));
    let titled = ["oneOf", "anyOf"].iter().find_map(|key| field.get(*key)?.as_array());
    listed && titled.is_none_or(|all| all.iter().any(|one| one.get("const") == Some(value)))
}

/// True if the value keeps to the limits of the field: a number to its minimum and maximum, a text or list to its lengths.
fn is_within(field: &Value, value: &Value) -> bool {
    let limit = |key: &str| field.get(key).and_then(Value::as_f64);
    let between = |size: f64, least: &str, most: &str| {
        limit(least).is_none_or(|least| size >= least) && limit(most).is_none_or(|most| size <= most)
    };
    match value {
        Value::Number(number) => between(number.as_f64().unwrap_or_default(), "minimum", "maximum"),
        Value::String(text) => between(text.chars().count() as f64, "minLength", "maxLength"),
        Value::Array(items) => between(items.len() as f64, "minItems", "maxItems"),
        _ => true,
    }
}

/// True if a text has the format and the pattern of the field. If the value is a list, each entry must have them. An unknown
/// format, or a pattern that cannot be compiled, is left to the server to check.
fn has_form(field: &Value, value: &Value) -> bool {
    /// Maximum size of a compiled pattern in bytes.
    const MOST: usize = 1 << 20;
    let text = match (value, field.get("items")) {
        (Value::String(text), _) => text,
        (Value::Array(values), Some(items)) => return values.iter().all(|value| has_form(items, value)),
        _ => return true,
    };
    let rule = |key: &str| field.get(key).and_then(Value::as_str);
    let has_format = match rule("format") {
        Some("email") => {
            text.split_once('@').is_some_and(|(who, host)| !who.is_empty() && host.contains('.'))
        }
        Some("uri") => url::Url::parse(text).is_ok(),
        Some("date") => is_date(text),
        Some("date-time") => text.split_once(['T', 't']).is_some_and(|(date, time)| {
            is_date(date) && time.len() >= 6 && time.as_bytes().get(2) == Some(&b':')
        }),
        _ => true,
    };
    let pattern =
        rule("pattern").and_then(|pattern| regex::RegexBuilder::new(pattern).size_limit(MOST).build().ok());
    has_format && pattern.is_none_or(|pattern| pattern.is_match(text))
}

/// True for `2026-11-27`.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [4, 2, 2] && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_accept_a_form_only_where_they_fill_it() {
        for (schema, wanted) in [
            (
                json!({"properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "number"}}}),
                Answer::Accept(json!({"a": "x"}).as_object().unwrap().clone()),
            ),
            (json!({"properties": {"a": {"type": "string"}}, "required": ["a"]}), Answer::Cancel),
            (json!({}), Answer::Accept(Map::new())),
        ] {
            assert_eq!(defaults(&schema), wanted, "{schema}");
        }
    }

    #[test]
    fn answers_keep_to_the_limits_of_their_fields() {
        let schema = json!({"properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 9},
            "s": {"type": "string", "minLength": 2, "maxLength": 3},
            "o": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
            "l": {"type": "array", "maxItems": 2, "items": {"type": "string", "enum": ["x", "y"]}},
        }});
        for (content, fits) in [
            (json!({"n": 1, "s": "ab", "o": "a", "l": ["x", "y"]}), true),
            (json!({"n": 0}), false),
            (json!({"n": 10}), false),
            (json!({"s": "a"}), false),
            (json!({"s": "abcd"}), false),
            (json!({"o": "b"}), false),
            (json!({"l": ["z"]}), false),
            (json!({"l": ["x", "x", "x"]}), false),
        ] {
            assert_eq!(misfit(&schema, content.as_object().unwrap()).is_none(), fits, "{content}");
        }
    }

    #[test]
    fn texts_have_the_form_of_their_fields() {
        for (field, value, fits) in [
            (json!({"format": "email"}), json!("a@b.org"), true),
            (json!({"format": "email"}), json!("nobody"), false),
            (json!({"format": "uri"}), json!("https://example.org/x"), true),
            (json!({"format": "uri"}), json!("plain words"), false),
            (json!({"format": "date"}), json!("2026-11-27"), true),
            (json!({"format": "date"}), json!("27.11.2026"), false),
            (json!({"format": "date-time"}), json!("2026-11-27T10:00:00Z"), true),
            (json!({"format": "date-time"}), json!("2026-11-27"), false),
            (json!({"format": "colour"}), json!("any"), true),
            (json!({"pattern": "^[A-Z]{2}-\\d+$"}), json!("AB-12"), true),
            (json!({"pattern": "^[A-Z]{2}-\\d+$"}), json!("ab"), false),
            (json!({"pattern": "(?=only in other languages)"}), json!("any"), true),
            (
                json!({"type": "array", "items": {"type": "string", "format": "email"}}),
                json!(["a@b.org", "c"]),
                false,
            ),
        ] {
            let schema = json!({"properties": {"f": field}});
            let content = json!({"f": value});
            assert_eq!(misfit(&schema, content.as_object().unwrap()).is_none(), fits, "{schema} {content}");
        }
    }

    #[test]
    fn answers_are_checked() {
        let schema = json!({"properties": {"n": {"type": "integer"}, "c": {"type": "string", "enum": ["a"]}}, "required": ["n"]});
        for (content, fits) in [
            (json!({"n": 1}), true),
            (json!({"n": 1, "c": "a"}), true),
            (json!({"n": 1, "c": "b"}), false),
            (json!({"n": "1"}), false),
            (json!({}), false),
            (json!({"n": 1, "z": 2}), false),
        ] {
            assert_eq!(misfit(&schema, content.as_object().unwrap()).is_none(), fits, "{content}");
        }
    }
}
