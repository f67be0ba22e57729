//! Starts a session, or resumes one.
//!
//! The `system` entry contains the blocks of the system prompt as they are sent. A resumed session keeps the recorded prompt
//! and environment, so that it sends the same bytes, unless it continues in another folder; rules files are read from disk
//! again (`rules_files`). Calls that a dead process left open are closed before the first prompt: each gets a result that
//! says what is known of it.

use super::Agent;
use super::inbox::INBOX;
use super::rules_files::{RulesScope, tell_rules};
use crate::host::lock;
use crate::machine::{Input, Phase};
use crate::prompt;
use crate::rules;
use crate::settings::scope;
use crate::spend::SPENT;
use becket_session::Durability;
use becket_session::context::View;
use becket_types::{
    CallId, EntryKind, Event, JournalState, Message, NoticeLevel, Origin, Part, PermissionMode, Role,
    Synthetic, SystemItem, SystemKind, TurnState,
};
use serde_json::{Map, Value};
use std::fmt::Write as _;

impl Agent {
    /// Prepares the session before the first command.
    pub(super) fn start(&mut self) {
        self.recall_meter();
        let info = self.wire.model.info();
        let (session, title, inbox) = {
            let mut session = lock(&self.core.session);
            session.view_mut().set_scope(scope(info));
            self.core.begun = !session.view().system_items().is_empty();
            let inbox = session.view().state(INBOX).cloned();
            (session.id(), session.title().map(str::to_owned), inbox)
        };
        if let Some(left) = inbox.and_then(|value| serde_json::from_value(value).ok()) {
            self.inbox.restore(left);
        }
        // A configured window overrides the limits of earlier runs; a limit that this run learns overrides both.
        if self.settings.requests.context_window.is_none() {
            self.budget.limits = self.learned_limits();
        }
        self.core.emit(Event::SessionStarted {
            session,
            cwd: self.settings.environment.cwd.clone(),
            model: info.id.clone(),
            tools: self.tools.registry.names(),
            permission_mode: self.mode_name(),
            skills: self.settings.session.skills.clone(),
            api_key_source: self.settings.session.api_key_source.clone(),
            resumed: self.settings.session.resumed,
            title: title.or_else(|| self.settings.session.title.clone()),
        });
        if let Some(title) = self.settings.session.title.clone()
            && !self.inbox.titled
        {
            self.inbox.titled = true;
            self.core.push(EntryKind::Title { title });
        }
        self.core.tell_notices();
        self.recall_limits();
        self.tell_unfinished();
    }

    /// Continues the count of earlier processes for the limits, and their wait for the provider's quota.
    fn recall_limits(&mut self) {
        let spent = lock(&self.core.session).view().state(SPENT).cloned();
        if let Some(spent) = spent {
            self.spending.limits.recall(&spent, self.settings.limits.new);
        }
        self.recall_quota_wait();
    }

    /// The mode's public name.
    pub(super) fn mode_name(&self) -> String {
        self.tools.guard.mode().to_string()
    }

    /// Sets the permission mode. `Err` says why it was not changed.
    pub(super) fn set_mode(&mut self, name: &str) -> Result<(), String> {
        let mode = name.parse::<PermissionMode>()?;
        self.tools.guard.set_mode(mode);
        self.tools.subagents.set_mode(mode);
        let value = serde_json::Value::from(mode.as_str());
        self.core.append(vec![EntryKind::State { key: "mode".to_owned(), value }], Durability::Buffered);
        self.core.say(NoticeLevel::Info, format!("Permission mode: {mode}."));
        Ok(())
    }

    /// Sets the effort of the next requests. Later runs of the session keep it.
    pub(super) fn set_effort(&mut self, effort: Option<String>) {
        let level = effort.as_deref().unwrap_or("the default of the model");
        let unsent = if self.wire.model.info().reasoning {
            ""
        } else {
            " The model has no such setting, so it is not sent."
        };
        self.core.say(NoticeLevel::Info, format!("Effort: {level}, from the next request on.{unsent}"));
        self.keep_option("effort", Value::from(effort.clone()));
        self.settings.requests.effort = effort;
    }

    /// True if an earlier process left its last turn unfinished, and no turn has begun since.
    fn is_left_unfinished(&self) -> bool {
        let state = lock(&self.core.session).view().turn_state();
        let is_owed = state != TurnState::AwaitingUser || self.inbox.has_left();
        is_owed && self.core.begun && !self.rules.resumed
    }

    /// Informs the user at once that a turn was cut off, not only after the next message.
    fn tell_unfinished(&self) {
        if !self.settings.session.resumed || !self.is_left_unfinished() {
            return;
        }
        let words = {
            let session = lock(&self.core.session);
            let last = session.view().live().rev().find(|message| message.origin == Origin::User);
            last.and_then(|message| prompt::title(&message.text()))
        };
        let turn =
            words.map_or_else(|| "The last turn".to_owned(), |words| format!("The last turn ({words:?})"));
        let next = if self.settings.asking.headless {
            "A message continues it, and so does `becket -p --continue` without one."
        } else {
            "Press Enter to continue it, or send a message."
        };
        self.core.say(NoticeLevel::Warning, format!("{turn} was cut off before it was done. {next}"));
    }

