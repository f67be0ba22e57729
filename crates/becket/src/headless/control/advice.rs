//! Control requests of the official SDK that becket does not carry out, each with what to use instead.
//!
//! A request that becket answers has no row. `tests/e2e/sdk_types.rs` compares the rows with the installed package.

/// Names of requests, and what to do instead.
const INSTEAD: &[(&[&str], &str)] = &[
    (
        &["can_use_tool", "elicitation", "hook_callback", "mcp_message", "request_user_dialog"],
        "becket sends this request; a program answers it",
    ),
    (&["channel_enable"], "becket receives no messages of channels; send them as messages of the user"),
    (&["claim_session"], "a process has one session from its start; start a process for each"),
    (
        &["claude_authenticate", "claude_oauth_callback", "claude_oauth_wait_for_completion"],
        "give the provider's key in the environment, or log in with: becket login",
    ),
    (&["export_conversation"], "use: becket export ID"),
    (
        &["get_chrome_browsers", "get_chrome_dialog", "select_chrome_browser", "set_chrome_browser_hints"],
        "becket controls no browser; add an MCP server that does",
    ),
    (&["get_memory_dialog"], "`get_context_usage` lists the files of rules"),
    (&["get_plan"], "a plan comes with `can_use_tool` for ExitPlanMode"),
    (&["get_sandbox_dialog"], "use: becket sandbox"),
    (&["get_skills_dialog"], "`reload_skills` and `system/init` list the skills"),
    (&["get_status"], "`system/init`, `get_settings` and `mcp_status` have these facts"),
    (
        &["mcp_authenticate", "mcp_clear_auth", "mcp_oauth_callback_url"],
        "use: becket mcp login NAME, or becket mcp logout NAME; then `mcp_reconnect`",
    ),
    (&["message_rated", "submit_feedback", "submit_survey_feedback"], "becket sends no feedback to anybody"),
    (&["prompt_draft_activity", "set_prompt_suggestions_paused"], "becket suggests no prompts"),
    (&["remote_control"], "run becket on the other machine: ssh HOST becket"),
    (&["set_color"], "a session has no colour; the program chooses its own"),
    (
        &["set_cwd"],
        "a session stays in its directory; `add_directory` adds one, and another session begins elsewhere",
    ),
    (&["ultrareview_launch"], "send the message `/review`"),
];

/// Returns the answer to a request that is not carried out.
pub(super) fn refusal(subtype: &str) -> String {
    let row = INSTEAD.iter().find(|(names, _)| names.contains(&subtype));
    let instead = row.map_or("docs/headless.md lists the requests that becket knows", |(_, instead)| instead);
    format!("control request {subtype:?} is not supported: {instead}")
}
