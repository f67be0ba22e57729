//! Inputs of tool calls under both sets of names.
//!
//! Only names, and values that have another spelling, are exchanged. A key without a counterpart stays as it is, so nothing
//! that a model gave is lost on the wire.

use super::own_name;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Keys of each tool: becket's name, the SDK's name.
const KEYS: &[(&str, &[(&str, &str)])] = &[
    ("read", &[("path", "file_path")]),
    ("write", &[("path", "file_path")]),
    ("edit", EDIT),
    ("multi_edit", EDIT),
    ("notebook_edit", &[("path", "notebook_path"), ("cell", "cell_id"), ("source", "new_source")]),
    ("job_output", &[("id", "bash_id")]),
    ("job_kill", &[("id", "shell_id")]),
    (
        "grep",
        &[
            ("mode", "output_mode"),
            ("ignore_case", "-i"),
            ("context", "-C"),
            ("before", "-B"),
            ("after", "-A"),
            ("limit", "head_limit"),
        ],
    ),
    ("task", &[("agent", "subagent_type")]),
    ("todo", &[("items", "todos")]),
    ("skill", &[("name", "skill"), ("arguments", "args")]),
];

const EDIT: &[(&str, &str)] = &[("path", "file_path"), ("old", "old_string"), ("new", "new_string")];

/// The keys that hold a path, under the SDK's names.
const PATHS: &[&str] = &["file_path", "notebook_path"];

fn keys(tool: &str) -> &'static [(&'static str, &'static str)] {
    KEYS.iter().find(|(name, _)| *name == tool).map_or(&[], |(_, keys)| keys)
}

/// True if inputs of `tool` look different under the SDK's names.
pub fn renames(tool: &str) -> bool {
    let tool = own_name(tool);
    !keys(&tool).is_empty() || tool == "bash"
}

fn renamed(fields: &Map<String, Value>, name: impl Fn(&str) -> Option<&'static str>) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, value) in fields {
        match name(key) {
            // If the input has both names of the key, the value under the target name wins.
            Some(other) if fields.contains_key(other) => {}
            Some(other) => drop(out.insert(other.to_owned(), value.clone())),
            None => drop(out.insert(key.clone(), value.clone())),
        }
    }
    out
}

/// The input of a call of becket's tool `tool` as SDK users know it. Paths of files are made absolute from `cwd`.
pub fn sdk_input(tool: &str, input: &Value, cwd: &Path) -> Value {
    let tool = own_name(tool);
    let Value::Object(fields) = input else { return input.clone() };
    let sdk = |key: &str| keys(&tool).iter().find(|(own, _)| *own == key).map(|(_, sdk)| *sdk);
    let mut out = renamed(fields, sdk);
    for key in PATHS {
        if let Some(Value::String(path)) = out.get_mut(*key)
            && keys(&tool).iter().any(|(_, sdk)| sdk == key)
            && !path.is_empty()
            && !path.starts_with('~')
        {
            *path = crate::lexical(&cwd.join(path.as_str())).to_string_lossy().into_owned();
        }
    }
    match tool.as_ref() {
        "bash" if out.get("background").and_then(Value::as_str) == Some("now") => {
            out.remove("background");
            out.insert("run_in_background".to_owned(), json!(true));
        }
        "job_output" => text_id(&mut out, "bash_id"),
        "job_kill" => text_id(&mut out, "shell_id"),
        "grep" => respell(&mut out, "output_mode", "files", "files_with_matches"),
        "task" => renamed_value(&mut out, "subagent_type", super::sdk_agent),
        "multi_edit" => each(&mut out, "edits", |edit| {
            renamed(edit, |key| EDIT.iter().find(|(own, _)| *own == key).map(|(_, sdk)| *sdk))
        }),
        "todo" => each(&mut out, "todos", |item| {
            let mut item = item.clone();
            if let Some(content) = item.get("content").cloned() {
                item.entry("activeForm").or_insert(content);
            }
            item
        }),
        _ => {}
    }
    Value::Object(out)
}

/// The input that an SDK gives for `tool`, under becket's own names.
pub fn own_input(tool: &str, input: &Value) -> Value {
    let tool = own_name(tool);
    let Value::Object(fields) = input else { return input.clone() };
    let own = |key: &str| keys(&tool).iter().find(|(_, sdk)| *sdk == key).map(|(own, _)| *own);
    let mut out = renamed(fields, own);
    match tool.as_ref() {
        "bash" => match out.remove("run_in_background") {
            Some(Value::Bool(true)) => drop(out.insert("background".to_owned(), json!("now"))),
            Some(Value::Bool(false)) | None => {}
            Some(other) => drop(out.insert("run_in_background".to_owned(), other)),
        },
        "job_output" | "job_kill" => {
            if let Some(number) = out.get("id").and_then(Value::as_str).and_then(|id| id.parse::<u64>().ok())
            {
                out.insert("id".to_owned(), json!(number));
            }
        }
        "grep" => respell(&mut out, "mode", "files_with_matches", "files"),
        "task" => renamed_value(&mut out, "agent", super::own_agent),
        "multi_edit" => each(&mut out, "edits", |edit| {
            renamed(edit, |key| EDIT.iter().find(|(_, sdk)| *sdk == key).map(|(own, _)| *own))
        }),
        "todo" => each(&mut out, "items", |item| {
            let mut item = item.clone();
            item.remove("activeForm");
            item
        }),
        _ => {}
    }
    Value::Object(out)
}

