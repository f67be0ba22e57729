//! Questions before a session about content of the project that runs, connects or allows something: hooks, servers, settings.
//!
//! Each item is asked about once, and again when it has changed. [`crate::trust::content`] keeps the answers.

use super::first_run::unusable;
use crate::agents::Agents;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::hooks::HookSources;
use crate::settings::{RunSettings, claude, project_root};
use crate::trust::content::{self, ContentTrust, Item, State};
use std::io::{self, Write as _};

/// Asks about each item of the project that runs programs and is undecided or has changed. A new item is shown whole, a
/// changed one by its differences. `None`: the user quits. True: the settings of the project have changed with an answer.
pub(super) fn ask(environment: &Environment, settings: &RunSettings) -> Result<Option<bool>, Failure> {
    let root = project_root(&settings.project.cwd);
    let agents = Agents::find(
        environment,
        &settings.project.cwd,
        settings.project.trusted,
        &settings.additions.agents.definitions,
    );
    let config = &settings.settings.config;
    let skills = crate::toolbox::skills(environment, &settings.project.cwd, config, settings.project.trusted);
    let bearers = HookSources { agents: &agents.all, skills: Some(&skills) };
    let mut items = crate::hooks::items(environment, &settings.project.cwd, &settings.settings, bearers);
    items.extend(crate::mcp::agent_items(environment, &settings.project.cwd, &agents.all));
    if settings.project.trusted {
        items.extend(claude::items(environment, &root, settings.settings.sources));
    }
    let mut all: Vec<(Option<String>, Item)> = items.into_iter().map(|item| (None, item)).collect();
    if !settings.additions.mcp.strict_mcp_config {
        let servers = crate::mcp::project_items(environment, &settings.project.cwd).into_iter();
        all.extend(servers.map(|(server, item)| (Some(server), item)));
    }
    if all.is_empty() || settings.project.trust_content {
        return Ok(Some(false));
    }
    let mut changed = false;
    let trust = ContentTrust::for_project(environment, &root, false);
    for (server, item) in all {
        let state = match trust.state(&item) {
            // Only servers that are not approved now are in this list. If the stored decision trusts one, its approval was withdrawn later.
            State::Trusted if server.is_some() => State::New,
            state => state,
        };
        if matches!(state, State::Trusted | State::Refused) {
            continue;
        }
        let Some(answer) = asked_about(&item, &state).map_err(|e| unusable(&e))? else { return Ok(None) };
        changed |= answer && item.kind == claude::SETTINGS;
        let mut kept = trust.decide(&item, answer);
        if let Some(server) = server.filter(|_| answer) {
            let cwd = &settings.project.cwd;
            kept = kept.and_then(|()| crate::mcp::approve(environment, cwd, &server, &item.content));
        }
        kept.map_err(|e| Failure::error(format!("cannot save the decision about {}: {e}", item.name)))?;
    }
    Ok(Some(changed))
}

/// Asks about one item in plain lines. It is shown whole, however long it is.
fn asked_about(item: &Item, state: &State) -> io::Result<Option<bool>> {
    let mut out = io::stdout().lock();
    let what = match state {
        State::Changed { .. } => "has changed since you decided about it",
        _ if item.kind == claude::SETTINGS => "would allow this here",
        _ => "would run on this machine",
    };
    let name = becket_print::clean(&item.name);
    // The name of a server ends with its file (`NAME of .mcp.json`), so no "in" is needed.
    let brought = match item.kind.as_str() {
        "MCP server" => format!("the MCP server {name}"),
        kind => format!("{kind} in {name}"),
    };
    writeln!(out, "\nThis project brings {brought}, which {what}:\n")?;
    for line in content::shown(item, state).lines() {
        writeln!(out, "  {}", becket_print::clean(line))?;
    }
    loop {
        write!(out, "\nWrite /y to use exactly this from now on. Anything else works without it: ")?;
        out.flush()?;
        let mut line = String::new();
        if io::stdin().read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if !is_of_keys(&line) {
            return Ok(Some(matches!(line.trim(), "/y" | "/yes")));
        }
        writeln!(out, "\nArrows choose nothing here, so nothing was decided.")?;
    }
}

/// True if the line contains keys such as arrows. Those choose on the previous page, so here they are probably a mistake, and must not
/// count as a refusal, which would be remembered.
fn is_of_keys(line: &str) -> bool {
    line.contains('\x1b')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_decide_nothing() {
        for (line, keys) in
            [("\x1b[B\n", true), ("\x1bOB/y\n", true), ("/y\n", false), ("\n", false), ("no\n", false)]
        {
            assert_eq!(is_of_keys(line), keys, "{line:?}");
        }
    }
}
