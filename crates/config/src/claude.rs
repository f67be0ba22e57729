//! Settings files of Claude Code: the keys of them that count here, and remarks about restrictions in them that cannot be used.
//!
//! A wrong value in such a file does not keep becket from starting. But a restriction must not get lost in silence: one whose
//! meaning is clear counts although it is written wrongly (in another case, or as a text in place of a list), and every other
//! one is named in a remark. In a file of the administrator, a value that cannot be used is an error instead.

use crate::document::{Entry, Kind, Node, position};
use crate::error::Problem;
use crate::files::{Layer, Scope};
use crate::schema::Effort;
use crate::tree::{nearest, take_at};
use serde_json::Value;

/// Keys outside of `permissions` that count here.
const COUNTING: &[&[&str]] = &[
    &["env"],
    &["sandbox", "filesystem", "denyRead"],
    &["sandbox", "filesystem", "denyWrite"],
    &["sandbox", "network", "deniedDomains"],
];
/// Keys that count only if a program drives the run. In the terminal they are for Claude Code alone.
const COUNTING_DRIVEN: &[&[&str]] = &[&["model"], &["effortLevel"]];

/// Keys of `permissions`.
const PERMISSIONS: [&str; 7] = [
    "deny",
    "ask",
    "allow",
    "additionalDirectories",
    "defaultMode",
    "disableBypassPermissionsMode",
    "disableAutoMode",
];
/// Keys of `permissions` that only restrict. They count also if they are written in another case.
const RESTRICTING: [&str; 3] = ["deny", "ask", "disableBypassPermissionsMode"];

/// Beginnings of names of variables that are meant for an agent, such as its keys and addresses, and not for the commands that it
/// runs.
const OF_AGENTS: &[&str] = &["ANTHROPIC_", "CLAUDE_", "OPENAI_", "BECKET_"];

/// A restriction, or another value, that is not used as it was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    /// Byte offset in the text.
    pub at: usize,
    pub key: String,
    pub message: String,
    /// True for a mistake: a key that counts here is misspelt, or has a value that cannot be used.
    pub is_mistake: bool,
}

/// A settings file of Claude Code, as far as it counts here.
#[derive(Debug)]
pub(crate) struct ClaudeSettings {
    pub root: Node,
    /// The file switches the permission mode `bypassPermissions` off.
    pub no_bypass: bool,
    pub remarks: Vec<Remark>,
}

/// Returns the keys of a settings file of Claude Code that count here. Other keys that restrict nothing are for Claude Code alone,
/// so there is no remark about them. `driven`: a program drives the run.
pub(crate) fn of_claude(mut root: Node, driven: bool) -> ClaudeSettings {
    let empty = Node { at: root.at, kind: Kind::Table(Vec::new()) };
    let mut out = ClaudeSettings { root: empty, no_bypass: false, remarks: Vec::new() };
    if let Kind::Table(entries) = &mut root.kind {
        let (permissions, others) =
            std::mem::take(entries).into_iter().partition(|entry| is_alike(&entry.key, "permissions"));
        *entries = others;
        out.misplaced(&root);
        let permissions: Vec<Entry> = permissions;
        for entry in permissions {
            out.permissions(entry, driven);
        }
    }
    let more = if driven { COUNTING_DRIVEN } else { &[] };
    for path in COUNTING.iter().chain(more) {
        let Some(mut node) = take_at(&mut root, path) else { continue };
        let fits = match (&mut node.kind, path) {
            (Kind::Table(entries), ["env"]) => {
                entries.retain(|entry| {
                    let is_text = matches!(entry.value.kind, Kind::Scalar(Value::String(_)));
                    is_text && !OF_AGENTS.iter().any(|start| entry.key.starts_with(start))
                });
                true
            }
            (_, ["sandbox", ..]) => {
                node = out.texts(node, &path.join("."), true);
                true
            }
            (Kind::Scalar(Value::String(_)), ["model"]) => true,
            (Kind::Scalar(level), ["effortLevel"]) => serde_json::from_value::<Effort>(level.clone()).is_ok(),
            _ => false,
        };
        if fits {
            out.root.put(path, node);
        }
    }
    out
}

