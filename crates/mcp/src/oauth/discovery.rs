//! Finds the metadata of a server's authorization server.
//!
//! `rmcp` does the work and checks that the metadata name the issuer that was expected. This module owns two differences:
//!
//! - Servers of protocol 2025-03-26 describe no resource, have their metadata at the root of their own origin, and may name an
//!   issuer with a path. Such an issuer is accepted only if everything is of the server's own origin.
//! - `rmcp` skips a description of another resource at a well-known address, and continues as if there were none. Here it is an
//!   error: a server that describes itself as another one gets no token.

use super::audience::{covers, other_resource};
use crate::config::OAuthConfig;
use reqwest::{Client, StatusCode};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
};
use serde_json::Value;
use url::Url;

/// Maximum size of a document in bytes.
const MOST_BYTES: usize = 64 * 1024;

/// Returns the metadata if their issuer is the one that the configuration names, or if it names none. `challenge`: the server's
/// answer to a request without a token.
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
        Ok(found) => {
            if found.source != AuthorizationMetadataSource::ProtectedResourceMetadata {
                refuse_other_resource(client, url).await?;
            }
            Ok(found.metadata)
        }
        Err(error @ AuthError::AuthorizationServerMismatch { .. }) => {
            older(client, url, challenge).await.ok_or(error)
        }
        Err(error) => Err(error),
    }
}

/// Returns the metadata at the root of the server's origin, if the server has no other description.
async fn older(client: &Client, url: &Url, challenge: Option<&str>) -> Option<AuthorizationMetadata> {
    if challenge.is_some_and(|challenge| challenge.contains("resource_metadata")) {
        return None;
    }
    for place in descriptions(url) {
        let answer = client.get(place).send().await.ok()?;
        if answer.status() != StatusCode::NOT_FOUND {
            return None;
        }
    }
    let place = url.join("/.well-known/oauth-authorization-server").ok()?;
    let metadata: AuthorizationMetadata = serde_json::from_value(document(client, place).await?).ok()?;
    is_of_one_origin(url, &metadata).then_some(metadata)
}

/// Returns the well-known addresses of a server's description: that of the server, then that of its whole origin.
fn descriptions(url: &Url) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let mut places = vec![format!("/.well-known/oauth-protected-resource{path}")];
    if !path.is_empty() {
        places.push("/.well-known/oauth-protected-resource".to_owned());
    }
    places.iter().filter_map(|place| url.join(place).ok()).collect()
}

/// Returns the JSON document at an address. `None` if there is none, if it is too large, or after a redirect to another origin.
async fn document(client: &Client, place: Url) -> Option<Value> {
    let mut answer = client.get(place.clone()).send().await.ok()?;
    if answer.status() != StatusCode::OK || answer.url().origin() != place.origin() {
        return None;
    }
    let mut bytes = Vec::new();
    while let Some(piece) = answer.chunk().await.ok()? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MOST_BYTES {
            return None;
        }
    }
    becket_types::parse_json_bytes(&bytes).ok()
}

/// Fails if the server's description of itself names another resource.
async fn refuse_other_resource(client: &Client, url: &Url) -> Result<(), AuthError> {
    for (n, place) in descriptions(url).into_iter().enumerate() {
        let Some(description) = document(client, place.clone()).await else { continue };
        let described = description["resource"].as_str().and_then(|resource| Url::parse(resource).ok());
        let Some(described) = described.filter(|described| !covers(described, url)) else { continue };
        // A description of the whole origin may belong to another server on it, and then says nothing about this server.
        if n == 0 || described.origin() != url.origin() {
            return Err(AuthError::OAuthError(other_resource(&place, &described, url)));
        }
    }
    Ok(())
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
