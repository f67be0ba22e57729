//! The proxy between becket and a server: chooses one of the environment's proxies for a request, and explains its
//! errors. No message shows the login of a proxy.
//!
//! Interprets `NO_PROXY` like the HTTP client. Makes no connections.

use crate::settings::{Proxies, Settings};
use crate::{ErrorKind, ModelError};
use reqwest::Proxy;
use std::net::IpAddr;
use url::Url;

/// Schemes of proxies that the client supports. It would silently ignore any other, so becket refuses those itself.
const PROXY_SCHEMES: [&str; 6] = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

/// Returns the proxies of the environment. An address that is invalid, or that the client would silently ignore, is an
/// error: requests that should go through a proxy must not bypass it.
pub(crate) fn proxies(settings: &Settings) -> Result<Vec<Proxy>, ModelError> {
    let Proxies { https, http, no_proxy } = &settings.proxies;
    let exceptions = no_proxy.as_deref().and_then(reqwest::NoProxy::from_string);
    let mut out = Vec::new();
    for (address, names, secure) in
        [(https, "HTTPS_PROXY or ALL_PROXY", true), (http, "HTTP_PROXY or ALL_PROXY", false)]
    {
        let Some(address) = address else { continue };
        // The address may contain a login, so it is not shown.
        let bad = |why: &str| {
            ModelError::new(ErrorKind::InvalidRequest, format!("The proxy in {names} cannot be used: {why}."))
                .hint("Write it as http://HOST:PORT (https://, socks5:// or socks5h:// where it speaks that), or unset it.")
        };
        let scheme = address.split_once("://").map(|(scheme, _)| scheme.trim().to_ascii_lowercase());
        if let Some(scheme) = scheme.filter(|scheme| !PROXY_SCHEMES.contains(&scheme.as_str())) {
            return Err(bad(&format!("{scheme:?} is not a supported proxy scheme")));
        }
        let proxy = if secure { Proxy::https(address) } else { Proxy::http(address) };
        let proxy = proxy.map_err(|_| bad("it is not a valid URL"))?;
        out.push(proxy.no_proxy(exceptions.clone()));
    }
    Ok(out)
}

/// The proxy for the requests to one address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The address of the proxy, without its login.
    pub address: String,
    /// The variables that may contain the address.
    pub names: &'static str,
    has_login: bool,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.address, self.names)
    }
}

impl Way {
    /// Returns the proxy for `url`; `None` if requests are sent directly.
    pub(crate) fn to(url: &Url, proxies: &Proxies) -> Option<Self> {
        let (address, names) = match url.scheme() {
            "https" => (proxies.https.as_deref()?, "HTTPS_PROXY or ALL_PROXY"),
            _ => (proxies.http.as_deref()?, "HTTP_PROXY or ALL_PROXY"),
        };
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        if proxies.no_proxy.as_deref().is_some_and(|list| is_excepted(host, list)) {
            return None;
        }
        let (scheme, rest) = address.trim().split_once("://").unwrap_or(("http", address.trim()));
        let (has_login, place) = match rest.rsplit_once('@') {
            Some((_, place)) => (true, place),
            None => (false, rest),
        };
        let place = place.split(['/', '?', '#']).next().unwrap_or_default();
        Some(Self { address: format!("{}://{place}", scheme.to_ascii_lowercase()), names, has_login })
    }

    /// Returns the error for a request through this proxy that got no response. `connecting`: no connection to `url`
    /// was made (TLS errors do not count). `why`: the last cause that the client reported.
    pub(crate) fn fault(&self, url: &Url, connecting: bool, why: &str) -> ModelError {
        let server = url.origin().ascii_serialization();
        let host = url.host_str().unwrap_or_default();
        if why.contains("authorization required") {
            let error = self.wants_login();
            return ModelError { message: format!("{server} cannot be reached: {}", error.message), ..error };
        }
        let through = why.contains("tunnel error") || why.contains("SOCKS error");
        let (message, hint) = if through && !why.contains("underlying connection") {
            let why = why.trim_start_matches("tunnel error: ").trim_start_matches("SOCKS error: ");
            let why = if why == "unsuccessful" { String::new() } else { format!(": {why}") };
            (
                format!("{server} cannot be reached: the proxy {self} refused to connect to it{why}"),
                format!(
                    "Check that a proxy is at that address, ask for {host} to be allowed on it, or name {host} in NO_PROXY if it can be reached directly."
                ),
            )
        } else if connecting {
            (
                format!("{server} cannot be reached, because the proxy {self} cannot be reached: {why}"),
                "Start the proxy, correct the variable, or unset it.".to_owned(),
            )
        } else {
            (
                format!("{server} cannot be reached through the proxy {self}: {why}"),
                "Check the network, the proxy, and the base URL (`becket doctor`).".to_owned(),
            )
        };
        ModelError::new(ErrorKind::Network, message).hint(hint)
    }

