//! The tools of the session, everything that judges or records their calls, and tools that appear while the session runs.
//!
//! Another set of definitions is a boundary: the beginning of requests is then no longer the one that the provider has
//! cached. The ledger records it, and the context engine begins a new generation.
//!
//! Does not run calls.

use super::Core;
use super::background::Subagents;
use super::conversation::Conversation;
use super::files::{Files, FilesAtRisk};
use super::ids::CallIds;
use super::reattach;
use crate::answer::Call;
use crate::host::{SessionHost, lock};
use crate::repetition::RepetitionGuard;
use crate::watch::FileChange;
use becket_guard::{Guard, Rule, Verdict};
use becket_session::Durability;
use becket_session::context::compaction::{FileNow, Snapshot};
use becket_tool::{Registry, ToolEnv, ToolSource};
use becket_types::{
    Access, Command, EntryKind, Event, NoticeLevel, PermissionMode, RuleChange, RuleKind, RuleOwner,
    Synthetic, ToolSpec,
};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Limit on changed files that a message to the model names.
const MAX_CHANGED: usize = 10;

/// The tools, everything that judges or records their calls, and the calls that run on their own.
pub(super) struct Toolset {
    pub(super) registry: Registry,
    /// Tools without those of the source; `None` without a source.
    sourced: Option<Sourced>,
    pub(super) guard: Guard,
    pub(super) host: Arc<SessionHost>,
    pub(super) files: Option<Arc<Files>>,
    pub(super) ids: CallIds,
    pub(super) repetition: RepetitionGuard,
    pub(super) subagents: Subagents,
    /// Folders that joined the workspace (true) or left it, and that the model does not know about yet.
    pub(super) unreported_folders: Vec<(PathBuf, bool)>,
    /// True if the model knows that permission mode `plan` holds.
    plan_mode_reported: bool,
}

/// The tools of an agent without those of its source, and the last applied state of the source.
struct Sourced {
    own: Registry,
    generation: u64,
}

/// Returns the text of a specification with its secrets masked; `None` if it has none.
fn masked(text: &str) -> Option<String> {
    match becket_session::secrets::mask_published(text).0 {
        Cow::Owned(masked) => Some(masked),
        Cow::Borrowed(_) => None,
    }
}

impl Toolset {
    /// `changes`: a source can add tools.
    pub(super) fn new(
        mut registry: Registry,
        guard: Guard,
        host: Arc<SessionHost>,
        files: Option<Arc<Files>>,
        ids: CallIds,
        changes: bool,
    ) -> Self {
        registry.mask_with(masked);
        Self {
            sourced: changes.then(|| Sourced { own: registry.clone(), generation: 0 }),
            registry,
            guard,
            host,
            files,
            ids,
            repetition: RepetitionGuard::default(),
            subagents: Subagents::default(),
            unreported_folders: Vec::new(),
            plan_mode_reported: false,
        }
    }

    /// Updates the tools of the source, if they changed since the last step. Returns the definitions for requests if they
    /// differ from those that were `offered` before.
    pub(super) fn update_from(
        &mut self,
        source: Option<&Arc<dyn ToolSource>>,
        offered: &[ToolSpec],
    ) -> Option<Arc<[ToolSpec]>> {
        let (source, sourced) = (source?, self.sourced.as_mut()?);
        let generation = source.generation();
        if std::mem::replace(&mut sourced.generation, generation) == generation {
            return None;
        }
        let mut tools = sourced.own.clone();
        for offer in source.tools() {
            // A tool with an invalid name, or with the name of one of becket's tools, is left out, so that it cannot
            // replace one.
            let _ = if offer.offered { tools.add(offer.tool) } else { tools.add_quiet(offer.tool) };
        }
        let removed = self.guard.removed_tools(&tools.all_names());
        tools.retain(|name| !removed.iter().any(|r| r == name));
        let specs = tools.specs();
        self.registry = tools;
        (*offered != *specs).then(|| specs.into())
    }

    /// Records the definitions of the requests in the ledger.
    pub(super) fn record(&self, core: &mut Core) {
        let (specs, hash) = self.registry.definitions();
        let specs = lock(&core.session).put_blob(&specs).ok();
        core.push(EntryKind::Tools { names: self.registry.names(), hash, specs });
    }

