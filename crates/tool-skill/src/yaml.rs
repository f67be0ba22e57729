//! Parser for frontmatter that is almost YAML.
//!
//! The frontmatter is first parsed as YAML. If that fails, each top-level key is parsed separately, and a
//! value that is not YAML is taken as plain text, because people write `argument-hint: [pid] [focus]`. If a
//! key occurs twice, the first one counts.
//!
//! Invariant: frontmatter is rejected only if it has no key at all. Each deviation from YAML gives a warning.

use serde_json::{Map, Value};

/// Keys whose values are plain text, even if YAML would read brackets, numbers or signs in them differently.
const TEXTS: [&str; 7] =
    ["name", "description", "argument-hint", "argument_hint", "when_to_use", "when-to-use", "model"];

/// Returns the values of the frontmatter, and warnings about values that are not valid YAML.
///
/// # Errors
///
/// Returns the reason if no key can be read.
pub(crate) fn read(head: &str) -> Result<(Map<String, Value>, Vec<String>), String> {
    let blocks = blocks(head);
    let twice = blocks.iter().enumerate().any(|(i, block)| blocks[..i].iter().any(|b| b.key == block.key));
    let whole = yaml(head).or_else(|error| yaml(&quoted(head)).map_err(|_| error));
    let (mut map, mut warnings) = match whole {
        Ok(map) if !twice => (map, Vec::new()),
        Err(error) if blocks.is_empty() => return Err(error),
        _ => by_blocks(&blocks),
    };
    for block in &blocks {
        let text = TEXTS.contains(&block.key) && !block.raw.is_empty();
        if let Some(value) = map.get_mut(block.key)
            && text
            && !value.is_string()
            && !["~", "null", "Null", "NULL"].contains(&block.raw.as_str())
        {
            *value = Value::String(block.raw.clone());
        } else if let Some(Value::String(value)) = map.get_mut(block.key)
            && text
            && block.loses_a_part(value)
        {
            let key = block.key;
            warnings.push(format!("YAML would leave out a part of `{key}`; it is taken as plain text"));
            value.clone_from(&block.raw);
        }
    }
    Ok((map, warnings))
}

/// A top-level key with its lines.
struct Block<'a> {
    key: &'a str,
    lines: Vec<&'a str>,
    /// The value in its original form, on one line.
    raw: String,
}

impl Block<'_> {
    /// True if YAML drops a part of this line's unquoted text: a tag (`!important`), an anchor (`&now`), or a comment (`C # and
    /// F#`). In names and models, `#` does begin a comment.
    fn loses_a_part(&self, read: &str) -> bool {
        let is_bare = self.lines.len() == 1 && !self.raw.starts_with(['"', '\'', '|', '>']);
        let comment = self.raw.contains(" #") && !matches!(self.key, "name" | "model");
        is_bare && read != self.raw && (comment || self.raw.starts_with(['!', '&']))
    }
}

fn blocks(head: &str) -> Vec<Block<'_>> {
    let mut out: Vec<Block<'_>> = Vec::new();
    for line in head.lines() {
        if line.starts_with('#') {
            continue;
        }
        match key(line) {
            Some((key, value)) => {
                let header = value.starts_with(['|', '>']) && value.len() <= 3;
                let raw = if header { String::new() } else { value.to_owned() };
                out.push(Block { key, lines: vec![line], raw });
            }
            None => {
                if let Some(block) = out.last_mut() {
                    block.lines.push(line);
                    let more = line.trim();
                    if !block.raw.is_empty() && !more.is_empty() {
                        block.raw.push(' ');
                    }
                    block.raw.push_str(more);
                }
            }
        }
    }
    out
}

/// Splits a line into a leading key and the value after it.
fn key(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    (plain && (value.is_empty() || value.starts_with([' ', '\t', '\r']))).then(|| (key, value.trim()))
}

fn by_blocks(blocks: &[Block<'_>]) -> (Map<String, Value>, Vec<String>) {
    let (mut map, mut warnings) = (Map::new(), Vec::new());
    for block in blocks {
        let key = block.key;
        if map.contains_key(key) {
            warnings.push(format!("`{key}` is given twice; the first one counts"));
            continue;
        }
        let text = block.lines.join("\n");
        let read = yaml(&text).or_else(|_| yaml(&quoted(&text)));
        let value = read.ok().and_then(|mut map| map.remove(key)).unwrap_or_else(|| {
            warnings.push(format!("the value of `{key}` is not YAML; it is taken as plain text"));
            Value::String(block.raw.clone())
        });
        map.insert(key.to_owned(), value);
    }
    (map, warnings)
}

/// Words that some version of YAML reads as something other than text.
const NO_TEXT: [&str; 12] =
    ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "nan", "infinity"];

/// Reads the usual frontmatter: lines of a key and a text without anything that YAML gives a meaning. `None` if only a YAML parser
/// can read it. Most skills need none, which saves the memory of its code.
fn plain(head: &str) -> Option<Map<String, Value>> {
    let mut map = Map::new();
    let is_word = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && !NO_TEXT.iter().any(|word| text.eq_ignore_ascii_case(word))
    };
    for line in head.lines() {
        let (key, value) = key(line)?;
        if !is_word(key) || !line.bytes().all(|b| matches!(b, b' '..=b'~')) {
            return None;
        }
        let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let text = match quoted {
            Some(text) if !text.contains(['"', '\\']) => text,
            None if is_word(value) && !value.contains([':', '#']) => value,
            _ => return None,
        };
        if map.insert(key.to_owned(), Value::String(text.to_owned())).is_some() {
            return None;
        }
    }
    (!map.is_empty()).then_some(map)
}

