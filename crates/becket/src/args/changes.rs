//! Arguments of the subcommands that undo and redo changes, and the consent to a plan.

use super::values::{WorkDir, parse_positive_count};
use clap::Args;

/// Options to accept a plan in advance.
#[derive(Debug, Default, Args)]
pub(crate) struct Consent {
    /// Do not ask for confirmation.
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Show what would be done without doing it.
    #[arg(long)]
    pub dry_run: bool,
    /// Also overwrite files that were changed since. Their present content is saved first.
    #[arg(long)]
    pub force: bool,
}

/// Like [`Consent`], for plans that change no files.
#[derive(Debug, Default, Args)]
pub(crate) struct Agreement {
    /// Do not ask for confirmation.
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Show what would be done without doing it.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// The session: its id, the start of its id, or its title; by default the newest one of this directory.
    pub session: Option<String>,
    /// Undo everything since this message: its number or id (see `becket rewind SESSION`).
    #[arg(long, value_name = "MESSAGE")]
    pub to: Option<String>,
    /// Undo the last N calls that changed files; by default those of the last turn.
    #[arg(long, value_name = "N", conflicts_with = "to", value_parser = parse_positive_count)]
    pub calls: Option<usize>,
    /// Print the plan and the result as JSON. Does not ask, so add --yes to carry it out.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub consent: Consent,
    #[command(flatten)]
    pub work: WorkDir,
}

#[derive(Debug, Args)]
pub(crate) struct RedoArgs {
    /// The session: its id, the start of its id, or its title; by default the newest one of this directory.
    pub session: Option<String>,
    /// Print the plan and the result as JSON. Does not ask, so add --yes to carry it out.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub consent: Consent,
    #[command(flatten)]
    pub work: WorkDir,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").requires("message"))]
pub(crate) struct RewindArgs {
    /// The session: its id, the start of its id, or its title. Without it, the newest session of this directory.
    pub session: Option<String>,
    /// Go back to before this message: its number or id. Without it, messages are listed.
    #[arg(requires = "what")]
    pub message: Option<String>,
    /// Go back in the conversation only.
    #[arg(long, group = "what")]
    pub conversation: bool,
    /// Restore the files only.
    #[arg(long, group = "what")]
    pub files: bool,
    /// Go back in the conversation and restore the files.
    #[arg(long, group = "what")]
    pub both: bool,
    /// Print the list of messages, or the plan and the result, as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub consent: Consent,
    #[command(flatten)]
    pub work: WorkDir,
}
