//! The tools that change files: `edit`, `multi_edit`, `apply_patch`, `write`, `notebook_edit`. They change only the
//! requested bytes.
//!
//! Owns matching (tiers from exact to tolerant), encodings and line endings, the guard against files that
//! changed since they were read, atomic writing, and the diffs that people see. Does not own permissions,
//! undo, or reading for the model.
//!
//! | module | contents |
//! |---|---|
//! | `edit`, `patch`, `write`, `notebook` | the tools |
//! | `input` | arguments and paths as models write them |
//! | `engine` | converts edits to cuts of bytes; `subject`: an edit and its file; `tiers`, `blocks`: find the intended place |
//! | `lines`, `matched`, `splice` | a text as lines; the result of a search; the replacement at the place found |
//! | `partial` | tolerant matches that begin or end within a line |
//! | `scope`, `variants` | limits of a match; corrected readings of `old` |
//! | `normalize`, `indent`, `hunks`, `retouch` | forms for comparison; applying the change to the file's lines |
//! | `refuse`, `nearest` | messages of refusals |
//! | `known`, `stale` | the model's knowledge of a file, and if it is sufficient |
//! | `hunk_filter` | previews, and changes without the hunks that a user rejected |
//! | `encoding`, `endings` | bytes as text, and back |
//! | `file`, `store`, `faithful` | reading; atomic, reversible writing that keeps mode, owner and attributes |
//! | `diff`, `report` | the change for people and for the model |
//!
//! Invariants:
//! - Bytes outside the replaced ranges are copied, never decoded and encoded again.
//! - An edit matches exactly one place or is refused. Several places need exact text and `replace_all`.
//! - Writes of one session run one after another (`Gate`), so parallel calls on one file never lose an edit.

mod blocks;
mod diff;
mod edit;
mod encoding;
mod endings;
mod engine;
mod faithful;
mod file;
#[doc(hidden)]
pub mod fuzzing;
mod hunk_filter;
mod hunks;
mod indent;
mod input;
mod known;
mod lines;
mod matched;
mod nearest;
mod normalize;
mod notebook;
mod partial;
mod patch;
mod refuse;
mod report;
mod retouch;
mod scope;
mod splice;
mod stale;
mod store;
mod subject;
mod tiers;
mod variants;
mod write;

pub use edit::EditTool;
pub use matched::Tier;
pub use notebook::{NOTEBOOK_EDIT, NotebookTool};
pub use patch::PatchTool;
pub use write::WriteTool;

use becket_tool::{Host, Tool, ToolEnv};
use becket_types::{BlobId, CallId, FilePreview, ToolOutput};
use hunk_filter::HunkFilter;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The set of editing tools that a model is offered. Models were trained on different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `edit` and `multi_edit`.
    Pieces,
    /// `apply_patch`.
    Patch,
}

impl Dialect {
    /// Returns the dialect for a model name, with or without a `provider/` prefix.
    pub fn for_model(model: &str) -> Self {
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

    /// True if this tool is offered.
    pub fn offers(self, tool: &str) -> bool {
        match tool {
            "edit" | "multi_edit" => self == Self::Pieces,
            "apply_patch" => self == Self::Patch,
            // In no set: few sessions have a notebook, and `edit` can change its JSON.
            NOTEBOOK_EDIT => false,
            _ => true,
        }
    }
}

/// Makes the tools of this crate. They share one gate, so call this once per session. [`Dialect`] decides
/// which of them are offered.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    let gate = Arc::new(Gate::default());
    vec![
        Arc::new(EditTool::one(Arc::clone(&gate))),
        Arc::new(EditTool::several(Arc::clone(&gate))),
        Arc::new(PatchTool::new(Arc::clone(&gate))),
        Arc::new(NotebookTool::new(Arc::clone(&gate))),
        Arc::new(WriteTool::new(gate)),
    ]
}

/// Lets one write run at a time, in the order of requests, off the asynchronous threads.
#[derive(Default)]
pub(crate) struct Gate(Arc<Mutex<()>>);

impl Gate {
    async fn run(
        &self,
        env: &ToolEnv,
        rejected: Vec<usize>,
        work: impl FnOnce(&ToolEnv, &mut HunkFilter) -> Result<ToolOutput, String> + Send + 'static,
    ) -> ToolOutput {
        let turn = Arc::clone(&self.0).lock_owned().await;
        if env.cancel.is_cancelled() {
            return ToolOutput {
                interrupted: true,
                ..ToolOutput::error("Interrupted before anything was written.")
            };
        }
        let env = env.clone();
        // The gate is released when the work ends, even if the caller stopped waiting. Otherwise a dropped
        // call could overlap with the next one.
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let mut hunk_filter = HunkFilter::without(rejected);
            let output = work(&env, &mut hunk_filter).unwrap_or_else(ToolOutput::error);
            hunk_filter.with_note(output)
        });
        done.await.unwrap_or_else(|e| ToolOutput::error(format!("The write ended abnormally: {e}.")))
    }
}

/// Returns the changes that a call would make, without notifying the host.
fn preview(
    env: &ToolEnv,
    work: impl FnOnce(&ToolEnv, &mut HunkFilter) -> Result<ToolOutput, String>,
) -> Vec<FilePreview> {
    let mut hunk_filter = HunkFilter::showing();
    let env = ToolEnv { host: Arc::new(PreviewHost(Arc::clone(&env.host))), ..env.clone() };
    // A call that would be refused shows the changes up to that point. It reports the reason when it runs.
    let _ = work(&env, &mut hunk_filter);
    hunk_filter.previews()
}

/// Returns the error of a call that would fail before it writes.
fn refusal(
    env: &ToolEnv,
    work: impl FnOnce(&ToolEnv, &mut HunkFilter) -> Result<ToolOutput, String>,
) -> Option<String> {
    let mut hunk_filter = HunkFilter::showing();
    let done = work(env, &mut hunk_filter);
    // Work that reaches its writes ends there with an artificial error, which is not a refusal.
    done.err().filter(|_| !hunk_filter.is_shown())
}

/// A host for previews: it answers queries and ignores all changes.
struct PreviewHost(Arc<dyn Host>);

impl Host for PreviewHost {
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
            assert_eq!(Dialect::for_model(name), Dialect::Patch, "{name}");
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
            assert_eq!(Dialect::for_model(name), Dialect::Pieces, "{name}");
        }
        let offered = |dialect: Dialect| {
            tools().iter().map(|t| t.spec().name.clone()).filter(|n| dialect.offers(n)).collect::<Vec<_>>()
        };
        assert_eq!(offered(Dialect::Pieces), ["edit", "multi_edit", "write"]);
        assert_eq!(offered(Dialect::Patch), ["apply_patch", "write"]);
    }
}
