//! Parses the first bytes of a client to the requested host and port: HTTP with an absolute URL, CONNECT, SOCKS5.
//!
//! Pure. Hosts are parsed like hosts of URLs, so that all notations of an address give the same address.

use std::net::{Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// Maximum number of bytes before the body of a request.
pub(crate) const LONGEST_HEAD: usize = 32 << 10;

/// The request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub host: Host<String>,
    pub port: u16,
    pub kind: Kind,
    /// Number of bytes that belong to the request. The bytes after them are sent to the host.
    pub used: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Connect,
    Socks,
    /// HTTP without encryption: these bytes are sent to the host first, in place of the bytes that were read.
    Http(Vec<u8>),
}

/// The result of parsing the bytes so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// More bytes are needed.
    More,
    /// A SOCKS5 greeting of this many bytes. The client sends its request after the answer to the greeting.
    Greeting(usize),
    Wanted(Wanted),
    Bad(&'static str),
}

/// The first byte of SOCKS5.
pub(crate) const SOCKS: u8 = 5;

pub(crate) fn read(bytes: &[u8]) -> Read {
    match bytes.first() {
        None => Read::More,
        Some(&SOCKS) => greeting(bytes),
        Some(_) => http(bytes),
    }
}

fn greeting(bytes: &[u8]) -> Read {
    let Some(count) = bytes.get(1) else { return Read::More };
    let used = 2 + usize::from(*count);
    match bytes.get(2..used) {
        None => Read::More,
        // Method 0 means no authentication.
        Some(methods) if methods.contains(&0) => Read::Greeting(used),
        Some(_) => Read::Bad("the proxy of the sandbox accepts SOCKS5 only without a password"),
    }
}

/// Parses the SOCKS5 request, which follows the greeting.
pub(crate) fn read_socks(bytes: &[u8]) -> Read {
    let [version, command, _, kind, rest @ ..] = bytes else { return Read::More };
    if *version != SOCKS {
        return Read::Bad("this is not SOCKS5");
    }
    if *command != 1 {
        return Read::Bad(
            "the proxy of the sandbox supports only the SOCKS5 command CONNECT (no BIND, no UDP)",
        );
    }
    let (host, length) = match kind {
        1 => match rest.first_chunk::<4>() {
            Some(ip) => (Host::Ipv4(Ipv4Addr::from(*ip)), 4),
            None => return Read::More,
        },
        4 => match rest.first_chunk::<16>() {
            Some(ip) => (Host::Ipv6(Ipv6Addr::from(*ip)), 16),
            None => return Read::More,
        },
        3 => {
            let Some(length) = rest.first().map(|length| usize::from(*length)) else { return Read::More };
            let Some(name) = rest.get(1..=length) else { return Read::More };
            let Some(host) = std::str::from_utf8(name).ok().and_then(host_alone) else {
                return Read::Bad("the host is not understood");
            };
            (host, 1 + length)
        }
        _ => return Read::Bad("the kind of address is not known"),
    };
    match rest.get(length..length + 2) {
        Some([high, low]) => {
            let port = u16::from_be_bytes([*high, *low]);
            Read::Wanted(Wanted { host, port, kind: Kind::Socks, used: 4 + length + 2 })
        }
        _ => Read::More,
    }
}

fn host_alone(text: &str) -> Option<Host<String>> {
    if text.contains(['/', '@', ':', '?', '#', '\\']) {
        return None;
    }
    Some(Url::parse(&format!("http://{text}/")).ok()?.host()?.to_owned())
}

fn http(bytes: &[u8]) -> Read {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if bytes.len() >= LONGEST_HEAD { Read::Bad("the head is too long") } else { Read::More };
    };
    let Ok(head) = std::str::from_utf8(&bytes[..end]) else { return Read::Bad("the head is not text") };
    // Some servers take a single line feed or carriage return for the end of a line, and others do not, so they could read other
    // headers than this parser.
    if head.replace("\r\n", "").contains(['\r', '\n', '\0']) {
        return Read::Bad("a header line does not end with CR LF");
    }
    let mut lines = head.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words[..] else { return Read::Bad("this is not an HTTP request") };
    if !version.starts_with("HTTP/1.") {
        return Read::Bad("the proxy of the sandbox accepts only HTTP/1");
    }
    let used = end + 4;
    if method == "CONNECT" {
        return match connect(target) {
            Some((host, port)) => Read::Wanted(Wanted { host, port, kind: Kind::Connect, used }),
            None => Read::Bad("CONNECT is followed by HOST:PORT"),
        };
    }
    let Ok(url) = Url::parse(target) else {
        return Read::Bad("the URL is incomplete (expected http://HOST/PATH)");
    };
    if url.scheme() != "http" || !url.username().is_empty() || url.password().is_some() {
        return Read::Bad("only http:// without a login is passed on; everything else goes through CONNECT");
    }
    let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
        return Read::Bad("the address has no host");
    };
    let host = host.to_owned();
    Read::Wanted(Wanted { kind: Kind::Http(direct(method, &url, version, lines)), host, port, used })
}

/// Parses `HOST:PORT`. The port is required.
fn connect(target: &str) -> Option<(Host<String>, u16)> {
    let (host, port) = target.rsplit_once(':')?;
    let port = port.parse().ok().filter(|_| port.bytes().all(|b| b.is_ascii_digit()))?;
    let host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(ip) => Host::Ipv6(ip.parse().ok()?),
        None => host_alone(host)?,
    };
    Some((host, port))
}

