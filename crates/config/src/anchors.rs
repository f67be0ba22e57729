//! Path rules of Claude Code's settings files. There, a path with one leading slash starts at a folder that depends on the file:
//! `Edit(/src/**)` in `.claude/settings.json` means `src` of the project.
//!
//! Writes such a rule with its absolute path (`Edit(//home/me/project/src/**)`), which has one meaning wherever it is read. Reads
//! only the tool and the first slash of a rule; the guard parses the whole.

use crate::document::{Kind, Node};
use serde_json::Value;
use std::path::Path;

/// Tools whose rules name files. In rules of other tools, such as `Bash(/usr/bin/make *)`, a slash has no such meaning.
const FILE_TOOLS: &[&str] =
    &["read", "edit", "write", "multiedit", "notebookedit", "notebookread", "grep", "glob", "ls"];

/// Anchors the path rules of a settings file of Claude Code at `anchor`.
///
/// An allow rule is replaced by the anchored rule. An ask or deny rule is kept, and the anchored rule is added: becket applies the
/// original to the absolute path and below `cwd`, so no protection is lost for somebody who meant one of these.
pub(crate) fn anchor_rules(root: &mut Node, anchor: &Path, cwd: &Path) {
    let Kind::Table(entries) = &mut root.kind else { return };
    let Some(permissions) = entries.iter_mut().find(|entry| entry.key == "permissions") else { return };
    let Kind::Table(lists) = &mut permissions.value.kind else { return };
    for list in lists {
        let Kind::List(rules) = &mut list.value.kind else { continue };
        match list.key.as_str() {
            "allow" => {
                for rule in rules {
                    if let Some(anchored) = anchored(rule, anchor) {
                        *rule = anchored;
                    }
                }
            }
            "ask" | "deny" if anchor != cwd => {
                let more: Vec<Node> = rules.iter().filter_map(|rule| anchored(rule, anchor)).collect();
                rules.extend(more);
            }
            _ => {}
        }
    }
}

/// Returns the rule with its absolute path. `None` if its path does not begin with one slash.
fn anchored(rule: &Node, anchor: &Path) -> Option<Node> {
    let Kind::Scalar(Value::String(text)) = &rule.kind else { return None };
    let (tool, rest) = text.trim().split_once('(')?;
    let name = tool.trim().replace('_', "").to_ascii_lowercase();
    let path = rest.strip_suffix(')')?.trim().strip_prefix('/').filter(|path| !path.starts_with('/'))?;
    if !FILE_TOOLS.contains(&name.as_str()) {
        return None;
    }
    let anchor = escaped(&anchor.to_string_lossy());
    let text = format!("{}(/{}/{path})", tool.trim(), anchor.trim_end_matches('/'));
    Some(Node { at: rule.at, kind: Kind::Scalar(Value::String(text)) })
}

/// The name of a folder as a pattern that matches it alone.
fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, '?' | '*' | '[' | ']' | '{' | '}') {
            out.extend(['[', c, ']']);
        } else {
            out.push(c);
        }
    }
    out
}
