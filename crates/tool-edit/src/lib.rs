//! The tools that change files: `edit`, `multi_edit`, `apply_patch`, `write`; no byte that was not asked for.
//!
//! Owns matching (tiers from exact to tolerant), encodings and line endings, the guard against files that changed since they
//! were read, atomic writing, and the diffs that people see. Does not own permissions, undo, or reading for the model.
//!
//! | module | what it is for |
//! |---|---|
//! | `edit`, `patch`, `write` | the tools |
//! | `input` | arguments and paths as models write them |
//! | `engine` | edits become cuts of bytes; `tiers`, `blocks`: which place is meant |
//! | `partial` | tolerant matches that begin or end within a line |
//! | `scope`, `variants` | where a match may be; what may be taken away from `old` |
//! | `fold`, `indent`, `hunks`, `retouch` | what is compared by; the model's change on the lines that are really there |
//! | `refuse`, `nearest` | what to say when nothing is changed |
//! | `known`, `stale` | what the model knows of a file, and whether that is enough |
//! | `sieve` | what of a change goes through: previews, and hunks that a person rejected |
//! | `encoding`, `endings` | text as a view on bytes, and back |
//! | `file`, `store`, `faithful` | reading; atomic writing that can be taken back and keeps mode, owner and attributes |
//! | `diff`, `report` | the change for people and for the model |
//!
//! Invariants:
//! - Bytes outside the replaced ranges are copied, never decoded and encoded again.
//! - An edit has one place or is refused; several only by exact text and `replace_all`.
//! - Writes of one session are one after another (`Gate`), so parallel calls on one file never lose an edit.

mod blocks;
mod diff;
mod edit;
mod encoding;
mod endings;
mod engine;
mod faithful;
mod file;
mod fold;
#[doc(hidden)]
pub mod fuzzing;
mod hunks;
mod indent;
mod input;
mod known;
mod nearest;
mod partial;
mod patch;
mod refuse;
mod report;
mod retouch;
mod scope;
mod sieve;
mod stale;
mod store;
mod tiers;
mod variants;
mod write;

pub use edit::EditTool;
pub use patch::PatchTool;
pub use tiers::Tier;
pub use write::WriteTool;

use becket_tool::{Host, Tool, ToolEnv};
use becket_types::{BlobId, CallId, FilePreview, ToolOutput};
use serde_json::Value;
use sieve::Sieve;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Which tools change files: models differ in what they were trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `edit` and `multi_edit`.
    Pieces,
    /// `apply_patch`.
    Patch,
}

impl Dialect {
    /// By the model's name, with or without what stands before a slash.
    pub fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let reasons = ["o1", "o3", "o4"].iter().any(|family| {
            name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        });
        if reasons || ["gpt-", "chatgpt", "codex"].iter().any(|family| name.starts_with(family)) {
            Self::Patch
        } else {
            Self::Pieces
        }
    }

    /// Whether a tool of this crate is offered.
    pub fn offers(self, tool: &str) -> bool {
        match tool {
            "edit" | "multi_edit" => self == Self::Pieces,
            "apply_patch" => self == Self::Patch,
            _ => true,
        }
    }
}

/// The tools of this crate; they share one gate, so make them once per session. Which are offered is for [`Dialect`].
pub fn tools() -> Vec<Arc<dyn Tool>> {
    let gate = Arc::new(Gate::default());
    vec![
        Arc::new(EditTool::one(Arc::clone(&gate))),
        Arc::new(EditTool::several(Arc::clone(&gate))),
        Arc::new(PatchTool::new(Arc::clone(&gate))),
        Arc::new(WriteTool::new(gate)),
    ]
}

/// One write at a time, in the order they ask, off the asynchronous threads.
#[derive(Default)]
pub(crate) struct Gate(Arc<Mutex<()>>);

