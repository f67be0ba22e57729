//! The `grep` and `glob` tools: what is in the files, and which files there are.
//!
//! Owns the walk over a tree and what is left out of it: hidden names and what ignore files name, unless asked for; links
//! are not followed; a pattern that is not understood is an error, never "no match".
//!
//! | module | what it is for |
//! |---|---|
//! | `grep` | the tool and its output |
//! | `input` | what it was asked for, in the words of many agents |
//! | `search` | files searched side by side, the newest kept |
//! | `glob` | the other tool |
//! | `filter` | patterns for paths |
//! | `walk` | the tree below both |
//!
//! Invariants:
//! - Newest first, ties by path: equal trees give equal output, whatever thread finishes first, unless a search ends early,
//!   which it says.
//! - Memory is bounded by what is shown; a search ends within milliseconds of an interrupt.
//! - Runs off the async threads. Writes nothing; reads no settings from HOME (`git`'s global excludes do not count).

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

/// The root of a search, or why there is none.
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

/// Where a search was, as the end of a sentence; nothing for the working directory.
fn below(root: &Path, env: &ToolEnv) -> String {
    if root == env.cwd { String::new() } else { format!(" below {}", env.display(root)) }
}

fn interrupted() -> ToolOutput {
    ToolOutput { interrupted: true, ..ToolOutput::error("The search was interrupted.") }
}

/// Runs blocking work for a tool; its flag is set as soon as the call is interrupted.
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