impl ClaudeSettings {
    /// Returns the problems of the file from which these settings are, each with true if it is an error.
    pub(crate) fn problems(&self, layer: &Layer) -> Vec<(Problem, bool)> {
        let is_managed = layer.scope == Scope::Managed;
        let problem = |at, key, message: &str| Problem {
            origin: layer.path.display().to_string(),
            at,
            key,
            message: message.to_owned(),
        };
        // A file that was cut off to nothing is no JSON, but is read as if it had no keys.
        let empty = layer.text.trim().is_empty().then(|| {
            let message = "the file is empty, so it restricts nothing; write {} into it, or remove it";
            (problem(None, None, message), is_managed)
        });
        let remarks = self.remarks.iter().map(|remark| {
            let at = Some(position(&layer.text, remark.at));
            let problem = problem(at, Some(remark.key.clone()), &remark.message);
            (problem, is_managed && remark.is_mistake)
        });
        empty.into_iter().chain(remarks).collect()
    }

    fn remark(&mut self, at: usize, key: &str, message: String, is_mistake: bool) {
        self.remarks.push(Remark { at, key: key.to_owned(), message, is_mistake });
    }

    /// Names keys at the top that were probably meant as `permissions`, or as keys of it.
    fn misplaced(&mut self, root: &Node) {
        for entry in root.entries() {
            let inner = PERMISSIONS.iter().find(|known| is_alike(&entry.key, known));
            let meant = match inner {
                // `disableAutoMode` is also a key at the top.
                Some(known) if *known != "disableAutoMode" => Some(format!("permissions.{known}")),
                _ => {
                    let near = becket_types::edit_distance(&plain(&entry.key), "permissions") <= 2;
                    near.then(|| "permissions".to_owned())
                }
            };
            if let Some(meant) = meant {
                let message = format!("not used; did you mean {meant}?");
                self.remark(entry.at, &entry.key, message, true);
            } else if inner.is_some() {
                self.no_auto_mode(entry.at, &entry.key);
            }
        }
    }

    fn no_auto_mode(&mut self, at: usize, key: &str) {
        let message = "becket cannot obey this; its permission mode is the one that you choose";
        self.remark(at, key, message.to_owned(), false);
    }

    fn permissions(&mut self, table: Entry, driven: bool) {
        if table.key != "permissions" {
            self.remark(table.at, &table.key, "read as permissions; write it so".to_owned(), true);
        }
        let entries = match table.value.kind {
            Kind::Table(entries) => entries,
            Kind::Scalar(Value::Null) => return,
            kind => {
                let message = format!("expected a table, not {}; none of its rules holds", kind_name(&kind));
                self.remark(table.value.at, &table.key, message, true);
                return;
            }
        };
        for entry in entries {
            let key = format!("{}.{}", table.key, entry.key);
            let known = PERMISSIONS.iter().copied().find(|known| is_alike(&entry.key, known));
            let is_exact = known == Some(entry.key.as_str());
            match known {
                Some(known) if is_exact || RESTRICTING.contains(&known) => {
                    if !is_exact {
                        let message = format!("read as permissions.{known}; write it so");
                        self.remark(entry.at, &key, message, true);
                    }
                    self.permission(known, &key, entry.value, driven);
                }
                known => {
                    let near = known.or_else(|| nearest(&entry.key, PERMISSIONS.iter().copied()));
                    let is_typo = near.is_some();
                    let near = near.map(|near| format!("; did you mean permissions.{near}?"));
                    let message = format!("unknown key, so it restricts nothing{}", near.unwrap_or_default());
                    self.remark(entry.at, &key, message, is_typo);
                }
            }
        }
    }

    fn permission(&mut self, known: &'static str, key: &str, value: Node, driven: bool) {
        if value.kind == Kind::Scalar(Value::Null) {
            return;
        }
        match known {
            "disableAutoMode" => self.no_auto_mode(value.at, key),
            "disableBypassPermissionsMode" => self.no_bypass(key, &value),
            "defaultMode" if driven => match &value.kind {
                Kind::Scalar(Value::String(mode)) if mode.parse::<becket_types::PermissionMode>().is_ok() => {
                    self.root.put(&["permissions", known], value);
                }
                kind => {
                    let message = format!("{} is no permission mode; it is not used", shown(kind));
                    self.remark(value.at, key, message, false);
                }
            },
            "defaultMode" => {}
            _ => {
                let texts = self.texts(value, key, RESTRICTING.contains(&known));
                self.add(known, texts);
            }
        }
    }

