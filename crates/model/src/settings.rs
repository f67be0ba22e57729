//! What the caller decides: where models are, with which credentials, and how patient to be.
//!
//! Handed in once; nothing here reads the environment. A secret shows itself to nobody but the header it belongs in.

use crate::body_limit::BodyLimits;
use crate::layout::Layouts;
use crate::probe::{ServerModel, ServerModels};
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Text that never appears in logs, errors or debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// How a provider knows who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// `x-api-key` for Anthropic, `Authorization: Bearer` for OpenAI.
    ApiKey(Secret),
    /// `Authorization: Bearer` everywhere.
    Bearer(Secret),
}

impl Credential {
    pub(crate) fn secret(&self) -> &Secret {
        match self {
            Self::ApiKey(secret) | Self::Bearer(secret) => secret,
        }
    }
}

/// Where one provider is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// With or without a trailing `/v1`; the provider's own where absent.
    pub base_url: Option<String>,
    pub credential: Option<Credential>,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
}

/// Proxies, as the environment names them (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`). Loopback never goes through one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    pub https: Option<String>,
    pub http: Option<String>,
    pub no_proxy: Option<String>,
}

/// How to wait; tests put a clock of their own here.
#[derive(Clone)]
pub struct Sleeper(Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>);

impl Sleeper {
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

/// Everything an adapter needs to know beside the model's name.
#[derive(Clone, Debug)]
pub struct Settings {
    pub anthropic: Endpoint,
    pub openai: Endpoint,
    pub proxies: Proxies,
    /// The variables that name trusted issuers of certificates, with their values, to say what is wrong with them.
    pub issuers: Vec<(&'static str, String)>,
    /// Longest wait a server may ask for before it is an error.
    pub max_wait: Duration,
    /// How long a server may take to load its model.
    pub max_loading: Duration,
    /// Silence after which a stream counts as dead; pings are no silence.
    pub idle_timeout: Duration,
    /// The same for the time before the first byte from a server on this machine, which reads the whole prompt first.
    pub local_first_byte: Duration,
    /// Silence after which people are told that we are waiting.
    pub hint_after: Duration,
    pub connect_timeout: Duration,
    /// Requests in all before the answer begins, the first included.
    pub max_attempts: u32,
    /// The window, where the user says it (`--context-window`).
    pub window: Option<u64>,
    /// Statements of servers about their models.
    pub server_models: ServerModels,
    /// Layouts that servers were found to need.
    pub layouts: Layouts,
    /// Limits on bytes that servers were found to have.
    pub body_limits: BodyLimits,
    pub sleeper: Sleeper,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            anthropic: Endpoint::default(),
            openai: Endpoint::default(),
            proxies: Proxies::default(),
            issuers: Vec::new(),
            max_wait: Duration::from_mins(1),
            max_loading: Duration::from_mins(5),
            idle_timeout: Duration::from_mins(2),
            local_first_byte: Duration::from_mins(15),
            hint_after: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(10),
            max_attempts: 6,
            window: None,
            server_models: ServerModels::default(),
            layouts: Layouts::default(),
            body_limits: BodyLimits::default(),
            sleeper: Sleeper::default(),
        }
    }
}

impl Settings {
    /// The statement of the user's own server about the model of this name.
    pub(crate) fn said_by_server(&self, name: &str) -> Option<ServerModel> {
        self.server_models.get(self.openai.base_url.as_deref()?)?.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_shows() {
        let mut settings = Settings::default();
        settings.anthropic.credential = Some(Credential::ApiKey(Secret::new("sk-hidden")));
        settings.openai.credential = Some(Credential::Bearer(Secret::new("sk-hidden")));
        assert!(!format!("{settings:#?}").contains("sk-hidden"));
    }
}
