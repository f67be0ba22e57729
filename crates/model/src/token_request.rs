//! One small request to a service that gives keys: a token endpoint, or the metadata service of a machine.
//!
//! Owns sending it with the same client as requests to models: proxies, trusted issuers, no redirects. The caller decides
//! which address may be asked. Messages have no text of the request, and none of the answer but its error fields.

use crate::base_url::is_local;
use crate::credential::AwsKeys;
use crate::settings::{Proxies, Settings};
use crate::{http, sigv4};
use reqwest::Method;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use url::Url;
use url::form_urlencoded::Serializer;

/// Largest answer in bytes.
const MOST: usize = 256 * 1024;

/// The body of such a request.
#[derive(Clone, Debug, Default)]
pub enum Body {
    #[default]
    None,
    /// Fields of a form.
    Form(Vec<(String, String)>),
    Json(Value),
    /// `PUT` without a body.
    EmptyPut,
}

/// A request to a service that gives keys.
#[derive(Debug)]
pub struct TokenRequest {
    pub url: Url,
    pub headers: Vec<(String, String)>,
    pub body: Body,
    /// Time limit for the whole exchange.
    pub timeout: Duration,
    /// Keys, region and service of a signature for AWS.
    pub sign: Option<(AwsKeys, String, String)>,
}

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFault {
    /// The status, if the service answered.
    pub status: Option<u16>,
    /// The error code of OAuth, such as `invalid_grant`.
    pub code: Option<String>,
    pub why: String,
}

/// Sends the request and returns the text of a successful answer.
///
/// # Errors
///
/// Returns the reason, without the request and without keys.
pub async fn token_request(request: &TokenRequest, proxies: &Proxies) -> Result<String, TokenFault> {
    let host = request.url.host_str().unwrap_or_default().to_owned();
    let fault = |status, why: String| TokenFault { status, code: None, why: format!("{host} {why}") };
    let settings = Settings { proxies: proxies.clone(), ..Settings::default() };
    let local = is_local(&request.url) || is_link_local(&request.url);
    let client = http::build(&request.url, local, &settings)
        .map_err(|why| fault(None, format!("cannot be asked: {why}")))?;
    let (method, content, body) = match &request.body {
        Body::None => (Method::GET, None, String::new()),
        Body::EmptyPut => (Method::PUT, None, String::new()),
        Body::Form(fields) => {
            let text = Serializer::new(String::new()).extend_pairs(fields).finish();
            (Method::POST, Some("application/x-www-form-urlencoded"), text)
        }
        Body::Json(value) => (Method::POST, Some("application/json"), value.to_string()),
    };
    let mut out = client.request(method.clone(), request.url.clone()).timeout(request.timeout);
    for (name, value) in &request.headers {
        out = out.header(name, value);
    }
    if let Some(content) = content {
        out = out.header("content-type", content);
    }
    if let Some((keys, region, service)) = &request.sign {
        let payload = Sha256::digest(body.as_bytes()).into();
        let (method, url) = (method.as_str(), &request.url);
        let signed = sigv4::Signed { method, url, payload, region, service, more: &[] };
        for (name, value) in sigv4::headers(&signed, keys, jiff::Timestamp::now()) {
            out = out.header(name, value);
        }
    }
    let mut response = out.body(body).send().await.map_err(|e| {
        let what = if e.is_timeout() { "did not answer in time" } else { "cannot be reached" };
        fault(None, what.to_owned())
    })?;
    let status = response.status();
    let mut bytes = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|_| fault(None, "broke off its answer".to_owned()))?
    {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MOST {
            return Err(fault(Some(status.as_u16()), "sent too much".to_owned()));
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if status.is_success() {
        return Ok(text);
    }
    let said = error_fields(&text).map(|said| format!(": {said}")).unwrap_or_default();
    let refused = fault(Some(status.as_u16()), format!("refused (status {}){said}", status.as_u16()));
    Err(TokenFault { code: code(&text), ..refused })
}

/// Returns the error code of OAuth in an answer. A code is one word.
fn code(text: &str) -> Option<String> {
    let json: Value = becket_types::parse_json(text).ok()?;
    let code = json["error"].as_str()?;
    let is_word = code.len() <= 64 && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    is_word.then(|| code.to_owned())
}

/// Signs a `POST` request without a body for AWS. Returns its headers, with `host` and `more`. The names in `more` are in lower
/// case, sorted, and follow `x-amz-` in that order.
pub fn aws_headers(
    url: &Url,
    keys: &AwsKeys,
    (region, service): (&str, &str),
    more: &[(&str, &str)],
) -> Vec<(String, String)> {
    let payload = Sha256::digest(b"").into();
    let signed = sigv4::Signed { method: "POST", url, payload, region, service, more };
    let own =
        [("host", sigv4::host(url))].into_iter().chain(sigv4::headers(&signed, keys, jiff::Timestamp::now()));
    let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
    own.chain(more).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the error fields of an answer. Other fields may echo the request, and with it a secret.
fn error_fields(text: &str) -> Option<String> {
    let json: Value = becket_types::parse_json(text).ok()?;
    let fields = [
        &json["error_description"],
        &json["error"]["message"],
        &json["error"],
        &json["message"],
        &json["Message"],
    ];
    let said = fields.into_iter().find_map(Value::as_str)?;
    let line = said.lines().next().unwrap_or_default();
    Some(line.chars().filter(|c| !c.is_control()).take(200).collect())
}

/// True for the metadata services of machines in a cloud, which no proxy reaches.
fn is_link_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_link_local(),
        Some(url::Host::Ipv6(ip)) => ip.is_unicast_link_local() || ip.is_unique_local(),
        Some(url::Host::Domain(name)) => name == "metadata.google.internal",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_without_the_rest_of_the_answer() {
        for (text, want) in [
            (
                r#"{"error": "invalid_grant", "error_description": "Token has been revoked.\nmore"}"#,
                "Token has been revoked.",
            ),
            (r#"{"error": {"message": "no"}, "assertion": "secret"}"#, "no"),
            (r#"{"message": "m"}"#, "m"),
        ] {
            assert_eq!(error_fields(text).as_deref(), Some(want));
        }
        assert_eq!(error_fields("<html>secret</html>"), None);
    }

    #[test]
    fn metadata_services_are_asked_without_a_proxy() {
        for (url, want) in [
            ("http://169.254.169.254/latest", true),
            ("http://[fd00:ec2::254]/", true),
            ("http://metadata.google.internal/", true),
            ("https://sts.amazonaws.com", false),
        ] {
            assert_eq!(is_link_local(&Url::parse(url).unwrap()), want, "{url}");
        }
    }
}
