//! A session of Claude Code or Codex that `--resume ID` names: read from that program's folder and imported under its own id.
//!
//! Programs that keep sessions in a store of their own write such a file, name its folder with `CLAUDE_CONFIG_DIR` or
//! `CODEX_HOME`, and resume it. The file itself is never changed. It is used only if becket has no session with this id, and
//! none that was imported from one with this id.

use crate::cmd::import::store_imported;
use crate::cmd::store_failure;
use crate::environment::Environment;
use crate::failure::Failure;
use becket_exchange::import::{self, Source};
use becket_session::store::{self, SessionSummary};
use becket_types::SessionId;
use std::path::{Path, PathBuf};

/// Largest file that is read, in bytes.
const LARGEST: u64 = 256 * 1024 * 1024;
/// Depth of Codex' folders: year, month, day.
const CODEX_DEPTH: usize = 3;

/// Imports the session of another program with the id `query`. Returns it with a note for the user; `None` if there is no such file.
///
/// # Errors
///
/// Fails if the file cannot be read or is no session of its program, or if the session cannot be written.
pub(crate) fn import(
    environment: &Environment,
    cwd: &Path,
    query: &str,
) -> Result<Option<(SessionSummary, Option<String>)>, Failure> {
    let query = query.trim();
    let Ok(id) = query.parse::<SessionId>() else { return Ok(None) };
    let claude = || Some((Source::Claude, find_claude(environment, id)?));
    let codex = || Some((Source::Codex, find_codex(environment, id)?));
    let Some((source, file)) = claude().or_else(codex) else { return Ok(None) };
    let fail = |why: String| Failure::usage(format!("{}: {why}", file.display()));
    let bytes = becket_files::read(&file, LARGEST).map_err(|why| fail(why.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    if Source::detect(&text) != Some(source) {
        return Err(fail(format!("is not a session of {}", source.name())));
    }
    let mut conversation = import::read(source, &text).map_err(fail)?;
    conversation.keep_id = Some(id);
    conversation.digest = Some(becket_session::blobs::id_of(&bytes).to_string());
    store_imported(environment, cwd, &conversation)?;
    let root = environment.sessions_dir();
    let summary = store::find(&root, query, Some(cwd)).map_err(store_failure)?;
    let note = format!("the session was imported from {}", file.display());
    Ok(Some((summary, Some(note))))
}

/// Returns the transcript of Claude Code's session, whichever project it belongs to.
fn find_claude(environment: &Environment, id: SessionId) -> Option<PathBuf> {
    let projects = environment.claude_dir()?.join("projects");
    let folders = std::fs::read_dir(projects).ok()?;
    let name = format!("{id}.jsonl");
    folders.flatten().map(|folder| folder.path().join(&name)).find(|file| file.is_file())
}

/// Returns the rollout of Codex' session, of any day.
fn find_codex(environment: &Environment, id: SessionId) -> Option<PathBuf> {
    let end = format!("-{id}.jsonl");
    let codex = environment.codex_dir()?;
    ["sessions", "archived_sessions"].iter().find_map(|name| below(&codex.join(name), &end, CODEX_DEPTH))
}

/// Returns a file in this folder, or at most `depth` folders below it, whose name has this end.
fn below(dir: &Path, end: &str, depth: usize) -> Option<PathBuf> {
    let entries: Vec<_> = std::fs::read_dir(dir).ok()?.flatten().collect();
    let is_named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end));
    let found = entries.iter().map(std::fs::DirEntry::path).find(|path| is_named(path) && path.is_file());
    // Links to folders are not followed, because they may lead in a circle.
    let folders =
        || entries.iter().filter(|entry| depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()));
    found.or_else(|| folders().find_map(|folder| below(&folder.path(), end, depth - 1)))
}
