//! Carries out the actions of a turn that concern several owners: each method calls them in the right order.
//!
//! The owners have the rules. Does not read commands, and does not wait for anything.

use super::background::Ended;
use super::compact::Compactor;
use super::count;
use super::hooks::{AfterHooks, HookCaller, end_event};
use super::live;
use super::start::{FirstEntries, is_left_unfinished};
use super::tools::ToolRunner;
use super::turn_terms::end_terms;
use super::undo::{self, StartedWork, UndoRequest};
use super::workspace::Workspace;
use super::{Agent, Op};
use crate::host::lock;
use crate::machine::{CompactionEnd, Input, MAX_STOP_BLOCKS, Note, Phase, PromptId};
use crate::spend::over_time;
use becket_session::Durability;
use becket_types::{
    CompactionTrigger, DeliveryMode, EntryKind, Event, HookEvent, HookOutcome, HookText, Limit, NoticeLevel,
    Origin, Part, PromptInput, RefusedPrompt, Role, Synthetic, Tokens, TurnEnd, TurnState,
};
use serde_json::Map;
use std::path::Path;
use tokio::time::Instant;

impl Agent {
    /// Passes a request for an undo or a change of the context on, or tells the user why it is refused. `receipt`: the id of
    /// the program's request, which is answered when the work on it has ended.
    pub(super) fn request_undo(&mut self, want: UndoRequest, receipt: Option<String>) {
        match self.undoing.ask(want, self.flow.phase()) {
            Ok(()) => {
                self.undoing.receipt = receipt;
                self.flow.feed(Input::Restore);
            }
            Err(why) => {
                self.conversation.core.emit_notice(NoticeLevel::Warning, why.clone());
                self.answer_undo(receipt, Some(why));
            }
        }
    }

    /// Answers a program's request for an undo or a change of the context.
    fn answer_undo(&mut self, receipt: Option<String>, error: Option<String>) {
        if let Some(request_id) = receipt {
            self.conversation.core.emit(Event::Receipt { request_id, error });
        }
    }

    /// Sends a side question. `Err` says why it was not sent.
    pub(super) fn ask_beside(&mut self, question: String) -> Result<(), String> {
        let is_idle = self.flow.phase() == Phase::Idle;
        self.side.ask(question, is_idle, &mut self.conversation)
    }

    /// Adds a folder to the workspace, and tells hooks of it. `Err` says why it was not added.
    pub(super) fn add_directory(&mut self, path: Option<&Path>) -> Result<(), String> {
        if let Some(folder) = self.workspace().add_directory(path)? {
            self.hooks().directory_hooks(&folder);
        }
        Ok(())
    }

    /// Starts the pending request for an undo or a change of the context.
    pub(super) fn restore(&mut self) {
        match self.undoing.begin(&mut self.conversation, self.tools.files.as_ref()) {
            StartedWork::Nothing => {
                let receipt = self.undoing.receipt.take();
                self.answer_undo(receipt, None);
                self.flow.feed(Input::Restored);
            }
            StartedWork::Compaction(outcome) => {
                let receipt = self.undoing.receipt.take();
                self.answer_undo(receipt, None);
                self.give_up_preparation("a compaction by hand");
                self.compactor().commit_compaction(CompactionTrigger::Manual, *outcome);
                self.flow.feed(Input::Restored);
            }
            StartedWork::Task(task) => self.flow.op = Op::Restore(task),
        }
    }

    /// Handles the plan or the result of a request for an undo or a change of the context.
    pub(super) fn finish_undo(&mut self, done: undo::UndoResult) {
        self.flow.op = Op::None;
        let changed = done.changed_conversation();
        if let Some(why) = changed {
            self.reset_after_rewind(why);
        }
        let (receipt, failure) = (self.undoing.receipt.take(), done.failure());
        let is_cleared = std::mem::take(&mut self.undoing.clears) && failure.is_none();
        // The program's request is answered after these hooks, so that its next prompt comes after them.
        if !(is_cleared && self.hooks().cleared_hooks(receipt.clone())) {
            self.answer_undo(receipt, failure);
        }
        self.undoing.show(done, &mut self.conversation.core, self.tools.files.as_ref());
        if changed.is_some() {
            self.conversation.emit_context_used();
        }
        self.flow.feed(Input::Restored);
    }

