//! The driver against a scripted model: every rule of the loop, without a network and without sleeping.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod answers;
mod compaction;
mod interrupt;
mod resume;
mod support;
mod tools;
mod turns;
