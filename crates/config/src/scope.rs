//! Decides which keys a project's file may set. A project comes from somebody else. It may restrict what happens on this machine,
//! never allow more, and never decide where credentials are sent or which programs run.

use crate::schema::{SandboxMode, parse_count, parse_seconds};
use becket_types::PermissionMode;
use serde_json::Value;
use std::path::{Component, Path};

/// The decision about a project's value for a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    Counts,
    Ignored { why: String },
}

/// Decides about one value of a project file. `so_far`: the merged value of the weaker layers. `trusted`: the user trusts the
/// project.
pub(crate) fn ruling(key: &str, value: &Value, so_far: Option<&Value>, trusted: bool) -> Ruling {
    match trusted_ruling(key, value, so_far) {
        // If no project may set the key, trust would not help, so that reason is reported instead.
        Ruling::Counts if !trusted && !narrows(key) => Ruling::Ignored { why: UNTRUSTED.to_owned() },
        ruling => ruling,
    }
}

/// The reason if only the user's trust is missing.
pub(crate) const UNTRUSTED: &str = "this directory is not trusted";

/// Decides about one value of a project that the user trusts.
fn trusted_ruling(key: &str, value: &Value, so_far: Option<&Value>) -> Ruling {
    let ignored = |why: &str| Ruling::Ignored { why: why.to_owned() };
    let section = key.split('.').next().unwrap_or_default();
    match key {
        _ if section == "providers" => ignored("a project cannot decide where credentials are sent"),
        "models.catalog" => ignored("a project cannot decide which hosts are reached"),
        "disable_all_hooks" => ignored("a project cannot switch off your hooks"),
        "permissions.allow" => ignored("a project cannot allow calls"),
        "add_dirs" => ignored("a project cannot add folders to the workspace"),
        "tools.enabled" => ignored("a project cannot enable tools; it can remove some with tools.disabled"),
        "shell.timeout" => lower(key, value, so_far, "a project can only shorten the time limit of commands"),
        "shell.pass" => ignored("a project cannot give commands your variables"),
        _ if key.starts_with("shell.env") => ignored("a project cannot set variables of commands"),
        "format.auto" | "lsp.enabled" if *value == Value::Bool(false) => Ruling::Counts,
        _ if matches!(section, "format" | "lsp") => ignored("a project cannot decide which programs run"),
        "context.idle_compaction" | "context.cache_ttl" | "context.cache_warm" => {
            ignored("a project cannot decide about requests that nobody asked for")
        }
        _ if section == "web" => ignored("a project cannot decide which hosts are reached"),
        _ if section == "ui" => {
            ignored("a project cannot change becket's interface or the programs that it runs")
        }
        "permission_mode" => mode(value, so_far),
        "secrets" if value.as_str() != Some("mask") => {
            ignored("a project cannot let secrets be sent to a provider")
        }
        "sandbox.mode" => sandbox_mode(value, so_far),
        "sandbox.deny_write" | "sandbox.deny_read" | "sandbox.deny_hosts" => Ruling::Counts,
        "sandbox.network" if value.as_str() == Some("off") => Ruling::Counts,
        "sandbox.network"
            if value.as_str() == Some("proxy") && so_far.and_then(Value::as_str) == Some("full") =>
        {
            Ruling::Counts
        }
        "sandbox.fail_if_unavailable" | "sandbox.deny_unconfined" if *value == Value::Bool(true) => {
            Ruling::Counts
        }
        "sandbox.auto_allow_bash" if *value == Value::Bool(false) => Ruling::Counts,
        _ if section == "sandbox" => ignored("a project can only make the sandbox stricter"),
        "limits.wait_for_quota" => ignored("a project cannot decide how long becket waits"),
        _ if section == "limits" => lower(key, value, so_far, "a project can only lower a limit"),
        "skills.dirs" | "rules.files" if !stays_inside(value) => {
            ignored("a project can only name paths inside itself (relative, without `..`)")
        }
        _ => Ruling::Counts,
    }
}

/// Returns advice for the user: other ways to set the ignored value.
pub(crate) fn instead(key: &str, why: &str) -> String {
    let flag = match key {
        "permission_mode" => Some("--permission-mode"),
        "permissions.allow" => Some("--allowedTools"),
        "add_dirs" => Some("--add-dir"),
        "tools.enabled" => Some("--tools"),
        "sandbox.mode" => Some("--sandbox"),
        "limits.max_turns" => Some("--max-turns"),
        "limits.max_budget_usd" => Some("--max-budget-usd"),
        "limits.max_tokens" => Some("--max-tokens"),
        "limits.max_wall" => Some("--max-wall"),
        "limits.max_wait" => Some("--max-wait"),
        "limits.wait_for_quota" => Some("--wait-for-quota"),
        _ => None,
    };
    let trust = if why == UNTRUSTED { "trust it (start becket there in a terminal), or " } else { "" };
    let flag = flag.map(|flag| format!(", or give {flag}")).unwrap_or_default();
    format!("to have it, {trust}put it into your user configuration{flag}")
}

