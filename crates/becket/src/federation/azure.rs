//! Tokens of Microsoft Entra for Azure OpenAI: a client secret, a workload identity (the token of a Kubernetes service
//! account), or the managed identity of an app service or a machine.

use super::{
    TemporaryCredential, TokenCache, address, ask_json, form, is_machine_of, parse_oauth_token, request,
    token_in,
};
use crate::environment::Environment;
use becket_model::{NoKey, Proxies, TokenBody, TokenSource};
use url::Url;

const RESOURCE: &str = "https://cognitiveservices.azure.com";
const AUTHORITY: &str = "https://login.microsoftonline.com";
/// The chassis asset tag of every machine in Azure, by which becket recognizes one.
const ASSET_TAG: &str = "7783-7084-3265-9085-8269-3286-77";

/// A source of tokens of Microsoft Entra.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EntraTokenSource {
    /// A client of a tenant with a secret, or with the file of a token.
    Client {
        authority: String,
        tenant: String,
        client: String,
        proof: Proof,
    },
    /// The managed identity of an app service: its address, and the value of the header that it requires.
    App {
        endpoint: String,
        header: String,
        client: Option<String>,
    },
    Machine {
        host: String,
        client: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Proof {
    Secret(String),
    TokenFile(String),
}

impl EntraTokenSource {
    /// Returns the first source that the environment names, in the order of the variants.
    fn from_environment(environment: &Environment, on_azure: impl Fn() -> bool) -> Option<Self> {
        let var = |name: &str| environment.var(name).map(str::to_owned);
        let client = var("AZURE_CLIENT_ID");
        let proof = var("AZURE_CLIENT_SECRET")
            .map(Proof::Secret)
            .or_else(|| var("AZURE_FEDERATED_TOKEN_FILE").map(Proof::TokenFile));
        if let (Some(tenant), Some(client), Some(proof)) = (var("AZURE_TENANT_ID"), client.clone(), proof) {
            let authority = var("AZURE_AUTHORITY_HOST").unwrap_or_else(|| AUTHORITY.to_owned());
            return Some(Self::Client { authority, tenant, client, proof });
        }
        if let (Some(endpoint), Some(header)) = (var("IDENTITY_ENDPOINT"), var("IDENTITY_HEADER")) {
            return Some(Self::App { endpoint, header, client });
        }
        match var("AZURE_POD_IDENTITY_AUTHORITY_HOST") {
            Some(host) => Some(Self::Machine { host, client }),
            None => on_azure().then(|| Self::Machine { host: "http://169.254.169.254".to_owned(), client }),
        }
    }

    /// Distinguishes this identity from others, without its secret.
    fn identity(&self) -> String {
        match self {
            Self::Client { authority, tenant, client, .. } => format!("{authority} {tenant} {client}"),
            Self::App { endpoint, client, .. } => format!("{endpoint} {client:?}"),
            Self::Machine { host, client } => format!("{host} {client:?}"),
        }
    }

    async fn exchange(self, proxies: Proxies) -> Result<TemporaryCredential, String> {
        let with_client = |mut url: Url, client: &Option<String>| {
            if let Some(client) = client {
                url.query_pairs_mut().append_pair("client_id", client);
            }
            url
        };
        let request = match &self {
            Self::Client { authority, tenant, client, proof } => {
                let url = format!("{}/{tenant}/oauth2/v2.0/token", authority.trim_end_matches('/'));
                let scope = format!("{RESOURCE}/.default");
                let mut fields =
                    vec![("grant_type", "client_credentials"), ("client_id", client), ("scope", &scope)];
                let token;
                match proof {
                    Proof::Secret(secret) => fields.push(("client_secret", secret)),
                    Proof::TokenFile(file) => {
                        token = token_in(file)?;
                        fields.push((
                            "client_assertion_type",
                            "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                        ));
                        fields.push(("client_assertion", &token));
                    }
                }
                request(address(&url)?, form(&fields))
            }
            Self::App { endpoint, header, client } => {
                let mut url = address(endpoint)?;
                url.query_pairs_mut()
                    .append_pair("api-version", "2019-08-01")
                    .append_pair("resource", RESOURCE);
                let mut request = request(with_client(url, client), TokenBody::None);
                request.headers = vec![("x-identity-header".to_owned(), header.clone())];
                request
            }
            Self::Machine { host, client } => {
                let mut url =
                    address(&format!("{}/metadata/identity/oauth2/token", host.trim_end_matches('/')))?;
                url.query_pairs_mut()
                    .append_pair("api-version", "2018-02-01")
                    .append_pair("resource", RESOURCE);
                let mut request = request(with_client(url, client), TokenBody::None);
                request.headers = vec![("metadata".to_owned(), "true".to_owned())];
                request
            }
        };
        let host = request.url.host_str().unwrap_or_default().to_owned();
        parse_oauth_token(&ask_json(&proxies, request).await?, &host)
    }
}

/// Returns the source of tokens, if the environment names an identity.
pub(crate) fn source(environment: &Environment) -> Option<TokenSource> {
    let way =
        EntraTokenSource::from_environment(environment, || is_machine_of("chassis_asset_tag", ASSET_TAG))?;
    let proxies = environment.proxies();
    let identity = way.identity();
    let exchange = move || {
        let (way, proxies) = (way.clone(), proxies.clone());
        Box::pin(async move {
            way.exchange(proxies).await.map_err(|why| NoKey {
                why: format!("Microsoft Entra: {why}"),
                hint: "Check AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE, or set AZURE_OPENAI_API_KEY.".to_owned(),
            })
        }) as futures::future::BoxFuture<'static, _>
    };
    Some(TokenCache::new(environment, "azure", &identity, exchange).into_token_source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_identity() {
        let dir = tempfile::tempdir().unwrap();
        let client = [("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_ID", "c")];
        for (vars, on_azure, want) in [
            (vec![], false, ""),
            (client.to_vec(), false, ""),
            (
                [&client[..], &[("AZURE_CLIENT_SECRET", "hidden")]].concat(),
                true,
                "https://login.microsoftonline.com t c",
            ),
            (
                [
                    &client[..],
                    &[("AZURE_FEDERATED_TOKEN_FILE", "/f"), ("AZURE_AUTHORITY_HOST", "https://a/")],
                ]
                .concat(),
                false,
                "https://a/ t c",
            ),
            (
                vec![("IDENTITY_ENDPOINT", "http://h/msi"), ("IDENTITY_HEADER", "hidden")],
                false,
                "http://h/msi None",
            ),
            (vec![], true, "http://169.254.169.254 None"),
        ] {
            let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let environment = Environment { vars, ..Environment::below(dir.path()) };
            let identity = EntraTokenSource::from_environment(&environment, || on_azure)
                .map(|way| way.identity())
                .unwrap_or_default();
            assert_eq!(identity, want);
        }
    }
}
