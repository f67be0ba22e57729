//! What a tool is: the [`Tool`] trait, the registry, limits on output, and path safety.
//!
//! Owns what all tools share. Knows `types` only; holds no concrete tool, no permission rule, no session.
//!
//! | module | what it is for |
//! |---|---|
//! | [`registry`] | tools by name, in stable order |
//! | [`input`] | the model's arguments as a typed value, or a message that says what is wrong |
//! | [`paths`] | resolving and opening paths without surprises |
//! | [`dir`] | writing in a directory that cannot be swapped for a link |
//! | [`contents`] | what files held when they were read, within bounds |
//! | [`hook`] | what happens around a call that changes files |
//! | [`limits`] | outputs that fit, and where the rest went |
//! | [`sniff`] | what a file is, by its first bytes |
//! | [`text`] | invisible characters, decoding, nearest names |
//! | [`testing`] | a [`Host`] for tests |
//!
//! Invariants:
//! - A tool never asks for permission and never checks one: it says what a call would touch ([`Tool::access`]), the
//!   guard decides, and what runs is what was shown.
//! - Output that reaches the model is bounded; what is cut is spilled whole and named.

pub mod contents;
pub mod dir;
pub mod hook;
pub mod input;
pub mod limits;
pub mod paths;
pub mod registry;
pub mod sniff;
mod sys;
pub mod testing;
pub mod text;

pub use contents::Contents;
pub use hook::{EditHook, EditNote};
pub use limits::{Keep, Limits, finish};
pub use paths::PathError;
pub use registry::{Registry, RegistryError};

use becket_types::{
    Access, BlobId, CallId, FilePreview, Part, Places, SandboxLevel, Seq, ToolOutput, ToolSpec,
};
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

    /// What the call would change, file by file, without changing anything and without the host learning of it. Empty where
    /// the tool cannot say, and where the call would be refused.
    fn preview(&self, _input: &Value, _env: &ToolEnv) -> Vec<FilePreview> {
        Vec::new()
    }

    /// The error for the model if the call cannot work, found without changing anything. The host learns what the error tells,
    /// as if the call had run: the caller gives it to the model. `None` where the tool cannot say.
    fn refusal(&self, _input: &Value, _env: &ToolEnv) -> Option<String> {
        None
    }

    /// As [`Tool::run`], without the hunks of [`Tool::preview`] that a person rejected: their numbers through all files, from
    /// 0. The output says which. A tool without a preview refuses.
    fn run_without<'a>(
        &'a self,
        _rejected: Vec<usize>,
        _input: Value,
        _env: &'a ToolEnv,
    ) -> BoxFuture<'a, ToolOutput> {
        let text = "Not run: this call cannot be done in part.";
        Box::pin(std::future::ready(ToolOutput::error(text)))
    }

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
    /// Whether a file that a call met on its own, below what its [`Access`] named, may be opened. Asked for every file whose
    /// content a search looks at; what it refuses is left out and named in the result.
    pub may_read: MayRead,
    /// Environment variables that a command of the call runs with, on top of its own: it was permitted for what it does
    /// with them.
    pub variables: &'static [(&'static str, &'static str)],
    /// How far a command of the call is confined.
    pub sandbox: SandboxLevel,
}

/// See [`ToolEnv::may_read`].
pub type MayRead = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

impl ToolEnv {
    /// `path` against the working directory, `.` and `..` folded, `~` left alone. Symbolic links are not followed: for
    /// anything that opens a file or decides about one, use [`ToolEnv::path`].
    pub fn resolve(&self, path: &str) -> PathBuf {
        becket_types::lexical(&self.cwd.join(path))
    }

    /// `path` against the working directory, absolute and free of symbolic links as the kernel would walk it; what does
    /// not exist yet keeps its name. `Err` is a message for the model.
    pub fn path(&self, path: &str) -> Result<PathBuf, String> {
        paths::resolve(&self.cwd, Path::new(path)).map_err(|e| e.to_string())
    }

    /// Whether a path from [`ToolEnv::path`] lies in one of the session's roots.
    pub fn is_inside(&self, path: &Path) -> bool {
        paths::is_inside(&self.roots, path)
    }

    /// `path` as the model should see it: relative when it lies below the working directory.
    pub fn display(&self, path: &Path) -> String {
        match path.strip_prefix(&self.cwd) {
            Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Ok(rest) => rest.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }
}

/// What the session offers its tools. Implemented by the agent; a test double in tests.
pub trait Host: Send + Sync {
    /// Keeps bytes in the session's blob store (spilled outputs, images).
    fn put_blob(&self, bytes: &[u8]) -> Result<BlobId, String>;
    /// As [`Host::put_blob`] for bytes that are not in memory, read to their end. Stores that can compress and hash as they
    /// read override this: otherwise the whole is in memory for a moment.
    fn put_blob_from(&self, reader: &mut dyn std::io::Read) -> Result<BlobId, String> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
        self.put_blob(&bytes)
    }
    fn get_blob(&self, id: &BlobId) -> Option<Vec<u8>>;
    /// A file was read whole or in part: its hash then. The stale-file guard and the session state use it.
    fn note_read(&self, path: &Path, sha256: &str);
    /// As [`Host::note_read`] where the whole content is at hand: hosts that keep it can say later what has changed.
    fn note_content(&self, path: &Path, sha256: &str, content: Vec<u8>) {
        drop(content);
        self.note_read(path, sha256);
    }
    /// The content of the file as last noted, if it is still kept; never another than [`Host::read_hash`] names.
    fn read_content(&self, path: &Path) -> Option<Arc<Vec<u8>>> {
        let _ = path;
        None
    }
    /// The hash under which the file was last read or written by us, if ever.
    fn read_hash(&self, path: &Path) -> Option<String>;
    /// Named session state that survives compactions (`todo`, …).
    fn state(&self, key: &str) -> Option<Value>;
    fn set_state(&self, key: &str, value: Value);
    /// The original output of an earlier call, for `recall`: `(tool name, whole output)`.
    fn original_output(&self, call: &CallId) -> Option<(String, String)>;
    /// The whole of message `seq`, for `recall`: `(who said it, text)`. A host without a past has none.
    fn past_message(&self, seq: Seq) -> Option<(String, String)> {
        let _ = seq;
        None
    }
    /// What the user said in the messages from `first` to `last`, for `recall`. A host without a past has none.
    fn past_users_words(&self, first: Seq, last: Seq) -> Vec<(Seq, String)> {
        let _ = (first, last);
        Vec::new()
    }
    /// The images of an earlier message (`m12`) or of the result of a call, for `recall`. A host without a past has none.
    fn past_images(&self, id: &str) -> Vec<Part> {
        let _ = id;
        Vec::new()
    }
    /// The best `limit` places for some words in what was said and done and is not shown to the model any more. May take
    /// a second: not for a thread that others wait for.
    ///
    /// # Errors
    /// A message for the model: the past cannot be read.
    fn search_past(&self, query: &str, limit: usize) -> Result<Places, String> {
        let _ = (query, limit);
        Ok(Places::default())
    }
}

/// Lower-case hex SHA-256 of bytes: how files are named in [`Host::note_read`].
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    becket_types::hex(&sha2::Sha256::digest(bytes))
}
