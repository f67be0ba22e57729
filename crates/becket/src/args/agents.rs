//! Arguments about agents: definitions for a run, and the agent that a session is.

use clap::Args;
use std::path::PathBuf;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Agents")]
pub(crate) struct AgentArgs {
    /// Run the session as this agent: its prompt, tools, model, effort, permission mode and hooks.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Define agents for this run: a JSON object, or a file with one. Each name maps to the keys of an agent file, plus
    /// `prompt` for its text.
    #[arg(long, value_name = "FILE|JSON")]
    pub agents: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// List the agents of this project as if you trusted it.
    #[arg(long)]
    pub trust: bool,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}
