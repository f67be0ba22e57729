//! The HTTP client of an endpoint, created when it is first needed.
//!
//! Plain-HTTP endpoints do not load the system's certificates, which saves about 3 ms. Loopback goes through no proxy.
//! Redirects are not followed, because a key must not travel to another host. Failures become typed errors without the key.

use crate::auth::put_header;
use crate::body_limit::ServerBody;
use crate::errors::{Failure, classify};
use crate::ids::{FNV_START, fnv};
use crate::retry::wait_from_headers;
use crate::settings::{AwsKeys, Credential, Endpoint, Proxies, Secret, Settings, TokenSource};
use crate::sigv4;
use crate::wire::Pieces;
use crate::{ErrorKind, ModelError};
use bytes::Bytes;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderMap;
use reqwest::{Client, Proxy, Response};
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
/// Schemes of proxies that the client supports. It would silently ignore any other, so becket refuses those itself.
const PROXY_SCHEMES: [&str; 6] = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

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
    fatal_codes: Vec<String>,
    settings: Settings,
    client: OnceLock<Result<Client, String>>,
    /// The limit on the size of a body.
    pub body: ServerBody,
    /// Length and hash of bodies that were refused permanently, each with the error. They are not sent again.
    refused: Mutex<Vec<(usize, u64, ModelError)>>,
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

/// Describes the fault of a certificate or handshake in plain words, and what to do about it. An unknown fault keeps the
/// library's words.
fn tls_fault(why: &str) -> (String, &'static str) {
    const ISSUER: &str = "Name the issuer's certificate with SSL_CERT_FILE=FILE (PEM) if you trust it.";
    const CLOCK: &str =
        "Check the clock of this machine; if it is right, the server needs a new certificate.";
    const NAME: &str = "Check the host in the base URL, or have the server use a certificate for it.";
    const SERVER: &str = "Have the server use a certificate of its own that this issuer signed.";
    const SCHEME: &str = "Write the base URL with http:// if the server has no TLS.";
    const OTHER: &str = "Check the address and the certificate of the server; a private issuer is named with SSL_CERT_FILE=FILE (PEM).";
    let known = [
        ("UnknownIssuer", "this machine does not trust the issuer of its certificate", ISSUER),
        ("Expired", "its certificate has expired", CLOCK),
        ("expired", "its certificate has expired", CLOCK),
        ("NotValidYet", "its certificate is not valid yet", CLOCK),
        ("not valid yet", "its certificate is not valid yet", CLOCK),
        ("NotValidForName", "its certificate is for another name", NAME),
        ("not valid for", "its certificate is for another name", NAME),
        ("Revoked", "its certificate was revoked", OTHER),
        ("CaUsedAsEndEntity", "its certificate is that of an issuer, not of a server", SERVER),
        ("BadSignature", "its certificate has a wrong signature", OTHER),
        ("InvalidContentType", "it does not speak TLS there", SCHEME),
        ("corrupt message", "it does not speak TLS there", SCHEME),
    ];
    let found = known.iter().find(|(mark, ..)| why.contains(mark));
    found.map_or_else(|| (why.to_owned(), OTHER), |(_, plain, todo)| ((*plain).to_owned(), todo))
}

