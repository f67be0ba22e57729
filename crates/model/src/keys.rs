//! The keys of an endpoint: what each request carries, and what messages say about it.
//!
//! Owns the secrets in use, so that they can be removed from messages. A key leaves only in its header.

use crate::auth::put_header;
use crate::credential::{Auth, AwsKeys, Credential, KeySource, NoKey, Secret, TokenSource};
use crate::endpoint::Endpoint;
use crate::sigv4;
use crate::{ErrorKind, ModelError};
use bytes::Bytes;
use reqwest::header::HeaderMap;
use sha2::{Digest as _, Sha256};
use std::sync::{Mutex, PoisonError};
use url::Url;

/// The keys of one endpoint.
pub(crate) struct Keys {
    /// The keys in use, so that they can be removed from messages.
    secrets: Mutex<Vec<Secret>>,
    /// Gives a token for each request, if there is no fixed key.
    tokens: Option<TokenSource>,
    /// The header that carries such a token.
    auth: Auth,
    /// Keys by which each request is signed for AWS.
    aws: Option<KeySource<AwsKeys>>,
    /// True if the keys for AWS expire, so new ones can be requested.
    renews_aws: bool,
    in_use: KeyInUse,
}

impl Keys {
    /// `auth`: the place of a key. `setting`: the environment variable that holds the server's address.
    pub(crate) fn for_endpoint(endpoint: &Endpoint, auth: Auth, setting: &str) -> Self {
        Self {
            secrets: Mutex::new(
                endpoint.credential.as_ref().and_then(Credential::secret).into_iter().cloned().collect(),
            ),
            tokens: match &endpoint.credential {
                Some(Credential::Token(source) | Credential::Asked(source)) => Some(source.clone()),
                _ => None,
            },
            auth,
            renews_aws: matches!(endpoint.credential, Some(Credential::AwsAsked(_))),
            aws: match &endpoint.credential {
                Some(Credential::Aws(keys)) => {
                    let keys = keys.clone();
                    Some(KeySource::new(move |_| {
                        let keys = keys.clone();
                        Box::pin(async move { Ok(keys) })
                    }))
                }
                Some(Credential::AwsAsked(source)) => Some(source.clone()),
                _ => None,
            },
            in_use: KeyInUse::for_endpoint(endpoint, setting),
        }
    }

    /// True if a new key can be requested after the server refused one with this status.
    pub(crate) fn can_renew(&self, status: u16) -> bool {
        // AWS refuses expired keys with 403.
        (status == 401 && self.tokens.is_some()) || (status == 403 && self.renews_aws)
    }

    /// Adds the signature of AWS, if the endpoint wants one.
    pub(crate) async fn sign(
        &self,
        headers: &mut HeaderMap,
        (method, url, body): (&str, &Url, &[Bytes]),
        refused: bool,
        server: &str,
    ) -> Result<(), ModelError> {
        let Some(source) = &self.aws else { return Ok(()) };
        let keys = source.get(refused).await.map_err(|missing| no_key(server, missing))?;
        self.add_secret(&keys.secret);
        if let Some(token) = &keys.session_token {
            self.add_secret(token);
        }
        let payload = body.iter().fold(Sha256::new(), |hash, piece| hash.chain_update(piece)).finalize();
        let region = of_host(url).or(keys.region.as_deref()).unwrap_or("us-east-1");
        let service = "bedrock";
        let request = sigv4::Signed { method, url, payload: payload.into(), region, service, more: &[] };
        for (name, value) in sigv4::headers(&request, &keys, jiff::Timestamp::now()) {
            put_header(headers, name, &value)?;
        }
        Ok(())
    }

    /// Adds a token, if there is no fixed key. `refused` is true if the server refused the last token.
    pub(crate) async fn add_token(
        &self,
        headers: &mut HeaderMap,
        refused: bool,
        server: &str,
    ) -> Result<(), ModelError> {
        let Some(source) = &self.tokens else { return Ok(()) };
        let token = source.get(refused).await.map_err(|missing| no_key(server, missing))?;
        if let Some((name, value)) = self.auth.header(&token) {
            put_header(headers, name, &value)?;
        }
        self.add_secret(&token);
        Ok(())
    }

