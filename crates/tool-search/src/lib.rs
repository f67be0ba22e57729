//! The `grep` and `glob` tools: what is in the files, and which files there are.
//!
//! Owns the walk over a tree and what is left out of it: hidden names and what ignore files name, unless asked for; links
//! are not followed; a pattern that is not understood is an error, never "no match".
//!
//! | module | what it is for |
//! |---|---|
//! | `grep` | the tool, its input and its output |
//! | `search` | one file searched, many files side by side, in a stable order |
//! | `glob` | the other tool |
//! | `filter` | patterns for paths |
//!
//! Invariants:
//! - Equal trees give equal output: files are visited in the order of their names, whatever finishes first.
//! - Work is bounded by what is shown plus a fixed amount of counting, and ends soon after an interrupt.
//! - Runs off the async threads. Writes nothing; reads no settings from HOME (`git`'s global excludes do not count).

mod filter;
mod glob;
mod grep;
mod search;

pub use glob::Glob;
pub use grep::Grep;

use becket_tool::{PathError, ToolEnv, paths};
use becket_types::ToolOutput;
use ignore::WalkBuilder;
use std::path::{Path, PathBuf};

/// A walk below `root` under the rules of this crate. `hidden` brings hidden names in.
fn walk(root: &Path, hidden: bool) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder.hidden(!hidden).require_git(false).git_global(false).follow_links(false).threads(1);
    if hidden {
        // Git's own files are nobody's text.
        builder.filter_entry(|entry| entry.file_name() != ".git" || entry.depth() == 0);
    }
    builder
}

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

/// Runs blocking work for a tool.
async fn blocking(work: impl FnOnce() -> ToolOutput + Send + 'static) -> ToolOutput {
    match tokio::task::spawn_blocking(work).await {
        Ok(output) => output,
        Err(error) => ToolOutput::error(format!("The search failed: {error}.")),
    }
}

/// Things that went wrong on the way, for people: how many and the first.
#[derive(Debug, Default)]
struct Troubles {
    count: u64,
    first: Option<String>,
}

impl Troubles {
    fn add(&mut self, what: String) {
        self.count += 1;
        self.first.get_or_insert(what);
    }

    /// A line for the output, with its line feed; empty when there were none.
    fn notice(&self) -> String {
        match (&self.first, self.count) {
            (None, _) => String::new(),
            (Some(first), 1) => format!("[not searched: {first}]\n"),
            (Some(first), n) => format!("[not searched: {first}, and {} more]\n", n - 1),
        }
    }
}

#[cfg(test)]
mod tests;
