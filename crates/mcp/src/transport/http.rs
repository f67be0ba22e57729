//! The HTTP client of one server. Redirects may not leave the server's host; the proxies are those that the user's environment
//! names.
//!
//! A redirect to another host is refused, because it could send requests and keys to an address inside the user's
//! network. A redirect from http to https on the same host is followed.

use crate::oauth::other_resource;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::transport::auth::{AuthError, ProtectedResourceMetadataInvalidReason};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::worker::WorkerQuitReason;
use std::collections::BTreeMap;
use std::time::Duration;
use url::Url;

const CONNECT: Duration = Duration::from_secs(15);
const MOST_REDIRECTS: usize = 5;

/// Proxies by scheme of the address, as the environment names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    pub http: Option<String>,
    pub https: Option<String>,
    pub no_proxy: Option<String>,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the server redirects to {0}, another host, which is refused; configure that address itself if it is right"
)]
struct OtherHost(String);

pub(crate) fn client(url: &Url, proxies: &Proxies) -> Result<reqwest::Client, String> {
    let home = url.clone();
    let policy = reqwest::redirect::Policy::custom(move |attempt| {
        if attempt.previous().len() > MOST_REDIRECTS {
            return attempt.error("the server redirects in circles");
        }
        if may_follow(&home, attempt.url()) {
            return attempt.follow();
        }
        let mut shown = attempt.url().clone();
        shown.set_query(None);
        attempt.error(OtherHost(shown.to_string()))
    });
    let mut builder = reqwest::Client::builder()
        .redirect(policy)
        .connect_timeout(CONNECT)
        .user_agent(concat!("becket/", env!("CARGO_PKG_VERSION")))
        .no_proxy();
    let no_proxy = proxies.no_proxy.as_deref().and_then(reqwest::NoProxy::from_string);
    if let Some(address) = &proxies.http {
        let proxy = reqwest::Proxy::http(address).map_err(|e| format!("the proxy {address}: {e}"))?;
        builder = builder.proxy(proxy.no_proxy(no_proxy.clone()));
    }
    if let Some(address) = &proxies.https {
        let proxy = reqwest::Proxy::https(address).map_err(|e| format!("the proxy {address}: {e}"))?;
        builder = builder.proxy(proxy.no_proxy(no_proxy));
    }
    builder.build().map_err(|e| e.to_string())
}

/// True if host, port and scheme are the same, or if the redirect leads from http to https at their usual ports. Another port
/// may be another server, which would get the headers of this one.
fn may_follow(home: &Url, to: &Url) -> bool {
    let upgrade = home.scheme() == "http"
        && to.scheme() == "https"
        && home.host() == to.host()
        && (home.port(), to.port()) == (None, None);
    home.origin() == to.origin() || upgrade
}

/// Converts the headers of the configuration to headers of a request.
pub(crate) fn headers(given: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut out = HeaderMap::new();
    for (name, value) in given {
        let wrong = || format!("the header {name:?} cannot be sent");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        out.insert(name, value);
    }
    Ok(out)
}

/// Describes a failure of the transport in words for the user. The library's own texts name Rust types and internal
/// steps.
pub(crate) fn transport_failure(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    type Http = StreamableHttpError<reqwest::Error>;
    let inner = match error.downcast_ref::<WorkerQuitReason<Http>>() {
        Some(WorkerQuitReason::Fatal { error, .. }) => Some(error),
        Some(_) => return "the connection to the server ended".to_owned(),
        None => error.downcast_ref::<Http>(),
    };
    let Some(inner) = inner else { return reasons(error) };
    match inner {
        Http::Client(error) => request_failure(error),
        Http::HttpStatus(status) => format!("it answers with the HTTP status {}", status.status),
        Http::UnexpectedContentType(kind) => format!(
            "it answers with {} instead of JSON or a stream of events; check the address",
            kind.as_deref().unwrap_or("a body without a type")
        ),
        Http::UnexpectedServerResponse(text) => format!("it does not answer as an MCP server does: {text}"),
        Http::UnexpectedEndOfStream => "its answer broke off".to_owned(),
        Http::Auth(error) => words(error),
        Http::TransportChannelClosed => "the connection to the server ended".to_owned(),
        other => reasons(other),
    }
}

fn request_failure(error: &reqwest::Error) -> String {
    if let Some(status) = error.status() {
        return format!("it answers with the HTTP status {}", status.as_u16());
    }
    let why = reasons(error);
    if error.is_connect() { format!("it cannot be reached: {why}") } else { why }
}

/// Returns the text of an authorization error for people. `rmcp` puts a prefix before becket's reasons, which is removed.
pub(crate) fn words(error: &AuthError) -> String {
    match error {
        AuthError::OAuthError(why) => why.clone(),
        AuthError::ProtectedResourceMetadataInvalid { url, reason } => match reason.as_ref() {
            ProtectedResourceMetadataInvalidReason::ResourceMismatch { reference, permitted } => {
                other_resource(url, permitted, reference)
            }
            _ => reasons(error),
        },
        _ => reasons(error),
    }
}

/// Returns all messages of an error and its sources in one line.
pub(crate) fn reasons(error: &(dyn std::error::Error + 'static)) -> String {
    let mut out = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !out.contains(&text) {
            out.push_str(": ");
            out.push_str(&text);
        }
        source = cause.source();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::transport::streamable_http_client::HttpStatusError;

    #[test]
    fn failures_name_no_types() {
        type Http = StreamableHttpError<reqwest::Error>;
        for (error, said) in [
            (
                Http::UnexpectedContentType(Some("text/html".to_owned())),
                "it answers with text/html instead of JSON or a stream of events; check the address",
            ),
            (Http::HttpStatus(HttpStatusError::new(503, None)), "it answers with the HTTP status 503"),
            (Http::UnexpectedEndOfStream, "its answer broke off"),
        ] {
            let fatal = WorkerQuitReason::fatal(error, "sending");
            assert_eq!(transport_failure(&fatal), said);
        }
        let ended = WorkerQuitReason::<Http>::TransportClosed;
        assert_eq!(transport_failure(&ended), "the connection to the server ended");
        assert_eq!(transport_failure(&std::io::Error::other("odd")), "odd");
    }

    #[test]
    fn redirects_stay_on_the_host() {
        let home = Url::parse("http://mcp.example.com/mcp").unwrap();
        for (to, follows) in [
            ("http://mcp.example.com/mcp/", true),
            ("https://mcp.example.com/mcp", true),
            ("http://mcp.example.com:8080/mcp", false),
            ("https://mcp.example.com:8443/mcp", false),
            ("http://169.254.169.254/latest", false),
            ("http://127.0.0.1/mcp", false),
            ("https://example.com/mcp", false),
        ] {
            assert_eq!(may_follow(&home, &Url::parse(to).unwrap()), follows, "{to}");
        }
        let secure = Url::parse("https://h/").unwrap();
        assert!(!may_follow(&secure, &Url::parse("http://h/").unwrap()), "never back to http");
    }
}
