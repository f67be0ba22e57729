//! Reads the files whose content is attached to a compaction.
//!
//! `session::context::compaction` decides which files the model was shown and how much of them fits. Here they are
//! opened. A file counts only while its bytes have the hash that the model last saw. The edit tool compares with the
//! same hash, so an edit of an attached file is accepted without another read.
//!
//! Invariants: a file is opened only if the `read` tool could open it now without a question. Only regular text files
//! of at most [`MAX_BYTES`] are attached.

use crate::host::SessionHost;
use becket_guard::{Guard, Verdict};
use becket_session::context::compaction::{FileContent, FileNow, MAX_FILES, Snapshot, uses};
use becket_session::secrets;
use becket_tool::{Host as _, paths, sha256};
use becket_types::Access;
use serde_json::json;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size in bytes of an attached file.
const MAX_BYTES: u64 = 256 * 1024;
/// Name of the tool whose permissions decide if a file may be attached.
const READ: &str = "read";

/// Returns the files that the model was shown, in their present state; those that were used last come first. `mask`: known
/// forms of secrets are masked.
pub(super) fn files_now(
    snapshot: &Snapshot,
    cwd: &Path,
    host: &SessionHost,
    guard: &Guard,
    mask: bool,
) -> Vec<FileNow> {
    let mut found: Vec<(PathBuf, Vec<String>)> = Vec::new();
    for file in uses(snapshot).into_iter().rev() {
        let Ok(path) = paths::resolve(cwd, Path::new(&file.path)) else { continue };
        match found.iter().position(|(known, _)| *known == path) {
            Some(at) if found[at].1.contains(&file.path) => {}
            Some(at) => found[at].1.push(file.path),
            None if found.len() < MAX_FILES => found.push((path, vec![file.path])),
            None => {}
        }
    }
    let now = |(path, mut names): (PathBuf, Vec<String>)| {
        // A change of a file without a known hash could not be detected.
        let seen = host.read_hash(&path)?;
        let shown = path.strip_prefix(cwd).unwrap_or(&path).display().to_string();
        if !names.contains(&shown) {
            names.push(shown.clone());
        }
        let input = json!({ "path": path.to_string_lossy() });
        let content = match guard.check(READ, &Access::read(path.clone()), &input) {
            Verdict::Allow { .. } => content(&path, &seen, mask),
            Verdict::Ask { .. } | Verdict::Deny { .. } => FileContent::Skipped(
                "the permissions of this session do not let it be read without a question",
            ),
        };
        Some(FileNow { path: shown, names, content })
    };
    found.into_iter().filter_map(now).collect()
}

fn content(path: &Path, seen: &str, mask: bool) -> FileContent {
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return FileContent::Gone,
        Err(_) => return FileContent::Skipped("it cannot be opened"),
    };
    // A link here was made after the path was resolved and the permission to read it was checked.
    if !meta.is_file() {
        return FileContent::Skipped("it is no regular file any more");
    }
    if meta.len() > MAX_BYTES {
        return FileContent::Skipped("it is larger than 256 kB");
    }
    let Ok(bytes) = becket_files::read(path, MAX_BYTES) else {
        return FileContent::Skipped("it cannot be opened");
    };
    let hash = sha256(&bytes);
    if hash != seen {
        return FileContent::Changed;
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) if !text.contains('\0') => {
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            let text = if mask { secrets::mask_published(text).0 } else { Cow::Borrowed(text) };
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            FileContent::Same { hash, lines: Arc::from(lines) }
        }
        _ => FileContent::Skipped("it is not UTF-8 text"),
    }
}
