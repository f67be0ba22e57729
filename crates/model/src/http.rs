//! The HTTP client of an endpoint, created when it is first needed.
//!
//! Plain-HTTP endpoints do not load the system's certificates, which saves about 3 ms. Loopback goes through no proxy.
//! Redirects are not followed, because a key must not travel to another host. Failures become typed errors without the key.

use crate::auth::put_header;
use crate::body_limit::ServerBody;
use crate::errors::{Failure, classify};
use crate::ids::{FNV_START, fnv};
use crate::proxy::{Way, proxies};
use crate::retry::wait_from_headers;
use crate::settings::{AwsKeys, Credential, Endpoint, Secret, Settings, TokenSource};
use crate::sigv4;
use crate::tls_fault::{issuers_fault, tls_fault};
use crate::wire::Pieces;
use crate::{ErrorKind, ModelError};
use bytes::Bytes;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderMap;
use reqwest::{Client, Response};
use sha2::{Digest as _, Sha256};
use std::error::Error as _;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use url::{Host, Url};

/// Limit, in bytes, on a list of models or the properties of a server. The longest lists, with prices and texts, have a few
/// megabytes.
const MAX_JSON_BODY: usize = 32 << 20;
/// Limit on an error body, in bytes. The rest is not read.
const MAX_ERROR_BODY: usize = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of refused requests that are remembered.
const REFUSED: usize = 8;

/// The address of an endpoint, with everything that sending requests there needs.
pub(crate) struct Transport {
    pub url: Url,
    /// The server's name in messages, such as `https://api.anthropic.com`.
    pub server: String,
    /// True for a server on this machine.
    pub local: bool,
    /// The environment variable that holds the server's address.
    setting: String,
    headers: HeaderMap,
    /// The keys in use, so that they can be removed from messages.
    secrets: Mutex<Vec<Secret>>,
    /// Gives a token for each request, if there is no fixed key.
    tokens: Option<TokenSource>,
    /// Keys by which each request is signed for AWS.
    aws: Option<AwsKeys>,
    key: KeyInUse,
    fatal_codes: Vec<String>,
    settings: Settings,
    client: OnceLock<Result<Client, String>>,
    /// The limit on the size of a body.
    pub body: ServerBody,
    /// Length and hash of bodies that were refused permanently, each with the error. They are not sent again.
    refused: Mutex<Vec<(usize, u64, ModelError)>>,
}

/// The key that requests carry, as messages about a refusal name it.
enum KeyInUse {
    /// No key is sent. The text says how to give one.
    None(String),
    /// The key is from this place, if that is known.
    From(Option<String>),
}