    /// Resets all state that was derived from the conversation, because earlier messages were changed or removed.
    fn reset_after_rewind(&mut self, why: &str) {
        self.give_up_preparation(why);
        count::forget_report(&mut self.conversation);
        self.conversation.budget.prepare_at = Tokens(0);
        self.tools.ids.last_entry = None;
        self.rules.recall(&self.conversation.core);
    }

    /// Appends prompts to the ledger and syncs it to disk before anything else happens.
    pub(super) fn deliver(&mut self, prompts: &[PromptId], steered: bool) {
        self.begin_ledger();
        self.take_title();
        self.tools.repetition.reset();
        self.inbox.deliver(prompts, steered, &mut self.conversation, &mut self.titling, &mut self.tools);
    }

    /// Processes the answers of the hooks for which the loop waited.
    pub(super) fn handle_hook_outcomes(&mut self, outcomes: Vec<HookOutcome>) {
        let Op::Hooks(wait) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
        match wait.then {
            AfterHooks::Nothing => self.handle_session_hooks(outcomes),
            AfterHooks::Clear { receipt } => {
                self.handle_session_hooks(outcomes);
                self.answer_undo(receipt, None);
            }
            AfterHooks::Deliver { prompts, steered } => self.handle_prompt_hooks(&prompts, steered, outcomes),
            AfterHooks::Stop { sent_back } => self.handle_stop_hooks(sent_back, outcomes),
            AfterHooks::EndBatch { touched, mut hook_texts } => {
                for outcome in outcomes {
                    self.hooks().record_runs(&outcome);
                    let texts = outcome.context.into_iter().chain(outcome.block);
                    hook_texts.extend(texts.map(|text| (HookEvent::PostToolBatch, text)));
                    self.hooking.stop = outcome.stop.or(self.hooking.stop.take());
                }
                self.tool_runner().end_batch(&touched, hook_texts);
            }
            AfterHooks::Compact { trigger } => self.handle_compaction_hooks(trigger, outcomes),
        }
    }

    /// Processes the answers of hooks at the start of a conversation.
    fn handle_session_hooks(&mut self, outcomes: Vec<HookOutcome>) {
        for mut outcome in outcomes {
            let first = outcome.special.first_message.take();
            self.hooks().record_hooks(outcome);
            self.send_first(first);
        }
        self.take_title();
    }

    /// Renews the copy of the settings for front ends.
    pub(super) fn show_live(&self) {
        live::show(&self.live, &self.tools, &self.conversation);
    }

    /// Counts a file as read in its present state. `Err` says why it cannot be read.
    pub(super) fn seed_read(&self, path: &Path, mtime: u64) -> Result<(), String> {
        live::seed_read(&self.tools, &self.conversation.settings.environment.cwd, path, mtime)
    }

    /// Sends the message of a hook at the start of the session like a prompt of the user.
    fn send_first(&mut self, text: Option<String>) {
        let Some(text) = text else { return };
        // Front ends count their own prompts by id. This prompt comes from a hook.
        let client_id = Some("hook-initial-message".to_owned());
        let input = PromptInput { parts: vec![Part::text(text)], client_id, ..PromptInput::default() };
        self.inbox.accept_prompt(input, &mut self.conversation.core, &mut self.flow);
    }

    /// Gives the session the title of a hook, once the ledger has its first entries.
    pub(super) fn take_title(&mut self) {
        if self.conversation.core.resumed
            && let Some(title) = self.hooking.title.take()
        {
            self.titling.rename(title, &mut self.conversation);
        }
    }