    /// Continues a turn that an earlier process left unfinished, if there is one.
    pub(super) fn continue_turn(&mut self) {
        if !self.is_left_unfinished() || self.phase() != Phase::Idle {
            return;
        }
        self.begin_ledger();
        let answered_last = {
            let session = lock(&self.core.session);
            let mut newest = session.view().live().rev();
            // Rules that changed meanwhile were just sent again.
            let last = newest.find(|m| m.origin != Origin::Synthetic(Synthetic::Rules));
            last.is_some_and(|m| m.role == Role::Assistant)
        };
        if answered_last && !self.inbox.has_left() {
            let text = "You were interrupted. Go on where you stopped.".to_owned();
            self.core.synthetic(Synthetic::Reminder, text, Map::new());
        }
        self.take_left();
        self.feed(Input::Continue);
    }

    /// Runs once per process, before its first turn: writes the first entries, or everything that a resumed session
    /// needs.
    pub(super) fn begin_ledger(&mut self) {
        if self.rules.resumed {
            return;
        }
        self.rules.resumed = true;
        if self.core.begun {
            self.close_left_open();
            self.tell_lost_tasks();
            self.tell_moved();
            let usable = self.budget().usable();
            if self.rules.renew(&RulesScope::of(&self.settings, usable), &mut self.core) {
                self.prompt_changed();
            }
        } else {
            self.core.begun = true;
            let mut items = prompt::items(
                &self.settings.prompt,
                &self.settings.environment,
                &self.tools.registry.names(),
            );
            let usable = self.budget().usable();
            let rules = self.rules.load(&RulesScope::of(&self.settings, usable));
            rules::insert(&mut items, rules.items);
            tell_rules(&mut self.core, rules.notices);
            self.core.push(EntryKind::System { items });
        }
        self.tools.record(&mut self.core);
        self.core.push(EntryKind::ModelSwitch { model: self.wire.model.info().id.clone() });
        for (key, value) in std::mem::take(&mut self.settings.session.states) {
            let empty = value.as_object().is_some_and(Map::is_empty);
            let known = lock(&self.core.session).view().state(&key).cloned();
            // An empty state need not be recorded if the session never had one.
            if known.as_ref() != Some(&value) && !(empty && known.is_none()) {
                self.core.push(EntryKind::State { key, value });
            }
        }
    }

    /// Called when blocks of the system prompt have changed. The provider's cached prefix begins with them, so it is lost.
    pub(super) fn prompt_changed(&mut self) {
        self.budget.forget_sizes();
        self.wire.cache.cold = true;
    }

    /// If the session continues in another folder than its prompt names, corrects the prompt and informs the model and the
    /// user. Tools, permissions and rules files are those of the new folder.
    fn tell_moved(&mut self) {
        let mut items = self.system_items();
        let environment = &self.settings.environment;
        let Some((old, block)) = prompt::moved(&items, environment) else { return };
        let new = environment.cwd.display().to_string();
        for item in items.iter_mut().filter(|item| item.kind == SystemKind::Environment) {
            item.text.clone_from(&block);
        }
        self.core.append(vec![EntryKind::System { items }], Durability::Buffered);
        self.prompt_changed();
        let text = format!(
            "The working directory is now {new}; it was {old}. Relative paths and commands start in the new one. Files that \
             you read or changed before are in the old one, unless you used other absolute paths."
        );
        self.core.synthetic(Synthetic::Reminder, text, Map::new());
        self.core.say(
            NoticeLevel::Warning,
            format!(
                "This session worked in {old} and continues in {new}. To go on in the old folder: -C \"{old}\""
            ),
        );
    }

    /// Closes calls that a dead process left open, and remembers the rules that the model was given.
    fn close_left_open(&mut self) {
        let mut entries = Vec::new();
        self.rules.recall(&self.core);
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
        self.wire.cache.cold = true;
        let closed = entries.len();
        if closed > 0 {
            self.core.append(entries, Durability::Synced);
            let text = if closed == 1 {
                "1 tool call was under way when the session ended. It is not run again.".to_owned()
            } else {
                format!("{closed} tool calls were under way when the session ended. They are not run again.")
            };
            self.core.notice(NoticeLevel::Warning, text);
        }
    }

    /// Returns the blocks in force.
    pub(super) fn system_items(&self) -> Vec<SystemItem> {
        lock(&self.core.session).view().system_items().to_vec()
    }
}

fn call_name<'a>(message: &'a Message, id: &CallId) -> Option<&'a str> {
    message.parts.iter().find_map(|part| match part {
        Part::ToolCall { call_id, name, .. } if call_id == id => Some(name.as_str()),
        _ => None,
    })
}

/// Mentions the session that a subagent of this call left, where people find what it did.
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

/// Makes the result of a call that a dead process left without one.
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
