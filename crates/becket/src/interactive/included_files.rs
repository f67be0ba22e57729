//! The files that a command of the user or of the project names with `@`: their content, to be added below its prompt.
//!
//! Includes files of the project only, and none that holds secrets. Does not ask for anything.

use crate::command_files::read_limited;
use becket_guard::is_secret_below;
use becket_session::secrets::mask_published;
use std::fmt::Write as _;
use std::path::Path;

/// Returns the content of each `@file` in a text, to be added below it. Only existing files of the project are
/// included, none that holds secrets, and known forms of secrets in others are masked.
pub(super) fn files_of(cwd: &Path, text: &str) -> String {
    let mut out = String::new();
    let mut seen = Vec::new();
    for word in text.split_whitespace().filter_map(|word| word.strip_prefix('@')) {
        let name = word.trim_end_matches([',', '.', ';', ':', ')']);
        let path = cwd.join(name);
        let Ok(real) = path.canonicalize() else { continue };
        if !(real.starts_with(cwd) && real.is_file()) || seen.contains(&name) {
            continue;
        }
        seen.push(name);
        // The text may come from the project, so a file that may hold secrets is not sent to the model. If the model
        // reads it with a tool, the guard asks.
        if is_secret_below(cwd, &real) || is_secret_below(cwd, &path) {
            let _ =
                write!(out, "\n\n{name} may hold secrets and is not included here; read it if you need it.");
            continue;
        }
        match read_limited(&real) {
            Some(content) => {
                let content = mask_published(&content).0;
                let fence =
                    "`".repeat(content.split(|c| c != '`').map(str::len).max().unwrap_or(0).max(2) + 1);
                let _ = write!(out, "\n\n{name}:\n{fence}\n{}\n{fence}", content.trim_end());
            }
            None => {
                let _ = write!(out, "\n\n{name} is too large to be included here, or is not text; read it.");
            }
        }
    }
    out
}
