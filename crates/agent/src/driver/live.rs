//! The session as it is now, for front ends that answer questions about it: its rules and mode, its model, its effort.
//!
//! A copy that the agent renews after each command and each answer of hooks. Nothing is decided from it in the agent.

use super::conversation::Conversation;
use super::toolset::Toolset;
use crate::host::lock;
use becket_guard::Guard;
use becket_tool::{Host as _, sha256};
use std::path::Path;
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

/// Largest file that can be counted as read, in bytes.
const MOST_SEEDED: u64 = 16 << 20;

/// The present settings of a session.
#[derive(Clone, Debug)]
pub struct Live {
    /// A copy: changing it changes nothing for the session.
    pub guard: Guard,
    /// `provider/name` of the model of the next request.
    pub model: String,
    pub effort: Option<String>,
}

/// Renews the copy for front ends.
pub(super) fn show(live: &Mutex<Live>, tools: &Toolset, conversation: &Conversation) {
    let mut live = lock(live);
    let wire = &conversation.wire;
    live.guard = tools.guard.clone();
    live.model.clone_from(&wire.chosen.next.as_ref().unwrap_or(&wire.model).info().id);
    live.effort.clone_from(&conversation.settings.requests.effort);
}

/// Counts a file as read in its present state. A file that has changed since `mtime` stays unread. `Err` says why it cannot
/// be read.
pub(super) fn seed_read(tools: &Toolset, cwd: &Path, path: &Path, mtime: u64) -> Result<(), String> {
    let path = cwd.join(path);
    let failed = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    let path = path.canonicalize().map_err(failed)?;
    let changed = std::fs::metadata(&path).and_then(|meta| meta.modified()).map_err(failed)?;
    let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    if changed > u128::from(mtime) {
        return Ok(());
    }
    let content = becket_files::read(&path, MOST_SEEDED).map_err(failed)?;
    tools.host.note_content(&path, &sha256(&content), content);
    Ok(())
}
