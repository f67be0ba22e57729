//! The HTTP client of an endpoint, created when it is first needed.
//!
//! Plain-HTTP endpoints do not load the system's certificates, which saves about 3 ms. Loopback goes through no proxy.
//! Redirects are not followed, because a key must not travel to another host. Failures become typed errors without the key.

use crate::auth::put_header;
use crate::base_url::{is_local, without_login};
use crate::body_limit::ServerBody;
use crate::endpoint::Endpoint;
use crate::errors::{Failure, SIGN_IN, classify};
use crate::keys::Keys;
use crate::kind::Kind;
use crate::proxy::{Way, proxies};
use crate::refused::RefusedBodies;
use crate::resolve::{Names, Unresolved};
use crate::retry::wait_from_headers;
use crate::settings::Settings;
use crate::tls_fault::{issuers_fault, tls_fault};
use crate::wire::Pieces;
use crate::{ErrorKind, ModelError};
use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Client, Response};
use std::error::Error as _;
use std::sync::OnceLock;
use std::time::Duration;
use url::Url;

/// Limit, in bytes, on a list of models or the properties of a server. The longest lists, with prices and texts, have a few
/// megabytes.
const MAX_JSON_BODY: usize = 32 << 20;
/// Limit on an error body, in bytes. The rest is not read.
const MAX_ERROR_BODY: usize = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

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
    keys: Keys,
    fatal_codes: Vec<String>,
    settings: Settings,
    client: OnceLock<Result<Client, String>>,
    /// The limit on the size of a body.
    pub body: ServerBody,
    /// Requests that were refused permanently. They are not sent again.
    refused: RefusedBodies,
}

impl Transport {
    pub(crate) fn new(
        url: Url,
        setting: &str,
        (endpoint, kind): (&Endpoint, Kind),
        own_headers: &[(&str, String)],
        settings: &Settings,
    ) -> Result<Self, ModelError> {
        let mut headers = HeaderMap::new();
        let extra = endpoint.headers.iter().map(|(n, v)| (n.as_str(), v));
        for (name, value) in own_headers.iter().map(|(n, v)| (*n, v)).chain(extra) {
            // This header is a list of features, and each source adds its own.
            let before = headers.get("anthropic-beta").and_then(|before| before.to_str().ok());
            match before.filter(|_| name.eq_ignore_ascii_case("anthropic-beta")) {
                Some(before) => {
                    let both = format!("{before},{value}");
                    put_header(&mut headers, name, &both)?;
                }
                None => put_header(&mut headers, name, value)?,
            }
        }
        let local = is_local(&url);
        if !local {
            proxies(settings)?;
        }
        let body = ServerBody::new(url.to_string(), settings.learned.body_limits.clone());
        Ok(Self {
            server: url.origin().ascii_serialization(),
            local,
            url,
            setting: setting.to_owned(),
            headers,
            keys: Keys::for_endpoint(endpoint, endpoint.auth_for(kind), setting),
            fatal_codes: Vec::new(),
            settings: settings.clone(),
            client: OnceLock::new(),
            body,
            refused: RefusedBodies::default(),
        })
    }

    /// Sets the codes of errors for which a retry never helps.
    pub(crate) fn with_fatal_codes(mut self, codes: &[String]) -> Self {
        self.fatal_codes = codes.to_vec();
        self
    }