fn yaml(head: &str) -> Result<Map<String, Value>, String> {
    if let Some(map) = plain(head) {
        return Ok(map);
    }
    match serde_saphyr::from_str::<Value>(head) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err("its frontmatter is not a mapping".to_owned()),
        Err(error) => {
            let error = error.to_string();
            Err(format!("its frontmatter is not YAML: {}", error.lines().next().unwrap_or_default()))
        }
    }
}

/// Puts unquoted text values of top-level keys into single quotes, because people write `description: Use when: always`.
fn quoted(head: &str) -> String {
    let mut out = String::with_capacity(head.len() + 64);
    for line in head.lines() {
        let bare = key(line)
            .filter(|(_, value)| !value.is_empty() && !value.starts_with(['"', '\'', '|', '>', '[', '{']));
        match bare {
            Some((key, value)) => {
                out.push_str(key);
                out.push_str(": '");
                out.push_str(&value.replace('\'', "''"));
                out.push('\'');
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_yaml_reads_in_another_way() {
        const LESS: &str = "YAML would leave out a part of `description`";
        const PLAIN: &str = "is not YAML; it is taken as plain text";
        for (head, key, want, warned) in [
            ("argument-hint: [pid] [focus]\n", "argument-hint", "[pid] [focus]", PLAIN),
            ("argument-hint: [pid]\n", "argument-hint", "[pid]", ""),
            ("argument-hint: <a> | <b>\n", "argument-hint", "<a> | <b>", ""),
            ("description: [WIP] does x\n", "description", "[WIP] does x", PLAIN),
            ("description: {x} and y\n", "description", "{x} and y", PLAIN),
            ("description: \"Quoted\" then more\n", "description", "\"Quoted\" then more", PLAIN),
            ("description: first\n  then: second\n", "description", "first then: second", PLAIN),
            ("description: first\nsecond line\n", "description", "first second line", PLAIN),
            ("description: a\ndescription: b\n", "description", "a", "`description` is given twice"),
            ("description: @user and `code`\n", "description", "@user and `code`", ""),
            ("description: *all* files\n", "description", "*all* files", ""),
            ("description: 100%\n", "description", "100%", ""),
            ("description: !important thing\n", "description", "!important thing", LESS),
            ("description: &now run\n", "description", "&now run", LESS),
            ("description: Write C # and F#\n", "description", "Write C # and F#", LESS),
            ("description: \"quoted\" # why\n", "description", "quoted", ""),
            ("model: opus # cheap\n", "model", "opus", ""),
            ("name: 007\n", "name", "007", ""),
            ("name: true\n", "name", "true", ""),
            ("description: Use: it\n", "description", "Use: it", ""),
            ("description:\ttabbed\n", "description", "tabbed", ""),
        ] {
            let (map, warnings) = read(head).unwrap();
            assert_eq!(map[key], Value::String(want.to_owned()), "{head}");
            let all = warnings.join("\n");
            assert!(if warned.is_empty() { all.is_empty() } else { all.contains(warned) }, "{head}{all}");
        }
        // One invalid value does not change how the others are parsed.
        let (map, _) = read("argument-hint: [a] [b]\ntools: [x, z]\nflag: true\n").unwrap();
        assert_eq!((&map["tools"], &map["flag"]), (&serde_json::json!(["x", "z"]), &Value::Bool(true)));
    }

    #[test]
    fn bundled_skills_need_no_parser_of_yaml() {
        for text in crate::bundled::BUNDLED {
            let (head, _) = becket_types::split_frontmatter(text).unwrap();
            assert_eq!(plain(head), Some(serde_saphyr::from_str(head).unwrap()), "{head}");
        }
    }

    proptest! {
        /// Text that is read without the YAML parser gives the same values as with it.
        #[test]
        fn plain_lines_are_yaml(lines in prop::collection::vec("[a-zA-Z-]{1,6}:[ \t]{0,2}[a-zA-Z0-9:#'\"\\\\\\[\\]{}|>@*&%!`,?~. -]{0,12}", 1..4), bare in "(null|True|yes|no|on|off|y|N|inf|nan|e5|x1|a b)") {
            for head in [lines.join("\n"), format!("{}: x\nkey: {bare}\n", bare.trim())] {
                if let Some(map) = plain(&head) {
                    let read = serde_saphyr::from_str::<Value>(&head);
                    prop_assert_eq!(read.ok(), Some(Value::Object(map)), "{}", head);
                }
            }
        }

        /// A description on one line is never lost, whatever characters it contains.
        #[test]
        fn no_description_is_lost(value in "[a-z:#'\"\\[\\]{}|>@*&%!`,? -]{0,30}[a-z]", twice in any::<bool>()) {
            prop_assume!(!value.trim().starts_with('#'));
            let more = if twice { "description: again\n" } else { "" };
            let head = format!("name: x\ndescription: {value}\n{more}argument-hint: [a] [b]\n");
            let (map, _) = read(&head).unwrap();
            prop_assert_eq!(&map["name"], "x");
            prop_assert!(map.get("description").is_some_and(|d| !d.is_null()), "{:?}", map);
            prop_assert_eq!(&map["argument-hint"], "[a] [b]");
        }
    }
}
