//! The beginning of a session and of a resumed one, and its rules files over time.
//!
//! The `system` entry holds the blocks of the system prompt as they are sent. A resumed session keeps prompt and
//! environment as they were recorded, so that the same bytes go out; rules files are read from disk, and a new entry is
//! written only when they changed. What a dead process left open is closed before the first prompt: calls get a result
//! that says what is known of them.

use super::inbox::INBOX;
use super::{Agent, Core};
use crate::host::lock;
use crate::machine::{Input, Phase};
use crate::prompt;
use crate::rules::{self, Rules};
use crate::settings::scope;
use becket_session::Durability;
use becket_session::context::View;
use becket_session::context::view::KindTotals;
use becket_types::{
    CallId, EntryKind, Event, JournalState, Message, NoticeLevel, Origin, Part, Role, Synthetic, SystemItem,
    SystemKind, TurnState, is_blank,
};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Key in the metadata of a message that brings a rules file.
const RULES_PATH: &str = "rules_path";

/// What is known of rules files.
#[derive(Debug, Default)]
pub(crate) struct KnownRules {
    /// Folders below the working directory that were looked at.
    seen: HashSet<PathBuf>,
    /// Files found there, in order, with the text that the model was given.
    below: Vec<PathBuf>,
    given: HashMap<PathBuf, String>,
    /// The ledger of an earlier process is taken up.
    resumed: bool,
}

impl Agent {
    /// Before the first command.
    pub(super) fn start(&mut self) {
        let info = self.wire.model.info();
        let (session, title, inbox) = {
            let mut session = lock(&self.core.session);
            session.view_mut().set_scope(scope(info));
            self.begun = !session.view().system_items().is_empty();
            let inbox = session.view().state(INBOX).cloned();
            (session.id(), session.title().map(str::to_owned), inbox)
        };
        if let Some(left) = inbox.and_then(|value| serde_json::from_value(value).ok()) {
            self.inbox.restore(left);
        }
        // A window that is set goes before what an earlier run learned; what this one learns goes before both.
        if self.settings.context_window.is_none() {
            self.budget.limits = self.learned_limits();
        }
        self.core.emit(Event::SessionStarted {
            session,
            cwd: self.settings.environment.cwd.clone(),
            model: info.id.clone(),
            tools: self.tools.names(),
            permission_mode: self.mode_name(),
            skills: self.settings.skills.clone(),
            api_key_source: self.settings.api_key_source.clone(),
            resumed: self.settings.resumed,
            title: title.or_else(|| self.settings.title.clone()),
        });
        if let Some(title) = self.settings.title.clone()
            && !self.titled
        {
            self.titled = true;
            self.core.push(EntryKind::Title { title });
        }
        self.core.tell_notices();
    }

    /// Goes on with a turn that an earlier process left, if there is one.
    pub(super) fn continue_turn(&mut self) {
        let state = lock(&self.core.session).view().turn_state();
        let owed = state != TurnState::AwaitingUser || self.inbox.has_left();
        if !owed || !self.begun || self.phase() != Phase::Idle {
            return;
        }
        self.begin_ledger();
        let answered_last =
            lock(&self.core.session).view().live().last().is_some_and(|m| m.role == Role::Assistant);
        if answered_last && !self.inbox.has_left() {
            let text = "You were interrupted. Go on where you stopped.".to_owned();
            self.core.synthetic(Synthetic::Reminder, text, Map::new());
        }
        self.take_left();
        self.feed(Input::Continue);
    }

    /// Once per process, before its first turn: the first entries, or what a resumed session needs.
    pub(super) fn begin_ledger(&mut self) {
        if self.rules.resumed {
            return;
        }
        self.rules.resumed = true;
        if self.begun {
            self.close_left_open();
            self.refresh_rules();
        } else {
            self.begun = true;
            let mut items = prompt::items(&self.settings.prompt, &self.settings.environment);
            let rules = rules::load(&self.settings.environment.cwd, &self.settings.rules);
            insert_rules(&mut items, rules.items);
            self.tell_rules(rules.notices);
            self.core.push(EntryKind::System { items });
        }
        let specs = serde_json::to_vec(&*self.specs).ok();
        let specs = specs.and_then(|specs| lock(&self.core.session).put_blob(&specs).ok());
        self.core.push(EntryKind::Tools { names: self.tools.names(), hash: self.tools.hash(), specs });
        self.core.push(EntryKind::ModelSwitch { model: self.wire.model.info().id.clone() });
    }

    /// Closes what a dead process left open and remembers the rules that the model was given.
    fn close_left_open(&mut self) {
        let mut entries = Vec::new();
        self.recall_rules();
        {
            let session = lock(&self.core.session);
            let view = session.view();
            let last = view.live().rev().find(|message| message.role == Role::Assistant);
            for id in view.open_calls() {
                let name = last.and_then(|message| call_name(message, &id)).unwrap_or("unknown");
                let mut message = left_open(id.clone(), name, view.call_known(&id));
                name_subagent(&mut message, &id, view);
                entries.push(EntryKind::Message { message });
            }
        }
        self.wire.cold = true;
        let closed = entries.len();
        if closed > 0 {
            self.core.append(entries, Durability::Synced);
            let text =
                format!("{closed} tool calls were under way when the session ended; they are not run again.");
            self.core.notice(NoticeLevel::Warning, text);
        }
    }

