//! Folders that join and leave the workspace while the session runs.
//!
//! A folder counts at once for the guard, the tools and the confinement of commands, and for undo from the next call on. The
//! session state `add_dirs` keeps it for later runs, which read the state before they build the guard. The model is informed
//! before the next request.
//!
//! A subagent that runs already keeps the folders that it started with.

use super::conversation::Conversation;
use super::toolset::Toolset;
use crate::host::lock;
use becket_session::Durability;
use becket_types::{EntryKind, Event, FilePath, NoticeLevel, Synthetic, SystemItem, SystemKind};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Name of the session state that holds the added folders.
pub const ADDED_FOLDERS: &str = "add_dirs";

/// The parts of an agent that change when a folder joins or leaves the workspace.
pub(super) struct Workspace<'a> {
    pub(super) conversation: &'a mut Conversation,
    pub(super) tools: &'a mut Toolset,
}

impl Workspace<'_> {
    /// Adds a folder to the workspace and returns it, or lists the folders. `Err` says why it was not added.
    pub(super) fn add_directory(&mut self, path: Option<&Path>) -> Result<Option<PathBuf>, String> {
        let Some(path) = path else {
            self.conversation.core.emit_notice(NoticeLevel::Info, self.list_folders());
            return Ok(None);
        };
        let folder = self
            .folder(path)
            .map_err(|why| format!("{} was not added to the workspace: {why}.", path.display()))?;
        if let Some(root) = self.conversation.settings.roots.iter().find(|root| folder.starts_with(root)) {
            let text = format!("{} is in the workspace already, as {}.", folder.display(), root.display());
            self.conversation.core.emit_notice(NoticeLevel::Info, text);
            return Ok(None);
        }
        self.conversation.settings.roots.push(folder.clone());
        self.conversation.settings.environment.extra_dirs.push(folder.clone());
        self.tools.guard.add_root(&folder);
        if let Some(confinement) = &self.conversation.settings.tools.confinement {
            let obeyed = confinement.add_folder(&folder);
            self.tools.guard.protect(obeyed);
        }
        if let Some(files) = &self.tools.files {
            files.add_folder(&folder);
        }
        if self.conversation.core.begun {
            self.tools.unreported_folders.push((folder.clone(), true));
        }
        self.keep_folder(&folder);
        let text = format!("Added {} to the workspace. The session keeps it.", folder.display());
        self.conversation.core.emit_notice(NoticeLevel::Info, text);
        tell_workspace(self.conversation);
        Ok(Some(folder))
    }

    /// Removes a folder that this session has added. `Err` says why it stays.
    pub(super) fn remove_directory(&mut self, path: &Path) -> Result<(), String> {
        let folder = self
            .folder(path)
            .map_err(|why| format!("{} was not removed from the workspace: {why}.", path.display()))?;
        let mut list = self.kept_folders();
        let before = list.len();
        list.retain(|known| *known != json!(FilePath(folder.clone())));
        if list.len() == before {
            return Err(format!(
                "{} was not removed from the workspace: it is no folder that was added to this session.",
                folder.display()
            ));
        }
        let settings = &mut self.conversation.settings;
        settings.roots.retain(|root| *root != folder);
        settings.environment.extra_dirs.retain(|dir| *dir != folder);
        self.tools.guard.remove_root(&folder);
        if let Some(confinement) = &settings.tools.confinement {
            confinement.remove_folder(&folder, &settings.roots);
        }
        if self.conversation.core.begun {
            self.tools.unreported_folders.push((folder.clone(), false));
        }
        self.write_folders(list);
        let text = format!("Removed {} from the workspace.", folder.display());
        self.conversation.core.emit_notice(NoticeLevel::Info, text);
        let added = self.conversation.settings.roots.iter().skip(1).cloned().collect();
        self.conversation.core.emit(Event::WorkspaceChanged { added });
        Ok(())
    }

    /// Informs the model of folders that were added or removed since the last request.
    pub(super) fn tell_changed_folders(&mut self) {
        for (folder, is_added) in std::mem::take(&mut self.tools.unreported_folders) {
            let folder = folder.display();
            let text = if is_added {
                format!(
                    "The user added the folder {folder} to the workspace. You may use it like the working directory, by its \
                     absolute path."
                )
            } else {
                format!("The user removed the folder {folder} from the workspace.")
            };
            self.conversation.core.synthetic(Synthetic::Reminder, text, Map::new());
        }
    }

    /// Returns the canonical path of a folder that the user names. `Err` is the reason why there is none, without its path.
    fn folder(&self, path: &Path) -> Result<PathBuf, String> {
        let below_home = path.strip_prefix("~").ok().zip(self.conversation.settings.rules.home.as_ref());
        let full = match below_home {
            Some((rest, home)) => home.join(rest),
            None => self.conversation.settings.environment.cwd.join(path),
        };
        match full.canonicalize() {
            Ok(folder) if folder.is_dir() => Ok(folder),
            Ok(_) => Err("it is not a folder".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Records the folder in the session.
    fn keep_folder(&mut self, folder: &Path) {
        let mut list = self.kept_folders();
        list.push(json!(FilePath(folder.to_path_buf())));
        self.write_folders(list);
    }

    /// Returns the folders that the session keeps.
    fn kept_folders(&self) -> Vec<Value> {
        // The states of this run, which may not be in the ledger yet, come first.
        let waiting = self.conversation.settings.session.states.iter().find(|(key, _)| key == ADDED_FOLDERS);
        let known = waiting
            .map(|(_, value)| value.clone())
            .or_else(|| lock(&self.conversation.core.session).view().state(ADDED_FOLDERS).cloned());
        known.and_then(|value| value.as_array().cloned()).unwrap_or_default()
    }

    fn write_folders(&mut self, list: Vec<Value>) {
        self.conversation.settings.session.states.retain(|(key, _)| key != ADDED_FOLDERS);
        let entry = EntryKind::State { key: ADDED_FOLDERS.to_owned(), value: list.into() };
        self.conversation.core.append(vec![entry], Durability::Buffered);
    }

    fn list_folders(&self) -> String {
        let folders: Vec<String> =
            self.conversation.settings.roots.iter().map(|root| root.display().to_string()).collect();
        format!("The workspace: {}. /add-dir FOLDER adds another one.", folders.join(", "))
    }
}

/// Tells front ends the folders beside the working directory.
pub(super) fn tell_workspace(conversation: &Conversation) {
    let added: Vec<PathBuf> = conversation.settings.roots.iter().skip(1).cloned().collect();
    if !added.is_empty() {
        conversation.core.emit(Event::WorkspaceChanged { added });
    }
}

/// Finds folders of this run that the system prompt of a continued session does not name and that the session did not have.
pub(super) fn find_unreported_folders(conversation: &Conversation, tools: &mut Toolset) {
    let items = conversation.system_items();
    let known = lock(&conversation.core.session).view().state(ADDED_FOLDERS).cloned().unwrap_or_default();
    let folders = conversation.settings.environment.extra_dirs.iter().filter(|folder| {
        let shown = folder.display().to_string();
        let kept = known.as_array().is_some_and(|list| list.contains(&json!(FilePath((*folder).clone()))));
        let is_named = |item: &SystemItem| item.kind == SystemKind::Environment && item.text.contains(&shown);
        !kept && !items.iter().any(is_named)
    });
    tools.unreported_folders.extend(folders.map(|folder| (folder.clone(), true)));
}