    /// Returns the call that is meant if the model used another name for the tool (`aliases`) or called it through another
    /// tool, such as `mcp_call`. It is judged, recorded and run under its own name.
    pub(super) fn resolve_call(&self, mut call: Call, aliases: &BTreeMap<String, String>) -> Call {
        if let Some(name) = aliases.get(&call.name) {
            call.name.clone_from(name);
        }
        let stands_for = self.registry.get(&call.name).and_then(|tool| tool.stands_for(&call.input));
        if let Some((name, input)) = stands_for.filter(|_| call.invalid.is_none()) {
            (call.name, call.input) = (name, input);
        }
        // The model must not answer its own question to the person, so the keys of answers are removed.
        let question = self.registry.get(&call.name).and_then(|tool| tool.asks_person());
        if let (Some(question), Value::Object(input)) = (question, &mut call.input) {
            input.retain(|key, _| !question.answers.contains(&key.as_str()));
        }
        call
    }

    /// Returns the tool's own name, if the model used another name for it.
    pub(super) fn own_name(&self, called: &str) -> String {
        self.registry.get(called).map_or_else(|| called.to_owned(), |tool| tool.spec().name.clone())
    }

    /// Changes rules until the session ends, also those of running subagents and of the confinement of commands. `Err` says why
    /// nothing was changed.
    pub(super) fn change_rules(
        &mut self,
        owner: RuleOwner,
        change: RuleChange,
        rules: BTreeMap<RuleKind, Vec<String>>,
        conversation: &Conversation,
    ) -> Result<(), String> {
        let core = &conversation.core;
        let removed = self
            .guard
            .change_rules(owner, change, &rules)
            .map_err(|error| format!("The permission rules were not changed: {error}."))?;
        if change == RuleChange::Remove {
            for rule in rules.get(&RuleKind::Allow).into_iter().flatten() {
                let text = match removed {
                    0 => format!("There is no such allow rule: {rule}"),
                    _ => format!("No longer allowed without asking: {rule}"),
                };
                core.emit_notice(NoticeLevel::Info, text);
            }
        }
        if owner == RuleOwner::Session {
            self.tell_grants(core);
        }
        // Subagents run their commands in the same sandbox, so its rules are those of the main agent.
        let is_subagent = conversation.settings.hooks.agent.as_ref().is_some_and(|agent| agent.id.is_some());
        let confinement = conversation.settings.tools.confinement.as_ref().filter(|_| !is_subagent);
        if let Some(confinement) = confinement.filter(|_| rules.contains_key(&RuleKind::Deny)) {
            let deny: Vec<Rule> = self.guard.rules(RuleKind::Deny).cloned().collect();
            confinement.deny(&deny);
        }
        self.subagents.pass_rules(&Command::ChangeRules { owner, change, rules });
        Ok(())
    }

    /// Allows calls that match the rule until the session ends. A person has decided this.
    pub(super) fn grant(&mut self, rule: String, conversation: &Conversation) {
        let rules = BTreeMap::from([(RuleKind::Allow, vec![rule])]);
        if let Err(why) = self.change_rules(RuleOwner::Session, RuleChange::Add, rules, conversation) {
            conversation.core.emit_notice(NoticeLevel::Warning, why);
        }
    }

    fn tell_grants(&self, core: &Core) {
        let rules = self.guard.added_rules(RuleOwner::Session);
        let rules = rules.allow.iter().map(ToString::to_string).collect();
        core.emit(Event::Grants { rules });
    }

    /// True if each path may be read without asking.
    pub(super) fn may_read_all(&self, access: &Access) -> bool {
        access.paths.iter().all(|path| {
            let input = json!({ "path": path.to_string_lossy() });
            matches!(self.guard.check("read", &Access::read(path.clone()), &input), Verdict::Allow { .. })
        })
    }

