//! The model's knowledge of a file, before and after a write.
//!
//! The model knows a file as it was when it was last read or written through becket. It knows the new content
//! only if it knew the old one, or if it was shown every change.

use crate::encoding;
use crate::endings::Source;
use crate::stale::ContentChange;
use crate::subject::{Seen, Subject};
use becket_tool::{ToolEnv, sha256};
use std::path::Path;
use std::sync::Arc;

pub(crate) struct KnownFile {
    pub seen: Seen,
    /// The content that was last read, if the file has changed since and a copy is still kept.
    before: Option<Arc<Vec<u8>>>,
}

impl KnownFile {
    pub(crate) fn look_up(env: &ToolEnv, path: &Path, bytes: &[u8]) -> Self {
        let hash = sha256(bytes);
        match env.host.read_hash(path) {
            Some(known) if known == hash => Self { seen: Seen::Same, before: None },
            Some(_) => Self { seen: Seen::ChangedSince, before: env.host.read_content(path) },
            None => Self { seen: Seen::Never, before: None },
        }
    }

    /// Calls `work` with the file as a subject to edit.
    pub(crate) fn with<T>(&self, bytes: &[u8], name: &str, work: impl FnOnce(&Subject<'_>) -> T) -> T {
        let view = encoding::decode(bytes);
        let source = Source::new(&view.text);
        work(&Subject { name, bytes, view: &view, source: &source, seen: self.seen })
    }

    /// Returns the changes since the file was read; `None` if no copy of the read content is kept, or if it is not text.
    pub(crate) fn changes_since_read(&self, subject: &Subject<'_>) -> Option<ContentChange> {
        ContentChange::between(self.before.as_deref()?, subject.source)
    }

    /// Call this after a refusal. If its message showed all changes, the model knows the current content, as if it had read the file again.
    pub(crate) fn record(env: &ToolEnv, path: &Path, bytes: &[u8], drift: Option<&ContentChange>) {
        if drift.is_some_and(ContentChange::shows_all_changes) {
            env.host.note_content(path, &sha256(bytes), bytes.to_vec());
        }
    }

    /// Call this after a write. The model knows the new content if it knew the old content or was shown all changes.
    pub(crate) fn written(&self, env: &ToolEnv, path: &Path, bytes: &[u8], drift: Option<&ContentChange>) {
        if self.seen == Seen::Same || drift.is_some_and(ContentChange::shows_all_changes) {
            env.host.note_content(path, &sha256(bytes), bytes.to_vec());
        }
    }
}