    /// The rules below the working directory are those that the messages in force brought.
    pub(super) fn recall_rules(&mut self) {
        let session = lock(&self.core.session);
        let rules = &mut self.rules;
        (rules.seen, rules.below, rules.given) = Default::default();
        for message in session.view().live() {
            if message.origin == Origin::Synthetic(Synthetic::Rules)
                && let Some(path) = message.metadata.extra.get(RULES_PATH).and_then(Value::as_str)
            {
                let path = PathBuf::from(path);
                rules.given.insert(path.clone(), message.text());
                rules.below.push(path);
            }
        }
    }

    /// Reads the rules again. A new `system` entry only when they changed.
    pub(super) fn refresh_rules(&mut self) {
        let cwd = self.settings.environment.cwd.clone();
        let mut fresh = rules::load(&cwd, &self.settings.rules);
        for path in &self.rules.below {
            fresh.items.extend(rules::reread(&cwd, path, &self.settings.rules));
        }
        let old = self.system_items();
        let mut items: Vec<SystemItem> =
            old.iter().filter(|item| item.kind != SystemKind::Rules).cloned().collect();
        insert_rules(&mut items, fresh.items);
        if items == old {
            return;
        }
        for item in items.iter().filter(|item| item.kind == SystemKind::Rules) {
            if let Some(path) = &item.path {
                self.rules.given.insert(path.clone(), item.text.clone());
            }
        }
        self.tell_rules(fresh.notices);
        self.budget.floor = None;
        self.budget.kinds = KindTotals::default();
        self.core.append(vec![EntryKind::System { items }], Durability::Buffered);
    }

    /// The blocks in force.
    pub(super) fn system_items(&self) -> Vec<SystemItem> {
        lock(&self.core.session).view().system_items().to_vec()
    }

    fn tell_rules(&mut self, notices: Vec<String>) {
        for text in notices {
            self.core.notice(NoticeLevel::Warning, text);
        }
    }

    /// Files were touched: rules in their folders go to the model, each text once.
    pub(super) fn rules_below(&mut self, touched: &[PathBuf]) {
        let cwd = self.settings.environment.cwd.clone();
        for path in touched {
            let Rules { items, notices } =
                rules::below(&cwd, path, &mut self.rules.seen, &self.settings.rules);
            self.tell_rules(notices);
            for item in items {
                let Some(path) = item.path else { continue };
                if self.rules.given.get(&path) == Some(&item.text) {
                    continue;
                }
                give_rules(&mut self.core, &path, item.text.clone());
                if !self.rules.below.contains(&path) {
                    self.rules.below.push(path.clone());
                }
                self.rules.given.insert(path, item.text);
            }
        }
    }
}

fn give_rules(core: &mut Core, path: &Path, text: String) {
    let mut extra = Map::new();
    extra.insert(RULES_PATH.to_owned(), Value::from(path.to_string_lossy().into_owned()));
    core.synthetic(Synthetic::Rules, text, extra);
}

/// Rules stand behind prompt, environment and skills, and before what the caller appended.
fn insert_rules(items: &mut Vec<SystemItem>, rules: Vec<SystemItem>) {
    let at = items.iter().position(|item| item.kind == SystemKind::Appended).unwrap_or(items.len());
    items.splice(at..at, rules.into_iter().filter(|item| !is_blank(&item.text)));
}

fn call_name<'a>(message: &'a Message, id: &CallId) -> Option<&'a str> {
    message.parts.iter().find_map(|part| match part {
        Part::ToolCall { call_id, name, .. } if call_id == id => Some(name.as_str()),
        _ => None,
    })
}

/// A subagent that worked for the call left a session: people find there what it did.
fn name_subagent(message: &mut Message, id: &CallId, view: &View) {
    let mut lines = view.journal().iter().rev();
    let Some(line) = lines.find(|line| line.call_id == id.as_str()) else { return };
    let value = line.value();
    let Some(session) = value.get("subagent").and_then(Value::as_str) else { return };
    for part in &mut message.parts {
        if let Part::ToolResult { output, .. } = part {
            let _ = write!(output, " The subagent's session is {session}.");
        }
    }
}

/// The result of a call that a dead process left without one.
fn left_open(id: CallId, name: &str, journal: Option<JournalState>) -> Message {
    let (text, interrupted) = match journal {
        Some(JournalState::Started | JournalState::Finished) => (
            "Interrupted, effect unknown: the session ended while this call was running. It was not run again. Check \
             what it did before you repeat it.",
            true,
        ),
        Some(JournalState::Intended) | None => (
            "Not run: the session ended before this call was started. Make it again if it is still needed.",
            false,
        ),
    };
    let mut message = Message::tool_result(id, name, text, true);
    for part in &mut message.parts {
        if let Part::ToolResult { interrupted: flag, .. } = part {
            *flag = interrupted;
        }
    }
    message
}
