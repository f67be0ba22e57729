//! The rule about keys and addresses: a key goes only to the host that it belongs to.
//!
//! Owns the decision, as one pure function ([`check_key`]), and the names under which keys are kept. A key that a vendor issued
//! belongs to the vendor's own hosts. It goes to another address only if the user put both together:
//!
//! - the configuration names the key for this provider (`api_key_env`, `key_command`),
//! - the key and the address are both variables of the environment that belong to this provider, or
//! - the key was kept for exactly this address.
//!
//! A provider of the user's own, and a server for one's own machine, have no vendor: their key goes to their address.
//! Sends nothing and reads nothing.

use crate::providers::{ProviderAuth, Vendor, vendor};
use crate::source::Source;
use serde_json::Value;

/// Hosts of vendors, in addition to the host of the built-in address.
const HOSTS: &[(&str, &[&str])] = &[
    ("azure", &["openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"]),
    ("minimax", &["api.minimaxi.com"]),
    ("moonshot", &["api.moonshot.cn"]),
    ("qwen", &["dashscope.aliyuncs.com", "dashscope-us.aliyuncs.com"]),
    ("together", &["api.together.ai"]),
    ("zai", &["open.bigmodel.cn"]),
];
/// Domains in which only Amazon gives names to API hosts.
const AWS: &[&str] = &["amazonaws.com", "amazonaws.com.cn", "amazonaws.eu", "api.aws"];

/// The place from which becket has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyOrigin {
    /// A variable of the environment that becket reads without any configuration, such as `OPENAI_API_KEY`.
    Environment(String),
    /// The user's file of keys. `host`: the address that the key was entered for; `None`: the vendor's own.
    Kept { host: Option<String> },
    /// The configuration names the variable for this provider.
    Named(String),
}

/// A key that exists and is not sent, because the provider's address is not the key's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// The name of the provider, as in `[providers.NAME]`.
    pub provider: String,
    /// The place from which becket has the key.
    pub origin: KeyOrigin,
    /// Host and port of the provider's address.
    pub host: String,
    /// Host that the key belongs to, for messages.
    pub home: String,
}

impl Withheld {
    /// Returns what happened, why, and what to do.
    pub fn message(&self) -> String {
        format!("{}. {}", self.what(), self.advice())
    }

    fn what(&self) -> String {
        let Self { provider, host, home, origin } = self;
        match origin {
            KeyOrigin::Environment(name) | KeyOrigin::Named(name) => {
                format!("{name} is not sent to {host}, because it is a key for {home}")
            }
            KeyOrigin::Kept { .. } => {
                format!("the saved key for {provider} is not sent to {host}, because it is a key for {home}")
            }
        }
    }

    /// Returns the next step for a user who wants this server to get a key.
    pub fn advice(&self) -> String {
        let Self { provider, host, origin, .. } = self;
        let login = format!("`becket login {provider}` saves a key for {host}");
        match origin {
            KeyOrigin::Environment(name) | KeyOrigin::Named(name) => format!(
                "If it is meant for this server, set providers.{provider}.api_key_env = \"{name}\"; {login}"
            ),
            KeyOrigin::Kept { .. } => format!("If this server needs a key, {login}"),
        }
    }

    /// True if the server runs on this machine and often needs no key.
    pub fn is_local(&self) -> bool {
        is_this_machine(&self.host)
    }
}

/// Decides about the key of a provider: `None` if it may be sent to `address`. `source`: the origin of the address.
pub(crate) fn check_key(
    provider: &str,
    origin: &KeyOrigin,
    address: &str,
    source: &Source,
) -> Option<Withheld> {
    let together = match origin {
        KeyOrigin::Named(_) => true,
        KeyOrigin::Environment(_) => matches!(source, Source::Environment(_)),
        KeyOrigin::Kept { host } => host.is_some() && *host == host_of(address),
    };
    let elsewhere = matches!(origin, KeyOrigin::Kept { host: Some(_) });
    let own = !elsewhere && (!belongs_to_vendor(provider) || is_home(provider, address));
    if together || own {
        return None;
    }
    let home = match origin {
        KeyOrigin::Kept { host: Some(host) } => host.clone(),
        _ => vendor(provider).map(home).unwrap_or_default(),
    };
    let host = host_of(address).unwrap_or_else(|| "an address that becket cannot read".to_owned());
    Some(Withheld { provider: provider.to_owned(), origin: origin.clone(), host, home })
}

/// True if requests to this address may be signed with the AWS credentials of this machine. `configured`: the user's
/// configuration names the address.
pub fn may_sign(address: &str, configured: bool) -> bool {
    configured
        || (is_encrypted(address)
            && name_of(address).is_some_and(|name| AWS.iter().any(|d| is_below(&name, d))))
}

