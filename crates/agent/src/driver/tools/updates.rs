//! Permission updates that a `PermissionRequest` hook gives with its answer: they count for the session.
//!
//! An update of an unknown kind is reported and has no effect. Nothing is written to files of settings.

use super::super::conversation::Conversation;
use super::super::toolset::Toolset;
use super::super::workspace::Workspace;
use becket_types::{NoticeLevel, PermissionUpdate, RuleOwner};
use serde_json::Value;
use std::collections::BTreeMap;

/// Carries out the updates, in order.
pub(super) fn carry_out(updates: &Value, tools: &mut Toolset, conversation: &mut Conversation) {
    for update in updates.as_array().into_iter().flatten() {
        if let Err(why) = apply_update(PermissionUpdate::parse(update), tools, conversation) {
            conversation.core.emit_notice(NoticeLevel::Warning, why);
        }
    }
}

fn apply_update(
    update: PermissionUpdate,
    tools: &mut Toolset,
    conversation: &mut Conversation,
) -> Result<(), String> {
    match update {
        PermissionUpdate::Rules { kind, change, rules } => {
            let rules = BTreeMap::from([(kind, rules)]);
            tools.change_rules(RuleOwner::Session, change, rules, conversation)
        }
        // In this mode nothing is asked about, so only a person or the driving program may choose it.
        PermissionUpdate::SetMode(mode) if mode == "bypassPermissions" => {
            Err("A hook cannot set the permission mode bypassPermissions.".to_owned())
        }
        PermissionUpdate::SetMode(mode) => tools.set_mode(&mode, conversation),
        PermissionUpdate::AddDirectories(folders) => {
            for folder in &folders {
                Workspace { conversation, tools }.add_directory(Some(folder))?;
            }
            Ok(())
        }
        PermissionUpdate::RemoveDirectories(folders) => {
            for folder in &folders {
                Workspace { conversation, tools }.remove_directory(folder)?;
            }
            Ok(())
        }
        PermissionUpdate::Unknown { what, behavior } => {
            Err(format!("The permission update {what} ({behavior}) of a hook has no effect here."))
        }
    }
}
