//! An HTTP client that connects only to checked addresses and limits the size of answers.
//!
//! Names are resolved by becket's own resolver, which refuses a name if any of its addresses is not on the
//! public internet. The connection is made to the resolved address, so no second look-up can return another
//! one. Hosts given as addresses are checked before the request. The user can allow hosts by name.
//!
//! With a proxy, the proxy makes the connection. becket still resolves the name and refuses it in the same cases. If becket cannot
//! resolve it, the proxy decides.

use crate::proxy::Proxies;
use becket_network::{Lookup, names_host, refusal};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Response};
use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

/// Maximum number of bytes of a body after decompression.
pub(crate) const MAX_BODY: usize = 5 << 20;
/// Maximum number of redirects that are followed.
const MAX_REDIRECTS: usize = 5;
const MAX_URL: usize = 8 * 1024;
/// Maximum length in bytes of an address that a server has named and that the output shows. It is shown outside the marks for
/// untrusted text, so it must be short.
pub(crate) const SHOWN_URL: usize = 500;
const CONNECT: Duration = Duration::from_secs(10);
/// Time limit for a whole fetch, including redirects and body.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// Time limit for resolving a name that the proxy will resolve again.
const LOOKUP: Duration = Duration::from_secs(5);

/// The reason why a URL or an address is not fetched. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("{0:?} is not a URL: {1}. Write it as https://HOST/PATH.")]
    NotUrl(String, String),
    #[error("Only http and https are fetched, not {0}.")]
    Scheme(String),
    #[error("The URL holds a user name or password; it was not fetched.")]
    Login,
    #[error(
        "{host} is {why} ({ip}), which is not on the internet; it was not fetched. The user can allow the host with web.allow_hosts."
    )]
    Refused { host: String, ip: IpAddr, why: &'static str },
    #[error("The name {0} cannot be resolved: {1}.")]
    Name(String, String),
    #[error("{0} did not answer in time.")]
    Timeout(String),
    #[error("{0} cannot be reached: {1}.")]
    Network(String, String),
    #[error("{0} cannot be reached through the proxy that HTTPS_PROXY or HTTP_PROXY names: {1}.")]
    Proxy(String, String),
    #[error("More than {MAX_REDIRECTS} redirects: {0}")]
    Redirects(String),
    #[error("{0} sent the page encoded as {1}, which was not asked for; it was not read.")]
    Encoding(String, String),
}

/// The error for a name that resolves to an address that is not allowed, or to none.
#[derive(Debug)]
struct Unusable(FetchError);
impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl Error for Unusable {}

/// Hosts that the user allows regardless of their address: names, addresses, `*.suffix`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed(Arc<[String]>);

impl Allowed {
    pub(crate) fn new(hosts: &[String]) -> Self {
        let plain = |h: &String| h.trim().trim_matches(['[', ']']).trim_end_matches('.').to_lowercase();
        Self(hosts.iter().map(plain).filter(|h| !h.is_empty()).collect())
    }

    pub(crate) fn contains(&self, host: &str) -> bool {
        let host = host.trim_matches(['[', ']']).trim_end_matches('.');
        self.0.iter().any(|allowed| names_host(allowed, host))
    }
}

struct Checked {
    lookup: Lookup,
    allowed: Allowed,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let allowed = self.allowed.contains(&host);
        let found = (self.lookup)(host.clone());
        Box::pin(async move {
            let found = found.await.map_err(|e| Unusable(FetchError::Name(host.clone(), e.to_string())))?;
            let refused = found.iter().filter(|_| !allowed).find_map(|ip| Some((*ip, refusal(*ip)?)));
            if let Some((ip, why)) = refused {
                return Err(Unusable(FetchError::Refused { host, ip, why }).into());
            }
            if found.is_empty() {
                return Err(Unusable(FetchError::Name(host, "it has no address".to_owned())).into());
            }
            Ok(Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}

/// The reason why a body is incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Size,
    Time,
    Broken(String),
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size => f.write_str("cut: the rest after 5 MB was not read"),
            Self::Time => f.write_str("cut: the rest did not come in time"),
            Self::Broken(why) => write!(f, "cut: the rest did not come ({why})"),
        }
    }
}

/// Result of a fetch.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    /// Address after redirects.
    pub url: Url,
    /// The addresses of all requests, beginning with the requested one; empty if there was no redirect.
    pub hops: Vec<String>,
    pub status: u16,
    pub content_type: String,
    pub body: Vec<u8>,
    /// Set if `body` is incomplete.
    pub cut: Option<Cut>,
    /// Length in bytes that the server announced.
    pub announced: Option<u64>,
    /// Target of a redirect that was not followed.
    pub redirect: Option<Url>,
}

