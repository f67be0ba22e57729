//! `/name arguments` in prompts of headless runs: expands commands and skills to their prompts.
//!
//! Nothing is looked up unless a prompt begins with a slash and a plain name. An unknown name is sent to the model
//! unchanged, because paths begin with a slash, too. A project's command that runs something is refused unless the user
//! has agreed to it.

use crate::environment::Environment;
use crate::hooks::OutsideHooks;
use crate::interactive::custom_commands::{Called, CommandPrompt, Consent, CustomCommands, SessionSkills};
use crate::interactive::user_shell::UserShell;
use crate::settings::{RunSettings, project_root};
use crate::toolbox;
use becket_tool_shell::Shell;
use std::sync::Arc;

/// Looks up commands when the first one is called.
#[derive(Clone)]
pub(crate) struct Slash {
    make: Arc<dyn Fn() -> (CustomCommands, UserShell) + Send + Sync>,
}

impl Slash {
    pub(crate) fn new(
        environment: &Environment,
        run: &RunSettings,
        shell: &Arc<Shell>,
        hooks: Option<OutsideHooks>,
    ) -> Self {
        let (environment, shell) = (environment.clone(), Arc::clone(shell));
        let (cwd, roots, config) =
            (run.project.cwd.clone(), run.project.roots.clone(), run.settings.config.clone());
        let (trusted, everything) = (run.project.trusted, run.project.trust_content);
        let only = run.additions.only_skills.clone();
        let make = move || {
            let mut skills = toolbox::skills(&environment, &cwd, &config, trusted);
            if let Some(only) = &only {
                skills.keep_named(only);
            }
            let custom_commands = CustomCommands::new(
                &environment,
                &cwd,
                &project_root(&cwd),
                trusted,
                everything,
                SessionSkills { find: Box::new(move || skills.clone()), hooks: hooks.clone() },
            );
            (custom_commands, UserShell::new(Arc::clone(&shell), cwd.clone(), &roots))
        };
        Self { make: Arc::new(make) }
    }

    /// Adds the commands and skills that a prompt may call: name, description, and hint for arguments.
    pub(crate) fn add_to(&self, offers: &mut Vec<(String, String, String)>) {
        let (custom_commands, _) = (self.make)();
        for command in custom_commands.list() {
            offers.retain(|(name, ..)| *name != command.name);
            offers.push((command.name, command.description, command.arguments));
        }
    }

    /// Returns the prompt that a text expands to.
    ///
    /// # Errors
    ///
    /// Returns the reason if a command cannot be used.
    pub(crate) async fn expanded(&self, text: String) -> Result<CommandPrompt, String> {
        let plain = |text| Ok(CommandPrompt { text, ..CommandPrompt::default() });
        let Some((name, arguments)) = split_call(&text) else { return plain(text) };
        let (custom_commands, user_shell) = (self.make)();
        let called = Arc::new(custom_commands).call(&user_shell, name, arguments, Consent::Impossible).await;
        match called {
            Called::Prompt(prompt) => Ok(*prompt),
            Called::Unknown => plain(text),
            Called::Failed(why) => Err(why),
            Called::Asks { commands, .. } => Err(format!(
                "/{name} is a command of this project that would run: {}. You have not allowed that: call it once in the terminal, \
                 or give --trust",
                commands.join("; ")
            )),
        }
    }
}

/// Returns the name and the arguments of a prompt that calls a command.
pub(crate) fn split_call(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim().strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    (!name.is_empty() && name.chars().all(plain)).then(|| (name, arguments.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_is_a_call() {
        for (text, want) in [
            ("/review a b", Some(("review", "a b"))),
            (" /git:log\nmore ", Some(("git:log", "more"))),
            ("/usr/bin/ls is slow", None),
            ("/", None),
            ("review", None),
            ("/compact", Some(("compact", ""))),
        ] {
            assert_eq!(split_call(text), want, "{text}");
        }
    }
}
