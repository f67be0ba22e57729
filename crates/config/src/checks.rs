//! Values that have the right type and still make no sense: ranges, addresses, names of variables and of providers.
//!
//! Works on the merged configuration; each complaint names the source of the value.

use crate::config::Config;
use crate::error::Problem;
use crate::layers::{Builder, place};
use crate::providers::{ProviderConfig, VENDORS, is_name, vendor};
use crate::tree::nearest;

impl Builder<'_> {
    pub(crate) fn complain(&mut self, key: &str, message: impl Into<String>) {
        let (origin, key) = place(self.merged.get(key).and_then(|m| m.sources.last()), key);
        self.errors.push(Problem { origin, at: None, key, message: message.into() });
    }

    fn check_key_name(&mut self, key: &str, variable: Option<&str>) {
        let named =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if variable.is_some_and(|text| !named(text)) {
            let message =
                "this is the name of an environment variable, not the key itself; keys stay out of files";
            self.complain(key, message);
        }
    }

    pub(crate) fn check_ranges(&mut self, config: &Config) {
        if config.context.window.is_some_and(|w| w < 4_000) {
            self.complain("context.window", "a window has at least 4,000 tokens; give a larger one");
        }
        if !(config.context.threshold > 0.0 && config.context.threshold <= 1.0) {
            self.complain("context.threshold", "a share is more than 0 and at most 1; 0.9 is the default");
        }
        if !(0.0..=0.5).contains(&config.context.reattach) {
            self.complain("context.reattach", "a share from 0 (off) to 0.5; 0.15 is the default");
        }
        if config.limits.max_turns == Some(0) {
            self.complain("limits.max_turns", "0 would forbid everything; give at least 1 or leave it out");
        }
        if config.limits.max_budget_usd.is_some_and(|b| !b.is_finite() || b <= 0.0) {
            self.complain("limits.max_budget_usd", "a budget is a positive number of US dollars");
        }
        let times = [
            ("shell.timeout", config.tools.shell.timeout, "0 would stop every command"),
            ("limits.max_wall", config.limits.max_wall, "0 would stop every run"),
        ];
        for (key, time, why) in times {
            if time.is_some_and(|time| time.is_zero()) {
                self.complain(
                    key,
                    format!("{why} at once; give a longer time, such as \"10m\", or leave it out"),
                );
            }
        }
        for (name, target) in &config.model.others.aliases {
            if name.trim().is_empty() || name.contains(['/', ':']) || name.chars().any(char::is_whitespace) {
                self.complain(
                    &format!("models.aliases.{name}"),
                    format!("{name:?} cannot be an alias: use a name without /, : and blanks"),
                );
            }
            if target.trim().is_empty() {
                self.complain(
                    &format!("models.aliases.{name}"),
                    format!("{name} names no model; write PROVIDER/NAME"),
                );
            }
        }
        if config.model.others.catalog.as_deref().is_some_and(|url| !is_address(url)) {
            self.complain("models.catalog", "not an address; write it like https://models.dev/api.json");
        }
        for (name, provider) in &config.providers {
            self.check_provider(name, provider);
        }
        self.check_key_name("web.search.api_key_env", config.integrations.web.search.api_key_env.as_deref());
    }

    fn check_models(&mut self, key: &str, provider: &ProviderConfig) {
        for (at, model) in provider.models.iter().enumerate() {
            if model
                .prices
                .is_some_and(|prices| prices.iter().any(|price| !price.is_finite() || *price < 0.0))
            {
                self.complain(
                    key,
                    format!("{}: a price is 0 or more dollars per million tokens", model.name),
                );
            }
            if model.window.zip(model.max_output).is_some_and(|(window, output)| output > window) {
                self.complain(
                    key,
                    format!(
                        "{}: max_output is larger than the window; an answer has to fit into it",
                        model.name
                    ),
                );
            }
            if model.max_output == Some(0) {
                self.complain(key, format!("{}: max_output must be at least 1, or left out", model.name));
            }
            if !model.name.is_empty() && provider.models[..at].iter().any(|other| other.name == model.name) {
                self.complain(key, format!("{} is listed twice; keep one entry", model.name));
            }
        }
    }

    fn check_provider(&mut self, name: &str, provider: &ProviderConfig) {
        let key = |field: &str| format!("providers.{name}.{field}");
        if !is_name(name) {
            // The first key that is set has the position for the message.
            let set =
                self.merged.keys().find(|k| k.starts_with(&key(""))).cloned().unwrap_or_else(|| key("kind"));
            self.complain(&set, "a provider's name may have lower-case letters, digits, - and _; it is the part of a model's name before the slash");
            return;
        }
        if vendor(name).is_none() {
            if provider.kind.is_none() {
                let set = self
                    .merged
                    .keys()
                    .find(|k| k.starts_with(&key("")))
                    .cloned()
                    .unwrap_or_else(|| key("kind"));
                let near = nearest(name, VENDORS.iter().map(|vendor| vendor.name));
                let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                let address = if provider.base_url.is_none() { " and `base_url`" } else { "" };
                let message = format!(
                    "{name} is not built in, so it needs `kind` (openai-chat for most servers){address}{near}"
                );
                self.complain(&set, message);
            } else if provider.base_url.is_none() {
                self.complain(&key("kind"), format!("{name} is not built in, so it needs `base_url`, too"));
            }
        }
        if provider.base_url.as_ref().is_some_and(|url| !is_address(url)) {
            let message = "not an address; write it like https://host/path, or http://127.0.0.1:8080/v1 for a \
                           server on this machine";
            self.complain(&key("base_url"), message);
        }
        self.check_key_name(&key("api_key_env"), provider.api_key_env.as_deref());
        for header in provider.headers.keys() {
            let lower = header.to_ascii_lowercase();
            if matches!(lower.as_str(), "authorization" | "x-api-key" | "api-key" | "x-goog-api-key") {
                let message = "a key does not belong in a file; name its variable with api_key_env, or a program with key_command";
                self.complain(&key(&format!("headers.{header}")), message);
            }
        }
        for (header, value) in &provider.headers {
            let is_name = !header.is_empty()
                && header.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
            if !is_name {
                self.complain(
                    &key(&format!("headers.{header}")),
                    format!("{header:?} is not the name of a header: letters, digits and -"),
                );
            } else if value.chars().any(char::is_control) {
                let message =
                    format!("the value of {header} contains a line break or another control character");
                self.complain(&key(&format!("headers.{header}")), message);
            }
        }
        let is_label = |text: &String| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if provider.region.as_ref().is_some_and(|region| region.is_empty() || !is_label(region)) {
            self.complain(&key("region"), "a region has only letters, digits and -, such as eu-west-1");
        }
        self.check_models(&key("models"), provider);
        if provider.models.iter().any(|model| model.name.trim().is_empty()) {
            self.complain(&key("models"), "each entry needs the model's `name`");
        }
        if provider.models.iter().any(|model| model.window.is_some_and(|window| window < 4_000)) {
            self.complain(&key("models"), "a window has at least 4,000 tokens; give a larger one");
        }
    }
}

/// True if this is an address of HTTP with a host, and a port that there can be.
fn is_address(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if rest.contains(char::is_whitespace) {
        return false;
    }
    let place = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match place.strip_prefix('[').map(|inner| inner.split_once(']')) {
        Some(Some((host, after))) => match (after.is_empty(), after.strip_prefix(':')) {
            (true, _) => (host, None),
            (_, Some(port)) => (host, Some(port)),
            _ => return false,
        },
        Some(None) => return false,
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    !host.is_empty() && port.is_none_or(|port| port.parse::<u16>().is_ok())
}
