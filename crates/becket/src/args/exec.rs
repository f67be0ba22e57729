//! Arguments of `becket exec`: those of `codex exec`, so scripts and the SDK written for it work as they are.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ExecArgs {
    /// The task; `-` or nothing reads it from standard input.
    pub prompt: Option<String>,
    #[command(subcommand)]
    pub what: Option<ExecWhat>,
    #[command(flatten)]
    pub options: ExecOptions,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ExecOptions {
    #[command(flatten)]
    pub output: ExecOutput,
    /// Model to use.
    #[arg(short = 'm', long, global = true)]
    pub model: Option<String>,
    /// Images to send with the task.
    #[arg(short = 'i', long = "image", value_name = "FILE", value_delimiter = ',', global = true)]
    pub image: Vec<PathBuf>,
    /// Access of commands and edits: read-only (the default), workspace-write or danger-full-access.
    #[arg(short = 's', long, value_name = "LEVEL", global = true)]
    pub sandbox: Option<String>,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    pub cd: Option<PathBuf>,
    /// Allow tools to use this directory too.
    #[arg(long, value_name = "DIR", global = true)]
    pub add_dir: Vec<PathBuf>,
    /// Set a configuration key, as `key=value`; the value is TOML or text.
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", global = true)]
    pub config: Vec<String>,
    /// Save nothing on disk.
    #[arg(long, global = true)]
    pub ephemeral: bool,
    #[command(flatten)]
    pub shortcuts: RightsShortcuts,
    /// Do not read your configuration.
    #[arg(long, global = true)]
    pub ignore_user_config: bool,
    /// Fail if a key given with -c is unknown.
    #[arg(long, global = true)]
    pub strict_config: bool,
    #[command(flatten)]
    pub ignored: Ignored,
}

/// Output of a thread, on standard output and in files.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ExecOutput {
    /// Print one JSON object per line: the thread, its turns and their items.
    #[arg(long, alias = "experimental-json", global = true)]
    pub json: bool,
    /// Also write the final message to this file.
    #[arg(short = 'o', long, value_name = "FILE", global = true)]
    pub output_last_message: Option<PathBuf>,
    /// Require the final message to fit the JSON Schema in this file.
    #[arg(long, value_name = "FILE", global = true)]
    pub output_schema: Option<PathBuf>,
}

/// Rights in one word, in place of `--sandbox`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RightsShortcuts {
    /// Allow everything that no rule denies, without a sandbox.
    #[arg(long, alias = "yolo", global = true)]
    pub dangerously_bypass_approvals_and_sandbox: bool,
    /// The same as --sandbox workspace-write.
    #[arg(long, global = true)]
    pub full_auto: bool,
}

/// Options that have no effect here. They are parsed so that scripts which pass them work.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Ignored {
    /// Has no effect: becket works outside of git repositories too.
    #[arg(long, global = true, hide = true)]
    pub skip_git_repo_check: bool,
    /// Has no effect; accepted for compatibility.
    #[arg(long, global = true, hide = true)]
    pub ignore_rules: bool,
    /// Has no effect; accepted for compatibility.
    #[arg(long, global = true, hide = true)]
    pub dangerously_bypass_hook_trust: bool,
    /// Has no effect: output to programs has no colours.
    #[arg(long, value_name = "WHEN", global = true, hide = true)]
    pub color: Option<String>,
    /// Has no effect; accepted for compatibility.
    #[arg(long, value_name = "NAME", global = true, hide = true)]
    pub thread_source: Option<String>,
    /// Has no effect; accepted for compatibility.
    #[arg(long, value_name = "NAME", global = true, hide = true)]
    pub cyber_access_program: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ExecWhat {
    /// Continue a thread.
    Resume {
        /// The thread: its id, the start of its id, or its title.
        session: Option<String>,
        /// The task; `-` or nothing reads it from standard input.
        prompt: Option<String>,
        /// Continue the newest thread of this directory.
        #[arg(long)]
        last: bool,
    },
}
