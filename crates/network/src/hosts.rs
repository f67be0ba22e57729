//! Lists of hosts: names, `*.suffix`, `*`, addresses and address ranges, each with an optional port. Pure.

use crate::address::refusal;
use std::net::IpAddr;
use url::{Host, Url};

/// Ports for an allowed host without a port: those of the web.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// An entry of a list that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is neither a host (`docs.rs`, `*.docs.rs`, `docs.rs:8443`) nor an address or a range (`10.0.0.0/8`)"
)]
pub struct BadHost(String);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Every host on the internet.
    All,
    Name(String),
    /// Names that end in this suffix, without the suffix itself.
    Below(String),
    Range(AddressRange),
}

/// An address or a range of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    /// Number of leading bits that all addresses of the range share.
    bits: u32,
}

impl AddressRange {
    /// Parses an address or a range. `None` for any other text.
    pub fn read(text: &str) -> Option<Self> {
        let (first, bits) = match text.split_once('/') {
            Some((first, bits)) => (first, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let first: IpAddr = first.parse().ok()?;
        let whole = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(whole);
        (bits <= whole).then_some(Self { first, bits })
    }

    /// True if the address is in the range. An IPv4 address is never in a range of IPv6, and the other way round.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let same = match (self.first, ip) {
            (IpAddr::V4(first), IpAddr::V4(ip)) => (first.to_bits() ^ ip.to_bits()).leading_zeros(),
            (IpAddr::V6(first), IpAddr::V6(ip)) => (first.to_bits() ^ ip.to_bits()).leading_zeros(),
            _ => return false,
        };
        same >= self.bits
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    kind: Kind,
    port: Option<u16>,
}

/// The hosts that confined commands may reach. Denied hosts take precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRules {
    allow: Vec<Entry>,
    deny: Vec<Entry>,
    /// The reason why no host may be reached at all, if an entry could not be parsed.
    unreadable: Option<String>,
}

impl HostRules {
    /// Parses the lists of allowed and denied hosts.
    ///
    /// # Errors
    ///
    /// Returns the first entry that cannot be parsed.
    pub fn new(allow: &[String], deny: &[String]) -> Result<Self, BadHost> {
        let read = |list: &[String]| list.iter().map(|text| Entry::read(text)).collect::<Result<Vec<_>, _>>();
        Ok(Self { allow: read(allow)?, deny: read(deny)?, unreadable: None })
    }

    /// Returns rules that allow no host, because an entry of the configuration cannot be parsed.
    pub fn unreadable(entry: &BadHost) -> Self {
        let why = format!(
            "no host is allowed, because an entry of sandbox.allow_hosts or sandbox.deny_hosts is invalid: {entry}"
        );
        Self { unreadable: Some(why), ..Self::default() }
    }

    /// Judges a host before its name is resolved. `Err` is the reason for the refusal.
    pub(crate) fn judge(&self, host: &Host<String>, port: u16) -> Result<(), String> {
        if let Some(why) = &self.unreadable {
            return Err(why.clone());
        }
        if self.deny.iter().any(|entry| entry.covers_any_port(host, port)) {
            return Err("it is in sandbox.deny_hosts".to_owned());
        }
        let (mut named, mut at_port) = (false, false);
        for entry in self.allow.iter().filter(|entry| entry.names(host)) {
            named = true;
            at_port |= entry.has_port(port);
        }
        match (named, at_port) {
            (_, true) => address(host).map_or(Ok(()), |ip| self.judge_address(ip, port)),
            (true, false) => Err(format!("sandbox.allow_hosts names it without port {port}")),
            (false, false) => Err("it is not in sandbox.allow_hosts".to_owned()),
        }
    }

    /// Judges an address to which an allowed name resolves, or that a client has named itself. `Err` is the reason for the refusal.
    pub(crate) fn judge_address(&self, ip: IpAddr, port: u16) -> Result<(), String> {
        let host = match ip {
            IpAddr::V4(ip) => Host::Ipv4(ip),
            IpAddr::V6(ip) => Host::Ipv6(ip),
        };
        if self.deny.iter().any(|entry| entry.covers_any_port(&host, port)) {
            return Err(format!("its address {ip} is in sandbox.deny_hosts"));
        }
        let Some(why) = refusal(ip) else { return Ok(()) };
        let named = |entry: &Entry| matches!(entry.kind, Kind::Range(..)) && entry.names(&host);
        if self.allow.iter().any(|entry| named(entry) && entry.has_port(port)) {
            return Ok(());
        }
        Err(format!("{ip} is {why}, and sandbox.allow_hosts does not name that address with port {port}"))
    }

