//! The slash commands as the program knows them. Data only; `commands` compares and tells them.

use serde_json::{Value, json};

/// Name, description, and hint for arguments.
pub(super) type SlashCommand = (String, String, String);

/// The commands as the program knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownCommands {
    /// Those of becket, of files and of skills.
    pub(super) own: Vec<SlashCommand>,
    /// Prompts of MCP servers.
    prompts: Vec<SlashCommand>,
}

impl KnownCommands {
    pub(super) fn new(own: Vec<SlashCommand>, prompts: Vec<SlashCommand>) -> Self {
        Self { own: sorted(own), prompts: sorted(prompts) }
    }

    /// Returns all commands as lines name them.
    pub(super) fn told(&self) -> Vec<Value> {
        let one = |(name, about, hint): &SlashCommand| json!({ "name": name, "description": about, "argumentHint": hint });
        self.own.iter().chain(&self.prompts).map(one).collect()
    }
}

fn sorted(mut commands: Vec<SlashCommand>) -> Vec<SlashCommand> {
    commands.sort();
    commands
}
