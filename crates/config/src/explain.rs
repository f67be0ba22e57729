//! Output of `becket config`: every key with its value and source, secrets masked.

use crate::config::{json_schema, known_keys};
use crate::layers::Settings;
use crate::secret::{IN_KEYCHAIN, mask, mask_url};
use crate::source::Source;
use serde::Serialize;
use serde_json::Value;

/// One line of the explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub key: String,
    /// The value as masked JSON; empty if nothing is set and there is no default.
    pub value: String,
    pub source: String,
}

impl Settings {
    /// Returns all keys in the order of the documentation. Lists have one row per element.
    pub fn explain(&self) -> Vec<Row> {
        let mut keys = Vec::new();
        known_keys(&json_schema(), &mut Vec::new(), &mut keys);
        let mut rows = Vec::new();
        for (key, default) in keys {
            // Hooks of all files count, so each file and event has a row. A file with `hooks = {}` gets none.
            if key == "hooks" && !self.hooks.is_empty() {
                rows.extend(self.hooks.iter().flat_map(|(source, hooks)| hook_rows(source, hooks)));
                continue;
            }
            match self.merged.get(&key) {
                Some(merged) => match &merged.value {
                    Value::Array(items) if !items.is_empty() => {
                        for (item, source) in items.iter().zip(&merged.sources) {
                            rows.push(row(&key, item, source));
                        }
                    }
                    value => rows.push(row(&key, value, merged.sources.last().unwrap_or(&Source::Default))),
                },
                None => rows.push(row(&key, &default, &Source::Default)),
            }
            // These tables have names that the user gives, so their rows are the names that are set.
            if ["shell.env", "format.commands", "lsp.servers", "models.aliases", "providers"]
                .contains(&key.as_str())
            {
                let set = self.merged.iter().filter(|(name, _)| {
                    name.strip_prefix(key.as_str()).is_some_and(|rest| rest.starts_with('.'))
                });
                rows.extend(
                    set.map(|(name, m)| row(name, &m.value, m.sources.last().unwrap_or(&Source::Default))),
                );
            }
        }
        for (provider, credential) in &self.credentials {
            rows.push(Row {
                key: format!("credential for {provider}"),
                value: match &credential.keychain {
                    Some(_) => IN_KEYCHAIN.to_owned(),
                    None => credential.value.to_string(),
                },
                source: credential.source.to_string(),
            });
        }
        rows
    }
}

/// Returns one row for each event: the commands, addresses and prompts of its hooks. Other keys of a hook may hold secrets, such as
/// the headers of a request.
fn hook_rows(source: &Source, hooks: &Value) -> Vec<Row> {
    let events = hooks.as_object().into_iter().flatten();
    let groups = |groups: &Value| groups.as_array().cloned().unwrap_or_default();
    events
        .map(|(event, value)| {
            let hooks = groups(value).into_iter().flat_map(|group| groups(&group["hooks"]));
            let shown = hooks.map(|hook| match (hook["command"].as_str(), hook["url"].as_str()) {
                (Some(command), _) => Value::from(command),
                (None, Some(url)) => Value::from(mask_url(url)),
                _ => hook["prompt"].clone(),
            });
            row(&format!("hooks.{event}"), &Value::Array(shown.collect()), source)
        })
        .collect()
}

fn row(key: &str, value: &Value, source: &Source) -> Row {
    let value = match value {
        Value::Null => String::new(),
        Value::String(text) if key.starts_with("shell.env.") || key.contains(".headers.") => {
            format!("\"{}\"", mask(text))
        }
        Value::String(text) if key.ends_with("_url") => format!("\"{}\"", mask_url(text)),
        other => other.to_string(),
    };
    Row { key: key.to_owned(), value, source: source.to_string() }
}
