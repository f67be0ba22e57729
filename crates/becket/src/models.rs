//! Which model, and how to reach it: configuration and credentials become adapters.

use crate::environment::Environment;
use crate::failure::Failure;
use becket_config::{Settings, Source};
use becket_model::{BodyLimit, ModelError, ModelInfo, ModelRef, Proxies, ServerFacts};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Used when nobody names a model and the key of its provider is there, in this order.
const DEFAULTS: &[(&str, &str)] = &[
    ("anthropic", "anthropic/claude-sonnet-5-5"),
    ("openai", "openai/gpt-5.6"),
    ("openrouter", "openrouter/anthropic/claude-sonnet-5.5"),
    ("deepseek", "deepseek/deepseek-v4-pro"),
    ("xai", "xai/grok-4.3"),
    ("mistral", "mistral/devstral-2512"),
    ("moonshot", "moonshot/kimi-k3"),
    ("zai", "zai/glm-5.1"),
    ("minimax", "minimax/MiniMax-M2.5"),
];

/// What the adapters need to know.
pub(crate) fn model_settings(environment: &Environment, settings: &Settings) -> becket_model::Settings {
    let config = &settings.config;
    let mut out = becket_model::Settings {
        anthropic: crate::providers::endpoint(environment, settings, "anthropic"),
        openai: crate::providers::endpoint(environment, settings, "openai"),
        others: crate::providers::others(environment, settings),
        proxies: proxies(environment),
        issuers: ["SSL_CERT_FILE", "SSL_CERT_DIR"]
            .into_iter()
            .filter_map(|name| {
                Some((name, environment.var(name).filter(|value| !value.is_empty())?.to_owned()))
            })
            .collect(),
        window: config.context.window,
        server_models: crate::servers::known(environment),
        layouts: facts(&environment.data_dir.join("server-layouts.json"), |_| true),
        body_limits: facts(&environment.data_dir.join("server-body-limits.json"), is_recent),
        ..becket_model::Settings::default()
    };
    if let Some(wait) = config.limits.max_wait {
        out.max_wait = wait;
        out.max_loading = wait;
    }
    out
}

/// After this, the server is asked again: its configuration may have changed.
const BODY_LIMIT_HOLDS: Duration = Duration::from_hours(7 * 24);

fn is_recent(limit: &BodyLimit) -> bool {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.saturating_sub(Duration::from_millis(limit.at.0)) < BODY_LIMIT_HOLDS
}

/// Facts about servers from earlier runs. If the file cannot be read or written, the only cost is one refused
/// request, so there is no notice.
fn facts<T: Copy + PartialEq + Send + Serialize + DeserializeOwned + 'static>(
    file: &Path,
    holds: impl Fn(&T) -> bool,
) -> ServerFacts<T> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut known: BTreeMap<String, T> = serde_json::from_str(&text).unwrap_or_default();
    known.retain(|_, fact| holds(fact));
    let file = file.to_owned();
    ServerFacts::new(known, move |known| {
        // Renamed into place, so that another becket never reads half of it.
        let new = file.with_extension(format!("{}.new", std::process::id()));
        if let (Some(dir), Ok(text)) = (file.parent(), serde_json::to_string_pretty(known)) {
            let _ = std::fs::create_dir_all(dir)
                .and_then(|()| std::fs::write(&new, text + "\n"))
                .and_then(|()| std::fs::rename(&new, &file));
        }
    })
}

/// As the environment names them, for all that goes to the network.
pub(crate) fn proxies(environment: &Environment) -> Proxies {
    let either = |upper: &str, lower: &str| {
        environment.var(upper).or_else(|| environment.var(lower)).map(str::to_owned)
    };
    let all = either("ALL_PROXY", "all_proxy");
    Proxies {
        https: either("HTTPS_PROXY", "https_proxy").or_else(|| all.clone()),
        // Below a web server, whoever asks it can set the upper-case HTTP_PROXY.
        http: if environment.var("REQUEST_METHOD").is_some() {
            environment.var("http_proxy").map(str::to_owned).or(all)
        } else {
            either("HTTP_PROXY", "http_proxy").or(all)
        },
        no_proxy: either("NO_PROXY", "no_proxy"),
    }
}

/// Where the credential of this model comes from, for the first event.
pub(crate) fn key_source(reference: &ModelRef, settings: &Settings) -> String {
    let provider = reference.provider();
    let config = settings.config.provider(provider);
    let command = (!config.key_command.is_empty()).then(|| "key_command".to_owned());
    config
        .api_key_env
        .clone()
        .or_else(|| settings.credentials.get(provider).map(|c| origin(&c.source)))
        .or(command)
        .unwrap_or_else(|| "none".to_owned())
}

pub(crate) fn origin(source: &Source) -> String {
    match source {
        Source::Environment(variable) => variable.clone(),
        _ => crate::keys::FILE.to_owned(),
    }
}

/// The models that a run begins with where nobody names one: by the keys that are there, in this order, each with the name
/// of what was found.
pub(crate) fn by_key(settings: &Settings) -> Vec<(String, &'static str)> {
    let found = DEFAULTS.iter().filter_map(|(provider, model)| {
        settings.credentials.get(*provider).map(|c| (origin(&c.source), *model))
    });
    found.collect()
}

