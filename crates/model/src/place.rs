//! A provider with everything that the adapters need: wire format, address, deviations and key.

use crate::base_url::join;
use crate::compat::Compat;
use crate::credential::{Auth, Credential};
use crate::endpoint::Endpoint;
use crate::http::Transport;
use crate::kind::Kind;
use crate::settings::Settings;
use crate::{ErrorKind, ModelError};
use url::Url;

pub(crate) struct Place<'a> {
    /// The name in `PROVIDER/NAME`.
    pub provider: &'a str,
    pub endpoint: &'a Endpoint,
    pub kind: Kind,
    pub base_url: String,
    pub compat: Compat,
}

const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com/v1";
const GEMINI: &str = "https://generativelanguage.googleapis.com/v1beta";

impl<'a> Place<'a> {
    /// # Errors
    ///
    /// Returns [`ErrorKind::NotFound`] if no address is configured, and [`ErrorKind::Auth`] if a required key is
    /// missing.
    pub(crate) fn new(provider: &'a str, name: &str, endpoint: &'a Endpoint) -> Result<Self, ModelError> {
        let url = endpoint.base_url.as_deref();
        let kind = endpoint.kind.unwrap_or(match provider {
            "anthropic" => Kind::Anthropic,
            "openai" if url.is_none_or(is_openai) => Kind::Responses,
            _ => Kind::Chat,
        });
        let own = match kind {
            Kind::Anthropic => ANTHROPIC,
            Kind::Gemini => GEMINI,
            // Bedrock has an address for each region, which is always configured.
            Kind::Chat | Kind::Responses | Kind::Converse => OPENAI,
        };
        // A provider of the user's own needs a configured address: its key must not be sent to a vendor.
        let usual = matches!(provider, "anthropic" | "openai" | "google").then_some(own);
        let Some(base_url) = url.or(usual).filter(|url| !url.trim().is_empty()) else {
            let message = format!("It is not known where the server of `{provider}` is.");
            let hint = format!("Set {}.", setting(provider, endpoint));
            return Err(ModelError::new(ErrorKind::NotFound, message).hint(hint));
        };
        if let Some(open) = base_url.find('{')
            && let Some(placeholder) = base_url[open + 1..].split('}').next()
        {
            return Err(incomplete(provider, placeholder, &setting(provider, endpoint)));
        }
        let (kind, base_url) = match endpoint.auth {
            Some(Auth::Aws) => bedrock(name, base_url),
            // Vertex serves Claude in a format of its own.
            Some(Auth::Google) if name.starts_with("claude") => (Kind::Anthropic, base_url.to_owned()),
            _ if kind == Kind::Gemini => (kind, versioned(base_url)),
            _ => (kind, base_url.to_owned()),
        };
        let base_url = base_url.as_str();
        let mut compat = Compat::at(provider, kind, base_url);
        if let Some(changes) = &endpoint.compat {
            changes.make(&mut compat);
        }
        if let Some(own) = endpoint.models.iter().find(|figures| figures.name == name) {
            compat.body.extend(own.body.clone());
        }
        let place = Self { provider, endpoint, kind, base_url: base_url.to_owned(), compat };
        place.check_key()?;
        Ok(place)
    }

    /// Checks that there is a key. A vendor's own address needs one, another server may not.
    fn check_key(&self) -> Result<(), ModelError> {
        if let Some(Credential::ApiKey(key) | Credential::Bearer(key)) = &self.endpoint.credential {
            return self.check_letters(key.expose().trim());
        }
        if self.endpoint.credential.is_some() {
            return Ok(());
        }
        let host = Url::parse(self.base_url.trim()).ok().and_then(|url| url.host_str().map(str::to_owned));
        let host = host.unwrap_or_default();
        let below = |suffix: &str| host.ends_with(suffix);
        let vendor =
            [".anthropic.com", ".openai.com", ".openrouter.ai", ".mistral.ai"].into_iter().any(below)
                || matches!(host.as_str(), "anthropic.com" | "openai.com" | "openrouter.ai" | "mistral.ai");
        if !vendor && !self.endpoint.needs_key {
            return Ok(());
        }
        let (message, usual) = match self.provider {
            "anthropic" => (
                "There is no key for Anthropic.".to_owned(),
                "Set ANTHROPIC_API_KEY, or ANTHROPIC_AUTH_TOKEN for a bearer token.",
            ),
            "openai" => (
                "There is no key for the OpenAI API.".to_owned(),
                "Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that needs none.",
            ),
            other => (format!("There is no key for `{other}`."), "Set its key in the environment."),
        };
        let hint = self.endpoint.key_hint.clone().unwrap_or_else(|| usual.to_owned());
        Err(ModelError::new(ErrorKind::Auth, message).hint(hint))
    }

