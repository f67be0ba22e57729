//! AWS as the source of an identity for Google Cloud: the identity token is a signed request that Google sends to AWS, which then
//! tells Google who signed it. becket itself does not send it.
//!
//! Keys and region are those of AWS's variables, else of the metadata service beside this machine. The file of Google's
//! credentials names that service; no other address is asked, and nothing but `GetCallerIdentity` is signed.

use super::{REQUEST_TIMEOUT, address, ask, ask_json, is_loopback_or_metadata_host, request};
use crate::environment::Environment;
use becket_model::{AwsKeys, Proxies, Secret, TokenBody, aws_headers};
use serde_json::{Value, json};
use url::{Host, Url};

/// The header that ties the signed request to one pool of identities, so that no other one takes it.
const TARGET: &str = "x-goog-cloud-target-resource";

/// Returns the identity token for `source`, the `credential_source` of a file for `audience`.
pub(super) async fn subject(
    environment: &Environment,
    source: &Value,
    audience: &str,
) -> Result<String, String> {
    let id = source["environment_id"].as_str().unwrap_or_default();
    if id != "aws1" {
        return Err(format!("the credentials are for {id}, and becket knows only aws1"));
    }
    let machine = Machine::new(environment.proxies(), source);
    let variable = |names: &[&str]| names.iter().find_map(|name| environment.var(name)).map(str::to_owned);
    let region = match variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]) {
        Some(region) => region,
        None => machine.region().await?,
    };
    let keys = match (variable(&["AWS_ACCESS_KEY_ID"]), variable(&["AWS_SECRET_ACCESS_KEY"])) {
        (Some(id), Some(secret)) => {
            let session_token = variable(&["AWS_SESSION_TOKEN"]).map(Secret::new);
            AwsKeys { id, secret: Secret::new(secret), session_token, region: None }
        }
        _ => machine.keys().await?,
    };
    signed_request(source, &region, &keys, audience)
}

/// Returns the signed request, in the form that Google's token exchange wants.
fn signed_request(source: &Value, region: &str, keys: &AwsKeys, audience: &str) -> Result<String, String> {
    let is_label = !region.is_empty() && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !is_label {
        return Err("the region is not a name of a region".to_owned());
    }
    let usual = "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15";
    let url = source["regional_cred_verification_url"].as_str().unwrap_or(usual).replace("{region}", region);
    let url = address(&url)?;
    if !asks_who_signed(&url) {
        return Err(format!(
            "the credentials name {}, which is not the identity service of AWS",
            url.host_str().unwrap_or("no host")
        ));
    }
    let headers: Vec<Value> = aws_headers(&url, keys, (region, "sts"), &[(TARGET, audience)])
        .into_iter()
        .map(|(key, value)| json!({"key": key, "value": value}))
        .collect();
    let token = json!({"url": url.as_str(), "method": "POST", "headers": headers}).to_string();
    // Google decodes the token once more after it has decoded the form.
    Ok(url::form_urlencoded::byte_serialize(token.as_bytes()).collect::<String>().replace('+', "%20"))
}

/// True for `GetCallerIdentity` at the security token service of AWS.
fn asks_who_signed(url: &Url) -> bool {
    let at_sts = |name: &str| {
        name.starts_with("sts.") && (name.ends_with(".amazonaws.com") || name.ends_with(".amazonaws.com.cn"))
            || name == "sts.amazonaws.com"
    };
    let mut actions = url.query_pairs().filter(|(name, _)| name == "Action");
    url.scheme() == "https"
        && url.path() == "/"
        && matches!(url.host(), Some(Host::Domain(name)) if at_sts(name))
        && actions.next().is_some_and(|(_, action)| action == "GetCallerIdentity")
        && actions.next().is_none()
}

/// The metadata service that a file names.
struct Machine<'a> {
    proxies: Proxies,
    source: &'a Value,
}

impl<'a> Machine<'a> {
    fn new(proxies: Proxies, source: &'a Value) -> Self {
        Self { proxies, source }
    }

