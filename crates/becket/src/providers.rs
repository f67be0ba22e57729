//! Addresses, protocols and keys of providers, from the configuration and the environment.
//!
//! Overlays the built-in list with `[providers.NAME]`, fills in regions and projects, and finds the key. Does nothing
//! slow: a program that prints a key runs with the first request.

use crate::environment::Environment;
use crate::federation::device::DeviceLogin;
use crate::federation::{anthropic, aws, azure, google};
use becket_config::{
    Config, ModelConfig, ProviderAuth, ProviderConfig, ProviderKind, Settings, Source, TextCalls, VENDORS,
    Vendor, may_sign, token_may_go, vendor,
};
use becket_model::{Auth, Credential, Endpoint, Figures, Kind, ModelRef, Secret};
use becket_tool_shell::environment::for_commands;
use becket_types::Prices;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// Returns every provider except `anthropic` and `openai`, which have fields of their own in the settings of the adapters.
pub(crate) fn other_providers(environment: &Environment, settings: &Settings) -> BTreeMap<String, Endpoint> {
    names(settings)
        .filter(|name| !matches!(*name, "anthropic" | "openai"))
        .map(|name| (name.to_owned(), endpoint(environment, settings, name)))
        .collect()
}

/// Returns the built-in names in their order, then those of the configuration.
pub(crate) fn names(settings: &Settings) -> impl Iterator<Item = &str> {
    let own = settings.config.providers.keys().map(String::as_str).filter(|name| vendor(name).is_none());
    VENDORS.iter().map(|vendor| vendor.name).chain(own)
}

/// True if the user configured the server's address, or it is a server for the user's own machine.
pub(crate) fn is_own_server(environment: &Environment, settings: &Settings, name: &str) -> bool {
    vendor(name).is_none_or(|vendor| vendor.local) || has_own_address(environment, settings, name)
}

/// True if the user has set the address of this provider's server, in the configuration or in a variable.
pub(crate) fn has_own_address(environment: &Environment, settings: &Settings, name: &str) -> bool {
    let in_variable =
        |vendor: &becket_config::Vendor| vendor.urls.iter().any(|url| environment.var(url).is_some());
    settings.config.provider(name).base_url.is_some() || vendor(name).is_some_and(in_variable)
}

pub(crate) fn endpoint(environment: &Environment, settings: &Settings, name: &str) -> Endpoint {
    let config = settings.config.provider(name);
    let built_in = vendor(name);
    let kind = config.kind.or(built_in.map(|vendor| vendor.kind));
    // The address decides if a server compatible with OpenAI uses the Chat protocol.
    let kind = if name == "openai" { config.kind } else { kind }.map(wire);
    let base_url = base_url(environment, config, built_in);
    let own = is_own_server(environment, settings, name);
    let login = login(environment, settings, name);
    let is_login = login.is_some();
    let credential = login.or_else(|| credential(environment, settings, name, base_url.as_deref()));
    // Identities of a cloud are used only without a key.
    let federated =
        if credential.is_none() { federated(environment, settings, name, base_url.as_deref()) } else { None };
    let mut headers: Vec<(String, String)> =
        config.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    if federated.is_some() && name == "anthropic" && !config.headers.contains_key(anthropic::BETA.0) {
        headers.push((anthropic::BETA.0.to_owned(), anthropic::BETA.1.to_owned()));
    }
    Endpoint {
        kind,
        key_source: match &federated {
            Some((_, place)) => Some((*place).to_owned()),
            None if is_login => Some(login_place(name)),
            None => credential.as_ref().map(|credential| key_source(credential, settings, name)),
        },
        asks_text_calls: config.compat.tools.text_calls == Some(TextCalls::Ask),
        credential: credential.or(federated.map(|(credential, _)| credential)),
        headers,
        auth: config.auth.or(built_in.map(|vendor| vendor.auth)).map(auth),
        compat: crate::dialect::changes(config),
        models: config.models.iter().map(figures).collect(),
        // A key that was withheld is the likely reason if the server asks for one.
        key_hint: settings.withheld.get(name).map(|held| format!("{}.", held.message())).or_else(|| {
            match built_in {
                Some(vendor) => key_hint(vendor, config),
                None => Some(own_key_hint(name, config)),
            }
        }),
        url_setting: url_setting(name, config, built_in),
        needs_key: (!own || config.login.client_id.is_some()) && config.auth != Some(ProviderAuth::None),
        base_url,
    }
}

