//! Settings from the caller: addresses of models, proxies, time limits.
//!
//! They are passed in once; nothing here reads the environment.

use crate::body_limit::BodyLimits;
use crate::endpoint::Endpoint;
use crate::layout::Layouts;
use crate::server_model::{ServerModel, ServerModels};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Proxies, as the environment names them (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`). Loopback never goes through one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    pub https: Option<String>,
    pub http: Option<String>,
    pub no_proxy: Option<String>,
}

/// Waits for a duration. Tests replace it with their own clock.
#[derive(Clone)]
pub struct Sleeper(Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>);

impl Sleeper {
    /// Wraps a function that returns after the duration.
    pub fn new(sleep: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sleep))
    }

    pub(crate) fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        (self.0)(duration)
    }
}

impl Default for Sleeper {
    fn default() -> Self {
        Self::new(|duration| Box::pin(tokio::time::sleep(duration)))
    }
}

impl fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleeper")
    }
}

/// All settings that an adapter needs in addition to the model's name.
#[derive(Clone, Debug)]
pub struct Settings {
    pub anthropic: Endpoint,
    pub openai: Endpoint,
    /// All other providers, by name.
    pub others: BTreeMap<String, Endpoint>,
    pub proxies: Proxies,
    /// The variables that name trusted issuers of certificates, with their values, for error messages about them.
    pub issuers: Vec<(&'static str, String)>,
    pub times: TimeLimits,
    /// Requests in all before the answer begins, the first included.
    pub max_attempts: u32,
    /// The window in tokens, if the user sets it (`--context-window`).
    pub window: Option<u64>,
    pub learned: Learned,
    pub sleeper: Sleeper,
}

/// Time limits for waiting on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// Longest wait that a server may ask for. A longer one is an error.
    pub max_wait: Duration,
    /// Time limit for a server to load its model.
    pub max_loading: Duration,
    /// A stream without bytes for this time counts as dead. Pings count as bytes.
    pub idle: Duration,
    /// Limit for the time before the first byte from a server on this machine, which has to process the whole prompt
    /// first.
    pub local_first_byte: Duration,
    /// After this time without bytes, the user is informed of the wait.
    pub hint_after: Duration,
    /// Time limit for making a connection.
    pub connect: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            max_wait: Duration::from_mins(1),
            max_loading: Duration::from_mins(5),
            idle: Duration::from_mins(2),
            local_first_byte: Duration::from_mins(15),
            hint_after: Duration::from_secs(20),
            connect: Duration::from_secs(10),
        }
    }
}

/// Facts about servers that requests have shown. Adapters add to them.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// Facts that servers reported about their models.
    pub server_models: ServerModels,
    /// Layouts that servers need, as found out so far.
    pub layouts: Layouts,
    /// Limits on the bytes of a request, as found out so far.
    pub body_limits: BodyLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            anthropic: Endpoint::default(),
            openai: Endpoint::default(),
            others: BTreeMap::new(),
            proxies: Proxies::default(),
            issuers: Vec::new(),
            times: TimeLimits::default(),
            max_attempts: 6,
            window: None,
            learned: Learned::default(),
            sleeper: Sleeper::default(),
        }
    }
}

impl Settings {
    /// The endpoint of the provider with this name.
    pub fn endpoint(&self, provider: &str) -> Option<&Endpoint> {
        match provider {
            "anthropic" => Some(&self.anthropic),
            "openai" => Some(&self.openai),
            other => self.others.get(other),
        }
    }

    /// The endpoint of the provider with this name, to be changed.
    pub fn endpoint_mut(&mut self, provider: &str) -> Option<&mut Endpoint> {
        match provider {
            "anthropic" => Some(&mut self.anthropic),
            "openai" => Some(&mut self.openai),
            other => self.others.get_mut(other),
        }
    }

    /// The names of all providers.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        ["anthropic", "openai"].into_iter().chain(self.others.keys().map(String::as_str))
    }

    /// The facts that a server of the user's own reported about the model with this name.
    pub(crate) fn said_by_server(&self, endpoint: &Endpoint, name: &str) -> Option<ServerModel> {
        self.learned.server_models.get(endpoint.base_url.as_deref()?)?.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::{Credential, Secret};

    #[test]
    fn a_key_never_shows() {
        let mut settings = Settings::default();
        settings.anthropic.credential = Some(Credential::ApiKey(Secret::new("sk-hidden")));
        settings.openai.credential = Some(Credential::Bearer(Secret::new("sk-hidden")));
        assert!(!format!("{settings:#?}").contains("sk-hidden"));
    }
}
