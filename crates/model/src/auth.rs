//! Converts a credential to the headers of one request.
//!
//! Fixed keys become headers once. Tokens that expire are requested before each request, through a function of the
//! caller, which may run a program or refresh the token at a server. A key leaves this crate only in its header.

use crate::settings::{Credential, Endpoint, Secret};
use crate::{ErrorKind, Kind, ModelError};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// The place of the key in a request.
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
    /// Returns the place that the wire format's own vendor uses.
    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Anthropic => Self::XApiKey,
            Kind::Chat | Kind::Responses => Self::Bearer,
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

impl Endpoint {
    pub(crate) fn auth_for(&self, kind: Kind) -> Auth {
        match &self.credential {
            Some(Credential::Bearer(_) | Credential::Token(_)) => Auth::Bearer,
            _ => self.auth.unwrap_or_else(|| Auth::of(kind)),
        }
    }

    /// Returns the header of a key that does not change.
    pub(crate) fn fixed_headers(&self, kind: Kind) -> Option<(&'static str, String)> {
        match &self.credential {
            Some(Credential::ApiKey(key) | Credential::Bearer(key)) => self.auth_for(kind).header(key),
            Some(Credential::Token(_) | Credential::Aws(_)) | None => None,
        }
    }
}

/// Adds a header whose value is never shown.
pub(crate) fn put_header(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), ModelError> {
    let bad = || {
        let message = format!("The header `{name}` holds characters that HTTP does not allow.");
        ModelError::new(ErrorKind::Auth, message).hint("Check the key or header for line breaks and blanks.")
    };
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| bad())?;
    value.set_sensitive(true);
    headers.insert(key, value);
    Ok(())
}
