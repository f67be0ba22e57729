//! Arguments of the subcommands about rights: permissions, hooks, the sandbox, and the record of decisions.

use super::{ConfigArgs, PluginArgs};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Print one JSON object per line.
    #[arg(long)]
    pub json: bool,
    /// Only decisions from this day on, such as 2026-11-21, or 7d for seven days ago.
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The session: its id, the start of its id, or its title; by default the newest one of this directory.
    pub session: Option<String>,
    /// Also check the ledger against the anchors of this session in FILE, which record its end at earlier
    /// times.
    #[arg(long, value_name = "FILE")]
    pub anchor: Option<PathBuf>,
    /// If the ledger is intact, add an anchor with its present end to FILE.
    #[arg(long, requires = "anchor")]
    pub record: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Search for the session as if becket was started in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HooksCommandArgs {
    #[command(subcommand)]
    pub what: HooksWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HooksWhat {
    /// List the hooks with their sources, and whether they run. Does not start any hook.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArgs,
        #[command(flatten)]
        plugins: PluginArgs,
    },
    /// Run the hooks of an event with a made-up input, and show their decisions.
    Test {
        /// The event, such as PreToolUse or Stop.
        event: String,
        /// The tool, trigger or source to compare with matchers; for events of tools the default is Bash.
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
        /// The input of the tool, or the keys of the event, as a JSON object.
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
        /// Also run hooks of the project that you have not allowed.
        #[arg(long)]
        trust: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArgs,
        #[command(flatten)]
        plugins: PluginArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PermissionsCommandArgs {
    #[command(subcommand)]
    pub what: PermissionsWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsWhat {
    /// Explain the decision about a call: the rule and the reason; for a command part by part.
    Explain {
        /// The call, such as 'Bash(git push)', 'Read(src/main.rs)' or 'WebFetch(docs.rs)'.
        call: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Decide as in this permission mode.
        #[arg(long = "permission-mode", value_name = "MODE")]
        mode: Option<String>,
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Check rules against examples that they must match and must not match. Exit code 1 if one fails.
    Test {
        /// A TOML or JSON file with tables `rule` (keys `rule`, `match`, `not_match`) and `call` (keys
        /// `call`, `decision`).
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// List the rules in force, with scope, file and line.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    /// Level of the sandbox: `read-only`, as for commands that run without a question, or `workspace`.
    #[arg(long, alias = "sandbox", value_enum, default_value_t = LevelArg::Workspace)]
    pub level: LevelArg,
    /// Without a command: print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelArg {
    ReadOnly,
    #[value(alias = "workspace-write")]
    Workspace,
}
