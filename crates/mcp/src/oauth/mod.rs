//! Authorization of HTTP servers: obtains tokens, stores them, and refreshes them in one process at a time.
//!
//! `rmcp` implements the protocol (metadata of the resource, PKCE, `iss`, registration, refresh). The modules here own the
//! store of tokens, the discovery of servers, the login of a person and the tokens of programs.

use crate::transport::http::{reasons, words};
use rmcp::transport::auth::{AuthError, AuthorizationManager};
use url::Url;

mod audience;
mod discovery;
mod exchange;
mod granted;
mod login;
mod manager;
mod signature;
mod store;

pub(crate) use audience::other_resource;
pub use login::{Login, LoginError};
pub(crate) use manager::manager;
pub use store::{KeyStore, StoredIn, TokenStore};

/// Makes a manager for an address. It may reach addresses inside the user's network only if the server's own address is inside.
async fn new_manager(url: &Url) -> Result<AuthorizationManager, AuthError> {
    let is_private = match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_private() || ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unique_local(),
        Some(url::Host::Domain(name)) => name == "localhost" || !name.contains('.'),
        None => false,
    };
    if is_private {
        AuthorizationManager::new_allowing_private_addresses(url.as_str()).await
    } else {
        AuthorizationManager::new(url.as_str()).await
    }
}

/// True if nobody can read what is sent to an address on the way: it is encrypted, or leads to this machine.
pub(super) fn is_safe(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else { return false };
    let is_local = match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_local)
}
