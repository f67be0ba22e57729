//! Records the state of files before a tool call, so that the call can be undone.
//!
//! Owns the index of a workspace (made by `stat` alone), the judgement of the files that a shell command puts at risk, the keeping
//! of contents in a blob store that the caller provides ([`Store`]), and the plans that restore files. The records are
//! `becket_types::FileSnapshot` and `FileChanges`; undo is derived from them and the blobs alone ([`History`]). Uses `types`,
//! `files` and `shell-syntax` only. Writes no ledger, asks no questions and prints nothing.
//!
//! | module | what it does |
//! |---|---|
//! | [`command`] | judges which files a shell command may destroy |
//! | `walk` | lists the workspace by `stat`, incrementally, with ignore rules |
//! | `git` | finds the files that a repository holds unchanged, and their objects |
//! | `keep` | writes contents into blobs, within the limits |
//! | [`recorder`] | looks at files before and after a call |
//! | [`history`] | knows the changes that can be undone and redone |
//! | [`plan`], [`mod@apply`] | plans an undo, and carries it out |
//! | `interrupted` | finds out how far an interrupted undo got |
//!
//! Invariants:
//! - Outside the data directory, only an undo changes files: [`apply::prepare`] may make a file readable, [`apply::apply`] restores
//!   files, and temporary files of an interrupted undo are removed. None of them follows a symbolic link.
//! - A content that could not be kept is named with the reason; nothing is left out in silence.

pub mod apply;
pub mod command;
mod git;
pub mod history;
mod interrupted;
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

/// A store of contents, by hash.
pub trait Store: Send + Sync {
    /// Keeps bytes and returns their SHA-256 in hex.
    fn put(&self, bytes: &[u8]) -> BlobId;
    /// Returns the bytes with this hash; `None` if they are missing or damaged.
    fn get(&self, id: &BlobId) -> Option<Vec<u8>>;
}
