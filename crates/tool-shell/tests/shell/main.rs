//! Real commands in real processes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up fails the test")]

mod commands;
mod exits;
mod jobs;
mod limits;
mod nasties;
mod room;
mod stdin;
mod terminal;
