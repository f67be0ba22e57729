//! Owns the address of a provider with everything that a user can set about it.
//!
//! Data only: [`Place`](crate::place::Place) completes it.

use crate::compat::CompatChanges;
use crate::credential::{Auth, Credential};
use crate::kind::Kind;
use becket_types::Prices;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

/// Figures of a model that are known better than the catalog has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// The name on the wire.
    pub name: String,
    /// Context window in tokens. Absent, here and below: as in the catalog.
    pub window: Option<u64>,
    /// Output limit in tokens.
    pub max_output: Option<u64>,
    /// True if the model reads images.
    pub images: Option<bool>,
    /// True if the model can think before it answers.
    pub reasoning: Option<bool>,
    pub prices: Option<Prices>,
    /// Fields for the body of requests to this model. They override those of [`crate::Compat`]. Only the configuration sets them.
    #[serde(skip)]
    pub body: Map<String, Value>,
    /// The origin of the figures, with a date. Absent: the configuration.
    pub source: Option<String>,
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
    /// Header that carries the key in a request. Absent: that of the wire format.
    pub auth: Option<Auth>,
    /// Changes to the dialect that is known for the server.
    pub compat: Option<CompatChanges>,
    /// Figures of single models.
    pub models: Vec<Figures>,
    /// The variable or file of the credential, such as `OPENAI_API_KEY`, for messages.
    pub key_source: Option<String>,
    /// The hint for a key that is needed and missing.
    pub key_hint: Option<String>,
    /// The setting that holds the server's address, for messages.
    pub url_setting: Option<String>,
    /// Calls that a model writes into its text are shown to the user for approval.
    pub asks_text_calls: bool,
    /// True if a request without a key is refused before it is sent.
    pub needs_key: bool,
}

impl Endpoint {
    /// Returns the wire format and the address that are set, for comparison and display. Contains no login.
    pub fn place(&self) -> String {
        let address = self.base_url.as_deref().map_or_else(
            || "the provider's own address".to_owned(),
            |address| without_login(address.trim_end_matches('/')),
        );
        match self.kind {
            Some(kind) => format!(
                "{} at {address}",
                serde_json::to_value(kind)
                    .ok()
                    .and_then(|v| v.as_str().map(str::to_owned))
                    .unwrap_or_default()
            ),
            None => address,
        }
    }
}

/// Removes a user and a password from an address, because recordings and locks contain no keys.
pub(crate) fn without_login(address: &str) -> String {
    let Ok(mut url) = Url::parse(address) else { return address.to_owned() };
    if url.username().is_empty() && url.password().is_none() {
        return address.to_owned();
    }
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}
