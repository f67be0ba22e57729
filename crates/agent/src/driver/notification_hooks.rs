//! Hooks for rules files, files of settings, folders and models. Those for models may refuse another model.
//!
//! A switch of the model waits for its hooks beside everything else: requests that are sent meanwhile go to the model that the
//! session has. The answer to a program waits, too.

use super::hooks::{HookCaller, Switching};
use becket_model::Model;
use becket_types::{Event, HookEvent, HookOutcome, HookPermission, NoticeLevel, SystemItem, SystemKind};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Waits for the answer of the hooks, for ever if no switch is judged.
pub(super) async fn next(switching: &mut Option<Switching>) -> HookOutcome {
    match switching {
        Some(switching) => (&mut switching.run).await,
        None => std::future::pending().await,
    }
}

impl HookCaller<'_> {
    /// Chooses another model, or begins to ask hooks. `Err` says why the model stays.
    pub(super) fn set_model(&mut self, name: &str) -> Result<(), String> {
        let model = self.conversation.wire.find(name)?;
        self.drop_switch("Another model was chosen meanwhile.");
        let source = if self.conversation.settings.asking.headless { "sdk" } else { "command" };
        let keys = self.model_keys(&*model, Some(name), source);
        let call = self.hook_call(HookEvent::PreModelSwitch, Some(&model.info().id), keys);
        match call.and_then(|call| self.run_hooks(call)) {
            Some(run) => self.hooking.switching = Some(Switching { run, model, receipt: None }),
            None => self.conversation.choose_model(model),
        }
        Ok(())
    }

    /// Lets a program wait for the hooks that judge its switch. Returns false if none do.
    pub(super) fn waits_for_switch(&mut self, request_id: &str) -> bool {
        let Some(switching) = &mut self.hooking.switching else { return false };
        switching.receipt = Some(request_id.to_owned());
        true
    }

    /// Carries out a switch unless a hook refuses it.
    pub(super) fn switch_judged(&mut self, outcome: &HookOutcome) {
        let Some(Switching { model, receipt, .. }) = self.hooking.switching.take() else { return };
        let refused = match &outcome.permission {
            Some(
                HookPermission::Deny { reason }
                | HookPermission::Ask { reason }
                | HookPermission::Defer { reason },
            ) => Some(reason.clone()),
            Some(HookPermission::Allow { .. }) | None => {
                outcome.block.as_ref().map(|block| block.text.clone())
            }
        };
        self.record_runs(outcome);
        let kept = &self.conversation.wire.model.info().id;
        let error = refused.map(|why| format!("A hook keeps the model {kept}: {why}"));
        match (&error, &receipt) {
            (None, _) => self.conversation.choose_model(model),
            (Some(text), None) => self.conversation.core.emit_notice(NoticeLevel::Warning, text.clone()),
            (Some(_), Some(_)) => {}
        }
        if let Some(request_id) = receipt {
            self.conversation.core.emit(Event::Receipt { request_id, error });
        }
    }

    fn drop_switch(&mut self, why: &str) {
        let receipt = self.hooking.switching.take().and_then(|switching| switching.receipt);
        if let Some(request_id) = receipt {
            self.conversation.core.emit(Event::Receipt { request_id, error: Some(why.to_owned()) });
        }
    }

    /// Tells hooks that requests go to another model. `before`: the model until now.
    pub(super) fn model_hooks(&mut self, before: &Arc<dyn Model>, source: &str) {
        let to = self.conversation.model();
        let mut keys = self.model_keys(&*to, None, source);
        keys["from_model"] = json!(before.info().id);
        self.run_observing_hooks(HookEvent::PostModelSwitch, Some(&to.info().id), keys);
    }

    fn model_keys(&mut self, to: &dyn Model, requested: Option<&str>, source: &str) -> Value {
        if self.conversation.settings.hooks.engine.is_none() {
            return json!({});
        }
        json!({
            "from_model": self.conversation.wire.model.info().id,
            "to_model": to.info().id,
            "requested_model": requested,
            "source": source,
            "context_tokens": self.conversation.next_request_size().0,
            "prompt_cache_warm": self.conversation.wire.is_warm(),
        })
    }

    /// Tells hooks of a folder that joined the workspace.
    pub(super) fn directory_hooks(&mut self, folder: &Path) {
        let headless = self.conversation.settings.asking.headless;
        let source = if headless { "register_repo_root" } else { "slash_command" };
        let keys = json!({ "directory": folder.to_string_lossy(), "source": source });
        self.run_observing_hooks(HookEvent::DirectoryAdded, Some(source), keys);
    }

    /// Tells hooks of files of settings that have changed since they were looked at last. The session does not read them again.
    pub(super) fn config_hooks(&mut self) {
        let files = self.conversation.settings.hooks.files.iter_mut();
        let changed: Vec<_> =
            files.filter_map(|file| file.has_changed().then(|| (file.source, file.path.clone()))).collect();
        for (source, path) in changed {
            let keys = json!({ "source": source, "file_path": path.to_string_lossy() });
            self.run_observing_hooks(HookEvent::ConfigChange, Some(source), keys);
        }
    }

    /// Tells hooks of rules files that the model gets.
    pub(super) fn instructions_hooks(&mut self, items: &[SystemItem], reason: &str) {
        if self.conversation.settings.hooks.engine.is_none() {
            return;
        }
        let files = items.iter().filter(|item| item.kind == SystemKind::Rules);
        let files: Vec<PathBuf> = files.filter_map(|item| item.path.clone()).collect();
        for file in files {
            let is_local = file.file_name().is_some_and(|name| name == "CLAUDE.local.md");
            let kind = if self.conversation.settings.rules.user_files.contains(&file) {
                "User"
            } else if is_local {
                "Local"
            } else {
                "Project"
            };
            let path = file.to_string_lossy();
            let keys = json!({ "file_path": path, "memory_type": kind, "load_reason": reason });
            self.run_observing_hooks(HookEvent::InstructionsLoaded, Some(reason), keys);
        }
    }
}
