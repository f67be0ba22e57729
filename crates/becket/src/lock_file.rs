//! `--locked FILE`: pins what a run depends on, so that it is repeated under the same conditions or not at all.
//!
//! Owns the list of what is pinned: becket's version, the model, its server and its effort, the tools with their specifications, and
//! the system prompt with its rules files. The first run writes the file; a later run compares and names each
//! difference before anything is sent. Not pinned: the text of the task, files of the project, limits, and tools of MCP
//! servers, which appear after the start.

use crate::failure::Failure;
use crate::settings::RunSettings;
use becket_types::{SystemItem, SystemKind, ToolSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// The version of the form of the file.
const FORMAT_VERSION: u32 = 1;
const MOST_BYTES: u64 = 16 << 20;

/// The conditions of a run, as the file records them. Texts are recorded as their SHA-256.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct RunConditions {
    form: u32,
    becket: String,
    model: String,
    /// Wire format and address of the model's server: the same name may mean another server. `None` in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(default)]
    effort: Option<String>,
    tools: BTreeMap<String, String>,
    /// The blocks of the system prompt by kind or file, without the one about the machine and the date.
    prompt: BTreeMap<String, String>,
}

/// The parts of a session's first request that are pinned.
pub(crate) struct FirstRequest<'a> {
    /// `provider/name`.
    pub model: &'a str,
    /// Wire format and address of the model's server.
    pub server: Option<String>,
    pub tools: &'a [ToolSpec],
    pub prompt: Vec<SystemItem>,
}

/// Compares the run with the file, or writes the file if there is none. Blocks.
///
/// # Errors
///
/// Returns a failure for the user that names the differences, or the reason why the file cannot be used.
pub(crate) fn check(file: &Path, run: &RunSettings, first: &FirstRequest<'_>) -> Result<(), Failure> {
    let now = conditions_of_run(run, first);
    let text = match becket_files::read_text(file, MOST_BYTES) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return write(file, &now),
        Err(e) => return Err(Failure::usage(format!("--locked: cannot read {}: {e}", file.display()))),
    };
    let then: RunConditions = serde_json::from_str(&text).map_err(|e| {
        Failure::usage(format!("--locked: {} is not a file of a locked run: {e}", file.display()))
            .hint("name a file that does not exist yet to pin this run")
    })?;
    if then.form > FORMAT_VERSION {
        return Err(Failure::usage(format!("--locked: {} was written by a newer becket", file.display())));
    }
    let differences = differences(&then, &now);
    if differences.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--locked: the run differs from {}:\n  {}",
        file.display(),
        differences.join("\n  ")
    ))
    .hint("undo the change, or delete the file and run again to pin the run as it is now"))
}

fn write(file: &Path, now: &RunConditions) -> Result<(), Failure> {
    let cannot = |e: std::io::Error| {
        Failure::usage(format!("--locked: cannot write {}: {e}", file.display()))
            .hint("name a file in an existing folder that you can write to")
    };
    let text = serde_json::to_string_pretty(now).map_err(|e| cannot(e.into()))?;
    std::fs::write(file, text + "\n").map_err(cannot)?;
    let _ = writeln!(std::io::stderr(), "becket: --locked: pinned this run in {}", file.display());
    Ok(())
}

fn conditions_of_run(run: &RunSettings, first: &FirstRequest<'_>) -> RunConditions {
    let tool = |spec: &ToolSpec| {
        let text = serde_json::to_string(spec).unwrap_or_default();
        (spec.name.clone(), becket_tool::sha256(text.as_bytes()))
    };
    let cwd = run.project.cwd.display().to_string();
    let mut prompt = BTreeMap::new();
    for item in first.prompt.iter().filter(|item| item.kind != SystemKind::Environment) {
        // The same project may be in another folder on another machine.
        let text = item.text.replace(&cwd, ".");
        let hash = becket_tool::sha256(text.as_bytes());
        prompt
            .entry(name_of(item, &run.project.cwd))
            .and_modify(|known: &mut String| known.push_str(&hash))
            .or_insert(hash);
    }
    RunConditions {
        form: FORMAT_VERSION,
        becket: env!("CARGO_PKG_VERSION").to_owned(),
        model: first.model.to_owned(),
        server: first.server.clone(),
        effort: run.settings.value("effort").and_then(|value| value.as_str()).map(str::to_owned),
        tools: first.tools.iter().map(tool).collect(),
        prompt,
    }
}

fn name_of(item: &SystemItem, cwd: &Path) -> String {
    match &item.path {
        Some(path) => format!("rules {}", path.strip_prefix(cwd).unwrap_or(path).display()),
        None => match item.kind {
            SystemKind::Prompt => "system prompt".to_owned(),
            SystemKind::Skills => "skills".to_owned(),
            SystemKind::Rules => "rules".to_owned(),
            _ => "appended prompt".to_owned(),
        },
    }
}

/// The differences in words, one line each.
fn differences(then: &RunConditions, now: &RunConditions) -> Vec<String> {
    let mut out = Vec::new();
    let none = "none".to_owned();
    for (name, then, now) in [
        ("becket", &then.becket, &now.becket),
        ("model", &then.model, &now.model),
        ("effort", then.effort.as_ref().unwrap_or(&none), now.effort.as_ref().unwrap_or(&none)),
    ] {
        if then != now {
            out.push(format!("{name}: {then} then, {now} now"));
        }
    }
    if let (Some(then), now) = (&then.server, now.server.as_ref().unwrap_or(&none))
        && then != now
    {
        out.push(format!("server of the model: {then} then, {now} now"));
    }
    for (what, then, now) in [("tool ", &then.tools, &now.tools), ("", &then.prompt, &now.prompt)] {
        for (name, hash) in then {
            match now.get(name) {
                None => out.push(format!("{what}{name}: missing now")),
                Some(other) if other != hash => out.push(format!("{what}{name}: changed")),
                Some(_) => {}
            }
        }
        let new = now.keys().filter(|name| !then.contains_key(*name));
        out.extend(new.map(|name| format!("{what}{name}: new")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_has_a_line() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        let then = RunConditions {
            becket: "1".to_owned(),
            model: "p/a".to_owned(),
            server: Some("the provider's own address".to_owned()),
            tools: map(&[("bash", "1"), ("read", "2")]),
            prompt: map(&[("rules AGENTS.md", "3")]),
            ..RunConditions::default()
        };
        assert_eq!(differences(&then, &then.clone()), Vec::<String>::new());
        let now = RunConditions {
            model: "p/b".to_owned(),
            server: Some("chat at http://proxy".to_owned()),
            effort: Some("high".to_owned()),
            tools: map(&[("bash", "9"), ("write", "2")]),
            prompt: map(&[("rules AGENTS.md", "4")]),
            ..then.clone()
        };
        assert_eq!(
            differences(&then, &now),
            [
                "model: p/a then, p/b now",
                "effort: none then, high now",
                "server of the model: the provider's own address then, chat at http://proxy now",
                "tool bash: changed",
                "tool read: missing now",
                "tool write: new",
                "rules AGENTS.md: changed",
            ]
        );
        // A file that an earlier version has written has no server, which is no difference.
        let earlier = RunConditions { server: None, ..then.clone() };
        assert_eq!(differences(&earlier, &then), Vec::<String>::new());
    }
}
