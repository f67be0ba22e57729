//! The driver against a scripted model: every rule of the loop, without a network and without sleeping.

mod answers;
mod compaction;
mod interrupt;
mod resume;
mod support;
mod tools;
mod turns;
