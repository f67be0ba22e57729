//! Asks a server about its models: their names, the window with which they run, and the abilities of the chat template.
//!
//! For `becket models`, `becket doctor` and the first choice of a model. No request depends on it.

mod local;

use crate::ErrorKind::{Dns, Network, Tls};
use crate::credential::Auth;
use crate::http::Transport;
use crate::kind::Kind;
use crate::place::Place;
use crate::settings::Settings;
use crate::{Endpoint, ErrorKind, Figures, ModelError, ModelRef, layout};
use becket_types::{Millis, Prices};
use serde_json::Value;
use std::time::Duration;
use url::Url;

pub use crate::server_model::{ServerModel, ServerModels};

const TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a catalog of all vendors, which has megabytes.
const CATALOG_TIMEOUT: Duration = Duration::from_secs(30);
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
/// Returns [`crate::ErrorKind::NotFound`] if the server has no such list, and the errors of a request otherwise.
pub async fn list(reference: &ModelRef, settings: &Settings) -> Result<Vec<Listed>, ModelError> {
    let transport = transport(reference, settings)?;
    let json = transport.get_json(transport.url.clone(), TIMEOUT).await?;
    Ok(entries(&json))
}

/// Returns the models that the provider of `reference` lists, with the figures that the list has. Prices are dollars per
/// million tokens.
///
/// # Errors
///
/// Fails like [`list`].
pub async fn figures(reference: &ModelRef, settings: &Settings) -> Result<Vec<Figures>, ModelError> {
    let transport = transport(reference, settings)?;
    let json = transport.get_json(transport.url.clone(), TIMEOUT).await?;
    let entries = [&json["data"], &json["models"]].into_iter().find_map(Value::as_array);
    Ok(entries.into_iter().flatten().filter_map(listed_figures).collect())
}

/// Returns the models of a catalog at `url`, in the form of models.dev: an object of providers with their models. No key is
/// sent.
///
/// # Errors
///
/// Returns a typed error if the address cannot be used or its answer is not JSON.
pub async fn catalog(url: &str, settings: &Settings) -> Result<Vec<(String, Figures)>, ModelError> {
    let endpoint = Endpoint {
        kind: Some(Kind::Chat),
        base_url: Some(url.to_owned()),
        url_setting: Some("models.catalog".to_owned()),
        ..Endpoint::default()
    };
    let place = Place::new("catalog", "", &endpoint)?;
    let url = Url::parse(url).map_err(|error| {
        let message = format!("The address of the catalog cannot be used: {error}.");
        ModelError::new(ErrorKind::NotFound, message).hint("Set models.catalog.")
    })?;
    let json = place.transport(url.clone(), &[], settings)?.get_json(url, CATALOG_TIMEOUT).await?;
    let mut found = Vec::new();
    for (provider, about) in json.as_object().into_iter().flatten() {
        for (name, model) in about["models"].as_object().into_iter().flatten() {
            found.push((provider.clone(), catalog_figures(name, model)));
        }
    }
    Ok(found)
}

fn listed_figures(entry: &Value) -> Option<Figures> {
    let Listed { name, window, images } = listed(entry)?;
    let pricing = &entry["pricing"];
    // OpenRouter has texts of dollars per token.
    let price = |key: &str| {
        let each = pricing[key].as_f64().or_else(|| pricing[key].as_str()?.parse::<f64>().ok())?;
        (each >= 0.0).then_some((each * 1e12).round() / 1e6)
    };
    let prices = price("prompt").zip(price("completion")).map(|(input, output)| Prices {
        input,
        output,
        cache_read: price("input_cache_read").unwrap_or(input),
        cache_write: price("input_cache_write").unwrap_or(input),
    });
    let output = [
        &entry["top_provider"]["max_completion_tokens"],
        &entry["max_output_tokens"],
        &entry["outputTokenLimit"],
    ];
    let max_output = output.into_iter().find_map(Value::as_u64);
    Some(Figures { name, window, max_output, images, prices, ..Figures::default() })
}

