//! For tests only: a mock model server over real HTTP, request shapes, temporary projects.
//!
//! Owns what tests of several crates need and production code may not contain. Knows `types` only.
//!
//! - [`MockServer`] serves HTTP/1.1 on a loopback port from its own thread, so it works for async tests,
//!   blocking tests and child processes. It uses plain sockets, because a web framework does not let a test
//!   cut, stall or falsify a response at an exact byte.
//! - [`Answer`] is a model's answer, independent of an API. [`Reply`] is one HTTP response with its faults.
//! - [`shape`] renders a recorded request as numbered lines. [`assert_prefix`] checks that each request
//!   continues the previous one byte for byte.
//! - [`Project`] is a temporary directory.
//!
//! Nothing here sleeps: a delay is a [`Gate`] that the test opens.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test support: a failure in here is a failed test"
)]

mod answer;
pub mod converse;
mod gate;
mod http;
mod project;
mod reply;
mod server;
mod shape;
mod stream;
mod wires;

pub use answer::{Answer, Wire};
pub use gate::Gate;
pub use http::Recorded;
pub use project::Project;
pub use reply::Reply;
pub use server::MockServer;
pub use shape::{assert_prefix, prefix_breaks, shape};
