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

use super::Core;
use crate::host::lock;
use crate::rules::{self, Rules, RulesSettings, Scoped, SentRules, fit, scoped};
use crate::settings::AgentSettings;
use becket_session::Durability;
use becket_session::context::compaction::RULES_PATH;
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
    pub(super) below: Vec<SystemItem>,
    /// Texts of the system prompt and of `below`.
    standing: SentRules,
    /// Rules files with `paths`. Each applies from the moment at which a file that matches its `paths` is used.
    scoped: Vec<Scoped>,
}

impl KnownRules {
    fn given(&self, path: Option<&PathBuf>) -> Option<&str> {
        self.below.iter().find(|item| item.path.as_ref() == path).map(|item| item.text.as_str())
    }

    /// Notes rules files with `paths`.
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

/// The folder whose rules apply, and the space for them.
pub(super) struct RulesScope<'a> {
    cwd: &'a Path,
    settings: &'a RulesSettings,
    /// Tokens that a request may carry.
    usable: u64,
}

impl<'a> RulesScope<'a> {
    pub(super) fn new(settings: &'a AgentSettings, usable: u64) -> Self {
        Self { cwd: &settings.environment.cwd, settings: &settings.rules, usable }
    }
}

impl KnownRules {
    /// Reads the rules of the system prompt.
    pub(super) fn load(&mut self, scope: &RulesScope<'_>) -> Rules {
        let mut fresh = rules::load(scope.cwd, scope.settings);
        fresh.notices.extend(fit::system(&mut fresh.items, scope.usable));
        self.standing = std::mem::take(&mut fresh.standing);
        self.note_scoped(std::mem::take(&mut fresh.scoped));
        fresh
    }

    /// Reads the rules again. Writes a new `system` entry only if the rules of the system prompt changed. Returns the rules
    /// below the working directory as they are now, and true if the system prompt changed.
    fn reread(&mut self, scope: &RulesScope<'_>, core: &mut Core) -> (Rules, bool) {
        let fresh = self.load(scope);
        let old = lock(&core.session).view().system_items().to_vec();
        let mut items: Vec<SystemItem> =
            old.iter().filter(|item| item.kind != SystemKind::Rules).cloned().collect();
        rules::insert(&mut items, fresh.items);
        // A session without system prompt has not begun. Its first `system` entry will contain the rules.
        let is_changed = items != old && !old.is_empty();
        if is_changed {
            tell_rules(core, fresh.notices);
            core.append(vec![EntryKind::System { items }], Durability::Buffered);
        }
        let (mut dirs, mut files) = (Vec::<PathBuf>::new(), Vec::<PathBuf>::new());
        for path in self.below.iter().filter_map(|item| item.path.as_ref()) {
            let is_scoped = self.scoped.iter().any(|scoped| scoped.file == *path);
            if is_scoped || scoped::is_rules_file(path) {
                files.push(path.clone());
            } else if let Some(dir) = path.parent()
                && !dirs.iter().any(|known| known == dir)
            {
                dirs.push(dir.to_owned());
            }
        }
        let standing = std::mem::take(&mut self.standing);
        let mut nested = rules::again(scope.cwd, &dirs, &files, standing, scope.settings);
        self.note_scoped(std::mem::take(&mut nested.scoped));
        self.standing = std::mem::take(&mut nested.standing);
        nested.notices.extend(fit::nested(&mut nested.items, (system_rules(core), 0), scope.usable));
        (nested, is_changed)
    }

    /// Called when a session is resumed: sends the model the rules that have changed meanwhile. Returns true if the system
    /// prompt changed.
    pub(super) fn renew(&mut self, scope: &RulesScope<'_>, core: &mut Core) -> bool {
        let (Rules { items, notices, .. }, is_changed) = self.reread(scope, core);
        let gone: Vec<SystemItem> = gone(&self.below, &items).cloned().collect();
        let changed =
            items.into_iter().filter(|item| self.given(item.path.as_ref()) != Some(item.text.as_str()));
        let changed: Vec<SystemItem> = changed.collect();
        if !changed.is_empty() {
            tell_rules(core, notices);
        }
        for item in changed {
            self.give(core, item);
        }
        for item in gone {
            let name = item.path.as_deref().unwrap_or(Path::new("")).display();
            self.give(core, SystemItem { text: format!("# Rules from {name}\n\n{GONE}"), ..item });
        }
        is_changed
    }

