//! The slash commands that the program knows, and the line with which it learns of others.
//!
//! Files of commands and skills are read again after each turn, which may have written one, and when the program asks. Prompts
//! of MCP servers come when their servers have started, and may change while a turn runs. `system/init` names the same
//! commands as the last line.

use super::known_commands::KnownCommands;
use super::{Front, written};
use crate::failure::Failure;
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
        if now == self.session.commands {
            return Ok(());
        }
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
}
