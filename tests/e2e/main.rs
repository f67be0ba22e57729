//! End to end: the built binary against real HTTP, in a home of its own. One file a subject; one test binary for all.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests; they say what they skip"
)]

mod after_result;
mod agents;
mod auxiliary;
mod bad_input;
mod before_trust;
mod body_limit;
mod claude_settings;
mod command_line;
mod command_terms;
mod compact;
mod compaction;
mod cost;
mod denied_files;
mod device_login;
mod documented;
mod exec;
mod faults;
mod federation;
mod file_tools;
mod first_run;
mod formats;
mod hook_answers;
mod hooks;
mod hostile_folders;
mod inspected_run;
mod inspector;
mod introduction;
mod keyboard;
mod kills;
mod locked;
mod long_answers;
mod machines;
mod managed;
mod mcp;
mod mcp_audience;
mod mcp_hostile;
mod mcp_login;
mod mcp_peers;
mod mcp_questions;
mod mcp_secrets;
mod mistakes;
mod model_questions;
mod models;
mod odd_names;
mod parallel;
mod permissions;
mod plain_answers;
mod plain_lines;
mod portable;
mod present;
mod processes;
mod providers;
mod reach;
mod read_only;
mod recall;
mod recording;
mod replay;
mod request_fields;
mod sandbox;
mod sandbox_killed;
mod sdk_answers;
mod sdk_interrupts;
mod sdk_long_inputs;
mod sdk_messages;
mod sdk_options;
mod sdk_requests;
mod sdk_turns;
mod sdk_types;
mod sdks;
mod secrets;
mod session_end;
mod session_requests;
mod sizes;
mod small_window;
mod steering;
mod storage;
mod subagents;
mod subcommands;
mod support;
mod tasks;
mod terminal;
mod told;
mod undo;
mod undo_again;
mod unjudged;
mod unreadable;
mod which_session;
mod workspace;
mod wrong_providers;
