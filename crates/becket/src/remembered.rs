//! What a session that is continued keeps of its earlier runs: model, effort, permission mode and limits.
//!
//! Owns which settings belong to a session, how they are recorded, and which layer goes before them. What a flag, the
//! environment or `--settings` says for a run is recorded in the session's ledger and holds for later runs, until one of
//! these says something else. Values from files are not recorded: the files say them again.
//!
//! `bypassPermissions` is never taken from a ledger, which may have come from elsewhere; it is asked for each time.

use becket_config::{Settings, Source};
use becket_session::context::View;
use becket_session::store;
use becket_types::{EntryKind, PermissionMode};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Name of the state that holds the values of [`KEYS`] that were given for a run.
const OPTIONS: &str = "run_options";
/// Name of the state that holds the permission mode; the agent writes it, too, when the user changes the mode.
const MODE: &str = "mode";
const MODE_KEY: &str = "permission_mode";
/// Settings of a run that a session keeps, as the configuration names them.
const KEYS: [&str; 6] = [
    "effort",
    "context.window",
    "limits.max_turns",
    "limits.max_budget_usd",
    "limits.max_tokens",
    "limits.max_wall",
];

/// What a session's ledger says of its last run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Remembered {
    /// `provider/name`.
    pub model: Option<String>,
    mode: Option<String>,
    options: Map<String, Value>,
}

impl Remembered {
    pub(crate) fn of_view(view: &View) -> Self {
        let options = view.state(OPTIONS).and_then(Value::as_object).cloned().unwrap_or_default();
        Self {
            model: view.model().map(str::to_owned),
            mode: view.state(MODE).and_then(Value::as_str).map(str::to_owned),
            options,
        }
    }

    /// The same without folding the session: for one that is copied, or not opened yet. What cannot be read is not kept.
    pub(crate) fn of_ledger(dir: &Path) -> Self {
        let mut out = Self::default();
        let Ok(entries) = store::read_entries(dir) else { return out };
        for entry in entries.flatten().flatten() {
            match entry.kind {
                EntryKind::ModelSwitch { model } => out.model = Some(model),
                EntryKind::State { key, value: Value::String(mode) } if key == MODE => out.mode = Some(mode),
                EntryKind::State { key, value: Value::Object(options) } if key == OPTIONS => {
                    out.options = options;
                }
                _ => {}
            }
        }
        out
    }

    /// Puts the session's values into the settings of this run, below what was given for this run. Returns what the user
    /// should know.
    pub(crate) fn apply(self, settings: &mut Settings) -> Vec<String> {
        let mut notes = Vec::new();
        let named = settings.config.model.clone().filter(|_| is_given(settings, "model"));
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
                let now = settings.config.permission_mode;
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
            if KEYS.contains(&key.as_str()) && !is_given(settings, &key) {
                settings.remember(&key, value);
            }
        }
        notes
    }
}

/// The states that record what holds for this run; called after [`Remembered::apply`].
pub(crate) fn states(settings: &Settings) -> Vec<(String, Value)> {
    let kept = |key: &str| {
        settings.value(key).filter(|_| is_given(settings, key) || settings.is_remembered(key)).cloned()
    };
    let options: Map<String, Value> =
        KEYS.iter().filter_map(|key| Some(((*key).to_owned(), kept(key)?))).collect();
    let mut out = vec![(OPTIONS.to_owned(), Value::Object(options))];
    if kept(MODE_KEY).is_some() {
        out.push((MODE.to_owned(), json!(settings.config.permission_mode)));
    }
    out
}

/// True if the value was said for this run, or by whoever manages this machine.
fn is_given(settings: &Settings, key: &str) -> bool {
    matches!(
        settings.source(key),
        Source::Flag(_) | Source::Environment(_) | Source::Settings(_) | Source::Managed(_)
    )
}
