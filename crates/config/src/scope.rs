//! What a file of the project may set. A project comes from somewhere else: it may narrow what happens on this machine,
//! never widen it, and never decide where credentials go or what runs.

use becket_types::PermissionMode;
use serde_json::Value;
use std::path::{Component, Path};

/// Whether the project's value for a key counts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    Counts,
    Ignored { why: String },
}

/// Judges one value of a project file. `so_far` is what the weaker layers say.
pub(crate) fn ruling(key: &str, value: &Value, so_far: Option<&Value>) -> Ruling {
    let ignored = |why: &str| Ruling::Ignored { why: why.to_owned() };
    let section = key.split('.').next().unwrap_or_default();
    match key {
        _ if section == "providers" => ignored("a project does not decide where credentials are sent"),
        "permissions.allow" => ignored("a project does not allow itself to run or change anything"),
        "add_dirs" => ignored("a project does not open further folders"),
        "tools.enabled" => {
            ignored("a project does not hand out tools; it may take some away with tools.disabled")
        }
        "shell.timeout" => lower(value, so_far, "a project can only shorten the time a command has"),
        _ if key.starts_with("shell.env") => {
            ignored("a project does not set variables of the commands that run")
        }
        "permission_mode" => mode(value, so_far),
        _ if section == "limits" => lower(value, so_far, "a project can only lower a limit"),
        "skills.dirs" | "rules.files" if !stays_inside(value) => {
            ignored("a project names only places inside itself (relative, without `..`)")
        }
        _ => Ruling::Counts,
    }
}

fn mode(value: &Value, so_far: Option<&Value>) -> Ruling {
    let parse = |value: &Value| value.as_str().and_then(|text| text.parse::<PermissionMode>().ok());
    let now = so_far.map_or(Some(PermissionMode::Default), parse);
    match (parse(value), now) {
        (Some(wanted), Some(now)) if wanted.is_within(now) => Ruling::Counts,
        // A wrong name is a type error that is reported as such.
        (None, _) => Ruling::Counts,
        _ => Ruling::Ignored { why: "a project can only choose a stricter permission mode".to_owned() },
    }
}

fn lower(value: &Value, so_far: Option<&Value>, why: &str) -> Ruling {
    let within = match so_far {
        None => true,
        Some(now) => matches!((amount(value), amount(now)), (Some(wanted), Some(now)) if wanted <= now),
    };
    if within { Ruling::Counts } else { Ruling::Ignored { why: why.to_owned() } }
}

/// A number, or a number with a unit, for comparison only.
fn amount(value: &Value) -> Option<f64> {
    if let Some(number) = value.as_f64() {
        return Some(number);
    }
    let text = value.as_str()?.trim().replace(['_', ','], "");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let factor = match text[end..].trim() {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        _ => return None,
    };
    text[..end].parse::<f64>().ok().map(|n| n * factor)
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
