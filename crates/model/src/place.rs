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
            && let Some(name) = base_url[open + 1..].split('}').next()
        {
            let message = format!("The address of `{provider}` needs a {name}.");
            let hint =
                endpoint.key_hint.clone().unwrap_or_else(|| format!("Set {}.", setting(provider, endpoint)));
            return Err(ModelError::new(ErrorKind::NotFound, message).hint(hint));
        }
        let (kind, base_url) = match endpoint.auth {
            Some(Auth::Aws) => bedrock(name, base_url),
            // Vertex serves Claude in a format of its own.
            Some(Auth::Google) if name.starts_with("claude") => (Kind::Anthropic, base_url.to_owned()),
            _ if kind == Kind::Gemini => (kind, versioned(base_url)),
            _ => (kind, base_url.to_owned()),
        };
        let base_url = base_url.as_str();
        let compat = endpoint.compat.clone().unwrap_or_else(|| Compat::at(provider, kind, base_url));
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
