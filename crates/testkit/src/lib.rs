//! For tests only: a mock model server over real HTTP, request shapes, scratch projects.
//!
//! Owns what several crates' tests need and no shipped code may have. Knows `types` only.
//!
//! - [`MockServer`] speaks HTTP/1.1 on a loopback port from a thread of its own, so it serves async tests, blocking
//!   tests and child processes alike. It works on plain sockets, because a web framework does not let a test cut, stall
//!   or falsify a response at an exact byte.
//! - [`Answer`] says what a model answers, apart from any wire; [`Reply`] is one HTTP response and what goes wrong in it.
//! - [`shape`] renders a recorded request as numbered lines; [`assert_prefix`] checks that each request continues the
//!   one before byte for byte.
//! - [`Project`] is a scratch directory.
//!
//! Nothing here sleeps: delays are a [`Gate`] that the test opens.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test support: a failure in here is a failed test"
)]

mod answer;
mod gate;
mod http;
mod project;
mod reply;
mod server;
mod shape;

pub use answer::{Answer, Wire};
pub use gate::Gate;
pub use http::Recorded;
pub use project::Project;
pub use reply::Reply;
pub use server::MockServer;
pub use shape::{assert_prefix, prefix_breaks, shape};
