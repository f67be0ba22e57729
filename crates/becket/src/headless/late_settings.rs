//! Settings and deny rules that a program sends with `initialize` in place of flags, so that they are not in the list of
//! processes.
//!
//! They count like `--settings` and `--disallowedTools`: the arguments of the run are completed with them, and its settings
//! are read again. A program relies on them, so becket does not start if announced ones are missing or cannot be used.

use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::RunSettings;
use serde_json::Value;

/// The fields of the request that take the place of flags.
const FIELDS: [&str; 2] = ["settings", "disallowedTools"];

/// Returns the value of a field, if it has one.
fn given<'a>(request: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    request.and_then(|request| request.get(name)).filter(|value| !value.is_null())
}

/// Reads the settings of the run again with what the request adds to its arguments. `request`: the request `initialize`;
/// `None` if the driving program sent none.
///
/// # Errors
///
/// Returns a failure if something cannot be used, or was announced and is missing.
pub(super) fn take_from(
    request: Option<&Value>,
    environment: &Environment,
    run: &mut RunSettings,
) -> Result<(), Failure> {
    let Some(mut arguments) = run.client.arguments.take() else { return Ok(()) };
    for name in &arguments.sdk.initialize_fields {
        if !FIELDS.contains(&name.as_str()) || given(request, name).is_none() {
            return Err(Failure::usage(format!(
                "--initialize-fields: the first line of the input must be the request `initialize` with `{name}`, one of {}",
                FIELDS.join(" and ")
            )));
        }
    }
    let (settings, denied) = (given(request, "settings"), given(request, "disallowedTools"));
    if settings.is_none() && denied.is_none() {
        return Ok(());
    }
    if let Some(settings) = settings {
        if arguments.config.settings.is_some() {
            return Err(Failure::usage(
                "initialize: settings: the run already has --settings, and only one of them can count",
            ));
        }
        let object = settings.as_object().ok_or_else(|| wrong("settings", "an object", settings))?;
        arguments.config.settings = (!object.is_empty()).then(|| settings.to_string());
    }
    if let Some(denied) = denied {
        let rules = denied
            .as_array()
            .and_then(|rules| rules.iter().map(|rule| rule.as_str().map(str::to_owned)).collect());
        let rules: Vec<String> = rules.ok_or_else(|| wrong("disallowedTools", "a list of rules", denied))?;
        arguments.permissions.disallowed_tools.extend(rules);
    }
    // The process has already changed to the directory of `--cd`, so a relative path must not be applied again.
    arguments.config.cd = None;
    let mut again = RunSettings::new(*arguments, environment)?;
    again.client.driven = run.client.driven;
    again.client.unused = std::mem::take(&mut run.client.unused);
    again.client.host_servers = run.client.host_servers.take();
    *run = again;
    Ok(())
}

fn wrong(name: &str, form: &str, value: &Value) -> Failure {
    Failure::usage(format!("initialize: {}", super::opening::wrong(name, form, value)))
}