/// True if a token that a cloud gives for this machine or person may be sent to this address of a provider. `named`: the user has
/// named the kind of token for this address, in the configuration (`auth`) or in variables of the environment.
pub fn token_may_go(provider: &str, address: Option<&str>, named: bool) -> bool {
    named || address.is_none_or(|address| is_home(provider, address))
}

/// Returns the name of a key in the user's file of keys: the provider's name, or `NAME@HOST:PORT` if the provider has a vendor and
/// this address is not the vendor's.
pub fn kept_name(provider: &str, address: Option<&str>) -> String {
    match address
        .filter(|address| belongs_to_vendor(provider) && !is_home(provider, address))
        .and_then(host_of)
    {
        Some(host) => format!("{provider}@{host}"),
        None => provider.to_owned(),
    }
}

/// Splits a name of the file of keys into the provider and the host.
pub(crate) fn split_name(name: &str) -> (&str, Option<&str>) {
    name.split_once('@').map_or((name, None), |(provider, host)| (provider, Some(host)))
}

/// True if a key for web searches may be sent to this address: it is encrypted and its host is `home` or below it. Without an
/// address, the provider's own is used.
pub fn search_key_may_go(home: &str, address: Option<&str>) -> bool {
    address.is_none_or(|address| {
        is_encrypted(address) && name_of(address).is_some_and(|name| is_below(&name, home))
    })
}

/// True if a vendor issues the keys of this provider. A provider with a name that the user made up has no vendor, and neither has a
/// server for the user's own machine.
fn belongs_to_vendor(provider: &str) -> bool {
    vendor(provider).is_some_and(|vendor| !vendor.local)
}

/// True if the address is the vendor's own, and encrypted.
fn is_home(provider: &str, address: &str) -> bool {
    let Some((vendor, name)) = vendor(provider).zip(name_of(address)) else { return false };
    let mut homes: Vec<&str> =
        HOSTS.iter().filter(|(of, _)| *of == provider).flat_map(|(_, all)| *all).copied().collect();
    let built_in = name_of(vendor.base_url).unwrap_or_default();
    if vendor.auth == ProviderAuth::Aws {
        homes.extend(AWS);
    } else if vendor.auth == ProviderAuth::Google {
        // A location may precede the service in the first label, as in `eu-west4-aiplatform`.
        let first = name.strip_suffix(".googleapis.com").unwrap_or_default();
        return is_encrypted(address)
            && !first.contains('.')
            && (first == "aiplatform" || first.ends_with("-aiplatform"));
    } else if !built_in.is_empty() {
        homes.push(&built_in);
    }
    is_encrypted(address) && homes.iter().any(|home| is_below(&name, home))
}

/// Returns the host of a vendor for messages.
fn home(vendor: &'static Vendor) -> String {
    match vendor.auth {
        ProviderAuth::Aws => "hosts of AWS".to_owned(),
        ProviderAuth::Google => "aiplatform.googleapis.com".to_owned(),
        _ => name_of(vendor.base_url).filter(|name| !name.is_empty()).unwrap_or_else(|| {
            let hosts = HOSTS.iter().find(|(of, _)| *of == vendor.name);
            hosts
                .and_then(|(_, all)| all.first())
                .map_or_else(|| vendor.title.to_owned(), |h| format!("*.{h}"))
        }),
    }
}

fn is_below(name: &str, domain: &str) -> bool {
    name == domain || name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

fn is_encrypted(address: &str) -> bool {
    address.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
}

/// Returns host and port of an `http` or `https` address, in lower case. `None` for other addresses, and if URL parsers could
/// disagree about the host.
pub fn host_of(address: &str) -> Option<String> {
    let (scheme, rest) = address.trim().split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // With a user name before the host, a backslash or a blank, URL parsers disagree about the host.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    let known = matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https");
    (known && !host.is_empty() && host.chars().all(plain)).then(|| host.to_ascii_lowercase())
}

/// Returns the host of an address without its port.
fn name_of(address: &str) -> Option<String> {
    let host = host_of(address)?;
    Some(without_port(&host).trim_end_matches('.').to_owned())
}

/// Removes the port behind a host, if it has one. The address of IPv6 keeps its brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// True for an address that leads to this machine.
pub(crate) fn leads_here(address: &str) -> bool {
    host_of(address).is_some_and(|host| is_this_machine(&host))
}

fn is_this_machine(host: &str) -> bool {
    let name = without_port(host);
    let numbers = name.trim_start_matches('[').trim_end_matches(']');
    let listens = |ip: std::net::IpAddr| ip.is_loopback() || ip.is_unspecified();
    matches!(name, "localhost") || name.ends_with(".localhost") || numbers.parse().is_ok_and(listens)
}

/// The address of a provider, and the source of that value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Address {
    pub url: String,
    pub source: Source,
}