    /// Returns the error for a proxy that requires a login or refused it.
    pub(crate) fn wants_login(&self) -> ModelError {
        let message = if self.has_login {
            format!("the proxy {self} does not accept the login of that variable (status 407)")
        } else {
            format!("the proxy {self} asks for a login (status 407)")
        };
        let hint = format!("Write the login into the variable: http://USER:PASSWORD@{}.", self.place());
        ModelError { retryable: false, ..ModelError::new(ErrorKind::Network, message).hint(hint) }
    }

    fn place(&self) -> &str {
        self.address.split_once("://").map_or(&self.address, |(_, place)| place)
    }
}

/// True if `list`, the value of `NO_PROXY`, contains this host: names with their subdomains, addresses, ranges, `*`.
fn is_excepted(host: &str, list: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let ip: Option<IpAddr> = host.parse().ok();
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| match ip {
        Some(ip) => is_in(ip, entry),
        None if entry == "*" => true,
        None => {
            let entry = entry.trim_start_matches('.').to_ascii_lowercase();
            host.strip_suffix(&entry).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        }
    })
}

/// True if `range` (`10.0.0.0/8`, `::1`) contains `ip`.
fn is_in(ip: IpAddr, range: &str) -> bool {
    let (base, bits) = range.split_once('/').map_or((range, None), |(base, bits)| (base, Some(bits)));
    let (Ok(base), Ok(bits)) = (base.parse::<IpAddr>(), bits.map_or(Ok(128), str::parse::<u32>)) else {
        return false;
    };
    match (ip, base) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a) ^ u32::from(b)).leading_zeros() >= bits.min(32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b)).leading_zeros() >= bits.min(128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("http://user:pw@:x", "it is not a valid URL"),
            ("not a url", "it is not a valid URL"),
            ("http://h:99999", "it is not a valid URL"),
            ("ftp://h:1", "\"ftp\" is not a supported proxy scheme"),
            ("://h", "\"\" is not a supported proxy scheme"),
        ] {
            let error = proxies(&with(address)).unwrap_err();
            let want = format!("The proxy in HTTPS_PROXY or ALL_PROXY cannot be used: {why}.");
            assert_eq!(error.message, want, "{address}");
            assert!(!error.retryable && error.hint.is_some_and(|hint| hint.contains("http://HOST:PORT")));
        }
    }

    #[test]
    fn the_proxy_of_an_address_is_shown_without_its_login() {
        let proxies = |no_proxy: &str| Proxies {
            https: Some("HTTP://joe:hunter2@proxy.corp:3128/".to_owned()),
            http: Some("10.0.0.1:8080".to_owned()),
            no_proxy: Some(no_proxy.to_owned()),
        };
        let secure = "http://proxy.corp:3128 (HTTPS_PROXY or ALL_PROXY)";
        for (no_proxy, url, want) in [
            ("", "https://api.example.com/v1", Some(secure)),
            ("", "http://api.example.com/v1", Some("http://10.0.0.1:8080 (HTTP_PROXY or ALL_PROXY)")),
            ("example.com", "https://api.example.com/v1", None),
            (".example.com, b.org", "https://EXAMPLE.com/v1", None),
            ("ample.com", "https://api.example.com/v1", Some(secure)),
            ("*", "https://api.example.com/v1", None),
            ("10.0.0.0/8", "https://10.9.8.7/v1", None),
            ("10.0.0.0/8", "https://11.9.8.7/v1", Some(secure)),
            ("10.0.0.7", "https://10.0.0.7/v1", None),
            ("fd00::/8", "https://[fd12::1]/v1", None),
            ("0.0.0.0/0", "https://[fd12::1]/v1", Some(secure)),
        ] {
            let way = Way::to(&Url::parse(url).unwrap(), &proxies(no_proxy)).map(|way| way.to_string());
            assert_eq!(way.as_deref(), want, "{no_proxy} {url}");
        }
    }
}
