//! Slash commands that becket answers itself, without a request to the model: figures and settings of the session.
//!
//! A command or skill of the user with the same name comes first. A command that only the terminal has is answered with a line
//! that says so. Everything else is a prompt.

use super::{Front, written};
use crate::failure::Failure;
use becket_types::{Command, Part, PromptInput};
use serde_json::Value;
use std::fmt::Write as _;

/// Commands that other agents have in a terminal, and that would be no task for a model.
const ELSEWHERE: [&str; 9] =
    ["clear", "exit", "quit", "login", "logout", "doctor", "memory", "terminal-setup", "vim"];

impl Front {
    /// Answers a prompt that is a command of becket. Returns the prompt if it is none. During a turn, the answer waits for its end.
    pub(super) async fn local(&mut self, input: PromptInput) -> Result<Option<PromptInput>, Failure> {
        let [Part::Text { text, .. }] = &input.parts[..] else { return Ok(Some(input)) };
        let Some((name, arguments)) = crate::slash::named(text).filter(|_| self.is_local(text)) else {
            return Ok(Some(input));
        };
        if self.state.in_turn || !self.pending.waiting.is_empty() {
            self.pending.local.push_back(input);
            return Ok(None);
        }
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        let answer = self.local_answer(&name, &arguments).await;
        written(self.printer.local_answer(&answer))?;
        Ok(None)
    }

    /// True if a prompt is a command that becket answers itself.
    pub(super) fn is_local(&self, text: &str) -> bool {
        let Some((name, _)) = crate::slash::named(text) else { return false };
        is_local(name) && !self.session.commands.own.iter().any(|(known, ..)| known == name)
    }

    /// Answers the commands that waited for the end of the turn.
    pub(super) async fn answer_waiting(&mut self) -> Result<(), Failure> {
        for input in std::mem::take(&mut self.pending.local) {
            self.local(input).await?;
        }
        Ok(())
    }

    async fn local_answer(&mut self, name: &str, arguments: &str) -> String {
        match name {
            "cost" | "usage" => self.figures.words(),
            "context" => self.context_words(),
            "model" if arguments.is_empty() => format!("The model is {}.", self.live().model),
            "model" => {
                self.command(Command::SetModel { model: arguments.to_owned() }).await;
                format!(
                    "The next request goes to {arguments}, if becket knows it. A line says so if it does not."
                )
            }
            "permissions" => self.permission_words(),
            "status" => {
                let live = self.live();
                format!(
                    "becket {} in {}\nmodel: {}\npermission mode: {}\n{}",
                    env!("CARGO_PKG_VERSION"),
                    self.session.cwd.display(),
                    live.model,
                    live.guard.mode(),
                    self.figures.words()
                )
            }
            "help" => {
                let mut out =
                    "/cost, /usage, /context, /model [NAME], /permissions, /status, /compact [focus]"
                        .to_owned();
                for (name, about, _) in
                    self.session.commands.own.iter().filter(|(name, ..)| name != "compact")
                {
                    let _ = write!(out, "\n/{name}: {about}");
                }
                out
            }
            _ => format!("/{name} works in the terminal only; start becket without -p to use it."),
        }
    }

    fn context_words(&self) -> String {
        let usage = self.figures.context_usage(&self.live().model);
        let count = |value: &Value| value.as_u64().unwrap_or_default();
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

    fn permission_words(&self) -> String {
        let mut out = format!("Permission mode: {}", self.live().guard.mode());
        let rules = self.permission_rules();
        for rule in rules["state"]["rules"].as_array().into_iter().flatten() {
            let text = |key: &str| rule[key].as_str().unwrap_or_default();
            let _ = write!(out, "\n{} {} ({})", text("behavior"), text("rule"), text("source"));
        }
        out
    }
}

/// True for the name of a command that becket answers itself.
pub(super) fn is_local(name: &str) -> bool {
    let terminal = becket_tui::commands::COMMANDS.iter().any(|(known, ..)| *known == name);
    let answered = ["cost", "usage", "context", "model", "permissions", "status", "help"].contains(&name);
    answered || ELSEWHERE.contains(&name) || terminal && name != "compact"
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
