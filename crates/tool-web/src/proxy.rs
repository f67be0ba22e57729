//! Proxy settings from `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
//!
//! Pure. `NO_PROXY` is a list of names (including their subdomains), addresses, address ranges
//! (`10.0.0.0/8`), each with an optional port, and `*`. Addresses of this machine never go through a proxy.

use becket_network::{AddressRange, split_port};
use std::net::IpAddr;
use url::Url;

/// The proxies from the environment, as URLs.
#[derive(Clone, Default)]
pub struct Proxies {
    pub https: Option<String>,
    pub http: Option<String>,
    pub no_proxy: Option<String>,
}

impl Proxies {
    /// Returns the proxy for an address; `None` for a direct connection.
    pub(crate) fn for_url(&self, url: &Url) -> Option<&str> {
        let proxy = if url.scheme() == "https" { &self.https } else { &self.http };
        proxy.as_deref().filter(|_| !self.is_excepted(url))
    }

    fn is_excepted(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.');
        let host = host.to_ascii_lowercase();
        let ip: Option<IpAddr> = host.parse().ok();
        if host == "localhost" || host.ends_with(".localhost") || ip.is_some_and(|ip| ip.is_loopback()) {
            return true;
        }
        let list = self.no_proxy.as_deref().unwrap_or_default();
        list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
            let Some((entry, port)) = split_port(entry) else { return false };
            if port.is_some_and(|port| url.port_or_known_default() != Some(port)) {
                return false;
            }
            let entry = entry.trim_start_matches("*.").trim_start_matches('.').to_ascii_lowercase();
            match ip {
                _ if entry == "*" => true,
                Some(ip) => AddressRange::read(&entry).is_some_and(|range| range.contains(ip)),
                None => host.strip_suffix(&entry).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_through_a_proxy() {
        let with = |no_proxy: &str| Proxies {
            https: Some("http://secure:1".to_owned()),
            http: Some("http://plain:1".to_owned()),
            no_proxy: Some(no_proxy.to_owned()),
        };
        for (no_proxy, url, want) in [
            ("", "https://docs.rs/x", Some("http://secure:1")),
            ("", "http://docs.rs/x", Some("http://plain:1")),
            ("", "http://localhost:80/", None),
            ("", "http://127.3.2.1/", None),
            ("", "http://[::1]/", None),
            ("*", "https://docs.rs/", None),
            ("docs.rs", "https://docs.rs./", None),
            ("docs.rs", "https://a.docs.rs/", None),
            (".docs.rs", "https://a.docs.rs/", None),
            ("*.docs.rs", "https://a.docs.rs/", None),
            ("docs.rs", "https://notdocs.rs/", Some("http://secure:1")),
            ("DOCS.rs:443", "https://docs.rs/", None),
            ("docs.rs:80", "https://docs.rs/", Some("http://secure:1")),
            ("a, 10.0.0.0/8", "http://10.200.3.4/", None),
            ("10.0.0.0/8", "http://11.0.0.1/", Some("http://plain:1")),
            ("10.0.0.1", "http://10.0.0.1/", None),
            ("0.0.0.0/0", "http://93.184.215.14/", None),
            ("fd00::/8", "http://[fd12::1]/", None),
            ("[fd00::1]:81", "http://[fd00::1]:81/", None),
            ("10.0.0.0/x", "http://10.0.0.1/", Some("http://plain:1")),
        ] {
            assert_eq!(with(no_proxy).for_url(&Url::parse(url).unwrap()), want, "{no_proxy} {url}");
        }
        assert_eq!(Proxies::default().for_url(&Url::parse("https://docs.rs").unwrap()), None);
    }
}
