//! Converts schemas of tools to the dialects that servers accept.
//!
//! If the dialect can express a schema, only its spelling changes. Otherwise the schema becomes wider; the tool itself
//! checks its input.

use crate::compat::Compat;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Keywords of JSON Schema that Gemini's schemas have.
const PLAIN: &[&str] = &[
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "items",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "anyOf",
    "default",
    "propertyOrdering",
];

/// Returns the schema in the form that `compat` accepts.
pub(crate) fn for_server<'a>(schema: &'a Value, compat: &Compat) -> Cow<'a, Value> {
    if !compat.tools.schemas.plain && !compat.tools.schemas.flat {
        return Cow::Borrowed(schema);
    }
    let mut schema = schema.clone();
    if compat.tools.schemas.flat {
        flatten(&mut schema);
    }
    if compat.tools.schemas.plain {
        let root = schema.clone();
        plain(&mut schema, &root, 0);
    }
    Cow::Owned(schema)
}

/// Merges `anyOf`, `oneOf` and `allOf` at the root into one object. It has all their properties. For `allOf`, it requires
/// all that any part requires, otherwise only those properties that every alternative requires.
fn flatten(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for key in ["anyOf", "oneOf", "allOf"] {
        let Some(Value::Array(variants)) = map.remove(key) else { continue };
        let mut common: Option<Vec<Value>> = None;
        for variant in variants {
            let required = variant["required"].as_array().cloned().unwrap_or_default();
            common = Some(match common {
                None => required,
                Some(all) if key == "allOf" => all.into_iter().chain(required).collect(),
                Some(all) => all.into_iter().filter(|name| required.contains(name)).collect(),
            });
            if let Value::Object(mut variant) = variant
                && let Some(Value::Object(properties)) = variant.remove("properties")
            {
                let all = map.entry("properties").or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(all) = all {
                    for (name, property) in properties {
                        all.entry(name).or_insert(property);
                    }
                }
            }
        }
        if let Some(mut required) = common.filter(|names| !names.is_empty()) {
            let own = map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            required.retain(|name| !own.contains(name));
            map.insert("required".to_owned(), own.into_iter().chain(required).collect());
        }
    }
    map.entry("type").or_insert_with(|| json!("object"));
}

/// Deepest chain of references that is followed: a schema may refer to itself.
const DEEP: usize = 8;

fn plain(schema: &mut Value, root: &Value, depth: usize) {
    let Value::Object(map) = schema else { return };
    if let Some(pointer) = map.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#')) {
        let target = root.pointer(pointer).filter(|_| depth < DEEP).cloned();
        *schema = target.unwrap_or_else(|| json!({"type": "object"}));
        return plain(schema, root, depth + 1);
    }
    if let Some(value) = map.remove("const") {
        map.insert("enum".to_owned(), json!([value]));
    }
    if let Some(variants) = map.remove("oneOf") {
        map.entry("anyOf").or_insert(variants);
    }
    // A list of types: one type, and `null` as a flag.
    if let Some(Value::Array(types)) = map.get("type") {
        let some: Vec<Value> = types.iter().filter(|name| *name != "null").cloned().collect();
        if types.len() > some.len() {
            map.insert("nullable".to_owned(), json!(true));
        }
        match <[Value; 1]>::try_from(some) {
            Ok([one]) => map.insert("type".to_owned(), one),
            Err(several) => {
                map.remove("type");
                let variants = several.into_iter().map(|name| json!({"type": name})).collect();
                map.insert("anyOf".to_owned(), variants)
            }
        };
    }
    // An enumeration holds texts alone.
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        for value in values.iter_mut().filter(|value| !value.is_string()) {
            *value = Value::String(value.to_string());
        }
        map.insert("type".to_owned(), json!("string"));
    }
    map.retain(|key, _| PLAIN.contains(&key.as_str()));
    if map.get("format").and_then(Value::as_str).is_some_and(|f| !matches!(f, "enum" | "date-time")) {
        map.remove("format");
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(|property| plain(property, root, depth + 1));
    }
    if let Some(items) = map.get_mut("items") {
        plain(items, root, depth + 1);
    }
    if let Some(Value::Array(variants)) = map.get_mut("anyOf") {
        for variant in variants {
            plain(variant, root, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn schemas_by_dialect() {
        let gemini = Compat::for_address(Kind::Gemini, "");
        let responses = Compat::for_address(Kind::Responses, "");
        for (schema, compat, want) in [
            (
                json!({"type": "object", "properties": {"a": {"const": "x"}}, "additionalProperties": false, "$schema": "s"}),
                &gemini,
                json!({"type": "object", "properties": {"a": {"enum": ["x"], "type": "string"}}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
                &gemini,
                json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true}}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}),
                &gemini,
                json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}),
            ),
            (
                json!({"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "integer", "format": "int64"}}}),
                &gemini,
                json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
            ),
            (
                json!({"anyOf": [
                    {"properties": {"a": {"type": "string"}, "k": {"type": "string"}}, "required": ["a", "k"]},
                    {"properties": {"b": {"type": "string"}}, "required": ["b", "k"]},
                ]}),
                &responses,
                json!({"properties": {"a": {"type": "string"}, "k": {"type": "string"}, "b": {"type": "string"}}, "required": ["k"], "type": "object"}),
            ),
        ] {
            assert_eq!(*for_server(&schema, compat), want, "{schema}");
        }
        // A schema that refers to itself ends.
        let endless = json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
        assert!(for_server(&endless, &gemini).to_string().len() < 4096);
        let chat = Compat::for_address(Kind::Chat, "http://127.0.0.1");
        assert!(matches!(for_server(&endless, &chat), Cow::Borrowed(_)));
    }
}
