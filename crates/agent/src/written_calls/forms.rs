//! Forms of calls in text that have no marker, and calls written as Python. Pure.
//!
//! Without a marker, only tools that exist count: lists of Python calls, `Action:` with `Action Input:`, and elements that are
//! named like the tool.

use super::FoundCall;
use serde_json::{Map, Value};

/// Maximum depth of lists and tables in the arguments of a Python call.
const DEEPEST: usize = 16;

/// Returns the calls of known tools that have no marker.
pub(super) fn without_marks(text: &str, tools: &[&str]) -> Vec<FoundCall> {
    let is_known = |call: &FoundCall| tools.iter().any(|tool| tool.eq_ignore_ascii_case(&call.name));
    let mut found = python_lists(text);
    found.extend(actions(text));
    found.extend(old_invokes(text));
    found.retain(is_known);
    found.extend(tools.iter().flat_map(|tool| elements(text, tool)));
    found
}

/// Returns the lists of calls with named arguments that begin a line: `[read(path="a"), bash(command="ls")]`.
fn python_lists(text: &str) -> Vec<FoundCall> {
    let starts = text.match_indices('[').map(|(at, _)| at).take(super::MOST_CALLS).filter(|at| {
        let line = text.get(..*at).unwrap_or_default().rsplit('\n').next().unwrap_or_default();
        line.trim().is_empty()
    });
    let mut found = Vec::new();
    for start in starts {
        let calls = python_calls(text, start);
        let end = calls.last().map_or(start, |call| call.end);
        let closes = text.get(end..).unwrap_or_default().trim_start().starts_with(']');
        if closes && calls.iter().all(|call| call.input.is_some()) {
            found.extend(calls.into_iter().map(|call| FoundCall { start, marked: true, ..call }));
        }
    }
    found
}

/// Returns the Python calls at `from`: one, or a list of them.
pub(super) fn python_calls(text: &str, from: usize) -> Vec<FoundCall> {
    let mut calls = Vec::new();
    let mut at = skip(text, from, char::is_whitespace);
    let is_list = text.get(at..).is_some_and(|rest| rest.starts_with('['));
    if is_list {
        at += 1;
    }
    while calls.len() < super::MOST_CALLS {
        let Some(call) = python_call(text, skip(text, at, char::is_whitespace)) else { break };
        at = skip(text, call.end, |c| c.is_whitespace() || matches!(c, ',' | ';'));
        calls.push(call);
    }
    calls
}

/// Returns the call at `from`, such as `read(path="a")`, `bash.call(command="ls")` or `print(default_api.read(path="a"))`.
fn python_call(text: &str, from: usize) -> Option<FoundCall> {
    let rest = text.get(from..)?;
    let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')))?;
    let name = rest.get(..length).filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))?;
    let open = from + length;
    if !text.get(open..)?.starts_with('(') {
        return None;
    }
    let end = closing(text, open)?;
    let inside = text.get(open + 1..end - 1)?;
    if name == "print" && inside.trim_start().starts_with("default_api.") {
        let call = python_call(text, open + 1)?;
        return Some(FoundCall { end, ..call });
    }
    let name = name.strip_suffix(".call").unwrap_or(name);
    let name = ["default_api.", "functions.", "tools."]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    Some(FoundCall { name: name.to_owned(), input: named_arguments(inside), start: from, end, marked: false })
}

/// Returns the position after the bracket that closes the one at `open`.
fn closing(text: &str, open: usize) -> Option<usize> {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (at, c) in text.get(open..)?.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(open + at + c.len_utf8());
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the arguments if all of them are named and literal.
fn named_arguments(mut rest: &str) -> Option<Value> {
    let mut input = Map::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        if rest.is_empty() {
            return Some(Value::Object(input));
        }
        let (name, value) = rest.split_once('=')?;
        let name = name.trim();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        let (value, after) = literal(value.trim_start(), 0)?;
        input.insert(name.to_owned(), value);
        rest = after.trim_start();
        if !rest.is_empty() && !rest.starts_with(',') {
            return None;
        }
    }
}

/// Reads a Python literal. Returns it with the text after it.
fn literal(text: &str, depth: usize) -> Option<(Value, &str)> {
    if depth > DEEPEST {
        return None;
    }
    for quote in ["\"\"\"", "'''", "\"", "'"] {
        if let Some(rest) = text.strip_prefix(quote) {
            return quoted(rest, quote);
        }
    }
    if let Some(mut rest) = text.strip_prefix('[') {
        let mut items = Vec::new();
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            if let Some(after) = rest.strip_prefix(']') {
                return Some((Value::Array(items), after));
            }
            let (item, after) = literal(rest, depth + 1)?;
            items.push(item);
            rest = after;
        }
    }
    if let Some(mut rest) = text.strip_prefix('{') {
        let mut table = Map::new();
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            if let Some(after) = rest.strip_prefix('}') {
                return Some((Value::Object(table), after));
            }
            let (key, after) = literal(rest, depth + 1)?;
            let after = after.trim_start().strip_prefix(':')?.trim_start();
            let (value, after) = literal(after, depth + 1)?;
            table.insert(key.as_str()?.to_owned(), value);
            rest = after;
        }
    }
    let length = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+')))
        .unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(length)?;
    let value = match word {
        "True" | "true" => Value::Bool(true),
        "False" | "false" => Value::Bool(false),
        "None" | "null" => Value::Null,
        number => serde_json::from_str(number).ok().filter(Value::is_number)?,
    };
    Some((value, rest))
}

