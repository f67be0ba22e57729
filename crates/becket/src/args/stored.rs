//! Arguments of the commands that read stored sessions, or change the view of them.

use super::changes::Agreement;
use super::values::WorkDir;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The session: its id, the start of its id, or its title.
    pub session: String,
    /// The first message to repeat: its number (`becket rewind` lists them), its id, or @N for entry N.
    #[arg(long, value_name = "MESSAGE", default_value = "1")]
    pub from: String,
    /// The model; by default that of the session.
    #[arg(long)]
    pub model: Option<String>,
    /// Results of calls: from the recording, so that nothing runs, or from running the tools again.
    #[arg(long, value_name = "SOURCE", value_enum, default_value_t = ReplayTools::Recorded)]
    pub tools: ReplayTools,
    /// With --tools run: rules that allow calls, e.g. `Bash(git *)` `Edit`.
    #[arg(long = "allowedTools", alias = "allowed-tools", num_args = 1.., value_name = "RULE")]
    pub allowed_tools: Vec<String>,
    /// With --tools run: the permission mode.
    #[arg(long, value_name = "MODE")]
    pub permission_mode: Option<String>,
    /// Print JSON: the result of each message in a line, then one line about the replay.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub work: WorkDir,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplayTools {
    Recorded,
    Run,
}

#[derive(Debug, Default, Args)]
#[command(group = ArgGroup::new("edit").multiple(false))]
#[command(group = ArgGroup::new("sent").multiple(false))]
pub(crate) struct ContextArgs {
    /// The session: its id, the start of its id, or its title; by default the newest one of this directory.
    pub session: Option<String>,
    /// Count tokens with the tokenizer instead of estimating them.
    #[arg(long)]
    pub exact: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Treat the model's context window as this many tokens.
    #[arg(long, value_name = "N", env = "BECKET_CONTEXT_WINDOW")]
    pub context_window: Option<u64>,
    #[command(flatten)]
    pub sent: SentArgs,
    #[command(flatten)]
    pub edit: ViewEdit,
    #[command(flatten)]
    pub consent: Agreement,
    #[command(flatten)]
    pub work: WorkDir,
}

/// The sent requests to show in place of the view.
#[derive(Debug, Default, Args)]
pub(crate) struct SentArgs {
    /// List all requests that were sent.
    #[arg(long, group = "sent")]
    pub requests: bool,
    /// Print the exact bytes of request N (`last`, or a number of `--requests`), checked against their
    /// recorded hash.
    #[arg(long, value_name = "N", group = "sent")]
    pub request: Option<String>,
    /// With --request: show its parts, with origin, position in the bytes, and whether the cache had them.
    #[arg(long, requires = "request")]
    pub spans: bool,
    /// With --request: show the difference to the previous request.
    #[arg(long, requires = "request")]
    pub diff: bool,
}

/// A change of the view; at most one.
#[derive(Debug, Default, Args)]
pub(crate) struct ViewEdit {
    /// Remove these from the model's view: message number (column seq), call id, or message id. A call and
    /// its results are removed together.
    #[arg(long, value_name = "ITEM", num_args = 1.., group = "edit")]
    pub drop: Vec<String>,
    /// Replace these outputs, images and files by stubs.
    #[arg(long, value_name = "ITEM", num_args = 1.., group = "edit")]
    pub collapse: Vec<String>,
    /// Protect these from prune and compaction.
    #[arg(long, value_name = "ITEM", num_args = 1.., group = "edit")]
    pub pin: Vec<String>,
    /// Bring back these messages that a compaction removed (`becket compact SESSION --removed` lists them).
    #[arg(long, value_name = "ITEM", num_args = 1.., group = "edit")]
    pub restore: Vec<String>,
    /// Undo the last of these changes.
    #[arg(long, group = "edit")]
    pub undo: bool,
    /// Redo the last undone change.
    #[arg(long, group = "edit")]
    pub redo: bool,
}

impl ViewEdit {
    /// True if a change is wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        let lists = [&self.drop, &self.collapse, &self.pin, &self.restore];
        self.undo || self.redo || lists.iter().any(|list| !list.is_empty())
    }
}

#[derive(Debug, Default, Args)]
#[command(group = ArgGroup::new("what").multiple(false))]
pub(crate) struct CompactArgs {
    /// The session: its id, the start of its id, or its title; by default the newest one of this directory.
    pub session: Option<String>,
    /// Topic that the summary should emphasize.
    #[arg(long, value_name = "TEXT")]
    pub focus: Option<String>,
    #[command(flatten)]
    pub what: CompactWhat,
    #[command(flatten)]
    pub summary: SummaryArgs,
    /// Treat the model's context window as this many tokens.
    #[arg(long, value_name = "N", env = "BECKET_CONTEXT_WINDOW")]
    pub context_window: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub consent: Agreement,
    #[command(flatten)]
    pub work: WorkDir,
}

/// Actions instead of a compaction; give at most one.
#[derive(Debug, Default, Args)]
pub(crate) struct CompactWhat {
    /// Show what would happen without doing it.
    #[arg(long, group = "what")]
    pub preview: bool,
    /// Undo the last compaction: restores the previous view exactly.
    #[arg(long, group = "what")]
    pub undo: bool,
    /// Redo the last undone compaction.
    #[arg(long, group = "what")]
    pub redo: bool,
    /// List the messages that compactions removed (to bring some back: becket context SESSION --restore).
    #[arg(long, alias = "folded", group = "what")]
    pub removed: bool,
    /// Check that rules files, pins, open todos and the last user message are in the context, byte for byte.
    #[arg(long, group = "what")]
    pub verify: bool,
}

