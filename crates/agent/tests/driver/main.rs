//! The driver against a scripted model: every rule of the loop, without a network and without sleeping.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod answers;
mod background;
mod changes;
mod compaction;
mod failing_summaries;
mod forked;
mod interrupt;
mod limits;
mod prepare;
mod provider_cache;
mod queries;
mod reattach;
mod refusals;
mod resume;
mod rules_files;
mod side_question;
mod storage;
mod subagents;
mod support;
mod switching;
mod tools;
mod turn_terms;
mod turns;
mod undo;
mod unseen;
mod watch;
mod workspace;
