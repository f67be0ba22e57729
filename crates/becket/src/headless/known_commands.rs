//! The slash commands as the program knows them. Data only; `commands` compares them with the previous list and reports changes.

use serde_json::{Value, json};

/// Name, description, and hint for arguments.
pub(super) type SlashCommand = (String, String, String);

/// The commands as the driving program knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownCommands {
    /// The commands of becket, of files and of skills.
    pub(super) own: Vec<SlashCommand>,
    /// Prompts of MCP servers.
    prompts: Vec<SlashCommand>,
}

impl KnownCommands {
    pub(super) fn new(own: Vec<SlashCommand>, prompts: Vec<SlashCommand>) -> Self {
        Self { own: sorted(own), prompts: sorted(prompts) }
    }

    /// Returns all commands as JSON, as the lines to the driving program list them.
    pub(super) fn to_json(&self) -> Vec<Value> {
        let one = |(name, about, hint): &SlashCommand| json!({ "name": name, "description": about, "argumentHint": hint });
        with_local(&self.own).iter().chain(&self.prompts).map(one).collect()
    }
}

/// Commands that becket answers itself: name, description, and hint for arguments.
const LOCAL: [(&str, &str, &str); 8] = [
    ("clear", "Begin a new conversation in this session", ""),
    ("context", "Show how full the context is, and with what", ""),
    ("cost", "Show cost, time and usage of this session", ""),
    ("help", "List the commands", ""),
    ("model", "Show the model, or choose another one", "[name]"),
    ("permissions", "Show the permission mode and the rules", ""),
    ("status", "Show version, folder, model, mode and usage", ""),
    ("usage", "Show cost, time and usage of this session", ""),
];

/// Returns the commands with those that becket answers itself. A command or skill of the same name comes first.
pub(super) fn with_local(commands: &[SlashCommand]) -> Vec<SlashCommand> {
    let local = LOCAL.iter().filter(|(name, ..)| commands.iter().all(|(known, ..)| known != name));
    let local =
        local.map(|(name, about, hint)| ((*name).to_owned(), (*about).to_owned(), (*hint).to_owned()));
    sorted(commands.iter().cloned().chain(local).collect())
}

fn sorted(mut commands: Vec<SlashCommand>) -> Vec<SlashCommand> {
    commands.sort();
    commands
}
