//! Changes one key in the text of a configuration file. Comments, order and spaces of everything else stay as they are.
//!
//! Pure: text in, text out. A change that is not safe is refused, with the line to write by hand. The result is parsed again, and
//! it is returned only if nothing but the key differs from the original.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, RawString, Table, TableLike};

/// Change of the key.
#[derive(Clone, Debug, PartialEq)]
pub enum Amend {
    /// Gives the key this value.
    Set(Value),
    /// Adds this element to the key's list.
    Add(String),
    /// Removes this element from the key's list.
    Remove(String),
}

/// Returns `text`, in TOML, with `[section] key` changed. A section may be a path (`providers.openai`); the empty
/// section holds the file's own keys.
///
/// # Errors
///
/// Returns the reason why the file cannot be changed, with the line that the user can add.
pub fn amend(text: &str, section: &str, key: &str, how: &Amend) -> Result<String, String> {
    let by_hand = |why: &str| {
        let value = match how {
            Amend::Set(value) => literal(value).map_or_else(|| value.to_string(), |value| value.to_string()),
            Amend::Add(element) => format!("[…, {}]", string(element)),
            Amend::Remove(element) => format!("[…] without {}", string(element)),
        };
        let place = if section.is_empty() {
            "above the first section".to_owned()
        } else {
            format!("under [{section}]")
        };
        format!("{why}; write it there yourself: {key} = {value} {place}")
    };
    let unsafe_text = || by_hand("the file is written in a way that cannot be changed safely");
    let before = read(text).map_err(|e| by_hand(&format!("the file cannot be read as TOML ({e})")))?;
    // The TOML editor writes line feeds only. A file with carriage returns gets them back below.
    let line_feeds = text.replace("\r\n", "\n");
    let mut document: DocumentMut = line_feeds.parse().map_err(|_| unsafe_text())?;
    if document.to_string() != line_feeds && format!("{line_feeds}\n") != document.to_string() {
        return Err(unsafe_text());
    }
    change(&mut document, section, key, how).map_err(by_hand)?;
    let mut out = document.to_string();
    if line_feeds.len() < text.len() {
        out = out.replace('\n', "\r\n");
    }
    match read(&out) {
        Ok(after) if after == amended(before, section, key, how) => Ok(out),
        _ => Err(unsafe_text()),
    }
}

/// Returns the texts in the list at `[section] key`; empty if there is no such list or the file cannot be parsed.
pub fn listed(text: &str, section: &str, key: &str) -> Vec<String> {
    let tree = read(text).unwrap_or_default();
    let table = names(section).try_fold(&tree, |table, name| table.get(name));
    let list = table.and_then(|table| table.get(key)).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn change(document: &mut DocumentMut, section: &str, key: &str, how: &Amend) -> Result<(), &'static str> {
    const NO_LIST: &str = "the key is not a list";
    let own_keys = document.iter().any(|(_, item)| item.is_value());
    let table = section_of(document, section).ok_or("the section is not a table")?;
    match (how, table.get_mut(key)) {
        (Amend::Set(value), found) => {
            let mut value = literal(value).ok_or("the value cannot be written on one line")?;
            match found {
                Some(Item::Value(old)) if !old.is_array() && !old.is_inline_table() => {
                    *value.decor_mut() = old.decor().clone();
                    *old = value;
                }
                Some(_) => return Err("the key is a list or a table"),
                None => {
                    table.insert(key, Item::Value(value));
                }
            }
        }
        (Amend::Add(element), Some(item)) => add(item.as_array_mut().ok_or(NO_LIST)?, element),
        (Amend::Add(element), None) => {
            table.insert(key, Item::Value(Array::from_iter([element.as_str()]).into()));
        }
        (Amend::Remove(element), Some(item)) => {
            let list = item.as_array_mut().ok_or(NO_LIST)?;
            let at = list.iter().position(|item| item.as_str() == Some(element));
            remove(list, at.ok_or("the list has no such element")?);
        }
        (Amend::Remove(_), None) => return Err("there is no such key"),
    }
    if section.is_empty() && !own_keys {
        // A blank line between the new key of the file itself and the section that used to come first.
        let first = document.iter_mut().find_map(|(_, item)| item.as_table_mut());
        if let Some(first) = first {
            let prefix = first.decor().prefix().and_then(RawString::as_str).unwrap_or_default().to_owned();
            first.decor_mut().set_prefix(format!("\n{prefix}"));
        }
    }
    Ok(())
}