    /// Checks that a key has only characters that keys have. A server would only say that it is wrong.
    fn check_letters(&self, key: &str) -> Result<(), ModelError> {
        let what = match key.chars().find(|c| !c.is_ascii_graphic()) {
            Some('\n' | '\r') => "a line break",
            Some(c) if c.is_whitespace() => "a blank",
            Some(c) if c.is_control() => "a control character",
            Some(_) => "a character that is not ASCII",
            None if key.len() > 1 && key.starts_with(['"', '\'']) && key.ends_with(['"', '\'']) => {
                "quotation marks"
            }
            None => return Ok(()),
        };
        let place =
            self.endpoint.key_source.clone().unwrap_or_else(|| format!("the key for `{}`", self.provider));
        let message = format!("The key in {place} contains {what}, which no key has.");
        Err(ModelError::new(ErrorKind::Auth, message)
            .hint("Set it again: the key alone, in one line, without quotation marks."))
    }

    /// Returns the model's path below Gemini's base URL.
    pub(crate) fn gemini_path(&self, name: &str) -> String {
        if self.base_url.contains("/projects/") {
            format!("publishers/google/models/{name}")
        } else {
            format!("models/{name}")
        }
    }

    /// Returns the address of `path`. `keep_path`: see [`join`].
    pub(crate) fn url(&self, path: &str, keep_path: bool) -> Result<Url, ModelError> {
        join(&self.base_url, path, keep_path)
    }

    /// Makes the transport for requests. `own`: the headers of the wire format.
    pub(crate) fn transport(
        &self,
        url: Url,
        own: &[(&str, String)],
        settings: &Settings,
    ) -> Result<Transport, ModelError> {
        let key = self.endpoint.fixed_headers(self.kind);
        let headers: Vec<(&str, String)> = own.iter().cloned().chain(key).collect();
        let setting = setting(self.provider, self.endpoint);
        let transport = Transport::new(url, &setting, (self.endpoint, self.kind), &headers, settings)?;
        Ok(transport.with_fatal_codes(&self.compat.fatal_codes))
    }
}

/// Returns the error for an address whose placeholder has no value.
fn incomplete(provider: &str, placeholder: &str, setting: &str) -> ModelError {
    let (what, variable, key) = match (provider, placeholder) {
        ("cloudflare", "project") => ("the id of your account", Some("CLOUDFLARE_ACCOUNT_ID"), "project"),
        (_, "project") => ("the id of your project", Some("GOOGLE_CLOUD_PROJECT"), "project"),
        (_, "location") => ("a location, such as europe-west4", Some("GOOGLE_CLOUD_LOCATION"), "region"),
        (_, "region") => ("a region, such as eu-west-1", Some("AWS_REGION"), "region"),
        _ => ("a value for a placeholder", None, ""),
    };
    let message = format!("The address of `{provider}` lacks {what}: {{{placeholder}}} has no value.");
    let hint = match variable {
        Some(variable) => format!("Set {variable} or providers.{provider}.{key}."),
        None => format!("Write the address in {setting} without {{{placeholder}}}."),
    };
    ModelError::new(ErrorKind::NotFound, message).hint(hint)
}

/// Gemini's base URL with the version of the API, as Google's own libraries add it. An address of Vertex has its own.
fn versioned(base_url: &str) -> String {
    let base = base_url.trim().trim_end_matches('/');
    let is_version =
        |part: &str| part.starts_with('v') && part[1..].starts_with(|c: char| c.is_ascii_digit());
    if base.contains("/projects/") || base.rsplit('/').next().is_some_and(is_version) {
        base.to_owned()
    } else {
        format!("{base}/v1beta")
    }
}

