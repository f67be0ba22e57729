//! Keeps each rules file in the context once, and up to date, for the whole session.
//!
//! Rules of the working directory and above are blocks of the system prompt. A file below the working directory becomes a
//! message when a file in its folder is touched. A compaction re-reads those files and keeps their texts in its own entry,
//! after the summary (see `session::context::compaction`). So the system prompt stays as the provider has cached it.
//!
//! All files are read again before a compaction and when a session is resumed. A block of the system prompt that changed
//! is a new `system` entry. A nested file that changed while a process was away is sent again, marked as changed.
//!
//! Does not decide what a compaction removes.

use super::{Agent, Core};
use crate::host::lock;
use crate::rules::{self, Rules, Scoped, Standing, fit, scoped};
use becket_session::Durability;
use becket_session::context::compaction::RULES_PATH;
use becket_session::context::view::KindTotals;
use becket_types::{EntryKind, NoticeLevel, Origin, Synthetic, SystemItem, SystemKind};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Follows the path in the heading of rules that are sent again.
const CHANGED: &str = " (changed: these replace the earlier rules from this file)";
/// Stands for the rules of a file that was deleted.
const GONE: &str = "The file is gone from disk. Its rules no longer apply.";

/// The rules files that the model was given.
#[derive(Debug, Default)]
pub(crate) struct KnownRules {
    /// Folders below the working directory that have been searched.
    seen: HashSet<PathBuf>,
    /// Rules found there, in the order in which they were found, with the text that was sent last.
    below: Vec<SystemItem>,
    /// Texts of the system prompt and of `below`.
    standing: Standing,
    /// Files that apply when a file that they are for is used.
    scoped: Vec<Scoped>,
    /// True once the first turn of this process has begun.
    pub(super) resumed: bool,
}

impl KnownRules {
    fn given(&self, path: Option<&PathBuf>) -> Option<&str> {
        self.below.iter().find(|item| item.path.as_ref() == path).map(|item| item.text.as_str())
    }

    /// Adds files that apply to some paths.
    fn note_scoped(&mut self, found: Vec<Scoped>) {
        for scoped in found {
            match self.scoped.iter_mut().find(|known| known.file == scoped.file) {
                Some(known) => *known = scoped,
                None => self.scoped.push(scoped),
            }
        }
    }

    fn remember(&mut self, fresh: SystemItem) {
        match self.below.iter_mut().find(|item| item.path == fresh.path) {
            Some(item) => *item = fresh,
            None => self.below.push(fresh),
        }
    }
}

impl Agent {
    /// Reads the rules of the system prompt.
    pub(super) fn load_rules(&mut self) -> Rules {
        let mut fresh = rules::load(&self.settings.environment.cwd, &self.settings.rules);
        let usable = self.budget().usable();
        fresh.notices.extend(fit::system(&mut fresh.items, usable));
        self.rules.standing = std::mem::take(&mut fresh.standing);
        self.rules.note_scoped(std::mem::take(&mut fresh.scoped));
        fresh
    }

    /// Reads the rules again. Writes a new `system` entry only when those of the system prompt changed. Returns the rules
    /// below the working directory as they are now.
    fn reread_rules(&mut self) -> Rules {
        let fresh = self.load_rules();
        let old = self.system_items();
        let mut items: Vec<SystemItem> =
            old.iter().filter(|item| item.kind != SystemKind::Rules).cloned().collect();
        rules::insert(&mut items, fresh.items);
        // A session without a prompt has not begun: its first entry brings the rules.
        if items != old && !old.is_empty() {
            self.tell_rules(fresh.notices);
            self.budget.floor = None;
            self.budget.kinds = KindTotals::default();
            // The provider's cached prefix begins with these blocks, so it is lost.
            self.wire.cache.cold = true;
            self.core.append(vec![EntryKind::System { items }], Durability::Buffered);
        }
        let (mut dirs, mut files) = (Vec::<PathBuf>::new(), Vec::<PathBuf>::new());
        for path in self.rules.below.iter().filter_map(|item| item.path.as_ref()) {
            let is_scoped = self.rules.scoped.iter().any(|scoped| scoped.file == *path);
            if is_scoped || scoped::is_rules_file(path) {
                files.push(path.clone());
            } else if let Some(dir) = path.parent()
                && !dirs.iter().any(|known| known == dir)
            {
                dirs.push(dir.to_owned());
            }
        }
        let cwd = &self.settings.environment.cwd;
        let standing = std::mem::take(&mut self.rules.standing);
        let mut nested = rules::again(cwd, &dirs, &files, standing, &self.settings.rules);
        self.rules.note_scoped(std::mem::take(&mut nested.scoped));
        self.rules.standing = std::mem::take(&mut nested.standing);
        let (taken, usable) = (self.system_rules(), self.budget().usable());
        nested.notices.extend(fit::nested(&mut nested.items, (taken, 0), usable));
        nested
    }

