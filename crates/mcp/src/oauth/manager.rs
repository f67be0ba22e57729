//! Makes the manager of `rmcp` for one server, with its tokens.

use super::granted::Granted;
use super::{discovery, new_manager};
use crate::config::{GrantType, OAuthConfig};
use crate::shared::Shared;
use crate::transport::http;
use rmcp::transport::auth::{AuthorizationManager, OAuthClientConfig};
use url::Url;

/// Returns the manager with the tokens of a server, if there are any.
///
/// # Errors
///
/// Returns a message for people if a program's own id and secret give no token.
pub(crate) async fn manager(
    server: &str,
    url: &Url,
    config: &OAuthConfig,
    client: &reqwest::Client,
    shared: &Shared,
) -> Result<Option<AuthorizationManager>, String> {
    if config.grant_type == Some(GrantType::ClientCredentials) {
        return granted(url, config, client).await.map(Some);
    }
    Ok(stored(server, url, config, client, shared).await)
}

async fn stored(
    server: &str,
    url: &Url,
    config: &OAuthConfig,
    client: &reqwest::Client,
    shared: &Shared,
) -> Option<AuthorizationManager> {
    let tokens = shared.tokens.as_ref()?;
    if !tokens.has(server, url) {
        return None;
    }
    let mut manager = new_manager(url).await.ok()?;
    manager.set_credential_store(tokens.credentials(server, url));
    let metadata = discovery::metadata(&manager, client, url, None).await.ok()?;
    manager.set_metadata(metadata);
    manager.initialize_from_store().await.ok()?;
    if let (Some(id), Some(secret)) = (&config.client_id, &config.client_secret) {
        let client = OAuthClientConfig::new(id.clone(), "http://127.0.0.1/callback")
            .with_client_secret(secret.clone());
        manager.configure_client(client).ok()?;
    }
    Some(manager)
}

async fn granted(
    url: &Url,
    config: &OAuthConfig,
    client: &reqwest::Client,
) -> Result<AuthorizationManager, String> {
    let no_token = |why: String| format!("its authorization server gives no token: {why}");
    let tokens = Granted::new(url, client.clone(), config)?;
    let mut manager = new_manager(url).await.map_err(|error| no_token(http::reasons(&error)))?;
    manager.set_credential_store(tokens);
    manager.initialize_from_store().await.map_err(|error| no_token(http::reasons(&error)))?;
    Ok(manager)
}
