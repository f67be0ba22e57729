//! End to end: the built binary against real HTTP, in a home of its own. One file a subject; one test binary for all.
#![expect(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "tests")]

mod bad_input;
mod compaction;
mod faults;
mod formats;
mod kills;
mod parallel;
mod processes;
mod reach;
mod steering;
mod subcommands;
mod support;
mod tasks;
mod undo;