    fn url(&self, key: &str) -> Result<Url, String> {
        let missing =
            || format!("there are no AWS keys and region in variables, and the credentials have no `{key}`");
        let url = address(self.source[key].as_str().ok_or_else(missing)?)?;
        if !is_loopback_or_metadata_host(&url) {
            return Err(format!(
                "{key} names {}, which is not on this machine",
                url.host_str().unwrap_or("no host")
            ));
        }
        Ok(url)
    }

    /// Returns the headers for a request: the session token of IMDSv2, if the file names the address that gives it.
    async fn headers(&self) -> Result<Vec<(String, String)>, String> {
        const KEY: &str = "imdsv2_session_token_url";
        if self.source[KEY].is_null() {
            return Ok(Vec::new());
        }
        let mut asked = request(self.url(KEY)?, TokenBody::EmptyPut);
        asked.headers =
            vec![("x-aws-ec2-metadata-token-ttl-seconds".to_owned(), REQUEST_TIMEOUT.as_secs().to_string())];
        let token = ask(&self.proxies, asked).await?;
        Ok(vec![("x-aws-ec2-metadata-token".to_owned(), token.trim().to_owned())])
    }

    /// Returns the region: the zone of the machine without its last letter.
    async fn region(&self) -> Result<String, String> {
        let mut asked = request(self.url("region_url")?, TokenBody::None);
        asked.headers = self.headers().await?;
        let zone = ask(&self.proxies, asked).await?;
        let zone = zone.trim();
        Ok(zone.strip_suffix(|c: char| c.is_ascii_lowercase()).unwrap_or(zone).to_owned())
    }

    async fn keys(&self) -> Result<AwsKeys, String> {
        let headers = self.headers().await?;
        let url = self.url("url")?;
        let mut asked = request(url.clone(), TokenBody::None);
        asked.headers.clone_from(&headers);
        let role = ask(&self.proxies, asked).await?;
        let role = role.lines().next().unwrap_or_default().trim();
        if role.is_empty() || role.contains(['/', '?', '#']) {
            return Err("this machine has no role".to_owned());
        }
        let mut asked =
            request(address(&format!("{}/{role}", url.as_str().trim_end_matches('/')))?, TokenBody::None);
        asked.headers = headers;
        let json = ask_json(&self.proxies, asked).await?;
        let text = |key: &str| json[key].as_str().map(str::to_owned);
        Ok(AwsKeys {
            id: text("AccessKeyId").ok_or("the role has no keys")?,
            secret: Secret::new(text("SecretAccessKey").ok_or("the role has no keys")?),
            session_token: text("Token").map(Secret::new),
            region: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_question_who_signed_is_signed() {
        for (url, want) in [
            ("https://sts.eu-west-1.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15", true),
            ("https://sts.cn-north-1.amazonaws.com.cn/?Action=GetCallerIdentity", true),
            ("https://sts.amazonaws.com/?Action=GetCallerIdentity", true),
            ("http://sts.eu-west-1.amazonaws.com?Action=GetCallerIdentity", false),
            ("https://sts.eu-west-1.amazonaws.com?Action=AssumeRole", false),
            ("https://sts.eu-west-1.amazonaws.com?Action=GetCallerIdentity&Action=AssumeRole", false),
            ("https://sts.eu-west-1.amazonaws.com/other?Action=GetCallerIdentity", false),
            ("https://sts.example.com?Action=GetCallerIdentity", false),
            ("https://sts.amazonaws.com.example.com?Action=GetCallerIdentity", false),
            ("https://bucket.s3.amazonaws.com?Action=GetCallerIdentity", false),
        ] {
            assert_eq!(asks_who_signed(&Url::parse(url).unwrap()), want, "{url}");
        }
        let keys = AwsKeys { id: "AKID".into(), secret: Secret::new("s"), session_token: None, region: None };
        for region in ["", "x.example.com/#", "a b"] {
            assert!(signed_request(&json!({}), region, &keys, "//iam/x").is_err(), "{region}");
        }
        let token = signed_request(&json!({}), "eu-west-1", &keys, "//iam/x").unwrap();
        assert!(!token.contains(['"', ' ', '+', '{']), "{token}");
    }
}
