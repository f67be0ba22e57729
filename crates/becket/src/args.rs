//! What was typed: flags and subcommands as clap sees them. What is meant is decided in `settings`.
//!
//! The names are the ones people have in their fingers from other agents. Runs and subcommands are parsed by two
//! definitions, so that a prompt such as `becket -p demo` is a prompt.

mod stored;

pub(crate) use stored::*;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A terminal coding agent whose sessions never lose the thread.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "becket",
    version,
    about,
    disable_help_subcommand = true,
    after_help = "Subcommands: demo, sessions, context, compact, doctor, config, models, export, import, screenshot, undo, redo, rewind, sandbox (each with --help)\n\
                  Exit codes: 0 ok, 1 error, 2 usage, 3 max turns, 4 budget, 5 permission denied, 6 schema not met,\n\
                  7 model unreachable, 8 repetition, 9 context full, 130 interrupted, 143 terminated"
)]
pub(crate) struct Run {
    /// The task; what is piped to stdin is added to it, `-` for that alone. Put `--` before it after a list flag.
    pub prompt: Option<String>,

    /// Run headless: print the answer and exit.
    #[arg(short = 'p', long)]
    pub print: bool,

    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub limits: Limits,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub prompts: Prompts,
    #[command(flatten)]
    pub permissions: Permissions,
    #[command(flatten)]
    pub session: SessionArgs,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Input and output")]
#[expect(clippy::struct_field_names, reason = "fields are named as the options they are")]
pub(crate) struct Output {
    /// What goes to stdout.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub output_format: OutputFormat,
    /// What comes from stdin: text, or one JSON message a line, also while the agent works.
    #[arg(long, value_enum, default_value_t = InputFormat::Text)]
    pub input_format: InputFormat,
    /// Notes of lesser weight on stderr; with `--output-format json`, all events as one array.
    #[arg(long)]
    pub verbose: bool,
    /// With stream-json: also the deltas, as `stream_event` lines.
    #[arg(long)]
    pub include_partial_messages: bool,
    /// With stream-json both ways: user messages come back on stdout when they are in the ledger.
    #[arg(long)]
    pub replay_user_messages: bool,
    /// With stream-json: also what subagents say, not only their calls and results.
    #[arg(long)]
    pub forward_subagent_text: bool,
    /// The answer must fit this JSON Schema: JSON text, or @FILE.
    #[arg(long, value_name = "SCHEMA")]
    pub json_schema: Option<String>,
    /// Same, always from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "json_schema")]
    pub output_schema: Option<PathBuf>,
    /// The session in the terminal's own scrollback instead of on a screen of its own.
    #[arg(long, conflicts_with = "print")]
    pub inline: bool,
    /// The session in plain lines for screen readers: nothing is redrawn.
    #[arg(long, conflicts_with_all = ["print", "inline"])]
    pub ax: bool,
    /// Also write the last answer to this file.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output_last_message: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
    StreamJson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    Text,
    StreamJson,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits")]
#[expect(clippy::struct_field_names, reason = "fields are named as the options they are")]
pub(crate) struct Limits {
    /// Requests to the model in one turn; then it is asked to wrap up, and becket exits with 3.
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    pub max_turns: Option<u64>,
    /// Money, at list prices; checked after each answer. Exit 4.
    #[arg(long, value_name = "USD", value_parser = positive, allow_negative_numbers = true)]
    pub max_budget_usd: Option<f64>,
    /// Tokens read and written, cached ones included. Exit 4.
    #[arg(long, value_name = "N", value_parser = not_zero, allow_negative_numbers = true)]
    pub max_tokens: Option<String>,
    /// Wall time of a turn: seconds, or `10m`. Exit 4.
    #[arg(long, value_name = "TIME", value_parser = not_zero, allow_negative_numbers = true)]
    pub max_wall: Option<String>,
    /// Longest wait for a rate limit, or for a model that is being loaded: seconds, or `10m`; a longer one ends the run. Exit 7.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub max_wait: Option<String>,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// `anthropic/NAME`, `openai/NAME` (also for every compatible server), or `script:FILE` (also BECKET_MODEL).
    #[arg(long)]
    pub model: Option<String>,
    /// Models to go on with when the first is overloaded, in order.
    #[arg(long, value_delimiter = ',', value_name = "MODEL")]
    pub fallback_model: Vec<String>,
    /// low, medium, high, xhigh, max.
    #[arg(long, value_name = "LEVEL")]
    pub effort: Option<String>,
    /// Treat the model's context window as this many tokens, such as 32000 or `32k` (also BECKET_CONTEXT_WINDOW).
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub context_window: Option<String>,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Prompt")]
pub(crate) struct Prompts {
    /// Replace becket's system prompt.
    #[arg(long, value_name = "TEXT", conflicts_with = "system_prompt_file")]
    pub system_prompt: Option<String>,
    #[arg(long, value_name = "FILE")]
    pub system_prompt_file: Option<PathBuf>,
    /// Add to the system prompt.
    #[arg(long, value_name = "TEXT", conflicts_with = "append_system_prompt_file")]
    pub append_system_prompt: Option<String>,
    #[arg(long, value_name = "FILE")]
    pub append_system_prompt_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tools and permissions")]
#[expect(clippy::struct_field_names, reason = "fields are named as the options they are")]
pub(crate) struct Permissions {
    /// Rules that allow calls, e.g. `Bash(git *)` `Edit`.
    #[arg(long = "allowedTools", alias = "allowed-tools", num_args = 1.., value_name = "RULE")]
    pub allowed_tools: Vec<String>,
    /// Rules that deny calls; a bare tool name takes the tool away.
    #[arg(long = "disallowedTools", alias = "disallowed-tools", num_args = 1.., value_name = "RULE")]
    pub disallowed_tools: Vec<String>,
    /// The tools the model has: a list, "" for none, "default" for all.
    #[arg(long, value_name = "NAMES")]
    pub tools: Option<String>,
    /// default, acceptEdits, plan, dontAsk, bypassPermissions.
    #[arg(long, value_name = "MODE")]
    pub permission_mode: Option<String>,
    /// Everything but deny rules is allowed. Only where nothing can be broken.
    #[arg(long)]
    pub dangerously_skip_permissions: bool,
    /// Another directory that tools may use.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub add_dir: Vec<PathBuf>,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Session")]
pub(crate) struct SessionArgs {
    /// Go on with the newest session of this directory.
    #[arg(short = 'c', long = "continue")]
    pub continue_: bool,
    /// Go on with this session: id, beginning of one, or title.
    #[arg(short = 'r', long, value_name = "SESSION", conflicts_with = "continue_")]
    pub resume: Option<String>,
    /// The id of the new session; with --fork-session, of the copy.
    #[arg(long, value_name = "UUID")]
    pub session_id: Option<String>,
    /// With --continue or --resume: go on in a copy.
    #[arg(long)]
    pub fork_session: bool,
    /// With --continue or --resume: also when another process has the session; that one can add nothing more.
    #[arg(long, conflicts_with = "fork_session")]
    pub take_over: bool,
    /// Keep nothing on disk; with --continue or --resume, go on in a copy that is not kept.
    #[arg(long, alias = "ephemeral")]
    pub no_session_persistence: bool,
    /// The title of the session.
    #[arg(short = 'n', long)]
    pub name: Option<String>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct ConfigArgs {
    /// Settings on top of the files: JSON text or a file (JSON or TOML).
    #[arg(long, value_name = "FILE|JSON")]
    pub settings: Option<String>,
    /// Which files count: user, project, local.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub setting_sources: Option<Vec<String>>,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

/// The subcommands. Known by their first word only.
#[derive(Debug, Parser)]
#[command(name = "becket", version, disable_help_subcommand = true)]
pub(crate) struct Sub {
    #[command(subcommand)]
    pub command: Subcommands,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Subcommands {
    /// Watch becket fix a failing test in a scratch repository, with a scripted model: no key, no network.
    Demo(DemoArgs),
    /// List the sessions of this directory, or search them; file, fork, compare, throw away, count.
    Sessions(SessionsArgs),
    /// What the model sees now: by category and span, with tokens and origin.
    Context(ContextArgs),
    /// Compact a session in the open: shown first, with what would be lost; undo and redo.
    Compact(CompactArgs),
    /// Check models, configuration and storage; with `session ID`, explain one session.
    Doctor(DoctorArgs),
    /// Show every setting with its value and where it comes from.
    Config(ConfigCommandArgs),
    /// List the models becket knows, and what a configured server offers.
    Models(ModelsArgs),
    /// Write a session as JSONL, Markdown or one HTML page.
    Export(ExportArgs),
    /// Take in a session: becket's own JSONL, or one of Claude Code, Codex or opencode.
    Import(ImportArgs),
    /// Draw what the terminal shows after a file of events, as SVG.
    Screenshot(ScreenshotArgs),
    /// Take back what calls did to files; shown first.
    Undo(UndoArgs),
    /// Take back the last undo.
    Redo(RedoArgs),
    /// Go back to before a message: conversation, files or both.
    Rewind(RewindArgs),
    /// Run a command confined, as commands of the model are; without a command, show what confines them.
    Sandbox(SandboxArgs),
}

/// First words that are subcommands; everything else is a run.
pub(crate) const SUBCOMMANDS: &[&str] = &[
    "demo",
    "sessions",
    "context",
    "compact",
    "doctor",
    "config",
    "models",
    "export",
    "import",
    "screenshot",
    "undo",
    "redo",
    "rewind",
    "sandbox",
];

#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    /// How tightly: `read-only`, as commands that run without a question, or `workspace`.
    #[arg(long, value_enum, default_value_t = LevelArg::Workspace)]
    pub level: LevelArg,
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelArg {
    ReadOnly,
    Workspace,
}

#[derive(Debug, Args)]
pub(crate) struct ScreenshotArgs {
    /// One event a line, as JSON.
    pub events: PathBuf,
    /// `.svg`, `.png`, or `.txt` for the text alone.
    #[arg(short, long)]
    pub output: PathBuf,
    /// Columns and rows.
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "120x40", value_parser = size)]
    pub size: (u16, u16),
    #[arg(long, default_value = "dark")]
    pub theme: String,
}

/// `120x40`.
fn size(text: &str) -> Result<(u16, u16), String> {
    let sides =
        text.split_once('x').and_then(|(columns, rows)| Some((columns.parse().ok()?, rows.parse().ok()?)));
    sides
        .filter(|(columns, rows)| (1..=500).contains(columns) && (1..=500).contains(rows))
        .ok_or_else(|| "columns and rows from 1x1 to 500x500, such as 120x40".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the scratch repository and say where it is.
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(subcommand)]
    pub what: Option<DoctorWhat>,
    /// What can be read of damaged sessions (or the one named), in sound copies; the damaged ones stay as they are.
    #[arg(long, global = true)]
    pub repair: bool,
    #[arg(long, global = true)]
    pub json: bool,
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    pub cd: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DoctorWhat {
    /// Check one session: its chain, its blobs, and each repair the view makes.
    Session { id: String },
}

#[derive(Debug, Args)]
pub(crate) struct ConfigCommandArgs {
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of the configuration.
    #[arg(long)]
    pub schema: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    #[arg(long)]
    pub json: bool,
    /// Also ask the configured servers what they have.
    #[arg(long)]
    pub remote: bool,
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Id, beginning of one, or title; the newest of this directory when left out.
    pub session: Option<String>,
    #[arg(long, value_enum, default_value_t = ExportFormat::Md)]
    pub format: ExportFormat,
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// With jsonl: also the blobs (long outputs, images, snapshots of files), one a line.
    #[arg(long)]
    pub blobs: bool,
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

/// Whether a plan is carried out.
#[derive(Debug, Default, Args)]
pub(crate) struct Consent {
    /// Do it without asking.
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Also overwrite what was changed since; that is kept first.
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// Id, beginning of one, or title; the newest of this directory when left out.
    pub session: Option<String>,
    /// Everything since this message: its number or id (see `becket rewind SESSION`).
    #[arg(long, value_name = "MESSAGE")]
    pub to: Option<String>,
    /// The last N calls that changed files; without this, those of the last turn.
    #[arg(long, value_name = "N", conflicts_with = "to")]
    pub calls: Option<usize>,
    #[command(flatten)]
    pub consent: Consent,
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RedoArgs {
    /// Id, beginning of one, or title; the newest of this directory when left out.
    pub session: Option<String>,
    #[command(flatten)]
    pub consent: Consent,
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").requires("message"))]
pub(crate) struct RewindArgs {
    /// Id, beginning of one, or title.
    pub session: String,
    /// The message to go back to before: its number or id. Without it, messages are listed.
    #[arg(requires = "what")]
    pub message: Option<String>,
    #[arg(long, group = "what")]
    pub conversation: bool,
    #[arg(long, group = "what")]
    pub files: bool,
    #[arg(long, group = "what")]
    pub both: bool,
    /// Of the list of messages.
    #[arg(long, conflicts_with = "message")]
    pub json: bool,
    #[command(flatten)]
    pub consent: Consent,
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    Jsonl,
    Md,
    Html,
}

fn whole(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("expected a whole number above 0, such as 20".to_owned()),
    }
}

fn some(text: &str) -> Result<usize, String> {
    whole(text).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// A limit of nothing allows nothing. What else is wrong, the configuration says, which takes the same forms.
fn not_zero(text: &str) -> Result<String, String> {
    match text.trim().parse::<f64>() {
        Ok(n) if n <= 0.0 => Err("expected more than 0".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && n > 0.0 => Ok(n),
        _ => Err("expected an amount above 0, such as 0.50".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn definitions_are_sound() {
        Run::command().debug_assert();
        Sub::command().debug_assert();
        let listed: Vec<String> = Sub::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
        assert_eq!(listed, SUBCOMMANDS);
    }

    #[test]
    fn known_spellings_are_understood() {
        let run = Run::try_parse_from([
            "becket",
            "-p",
            "--allowedTools",
            "Bash(git *)",
            "Edit",
            "--disallowed-tools",
            "web",
            "--max-turns",
            "3",
            "--output-format",
            "stream-json",
            "--",
            "do it",
        ])
        .unwrap();
        assert_eq!(run.permissions.allowed_tools, ["Bash(git *)", "Edit"]);
        assert_eq!(run.permissions.disallowed_tools, ["web"]);
        assert_eq!(run.prompt.as_deref(), Some("do it"));
        assert!(run.print);
        for bad in [
            &["becket", "--max-turns", "0"][..],
            &["becket", "--max-budget-usd", "-1"],
            &["becket", "--max-turns", "-3"],
            &["becket", "--max-tokens", "0"],
            &["becket", "--max-wall", "0"],
            &["becket", "--nope"],
            &["becket", "--system-prompt", "a", "--system-prompt-file", "b"],
        ] {
            assert!(Run::try_parse_from(bad).is_err(), "{bad:?}");
        }
    }
}