/// Returns the table of a section, and creates it if it is missing. `None` if the section's name belongs to a value that is no
/// table.
fn section_of<'d>(document: &'d mut DocumentMut, section: &str) -> Option<&'d mut dyn TableLike> {
    let depth = names(section).count();
    let mut item = document.as_item_mut();
    for (index, name) in names(section).enumerate() {
        let inline = item.is_inline_table();
        item = item.as_table_like_mut()?.entry(name).or_insert_with(|| {
            if inline {
                return Item::Value(InlineTable::new().into());
            }
            let mut table = Table::new();
            // A table that only contains the next table needs no header of its own.
            table.set_implicit(index + 1 < depth);
            Item::Table(table)
        });
    }
    item.as_table_like_mut()
}

/// Adds an element at the start of a list. At the end, it could separate the last element from its comment. A list with
/// one element per line keeps that layout.
fn add(list: &mut Array, element: &str) {
    let first = list.get(0).and_then(|first| first.decor().prefix()).and_then(RawString::as_str);
    let before = first.unwrap_or_default().to_owned();
    if let Some(first) = list.get_mut(0) {
        let line = before.rfind('\n').map_or(" ", |at| &before[at..]);
        first.decor_mut().set_prefix(line);
    }
    list.insert_formatted(0, toml_edit::Value::from(element).decorated(before, ""));
}

fn remove(list: &mut Array, at: usize) {
    let removed = list.remove(at);
    let Some(first) = list.get_mut(0).filter(|_| at == 0) else { return };
    let prefix = first.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
    if prefix.trim().is_empty() && !prefix.contains('\n') {
        let prefix = removed.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
        first.decor_mut().set_prefix(prefix);
    }
}

fn names(section: &str) -> impl Iterator<Item = &str> {
    section.split('.').filter(|name| !name.is_empty())
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

/// Converts a scalar or a list of scalars to TOML; `None` for values that TOML does not have.
fn literal(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::String(text) => text.as_str().into(),
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64()?.into(),
        },
        Value::Array(items) => items.iter().map(literal).collect::<Option<Array>>()?.into(),
        Value::Null | Value::Object(_) => return None,
    })
}

fn string(text: &str) -> toml_edit::Value {
    text.into()
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
            ("[permissions] # p\ndeny = []\n", "[permissions] # p\ndeny = []\nallow = [\"Bash(ls *)\"]\n"),
            ("[permissions]\nallow = []", "[permissions]\nallow = [\"Bash(ls *)\"]\n"),
            ("[permissions]\r\nallow = []\r\n", "[permissions]\r\nallow = [\"Bash(ls *)\"]\r\n"),
            ("permissions = {}", "permissions = { allow = [\"Bash(ls *)\"] }\n"),
            ("permissions.deny = []\n", "permissions.deny = []\npermissions.allow = [\"Bash(ls *)\"]\n"),
            (
                "[permissions]\nallow = [ # why\n  \"Read\", # r\n]\n[ui]\nvim = true\n",
                "[permissions]\nallow = [ # why\n  \"Bash(ls *)\",\n  \"Read\", # r\n]\n[ui]\nvim = true\n",
            ),
            ("permissions.allow = ['a']\n", "permissions.allow = [\"Bash(ls *)\", 'a']\n"),
            ("permissions = {allow = ['a']}", "permissions = {allow = [\"Bash(ls *)\", 'a']}\n"),
        ] {
            assert_eq!(add(before, "Bash(ls *)").as_deref(), Ok(after), "{before}");
        }
        let quoted = add("", "Bash(echo \"a\\b\" \u{1})").unwrap();
        assert_eq!(read(&quoted).unwrap()["permissions"]["allow"][0], "Bash(echo \"a\\b\" \u{1})");
    }

    #[test]
    fn what_cannot_be_changed_safely_is_said() {
        for bad in
            ["permissions = 3", "[permissions", "[permissions]\nallow = \"x\"", "permissions.allow = {}"]
        {
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
            ("permissions.allow = ['a', \"b\"] # mine\n", "permissions.allow = ['a'] # mine\n"),
            (
                "[permissions]\nallow = [\n  'b', # why\n  'c',\n]\n",
                "[permissions]\nallow = [ # why\n  'c',\n]\n",
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
