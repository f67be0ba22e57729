//! Settings as a tree: renaming keys of other programs, flattening to dotted paths and back, making paths
//! absolute, wording type errors.
//!
//! Works on one tree at a time; merging layers is not done here.

use crate::config::Config;
use crate::document::{Entry, Kind, Node};
use crate::source::Merged;
use becket_types::edit_distance;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of keys in other programs' settings, and becket's names for them.
const TRANSLATED: &[(&[&str], &[&str])] = &[
    (&["permissions", "defaultMode"], &["permission_mode"]),
    (&["permissions", "additionalDirectories"], &["add_dirs"]),
    (&["env"], &["shell", "env"]),
    (&["effortLevel"], &["effort"]),
    (&["disableAllHooks"], &["disable_all_hooks"]),
    (&["sandbox", "autoAllowBashIfSandboxed"], &["sandbox", "auto_allow_bash"]),
    (&["sandbox", "excludedCommands"], &["sandbox", "excluded_commands"]),
    (&["sandbox", "failIfUnavailable"], &["sandbox", "fail_if_unavailable"]),
    (&["sandbox", "filesystem", "allowWrite"], &["sandbox", "write"]),
    (&["sandbox", "filesystem", "denyWrite"], &["sandbox", "deny_write"]),
    (&["sandbox", "filesystem", "denyRead"], &["sandbox", "deny_read"]),
];

pub(crate) fn translate(mut root: Node) -> Node {
    for (from, to) in TRANSLATED {
        if let Some(node) = take_at(&mut root, from) {
            root.put(to, node);
        }
    }
    if let Some(mut enabled) = take_at(&mut root, &["sandbox", "enabled"]) {
        if let Kind::Scalar(Value::Bool(on)) = enabled.kind {
            enabled.kind = Kind::Scalar(Value::from(if on { "required" } else { "off" }));
        }
        root.put(&["sandbox", "mode"], enabled);
    }
    // The known keys were renamed and removed above. The keys that are left in this table are unknown.
    if let Some(node) = take_at(&mut root, &["sandbox", "filesystem"])
        && !matches!(&node.kind, Kind::Table(entries) if entries.is_empty())
    {
        root.put(&["sandbox", "filesystem"], node);
    }
    if let Some(mut allowed) = take_at(&mut root, &["sandbox", "allowUnsandboxedCommands"]) {
        if let Kind::Scalar(Value::Bool(allows)) = allowed.kind {
            allowed.kind = Kind::Scalar(Value::from(!allows));
        }
        root.put(&["sandbox", "deny_unconfined"], allowed);
    }
    // In Claude Code this key is a table with lists of hosts.
    if let Some(mut network) = take_at(&mut root, &["sandbox", "network"]) {
        if matches!(network.kind, Kind::Table(_)) {
            for (from, to) in [
                ("allowedDomains", "allow_hosts"),
                ("deniedDomains", "deny_hosts"),
                ("allowUnixSockets", "unix_sockets"),
            ] {
                if let Some(hosts) = take_at(&mut network, &[from]) {
                    root.put(&["sandbox", to], hosts);
                }
            }
        } else {
            root.put(&["sandbox", "network"], network);
        }
    }
    root
}

/// Removes and returns the value at `path`.
pub(crate) fn take_at(node: &mut Node, path: &[&str]) -> Option<Node> {
    match path {
        [] => None,
        [last] => node.take(last),
        [first, rest @ ..] => match &mut node.kind {
            Kind::Table(entries) => entries
                .iter_mut()
                .find(|e| e.key == *first)
                .and_then(|e: &mut Entry| take_at(&mut e.value, rest)),
            _ => None,
        },
    }
}

pub(crate) fn drop_nulls(node: &mut Node) {
    if let Kind::Table(entries) = &mut node.kind {
        entries.retain(|e| e.value.kind != Kind::Scalar(Value::Null));
        for entry in entries {
            drop_nulls(&mut entry.value);
        }
    }
}

pub(crate) fn from_value(value: Value) -> Node {
    let kind = match value {
        Value::Array(items) => Kind::List(items.into_iter().map(from_value).collect()),
        Value::Object(map) => Kind::Table(
            map.into_iter().map(|(key, value)| Entry { key, at: 0, value: from_value(value) }).collect(),
        ),
        scalar => Kind::Scalar(scalar),
    };
    Node { at: 0, kind }
}

/// Checks that the tree has the shape of [`Config`].
///
/// # Errors
///
/// Returns the path and the expected type.
pub(crate) fn check_types(root: &Node) -> Result<(), (Vec<String>, String)> {
    let value = root.to_value();
    decode(&value).map_err(|(mut path, message)| {
        // The deserializer loses the path inside flattened fields. The key at fault is found by trial: without it, this message
        // does not appear.
        while let Some(key) = key_at_fault(&value, &path, &message) {
            path.push(key);
        }
        (path, message)
    })
}

fn key_at_fault(root: &Value, path: &[String], message: &str) -> Option<String> {
    let table = |root: &Value| -> Option<Map<String, Value>> {
        path.iter().try_fold(root, |value, key| value.get(key)).and_then(Value::as_object).cloned()
    };
    table(root)?.keys().find_map(|key| {
        let mut without = root.clone();
        let inner = path.iter().try_fold(&mut without, |value, key| value.get_mut(key))?;
        inner.as_object_mut()?.remove(key);
        (!decode(&without).is_err_and(|(_, other)| other == message)).then(|| key.clone())
    })
}

fn decode(value: &Value) -> Result<(), (Vec<String>, String)> {
    Config::read(value).map(|_| ()).map_err(|misfit| (misfit.path, plainly(&misfit.message)))
}

