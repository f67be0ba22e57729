//! The parts of [`super::RunSettings`], each with what one owner needs. Data, and those parts that
//! follow from flags alone.

use super::host::HostLimits;
use crate::agents::GivenAgents;
use crate::args::{InputFormat, Output, OutputFormat, SdkArgs};
use crate::interactive::elicitation::AskUser;
use becket_print::{Format, Schema};
use becket_types::{MessageId, SessionId};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The folders in which the run works, and the trust in what they contain.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub cwd: PathBuf,
    /// The working directory and every further directory, canonical.
    pub roots: Vec<PathBuf>,
    /// The part of `roots` that was added for this run or by the session. The session keeps these folders.
    pub added: Vec<PathBuf>,
    /// The project is trusted, or contains nothing that needs trust.
    pub trusted: bool,
    /// `--trust`: programs that the project brings (hooks, servers, commands) count as trusted in this run.
    pub trust_content: bool,
}

/// The task as it comes from the command line.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub prompt: Option<String>,
    /// Text for the composer at the start of an interactive session. It is not sent until the user presses Enter.
    pub draft: Option<String>,
    /// Advice if there is no prompt.
    pub no_prompt: &'static str,
    /// Images that are sent with the prompt.
    pub images: Vec<becket_types::Part>,
}

/// Output of a headless run.
#[derive(Clone, Debug)]
pub(crate) struct OutputSettings {
    pub format: Format,
    /// `--verbose`: minor notes are printed too.
    pub verbose: bool,
    /// `--include-partial-messages`: the answer is printed as it arrives.
    pub partial: bool,
    /// `--replay-user-messages`: each user message is printed once it is saved.
    pub replay: bool,
    /// `--forward-subagent-text`: the text of subagents is printed too.
    pub subagent_text: bool,
    /// `--session-mirror`: messages are printed as records of a transcript too.
    pub mirror: bool,
    /// `--include-hook-events`: runs of hooks are printed.
    pub hook_events: bool,
    /// `--debug-file`: everything that is printed goes to this file too.
    pub debug_file: Option<PathBuf>,
    /// `--json-schema`: the schema that the answer must fit.
    pub schema: Option<Arc<Schema>>,
    /// A file that also gets the answer.
    pub last_message: Option<PathBuf>,
}

impl OutputSettings {
    /// `schema`: the schema that the flags name.
    pub(crate) fn new(args: Output, sdk: &SdkArgs, schema: Option<Arc<Schema>>) -> Self {
        Self {
            format: match args.output_format {
                OutputFormat::Text => Format::Text,
                OutputFormat::Json => Format::Json,
                OutputFormat::StreamJson => Format::StreamJson,
            },
            verbose: args.verbose,
            partial: args.include_partial_messages,
            replay: args.replay_user_messages,
            subagent_text: args.forward_subagent_text,
            mirror: args.session_mirror,
            hook_events: sdk.include_hook_events,
            debug_file: sdk.debug_file.clone(),
            schema,
            last_message: args.output_last_message,
        }
    }
}

/// Texts of the user for the system prompt.
#[derive(Clone, Debug, Default)]
pub(crate) struct SystemPrompts {
    pub replace: Option<String>,
    pub append: Option<String>,
    /// Text for the system prompts of all subagents.
    pub append_to_subagents: Option<String>,
    /// Working directory and date are sent in a message, so that the system prompt is the same for all users.
    pub environment_as_message: bool,
    /// Instructions for permission mode `plan`.
    pub plan: Option<String>,
}

/// The session of the run, and how the run keeps it.
#[derive(Clone, Debug)]
pub(crate) struct SessionPlan {
    /// `--resume` without a name: an interactive session begins with the list of sessions.
    pub choose: bool,
    pub choice: SessionChoice,
    /// Take the session over even if another process has it open.
    pub take_over: bool,
    /// The session is saved on disk.
    pub persist: bool,
    /// The session is only shown: nothing is sent to the model, and nothing is changed.
    pub only_shown: bool,
    /// A new session takes the place of one whose conversation the user has cleared.
    pub cleared: bool,
    pub title: Option<String>,
}

