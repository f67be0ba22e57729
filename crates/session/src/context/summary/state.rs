//! Session state as text after the summary. It is taken from its source and never from the summary. Files
//! that were read are in the summary's list of files and not here, so that nothing is repeated. A compaction
//! may append the contents of files; they begin with [`FILES_HEAD`].

use super::escape_tags;
use crate::context::budget::estimate_text;
use becket_types::{Tokens, cut_end, is_blank};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Limit in tokens for the text of one skill; all skills together have [`SKILLS_TOKENS`].
const SKILL_TOKENS: u64 = 5_000;
const SKILLS_TOKENS: u64 = 25_000;
/// Limit in bytes for any other state.
const OTHER_BYTES: usize = 2_000;

/// First line of the attached files in a state text.
pub(crate) const FILES_HEAD: &str = "Files that you read or edited last, as they are on disk at this compaction. The lines are numbered as the read \
                    tool numbers them. You need not read them again before you edit them.";

/// Makes the text of the state message, at most `max` base tokens; empty if there is no state.
///
/// Skills are attached for reference. The text tells the model that the summary says how far they were carried out.
pub(crate) fn state_text(state: &BTreeMap<String, Value>, max: Tokens) -> String {
    let mut blocks = Vec::new();
    if let Some(mode) = state.get("mode").and_then(Value::as_str) {
        blocks.push(format!("Mode: {}", escape_tags(mode)));
    }
    if let Some(cwd) = state.get("cwd").and_then(Value::as_str) {
        blocks.push(format!("Working directory: {}", escape_tags(cwd)));
    }
    if let Some(cwd) = state.get("shell_cwd").and_then(Value::as_str) {
        blocks.push(format!("Shell commands start in: {}", escape_tags(cwd)));
    }
    blocks.extend(state.get("jobs").and_then(jobs));
    blocks.extend(state.get("todo").and_then(todo));
    blocks.extend(state.get("skills").and_then(|s| skills(s, max)));
    let text = blocks.join("\n\n");
    bounded(&text, max)
}

/// Splits a state text into the part without attached files and the part with them.
pub(crate) fn split_files(state: &str) -> (&str, &str) {
    state.split_at(state.find(FILES_HEAD).unwrap_or(state.len()))
}

fn bounded(text: &str, max: Tokens) -> String {
    let mut cut = text;
    while estimate_text(cut) > max && !cut.is_empty() {
        cut = cut_end(cut, cut.len() * 9 / 10);
    }
    if cut.len() == text.len() { text.to_owned() } else { format!("{cut}\n[… cut …]") }
}

/// Returns a todo list as text. Takes an array, also under `items` or `todos`, of strings or of objects with `content`,
/// `text`, `title` or `task`, and `status` or `state`.
pub(super) fn todo(value: &Value) -> Option<String> {
    let items = ["items", "todos"].iter().find_map(|k| value.get(k)).unwrap_or(value).as_array()?;
    let lines: Vec<String> = items
        .iter()
        .filter_map(|item| {
            let text = item.as_str().or_else(|| field(item, &["content", "text", "title", "task"]))?;
            let status = field(item, &["status", "state"]).unwrap_or("pending");
            // Open items stay whole: the todo tool accepts at most 500 characters.
            let room = if status == "completed" { 300 } else { OTHER_BYTES };
            Some(format!("- [{}] {}", escape_tags(status), one_line(text, room)))
        })
        .collect();
    (!lines.is_empty()).then(|| format!("Todo list:\n{}", lines.join("\n")))
}

/// Parses `[{id, command, state}]` and returns background jobs of the shell that are running or lost.
fn jobs(value: &Value) -> Option<String> {
    let line = |job: &Value| {
        let (state, command) = (field(job, &["state"])?, field(job, &["command"])?);
        matches!(state, "running" | "lost")
            .then(|| format!("- {} [{state}] {}", job["id"], one_line(command, 200)))
    };
    let lines: Vec<String> = value.as_array()?.iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| format!("Background jobs:\n{}", lines.join("\n")))
}

/// Returns path and hash of files that were read. Accepts `[{path, hash}]` and `{path: hash}`.
pub(super) fn read_files(value: &Value) -> Vec<(String, String)> {
    let hash = |value: &Value| {
        value.as_str().or_else(|| field(value, &["hash", "sha256"])).unwrap_or_default().to_owned()
    };
    match value {
        Value::Array(items) => items
            .iter()
            .filter_map(|item| match item.as_str() {
                Some(path) => Some((path.to_owned(), String::new())),
                None => Some((field(item, &["path", "file"])?.to_owned(), hash(item))),
            })
            .collect(),
        Value::Object(map) => map.iter().map(|(path, value)| (path.clone(), hash(value))).collect(),
        _ => Vec::new(),
    }
}

/// Parses `[name]`, `[{name, content|body|text}]` or `{name: content}`. Each skill appears once, with its
/// newest text.
fn skills(value: &Value, max: Tokens) -> Option<String> {
    let mut named: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, body: &str| {
        named.retain(|(n, _)| n != name);
        named.push((name.to_owned(), body.to_owned()));
    };
    match value {
        Value::Array(items) => {
            for item in items {
                if let Some(name) = item.as_str().or_else(|| field(item, &["name"])) {
                    add(name, field(item, &["content", "body", "text"]).unwrap_or_default());
                }
            }
        }
        Value::Object(map) => {
            for (name, v) in map {
                add(name, v.as_str().or_else(|| field(v, &["content", "body", "text"])).unwrap_or_default());
            }
        }
        _ => return None,
    }
    if named.is_empty() {
        return None;
    }
    let mut left = SKILLS_TOKENS.min(max.0 / 2);
    let mut out = "Skills in use, for reference only. They were started earlier; how far they got is in the summary. Do not \
                   run them again from the start."
        .to_owned();
    for (name, body) in &named {
        let _ = write!(out, "\n\nSkill {}", one_line(name, 100));
        if is_blank(body) {
            continue;
        }
        let body = bounded(body, Tokens(SKILL_TOKENS.min(left)));
        left = left.saturating_sub(estimate_text(&body).0);
        let _ = write!(out, ":\n{}", escape_tags(&body));
    }
    Some(out)
}

fn field<'a>(value: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|n| value.get(n)).and_then(Value::as_str)
}

pub(super) fn one_line(text: &str, max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short = cut_end(&line, max.min(OTHER_BYTES));
    let dots = if short.len() < line.len() { "…" } else { "" };
    escape_tags(&format!("{short}{dots}"))
}
