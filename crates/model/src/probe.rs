//! Asks a server about its models: their names, the window with which they run, and the abilities of the chat template.
//!
//! For `becket models`, `becket doctor` and the first choice of a model. No request depends on it.

use crate::ErrorKind::{Dns, Network, Tls};
use crate::http::Transport;
use crate::kind::Kind;
use crate::place::Place;
use crate::settings::Settings;
use crate::{ModelError, ModelRef, layout};
use becket_types::Millis;
use serde_json::Value;
use std::time::Duration;

pub use crate::server_model::{ServerModel, ServerModels};

const TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for optional facts, while a run waits to start.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A model in a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name on the wire; a file path on llama.cpp.
    pub name: String,
    /// The window in tokens, if the server reports it.
    pub window: Option<u64>,
    /// True if it reads images; `None` if the server does not report it.
    pub images: Option<bool>,
}

/// Returns the models that the provider of `reference` lists.
///
/// # Errors
///
/// Returns a typed error; [`crate::ErrorKind::NotFound`] if the server has no such list.
pub async fn list(reference: &ModelRef, settings: &Settings) -> Result<Vec<Listed>, ModelError> {
    let transport = transport(reference, settings)?;
    let json = transport.get_json(transport.url.clone(), TIMEOUT).await?;
    Ok(entries(&json))
}

/// Asks the server of an OpenAI-compatible model for its list of models and, as llama.cpp has them, its properties.
/// Waits for a second at most; facts that did not arrive until then are unknown. `None` if there is no server.
/// `listed`: the model's entry in the list, if the caller already has it.
pub async fn describe(
    reference: &ModelRef,
    listed: Option<&Listed>,
    settings: &Settings,
) -> Option<ServerModel> {
    let name = reference.name();
    let transport = transport(reference, settings).ok()?;
    let mut props = transport.url.clone();
    let root = props.path().trim_end_matches("/models").trim_end_matches("/v1").to_owned();
    props.set_path(&format!("{root}/props"));
    let list = async {
        match listed {
            Some(entry) => Ok(vec![entry.clone()]),
            None => {
                transport.get_json(transport.url.clone(), DESCRIBE_TIMEOUT).await.map(|json| entries(&json))
            }
        }
    };
    let (list, props) = tokio::join!(list, transport.get_json(props, DESCRIBE_TIMEOUT));
    if let (Err(first), Err(second)) = (&list, &props)
        && [first, second].iter().all(|error| matches!(error.kind, Network | Dns | Tls))
    {
        return None;
    }
    // The server's own options override the abilities in the model's file.
    let mut said = props.as_ref().map(properties).unwrap_or_default();
    let list = list.unwrap_or_default();
    let own = list.iter().find(|entry| entry.name == name);
    // A server with one model accepts any name for it.
    if let Some(entry) = own.or(list.first().filter(|_| list.len() == 1)) {
        said.window = said.window.or(entry.window);
        said.images = said.images.or(entry.images);
    }
    Some(said)
}

fn properties(json: &Value) -> ServerModel {
    let windows = [&json["default_generation_settings"]["n_ctx"], &json["n_ctx"]];
    ServerModel {
        window: windows.into_iter().find_map(Value::as_u64).filter(|n| *n > 0),
        images: json["modalities"]["vision"].as_bool(),
        layout: json["chat_template"].as_str().and_then(layout::of_template),
        asked: Millis(0),
    }
}

fn entries(json: &Value) -> Vec<Listed> {
    let entries = [&json["data"], &json["models"]].into_iter().find_map(Value::as_array);
    entries.into_iter().flatten().filter_map(listed).collect()
}

fn transport(reference: &ModelRef, settings: &Settings) -> Result<Transport, ModelError> {
    let provider = reference.provider();
    let endpoint = settings
        .endpoint(provider)
        .ok_or_else(|| crate::no_provider(provider, reference.name(), settings))?;
    let place = Place::new(provider, reference.name(), endpoint)?;
    let url = place.url("/models", place.kind != Kind::Anthropic)?;
    let version = ("anthropic-version", "2023-06-01".to_owned());
    let own: &[_] = if place.kind == Kind::Anthropic { &[version] } else { &[] };
    place.transport(url, own, settings)
}

fn listed(entry: &Value) -> Option<Listed> {
    let name = entry["id"].as_str().or(entry["name"].as_str()).or(entry["model"].as_str())?;
    let window = [
        &entry["context_length"],
        &entry["max_model_len"],
        &entry["max_context_length"],
        &entry["context_window"],
        &entry["max_input_tokens"],
        &entry["inputTokenLimit"],
        &entry["meta"]["n_ctx"],
        &entry["meta"]["n_ctx_train"],
    ];
    let modalities = entry["architecture"]["input_modalities"].as_array();
    Some(Listed {
        // Gemini's list has `models/NAME`.
        name: name.strip_prefix("models/").unwrap_or(name).to_owned(),
        window: window.into_iter().find_map(Value::as_u64),
        images: modalities
            .map(|all| all.iter().any(|one| one == "image"))
            .or(entry["capabilities"]["vision"].as_bool()),
    })
}