/// Describes the fault of a variable that names trusted issuers; `None` if there is no fault. `variables`: name and value.
fn issuers_fault(variables: &[(&'static str, String)]) -> Option<String> {
    variables.iter().find_map(|(name, value)| {
        let path = std::path::Path::new(value);
        let fault = match path.metadata() {
            Err(error) => error.to_string(),
            Ok(meta) if meta.is_dir() && name.ends_with("FILE") => "it is a folder".to_owned(),
            Ok(meta) if meta.is_dir() => return None,
            Ok(_) => match std::fs::read(path) {
                Err(error) => error.to_string(),
                Ok(bytes) if bytes.windows(16).any(|some| some == b"BEGIN CERTIFICAT") => return None,
                Ok(_) => "it holds no certificate (PEM)".to_owned(),
            },
        };
        Some(format!("{name} names {value}: {fault}"))
    })
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
        let mut error = classify(&Failure {
            status: Some(status),
            body: &self.redact(&String::from_utf8_lossy(&body)),
            retry_after: wait_from_headers(get, jiff::Timestamp::now()),
            should_retry: get("x-should-retry").and_then(|v| v.trim().parse().ok()),
            request_id: request_id(&headers),
            server: &self.server,
            fatal_codes: &self.fatal_codes,
        });
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
            let (why, todo) = tls_fault(&why);
            let proxy = match self.proxy() {
                Some(names) => {
                    format!(" If the proxy in {names} opens connections, its certificate is needed.")
                }
                None => String::new(),
            };
            return ModelError::new(ErrorKind::Tls, format!("{server} cannot be trusted: {why}"))
                .hint(format!("{todo}{proxy}"));
        }
        if error.is_timeout() {
            let message = format!("{server} did not answer in time: {why}");
            return ModelError::new(ErrorKind::Timeout, message)
                .hint("Check the network, or try again later.");
        }
        let hint = match self.proxy() {
            _ if self.local && refused => "Start the model server, or correct the base URL.".to_owned(),
            None => "Check the network and the base URL (`becket doctor`).".to_owned(),
            Some(names) => {
                format!("Check the network, the proxy in {names}, and the base URL (`becket doctor`).")
            }
        };
        ModelError::new(ErrorKind::Network, format!("{server} cannot be reached: {why}")).hint(hint)
    }

    /// The variables that name the proxy for these requests, if there is one.
    fn proxy(&self) -> Option<&'static str> {
        let Proxies { https, http, .. } = &self.settings.proxies;
        let (proxy, names) = match self.url.scheme() {
            "https" => (https, "HTTPS_PROXY or ALL_PROXY"),
            _ => (http, "HTTP_PROXY or ALL_PROXY"),
        };
        proxy.as_ref().filter(|_| !self.local).map(|_| names)
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

/// The proxies of the environment. A proxy that has no valid address, or that the client would silently ignore, is an error,
/// because requests must not bypass a proxy that the user has set.
fn proxies(settings: &Settings) -> Result<Vec<Proxy>, ModelError> {
    let Proxies { https, http, no_proxy } = &settings.proxies;
    let exceptions = no_proxy.as_deref().and_then(reqwest::NoProxy::from_string);
    let mut out = Vec::new();
    for (address, names, secure) in
        [(https, "HTTPS_PROXY or ALL_PROXY", true), (http, "HTTP_PROXY or ALL_PROXY", false)]
    {
        let Some(address) = address else { continue };
        // The address may hold a login, so it is not shown.
        let bad = |why: &str| {
            ModelError::new(ErrorKind::InvalidRequest, format!("The proxy in {names} cannot be used: {why}."))
                .hint("Write it as http://HOST:PORT (https://, socks5:// or socks5h:// where it speaks that), or unset it.")
        };
        let scheme = address.split_once("://").map(|(scheme, _)| scheme.trim().to_ascii_lowercase());
        if let Some(scheme) = scheme.filter(|scheme| !PROXY_SCHEMES.contains(&scheme.as_str())) {
            return Err(bad(&format!("{scheme:?} is no way to speak to a proxy")));
        }
        let proxy = if secure { Proxy::https(address) } else { Proxy::http(address) };
        let proxy = proxy.map_err(|_| bad("it is no address"))?;
        out.push(proxy.no_proxy(exceptions.clone()));
    }
    Ok(out)
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
    fn faults_of_certificates_are_told_in_plain_words() {
        use rustls::{CertificateError as C, Error, InvalidMessage};
        for (error, want, wanted_todo) in [
            (Error::InvalidCertificate(C::UnknownIssuer), "does not trust the issuer", "SSL_CERT_FILE"),
            (Error::InvalidCertificate(C::Expired), "has expired", "clock"),
            (Error::InvalidCertificate(C::NotValidYet), "not valid yet", "clock"),
            (Error::InvalidCertificate(C::NotValidForName), "another name", "base URL"),
            (
                Error::InvalidCertificate(C::Revoked),
                "was revoked",
                "certificate of the server; a private issuer",
            ),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), "does not speak TLS", "http://"),
        ] {
            let (said, todo) = tls_fault(&error.to_string());
            assert!(todo.contains(wanted_todo), "{error}: {todo}");
            assert!(said.contains(want), "{error}: {said}");
        }
        assert_eq!(tls_fault("something else").0, "something else");
    }

    #[test]
    fn what_is_wrong_with_the_trusted_issuers_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let good = at("good.pem", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n");
        for (value, want) in [
            (good, None),
            (at("empty.pem", ""), Some("holds no certificate")),
            (at("key.pem", "-----BEGIN PRIVATE KEY-----"), Some("holds no certificate")),
            (dir.path().join("none.pem").display().to_string(), Some("No such file")),
            (dir.path().display().to_string(), Some("it is a folder")),
        ] {
            let fault = issuers_fault(&[("SSL_CERT_FILE", value.clone())]);
            assert_eq!(fault.is_some(), want.is_some(), "{fault:?}");
            assert!(fault.is_none_or(|f| f.contains(&value) && f.contains(want.unwrap_or_default())));
        }
    }

    #[test]
    fn a_proxy_is_an_address_that_can_be_used_or_an_error() {
        let with = |https: &str| Settings {
            proxies: Proxies { https: Some(https.to_owned()), ..Proxies::default() },
            ..Settings::default()
        };
        let good = [
            "proxy.corp:3128",
            "http://h",
            "HTTPS://h:1",
            "http://u:pw@h:8080",
            "socks5h://h:1080",
            "[::1]:8",
        ];
        for address in good {
            assert_eq!(proxies(&with(address)).unwrap().len(), 1, "{address}");
        }
        for (address, why) in [
            ("http://user:pw@:x", "it is no address"),
            ("not a url", "it is no address"),
            ("http://h:99999", "it is no address"),
            ("ftp://h:1", "\"ftp\" is no way to speak to a proxy"),
            ("://h", "\"\" is no way to speak to a proxy"),
        ] {
            let error = proxies(&with(address)).unwrap_err();
            let want = format!("The proxy in HTTPS_PROXY or ALL_PROXY cannot be used: {why}.");
            assert_eq!(error.message, want, "{address}");
            assert!(!error.retryable && error.hint.is_some_and(|hint| hint.contains("http://HOST:PORT")));
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
