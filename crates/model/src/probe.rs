//! Asking a server what it is: its models, and the window it really runs with.
//!
//! For `becket models`, `becket doctor` and the first choice of a model. Never needed for a request.

use crate::http::{Transport, join};
use crate::settings::{Credential, Endpoint, Settings};
use crate::{ModelError, ModelRef};
use serde_json::Value;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);
/// For what a run can do without, while somebody waits for it to begin.
const PROPS_TIMEOUT: Duration = Duration::from_secs(1);

/// A model that a server says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name on the wire; a file path on llama.cpp.
    pub name: String,
    /// The window in tokens, where the server says it.
    pub window: Option<u64>,
}

/// The models the provider of `reference` lists.
///
/// # Errors
/// What went wrong on the way, typed; [`crate::ErrorKind::NotFound`] where the server has no such list.
pub async fn list(reference: &ModelRef, settings: &Settings) -> Result<Vec<Listed>, ModelError> {
    let transport = transport(reference, settings)?;
    let json = transport.get_json(transport.url.clone(), TIMEOUT).await?;
    let entries = [&json["data"], &json["models"]].into_iter().find_map(Value::as_array);
    Ok(entries.into_iter().flatten().filter_map(listed).collect())
}

/// The window that a llama.cpp server was started with. `None`: the server is something else, does not say, or not within a
/// second.
pub async fn window(settings: &Settings) -> Option<u64> {
    let transport = transport(&ModelRef::OpenAi(String::new()), settings).ok()?;
    let mut url = transport.url.clone();
    let root = url.path().trim_end_matches("/models").trim_end_matches("/v1").to_owned();
    url.set_path(&format!("{root}/props"));
    let json = transport.get_json(url, PROPS_TIMEOUT).await.ok()?;
    let places = [&json["default_generation_settings"]["n_ctx"], &json["n_ctx"]];
    places.into_iter().find_map(Value::as_u64).filter(|n| *n > 0)
}

fn transport(reference: &ModelRef, settings: &Settings) -> Result<Transport, ModelError> {
    let (setting, endpoint, base, keep): (_, &Endpoint, _, _) = match reference {
        ModelRef::Anthropic(_) => {
            ("ANTHROPIC_BASE_URL", &settings.anthropic, "https://api.anthropic.com", false)
        }
        _ => ("OPENAI_BASE_URL", &settings.openai, "https://api.openai.com/v1", true),
    };
    let url = join(endpoint.base_url.as_deref().unwrap_or(base), "/models", keep)?;
    let mut headers = Vec::new();
    if let ModelRef::Anthropic(_) = reference {
        headers.push(("anthropic-version", "2023-06-01".to_owned()));
    }
    match (&endpoint.credential, reference) {
        (Some(Credential::ApiKey(key)), ModelRef::Anthropic(_)) => {
            headers.push(("x-api-key", key.expose().to_owned()));
        }
        (Some(credential), _) => {
            headers.push(("authorization", format!("Bearer {}", credential.secret().expose())));
        }
        (None, _) => {}
    }
    Transport::new(url, setting, endpoint, &headers, settings)
}

fn listed(entry: &Value) -> Option<Listed> {
    let name = entry["id"].as_str().or(entry["name"].as_str()).or(entry["model"].as_str())?;
    let window = [
        &entry["context_length"],
        &entry["max_model_len"],
        &entry["max_context_length"],
        &entry["context_window"],
        &entry["max_input_tokens"],
        &entry["meta"]["n_ctx"],
        &entry["meta"]["n_ctx_train"],
    ];
    Some(Listed { name: name.to_owned(), window: window.into_iter().find_map(Value::as_u64) })
}
