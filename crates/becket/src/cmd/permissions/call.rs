//! Parses a tool call written like a rule: `Bash(git push)`, `Read(src/main.rs)`, `WebFetch(docs.rs)`.

use crate::environment::Environment;
use crate::failure::Failure;
use becket_types::{Access, Effect, quoted};
use std::path::{Path, PathBuf};

/// A call, and the access that it needs.
pub(super) struct Call {
    pub text: String,
    /// The tool's name in lower case.
    pub tool: String,
    pub access: Access,
}

impl Call {
    pub(super) fn parse(text: &str, environment: &Environment, cwd: &Path) -> Result<Self, Failure> {
        let (name, inner) = split(text).ok_or_else(|| {
            let text = text.trim();
            let hint = format!("for a command write 'Bash({text})'; otherwise ");
            let hint = if text.contains(['(', ')']) { String::new() } else { hint };
            Failure::usage(format!("{text} is not a tool call", text = quoted(&text)))
                .hint(hint + "write the tool and its command, path, host or name, such as 'Bash(git push)' or 'Read(src/main.rs)'")
        })?;
        if inner.is_none() && is_command(name) {
            return Err(Failure::usage(format!("{name} may be a tool or a command", name = quoted(&name)))
                .hint(format!(
                    "write 'Bash({name})' for the command, or '{}(PATH)' for the tool",
                    capital(name)
                )));
        }
        let tool = name.to_ascii_lowercase();
        let needs = |what: &str| {
            Failure::usage(format!("{name} needs {what}")).hint(format!("write {name}(…), with {what} in it"))
        };
        let path = || inner.map(|inner| file(inner, environment, cwd)).ok_or_else(|| needs("a path"));
        let session = |effect| Access { effect, subject: inner.map(str::to_owned), ..Access::session() };
        let access = match tool.replace('_', "").as_str() {
            "bash" | "shell" => Access::execute(inner.ok_or_else(|| needs("a command"))?),
            "read" | "notebookread" | "lsp" => Access::read(path()?),
            "grep" | "glob" | "ls" => Access::read(file(inner.unwrap_or("."), environment, cwd)),
            "edit" | "write" | "multiedit" | "notebookedit" | "applypatch" => Access::write(path()?),
            "webfetch" => Access { subject: inner.map(domain), ..session(Effect::Network) },
            "websearch" => Access { subject: None, ..session(Effect::Network) },
            "skill" | "todo" | "todowrite" | "recall" => session(Effect::Session),
            "task" | "agent" => session(Effect::Delegate),
            plain => match check_tool_name(plain) {
                Ok(()) => session(Effect::Execute),
                Err(near) => {
                    let failure = Failure::usage(format!("becket has no tool named {name}"));
                    return Err(failure.hint(format!("did you mean {near}? /tools lists all")));
                }
            },
        };
        Ok(Self { text: text.trim().to_owned(), tool, access })
    }
}

/// Names of tools as rules write them, except those that [`Call::parse`] handles itself.
const NAMES: [&str; 12] = [
    "Bash",
    "Read",
    "Grep",
    "Glob",
    "Edit",
    "Write",
    "MultiEdit",
    "WebFetch",
    "WebSearch",
    "Skill",
    "Todo",
    "Task",
];

/// True for a name in lower case that may mean a tool or a program, such as `grep`.
fn is_command(name: &str) -> bool {
    ["ls", "read", "grep", "edit", "write", "task", "glob"].contains(&name)
}

fn capital(name: &str) -> String {
    if name == "ls" { "LS".to_owned() } else { name[..1].to_ascii_uppercase() + &name[1..] }
}

/// Checks the name of a tool, given in lower case and without `_` (`plain`).
///
/// # Errors
///
/// Returns the most similar name if there is no such tool.
fn check_tool_name(plain: &str) -> Result<(), &'static str> {
    let is_it = |name: &str| name.replace('_', "").eq_ignore_ascii_case(plain);
    if crate::toolbox::specs().iter().any(|spec| is_it(&spec.name)) {
        return Ok(());
    }
    let distance = |name: &&str| becket_types::edit_distance(&name.to_ascii_lowercase(), plain);
    Err(NAMES.into_iter().min_by_key(distance).unwrap_or("Bash"))
}

/// Splits text into the tool's name and the text between the parentheses.
pub(super) fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let text = text.trim();
    let (name, inner) = match text.split_once('(') {
        Some((name, rest)) => (name, Some(rest.strip_suffix(')')?)),
        None => (text, None),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain);
    (named && inner.is_none_or(|inner| !inner.trim().is_empty())).then_some((name, inner))
}

/// Resolves a path as rules write it: `~/` is the home folder, `//` the root of the file system.
fn file(text: &str, environment: &Environment, cwd: &Path) -> PathBuf {
    let text = text.trim();
    let path = match (text.strip_prefix("~/"), text.strip_prefix("//"), &environment.home) {
        (Some(rest), _, Some(home)) => home.join(rest),
        (_, Some(rest), _) => Path::new("/").join(rest),
        _ => PathBuf::from(text),
    };
    becket_tool::paths::resolve(cwd, &path).unwrap_or_else(|_| becket_types::lexical(&cwd.join(&path)))
}

/// Returns `domain:host` for an address, a host or a rule's own form.
fn domain(text: &str) -> String {
    let text = text.trim();
    if text.starts_with("domain:") {
        return text.to_owned();
    }
    // The tool itself decides which host an address means.
    if let Some(host) = becket_tool_web::host_of(text) {
        return format!("domain:{host}");
    }
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("domain:{}", host.split(':').next().unwrap_or_default().to_ascii_lowercase())
}