fn text_id(fields: &mut Map<String, Value>, key: &str) {
    if let Some(number) = fields.get(key).and_then(Value::as_u64) {
        fields.insert(key.to_owned(), json!(number.to_string()));
    }
}

fn respell(fields: &mut Map<String, Value>, key: &str, from: &str, to: &str) {
    if let Some(Value::String(text)) = fields.get_mut(key)
        && text == from
    {
        to.clone_into(text);
    }
}

fn renamed_value(fields: &mut Map<String, Value>, key: &str, name: fn(&str) -> &str) {
    if let Some(Value::String(text)) = fields.get_mut(key) {
        *text = name(text).to_owned();
    }
}

/// Changes each object of the list at `key`.
fn each(
    fields: &mut Map<String, Value>,
    key: &str,
    change: impl Fn(&Map<String, Value>) -> Map<String, Value>,
) {
    let Some(Value::Array(items)) = fields.get_mut(key) else { return };
    for item in items {
        if let Value::Object(object) = item {
            *object = change(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_go_both_ways() {
        let table = [
            ("read", json!({"path": "/w/a", "limit": 3}), json!({"file_path": "/w/a", "limit": 3})),
            ("write", json!({"path": "/w/a", "content": "x"}), json!({"file_path": "/w/a", "content": "x"})),
            (
                "edit",
                json!({"path": "/w/a", "old": "x", "new": "y", "replace_all": true}),
                json!({"file_path": "/w/a", "old_string": "x", "new_string": "y", "replace_all": true}),
            ),
            (
                "multi_edit",
                json!({"path": "/w/a", "edits": [{"old": "x", "new": "y"}]}),
                json!({"file_path": "/w/a", "edits": [{"old_string": "x", "new_string": "y"}]}),
            ),
            (
                "bash",
                json!({"command": "ls", "background": "now"}),
                json!({"command": "ls", "run_in_background": true}),
            ),
            (
                "bash",
                json!({"command": "ls", "background": "on_timeout"}),
                json!({"command": "ls", "background": "on_timeout"}),
            ),
            ("job_output", json!({"id": 3}), json!({"bash_id": "3"})),
            ("job_kill", json!({"id": 3}), json!({"shell_id": "3"})),
            (
                "grep",
                json!({"pattern": "x", "mode": "files", "ignore_case": true, "context": 2, "limit": 5}),
                json!({"pattern": "x", "output_mode": "files_with_matches", "-i": true, "-C": 2, "head_limit": 5}),
            ),
            (
                "task",
                json!({"description": "d", "prompt": "p", "agent": "general"}),
                json!({"description": "d", "prompt": "p", "subagent_type": "general-purpose"}),
            ),
            (
                "todo",
                json!({"items": [{"content": "a", "status": "pending"}]}),
                json!({"todos": [{"content": "a", "status": "pending", "activeForm": "a"}]}),
            ),
            ("skill", json!({"name": "s", "arguments": "x"}), json!({"skill": "s", "args": "x"})),
            ("mcp__a__b", json!({"path": "x"}), json!({"path": "x"})),
        ];
        for (tool, own, sdk) in table {
            assert_eq!(sdk_input(tool, &own, Path::new("/w")), sdk, "{tool}");
            assert_eq!(own_input(tool, &sdk), own, "{tool}");
            assert_eq!(own_input(&super::super::sdk_name(tool), &sdk), own, "{tool} by the name of the SDK");
            assert_eq!(own_input(tool, &own), own, "{tool}: becket's own names stay");
        }
    }

    #[test]
    fn paths_are_absolute_and_other_values_stay() {
        let cwd = Path::new("/w/project");
        let file = |path: &str| sdk_input("read", &json!({"path": path}), cwd)["file_path"].clone();
        assert_eq!(file("src/a.rs"), "/w/project/src/a.rs");
        assert_eq!(file("../b"), "/w/b");
        assert_eq!(file("~/c"), "~/c");
        assert_eq!(sdk_input("read", &json!("text"), cwd), json!("text"));
        // A model that learned the SDK's names gave them itself.
        assert_eq!(sdk_input("Read", &json!({"file_path": "a"}), cwd), json!({"file_path": "/w/project/a"}));
    }
}
