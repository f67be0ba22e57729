//! A session for tests of tools: [`TestHost`] keeps everything in memory, and [`env()`] makes the environment
//! of one call.
//!
//! Contains no behaviour of becket. Production code never uses it.

use crate::{Contents, Host, Tool, ToolEnv};
use becket_types::{BlobId, CallId, Part, RecallMatches, Seq, ToolOutput};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Everything that a [`TestHost`] has recorded, and the answers prepared for it.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    pub blobs: HashMap<String, Vec<u8>>,
    /// By path: hash of the file when it was last read or written.
    pub reads: HashMap<PathBuf, String>,
    pub contents: Contents,
    pub state: HashMap<String, Value>,
    /// By call id: tool name and whole output.
    pub originals: HashMap<String, (String, String)>,
    /// The result of every search of the history, for any query.
    pub past: RecallMatches,
    /// Past messages by entry: author and whole text.
    pub messages: std::collections::BTreeMap<Seq, (String, String)>,
    /// Images by their id for `recall`.
    pub images: HashMap<String, Vec<Part>>,
    /// If set, the blob store fails with this text.
    pub blob_error: Option<String>,
    /// Live output, chunk by chunk.
    pub progress: Vec<String>,
}

/// A [`Host`] in memory.
#[derive(Debug, Default)]
pub struct TestHost(Mutex<Kept>);

impl TestHost {
    /// Returns the records. Tests also use it to prepare answers.
    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for TestHost {
    fn put_blob(&self, bytes: &[u8]) -> Result<BlobId, String> {
        let mut kept = self.kept();
        if let Some(error) = &kept.blob_error {
            return Err(error.clone());
        }
        let id = crate::sha256(bytes);
        kept.blobs.insert(id.clone(), bytes.to_vec());
        Ok(BlobId(id))
    }
    fn get_blob(&self, id: &BlobId) -> Option<Vec<u8>> {
        self.kept().blobs.get(id.as_str()).cloned()
    }
    fn note_read(&self, path: &Path, sha256: &str) {
        let mut kept = self.kept();
        if kept.reads.insert(path.to_owned(), sha256.to_owned()).as_deref() != Some(sha256) {
            kept.contents.remove(path);
        }
    }
    fn note_content(&self, path: &Path, sha256: &str, content: Vec<u8>) {
        let mut kept = self.kept();
        kept.reads.insert(path.to_owned(), sha256.to_owned());
        kept.contents.put(path, content);
    }
    fn read_content(&self, path: &Path) -> Option<Arc<Vec<u8>>> {
        self.kept().contents.get(path)
    }
    fn read_hash(&self, path: &Path) -> Option<String> {
        self.kept().reads.get(path).cloned()
    }
    fn state(&self, key: &str) -> Option<Value> {
        self.kept().state.get(key).cloned()
    }
    fn set_state(&self, key: &str, value: Value) {
        self.kept().state.insert(key.to_owned(), value);
    }
    fn original_output(&self, call: &CallId) -> Option<(String, String)> {
        self.kept().originals.get(call.as_str()).cloned()
    }
    fn past_message(&self, seq: Seq) -> Option<(String, String)> {
        self.kept().messages.get(&seq).cloned()
    }
    fn past_users_words(&self, first: Seq, last: Seq) -> Vec<(Seq, String)> {
        let kept = self.kept();
        let messages = kept.messages.range(first..=last).filter(|(_, (who, _))| who == "user");
        messages.map(|(seq, (_, text))| (*seq, text.clone())).collect()
    }
    fn past_images(&self, id: &str) -> Vec<Part> {
        self.kept().images.get(id).cloned().unwrap_or_default()
    }
    fn search_past(&self, _query: &str, limit: usize) -> Result<RecallMatches, String> {
        let mut past = self.kept().past.clone();
        past.places.truncate(limit);
        Ok(past)
    }
}

/// Makes the environment of a call `call_1` that runs in `cwd`. `cwd`, made canonical, is its only root.
pub fn env(cwd: &Path) -> (ToolEnv, Arc<TestHost>) {
    let host = Arc::new(TestHost::default());
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    let listener = Arc::clone(&host);
    let env = ToolEnv {
        roots: Arc::from([cwd.clone()]),
        cwd,
        call_id: CallId::from("call_1"),
        cancel: CancellationToken::new(),
        progress: Arc::new(move |chunk: &str| listener.kept().progress.push(chunk.to_owned())),
        host: Arc::clone(&host) as Arc<dyn Host>,
        may_read: Arc::new(|_: &Path| true),
        variables: &[],
        sandbox: becket_types::SandboxLevel::Off,
        judged: None,
    };
    (env, host)
}

/// Runs a tool like the agent does: `access` first, then the call with exactly those paths. If `access` fails, its
/// error is the output.
pub async fn run(tool: &dyn Tool, env: &ToolEnv, input: Value) -> ToolOutput {
    match tool.access(&input, env) {
        Ok(access) => {
            let env = ToolEnv { judged: Some(access.paths.into()), ..env.clone() };
            tool.run(input, &env).await
        }
        Err(message) => ToolOutput::error(message),
    }
}