    fn handle_prompt_hooks(&mut self, prompts: &[PromptId], steered: bool, outcomes: Vec<HookOutcome>) {
        let mut delivered = Vec::new();
        let mut context = Vec::new();
        let mut refused = None;
        let mut outcomes = outcomes.into_iter();
        for id in prompts {
            if self.inbox.is_note(*id) {
                delivered.push(*id);
                continue;
            }
            let Some(outcome) = outcomes.next() else {
                delivered.push(*id);
                continue;
            };
            self.hooks().record_runs(&outcome);
            self.hooking.title = outcome.special.title.or(self.hooking.title.take());
            let why = outcome.block.as_ref().map(|block| block.text.clone()).or(outcome.stop);
            match why {
                Some(why) => {
                    let prompt = self.inbox.text(*id).unwrap_or_default();
                    let client_id = self.inbox.client_id(*id);
                    self.inbox.take_back(
                        *id,
                        &format!("A hook refused this prompt: {why}"),
                        &mut self.conversation.core,
                    );
                    refused = Some(RefusedPrompt { prompt, reason: why, client_id });
                }
                None => {
                    delivered.push(*id);
                    context.extend(outcome.context);
                }
            }
        }
        if !delivered.is_empty() {
            self.deliver(&delivered, steered);
            self.hooks().flush_pending_context();
        }
        for text in context {
            self.hooks().tell_model(HookEvent::UserPromptSubmit, text);
        }
        if let Some(refused) = refused
            && delivered.is_empty()
        {
            let owed = steered
                && lock(&self.conversation.core.session).view().turn_state() != TurnState::AwaitingUser;
            if !owed {
                self.hooking.stop = Some(format!("A hook refused the prompt: {}", refused.reason));
                self.hooking.refused = Some(refused);
            }
        }
    }

    fn handle_stop_hooks(&mut self, sent_back: u32, outcomes: Vec<HookOutcome>) {
        let event = end_event(&self.conversation.settings).unwrap_or(HookEvent::Stop);
        let mut go_on = false;
        let mut stopped = false;
        for outcome in outcomes {
            self.hooks().record_runs(&outcome);
            stopped |= outcome.stop.is_some();
            if outcome.stop.is_none() {
                let texts: Vec<HookText> = outcome.block.into_iter().chain(outcome.context).collect();
                go_on |= !texts.is_empty();
                for text in texts {
                    self.hooks().tell_model(event, text);
                }
            }
        }
        let go_on = go_on && !stopped;
        if go_on && sent_back + 1 == MAX_STOP_BLOCKS {
            let text = format!(
                "{event} hooks kept the model from stopping {MAX_STOP_BLOCKS} times. They do not run again in this turn."
            );
            self.conversation.core.notice(NoticeLevel::Warning, text);
        }
        self.flow.feed(Input::StopAsked { go_on });
    }

    fn handle_compaction_hooks(&mut self, trigger: CompactionTrigger, outcomes: Vec<HookOutcome>) {
        let mut refused = None;
        for outcome in outcomes {
            self.hooks().record_runs(&outcome);
            refused = outcome.block.map(|block| block.text).or(outcome.stop).or(refused);
            for HookText { text, .. } in outcome.context {
                self.compaction.instructions = Some(match self.compaction.instructions.take() {
                    Some(known) => format!("{known}\n{text}"),
                    None => text,
                });
            }
        }
        if let Some(why) = refused {
            let reason = format!("a hook refused the compaction: {why}");
            self.conversation.core.emit(Event::CompactionFailed { reason: reason.clone() });
            return self.compactor().finish_compaction(CompactionEnd::Refused(reason));
        }
        if self.compaction.instructions.is_some() {
            self.give_up_preparation("the instructions of a hook");
        }
        self.compactor().compact(trigger);
    }

