//! `becket mcp login`: makes an address for the browser, and receives the answer at a local port or as text that the user pastes.
//!
//! If the browser runs on another machine, the user pastes the address at which it ends. In both cases the answer must
//! contain the state of this login, and `iss` if the authorization server announces it.

use super::{TokenStore, discovery, new_manager, words};
use crate::callback::CallbackPort;
use crate::config::{Endpoint, GrantType, ServerConfig};
use crate::transport::http::{self, Proxies};
use reqwest::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use rmcp::transport::auth::{
    AuthError, AuthorizationRequest, AuthorizationSession, CredentialStore, WWWAuthenticateParams,
};
use serde_json::json;
use url::Url;

/// The reason why a login to a server failed. The text is for people.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("{0} is reached without HTTP, and needs no authorization")]
    NotHttp(String),
    #[error("{0} needs no login: its id and secret are in its configuration (grantType client_credentials)")]
    NotAsked(String),
    #[error("the port for the browser's answer cannot be opened: {0}")]
    Port(std::io::Error),
    #[error("{0}")]
    Refused(String),
}

fn refused(error: &AuthError) -> LoginError {
    LoginError::Refused(words(error))
}

/// A login that waits for the browser.
pub struct Login {
    session: AuthorizationSession,
    port: CallbackPort,
    store: TokenStore,
    server: String,
    url: Url,
}

impl Login {
    /// Finds the authorization server, registers, and prepares the address for the browser.
    ///
    /// # Errors
    ///
    /// Returns a message for people if there is no authorization server, or if it refuses becket.
    pub async fn begin(
        config: &ServerConfig,
        store: &TokenStore,
        proxies: &Proxies,
    ) -> Result<Self, LoginError> {
        let Endpoint::Http { url, oauth, headers, .. } = &config.endpoint else {
            return Err(LoginError::NotHttp(config.name.clone()));
        };
        if oauth.grant_type == Some(GrantType::ClientCredentials) {
            return Err(LoginError::NotAsked(config.name.clone()));
        }
        let url = Url::parse(url).map_err(|e| LoginError::Refused(e.to_string()))?;
        let port = CallbackPort::open(oauth.callback_port.unwrap_or(0)).await.map_err(LoginError::Port)?;
        let client = http::client(&url, proxies).map_err(LoginError::Refused)?;
        let headers = http::headers(headers).map_err(LoginError::Refused)?;
        let kept = store.challenge(&config.name, &url);
        let challenge = match kept {
            Some(challenge) => Some(challenge),
            None => challenge(&client, &url, headers).await,
        };
        let address = format!("http://127.0.0.1:{}/callback", port.number());
        let mut request = AuthorizationRequest::new(address).with_client_name("becket");
        if let Some(challenge) = &challenge {
            request = request.with_challenge(challenge.clone());
        }
        request = request.with_initial_scope_selection();
        let scopes = scopes(store, config, &url, challenge.as_deref()).await;
        if !scopes.is_empty() {
            request = request.with_scopes(scopes);
        }
        match &oauth.client_id {
            // Such an id is the address of a document that describes the client.
            Some(id) if id.starts_with("https://") => request = request.with_client_metadata_url(id.clone()),
            Some(id) => {
                request = request.with_preregistered_client(id.clone());
                if let Some(secret) = &oauth.client_secret {
                    request = request.with_client_secret(secret.clone());
                }
            }
            None => {}
        }
        let mut manager = new_manager(&url).await.map_err(|e| refused(&e))?;
        manager.set_credential_store(store.credentials(&config.name, &url, oauth.audience.as_deref(), true));
        let metadata = discovery::metadata(&manager, &client, &url, oauth, challenge.as_deref()).await;
        manager.set_metadata(metadata.map_err(|e| refused(&e))?);
        let session = AuthorizationSession::new(manager, request).await.map_err(|(_, e)| refused(&e))?;
        Ok(Self { session, port, store: store.clone(), server: config.name.clone(), url })
    }

    /// The address for the browser.
    pub fn address(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Waits for the browser or for a pasted address, and stores the tokens.
    ///
    /// # Errors
    ///
    /// Returns a message for people if the answer is not an authorization.
    pub async fn finish(self, pasted: impl Future<Output = Option<String>>) -> Result<(), LoginError> {
        let base = self.session.redirect_uri.trim_end_matches("/callback");
        let browser = self.port.answer(|path| Some(format!("{base}{path}")));
        let pasted = async {
            match pasted.await {
                Some(pasted) => pasted,
                // Nothing more can be pasted, so only the browser can answer.
                None => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            answer = browser => answer,
            answer = pasted => answer,
        };
        self.session.handle_callback_url(answer.trim()).await.map_err(|e| refused(&e))?;
        let _ = std::fs::remove_file(self.store.challenge_file(&self.server, &self.url));
        Ok(())
    }
}

/// Returns the scopes to ask for. Empty: the server says which.
///
/// If the server wants another scope than those of the stored token, all of them are asked for: a token with the new scope
/// alone would be refused by the calls that the old one allowed.
async fn scopes(
    store: &TokenStore,
    config: &ServerConfig,
    url: &Url,
    challenge: Option<&str>,
) -> Vec<String> {
    let Endpoint::Http { oauth, .. } = &config.endpoint else { return Vec::new() };
    let mut out = oauth.scopes.clone();
    let wanted = challenge.map(|challenge| WWWAuthenticateParams::parse(challenge, url));
    let Some(wanted) = wanted.filter(WWWAuthenticateParams::is_insufficient_scope) else { return out };
    let stored =
        store.credentials(&config.name, url, oauth.audience.as_deref(), true).load().await.ok().flatten();
    let granted = stored.map(|stored| stored.granted_scopes).unwrap_or_default();
    let more = wanted.scope.as_deref().unwrap_or_default().split_whitespace().map(str::to_owned);
    for scope in granted.into_iter().chain(more) {
        if !out.contains(&scope) {
            out.push(scope);
        }
    }
    out
}

/// Returns the server's answer to a request without a token.
async fn challenge(
    client: &reqwest::Client,
    url: &Url,
    headers: reqwest::header::HeaderMap,
) -> Option<String> {
    let body = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "becket", "version": env!("CARGO_PKG_VERSION")}},
    });
    let request = client.post(url.clone()).headers(headers).json(&body);
    let request = request
        .header(ACCEPT, "application/json, text/event-stream")
        .header(CONTENT_TYPE, "application/json");
    let response = request.send().await.ok()?;
    let header = response.headers().get(WWW_AUTHENTICATE)?;
    header.to_str().ok().map(str::to_owned)
}
