//! Permission updates that a `PermissionRequest` hook gives with its answer: they count for the session.
//!
//! An update of an unknown kind is reported and has no effect. Nothing is written to files of settings.

use super::super::workspace::Workspace;
use super::ToolRunner;
use becket_types::{NoticeLevel, sdk_names::rule_of};
use serde_json::Value;
use std::path::Path;

impl ToolRunner<'_> {
    /// Carries out the updates, in order.
    pub(super) fn update_permissions(&mut self, updates: &Value) {
        for update in updates.as_array().into_iter().flatten() {
            if let Err(why) = self.update_permission(update) {
                self.conversation.core.say(NoticeLevel::Warning, why);
            }
        }
    }

    fn update_permission(&mut self, update: &Value) -> Result<(), String> {
        let text = |name: &str| update.get(name).and_then(Value::as_str);
        let list = |name: &str| update.get(name).and_then(Value::as_array).into_iter().flatten();
        let rules: Vec<String> = list("rules")
            .filter_map(|rule| {
                let tool = rule.get("toolName").and_then(Value::as_str)?;
                Some(rule_of(tool, rule.get("ruleContent").and_then(Value::as_str)))
            })
            .collect();
        let core = &self.conversation.core;
        match (text("type").unwrap_or_default(), text("behavior").unwrap_or("allow")) {
            ("addRules" | "replaceRules", "allow") => {
                rules.iter().for_each(|rule| self.tools.grant(rule, core));
            }
            ("addRules" | "replaceRules", "deny") => {
                rules.iter().for_each(|rule| self.tools.forbid(rule, core));
            }
            ("removeRules", "allow") => rules.iter().for_each(|rule| self.tools.revoke(rule, core)),
            ("setMode", _) => {
                self.tools.set_mode(text("mode").unwrap_or_default(), self.conversation)?;
            }
            ("addDirectories", _) => {
                for folder in list("directories").filter_map(Value::as_str) {
                    let mut workspace = Workspace { conversation: self.conversation, tools: self.tools };
                    workspace.add_directory(Some(Path::new(folder)))?;
                }
            }
            (kind, behavior) => {
                return Err(format!(
                    "The permission update {kind} ({behavior}) of a hook has no effect here."
                ));
            }
        }
        Ok(())
    }
}
