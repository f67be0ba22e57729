//! Owns credentials: keys, tokens that expire, and the header of a request that carries the key.
//!
//! Invariant: no debug output shows a secret. A secret is revealed only to the header that needs it.

use crate::kind::Kind;
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// Text that never appears in logs, errors or debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key or token. It is sent unchanged, so it must not end with a newline.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the text itself. Only code that exchanges it for another key may call this.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The reason why there is no key, and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoKey {
    pub why: String,
    /// The next step, for the user.
    pub hint: String,
}

/// A source of keys that are not at hand at once, or that expire. The function returns a valid one. Its argument is true if the
/// last one was refused.
pub struct KeySource<T>(Arc<KeyFunction<T>>);

type KeyFunction<T> = dyn Fn(bool) -> BoxFuture<'static, Result<T, NoKey>> + Send + Sync;

/// A source of tokens.
pub type TokenSource = KeySource<Secret>;

impl<T> KeySource<T> {
    /// Wraps a function that fetches a key. Its argument is true if the server has refused the last key.
    pub fn new(key: impl Fn(bool) -> BoxFuture<'static, Result<T, NoKey>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(key))
    }

    /// Returns a valid key. `refused`: the server has refused the last one, so a cached key is not used again.
    ///
    /// # Errors
    ///
    /// Fails with [`NoKey`] if no key can be obtained. Its text tells the user why.
    pub fn get(&self, refused: bool) -> BoxFuture<'static, Result<T, NoKey>> {
        (self.0)(refused)
    }
}

impl<T> Clone for KeySource<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for KeySource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySource")
    }
}

impl<T> PartialEq for KeySource<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for KeySource<T> {}

/// Keys of AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsKeys {
    pub id: String,
    pub secret: Secret,
    pub session_token: Option<Secret>,
    /// The configured region. An address of AWS names the region itself.
    pub region: Option<String>,
}

/// The way in which requests are authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A fixed key, sent in the header that the endpoint's `auth` names.
    ApiKey(Secret),
    /// `Authorization: Bearer` everywhere.
    Bearer(Secret),
    /// `Authorization: Bearer` with a token that is asked for before each request.
    Token(TokenSource),
    /// A key that is asked for before each request, sent in the header that the endpoint's `auth` names.
    Asked(TokenSource),
    /// Each request is signed for AWS.
    Aws(AwsKeys),
    /// Each request is signed for AWS, with keys that are asked for before it.
    AwsAsked(KeySource<AwsKeys>),
}

impl Credential {
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::ApiKey(secret) | Self::Bearer(secret) => Some(secret),
            Self::Aws(keys) => Some(&keys.secret),
            Self::Token(_) | Self::Asked(_) | Self::AwsAsked(_) => None,
        }
    }
}

/// The header that carries the key in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `Authorization: Bearer KEY`.
    Bearer,
    XApiKey,
    /// `api-key`, as in Azure.
    ApiKey,
    XGoogApiKey,
    /// Amazon Bedrock: signatures of AWS, or a bearer key.
    Aws,
    /// Google Cloud: tokens.
    Google,
    None,
}

impl Auth {
    /// Returns the header that the wire format's own vendor uses.
    pub(crate) fn for_kind(kind: Kind) -> Self {
        match kind {
            Kind::Anthropic => Self::XApiKey,
            Kind::Chat | Kind::Responses | Kind::Converse => Self::Bearer,
            Kind::Gemini => Self::XGoogApiKey,
        }
    }

    /// Returns the header for a key.
    pub(crate) fn header(self, key: &Secret) -> Option<(&'static str, String)> {
        let key = key.expose().to_owned();
        match self {
            Self::Bearer | Self::Aws | Self::Google => Some(("authorization", format!("Bearer {key}"))),
            Self::XApiKey => Some(("x-api-key", key)),
            Self::ApiKey => Some(("api-key", key)),
            Self::XGoogApiKey => Some(("x-goog-api-key", key)),
            Self::None => None,
        }
    }
}