/// The author of the summary, and a file for it.
#[derive(Debug, Default, Args)]
pub(crate) struct SummaryArgs {
    /// Use the text of this file as the summary instead of asking the model.
    #[arg(long = "summary", id = "summary", value_name = "FILE", conflicts_with_all = ["edit", "no_model"])]
    pub file: Option<PathBuf>,
    /// Edit the summary in $VISUAL or $EDITOR before it applies.
    #[arg(long)]
    pub edit: bool,
    /// Make the summary from the session's record, without a model.
    #[arg(long)]
    pub no_model: bool,
    /// Model that writes the summary; by default the session's own.
    #[arg(long, value_name = "MODEL", conflicts_with = "no_model")]
    pub model: Option<String>,
    /// With --preview: write the summary to this file, for editing.
    #[arg(short = 'o', long, value_name = "FILE", value_parser = super::values::named_file)]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file; `-` for stdin.
    pub file: PathBuf,
    /// Import the file even if it was imported before.
    #[arg(long)]
    pub again: bool,
    /// Import into the project of this directory instead of the session's original one.
    #[arg(long)]
    pub here: bool,
    /// You made this file of becket's own: keep its permission mode, added folders and limits, and the undo of its changes.
    #[arg(long)]
    pub trust: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub work: WorkDir,
}

#[derive(Debug, Default, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub what: Option<SessionsWhat>,
    /// Only sessions that contain these words.
    pub query: Option<String>,
    #[command(flatten)]
    pub filters: SessionFilters,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Maximum number of sessions, newest first.
    #[arg(long, default_value_t = 20, value_parser = super::values::parse_positive_count)]
    pub limit: usize,
    #[command(flatten)]
    pub work: WorkDir,
}

/// Filters that select sessions.
#[derive(Debug, Default, Args)]
pub(crate) struct SessionFilters {
    /// Include all projects, not only this directory's.
    #[arg(long)]
    pub all: bool,
    /// Only from this day on: 2026-11-21, or 7d for the last seven days.
    #[arg(long, value_name = "DAY")]
    pub since: Option<String>,
    /// Only before this day.
    #[arg(long, value_name = "DAY")]
    pub until: Option<String>,
    /// Only sessions that used a model whose name contains this text.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Only sessions that read or changed a file whose path contains this text.
    #[arg(long, value_name = "PATH")]
    pub file: Option<String>,
    /// Only sessions with this tag.
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Include archived sessions.
    #[arg(long)]
    pub archived: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsWhat {
    /// List sessions, newest first.
    List {
        #[command(flatten)]
        filters: SessionFilters,
        #[command(flatten)]
        shown: Shown,
    },
    /// Search the text of all messages and tool calls.
    Search {
        /// Words to search for.
        query: String,
        #[command(flatten)]
        filters: SessionFilters,
        #[command(flatten)]
        shown: Shown,
    },
    /// Give a session another title.
    Rename {
        /// The session: its id, the start of its id, or its title.
        session: String,
        /// The new title.
        title: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show, add or remove a session's tags.
    Tag {
        /// The session: its id, the start of its id, or its title.
        session: String,
        /// Tags to add.
        tags: Vec<String>,
        /// Remove these tags instead.
        #[arg(long)]
        remove: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Archive sessions: they are kept, but listed only with --archived.
    Archive(SessionIds),
    /// Take sessions out of the archive.
    Unarchive(SessionIds),
    /// Move sessions to the trash, where they are kept for 30 days.
    Rm(SessionIds),
    /// List the sessions in the trash.
    Trash {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Bring a session back from the trash.
    Restore {
        /// The session: its id, the start of its id, or its title.
        session: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete sessions that have been in the trash for 30 days.
    Gc {
        /// Delete the whole trash now.
        #[arg(long)]
        now: bool,
        /// Show what would be deleted without deleting it.
        #[arg(long)]
        dry_run: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show tokens, cost and tools by day and project.
    Stats {
        /// Number of days, back from today.
        #[arg(long, default_value_t = 30)]
        days: u64,
        /// Only this directory's sessions.
        #[arg(long)]
        here: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Write an HTML page with charts to this file; `-` for standard output.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Show which session was forked from which, and at which message.
    Tree {
        /// Include all projects, not only this directory's.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Copy a session, whole or up to one of your messages.
    Fork {
        /// The session: its id, the start of its id, or its title.
        session: String,
        /// Copy up to before this message of yours: its number or id (`becket rewind SESSION` lists them), or
        /// `@` and an entry's number.
        message: Option<String>,
        /// Title of the copy.
        #[arg(short = 'n', long)]
        name: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare two sessions: what they share, and what only one of them has.
    Compare {
        /// The session: its id, the start of its id, or its title.
        one: String,
        /// The session to compare it with: its id, the start of its id, or its title.
        other: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The sessions that a command acts on.
#[derive(Debug, Args)]
pub(crate) struct SessionIds {
    /// The sessions: ids, starts of ids, or titles.
    pub sessions: Vec<String>,
    /// Print JSON: one object for each session.
    #[arg(long)]
    pub json: bool,
}

/// Output of a list.
#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Maximum number of rows.
    #[arg(long, default_value_t = 20, value_parser = super::values::parse_positive_count)]
    pub limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// The session: its id, the start of its id, or its title; by default the newest one of this directory.
    pub session: Option<String>,
    /// Show the cost of all sessions since this day, by day and project. DAY is 2026-11-21, or 7d for the last seven days.
    #[arg(long, value_name = "DAY", conflicts_with = "session")]
    pub since: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page with charts to this file; `-` for standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub work: WorkDir,
}
