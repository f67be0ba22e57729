//! History of prompts, which all sessions share: one JSON string a line.
//!
//! Invariant: each prompt is appended in one write, so that lines of several sessions do not mix.

use std::io::{self, Write as _};
use std::path::Path;

/// Most prompts that the history file keeps.
const HISTORY: usize = 1_000;

/// Returns the last prompts, newest last; none if the file cannot be read.
pub(super) fn read(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(HISTORY)..].iter().filter_map(|l| serde_json::from_str(l).ok()).collect()
}

/// Appends a line in one write, so that lines of several sessions do not mix.
pub(super) fn append(path: &Path, prompt: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let line = format!("{}\n", serde_json::Value::from(prompt));
    std::fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())
}
