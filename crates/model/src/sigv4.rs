//! Requests signed for AWS (Signature Version 4): a date, a scope, and a chain of HMACs over the request.
//!
//! Pure: takes the request, the keys and the time, and gives the headers. The payload is signed by its SHA-256.

use crate::credential::AwsKeys;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use url::Url;

/// Size of a block of SHA-256 in bytes.
const BLOCK: usize = 64;

/// The request to sign.
pub(crate) struct Signed<'a> {
    pub method: &'a str,
    pub url: &'a Url,
    pub payload: [u8; 32],
    pub region: &'a str,
    pub service: &'a str,
    /// Further headers to sign. Their names are in lower case, sorted, and follow `x-amz-` in that order.
    pub more: &'a [(&'a str, &'a str)],
}

/// The headers that prove who asks: date, session token, and authorization.
pub(crate) fn headers(request: &Signed<'_>, keys: &AwsKeys, now: Timestamp) -> Vec<(&'static str, String)> {
    let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = &time[..8];
    let url = request.url;
    let mut names = "host;x-amz-date".to_owned();
    let mut canonical = format!("host:{}\nx-amz-date:{time}\n", host(url));
    if let Some(token) = &keys.session_token {
        names.push_str(";x-amz-security-token");
        let _ = writeln!(canonical, "x-amz-security-token:{}", token.expose());
    }
    for (name, value) in request.more {
        let _ = write!(names, ";{name}");
        let _ = writeln!(canonical, "{name}:{value}");
    }
    let text = format!(
        "{}\n{}\n{}\n{canonical}\n{names}\n{}",
        request.method,
        path(url.path()),
        query(url),
        hex(&request.payload)
    );
    let scope = format!("{date}/{}/{}/aws4_request", request.region, request.service);
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(text.as_bytes())));
    let first = format!("AWS4{}", keys.secret.expose());
    let key = [date, request.region, request.service, "aws4_request"]
        .into_iter()
        .fold(first.into_bytes(), |key, part| hmac(&key, part.as_bytes()).to_vec());
    let signature = hex(&hmac(&key, to_sign.as_bytes()));
    let mut out = vec![
        ("x-amz-date", time.clone()),
        (
            "authorization",
            format!(
                "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
                keys.id
            ),
        ),
    ];
    if let Some(token) = &keys.session_token {
        out.push(("x-amz-security-token", token.expose().to_owned()));
    }
    out
}

/// The value of the header `host`.
pub(crate) fn host(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

/// The path as it is signed: what the address has encoded is encoded once more, as for every service but S3.
fn path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    if out.is_empty() { "/".to_owned() } else { out }
}

fn query(url: &Url) -> String {
    let mut pairs: Vec<&str> = url.query().into_iter().flat_map(|query| query.split('&')).collect();
    pairs.sort_unstable();
    pairs.join("&")
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    /// The examples of AWS's own test suite, `get-vanilla` and `post-vanilla`.
    #[test]
    fn signatures_are_those_of_the_published_examples() {
        let keys = AwsKeys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: None,
            region: None,
        };
        let url = Url::parse("https://example.amazonaws.com/").unwrap();
        let now: Timestamp = "2015-08-30T12:36:00Z".parse().unwrap();
        for (method, want) in [
            ("GET", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ] {
            let payload = Sha256::digest(b"").into();
            let request =
                Signed { method, url: &url, payload, region: "us-east-1", service: "service", more: &[] };
            let headers = headers(&request, &keys, now);
            assert_eq!(headers[0], ("x-amz-date", "20150830T123600Z".to_owned()));
            assert_eq!(
                headers[1].1,
                format!(
                    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                     SignedHeaders=host;x-amz-date, Signature={want}"
                )
            );
        }
    }

    #[test]
    fn hmac_is_that_of_the_rfc() {
        // RFC 4231, test cases 2 and 6 (a key longer than a block).
        assert_eq!(
            hex(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(&hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn paths_are_encoded_once_more() {
        assert_eq!(path("/model/a%3A0/x"), "/model/a%253A0/x");
        assert_eq!(path("/model/a:0"), "/model/a%3A0");
        assert_eq!(path(""), "/");
    }
}
