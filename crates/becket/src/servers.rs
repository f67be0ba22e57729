//! Facts that the user's own servers reported about their models, kept between runs: window, images, and the layout
//! that the chat template needs.
//!
//! A server is asked when one of its models is first chosen, and again after a day, because it may have been restarted
//! with other options. A run waits at most two seconds for the answer. A server that does not answer in time counts as
//! asked; an unreachable one does not. The file is derived data: without it, the catalogue's figures are used.

use crate::environment::Environment;
use becket_model::probe::{self, Listed, ServerModels};
use becket_model::{Kind, ModelInfo, ModelRef, Settings};
use becket_types::{Event, Millis, TurnEnd};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// After this time, a server is asked again.
const FACTS_LIFETIME: Duration = Duration::from_hours(24);
/// Maximum number of bytes of the list of models with assumed windows. In a longer one nothing is looked up.
const MAX_LIST_BYTES: u64 = 1 << 20;

fn path(environment: &Environment) -> PathBuf {
    environment.data_dir.join("server-models.json")
}

/// Returns all facts that servers have reported.
pub(crate) fn known_facts(environment: &Environment) -> ServerModels {
    let text = std::fs::read_to_string(path(environment)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Asks the user's own server about this model, unless it is known, and stores the answer in the file and in
/// `settings`. `listed`: the entry in the list that the server has just sent. It shows that the server runs, perhaps
/// with other options.
pub(crate) async fn ask(
    environment: &Environment,
    settings: &mut Settings,
    reference: &ModelRef,
    listed: Option<&Listed>,
) {
    let endpoint = settings.endpoint(reference.provider());
    // A server that needs a key, or with Anthropic's protocol, belongs to a vendor, and the catalogue describes its models.
    let Some(base) =
        endpoint.filter(|e| !e.needs_key && e.kind != Some(Kind::Anthropic)).and_then(|e| e.base_url.clone())
    else {
        return;
    };
    let name = reference.name();
    let now = now();
    let before = settings.learned.server_models.get(&base).and_then(|models| models.get(name)).copied();
    let holds = before.is_some_and(|said| {
        let age = now.saturating_sub(Duration::from_millis(said.asked.0));
        // Within a day, a server is asked again only if its window was assumed, or if it has just sent a list and
        // reported a window before. A server that reports no window would cost each run a second.
        age < FACTS_LIFETIME && !said.assumed && (listed.is_none() || said.window.is_none())
    });
    if holds {
        return;
    }
    let Some(mut said) = probe::describe(reference, listed, settings).await else { return };
    said.asked = Millis(now.as_millis() as u64);
    // The file is read again, because another becket may have stored something meanwhile.
    let mut all = known_facts(environment);
    all.entry(base).or_default().insert(name.to_owned(), said);
    save(&path(environment), &all);
    settings.learned.server_models = all;
}

/// The model of a server that is used by runs which name no model: the first in the server's list.
#[derive(Serialize, Deserialize)]
struct FirstModel {
    name: String,
    asked: Millis,
}

/// A run that names no model asks again after this time, in case the server has other models by then.
const FIRST_MODEL_LIFETIME: Duration = Duration::from_hours(1);

fn first_models_path(environment: &Environment) -> PathBuf {
    environment.data_dir.join("server-first-models.json")
}

fn first_models(environment: &Environment) -> BTreeMap<String, FirstModel> {
    let text = std::fs::read_to_string(first_models_path(environment)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Returns the first model in the list of the server at `base`, if the list was read within the hour.
pub(crate) fn first_model(environment: &Environment, base: &str) -> Option<String> {
    let first = first_models(environment).remove(base)?;
    let age = now().saturating_sub(Duration::from_millis(first.asked.0));
    (age < FIRST_MODEL_LIFETIME).then_some(first.name)
}

pub(crate) fn store_first_model(environment: &Environment, base: &str, name: &str) {
    let mut all = first_models(environment);
    let first = FirstModel { name: name.to_owned(), asked: Millis(now().as_millis() as u64) };
    all.insert(base.to_owned(), first);
    save(&first_models_path(environment), &all);
}

/// Forgets the stored names after a turn that ended with a model error: the server may have changed or stopped.
pub(crate) fn forget_first_models_after(environment: &Environment, event: &Event) {
    let Event::TurnFinished(result) = event else { return };
    if matches!(result.end, TurnEnd::ModelError { .. }) {
        let _ = std::fs::remove_file(first_models_path(environment));
    }
}

/// If an earlier run has informed the user that this model's window is assumed, returns the model's name. Otherwise records
/// that this run informs the user.
pub(crate) fn known_assumption(
    environment: &Environment,
    info: &ModelInfo,
    settings: &Settings,
) -> Option<String> {
    if info.source != becket_model::catalog::UNKNOWN {
        return None;
    }
    // The same name at another server is another model.
    let place = settings.endpoint(&info.provider).map(becket_model::Endpoint::place).unwrap_or_default();
    let line = format!("{} ({place})", info.id);
    let file = environment.data_dir.join("assumed-windows");
    let known = becket_files::read_text(&file, MAX_LIST_BYTES).unwrap_or_default();
    if known.lines().any(|known| known == line) {
        return Some(info.id.clone());
    }
    // If it cannot be remembered, the user is informed again.
    let _ = becket_files::private::append(&file, format!("{line}\n").as_bytes());
    None
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Replaces the file by renaming, so that another becket never reads half of it. Errors are ignored, because the server
/// can be asked again.
fn save(file: &Path, value: &impl Serialize) {
    if let Ok(text) = serde_json::to_string_pretty(value) {
        let _ = becket_files::private::replace(file, (text + "\n").as_bytes());
    }
}