/// Rewords the deserializer's message for people: the expected value, and the most similar one.
fn plainly(message: &str) -> String {
    let quoted =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let names = quoted(rest);
        let Some((given, known)) = names.split_first() else { return message.to_owned() };
        let near = nearest(given, known.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return format!("\"{given}\" is not one of {}{near}", known.join(", "));
    }
    let kind = |name: &str| match name {
        "string" | "a string" => "text",
        "integer" | "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => "a whole number",
        "floating point" | "f64" => "a number",
        "boolean" | "a boolean" => "true or false",
        "sequence" | "a sequence" => "a list",
        "map" | "a map" => "a table",
        // serde's words for names of values, and for the prices of a model.
        "string or map" | "map with a single key" => "text",
        "an array of length 4" => "a list of 4 numbers",
        name if name.starts_with("struct ") => "a table",
        _ => "",
    };
    let parts = ["invalid type: ", "invalid value: "].iter().find_map(|start| message.strip_prefix(start));
    let parts = parts.and_then(|rest| rest.split_once(", expected "));
    if let Some((given, expected)) = parts {
        let given = given.replacen("floating point", "number", 1);
        let given = given.as_str();
        let (name, value) = given.split_once(' ').map_or((given, ""), |(name, value)| (name, value));
        let from_zero = expected.starts_with('u') && value.trim_start_matches('`').starts_with('-');
        let expected = if from_zero { "a whole number, 0 or more" } else { kind(expected) };
        if !expected.is_empty() {
            let is = if value.is_empty() { kind(name).to_owned() } else { value.replace('`', "") };
            return format!("expected {expected}, not {is}");
        }
    }
    // serde's words for a list of another length.
    let length = message.strip_prefix("invalid length ").and_then(|rest| rest.split_once(", expected "));
    if let Some((given, expected)) = length {
        let wanted = expected.strip_prefix("an array of length ");
        let wanted = wanted.map_or_else(|| "a shorter list".to_owned(), |n| format!("a list of {n}"));
        return format!("expected {wanted}, not one of {given}");
    }
    message.to_owned()
}

/// Flattens the tree to leaves with dotted paths. In tables with free names, each name is a leaf.
pub(crate) fn flatten<'n>(
    node: &'n Node,
    schema: &Value,
    path: &mut Vec<String>,
    out: &mut Vec<(String, &'n Node)>,
) {
    let properties = schema.get("properties");
    let free = schema.get("additionalProperties").filter(|a| a.is_object());
    // A table that may contain anything counts as one value.
    let whole = schema.get("additionalProperties") == Some(&Value::Bool(true));
    match (&node.kind, properties, free) {
        (Kind::Table(_), None, None) if whole => out.push((path.join("."), node)),
        (Kind::Table(_), None, None) => {}
        (Kind::Table(_), ..) => {
            for entry in node.entries() {
                path.push(entry.key.clone());
                let inner = properties.and_then(|p| p.get(&entry.key)).or(free).unwrap_or(&Value::Null);
                flatten(&entry.value, inner, path, out);
                path.pop();
            }
        }
        _ => out.push((path.join("."), node)),
    }
}

pub(crate) fn unflatten(merged: &BTreeMap<String, Merged>) -> Value {
    let mut root = Map::new();
    for (key, merged) in merged {
        insert(&mut root, &parts(key), merged.value.clone());
    }
    Value::Object(root)
}

/// Tables whose names the user gives, and whose names may contain dots. `*` is any name.
const FREE_NAMES: &[&[&str]] = &[&["shell", "env"], &["models", "aliases"], &["providers", "*", "headers"]];

/// Splits a key. In a table with free names, the rest of the key is one name.
fn parts(key: &str) -> Vec<&str> {
    for table in FREE_NAMES {
        let parts: Vec<&str> = key.splitn(table.len() + 1, '.').collect();
        let fits = |(known, part): (&&str, &&str)| *known == "*" || known == part;
        if parts.len() > table.len() && table.iter().zip(&parts).all(fits) {
            return parts;
        }
    }
    key.split('.').collect()
}

fn insert(map: &mut Map<String, Value>, parts: &[&str], value: Value) {
    match parts {
        [] => {}
        [last] => {
            map.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let inner = map.entry((*first).to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

pub(crate) fn resolve_paths(value: &mut Value, base: &Path, home: &Path) {
    let Value::Array(items) = value else { return };
    for item in items {
        let Some(text) = item.as_str() else { continue };
        let path = match text.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None if text == "~" => home.to_path_buf(),
            None => base.join(text),
        };
        let clean: PathBuf =
            path.components().filter(|c| !matches!(c, std::path::Component::CurDir)).collect();
        *item = Value::String(clean.to_string_lossy().into_owned());
    }
}

pub(crate) fn describe(schema: &Value, path: &[String]) -> Option<String> {
    let mut node = schema;
    for part in path {
        node = node.get("properties").and_then(|p| p.get(part)).or_else(|| node.get("items"))?;
    }
    let text = node.get("description")?.as_str()?;
    Some(text.lines().next()?.trim_end_matches('.').to_owned())
}

/// Returns the known name that begins with what was given, or differs by only a few edits, and by no more than half of it.
pub(crate) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    let wanted = plain(name);
    known
        .map(|candidate| (edit_distance(&plain(candidate), &wanted), candidate))
        .filter(|(distance, candidate)| {
            // `accept` for `acceptEdits`, and `maximum` for `max`.
            let begins = wanted.len() >= 4 && plain(candidate).starts_with(&wanted)
                || candidate.len() >= 3 && wanted.starts_with(&plain(candidate));
            begins || *distance <= 2.max(candidate.len() / 4) && distance * 2 <= wanted.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
