//! Changes of permissions that an SDK's answer (`updatedPermissions`) or a hook's answer brings along.
//!
//! Owns their JSON form. Carries nothing out, and does not decide which of them a sender may ask for.

use crate::sdk_names::rule_of;
use crate::{RuleChange, RuleKind};
use serde_json::Value;
use std::path::PathBuf;

/// One change of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionUpdate {
    /// Changes the rules of one kind.
    Rules {
        kind: RuleKind,
        change: RuleChange,
        rules: Vec<String>,
    },
    /// Adds folders to the workspace.
    AddDirectories(Vec<PathBuf>),
    RemoveDirectories(Vec<PathBuf>),
    /// Sets the permission mode by its name.
    SetMode(String),
    /// An update of no known form: its `type` and its `behavior`.
    Unknown {
        what: String,
        behavior: String,
    },
}

impl PermissionUpdate {
    /// Reads one update. Without `behavior`, rules allow. Entries of lists that have no known form are skipped.
    pub fn parse(update: &Value) -> Self {
        let text = |name: &str| update.get(name).and_then(Value::as_str);
        let list = |name: &str| update.get(name).and_then(Value::as_array).into_iter().flatten();
        let folders = || list("directories").filter_map(Value::as_str).map(PathBuf::from).collect();
        let (what, behavior) = (text("type").unwrap_or_default(), text("behavior").unwrap_or("allow"));
        let kind = match behavior {
            "allow" => Some(RuleKind::Allow),
            "ask" => Some(RuleKind::Ask),
            "deny" => Some(RuleKind::Deny),
            _ => None,
        };
        let change = match what {
            "addRules" => Some(RuleChange::Add),
            "replaceRules" => Some(RuleChange::Replace),
            "removeRules" => Some(RuleChange::Remove),
            _ => None,
        };
        match (what, kind, change, text("mode")) {
            (_, Some(kind), Some(change), _) => {
                let rule = |rule: &Value| {
                    let tool = rule.get("toolName").and_then(Value::as_str)?;
                    Some(rule_of(tool, rule.get("ruleContent").and_then(Value::as_str)))
                };
                Self::Rules { kind, change, rules: list("rules").filter_map(rule).collect() }
            }
            ("addDirectories", ..) => Self::AddDirectories(folders()),
            ("removeDirectories", ..) => Self::RemoveDirectories(folders()),
            ("setMode", .., Some(mode)) => Self::SetMode(mode.to_owned()),
            _ => Self::Unknown { what: what.to_owned(), behavior: behavior.to_owned() },
        }
    }
}
