//! The tools that the definition of an agent names: those that it has, those that it lacks, and the agents that it may start.
//!
//! Reads the forms of several agents: lists, texts with commas, and the tables `tools` and `permission` of opencode. A list that
//! cannot be read may be one that takes tools away, so it is an error: such an agent is left out.

use becket_tool::text::nearest;
use becket_tool_skill::Head;
use becket_types::sdk_names;
use serde_json::Value;

/// Names of tools in other agents' files, and becket's names of the same tools. Case and `_` are ignored.
const FOREIGN_TOOL_NAMES: [(&str, &str); 8] = [
    ("todowrite", "todo"),
    ("multiedit", "edit"),
    ("notebookedit", "edit"),
    ("notebookread", "read"),
    ("ls", "read"),
    ("shell", "bash"),
    ("agent", "task"),
    ("patch", "apply_patch"),
];
/// Names of tools that definitions often have. A name that is close to one of them is taken for a typing error. Other
/// names may belong to a tool that only some sessions have.
const TOOLS: [&str; 14] = [
    "read",
    "write",
    "edit",
    "bash",
    "grep",
    "glob",
    "todo",
    "task",
    "skill",
    "recall",
    "webfetch",
    "websearch",
    "multi_edit",
    "apply_patch",
];
/// Every tool, in a list or as a key.
const EVERY: &str = "*";

/// The lists of one definition.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ToolLists {
    /// The tools that the agent has; `None`: all.
    pub tools: Option<Vec<String>>,
    /// The tools that it lacks.
    pub without: Vec<String>,
    /// The agents that it may start; `None`: all.
    pub starts: Option<Vec<String>>,
    /// Mistakes, and restrictions that an agent cannot have here.
    pub remarks: Vec<String>,
}

impl ToolLists {
    /// Reads the keys `tools`, `disallowedTools` and `permission`.
    ///
    /// # Errors
    ///
    /// Returns the reason if one of them has a value that nobody can understand.
    pub(super) fn read(head: &Head) -> Result<Self, String> {
        let mut out = Self::default();
        let mut lacked = match head.value("disallowedTools") {
            Some(value) => entries(value, "disallowedTools")?,
            None => Vec::new(),
        };
        // The tools that an agent keeps that lacks `*`.
        let mut kept = Vec::new();
        match head.value("tools") {
            None => {}
            Some(Value::Object(table)) => {
                for (name, value) in table {
                    match value {
                        Value::Bool(true) => kept.push(name.clone()),
                        Value::Bool(false) => lacked.push(name.clone()),
                        other => return Err(format!("`tools.{name}` is {other}, neither true nor false")),
                    }
                }
            }
            Some(value) => {
                let named =
                    Some(entries(value, "tools")?).filter(|names| !names.iter().any(|name| name == EVERY));
                out.starts = named.as_deref().and_then(starts);
                out.tools = named.map(|names| names.iter().map(|name| own_name(name)).collect());
            }
        }
        if let Some(permission) = head.value("permission") {
            out.permission(permission, &mut kept, &mut lacked)?;
        }
        let lacks_every = lacked.iter().any(|name| name == EVERY);
        if lacks_every {
            let kept: Vec<String> = kept.iter().map(|name| own_name(name)).collect();
            out.tools = Some(match out.tools.take() {
                Some(tools) => tools.into_iter().filter(|tool| kept.contains(tool)).collect(),
                None => kept,
            });
        }
        out.without = lacked.iter().filter(|name| *name != EVERY).map(|name| lacked_name(name)).collect();
        // Tools of the servers in `mcpServers` need no entry in `tools`.
        let keeps_servers = kept.iter().any(|name| name.to_ascii_lowercase().starts_with("mcp"));
        out.without.extend((lacks_every && !keeps_servers).then(|| "mcp__*".to_owned()));
        out.name_mistakes();
        Ok(out)
    }