fn catalog_figures(name: &str, model: &Value) -> Figures {
    let cost = &model["cost"];
    let prices = cost["input"].as_f64().zip(cost["output"].as_f64()).map(|(input, output)| Prices {
        input,
        output,
        cache_read: cost["cache_read"].as_f64().unwrap_or(input),
        cache_write: cost["cache_write"].as_f64().unwrap_or(input),
    });
    let read = model["modalities"]["input"].as_array();
    Figures {
        name: name.to_owned(),
        window: model["limit"]["context"].as_u64().filter(|n| *n > 0),
        max_output: model["limit"]["output"].as_u64().filter(|n| *n > 0),
        images: read.map(|read| read.iter().any(|one| one == "image")),
        reasoning: model["reasoning"].as_bool(),
        prices,
        ..Figures::default()
    }
}

/// Asks the server of an OpenAI-compatible model for its list of models, for its properties as llama.cpp has them, and for
/// the window in use as Ollama and LM Studio report it.
/// Waits for two seconds at most; facts that did not arrive until then are unknown. `None` if there is no server.
/// `listed`: the model's entry in the list, if the caller already has it.
pub async fn describe(
    reference: &ModelRef,
    listed: Option<&Listed>,
    settings: &Settings,
) -> Option<ServerModel> {
    let name = reference.name();
    let endpoint = settings.endpoint(reference.provider())?;
    let has_properties = may_have_properties(endpoint);
    // The clouds list their models elsewhere, and a request would cost an exchange of keys.
    if matches!(endpoint.auth, Some(Auth::Aws | Auth::Google)) {
        return None;
    }
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
    let props =
        async { if has_properties { Some(transport.get_json(props, DESCRIBE_TIMEOUT).await) } else { None } };
    let (list, props) = tokio::join!(list, props);
    let silent = |error: &ModelError| matches!(error.kind, Network | Dns | Tls);
    let asked = [list.as_ref().err(), props.as_ref().and_then(|props| props.as_ref().err())];
    if list.is_err() && !matches!(props, Some(Ok(_))) && asked.into_iter().flatten().all(silent) {
        return None;
    }
    let props = props.and_then(Result::ok);
    let is_llama = props.is_some();
    // The server's own options override the abilities in the model's file.
    let mut said = props.as_ref().map(properties).unwrap_or_default();
    let list = list.unwrap_or_default();
    let own = list.iter().find(|entry| entry.name == name);
    // A server with one model accepts any name for it.
    if let Some(entry) = own.or(list.first().filter(|_| list.len() == 1)) {
        said.window = said.window.or(entry.window);
        said.images = said.images.or(entry.images);
    }
    // Ollama and LM Studio report the window in use in APIs of their own. The number in the list of OpenAI's format, if
    // there is one, is that of the model.
    if has_properties
        && !is_llama
        && let Some(local::Window { tokens, assumed }) = local::window(&transport, &root, name).await
    {
        (said.window, said.assumed) = (Some(tokens), assumed);
    }
    Some(said)
}

/// True if the server may have llama.cpp's properties: one that speaks OpenAI's formats and takes a bearer key or none.
/// Servers of Google, Azure and AWS have no such path.
fn may_have_properties(endpoint: &Endpoint) -> bool {
    matches!(endpoint.kind, None | Some(Kind::Chat | Kind::Responses))
        && matches!(endpoint.auth, None | Some(Auth::Bearer | Auth::None))
}

fn properties(json: &Value) -> ServerModel {
    let windows = [&json["default_generation_settings"]["n_ctx"], &json["n_ctx"]];
    ServerModel {
        window: windows.into_iter().find_map(Value::as_u64).filter(|n| *n > 0),
        images: json["modalities"]["vision"].as_bool(),
        layout: json["chat_template"].as_str().and_then(layout::of_template),
        assumed: false,
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
