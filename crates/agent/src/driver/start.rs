//! Starts a session, or resumes one.
//!
//! The `system` entry contains the blocks of the system prompt as they are sent. A resumed session keeps the recorded prompt
//! and environment, so that it sends the same bytes, unless it continues in another folder; rules files are read from disk
//! again (`rules_files`). Calls that a dead process left open are closed before the first prompt: each gets a result that
//! says what is known of it.

use super::background::tell_lost_tasks;
use super::conversation::Conversation;
use super::inbox::{INBOX, Inbox};
use super::rules_files::{KnownRules, RulesScope, tell_rules};
use super::title::Titling;
use super::toolset::Toolset;
use super::transcript::Transcript;
use super::workspace::{self, tell_workspace};
use crate::host::lock;
use crate::prompt;
use crate::rules;
use crate::settings::scope;
use crate::spend::SPENT;
use becket_session::Durability;
use becket_session::context::View;
use becket_types::{
    CallId, EntryKind, Event, JournalState, Message, NoticeLevel, Origin, Part, Role, Synthetic, SystemItem,
    SystemKind, TurnState, quoted,
};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Loads the state that earlier processes recorded, and tells the front ends that the session is open. Called before the first
/// command.
pub(super) fn announce(
    conversation: &mut Conversation,
    inbox: &mut Inbox,
    titling: &mut Titling,
    tools: &Toolset,
) {
    conversation.recall_meter();
    let info = conversation.wire.model.info();
    let (session, title, waiting) = {
        let mut session = lock(&conversation.core.session);
        session.view_mut().set_scope(scope(info));
        conversation.core.begun = !session.view().system_items().is_empty();
        let waiting = session.view().state(INBOX).cloned();
        (session.id(), session.title().map(str::to_owned), waiting)
    };
    if let Some(left) = waiting.and_then(|value| serde_json::from_value(value).ok()) {
        inbox.restore(left);
    }
    // A configured window overrides the limits of earlier runs; a limit that this run learns overrides both.
    if conversation.settings.requests.context_window.is_none() {
        conversation.budget.limits = conversation.learned_limits();
    }
    if conversation.settings.hooks.engine.is_some() {
        let cwd = conversation.settings.environment.cwd.clone();
        let is_sidechain = conversation.settings.is_subagent();
        conversation.core.transcript = Some(Transcript::begin(&conversation.core.session, cwd, is_sidechain));
    }
    conversation.core.emit(Event::SessionStarted {
        session,
        cwd: conversation.settings.environment.cwd.clone(),
        model: info.id.clone(),
        tools: tools.registry.names(),
        permission_mode: tools.guard.mode().to_string(),
        skills: conversation.settings.session.skills.clone(),
        api_key_source: conversation.settings.session.api_key_source.clone(),
        resumed: conversation.settings.session.resumed,
        title: title.or_else(|| conversation.settings.session.title.clone()),
    });
    if let Some(title) = conversation.settings.session.title.clone()
        && !titling.titled
    {
        titling.titled = true;
        conversation.core.push(EntryKind::Title { title });
    }
    tell_workspace(conversation);
    conversation.core.tell_notices();
    recall_limits(conversation);
    // A program may ask for the size before the first turn.
    if conversation.settings.session.resumed && conversation.settings.asking.headless {
        conversation.emit_context_used();
    }
    if conversation.settings.session.resumed && is_left_unfinished(conversation, inbox) {
        tell_unfinished(conversation);
    }
}

/// Continues the count of earlier processes for the limits, and their wait for the provider's quota.
fn recall_limits(conversation: &mut Conversation) {
    let spent = lock(&conversation.core.session).view().state(SPENT).cloned();
    if let Some(spent) = spent {
        conversation.spending.limits.recall(&spent, conversation.settings.limits.new);
    }
    conversation.recall_quota_wait();
}

/// True if an earlier process left its last turn unfinished, and no turn has begun since.
pub(super) fn is_left_unfinished(conversation: &Conversation, inbox: &Inbox) -> bool {
    let state = lock(&conversation.core.session).view().turn_state();
    let is_owed = state != TurnState::AwaitingUser || inbox.has_undelivered();
    is_owed && conversation.core.begun && !conversation.core.resumed
}

/// Informs the user at once that a turn was cut off, not only after the next message.
fn tell_unfinished(conversation: &Conversation) {
    let words = {
        let session = lock(&conversation.core.session);
        let last = session.view().live().rev().find(|message| message.origin == Origin::User);
        last.and_then(|message| prompt::title(&message.text()))
    };
    let turn = words.map_or_else(
        || "The last turn".to_owned(),
        |words| format!("The last turn ({words})", words = quoted(&words)),
    );
    let next = if conversation.settings.asking.headless {
        "To continue it, send a message, or run `becket -p --continue` without a task."
    } else {
        "Press Enter to continue it, or send a message."
    };
    conversation
        .core
        .emit_notice(NoticeLevel::Warning, format!("{turn} was cut off before it was done. {next}"));
}

/// Writes the first entries of a session, or those that a resumed session needs.
pub(super) struct FirstEntries<'a> {
    pub(super) conversation: &'a mut Conversation,
    pub(super) rules: &'a mut KnownRules,
    pub(super) tools: &'a mut Toolset,
}

