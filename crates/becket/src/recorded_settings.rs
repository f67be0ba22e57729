//! Settings that a continued session keeps from its earlier runs: model, agent, effort, permission mode, limits, tools and
//! added folders.
//!
//! Owns the list of these settings, how they are recorded, and which layers override them. A value set for a run by a
//! flag, the environment or `--settings` is recorded in the session's ledger. It applies to later runs until it is set
//! again. Values from files are not recorded, because the files are read again.
//!
//! `bypassPermissions` is never taken from a ledger, which may have come from elsewhere. It must be requested for each
//! run.

use crate::cmd::newest;
use crate::environment::Environment;
use crate::settings::{Project, RunSettings, SessionChoice};
use becket_agent::ADDED_FOLDERS;
use becket_config::{Settings, Source};
use becket_session::context::View;
use becket_session::store;
use becket_types::{EntryKind, FilePath, PermissionMode};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Name of the state that holds the values of [`RECORDED_KEYS`] that were set for a run.
const OPTIONS: &str = "run_options";
/// Name of the state that holds the permission mode. The agent writes it as well, when the user changes the mode.
const MODE: &str = "mode";
/// Name of the state that holds the name of the session's agent (`--agent`).
pub(crate) const AGENT: &str = "agent";
const MODE_KEY: &str = "permission_mode";
/// Settings of a run that a session keeps, by their configuration keys.
const RECORDED_KEYS: [&str; 8] = [
    "effort",
    "context.window",
    "limits.max_turns",
    "limits.max_budget_usd",
    "limits.max_tokens",
    "limits.max_wall",
    "limits.wait_for_quota",
    "tools.enabled",
];

/// States that change what a session may do or spend. They are removed from a session that is imported from a file of somebody else.
pub(crate) const PRIVILEGED_STATES: [&str; 3] = [MODE, OPTIONS, ADDED_FOLDERS];

/// The settings of the last run, as the session's ledger records them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RecordedSettings {
    /// `provider/name`.
    pub model: Option<String>,
    /// Name of the kind that the session's agent is.
    pub agent: Option<String>,
    mode: Option<String>,
    options: Map<String, Value>,
    /// Folders that `--add-dir` or `/add-dir` added.
    folders: Vec<PathBuf>,
}

impl RecordedSettings {
    pub(crate) fn from_view(view: &View) -> Self {
        let options = view.state(OPTIONS).and_then(Value::as_object).cloned().unwrap_or_default();
        Self {
            model: view.model().map(str::to_owned),
            agent: view.state(AGENT).and_then(Value::as_str).map(str::to_owned),
            mode: view.state(MODE).and_then(Value::as_str).map(str::to_owned),
            options,
            folders: view.state(ADDED_FOLDERS).map(folders).unwrap_or_default(),
        }
    }

    /// Reads the values of [`Self::from_view`] from the entries of the ledger, for a session that is copied or not opened
    /// yet and so has no view. Unreadable entries are skipped.
    pub(crate) fn from_ledger(dir: &Path) -> Self {
        let mut out = Self::default();
        let Ok(entries) = store::read_entries(dir) else { return out };
        for entry in entries.flatten().flatten() {
            match entry.kind {
                EntryKind::ModelSwitch { model } => out.model = Some(model),
                EntryKind::State { key, value } if key == MODE => {
                    out.mode = value.as_str().map(str::to_owned);
                }
                EntryKind::State { key, value: Value::String(name) } if key == AGENT => {
                    out.agent = Some(name);
                }
                EntryKind::State { key, value } if key == OPTIONS => {
                    out.options = value.as_object().cloned().unwrap_or_default();
                }
                EntryKind::State { key, value } if key == ADDED_FOLDERS => out.folders = folders(&value),
                _ => {}
            }
        }
        out
    }