/// Names the variable or file of a credential, for the message of a server that refuses it.
fn key_source(credential: &Credential, settings: &Settings, name: &str) -> String {
    match credential {
        Credential::Aws(_) | Credential::AwsAsked(_) => "the AWS credentials of this machine".to_owned(),
        Credential::Asked(_) if !settings.credentials.contains_key(name) => {
            format!("the program that providers.{name}.key_command names")
        }
        Credential::Asked(_) => crate::keys::KEYCHAIN.to_owned(),
        _ => {
            let place = key_origin(&ModelRef::named(name, ""), settings);
            match &settings.config.provider(name).api_key_env {
                Some(_) => format!("{place}, as set in providers.{name}.api_key_env"),
                None => place,
            }
        }
    }
}

fn wire(kind: ProviderKind) -> Kind {
    match kind {
        ProviderKind::Anthropic => Kind::Anthropic,
        ProviderKind::OpenaiChat => Kind::Chat,
        ProviderKind::OpenaiResponses => Kind::Responses,
        ProviderKind::Gemini => Kind::Gemini,
    }
}

fn auth(auth: ProviderAuth) -> Auth {
    match auth {
        ProviderAuth::Bearer => Auth::Bearer,
        ProviderAuth::XApiKey => Auth::XApiKey,
        ProviderAuth::ApiKey => Auth::ApiKey,
        ProviderAuth::XGoogApiKey => Auth::XGoogApiKey,
        ProviderAuth::None => Auth::None,
        ProviderAuth::Aws => Auth::Aws,
        ProviderAuth::Google => Auth::Google,
    }
}

/// Returns the configured address, else that of a variable, else the built-in one. `anthropic` and `openai` have no
/// address unless it is configured or in a variable, because their adapters know it.
fn base_url(
    environment: &Environment,
    config: &ProviderConfig,
    built_in: Option<&'static Vendor>,
) -> Option<String> {
    let google = config.auth.or(built_in.map(|vendor| vendor.auth)) == Some(ProviderAuth::Google);
    if let Some(url) = &config.base_url {
        return Some(match built_in.map(|vendor| vendor.name) {
            Some("azure") if is_bare_azure(url) => azure_url(url),
            _ if google => fill(environment, config, "vertex", vertex_url(url)),
            _ => url.clone(),
        });
    }
    let vendor = built_in?;
    if let Some(url) = vendor.urls.iter().find_map(|variable| environment.var(variable)) {
        return Some(match vendor.name {
            "azure" => azure_url(url),
            // Ollama's own variable may contain a host without a scheme, or the address that the server listens on.
            "ollama" => ollama(url),
            _ => url.to_owned(),
        });
    }
    if vendor.base_url.is_empty() || matches!(vendor.name, "anthropic" | "openai") {
        return None;
    }
    // The host of the location `global` has no prefix.
    let url = fill(environment, config, vendor.name, vendor.base_url.to_owned());
    Some(url.replace("https://global-aiplatform.", "https://aiplatform."))
}

