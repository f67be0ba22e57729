//! What files were before a tool call, so that the call can be undone.
//!
//! Owns the stat-only index of a workspace, the reading of what a shell command puts at risk, the keeping of contents in
//! a blob store that is handed in ([`Store`]), and the plans that bring files back. The records are
//! `becket_types::FileSnapshot` and `FileChanges`; undo is derived from them and the blobs alone ([`History`]).
//! Knows `types` only: it writes no ledger, asks nobody and prints nothing.
//!
//! | module | what it does |
//! |---|---|
//! | [`command`] | what a shell command may destroy |
//! | `walk` | the workspace by `stat`, incrementally, with ignore rules |
//! | `git` | which files a repository holds unchanged, and what it holds for them |
//! | `keep` | contents into blobs, within the caps |
//! | [`recorder`] | before and after a call |
//! | [`history`] | what can be undone and redone |
//! | [`plan`], [`mod@apply`] | what an undo would do, and doing it |
//!
//! Invariants:
//! - Nothing is written outside the data directory except by [`apply::apply`], which follows no symbolic link.
//! - What could not be kept is named with its reason; nothing is left out in silence.

pub mod apply;
pub mod command;
mod git;
pub mod history;
mod keep;
mod observe;
pub mod plan;
pub mod recorder;
mod side;
mod sys;
mod walk;

pub use apply::{Applied, apply};
pub use command::{GitRisk, Level, Risk};
pub use history::{Change, History};
pub use keep::Caps;
pub use plan::{Action, Plan, PlannedPath, plan_redo, plan_undo};
pub use recorder::{Before, Recorder, Settings, summary};

use becket_types::BlobId;

/// Where contents are kept, by hash.
pub trait Store: Send + Sync {
    /// Keeps bytes; the hex SHA-256 of them.
    fn put(&self, bytes: &[u8]) -> BlobId;
    /// What was kept under this name; `None` when it is missing or damaged.
    fn get(&self, id: &BlobId) -> Option<Vec<u8>>;
}
