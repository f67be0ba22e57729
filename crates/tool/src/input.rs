//! Parsing of a model's arguments into typed values.
//!
//! Owns leniency: models write `"10"` for 10, `"true"` for true, `null` for an omitted field, a string of
//! JSON for an array, or the argument names of other agents. The tool's input schema is used to convert all
//! of these before serde sees them. An argument that cannot be converted gives one sentence that names the
//! field, the expected type and the actual value.
//!
//! Understands only the parts of JSON Schema that becket's tools use: `type`, `properties`, `required`,
//! `items`, `enum`, `minimum`. Never guesses a missing value. Never drops an unknown field silently.

use becket_types::{ToolSpec, cut_end};
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

/// Parser for the inputs of one tool.
///
/// ```ignore
///   let input: ReadInput = Parser::new(&self.spec).aliases(&[("file_path", "path")]).parse(&input)?;
/// ```
#[derive(Clone, Copy)]
pub struct Parser<'a> {
    spec: &'a ToolSpec,
    aliases: &'a [(&'a str, &'a str)],
    ignored: &'a [&'a str],
}

impl<'a> Parser<'a> {
    /// Makes a parser for the inputs of a tool, without aliases and ignored fields.
    pub fn new(spec: &'a ToolSpec) -> Self {
        Self { spec, aliases: &[], ignored: &[] }
    }

    /// Accepts other names for fields, at any depth: `(name the model may write, real name)`. If both are
    /// present, the real name wins.
    pub fn aliases(mut self, aliases: &'a [(&'a str, &'a str)]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Ignores these fields. Tools of other agents have them and they have no effect here (`description`).
    pub fn ignore(mut self, fields: &'a [&'a str]) -> Self {
        self.ignored = fields;
        self
    }

    /// Returns the typed input.
    ///
    /// # Errors
    ///
    /// Returns a message for the model that says which field is wrong and what was expected.
    pub fn parse<T: DeserializeOwned>(self, input: &Value) -> Result<T, String> {
        let value = self.coerce(input, &self.spec.input_schema, "").map_err(|e| self.message(&e))?;
        // All fields are unsigned, so a value that passes the schema can only fail here because it is negative.
        let below = value.as_object().into_iter().flatten().find(|(_, v)| v.as_i64().is_some_and(|n| n < 0));
        let below = below.map(|(name, n)| format!("`{name}` must be at least 0, got {n}"));
        T::deserialize(value).map_err(|e| self.message(&below.unwrap_or_else(|| e.to_string())))
    }

    fn message(&self, what: &str) -> String {
        format!("Invalid input for {}: {what}.", self.spec.name)
    }

    fn coerce(&self, value: &Value, schema: &Value, at: &str) -> Result<Value, String> {
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        let wrong = || {
            let place = if at.is_empty() { "the input".to_owned() } else { format!("`{at}`") };
            format!("{place} must be {}, got {}", kind_name(kind), value_text(value))
        };
        let value = match kind {
            "object" => match parsed(value, Value::is_object).as_object() {
                Some(map) => return self.coerce_object(map, schema, at).map(Value::Object),
                None => return Err(wrong()),
            },
            "array" => {
                let none = Value::Null;
                let items = schema.get("items").unwrap_or(&none);
                let value = parsed(value, Value::is_array);
                let one = [value.as_ref().clone()];
                let list: &[Value] = value.as_array().map_or(&one[..], Vec::as_slice);
                let each = |(i, v): (usize, &Value)| self.coerce(v, items, &format!("{at}[{i}]"));
                return list.iter().enumerate().map(each).collect::<Result<_, _>>().map(Value::Array);
            }
            "integer" => integer(value).ok_or_else(wrong)?,
            "number" => number(value).ok_or_else(wrong)?,
            "boolean" => boolean(value).ok_or_else(wrong)?,
            "string" => match value {
                Value::String(_) => value.clone(),
                Value::Number(n) => Value::String(n.to_string()),
                Value::Bool(b) => Value::String(b.to_string()),
                _ => return Err(wrong()),
            },
            _ => value.clone(),
        };
        bounded(value, schema, at)
    }

