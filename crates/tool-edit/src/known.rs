//! What the session knows of a file, and what it knows after a write.
//!
//! Model: the model knows a file as it was when it was read or last written by us. It knows the new content only if it knew
//! the old one, or was told everything that changed.

use crate::encoding;
use crate::endings::Source;
use crate::engine::{Seen, Subject};
use crate::stale::Drift;
use becket_tool::{ToolEnv, sha256};
use std::path::Path;
use std::sync::Arc;

pub(crate) struct Known {
    pub seen: Seen,
    /// The content as read, where it is not the current one and still at hand.
    before: Option<Arc<Vec<u8>>>,
}

impl Known {
    pub(crate) fn of(env: &ToolEnv, path: &Path, bytes: &[u8]) -> Self {
        let hash = sha256(bytes);
        match env.host.read_hash(path) {
            Some(known) if known == hash => Self { seen: Seen::Same, before: None },
            Some(_) => Self { seen: Seen::ChangedSince, before: env.host.read_content(path) },
            None => Self { seen: Seen::Never, before: None },
        }
    }

    /// The file as something to edit.
    pub(crate) fn with<T>(&self, bytes: &[u8], name: &str, work: impl FnOnce(&Subject<'_>) -> T) -> T {
        let view = encoding::decode(bytes);
        let source = Source::new(&view.text);
        work(&Subject { name, bytes, view: &view, source: &source, seen: self.seen })
    }

    /// What changed since it was read, where that is known.
    pub(crate) fn drift(&self, subject: &Subject<'_>) -> Option<Drift> {
        Drift::between(self.before.as_deref()?, subject.source)
    }

    /// A refusal that shows all that changed is as good as reading the file again.
    pub(crate) fn told(env: &ToolEnv, path: &Path, bytes: &[u8], drift: Option<&Drift>) {
        if drift.is_some_and(Drift::is_told) {
            env.host.note_content(path, &sha256(bytes), bytes.to_vec());
        }
    }

    /// This content was written.
    pub(crate) fn written(&self, env: &ToolEnv, path: &Path, bytes: &[u8], drift: Option<&Drift>) {
        if self.seen == Seen::Same || drift.is_some_and(Drift::is_told) {
            env.host.note_content(path, &sha256(bytes), bytes.to_vec());
        }
    }
}