    /// True if a new key can be requested after the server refused one with this status.
    pub(crate) fn can_renew(&self, status: u16) -> bool {
        self.keys.can_renew(status)
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
        self.keys.sign(&mut headers, (method, url, body), refused, &self.server).await?;
        self.keys.add_token(&mut headers, refused, &self.server).await?;
        Ok(headers)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn client(&self) -> Result<&Client, ModelError> {
        let made = self.client.get_or_init(|| build(&self.url, self.local, &self.settings));
        made.as_ref().map_err(|why| match issuers_fault(&self.settings.issuers) {
            Some(fault) => {
                let message = format!(
                    "TLS certificates cannot be checked, because no CA certificate could be loaded: {fault}"
                );
                ModelError::new(ErrorKind::Tls, message).hint("Correct the variable, or unset it.")
            }
            None if why.contains("No CA certificates") => {
                let message =
                    "TLS certificates cannot be checked, because this machine has no CA certificates";
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
        let asked = without_secrets(&url);
        let request = self.client()?.get(url).headers(headers).timeout(timeout);
        self.json_of(request, &asked).await
    }

    /// Sends a JSON document to another path of the same server, and returns the one that comes back.
    pub(crate) async fn post_json(
        &self,
        url: Url,
        json: &serde_json::Value,
        timeout: Duration,
    ) -> Result<serde_json::Value, ModelError> {
        let body = Bytes::from(json.to_string());
        let headers = self.request_headers(false, "POST", &url, std::slice::from_ref(&body)).await?;
        let asked = without_secrets(&url);
        let request = self.client()?.post(url).headers(headers).timeout(timeout).body(body);
        self.json_of(request.header("content-type", "application/json"), &asked).await
    }

    async fn json_of(
        &self,
        request: reqwest::RequestBuilder,
        asked: &str,
    ) -> Result<serde_json::Value, ModelError> {
        let mut response = request.send().await.map_err(|e| self.unreachable(e))?;
        if !response.status().is_success() {
            let mut error = self.failure(response).await;
            if error.kind == ErrorKind::NotFound {
                error.hint = Some(format!("The address was {asked}. Check the base URL."));
            }
            return Err(error);
        }
        let no_json = |size: &str| {
            let message = format!("{} sent something that is not JSON{size}.", self.server);
            let hint = format!("The address was {asked}. Check that the base URL points at a model API.");
            ModelError::new(ErrorKind::Malformed, message).hint(hint)
        };
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.unreachable(e))? {
            body.extend_from_slice(&chunk);
            // Some servers answer every path with their web page or with a stream of events. The rest of it is not read.
            // 0xEF begins a byte order mark.
            if body.trim_ascii_start().first().is_some_and(|byte| !matches!(byte, b'{' | b'[' | 0xEF)) {
                return Err(no_json(""));
            }
            if body.len() > MAX_JSON_BODY {
                let message = format!("{} sent more than {MAX_JSON_BODY} bytes.", self.server);
                return Err(ModelError::new(ErrorKind::Malformed, message));
            }
        }
        becket_types::parse_json_bytes(&body).map_err(|_| no_json(&format!(" ({} bytes)", body.len())))
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
            self.keys.explain(&mut error);
        }
        if status == 400 && self.url.scheme() == "http" && wants_tls(&String::from_utf8_lossy(&body)) {
            error.message = format!("{} wants TLS there (status 400).", self.server);
            error.hint = Some(HTTPS.to_owned());
        }
        if (300..400).contains(&status) {
            let to = get("location").map(|l| format!(" to {}", without_login(l))).unwrap_or_default();
            error.message = format!(
                "{} redirects{to} (status {status}); becket sends keys to no other address.",
                self.server
            );
            error.hint = Some(format!("Set the base URL to where the server really is. {SIGN_IN}"));
        }
        error
    }

    /// Removes keys from a server's text, in case the server echoes them.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.keys.redact(text)
    }

    /// The typed error for a request without a response, or whose response broke off.
    pub(crate) fn unreachable(&self, error: reqwest::Error) -> ModelError {
        let error = error.without_url();
        let mut causes = vec![error.to_string()];
        let (mut tls, mut refused, mut reset, mut bad_name) = (false, false, false, false);
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
            reset |= io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionReset);
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
        // A server of TLS answers plain HTTP with an alert, or closes the connection.
        let https = if self.url.scheme() == "http" { format!(" {HTTPS}") } else { String::new() };
        if why.starts_with("invalid HTTP ") {
            let message = format!("{server} answers, but does not speak HTTP there: {why}");
            return ModelError::new(ErrorKind::Malformed, message)
                .hint(format!("Check host and port of the base URL.{https}"));
        }
        let closed = reset || why.contains("closed before message completed");
        let hint = match (self.local, refused, closed) {
            (true, true, _) => "Start the model server, or correct the base URL.".to_owned(),
            (true, _, true) => format!("Look into the log of the model server.{https}"),
            (_, _, closed) => {
                let https = if closed { https } else { String::new() };
                format!("Check the network and the base URL (`becket doctor`).{https}")
            }
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
        let is_server = self.url.host_str() == Some(host);
        let setting = if is_server { &self.setting } else { "HTTPS_PROXY or HTTP_PROXY" };
        let message = format!("The name `{host}` cannot be resolved: {why}.");
        let looks_up =
            |way: &Way| way.address.starts_with("socks5://") || way.address.starts_with("socks4://");
        let hint = if let Some(way) = self.proxy().filter(|way| is_server && looks_up(way)) {
            format!(
                "With {} becket looks names up itself: write socks5h:// in {} if the proxy shall do it; else correct {setting}.",
                way.address, way.names
            )
        } else if *temporary {
            format!("Check the network and its DNS server, and {setting} if it is set.")
        } else {
            format!("Correct {setting} if it is set; else check the network.")
        };
        ModelError { retryable: *temporary, ..ModelError::new(ErrorKind::Dns, message).hint(hint) }
    }

    /// The error with which the same bytes were permanently refused before, if they were.
    pub(crate) fn refused_before(&self, body: &[Bytes]) -> Option<ModelError> {
        self.refused.before(body)
    }

    pub(crate) fn note_refused(&self, body: &[Bytes], error: &ModelError) {
        self.refused.note(body, error);
    }
}

/// Advice where a server may speak TLS alone.
const HTTPS: &str = "If the server has TLS, write the base URL with https://.";

/// True if this is the answer of a server of TLS (nginx, Go, Apache) to a request without it.
fn wants_tls(body: &str) -> bool {
    ["HTTP request was sent to HTTPS port", "HTTP request to an HTTPS server", "plain HTTP to an SSL-enabled"]
        .iter()
        .any(|phrase| body.contains(phrase))
}

pub(crate) fn request_id(headers: &HeaderMap) -> Option<&str> {
    ["request-id", "x-request-id", "cf-ray"].iter().find_map(|name| headers.get(*name)?.to_str().ok())
}

pub(crate) fn build(url: &Url, local: bool, settings: &Settings) -> Result<Client, String> {
    let mut builder = Client::builder()
        .no_proxy()
        .no_gzip()
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .connect_timeout(settings.times.connect)
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
/// An address as messages show it: without a user, a password and a query, which may hold keys.
fn without_secrets(url: &Url) -> String {
    let mut shown = url.clone();
    // Both fail for addresses that cannot have a user.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_query(None);
    shown.to_string()
}