    /// Called when a compaction begins: returns the rules below the working directory that it must keep, read from their
    /// files, and true if the system prompt changed.
    pub(super) fn for_compaction(
        &mut self,
        scope: &RulesScope<'_>,
        core: &mut Core,
    ) -> (Vec<SystemItem>, bool) {
        if !core.resumed {
            // A resumed session is compacted before its first turn, so nothing has loaded its rules yet.
            self.recall(core);
        }
        let (Rules { items, notices, .. }, is_changed) = self.reread(scope, core);
        let changed = items.iter().any(|item| self.given(item.path.as_ref()) != Some(item.text.as_str()));
        let gone: Vec<String> = gone(&self.below, &items)
            .filter_map(|item| Some(item.path.as_ref()?.display().to_string()))
            .collect();
        for path in gone {
            let text = format!("{path} is gone: its rules leave the context with this compaction.");
            core.notice(NoticeLevel::Warning, text);
        }
        if changed {
            tell_rules(core, notices);
        }
        (items, is_changed)
    }

    /// Loads the rules below the working directory from the view.
    pub(super) fn recall(&mut self, core: &Core) {
        let session = lock(&core.session);
        let view = session.view();
        self.seen.clear();
        self.below =
            view.compaction().map(|(_, compaction)| compaction.repeated.rules.clone()).unwrap_or_default();
        for message in view.live() {
            if message.origin == Origin::Synthetic(Synthetic::Rules)
                && let Some(path) = message.metadata.extra.get(RULES_PATH).and_then(Value::as_str)
            {
                let text = message.text().replacen(CHANGED, "", 1);
                self.remember(SystemItem { kind: SystemKind::Rules, path: Some(PathBuf::from(path)), text });
            }
        }
        let present: HashSet<&Path> =
            view.system_items().iter().chain(&self.below).filter_map(|item| item.path.as_deref()).collect();
        self.standing.retain(|path| present.contains(path));
    }

    /// Called when files were touched: sends the rules in their folders to the model, each text once.
    pub(super) fn give_below(&mut self, touched: &[PathBuf], scope: &RulesScope<'_>, core: &mut Core) {
        for path in touched {
            let standing = std::mem::take(&mut self.standing);
            let known = std::mem::take(&mut self.scoped);
            let Rules { items, notices, standing, scoped } =
                rules::below(scope.cwd, path, &mut self.seen, &known, standing, scope.settings);
            (self.standing, self.scoped) = (standing, known);
            self.note_scoped(scoped);
            tell_rules(core, notices);
            for mut item in items {
                let earlier = self.below.iter().take_while(|known| known.path != item.path);
                let nested = earlier.map(|known| fit::size(std::slice::from_ref(known))).sum();
                let taken = (system_rules(core), nested);
                let cut = fit::nested(std::slice::from_mut(&mut item), taken, scope.usable);
                if self.given(item.path.as_ref()) != Some(item.text.as_str()) {
                    tell_rules(core, cut);
                    self.give(core, item);
                }
            }
        }
    }

    /// Sends one rules file as a message.
    fn give(&mut self, core: &mut Core, item: SystemItem) {
        let Some(path) = item.path.as_ref().map(|path| path.to_string_lossy().into_owned()) else { return };
        let text = match self.given(item.path.as_ref()) {
            Some(_) => item.text.replacen(path.as_str(), &format!("{path}{CHANGED}"), 1),
            None => item.text.clone(),
        };
        self.remember(item);
        send_rules(core, path, text);
    }
}

/// Records warnings about rules files.
pub(super) fn tell_rules(core: &mut Core, notices: Vec<String>) {
    for text in notices {
        core.notice(NoticeLevel::Warning, text);
    }
}

/// Base tokens of the rules in the system prompt.
fn system_rules(core: &Core) -> u64 {
    let session = lock(&core.session);
    let items = session.view().system_items().iter().filter(|item| item.kind == SystemKind::Rules);
    items.map(|item| fit::size(std::slice::from_ref(item))).sum()
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
