//! Decides whether a token, or a description of a resource, is for the server that was asked.
//!
//! A token that another server accepts must not reach this one: its owner could use the token there. Two parts of an authorization
//! server's answer say for which server a token is: the members `resource`, `aud` and `audience` of the token's response, and the
//! claim `aud` of a token that is a readable JWT. Only web addresses are judged. Other names, such as a client's id, do not tell
//! which server they mean.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::transport::StoredCredentials;
use serde_json::Value;
use url::Url;

/// Maximum length of an address in a message, in bytes.
const MOST_SHOWN: usize = 200;

/// The server that may get a token.
#[derive(Clone, Debug)]
pub(super) struct Audience {
    server: Url,
    /// An audience that the user's configuration allows in addition.
    allowed: Option<String>,
}

impl Audience {
    pub(super) fn new(server: &Url, allowed: Option<&str>) -> Self {
        Self { server: server.clone(), allowed: allowed.map(str::to_owned) }
    }

    /// Checks that a token is for the server.
    ///
    /// # Errors
    ///
    /// Returns a message for people if the token names other servers only. In this message, "its" means the server's.
    pub(super) fn check(&self, credentials: &StoredCredentials) -> Result<(), String> {
        let response = serde_json::to_value(&credentials.token_response).unwrap_or_default();
        let issuer = credentials.issuer.as_deref().and_then(|issuer| Url::parse(issuer).ok());
        let claims = response["access_token"].as_str().and_then(claims).unwrap_or_default();
        for named in [&response["resource"], &response["aud"], &response["audience"], &claims["aud"]] {
            self.check_names(&names(named), issuer.as_ref())?;
        }
        Ok(())
    }

    fn check_names(&self, names: &[&str], issuer: Option<&Url>) -> Result<(), String> {
        if self.allowed.as_deref().is_some_and(|allowed| names.contains(&allowed)) {
            return Ok(());
        }
        let mut others = names.iter().filter_map(|name| web_address(name)).filter(|other| {
            // Providers of OpenID Connect add their own address for the user's data to the audience.
            let is_of_issuer = issuer.is_some_and(|issuer| issuer.origin() == other.origin());
            !(is_of_issuer && other.path().ends_with("/userinfo"))
        });
        let Some(first) = others.next() else { return Ok(()) };
        if covers(&first, &self.server) || others.any(|other| covers(&other, &self.server)) {
            return Ok(());
        }
        let other = shown(&first);
        Err(format!(
            "its token is for {other} and not for {}, so becket does not send it; if the server is meant to get it, \
             add \"audience\": \"{other}\" to the server's \"oauth\"",
            shown(&self.server)
        ))
    }
}