/// Makes the request that is sent to the host: only the path of the URL, the host on which the rules have decided, and no headers
/// for the proxy. The connection ends after the answer, so that a second request, perhaps for another host, is judged as well.
fn direct<'a>(method: &str, url: &Url, version: &str, lines: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::BeforePath];
    let mut out = format!("{method} {path} {version}\r\nHost: {host}\r\nConnection: close\r\n");
    for line in lines {
        let name = line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
        let ours =
            name.starts_with("proxy-") || matches!(&*name, "host" | "connection" | "keep-alive" | "upgrade");
        if !ours {
            out.push_str(line);
            out.push_str("\r\n");
        }
    }
    out.push_str("\r\n");
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wanted(text: &str) -> Result<(String, u16), &'static str> {
        match read(text.as_bytes()) {
            Read::Wanted(wanted) => Ok((wanted.host.to_string(), wanted.port)),
            Read::Bad(why) => Err(why),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn what_http_wants() {
        for (line, want) in [
            ("CONNECT docs.rs:443 HTTP/1.1", Some(("docs.rs", 443))),
            ("CONNECT DOCS.rs:443 HTTP/1.1", Some(("docs.rs", 443))),
            ("CONNECT docs.rs:22 HTTP/1.0", Some(("docs.rs", 22))),
            ("CONNECT 0x7f.1:80 HTTP/1.1", Some(("127.0.0.1", 80))),
            ("CONNECT [::1]:80 HTTP/1.1", Some(("[::1]", 80))),
            ("CONNECT docs.rs HTTP/1.1", None),
            ("CONNECT docs.rs:x HTTP/1.1", None),
            ("CONNECT docs.rs:+80 HTTP/1.1", None),
            ("CONNECT docs.rs:99999 HTTP/1.1", None),
            ("CONNECT docs.rs/x@evil.org:443 HTTP/1.1", None),
            ("CONNECT docs.rs:443@evil.org:443 HTTP/1.1", None),
            ("CONNECT :443 HTTP/1.1", None),
            ("GET http://docs.rs/a?b HTTP/1.1", Some(("docs.rs", 80))),
            ("GET http://docs.rs:81/ HTTP/1.1", Some(("docs.rs", 81))),
            ("GET http://2130706433/ HTTP/1.1", Some(("127.0.0.1", 80))),
            ("GET http://a:b@docs.rs/ HTTP/1.1", None),
            ("GET https://docs.rs/ HTTP/1.1", None),
            ("GET ftp://docs.rs/ HTTP/1.1", None),
            ("GET / HTTP/1.1", None),
            ("GET http://docs.rs/ HTTP/2", None),
            ("GET  http://docs.rs/ HTTP/1.1", None),
            ("GET http://docs.rs/\nX: HTTP/1.1", None),
            ("nonsense", None),
        ] {
            let got = wanted(&format!("{line}\r\nA: b\r\n\r\n"));
            assert_eq!(got.ok(), want.map(|(host, port)| (host.to_owned(), port)), "{line}");
        }
    }

    #[test]
    fn the_host_gets_its_own_request() {
        let text = "POST http://docs.rs:81/a?b=c HTTP/1.1\r\nHost: evil.org\r\nProxy-Authorization: x\r\n\
                    Connection: keep-alive\r\nContent-Length: 2\r\n\r\nhi";
        let Read::Wanted(Wanted { kind: Kind::Http(head), used, .. }) = read(text.as_bytes()) else {
            panic!()
        };
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "POST /a?b=c HTTP/1.1\r\nHost: docs.rs:81\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
        );
        assert_eq!(&text[used..], "hi");
    }

    #[test]
    fn what_socks_wants() {
        assert_eq!(read(&[5, 1, 0]), Read::Greeting(3));
        assert_eq!(read(&[5, 2, 2, 0, 9]), Read::Greeting(4));
        assert_eq!(read(&[5, 1]), Read::More);
        assert!(matches!(read(&[5, 1, 2]), Read::Bad(_)));
        let socks = |bytes: &[u8]| match read_socks(bytes) {
            Read::Wanted(wanted) => format!("{}:{} {}", wanted.host, wanted.port, wanted.used),
            other => format!("{other:?}"),
        };
        assert_eq!(socks(b"\x05\x01\x00\x03\x07docs.rs\x01\xbb"), "docs.rs:443 14");
        assert_eq!(socks(b"\x05\x01\x00\x03\x060x7f.1\x00\x50"), "127.0.0.1:80 13");
        assert_eq!(socks(b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50rest"), "127.0.0.1:80 10");
        assert_eq!(socks(&[&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat()), "[::1]:80 22");
        assert_eq!(socks(b"\x05\x01\x00\x03\x07docs.rs\x01"), "More");
        assert!(socks(b"\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50").starts_with("Bad"));
        assert!(socks(b"\x05\x01\x00\x03\x03a/b\x00\x50").starts_with("Bad"));
        assert!(socks(b"\x05\x01\x00\x03\x00\x00\x50").starts_with("Bad"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for read in [read(&bytes), read_socks(&bytes)] {
                if let Read::Wanted(wanted) = read {
                    prop_assert!(wanted.used <= bytes.len());
                }
            }
        }

        #[test]
        fn a_beginning_never_wants_another_host(cut in 0usize..70) {
            let text = "CONNECT docs.rs:443 HTTP/1.1\r\nHost: docs.rs:443\r\nUser-Agent: x\r\n\r\n";
            let beginning = &text[..cut.min(text.len())];
            if cut < text.len() {
                prop_assert_eq!(read(beginning.as_bytes()), Read::More);
            }
        }
    }
}