impl KeyInUse {
    fn of(endpoint: &Endpoint, setting: &str) -> Self {
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

/// Joins a base URL, with or without `/v1`, and a path below `/v1`.
///
/// A base with a path of its own (`https://openrouter.ai/api/v1`, `…/api/paas/v4`) is used unchanged with `keep_path`, as
/// OpenAI's libraries do. Without it, `/v1` is added, as Anthropic's libraries do.
pub(crate) fn join(base: &str, path: &str, keep_path: bool) -> Result<Url, ModelError> {
    let bad = |why: String| {
        ModelError::new(
            ErrorKind::NotFound,
            format!("The base URL `{}` cannot be used: {why}.", without_login(base)),
        )
        .hint("Write it as http://HOST:PORT or https://HOST/v1.")
    };
    let mut url = Url::parse(base.trim()).map_err(|e| bad(e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(bad("it is not http or https".to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("it holds a login; give credentials as a key".to_owned()));
    }
    url.set_query(None);
    url.set_fragment(None);
    let own = url.path().trim_end_matches('/').trim_end_matches(path).trim_end_matches('/').to_owned();
    let last = own.rsplit('/').next().unwrap_or_default();
    let versioned = last.starts_with('v') && last[1..].starts_with(|c: char| c.is_ascii_digit());
    let prefix = if versioned || (keep_path && !own.is_empty()) { own } else { format!("{own}/v1") };
    url.set_path(&format!("{prefix}{path}"));
    Ok(url)
}

fn without_login(base: &str) -> String {
    match (base.find("://"), base.find('@')) {
        (Some(start), Some(at)) if start < at => format!("{}…{}", &base[..start + 3], &base[at..]),
        _ => base.to_owned(),
    }
}

pub(crate) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback() || ip.is_unspecified(),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unspecified(),
        None => false,
    }
}

impl Transport {
    pub(crate) fn new(
        url: Url,
        setting: &str,
        endpoint: &Endpoint,
        own_headers: &[(&str, String)],
        settings: &Settings,
    ) -> Result<Self, ModelError> {
        let mut headers = HeaderMap::new();
        let extra = endpoint.headers.iter().map(|(n, v)| (n.as_str(), v));
        for (name, value) in own_headers.iter().map(|(n, v)| (*n, v)).chain(extra) {
            put_header(&mut headers, name, value)?;
        }
        let local = is_local(&url);
        if !local {
            proxies(settings)?;
        }
        let body = ServerBody::new(url.to_string(), settings.body_limits.clone());
        Ok(Self {
            server: url.origin().ascii_serialization(),
            local,
            url,
            setting: setting.to_owned(),
            headers,
            secrets: Mutex::new(
                endpoint.credential.as_ref().and_then(Credential::secret).into_iter().cloned().collect(),
            ),
            tokens: match &endpoint.credential {
                Some(Credential::Token(source)) => Some(source.clone()),
                _ => None,
            },
            aws: match &endpoint.credential {
                Some(Credential::Aws(keys)) => Some(keys.clone()),
                _ => None,
            },
            key: KeyInUse::of(endpoint, setting),
            fatal_codes: Vec::new(),
            settings: settings.clone(),
            client: OnceLock::new(),
            body,
            refused: Mutex::default(),
        })
    }

    /// Sets the codes of errors for which a retry never helps.
    pub(crate) fn with_fatal_codes(mut self, codes: &[String]) -> Self {
        self.fatal_codes = codes.to_vec();
        self
    }

    /// True if a new token can be requested after the server refused one.
    pub(crate) fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Builds the headers of one request. `refused` is true if the server refused the last token.
    async fn request_headers(
        &self,
        refused: bool,
        method: &str,
        url: &Url,
        body: &[Bytes],
    ) -> Result<HeaderMap, ModelError> {
        let mut headers = self.headers.clone();
        if let Some(keys) = &self.aws {
            let payload = body.iter().fold(Sha256::new(), |hash, piece| hash.chain_update(piece)).finalize();
            // `bedrock-runtime.REGION.amazonaws.com`
            let region = url.host_str().and_then(|host| host.split('.').nth(1)).unwrap_or("us-east-1");
            let request = sigv4::Signed { method, url, payload: payload.into(), region, service: "bedrock" };
            for (name, value) in sigv4::headers(&request, keys, jiff::Timestamp::now()) {
                put_header(&mut headers, name, &value)?;
            }
        }
        if let Some(source) = &self.tokens {
            let token = source.token(refused).await.map_err(|why| {
                ModelError::new(ErrorKind::Auth, format!("There is no key for {}: {why}", self.server))
                    .hint("Correct key_command of this provider, or log in again (`becket login`).")
            })?;
            put_header(&mut headers, "authorization", &format!("Bearer {}", token.expose()))?;
            let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
            if !secrets.contains(&token) {
                secrets.push(token);
            }
        }
        Ok(headers)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn client(&self) -> Result<&Client, ModelError> {
        let made = self.client.get_or_init(|| build(&self.url, self.local, &self.settings));
        made.as_ref().map_err(|why| match issuers_fault(&self.settings.issuers) {
            Some(fault) => {
                let message =
                    format!("No server can be trusted, because no issuer of certificates is known: {fault}");
                ModelError::new(ErrorKind::Tls, message).hint("Correct the variable, or unset it.")
            }
            None if why.contains("No CA certificates") => {
                let message =
                    "No server can be trusted, because this machine knows no issuer of certificates";
                ModelError::new(ErrorKind::Tls, message).hint("Install the system's package ca-certificates.")
            }
            None => ModelError::new(ErrorKind::Tls, format!("No HTTP client can be made: {why}")),
        })
    }

    /// Sends one request. Returns the response, of any status, once its headers have arrived.
    pub(crate) async fn post(
        &self,
        body: &[Bytes],
        request_id: &str,
        refused: bool,
    ) -> Result<Response, ModelError> {
        let request = self
            .client()?
            .post(self.url.clone())
            .headers(self.request_headers(refused, "POST", &self.url, body).await?)
            .header("content-type", "application/json")
            .header("accept", "text/event-stream, application/json")
            .header("x-client-request-id", request_id)
            .body(reqwest::Body::wrap(Pieces::new(body)));
        request.send().await.map_err(|e| self.unreachable(e))
    }

    /// Fetches a JSON document from another path of the same server.
    pub(crate) async fn get_json(
        &self,
        url: Url,
        timeout: Duration,
    ) -> Result<serde_json::Value, ModelError> {
        let headers = self.request_headers(false, "GET", &url, &[]).await?;
        let request = self.client()?.get(url).headers(headers).timeout(timeout);
        let mut response = request.send().await.map_err(|e| self.unreachable(e))?;
        if !response.status().is_success() {
            return Err(self.failure(response).await);
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.unreachable(e))? {
            body.extend_from_slice(&chunk);
            // Some servers answer every path with their web page or with a stream of events. The rest of it is not read.
            if body.trim_ascii_start().first().is_some_and(|byte| !matches!(byte, b'{' | b'[')) {
                let message = format!("{} sent something that is not JSON.", self.server);
                return Err(ModelError::new(ErrorKind::Malformed, message));
            }
            if body.len() > MAX_JSON_BODY {
                let message = format!("{} sent more than {MAX_JSON_BODY} bytes.", self.server);
                return Err(ModelError::new(ErrorKind::Malformed, message));
            }
        }
        serde_json::from_slice(&body).map_err(|_| {
            let message = format!("{} sent something that is not JSON ({} bytes).", self.server, body.len());
            ModelError::new(ErrorKind::Malformed, message)
        })
    }

    /// Reads the body of an unsuccessful response and turns it into a typed error.
    pub(crate) async fn failure(&self, mut response: Response) -> ModelError {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                body.extend_from_slice(&chunk);
                if body.len() > MAX_ERROR_BODY {
                    break;
                }
            }
        };
        // Do not wait for a body that does not end: status and headers say most.
        let _ = tokio::time::timeout(ERROR_BODY_TIMEOUT, read).await;
        let get = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        let proxy = self.proxy();
        // Only a proxy asks with this status, and only without TLS does its answer come instead of the server's.
        if let Some(proxy) = proxy.as_ref().filter(|_| status == 407) {
            let error = proxy.wants_login();
            let message = format!("{} cannot be reached: {}", self.server, error.message);
            return ModelError { message, ..error };
        }
        let plain = proxy.filter(|_| self.url.scheme() == "http");
        let server = match plain {
            Some(proxy) => format!("{}, or the proxy {proxy} before it,", self.server),
            None => self.server.clone(),
        };
        let mut error = classify(&Failure {
            status: Some(status),
            body: &self.redact(&String::from_utf8_lossy(&body)),
            retry_after: wait_from_headers(get, jiff::Timestamp::now()),
            should_retry: get("x-should-retry").and_then(|v| v.trim().parse().ok()),
            request_id: request_id(&headers),
            server: &server,
            fatal_codes: &self.fatal_codes,
        });
        if error.kind == ErrorKind::Auth {
            self.key.explain(&mut error);
        }
        if (300..400).contains(&status) {
            let to = get("location").map(|l| format!(" to {}", without_login(l))).unwrap_or_default();
            error.message = format!(
                "{} redirects{to} (status {status}); becket sends keys to no other address.",
                self.server
            );
            error.hint = Some("Set the base URL to where the server really is.".to_owned());
        }
        error
    }

    /// Removes keys from a server's text, in case the server echoes them.
    pub(crate) fn redact(&self, text: &str) -> String {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let long = secrets.iter().map(Secret::expose).filter(|secret| secret.len() >= 4);
        long.fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }

    /// The typed error for a request without a response, or whose response broke off.
    pub(crate) fn unreachable(&self, error: reqwest::Error) -> ModelError {
        let error = error.without_url();
        let mut causes = vec![error.to_string()];
        let (mut tls, mut refused, mut bad_name) = (false, false, false);
        let mut next = error.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            if let Some(unresolved) = cause.downcast_ref() {
                return self.unresolved(unresolved);
            }
            bad_name |= cause.is::<rustls::pki_types::InvalidDnsNameError>();
            tls |= cause.is::<rustls::Error>();
            let io = cause.downcast_ref::<std::io::Error>();
            refused |= io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused);
            // The error inside an I/O error is not reported as its source, and may be an I/O error again.
            next = match io.and_then(std::io::Error::get_ref) {
                Some(inner) => Some(inner),
                None => cause.source(),
            };
        }
        causes.dedup();
        let why = self.redact(causes.last().map_or("", String::as_str));
        let server = &self.server;
        if error.is_builder() {
            return ModelError::new(ErrorKind::InvalidRequest, format!("The request cannot be made: {why}"));
        }
        if bad_name {
            let host = self.url.host_str().unwrap_or_default().to_owned();
            return self.unresolved(&Unresolved { host, why, temporary: false });
        }
        if tls {
            let (why, todo) = tls_fault(&why, &self.settings.issuers);
            let proxy = match self.proxy() {
                Some(Way { names, .. }) => {
                    format!(" If the proxy in {names} opens connections, its certificate is needed.")
                }
                None => String::new(),
            };
            return ModelError::new(ErrorKind::Tls, format!("{server} cannot be trusted: {why}"))
                .hint(format!("{todo}{proxy}"));
        }
        let proxy = self.proxy();
        if let Some(proxy) = proxy.filter(|_| !error.is_timeout() || error.is_connect()) {
            return proxy.fault(&self.url, error.is_connect(), &why);
        }
        if error.is_timeout() {
            let message = format!("{server} did not answer in time: {why}");
            return ModelError::new(ErrorKind::Timeout, message)
                .hint("Check the network, or try again later.");
        }
        let hint = if self.local && refused {
            "Start the model server, or correct the base URL."
        } else {
            "Check the network and the base URL (`becket doctor`)."
        };
        ModelError::new(ErrorKind::Network, format!("{server} cannot be reached: {why}")).hint(hint)
    }

    /// The proxy that its requests go through.
    fn proxy(&self) -> Option<Way> {
        if self.local { None } else { Way::to(&self.url, &self.settings.proxies) }
    }

    /// The error for a name that cannot be resolved. If the name does not exist, a retry is useless; if the resolver does not
    /// answer, it may help.
    fn unresolved(&self, Unresolved { host, why, temporary }: &Unresolved) -> ModelError {
        let setting =
            if self.url.host_str() == Some(host) { &self.setting } else { "HTTPS_PROXY or HTTP_PROXY" };
        let message = format!("The name `{host}` cannot be resolved: {why}.");
        let hint = if *temporary {
            format!("Check the network and its DNS server, and {setting} if it is set.")
        } else {
            format!("Correct {setting} if it is set; else check the network.")
        };
        ModelError { retryable: *temporary, ..ModelError::new(ErrorKind::Dns, message).hint(hint) }
    }

    /// The error with which the same bytes were permanently refused before, if they were.
    pub(crate) fn refused_before(&self, body: &[Bytes]) -> Option<ModelError> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let length = body.iter().map(Bytes::len).sum::<usize>();
        // Hashing is expensive, and comparing lengths is enough nearly always.
        if !refused.iter().any(|(len, ..)| *len == length) {
            return None;
        }
        let hash = hash(body);
        refused.iter().find(|(len, h, _)| (*len, *h) == (length, hash)).map(|(.., error)| error.clone())
    }

    pub(crate) fn note_refused(&self, body: &[Bytes], error: &ModelError) {
        let for_good = matches!(
            error.kind,
            ErrorKind::InvalidRequest | ErrorKind::ContextOverflow | ErrorKind::TooLarge
        );
        if error.retryable || !for_good {
            return;
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= REFUSED {
            refused.remove(0);
        }
        refused.push((body.iter().map(Bytes::len).sum(), hash(body), error.clone()));
    }
}

