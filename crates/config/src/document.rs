//! A parsed file, TOML or JSON with comments, as one tree. Every value knows its position in the text.

use crate::error::Problem;
use jsonc_parser::ast;
use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// Byte offset in the text.
    pub at: usize,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Scalar(Value),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    /// Byte offset of the key in the text.
    pub at: usize,
    pub value: Node,
}

impl Node {
    pub(crate) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Kind::Table(entries) => Value::Object(
                entries.iter().map(|e| (e.key.clone(), e.value.to_value())).collect::<Map<_, _>>(),
            ),
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Table(entries) => entries,
            _ => &[],
        }
    }

    /// Removes `key` from a table and returns its value.
    pub(crate) fn take(&mut self, key: &str) -> Option<Node> {
        match &mut self.kind {
            Kind::Table(entries) => {
                let at = entries.iter().position(|e| e.key == key)?;
                Some(entries.remove(at).value)
            }
            _ => None,
        }
    }

    /// Puts `value` at `path` and creates tables on the way. A value on the way that is not a table is replaced.
    pub(crate) fn put(&mut self, path: &[&str], value: Node) {
        let Some((first, rest)) = path.split_first() else {
            *self = value;
            return;
        };
        if !matches!(self.kind, Kind::Table(_)) {
            self.kind = Kind::Table(Vec::new());
        }
        let Kind::Table(entries) = &mut self.kind else { return };
        let index = entries.iter().position(|e| e.key == *first).unwrap_or_else(|| {
            let at = value.at;
            entries.push(Entry {
                key: (*first).to_owned(),
                at,
                value: Node { at, kind: Kind::Table(Vec::new()) },
            });
            entries.len() - 1
        });
        entries[index].value.put(rest, value);
    }

    /// Returns the node at `path`, or the deepest existing node on the way to it.
    pub(crate) fn nearest(&self, path: &[String]) -> &Node {
        let mut node = self;
        for part in path {
            let next = match &node.kind {
                Kind::Table(entries) => entries.iter().find(|e| e.key == *part).map(|e| &e.value),
                Kind::List(items) => part.parse::<usize>().ok().and_then(|at| items.get(at)),
                Kind::Scalar(_) => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }
}

/// Converts a byte offset to line and column, from 1.
pub(crate) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at.min(text.len()))];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

fn problem(origin: &str, text: &str, at: usize, message: String) -> Problem {
    Problem { origin: origin.to_owned(), at: Some(position(text, at)), key: None, message }
}

pub(crate) fn parse_toml(origin: &str, text: &str) -> Result<Node, Problem> {
    if let Some(at) = deep_key(text) {
        return Err(problem(origin, text, at, format!("nested too deeply: at most {MAX_DEPTH} levels")));
    }
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        problem(
            origin,
            text,
            at,
            format!("not valid TOML: {}; correct the line or remove it", error.message().trim()),
        )
    })?;
    from_table(table.get_ref(), table.span().start, 0)
        .ok_or_else(|| problem(origin, text, 0, format!("nested too deeply: at most {MAX_DEPTH} levels")))
}

/// Returns the offset of a dotted key with more parts than the allowed depth. Searched before parsing, because the parser would
/// build a tree of that depth.
fn deep_key(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let head = line.split('=').next().unwrap_or_default();
        let is_key = line.trim_start().starts_with('[') || line.contains('=');
        if is_key && head.matches('.').count() > MAX_DEPTH * 2 {
            return Some(at);
        }
        at += line.len();
    }
    None
}

fn from_table(table: &DeTable<'_>, at: usize, depth: usize) -> Option<Node> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| {
            let value = from_toml(value.get_ref(), value.span().start, depth + 1)?;
            Some(Entry { key: key.get_ref().to_string(), at: key.span().start, value })
        })
        .collect::<Option<_>>()?;
    entries.sort_by_key(|e| e.at);
    Some(Node { at, kind: Kind::Table(entries) })
}

