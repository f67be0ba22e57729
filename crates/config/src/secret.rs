//! Values that must not be shown.

use crate::source::Source;
use std::fmt;

/// A secret: `Debug` and `Display` show a mask.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key or token unchanged.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the value itself. Only the code that sends it may call this.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask(&self.0))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({self})")
    }
}

/// A credential with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Empty if the key is in the system's keychain.
    pub value: Secret,
    /// An environment variable, or the user's file of keys.
    pub source: Source,
    /// The name of the key in the system's keychain, if it is there. It is read with the first request, because the
    /// keychain may be slow or locked.
    pub keychain: Option<String>,
}

/// The value in the user's file of keys for a key that is in the system's keychain. No key has blanks, so it cannot be one.
pub const IN_KEYCHAIN: &str = "(in the keychain)";

/// Masks a secret. The visible part is enough to distinguish two secrets and too little to use one.
pub(crate) fn mask(value: &str) -> String {
    let count = value.chars().count();
    if count < 16 {
        return "********".to_owned();
    }
    let tail: String = value.chars().skip(count - 4).collect();
    format!("********{tail}")
}

/// Masks the parts of a URL that may be credentials.
pub(crate) fn mask_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let host = host.rsplit_once('@').map_or_else(|| host.to_owned(), |(_, host)| format!("********@{host}"));
    let path = path.split_once('?').map_or_else(|| path.to_owned(), |(path, _)| format!("{path}?********"));
    if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") }
}
