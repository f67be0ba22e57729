//! Owns the settings for drawing the calls of a session: its directory, and the key that opens calls.

use crate::paths::ShortPaths;
use std::path::{Path, PathBuf};

/// Settings for drawing the calls of this session.
#[derive(Debug)]
pub struct CallView {
    /// The directory of the session. Paths are shown relative to it.
    pub workspace: String,
    /// The chord that opens and closes calls.
    pub open_key: String,
    /// The user's home folder, which is shown as `~`.
    pub home: Option<PathBuf>,
}

impl Default for CallView {
    fn default() -> Self {
        Self { workspace: String::new(), open_key: "ctrl+o".to_owned(), home: None }
    }
}

impl CallView {
    /// Returns the short forms of paths in texts.
    pub(crate) fn paths(&self) -> ShortPaths {
        ShortPaths::new(Path::new(&self.workspace), self.home.as_deref())
    }

    /// Shortens a path inside the workspace to its relative form. Any other subject is returned unchanged.
    pub fn relative<'a>(&self, subject: &'a str) -> &'a str {
        let inside = || subject.strip_prefix(&self.workspace)?.strip_prefix('/');
        if self.workspace.is_empty() {
            subject
        } else {
            inside().filter(|rest| !rest.is_empty()).unwrap_or(subject)
        }
    }
}