/// True if a file of the project may set this key once the user has approved its text.
///
/// Even then, it cannot switch questions off, or set variables that decide which programs run.
pub(crate) fn may_if_approved(key: &str, value: &Value) -> bool {
    match key {
        "permissions.allow" | "add_dirs" => true,
        "permission_mode" => {
            let mode = value.as_str().and_then(|text| text.parse::<PermissionMode>().ok());
            matches!(mode, Some(PermissionMode::Default | PermissionMode::AcceptEdits))
        }
        _ => key.strip_prefix("shell.env.").is_some_and(|name| !becket_types::is_obeyed_variable(name)),
    }
}

/// True for keys that can only restrict. They also count in a project that the user does not trust.
fn narrows(key: &str) -> bool {
    matches!(
        key,
        "permissions.deny"
            | "permissions.ask"
            | "permission_mode"
            | "tools.disabled"
            | "shell.timeout"
            | "format.auto"
            | "lsp.enabled"
    ) || ["limits.", "sandbox."].iter().any(|section| key.starts_with(section))
}

fn mode(value: &Value, so_far: Option<&Value>) -> Ruling {
    let parse = |value: &Value| value.as_str().and_then(|text| text.parse::<PermissionMode>().ok());
    let now = so_far.map_or(Some(PermissionMode::Default), parse);
    match (parse(value), now) {
        (Some(wanted), Some(now)) if wanted.is_within(now) => Ruling::Counts,
        // An unknown name is reported elsewhere as a type error.
        (None, _) => Ruling::Counts,
        _ => Ruling::Ignored { why: "a project can only choose a stricter permission mode".to_owned() },
    }
}

fn sandbox_mode(value: &Value, so_far: Option<&Value>) -> Ruling {
    let parse = |value: &Value| value.as_str().and_then(SandboxMode::parse);
    let tightness = |mode: SandboxMode| match mode {
        SandboxMode::Off => 0,
        SandboxMode::Auto => 1,
        SandboxMode::Required => 2,
        SandboxMode::ReadOnly => 3,
    };
    match (parse(value), so_far.map_or(Some(SandboxMode::default()), parse)) {
        (Some(wanted), Some(now)) if tightness(wanted) >= tightness(now) => Ruling::Counts,
        // An unknown name is reported elsewhere as a type error.
        (None, _) => Ruling::Counts,
        _ => Ruling::Ignored { why: "a project can only make the sandbox stricter".to_owned() },
    }
}

fn lower(key: &str, value: &Value, so_far: Option<&Value>, why: &str) -> Ruling {
    let within = match so_far {
        None => true,
        Some(now) => {
            matches!((amount(key, value), amount(key, now)), (Some(wanted), Some(now)) if wanted <= now)
        }
    };
    if within { Ruling::Counts } else { Ruling::Ignored { why: why.to_owned() } }
}

/// Parses a number with or without a unit, like the key itself does: `m` means minutes for a time and million
/// for a count.
fn amount(key: &str, value: &Value) -> Option<f64> {
    let text = match value {
        Value::String(text) => text,
        other => return other.as_f64(),
    };
    match key {
        "limits.max_wall" | "limits.max_wait" | "shell.timeout" => parse_seconds(text),
        _ => parse_count(text),
    }
}

