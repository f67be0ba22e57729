//! Permission updates that a `PermissionRequest` hook gives with its answer: they count for the session.
//!
//! An update of an unknown kind is reported and has no effect. Nothing is written to files of settings.

use super::super::conversation::Conversation;
use super::super::toolset::Toolset;
use super::super::workspace::Workspace;
use becket_types::{NoticeLevel, sdk_names::rule_of};
use serde_json::Value;
use std::path::Path;

/// Carries out the updates, in order.
pub(super) fn carry_out(updates: &Value, tools: &mut Toolset, conversation: &mut Conversation) {
    for update in updates.as_array().into_iter().flatten() {
        if let Err(why) = one(update, tools, conversation) {
            conversation.core.say(NoticeLevel::Warning, why);
        }
    }
}

fn one(update: &Value, tools: &mut Toolset, conversation: &mut Conversation) -> Result<(), String> {
    let text = |name: &str| update.get(name).and_then(Value::as_str);
    let list = |name: &str| update.get(name).and_then(Value::as_array).into_iter().flatten();
    let rules: Vec<String> = list("rules")
        .filter_map(|rule| {
            let tool = rule.get("toolName").and_then(Value::as_str)?;
            Some(rule_of(tool, rule.get("ruleContent").and_then(Value::as_str)))
        })
        .collect();
    let core = &conversation.core;
    match (text("type").unwrap_or_default(), text("behavior").unwrap_or("allow")) {
        ("addRules" | "replaceRules", "allow") => {
            for rule in &rules {
                tools.grant(rule, core);
            }
        }
        ("addRules" | "replaceRules", "deny") => {
            for rule in &rules {
                tools.forbid(rule, core);
            }
        }
        ("removeRules", "allow") => {
            for rule in &rules {
                tools.revoke(rule, core);
            }
        }
        // This mode asks about nothing any more, which only a person or the driving program may choose.
        ("setMode", _) if text("mode") == Some("bypassPermissions") => {
            return Err("A hook cannot set the permission mode bypassPermissions.".to_owned());
        }
        ("setMode", _) => {
            tools.set_mode(text("mode").unwrap_or_default(), conversation)?;
        }
        ("addDirectories", _) => {
            for folder in list("directories").filter_map(Value::as_str) {
                let mut workspace = Workspace { conversation, tools };
                workspace.add_directory(Some(Path::new(folder)))?;
            }
        }
        (kind, behavior) => {
            return Err(format!("The permission update {kind} ({behavior}) of a hook has no effect here."));
        }
    }
    Ok(())
}
