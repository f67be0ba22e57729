//! What a tool is: the [`Tool`] trait, the registry, limits on output, and path safety.
//!
//! Owns what all tools share. Knows `types` only; holds no concrete tool, no permission rule, no session.
//!
//! Invariants:
//! - A tool never asks for permission and never checks one: it says what a call would touch ([`Tool::access`]), the
//!   guard decides, and what runs is what was shown.
//! - Output that reaches the model is bounded; what is cut is spilled whole and named.

use becket_types::{Access, BlobId, CallId, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A tool the model can call.
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// What this call would touch, without touching it. `Err` is a message for the model (bad input).
    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String>;

    /// Runs the call. Never panics on bad input: every failure is an output with `is_error`.
    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput>;

    /// Its outputs are never pruned (T9).
    fn protected(&self) -> bool {
        false
    }
}

/// Where a call runs: one per call.
#[derive(Clone)]
pub struct ToolEnv {
    /// Working directory of the session: relative paths start here.
    pub cwd: PathBuf,
    /// Directories the session may use without asking: the project and `--add-dir`. Canonical.
    pub roots: Arc<[PathBuf]>,
    pub call_id: CallId,
    pub cancel: CancellationToken,
    /// Live output for front ends; chunks are cleaned text.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
    pub host: Arc<dyn Host>,
}

impl ToolEnv {
    /// `path` against the working directory, `.` and `..` folded, `~` left alone.
    pub fn resolve(&self, path: &str) -> PathBuf {
        lexical(&self.cwd.join(path))
    }
}

fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                out.pop();
            }
            std::path::Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// What the session offers its tools. Implemented by the agent; a test double in tests.
pub trait Host: Send + Sync {
    /// Keeps bytes in the session's blob store (spilled outputs, images).
    fn put_blob(&self, bytes: &[u8]) -> Result<BlobId, String>;
    fn get_blob(&self, id: &BlobId) -> Option<Vec<u8>>;
    /// A file was read whole or in part: its hash then. The stale-file guard and the session state use it.
    fn note_read(&self, path: &Path, sha256: &str);
    /// The hash under which the file was last read or written by us, if ever.
    fn read_hash(&self, path: &Path) -> Option<String>;
    /// Named session state that survives compactions (`todo`, …).
    fn state(&self, key: &str) -> Option<Value>;
    fn set_state(&self, key: &str, value: Value);
    /// The original output of an earlier call, for `recall`: `(tool name, whole output)`.
    fn original_output(&self, call: &CallId) -> Option<(String, String)>;
}
