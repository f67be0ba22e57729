//! The `grep` and `glob` tools: searching in files and for files.
//!
//! Owns the walk over a tree and its exclusions: hidden names are skipped unless a part of a pattern begins with a dot;
//! ignored names are skipped; links are not followed; an invalid pattern is an error, never "no match".
//!
//! | module | contents |
//! |---|---|
//! | `grep` | the tool and its output |
//! | `input` | its input, with argument names of many agents |
//! | `search` | searches files in parallel and keeps the newest |
//! | `glob` | the other tool |
//! | `filter` | patterns for paths |
//! | `walk` | the walk over the tree, used by both |
//!
//! Invariants:
//! - Newest first, ties ordered by path. Equal trees give equal output, whichever thread finishes first. A
//!   search that ends early may differ, and says that it ended early.
//! - Memory is bounded by the size of the output. A search ends within milliseconds of an interrupt.
//! - Runs off the async threads. Writes nothing; reads no settings from HOME (`git`'s global excludes are not
//!   used).

mod filter;
mod glob;
mod grep;
mod input;
mod search;
mod walk;

pub use glob::Glob;
pub use grep::Grep;

use becket_tool::{PathError, ToolEnv, paths};
use becket_types::ToolOutput;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns the root of a search, or a message for the model if the path cannot be searched.
fn root(asked: Option<&str>, env: &ToolEnv) -> Result<PathBuf, String> {
    let asked = asked.filter(|p| !p.is_empty()).unwrap_or(".");
    let path = env.path(asked)?;
    match paths::inspect(&path) {
        Ok(_) => Ok(path),
        Err(PathError::NotFound(_)) => {
            let near: Vec<String> = paths::suggestions(&path).iter().map(|p| env.display(p)).collect();
            let hint =
                if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) };
            Err(format!("{asked} does not exist.{hint}"))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the searched folder for the end of a sentence, as ` below FOLDER`; empty for the working directory.
fn below(root: &Path, env: &ToolEnv) -> String {
    if root == env.cwd { String::new() } else { format!(" below {}", env.display(root)) }
}

fn interrupted() -> ToolOutput {
    ToolOutput { interrupted: true, ..ToolOutput::error("The search was interrupted.") }
}

/// Runs blocking work for a tool. The flag passed to it is set as soon as the call is interrupted.
async fn blocking(
    env: &ToolEnv,
    work: impl FnOnce(&AtomicBool) -> ToolOutput + Send + 'static,
) -> ToolOutput {
    let stop = Arc::new(AtomicBool::new(env.cancel.is_cancelled()));
    let flag = Arc::clone(&stop);
    let mut task = tokio::task::spawn_blocking(move || work(&flag));
    let ended = tokio::select! {
        ended = &mut task => ended,
        () = env.cancel.cancelled() => {
            stop.store(true, Ordering::Relaxed);
            task.await
        }
    };
    match ended {
        Ok(output) => output,
        Err(error) => ToolOutput::error(format!("The search failed: {error}.")),
    }
}

#[cfg(test)]
mod tests;
