//! Choice of the model and access to it: turns configuration and credentials into adapters.

use crate::environment::Environment;
use crate::failure::Failure;
pub(crate) use crate::model_names::usage;
use crate::model_names::{DEFAULT_MODELS, FoundModel, find};
use crate::recorded_settings::RecordedSettings;
use becket_config::Settings;
use becket_model::{BodyLimit, ErrorKind, ModelError, ModelInfo, ModelRef, ServerFacts, catalog};
use becket_session::context::View;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The variable that names the model at Azure, where each customer chooses the names of models.
const AZURE_DEPLOYMENT: &str = "AZURE_OPENAI_DEPLOYMENT";

/// Returns the model to begin with at a provider; `None` if its models have no common names.
fn default_at(environment: &Environment, provider: &str) -> Option<String> {
    if provider == "azure" {
        let deployment = environment.var(AZURE_DEPLOYMENT).filter(|name| !name.trim().is_empty())?;
        return Some(format!("azure/{}", deployment.trim()));
    }
    DEFAULT_MODELS.iter().find(|(name, _)| *name == provider).map(|(_, model)| (*model).to_owned())
}

/// Returns the providers in the order in which a key of theirs decides about the model.
fn providers_by_priority() -> impl Iterator<Item = &'static str> {
    let rest = becket_config::VENDORS.iter().map(|vendor| vendor.name);
    let listed = |name: &&str| DEFAULT_MODELS.iter().any(|(known, _)| known == name);
    DEFAULT_MODELS.iter().map(|(name, _)| *name).chain(rest.filter(move |name| !listed(name)))
}

/// Returns the failure of a start with a key whose provider has no model to begin with.
fn needs_a_model(provider: &str, place: &str) -> Failure {
    let failure = Failure::usage(format!("no model is configured; there is a key for {provider} ({place})"));
    match provider {
        "azure" => failure.hint(format!(
            "set {AZURE_DEPLOYMENT} to the name of your deployment, or use --model azure/DEPLOYMENT"
        )),
        _ => failure.hint(format!(
            "name one: --model {provider}/NAME; `becket models --remote` lists those of a server"
        )),
    }
}

/// Returns the settings of the adapters.
pub(crate) fn model_settings(environment: &Environment, settings: &Settings) -> becket_model::Settings {
    let config = &settings.config;
    let mut out = becket_model::Settings {
        anthropic: crate::providers::endpoint(environment, settings, "anthropic"),
        openai: crate::providers::endpoint(environment, settings, "openai"),
        others: crate::providers::other_providers(environment, settings),
        proxies: environment.proxies(),
        issuers: ["SSL_CERT_FILE", "SSL_CERT_DIR"]
            .into_iter()
            .filter_map(|name| {
                Some((name, environment.var(name).filter(|value| !value.is_empty())?.to_owned()))
            })
            .collect(),
        window: config.context.window,
        learned: becket_model::Learned {
            server_models: crate::servers::known_facts(environment),
            layouts: facts(&environment.data_dir.join("server-layouts.json"), |_| true),
            body_limits: facts(&environment.data_dir.join("server-body-limits.json"), is_recent),
        },
        ..becket_model::Settings::default()
    };
    crate::refreshed_models::add_to(environment, &mut out);
    if let Some(wait) = config.limits.max_wait {
        out.times.max_wait = wait;
        out.times.max_loading = wait;
    }
    out
}

/// Stored limits older than this are dropped at a start, since the server's configuration may have changed. The next large
/// request then finds the limit out again.
const BODY_LIMIT_LIFETIME: Duration = Duration::from_hours(7 * 24);

fn is_recent(limit: &BodyLimit) -> bool {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.saturating_sub(Duration::from_millis(limit.at.0)) < BODY_LIMIT_LIFETIME
}