fn from_toml(value: &DeValue<'_>, at: usize, depth: usize) -> Option<Node> {
    let scalar = |value: Value| Some(Node { at, kind: Kind::Scalar(value) });
    match value {
        DeValue::Table(table) => from_table(table, at, depth),
        DeValue::Array(items) if depth <= MAX_DEPTH => {
            let items = items
                .iter()
                .map(|i| from_toml(i.get_ref(), i.span().start, depth + 1))
                .collect::<Option<_>>()?;
            Some(Node { at, kind: Kind::List(items) })
        }
        DeValue::Array(_) => None,
        DeValue::Boolean(b) => scalar(Value::Bool(*b)),
        DeValue::Integer(i) => {
            let number = i64::from_str_radix(i.as_str(), i.radix()).map(Number::from);
            scalar(number.map_or_else(|_| Value::String(i.as_str().to_owned()), Value::Number))
        }
        DeValue::Float(f) => {
            let number = f.as_str().replace('_', "").parse().ok().and_then(Number::from_f64);
            scalar(number.map_or_else(|| Value::String(f.as_str().to_owned()), Value::Number))
        }
        DeValue::String(s) => scalar(Value::String(s.to_string())),
        DeValue::Datetime(d) => scalar(Value::String(d.to_string())),
    }
}

/// Parses a JSON text with comments and trailing commas.
///
/// # Errors
///
/// Returns a message with the mistake and its line.
pub fn json_value(text: &str) -> Result<Value, String> {
    parse_json("", text).map(|node| node.to_value()).map_err(|problem| match problem.at {
        Some((line, _)) => format!("line {line}: {}", problem.message),
        None => problem.message,
    })
}

pub(crate) fn parse_json(origin: &str, text: &str) -> Result<Node, Problem> {
    strict_json(origin, text).or_else(|problem| match becket_types::replace_lone_surrogates(text) {
        // The repaired text is as long, so its positions are those of the file.
        Some(repaired) => strict_json(origin, &repaired),
        None => Err(problem),
    })
}

fn strict_json(origin: &str, text: &str) -> Result<Node, Problem> {
    let options = jsonc_parser::ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = jsonc_parser::parse_to_ast(text, &jsonc_parser::CollectOptions::default(), &options)
        .map_err(|error| {
            let message = format!("not valid JSON: {}; correct it or remove it", error.kind());
            problem(origin, text, error.range().start, message)
        })?;
    let Some(value) = parsed.value else { return Ok(Node { at: 0, kind: Kind::Table(Vec::new()) }) };
    let node = from_json(&value, 0)
        .ok_or_else(|| problem(origin, text, 0, format!("nested too deeply: at most {MAX_DEPTH} levels")))?;
    match node.kind {
        Kind::Table(_) => Ok(node),
        _ => Err(problem(origin, text, 0, "settings are a JSON object: { … }".to_owned())),
    }
}

fn from_json(value: &ast::Value<'_>, depth: usize) -> Option<Node> {
    if depth > MAX_DEPTH {
        return None;
    }
    let node = |range: jsonc_parser::common::Range, kind| Some(Node { at: range.start, kind });
    match value {
        ast::Value::StringLit(s) => node(s.range, Kind::Scalar(Value::String(s.value.to_string()))),
        ast::Value::NumberLit(n) => {
            let number = serde_json::from_str(n.value).unwrap_or_else(|_| Value::String(n.value.to_owned()));
            node(n.range, Kind::Scalar(number))
        }
        ast::Value::BooleanLit(b) => node(b.range, Kind::Scalar(Value::Bool(b.value))),
        ast::Value::NullKeyword(n) => node(n.range, Kind::Scalar(Value::Null)),
        ast::Value::Array(a) => {
            let items = a.elements.iter().map(|e| from_json(e, depth + 1)).collect::<Option<_>>()?;
            node(a.range, Kind::List(items))
        }
        ast::Value::Object(o) => {
            let mut entries: Vec<Entry> = Vec::new();
            for property in &o.properties {
                let key = property.name.as_str().to_owned();
                // If a key occurs twice, the last one counts, as is usual in JSON.
                entries.retain(|e| e.key != key);
                let value = from_json(&property.value, depth + 1)?;
                entries.push(Entry { key, at: property.range.start, value });
            }
            node(o.range, Kind::Table(entries))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_an_emoji_does_not_make_a_file_unreadable() {
        for (written, read) in [
            (r"a \ud83d b", "a \u{fffd} b"),
            (r"\ude00", "\u{fffd}"),
            (r"\ud83d\ude00", "\u{1f600}"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
            (r"\\ud83d", r"\ud83d"),
            (r"\ud83d\n", "\u{fffd}\n"),
            (r"\u00e9", "é"),
        ] {
            let found = json_value(&format!("{{\"é\": \"{written}\"}}")).unwrap();
            assert_eq!(found["é"], read, "{written}");
        }
        let problem = json_value("{\"a\": \"\\ud83d\",\n oops}").unwrap_err();
        assert!(problem.starts_with("line 2: "), "{problem}");
        assert!(json_value("{\"a\": \"\\").is_err());
    }
}
