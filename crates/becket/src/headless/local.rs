//! Slash commands that becket answers itself, without a request to the model: figures and settings of the session.
//!
//! A command or skill of the user with the same name comes first. A command that only the terminal has is answered with a line
//! that says so. Everything else is a prompt.

use super::figures::Figures;
use super::known_commands::KnownCommands;
use crate::assemble::Opening;
use becket_agent::Live;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// Commands of other agents' terminals that would be no task for a model. They get a line that says so.
const TERMINAL_COMMANDS: [&str; 10] =
    ["clear", "reset", "exit", "quit", "login", "logout", "doctor", "memory", "terminal-setup", "vim"];

/// Facts of the session for the answers.
pub(super) struct LocalFacts<'a> {
    pub(super) live: &'a Live,
    pub(super) figures: &'a Figures,
    pub(super) commands: &'a KnownCommands,
    /// The answer to `list_permission_rules`.
    pub(super) rules: Value,
    pub(super) cwd: &'a Path,
    pub(super) opening: &'a Opening,
}

/// Returns the answer to a command.
///
/// `/model NAME` chooses another model in `commands`, so only `/model` alone is answered here.
pub(super) fn answer(name: &str, arguments: &str, facts: &LocalFacts<'_>) -> String {
    let live = facts.live;
    match name {
        "cost" | "usage" => facts.figures.cost_text(),
        "context" => context(&facts.figures.context_usage(&live.model, facts.opening)),
        "model" if arguments.is_empty() => format!("The model is {}.", live.model),
        "permissions" => permissions(live, &facts.rules),
        "status" => format!(
            "becket {} in {}\nmodel: {}\npermission mode: {}\n{}",
            env!("CARGO_PKG_VERSION"),
            facts.cwd.display(),
            live.model,
            live.guard.mode(),
            facts.figures.cost_text()
        ),
        "help" => {
            let mut out =
                "/cost, /usage, /context, /model [NAME], /permissions, /status, /compact [focus]".to_owned();
            for (name, about, _) in facts.commands.own.iter().filter(|(name, ..)| name != "compact") {
                let _ = write!(out, "\n/{name}: {about}");
            }
            out
        }
        _ => format!("/{name} works in the terminal only; start becket without -p to use it."),
    }
}

fn context(usage: &Value) -> String {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    if count(&usage["totalTokens"]) == 0 {
        return "No request was sent yet in this run. `becket context` shows the context of a stored session."
            .to_owned();
    }
    let mut out = format!(
        "{} of {} tokens ({} %)",
        count(&usage["totalTokens"]),
        count(&usage["maxTokens"]),
        count(&usage["percentage"])
    );
    for category in usage["categories"].as_array().into_iter().flatten() {
        let name = category["name"].as_str().unwrap_or_default();
        let _ = write!(out, "\n{name}: {}", count(&category["tokens"]));
    }
    out
}

fn permissions(live: &Live, rules: &Value) -> String {
    let mut out = format!("Permission mode: {}", live.guard.mode());
    for rule in rules["state"]["rules"].as_array().into_iter().flatten() {
        let text = |key: &str| rule[key].as_str().unwrap_or_default();
        let _ = write!(out, "\n{} {} ({})", text("behavior"), text("rule"), text("source"));
    }
    if !out.contains('\n') {
        out.push_str("\nNo rules are set.");
    }
    out
}

/// True if a prompt has the name of a command of becket. A command of the user with that name comes first, so the caller
/// must look up the user's commands in this case.
pub(super) fn may_be_own(prompt: &str) -> bool {
    crate::slash::split_call(prompt).is_some_and(|(name, _)| is_local(name))
}

/// True for the name of a command that becket answers itself.
pub(super) fn is_local(name: &str) -> bool {
    let terminal = becket_tui::commands::COMMANDS.iter().any(|(known, ..)| *known == name);
    let answered = ["cost", "usage", "context", "model", "permissions", "status", "help"].contains(&name);
    // `compact` and `init` are left out, because they need the model.
    answered || TERMINAL_COMMANDS.contains(&name) || terminal && !["compact", "init"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_becket_are_told_from_tasks() {
        for name in ["cost", "usage", "context", "status", "permissions", "clear", "undo"] {
            assert!(is_local(name), "{name}");
        }
        for name in ["compact", "init", "frobnicate", "review"] {
            assert!(!is_local(name), "{name}");
        }
    }
}
