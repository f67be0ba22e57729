//! Attacks on confined commands, with real processes, on every backend that this machine has. Each table is one kind of
//! harm; the oracle is what lies outside before and after, and what the listeners saw.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests; tests say what they skip")]

mod attacks;
mod denied;
#[path = "../../../guard/tests/disk/dice.rs"]
mod dice;
mod ground;
mod limits;
mod machines;
mod network;
mod programs;
mod races;
mod sockets;
mod unjudged;