    /// True if an address of this machine is allowed. Clients then have to use the proxy for these addresses too.
    pub(crate) fn allows_this_machine(&self) -> bool {
        self.allow.iter().any(|entry| matches!(entry.kind, Kind::Range(range) if range.first.is_loopback()))
    }
}

impl Entry {
    fn read(text: &str) -> Result<Self, BadHost> {
        let bad = || BadHost(text.to_owned());
        let plain = text.trim().to_lowercase();
        let (host, port) = split_port(&plain).ok_or_else(bad)?;
        if host == "*" {
            return Ok(Self { kind: Kind::All, port });
        }
        if let Some(range) = AddressRange::read(host) {
            return Ok(Self { kind: Kind::Range(range), port });
        }
        let (suffix, below) = host.strip_prefix("*.").map_or((host, false), |suffix| (suffix, true));
        // Accepts only hosts as they appear in URLs: international names in ASCII.
        let url = Url::parse(&format!("http://{suffix}/")).map_err(|_| bad())?;
        let plain =
            url.path() == "/" && url.username().is_empty() && url.port().is_none() && url.query().is_none();
        match url.host() {
            Some(Host::Domain(name)) if plain && !suffix.contains(['/', '*', '@', ':', '?', '#']) => {
                let name = name.trim_end_matches('.').to_owned();
                Ok(Self { kind: if below { Kind::Below(name) } else { Kind::Name(name) }, port })
            }
            _ => Err(bad()),
        }
    }

    fn has_port(&self, port: u16) -> bool {
        // A range of addresses without a port means all services there, not only web pages.
        let any = matches!(self.kind, Kind::Range(..));
        self.port.map_or(any || USUAL_PORTS.contains(&port), |own| own == port)
    }

    /// Like `names`, for deny lists: an entry without a port means every port.
    fn covers_any_port(&self, host: &Host<String>, port: u16) -> bool {
        self.names(host) && self.port.is_none_or(|own| own == port)
    }

    fn names(&self, host: &Host<String>) -> bool {
        match (&self.kind, host) {
            (Kind::All, _) => true,
            (Kind::Name(own), Host::Domain(name)) => own == name.trim_end_matches('.'),
            (Kind::Below(suffix), Host::Domain(name)) => is_below(name.trim_end_matches('.'), suffix),
            (Kind::Range(range), host) => address(host).is_some_and(|ip| range.contains(ip)),
            (Kind::Name(_) | Kind::Below(_), _) => false,
        }
    }
}

/// True if `entry` (a host or `*.suffix`) matches `host`. Both must be in lower case.
pub fn names_host(entry: &str, host: &str) -> bool {
    entry.strip_prefix("*.").map_or(entry == host, |suffix| is_below(host, suffix))
}

fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'))
}

fn address(host: &Host<String>) -> Option<IpAddr> {
    match host {
        Host::Ipv4(ip) => Some(IpAddr::V4(*ip)),
        Host::Ipv6(ip) => Some(ip.to_ipv4_mapped().map_or(IpAddr::V6(*ip), IpAddr::V4)),
        Host::Domain(_) => None,
    }
}

/// Splits `host`, `host:80`, `[::1]:80` or `::1` into the host without brackets and the port. `None` if the port is
/// invalid.
pub fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (inner, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((inner, Some(port_number(port)?))),
            None => after.is_empty().then_some((inner, None)),
        };
    }
    match text.split_once(':') {
        // More than one colon: an IPv6 address without brackets.
        Some((host, port)) if !port.contains(':') => Some((host, Some(port_number(port)?))),
        _ => Some((text, None)),
    }
}

