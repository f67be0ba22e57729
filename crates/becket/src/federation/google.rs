//! Application default credentials of Google Cloud: the file that `gcloud auth application-default login` writes or that
//! `GOOGLE_APPLICATION_CREDENTIALS` names, else the metadata service of the machine.
//!
//! A file may come from elsewhere and name an address of its own for the exchange. Secrets go only to hosts of
//! googleapis.com, unless the configuration names the address (`providers.vertex.token_url`).

use super::{
    TemporaryCredential, TokenCache, address, ask, ask_json, form, google_aws, google_program,
    is_loopback_or_metadata_host, is_machine_of, is_token, now, parse_oauth_token, request, token_in,
};
use crate::environment::Environment;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use becket_model::{NoKey, Proxies, TokenBody, TokenSource, sign_rs256};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use url::{Host, Url};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKENS: &str = "https://oauth2.googleapis.com/token";
const EXCHANGE: &str = "https://sts.googleapis.com/v1/token";
/// Lifetime of a signed assertion in seconds.
const ASSERTION: u64 = 3600;

/// A source of Google's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GoogleTokenSource {
    File(PathBuf),
    /// The metadata service, at this host.
    Machine(String),
}

impl GoogleTokenSource {
    fn from_environment(environment: &Environment, on_google: impl Fn() -> bool) -> Option<Self> {
        if let Some(named) = environment.var("GOOGLE_APPLICATION_CREDENTIALS") {
            return Some(Self::File(PathBuf::from(named)));
        }
        let own = environment
            .var("CLOUDSDK_CONFIG")
            .map(PathBuf::from)
            .or_else(|| environment.of_home(".config/gcloud"))
            .map(|dir| dir.join("application_default_credentials.json"));
        if let Some(file) = own.filter(|file| file.is_file()) {
            return Some(Self::File(file));
        }
        match environment.var("GCE_METADATA_HOST") {
            Some(host) => Some(Self::Machine(host.to_owned())),
            None => on_google().then(|| Self::Machine("metadata.google.internal".to_owned())),
        }
    }
}

/// Everything that an exchange of credentials needs, besides the credentials.
#[derive(Clone)]
struct Google {
    environment: Environment,
    proxies: Proxies,
    /// The address that the configuration names for the exchange.
    token_url: Option<String>,
    /// True if the user allows programs that a file of credentials names.
    runs_programs: bool,
}

impl Google {
    /// Returns the address for the exchange: the configured one, else that of the file if it is Google's.
    fn token_url(&self, file: &Value, key: &str, usual: &str) -> Result<Url, String> {
        match &self.token_url {
            Some(configured) => address(configured),
            None => self.parse_allowed_url(file[key].as_str().unwrap_or(usual)),
        }
    }

    /// Parses an address of a file, and refuses hosts to which no secret may go.
    fn parse_allowed_url(&self, text: &str) -> Result<Url, String> {
        let url = address(text)?;
        let configured = self.token_url.as_deref().and_then(|text| Url::parse(text).ok());
        if is_googles(&url) || configured.is_some_and(|known| known.origin() == url.origin()) {
            return Ok(url);
        }
        let host = url.host_str().unwrap_or("an unknown host").to_owned();
        Err(format!(
            "the credentials would be sent to {host}, which is not a host of Google; if that is right, set providers.vertex.token_url"
        ))
    }

    async fn file_credential(self, path: PathBuf) -> Result<TemporaryCredential, String> {
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
        let file: Value =
            becket_types::parse_json(&text).map_err(|_| format!("{} is not JSON", path.display()))?;
        self.exchange(file, path).await
    }