/// The HTTP client of a session, created at its first use.
pub(crate) struct WebClient {
    allowed: Allowed,
    lookup: Lookup,
    proxies: Proxies,
    limit: Duration,
    direct: OnceLock<Result<Client, String>>,
    proxied: OnceLock<Result<Client, String>>,
}

/// Parses the text as a URL with http or https, and removes the fragment.
///
/// # Errors
///
/// Fails if the text is no such URL or too long, or if it contains a user name.
pub(crate) fn parse(text: &str) -> Result<Url, FetchError> {
    let text = text.trim().trim_matches(['<', '>']);
    let shown = || becket_types::cut_end(text, 200).to_owned();
    if text.len() > MAX_URL {
        return Err(FetchError::NotUrl(shown(), "it is longer than 8 KB".to_owned()));
    }
    let host = text.split(['/', '?', '#', ':']).next().unwrap_or_default();
    let whole = if text.contains("://") || text.starts_with("data:") || text.starts_with("mailto:") {
        text.to_owned()
    } else if !text.is_empty() && (host.is_empty() || host.starts_with(['.', '~', '-', '@'])) {
        return Err(FetchError::NotUrl(
            shown(),
            "it looks like a path; files are read with `read`".to_owned(),
        ));
    } else {
        format!("https://{text}")
    };
    let mut url = Url::parse(&whole).map_err(|e| FetchError::NotUrl(shown(), e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(FetchError::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(FetchError::Login);
    }
    url.set_fragment(None);
    Ok(url)
}

/// Returns the host to which `web_fetch` would send a request for this text, in the form that permission rules use. `None` if it
/// would send no request.
pub fn host_of(text: &str) -> Option<String> {
    parse(text).ok().map(|url| host(&url))
}

pub(crate) fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.').to_lowercase()
}

impl WebClient {
    pub(crate) fn new(allowed: Allowed, lookup: Lookup, proxies: Proxies, limit: Duration) -> Self {
        Self { allowed, lookup, proxies, limit, direct: OnceLock::new(), proxied: OnceLock::new() }
    }

    /// Returns the client for an address. With a proxy, the name is checked here first, because the client's
    /// resolver is not used.
    async fn client(&self, url: &Url) -> Result<&Client, FetchError> {
        let plain = || {
            Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(CONNECT)
                .user_agent(concat!("becket/", env!("CARGO_PKG_VERSION")))
        };
        let made = if self.proxies.for_url(url).is_none() {
            self.direct.get_or_init(|| {
                let checked = Checked { lookup: Arc::clone(&self.lookup), allowed: self.allowed.clone() };
                plain().dns_resolver(checked).build().map_err(|e| e.to_string())
            })
        } else {
            self.judge(url).await?;
            // The proxy client is only used for addresses that go through a proxy, so it needs no exceptions.
            self.proxied.get_or_init(|| {
                let mut builder = plain();
                let text = |_| "the proxy's address is not understood".to_owned();
                if let Some(proxy) = &self.proxies.https {
                    builder = builder.proxy(reqwest::Proxy::https(proxy).map_err(text)?);
                }
                if let Some(proxy) = &self.proxies.http {
                    builder = builder.proxy(reqwest::Proxy::http(proxy).map_err(text)?);
                }
                builder.build().map_err(|e| e.to_string())
            })
        };
        made.as_ref().map_err(|why| FetchError::Network(host(url), why.clone()))
    }

    /// Refuses a name if it resolves to an address that is not on the public internet. A name that does not
    /// resolve here passes.
    async fn judge(&self, url: &Url) -> Result<(), FetchError> {
        let Some(Host::Domain(name)) = url.host() else { return Ok(()) };
        let host = host(url);
        if self.allowed.contains(&host) {
            return Ok(());
        }
        let found = tokio::time::timeout(LOOKUP, (self.lookup)(name.to_owned())).await;
        let found = found.ok().and_then(Result::ok).unwrap_or_default();
        match found.into_iter().find_map(|ip| Some((ip, refusal(ip)?))) {
            Some((ip, why)) => Err(FetchError::Refused { host, ip, why }),
            None => Ok(()),
        }
    }

    /// Checks a host that is given as an address, because it is never resolved.
    fn check(&self, url: &Url) -> Result<(), FetchError> {
        let ip = match url.host() {
            Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
            Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
            _ => return Ok(()),
        };
        match refusal(ip) {
            Some(why) if !self.allowed.contains(&host(url)) => {
                Err(FetchError::Refused { host: host(url), ip, why })
            }
            _ => Ok(()),
        }
    }

    /// Fetches `url`. Follows redirects within its host and stops at a redirect to another host.
    ///
    /// # Errors
    ///
    /// Fails if the address is refused, the connection fails, or the answer cannot be read.
    pub(crate) async fn fetch(&self, url: Url) -> Result<Fetched, FetchError> {
        let deadline = Instant::now() + self.limit;
        let mut url = url;
        let mut hops = Vec::new();
        loop {
            self.check(&url)?;
            let request = self.client(&url).await?.get(url.clone()).header(
                ACCEPT,
                "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.5",
            );
            let response = match timeout_at(deadline, request.send()).await {
                Err(_) => return Err(FetchError::Timeout(host(&url))),
                Ok(response) => response.map_err(|e| match failure(e, &url) {
                    FetchError::Network(host, why) if self.proxies.for_url(&url).is_some() => {
                        FetchError::Proxy(host, why)
                    }
                    other => other,
                })?,
            };
            let status = response.status().as_u16();
            let next = matches!(status, 301 | 302 | 303 | 307 | 308)
                .then(|| text_of(response.headers(), &LOCATION).and_then(|to| url.join(&to).ok()))
                .flatten();
            let Some(mut next) = next else {
                return read(response, url, hops, deadline).await;
            };
            next.set_fragment(None);
            hops.push(url.to_string());
            let same = host(&next) == host(&url) && next.scheme() != "ftp";
            let weaker = url.scheme() == "https" && next.scheme() != "https";
            if !same || weaker || parse(next.as_str()).is_err() {
                let none = Fetched {
                    url,
                    hops,
                    status,
                    content_type: String::new(),
                    body: Vec::new(),
                    cut: None,
                    announced: None,
                    redirect: Some(next),
                };
                return Ok(none);
            }
            if hops.len() > MAX_REDIRECTS {
                let hops: Vec<&str> = hops.iter().map(|hop| becket_types::cut_end(hop, SHOWN_URL)).collect();
                return Err(FetchError::Redirects(hops.join(" ")));
            }
            url = next;
        }
    }
}

fn text_of(headers: &HeaderMap, name: &reqwest::header::HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
}

async fn read(
    mut response: Response,
    url: Url,
    hops: Vec<String>,
    deadline: Instant,
) -> Result<Fetched, FetchError> {
    let status = response.status().as_u16();
    let content_type = text_of(response.headers(), &CONTENT_TYPE).unwrap_or_default();
    let announced = response.content_length();
    // The client has decoded the encodings that it asked for and has removed their header. If the header is still there, becket
    // cannot decode the body.
    if let Some(encoding) = text_of(response.headers(), &CONTENT_ENCODING)
        && !encoding.eq_ignore_ascii_case("identity")
    {
        return Err(FetchError::Encoding(host(&url), becket_types::cut_end(&encoding, 60).to_owned()));
    }
    let mut body = Vec::new();
    let mut cut = None;
    // Content that will not be shown is read only as far as needed to detect its kind.
    let wanted = crate::page::kind(&content_type, b"") != crate::page::Kind::Other;
    let limit = if wanted { MAX_BODY } else { 0 };
    while body.len() < limit || (limit == 0 && body.is_empty()) {
        match timeout_at(deadline, response.chunk()).await {
            Err(_) if body.is_empty() => return Err(FetchError::Timeout(host(&url))),
            Err(_) => cut = Some(Cut::Time),
            Ok(Err(error)) if body.is_empty() => return Err(failure(error, &url)),
            Ok(Err(error)) => cut = Some(Cut::Broken(cause(&error))),
            Ok(Ok(None)) => break,
            Ok(Ok(Some(chunk))) => {
                let room = MAX_BODY - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            }
        }
        if cut.is_some() {
            break;
        }
    }
    if wanted && body.len() >= MAX_BODY {
        cut = Some(Cut::Size);
    }
    Ok(Fetched { url, hops, status, content_type, body, cut, announced, redirect: None })
}

/// Returns the innermost cause as text.
fn cause(error: &reqwest::Error) -> String {
    let mut last: &dyn Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

/// Converts an error of the HTTP library. The URL is removed from it, because it may be long.
pub(crate) fn failure(error: reqwest::Error, url: &Url) -> FetchError {
    let error = error.without_url();
    let mut last = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(Unusable(why)) = cause.downcast_ref::<Unusable>() {
            return why.clone();
        }
        last = cause.to_string();
        source = cause.source();
    }
    if error.is_timeout() { FetchError::Timeout(host(url)) } else { FetchError::Network(host(url), last) }
}
