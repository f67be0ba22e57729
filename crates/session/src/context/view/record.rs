//! The facts of a session that entries state beside its messages: state values, the system prompt, model and tools, usage,
//! notices.
//!
//! Each setter says if the fact has changed, because a change begins a new generation of the context.

use crate::context::{budget, escape};
use becket_types::{Cost, Part, SubagentReport, SystemItem, SystemKind, Tokens, Usage, Used, is_blank};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct SessionRecord {
    /// State entries by name. A later entry replaces an earlier one.
    pub(super) states: HashMap<String, Value>,
    pub(super) system: SystemPrompt,
    /// The model of the last request, `provider/name`.
    pub(super) model: Option<String>,
    /// Names and hash of the tools that were offered last.
    pub(super) tools: Option<(Vec<String>, String)>,
    /// Names of all tools that were ever offered.
    pub(super) offered: BTreeSet<String>,
    /// Usage of requests that wrote messages, including those of subagents.
    pub(super) used: Used,
}

/// The blocks of the system prompt.
#[derive(Debug, Default)]
pub(super) struct SystemPrompt {
    /// The blocks as the ledger has them.
    pub(super) items: Vec<SystemItem>,
    /// The texts as they are sent.
    pub(super) sent: Arc<[Arc<str>]>,
    pub(super) tokens: Tokens,
}

impl SystemPrompt {
    /// Stores the blocks. Returns true if they differ from the previous ones.
    pub(super) fn set(&mut self, items: &[SystemItem]) -> bool {
        if self.items == items {
            return false;
        }
        items.clone_into(&mut self.items);
        let text = |item: &SystemItem| match item.kind {
            SystemKind::Prompt | SystemKind::Appended => Arc::from(item.text.as_str()),
            SystemKind::Environment | SystemKind::Rules | SystemKind::Skills => {
                Arc::from(escape::escape(&item.text).as_ref())
            }
        };
        self.sent = items.iter().filter(|item| !is_blank(&item.text)).map(text).collect();
        self.tokens = self.sent.iter().map(|text| budget::estimate_text(text)).sum();
        true
    }
}

impl SessionRecord {
    /// Stores the model. Returns true if it differs from the previous one.
    pub(super) fn set_model(&mut self, model: &str) -> bool {
        let changed = self.model.as_deref() != Some(model);
        if changed {
            self.model = Some(model.to_owned());
        }
        changed
    }

    /// Stores the tools. Returns true if they differ from the previous ones.
    pub(super) fn set_tools(&mut self, names: &[String], hash: &str) -> bool {
        let changed = self.tools.as_ref().is_none_or(|(n, h)| n != names || h != hash);
        if changed {
            self.tools = Some((names.to_vec(), hash.to_owned()));
            self.offered.extend(names.iter().cloned());
        }
        changed
    }

    /// Adds the usage of one request.
    pub(super) fn count(&mut self, usage: Usage, cost: Cost) {
        self.used.usage += usage;
        self.used.cost += cost;
    }

    /// Adds the usage of the subagent whose report is the result of a call.
    pub(super) fn count_subagent(&mut self, part: &Part) {
        if let Part::ToolResult { details, .. } = part
            && let Some(report) = SubagentReport::from_details(details)
        {
            self.count(report.usage, report.cost);
        }
    }
}

/// Notices for the user. Each is returned once, and never if the ledger already has it.
#[derive(Debug, Default)]
pub(super) struct Notices {
    pub(super) pending: Vec<String>,
    pub(super) known: HashSet<String>,
}

impl Notices {
    pub(super) fn add(&mut self, text: String) {
        if !self.known.contains(&text) {
            self.known.insert(text.clone());
            self.pending.push(text);
        }
    }

    /// Records that the ledger has this notice.
    pub(super) fn note_in_ledger(&mut self, text: &str) {
        self.known.insert(text.to_owned());
    }

    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: SystemKind, text: &str) -> SystemItem {
        SystemItem { kind, path: None, text: text.to_owned() }
    }

    #[test]
    fn only_foreign_blocks_are_escaped_and_blank_ones_are_not_sent() {
        let mut system = SystemPrompt::default();
        let items = [
            item(SystemKind::Prompt, "<system-reminder>"),
            item(SystemKind::Rules, "<system-reminder>"),
            item(SystemKind::Appended, " \n"),
        ];
        assert!(system.set(&items));
        assert!(!system.set(&items));
        let sent: Vec<&str> = system.sent.iter().map(AsRef::as_ref).collect();
        assert_eq!(sent, ["<system-reminder>", "&lt;system-reminder>"]);
        assert!(system.tokens > Tokens(0));
    }

    #[test]
    fn a_fact_that_stays_the_same_changes_nothing() {
        let mut record = SessionRecord::default();
        let (a, b) = (["a".to_owned()], ["b".to_owned()]);
        assert!(record.set_model("p/m") && !record.set_model("p/m") && record.set_model("p/n"));
        assert!(record.set_tools(&a, "1") && !record.set_tools(&a, "1"));
        assert!(record.set_tools(&a, "2") && record.set_tools(&b, "2"));
        assert_eq!(record.offered.iter().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_notice_is_returned_once_and_not_if_the_ledger_has_it() {
        let mut notices = Notices::default();
        notices.note_in_ledger("b");
        for text in ["a", "b", "a"] {
            notices.add(text.to_owned());
        }
        assert_eq!(notices.take(), ["a"]);
        notices.add("a".to_owned());
        assert_eq!(notices.take(), [""; 0]);
    }
}
