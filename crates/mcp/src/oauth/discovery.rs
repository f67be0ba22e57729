//! Finds the metadata of a server's authorization server.
//!
//! `rmcp` does the work and checks that the metadata name the issuer that was expected. This module owns one exception, for
//! servers of protocol 2025-03-26: they describe no resource, have their metadata at the root of their own origin, and
//! may name an issuer with a path. Such an issuer is accepted only if everything is of the server's own origin.

use crate::config::OAuthConfig;
use reqwest::{Client, StatusCode};
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata};
use url::Url;

/// Maximum size of a document in bytes.
const MOST_BYTES: usize = 64 * 1024;

/// Returns the metadata, if they are those of the issuer that the configuration names. `challenge`: the server's answer to a
/// request without a token.
pub(super) async fn metadata(
    manager: &AuthorizationManager,
    client: &Client,
    url: &Url,
    config: &OAuthConfig,
    challenge: Option<&str>,
) -> Result<AuthorizationMetadata, AuthError> {
    let found = found(manager, client, url, challenge).await?;
    let named = found.issuer.as_deref().unwrap_or_default();
    match &config.issuer {
        Some(issuer) if issuer.trim_end_matches('/') != named.trim_end_matches('/') => {
            Err(AuthError::OAuthError(format!(
                "its authorization server is {named:?}, and the configuration allows only {issuer:?}"
            )))
        }
        _ => Ok(found),
    }
}

async fn found(
    manager: &AuthorizationManager,
    client: &Client,
    url: &Url,
    challenge: Option<&str>,
) -> Result<AuthorizationMetadata, AuthError> {
    match manager.resolve_metadata_from_challenge(challenge).await {
        Ok(found) => Ok(found.metadata),
        Err(error @ AuthError::AuthorizationServerMismatch { .. }) => {
            older(client, url, challenge).await.ok_or(error)
        }
        Err(error) => Err(error),
    }
}

/// Returns the metadata at the root of the server's origin, if the server has only those.
async fn older(client: &Client, url: &Url, challenge: Option<&str>) -> Option<AuthorizationMetadata> {
    if challenge.is_some_and(|challenge| challenge.contains("resource_metadata")) {
        return None;
    }
    let path = url.path().trim_end_matches('/');
    for place in [
        format!("/.well-known/oauth-protected-resource{path}"),
        "/.well-known/oauth-protected-resource".to_owned(),
    ] {
        let answer = client.get(url.join(&place).ok()?).send().await.ok()?;
        if answer.status() != StatusCode::NOT_FOUND {
            return None;
        }
    }
    let mut answer =
        client.get(url.join("/.well-known/oauth-authorization-server").ok()?).send().await.ok()?;
    if answer.status() != StatusCode::OK || answer.url().origin() != url.origin() {
        return None;
    }
    let mut bytes = Vec::new();
    while let Some(piece) = answer.chunk().await.ok()? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MOST_BYTES {
            return None;
        }
    }
    let metadata: AuthorizationMetadata = serde_json::from_slice(&bytes).ok()?;
    is_of_one_origin(url, &metadata).then_some(metadata)
}

/// True if the issuer and its addresses are of the server's own origin.
fn is_of_one_origin(url: &Url, metadata: &AuthorizationMetadata) -> bool {
    let named = [
        Some(&metadata.authorization_endpoint),
        Some(&metadata.token_endpoint),
        metadata.issuer.as_ref(),
        metadata.registration_endpoint.as_ref(),
    ];
    named
        .into_iter()
        .flatten()
        .all(|named| Url::parse(named).is_ok_and(|named| named.origin() == url.origin()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_of_another_origin_is_not_accepted() {
        let url = Url::parse("http://localhost:1/mcp").unwrap();
        let of = |issuer: &str, token: &str| {
            let mut metadata = AuthorizationMetadata::default();
            metadata.issuer = Some(issuer.to_owned());
            metadata.authorization_endpoint = "http://localhost:1/authorize".to_owned();
            metadata.token_endpoint = token.to_owned();
            is_of_one_origin(&url, &metadata)
        };
        assert!(of("http://localhost:1/oauth", "http://localhost:1/token"));
        assert!(!of("http://localhost:2/oauth", "http://localhost:1/token"));
        assert!(!of("http://localhost:1/oauth", "https://localhost:1/token"));
        assert!(!of("nonsense", "http://localhost:1/token"));
    }
}