    /// Reads opencode's table of permissions: `edit: deny`, or `bash: {"*": ask, "git push *": deny}`. An agent here has a tool or
    /// lacks it, so it lacks each tool of which something is denied.
    fn permission(
        &mut self,
        permission: &Value,
        kept: &mut Vec<String>,
        lacked: &mut Vec<String>,
    ) -> Result<(), String> {
        let whole = serde_json::Map::from_iter([(EVERY.to_owned(), permission.clone())]);
        let table = match permission {
            Value::String(_) => &whole,
            Value::Object(table) => table,
            other => return Err(format!("`permission` is {other}, not a table of tools")),
        };
        for (tool, value) in table {
            let (answers, patterns) = match value {
                Value::Object(patterns) => (patterns.values().collect(), true),
                value => (vec![value], false),
            };
            let mut denies = false;
            for answer in answers {
                match answer.as_str().map(str::to_lowercase).as_deref() {
                    Some("allow") if !patterns => kept.push(tool.clone()),
                    Some("allow") => {}
                    Some("ask") => self.remarks.push(format!(
                        "`permission.{tool}`: `ask` has no effect here; the permission mode and the rules decide"
                    )),
                    Some("deny") => denies = true,
                    _ => return Err(format!("`permission.{tool}` is {answer}, not allow, ask or deny")),
                }
            }
            if denies {
                lacked.push(tool.clone());
                if patterns {
                    self.remarks.push(format!(
                        "`permission.{tool}` denies a part of what {tool} does; an agent has a tool or lacks it, so it lacks {tool}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Names tools that do not exist.
    fn name_mistakes(&mut self) {
        let had = self.tools.iter().flatten().map(|tool| (tool, false));
        for (tool, is_lacked) in had.chain(self.without.iter().map(|tool| (tool, true))) {
            if TOOLS.contains(&tool.as_str()) {
                continue;
            }
            // One name that contains another, such as `mcp__git__read` and `read`, is no typing error.
            let near = nearest(tool, TOOLS).filter(|near| !tool.contains(near) && !near.contains(&**tool));
            let is_known = tool.starts_with("mcp_") || sdk_names::hook_names(tool).len() > 1 || tool == "lsp";
            if is_known {
                continue;
            }
            match near {
                Some(near) => self.remarks.push(format!("there is no tool {tool:?}; did you mean {near}?")),
                None if is_lacked => {
                    self.remarks.push(format!("there is no tool {tool:?} that it could lack"));
                }
                None => {}
            }
        }
    }
}

/// Returns the entries of a list of tools: YAML, or a text with commas or spaces between them. Text in parentheses
/// belongs to its entry: `Agent(worker, tester), Bash(git log *)`.
fn entries(value: &Value, key: &str) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    texts_of(value, &mut texts).map_err(|other| format!("`{key}` is not a list of tools: {other}"))?;
    let (mut out, mut depth) = (Vec::new(), 0_usize);
    for text in texts {
        let mut entry = String::new();
        for letter in text.chars().chain([',']) {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && (letter == ',' || letter.is_whitespace()) {
                out.push(std::mem::take(&mut entry));
            } else {
                entry.push(letter);
            }
        }
        // A parenthesis that is not closed ends with its item of the list, so the next item is read as usual.
        (depth, entry) = (0, entry.trim_end_matches(',').to_owned());
        out.push(entry);
    }
    // A list that is not YAML, such as `[Read, Bash`, arrives as a text with its brackets.
    let marks = ['[', ']', '"', '\''];
    let bare = out.into_iter().map(|entry: String| entry.trim_matches(marks).to_owned());
    Ok(bare.filter(|entry| !entry.is_empty()).collect())
}

/// Collects the texts of a list, also of lists in it. The error is a value that is no text.
fn texts_of<'v>(value: &'v Value, texts: &mut Vec<&'v str>) -> Result<(), &'v Value> {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().try_for_each(|item| texts_of(item, texts))?,
        Value::Null => {}
        other => return Err(other),
    }
    Ok(())
}

/// Returns the agents that `Agent(a, b)` in a list of tools names. `None`: the list does not restrict them.
fn starts(tools: &[String]) -> Option<Vec<String>> {
    let mut out = None;
    for entry in tools {
        let (tool, names) = entry.split_once('(').unwrap_or((entry, ""));
        if !["agent", "task"].contains(&tool.to_ascii_lowercase().as_str()) {
            continue;
        }
        let names = names.trim_end_matches(')').split(',').map(|name| name.trim().to_lowercase());
        let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        if names.is_empty() || names.iter().any(|name| name == EVERY) {
            return None;
        }
        out.get_or_insert_with(Vec::new).extend(names);
    }
    out
}

/// Translates the name of a tool to becket's name, in lower case.
fn own_name(entry: &str) -> String {
    // `Bash(git *)` means the whole tool: an agent gets or lacks a tool, and only permission rules can tell calls apart.
    let name = entry.split('(').next().unwrap_or_default().trim().to_ascii_lowercase();
    let plain = name.replace('_', "");
    FOREIGN_TOOL_NAMES.iter().find(|(other, _)| *other == plain).map_or(name, |(_, own)| (*own).to_owned())
}

/// Translates the name of a tool that an agent lacks. `MultiEdit` is only that tool here, while an agent that may have it gets
/// `edit`, the tool for the same work.
fn lacked_name(entry: &str) -> String {
    let name = own_name(entry);
    let is_multi = entry.to_ascii_lowercase().replace('_', "").starts_with("multiedit");
    // opencode's names of a server's tools.
    let of_server = name.strip_suffix("_*").filter(|server| !server.starts_with("mcp__"));
    match of_server {
        _ if is_multi => "multi_edit".to_owned(),
        Some(server) => format!("mcp__{server}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(keys: &Value) -> Result<ToolLists, String> {
        ToolLists::read(&Head::new(keys.as_object().unwrap().clone()))
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    /// Every form that takes tools away takes them away.
    #[test]
    fn what_restricts_is_understood_in_every_form() {
        let none: &[&str] = &[];
        for (keys, tools, without) in [
            (
                json!({"disallowedTools": "Write, MultiEdit Bash(git *)"}),
                None,
                &["write", "multi_edit", "bash"][..],
            ),
            (json!({"disallowedTools": ["Write", ["multi_edit"]]}), None, &["write", "multi_edit"]),
            (json!({"disallowedTools": "[Write, \"Bash"}), None, &["write", "bash"]),
            (json!({"disallowedTools": "*"}), Some(none), &["mcp__*"]),
            (json!({"tools": "Read", "disallowedTools": ["*"]}), Some(none), &["mcp__*"]),
            (json!({"tools": {"edit": false, "read": true}}), None, &["edit"]),
            (json!({"tools": {"*": false, "read": true}}), Some(&["read"]), &["mcp__*"]),
            (json!({"tools": {"git_*": false}}), None, &["mcp__git"]),
            (
                json!({"permission": {"edit": "deny", "webfetch": "Deny", "bash": "allow"}}),
                None,
                &["edit", "webfetch"],
            ),
            (json!({"permission": {"*": "deny", "read": "allow"}}), Some(&["read"]), &["mcp__*"]),
            (json!({"permission": "deny"}), Some(none), &["mcp__*"]),
        ] {
            let found = read(&keys).unwrap();
            let wanted = (tools.map(texts), texts(without), Vec::<String>::new());
            assert_eq!((found.tools, found.without, found.remarks), wanted, "{keys}");
        }
    }

    #[test]
    fn a_list_that_nobody_understands_leaves_the_agent_out() {
        for keys in [
            json!({"disallowedTools": {"Bash": true}}),
            json!({"disallowedTools": [{"Bash": "x"}]}),
            json!({"disallowedTools": 7}),
            json!({"tools": true}),
            json!({"tools": ["Read", 7]}),
            json!({"tools": {"bash": "no"}}),
            json!({"permission": ["edit"]}),
            json!({"permission": {"edit": "never"}}),
            json!({"permission": {"bash": {"*": false}}}),
        ] {
            let why = read(&keys).unwrap_err();
            assert!(why.starts_with('`'), "{keys}: {why}");
        }
    }

    #[test]
    fn what_an_agent_cannot_lack_is_named() {
        for (keys, without, remark) in [
            (
                json!({"disallowedTools": "Terminal"}),
                &["terminal"][..],
                "no tool \"terminal\" that it could lack",
            ),
            (json!({"disallowedTools": "Bsh"}), &["bsh"], "did you mean bash?"),
            (json!({"permission": {"bash": {"*": "allow", "rm *": "deny"}}}), &["bash"], "so it lacks bash"),
            (json!({"permission": {"edit": "ask"}}), &[], "`ask` has no effect here"),
        ] {
            let found = read(&keys).unwrap();
            assert_eq!(found.without, texts(without), "{keys}");
            assert!(
                found.remarks.len() == 1 && found.remarks[0].contains(remark),
                "{keys}: {:?}",
                found.remarks
            );
        }
        let known = json!({"disallowedTools": "Agent, ExitPlanMode, Edit, Write, NotebookEdit, BashOutput, mcp__x, LSP"});
        assert_eq!(read(&known).unwrap().remarks, Vec::<String>::new());
    }
}
