//! The agent loop: takes prompts, asks the model, runs its tool calls, and stops when nothing is left to do.
//!
//! Owns the loop, the inbox, the tool calls of a turn, rules files, the system prompt, the limits of a turn
//! and the guard against repetition. Knows session, model, tool and guard. Concrete tools and providers are
//! passed in by the caller.
//!
//! | module | contents |
//! |---|---|
//! | [`machine`] | decides the next action: a pure state machine |
//! | [`driver`] | carries the actions out: the async shell |
//! | [`settings`] | the parts and settings of an agent |
//! | [`hooks`] | the question to hooks |
//! | [`host`] | services of the session for its tools |
//! | [`repetition`] | detects repeated calls |
//! | [`rules`] | AGENTS.md and CLAUDE.md |
//! | [`prompt`] | the system prompt |
//! | `kind` | kinds of agents: their tools, modes and prompts |
//! | [`subagent`] | the `task` tool |
//! | [`undo`] | undo, redo and rewind of a session |
//! | [`watch`] | detects changes by others to files that the model uses |
//!
//! Prints nothing, reads no environment and no HOME, never exits the process.

mod answer;
pub mod driver;
mod growing_text;
pub mod hooks;
pub mod host;
mod kind;
pub mod machine;
pub mod prompt;
mod quota;
pub mod repetition;
mod reply_error;
pub mod rules;
pub mod settings;
mod spend;
mod spending;
pub mod subagent;
mod sync;
pub mod undo;
pub mod watch;
mod written_calls;

pub use driver::{ADDED_FOLDERS, Agent, AgentHandle, HookBudget, HookRequest, Live, Queries, Query};
pub use settings::{
    AgentParts, AgentSettings, Asking, Auxiliary, Confinement, FindModel, HookAgent, HookSettings,
    LimitSettings, NewLimits, RequestSettings, RunLimits, SecretOutputs, SessionSettings, SettingsFile,
    ToolSettings, scope,
};