    fn coerce_object(
        &self,
        map: &Map<String, Value>,
        schema: &Value,
        at: &str,
    ) -> Result<Map<String, Value>, String> {
        let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
            return Ok(map.clone());
        };
        let inside = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        let mut out = Map::new();
        for (written, value) in map {
            if value.is_null() {
                continue;
            }
            let name = self
                .field_name(written, fields, map)
                .ok_or_else(|| unknown(&inside(written), written, fields));
            match name {
                Ok(name) => out.insert(name.to_owned(), self.coerce(value, &fields[name], &inside(name))?),
                Err(_) if self.ignored.contains(&written.as_str()) => None,
                Err(message) => return Err(message),
            };
        }
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !out.contains_key(name) {
                let kind =
                    fields.get(name).and_then(|f| f.get("type")).and_then(Value::as_str).unwrap_or_default();
                return Err(format!("`{}` is missing; it must be {}", inside(name), kind_name(kind)));
            }
        }
        Ok(out)
    }

    /// Returns the schema's name for a field that the model wrote: the same name, the same in another case,
    /// or an alias.
    fn field_name<'f>(
        &self,
        written: &str,
        fields: &'f Map<String, Value>,
        map: &Map<String, Value>,
    ) -> Option<&'f str> {
        if let Some((name, _)) = fields.get_key_value(written) {
            return Some(name);
        }
        let free = |name: &&str| map.get(*name).is_none_or(Value::is_null);
        let plain = |s: &str| s.replace(['_', '-'], "").to_ascii_lowercase();
        let alias =
            self.aliases.iter().find(|(other, _)| plain(other) == plain(written)).map(|(_, name)| *name);
        alias
            .and_then(|name| fields.get_key_value(name))
            .or_else(|| fields.iter().find(|(name, _)| plain(name) == plain(written)))
            .map(|(name, _)| name.as_str())
            .filter(free)
    }
}

fn unknown(place: &str, written: &str, fields: &Map<String, Value>) -> String {
    match crate::text::nearest(written, fields.keys().map(String::as_str)) {
        Some(near) => format!("unknown field `{place}`; did you mean `{near}`?"),
        None => {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            format!("unknown field `{place}`; the fields are: {}", names.join(", "))
        }
    }
}

/// If the value is a string of JSON that passes the test `wanted`, returns the parsed JSON; otherwise the value unchanged.
fn parsed(value: &Value, wanted: fn(&Value) -> bool) -> std::borrow::Cow<'_, Value> {
    if let Value::String(text) = value
        && let Ok(inner) = serde_json::from_str::<Value>(text)
        && wanted(&inner)
    {
        return std::borrow::Cow::Owned(inner);
    }
    std::borrow::Cow::Borrowed(value)
}

fn integer(value: &Value) -> Option<Value> {
    let exact = |f: f64| (f.fract() == 0.0 && f.abs() < 9e15).then(|| Value::from(f as i64));
    match value {
        Value::Number(n) if n.is_u64() || n.is_i64() => Some(value.clone()),
        Value::Number(n) => exact(n.as_f64()?),
        Value::String(s) => {
            let s = s.trim();
            s.parse::<u64>()
                .map(Value::from)
                .or_else(|_| s.parse::<i64>().map(Value::from))
                .ok()
                .or_else(|| s.parse::<f64>().ok().and_then(exact))
        }
        _ => None,
    }
}

fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(s) => s.trim().parse().ok().and_then(Number::from_f64).map(Value::Number),
        _ => None,
    }
}

fn boolean(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(_) => Some(value.clone()),
        Value::String(s) => match s.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Some(Value::Bool(true)),
            "false" | "no" | "0" | "" => Some(Value::Bool(false)),
            _ => None,
        },
        Value::Number(n) => match n.as_u64() {
            Some(0) => Some(Value::Bool(false)),
            Some(1) => Some(Value::Bool(true)),
            _ => None,
        },
        _ => None,
    }
}

fn bounded(value: Value, schema: &Value, at: &str) -> Result<Value, String> {
    if let (Some(n), Some(min)) = (value.as_f64(), schema.get("minimum").and_then(Value::as_f64))
        && n < min
    {
        return Err(format!("`{at}` must be at least {min}, got {value}"));
    }
    let (Some(text), Some(choices)) = (value.as_str(), schema.get("enum").and_then(Value::as_array)) else {
        return Ok(value);
    };
    let choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
    let plain = |s: &str| s.trim().replace(['-', ' '], "_").to_ascii_lowercase();
    match choices.iter().find(|c| plain(c) == plain(text)) {
        Some(choice) => Ok(Value::from(*choice)),
        None => Err(format!("`{at}` must be one of {}, got {}", choices.join(", "), value_text(&value))),
    }
}