/// Reads a text up to its closing quote.
fn quoted<'t>(text: &'t str, quote: &str) -> Option<(Value, &'t str)> {
    let mut out = String::new();
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        if let Some(after) = rest.strip_prefix(quote) {
            return Some((Value::String(out), after));
        }
        let mut chars = rest.chars();
        let c = chars.next()?;
        at += c.len_utf8();
        if c != '\\' {
            out.push(c);
            continue;
        }
        let escaped = chars.next()?;
        at += escaped.len_utf8();
        match escaped {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            '\\' | '\'' | '"' => out.push(escaped),
            other => out.extend(['\\', other]),
        }
    }
}

/// Returns the calls in the form of ReAct: a line `Action: NAME`, and below it `Action Input: …`.
fn actions(text: &str) -> Vec<FoundCall> {
    let mut found = Vec::new();
    for (at, mark) in text.match_indices("Action:").take(super::MOST_CALLS) {
        let begins_line =
            text.get(..at).unwrap_or_default().rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
        let rest = text.get(at + mark.len()..).unwrap_or_default();
        let Some((name, below)) = rest.split_once('\n').filter(|_| begins_line) else { continue };
        let Some(input) = below.trim_start().strip_prefix("Action Input:") else { continue };
        let name = name.trim().trim_matches(['`', '"', '*', '[', ']']).to_owned();
        let from = text.len() - input.len();
        let mut documents = serde_json::Deserializer::from_str(input).into_iter::<Value>();
        let (input, end) = match documents.next() {
            Some(Ok(value)) if value.is_object() => (Some(value), from + documents.byte_offset()),
            _ => (None, from + input.find('\n').unwrap_or(input.len())),
        };
        found.push(FoundCall { name, input, start: at, end, marked: true });
    }
    found
}

/// Returns the calls in Claude's old form: `<tool_name>NAME</tool_name><parameters>…</parameters>`.
fn old_invokes(text: &str) -> Vec<FoundCall> {
    let mut found = Vec::new();
    for (at, mark) in text.match_indices("<tool_name>").take(super::MOST_CALLS) {
        let rest = text.get(at + mark.len()..).unwrap_or_default();
        let Some((name, after)) = rest.split_once("</tool_name>") else { continue };
        let Some(body) = after.trim_start().strip_prefix("<parameters>") else { continue };
        let Some((inside, after)) = body.split_once("</parameters>") else { continue };
        let end = text.len() - after.len();
        let input = children(inside).map(Value::Object);
        found.push(FoundCall { name: name.trim().to_owned(), input, start: at, end, marked: true });
    }
    found
}

/// Returns the elements that are named like a tool and have an element for each argument: `<bash><command>ls</command></bash>`.
fn elements(text: &str, tool: &str) -> Vec<FoundCall> {
    let (open, close) = (format!("<{tool}>"), format!("</{tool}>"));
    let mut found = Vec::new();
    for (at, _) in text.match_indices(&open).take(super::MOST_CALLS) {
        let rest = text.get(at + open.len()..).unwrap_or_default();
        let Some((inside, after)) = rest.split_once(&close) else { continue };
        let object = || serde_json::from_str::<Value>(inside.trim()).ok().filter(Value::is_object);
        let Some(input) = children(inside).map(Value::Object).or_else(object) else { continue };
        let end = text.len() - after.len();
        found.push(FoundCall { name: tool.to_owned(), input: Some(input), start: at, end, marked: true });
    }
    found
}

/// Returns the elements of a text that has nothing else, by name.
fn children(text: &str) -> Option<Map<String, Value>> {
    let mut rest = text.trim();
    let mut out = Map::new();
    while !rest.is_empty() {
        let (name, body) = rest.strip_prefix('<')?.split_once('>')?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
            return None;
        }
        let (value, after) = body.split_once(&format!("</{name}>"))?;
        out.insert(name.to_owned(), Value::String(value.trim_matches('\n').to_owned()));
        rest = after.trim();
    }
    (!out.is_empty()).then_some(out)
}

/// Returns the position of the first character from `at` on that does not match.
fn skip(text: &str, at: usize, matches: impl Fn(char) -> bool) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.len() - rest.trim_start_matches(matches).len()
}
