//! Arguments about agents and plugins: definitions for a run, and the agent that a session is.

use crate::plugins::PluginDir;
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
    #[command(flatten)]
    pub plugins: PluginArgs,
}

/// Folders of plugins.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct PluginArgs {
    /// Use the plugin in this directory in this run: its commands, agents, skills, hooks and MCP servers.
    #[arg(long, value_name = "DIR")]
    pub plugin_dir: Vec<PathBuf>,
    /// Like --plugin-dir, without the plugin's MCP servers.
    #[arg(long, value_name = "DIR")]
    pub plugin_dir_no_mcp: Vec<PathBuf>,
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
    #[command(flatten)]
    pub plugins: PluginArgs,
}

impl PluginArgs {
    /// Returns the folders as they were given. A relative path is relative to the caller's directory, not to `--cd`.
    pub(crate) fn dirs(&self) -> Vec<PluginDir> {
        let all = self.plugin_dir.iter().map(|path| (path, true));
        let all = all.chain(self.plugin_dir_no_mcp.iter().map(|path| (path, false)));
        all.map(|(path, servers)| PluginDir { path: path.clone(), servers }).collect()
    }
}