/// Bedrock has a path for each wire format, and one of its own for the models of all other vendors.
fn bedrock(name: &str, base_url: &str) -> (Kind, String) {
    let base = base_url.trim_end_matches('/');
    if name.is_empty() || name.contains("anthropic.") || name.starts_with("claude") {
        return (Kind::Anthropic, format!("{base}/anthropic"));
    }
    // OpenAI's open weights have no Responses at this address.
    if (name.contains("openai.") || name.starts_with("gpt-")) && !name.contains("gpt-oss") {
        return (Kind::Responses, format!("{base}/openai/v1"));
    }
    (Kind::Converse, format!("{base}/model"))
}

/// True for OpenAI's own address. All other servers configured as `openai` get Chat Completions.
fn is_openai(base_url: &str) -> bool {
    let host = Url::parse(base_url.trim()).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.is_some_and(|host| host == "api.openai.com")
}

/// Returns the setting that holds the server's address.
fn setting(provider: &str, endpoint: &Endpoint) -> String {
    endpoint.url_setting.clone().unwrap_or_else(|| match provider {
        "anthropic" => "ANTHROPIC_BASE_URL".to_owned(),
        "openai" => "OPENAI_BASE_URL".to_owned(),
        other => format!("providers.{other}.base_url"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::CompatChanges;
    use crate::endpoint::Figures;
    use serde_json::json;

    /// The wire format of some providers depends on the model or the address. Changes keep the dialect of that format.
    #[test]
    fn a_change_of_one_field_keeps_the_rest_of_the_dialect() {
        let url = "https://bedrock-runtime.eu-west-1.amazonaws.com";
        for (provider, name, auth, base_url) in [
            ("openai", "gpt-5", None, None),
            ("bedrock", "amazon.nova-pro-v1:0", Some(Auth::Aws), Some(url)),
            ("bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", Some(Auth::Aws), Some(url)),
            (
                "vertex",
                "claude-sonnet-4-5",
                Some(Auth::Google),
                Some("https://aiplatform.googleapis.com/v1/projects/p/locations/l"),
            ),
        ] {
            let plain = Endpoint {
                auth,
                base_url: base_url.map(str::to_owned),
                credential: Some(Credential::Bearer(crate::Secret::new("k"))),
                ..Endpoint::default()
            };
            let of_provider = |compat: &mut Compat| _ = compat.body.insert("a".to_owned(), json!(1));
            let of_model = Figures {
                name: name.to_owned(),
                body: [("b".to_owned(), json!(2)), ("a".to_owned(), json!(3))].into_iter().collect(),
                ..Figures::default()
            };
            let changed = Endpoint {
                compat: Some(CompatChanges::new(of_provider)),
                models: vec![of_model],
                ..plain.clone()
            };
            let before = Place::new(provider, name, &plain).unwrap().compat;
            let mut after = Place::new(provider, name, &changed).unwrap().compat;
            assert_eq!(
                serde_json::to_value(std::mem::take(&mut after.body)).unwrap(),
                json!({"a": 3, "b": 2})
            );
            assert_eq!(after, before, "{provider} {name}");
        }
    }

    #[test]
    fn an_address_without_a_value_names_the_setting() {
        for (provider, base_url, message, hint) in [
            (
                "cloudflare",
                "https://api.cloudflare.com/client/v4/accounts/{project}/ai/v1",
                "the id of your account",
                "Set CLOUDFLARE_ACCOUNT_ID or providers.cloudflare.project.",
            ),
            (
                "vertex",
                "https://{location}-aiplatform.googleapis.com/v1/projects/p",
                "a location",
                "Set GOOGLE_CLOUD_LOCATION or providers.vertex.region.",
            ),
            (
                "vertex",
                "https://h/v1/projects/{project}",
                "the id of your project",
                "Set GOOGLE_CLOUD_PROJECT or",
            ),
            ("bedrock", "https://bedrock-runtime.{region}.amazonaws.com", "a region", "Set AWS_REGION or"),
            (
                "own",
                "https://h/{tenant}/v1",
                "a value",
                "Write the address in providers.own.base_url without {tenant}.",
            ),
        ] {
            let endpoint = Endpoint { base_url: Some(base_url.to_owned()), ..Endpoint::default() };
            let error = Place::new(provider, "m", &endpoint).err().unwrap();
            assert!(error.message.contains(message) && error.message.contains(provider), "{}", error.message);
            assert!(error.hint.as_deref().unwrap_or_default().starts_with(hint), "{:?}", error.hint);
        }
    }
}
