//! Shared parts of all tools: the [`Tool`] trait, the registry, limits on output, and path safety.
//!
//! Owns these parts and uses only `types` and `files`. Contains no concrete tool, no permission rule, no session.
//!
//! | module | contents |
//! |---|---|
//! | [`registry`] | tools by name, in a stable order |
//! | [`input`] | parses a model's arguments into typed values, or explains what is wrong |
//! | [`paths`] | resolves and opens paths safely |
//! | [`dir`] | writes in a directory that cannot be swapped for a link |
//! | [`contents`] | keeps contents of files as they were last read, within bounds |
//! | [`hook`] | the interface of hooks around calls that change files |
//! | [`limits`] | shortens outputs and stores the omitted rest |
//! | [`sniff`] | detects the kind of a file by its first bytes |
//! | [`source`] | tools that come and change while a session runs |
//! | [`text`] | invisible characters, decoding, similar names |
//! | [`testing`] | a [`Host`] for tests |
//!
//! Invariants:
//! - A tool never asks for permission and never checks one. It says what a call would touch
//!   ([`Tool::access`]), the guard decides, and exactly that call is run.
//! - Output for the model is bounded. If an output is cut, the whole is stored and the cut names it.

pub mod contents;
pub mod hook;
pub mod input;
pub mod limits;
pub mod paths;
pub mod registry;
pub mod sniff;
pub mod source;
mod sys;
pub mod testing;
pub mod text;

pub use becket_files::{dir, temporary};
pub use contents::Contents;
pub use hook::{EditHook, EditNote};
pub use limits::{Keep, Limits, finish};
pub use paths::PathError;
pub use registry::{Registry, RegistryError};
pub use source::{OfferedTool, ToolSource};

use becket_types::{
    Access, BlobId, CallId, FilePreview, Part, RecallMatches, SandboxLevel, Seq, ToolOutput, ToolSpec,
};
use futures::future::BoxFuture;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A tool the model can call.
pub trait Tool: Send + Sync {
    /// Returns the name, the description and the input schema that the model sees.
    fn spec(&self) -> &ToolSpec;

    /// Returns everything that this call would touch, without touching it.
    ///
    /// # Errors
    ///
    /// Returns a message for the model if the input is invalid.
    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String>;

    /// Runs the call. Never panics on invalid input; every failure is an output with `is_error`.
    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput>;

    /// Returns the change that the call would make, file by file, without making it and without notifying the
    /// host. Empty if the tool cannot predict it, or if the call would be refused.
    fn preview(&self, _input: &Value, _env: &ToolEnv) -> Vec<FilePreview> {
        Vec::new()
    }

    /// Returns the error for the model if the call cannot succeed, without changing anything. The host's records are updated as if
    /// the call had run, because the caller shows the error to the model. `None` if the tool cannot predict a failure.
    fn refusal(&self, _input: &Value, _env: &ToolEnv) -> Option<String> {
        None
    }

    /// Like [`Tool::run`], but without the hunks of [`Tool::preview`] that the user rejected. `rejected` are their numbers, counted
    /// from 0 across all files. The output lists them. A tool without a preview returns an error.
    fn run_without<'a>(
        &'a self,
        _rejected: Vec<usize>,
        _input: Value,
        _env: &'a ToolEnv,
    ) -> BoxFuture<'a, ToolOutput> {
        let text = "Not run: this call cannot be done in part.";
        Box::pin(std::future::ready(ToolOutput::error(text)))
    }

    /// If this tool only passes on a call of another tool, returns that call: name and input. The guard judges that call, and it is
    /// recorded and run instead of this one.
    fn stands_for(&self, _input: &Value) -> Option<(String, Value)> {
        None
    }

    /// Returns the task for a subagent whose answer is the result of this call. `None`: the tool runs by itself, as it does in
    /// a session without subagents. Called once per call, when the call may run.
    ///
    /// # Errors
    ///
    /// Returns a message for the model if there is no such task.
    fn delegates(&self, _input: &Value) -> Option<Result<Delegation, String>> {
        None
    }

    /// Returns the question that each call of this tool puts to a person, in every permission mode. `None`: the rules decide if
    /// somebody is asked. A call with a question runs only after an answer, which the person's decision adds to the call's input.
    fn asks_person(&self) -> Option<&'static PersonQuestion> {
        None
    }

    /// Continues a running call in the background, so that it returns soon. Returns false if this is not possible.
    fn detach(&self, _call: &CallId) -> bool {
        false
    }

    /// True if outputs of this tool are never pruned.
    fn protected(&self) -> bool {
        false
    }
}

