//! Converts a credential to the headers of one request.
//!
//! Fixed keys become headers once. Tokens that expire are requested before each request, through a function of the
//! caller, which may run a program or refresh the token at a server. A key leaves this crate only in its header.

use crate::credential::{Auth, Credential};
use crate::endpoint::Endpoint;
use crate::{ErrorKind, Kind, ModelError};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

impl Endpoint {
    pub(crate) fn auth_for(&self, kind: Kind) -> Auth {
        match &self.credential {
            Some(Credential::Bearer(_) | Credential::Token(_)) => Auth::Bearer,
            _ => self.auth.unwrap_or_else(|| Auth::for_kind(kind)),
        }
    }

    /// Returns the header of a key that does not change.
    pub(crate) fn fixed_headers(&self, kind: Kind) -> Option<(&'static str, String)> {
        match &self.credential {
            Some(Credential::ApiKey(key) | Credential::Bearer(key)) => self.auth_for(kind).header(key),
            Some(
                Credential::Token(_) | Credential::Asked(_) | Credential::Aws(_) | Credential::AwsAsked(_),
            )
            | None => None,
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
