//! The HTTP client of one server: redirects stay on its own host, proxies are those of the user.
//!
//! A redirect to another host is refused: it could lead requests and keys to an address inside the user's network. A redirect
//! from http to https of the same host is followed.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
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

/// True for the same host, port and scheme, and for the step from http to https.
fn may_follow(home: &Url, to: &Url) -> bool {
    let upgrade = home.scheme() == "http" && to.scheme() == "https" && home.host() == to.host();
    home.origin() == to.origin() || upgrade
}

/// Headers of the configuration as those of a request.
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

/// All messages of an error and its sources, in one line.
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

    #[test]
    fn redirects_stay_on_the_host() {
        let home = Url::parse("http://mcp.example.com/mcp").unwrap();
        for (to, follows) in [
            ("http://mcp.example.com/mcp/", true),
            ("https://mcp.example.com/mcp", true),
            ("http://mcp.example.com:8080/mcp", false),
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