/// The task of a subagent whose answer becomes the result of the call, see [`Tool::delegates`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delegation {
    /// Description in a few words.
    pub description: String,
    pub prompt: String,
    /// Name of the kind of subagent; `None`: the general one.
    pub agent: Option<String>,
    /// Model and effort; `None`: those that the kind of subagent sets.
    pub model: Option<String>,
    pub effort: Option<String>,
}

/// A question that a tool puts to a person before each of its calls, see [`Tool::asks_person`].
#[derive(Debug, PartialEq, Eq)]
pub struct PersonQuestion {
    /// The reason for the question.
    pub reason: &'static str,
    /// The text for the model if the person says no. The person's own words follow it.
    pub refused: &'static str,
    /// Keys of the input that only the person's decision may set.
    pub answers: &'static [&'static str],
    /// The only permission mode in which the call makes sense, with the text for the model in any other mode.
    pub only_in: Option<(becket_types::PermissionMode, &'static str)>,
}

/// The environment of one call.
#[derive(Clone)]
pub struct ToolEnv {
    /// Working directory of the session. Relative paths start here.
    pub cwd: PathBuf,
    /// Canonical paths of the directories that the session may use without asking: the project and each
    /// `--add-dir`.
    pub roots: Arc<[PathBuf]>,
    pub call_id: CallId,
    /// Cancelled when the call must stop, for instance because the user interrupts the turn.
    pub cancel: CancellationToken,
    /// Receives live output for front ends, as cleaned text.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
    pub host: Arc<dyn Host>,
    /// Decides if a search may open a file that it found below the path named in its [`Access`]. Called for
    /// every file whose content is searched. A refused file is skipped, and the result names it.
    pub may_read: MayRead,
    /// Extra environment variables for the command. Permission was granted on the condition that the command
    /// runs with them.
    pub variables: &'static [(&'static str, &'static str)],
    /// Confinement of the call's command.
    pub sandbox: SandboxLevel,
    /// The paths of the call's [`Access`] on which the guard has decided; `None` before that. A link may have changed since, so
    /// [`ToolEnv::path`] refuses a path that now leads elsewhere.
    pub judged: Option<Arc<[PathBuf]>>,
}

/// Returns true if a search may open the file at this path, see [`ToolEnv::may_read`].
pub type MayRead = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

impl ToolEnv {
    /// Joins `path` to the working directory and resolves `.` and `..`; `~` is not expanded. Symbolic links
    /// are not followed, so use [`ToolEnv::path`] before opening a file or deciding about one.
    pub fn resolve(&self, path: &str) -> PathBuf {
        becket_types::lexical(&self.cwd.join(path))
    }

    /// Joins `path` to the working directory and follows symbolic links, like the kernel does. Components
    /// that do not exist keep their names.
    ///
    /// # Errors
    ///
    /// Returns a message for the model if the path cannot be used, or if it now leads to another file than the one on which the
    /// guard has decided.
    pub fn path(&self, path: &str) -> Result<PathBuf, String> {
        let real = self.path_beyond(path)?;
        match &self.judged {
            Some(judged) if !judged.contains(&real) => Err(format!(
                "{path} leads to {} now, which is not what was permitted for this call. Nothing was done; call again.",
                real.display()
            )),
            _ => Ok(real),
        }
    }

    /// Like [`ToolEnv::path`], for a path that the call's [`Access`] does not name. The caller checks it.
    ///
    /// # Errors
    ///
    /// Returns a message for the model if the path cannot be used.
    pub fn path_beyond(&self, path: &str) -> Result<PathBuf, String> {
        paths::resolve(&self.cwd, Path::new(path)).map_err(|e| e.to_string())
    }