    /// Adds a list to what the file has given for this key in another spelling.
    fn add(&mut self, known: &str, mut list: Node) {
        let path = ["permissions", known];
        if let (Some(earlier), Kind::List(items)) = (take_at(&mut self.root, &path), &mut list.kind)
            && let Kind::List(mut all) = earlier.kind
        {
            all.append(items);
            *items = all;
        }
        self.root.put(&path, list);
    }

    fn no_bypass(&mut self, key: &str, value: &Node) {
        let (is_off, is_exact) = match &value.kind {
            Kind::Scalar(Value::Bool(is_off)) => (*is_off, !*is_off),
            Kind::Scalar(Value::String(text)) => {
                (plain(text).starts_with("disable") || plain(text) == "true", text == "disable")
            }
            _ => (false, false),
        };
        self.no_bypass |= is_off;
        if !is_exact {
            let result = if is_off { "read as" } else { "it restricts nothing; write" };
            let message = format!("{} is no value of this key; {result} \"disable\"", shown(&value.kind));
            self.remark(value.at, key, message, true);
        }
    }

    /// Returns the list of texts in a value. `restricts`: a text alone and a list in a list are used as well, because their
    /// meaning is clear and a lost restriction would be worse than one too many.
    fn texts(&mut self, value: Node, key: &str, restricts: bool) -> Node {
        let at = value.at;
        let mut texts = Vec::new();
        match value.kind {
            Kind::List(items) => self.items(items, key, restricts, &mut texts),
            Kind::Scalar(Value::Null) => {}
            kind @ Kind::Scalar(Value::String(_)) if restricts => {
                let message = format!("expected a list, not {}; read as a list of one", shown(&kind));
                self.remark(at, key, message, true);
                texts.push(Node { at, kind });
            }
            kind => {
                let message = format!("expected a list, not {}; nothing of it is used", kind_name(&kind));
                self.remark(at, key, message, true);
            }
        }
        Node { at, kind: Kind::List(texts) }
    }

    fn items(&mut self, items: Vec<Node>, key: &str, restricts: bool, texts: &mut Vec<Node>) {
        for item in items {
            match item.kind {
                Kind::Scalar(Value::String(_)) => texts.push(item),
                Kind::Scalar(Value::Null) => {}
                Kind::List(inner) if restricts => {
                    let message = "a list in the list; its entries are used".to_owned();
                    self.remark(item.at, key, message, true);
                    self.items(inner, key, restricts, texts);
                }
                kind => {
                    let message = format!("left out: {} is not text", shown(&kind));
                    self.remark(item.at, key, message, true);
                }
            }
        }
    }
}

/// A name in the form in which misspelt keys are recognized.
fn plain(name: &str) -> String {
    name.trim().to_lowercase().replace(['-', '_'], "")
}

fn is_alike(key: &str, known: &str) -> bool {
    plain(key) == known.to_lowercase()
}

fn kind_name(kind: &Kind) -> String {
    match kind {
        Kind::List(_) => "a list".to_owned(),
        Kind::Table(_) => "a table".to_owned(),
        Kind::Scalar(value) => value.to_string(),
    }
}

