//! The hook that runs after edits: it formats the edited files, then reports the errors that the edit introduced.

use crate::diagnostics;
use crate::format;
use crate::pool::Pool;
use crate::replace::read_text;
use crate::settings::Settings;
use crate::tool::LspTool;
use becket_tool::{EditHook, EditNote, ToolEnv};
use becket_types::{FileChange, FileChangeKind, PermissionMode};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// Maximum number of files of one call that are formatted and checked.
const MAX_FILES: usize = 20;

/// Formats edited files and reports the errors that an edit introduced. One per session.
pub struct AfterEdit {
    settings: Settings,
    pool: Arc<Pool>,
    /// Texts of the files that the running call may change, as they were before it.
    before: Mutex<BTreeMap<PathBuf, String>>,
}

impl AfterEdit {
    /// Makes the formatter and the pool of language servers. No program starts before the first edit or question.
    pub fn new(settings: Settings) -> Self {
        let pool = Arc::new(Pool::new(&settings));
        Self { settings, pool, before: Mutex::default() }
    }

    /// Returns the `lsp` tool, which uses the same servers. `None` if servers may not run, or if no server
    /// fits a project in `roots`.
    pub fn tool(&self, mode: PermissionMode, roots: &[PathBuf]) -> Option<LspTool> {
        (self.pool.is_on(mode) && self.pool.could_serve(roots)).then(|| LspTool::new(Arc::clone(&self.pool)))
    }

    async fn format(
        &self,
        paths: &[&Path],
        mode: PermissionMode,
        env: &ToolEnv,
    ) -> (Vec<String>, Vec<Value>) {
        let (mut lines, mut details) = (Vec::new(), Vec::new());
        let deadline = Instant::now() + format::TIMEOUT;
        for path in paths {
            let Some(chosen) = format::choose(&self.settings.format, &self.settings.env, path, mode, env)
            else {
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            match format::format(&chosen, path, &self.settings, env, left).await {
                Ok(done) if done.lines == 0 => {}
                Ok(done) => {
                    details.push(json!({"path": path.to_string_lossy(), "formatter": chosen.name, "lines": done.lines}));
                    lines.push(done.text);
                }
                Err(why) => lines.push(format!("{}: {why}.", env.display(path))),
            }
        }
        (lines, details)
    }
}

impl EditHook for AfterEdit {
    fn before<'a>(&'a self, paths: &'a [PathBuf], mode: PermissionMode, _: &'a ToolEnv) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut texts = BTreeMap::new();
            if self.pool.is_on(mode) {
                for path in paths.iter().take(MAX_FILES).filter(|p| self.pool.serves(p)) {
                    if let Ok(text) = read_text(path) {
                        texts.insert(path.clone(), text);
                    }
                }
            }
            *self.before.lock().unwrap_or_else(PoisonError::into_inner) = texts;
        })
    }

    fn after<'a>(
        &'a self,
        changes: &'a [FileChange],
        mode: PermissionMode,
        env: &'a ToolEnv,
    ) -> BoxFuture<'a, EditNote> {
        Box::pin(async move {
            let before = std::mem::take(&mut *self.before.lock().unwrap_or_else(PoisonError::into_inner));
            let changes = &changes[..changes.len().min(MAX_FILES)];
            let there = changes.iter().filter(|c| c.kind != FileChangeKind::Delete).map(|c| c.path.as_path());
            let (mut lines, formatted) = self.format(&there.collect::<Vec<_>>(), mode, env).await;
            let mut details = Map::new();
            if !formatted.is_empty() {
                details.insert("formatted".to_owned(), Value::from(formatted));
            }
            if self.pool.is_on(mode) {
                let report = diagnostics::check(&self.pool, changes, &before, env).await;
                if !report.details.is_empty() {
                    details.insert("errors".to_owned(), Value::from(report.details));
                }
                lines.extend(report.lines);
            }
            lines.extend(self.settings.programs.notice());
            let details = if details.is_empty() { Value::Null } else { Value::Object(details) };
            EditNote { text: lines.join("\n"), details }
        })
    }
}