    /// Adds the session's values to the settings of this run, below values that were set for this run. Returns notes
    /// for the user.
    pub(crate) fn apply(self, settings: &mut Settings) -> Vec<String> {
        let mut notes = Vec::new();
        let named = settings.config.model.name.clone().filter(|_| is_given(settings, "model"));
        match (self.model, named) {
            (Some(before), None) => settings.remember("model", json!(before)),
            (Some(before), Some(now)) if before != now && !before.ends_with(&format!("/{now}")) => {
                notes.push(format!("this session ran with {before}; it continues with {now}"));
            }
            _ => {}
        }
        let mode = self.mode.filter(|_| !is_given(settings, MODE_KEY));
        match mode.as_deref().map(str::parse::<PermissionMode>) {
            Some(Ok(PermissionMode::BypassPermissions)) => {
                let now = settings.config.permissions.mode;
                if now != PermissionMode::BypassPermissions {
                    notes.push(format!(
                        "this session ran in bypassPermissions; it continues in {now} (--permission-mode changes it)"
                    ));
                }
            }
            Some(Ok(mode)) => settings.remember(MODE_KEY, json!(mode)),
            Some(Err(_)) | None => {}
        }
        for (key, value) in self.options {
            if RECORDED_KEYS.contains(&key.as_str()) && !is_given(settings, &key) {
                settings.remember(&key, value);
            }
        }
        notes
    }
}

/// Adds the session's folders to those of this run. Returns notes for the user: they say which folders count without being
/// named for this run, and which are missing.
pub(crate) fn join_folders(remembered: &RecordedSettings, project: &mut Project) -> Vec<String> {
    let mut notes = Vec::new();
    for folder in &remembered.folders {
        if project.roots.contains(folder) {
            continue;
        }
        let shown = folder.display();
        if folder.canonicalize().is_ok_and(|real| real == *folder && real.is_dir()) {
            notes
                .push(format!("this session also works in {shown}, which was added to its workspace before"));
            project.roots.push(folder.clone());
            project.added.push(folder.clone());
        } else {
            notes.push(format!("the folder {shown} of this session's workspace is missing and was left out"));
        }
    }
    notes
}

fn folders(value: &Value) -> Vec<PathBuf> {
    let list = serde_json::from_value::<Vec<FilePath>>(value.clone()).unwrap_or_default();
    list.into_iter().map(|path| path.0).collect()
}

/// Returns the states that record the settings of this run. Call it after [`RecordedSettings::apply`].
pub(crate) fn states(settings: &Settings, project: &Project) -> Vec<(String, Value)> {
    let kept = |key: &str| {
        settings.value(key).filter(|_| is_given(settings, key) || settings.is_remembered(key)).cloned()
    };
    let options: Map<String, Value> =
        RECORDED_KEYS.iter().filter_map(|key| Some(((*key).to_owned(), kept(key)?))).collect();
    let mut out = vec![(OPTIONS.to_owned(), Value::Object(options))];
    if kept(MODE_KEY).is_some() {
        out.push((MODE.to_owned(), json!(settings.config.permissions.mode)));
    }
    if !project.added.is_empty() {
        let added: Vec<FilePath> = project.added.iter().cloned().map(FilePath).collect();
        out.push((ADDED_FOLDERS.to_owned(), json!(added)));
    }
    out
}

/// True if the value was set for this run alone, so that a limit counts from its start.
pub(crate) fn is_new(settings: &Settings, key: &str) -> bool {
    matches!(settings.source(key), Source::Flag(_) | Source::Environment(_) | Source::Settings(_))
}

/// True if the value was set for this run or by the managed settings of this machine.
pub(crate) fn is_given(settings: &Settings, key: &str) -> bool {
    matches!(
        settings.source(key),
        Source::Flag(_) | Source::Environment(_) | Source::Settings(_) | Source::Managed(_)
    )
}
/// Returns the model of the session that this run continues, without opening the session.
pub(crate) fn model(environment: &Environment, run: &RunSettings) -> Option<String> {
    let root = environment.sessions_dir();
    let summary = match &run.session.choice {
        SessionChoice::New { .. } => return None,
        SessionChoice::Continue { .. } => newest(environment, &run.project.cwd).ok()??.session,
        SessionChoice::Resume { query, .. } => store::find(&root, query, Some(&run.project.cwd)).ok()?,
    };
    RecordedSettings::from_ledger(&summary.dir).model
}