    /// Exchanges the credentials in a file, by their `type`.
    fn exchange(self, file: Value, path: PathBuf) -> BoxFuture<'static, Result<TemporaryCredential, String>> {
        async move {
            let field =
                |key: &str| file[key].as_str().ok_or_else(|| format!("{} has no `{key}`", path.display()));
            match file["type"].as_str() {
                Some("authorized_user") => {
                    let fields = [
                        ("grant_type", "refresh_token"),
                        ("client_id", field("client_id")?),
                        ("client_secret", field("client_secret")?),
                        ("refresh_token", field("refresh_token")?),
                    ];
                    self.oauth(self.token_url(&file, "token_uri", TOKENS)?, &fields).await
                }
                Some("service_account") => {
                    let url = self.token_url(&file, "token_uri", TOKENS)?;
                    let audience = file["token_uri"].as_str().unwrap_or(TOKENS);
                    let assertion =
                        assertion(&file, field("client_email")?, field("private_key")?, audience)?;
                    let kind = "urn:ietf:params:oauth:grant-type:jwt-bearer";
                    self.oauth(url, &[("grant_type", kind), ("assertion", &assertion)]).await
                }
                Some("external_account") => {
                    let subject = self.subject(&file).await?;
                    let fields = [
                        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
                        ("audience", field("audience")?),
                        ("scope", SCOPE),
                        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
                        ("subject_token", &subject),
                        ("subject_token_type", field("subject_token_type")?),
                    ];
                    let grant = self.oauth(self.token_url(&file, "token_url", EXCHANGE)?, &fields).await?;
                    self.impersonate(&file, grant).await
                }
                Some("impersonated_service_account") => {
                    let source = file["source_credentials"].clone();
                    let grant = self.clone().exchange(source, path).await?;
                    self.impersonate(&file, grant).await
                }
                Some(other) => Err(format!("credentials of the type {other} are not supported")),
                None => Err(format!("{} has no `type`", path.display())),
            }
        }
        .boxed()
    }

    async fn oauth(&self, url: Url, fields: &[(&str, &str)]) -> Result<TemporaryCredential, String> {
        let host = url.host_str().unwrap_or_default().to_owned();
        parse_oauth_token(&ask_json(&self.proxies, request(url, form(fields))).await?, &host)
    }

    /// Returns the identity token that is exchanged at Google, from the source that the file names: a program, AWS, a file or an address.
    async fn subject(&self, file: &Value) -> Result<String, String> {
        let source = &file["credential_source"];
        if source["executable"].is_object() {
            return google_program::subject(file, &source["executable"], self.runs_programs).await;
        }
        if source["environment_id"].is_string() {
            let audience = file["audience"].as_str().unwrap_or_default();
            return google_aws::subject(&self.environment, source, audience).await;
        }
        let text = if let Some(file) = source["file"].as_str() {
            token_in(file)?
        } else if let Some(url) = source["url"].as_str() {
            let url = address(url)?;
            if url.scheme() != "https" && !is_loopback_or_metadata_host(&url) {
                return Err(format!("the address of the identity token is not encrypted: {url}"));
            }
            let mut request = request(url, TokenBody::None);
            let headers = source["headers"].as_object().into_iter().flatten();
            request.headers = headers
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect();
            ask(&self.proxies, request).await?
        } else {
            return Err("only `file`, `url`, `executable` and AWS (`environment_id`) are supported as the source of an identity token; for others, set providers.vertex.key_command".to_owned());
        };
        if source["format"]["type"] != "json" {
            return Ok(text.trim().to_owned());
        }
        let name = source["format"]["subject_token_field_name"].as_str().unwrap_or("access_token");
        let json: Value = becket_types::parse_json(&text).map_err(|_| "the identity token is not in JSON")?;
        json[name].as_str().map(str::to_owned).ok_or_else(|| format!("the identity token has no `{name}`"))
    }

    /// Exchanges a token for that of a service account, if the file names one.
    async fn impersonate(
        &self,
        file: &Value,
        grant: TemporaryCredential,
    ) -> Result<TemporaryCredential, String> {
        let Some(url) = file["service_account_impersonation_url"].as_str() else { return Ok(grant) };
        let mut request = request(self.parse_allowed_url(url)?, TokenBody::Json(json!({ "scope": [SCOPE] })));
        request.headers = vec![("authorization".to_owned(), format!("Bearer {}", grant.secret))];
        let json = ask_json(&self.proxies, request).await?;
        let token = json["accessToken"].as_str().filter(|token| is_token(token));
        let until = json["expireTime"].as_str().and_then(|time| time.parse::<jiff::Timestamp>().ok());
        let seconds = until.map_or(300, |until| (until.as_second().max(0) as u64).saturating_sub(now()));
        Ok(TemporaryCredential::token(token.ok_or("the service account has no token")?, seconds))
    }

    async fn metadata_credential(self, host: String) -> Result<TemporaryCredential, String> {
        let url = format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token");
        let mut request = request(address(&url)?, TokenBody::None);
        request.headers = vec![("metadata-flavor".to_owned(), "Google".to_owned())];
        parse_oauth_token(&ask_json(&self.proxies, request).await?, &host)
    }
}

/// True for hosts that only Google can name, over an encrypted connection.
fn is_googles(url: &Url) -> bool {
    let below = |name: &str| name == "googleapis.com" || name.ends_with(".googleapis.com");
    url.scheme() == "https" && matches!(url.host(), Some(Host::Domain(name)) if below(name))
}

