//! Changes one value in the text of a configuration file. Everything else stays byte for byte: comments,
//! order, spaces.
//!
//! Pure: text in, text out. If a change cannot be made safely, it is refused with the text to write by hand.
//! The result is parsed and compared before it is returned.

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

/// The change to a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Amend {
    /// Sets the key to this value.
    Set(Value),
    /// Adds this element to the key's list.
    Add(String),
    /// Removes this element from the key's list.
    Remove(String),
}

/// Returns `text`, in TOML, with the change applied to `[section] key`. A section may be a path
/// (`providers.openai`); it is empty for top-level keys.
///
/// # Errors
///
/// Returns a message that says what to write by hand.
pub fn amend(text: &str, section: &str, key: &str, how: &Amend) -> Result<String, String> {
    let by_hand = |why: &str| {
        let value = match how {
            Amend::Set(value) => literal(value),
            Amend::Add(element) => format!("[…, {}]", literal(&Value::from(element.as_str()))),
            Amend::Remove(element) => format!("[…] without {}", literal(&Value::from(element.as_str()))),
        };
        let place = if section.is_empty() {
            "above the first section".to_owned()
        } else {
            format!("under [{section}]")
        };
        format!("{why}; write it there yourself: {key} = {value} {place}")
    };
    let before = read(text).map_err(|e| by_hand(&format!("the file cannot be read as TOML ({e})")))?;
    let out = match place(text, section, key) {
        Some(Found::List(start, empty)) => match how {
            Amend::Add(element) => {
                let comma = if empty { "" } else { ", " };
                let element = literal(&Value::from(element.as_str()));
                format!("{}{element}{comma}{}", &text[..=start], &text[start + 1..])
            }
            Amend::Remove(element) => {
                without(text, section, key, element).ok_or_else(|| by_hand("the list has no such element"))?
            }
            Amend::Set(_) => return Err(by_hand("the key holds a list")),
        },
        Some(Found::Scalar(start, end)) => match how {
            Amend::Set(value) => format!("{}{}{}", &text[..start], literal(value), &text[end..]),
            Amend::Add(_) | Amend::Remove(_) => return Err(by_hand("the key holds no list")),
        },
        None => {
            let line = match how {
                Amend::Remove(_) => return Err(by_hand("there is no such key")),
                Amend::Set(value) => format!("{key} = {}\n", literal(value)),
                Amend::Add(element) => format!("{key} = [{}]\n", literal(&Value::from(element.as_str()))),
            };
            inserted(text, section, &line)
        }
    };
    let wanted = amended(before, section, key, how);
    match read(&out) {
        Ok(after) if after == wanted => Ok(out),
        _ => Err(by_hand("the file is written in a way that cannot be changed safely")),
    }
}

/// Returns the strings in the list `[section] key`; empty if there is none or the file cannot be parsed.
pub fn listed(text: &str, section: &str, key: &str) -> Vec<String> {
    let tree = read(text).unwrap_or_default();
    let table = names(section).try_fold(&tree, |table, name| table.get(name));
    let list = table.and_then(|table| table.get(key)).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

enum Found {
    /// Offset of its `[`, and true if the list is empty.
    List(usize, bool),
    Scalar(usize, usize),
}

fn place(text: &str, section: &str, key: &str) -> Option<Found> {
    let table = DeTable::parse(text).ok()?;
    let mut table = table.get_ref();
    for name in names(section) {
        let DeValue::Table(inner) = table.get(name)?.get_ref() else { return None };
        table = inner;
    }
    let value = table.get(key)?;
    let span = value.span();
    Some(match value.get_ref() {
        DeValue::Array(items) => Found::List(span.start, items.is_empty()),
        _ => Found::Scalar(span.start, span.end),
    })
}

/// Returns the text without the first such element of a list and its comma.
fn without(text: &str, section: &str, key: &str, element: &str) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let mut table = table.get_ref();
    for name in names(section) {
        let DeValue::Table(inner) = table.get(name)?.get_ref() else { return None };
        table = inner;
    }
    let DeValue::Array(items) = table.get(key)?.get_ref() else { return None };
    let is = |value: &DeValue<'_>| matches!(value, DeValue::String(text) if text.as_ref() == element);
    let span = items.iter().find(|item| is(item.get_ref()))?.span();
    let rest = &text[span.end..];
    let after = match rest.trim_start().strip_prefix(',') {
        Some(after) => after.trim_start_matches(' '),
        None => rest,
    };
    Some(format!("{}{after}", &text[..span.start]))
}