fn port_number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port != 0 && text.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(text: &str) -> (Host<String>, u16) {
        let url = Url::parse(text).unwrap();
        (url.host().unwrap().to_owned(), url.port_or_known_default().unwrap())
    }

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn hosts_that_are_reached() {
        for (allow, deny, url, want) in [
            ("docs.rs", "", "https://docs.rs/", true),
            ("docs.rs", "", "http://docs.rs/", true),
            ("DOCS.rs.", "", "https://docs.RS./", true),
            ("docs.rs", "", "https://docs.rs:8443/", false),
            ("docs.rs:8443", "", "https://docs.rs:8443/", true),
            ("docs.rs:8443", "", "https://docs.rs/", false),
            ("docs.rs docs.rs:22", "", "ws://docs.rs:22/", true),
            ("docs.rs", "", "https://a.docs.rs/", false),
            ("*.docs.rs", "", "https://a.b.docs.rs/", true),
            ("*.docs.rs", "", "https://docs.rs/", false),
            ("*.docs.rs", "", "https://notdocs.rs/", false),
            ("docs.rs", "", "https://docs.rs.evil.org/", false),
            ("bücher.de", "", "https://xn--bcher-kva.de/", true),
            ("*", "", "https://anything.org/", true),
            ("*", "", "https://93.184.215.14/", true),
            ("*", "", "https://anything.org:22/", false),
            ("*", "evil.org", "https://evil.org/", false),
            ("*", "evil.org", "https://evil.org:8443/", false),
            ("*", "*.evil.org", "https://a.evil.org/", false),
            ("*", "93.184.0.0/16", "https://93.184.215.14/", false),
            ("docs.rs", "docs.rs", "https://docs.rs/", false),
            ("*", "", "http://127.0.0.1/", false),
            ("*", "", "http://0x7f.1/", false),
            ("*", "", "http://[::ffff:10.0.0.1]/", false),
            ("*", "", "http://169.254.169.254/", false),
            ("127.0.0.1", "", "http://127.0.0.1:5432/", true),
            ("127.0.0.1:5432", "", "http://127.0.0.1/", false),
            ("127.0.0.0/8", "", "http://[::ffff:127.0.0.1]/", true),
            ("[::1]:80", "", "http://[::1]/", true),
            ("::1", "", "http://[::1]:81/", true),
            ("10.0.0.0/8", "10.0.0.1", "http://10.0.0.1/", false),
            ("10.0.0.0/8", "10.0.0.1", "http://10.0.0.2/", true),
            ("", "", "https://docs.rs/", false),
        ] {
            let rules = HostRules::new(&list(allow), &list(deny)).unwrap();
            let (host, port) = host(url);
            assert_eq!(rules.judge(&host, port).is_ok(), want, "{allow} | {deny} | {url}");
        }
    }

    #[test]
    fn names_that_lead_into_the_own_network_need_its_address_too() {
        let judge = |allow: &str, ip: &str| {
            HostRules::new(&list(allow), &[]).unwrap().judge_address(ip.parse().unwrap(), 443)
        };
        assert!(judge("npm.corp.internal", "10.1.2.3").unwrap_err().contains("a private address"));
        assert_eq!(judge("npm.corp.internal 10.0.0.0/8", "10.1.2.3"), Ok(()));
        assert!(judge("npm.corp.internal 10.0.0.0/8:80", "10.1.2.3").is_err());
        assert!(judge("* 10.0.0.0/8", "169.254.169.254").is_err());
        assert_eq!(judge("docs.rs", "93.184.215.14"), Ok(()));
    }

    #[test]
    fn entries_that_are_not_understood() {
        for text in [
            "",
            " ",
            "https://docs.rs",
            "docs.rs/x",
            "docs.rs:",
            "docs.rs:0",
            "docs.rs:99999",
            "docs.rs:+80",
            "*docs.rs",
            "a.*.rs",
            "**",
            "user@docs.rs",
            "10.0.0.0/33",
            "[::1",
            "[::1]x",
            "docs.rs#x",
            "docs.rs?x",
            "a b",
        ] {
            assert!(HostRules::new(&[text.to_owned()], &[]).is_err(), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn no_name_leads_into_the_own_network(bits in any::<u32>(), port in any::<u16>()) {
            let ip = IpAddr::from(std::net::Ipv4Addr::from_bits(bits));
            let rules = HostRules::new(&list("* *.org a.org a.org:22"), &[]).unwrap();
            prop_assert_eq!(rules.judge_address(ip, port).is_ok(), refusal(ip).is_none());
        }

        #[test]
        fn what_is_denied_is_reached_by_no_entry(name in "[a-z]{1,8}(\\.[a-z]{1,5}){1,3}", port in 1u16..) {
            let allow = ["*".to_owned(), name.clone(), format!("{name}:{port}")];
            let rules = HostRules::new(&allow, std::slice::from_ref(&name)).unwrap();
            prop_assert!(rules.judge(&Host::Domain(name), port).is_err());
        }

        #[test]
        fn any_text_is_read(text in ".{0,40}") {
            let _ = HostRules::new(std::slice::from_ref(&text), std::slice::from_ref(&text));
        }
    }
}
