//! Values that have the right type and still make no sense: ranges, limits, names of models. [`crate::provider_checks`] has the
//! checks of providers.
//!
//! Works on the merged configuration. Each complaint names the source of the value, the value and the next step. Values that
//! may be keys are not repeated.

use crate::config::Config;
use crate::error::Problem;
use crate::layers::{Builder, value_name};
use crate::schema::{LimitsConfig, ModelsConfig};

impl Builder<'_> {
    pub(crate) fn complain(&mut self, key: &str, message: impl Into<String>) {
        let merged = self.merged.get(key);
        let (origin, key) = value_name(merged.and_then(|m| m.sources.last()), key);
        let line = merged.and_then(|m| m.lines.last().copied().flatten());
        self.errors.push(Problem { origin, at: line.map(|line| (line, 1)), key, message: message.into() });
    }

    /// Warns about a value that has no effect.
    pub(crate) fn warn(&mut self, key: &str, message: impl Into<String>) {
        let (origin, key) = value_name(self.merged.get(key).and_then(|m| m.sources.last()), key);
        self.warnings.push(Problem { origin, at: None, key, message: message.into() });
    }

    pub(crate) fn check_ranges(&mut self, config: &Config) {
        let context = &config.context;
        if let Some(window) = context.window.filter(|w| *w < 4_000) {
            let message = format!("a window has at least 4,000 tokens, not {window}; give a larger one");
            self.complain("context.window", message);
        }
        if !(context.threshold > 0.0 && context.threshold <= 1.0) {
            let message = format!(
                "a share is more than 0 and at most 1, not {}; 0.9 is the default",
                context.threshold
            );
            self.complain("context.threshold", message);
        }
        if !(0.0..=0.5).contains(&context.reattach) {
            let message =
                format!("a share from 0 (off) to 0.5, not {}; 0.15 is the default", context.reattach);
            self.complain("context.reattach", message);
        }
        if config.tools.shell.timeout.is_some_and(|time| time.is_zero()) {
            self.complain("shell.timeout", zero_time("command"));
        }
        self.check_limits(&config.limits);
        self.check_model_names(&config.model.others);
        for (name, provider) in &config.providers {
            self.check_provider(name, provider);
        }
        self.check_variable_name(
            "web.search.api_key_env",
            config.integrations.web.search.api_key_env.as_deref(),
        );
    }

    fn check_limits(&mut self, limits: &LimitsConfig) {
        for (key, limit) in [("limits.max_turns", limits.max_turns), ("limits.max_tokens", limits.max_tokens)]
        {
            if limit == Some(0) {
                self.complain(key, "0 would forbid everything; give at least 1 or leave it out");
            }
        }
        if let Some(budget) = limits.max_budget_usd.filter(|b| !b.is_finite() || *b <= 0.0) {
            let message = format!(
                "a budget is a positive number of US dollars, not {budget}; give one such as 2.5, or leave it out"
            );
            self.complain("limits.max_budget_usd", message);
        }
        if limits.max_wall.is_some_and(|time| time.is_zero()) {
            self.complain("limits.max_wall", zero_time("run"));
        }
    }

    fn check_model_names(&mut self, models: &ModelsConfig) {
        const NAME: &str = "write PROVIDER/NAME, or remove the key";
        let single = [("summary", &models.summary), ("title", &models.title), ("subagent", &models.subagent)];
        for (key, name) in single {
            if let Some(name) = name.as_ref().filter(|name| name.trim().is_empty()) {
                self.complain(&format!("models.{key}"), format!("{name:?} names no model; {NAME}"));
            }
        }
        for (at, name) in models.fallback.iter().enumerate().filter(|(_, name)| name.trim().is_empty()) {
            let message = format!("entry {} is {name:?}, which names no model; {NAME}", at + 1);
            self.complain("models.fallback", message);
        }
        for (name, target) in &models.aliases {
            let key = format!("models.aliases.{name}");
            if name.trim().is_empty() || name.contains(['/', ':']) || name.chars().any(char::is_whitespace) {
                let message = format!("{name:?} cannot be an alias: use a name without /, : and blanks");
                self.complain(&key, message);
            } else if target.trim().is_empty() {
                self.complain(&key, format!("{target:?} names no model; {NAME}"));
            } else if models.aliases.contains_key(target.trim()) {
                self.complain(&key, format!("{target:?} is an alias itself; name the model that it means"));
            }
        }
        if let Some(url) = &models.catalog {
            self.check_address("models.catalog", url, "https://models.dev/api.json");
        }
    }
}

fn zero_time(what: &str) -> String {
    format!("0 would stop every {what} at once; give a longer time, such as \"10m\", or leave it out")
}