fn stays_inside(value: &Value) -> bool {
    let inside = |text: &str| {
        !text.starts_with('~')
            && Path::new(text).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
    };
    match value {
        Value::String(text) => inside(text),
        Value::Array(items) => items.iter().all(|i| i.as_str().is_none_or(inside)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_project_starts_no_program_and_opens_no_host() {
        for (key, value, counts) in [
            ("format.auto", json!(false), true),
            ("format.auto", json!(true), false),
            ("format.use", json!(["rustfmt"]), false),
            ("format.commands.x.command", json!(["./evil"]), false),
            ("lsp.enabled", json!(false), true),
            ("lsp.enabled", json!(true), false),
            ("lsp.servers.rust-analyzer.command", json!(["./evil"]), false),
            ("lsp.servers.rust-analyzer.initialization_options", json!({"a": 1}), false),
            ("web.allow_hosts", json!(["169.254.169.254"]), false),
            ("web.search.url", json!("https://evil.example"), false),
            ("ui.status_line.command", json!("./evil"), false),
            ("context.cache_warm", json!("idle"), false),
            ("context.idle_compaction", json!(true), false),
        ] {
            assert_eq!(ruling(key, &value, None, true) == Ruling::Counts, counts, "{key} {value}");
        }
    }

    #[test]
    fn a_project_that_is_not_trusted_only_forbids() {
        for (key, value, counts) in [
            ("permissions.deny", json!(["Read(.env)"]), true),
            ("permission_mode", json!("plan"), true),
            ("permission_mode", json!("bypassPermissions"), false),
            ("limits.max_turns", json!(3), true),
            ("tools.disabled", json!(["bash"]), true),
            ("model", json!("openai/x"), false),
            ("context.template", json!("say yes"), false),
            ("skills.dirs", json!(["skills"]), false),
            ("rules.files", json!(["more.md"]), false),
            ("permissions.allow", json!(["Bash"]), false),
        ] {
            assert_eq!(ruling(key, &value, None, false) == Ruling::Counts, counts, "{key} {value}");
        }
        let told = |key: &str| match ruling(key, &json!(["Bash"]), None, false) {
            Ruling::Ignored { why } => format!("{why}; {}", instead(key, &why)),
            Ruling::Counts => String::new(),
        };
        // Trust would not help here.
        assert_eq!(
            told("permissions.allow"),
            "a project cannot allow calls; to have it, put it into your user configuration, or give --allowedTools"
        );
        assert!(told("rules.files").starts_with("this directory is not trusted; to have it, trust it"));
    }

    #[test]
    fn a_project_only_tightens_the_sandbox() {
        for (key, value, so_far, counts) in [
            ("sandbox.mode", json!("off"), None, false),
            ("sandbox.mode", json!("danger-full-access"), None, false),
            ("sandbox.mode", json!("auto"), None, true),
            ("sandbox.mode", json!("required"), None, true),
            ("sandbox.mode", json!("read-only"), Some(json!("workspace-write")), true),
            ("sandbox.mode", json!("required"), Some(json!("read-only")), false),
            ("sandbox.mode", json!("auto"), Some(json!("off")), true),
            ("sandbox.write", json!(["/"]), None, false),
            ("sandbox.deny_write", json!(["docs"]), None, true),
            ("sandbox.deny_read", json!(["private"]), None, true),
            ("sandbox.network", json!("off"), None, true),
            ("sandbox.network", json!("full"), None, false),
            ("sandbox.network", json!("proxy"), None, false),
            ("sandbox.network", json!("proxy"), Some(json!("off")), false),
            ("sandbox.network", json!("proxy"), Some(json!("full")), true),
            ("sandbox.network", json!("full"), Some(json!("proxy")), false),
            ("sandbox.allow_hosts", json!(["docs.rs"]), None, false),
            ("sandbox.deny_hosts", json!(["docs.rs"]), None, true),
            ("sandbox.unix_sockets", json!(["/run/docker.sock"]), None, false),
            ("sandbox.deny_unconfined", json!(true), None, true),
            ("sandbox.deny_unconfined", json!(false), None, false),
            ("shell.pass", json!(["DATABASE_URL"]), None, false),
            ("sandbox.fail_if_unavailable", json!(true), None, true),
            ("sandbox.fail_if_unavailable", json!(false), None, false),
            ("sandbox.auto_allow_bash", json!(true), None, false),
            ("sandbox.auto_allow_bash", json!(false), None, true),
            ("sandbox.excluded_commands", json!(["curl *"]), None, false),
        ] {
            for trusted in [true, false] {
                let ruling = ruling(key, &value, so_far.as_ref(), trusted);
                assert_eq!(ruling == Ruling::Counts, counts, "{key} {value} after {so_far:?}");
            }
        }
    }

    #[test]
    fn limits_are_compared_in_the_unit_of_their_key() {
        for (key, wanted, now, counts) in [
            ("limits.max_tokens", json!("9m"), json!(32_000), false),
            ("limits.max_tokens", json!("9M"), json!("10m"), true),
            ("limits.max_tokens", json!("31k"), json!(32_000), true),
            ("limits.max_tokens", json!(32_001), json!("32k"), false),
            ("limits.max_wall", json!("9m"), json!(600), true),
            ("limits.max_wall", json!("2h"), json!("90m"), false),
            ("limits.max_wait", json!("1d"), json!(60), false),
            ("limits.max_turns", json!(3), json!(4), true),
            ("limits.max_budget_usd", json!(1.5), json!(1), false),
            ("limits.max_wall", json!("soon"), json!(600), false),
            ("shell.timeout", json!("1m"), json!("120s"), true),
            ("shell.timeout", json!("3m"), json!("120s"), false),
        ] {
            let ruling = ruling(key, &wanted, Some(&now), true);
            assert_eq!(ruling == Ruling::Counts, counts, "{key} {wanted} after {now}");
        }
    }
}
