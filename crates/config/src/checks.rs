//! Values that have the right type and still make no sense: ranges, addresses, names of variables and of providers.
//!
//! Works on the merged configuration; each complaint names the source of the value.

use crate::error::Problem;
use crate::layers::{Builder, place};
use crate::providers::{ProviderConfig, VENDORS, is_name, vendor};
use crate::schema::Config;
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
            ("shell.timeout", config.shell.timeout, "0 would stop every command"),
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
        for (name, provider) in &config.providers {
            self.check_provider(name, provider);
        }
        self.check_key_name("web.search.api_key_env", config.web.search.api_key_env.as_deref());
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
                let message = format!(
                    "{name} is not built in, so it needs `kind` (openai-chat for most servers) and `base_url`{near}"
                );
                self.complain(&set, message);
            } else if provider.base_url.is_none() {
                self.complain(&key("kind"), format!("{name} is not built in, so it needs `base_url`, too"));
            }
        }
        if let Some(url) = &provider.base_url {
            let host =
                url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or_default();
            if host.is_empty() || host.starts_with(['/', ':', '?', '#']) || host.contains(char::is_whitespace)
            {
                let message = "not an address; write it like https://host/path, or http://127.0.0.1:8080/v1 for a \
                               server on this machine";
                self.complain(&key("base_url"), message);
            }
        }
        self.check_key_name(&key("api_key_env"), provider.api_key_env.as_deref());
        for header in provider.headers.keys() {
            let lower = header.to_ascii_lowercase();
            if matches!(lower.as_str(), "authorization" | "x-api-key" | "api-key" | "x-goog-api-key") {
                let message = "a key does not belong in a file; name its variable with api_key_env, or a program with key_command";
                self.complain(&key(&format!("headers.{header}")), message);
            }
        }
        if provider.models.iter().any(|model| model.name.trim().is_empty()) {
            self.complain(&key("models"), "each entry needs the model's `name`");
        }
        if provider.models.iter().any(|model| model.window.is_some_and(|window| window < 4_000)) {
            self.complain(&key("models"), "a window has at least 4,000 tokens; give a larger one");
        }
    }
}