/// Loads facts about servers that earlier runs have stored, and stores new ones. If the file cannot be read or written,
/// the only cost is one refused request, so there is no notice.
fn facts<T: Copy + PartialEq + Send + Serialize + DeserializeOwned + 'static>(
    file: &Path,
    holds: impl Fn(&T) -> bool,
) -> ServerFacts<T> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut known: BTreeMap<String, T> = serde_json::from_str(&text).unwrap_or_default();
    known.retain(|_, fact| holds(fact));
    let file = file.to_owned();
    ServerFacts::new(known, move |known| {
        // A server that cannot be remembered is asked again by the next becket.
        if let Ok(text) = serde_json::to_string_pretty(known) {
            let _ = becket_files::private::replace(&file, (text + "\n").as_bytes());
        }
    })
}

/// Returns the models that a run may begin with if none is named: one for each key that exists, in this order, with the
/// name of the key's origin.
pub(crate) fn models_by_key(environment: &Environment, settings: &Settings) -> Vec<(String, String)> {
    let found = providers_by_priority().filter_map(|provider| {
        let origin = crate::providers::origin(settings.credentials.get(provider)?);
        Some((origin, default_at(environment, provider)?))
    });
    found.collect()
}

/// Returns the model of the first provider with a credential and an address. A provider without an address or without a
/// model to begin with gives a failure that says what is missing, if there is no other.
fn first_with_credential(
    environment: &Environment,
    settings: &Settings,
    model: &becket_model::Settings,
) -> Option<Result<String, Failure>> {
    let mut incomplete = None;
    for provider in providers_by_priority() {
        let Some(endpoint) = model.endpoint(provider).filter(|endpoint| endpoint.credential.is_some()) else {
            continue;
        };
        let found = match default_at(environment, provider) {
            Some(name) => {
                let opened =
                    ModelRef::parse(&name).and_then(|reference| becket_model::open(&reference, model));
                opened.map(|_| name).map_err(|error| usage(&error))
            }
            None => Err(needs_a_model(
                provider,
                &crate::providers::key_place(provider, settings, model).unwrap_or_default(),
            )),
        };
        // Identities of a cloud are found on machines that are not meant to run models.
        let is_identity = !settings.credentials.contains_key(provider) && endpoint.key_source.is_some();
        match found {
            Ok(name) => return Some(Ok(name)),
            Err(failure) if !is_identity => incomplete = incomplete.or(Some(failure)),
            Err(_) => {}
        }
    }
    incomplete.map(Err)
}

/// Chooses the model of a run: the named one, else the default of a provider whose key exists, else the model of the
/// configured server. Facts that the user's own server reports about the model are
/// added to `model`.
///
/// # Errors
///
/// Returns a failure for the user if no model can be found.
pub(crate) async fn choose(
    environment: &Environment,
    settings: &Settings,
    model: &mut becket_model::Settings,
) -> Result<FoundModel, Failure> {
    if let Some(name) = &settings.config.model.name {
        let found = match find(name, &settings.config.model.others.aliases, model) {
            Ok(found) => found,
            Err(failure) => find_served_model(environment, settings, model, name).await.ok_or(failure)?,
        };
        crate::servers::ask(environment, model, &found.reference, None).await;
        return Ok(found);
    }
    unnamed(environment, settings, model).await.map(|reference| FoundModel { reference, note: None })
}

/// Finds a name that no known model has among the models of the servers whose addresses the user has set. `None` if no
/// server lists it, or several do.
async fn find_served_model(
    environment: &Environment,
    settings: &Settings,
    model: &becket_model::Settings,
    name: &str,
) -> Option<FoundModel> {
    if name.contains(['/', ':']) {
        return None;
    }
    let own = crate::providers::names(settings)
        .filter(|provider| crate::providers::has_own_address(environment, settings, provider));
    let asked = own.map(|provider| async move {
        let any = ModelRef::named(provider, "");
        let listed = tokio::time::timeout(PATIENCE, becket_model::probe::list(&any, model)).await;
        let listed = listed.ok().and_then(Result::ok).unwrap_or_default();
        let names = listed.into_iter().map(|listed| ModelRef::named(provider, &listed.name));
        names.collect::<Vec<ModelRef>>()
    });
    let listed: Vec<ModelRef> = futures::future::join_all(asked).await.into_iter().flatten().collect();
    let with = |is: &dyn Fn(&str) -> bool| -> Vec<&ModelRef> {
        listed.iter().filter(|reference| is(reference.name())).collect()
    };
    let mut found = with(&|other| other == name);
    if found.is_empty() {
        found = with(&|other| other.eq_ignore_ascii_case(name));
    }
    let [reference] = found[..] else { return None };
    Some(FoundModel {
        note: Some(format!("`{name}` means the model {reference}")),
        reference: reference.clone(),
    })
}

