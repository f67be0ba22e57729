//! Tokens for programs that have no secret: a signed assertion (`private_key_jwt`, RFC 7523), a token of the workload's own
//! platform, or the identity of a person at an identity provider (enterprise-managed authorization).
//!
//! Owns the requests to token endpoints. An assertion is valid for minutes and for one authorization server. It is sent over
//! TLS, or to this machine. A refused request is not repeated, and no other kind of grant is tried in its place.

use super::audience::for_authorization_server;
use super::is_safe;
use super::signature::sign;
use crate::config::{GrantType, IdentityProvider, OAuthConfig};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::Client;
use rmcp::transport::AuthError;
use rmcp::transport::StoredCredentials;
use rmcp::transport::auth::AuthorizationMetadata;
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use url::{Url, form_urlencoded};

const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
/// The assertion by which an identity provider vouches for a person.
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// Lifetime of an assertion in seconds.
const LIFETIME: u64 = 300;
/// Maximum size of an answer, and of a file with a key or a token, in bytes.
const MOST_BYTES: usize = 64 * 1024;

/// Credentials of a program, for a server at one address.
pub(super) struct Exchange {
    url: Url,
    config: OAuthConfig,
}

/// Fields of a request to a token endpoint.
type Form = Vec<(&'static str, String)>;

impl Exchange {
    /// Returns the exchange that a configuration asks for; `None` if the program has id and secret, or if a person logs in.
    ///
    /// # Errors
    ///
    /// Returns a message for people that names the missing field.
    pub(super) fn from_config(url: &Url, config: &OAuthConfig) -> Result<Option<Self>, String> {
        let has_key = config.private_key.is_some() || config.private_key_file.is_some();
        let has_assertion = config.assertion.is_some()
            || config.assertion_file.is_some()
            || config.identity_provider.is_some();
        match config.grant_type {
            Some(GrantType::ClientCredentials) if has_key && config.client_id.is_none() => {
                return Err("grantType client_credentials needs clientId".to_owned());
            }
            Some(GrantType::ClientCredentials) if has_key => {}
            Some(GrantType::JwtBearer) if !has_assertion => {
                return Err(
                    "grantType jwt_bearer needs assertion, assertionFile or identityProvider".to_owned()
                );
            }
            Some(GrantType::JwtBearer) => {}
            _ => return Ok(None),
        }
        Ok(Some(Self { url: url.clone(), config: config.clone() }))
    }

    pub(super) async fn token(
        &self,
        client: &Client,
        metadata: &AuthorizationMetadata,
    ) -> Result<StoredCredentials, AuthError> {
        let audience = metadata.issuer.as_deref().unwrap_or(&metadata.token_endpoint);
        let mut form: Form = Vec::new();
        let mut basic = None;
        if self.config.grant_type == Some(GrantType::ClientCredentials) {
            let id = self.config.client_id.clone().unwrap_or_default();
            let key = text(
                self.config.private_key.as_ref(),
                self.config.private_key_file.as_deref(),
                "privateKeyFile",
            )?;
            form.push(("grant_type", "client_credentials".to_owned()));
            form.push(("client_assertion_type", CLIENT_ASSERTION.to_owned()));
            form.push(("client_assertion", assertion(&key, &id, audience).map_err(failed)?));
        } else {
            form.push(("grant_type", JWT_BEARER.to_owned()));
            let assertion = self.assertion(client, audience).await?;
            // If the configuration names an `issuer`, the user has decided where the assertion is sent.
            if self.config.issuer.is_none() {
                for_authorization_server(&assertion, &[audience, &metadata.token_endpoint])
                    .map_err(failed)?;
            }
            form.push(("assertion", assertion));
            match (&self.config.client_id, &self.config.client_secret) {
                (Some(id), Some(secret)) if takes_basic(metadata) => basic = Some(header(id, secret)),
                (Some(id), secret) => {
                    form.push(("client_id", id.clone()));
                    form.extend(secret.clone().map(|secret| ("client_secret", secret)));
                }
                (None, _) => {}
            }
        }
        self.add_target(&mut form);
        let answer = post(client, &metadata.token_endpoint, &form, basic).await?;
        let scopes = match answer["scope"].as_str() {
            Some(scopes) => scopes.split_whitespace().map(str::to_owned).collect(),
            None => self.config.scopes.clone(),
        };
        serde_json::from_value(json!({
            "client_id": self.config.client_id.clone().unwrap_or_default(), "token_response": answer,
            "granted_scopes": scopes, "token_received_at": now(),
        }))
        .map_err(|_| failed("its answer is not a token".to_owned()))
    }

    fn add_target(&self, form: &mut Form) {
        if !self.config.scopes.is_empty() {
            form.push(("scope", self.config.scopes.join(" ")));
        }
        form.push(("resource", self.url.to_string()));
    }

    /// Returns the assertion of the workload, or of the person at the identity provider.
    async fn assertion(&self, client: &Client, audience: &str) -> Result<String, AuthError> {
        let Some(provider) = &self.config.identity_provider else {
            return text(
                self.config.assertion.as_ref(),
                self.config.assertion_file.as_deref(),
                "assertionFile",
            );
        };
        let IdentityProvider { token_endpoint, client_id, id_token, id_token_file } = provider;
        let mut form: Form = vec![
            ("grant_type", TOKEN_EXCHANGE.to_owned()),
            ("requested_token_type", ID_JAG.to_owned()),
            ("subject_token", text(id_token.as_ref(), id_token_file.as_deref(), "idTokenFile")?),
            ("subject_token_type", ID_TOKEN.to_owned()),
            ("audience", audience.to_owned()),
            ("client_id", client_id.clone()),
        ];
        self.add_target(&mut form);
        let answer = post(client, token_endpoint, &form, None).await?;
        match (answer["access_token"].as_str(), answer["issued_token_type"].as_str()) {
            (Some(token), None | Some(ID_JAG)) => Ok(token.to_owned()),
            _ => Err(failed("the identity provider's answer has no assertion for other servers".to_owned())),
        }
    }
}

/// Returns a value of the configuration, or the text of the file that it names.
fn text(value: Option<&String>, file: Option<&Path>, key: &str) -> Result<String, AuthError> {
    if let Some(value) = value {
        return Ok(value.trim().to_owned());
    }
    let file = file.ok_or_else(|| failed(format!("{key} is missing")))?;
    let unread =
        |why: &dyn std::fmt::Display| failed(format!("{key} {} cannot be read: {why}", file.display()));
    let (opened, _) = becket_tool::paths::open_file(file).map_err(|error| unread(&error))?;
    let mut text = String::new();
    opened.take(MOST_BYTES as u64).read_to_string(&mut text).map_err(|error| unread(&error))?;
    Ok(text.trim().to_owned())
}

/// Returns an assertion by which a client proves that it has its key.
fn assertion(key: &str, client_id: &str, audience: &str) -> Result<String, String> {
    let time = now();
    let claims = json!({
        "iss": client_id, "sub": client_id, "aud": audience, "iat": time, "exp": time + LIFETIME,
        "jti": becket_types::MessageId::new().to_string(),
    });
    sign(key, |algorithm| {
        let head = json!({ "alg": algorithm, "typ": "client-authentication+jwt" });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}", part(&head), part(&claims))
    })
    .map(|(message, signature)| format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn takes_basic(metadata: &AuthorizationMetadata) -> bool {
    let methods =
        metadata.additional_fields.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    methods.is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic"))
}

/// Returns the value of `Authorization` for an id and a secret. Both are encoded like fields of a form.
fn header(id: &str, secret: &str) -> String {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret))))
}