    /// Called when a session is resumed: sends the model the rules that have changed meanwhile.
    pub(super) fn renew_rules(&mut self) {
        let Rules { items, notices, .. } = self.reread_rules();
        let gone: Vec<SystemItem> = gone(&self.rules.below, &items).cloned().collect();
        let changed =
            items.into_iter().filter(|item| self.rules.given(item.path.as_ref()) != Some(item.text.as_str()));
        let changed: Vec<SystemItem> = changed.collect();
        if !changed.is_empty() {
            self.tell_rules(notices);
        }
        for item in changed {
            self.give_rules(item);
        }
        for item in gone {
            let name = item.path.as_deref().unwrap_or(Path::new("")).display();
            self.give_rules(SystemItem { text: format!("# Rules from {name}\n\n{GONE}"), ..item });
        }
    }

    /// Called when a compaction begins: returns the rules below the working directory that it must keep, read from their files.
    pub(super) fn rules_to_keep(&mut self) -> Vec<SystemItem> {
        if !self.rules.resumed {
            // The session was resumed, and is compacted before its first turn.
            self.recall_rules();
        }
        let Rules { items, notices, .. } = self.reread_rules();
        let changed =
            items.iter().any(|item| self.rules.given(item.path.as_ref()) != Some(item.text.as_str()));
        let gone: Vec<String> = gone(&self.rules.below, &items)
            .filter_map(|item| Some(item.path.as_ref()?.display().to_string()))
            .collect();
        for path in gone {
            let text = format!("{path} is gone: its rules leave the context with this compaction.");
            self.core.notice(NoticeLevel::Warning, text);
        }
        if changed {
            self.tell_rules(notices);
        }
        items
    }

    /// Loads the rules below the working directory from the view.
    pub(super) fn recall_rules(&mut self) {
        let session = lock(&self.core.session);
        let view = session.view();
        let rules = &mut self.rules;
        rules.seen.clear();
        rules.below = view.compaction().map(|(_, compaction)| compaction.rules.clone()).unwrap_or_default();
        for message in view.live() {
            if message.origin == Origin::Synthetic(Synthetic::Rules)
                && let Some(path) = message.metadata.extra.get(RULES_PATH).and_then(Value::as_str)
            {
                let text = message.text().replacen(CHANGED, "", 1);
                rules.remember(SystemItem { kind: SystemKind::Rules, path: Some(PathBuf::from(path)), text });
            }
        }
        let stand: HashSet<&Path> =
            view.system_items().iter().chain(&rules.below).filter_map(|item| item.path.as_deref()).collect();
        rules.standing.retain(|path| stand.contains(path));
    }

    pub(super) fn tell_rules(&mut self, notices: Vec<String>) {
        for text in notices {
            self.core.notice(NoticeLevel::Warning, text);
        }
    }

    /// Called when files were touched: sends the rules in their folders to the model, each text once.
    pub(super) fn rules_below(&mut self, touched: &[PathBuf]) {
        let cwd = self.settings.environment.cwd.clone();
        for path in touched {
            let standing = std::mem::take(&mut self.rules.standing);
            let known = std::mem::take(&mut self.rules.scoped);
            let Rules { items, notices, standing, scoped } =
                rules::below(&cwd, path, &mut self.rules.seen, &known, standing, &self.settings.rules);
            (self.rules.standing, self.rules.scoped) = (standing, known);
            self.rules.note_scoped(scoped);
            self.tell_rules(notices);
            for mut item in items {
                let earlier = self.rules.below.iter().take_while(|known| known.path != item.path);
                let nested = earlier.map(|known| fit::size(std::slice::from_ref(known))).sum();
                let (taken, usable) = (self.system_rules(), self.budget().usable());
                let cut = fit::nested(std::slice::from_mut(&mut item), (taken, nested), usable);
                if self.rules.given(item.path.as_ref()) != Some(item.text.as_str()) {
                    self.tell_rules(cut);
                    self.give_rules(item);
                }
            }
        }
    }

    /// Sends one rules file as a message.
    fn give_rules(&mut self, item: SystemItem) {
        let Some(path) = item.path.as_ref().map(|path| path.to_string_lossy().into_owned()) else { return };
        let text = match self.rules.given(item.path.as_ref()) {
            Some(_) => item.text.replacen(path.as_str(), &format!("{path}{CHANGED}"), 1),
            None => item.text.clone(),
        };
        self.rules.remember(item);
        send_rules(&mut self.core, path, text);
    }

    /// Base tokens of the rules in the system prompt.
    fn system_rules(&self) -> u64 {
        let session = lock(&self.core.session);
        let items = session.view().system_items().iter().filter(|item| item.kind == SystemKind::Rules);
        items.map(|item| fit::size(std::slice::from_ref(item))).sum()
    }
}

fn send_rules(core: &mut Core, path: String, text: String) {
    let mut extra = Map::new();
    extra.insert(RULES_PATH.to_owned(), Value::from(path));
    core.synthetic(Synthetic::Rules, text, extra);
}

/// Rules that the model was given but whose files no longer exist.
fn gone<'a>(given: &'a [SystemItem], now: &'a [SystemItem]) -> impl Iterator<Item = &'a SystemItem> {
    given.iter().filter(|item| !item.text.ends_with(GONE) && now.iter().all(|fresh| fresh.path != item.path))
}