/// A value for people. The text of a rule may be long.
fn shown(kind: &Kind) -> String {
    becket_types::cut_end(&kind_name(kind), 100).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse_json;
    use serde_json::json;

    fn read(text: &str) -> (Value, bool, Vec<String>) {
        let found = of_claude(parse_json("f", text).unwrap(), false);
        let remarks = found.remarks.iter().map(|remark| format!("{}: {}", remark.key, remark.message));
        (found.root.to_value(), found.no_bypass, remarks.collect())
    }

    /// A restriction counts if its meaning is clear. Each one that is written wrongly is named, whether it counts or not.
    #[test]
    fn no_restriction_gets_lost_in_silence() {
        let denied = json!({"permissions": {"deny": ["Bash(rm *)"]}});
        for (text, counts) in [
            (r#"{"permissions": {"deny": "Bash(rm *)"}}"#, true),
            (r#"{"permissions": {"deny": [["Bash(rm *)"]]}}"#, true),
            (r#"{"permissions": {"Deny": ["Bash(rm *)"]}}"#, true),
            (r#"{"Permissions": {"DENY": ["Bash(rm *)"]}}"#, true),
            (r#"{"permissions": {"deny": ["Bash(rm *)", 7]}}"#, true),
            (r#"{"permissions": {"deny": ["Bash(rm *)", {"tool": "Bash"}]}}"#, true),
            (r#"{"permissions": {"deny": {"Bash": "rm *"}}}"#, false),
            (r#"{"permissions": {"deny": true}}"#, false),
            (r#"{"permissions": ["Bash(rm *)"]}"#, false),
            (r#"{"permissions": "Bash(rm *)"}"#, false),
            (r#"{"permissions": {"denied": ["Bash(rm *)"]}}"#, false),
            (r#"{"permissions": {"block": ["Bash(rm *)"]}}"#, false),
            (r#"{"permission": {"deny": ["Bash(rm *)"]}}"#, false),
            (r#"{"deny": ["Bash(rm *)"]}"#, false),
            (r#"{"disableBypassPermissionsMode": "disable"}"#, false),
            (r#"{"permissions": {"disableAutoMode": "disable"}}"#, false),
            (r#"{"disableAutoMode": "disable"}"#, false),
        ] {
            let (root, _, remarks) = read(text);
            assert!(!remarks.is_empty(), "{text}");
            assert_eq!(root == denied, counts, "{text}: {root} {remarks:?}");
        }
        let (root, _, remarks) = read(r#"{"permissions": {"deny": ["a"], "Deny": ["b"]}}"#);
        assert_eq!((root, remarks.len()), (json!({"permissions": {"deny": ["a", "b"]}}), 1));
    }

    #[test]
    fn only_a_restriction_is_read_with_leniency() {
        for text in [
            r#"{"permissions": {"allow": "Bash(rm *)"}}"#,
            r#"{"permissions": {"allow": [["Bash(rm *)"]]}}"#,
            r#"{"permissions": {"Allow": ["Bash(rm *)"]}}"#,
            r#"{"permissions": {"AdditionalDirectories": ["/"]}}"#,
        ] {
            let (root, _, remarks) = read(text);
            assert!(!root.to_string().contains("Bash") && !root.to_string().contains('/'), "{text}: {root}");
            assert_eq!(remarks.len(), 1, "{text}: {remarks:?}");
        }
    }

    #[test]
    fn bypass_is_off_also_if_the_value_is_not_written_exactly() {
        for (value, is_off, remarks) in [
            (r#""disable""#, true, 0),
            (r#""Disabled""#, true, 1),
            ("true", true, 1),
            ("false", false, 0),
            ("null", false, 0),
            (r#""off""#, false, 1),
            ("7", false, 1),
        ] {
            let text = format!(r#"{{"permissions": {{"disableBypassPermissionsMode": {value}}}}}"#);
            let (_, off, found) = read(&text);
            assert_eq!((off, found.len()), (is_off, remarks), "{text}: {found:?}");
        }
    }

    #[test]
    fn restrictions_of_the_sandbox_count_and_nothing_else_of_it() {
        let text = r#"{"sandbox": {"enabled": false, "excludedCommands": ["docker *"],
            "filesystem": {"denyRead": ["~/.aws"], "denyWrite": "/etc", "allowWrite": ["/"]},
            "network": {"deniedDomains": ["evil.example"], "allowedDomains": ["*"]}}}"#;
        let (root, _, remarks) = read(text);
        let wanted = json!({"sandbox": {
            "filesystem": {"denyRead": ["~/.aws"], "denyWrite": ["/etc"]},
            "network": {"deniedDomains": ["evil.example"]}}});
        assert_eq!((root, remarks.len()), (wanted, 1), "{remarks:?}");
        // Keys that belong to Claude Code alone cause no remark.
        let (_, _, remarks) =
            read(r#"{"statusLine": {}, "outputStyle": "x", "permissions": {"defaultMode": "plan"}}"#);
        assert_eq!(remarks, Vec::<String>::new());
    }
}