/// Chooses the model of a run that names none.
async fn unnamed(
    environment: &Environment,
    settings: &Settings,
    model: &mut becket_model::Settings,
) -> Result<ModelRef, Failure> {
    if model.anthropic.credential.is_some() {
        return parse(DEFAULT_MODELS[0].1);
    }
    if let Some(base) = model.openai.base_url.clone() {
        // The user has set a server's address, so the first model in that server's list is used.
        if let Some(name) = crate::servers::first_model(environment, &base) {
            let reference = ModelRef::openai(name);
            crate::servers::ask(environment, model, &reference, None).await;
            return Ok(reference);
        }
        let listed = becket_model::probe::list(&ModelRef::openai(String::new()), model).await;
        let is_empty = match &listed {
            Ok(models) => models.is_empty(),
            Err(error) => error.kind == becket_model::ErrorKind::NotFound,
        };
        // A server in front of OpenAI's models need not list them.
        if is_empty && model.openai.kind == Some(becket_model::Kind::Responses) {
            return parse(DEFAULT_MODELS[1].1);
        }
        return match listed {
            Ok(models) if !models.is_empty() => {
                let reference = ModelRef::openai(models[0].name.clone());
                crate::servers::ask(environment, model, &reference, Some(&models[0])).await;
                crate::servers::store_first_model(environment, &base, &models[0].name);
                Ok(reference)
            }
            Ok(_) => Err(Failure::usage("the server at OPENAI_BASE_URL lists no model")
                .hint("name one: --model openai/NAME")),
            Err(e) => Err(model_failure(&e)),
        };
    }
    if let Some(found) = first_with_credential(environment, settings, model) {
        return parse(&found?);
    }
    let failure = Failure::usage("no model is configured: there is no key and no server");
    // Nobody named that server, and on a machine with several users it may be another user's, so nothing is sent to it unasked.
    let here = asked_on_this_machine(model).await;
    if let Some((provider, models)) = here.iter().find_map(|(name, found)| Some((name, found.as_ref().ok()?)))
        && let Some(first) = models.first()
    {
        let reference = ModelRef::named(provider, &first.name);
        return Err(
            failure.hint(format!("a server on this machine has {reference}; --model {reference} uses it"))
        );
    }
    let at = |wanted: ErrorKind| {
        let is_it = |found: &Result<_, ErrorKind>| found.as_ref().err() == Some(&wanted);
        let (name, _) = here.iter().find(|(_, found)| is_it(found))?;
        Some((*name, model.endpoint(name)?.base_url.clone()?))
    };
    if let Some((_, base)) = at(ErrorKind::Loading) {
        return Err(failure.hint(format!(
            "the server at {base} is still loading its model; try again in a moment, then becket names the model"
        )));
    }
    let refusing = at(ErrorKind::Auth)
        .map(|(name, base)| {
            format!("; the server at {base} wants a key: if it serves models, becket login {name} saves one")
        })
        .unwrap_or_default();
    Err(failure.hint(format!("set ANTHROPIC_API_KEY or OPENAI_API_KEY, or OPENAI_BASE_URL for a local server; becket without arguments asks for a key and looks for servers; becket demo needs neither{refusing}")))
}

