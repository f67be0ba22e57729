//! `--json-schema`: compiles the schema once, finds the JSON in an answer, and describes mismatches.

use becket_types::parse_json;
use serde_json::Value;

/// A compiled JSON Schema with its text.
#[derive(Debug)]
pub struct Schema {
    validator: jsonschema::Validator,
    value: Value,
    text: String,
}

/// The reason why a schema of `--json-schema` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("the JSON schema is not valid JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("the JSON schema must be an object, got {0}")]
    NotAnObject(&'static str),
    #[error("the JSON schema is not a valid schema: {0}")]
    Invalid(String),
    #[error(
        "the JSON schema refers to {0}, and none is fetched; write what it refers to into the schema itself ($defs)"
    )]
    Elsewhere(String),
}

impl Schema {
    /// Compiles the text of `--json-schema`.
    ///
    /// # Errors
    ///
    /// Fails if `text` is not JSON, not an object or not a valid schema, or if it refers to another document.
    pub fn compile(text: &str) -> Result<Self, SchemaError> {
        let value: Value = serde_json::from_str(text)?;
        if !value.is_object() {
            return Err(SchemaError::NotAnObject(kind(&value)));
        }
        jsonschema::meta::validate(&value).map_err(|e| SchemaError::Invalid(in_words(&e)))?;
        let validator = jsonschema::validator_for(&value).map_err(|e| match external_reference(&value) {
            Some(reference) => SchemaError::Elsewhere(reference.to_owned()),
            None => SchemaError::Invalid(e.to_string()),
        })?;
        Ok(Self { validator, text: value.to_string(), value })
    }

    /// Returns the schema.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the instruction for the model at the end of the system prompt.
    pub fn instruction(&self) -> String {
        format!(
            "When the task is done, your last message must be one JSON value that fits this JSON Schema, and nothing \
             else: no prose, no code fence.\n{}",
            self.text
        )
    }

    /// Returns the JSON in the model's last message, if it fits the schema.
    ///
    /// # Errors
    ///
    /// Returns a description of the mismatch, so that the model can correct it.
    pub fn check(&self, answer: &str) -> Result<Value, String> {
        let value = find_json(answer).ok_or_else(|| "the answer is not JSON".to_owned())?;
        self.fits(&value).map(|()| value)
    }

    /// Checks a value.
    ///
    /// # Errors
    ///
    /// Returns a description of the first mismatches, so that the model can correct them.
    pub fn fits(&self, value: &Value) -> Result<(), String> {
        let problems: Vec<String> = self
            .validator
            .iter_errors(value)
            .take(5)
            .map(|e| match e.instance_path().to_string() {
                at if at.is_empty() => e.to_string(),
                at => format!("at `{at}`: {e}"),
            })
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }

    /// Returns the message that asks again after a failed check.
    pub(crate) fn ask_again(&self, problem: &str) -> String {
        format!(
            "Your last message does not fit the required JSON Schema: {problem}. Answer again with one JSON value that \
             fits it, and nothing else.\n{}",
            self.text
        )
    }
}

/// Returns the first reference that leads to another document.
fn external_reference(schema: &Value) -> Option<&str> {
    match schema {
        Value::Object(map) => {
            let own = map.get("$ref").and_then(Value::as_str);
            let own = own.filter(|to| !to.starts_with('#'));
            own.or_else(|| map.values().find_map(external_reference))
        }
        Value::Array(items) => items.iter().find_map(external_reference),
        _ => None,
    }
}

/// Finds JSON in an answer: the whole text, the only fenced block, or the text between the outermost brackets.
fn find_json(answer: &str) -> Option<Value> {
    let text = answer.trim();
    if let Ok(value) = parse_json(text) {
        return Some(value);
    }
    let fenced = text.split("```").nth(1).map(|block| block.strip_prefix("json").unwrap_or(block).trim());
    if let Some(value) = fenced.and_then(|block| parse_json(block).ok()) {
        return Some(value);
    }
    [('{', '}'), ('[', ']')].into_iter().find_map(|(open, close)| {
        let start = text.find(open)?;
        let end = text.rfind(close)?;
        parse_json(text.get(start..=end)?).ok()
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The types of JSON Schema.
const TYPES: &[&str] = &["string", "number", "integer", "boolean", "array", "object", "null"];

/// Describes an error of a schema: its path, the value there, and the allowed values.
fn in_words(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let key = place.rsplit('/').next().unwrap_or_default();
    let found = error.instance();
    let place = if place.is_empty() { "at its top".to_owned() } else { format!("at {place}") };
    let near = |text: &str| {
        let distance = |name: &str| becket_types::edit_distance(name, text);
        let near = TYPES.iter().min_by_key(|name| distance(name)).filter(|name| distance(name) <= 2);
        near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
    };
    match (key, found.as_ref()) {
        ("type", Value::String(text)) => {
            format!("{place}, {text:?} is not a type (one of {}){}", TYPES.join(", "), near(text))
        }
        ("type", found) => format!("{place}, a type is expected (one of {}), not {found}", TYPES.join(", ")),
        ("required" | "enum" | "prefixItems" | "anyOf" | "oneOf" | "allOf", found) if !found.is_array() => {
            format!("{place}, an array is expected, not {}", kind(found))
        }
        ("properties" | "$defs" | "patternProperties", found) if !found.is_object() => {
            format!("{place}, an object is expected, not {}", kind(found))
        }
        _ => format!("{place}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_found_and_checked() {
        let schema = Schema::compile(
            r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#,
        )
        .unwrap();
        for (answer, want) in [
            (r#"{"n":1}"#, Ok(json!({"n":1}))),
            ("Here it is:\n```json\n{\"n\": 2}\n```\n", Ok(json!({"n":2}))),
            ("The answer is {\"n\":3}.", Ok(json!({"n":3}))),
        ] {
            assert_eq!(schema.check(answer), want, "{answer}");
        }
        assert_eq!(schema.check("nothing here"), Err("the answer is not JSON".to_owned()));
        assert!(schema.check(r#"{"n":"x"}"#).unwrap_err().contains("/n"));
        assert!(schema.check(r#"{"m":1}"#).is_err());
    }

    #[test]
    fn bad_schemas_are_named() {
        assert!(matches!(Schema::compile("{"), Err(SchemaError::NotJson(_))));
        assert!(matches!(Schema::compile("3"), Err(SchemaError::NotAnObject("a number"))));
        for (schema, want) in [
            (
                r#"{"type":"strin"}"#,
                r#"at /type, "strin" is not a type (one of string, number, integer, boolean, array, object, null); did you mean "string"?"#,
            ),
            (r#"{"properties":{"a":{"type":5}}}"#, "at /properties/a/type, a type is expected"),
            (r#"{"required":"a"}"#, "at /required, an array is expected, not a string"),
            (r#"{"properties":[]}"#, "at /properties, an object is expected, not an array"),
            (r#"{"minimum":"a"}"#, "at /minimum: "),
        ] {
            let error = Schema::compile(schema).unwrap_err().to_string();
            assert!(error.contains(want), "{schema}: {error}");
        }
        let elsewhere = r#"{"properties":{"a":{"$ref":"https://example.com/a.json"}}}"#;
        assert!(
            matches!(Schema::compile(elsewhere), Err(SchemaError::Elsewhere(to)) if to.ends_with("/a.json"))
        );
        let own = r#"{"$id":"https://example.com/b","$defs":{"n":{"type":"integer"}},"$ref":"https://example.com/b#/$defs/n"}"#;
        assert_eq!(Schema::compile(own).unwrap().check("1"), Ok(json!(1)), "a reference by its own name");
    }
}
