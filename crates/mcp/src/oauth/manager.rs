//! Makes the manager of `rmcp` for one server, with its tokens.

use super::granted::ProgramTokens;
use super::store::ServerTokens;
use super::{discovery, new_manager, words};
use crate::config::{GrantType, OAuthConfig};
use crate::shared::Shared;
use rmcp::transport::auth::{AuthError, AuthorizationManager, CredentialStore as _, OAuthClientConfig};
use url::Url;

/// Returns the manager with the tokens of a server, if there are any.
///
/// # Errors
///
/// Returns a message for people if the tokens cannot be read, or if a program's own id and secret give none.
pub(crate) async fn manager(
    server: &str,
    url: &Url,
    config: &OAuthConfig,
    client: &reqwest::Client,
    shared: &Shared,
) -> Result<Option<AuthorizationManager>, String> {
    if matches!(config.grant_type, Some(GrantType::ClientCredentials | GrantType::JwtBearer)) {
        return manager_of_program(url, config, client).await.map(Some);
    }
    let Some(tokens) = shared.tokens.as_ref().filter(|tokens| tokens.has(server, url)) else {
        return Ok(None);
    };
    let tokens = tokens.credentials(server, url, config.audience.as_deref(), false);
    match tokens.load().await {
        Err(AuthError::CredentialStoreError(why)) => {
            return Err(format!("its tokens cannot be read: {why}"));
        }
        Err(error) => return Err(words(&error)),
        Ok(_) => {}
    }
    manager_of_login(url, config, client, tokens).await
}

async fn manager_of_login(
    url: &Url,
    config: &OAuthConfig,
    client: &reqwest::Client,
    tokens: ServerTokens,
) -> Result<Option<AuthorizationManager>, String> {
    let Ok(mut manager) = new_manager(url).await else { return Ok(None) };
    manager.set_credential_store(tokens);
    match discovery::metadata(&manager, client, url, config, None).await {
        Ok(metadata) => manager.set_metadata(metadata),
        // Two reasons not to continue without a token: the server describes itself as another one, or its issuer is not allowed.
        Err(error @ (AuthError::OAuthError(_) | AuthError::ProtectedResourceMetadataInvalid { .. })) => {
            return Err(words(&error));
        }
        // If no metadata are found, the server is asked without a token, and its answer says if it needs one.
        Err(_) => return Ok(None),
    }
    if manager.initialize_from_store().await.is_err() {
        return Ok(None);
    }
    if let (Some(id), Some(secret)) = (&config.client_id, &config.client_secret) {
        let client = OAuthClientConfig::new(id.clone(), "http://127.0.0.1/callback")
            .with_client_secret(secret.clone());
        if manager.configure_client(client).is_err() {
            return Ok(None);
        }
    }
    Ok(Some(manager))
}

async fn manager_of_program(
    url: &Url,
    config: &OAuthConfig,
    client: &reqwest::Client,
) -> Result<AuthorizationManager, String> {
    let no_token = |why: String| format!("its authorization server gives no token: {why}");
    let tokens = ProgramTokens::new(url, client.clone(), config)?;
    let mut manager = new_manager(url).await.map_err(|error| no_token(words(&error)))?;
    manager.set_credential_store(tokens);
    manager.initialize_from_store().await.map_err(|error| no_token(words(&error)))?;
    Ok(manager)
}
