//! The agent loop: takes prompts, asks the model, runs its tool calls, and stops when nothing is owed.
//!
//! Owns the loop (T1), the inbox, the tool calls of a turn, rules files, the system prompt, the limits of a turn and the
//! guard against repetition. Knows session, model, tool and guard; never a concrete tool or provider: they are handed in.
//!
//! | module | what it is for |
//! |---|---|
//! | [`machine`] | what is next: a pure state machine |
//! | [`driver`] | carries it out: the async shell |
//! | [`settings`] | what an agent is made of |
//! | [`host`] | what the session offers its tools |
//! | [`repetition`] | the guard against the same calls again and again |
//! | [`rules`] | AGENTS.md and CLAUDE.md |
//! | [`prompt`] | the system prompt |
//! | [`subagent`] | the kinds of subagents, and the `task` tool |
//! | [`undo`] | undo, redo and rewind of a session |
//! | [`watch`] | files in play that somebody else changes |
//!
//! Prints nothing, reads no environment and no HOME, exits nowhere.

mod answer;
pub mod driver;
pub mod host;
pub mod machine;
pub mod prompt;
pub mod repetition;
mod reply_error;
pub mod rules;
pub mod settings;
mod spend;
pub mod subagent;
pub mod undo;
pub mod watch;
mod written_calls;

pub use driver::{Agent, AgentHandle};
pub use settings::{AgentParts, AgentSettings, FindModel, SecretOutputs, scope};