impl FirstEntries<'_> {
    /// Writes the first entries, or everything that a resumed session needs. Does so once per process. Returns the blocks of the
    /// system prompt if it did.
    pub(super) fn write(&mut self) -> Vec<SystemItem> {
        if self.conversation.core.resumed {
            return Vec::new();
        }
        self.conversation.core.resumed = true;
        let first;
        if self.conversation.core.begun {
            self.close_unfinished_calls();
            tell_lost_tasks(&mut self.conversation.core);
            self.tell_moved();
            workspace::find_unreported_folders(self.conversation, self.tools);
            let usable = self.conversation.budget().usable();
            if self
                .rules
                .renew(&RulesScope::new(&self.conversation.settings, usable), &mut self.conversation.core)
            {
                self.conversation.prompt_changed();
            }
            first = self.conversation.system_items();
        } else {
            self.conversation.core.begun = true;
            let mut items = prompt::items(
                &self.conversation.settings.prompt,
                &self.conversation.settings.environment,
                &self.tools.registry.names(),
            );
            let usable = self.conversation.budget().usable();
            let rules = self.rules.load(&RulesScope::new(&self.conversation.settings, usable));
            rules::insert(&mut items, rules.items);
            tell_rules(&mut self.conversation.core, rules.notices);
            first = items.clone();
            self.conversation.core.push(EntryKind::System { items });
            if self.conversation.settings.prompt.sends_environment() {
                self.send_environment();
            }
        }
        self.tools.record(&mut self.conversation.core);
        self.conversation
            .core
            .push(EntryKind::ModelSwitch { model: self.conversation.wire.model.info().id.clone() });
        for (key, value) in std::mem::take(&mut self.conversation.settings.session.states) {
            let empty = value.as_object().is_some_and(Map::is_empty);
            let known = lock(&self.conversation.core.session).view().state(&key).cloned();
            // An empty state need not be recorded if the session never had one.
            if known.as_ref() != Some(&value) && !(empty && known.is_none()) {
                self.conversation.core.push(EntryKind::State { key, value });
            }
        }
        first
    }

    /// Sends the environment in a message, for a session whose system prompt does not contain it.
    fn send_environment(&mut self) {
        let text = prompt::block(&self.conversation.settings.environment);
        self.conversation.core.synthetic(Synthetic::Reminder, text, Map::new());
    }

    /// If the session continues in another folder than its prompt names, corrects the prompt and informs the model and the
    /// user. Tools, permissions and rules files are those of the new folder.
    fn tell_moved(&mut self) {
        let mut items = self.conversation.system_items();
        let environment = &self.conversation.settings.environment;
        if !items.is_empty() && items.iter().all(|item| item.kind != SystemKind::Environment) {
            // The message with the environment may name another folder, or a compaction may have removed it, so send it
            // again.
            return self.send_environment();
        }
        let Some((old, block)) = prompt::changed_directory(&items, environment) else { return };
        let new = environment.cwd.display().to_string();
        for item in items.iter_mut().filter(|item| item.kind == SystemKind::Environment) {
            item.text.clone_from(&block);
        }
        self.conversation.core.append(vec![EntryKind::System { items }], Durability::Buffered);
        self.conversation.prompt_changed();
        let text = format!(
            "The working directory is now {new}; it was {old}. Relative paths and commands start in the new one. Files that \
             you read or changed before are in the old one, unless you used other absolute paths."
        );
        self.conversation.core.synthetic(Synthetic::Reminder, text, Map::new());
        self.conversation.core.emit_notice(
            NoticeLevel::Warning,
            format!(
                "This session worked in {old} and continues in {new}. To go on in the old folder: -C \"{old}\""
            ),
        );
    }

    /// Closes calls that a dead process left open, and loads the texts of rules files that the model already has.
    fn close_unfinished_calls(&mut self) {
        let mut entries = Vec::new();
        self.rules.recall(&self.conversation.core);
        {
            let session = lock(&self.conversation.core.session);
            let view = session.view();
            let last = view.live().rev().find(|message| message.role == Role::Assistant);
            for id in view.open_calls() {
                let name = last.and_then(|message| call_name(message, &id)).unwrap_or("unknown");
                let mut message = unfinished_call_result(id.clone(), name, view.call_known(&id));
                name_subagent(&mut message, &id, view);
                entries.push(EntryKind::Message { message });
            }
        }
        self.conversation.wire.cache.resume(lock(&self.conversation.core.session).view());
        let closed = entries.len();
        if closed > 0 {
            self.conversation.core.append(entries, Durability::Synced);
            let text = if closed == 1 {
                "1 tool call was under way when the session ended. It is not run again.".to_owned()
            } else {
                format!("{closed} tool calls were under way when the session ended. They are not run again.")
            };
            self.conversation.core.notice(NoticeLevel::Warning, text);
        }
    }
}

fn call_name<'a>(message: &'a Message, id: &CallId) -> Option<&'a str> {
    message.parts.iter().find_map(|part| match part {
        Part::ToolCall { call_id, name, .. } if call_id == id => Some(name.as_str()),
        _ => None,
    })
}

/// Mentions the session that a subagent of this call left, so that the user can read its work there.
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
fn unfinished_call_result(id: CallId, name: &str, journal: Option<JournalState>) -> Message {
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
