//! becket's tools under the names, inputs and results that users of the Claude Agent SDK know.
//!
//! One table serves everything that speaks to programs: `stream-json`, control requests, hooks and permission rules. The
//! model and the ledger keep becket's own names.
//!
//! Invariants:
//! - [`own_input`] undoes [`sdk_input`], apart from paths, which become absolute on the way out.
//! - A tool without a row keeps its name and its input, so tools of MCP servers pass through unchanged.
//!
//! Does not judge rules and runs nothing.

mod input;
mod result;

pub use input::{own_input, renames, sdk_input};
pub use result::{EndedCall, INTERRUPTED, PRINTED_LINES, printed, sdk_result, without_exit_code};

use serde_json::{Value, json};
use std::borrow::Cow;

/// becket's name, the SDK's name, and further names that mean the same tool in rules and hooks.
const NAMES: &[(&str, &str, &[&str])] = &[
    ("read", "Read", &["NotebookRead"]),
    ("write", "Write", &[]),
    ("edit", "Edit", &[]),
    ("multi_edit", "MultiEdit", &[]),
    ("notebook_edit", "NotebookEdit", &[]),
    ("bash", "Bash", &[]),
    ("job_output", "BashOutput", &["TaskOutput", "AgentOutputTool"]),
    ("job_kill", "KillShell", &["KillBash", "TaskStop"]),
    ("glob", "Glob", &[]),
    ("grep", "Grep", &[]),
    ("web_fetch", "WebFetch", &[]),
    ("web_search", "WebSearch", &[]),
    ("task", "Task", &["Agent"]),
    ("todo", "TodoWrite", &["TodoRead"]),
    ("skill", "Skill", &[]),
    ("ask_user", "AskUserQuestion", &[]),
    ("exit_plan", "ExitPlanMode", &[]),
    ("StructuredOutput", "StructuredOutput", &[]),
];

/// becket's own subagents: becket's name, and the SDK's.
const AGENTS: &[(&str, &str)] = &[("general", "general-purpose"), ("explore", "Explore")];

/// The name that SDK users know for the subagent `name`.
pub fn sdk_agent(name: &str) -> &str {
    AGENTS.iter().find(|(own, _)| *own == name).map_or(name, |(_, sdk)| sdk)
}

/// becket's name of the subagent that SDK users call `name`.
pub(crate) fn own_agent(name: &str) -> &str {
    AGENTS.iter().find(|(_, sdk)| *sdk == name).map_or(name, |(own, _)| own)
}

/// The name that SDK users know for becket's tool `name`.
pub fn sdk_name(name: &str) -> Cow<'_, str> {
    let row = NAMES.iter().find(|(own, ..)| own.eq_ignore_ascii_case(name));
    // A model may have called the tool by the name that it learned elsewhere.
    let row = row.or_else(|| row_of(name));
    row.map_or(Cow::Borrowed(name), |(_, sdk, _)| Cow::Borrowed(*sdk))
}

/// becket's name of the tool that SDK users call `name`. Case does not matter; becket's own names are accepted too.
pub fn own_name(name: &str) -> Cow<'_, str> {
    row_of(name).map_or(Cow::Borrowed(name), |(own, ..)| Cow::Borrowed(*own))
}

fn row_of(name: &str) -> Option<&'static (&'static str, &'static str, &'static [&'static str])> {
    NAMES.iter().find(|(own, sdk, more)| {
        own.eq_ignore_ascii_case(name)
            || sdk.eq_ignore_ascii_case(name)
            || more.iter().any(|more| more.eq_ignore_ascii_case(name))
    })
}

/// All names by which a hook's matcher may mean becket's tool `name`; the SDK's name comes first.
///
/// A patch edits and writes files, so a matcher for these tools also covers `apply_patch`: a hook that guards edits must
/// not depend on the editing tool that the model prefers.
pub fn hook_names(name: &str) -> Vec<&str> {
    if name == "apply_patch" {
        return vec!["apply_patch", "Edit", "MultiEdit", "Write"];
    }
    match row_of(name) {
        Some((own, sdk, more)) => {
            let mut names = vec![*sdk, *own];
            names.extend_from_slice(more);
            names
        }
        None => vec![name],
    }
}