/// Hashes a body independently of the borders between its pieces, which differ from request to request.
fn hash(body: &[Bytes]) -> u64 {
    body.iter().fold(FNV_START, |hash, piece| fnv(hash, piece))
}

pub(crate) fn request_id(headers: &HeaderMap) -> Option<&str> {
    ["request-id", "x-request-id", "cf-ray"].iter().find_map(|name| headers.get(*name)?.to_str().ok())
}

fn build(url: &Url, local: bool, settings: &Settings) -> Result<Client, String> {
    let mut builder = Client::builder()
        .no_proxy()
        .no_gzip()
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .connect_timeout(settings.connect_timeout)
        .dns_resolver(Names)
        .user_agent(concat!("becket/", env!("CARGO_PKG_VERSION")));
    let proxies = if local { Vec::new() } else { proxies(settings).map_err(|error| error.message)? };
    let proxied = !proxies.is_empty();
    for proxy in proxies {
        builder = builder.proxy(proxy);
    }
    if url.scheme() == "http" && !proxied {
        builder = builder.http1_only().tls_certs_only([]);
    }
    builder.build().map_err(|e| {
        let cause = e.source().map(|s| format!(": {s}")).unwrap_or_default();
        format!("{e}{cause}")
    })
}

/// The system's resolver. Its errors say which name could not be resolved and whether a retry makes sense.
struct Names;

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str().to_owned();
            // The caller sets the port.
            let found = tokio::net::lookup_host((host.as_str(), 0)).await.map(Iterator::collect::<Vec<_>>);
            let found = found.map_err(|error| Unresolved::new(host, &error.to_string()))?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{host} cannot be resolved: {why}")]
