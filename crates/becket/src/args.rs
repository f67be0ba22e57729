//! Command line: flags and subcommands as clap parses them. `settings` decides what they mean.
//!
//! The names are those that people know from other agents. Runs and subcommands are parsed by two definitions, so that
//! a prompt such as `becket -p demo` is a prompt.

mod agents;
mod bare_words;
mod changes;
mod driven;
mod exec;
mod help;
mod hint;
mod inspect;
mod login;
mod mcp;
mod rights;
mod sdk;
mod stored;
mod values;

pub(crate) use agents::*;
pub(crate) use bare_words::{
    NotATask, bare_word, command_after_options, command_first, exec_first, nearest_sessions_command,
    not_a_command, unknown_sessions_command, wants_json,
};
pub(crate) use changes::*;
pub(crate) use driven::{drop_unknown_flags, is_driven, unused_variables};
pub(crate) use exec::{ExecArgs, ExecOptions, ExecSettings, ExecWhat, ReviewArgs};
pub(crate) use help::{parse_run, run_command, whole_command};
pub(crate) use hint::{search_of, unquoted};
pub(crate) use inspect::*;
pub(crate) use login::*;
pub(crate) use mcp::*;
pub(crate) use rights::*;
pub(crate) use sdk::SdkArgs;
pub(crate) use stored::*;
use values::{parse_positive_amount, parse_positive_integer, reject_zero};

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A coding agent for the terminal, with sessions that can be resumed and undone.
#[derive(Clone, Debug, Parser)]
#[command(name = "becket", version, about, disable_help_subcommand = true)]
pub(crate) struct Run {
    /// The task, in quotes. Piped input is added to it; `-` uses only piped input. Put `--` before the task
    /// if it follows an option that takes a list.
    #[arg(value_name = "TASK")]
    pub prompt: Option<String>,

    /// Run without a terminal interface: print the answer and exit.
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
    pub mcp: McpArgs,
    #[command(flatten)]
    pub agents: AgentArgs,
    #[command(flatten)]
    pub config: ConfigArgs,
    #[command(flatten)]
    pub sdk: SdkArgs,
}

