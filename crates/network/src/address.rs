//! Classifies IP addresses: on the internet, on this machine, on its network, or of a cloud's own services.
//!
//! Pure. Source: the IANA special-purpose address registries for IPv4 and IPv6. An IPv6 address that contains an IPv4 address is
//! classified like that IPv4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Azure's platform address. Its number is public, but a service of the local host answers there.
const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Returns the reason to refuse an address; `None` if it is on the internet.
pub fn refusal(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => v4(ip),
        IpAddr::V6(ip) => v6(ip),
    }
}

fn v4(ip: Ipv4Addr) -> Option<&'static str> {
    Some(match ip.octets() {
        _ if ip == WIRE_SERVER => "a metadata address of a cloud",
        [127, ..] => "a loopback address",
        [169, 254, 169, 254] | [100, 100, 100, 200] => "a metadata address of a cloud",
        [169, 254, ..] => "a link-local address",
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => "a private address",
        [100, 64..=127, ..] => "an address inside a provider's network",
        [0, ..] => "an address of this machine",
        [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "a reserved address",
        [192, 88, 99, _] | [198, 18..=19, ..] | [240..=255, ..] => "a reserved address",
        [224..=239, ..] => "a multicast address",
        _ => return None,
    })
}

fn v6(ip: Ipv6Addr) -> Option<&'static str> {
    let inner = |high: u16, low: u16| {
        let [a, b, c, d] = [high.to_be_bytes(), low.to_be_bytes()].concat()[..] else { return None };
        v4(Ipv4Addr::new(a, b, c, d))
    };
    Some(match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "an address of this machine",
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback address",
        // IPv4-mapped addresses, and addresses of NAT64. The next case is 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            return inner(high, low);
        }
        [0x2002, high, low, ..] => return inner(high, low),
        [0xfc00..=0xfdff, ..] => "a private address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xfec0..=0xfeff, ..] => "a private address",
        [0xff00..=0xffff, ..] => "a multicast address",
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "a reserved address",
        [0x2000..=0x3fff, ..] => return None,
        _ => "a reserved address",
    })
}

#[cfg(test)]
mod tests {
    //! 10,000 cases each (`PROPTEST_CASES` for more): pure and cheap.
    use super::*;
    use proptest::prelude::*;
    use url::{Host, Url};

    /// The IP address that is the host of a URL, as the tools parse it; `None` if the host is a name.
    fn of_url(url: &str) -> Option<IpAddr> {
        match Url::parse(url).unwrap().host()? {
            Host::Ipv4(ip) => Some(ip.into()),
            Host::Ipv6(ip) => Some(ip.into()),
            Host::Domain(_) => None,
        }
    }

    #[test]
    fn every_way_to_write_an_address_of_this_network_is_seen() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://0x7f.1/",
            "http://127.0.0.1./",
            "http://①②⑦.⓪.⓪.①/",
            "http://127。0。0。1/",
            "http://%31%32%37.0.0.1/",
            "http://0/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[0:0:0:0:0:ffff:10.0.0.1]/",
            "http://[64:ff9b::169.254.169.254]/",
            "http://[64:ff9b:1::1]/",
            "http://[2002:7f00:1::]/",
            "http://[2001:0:1::]/",
            "http://[fe80::1]/",
            "http://[fec0::1]/",
            "http://[fd00:ec2::254]/",
            "http://[::127.0.0.1]/",
            "http://169.254.169.254/latest/meta-data",
            "http://0xa9fea9fe/",
            "http://100.64.0.1/",
            "http://100.100.100.200/",
            "http://168.63.129.16/",
            "http://192.168.1.1/",
            "http://172.31.255.255/",
            "http://255.255.255.255/",
            "http://224.0.0.1/",
            "http://a:b@10.0.0.1:8080/",
        ] {
            let ip = of_url(url).unwrap_or_else(|| panic!("{url} is no address"));
            assert!(refusal(ip).is_some(), "{url} is {ip}");
        }
    }

    #[test]
    fn the_internet_is_open() {
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "192.167.1.1",
            "198.20.0.1",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::",
        ] {
            assert_eq!(refusal(ip.parse().unwrap()), None, "{ip}");
        }
    }

    fn config() -> ProptestConfig {
        let cases = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(10_000);
        ProptestConfig { cases, ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(config())]
        #[test]
        fn what_the_standard_library_calls_local_is_refused(bits in any::<u32>()) {
            let ip = Ipv4Addr::from_bits(bits);
            let local = ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_multicast() || ip.is_unspecified()
                || ip.is_broadcast() || ip.is_documentation();
            prop_assert!(!local || v4(ip).is_some(), "{}", ip);
        }

        #[test]
        fn an_address_is_the_same_in_every_form(bits in any::<u32>(), form in 0..7) {
            let ip = Ipv4Addr::from_bits(bits);
            let [a, b, c, d] = ip.octets();
            let host = match form {
                0 => bits.to_string(),
                1 => format!("0x{bits:x}"),
                2 => format!("0{a:o}.0x{b:x}.{c}.{d}"),
                3 => format!("{a}.{}", bits & 0xff_ffff),
                4 => format!("{a}.{b}.{}", bits & 0xffff),
                5 => format!("[::ffff:{a}.{b}.{c}.{d}]"),
                _ => format!("[64:ff9b::{a:x}{b:02x}:{c:x}{d:02x}]"),
            };
            let got = of_url(&format!("http://{host}/")).unwrap();
            prop_assert_eq!(refusal(got), v4(ip));
        }

        #[test]
        fn only_global_unicast_is_open_in_the_new_protocol(bits in any::<u128>()) {
            let ip = Ipv6Addr::from_bits(bits);
            if v6(ip).is_none() {
                let global = ip.segments()[0] & 0xe000 == 0x2000;
                prop_assert!(global || ip.to_ipv4_mapped().is_some() || ip.segments()[..2] == [0x64, 0xff9b]);
            }
        }
    }
}
