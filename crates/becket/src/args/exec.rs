//! Arguments of `becket exec`: those of `codex exec`, so scripts and the SDK written for it work as they are.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Clone, Debug, Default, Args)]
#[command(version)]
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
    /// Save nothing on disk.
    #[arg(long, global = true)]
    pub ephemeral: bool,
    /// Also work outside of a git repository.
    #[arg(long, global = true)]
    pub skip_git_repo_check: bool,
    #[command(flatten)]
    pub shortcuts: RightsShortcuts,
    #[command(flatten)]
    pub settings: ExecSettings,
    #[command(flatten)]
    pub ignored: Ignored,
    #[command(flatten)]
    pub refused: Refused,
}

/// Settings of a thread.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ExecSettings {
    /// Set a configuration key, as `key=value`; the value is TOML or text.
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", global = true)]
    pub config: Vec<String>,
    /// Use the settings in NAME.config.toml, beside your config.toml, too. Settings of -c override them.
    #[arg(short = 'p', long, value_name = "NAME", global = true)]
    pub profile: Option<String>,
    /// Use a model of a server on this machine: Ollama, or the one of --local-provider.
    #[arg(long, global = true)]
    pub oss: bool,
    /// With --oss: ollama or lmstudio.
    #[arg(long, value_name = "NAME", global = true)]
    pub local_provider: Option<String>,
    /// Allow the web tools; the same as -c web_search=live.
    #[arg(long, global = true)]
    pub search: bool,
    /// Do not read your configuration.
    #[arg(long, global = true)]
    pub ignore_user_config: bool,
    /// Fail if a key given with -c is unknown.
    #[arg(long, global = true)]
    pub strict_config: bool,
    /// Has no effect: features of Codex are not features of becket.
    #[arg(long, value_name = "FEATURE", global = true, hide = true)]
    pub enable: Vec<String>,
    /// Has no effect: features of Codex are not features of becket.
    #[arg(long, value_name = "FEATURE", global = true, hide = true)]
    pub disable: Vec<String>,
}

/// Output of a thread, on standard output and in files.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ExecOutput {
    /// Print one JSON object per line: the thread, its turns and their items.
    #[arg(long, alias = "experimental-json", global = true)]
    pub json: bool,
    /// Also write the final message to this file.
    #[arg(short = 'o', long, value_name = "FILE", global = true, value_parser = super::values::named_file)]
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
    #[arg(long, alias = "approve-for-me", global = true)]
    pub full_auto: bool,
    /// In this run, use the project's hooks, servers, commands and .claude/settings.json without asking about them.
    #[arg(long, global = true)]
    pub trust: bool,
}

/// Options of Codex that becket cannot carry out. To ignore them would do something else than the caller wants.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Refused {
    #[arg(long, global = true, hide = true)]
    pub worktree: bool,
    #[arg(long, value_name = "ADDR", global = true, hide = true)]
    pub remote: Option<String>,
    #[arg(long, value_name = "NAME", global = true, hide = true)]
    pub remote_auth_token_env: Option<String>,
}

/// Options that have no effect here. They are parsed so that scripts which pass them work.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Ignored {
    /// Has no effect: nobody can be asked, so calls that need a question are denied.
    #[arg(short = 'a', long, value_name = "POLICY", global = true, hide = true)]
    pub ask_for_approval: Option<String>,
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
        /// With --last: the newest thread of any directory.
        #[arg(long)]
        all: bool,
    },
    /// Continue in a copy of a thread.
    Fork {
        /// The thread: its id, the start of its id, or its title.
        session: String,
        /// The task; `-` or nothing reads it from standard input.
        prompt: Option<String>,
    },
    /// Review changes of this repository.
    Review(ReviewArgs),
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ReviewArgs {
    /// Instructions for the review; `-` takes them from standard input.
    pub prompt: Option<String>,
    /// Review staged, unstaged and new files.
    #[arg(long, conflicts_with_all = ["base", "commit", "prompt"])]
    pub uncommitted: bool,
    /// Review the changes against this branch.
    #[arg(long, value_name = "BRANCH", conflicts_with_all = ["commit", "prompt"])]
    pub base: Option<String>,
    /// Review the changes of this commit.
    #[arg(long, value_name = "SHA", conflicts_with = "prompt")]
    pub commit: Option<String>,
    /// Title of the commit, for the reviewer.
    #[arg(long, requires = "commit")]
    pub title: Option<String>,
}
