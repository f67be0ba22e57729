//! `becket agents`: the agents of a folder, with the source of each definition, and its keys.
//!
//! Reads files only. Agents of a project that the user has not trusted are listed as used by headless runs alone.

use crate::agents::{Agents, DefinedIn, Definition};
use crate::args::AgentsArgs;
use crate::cmd::write;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::project_root;
use crate::trust::is_trusted;
use becket_print::clean;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

const MAX_DESCRIPTION_CHARS: usize = 100;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &AgentsArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let trusted = args.trust || is_trusted(environment, &project_root(cwd));
    let found = Agents::find(environment, cwd, trusted, &[]);
    let mut unused = Vec::new();
    if !trusted {
        unused = Agents::find(environment, cwd, true, &[]).all;
        unused.retain(Definition::is_of_project);
    }
    let warnings = Agents::faults(environment, cwd);
    let all = || found.all.iter().map(|agent| (agent, true)).chain(unused.iter().map(|agent| (agent, false)));
    if args.json {
        let agents: Vec<Value> = all().map(|(agent, used)| as_json(agent, used)).collect();
        let body = json!({ "agents": agents, "warnings": warnings });
        return write(out, &format!("{body}\n"));
    }
    let mut text = String::new();
    for (agent, used) in all() {
        let about: String = agent.kind.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let about: String = about.chars().take(MAX_DESCRIPTION_CHARS).collect();
        let _ = writeln!(text, "{:<20}  {about}", agent.kind.name);
        let (source, file) = source(agent);
        let file = file.map(|file| format!(", {}", file.display())).unwrap_or_default();
        let unused =
            if used { "" } else { " (used by `becket -p` alone: you have not trusted this project)" };
        let _ = writeln!(text, "  from: {source}{file}{unused}");
        for (label, value) in agent.keys() {
            let _ = writeln!(text, "  {label}: {value}");
        }
    }
    for warning in &warnings {
        let _ = writeln!(text, "\nbecket: {warning}");
    }
    write(out, &clean(&text))
}

fn source(agent: &Definition) -> (&'static str, Option<&Path>) {
    match &agent.place {
        DefinedIn::BuiltIn => ("built in", None),
        DefinedIn::Given => ("this run", None),
        DefinedIn::User(path) => ("you", Some(path)),
        DefinedIn::Project(path) => ("the project", Some(path)),
    }
}

fn as_json(agent: &Definition, used: bool) -> Value {
    let (source, file) = source(agent);
    let keys: serde_json::Map<String, Value> =
        agent.keys().into_iter().map(|(label, value)| (label.to_owned(), json!(value))).collect();
    json!({
        "name": agent.kind.name, "description": agent.kind.description, "source": source, "file": file,
        "used": used, "keys": keys,
    })
}