impl Gate {
    async fn run(
        &self,
        env: &ToolEnv,
        rejected: Vec<usize>,
        work: impl FnOnce(&ToolEnv, &mut Sieve) -> Result<ToolOutput, String> + Send + 'static,
    ) -> ToolOutput {
        let turn = Arc::clone(&self.0).lock_owned().await;
        if env.cancel.is_cancelled() {
            return ToolOutput {
                interrupted: true,
                ..ToolOutput::error("Interrupted before anything was written.")
            };
        }
        let env = env.clone();
        // The turn ends with the work, not with who waits for it: a dropped call must not let the next one overlap.
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let mut sieve = Sieve::without(rejected);
            let output = work(&env, &mut sieve).unwrap_or_else(ToolOutput::error);
            sieve.told(output)
        });
        done.await.unwrap_or_else(|e| ToolOutput::error(format!("The write ended abnormally: {e}.")))
    }
}

/// What a call would change; the host learns nothing of it.
fn preview(
    env: &ToolEnv,
    work: impl FnOnce(&ToolEnv, &mut Sieve) -> Result<ToolOutput, String>,
) -> Vec<FilePreview> {
    let mut sieve = Sieve::showing();
    let env = ToolEnv { host: Arc::new(Looking(Arc::clone(&env.host))), ..env.clone() };
    // A call that would be refused shows what it got to; it says why when it runs.
    let _ = work(&env, &mut sieve);
    sieve.previews()
}

/// The error of a call that would end before it writes.
fn refusal(
    env: &ToolEnv,
    work: impl FnOnce(&ToolEnv, &mut Sieve) -> Result<ToolOutput, String>,
) -> Option<String> {
    let mut sieve = Sieve::showing();
    let done = work(env, &mut sieve);
    // Work that gets to its writes ends there with an error of its own.
    done.err().filter(|_| !sieve.is_shown())
}

/// A host that is asked and told nothing.
struct Looking(Arc<dyn Host>);

impl Host for Looking {
    fn put_blob(&self, _bytes: &[u8]) -> Result<BlobId, String> {
        Err("nothing is kept of a preview".to_owned())
    }
    fn get_blob(&self, id: &BlobId) -> Option<Vec<u8>> {
        self.0.get_blob(id)
    }
    fn note_read(&self, _path: &Path, _sha256: &str) {}
    fn note_content(&self, _path: &Path, _sha256: &str, _content: Vec<u8>) {}
    fn read_content(&self, path: &Path) -> Option<Arc<Vec<u8>>> {
        self.0.read_content(path)
    }
    fn read_hash(&self, path: &Path) -> Option<String> {
        self.0.read_hash(path)
    }
    fn state(&self, key: &str) -> Option<Value> {
        self.0.state(key)
    }
    fn set_state(&self, _key: &str, _value: Value) {}
    fn original_output(&self, call: &CallId) -> Option<(String, String)> {
        self.0.original_output(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_which_dialect() {
        for name in [
            "gpt-5.2",
            "openai/gpt-4.1",
            "o1",
            "o3-mini",
            "o4-mini",
            "codex-mini-latest",
            "openrouter/openai/gpt-5",
            "GPT-5",
        ] {
            assert_eq!(Dialect::of(name), Dialect::Patch, "{name}");
        }
        for name in [
            "claude-opus-4-5",
            "anthropic/claude",
            "gemini-3-pro",
            "qwen3",
            "o2",
            "o1x",
            "olmo",
            "deepseek/chat",
        ] {
            assert_eq!(Dialect::of(name), Dialect::Pieces, "{name}");
        }
        let offered = |dialect: Dialect| {
            tools().iter().map(|t| t.spec().name.clone()).filter(|n| dialect.offers(n)).collect::<Vec<_>>()
        };
        assert_eq!(offered(Dialect::Pieces), ["edit", "multi_edit", "write"]);
        assert_eq!(offered(Dialect::Patch), ["apply_patch", "write"]);
    }
}