async fn post(
    client: &Client,
    address: &str,
    form: &Form,
    basic: Option<String>,
) -> Result<Value, AuthError> {
    if !is_safe(address) {
        return Err(failed(format!(
            "nothing is sent to {address}, because the connection is not encrypted; use https"
        )));
    }
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let mut request = client
        .post(address)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("accept", "application/json")
        .body(body);
    if let Some(basic) = basic {
        request = request.header("authorization", basic);
    }
    let mut answer = request.send().await.map_err(|error| failed(super::reasons(&error)))?;
    let status = answer.status();
    let mut bytes = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| failed(super::reasons(&error)))? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MOST_BYTES {
            return Err(failed(format!("its answer is longer than {} kB", MOST_BYTES / 1024)));
        }
    }
    let value: Value = becket_types::parse_json_bytes(&bytes).unwrap_or_default();
    if status.is_success() && value["access_token"].is_string() {
        return Ok(value);
    }
    let words: Vec<&str> =
        ["error", "error_description"].iter().filter_map(|key| value[*key].as_str()).collect();
    Err(failed(if words.is_empty() { format!("it answered with status {status}") } else { words.join(": ") }))
}

fn failed(why: String) -> AuthError {
    AuthError::OAuthError(becket_types::cut_end(&why, 500).to_owned())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let url = Url::parse("https://a.example/mcp").unwrap();
        let of = |value: Value| {
            let config: OAuthConfig = serde_json::from_value(value).unwrap();
            Exchange::from_config(&url, &config).map(|exchange| exchange.is_some())
        };
        assert_eq!(of(json!({})), Ok(false));
        assert_eq!(
            of(json!({ "grantType": "client_credentials", "clientId": "c", "clientSecret": "s" })),
            Ok(false)
        );
        assert_eq!(
            of(json!({ "grantType": "client_credentials", "clientId": "c", "privateKeyFile": "k" })),
            Ok(true)
        );
        assert_eq!(of(json!({ "grantType": "jwt_bearer", "assertion": "a.b.c" })), Ok(true));
        let idp = json!({ "tokenEndpoint": "https://idp.example/token", "clientId": "c", "idToken": "t" });
        assert_eq!(of(json!({ "grantType": "jwt_bearer", "identityProvider": idp })), Ok(true));
        assert!(
            of(json!({ "grantType": "client_credentials", "privateKey": "k" }))
                .unwrap_err()
                .contains("clientId")
        );
        assert!(
            of(json!({ "grantType": "jwt_bearer", "clientId": "c" })).unwrap_err().contains("assertionFile")
        );
    }

    #[test]
    fn an_id_and_a_secret_are_encoded_before_they_are_joined() {
        assert_eq!(header("a:b", "ä/ %"), format!("Basic {}", STANDARD.encode("a%3Ab:%C3%A4%2F+%25")));
    }

    #[tokio::test]
    async fn nothing_is_sent_where_others_can_read_it() {
        let form: Form = vec![("assertion", "secret".to_owned())];
        let error = post(&Client::new(), "http://login.example/token", &form, None).await.unwrap_err();
        assert!(error.to_string().contains("not encrypted") && !error.to_string().contains("secret"));
    }
}