impl Address {
    /// Returns the address in effect: the configured one, that of a variable, or the built-in one.
    pub(crate) fn in_effect(
        provider: &str,
        configured: Option<(&Value, Source)>,
        variable: Option<(&str, &str)>,
    ) -> Option<Self> {
        if let Some((url, source)) = configured.and_then(|(value, source)| Some((value.as_str()?, source))) {
            return Some(Self { url: url.to_owned(), source });
        }
        if let Some((name, value)) = variable {
            // Some variables hold a host without a scheme.
            let url = if value.contains("://") { value.to_owned() } else { format!("http://{value}") };
            return Some(Self { url, source: Source::Environment(name.to_owned()) });
        }
        let vendor = vendor(provider)?;
        // Regions, locations and projects are filled in later, and none of them can contain another host.
        let url = ["{region}", "{location}", "{project}"]
            .iter()
            .fold(vendor.base_url.to_owned(), |url, place| url.replace(place, "x"));
        (!url.is_empty()).then_some(Self { url, source: Source::Default })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn env(name: &str) -> Source {
        Source::Environment(name.to_owned())
    }

    fn file() -> Source {
        Source::User(PathBuf::from("/c/config.toml"))
    }

    #[test]
    fn a_key_goes_only_to_the_host_it_belongs_to() {
        let variable = |name: &str| KeyOrigin::Environment(name.to_owned());
        let named = |name: &str| KeyOrigin::Named(name.to_owned());
        let kept = |host: Option<&str>| KeyOrigin::Kept { host: host.map(str::to_owned) };
        for (provider, key, address, source, goes) in [
            // The vendor's own hosts.
            ("openai", variable("OPENAI_API_KEY"), "https://api.openai.com/v1", Source::Default, true),
            ("openai", variable("OPENAI_API_KEY"), "https://eu.api.openai.com/v1", file(), true),
            ("openai", variable("OPENAI_API_KEY"), "https://API.OpenAI.com:443/v1", file(), true),
            ("openai", kept(None), "https://api.openai.com/v1", file(), true),
            ("azure", variable("AZURE_OPENAI_API_KEY"), "https://r.openai.azure.com/openai/v1", file(), true),
            ("qwen", kept(None), "https://dashscope.aliyuncs.com/compatible-mode/v1", file(), true),
            (
                "bedrock",
                variable("AWS_BEARER_TOKEN_BEDROCK"),
                "https://bedrock-runtime.eu-west-1.amazonaws.com",
                Source::Default,
                true,
            ),
            // A configured address gets no key of the vendor.
            ("openai", variable("OPENAI_API_KEY"), "https://models.example.com/v1", file(), false),
            ("openai", variable("OPENAI_API_KEY"), "http://127.0.0.1:8080/v1", file(), false),
            ("openai", variable("OPENAI_API_KEY"), "http://api.openai.com/v1", file(), false),
            ("openai", variable("OPENAI_API_KEY"), "https://api.openai.com.example.com/v1", file(), false),
            ("openai", variable("OPENAI_API_KEY"), "https://notapi.openai.com/v1", file(), false),
            ("openai", variable("OPENAI_API_KEY"), "https://api.openai.com@example.com/v1", file(), false),
            ("openai", variable("OPENAI_API_KEY"), "https://example.com/?api.openai.com", file(), false),
            ("qwen", variable("DASHSCOPE_API_KEY"), "https://bucket.oss.aliyuncs.com", file(), false),
            ("groq", variable("GROQ_API_KEY"), "https://api.openai.com/v1", file(), false),
            ("bedrock", variable("AWS_BEARER_TOKEN_BEDROCK"), "https://example.com", file(), false),
            // Variables of one provider belong together.
            (
                "openai",
                variable("OPENAI_API_KEY"),
                "https://models.example.com/v1",
                env("OPENAI_BASE_URL"),
                true,
            ),
            (
                "anthropic",
                variable("ANTHROPIC_AUTH_TOKEN"),
                "http://127.0.0.1:1",
                env("ANTHROPIC_BASE_URL"),
                true,
            ),
            // The configuration names the key.
            ("openai", named("OPENAI_API_KEY"), "https://models.example.com/v1", file(), true),
            ("openai", named("MY_KEY"), "http://127.0.0.1:8080/v1", file(), true),
            // A kept key stays with the address that it was entered for.
            ("openai", kept(None), "https://models.example.com/v1", env("OPENAI_BASE_URL"), false),
            ("openai", kept(None), "https://models.example.com/v1", file(), false),
            ("openai", kept(Some("models.example.com")), "https://models.example.com/v1", file(), true),
            ("openai", kept(Some("models.example.com")), "https://models.example.com:8443/v1", file(), false),
            ("openai", kept(Some("models.example.com")), "https://api.openai.com/v1", Source::Default, false),
            // Providers without a vendor.
            ("litellm", variable("LITELLM_API_KEY"), "https://models.example.com", file(), true),
            ("mine", kept(None), "https://models.example.com", file(), true),
        ] {
            let held = check_key(provider, &key, address, &source);
            assert_eq!(held.is_none(), goes, "{provider} {key:?} {address} {source:?}: {held:?}");
        }
    }

    #[test]
    fn a_request_is_signed_for_hosts_of_aws_or_a_configured_one() {
        for (address, configured, signs) in [
            ("https://bedrock-runtime.us-east-1.amazonaws.com", false, true),
            ("https://bedrock-runtime.cn-north-1.amazonaws.com.cn", false, true),
            ("https://bedrock-runtime.x.example.com/.amazonaws.com", false, false),
            ("https://bedrock-runtime.x@example.com/.amazonaws.com", false, false),
            ("http://bedrock-runtime.us-east-1.amazonaws.com", false, false),
            ("https://amazonaws.com.example.com", false, false),
            ("https://vpce-1.internal", true, true),
        ] {
            assert_eq!(may_sign(address, configured), signs, "{address}");
        }
    }

    #[test]
    fn tokens_of_a_cloud_go_to_its_own_hosts_or_to_a_named_one() {
        for (provider, address, named, goes) in [
            (
                "vertex",
                Some("https://eu-west4-aiplatform.googleapis.com/v1/projects/p/locations/l"),
                false,
                true,
            ),
            ("vertex", Some("https://{location}-aiplatform.googleapis.com/v1"), false, false),
            ("vertex", Some("https://example.com/v1/projects/p"), false, false),
            ("vertex", Some("http://127.0.0.1:1/v1/projects/p"), true, true),
            ("azure", Some("https://r.openai.azure.com/openai/v1"), false, true),
            ("azure", Some("https://r.openai.azure.com.example.com/openai/v1"), false, false),
            ("anthropic", None, false, true),
            ("anthropic", Some("https://example.com"), false, false),
        ] {
            assert_eq!(token_may_go(provider, address, named), goes, "{provider} {address:?}");
        }
    }

    #[test]
    fn addresses_of_this_machine_with_and_without_a_port() {
        for (address, here) in [
            ("http://localhost", true),
            ("http://LOCALHOST:8080/v1", true),
            ("http://models.localhost:1", true),
            ("http://127.0.0.1", true),
            ("http://127.1.2.3:80", true),
            ("http://0.0.0.0:11434", true),
            ("http://[::1]", true),
            ("http://[::1]:8080/v1", true),
            ("http://[2001:db8::1]", false),
            ("http://localhost.example.com", false),
            ("http://127.0.0.1.example.com:80", false),
            ("http://user@127.0.0.1", false),
            ("ftp://127.0.0.1", false),
        ] {
            assert_eq!(leads_here(address), here, "{address}");
        }
    }

    #[test]
    fn keys_are_kept_under_the_address_they_were_entered_for() {
        for (provider, address, want) in [
            ("openai", None, "openai"),
            ("openai", Some("https://api.openai.com/v1"), "openai"),
            ("openai", Some("http://127.0.0.1:8080/v1"), "openai@127.0.0.1:8080"),
            ("litellm", Some("http://127.0.0.1:4000"), "litellm"),
            ("mine", Some("https://models.example.com"), "mine"),
        ] {
            let name = kept_name(provider, address);
            assert_eq!(name, want);
            assert_eq!(split_name(&name).0, provider);
        }
    }

    #[test]
    fn the_message_names_key_host_and_next_step() {
        let key = KeyOrigin::Environment("OPENAI_API_KEY".to_owned());
        let held = check_key("openai", &key, "https://models.example.com/v1", &file()).unwrap();
        assert_eq!(
            held.message(),
            "OPENAI_API_KEY is not sent to models.example.com, because it is a key for api.openai.com. If it is meant \
             for this server, set providers.openai.api_key_env = \"OPENAI_API_KEY\"; `becket login openai` saves a key \
             for models.example.com"
        );
        assert!(!held.is_local());
        let held =
            check_key("openai", &KeyOrigin::Kept { host: None }, "http://localhost:1/v1", &file()).unwrap();
        assert!(held.is_local() && held.message().contains("the saved key for openai"), "{}", held.message());
    }
}
