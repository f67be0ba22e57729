//! Warnings that a person has seen and that say the same on every run: unknown keys of a file of settings.
//!
//! A headless run shows such a warning once for each state of the file: again when the file changes. `becket doctor`,
//! `becket config` and the terminal show it always. A warning that cannot be remembered is shown.

use crate::environment::Environment;
use crate::settings::RunSettings;
use becket_config::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Maximum number of bytes of the list of shown warnings. In a longer one nothing is looked up, so it begins again.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the warnings about the settings of a run that are shown in it.
pub(crate) fn warnings(environment: &Environment, run: &RunSettings) -> Vec<String> {
    let all = &run.settings.warnings;
    if run.interactive || run.command.is_some() {
        return all.iter().map(ToString::to_string).collect();
    }
    unseen_warnings(environment, all)
}

/// Returns the warnings to show in a headless run, and remembers those that are not shown again.
fn unseen_warnings(environment: &Environment, warnings: &[Problem]) -> Vec<String> {
    let mut states: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let mut keyed: Vec<(&Problem, Option<String>)> = Vec::new();
    for warning in warnings {
        let state = states.entry(&warning.origin).or_insert_with(|| state_of(&warning.origin));
        let text =
            state.as_ref().filter(|_| warning.is_unknown_key()).map(|state| format!("{state}\n{warning}"));
        let key = text.map(|text| becket_tool::sha256(text.as_bytes())[..32].to_owned());
        keyed.push((warning, key));
    }
    if keyed.iter().all(|(_, key)| key.is_none()) {
        return warnings.iter().map(ToString::to_string).collect();
    }
    let file = environment.data_dir.join("told-warnings");
    let text = becket_files::read_text(&file, MAX_BYTES);
    let known: BTreeSet<&str> = text.as_deref().unwrap_or_default().lines().collect();
    let is_known = |key: &Option<String>| key.as_deref().is_some_and(|key| known.contains(key));
    let fresh: Vec<_> = keyed.into_iter().filter(|(_, key)| !is_known(key)).collect();
    let lines: String = fresh.iter().filter_map(|(_, key)| Some(format!("{}\n", key.as_deref()?))).collect();
    if !lines.is_empty() {
        let is_full = std::fs::metadata(&file).is_ok_and(|meta| meta.len() > MAX_BYTES / 2);
        // If it cannot be remembered, the warning is shown again.
        let _ = if is_full {
            becket_files::private::replace(&file, lines.as_bytes())
        } else {
            becket_files::private::append(&file, lines.as_bytes())
        };
    }
    fresh.into_iter().map(|(warning, _)| warning.to_string()).collect()
}

/// Identifies a file of settings with its present content. `None` for a flag, a variable or a file that cannot be read.
fn state_of(origin: &str) -> Option<String> {
    let text = becket_config::read_text(Path::new(origin)).ok()??;
    Some(format!("{origin}\n{}", becket_tool::sha256(text.as_bytes())))
}
