//! Options that are only for programs that drive becket.

use clap::Args;
use std::path::PathBuf;

/// Options for programs that drive becket.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "For programs that drive becket")]
pub(crate) struct SdkArgs {
    /// Source of the answers to permission questions: `stdio` asks the driving program over standard input and output.
    #[arg(long, value_name = "NAME")]
    pub permission_prompt_tool: Option<String>,
    /// Answerer of permission questions: `host`, as --permission-prompt-tool says, or `none`, which denies such calls.
    #[arg(long, value_name = "WHO", value_parser = ["host", "none"])]
    pub permission_prompts: Option<String>,
    /// Reasoning of the model: adaptive, or disabled, which means the effort low. --effort overrides it.
    #[arg(long, value_name = "HOW", value_parser = ["adaptive", "disabled"])]
    pub thinking: Option<String>,
    /// Maximum number of reasoning tokens, which chooses the nearest effort. --effort overrides it.
    #[arg(long, value_name = "N")]
    pub max_thinking_tokens: Option<u64>,
    /// With stream-json: print a line when a hook runs, and one with its result.
    #[arg(long)]
    pub include_hook_events: bool,
    /// With --resume-session-at: the uuid of the prompt of the only turn that the copy may leave out.
    #[arg(long, value_name = "UUID", requires = "resume_session_at")]
    pub resume_drops_turn: Option<String>,
    /// Write everything that becket prints to this file too.
    #[arg(long, value_name = "FILE")]
    pub debug_file: Option<PathBuf>,
    /// Let the driving program change to the permission mode bypassPermissions while the session runs.
    #[arg(long)]
    pub allow_dangerously_skip_permissions: bool,
    /// Rules that nothing in the run can remove: settings of Claude Code with `permissions.deny` and `permissions.ask`.
    #[arg(long, value_name = "JSON")]
    pub managed_settings: Option<String>,
    /// The managed settings come with the request `initialize`.
    #[arg(long, conflicts_with = "managed_settings")]
    pub managed_settings_in_initialize: bool,
    /// Options that come with the request `initialize`: `settings`, `disallowedTools`, or both.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub initialize_fields: Vec<String>,
}
