//! The slash commands that the program knows, and the line with which it learns of others.
//!
//! Files of commands and skills are read again after each turn, which may have written one, and when the program asks. Prompts
//! of MCP servers come when their servers have started, and may change while a turn runs. `system/init` names the same
//! commands as the last line.

use super::known_commands::KnownCommands;
use super::local::{self, LocalFacts};
use super::waits::Waited;
use super::{Front, note, written};
use crate::failure::Failure;
use becket_types::{Command, HookEvent, Part, PromptInput};
use serde_json::{Value, json};

impl Front {
    /// Tells the program the commands if they have changed. `read_files`: files and skills are read again.
    pub(super) fn tell_commands(&mut self, read_files: bool) -> Result<(), Failure> {
        if !self.input.driven {
            return Ok(());
        }
        let mut own = self.session.commands.own.clone();
        if read_files {
            own.retain(|(name, ..)| name == "compact");
            self.slash.add_to(&mut own);
        }
        let prompts =
            self.servers.hub.as_ref().map(|hub| crate::mcp::prompt_commands(hub)).unwrap_or_default();
        let now = KnownCommands::new(own, prompts);
        // A change that hooks are judging or have refused is not shown to them again.
        if now == self.session.commands || self.pending.commands.as_ref() == Some(&now) {
            return Ok(());
        }
        let hooks = self.session.hooks.clone().filter(|hooks| hooks.listens(HookEvent::ConfigChange));
        if let Some(hooks) = hooks {
            self.pending.commands = Some(now.clone());
            self.servers.waits.beside(async move {
                let keys = json!({ "source": "skills" });
                let outcome = hooks.run(HookEvent::ConfigChange, Some("skills"), keys).await;
                let refused =
                    outcome.and_then(|outcome| outcome.block.map(|block| block.text).or(outcome.stop));
                Waited::Commands(now, refused)
            });
            return Ok(());
        }
        self.show_commands(now)
    }

    /// Shows a change of the commands that hooks have judged, unless they refuse it.
    pub(super) fn commands_judged(
        &mut self,
        now: KnownCommands,
        refused: Option<String>,
    ) -> Result<(), Failure> {
        if let Some(why) = refused {
            note(&format!("a hook refused that commands and skills change: {why}"));
            return Ok(());
        }
        self.pending.commands = None;
        self.show_commands(now)
    }

    fn show_commands(&mut self, now: KnownCommands) -> Result<(), Failure> {
        self.session.commands = now;
        let known = &self.session.commands;
        let names = known.own.iter().map(|(name, ..)| name.clone()).collect();
        let told = known.told();
        written(self.printer.commands_changed(names, &told))
    }

    /// Reads commands and skills again, and answers with all commands.
    pub(super) fn reload_commands(&mut self) -> Result<Value, Failure> {
        self.tell_commands(true)?;
        Ok(json!({ "skills": self.session.commands.told() }))
    }

    /// True if a prompt is a command that becket answers itself.
    pub(super) fn is_local(&self, text: &str) -> bool {
        let Some((name, _)) = crate::slash::named(text) else { return false };
        local::is_local(name) && !self.session.commands.own.iter().any(|(known, ..)| known == name)
    }

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
        let answer = match name {
            "model" if !arguments.is_empty() => self.switched(arguments).await?,
            _ => {
                let live = self.live();
                let facts = LocalFacts {
                    live: &live,
                    figures: &self.figures,
                    commands: &self.session.commands,
                    rules: self.permission_rules(),
                    cwd: &self.session.cwd,
                };
                local::answer(name, arguments, &facts)
            }
        };
        written(self.printer.local_answer(&answer))?;
        Ok(None)
    }

    /// Chooses the model of the next request. A name that fits no model ends a run that a program does not drive.
    async fn switched(&mut self, name: &str) -> Result<String, Failure> {
        match (self.session.find_model)(name) {
            Ok(model) => {
                self.command(Command::SetModel { model: name.to_owned() }).await;
                Ok(format!("The next request goes to {}.", model.info().id))
            }
            Err(why) if self.input.driven => Ok(why),
            Err(why) => Err(Failure::usage(why)),
        }
    }

    /// Answers the commands that waited for the end of the turn.
    pub(super) async fn answer_waiting(&mut self) -> Result<(), Failure> {
        for input in std::mem::take(&mut self.pending.local) {
            self.local(input).await?;
        }
        Ok(())
    }
}
