//! Hooks: programs, addresses, prompts and callbacks that are asked at moments of a session, and may decide about them.
//!
//! Owns the configuration of hooks, their matchers, the ways to run one (handlers), the meaning of exit codes and of Claude's
//! JSON, the limits of time and output, and how several answers become one.
//!
//! | module | what it is for |
//! |---|---|
//! | [`config`] | groups of hooks from JSON, and what is wrong with it |
//! | [`matcher`] | which tools a group is for |
//! | [`answer`] | exit codes and JSON into a decision |
//! | [`output`] | the JSON in what a hook printed |
//! | [`command`] | running a program within limits |
//! | [`http`] | asking an address |
//! | [`engine`] | finds the hooks of a call, runs them beside one another, joins their answers |
//!
//! Invariants:
//! - A hook that cannot be run, hangs, floods or prints nonsense never stops the session by itself: people get one line, and
//!   the judged action goes on, or is refused if the hook has `on_failure: block`.
//! - The strictest answer wins: deny, then defer, then ask, then allow.
//!
//! Decides nothing about trust: whoever makes an engine hands in only hooks that may run. Prints nothing, reads no environment.

pub mod answer;
pub mod command;
pub mod config;
pub mod engine;
pub mod http;
pub mod matcher;
pub mod output;

pub use config::{Group, Handler, Kind, Origin, Parsed, Source, Within, parse};
pub use engine::{Ask, CallTool, Callback, Engine, EngineSettings, MatchesRule, Question, TakeExports};
