//! The `edit` and `write` tools: changing files without touching a byte that was not asked for.
//!
//! Owns matching (tiers from exact to tolerant), encodings and line endings, the guard against files that changed since they
//! were read, atomic writing, and the diffs that people see. Does not own permissions, undo, or reading for the model.
//!
//! | module | what it is for |
//! |---|---|
//! | `edit`, [`write`] | the tools |
//! | `tiers` | which place is meant; `fold`, `indent`: what it compares by |
//! | `hunks` | the model's change on the lines that are really there |
//! | `nearest` | what to say when nothing matches |
//! | `encoding`, `endings` | text as a view on bytes, and back |
//! | [`file`] | atomic, faithful writing |
//! | `diff` | the change for people and for the model |
//!
//! Invariants:
//! - Bytes outside the replaced range are copied, never decoded and encoded again.
//! - An edit has one place or is refused; several only by exact text and `replace_all`.
//! - Writes of one session are one after another (`Gate`), so parallel calls on one file never lose an edit.

mod diff;
mod edit;
mod encoding;
mod endings;
mod file;
mod fold;
#[doc(hidden)]
pub mod fuzzing;
mod hunks;
mod indent;
mod nearest;
mod tiers;
mod write;

pub use edit::EditTool;
pub use tiers::Tier;
pub use write::WriteTool;

use becket_tool::{Tool, ToolEnv, paths};
use becket_types::ToolOutput;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;

/// The tools of this crate; they share one gate, so make them once per session.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    let gate = Arc::new(Gate::default());
    vec![Arc::new(EditTool::new(Arc::clone(&gate))), Arc::new(WriteTool::new(gate))]
}

/// One write at a time, in the order they ask, off the asynchronous threads.
#[derive(Default)]
pub(crate) struct Gate(Arc<Mutex<()>>);

impl Gate {
    async fn run(
        &self,
        env: &ToolEnv,
        work: impl FnOnce(&ToolEnv) -> ToolOutput + Send + 'static,
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
            work(&env)
        });
        done.await.unwrap_or_else(|e| ToolOutput::error(format!("The write ended abnormally: {e}.")))
    }
}

fn parse<T: DeserializeOwned>(input: &Value) -> Result<T, String> {
    T::deserialize(input).map_err(|e| format!("Invalid arguments: {e}."))
}

/// The file that is meant. A link inside the roots that leads out of them is not followed.
fn resolve(env: &ToolEnv, path: &str) -> Result<PathBuf, String> {
    let real = env.path(path)?;
    let named = env.resolve(path);
    if env.is_inside(&named) && !env.is_inside(&real) {
        return Err(format!(
            "{path} leads through a symbolic link to {}, outside of the session's directories; nothing was changed.",
            real.display()
        ));
    }
    Ok(real)
}

fn missing(env: &ToolEnv, path: &Path) -> String {
    let near: Vec<String> = paths::suggestions(path).iter().map(|p| env.display(p)).collect();
    let hint = if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(", ")) };
    format!("{} does not exist.{hint} To create it, use write.", env.display(path))
}