impl Run {
    /// Returns the arguments of a headless run without any other option.
    ///
    /// # Errors
    ///
    /// Returns clap's error if an argument became mandatory.
    pub(crate) fn headless() -> Result<Self, clap::Error> {
        Self::try_parse_from(["becket", "--print"])
    }
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Input and output")]
#[expect(clippy::struct_field_names, reason = "fields are named as the options they are")]
pub(crate) struct Output {
    /// Format of standard output.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    pub output_format: OutputFormat,
    /// Format of standard input: text, or one JSON message per line, also while the agent works.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = InputFormat::Text)]
    pub input_format: InputFormat,
    /// Print minor notes on stderr too; with `--output-format json`, all events as one array.
    #[arg(long)]
    pub verbose: bool,
    /// With stream-json: print the answer as it arrives, as `stream_event` lines.
    #[arg(long)]
    pub include_partial_messages: bool,
    /// With stream-json input and output: print each user message once it is saved.
    #[arg(long)]
    pub replay_user_messages: bool,
    /// With stream-json: print the text of subagents too, not only their calls and results.
    #[arg(long)]
    pub forward_subagent_text: bool,
    /// With stream-json: print each message also as a record of a Claude Code transcript.
    #[arg(long)]
    pub session_mirror: bool,
    /// Require the answer to fit this JSON Schema: JSON text, or @FILE.
    #[arg(long, value_name = "SCHEMA")]
    pub json_schema: Option<String>,
    /// The same as --json-schema, from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "json_schema")]
    pub output_schema: Option<PathBuf>,
    /// Keep the session in the terminal's scrollback instead of using the full screen.
    #[arg(long, conflicts_with = "print")]
    pub inline: bool,
    /// Plain lines for screen readers; nothing is redrawn.
    #[arg(long, conflicts_with_all = ["print", "inline"])]
    pub ax: bool,
    /// Also write the final answer to this file.
    #[arg(short = 'o', long, value_name = "FILE", value_parser = values::named_file)]
    pub output_last_message: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
    StreamJson,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    #[default]
    Text,
    StreamJson,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct Limits {
    /// Maximum number of requests to the model in one turn; then the model wraps up, and becket exits with 3.
    #[arg(long, value_name = "N", value_parser = parse_positive_integer, allow_negative_numbers = true)]
    pub max_turns: Option<u64>,
    /// Maximum cost of the session in US dollars, checked before each request; then becket exits with 4.
    #[arg(long, value_name = "USD", value_parser = parse_positive_amount, allow_negative_numbers = true)]
    pub max_budget_usd: Option<f64>,
    /// Maximum number of tokens read and written, including cached ones; then becket exits with 4.
    #[arg(long, value_name = "N", value_parser = reject_zero, allow_negative_numbers = true)]
    pub max_tokens: Option<String>,
    /// Maximum time of a turn: seconds, or `10m`; then becket exits with 13.
    #[arg(long, value_name = "TIME", value_parser = reject_zero, allow_negative_numbers = true)]
    pub max_wall: Option<String>,
    /// Longest single wait for a rate limit, or for a model that is being loaded: seconds, or `10m`. If a server
    /// asks for more, becket exits with 7.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub max_wait: Option<String>,
    /// Wait as long as necessary if the provider's quota is used up, and then continue.
    #[arg(long)]
    pub wait_for_quota: bool,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// `anthropic/NAME`, `openai/NAME` (also for every compatible server), `script:FILE`, or `replay:FILE` for a run that
    /// `--record` wrote (also BECKET_MODEL).
    #[arg(long)]
    pub model: Option<String>,
    /// Models to use, in order, when the first one has no key or fails.
    #[arg(long, value_delimiter = ',', value_name = "MODEL")]
    pub fallback_model: Vec<String>,
    /// Reasoning effort of the model: off, minimal, low, medium, high, xhigh or max.
    #[arg(long, value_name = "LEVEL")]
    pub effort: Option<String>,
    /// Write all requests and answers to a new file. `--model replay:FILE` plays it back without network and key.
    #[arg(long, value_name = "FILE", value_parser = values::named_file)]
    pub record: Option<PathBuf>,
    /// Pin becket's version, model, tools and rules in this file; if it exists, run only if they are the same.
    #[arg(long, value_name = "FILE", value_parser = values::named_file)]
    pub locked: Option<PathBuf>,
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
    /// Replace becket's system prompt with the text of a file.
    #[arg(long, value_name = "FILE")]
    pub system_prompt_file: Option<PathBuf>,
    /// Add to the system prompt.
    #[arg(long, value_name = "TEXT", conflicts_with = "append_system_prompt_file")]
    pub append_system_prompt: Option<String>,
    /// Add the text of a file to the system prompt.
    #[arg(long, value_name = "FILE")]
    pub append_system_prompt_file: Option<PathBuf>,
    /// Add to the system prompt of every subagent.
    #[arg(long, value_name = "TEXT")]
    pub append_subagent_system_prompt: Option<String>,
    /// Send the working directory and date in a message, so that the system prompt, and the provider's cache of it, is the
    /// same for all users.
    #[arg(long)]
    pub exclude_dynamic_system_prompt_sections: bool,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tools and permissions")]
#[expect(clippy::struct_field_names, reason = "fields are named as the options they are")]
pub(crate) struct Permissions {
    /// Rules that allow calls, e.g. `Bash(git *)` `Edit`.
    #[arg(long = "allowedTools", alias = "allowed-tools", num_args = 1.., value_name = "RULE")]
    pub allowed_tools: Vec<String>,
    /// Rules that deny calls; a rule that is only a tool name removes the tool.
    #[arg(long = "disallowedTools", alias = "disallowed-tools", num_args = 1.., value_name = "RULE")]
    pub disallowed_tools: Vec<String>,
    /// Tools that the model may use: a list, "" for none, "default" for all.
    #[arg(long, value_name = "NAMES")]
    pub tools: Option<String>,
    /// Permission mode, which decides which calls run without a question: default, acceptEdits, auto, plan,
    /// dontAsk or bypassPermissions.
    #[arg(long, value_name = "MODE")]
    pub permission_mode: Option<String>,
    /// Sandbox for commands: auto, required (workspace-write), read-only or off (danger-full-access).
    #[arg(long, value_name = "LEVEL")]
    pub sandbox: Option<String>,
    /// Allow everything that no rule denies. Use it only where no harm can be done, such as in a container.
    #[arg(long)]
    pub dangerously_skip_permissions: bool,
    /// In this run, use the project's hooks, MCP servers, commands, skills and .claude/settings.json without showing them first.
    #[arg(long)]
    pub trust: bool,
    /// Allow tools to use this directory too.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub add_dir: Vec<PathBuf>,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Session")]
pub(crate) struct SessionArgs {
    /// Continue the newest session of this directory.
    #[arg(short = 'c', long = "continue")]
    pub continue_: bool,
    /// Continue this session: its id, the start of its id, or its title. In a terminal, without a name: choose from a list.
    #[arg(short = 'r', long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "", conflicts_with = "continue_")]
    pub resume: Option<String>,
    /// Use this id for the new session, or for the copy that --fork-session makes.
    #[arg(long, value_name = "UUID")]
    pub session_id: Option<String>,
    /// With --continue or --resume: continue in a copy.
    #[arg(long)]
    pub fork_session: bool,
    /// With --continue or --resume: continue in a copy that ends with this message.
    #[arg(long, value_name = "UUID")]
    pub resume_session_at: Option<String>,
    /// With --continue or --resume: take the session over from another process, which can then no longer
    /// write to it.
    #[arg(long, conflicts_with = "fork_session")]
    pub take_over: bool,
    /// Save nothing on disk; with --continue or --resume, continue in a copy that is not saved.
    #[arg(long, alias = "ephemeral")]
    pub no_session_persistence: bool,
    /// Set the title of the session.
    #[arg(short = 'n', long, value_parser = values::title)]
    pub name: Option<String>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct ConfigArgs {
    /// Settings that override the files: JSON text, or a file (JSON or TOML).
    #[arg(long, value_name = "FILE|JSON")]
    pub settings: Option<String>,
    /// Settings files to read: user, project, local.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub setting_sources: Option<Vec<String>>,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

/// The subcommands. They are recognized by their first word only.
#[derive(Debug, Parser)]
#[command(name = "becket", version, disable_help_subcommand = true)]
pub(crate) struct Sub {
    #[command(subcommand)]
    pub command: Subcommands,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Subcommands {
    /// Watch becket fix a failing test with a scripted model: no key, no network.
    Demo(DemoArgs),
    /// Run a task with the arguments and the JSON lines of `codex exec`.
    Exec(Box<ExecArgs>),
    /// Repeat a session's messages in a fork of it with another model.
    Replay(ReplayArgs),
    /// List and search sessions; rename, fork, compare, archive or remove them.
    Sessions(SessionsArgs),
    /// Show what the model sees now, with tokens and origin, and edit it.
    Context(ContextArgs),
    /// Compact a session: preview what would be lost, apply it, undo it.
    Compact(CompactArgs),
    /// Show the cost of a session by model, purpose and subagent, or of all since a day.
    Cost(CostArgs),
    /// Check models, configuration and storage; with `session ID`, explain one session.
    Doctor(DoctorArgs),
    /// Show every setting with its value and its source.
    Config(ConfigCommandArgs),
    /// List the models that becket knows, and with --remote those of servers.
    Models(ModelsArgs),
    /// List the agents of this folder, with the file that defines each.
    Agents(AgentsArgs),
    /// Save the key of a provider in the system's keychain, or in a private file.
    Login(LoginArgs),
    /// Remove the saved key of a provider from the keychain and that file.
    Logout(LogoutArgs),
    /// Show which providers have a key, and its source.
    Auth(AuthArgs),
    /// Write a session as JSONL, Markdown or one HTML page.
    Export(ExportArgs),
    /// Import a session of becket, Claude Code, Codex or opencode.
    Import(ImportArgs),
    /// Draw the screen for a file of events, as SVG, PNG or text.
    Screenshot(ScreenshotArgs),
    /// Undo the changes that tool calls made to files, after showing them.
    Undo(UndoArgs),
    /// Redo the last undo.
    Redo(RedoArgs),
    /// Go back to before a message: conversation, files or both.
    Rewind(RewindArgs),
    /// Run a command in the sandbox, or show how commands are confined here.
    Sandbox(SandboxArgs),
    /// Explain the decision about a call, list the rules, or test them in CI.
    Permissions(PermissionsCommandArgs),
    /// List the configured hooks, or test the hooks of an event.
    Hooks(HooksCommandArgs),
    /// List the permission decisions of all sessions, with their reasons.
    Audit(AuditArgs),
    /// Check that a session's ledger has not been changed.
    Verify(VerifyArgs),
    /// Add, list, check, authorize and remove MCP servers.
    Mcp(McpCommandArgs),
    /// Print help for becket or for a command: `becket help sessions fork`.
    Help(HelpArgs),
    /// Print the version.
    Version,
    /// Print a completion script for your shell.
    Completions(CompletionsArgs),
    /// Print the manual page of becket or of a command.
    Man(HelpArgs),
}

/// First words that are subcommands. Any other first word starts a run.
pub(crate) const SUBCOMMANDS: &[&str] = &[
    "demo",
    "exec",
    "replay",
    "sessions",
    "context",
    "compact",
    "cost",
    "doctor",
    "config",
    "models",
    "agents",
    "login",
    "logout",
    "auth",
    "export",
    "import",
    "screenshot",
    "undo",
    "redo",
    "rewind",
    "sandbox",
    "permissions",
    "hooks",
    "audit",
    "verify",
    "mcp",
    "help",
    "version",
    "completions",
    "man",
];

#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// The command, and optionally its subcommand.
    #[arg(value_name = "COMMAND")]
    pub path: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ScreenshotArgs {
    /// The file of events: one JSON object per line.
    pub events: PathBuf,
    /// File to write: `.svg`, `.png`, or `.txt` for only the text.
    #[arg(short, long)]
    pub output: PathBuf,
    /// Size of the screen, as COLUMNSxROWS.
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "120x40", value_parser = size)]
    pub size: (u16, u16),
    /// Colour theme: dark or light.
    #[arg(long, default_value = "dark")]
    pub theme: String,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Parses `120x40`.
fn size(text: &str) -> Result<(u16, u16), String> {
    let sides =
        text.split_once('x').and_then(|(columns, rows)| Some((columns.parse().ok()?, rows.parse().ok()?)));
    sides
        .filter(|(columns, rows)| (1..=500).contains(columns) && (1..=500).contains(rows))
        .ok_or_else(|| "columns and rows from 1x1 to 500x500, such as 120x40".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the temporary repository and print its path.
    #[arg(long)]
    pub keep: bool,
    /// Print one JSON object at the end instead of the running commentary.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The session: its id, the start of its id, or its title; by default the newest one of this directory.
    pub session: Option<String>,
    /// Format of the file.
    #[arg(long, value_enum, default_value_t = ExportFormat::Md)]
    pub format: ExportFormat,
    /// File to write; without it, or as `-`, standard output.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// With -o: replace the file if it exists.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// With -o: print a JSON object about the written file.
    #[arg(long, requires = "output")]
    pub json: bool,
    /// With jsonl: also write the blobs (long outputs, images, snapshots of files), one per line.
    #[arg(long)]
    pub blobs: bool,
    /// With jsonl: write an exact copy, without masking secrets.
    #[arg(long)]
    pub with_secrets: bool,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    Jsonl,
    Md,
    Html,
}

impl Subcommands {
    /// Returns the plugin folders of a subcommand that lists or tests agents, hooks or servers, as plugins may define these.
    pub(crate) fn plugin_dirs(&self) -> Vec<crate::plugins::PluginDir> {
        match self {
            Self::Agents(args) => args.plugins.dirs(),
            Self::Hooks(args) => match &args.what {
                HooksWhat::List { plugins, .. } | HooksWhat::Test { plugins, .. } => plugins.dirs(),
            },
            Self::Mcp(args) => match &args.what {
                McpWhat::List { plugins, .. } | McpWhat::Get { plugins, .. } => plugins.dirs(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn definitions_are_sound() {
        run_command().debug_assert();
        whole_command().debug_assert();
        Sub::command().debug_assert();
        let listed: Vec<String> = Sub::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
        assert_eq!(listed, SUBCOMMANDS);
    }

    /// Every command and every option has a description.
    #[test]
    fn everything_is_explained() {
        fn look(command: &clap::Command, path: &str) {
            assert!(command.get_about().is_some(), "{path}");
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(arg.get_help().is_some(), "{path} {}", arg.get_id());
            }
            for sub in command.get_subcommands() {
                look(sub, &format!("{path} {}", sub.get_name()));
            }
        }
        look(&whole_command(), "becket");
        for name in SUBCOMMANDS {
            let listed = format!("\n  {name} ");
            let about = whole_command().find_subcommand(name).unwrap().get_about().unwrap().to_string();
            assert!(about.len() <= 80, "one line: {about}");
            assert!(run_command().render_help().to_string().contains(&listed), "{name}");
        }
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
