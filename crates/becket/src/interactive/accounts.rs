//! Models and providers to choose from in a session, and changing a provider's key.
//!
//! Owns the lists of `/model` and `/key`, and the login of `/login` while it runs. [`crate::keys`] decides where keys are stored,
//! [`crate::federation::device`] how a login works, and [`crate::models`] how a model is reached. A new key is used at once, because the settings with which models are opened are shared with the
//! agent.

use crate::assemble::SharedModels;
use crate::cmd::{one_line, short};
use crate::environment::Environment;
use crate::federation::device::{DeviceLogin, Prompt};
use crate::keys::{self, KeyLocation, KeyStore};
use crate::settings::{RunSettings, project_root};
use becket_config::{ProviderAuth, Settings, Source};
use becket_model::{Credential, ErrorKind, ModelInfo, ModelRef, Secret, catalog, probe};
use becket_tui::input::{Account, Hidden, LoginCode, Reply};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinHandle};

/// Longest wait for a server to list its models. After that, models are offered without those of this server.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Accounts {
    environment: Environment,
    settings: Settings,
    root: PathBuf,
    models: SharedModels,
    /// The login that runs, or that has ended before the interface asked for its result.
    login: Mutex<Option<RunningLogin>>,
}

/// A login with a code. Dropping it does not end it; [`Accounts::cancel_login`] does.
struct RunningLogin {
    /// `None` while [`Accounts::finish_login`] awaits the end.
    end: Option<JoinHandle<Result<KeyLocation, String>>>,
    abort: AbortHandle,
}

/// Returns the size of the model's window and its prices, which tell models apart.
fn figures(info: &ModelInfo) -> String {
    let window = format!("{} context", short(info.window));
    let dollars = |price: f64| format!("${}", (price * 1_000.0).round() / 1_000.0);
    match info.prices {
        Some(prices) => {
            format!("{window} · {} in, {} out per 1M", dollars(prices.input), dollars(prices.output))
        }
        None => window,
    }
}

/// Sorts models by provider, in this order of the providers. Models of one provider keep theirs.
fn by_provider(mut models: Vec<(String, String)>, order: &[&str]) -> Vec<(String, String)> {
    let place = |id: &str| {
        let provider = id.split('/').next().unwrap_or_default();
        order.iter().position(|name| *name == provider).unwrap_or(order.len())
    };
    models.sort_by_key(|(id, _)| place(id));
    models
}

impl Accounts {
    pub(super) fn new(environment: &Environment, settings: &RunSettings, models: SharedModels) -> Self {
        Self {
            environment: environment.clone(),
            settings: settings.settings.clone(),
            root: project_root(&settings.project.cwd),
            models,
            login: Mutex::default(),
        }
    }

