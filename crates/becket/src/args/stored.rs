//! Arguments of the commands that read stored sessions, or change the view of them.

use super::Consent;
use clap::{ArgGroup, Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Default, Args)]
#[command(group = ArgGroup::new("edit").multiple(false))]
#[command(group = ArgGroup::new("sent").multiple(false))]
pub(crate) struct ContextArgs {
    /// Id, beginning of one, or title; the newest of this directory when left out.
    pub session: Option<String>,
    /// Count with the tokenizer instead of estimating.
    #[arg(long)]
    pub exact: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Treat the model's context window as this many tokens.
    #[arg(long, value_name = "N", env = "BECKET_CONTEXT_WINDOW")]
    pub context_window: Option<u64>,
    /// List all requests that were sent.
    #[arg(long, group = "sent")]
    pub requests: bool,
    /// Print the exact bytes of request N (`last`, or a number of `--requests`), proven by their hash.
    #[arg(long, value_name = "N", group = "sent")]
    pub request: Option<String>,
    /// With --request: what it is made of, with origin, place in the bytes, and whether the cache had it.
    #[arg(long, requires = "request")]
    pub spans: bool,
    /// With --request: what differs from the request before.
    #[arg(long, requires = "request")]
    pub diff: bool,
    /// Leave these out: message number (column seq), call id, or message id. A call and its results go together.
    #[arg(long, value_name = "ITEM", num_args = 1.., group = "edit")]
    pub drop: Vec<String>,
    /// Show these outputs, images and files as stubs.
    #[arg(long, value_name = "ITEM", num_args = 1.., group = "edit")]
    pub collapse: Vec<String>,
    /// Neither prune nor compaction removes these.
    #[arg(long, value_name = "ITEM", num_args = 1.., group = "edit")]
    pub pin: Vec<String>,
    /// Bring these back that a compaction folded away (`becket compact SESSION --folded` lists them).
    #[arg(long, value_name = "ITEM", num_args = 1.., group = "edit")]
    pub restore: Vec<String>,
    /// Take the last of these changes back.
    #[arg(long, group = "edit")]
    pub undo: bool,
    /// Take the last undo back.
    #[arg(long, group = "edit")]
    pub redo: bool,
    #[command(flatten)]
    pub consent: Consent,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

#[derive(Debug, Default, Args)]
#[command(group = ArgGroup::new("what").multiple(false))]
pub(crate) struct CompactArgs {
    /// Id, beginning of one, or title; the newest of this directory when left out.
    pub session: Option<String>,
    /// Topic that the summary should emphasize.
    #[arg(long, value_name = "TEXT")]
    pub focus: Option<String>,
    /// Show what would happen, and do nothing.
    #[arg(long, group = "what")]
    pub preview: bool,
    /// Take the last compaction back: the previous view is restored exactly.
    #[arg(long, group = "what")]
    pub undo: bool,
    /// Take the last undo of a compaction back.
    #[arg(long, group = "what")]
    pub redo: bool,
    /// List the messages that compactions folded away (to bring some back: becket context SESSION --restore).
    #[arg(long, group = "what")]
    pub folded: bool,
    /// Prove that rules files, pins, open todos and the last user message are in the context, byte for byte.
    #[arg(long, group = "what")]
    pub verify: bool,
    /// The summary from this file, as it stands there, instead of asking the model.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["edit", "no_model"])]
    pub summary: Option<PathBuf>,
    /// Edit the summary in $VISUAL or $EDITOR before it applies.
    #[arg(long)]
    pub edit: bool,
    /// The summary made by the program from the session's record.
    #[arg(long)]
    pub no_model: bool,
    /// The model that writes the summary; the session's own when left out.
    #[arg(long, value_name = "MODEL", conflicts_with = "no_model")]
    pub model: Option<String>,
    /// With --preview: write the summary to this file, for editing.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Treat the model's context window as this many tokens.
    #[arg(long, value_name = "N", env = "BECKET_CONTEXT_WINDOW")]
    pub context_window: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub consent: Consent,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file; `-` for stdin.
    pub file: PathBuf,
    /// Also if a session was made of the same file before.
    #[arg(long)]
    pub again: bool,
    /// Into the project of this directory, instead of the one it was made in.
    #[arg(long)]
    pub here: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

#[derive(Debug, Default, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub what: Option<SessionsWhat>,
    /// Sessions that hold these words.
    pub query: Option<String>,
    #[command(flatten)]
    pub narrow: Narrow,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Newest first; at most this many.
    #[arg(long, default_value_t = 20, value_parser = super::some)]
    pub limit: usize,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

/// Filters that select sessions.
#[derive(Debug, Default, Args)]
pub(crate) struct Narrow {
    /// All projects, not only this directory's.
    #[arg(long)]
    pub all: bool,
    /// From this day on: 2026-11-21, or 7d for the last seven days.
    #[arg(long, value_name = "DAY")]
    pub since: Option<String>,
    /// Before this day.
    #[arg(long, value_name = "DAY")]
    pub until: Option<String>,
    /// A part of the name of a model that was used.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// A part of the path of a file that was read or changed.
    #[arg(long, value_name = "PATH")]
    pub file: Option<String>,
    /// Only sessions with this tag.
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Also what is archived.
    #[arg(long)]
    pub archived: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsWhat {
    /// List sessions, newest first.
    List {
        #[command(flatten)]
        narrow: Narrow,
        #[command(flatten)]
        shown: Shown,
    },
    /// Search the text of all messages and tool calls.
    Search {
        /// Words to look for.
        query: String,
        #[command(flatten)]
        narrow: Narrow,
        #[command(flatten)]
        shown: Shown,
    },
    /// Give a session another title.
    Rename {
        /// Id, start of an id, or title.
        session: String,
        /// The new title.
        title: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a session's tags; add some, or take some away.
    Tag {
        /// Id, start of an id, or title.
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
    /// Archive sessions: they are kept, and listed with --archived.
    Archive(Several),
    /// Take sessions out of the archive.
    Unarchive(Several),
    /// Move sessions to the trash, where they are kept for 30 days.
    Rm(Several),
    /// List the sessions in the trash.
    Trash {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Bring a session back from the trash.
    Restore {
        /// Id, start of an id, or title.
        session: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete sessions that have been in the trash for 30 days.
    Gc {
        /// All of the trash, now.
        #[arg(long)]
        now: bool,
        /// Show what would be deleted, and delete nothing.
        #[arg(long)]
        dry_run: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show tokens, cost and tools by day and project.
    Stats {
        /// Days back from today.
        #[arg(long, default_value_t = 30)]
        days: u64,
        /// Only this directory's sessions.
        #[arg(long)]
        here: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Write a page with charts to this file.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Show which session was forked from which, and where.
    Tree {
        /// All projects, not only this directory's.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Copy a session, whole or up to one of your messages.
    Fork {
        /// Id, start of an id, or title.
        session: String,
        /// Number or id of a message of the user's (`becket rewind SESSION` lists them), or `@` and an entry's number.
        message: Option<String>,
        /// Title of the copy.
        #[arg(short = 'n', long)]
        name: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what two sessions share, and what only one of them has.
    Compare {
        /// Id, start of an id, or title.
        one: String,
        /// The other session.
        other: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The sessions that a command acts on.
#[derive(Debug, Args)]
pub(crate) struct Several {
    /// Ids, starts of ids, or titles.
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
    /// At most this many.
    #[arg(long, default_value_t = 20, value_parser = super::some)]
    pub limit: usize,
}