/// The program that drives the run, if one does.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// An SDK or another program drives the run.
    pub driven: bool,
    /// The arguments of the run, if that program may complete them with its first request.
    pub arguments: Option<Box<crate::args::Run>>,
    /// Permission questions are sent to that program.
    pub asks_host: bool,
    /// Format of its messages on standard input.
    pub input: InputFormat,
    /// MCP servers in the process of that program.
    pub host_servers: Option<becket_mcp::HostServers>,
    /// Asks the user of an interactive session the questions of MCP servers.
    pub ask_user: Option<AskUser>,
    /// Rules for tools of the servers in the driving program's process.
    pub policies: ServerPolicies,
    /// The tool of an MCP server that decides about permissions in place of the driving program.
    pub permission_tool: Option<String>,
    /// Limits that the driving program sets for the run.
    pub limits: HostLimits,
    /// Notes about options and fields of the driving program that have no effect.
    pub unused: Vec<String>,
}

/// Rules and time limits that a program gives with the servers of its own process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerPolicies {
    /// Rules for tools whose calls need a question in every mode.
    pub ask: Vec<String>,
    /// Rules for tools whose calls are denied.
    pub deny: Vec<String>,
    /// Time limit of a call, by the name of the server.
    pub timeouts: BTreeMap<String, Duration>,
}

impl ServerPolicies {
    /// Adds the rules of one server: `{tools: [{name, permission_policy}], timeout}`. A policy that is unknown asks.
    pub(crate) fn add(&mut self, server: &str, settings: &Value) {
        for tool in settings.get("tools").and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = tool.get("name").and_then(Value::as_str) else { continue };
            let rule = becket_mcp::naming::tool_name(server, name, &BTreeSet::new());
            match tool.get("permission_policy").and_then(Value::as_str) {
                Some("always_allow") | None => {}
                Some("always_deny") => self.deny.push(rule),
                Some(_) => self.ask.push(rule),
            }
        }
        // The number counts milliseconds. A limit below one second is probably a mistake, so it is ignored.
        let timeout = settings.get("timeout").and_then(Value::as_u64).filter(|limit| *limit >= 1_000);
        if let Some(limit) = timeout {
            self.timeouts.insert(server.to_owned(), Duration::from_millis(limit));
        }
    }
}

/// Servers, agents and skills that the run names, in addition to those of files.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    pub mcp: crate::args::McpArgs,
    /// Agents that the run names. They override those of files.
    pub agents: GivenAgents,
    /// Only these skills are offered.
    pub only_skills: Option<Vec<String>>,
    /// Other names that a program gives to tools, each with becket's own name of the tool.
    pub tool_aliases: BTreeMap<String, String>,
}

/// The form of an interactive session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    Full,
    /// In the terminal's own scrollback.
    Inline,
    /// In plain lines for screen readers.
    Lines,
}

impl Screen {
    /// `term`: the kind of the terminal, as `TERM` names it.
    pub(crate) fn of(args: &Output, term: Option<&str>) -> Self {
        match args {
            Output { ax: true, .. } => Self::Lines,
            Output { inline: true, .. } => Self::Inline,
            // A dumb terminal cannot redraw lines.
            _ if term == Some("dumb") => Self::Lines,
            _ => Self::Full,
        }
    }
}

/// Files that describe a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunFiles {
    /// `--record`: the file for a recording of all requests and answers.
    pub record: Option<PathBuf>,
    /// `--locked`: a file with everything that the run depends on, which must not have changed since the file was written.
    pub locked: Option<PathBuf>,
    /// The run repeats a message of a stored session.
    pub replay: Option<Replay>,
}

/// A run that repeats a message of a stored session. Its prompt is complete: standard input is not read.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    /// Results of calls; `None`: the tools run.
    pub recorded: Option<Arc<crate::recorded_results::RecordedResults>>,
}

/// A subcommand that opens a session as an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForCommand {
    /// No model is called, so no key is needed.
    pub asks_no_model: bool,
    /// The model that writes summaries instead of the session's model.
    pub summary_model: Option<String>,
}

/// The session that the run continues or creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionChoice {
    New { id: Option<SessionId> },
    Continue { fork: Option<Fork> },
    Resume { query: String, fork: Option<Fork> },
}

/// The run continues in a copy, which gets this id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fork {
    pub id: Option<SessionId>,
    /// The last message of the copy; `None`: the copy has all.
    pub at: Option<MessageId>,
    /// The prompt of the only turn that the copy may leave out.
    pub drops: Option<MessageId>,
}