/// Longest time that a server on this machine may take to list its models, if nothing else is configured.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks the usual ports of this machine for models. Returns the answer of each server, or the kind of its error.
async fn asked_on_this_machine(
    settings: &becket_model::Settings,
) -> Vec<(&'static str, Result<Vec<becket_model::probe::Listed>, ErrorKind>)> {
    // LiteLLM is a gateway, whose models cost money.
    let own = becket_config::VENDORS.iter().filter(|vendor| vendor.local && vendor.name != "litellm");
    let asked = own.map(|vendor| async move {
        let any = ModelRef::named(vendor.name, "");
        let listed = tokio::time::timeout(PATIENCE, becket_model::probe::list(&any, settings)).await;
        let listed = listed.map_err(|_| ErrorKind::Timeout);
        (vendor.name, listed.and_then(|listed| listed.map_err(|error| error.kind)))
    });
    futures::future::join_all(asked).await
}

/// Returns the models of the servers that answer on the usual ports of this machine, by provider.
pub(crate) async fn listed_on_this_machine(
    settings: &becket_model::Settings,
) -> Vec<(&'static str, Vec<becket_model::probe::Listed>)> {
    let answers = asked_on_this_machine(settings).await.into_iter();
    let listed = answers.map(|(name, found)| (name, found.unwrap_or_default()));
    listed.filter(|(_, models)| !models.is_empty()).collect()
}

fn parse(name: &str) -> Result<ModelRef, Failure> {
    ModelRef::parse(name).map_err(|e| usage(&e))
}

/// Returns the catalogue's model with the most similar name, and its provider. Short names are excluded, because they
/// are similar to anything.
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

/// Returns notes for the user about this choice: a name that is probably mistyped, and an effort that is not sent.
pub(crate) fn notes(reference: &ModelRef, info: &ModelInfo, settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    let provider = reference.provider();
    // Other providers use names of their own, which the catalogue cannot correct.
    let own_server =
        !matches!(provider, "anthropic" | "openai") || settings.config.provider(provider).base_url.is_some();
    if info.source == becket_model::catalog::UNKNOWN
        && !own_server
        && let Some(near) = nearest(&info.id)
        // A different number more likely means a newer model than a typing error.
        && letters(&near) != letters(&info.id)
    {
        notes.push(format!(
            "becket does not know {}; did you mean {near}? The name is sent as you wrote it",
            info.id
        ));
    }
    // Servers on this machine often need no key. If one does, its refusal names the key that was withheld.
    if let Some(held) = settings.withheld.get(provider).filter(|held| !held.is_local()) {
        notes.push(held.message());
    }
    let own = settings.config.provider(provider);
    if let Some(variable) = &own.api_key_env
        && own.key_command.is_empty()
        && !settings.credentials.contains_key(provider)
        && !settings.withheld.contains_key(provider)
    {
        notes.push(format!(
            "{variable} is not set (providers.{provider}.api_key_env), so requests to {provider} have no key"
        ));
    }
    if settings.config.model.effort.is_some()
        && !info.reasoning
        && !matches!(reference, ModelRef::Script(_) | ModelRef::Replay(_))
    {
        notes.push(format!("the effort is not sent: {} has no such setting", info.id));
    }
    notes
}

/// Converts a failure to reach a model.
pub(crate) fn model_failure(error: &ModelError) -> Failure {
    let mut failure = usage(error);
    failure.status = becket_print::ExitStatus::ModelUnreachable;
    failure
}

/// Returns what is known of the model `provider/name`: the figures that its server reported and that the user set, else those
/// of the catalog.
pub(crate) fn info(id: Option<&str>, settings: &becket_model::Settings) -> ModelInfo {
    match id.and_then(|id| ModelRef::parse(id).ok()) {
        Some(reference) => becket_model::describe(&reference, settings),
        None => catalog::lookup("unknown", "unknown"),
    }
}

/// Returns the settings of the models of a stored session: `settings` of its folder, and those of its earlier runs.
pub(crate) fn session_model_settings(
    environment: &Environment,
    mut settings: Settings,
    view: &View,
) -> becket_model::Settings {
    let _ = RecordedSettings::from_view(view).apply(&mut settings);
    model_settings(environment, &settings)
}