/// Returns the permission updates that would spare a question: a rule for the session, and for changes of files the mode that
/// allows them. In the SDK's shape.
pub fn suggestions(rule: Option<&str>, writes: bool) -> Vec<Value> {
    let rule = rule.map(|rule| {
        let (tool, content) = rule_parts(rule);
        let mut rule = json!({ "toolName": tool });
        if let Some(content) = content {
            rule["ruleContent"] = json!(content);
        }
        json!({ "type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session" })
    });
    let mode = writes.then(|| json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" }));
    rule.into_iter().chain(mode).collect()
}

/// A rule such as `Bash(git *)` as the SDK writes it: tool name and content.
pub fn rule_parts(rule: &str) -> (String, Option<String>) {
    let rule = rule.trim();
    let (name, content) = match rule.split_once('(') {
        Some((name, rest)) => (name, Some(rest.strip_suffix(')').unwrap_or(rest))),
        None => (rule, None),
    };
    let content = content.map(|text| match text.strip_suffix(" *") {
        Some(prefix) if own_name(name) == "bash" && !prefix.ends_with('\\') => format!("{prefix}:*"),
        _ => text.to_owned(),
    });
    (sdk_name(name).into_owned(), content)
}

/// The rule that the SDK writes as a tool name and content.
pub(crate) fn rule_of(tool: &str, content: Option<&str>) -> String {
    match content.map(str::trim).filter(|content| !content.is_empty()) {
        Some(content) => format!("{tool}({content})"),
        None => tool.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (own, sdk, more) in NAMES {
            assert_eq!(sdk_name(own), *sdk);
            assert_eq!(own_name(sdk), *own);
            assert_eq!(own_name(own), *own);
            assert_eq!(sdk_name(sdk), *sdk, "a name of the SDK stays");
            for name in *more {
                assert_eq!(own_name(name), *own, "{name}");
            }
        }
        for other in ["mcp__files__read", "recall", "lsp", "apply_patch", "Unknown"] {
            assert_eq!((sdk_name(other), own_name(other)), (Cow::Borrowed(other), Cow::Borrowed(other)));
        }
        assert_eq!(own_name("bashoutput"), "job_output");
    }

    #[test]
    fn a_name_belongs_to_one_tool() {
        let mut all: Vec<String> = NAMES
            .iter()
            .flat_map(|(own, sdk, more)| {
                let mut names = vec![own.to_lowercase()];
                names.extend(Some(sdk.to_lowercase()).filter(|sdk| !sdk.eq_ignore_ascii_case(own)));
                names.extend(more.iter().map(|name| name.to_lowercase()));
                names
            })
            .collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn matchers_for_edits_cover_patches() {
        assert!(hook_names("apply_patch").contains(&"Edit"));
        assert_eq!(hook_names("bash"), ["Bash", "bash"]);
        assert_eq!(hook_names("task"), ["Task", "task", "Agent"]);
        assert_eq!(hook_names("mcp__a__b"), ["mcp__a__b"]);
    }

    #[test]
    fn rules_go_both_ways() {
        for (rule, tool, content) in [
            ("Bash(git *)", "Bash", Some("git:*")),
            ("Bash(cargo test)", "Bash", Some("cargo test")),
            ("edit", "Edit", None),
            ("Read(./src/**)", "Read", Some("./src/**")),
            ("mcp__files__read", "mcp__files__read", None),
            ("WebFetch(domain:docs.rs)", "WebFetch", Some("domain:docs.rs")),
        ] {
            let (name, text) = rule_parts(rule);
            assert_eq!((name.as_str(), text.as_deref()), (tool, content), "{rule}");
        }
        assert_eq!(rule_of("Bash", Some("echo:*")), "Bash(echo:*)");
        assert_eq!(rule_of("Read", None), "Read");
        assert_eq!(rule_of("Read", Some(" ")), "Read");
    }
}