/// Fills region, location and project into an address. A placeholder without a value stays, and the message of the first
/// request names it.
fn fill(environment: &Environment, config: &ProviderConfig, vendor: &str, mut url: String) -> String {
    let variable = |names: &[&str]| names.iter().find_map(|name| environment.var(name)).map(str::to_owned);
    // Each value is looked up only if the address has a placeholder for it, because one lookup reads a file.
    for place in ["{region}", "{location}", "{project}"] {
        if !url.contains(place) {
            continue;
        }
        let value = match (place, vendor) {
            ("{region}", _) => config.cloud.region.clone().or_else(|| aws::region(environment)),
            ("{location}", _) => config
                .cloud
                .region
                .clone()
                .or_else(|| variable(&["GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION"])),
            (_, "cloudflare") => {
                config.cloud.project.clone().or_else(|| variable(&["CLOUDFLARE_ACCOUNT_ID"]))
            }
            _ => config.cloud.project.clone().or_else(|| variable(&["GOOGLE_CLOUD_PROJECT"])),
        };
        // Regions and locations are a part of the host, which must stay the vendor's.
        let is_label = |value: &String| {
            place == "{project}" || value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if let Some(value) = value.filter(is_label) {
            url = url.replace(place, &value);
        }
    }
    url
}

/// Completes an address of Vertex: models are below a project and a location.
fn vertex_url(url: &str) -> String {
    let base = url.trim().trim_end_matches('/');
    if base.contains("/projects/") {
        return base.to_owned();
    }
    let last = base.rsplit('/').next().unwrap_or_default();
    let versioned = last.starts_with('v') && last[1..].starts_with(|c: char| c.is_ascii_digit());
    let version = if versioned { "" } else { "/v1" };
    format!("{base}{version}/projects/{{project}}/locations/{{location}}")
}

/// Completes an endpoint of Azure, which the portal and Azure's libraries write in several forms: bare, with `/openai`, with
/// `/openai/v1`, or with the path of a deployment.
fn azure_url(endpoint: &str) -> String {
    let base = endpoint.trim().split(['?', '#']).next().unwrap_or_default();
    let base = base.split_once("/openai/deployments").map_or(base, |(base, _)| base).trim_end_matches('/');
    let base = base.strip_suffix("/v1").filter(|rest| rest.ends_with("/openai")).unwrap_or(base);
    format!("{}/openai/v1", base.strip_suffix("/openai").unwrap_or(base).trim_end_matches('/'))
}

/// True for an endpoint of Azure as the portal shows it. A gateway has a path of its own.
fn is_bare_azure(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    host.ends_with(".azure.com")
        && (path.is_empty()
            || path.trim_end_matches('/') == "openai"
            || path.starts_with("openai/deployments"))
}

fn ollama(host: &str) -> String {
    let with_scheme = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
    let with_port = match with_scheme.rsplit_once(':') {
        Some((_, port)) if port.trim_end_matches('/').parse::<u16>().is_ok() => with_scheme,
        _ => format!("{}:11434", with_scheme.trim_end_matches('/')),
    };
    with_port.replace("//0.0.0.0:", "//127.0.0.1:")
}

fn url_setting(name: &str, config: &ProviderConfig, built_in: Option<&'static Vendor>) -> Option<String> {
    if config.base_url.is_some() && !matches!(name, "anthropic" | "openai") {
        return Some(format!("providers.{name}.base_url"));
    }
    built_in?.urls.first().map(|variable| (*variable).to_owned())
}

/// Returns the steps by which a provider of the user's own gets a key.
fn own_key_hint(name: &str, config: &ProviderConfig) -> String {
    match &config.api_key_env {
        _ if config.login.client_id.is_some() => {
            format!("Run `becket login {name}`, which shows an address and a code.")
        }
        Some(variable) => format!(
            "Set {variable}, the variable in providers.{name}.api_key_env, or run `becket login {name}`."
        ),
        None => format!("Run `becket login {name}`, or set providers.{name}.api_key_env."),
    }
}

/// Returns the steps by which a user gets a key.
pub(crate) fn key_hint(vendor: &Vendor, config: &ProviderConfig) -> Option<String> {
    if let Some(variable) = &config.api_key_env {
        return Some(format!("Set {variable}, the variable in providers.{}.api_key_env.", vendor.name));
    }
    match vendor.name {
        // The adapters of these two add the steps to their errors themselves.
        "anthropic" | "openai" => None,
        "bedrock" => Some(
            "Set AWS_REGION, and AWS_BEARER_TOKEN_BEDROCK or the usual AWS credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID).".to_owned(),
        ),
        "vertex" => Some(
            "Set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, and run `gcloud auth application-default login`.".to_owned(),
        ),
        "azure" => Some("Set AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_API_KEY.".to_owned()),
        "cloudflare" => Some("Set CLOUDFLARE_ACCOUNT_ID and CLOUDFLARE_API_KEY.".to_owned()),
        _ => {
            let variable = vendor.keys.first()?;
            let page =
                if vendor.key_page.is_empty() { String::new() } else { format!(" Keys: {}", vendor.key_page) };
            Some(format!("Set {variable}, or run `becket login {}`.{page}", vendor.name))
        }
    }
}

/// Returns the tokens of a login by device code. A variable with a key overrides it.
fn login(environment: &Environment, settings: &Settings, name: &str) -> Option<Credential> {
    let key = settings.credentials.get(name);
    if key.is_some_and(|found| matches!(found.source, Source::Environment(_))) {
        return None;
    }
    let source = DeviceLogin::from_environment(environment, settings, name)?.source()?;
    // A token is a bearer token, unless the configuration names another header.
    Some(match settings.config.provider(name).auth {
        Some(_) => Credential::Asked(source),
        None => Credential::Token(source),
    })
}

fn credential(
    environment: &Environment,
    settings: &Settings,
    name: &str,
    base_url: Option<&str>,
) -> Option<Credential> {
    let config = settings.config.provider(name);
    if let Some(found) = settings.credentials.get(name) {
        if let Some(kept) = &found.keychain {
            return Some(Credential::Asked(crate::keychain::source(environment, name, kept)));
        }
        let secret = Secret::new(found.value.expose());
        return Some(match &found.source {
            Source::Environment(variable) if variable == "ANTHROPIC_AUTH_TOKEN" => Credential::Bearer(secret),
            Source::Environment(variable) if variable == "AWS_BEARER_TOKEN_BEDROCK" => {
                Credential::Bearer(secret)
            }
            _ => Credential::ApiKey(secret),
        });
    }
    let aws = config.auth.or(vendor(name).map(|vendor| vendor.auth)) == Some(ProviderAuth::Aws);
    if aws && config.key_command.is_empty() {
        // Files are read only if something indicates that AWS is used.
        let used = [
            "AWS_PROFILE",
            "AWS_ACCESS_KEY_ID",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ]
        .into_iter()
        .any(|name| environment.var(name).is_some())
            || settings.config.providers.contains_key(name);
        let signs = base_url.is_some_and(|url| may_sign(url, config.base_url.is_some()));
        return (used && signs).then(|| aws::credential(environment, config.cloud.region.clone())).flatten();
    }
    (!config.key_command.is_empty())
        .then(|| Credential::Asked(crate::key_command::source(environment, name, &config.key_command)))
}

/// Returns the credential that a cloud gives for the identity of this machine or person, and its place for messages.
fn federated(
    environment: &Environment,
    settings: &Settings,
    name: &str,
    base_url: Option<&str>,
) -> Option<(Credential, &'static str)> {
    let config = settings.config.provider(name);
    // The address in a variable counts only if the configuration names no other address.
    let in_effect = |value: &str| config.base_url.as_deref().is_none_or(|own| own == value);
    let variables = vendor(name).map(|vendor| vendor.urls).unwrap_or_default();
    let variable = variables.iter().find_map(|name| environment.var(name)).filter(|value| in_effect(value));
    let by_variable = variable.is_some();
    let auth = config.auth.or(vendor(name).map(|vendor| vendor.auth));
    if auth == Some(ProviderAuth::None)
        || !token_may_go(name, base_url, by_variable || (config.auth.is_some() && config.base_url.is_some()))
    {
        return None;
    }
    let (source, place) = match (name, auth) {
        (_, Some(ProviderAuth::Google)) => (
            google::source(environment, config.cloud.token_url.as_deref()),
            "the credentials of Google Cloud",
        ),
        ("azure", _) if base_url.is_some() => {
            (azure::source(environment), "the identity of this machine in Microsoft Entra")
        }
        ("anthropic", _) => (anthropic::source(environment, variable), "the workload identity"),
        _ => return None,
    };
    Some((Credential::Token(source?), place))
}

fn figures(config: &ModelConfig) -> Figures {
    Figures {
        name: config.name.clone(),
        window: config.window,
        max_output: config.max_output,
        images: config.images,
        reasoning: config.reasoning,
        prices: config.prices.map(|[input, output, cache_read, cache_write]| Prices {
            input,
            output,
            cache_read,
            cache_write,
        }),
        body: config.body.clone().into_iter().collect(),
        source: None,
    }
}

/// Returns the origin of this model's credential, for the first event.
pub(crate) fn key_origin(reference: &ModelRef, settings: &Settings) -> String {
    let provider = reference.provider();
    let config = settings.config.provider(provider);
    let command = (!config.key_command.is_empty()).then(|| "key_command".to_owned());
    config
        .api_key_env
        .clone()
        .or_else(|| settings.credentials.get(provider).map(origin))
        .or(command)
        .unwrap_or_else(|| "none".to_owned())
}

/// Returns the place of a provider's key, or the identity that replaces it. `None` if there is neither.
pub(crate) fn key_place(
    name: &str,
    settings: &Settings,
    endpoints: &becket_model::Settings,
) -> Option<String> {
    let origin = key_origin(&ModelRef::named(name, ""), settings);
    let identity = endpoints.endpoint(name).and_then(|endpoint| endpoint.key_source.clone());
    let is_login = identity.as_ref() == Some(&login_place(name));
    if origin == "none" || is_login { identity } else { Some(origin) }
}

/// Names the place of the tokens of a login by device code.
fn login_place(name: &str) -> String {
    format!("the login of `becket login {name}`")
}

/// Returns the names of the variables that hold keys of providers and of the web search, and of those with the same value.
pub(crate) fn key_variables<'a>(environment: &'a Environment, config: &'a Config) -> BTreeSet<&'a str> {
    const CLOUDS: [&str; 4] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    ];
    let built_in = VENDORS.iter().flat_map(|vendor| vendor.keys).copied().chain(CLOUDS);
    let own = config.providers.values().filter_map(|provider| provider.api_key_env.as_deref());
    let names: BTreeSet<&str> =
        built_in.chain(own).chain(config.integrations.web.search.api_key_env.as_deref()).collect();
    let values: BTreeSet<&str> =
        names.iter().filter_map(|name| environment.var(name)).filter(|value| !value.is_empty()).collect();
    let copies = environment.vars.iter().filter(|(_, value)| values.contains(value.as_str()));
    copies.map(|(name, _)| name.as_str()).chain(names.iter().copied()).collect()
}

