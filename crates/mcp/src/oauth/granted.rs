//! Tokens of programs: `"grantType": "client_credentials"` and `"jwt_bearer"`. Nobody is asked. A program has an id and a secret,
//! or proves itself by a signature ([`super::exchange`]).
//!
//! Tokens are kept in memory only, and obtained again shortly before they expire. The secret is sent over TLS, or to this
//! machine.

use super::audience::Audience;
use super::exchange::Exchange;
use super::{discovery, is_safe, new_manager};
use crate::config::OAuthConfig;
use async_trait::async_trait;
use reqwest::Client;
use rmcp::transport::{
    AuthError, ClientCredentialsConfig, CredentialStore, InMemoryCredentialStore, StoredCredentials,
};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Mutex;
use url::Url;

/// A token that is valid for fewer seconds than this is obtained again. `rmcp` does the same for tokens that can be refreshed.
const LEFT: u64 = 30;

/// The tokens of one server.
pub(super) struct ProgramTokens {
    url: Url,
    client: Client,
    config: OAuthConfig,
    means: ProgramProof,
    held: Mutex<Option<StoredCredentials>>,
}

/// The program's proof of its identity.
enum ProgramProof {
    Secret(ClientCredentialsConfig),
    Signed(Box<Exchange>),
}

impl ProgramTokens {
    /// Makes the authorization of a program by its own secret or key. Nothing is requested yet.
    ///
    /// # Errors
    ///
    /// Returns a message for people that names the missing field.
    pub(super) fn new(url: &Url, client: Client, config: &OAuthConfig) -> Result<Self, String> {
        let means = match (Exchange::from_config(url, config)?, &config.client_id, &config.client_secret) {
            (Some(exchange), _, _) => ProgramProof::Signed(Box::new(exchange)),
            (None, Some(id), Some(secret)) => ProgramProof::Secret(ClientCredentialsConfig::ClientSecret {
                client_id: id.clone(),
                client_secret: secret.clone(),
                scopes: config.scopes.clone(),
                resource: Some(url.to_string()),
            }),
            _ => {
                return Err(
                    "grantType client_credentials needs clientId, and clientSecret or privateKeyFile"
                        .to_owned(),
                );
            }
        };
        Ok(Self { url: url.clone(), client, config: config.clone(), means, held: Mutex::new(None) })
    }

    async fn exchange(&self) -> Result<StoredCredentials, AuthError> {
        let mut manager = new_manager(&self.url).await?;
        let store = InMemoryCredentialStore::new();
        manager.set_credential_store(store.clone());
        let metadata = discovery::metadata(&manager, &self.client, &self.url, &self.config, None).await?;
        if !is_safe(&metadata.token_endpoint) {
            return Err(AuthError::OAuthError(format!(
                "no secret is sent to {}, because the connection is not encrypted; use https",
                metadata.token_endpoint
            )));
        }
        let config = match &self.means {
            ProgramProof::Secret(config) => config,
            ProgramProof::Signed(exchange) => return exchange.token(&self.client, &metadata).await,
        };
        manager.set_metadata(metadata);
        manager.validate_client_credentials_metadata(config)?;
        manager.configure_client_credentials(config)?;
        manager.exchange_client_credentials(config).await?;
        store.load().await?.ok_or(AuthError::AuthorizationRequired)
    }
}

#[async_trait]
impl CredentialStore for ProgramTokens {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let mut held = self.held.lock().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if held.as_ref().is_none_or(|held| is_old(held, now)) {
            let given = self.exchange().await?;
            let audience = Audience::new(&self.url, self.config.audience.as_deref());
            audience.check(&given).map_err(AuthError::OAuthError)?;
            *held = Some(given);
        }
        Ok(held.clone())
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        *self.held.lock().await = Some(credentials);
        Ok(())
    }

    async fn clear(&self) -> Result<(), AuthError> {
        *self.held.lock().await = None;
        Ok(())
    }
}

/// True if a token has expired or will soon. A token without a lifetime never expires.
fn is_old(held: &StoredCredentials, now: u64) -> bool {
    // Reading the lifetime from the response's type would need another crate, so it is read from the JSON form.
    let response = serde_json::to_value(&held.token_response).unwrap_or_default();
    let (Some(lifetime), Some(received)) = (response["expires_in"].as_u64(), held.token_received_at) else {
        return false;
    };
    let left = lifetime.saturating_sub(now.saturating_sub(received));
    left <= LEFT.min(lifetime / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        let held = |lifetime: u64| -> StoredCredentials {
            let token = json!({ "access_token": "t", "token_type": "bearer", "expires_in": lifetime });
            serde_json::from_value(
                json!({ "client_id": "c", "token_response": token, "token_received_at": 1_000 }),
            )
            .unwrap()
        };
        for (lifetime, now, old) in [
            (3_600, 1_000, false),
            (3_600, 4_569, false),
            (3_600, 4_570, true),
            (3_600, 9_000, true),
            (20, 1_009, false),
            (20, 1_010, true),
        ] {
            assert_eq!(is_old(&held(lifetime), now), old, "{lifetime} at {now}");
        }
        let endless =
            json!({ "client_id": "c", "token_response": { "access_token": "t", "token_type": "bearer" } });
        assert!(!is_old(&serde_json::from_value(endless).unwrap(), u64::MAX));
    }

    #[test]
    fn a_secret_is_not_sent_in_the_clear() {
        for (address, safe) in [
            ("https://login.example/token", true),
            ("http://127.0.0.1:9/token", true),
            ("http://localhost/token", true),
            ("http://login.example/token", false),
            ("http://10.0.0.1/token", false),
            ("ftp://localhost/token", false),
        ] {
            assert_eq!(is_safe(address), safe, "{address}");
        }
    }
}
