//! A session of Claude Code that `--resume ID` names: read from Claude Code's folder and imported under its own id.
//!
//! Programs that keep sessions in a store of their own write such a file, name its folder with `CLAUDE_CONFIG_DIR`, and resume
//! it. The file itself is never changed. It is used only if becket has no session with this id.

use crate::cmd::import::store_imported;
use crate::cmd::store_failure;
use crate::environment::Environment;
use crate::failure::Failure;
use becket_exchange::import::{self, Source};
use becket_session::store::{self, SessionSummary};
use becket_types::SessionId;
use std::path::{Path, PathBuf};

const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Imports the session of Claude Code with the id `query`. Returns it with a note for the user; `None` if there is no such file.
///
/// # Errors
///
/// Fails if the file cannot be read or is no session of Claude Code, or if the session cannot be written.
pub(crate) fn import(
    environment: &Environment,
    cwd: &Path,
    query: &str,
) -> Result<Option<(SessionSummary, Option<String>)>, Failure> {
    let Some((id, file)) =
        query.parse::<SessionId>().ok().and_then(|id| Some((id, find(environment, query)?)))
    else {
        return Ok(None);
    };
    let fail = |why: String| Failure::usage(format!("{}: {why}", file.display()));
    let bytes = becket_files::read(&file, MAX_FILE_BYTES).map_err(|why| fail(why.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    if Source::detect(&text) != Some(Source::Claude) {
        return Err(fail("is not a session of Claude Code".to_owned()));
    }
    let mut conversation = import::read(Source::Claude, &text).map_err(fail)?;
    conversation.keep_id = Some(id);
    conversation.digest = Some(becket_session::blobs::id_of(&bytes).to_string());
    store_imported(environment, cwd, &conversation)?;
    let root = environment.sessions_dir();
    let summary = store::find(&root, query, Some(cwd)).map_err(store_failure)?;
    let note = format!("the session was imported from {}", file.display());
    Ok(Some((summary, Some(note))))
}

/// Returns the transcript of the session, whichever project it belongs to.
fn find(environment: &Environment, id: &str) -> Option<PathBuf> {
    let projects = environment.claude_dir()?.join("projects");
    let folders = std::fs::read_dir(projects).ok()?;
    let name = format!("{}.jsonl", id.to_ascii_lowercase());
    folders.flatten().map(|folder| folder.path().join(&name)).find(|file| file.is_file())
}
