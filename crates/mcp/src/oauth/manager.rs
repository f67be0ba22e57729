//! Makes the manager of `rmcp` for one server, with the stored tokens.

use super::new_manager;
use crate::config::OAuthConfig;
use crate::shared::Shared;
use rmcp::transport::auth::{AuthorizationManager, OAuthClientConfig};
use url::Url;

/// Returns the manager with the tokens of a server, if there are any.
pub(crate) async fn manager(
    server: &str,
    url: &Url,
    config: &OAuthConfig,
    shared: &Shared,
) -> Option<AuthorizationManager> {
    let tokens = shared.tokens.as_ref()?;
    if !tokens.has(server, url) {
        return None;
    }
    let mut manager = new_manager(url).await.ok()?;
    manager.set_credential_store(tokens.credentials(server, url));
    manager.initialize_from_store().await.ok()?;
    if let (Some(id), Some(secret)) = (&config.client_id, &config.client_secret) {
        let client = OAuthClientConfig::new(id.clone(), "http://127.0.0.1/callback")
            .with_client_secret(secret.clone());
        manager.configure_client(client).ok()?;
    }
    Some(manager)
}