    fn settings_with_new_keys(&self) -> becket_model::Settings {
        self.models.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the models in the order in which they are likely to be wanted: those of the user's own servers, then
    /// those with a key, then the rest. Within each of these, the models of one provider are together.
    pub(super) async fn models(&self) -> Reply {
        let reached = self.settings_with_new_keys();
        let mut out: Vec<(String, String)> = Vec::new();
        let own = reached.openai.base_url.clone();
        if let Some(base) = &own {
            let any = ModelRef::openai(String::new());
            let listed = tokio::time::timeout(PATIENCE, probe::list(&any, &reached)).await;
            let listed = listed.ok().and_then(Result::ok).unwrap_or_default();
            out.extend(
                listed
                    .iter()
                    .map(|model| (format!("openai/{}", one_line(&model.name, 80)), format!("at {base}"))),
            );
        }
        let listed = crate::models::listed_on_this_machine(&reached).await;
        for (provider, models) in listed {
            let Some(base) = reached.endpoint(provider).and_then(|endpoint| endpoint.base_url.clone()) else {
                continue;
            };
            if own.as_ref() == Some(&base) {
                continue;
            }
            let names = models.iter().map(|model| format!("{provider}/{}", one_line(&model.name, 80)));
            out.extend(names.map(|name| (name, format!("at {base}"))));
        }
        for (name, provider) in &self.settings.config.providers {
            let named = provider.models.iter().map(|model| format!("{name}/{}", one_line(&model.name, 80)));
            let named: Vec<String> = named.filter(|id| !out.iter().any(|(known, _)| known == id)).collect();
            out.extend(named.into_iter().map(|id| (id, "in your configuration".to_owned())));
        }
        let (mut with_key, mut rest) = (Vec::new(), Vec::new());
        for info in catalog::all() {
            let Ok(reference) = ModelRef::parse(&info.id) else { continue };
            if out.iter().any(|(name, _)| *name == info.id) {
                continue;
            }
            let provider = reference.provider();
            match reached.endpoint(provider) {
                // The OpenAI key belongs to the configured server, which has not listed this model.
                Some(_) if provider == "openai" && own.is_some() => {
                    rest.push((info.id, "not listed by your server".to_owned()));
                }
                Some(endpoint) if endpoint.credential.is_some() => {
                    let about = figures(&info);
                    with_key.push((info.id, about));
                }
                _ => {
                    let about = format!("no key · {}", figures(&info));
                    rest.push((info.id, about));
                }
            }
        }
        let order: Vec<&str> = crate::providers::names(&self.settings).collect();
        out.extend(by_provider(with_key, &order));
        out.extend(by_provider(rest, &order));
        Reply::Models(out)
    }

    /// Describes the source of a provider's key.
    fn source(&self, provider: &str) -> String {
        match self.variable(provider) {
            Some(name) => format!("key in {name}"),
            None => {
                let reached = self.models.read().unwrap_or_else(PoisonError::into_inner);
                let place = crate::providers::key_place(provider, &self.settings, &reached);
                format!("key in {}", place.unwrap_or_else(|| keys::FILE.to_owned()))
            }
        }
    }

    /// Returns the variable with this provider's key, which overrides the file.
    fn variable(&self, provider: &str) -> Option<String> {
        let named = self.settings.config.provider(provider).api_key_env.clone();
        let named = named.filter(|name| self.environment.var(name).is_some());
        named.or_else(|| match &self.settings.credentials.get(provider)?.source {
            Source::Environment(name) => Some(name.clone()),
            _ => None,
        })
    }

    /// Returns the providers that take a key, and the current source of each one's key. Uses no network.
    pub(super) fn keys(&self) -> Result<Vec<Account>, String> {
        if !keys::may_be_kept(&self.environment, &self.root) {
            return Err(format!(
                "The key cannot be saved: {} is inside this repository, so the key could be committed.",
                self.environment.config_dir.display()
            ));
        }
        let reached = self.settings_with_new_keys();
        let row = |provider: &str| {
            let endpoint = reached.endpoint(provider)?;
            let place = endpoint.base_url.as_ref().map(|base| format!("{base} · ")).unwrap_or_default();
            let key = if endpoint.credential.is_some() { self.source(provider) } else { "no key".to_owned() };
            let has_login = self.device_login(provider).is_some();
            let login = if has_login { " · logs in with a code" } else { "" };
            Some(Account { provider: provider.to_owned(), about: format!("{place}{key}{login}"), has_login })
        };
        let takes_key = |name: &&str| {
            let auth = becket_config::vendor(name).map(|vendor| vendor.auth);
            !matches!(auth, Some(ProviderAuth::Aws | ProviderAuth::Google))
                && reached
                    .endpoint(name)
                    .is_some_and(|e| e.needs_key || e.credential.is_some() || *name == "openai")
        };
        let names = crate::providers::names(&self.settings).filter(takes_key);
        let mut accounts: Vec<Account> = names.filter_map(row).collect();
        // A login is in the user's own configuration, so it is likely to be the one that is wanted.
        accounts.sort_by_key(|account| !account.has_login);
        Ok(accounts)
    }

    fn device_login(&self, provider: &str) -> Option<DeviceLogin> {
        DeviceLogin::from_environment(&self.environment, &self.settings, provider)
    }

    fn running_login(&self) -> std::sync::MutexGuard<'_, Option<RunningLogin>> {
        self.login.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a login, in place of one that still runs. Returns its code, the reason why there is none, or `None` if it was
    /// cancelled meanwhile.
    pub(super) async fn begin_login(&self, provider: String) -> Option<Reply> {
        self.cancel_login();
        let Some(login) = self.device_login(&provider) else {
            let result = Err(format!("{provider} has no login; becket login {provider} saves a key"));
            return Some(Reply::KeyKept { provider, result });
        };
        let (prompt, task) = login.start(KeyStore::Keychain);
        *self.running_login() = Some(RunningLogin { abort: task.abort_handle(), end: Some(task) });
        match prompt.await {
            Ok(prompt) => {
                let minutes = prompt.lifetime.as_secs().div_ceil(60);
                let Prompt { address, code, complete, .. } = prompt;
                Some(Reply::LoginCode { provider, code: LoginCode { address, code, complete, minutes } })
            }
            // Without a code the login has already ended, so its result is the answer.
            Err(_) => self.finish_login(provider).await,
        }
    }

    /// Waits for the end of the login and makes it effective at once. `None`: it was cancelled.
    pub(super) async fn finish_login(&self, provider: String) -> Option<Reply> {
        let end = self.running_login().as_mut().and_then(|login| login.end.take())?;
        let result = match end.await {
            Ok(ended) => ended,
            Err(error) if error.is_cancelled() => return None,
            Err(_) => Err("it broke off".to_owned()),
        };
        let result = match result {
            Ok(kept) => Ok(self.logged_in(&provider, &kept)),
            Err(why) => Err(format!(
                "The login at {provider} did not work: {}. /login begins again; its addresses are in providers.{provider}.login.",
                why.trim_end_matches('.')
            )),
        };
        Some(Reply::KeyKept { provider, result })
    }

    /// Uses the new login for requests from now on. Returns the message for the user.
    fn logged_in(&self, provider: &str, kept: &KeyLocation) -> String {
        let now = crate::providers::endpoint(&self.environment, &self.settings, provider);
        let mut shared = self.models.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = shared.endpoint_mut(provider) {
            (endpoint.credential, endpoint.key_source) = (now.credential, now.key_source);
        }
        drop(shared);
        let place = self.device_login(provider).map(|login| login.place(kept)).unwrap_or_default();
        let mut said = format!("You are logged in at {provider}. The login is saved in {place}.");
        if let Some(name) = self.variable(provider) {
            let _ = write!(said, " {name} overrides it: unset that variable.");
        }
        said
    }

    /// Ends the login that runs, if there is one.
    pub(super) fn cancel_login(&self) {
        if let Some(login) = self.running_login().take() {
            login.abort.abort();
        }
    }

    /// Checks a key, stores it, and makes it effective at once.
    ///
    /// # Errors
    ///
    /// Returns a message for the user if the key is refused or cannot be stored.
    pub(super) async fn change_key(&self, provider: &str, key: Hidden) -> Result<String, String> {
        let Stored { place, checked } = check_and_keep(
            &self.environment,
            &self.settings,
            self.settings_with_new_keys(),
            provider,
            &key.0,
        )
        .await
        .map_err(|fault| match fault {
            KeyFault::Refused(why) => format!("{why}. Copy the whole key again, then /key."),
            KeyFault::NotStored(why) => why,
        })?;
        let mut shared = self.models.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = shared.endpoint_mut(provider) {
            endpoint.credential = Some(Credential::ApiKey(Secret::new(key.0)));
            endpoint.key_source = Some(place.name().to_owned());
        }
        drop(shared);
        let mut said = match checked {
            Ok(()) => {
                format!(
                    "The key for {provider} is valid. It is saved in {}.",
                    place.describe(&self.environment)
                )
            }
            Err(why) => format!(
                "The key for {provider} is saved in {}. It could not be checked: {why}.",
                place.describe(&self.environment),
            ),
        };
        if let Some(name) = self.variable(provider) {
            let _ = write!(said, " {name} overrides it when becket starts again: unset that variable.");
        }
        Ok(said)
    }
}

/// The place of a stored key, and the result of checking it.
pub(super) struct Stored {
    pub place: KeyLocation,
    /// The error if the provider could not be asked about the key. The key is stored unchecked then.
    pub checked: Result<(), String>,
}

/// Why a key is not stored: sentences for the user without the last full stop.
pub(super) enum KeyFault {
    Refused(String),
    NotStored(String),
}

/// Checks a key with one request for the list of models, and stores it for the provider's address. A key that could not be
/// checked is stored. `reached`: the settings with which models are opened.
///
/// # Errors
///
/// Fails if the provider refuses the key, or if it cannot be stored.
pub(super) async fn check_and_keep(
    environment: &Environment,
    settings: &Settings,
    mut reached: becket_model::Settings,
    provider: &str,
    key: &str,
) -> Result<Stored, KeyFault> {
    let Some(endpoint) = reached.endpoint_mut(provider) else {
        return Err(KeyFault::NotStored(format!("becket knows no provider {provider}")));
    };
    endpoint.credential = Some(Credential::ApiKey(Secret::new(key)));
    endpoint.key_source = None;
    let checked = match probe::list(&ModelRef::named(provider, ""), &reached).await {
        Ok(_) => Ok(()),
        Err(error) => {
            let why = error.message.trim_end_matches('.').to_owned();
            if error.kind == ErrorKind::Auth {
                return Err(KeyFault::Refused(format!("The key was refused and is not saved: {why}")));
            }
            Err(why)
        }
    };
    let kept = becket_config::kept_name(provider, settings.address(provider).as_deref());
    let place = keys::keep(environment, &kept, key, KeyStore::Keychain).map_err(KeyFault::NotStored)?;
    Ok(Stored { place, checked })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_of_a_provider_stand_together() {
        let models = ["google/b", "anthropic/x", "unknown/q", "google/a", "anthropic/w"];
        let models = models.map(|id| (id.to_owned(), String::new())).to_vec();
        let sorted = by_provider(models, &["anthropic", "google"]);
        let names: Vec<&str> = sorted.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(names, ["anthropic/x", "anthropic/w", "google/b", "google/a", "unknown/q"]);
    }
}