fn names(section: &str) -> impl Iterator<Item = &str> {
    section.split('.').filter(|name| !name.is_empty())
}

/// Inserts the line below the section's header, or appends the header first.
fn inserted(text: &str, section: &str, line: &str) -> String {
    if section.is_empty() {
        // Top-level keys end where the first section begins.
        let rows = text.split_inclusive('\n').take_while(|row| !row.trim_start().starts_with('['));
        let at = rows.map(str::len).sum();
        let (before, after) = text.split_at(at);
        let kept = before.trim_end();
        let gap = if kept.is_empty() { "" } else { "\n" };
        let rest = if after.is_empty() { "" } else { "\n" };
        return format!("{kept}{gap}{line}{rest}{after}");
    }
    let mut at = 0;
    for row in text.split_inclusive('\n') {
        at += row.len();
        let bare = row.split('#').next().unwrap_or_default().trim();
        if bare.strip_prefix('[').and_then(|r| r.strip_suffix(']')).is_some_and(|name| name.trim() == section)
        {
            let gap = if row.ends_with('\n') { "" } else { "\n" };
            return format!("{}{gap}{line}{}", &text[..at], &text[at..]);
        }
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{text}{gap}[{section}]\n{line}")
}

fn read(text: &str) -> Result<Value, String> {
    toml::from_str(text).map_err(|e| e.message().to_owned())
}

fn amended(mut tree: Value, section: &str, key: &str, how: &Amend) -> Value {
    let mut table = &mut tree;
    for name in names(section) {
        let Value::Object(map) = table else { return tree };
        table = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    if let Value::Object(section) = table {
        match how {
            Amend::Set(value) => {
                section.insert(key.to_owned(), value.clone());
            }
            Amend::Add(element) => {
                let list = section.entry(key).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(items) = list {
                    items.insert(0, Value::from(element.as_str()));
                }
            }
            Amend::Remove(element) => {
                if let Some(Value::Array(items)) = section.get_mut(key)
                    && let Some(at) = items.iter().position(|item| item == element.as_str())
                {
                    items.remove(at);
                }
            }
        }
    }
    tree
}

/// Formats a value as TOML.
fn literal(value: &Value) -> String {
    match value {
        // JSON's string escapes are valid TOML, except that TOML forbids a raw DEL character.
        Value::String(text) => Value::from(text.as_str()).to_string().replace('\u{7f}', "\\u007F"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn add(text: &str, rule: &str) -> Result<String, String> {
        amend(text, "permissions", "allow", &Amend::Add(rule.to_owned()))
    }

    #[test]
    fn a_rule_is_added_and_all_else_stays() {
        for (before, after) in [
            ("", "[permissions]\nallow = [\"Bash(ls *)\"]\n"),
            ("model = \"x\" # mine", "model = \"x\" # mine\n\n[permissions]\nallow = [\"Bash(ls *)\"]\n"),
            ("[permissions] # p\ndeny = []\n", "[permissions] # p\nallow = [\"Bash(ls *)\"]\ndeny = []\n"),
            ("[permissions]\nallow = []", "[permissions]\nallow = [\"Bash(ls *)\"]"),
            (
                "[permissions]\nallow = [ # why\n  \"Read\", # r\n]\n[ui]\nvim = true\n",
                "[permissions]\nallow = [\"Bash(ls *)\",  # why\n  \"Read\", # r\n]\n[ui]\nvim = true\n",
            ),
            ("permissions.allow = ['a']\n", "permissions.allow = [\"Bash(ls *)\", 'a']\n"),
            ("permissions = {allow = ['a']}", "permissions = {allow = [\"Bash(ls *)\", 'a']}"),
        ] {
            assert_eq!(add(before, "Bash(ls *)").as_deref(), Ok(after), "{before}");
        }
        let quoted = add("", "Bash(echo \"a\\b\" \u{1})").unwrap();
        assert_eq!(read(&quoted).unwrap()["permissions"]["allow"][0], "Bash(echo \"a\\b\" \u{1})");
    }

    #[test]
    fn what_cannot_be_changed_safely_is_said() {
        for bad in ["permissions = 3", "[permissions", "[permissions]\nallow = \"x\"", "permissions = {}"] {
            let said = add(bad, "Read").unwrap_err();
            assert!(said.contains("write it there yourself"), "{bad}: {said}");
        }
    }

    #[test]
    fn a_rule_is_removed_and_all_else_stays() {
        let remove = |text: &str| amend(text, "permissions", "allow", &Amend::Remove("b".to_owned()));
        for (before, after) in [
            ("permissions.allow = ['b']\n", "permissions.allow = []\n"),
            ("permissions.allow = ['a', 'b', 'c']\n", "permissions.allow = ['a', 'c']\n"),
            ("permissions.allow = ['a', \"b\"] # mine\n", "permissions.allow = ['a', ] # mine\n"),
            (
                "[permissions]\nallow = [\n  'b', # why\n  'c',\n]\n",
                "[permissions]\nallow = [\n  # why\n  'c',\n]\n",
            ),
        ] {
            assert_eq!(remove(before).as_deref(), Ok(after), "{before}");
        }
        for bad in ["", "permissions.allow = ['a']", "permissions.allow = 'b'"] {
            assert!(remove(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_is_set() {
        let set = |text: &str, value: Value| amend(text, "ui", "theme", &Amend::Set(value));
        assert_eq!(
            set("[ui]\ntheme = 'dark' # d\n", json!("light")).unwrap(),
            "[ui]\ntheme = \"light\" # d\n"
        );
        assert_eq!(set("", json!("light")).unwrap(), "[ui]\ntheme = \"light\"\n");
        assert!(set("[ui]\ntheme = []", json!("light")).is_err());
    }

    #[test]
    fn keys_of_the_file_itself_and_of_a_section_below_another_are_set() {
        let model = |text: &str| amend(text, "", "model", &Amend::Set(json!("a/b")));
        for (before, after) in [
            ("", "model = \"a/b\"\n"),
            ("# mine\neffort = \"low\"\n", "# mine\neffort = \"low\"\nmodel = \"a/b\"\n"),
            (
                "effort = \"low\"\n\n[ui]\nvim = true\n",
                "effort = \"low\"\nmodel = \"a/b\"\n\n[ui]\nvim = true\n",
            ),
            ("[ui]\nvim = true\n", "model = \"a/b\"\n\n[ui]\nvim = true\n"),
            ("model = 'c' # d\n[ui]\n", "model = \"a/b\" # d\n[ui]\n"),
        ] {
            assert_eq!(model(before).as_deref(), Ok(after), "{before}");
        }
        let url = |text: &str| amend(text, "providers.openai", "base_url", &Amend::Set(json!("http://h/v1")));
        assert_eq!(url("").unwrap(), "[providers.openai]\nbase_url = \"http://h/v1\"\n");
        assert_eq!(
            url("[providers.openai]\nbase_url = 'x'\n").unwrap(),
            "[providers.openai]\nbase_url = \"http://h/v1\"\n"
        );
        assert_eq!(
            url("[providers.anthropic]\nbase_url = 'x'\n").unwrap(),
            "[providers.anthropic]\nbase_url = 'x'\n\n[providers.openai]\nbase_url = \"http://h/v1\"\n"
        );
    }
}
