//! The agent loop: takes prompts, asks the model, runs its tool calls, and stops when nothing is owed.
//!
//! | module | what it is for |
//! |---|---|
//! | [`machine`] | what is next: a pure state machine |
//! | [`repetition`] | the guard against the same calls again and again |
//! | [`rules`] | AGENTS.md and CLAUDE.md |
//! | [`prompt`] | the system prompt |

pub mod machine;
pub mod prompt;
pub mod repetition;
pub mod rules;