/// The model of a run: the one that is named, else the default of a provider whose key is there, else what the local
/// server has. What their own server says about the model goes into `model`.
pub(crate) async fn choose(
    environment: &Environment,
    settings: &Settings,
    model: &mut becket_model::Settings,
) -> Result<ModelRef, Failure> {
    if let Some(name) = &settings.config.model {
        let reference = parse(name)?;
        crate::servers::ask(environment, model, &reference, None).await;
        return Ok(reference);
    }
    if model.anthropic.credential.is_some() {
        return parse(DEFAULTS[0].1);
    }
    if let Some(base) = model.openai.base_url.clone() {
        // Somebody's own server: it says itself what it serves.
        if let Some(name) = crate::servers::first(environment, &base) {
            let reference = ModelRef::openai(name);
            crate::servers::ask(environment, model, &reference, None).await;
            return Ok(reference);
        }
        let listed = becket_model::probe::list(&ModelRef::openai(String::new()), model).await;
        return match listed {
            Ok(models) if !models.is_empty() => {
                let reference = ModelRef::openai(models[0].name.clone());
                crate::servers::ask(environment, model, &reference, Some(&models[0])).await;
                crate::servers::keep_first(environment, &base, &models[0].name);
                Ok(reference)
            }
            Ok(_) => Err(Failure::usage("the server at OPENAI_BASE_URL lists no model")
                .hint("name one: --model openai/NAME")),
            Err(e) => Err(model_failure(&e)),
        };
    }
    let keyed = DEFAULTS
        .iter()
        .find(|(provider, _)| model.endpoint(provider).is_some_and(|endpoint| endpoint.credential.is_some()));
    if let Some((_, name)) = keyed {
        return parse(name);
    }
    Err(Failure::usage("no model is configured: there is no key and no server")
        .hint("set ANTHROPIC_API_KEY or OPENAI_API_KEY, or OPENAI_BASE_URL for a local server; becket without arguments asks for a key and looks for servers; becket demo needs neither"))
}

pub(crate) fn parse(name: &str) -> Result<ModelRef, Failure> {
    ModelRef::parse(&full_name(name)).map_err(|e| {
        let mut failure = usage(&e);
        if let Some(near) = nearest(name) {
            let rest = failure.hint.map(|hint| format!(" {hint}")).unwrap_or_default();
            failure.hint = Some(format!("did you mean {near}?{rest}"));
        }
        failure
    })
}

/// The model of the catalog whose name is nearest to this one's, with its provider. Short names are near to anything.
fn nearest(name: &str) -> Option<String> {
    const SHORTEST: usize = 5;
    let name = name.rsplit('/').next().unwrap_or(name).trim();
    let known = becket_model::catalog::all();
    let near = becket_tool::text::nearest(name, known.iter().map(|info| info.name.as_str()));
    let near = near.filter(|_| name.len() >= SHORTEST)?;
    known.iter().find(|info| info.name == near).map(|info| info.id.clone())
}

fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphabetic() || *c == '/').collect()
}

/// Notes for people about this choice: a name that is probably mistyped, and an effort that is not sent.
pub(crate) fn notes(reference: &ModelRef, info: &ModelInfo, settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    let provider = reference.provider();
    // Names at other providers are their own: a catalog of makers cannot correct them.
    let own_server =
        !matches!(provider, "anthropic" | "openai") || settings.config.provider(provider).base_url.is_some();
    if info.source == becket_model::catalog::UNKNOWN
        && !own_server
        && let Some(near) = nearest(&info.id)
        // Another number is a newer model sooner than a slip.
        && letters(&near) != letters(&info.id)
    {
        notes.push(format!(
            "becket does not know {}; did you mean {near}? It is asked for as you wrote it",
            info.id
        ));
    }
    if settings.config.effort.is_some() && !info.reasoning && !matches!(reference, ModelRef::Script(_)) {
        notes.push(format!("the effort is not sent: {} has no such setting", info.id));
    }
    notes
}

/// The newest model of a family that people call by one word. Other names stay, without a mark for a larger window.
pub(crate) fn full_name(name: &str) -> String {
    let plain = name.strip_suffix("[1m]").unwrap_or(name);
    match plain.to_ascii_lowercase().as_str() {
        "default" | "sonnet" => "anthropic/claude-sonnet-5-5".to_owned(),
        "opus" | "opusplan" | "best" => "anthropic/claude-opus-5-5".to_owned(),
        "haiku" => "anthropic/claude-haiku-4-5".to_owned(),
        "fable" => "anthropic/claude-fable-5".to_owned(),
        _ => plain.to_owned(),
    }
}

/// A model that cannot be opened is a mistake in the flags, keys or files.
pub(crate) fn usage(error: &ModelError) -> Failure {
    let mut failure = Failure::usage(error.message.clone());
    failure.hint.clone_from(&error.hint);
    failure
}

/// A model that cannot be reached.
pub(crate) fn model_failure(error: &ModelError) -> Failure {
    let mut failure = usage(error);
    failure.status = becket_print::ExitStatus::ModelUnreachable;
    failure
}