    /// The files that a call may change, known before it runs.
    pub(super) fn touches(&self, access: &Access, env: &ToolEnv, home: Option<&Path>) -> FilesAtRisk {
        if self.files.is_none() {
            return FilesAtRisk::Nothing;
        }
        FilesAtRisk::from_access(access, env, self.guard.only_reads(access), home)
    }

    /// Returns the files that the model was shown, in their present state; those that were used last come first.
    pub(super) fn files_to_attach(&self, snapshot: &Snapshot, cwd: &Path, mask: bool) -> Vec<FileNow> {
        reattach::files_now(snapshot, cwd, &self.host, &self.guard, mask)
    }

    /// Sets the permission mode. `Err` says why it was not changed.
    pub(super) fn set_mode(&mut self, name: &str, conversation: &mut Conversation) -> Result<(), String> {
        let mode = name.parse::<PermissionMode>()?;
        self.guard.may_enter(mode)?;
        self.guard.set_mode(mode);
        self.subagents.set_mode(mode);
        let value = Value::from(mode.as_str());
        // The mode with which the run began may not be in the ledger yet, and must not replace this one.
        conversation.settings.session.states.retain(|(key, _)| key != "mode");
        let core = &mut conversation.core;
        core.announce(Event::ModeChanged { mode: mode.to_string() });
        core.append(vec![EntryKind::State { key: "mode".to_owned(), value }], Durability::Buffered);
        Ok(())
    }

    /// Leaves the mode `only_in` for `default`, because a person agreed to the call that asked for it. Does nothing if the
    /// person chose another mode with the answer.
    pub(super) fn leave_mode(&mut self, only_in: PermissionMode, conversation: &mut Conversation) {
        if self.guard.mode() != only_in {
            return;
        }
        // The model learns from the result of the call that the mode is over, so no message is sent.
        self.plan_mode_reported = false;
        // The name of a mode is always a mode.
        let _ = self.set_mode(PermissionMode::Default.as_str(), conversation);
    }

    /// Informs the model that permission mode `plan` holds or is over, once for each change.
    ///
    /// A subagent that only reads is in that mode as well, and its task is no plan.
    pub(super) fn tell_plan_mode(&mut self, conversation: &mut Conversation) {
        let is_subagent = conversation.settings.hooks.agent.as_ref().is_some_and(|agent| agent.id.is_some());
        let is_plan = self.guard.mode() == PermissionMode::Plan && !is_subagent;
        if std::mem::replace(&mut self.plan_mode_reported, is_plan) == is_plan {
            return;
        }
        let presents = if self.registry.names().iter().any(|name| name == "exit_plan") {
            "call exit_plan with it"
        } else {
            "present it as your answer"
        };
        let text = if is_plan {
            let own = "Work out a plan for the task.";
            let work = conversation.settings.prompt.plan.as_deref().unwrap_or(own);
            format!(
                "Permission mode plan: read and search, but change nothing; calls that write or run something are denied. {work} \
                 When the plan is complete, {presents}."
            )
        } else {
            "Permission mode plan is over: you may write and run, as the permission mode allows.".to_owned()
        };
        conversation.core.synthetic(Synthetic::Reminder, text, Map::new());
    }

    /// Informs the model of files that it has read and that others have changed since, all in one message. A file that was
    /// reported is not reported again until the model has read it again.
    pub(super) fn tell_changed_files(&self, cwd: &Path, core: &mut Core) {
        let changed = self.host.watch().changed();
        if let Some(text) = self.host.watch().notice() {
            core.notice(NoticeLevel::Info, text);
        }
        if changed.is_empty() {
            return;
        }
        let mut lines: Vec<String> = Vec::new();
        for (path, fate) in changed.iter().take(MAX_CHANGED) {
            let what = match fate {
                FileChange::Changed => "changed on disk since you read it",
                FileChange::Gone => "is gone from disk since you read it",
            };
            lines.push(format!("{} {what}.", path.strip_prefix(cwd).unwrap_or(path).display()));
        }
        if changed.len() > MAX_CHANGED {
            lines.push(format!(
                "{} more files that you read changed on disk, too.",
                changed.len() - MAX_CHANGED
            ));
        }
        core.synthetic(Synthetic::Reminder, lines.join("\n"), Map::new());
    }
}