    /// Ends the hooks for which the loop waits, because of an interrupt or the time limit.
    pub(super) fn cancel_hooks(&mut self) {
        if !matches!(self.flow.op, Op::Hooks(_)) {
            return;
        }
        let Op::Hooks(wait) = std::mem::replace(&mut self.flow.op, Op::None) else { return };
        match wait.then {
            AfterHooks::Nothing | AfterHooks::Compact { .. } => {}
            AfterHooks::Clear { receipt } => self.answer_undo(receipt, None),
            AfterHooks::Deliver { prompts, .. } => {
                for id in prompts {
                    if self.inbox.is_note(id) {
                        self.flow.feed(Input::Prompt { id, mode: DeliveryMode::Steer });
                        continue;
                    }
                    let why = "Interrupted before the hooks had judged this prompt; it was not sent.";
                    self.inbox.take_back(id, why, &mut self.conversation.core);
                }
            }
            AfterHooks::Stop { .. } => self.flow.feed(Input::StopAsked { go_on: false }),
            AfterHooks::EndBatch { touched, hook_texts } => {
                self.tool_runner().end_batch(&touched, hook_texts);
            }
        }
    }

    /// Sends the model a message of becket, or informs the user.
    pub(super) fn note(&mut self, note: &Note) {
        match note {
            Note::CallsAsText(what) => self.conversation.core.notice(NoticeLevel::Warning, what.clone()),
            for_model => self.conversation.core.synthetic(Synthetic::Reminder, for_model.text(), Map::new()),
        }
    }

    /// Continues a turn that an earlier process left unfinished, if there is one.
    pub(super) fn continue_turn(&mut self) {
        if !is_left_unfinished(&self.conversation, &self.inbox) || self.flow.phase() != Phase::Idle {
            return;
        }
        self.begin_ledger();
        let answered_last = {
            let session = lock(&self.conversation.core.session);
            let mut newest = session.view().live().rev();
            // Skip rules: those that changed meanwhile were just sent again.
            let last = newest.find(|m| m.origin != Origin::Synthetic(Synthetic::Rules));
            last.is_some_and(|m| m.role == Role::Assistant)
        };
        if answered_last && !self.inbox.has_undelivered() {
            let text = "You were interrupted. Go on where you stopped.".to_owned();
            self.conversation.core.synthetic(Synthetic::Reminder, text, Map::new());
        }
        self.inbox.take_undelivered(&mut self.flow);
        self.flow.feed(Input::Continue);
    }

    /// Plans a compaction that is only shown. It runs like a manual one, but is not written to the ledger.
    pub(super) fn plan_compaction(&mut self, focus: Option<String>) {
        if self.flow.phase() != Phase::Idle {
            let text = "A compaction can be previewed only between turns. Interrupt this turn and try again, or compact without a preview: /compact.";
            return self.conversation.core.emit_notice(NoticeLevel::Warning, text.to_owned());
        }
        self.compaction.focus = focus;
        self.flow.feed(Input::PlanCompaction);
    }

    /// Ends the turn: records its end, and reports its result.
    pub(super) fn end_turn(&mut self, end: TurnEnd) {
        let end = match (end, self.conversation.spending.limits.max_wall()) {
            (TurnEnd::Interrupted, Some(max)) if self.conversation.spending.turn.out_of_time => {
                TurnEnd::TimeLimit { what: over_time(max) }
            }
            (TurnEnd::NoAnswer { what }, _) => {
                let done = super::done::calls_since_prompt(lock(&self.conversation.core.session).view());
                TurnEnd::NoAnswer { what: done.map_or_else(|| what.clone(), |done| format!("{what} {done}")) }
            }
            (end, _) => end,
        };
        // In a headless run no further prompt will come, so no compaction needs the summary that is made ahead of time.
        let phase = self.flow.phase();
        if self.conversation.settings.asking.headless || phase == Phase::Exited {
            self.give_up_preparation("the end of the turn");
        }
        self.conversation.core.pending.extend(self.tools.host.read_files());
        self.conversation.core.flush(Durability::Buffered);
        self.conversation.report_usage();
        let state = lock(&self.conversation.core.session).view().turn_state();
        self.conversation.keep_meter();
        self.conversation.core.push(EntryKind::TurnEnd { end: end.name().to_owned(), state });
        self.conversation.core.flush(Durability::Synced);
        self.conversation.core.tell_notices();
        self.conversation.spending.in_turn = false;
        if let Some(before) = end_terms(&mut self.conversation, &mut self.tools) {
            let model = before.info().id.clone();
            self.use_model(before, "auto");
            self.conversation.core.emit(Event::ModelChosen { model });
        }
        self.hooks().config_hooks();
        self.hooks().failure_hooks(&end);
        let completed = end == TurnEnd::Completed;
        let result = self.conversation.take_result(end);
        self.conversation.core.emit(Event::TurnFinished(Box::new(result)));
        if completed && phase == Phase::Idle && !self.conversation.settings.asking.headless {
            self.compaction.prepare_for_next_prompt(&mut self.conversation);
        }
    }