/// Names the place of a key.
pub(crate) fn origin(found: &becket_config::Credential) -> String {
    match &found.source {
        Source::Environment(variable) => variable.clone(),
        _ if found.keychain.is_some() => crate::keys::KEYCHAIN.to_owned(),
        _ => crate::keys::FILE.to_owned(),
    }
}

/// Returns the names of variables that the user passes on (`shell.pass`). `*` leaves out the variables of agents.
pub(crate) fn passed_variables(environment: &Environment, config: &Config) -> Vec<String> {
    const OF_AGENTS: [&str; 4] = ["ANTHROPIC_", "BECKET_", "CLAUDE_", "OPENAI_"];
    let pass = &config.tools.shell.pass;
    let mut names: Vec<String> = pass.iter().filter(|name| *name != "*").cloned().collect();
    if names.len() < pass.len() {
        let is_own = |name: &&String| !OF_AGENTS.iter().any(|start| name.starts_with(start));
        names.extend(environment.vars.keys().filter(is_own).cloned());
    }
    names
}

/// Returns the variables of commands and programs: without secrets by name, and without keys of providers under any name.
pub(crate) fn variables_for_programs(
    environment: &Environment,
    config: &Config,
) -> Vec<(OsString, OsString)> {
    let keys = key_variables(environment, config);
    let vars = environment.vars.iter().map(|(k, v)| (OsString::from(k), OsString::from(v)));
    let mut env = for_commands(vars, &passed_variables(environment, config));
    env.retain(|(name, _)| name.to_str().is_none_or(|name| !keys.contains(name)));
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_ollama_as_people_write_them() {
        for (host, want) in [
            ("127.0.0.1:11434", "http://127.0.0.1:11434"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("http://box:9000/", "http://box:9000/"),
            ("https://ollama.example", "https://ollama.example:11434"),
        ] {
            assert_eq!(ollama(host), want);
        }
    }

    #[test]
    fn endpoints_of_azure_in_all_their_forms() {
        for (endpoint, bare) in [
            ("https://r.openai.azure.com", true),
            ("https://r.openai.azure.com/", true),
            ("https://r.openai.azure.com/openai", true),
            ("https://r.openai.azure.com/openai/", true),
            ("https://r.openai.azure.com/openai/v1", false),
            ("https://r.openai.azure.com/openai/v1/", false),
            (
                "https://r.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2025-01-01",
                true,
            ),
        ] {
            assert_eq!(azure_url(endpoint), "https://r.openai.azure.com/openai/v1", "{endpoint}");
            assert_eq!(is_bare_azure(endpoint), bare, "{endpoint}");
        }
        assert!(!is_bare_azure("https://gateway.example.com/azure/v1"));
    }

    #[test]
    fn addresses_of_vertex_are_completed() {
        let dir = tempfile::tempdir().unwrap();
        for (base_url, known, want) in [
            (
                "https://gateway.example.com/vertex/",
                true,
                "https://gateway.example.com/vertex/v1/projects/p/locations/l",
            ),
            (
                "https://aiplatform.googleapis.com/v1beta1",
                true,
                "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/l",
            ),
            ("https://h/v1/projects/q/locations/m/", true, "https://h/v1/projects/q/locations/m"),
            ("https://h", false, "https://h/v1/projects/{project}/locations/{location}"),
        ] {
            let vars: &[(&str, &str)] =
                if known { &[("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", "l")] } else { &[] };
            let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let environment = Environment { vars, ..Environment::below(dir.path()) };
            let config = ProviderConfig { base_url: Some(base_url.to_owned()), ..ProviderConfig::default() };
            assert_eq!(super::base_url(&environment, &config, vendor("vertex")).as_deref(), Some(want));
        }
    }

    #[test]
    fn addresses_by_variables() {
        let dir = tempfile::tempdir().unwrap();
        let with = |vars: &[(&str, &str)], name: &str| {
            let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let environment = Environment { vars, ..Environment::below(dir.path()) };
            endpoint(&environment, &Settings::default(), name).base_url
        };
        for (vars, name, want) in [
            (&[][..], "anthropic", None),
            (&[], "groq", Some("https://api.groq.com/openai/v1")),
            (
                &[("AWS_REGION", "eu-west-1")],
                "bedrock",
                Some("https://bedrock-runtime.eu-west-1.amazonaws.com"),
            ),
            (
                &[("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/")],
                "azure",
                Some("https://r.openai.azure.com/openai/v1"),
            ),
            (
                &[("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", "global")],
                "vertex",
                Some("https://aiplatform.googleapis.com/v1/projects/p/locations/global"),
            ),
            (
                &[("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/openai/")],
                "azure",
                Some("https://r.openai.azure.com/openai/v1"),
            ),
            // A region never names another host.
            (
                &[("AWS_REGION", "x.example.com/#")],
                "bedrock",
                Some("https://bedrock-runtime.{region}.amazonaws.com"),
            ),
        ] {
            assert_eq!(with(vars, name).as_deref(), want, "{name}");
        }
    }
}