    fn add_secret(&self, secret: &Secret) {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if !secrets.contains(secret) {
            secrets.push(secret.clone());
        }
    }

    /// Removes keys from a server's text, in case the server echoes them.
    pub(crate) fn redact(&self, text: &str) -> String {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let long = secrets.iter().map(Secret::expose).filter(|secret| secret.len() >= 4);
        long.fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }

    /// Adds to a refusal of the credentials which key was sent, or that none was.
    pub(crate) fn explain(&self, error: &mut ModelError) {
        self.in_use.explain(error);
    }
}

fn no_key(server: &str, missing: NoKey) -> ModelError {
    let message = format!("There is no key for {server}: {}", missing.why);
    ModelError::new(ErrorKind::Auth, message).hint(missing.hint)
}

/// The key that requests carry, as messages about a refusal name it.
enum KeyInUse {
    /// No key is sent. The text says how to give one.
    None(String),
    /// The variable or file of the key, if that is known.
    From(Option<String>),
}

impl KeyInUse {
    fn for_endpoint(endpoint: &Endpoint, setting: &str) -> Self {
        let is_key = |name: &str| {
            ["authorization", "x-api-key", "api-key", "x-goog-api-key"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
        };
        if endpoint.credential.is_some() {
            return Self::From(endpoint.key_source.clone());
        }
        if endpoint.headers.iter().any(|(name, _)| is_key(name)) {
            return Self::From(Some("the headers that are configured for this server".to_owned()));
        }
        let usual = match setting {
            "ANTHROPIC_BASE_URL" => "Set ANTHROPIC_API_KEY, or run `becket login anthropic`.",
            "OPENAI_BASE_URL" => "Set OPENAI_API_KEY, or run `becket login openai`.",
            _ => "Set its key in the environment, or run `becket login PROVIDER`.",
        };
        Self::None(endpoint.key_hint.clone().unwrap_or_else(|| usual.to_owned()))
    }

    /// Adds to a refusal of the credentials which key was sent, or that none was.
    fn explain(&self, error: &mut ModelError) {
        match self {
            Self::None(how) => {
                let words = ErrorKind::Auth.words();
                error.message = error.message.replacen(words, "wants a key, and no key was sent", 1);
                error.hint = Some(how.clone());
            }
            Self::From(Some(place)) => {
                let rest = error.hint.take().map(|hint| format!(" {hint}")).unwrap_or_default();
                error.hint = Some(format!("The key is from {place}.{rest}"));
            }
            Self::From(None) => {}
        }
    }
}

/// The region in an address of AWS: `bedrock-runtime.REGION.amazonaws.com`, `ID.bedrock-runtime.REGION.vpce.amazonaws.com`.
fn of_host(url: &Url) -> Option<&str> {
    let host = url.host_str()?;
    let aws = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"].iter().any(|end| host.ends_with(end));
    let mut labels = host.split('.').skip_while(|label| !label.starts_with("bedrock-runtime"));
    if aws { labels.nth(1) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_aws_names_its_region() {
        for (url, want) in [
            ("https://bedrock-runtime.eu-west-1.amazonaws.com/model/x", Some("eu-west-1")),
            ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", Some("us-gov-west-1")),
            ("https://bedrock-runtime.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("https://vpce-0123-abc.bedrock-runtime.eu-west-1.vpce.amazonaws.com", Some("eu-west-1")),
            ("https://gateway.corp.example/bedrock", None),
            ("https://bedrock-runtime.eu-west-1.example", None),
            ("http://127.0.0.1:8080", None),
        ] {
            assert_eq!(of_host(&Url::parse(url).unwrap()), want, "{url}");
        }
    }
}
