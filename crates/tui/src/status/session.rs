//! Facts about the session: model, mode, folder, branch, title.
//!
//! Owns their short forms for the status line, the header and the window title. Events and the host set them; nothing
//! here depends on a turn.

use crate::menu::Item;
use crate::text;
use std::path::PathBuf;

/// Fewest columns of a title. A shorter one would say nothing.
const TITLE: usize = 12;

/// Facts about the session. The model is empty before the session is known.
#[derive(Debug, Default)]
pub(super) struct SessionFacts {
    pub id: String,
    pub model: String,
    pub mode: String,
    pub cwd: PathBuf,
    /// Folders of the workspace beside `cwd`.
    pub added: Vec<PathBuf>,
    /// The user's home folder, which is shown as `~`.
    pub home: Option<PathBuf>,
    pub branch: Option<String>,
    pub title: Option<String>,
    /// The user renamed the session, and the confirmation is pending.
    pub renaming: bool,
}

impl SessionFacts {
    /// Returns the folder as the header shows it.
    pub(super) fn folder(&self) -> String {
        match self.home.as_ref().and_then(|home| self.cwd.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.display()),
            None => self.cwd.display().to_string(),
        }
    }

    /// Returns the name of the model without its provider.
    pub(super) fn model_name(&self) -> &str {
        // A scripted model is named by the path of its file.
        if self.model.starts_with("script:") {
            return self.model.rsplit(['/', ':']).next().unwrap_or_default();
        }
        self.model.split_once('/').map_or(&*self.model, |(_, name)| name)
    }

    /// Returns the folder, and the branch. `whole`: the path of the folder, not only its name.
    pub(super) fn place(&self, whole: bool) -> String {
        let name = match self.cwd.file_name() {
            Some(name) if !whole => name.to_string_lossy().into_owned(),
            _ => self.folder(),
        };
        match &self.branch {
            Some(branch) if !name.is_empty() => format!("{name} ({branch})"),
            _ => name,
        }
    }

    /// Returns the session and its folder, for the title of the terminal's window.
    pub(super) fn window_title(&self) -> String {
        let name = self.title.as_deref().unwrap_or("becket");
        match self.cwd.file_name() {
            Some(folder) => format!("{name} · {}", folder.to_string_lossy()),
            None => name.to_owned(),
        }
    }

    /// Returns the title, shortened to this many columns.
    pub(super) fn title(&self, columns: usize) -> Option<String> {
        let title = self.title.as_deref().map(str::trim).filter(|title| !title.is_empty())?;
        (columns >= TITLE).then(|| text::fit_words(&text::visible(title), columns).into_owned())
    }

    /// Returns the models to choose from, the current one first.
    pub(super) fn model_first(&self, mut models: Vec<(String, String)>) -> Vec<Item> {
        let at = models.iter().position(|(name, _)| *name == self.model);
        let detail = at.map(|at| models.remove(at).1).filter(|detail| !detail.is_empty());
        let detail = detail.map_or_else(|| "in use".to_owned(), |detail| format!("in use · {detail}"));
        let own = (!self.model.is_empty()).then(|| (self.model.clone(), detail));
        own.into_iter().chain(models).map(|(name, detail)| Item { name, detail }).collect()
    }

    /// True in modes in which calls run without a question.
    pub(super) fn is_loud(&self) -> bool {
        matches!(self.mode.as_str(), "bypassPermissions" | "acceptEdits" | "auto")
    }
}
