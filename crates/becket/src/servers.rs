//! What servers said of their models, kept between runs: the window that a server on this machine or of a company really
//! runs a model with.
//!
//! Asked when such a model is first chosen, which asks the server anyway; never at the start of a run that names its model.
//! The file is derived: without it, windows are those of the catalog.

use crate::environment::Environment;
use becket_model::{ModelRef, probe};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Windows by base URL and model; 0 where the server was asked and did not say.
type Windows = BTreeMap<String, BTreeMap<String, u64>>;

fn path(environment: &Environment) -> PathBuf {
    environment.data_dir.join("server-models.json")
}

fn read(environment: &Environment) -> Windows {
    let text = std::fs::read_to_string(path(environment)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The window that the server of this model named before; `None` for the providers' own hosts.
pub(crate) fn window(
    environment: &Environment,
    settings: &becket_model::Settings,
    reference: &ModelRef,
) -> Option<u64> {
    let (base, name) = place(settings, reference)?;
    read(environment).get(base)?.get(name).copied().filter(|window| *window > 0)
}

/// Asks the server of a model that was just chosen for its window, and keeps the answer. llama.cpp says what it was started
/// with, which may be another window each time; others say it in their list. A server that did not say is not asked again.
pub(crate) async fn learn(
    environment: &Environment,
    settings: &becket_model::Settings,
    reference: &ModelRef,
    listed: Option<u64>,
) {
    let Some((base, name)) = place(settings, reference) else { return };
    let mut known = read(environment);
    let before = known.get(base).and_then(|models| models.get(name)).copied();
    let asked = if before == Some(0) { None } else { probe::window(settings).await };
    let window = asked.or(listed).unwrap_or(0);
    if before == Some(window) {
        return;
    }
    known.entry(base.to_owned()).or_default().insert(name.to_owned(), window);
    // Renamed into place, so that another becket never reads half of it. What cannot be kept is asked again.
    let file = path(environment);
    let new = file.with_extension(format!("{}.new", std::process::id()));
    if let (Some(dir), Ok(text)) = (file.parent(), serde_json::to_string_pretty(&known)) {
        let _ = std::fs::create_dir_all(dir)
            .and_then(|()| std::fs::write(&new, text + "\n"))
            .and_then(|()| std::fs::rename(&new, &file));
    }
}

fn place<'a>(settings: &'a becket_model::Settings, reference: &'a ModelRef) -> Option<(&'a str, &'a str)> {
    match reference {
        ModelRef::OpenAi(name) => Some((settings.openai.base_url.as_deref()?, name)),
        ModelRef::Anthropic(_) | ModelRef::Script(_) => None,
    }
}