    /// The time at which something is to be done about the provider's cache. `None`: nothing is.
    pub(super) fn idle_at(&self) -> Option<Instant> {
        let waits = self.flow.phase() == Phase::Idle
            && matches!(self.flow.op, Op::None)
            && !self.conversation.spending.in_turn;
        if !waits || !self.inbox.is_open || self.compaction.preparing.is_some() {
            return None;
        }
        self.conversation.wire.cache.act_at(self.conversation.wire.model.info())
    }

    /// Runs once per process, before its first turn: writes the first entries, or everything that a resumed session needs.
    pub(super) fn begin_ledger(&mut self) {
        let Self { conversation, rules, tools, .. } = self;
        let first = FirstEntries { conversation, rules, tools }.write();
        self.hooks().instructions_hooks(&first, "session_start");
    }

    /// Runs hooks for prompts before they are delivered. Returns false if there are none.
    pub(super) fn prompt_hooks(&mut self, prompts: &[PromptId], steered: bool) -> bool {
        let Self { conversation, hooking, flow, tools, inbox, .. } = self;
        HookCaller { conversation, hooking, flow, tools }.prompt_hooks(prompts, steered, inbox)
    }

    /// Handles the end of a subagent.
    pub(super) fn subagent_ended(&mut self, ended: Ended) {
        let Self { conversation, hooking, flow, tools, rules, inbox, .. } = self;
        ToolRunner { flow, conversation, tools, rules, hooking }.subagent_ended(ended, inbox);
    }

    /// Changes a limit, and tells the user all of them. `Err` says why it was not changed.
    pub(super) fn change_limit(&mut self, change: Option<Limit>) -> Result<(), String> {
        self.conversation.change_limit(change)?;
        if let Some(Limit::Turns(most)) = change {
            self.flow.change(|state| state.limit_turns(most));
        }
        Ok(())
    }

    pub(super) fn hooks(&mut self) -> HookCaller<'_> {
        HookCaller {
            conversation: &mut self.conversation,
            hooking: &mut self.hooking,
            flow: &mut self.flow,
            tools: &self.tools,
        }
    }

    pub(super) fn workspace(&mut self) -> Workspace<'_> {
        Workspace { conversation: &mut self.conversation, tools: &mut self.tools }
    }

    pub(super) fn tool_runner(&mut self) -> ToolRunner<'_> {
        ToolRunner {
            flow: &mut self.flow,
            conversation: &mut self.conversation,
            tools: &mut self.tools,
            rules: &mut self.rules,
            hooking: &mut self.hooking,
        }
    }

    pub(super) fn compactor(&mut self) -> Compactor<'_> {
        Compactor {
            flow: &mut self.flow,
            conversation: &mut self.conversation,
            state: &mut self.compaction,
            rules: &mut self.rules,
            tools: &mut self.tools,
            hooking: &mut self.hooking,
            undoing: &mut self.undoing,
        }
    }

    /// Gives the preparation of a summary up, if there is one.
    pub(super) fn give_up_preparation(&mut self, why: &str) {
        self.compaction.give_up_preparation(&mut self.conversation, why);
    }
}
