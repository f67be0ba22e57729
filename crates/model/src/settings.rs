//! Settings from the caller: addresses of models, credentials, time limits.
//!
//! They are passed in once; nothing here reads the environment. A secret is revealed only to the header that needs it.

use crate::auth::Auth;
use crate::body_limit::BodyLimits;
use crate::compat::Compat;
use crate::layout::Layouts;
use crate::probe::{ServerModel, ServerModels};
use becket_types::Prices;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
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

/// A source of tokens that expire. The function returns a valid token. Its argument is true if the last one was refused.
#[derive(Clone)]
pub struct TokenSource(Arc<TokenFunction>);

type TokenFunction = dyn Fn(bool) -> BoxFuture<'static, Result<Secret, String>> + Send + Sync;

impl TokenSource {
    pub fn new(
        token: impl Fn(bool) -> BoxFuture<'static, Result<Secret, String>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(token))
    }

    /// Returns a valid token, or the reason why there is none. `refused` is true if the last one was refused.
    pub fn token(&self, refused: bool) -> BoxFuture<'static, Result<Secret, String>> {
        (self.0)(refused)
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSource")
    }
}

impl PartialEq for TokenSource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TokenSource {}

/// Keys of AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsKeys {
    pub id: String,
    pub secret: Secret,
    pub session_token: Option<Secret>,
}

/// The way in which requests are authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// In the header that the endpoint's `auth` names.
    ApiKey(Secret),
    /// `Authorization: Bearer` everywhere.
    Bearer(Secret),
    /// `Authorization: Bearer` with a token that is asked for before each request.
    Token(TokenSource),
    /// Each request is signed for AWS.
    Aws(AwsKeys),
}

impl Credential {
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::ApiKey(secret) | Self::Bearer(secret) => Some(secret),
            Self::Aws(keys) => Some(&keys.secret),
            Self::Token(_) => None,
        }
    }
}

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Google Gemini.
    Gemini,
}

/// Figures of a model that the user knows better than the catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The name on the wire.
    pub name: String,
    pub window: Option<u64>,
    pub max_output: Option<u64>,
    pub images: Option<bool>,
    pub reasoning: Option<bool>,
    pub prices: Option<Prices>,
}

/// The address of a provider, its wire format, its credential, and its deviations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Endpoint {
    /// The wire format. Absent: the usual one of the provider with this name. `openai` uses Responses at its own address and
    /// Chat elsewhere.
    pub kind: Option<Kind>,
    /// Base URL, with or without a trailing `/v1`. Absent: the provider's own.
    pub base_url: Option<String>,
    pub credential: Option<Credential>,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// Place of the key in a request. Absent: that of the wire format.
    pub auth: Option<Auth>,
    /// Deviations of the server. Absent: those known for its host.
    pub compat: Option<Compat>,
    /// Figures of single models.
    pub models: Vec<Figures>,
    /// The place of the credential, such as `OPENAI_API_KEY`, for messages.
    pub key_source: Option<String>,
    /// The hint for a key that is needed and missing.
    pub key_hint: Option<String>,
    /// The setting that holds the server's address, for messages.
    pub url_setting: Option<String>,
    /// True if a request without a key is refused before it is sent.
    pub needs_key: bool,
}

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
    /// Longest wait that a server may ask for. A longer one is an error.
    pub max_wait: Duration,
    /// Time limit for a server to load its model.
    pub max_loading: Duration,
    /// A stream without bytes for this time counts as dead. Pings count as bytes.
    pub idle_timeout: Duration,
    /// The same limit for the time before the first byte from a server on this machine, which has to process the whole prompt
    /// first.
    pub local_first_byte: Duration,
    /// After this time without bytes, the user is informed of the wait.
    pub hint_after: Duration,
    pub connect_timeout: Duration,
    /// Requests in all before the answer begins, the first included.
    pub max_attempts: u32,
    /// The window in tokens, if the user sets it (`--context-window`).
    pub window: Option<u64>,
    /// Facts that servers reported about their models.
    pub server_models: ServerModels,
    /// Layouts that servers need, as found out so far.
    pub layouts: Layouts,
    /// Limits on the bytes of a request, as found out so far.
    pub body_limits: BodyLimits,
    pub sleeper: Sleeper,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            anthropic: Endpoint::default(),
            openai: Endpoint::default(),
            others: BTreeMap::new(),
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
        self.server_models.get(endpoint.base_url.as_deref()?)?.get(name).copied()
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
