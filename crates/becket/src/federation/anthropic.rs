//! Anthropic's workload identity federation: a token of an identity provider is exchanged for one of Anthropic's.

use super::{TokenCache, ask_json, parse_oauth_token, request, token_in};
use crate::environment::Environment;
use becket_model::{NoKey, TokenBody, TokenSource};
use serde_json::json;
use url::Url;

const TOKENS: &str = "https://api.anthropic.com/v1/oauth/token";
/// The header, and its value, that requests to models with an exchanged token need.
pub(crate) const BETA: (&str, &str) = ("anthropic-beta", "oauth-2025-04-20");
const EXCHANGE_BETA: &str = "oauth-2025-04-20,oidc-federation-2026-04-01";

/// Returns the source of the token, if the variables for it are set. `base_url`: the address in a variable, if any; the
/// server there also exchanges tokens.
pub(crate) fn source(environment: &Environment, base_url: Option<&str>) -> Option<TokenSource> {
    let var = |name: &str| environment.var(name).map(str::to_owned);
    let (rule, organization) = (var("ANTHROPIC_FEDERATION_RULE_ID")?, var("ANTHROPIC_ORGANIZATION_ID")?);
    let (file, given) = (var("ANTHROPIC_IDENTITY_TOKEN_FILE"), var("ANTHROPIC_IDENTITY_TOKEN"));
    if file.is_none() && given.is_none() {
        return None;
    }
    let account = var("ANTHROPIC_SERVICE_ACCOUNT_ID");
    let workspace = var("ANTHROPIC_WORKSPACE_ID");
    let url = match base_url {
        Some(base) => format!("{}/v1/oauth/token", base.trim_end_matches('/').trim_end_matches("/v1")),
        None => TOKENS.to_owned(),
    };
    let identity = format!("{url} {rule} {organization} {account:?} {workspace:?} {file:?}");
    let proxies = environment.proxies();
    let exchange = move || {
        let (file, given, url, proxies) = (file.clone(), given.clone(), url.clone(), proxies.clone());
        let mut body = json!({
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "federation_rule_id": rule,
            "organization_id": organization,
        });
        for (name, value) in [("service_account_id", &account), ("workspace_id", &workspace)] {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        let exchanged = async move {
            let token = match &file {
                Some(file) => token_in(file)?,
                None => given.unwrap_or_default(),
            };
            body["assertion"] = json!(token);
            let url = Url::parse(&url).map_err(|_| "ANTHROPIC_BASE_URL cannot be read".to_owned())?;
            let host = url.host_str().unwrap_or_default().to_owned();
            let mut request = request(url, TokenBody::Json(body));
            request.headers = vec![(BETA.0.to_owned(), EXCHANGE_BETA.to_owned())];
            parse_oauth_token(&ask_json(&proxies, request).await?, &host)
        };
        Box::pin(async move {
            exchanged.await.map_err(|why: String| NoKey {
                why: format!("workload identity: {why}"),
                hint: "Check ANTHROPIC_FEDERATION_RULE_ID, ANTHROPIC_ORGANIZATION_ID and the identity token, or set ANTHROPIC_API_KEY.".to_owned(),
            })
        }) as futures::future::BoxFuture<'static, _>
    };
    Some(TokenCache::new(environment, "anthropic", &identity, exchange).into_token_source())
}
