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
    /// Print one JSON object a line: the thread, its turns and their items.
    #[arg(long, alias = "experimental-json", global = true)]
    pub json: bool,
    /// Write the last message to this file as well.
    #[arg(short = 'o', long, value_name = "FILE", global = true)]
    pub output_last_message: Option<PathBuf>,
    /// The last message must fit the JSON Schema in this file.
    #[arg(long, value_name = "FILE", global = true)]
    pub output_schema: Option<PathBuf>,
    /// The model.
    #[arg(short = 'm', long, global = true)]
    pub model: Option<String>,
    /// Images that go with the task.
    #[arg(short = 'i', long = "image", value_name = "FILE", value_delimiter = ',', global = true)]
    pub image: Vec<PathBuf>,
    /// Level of what commands and edits may touch: read-only (without this), workspace-write or danger-full-access.
    #[arg(short = 's', long, value_name = "LEVEL", global = true)]
    pub sandbox: Option<String>,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    pub cd: Option<PathBuf>,
    /// Allow tools to use this directory too.
    #[arg(long, value_name = "DIR", global = true)]
    pub add_dir: Vec<PathBuf>,
    /// A setting as `key=value`; the value is TOML or text.
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", global = true)]
    pub config: Vec<String>,
    /// Save nothing on disk.
    #[arg(long, global = true)]
    pub ephemeral: bool,
    /// Allow everything that no rule denies, and confine nothing.
    #[arg(long, alias = "yolo", global = true)]
    pub dangerously_bypass_approvals_and_sandbox: bool,
    /// The same as --sandbox workspace-write.
    #[arg(long, global = true)]
    pub full_auto: bool,
    /// Do not read the person's configuration.
    #[arg(long, global = true)]
    pub ignore_user_config: bool,
    /// End with an error if a setting of -c is not known.
    #[arg(long, global = true)]
    pub strict_config: bool,
    /// Accepted: becket works outside of git repositories too.
    #[arg(long, global = true, hide = true)]
    pub skip_git_repo_check: bool,
    /// Accepted and without effect.
    #[arg(long, global = true, hide = true)]
    pub ignore_rules: bool,
    /// Accepted and without effect.
    #[arg(long, global = true, hide = true)]
    pub dangerously_bypass_hook_trust: bool,
    /// Accepted and without effect: output to programs has no colours.
    #[arg(long, value_name = "WHEN", global = true, hide = true)]
    pub color: Option<String>,
    /// Accepted and without effect.
    #[arg(long, value_name = "NAME", global = true, hide = true)]
    pub thread_source: Option<String>,
    /// Accepted and without effect.
    #[arg(long, value_name = "NAME", global = true, hide = true)]
    pub cyber_access_program: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ExecWhat {
    /// Continue a thread.
    Resume {
        /// Id of the thread, start of an id, or title.
        session: Option<String>,
        /// The task; `-` or nothing reads it from standard input.
        prompt: Option<String>,
        /// The newest thread of this directory.
        #[arg(long)]
        last: bool,
    },
}
