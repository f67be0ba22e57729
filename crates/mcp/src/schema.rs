//! Input schemas of servers, made fit for every provider.
//!
//! Pure. Providers want an object at the root, without `anyOf`, `oneOf` and `allOf` there, and of a bearable size. A schema that
//! is too large, too deep or no object becomes one that takes any object, and the reason is reported.

use serde_json::{Map, Value, json};

/// A larger schema costs more than a tool is worth.
const MOST_BYTES: usize = 64 * 1024;
/// Nesting beyond this is an attack or a mistake.
const MOST_DEPTH: usize = 32;
/// Maximum number of values in a schema, at all levels together.
const MOST_NODES: usize = 4_000;

/// A schema that every provider takes, and a line if something was left out of it.
pub fn repaired(schema: &Map<String, Value>) -> (Value, Option<String>) {
    let any = || json!({"type": "object", "properties": {}});
    let mut nodes = 0;
    let value = Value::Object(schema.clone());
    if !fits(&value, 0, &mut nodes) {
        let why =
            format!("its schema is deeper than {MOST_DEPTH} levels or has more than {MOST_NODES} values");
        return (any(), Some(why));
    }
    let size = serde_json::to_vec(&value).map_or(usize::MAX, |bytes| bytes.len());
    if size > MOST_BYTES {
        return (any(), Some(format!("its schema has {size} bytes, more than {MOST_BYTES}")));
    }
    let mut root = schema.clone();
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(branches)) = root.remove(key) {
            flatten(&mut root, &branches, key == "allOf");
        }
    }
    // These keys annotate the schema itself, and some providers refuse them.
    for key in ["$schema", "$id", "$comment"] {
        root.remove(key);
    }
    let is_object = match root.get("type") {
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
    };
    if !is_object {
        return (any(), Some("its schema does not describe an object".to_owned()));
    }
    root.insert("type".to_owned(), json!("object"));
    if !root.get("properties").is_some_and(Value::is_object) {
        root.insert("properties".to_owned(), json!({}));
    }
    if root.get("required").is_some_and(|required| !is_list_of_texts(required)) {
        root.remove("required");
    }
    (Value::Object(root), None)
}

/// Returns a schema as the server wrote it, if the repair changed it.
pub fn original(schema: &Map<String, Value>, repaired: &Value) -> Option<Value> {
    (repaired.as_object() != Some(schema)).then(|| Value::Object(schema.clone()))
}

fn is_list_of_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

/// Puts the properties of the branches into the root. Only what all of `allOf` want stays required.
fn flatten(root: &mut Map<String, Value>, branches: &[Value], all: bool) {
    let mut properties = match root.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    let mut required: Vec<Value> = match root.remove("required") {
        Some(Value::Array(required)) => required,
        _ => Vec::new(),
    };
    for branch in branches.iter().filter_map(Value::as_object) {
        if let Some(Value::Object(more)) = branch.get("properties") {
            for (name, schema) in more {
                properties.entry(name.clone()).or_insert_with(|| schema.clone());
            }
        }
        if let (true, Some(Value::Array(more))) = (all, branch.get("required")) {
            required.extend(more.iter().filter(|name| !required.contains(name)).cloned().collect::<Vec<_>>());
        }
    }
    root.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        root.insert("required".to_owned(), Value::Array(required));
    }
}

fn fits(value: &Value, depth: usize, nodes: &mut usize) -> bool {
    *nodes += 1;
    if depth > MOST_DEPTH || *nodes > MOST_NODES {
        return false;
    }
    match value {
        Value::Array(items) => items.iter().all(|item| fits(item, depth + 1, nodes)),
        Value::Object(map) => map.values().all(|item| fits(item, depth + 1, nodes)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repair(value: Value) -> (Value, Option<String>) {
        repaired(value.as_object().unwrap())
    }

    #[test]
    fn roots_become_objects_without_branches() {
        for (given, wanted) in [
            (json!({}), json!({"type": "object", "properties": {}})),
            (
                json!({"$schema": "x", "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            ),
            (
                json!({"anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]}),
                json!({"properties": {"a": {}, "b": {}}, "type": "object"}),
            ),
            (
                json!({"type": "object", "allOf": [{"properties": {"a": {}}, "required": ["a"]}], "required": ["c"]}),
                json!({"type": "object", "properties": {"a": {}}, "required": ["c", "a"]}),
            ),
            (json!({"type": ["object", "null"]}), json!({"type": "object", "properties": {}})),
            (
                json!({"type": "object", "properties": [], "required": true}),
                json!({"type": "object", "properties": {}}),
            ),
        ] {
            let (got, why) = repair(given.clone());
            assert_eq!((&got, why), (&wanted, None), "{given}");
            assert_eq!(repair(got.clone()).0, got, "repairing twice is repairing once");
        }
    }

    #[test]
    fn a_bomb_is_bounded_and_told() {
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"properties": {"a": deep}});
        }
        let wide =
            json!({"properties": (0..5000).map(|n| (n.to_string(), json!({}))).collect::<Map<_, _>>()});
        let large = json!({"description": "x".repeat(70_000)});
        let list = json!({"type": "array"});
        for bomb in [deep, wide, large, list] {
            let (got, why) = repair(bomb);
            assert_eq!(got, json!({"type": "object", "properties": {}}));
            assert!(why.is_some());
        }
    }
}