fn kind_name(kind: &str) -> &'static str {
    match kind {
        "object" => "an object",
        "array" => "an array",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "true or false",
        "string" => "a string",
        _ => "a value",
    }
}

fn value_text(value: &Value) -> String {
    let text = value.to_string();
    let short = cut_end(&text, 60);
    if short.len() < text.len() { format!("{short}…") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Item {
        text: String,
        status: Option<String>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct In {
        path: String,
        offset: Option<u64>,
        all: Option<bool>,
        ratio: Option<f64>,
        items: Option<Vec<Item>>,
        names: Option<Vec<String>>,
    }

    fn spec() -> ToolSpec {
        let input_schema = json!({"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string"},
            "offset": {"type": "integer", "minimum": 1},
            "all": {"type": "boolean"},
            "ratio": {"type": "number"},
            "names": {"type": "array", "items": {"type": "string"}},
            "items": {"type": "array", "items": {"type": "object", "required": ["text"], "properties": {
                "text": {"type": "string"}, "status": {"type": "string", "enum": ["pending", "in_progress"]}}}},
        }}).into();
        ToolSpec { name: "read".into(), description: String::new(), input_schema }
    }

    fn parse(input: Value) -> Result<In, String> {
        Parser::new(&spec()).aliases(&[("file_path", "path")]).ignore(&["description"]).parse(&input)
    }

    fn with(f: impl FnOnce(&mut In)) -> In {
        let mut value =
            In { path: "a".into(), offset: None, all: None, ratio: None, items: None, names: None };
        f(&mut value);
        value
    }

    #[test]
    fn what_models_write_is_understood() {
        for (input, want) in [
            (json!({"path": "a"}), with(|_| ())),
            (json!({"file_path": "a", "offset": null}), with(|_| ())),
            (json!({"filePath": "a"}), with(|_| ())),
            (json!({"Path": "a", "description": "why"}), with(|_| ())),
            (json!({"path": "a", "file_path": null}), with(|_| ())),
            (json!({"path": 7}), with(|i| i.path = "7".into())),
            (json!({"path": "a", "offset": "10"}), with(|i| i.offset = Some(10))),
            (json!({"path": "a", "offset": 10.0}), with(|i| i.offset = Some(10))),
            (json!({"path": "a", "all": "True"}), with(|i| i.all = Some(true))),
            (json!({"path": "a", "all": 0}), with(|i| i.all = Some(false))),
            (json!({"path": "a", "ratio": "0.5"}), with(|i| i.ratio = Some(0.5))),
            (json!({"path": "a", "names": "x"}), with(|i| i.names = Some(vec!["x".into()]))),
            (json!({"path": "a", "names": "[\"x\"]"}), with(|i| i.names = Some(vec!["x".into()]))),
            (
                json!({"path": "a", "items": "[{\"text\":\"t\",\"status\":\"In-Progress\"}]"}),
                with(|i| i.items = Some(vec![Item { text: "t".into(), status: Some("in_progress".into()) }])),
            ),
            (json!("{\"path\":\"a\"}"), with(|_| ())),
        ] {
            assert_eq!(parse(input.clone()), Ok(want), "{input}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (input, want) in [
            (json!({}), "`path` is missing; it must be a string"),
            (json!({"path": null}), "`path` is missing; it must be a string"),
            (json!({"path": ["a"]}), r#"`path` must be a string, got ["a"]"#),
            (json!({"path": "a", "offset": "abc"}), r#"`offset` must be an integer, got "abc""#),
            (json!({"path": "a", "offset": 1.5}), "`offset` must be an integer, got 1.5"),
            (json!({"path": "a", "offset": -3}), "`offset` must be at least 1, got -3"),
            (json!({"path": "a", "al": true}), "unknown field `al`; did you mean `all`?"),
            (json!({"path": "a", "file_path": "b"}), "unknown field `file_path`; did you mean `path`?"),
            (
                json!({"path": "a", "zzzz": 1}),
                "unknown field `zzzz`; the fields are: path, offset, all, ratio, names, items",
            ),
            (
                json!({"path": "a", "items": [{"status": "x"}]}),
                "`items[0].status` must be one of pending, in_progress, got \"x\"",
            ),
            (
                json!({"path": "a", "items": [{"text": "t"}, {}]}),
                "`items[1].text` is missing; it must be a string",
            ),
            (json!([1]), "the input must be an object, got [1]"),
        ] {
            assert_eq!(parse(input.clone()), Err(format!("Invalid input for read: {want}.")), "{input}");
        }
    }
}
