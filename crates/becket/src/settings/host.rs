//! Limits that the program that starts a run sets for it: its managed settings, and the modes that it may choose later.
//!
//! Such settings can only restrict. The program relies on them, so becket does not start if it cannot enforce one of them.

use crate::args::{InputFormat, Run};
use crate::failure::Failure;
use becket_config::Settings;
use becket_guard::Rule;
use serde_json::Value;

const FLAG: &str = "--managed-settings";

/// Limits that the driving program sets when it starts the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostLimits {
    /// The session may change to the permission mode `bypassPermissions`.
    pub may_bypass: bool,
    /// The managed settings come with the request `initialize`. The run must not begin without them.
    settings_follow: bool,
}

impl HostLimits {
    /// Reads the flags of the run, and adds the rules in `--managed-settings` to its settings.
    pub(super) fn read(args: &Run, settings: &mut Settings) -> Result<Self, Failure> {
        let sdk = &args.sdk;
        if let Some(text) = &sdk.managed_settings {
            let given = becket_types::parse_json(text)
                .map_err(|error| Failure::usage(format!("{FLAG}: this is not JSON: {error}")))?;
            restrict(&given, settings, FLAG)?;
        }
        if sdk.managed_settings_in_initialize && args.output.input_format != InputFormat::StreamJson {
            return Err(Failure::usage(format!(
                "{FLAG}-in-initialize needs the request `initialize` on standard input"
            ))
            .hint("add --input-format stream-json --output-format stream-json"));
        }
        Ok(Self {
            may_bypass: args.permissions.dangerously_skip_permissions
                || sdk.allow_dangerously_skip_permissions,
            settings_follow: sdk.managed_settings_in_initialize,
        })
    }

    /// Adds the rules in `managedSettings` of the request `initialize` to the settings of the run. `None`: the driving program
    /// sent no such request.
    ///
    /// # Errors
    ///
    /// Returns a failure if they cannot be enforced, or if they were announced and are missing.
    pub(crate) fn take_from(self, request: Option<&Value>, settings: &mut Settings) -> Result<(), Failure> {
        let given = request.and_then(|request| request.get("managedSettings"));
        match given.filter(|given| !given.is_null()) {
            Some(given) => restrict(given, settings, "initialize: managedSettings"),
            None if self.settings_follow => Err(Failure::usage(format!(
                "{FLAG}-in-initialize: the first line of the input must be the request `initialize` with `managedSettings`"
            ))),
            None => Ok(()),
        }
    }
}

/// Adds the rules in managed settings to the settings of the run.
fn restrict(given: &Value, settings: &mut Settings, place: &str) -> Result<(), Failure> {
    let failure = |why: String| Failure::usage(format!("{place}: {why}"));
    for (key, rules) in rules(given).map_err(failure)? {
        settings.restrict(key, rules, place).map_err(failure)?;
    }
    Ok(())
}

/// Returns the lists of rules in managed settings by their keys. A key that becket cannot enforce is an error.
fn rules(given: &Value) -> Result<Vec<(&'static str, Vec<String>)>, String> {
    let (mut out, mut unusable) = (Vec::new(), Vec::new());
    for (key, value) in given.as_object().ok_or("they must be a JSON object")? {
        match (key.as_str(), value) {
            ("permissions", Value::Object(permissions)) => {
                for (name, value) in permissions {
                    match name.as_str() {
                        "deny" => out.push(("permissions.deny", list("permissions.deny", value)?)),
                        "ask" => out.push(("permissions.ask", list("permissions.ask", value)?)),
                        // These lists only allow, so an empty one asks for nothing.
                        "allow" | "additionalDirectories" if value.as_array().is_some_and(Vec::is_empty) => {}
                        _ if value.is_null() => {}
                        _ => unusable.push(format!("permissions.{name}")),
                    }
                }
            }
            ("$schema", _) | (_, Value::Null) => {}
            _ => unusable.push(key.clone()),
        }
    }
    if unusable.is_empty() {
        return Ok(out);
    }
    Err(format!(
        "becket cannot enforce {}; it takes only permissions.deny and permissions.ask",
        unusable.join(", ")
    ))
}

/// Returns a list of rules. `null` is an empty one.
fn list(key: &str, value: &Value) -> Result<Vec<String>, String> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let texts: Option<Vec<String>> = value
        .as_array()
        .and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
    let texts = texts.ok_or_else(|| format!("{key} must be a list of rules"))?;
    for text in &texts {
        Rule::parse(text).map_err(|error| format!("{key}: {error}"))?;
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn managed_settings_are_enforced_or_refused() {
        let good = json!({
            "$schema": "x", "model": null,
            "permissions": { "deny": ["Bash(rm:*)", "WebFetch"], "ask": ["Edit"], "allow": [] },
        });
        let mut settings = Settings::default();
        restrict(&good, &mut settings, FLAG).unwrap();
        // A rule that is there already is not added again.
        restrict(&json!({ "permissions": { "deny": ["WebFetch"] } }), &mut settings, "second").unwrap();
        assert_eq!(settings.managed("permissions.deny"), ["Bash(rm:*)", "WebFetch"]);
        assert_eq!(settings.managed("permissions.ask"), ["Edit"]);
        assert_eq!(settings.config.permissions.rules.deny, ["Bash(rm:*)", "WebFetch"]);
        for (given, part) in [
            (json!(["Bash"]), "JSON object"),
            (json!({ "permissions": ["Bash"] }), "cannot enforce permissions"),
            (json!({ "permissions": { "deny": "Bash" } }), "permissions.deny must be a list"),
            (json!({ "permissions": { "deny": ["Bash", 1] } }), "permissions.deny must be a list"),
            (json!({ "permissions": { "ask": ["Bash("] } }), "permissions.ask: "),
            (json!({ "permissions": { "allow": ["Bash"] } }), "cannot enforce permissions.allow"),
            (
                json!({ "permissions": { "deny": [], "disableBypassPermissionsMode": "disable" } }),
                "disableBypass",
            ),
            (json!({ "sandbox": { "enabled": true }, "model": "x" }), "sandbox"),
            (json!({ "allowedMcpServers": [] }), "allowedMcpServers"),
            (json!({ "fileCheckpointingEnabled": false }), "fileCheckpointingEnabled"),
        ] {
            let why = restrict(&given, &mut Settings::default(), FLAG).unwrap_err().message;
            assert!(why.starts_with("--managed-settings: ") && why.contains(part), "{given}: {why}");
        }
    }

    #[test]
    fn announced_settings_must_come() {
        let follow = HostLimits { settings_follow: true, ..HostLimits::default() };
        let empty = json!({ "managedSettings": null });
        let given = json!({ "managedSettings": { "permissions": { "deny": ["Bash"] } } });
        for request in [None, Some(&empty)] {
            assert!(follow.take_from(request, &mut Settings::default()).is_err());
            assert!(HostLimits::default().take_from(request, &mut Settings::default()).is_ok());
        }
        for limits in [follow, HostLimits::default()] {
            let mut settings = Settings::default();
            limits.take_from(Some(&given), &mut settings).unwrap();
            assert_eq!(settings.managed("permissions.deny"), ["Bash"]);
        }
    }
}