/// Returns the assertion that a service account signs with its key.
fn assertion(file: &Value, email: &str, key: &str, audience: &str) -> Result<String, String> {
    let mut head = json!({ "alg": "RS256", "typ": "JWT" });
    if let Some(id) = file["private_key_id"].as_str() {
        head["kid"] = json!(id);
    }
    let time = now();
    let claims = json!({
        "iss": email, "sub": email, "scope": SCOPE, "aud": audience, "iat": time, "exp": time + ASSERTION,
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&head), part(&claims));
    let signature = sign_rs256(key, signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Returns the source of tokens, if there are credentials on this machine. `token_url`: the configured address for the
/// exchange.
pub(crate) fn source(environment: &Environment, token_url: Option<&str>) -> Option<TokenSource> {
    let way = GoogleTokenSource::from_environment(environment, || is_machine_of("product_name", "Google"))?;
    let google = Google {
        environment: environment.clone(),
        proxies: environment.proxies(),
        token_url: token_url.map(str::to_owned),
        runs_programs: environment.var(google_program::ALLOW) == Some("1"),
    };
    let identity = match &way {
        GoogleTokenSource::File(path) => format!("{} {:?} {token_url:?}", path.display(), modified_at(path)),
        GoogleTokenSource::Machine(host) => host.clone(),
    };
    let exchange = move || {
        let (google, way) = (google.clone(), way.clone());
        Box::pin(async move {
            let got = match way {
                GoogleTokenSource::File(path) => google.file_credential(path).await,
                GoogleTokenSource::Machine(host) => google.metadata_credential(host).await,
            };
            got.map_err(|why| NoKey {
                why: format!("Google Cloud: {why}"),
                hint: "Run `gcloud auth application-default login`, or check GOOGLE_APPLICATION_CREDENTIALS."
                    .to_owned(),
            })
        }) as BoxFuture<'static, _>
    };
    Some(TokenCache::new(environment, "vertex", &identity, exchange).into_token_source())
}

/// Returns the time of the last change, because a file may be replaced by that of another account.
fn modified_at(path: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_only_to_google_or_to_the_configured_address() {
        let google = |token_url: Option<&str>| Google {
            environment: Environment::below(Path::new("/nowhere")),
            proxies: Proxies::default(),
            token_url: token_url.map(str::to_owned),
            runs_programs: false,
        };
        for (url, configured, goes) in [
            ("https://oauth2.googleapis.com/token", None, true),
            ("https://sts.us-east1.rep.googleapis.com/v1/token", None, true),
            ("http://oauth2.googleapis.com/token", None, false),
            ("https://oauth2.googleapis.com.example.com/token", None, false),
            ("https://notgoogleapis.com/token", None, false),
            ("https://oauth2.googleapis.com@example.com/token", None, false),
            ("http://127.0.0.1:8080/token", None, false),
            ("http://127.0.0.1:8080/token", Some("http://127.0.0.1:8080/other"), true),
            ("http://127.0.0.1:8081/token", Some("http://127.0.0.1:8080/other"), false),
        ] {
            let judged = google(configured).parse_allowed_url(url);
            assert_eq!(judged.is_ok(), goes, "{url}: {judged:?}");
        }
        // The configured address replaces the one of the file.
        let file = json!({ "token_uri": "https://example.com/steal" });
        assert!(google(None).token_url(&file, "token_uri", TOKENS).unwrap_err().contains("example.com"));
        let url = google(Some("http://127.0.0.1:1/t")).token_url(&file, "token_uri", TOKENS).unwrap();
        assert_eq!(url.as_str(), "http://127.0.0.1:1/t");
    }

    #[test]
    fn credentials_are_found_as_the_vendor_s_tools_find_them() {
        let dir = tempfile::tempdir().unwrap();
        let gcloud = dir.path().join(".config/gcloud");
        std::fs::create_dir_all(&gcloud).unwrap();
        let way = |vars: &[(&str, &str)], on_google: bool| {
            let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let environment =
                Environment { vars, home: Some(dir.path().to_owned()), ..Environment::below(dir.path()) };
            GoogleTokenSource::from_environment(&environment, || on_google)
        };
        assert_eq!(way(&[], false), None);
        assert_eq!(way(&[], true), Some(GoogleTokenSource::Machine("metadata.google.internal".to_owned())));
        assert_eq!(
            way(&[("GCE_METADATA_HOST", "h:1")], false),
            Some(GoogleTokenSource::Machine("h:1".to_owned()))
        );
        let file = gcloud.join("application_default_credentials.json");
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(way(&[("GCE_METADATA_HOST", "h:1")], true), Some(GoogleTokenSource::File(file)));
        assert_eq!(
            way(&[("GOOGLE_APPLICATION_CREDENTIALS", "/f")], true),
            Some(GoogleTokenSource::File("/f".into()))
        );
    }
}
