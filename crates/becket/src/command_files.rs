//! Files of custom commands: their names and texts, as folders of the user, a project or a plugin have them.
//!
//! Links are not followed. A file that is too large or is not text is not a command.

use std::path::{Path, PathBuf};

/// These limits also apply to files that a command includes.
pub(crate) const MAX_COMMANDS: usize = 200;
pub(crate) const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Returns names and files: `a.md` is `/a`, `b/a.md` is `/b:a`. Links are not followed.
pub(crate) fn files(dir: &Path) -> Vec<(String, PathBuf)> {
    let mut out = Vec::new();
    for (path, is_dir) in entries(dir) {
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
        if is_dir {
            let below = entries(&path).into_iter().filter(|(_, is_dir)| !is_dir);
            out.extend(
                below.filter_map(|(file, _)| Some((format!("{stem}:{}", command_name(&file)?), file))),
            );
        } else if let Some(name) = command_name(&path) {
            out.push((name, path));
        }
    }
    out
}

fn entries(dir: &Path) -> Vec<(PathBuf, bool)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok).take(4 * MAX_COMMANDS);
    let mut out: Vec<(PathBuf, bool)> = entries
        .filter_map(|e| {
            let kind = e.file_type().ok()?;
            (kind.is_file() || kind.is_dir()).then(|| (e.path(), kind.is_dir()))
        })
        .collect();
    out.sort();
    out
}

/// Returns the name of the command that a file holds; `None` if it holds none.
pub(crate) fn command_name(path: &Path) -> Option<String> {
    if path.extension()? != "md" {
        return None;
    }
    let name = path.file_stem()?.to_str()?;
    let plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    (plain && !name.is_empty()).then(|| name.to_owned())
}

/// Returns the text of a file, unless it is too large.
pub(crate) fn read_limited(path: &Path) -> Option<String> {
    becket_files::read_text(path, MAX_FILE_BYTES).ok()
}