/// Checks that an assertion is for the authorization server that would get it.
///
/// # Errors
///
/// Returns a message for people if the assertion names only addresses of other hosts.
pub(super) fn for_authorization_server(assertion: &str, own: &[&str]) -> Result<(), String> {
    let claims = claims(assertion).unwrap_or_default();
    let named: Vec<Url> = names(&claims["aud"]).into_iter().filter_map(web_address).collect();
    let own: Vec<Url> = own.iter().filter_map(|own| web_address(own)).collect();
    match named.first() {
        Some(first) if !named.iter().any(|name| own.iter().any(|own| own.origin() == name.origin())) => {
            Err(format!(
                "the configured assertion is for {} and not for the authorization server {own}, so becket does not send \
                 it; if that server is right, add its \"issuer\" to the server's \"oauth\"",
                shown(first),
                own = own.first().map(shown).unwrap_or_default()
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the claims of a token that is a JWT. Its signature is not checked, because the claims can only lead to a refusal.
fn claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (head, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let part = |text: &str| -> Option<Value> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?).ok()
    };
    part(head)?.get("alg")?;
    part(claims)
}

/// Returns the texts of a value that is a text or a list of texts.
fn names(value: &Value) -> Vec<&str> {
    match value {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn web_address(name: &str) -> Option<Url> {
    Url::parse(name).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// True if `resource` is the address of `server`, or a parent of it. Query and fragment do not count.
pub(super) fn covers(resource: &Url, server: &Url) -> bool {
    let (parent, path) = (resource.path().trim_end_matches('/'), server.path().trim_end_matches('/'));
    resource.origin() == server.origin()
        && path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns an address for a message, without parts that may be secrets.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    becket_types::cut_end(url.as_str(), MOST_SHOWN).to_owned()
}

/// Returns the reason for which a description at `place` is not used.
pub(crate) fn other_resource(place: &Url, described: &Url, server: &Url) -> String {
    format!(
        "the description of the server at {} is for another resource, {}, and not for {}; becket asks for no token and sends none",
        shown(place),
        shown(described),
        shown(server)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn jwt(claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2ln", part(&json!({ "alg": "RS256" })), part(claims))
    }

    fn checked(server: &str, allowed: Option<&str>, token: &str, more: &Value) -> Result<(), String> {
        let mut response = json!({ "access_token": token, "token_type": "bearer" });
        response.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let credentials =
            json!({ "client_id": "c", "token_response": response, "issuer": "https://login.example" });
        Audience::new(&url(server), allowed).check(&serde_json::from_value(credentials).unwrap())
    }

    #[test]
    fn tokens_for_another_server_are_refused() {
        let server = "https://mcp.example/one";
        for (audience, fits) in [
            (json!("https://mcp.example/one"), true),
            (json!("https://mcp.example/one/"), true),
            (json!("https://mcp.example"), true),
            (json!("https://mcp.example:443/"), true),
            (json!(["https://api.example", "https://mcp.example/one"]), true),
            (json!(["mine", "https://login.example/userinfo"]), true),
            (json!("0f8fad5b-d9cb-469f-a165-70867728950e"), true),
            (json!("api://default"), true),
            (json!(null), true),
            (json!(7), true),
            (json!("https://mcp.example/two"), false),
            (json!("https://mcp.example/on"), false),
            (json!("http://mcp.example/one"), false),
            (json!("https://mcp.example:8443/one"), false),
            (json!("https://api.example/"), false),
            (json!(["https://api.example/", "https://login.example/userinfo"]), false),
            (json!(["https://other.example/userinfo"]), false),
        ] {
            let of_claim = checked(server, None, &jwt(&json!({ "aud": audience })), &json!({}));
            assert_eq!(of_claim.is_ok(), fits, "{audience}: {of_claim:?}");
            for member in ["resource", "aud", "audience"] {
                let told = checked(server, None, "opaque", &json!({ member: audience }));
                assert_eq!(told.is_ok(), fits, "{member} {audience}: {told:?}");
            }
        }
    }

    #[test]
    fn an_audience_of_the_configuration_is_allowed() {
        let token = jwt(&json!({ "aud": "https://api.example/v1" }));
        let of = |allowed| checked("https://mcp.example/one", allowed, &token, &json!({}));
        assert!(of(Some("https://api.example/v1")).is_ok());
        assert!(of(Some("https://api.example/v2")).is_err());
        let why = of(None).unwrap_err();
        assert!(why.contains("\"audience\": \"https://api.example/v1\""), "{why}");
    }

    #[test]
    fn an_assertion_goes_to_its_own_authorization_server() {
        let own = ["https://login.example/realm", "https://token.example/token"];
        for (audience, fits) in [
            (json!("https://login.example"), true),
            (json!(["https://other.example", "https://token.example/token"]), true),
            (json!("sts.amazonaws.com"), true),
            (json!(null), true),
            (json!("https://other.example"), false),
            (json!(["https://other.example", "kubernetes"]), false),
        ] {
            let told = for_authorization_server(&jwt(&json!({ "aud": audience })), &own);
            assert_eq!(told.is_ok(), fits, "{audience}: {told:?}");
        }
        assert!(for_authorization_server("opaque", &own).is_ok());
    }

    #[test]
    fn texts_that_are_no_tokens_of_this_form_are_not_judged() {
        for token in [
            "",
            "a.b",
            "a.b.c",
            "...",
            &format!("e30.{}.x", URL_SAFE_NO_PAD.encode("{\"aud\":\"https://a.example\"}")),
        ] {
            assert!(checked("https://mcp.example", None, token, &json!({})).is_ok(), "{token}");
        }
    }
}