struct Unresolved {
    host: String,
    why: String,
    /// True for `EAI_AGAIN`: the resolver did not answer. False: it answered that there is no such name.
    temporary: bool,
}

impl Unresolved {
    /// Rust reports the resolver's code only as text, so the texts of glibc, musl and macOS for `EAI_AGAIN` are listed here.
    fn new(host: String, error: &str) -> Self {
        let why = error.rsplit(": ").next().unwrap_or(error).to_owned();
        let lower = why.to_ascii_lowercase();
        let temporary = lower.contains("temporary") || lower.contains("try again");
        Self { host, why, temporary }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_as_people_write_them() {
        for (base, path, keep, want) in [
            ("https://api.anthropic.com", "/messages", false, "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/v1/", "/messages", false, "https://api.anthropic.com/v1/messages"),
            (
                "https://api.deepseek.com/anthropic",
                "/messages",
                false,
                "https://api.deepseek.com/anthropic/v1/messages",
            ),
            ("http://localhost:8080", "/chat/completions", true, "http://localhost:8080/v1/chat/completions"),
            (
                "http://localhost:8080/v1",
                "/chat/completions",
                true,
                "http://localhost:8080/v1/chat/completions",
            ),
            (
                "http://localhost:8080/v1/chat/completions",
                "/chat/completions",
                true,
                "http://localhost:8080/v1/chat/completions",
            ),
            (
                "https://openrouter.ai/api/v1",
                "/chat/completions",
                true,
                "https://openrouter.ai/api/v1/chat/completions",
            ),
            (
                "https://api.z.ai/api/paas/v4/",
                "/chat/completions",
                true,
                "https://api.z.ai/api/paas/v4/chat/completions",
            ),
            (
                "https://generativelanguage.googleapis.com/v1beta/openai",
                "/chat/completions",
                true,
                "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
            ),
        ] {
            assert_eq!(join(base, path, keep).unwrap().as_str(), want);
        }
        for base in ["", "localhost:8080", "ftp://x", "https://user:pw@host"] {
            let error = join(base, "/messages", false).unwrap_err();
            assert!(!error.message.contains("pw"), "{}", error.message);
        }
    }

    #[test]
    fn which_names_may_resolve_in_a_moment() {
        for (error, why, temporary) in [
            (
                "failed to lookup address information: Name or service not known",
                "Name or service not known",
                false,
            ),
            (
                "failed to lookup address information: Temporary failure in name resolution",
                "Temporary failure in name resolution",
                true,
            ),
            ("failed to lookup address information: Try again", "Try again", true),
            ("failed to lookup address information: Name does not resolve", "Name does not resolve", false),
            ("No address associated with hostname", "No address associated with hostname", false),
            (
                "failed to lookup address information: nodename nor servname provided, or not known",
                "nodename nor servname provided, or not known",
                false,
            ),
        ] {
            let want = Unresolved { host: "h".to_owned(), why: why.to_owned(), temporary };
            assert_eq!(Unresolved::new("h".to_owned(), error), want);
        }
    }

    #[test]
    fn loopback_is_local() {
        for (url, want) in [
            ("http://127.0.0.1:1/", true),
            ("http://127.9.9.9/", true),
            ("http://[::1]:8/", true),
            ("http://localhost/", true),
            ("http://0.0.0.0:8/", true),
            ("https://localhost.evil.com/", false),
            ("http://192.168.1.2/", false),
        ] {
            assert_eq!(is_local(&Url::parse(url).unwrap()), want, "{url}");
        }
    }
}
