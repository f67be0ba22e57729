//! The API keys of a configuration: all that were found, and for each provider the one that may be sent to its address.
//!
//! Owns reading the user's file of keys and the choice among keys. [`crate::key_hosts`] has the rule. When an address changes, the
//! settings make the choice again.

use crate::config::Config;
use crate::error::Problem;
use crate::key_hosts::{Address, KeyOrigin, Withheld, check_key, kept_name, split_name};
use crate::providers::{VENDORS, vendor};
use crate::secret::{Credential, IN_KEYCHAIN, Secret};
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// All keys that were found, and the addresses that variables give to providers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Keys {
    /// For each provider the keys in the order in which they are tried.
    found: BTreeMap<String, Vec<(KeyOrigin, Credential)>>,
    /// For each provider, name and value of the variable that sets its address.
    addresses: BTreeMap<String, (String, String)>,
}

/// The chosen key of each provider, by the provider's name.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub credentials: BTreeMap<String, Credential>,
    /// Keys that exist and are not sent, because the provider's address is not the key's.
    pub withheld: BTreeMap<String, Withheld>,
}

/// The user's file of keys: its path and its text.
type KeyFile<'a> = Option<&'a (PathBuf, String)>;

impl Keys {
    /// Finds the API keys of each provider: in the environment, and in the user's file of keys.
    ///
    /// # Errors
    ///
    /// Returns a problem if the file is not a table of keys for known providers. It never quotes the file's text.
    pub(crate) fn find(
        config: &Config,
        env: &BTreeMap<String, String>,
        file: KeyFile<'_>,
    ) -> Result<Self, Problem> {
        let kept = kept_keys(config, file)?;
        let names: BTreeSet<&str> = VENDORS
            .iter()
            .map(|vendor| vendor.name)
            .chain(config.providers.keys().map(String::as_str))
            .collect();
        let mut out = Self::default();
        for provider in names {
            let own = config.provider(provider).api_key_env.as_deref();
            let usual = vendor(provider).map(|vendor| vendor.keys).unwrap_or_default();
            let held = own
                .as_slice()
                .iter()
                .chain(if own.is_some() { &[] } else { usual })
                .find_map(|n| env.get(*n).map(|v| v.trim()).filter(|v| !v.is_empty()).map(|v| (*n, v)));
            let mut found = Vec::new();
            if let Some((name, value)) = held {
                let origin = if own.is_some() { KeyOrigin::Named } else { KeyOrigin::Environment };
                let source = Source::Environment(name.to_owned());
                found.push((
                    origin(name.to_owned()),
                    Credential { value: Secret::new(value), source, keychain: None },
                ));
            }
            let file = file.map(|(path, _)| path);
            for (name, value) in kept.iter().filter(|(name, _)| split_name(name).0 == provider) {
                let origin = KeyOrigin::Kept { host: split_name(name).1.map(str::to_owned) };
                let Some(source) = file.cloned().map(Source::User) else { continue };
                let keychain = (value == IN_KEYCHAIN).then(|| name.clone());
                let value = Secret::new(if keychain.is_some() { "" } else { value.as_str() });
                found.push((origin, Credential { value, source, keychain }));
            }
            if !found.is_empty() {
                out.found.insert(provider.to_owned(), found);
            }
            let variables = vendor(provider).map(|vendor| vendor.urls).unwrap_or_default();
            let set = |name: &&&str| env.get(**name).is_some_and(|value| !value.trim().is_empty());
            if let Some(name) = variables.iter().find(set) {
                out.addresses.insert(provider.to_owned(), ((*name).to_owned(), env[*name].trim().to_owned()));
            }
        }
        Ok(out)
    }

    /// Returns the environment variable that sets this provider's address: its name and its value.
    pub(crate) fn variable(&self, provider: &str) -> Option<(&str, &str)> {
        self.addresses.get(provider).map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Adds a key that the user has just entered, before all others of its provider.
    pub(crate) fn add(&mut self, provider: &str, address: Option<&str>, key: &str, file: PathBuf) {
        let kept = kept_name(provider, address);
        let origin = KeyOrigin::Kept { host: split_name(&kept).1.map(str::to_owned) };
        let credential = Credential { value: Secret::new(key), source: Source::User(file), keychain: None };
        let found = self.found.entry(provider.to_owned()).or_default();
        found.retain(|(other, _)| *other != origin);
        found.insert(0, (origin, credential));
    }

    /// Chooses for each provider the first key that may be sent to its address.
    pub(crate) fn choose(&self, address_of: impl Fn(&str) -> Option<Address>) -> Chosen {
        let mut chosen = Chosen::default();
        for (provider, found) in &self.found {
            let address = address_of(provider);
            for (origin, credential) in found {
                let held = address.as_ref().and_then(|to| check_key(provider, origin, &to.url, &to.source));
                match held {
                    None => {
                        chosen.credentials.insert(provider.clone(), credential.clone());
                        chosen.withheld.remove(provider);
                        break;
                    }
                    // The user entered this key for another server, so it is no reason for a warning here.
                    Some(Withheld { origin: KeyOrigin::Kept { host: Some(_) }, .. }) => {}
                    Some(held) => _ = chosen.withheld.entry(provider.clone()).or_insert(held),
                }
            }
        }
        chosen
    }
}

/// Reads the user's file of keys.
fn kept_keys(config: &Config, file: KeyFile<'_>) -> Result<BTreeMap<String, String>, Problem> {
    let Some((path, text)) = file else { return Ok(BTreeMap::new()) };
    let wrong = match toml::from_str::<BTreeMap<String, String>>(text) {
        Ok(keys) => {
            let known = |name: &str| vendor(name).is_some() || config.providers.contains_key(name);
            if keys.keys().all(|name| known(split_name(name).0)) {
                return Ok(keys.into_iter().map(|(k, v)| (k, v.trim().to_owned())).collect());
            }
            // The name is not shown: it may be a key that was written as a name.
            "it has a key for a name that is neither a built-in provider nor one of your configuration"
                .to_owned()
        }
        Err(_) => "it is not TOML of the form anthropic = \"KEY\"".to_owned(),
    };
    Err(Problem { origin: path.display().to_string(), at: None, key: None, message: wrong })
}