    /// True if a path from [`ToolEnv::path`] is inside one of the session's roots.
    pub fn is_inside(&self, path: &Path) -> bool {
        paths::is_inside(&self.roots, path)
    }

    /// Returns `path` as the model should see it: relative if it is below the working directory.
    pub fn display(&self, path: &Path) -> String {
        match path.strip_prefix(&self.cwd) {
            Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Ok(rest) => rest.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }
}

/// Services that the session offers to its tools. The agent implements it; tests use a fake.
pub trait Host: Send + Sync {
    /// Stores bytes in the session's blob store (long outputs, images).
    ///
    /// # Errors
    ///
    /// Returns a message if the blob cannot be written.
    fn put_blob(&self, bytes: &[u8]) -> Result<BlobId, String>;
    /// Like [`Host::put_blob`], but reads the bytes from a reader until its end. Stores that can compress and
    /// hash while reading override this; the default reads everything into memory first.
    ///
    /// # Errors
    ///
    /// Returns a message if reading or writing fails.
    fn put_blob_from(&self, reader: &mut dyn std::io::Read) -> Result<BlobId, String> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
        self.put_blob(&bytes)
    }
    /// Returns the bytes of a blob of this session. `None` if there is no such blob, or if it cannot be read.
    fn get_blob(&self, id: &BlobId) -> Option<Vec<u8>>;
    /// Returns the position from which the end of `text` may be the beginning of a secret. A tool that returns an output in pieces
    /// holds this end back for the next piece, because half of a secret cannot be recognised and masked. `before`: the pieces that
    /// it has already returned.
    fn unfinished_secret(&self, before: &str, text: &str) -> Option<usize> {
        let _ = (before, text);
        None
    }
    /// Records that a file was read, fully or in part, with its hash at that time. The stale-file guard and
    /// the session state use it.
    fn note_read(&self, path: &Path, sha256: &str);
    /// Like [`Host::note_read`], with the whole content. A host that keeps the content can later report what
    /// has changed.
    fn note_content(&self, path: &Path, sha256: &str, content: Vec<u8>) {
        drop(content);
        self.note_read(path, sha256);
    }
    /// Returns the content that [`Host::note_content`] got last for the file, if it is still kept. Its hash is always
    /// [`Host::read_hash`].
    fn read_content(&self, path: &Path) -> Option<Arc<Vec<u8>>> {
        let _ = path;
        None
    }
    /// Returns the hash of the file when becket last read or wrote it; `None` if it never did.
    fn read_hash(&self, path: &Path) -> Option<String>;
    /// Returns a named value of session state that survives compactions (`todo`, …).
    fn state(&self, key: &str) -> Option<Value>;
    /// Replaces a named value of session state. It is written to the ledger.
    fn set_state(&self, key: &str, value: Value);
    /// Returns `(tool name, whole output)` of an earlier call, for `recall`.
    fn original_output(&self, call: &CallId) -> Option<(String, String)>;
    /// Returns `(author, text)` of the whole message `seq`, for `recall`. `None` if the host has no history.
    fn past_message(&self, seq: Seq) -> Option<(String, String)> {
        let _ = seq;
        None
    }
    /// Returns the user's own words in the messages from `first` to `last`, for `recall`. Empty if the host
    /// has no history.
    fn past_users_words(&self, first: Seq, last: Seq) -> Vec<(Seq, String)> {
        let _ = (first, last);
        Vec::new()
    }
    /// Returns the images of an earlier message (`m12`) or of the result of a call, for `recall`. Empty if
    /// the host has no history.
    fn past_images(&self, id: &str) -> Vec<Part> {
        let _ = id;
        Vec::new()
    }
    /// Searches the part of the session that the model no longer sees, and returns at most `limit` matches.
    /// May take a second, so do not call it on a thread that others wait for.
    ///
    /// # Errors
    ///
    /// Returns a message for the model if the history cannot be read.
    fn search_past(&self, query: &str, limit: usize) -> Result<RecallMatches, String> {
        let _ = (query, limit);
        Ok(RecallMatches::default())
    }
}

/// Returns the lower-case hex SHA-256 of bytes, as used by [`Host::note_read`].
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    becket_types::hex(&sha2::Sha256::digest(bytes))
}
