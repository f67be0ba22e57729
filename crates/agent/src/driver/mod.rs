//! The async shell around [`crate::machine`]: carries out its actions and feeds their outcomes back.
//!
//! Model: one task owns all state that changes. It waits for the next command, for the running operation (`Op`), and for a
//! summary that is made ahead of time, which changes nothing but a note in the ledger. Tools run inside the task, so a batch
//! of reads spawns nothing; blocking work moves itself to another thread. A step appends new entries and copies no history.
//!
//! Invariants:
//! - A prompt is synced to disk before anything happens because of it, and so is `started` before a call with side effects.
//! - A call whose id is in the journal never runs again.
//! - Before the task waits, everything that happened is in the ledger (`Core::flush`).
//! - No lock is held across an await.
//!
//! The task only routes. Each field of [`Agent`] owns one part of the work. A part that needs several of them borrows them for
//! the time of one call: `HookCaller`, `ToolRunner`, `Compactor`, `FirstEntries`.
//!
//! | module | what it does |
//! |---|---|
//! | `flow` | the state machine, its pending actions and the operation that runs |
//! | `turn` | the actions that concern several owners; `turn_terms`: what a command or skill asks for its turn |
//! | `conversation` | the record, the models, the size of the context and the cost of requests |
//! | `ledger` | the ledger and the front ends: commits, events, notices |
//! | `wire` | the models and what requests to them have shown; `budget`: the token budget |
//! | `start` | first entries, resume |
//! | `reattach` | files whose content comes along with a compaction |
//! | `rules_files` | rules files: reads and sends them |
//! | `inbox` | prompts that wait to enter the ledger; `handle`: a front end's side of an agent |
//! | `request` | facts before a request, its sending, its outcome; `sent`: requests with their records; `request_size`: too many bytes |
//! | `reply` | the streamed answer; `text_calls`: calls that a model wrote as text |
//! | `toolset` | the tools, also those that appear while the session runs; `tools`: their calls |
//! | `subagent` | calls that are agents of their own; `background`, `subagent_run`: their runs |
//! | `files` | files before and after a call, for undo |
//! | `hooks` | moments at which hooks are asked, and the record of their answers; `notification_hooks`: rules files, folders, models; `hook_budget`: the cost of their questions |
//! | `ids` | call ids: none runs twice |
//! | `count` | one exact count of the context, if a decision needs it |
//! | `cache` | the provider's cache and its lifetime; `warming`: measures before it expires |
//! | `compact` | compaction, its undo, and pruning |
//! | `summary` | the requests for a summary; `prepare`: one that is made ahead of time |
//! | `title` | the session's title, and the request for a better one; `side_question`: one for a question beside the conversation |
//! | `undo` | undo, redo and rewind; changes of the context by hand |
//! | `workspace` | folders that join the workspace while the session runs; `live`: the settings as front ends see them |

mod background;
mod budget;
mod cache;
mod clock;
mod compact;
mod conversation;
mod count;
mod done;
mod files;
mod flow;
mod forked;
mod handle;
mod hook_budget;
mod hooks;
mod ids;
mod inbox;
mod ledger;
mod live;
mod notification_hooks;
mod prepare;
mod reattach;
mod reply;
mod request;
mod request_size;
mod rules_files;
mod sent;
mod side_question;
mod side_request_usage;
mod start;
mod subagent;
mod subagent_run;
mod summary;
mod text_calls;
mod title;
mod tools;
mod toolset;
mod transcript;
mod turn;
mod turn_terms;
mod undo;
mod warming;
mod wire;
mod workspace;

use crate::host::{SessionHost, lock};
use crate::machine::{Action, CompactionEnd, Input, Phase, Rules};
use crate::settings::AgentParts;
use crate::spend::Limits;
use background::Ended;
use becket_session::context::compaction::Governor;
use becket_session::{Durability, Session};
use becket_types::{Command, CompactionTrigger, EntryKind, Event, HookOutcome, NoticeLevel, Tokens};
use budget::BudgetState;
use clock::{until, wall_clock};
use conversation::Conversation;
use flow::Flow;
use futures::StreamExt as _;
pub use handle::{AgentHandle, Queries, Query};
pub use hook_budget::{HookBudget, HookRequest};
use ids::CallIds;
use inbox::Inbox;
pub(crate) use ledger::Core;
pub use live::Live;
use prepare::CompactionState;
use reply::Reply;
use rules_files::KnownRules;
use side_question::SideQuestion;
use std::sync::{Arc, Mutex};
use subagent::Parentage;
use summary::{CompactionRun, SummaryAnswer};
use title::Titling;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tools::Batch;
use toolset::Toolset;
use undo::UndoRequest;
use wire::Wire;
pub use workspace::ADDED_FOLDERS;

/// Number of commands that can be queued before a front end has to wait.
const COMMANDS: usize = 256;

/// An agent over one session. Does nothing until [`Agent::run`] is polled.
///
/// It only routes: each field owns one part of the work.
pub struct Agent {
    flow: Flow,
    conversation: Conversation,
    compaction: CompactionState,
    inbox: Inbox,
    titling: Titling,
    side: SideQuestion,
    tools: Toolset,
    rules: KnownRules,
    undoing: undo::Undoing,
    hooking: hooks::HookState,
    live: Arc<Mutex<Live>>,
}

/// The running operation; there is at most one.
enum Op {
    None,
    Reply(Box<Reply>),
    Tools(Box<Batch>),
    Compaction(Box<CompactionRun>),
    Count(count::Count),
    Restore(JoinHandle<undo::UndoResult>),
    /// Hooks must answer first. No other action is performed meanwhile.
    Hooks(Box<hooks::HookWait>),
}

/// The reason why the task woke up.
enum Wake {
    Command(Option<Command>),
    Query(Query),
    Deadline,
    Reply(Vec<reply::Piece>),
    Tools(Vec<tools::FinishedCall>),
    Summary(SummaryAnswer),
    Prepared(SummaryAnswer),
    Counted(Option<Tokens>),
    Restored(undo::UndoResult),
    Judged(tools::HookVerdict),
    Hooked(Vec<HookOutcome>),
    /// The result of hooks that ran in the background.
    HookedBeside(HookOutcome),
    SwitchJudged(HookOutcome),
    Titled(Option<String>),
    SideAnswer(Result<String, String>),
    /// The provider's cache is about to expire between turns.
    Idle,
    Warmed,
    Subagent(Ended),
}

impl Agent {
    /// Creates an agent and the handle for its front end.
    pub fn new(parts: AgentParts) -> (Self, AgentHandle) {
        Self::build(parts, None)
    }

    /// `above` is set for a subagent.
    fn build(parts: AgentParts, above: Option<Parentage>) -> (Self, AgentHandle) {
        let AgentParts {
            session,
            model,
            auxiliary,
            fallback_models,
            find_model,
            cache,
            tools,
            guard,
            settings,
        } = parts;
        let (command_sender, commands) = mpsc::channel(COMMANDS);
        let (events, event_receiver) = mpsc::unbounded_channel();
        let (queries, asked) = Queries::channel();
        let blobs = session.blobs();
        let policy = session.view().policy().clone();
        let governor = Governor::from_state(session.view().state(Governor::KEY));
        let titled = session.title().is_some();
        let ids = CallIds::from_view(session.view());
        let session = Arc::new(Mutex::new(session));
        let host = Arc::new(SessionHost::new(Arc::clone(&session), settings.tools.watching));
        let own_files = || {
            let snapshots = settings.tools.snapshots.clone()?;
            Some(Arc::new(files::Files::new(snapshots, Arc::clone(&session), events.clone())))
        };
        // The agent for which a subagent works has already informed the user if the window is assumed.
        let window_noticed = above.is_some();
        let (limits, files, above) = match above {
            Some(above) => (above.limits, above.files, above.sessions),
            None => (Limits::new(settings.limits.run), own_files(), Vec::new()),
        };
        // A driving program may add its hooks later, so it does not matter which events have one now.
        let stop_hooks = hooks::end_event(&settings).is_some();
        let rules =
            Rules { max_turns: settings.limits.run.max_turns, auto_compact: policy.auto_compact, stop_hooks };
        let live = Live {
            guard: guard.clone(),
            model: model.info().id.clone(),
            effort: settings.requests.effort.clone(),
        };
        let tools = Toolset::new(tools, guard, host, files, ids, settings.tools.source.is_some());
        let conversation = Conversation {
            core: Core::new(session, above, blobs, events),
            wire: Wire::new(model, auxiliary, fallback_models, find_model, cache),
            budget: BudgetState::new(policy, governor, window_noticed),
            spending: crate::spending::Spending::new(limits),
            offered: tools.registry.specs().into(),
            settings,
        };
        let agent = Self {
            flow: Flow::new(rules),
            compaction: CompactionState::default(),
            inbox: Inbox::new(commands, asked),
            titling: Titling::new(titled),
            side: SideQuestion::default(),
            tools,
            rules: KnownRules::default(),
            undoing: undo::Undoing::default(),
            hooking: hooks::HookState::default(),
            conversation,
            live: Arc::new(Mutex::new(live)),
        };
        let live = Arc::clone(&agent.live);
        (agent, AgentHandle { commands: command_sender, events: event_receiver, queries, live })
    }

    /// Runs until the input has ended and no work is left. Returns the session.
    pub async fn run(mut self) -> Arc<Mutex<Session>> {
        start::announce(&mut self.conversation, &mut self.inbox, &mut self.titling, &self.tools);
        self.hooks().session_start_hooks();
        loop {
            while let Some(action) = self.flow.next_action() {
                self.perform(action);
            }
            self.conversation.core.flush(Durability::Buffered);
            if self.flow.phase() == Phase::Exited {
                break;
            }
            let wake = self.wait().await;
            if self.hooking.abandons(&wake) {
                break;
            }
            self.woke(wake);
        }
        let ending = self.hooks().session_end_hooks();
        let outcomes = ending.await;
        self.hooks().record_session_end(&outcomes);
        if self.flow.phase() == Phase::Exited {
            self.titling.finish(&mut self.conversation).await;
        }
        self.finish();
        self.conversation.core.session
    }

    async fn wait(&mut self) -> Wake {
        let limited = self.conversation.spending.in_turn && !self.conversation.spending.turn.out_of_time;
        let deadline = self
            .conversation
            .spending
            .limits
            .max_wall()
            .filter(|_| limited)
            .map(|max| self.conversation.spending.turn.started + max);
        let idle_at = self.idle_at();
        let Self { flow, conversation, compaction, hooking, inbox, titling, side, tools, .. } = self;
        let Inbox { commands, queries, is_open, .. } = inbox;
        tokio::select! {
            biased;
            command = commands.recv(), if *is_open => Wake::Command(command),
            Some(query) = queries.recv() => Wake::Query(query),
            () = until(deadline) => Wake::Deadline,
            wake = flow.op.next() => wake,
            asked = prepare::next(&mut compaction.preparing) => Wake::Prepared(asked),
            Some(outcome) = hooking.observing.next() => Wake::HookedBeside(outcome),
            outcome = notification_hooks::next(&mut hooking.switching) => Wake::SwitchJudged(outcome),
            title = titling.next() => Wake::Titled(title),
            answer = side.next() => Wake::SideAnswer(answer),
            () = cache::next(&mut conversation.wire.cache) => Wake::Warmed,
            () = until(idle_at) => Wake::Idle,
            ended = tools.subagents.next() => Wake::Subagent(ended),
        }
    }

    fn woke(&mut self, wake: Wake) {
        match wake {
            Wake::Command(Some(command)) => {
                self.command(command);
                self.show_live();
            }
            Wake::Query(query) => handle::answer(query, &self.conversation.core),
            // The front end is gone. Finish the running work; no more commands will come.
            Wake::Command(None) => {
                self.inbox.is_open = false;
                self.conversation.settings.asking.headless = true;
                self.conversation.settings.asking.asks_host = false;
                self.tool_runner().nobody_decides();
                self.tool_runner().drop_background();
                self.flow.feed(Input::EndInput);
            }
            Wake::Deadline => {
                self.conversation.spending.turn.out_of_time = true;
                self.cancel_hooks();
                self.give_up_preparation("the time limit");
                self.tool_runner().interrupt_background();
                self.flow.feed(Input::Interrupt);
            }
            Wake::Reply(pieces) => self.handle_pieces(pieces),
            Wake::Tools(done) => self.tool_runner().tools_done(done),
            Wake::Summary(asked) => self.compactor().take_summary(asked),
            Wake::Prepared(asked) => self.compaction.take_preparation(&mut self.conversation, asked),
            Wake::Counted(exact) => self.counted(exact),
            Wake::Restored(done) => self.finish_undo(done),
            Wake::Judged(judged) => {
                self.tool_runner().call_judged(judged);
                self.take_title();
                self.show_live();
            }
            Wake::Hooked(outcomes) => self.handle_hook_outcomes(outcomes),
            Wake::HookedBeside(outcome) => {
                self.hooks().record_hooks(outcome);
                self.take_title();
            }
            Wake::SwitchJudged(outcome) => {
                self.hooks().switch_judged(&outcome);
                self.show_live();
            }
            Wake::Titled(title) => self.titling.take_generated(title, &mut self.conversation),
            Wake::SideAnswer(answer) => self.side.take_answer(answer, &mut self.conversation),
            Wake::Idle => {
                if warming::act_before_expiry(&mut self.conversation) {
                    self.flow.feed(Input::CompactIdle);
                }
            }
            Wake::Warmed => warming::count_warming(&mut self.conversation),
            Wake::Subagent(ended) => self.subagent_ended(ended),
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Prompt(input) => {
                self.inbox.accept_prompt(input, &mut self.conversation.core, &mut self.flow);
            }
            Command::Interrupt => {
                self.cancel_hooks();
                self.give_up_preparation("an interrupt");
                self.tool_runner().interrupt_background();
                self.flow.feed(Input::Interrupt);
            }
            Command::TaskEnded { task, text } => self.inbox.task_ended(task, &text, &mut self.flow),
            Command::Background { call_id } => drop(self.tool_runner().move_to_background(call_id.as_ref())),
            Command::ToTask { task, what } => self.tool_runner().pass_to_task(task, *what),
            Command::Continue => self.continue_turn(),
            Command::Compact { focus } => {
                self.compaction.focus = focus;
                self.flow.feed(Input::Compact);
            }
            Command::SetModel { model } => {
                let set = self.hooks().set_model(&model);
                self.tell_refusal(set);
            }
            Command::SetMode { mode } => {
                let set = self.tools.set_mode(&mode, &mut self.conversation);
                if set.is_err() {
                    // The terminal already shows the mode that it asked for, so send it the mode in force.
                    let mode = self.tools.guard.mode().to_string();
                    self.conversation.core.announce(Event::ModeChanged { mode });
                }
                self.tell_refusal(set);
            }
            Command::Limits { change } => {
                let set = self.change_limit(change);
                self.tell_refusal(set);
            }
            Command::SideQuestion { question } => {
                let asked = self.ask_beside(question);
                self.tell_refusal(asked);
            }
            Command::ChangeRules { owner, change, rules } => {
                let set = self.tools.change_rules(owner, change, rules, &self.conversation);
                self.tell_refusal(set);
            }
            Command::SeedRead { path, mtime } => {
                let seeded = self.seed_read(&path, mtime);
                self.tell_refusal(seeded);
            }
            Command::AddDirectory { path } => {
                let added = self.add_directory(path.as_deref());
                self.tell_refusal(added);
            }
            Command::RemoveDirectory { path } => {
                let removed = self.workspace().remove_directory(&path);
                self.tell_refusal(removed);
            }
            Command::WithReceipt { request_id, what } => self.command_with_receipt(request_id, *what),
            Command::Decide { call_id, decision } => self.tool_runner().decided(&call_id, decision),
            Command::Withdraw { client_id } => {
                self.inbox.withdraw(client_id, &mut self.conversation.core, &mut self.flow);
            }
            Command::WithdrawAll => self.inbox.withdraw_all(&mut self.conversation.core, &mut self.flow),
            Command::RecordHooks { runs } => self.hooks().keep_runs(&runs),
            Command::SetEffort { effort } => self.conversation.set_effort(effort),
            Command::Rename { title } => {
                self.begin_ledger();
                self.titling.rename(title, &mut self.conversation);
            }
            Command::PlanCompaction { focus } => self.plan_compaction(focus),
            Command::UndoCompaction => self.flow.feed(Input::UndoCompaction),
            Command::ToSubagent { call_id, what } => self.tool_runner().pass_to_subagent(&call_id, *what),
            undo @ (Command::EditCompaction { .. }
            | Command::RedoCompaction
            | Command::Undo
            | Command::UndoCalls { .. }
            | Command::Redo
            | Command::Rewind { .. }
            | Command::ClearConversation
            | Command::ChangeContext(_)
            | Command::CarryOut { .. }) => {
                if let Ok(want) = UndoRequest::from_command(undo) {
                    self.request_undo(want, None);
                }
            }
            Command::Leave { reason } => self.hooking.leaving = Some(reason),
            Command::Abandon => {}
            Command::EndInput => {
                // The person leaves the session, and its work ends with it.
                if !self.conversation.settings.asking.headless {
                    self.tool_runner().drop_background();
                }
                self.flow.feed(Input::EndInput);
            }
        }
    }

    /// Carries out a command of a program that waits for an answer, and reports if it was accepted.
    fn command_with_receipt(&mut self, request_id: String, what: Command) {
        let what = match UndoRequest::from_command(what) {
            Ok(want) => return self.request_undo(want, Some(request_id)),
            Err(what) => *what,
        };
        let done = match what {
            Command::SetModel { model } => match self.hooks().set_model(&model) {
                Ok(()) if self.hooks().waits_for_switch(&request_id) => return,
                set => set,
            },
            Command::SetMode { mode } => self.tools.set_mode(&mode, &mut self.conversation),
            Command::Limits { change } => self.change_limit(change),
            Command::AddDirectory { path } => self.add_directory(path.as_deref()),
            Command::ChangeRules { owner, change, rules } => {
                self.tools.change_rules(owner, change, rules, &self.conversation)
            }
            Command::SeedRead { path, mtime } => self.seed_read(&path, mtime),
            Command::SideQuestion { question } => self.ask_beside(question),
            Command::Background { call_id } => self.tool_runner().move_to_background(call_id.as_ref()),
            // Other commands report their outcome by events of their own, so the receipt has no error.
            other => {
                self.command(other);
                Ok(())
            }
        };
        self.conversation.core.emit(Event::Receipt { request_id, error: done.err() });
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::StartTurn => {
                self.conversation.spending.turn.begin();
                self.conversation.spending.in_turn = true;
                self.hooking.begin_turn();
                self.undoing.forget();
                self.tools.repetition.reset();
                self.conversation.budget.governor.turn_started();
                self.conversation.doubt_limits();
            }
            Action::Deliver { prompts, steered } => {
                if !self.prompt_hooks(&prompts, steered) {
                    self.deliver(&prompts, steered);
                    self.hooks().flush_pending_context();
                }
            }
            Action::AskStop { sent_back } => self.hooks().stop_hooks(sent_back),
            Action::Assess => {
                // If an exact count is started, the facts follow when it is finished.
                if !self.count_first() {
                    let facts = self.assess();
                    self.flow.feed(Input::Assessed(facts));
                }
            }
            Action::Request { step, attempt, wrap_up } => self.request(step, attempt, wrap_up),
            Action::Supersede => self.supersede(),
            Action::FallBack => self.fall_back(),
            Action::CancelRequest => self.cancel_request(),
            Action::RunTools => {
                lock(&self.conversation.core.session).view_mut().set_calls_may_run(true);
                self.tool_runner().run_tools();
            }
            Action::CloseCalls(why) => self.tool_runner().close_calls(why),
            Action::CancelTools => self.tool_runner().cancel_tools(),
            Action::Compact { trigger } => {
                self.undoing.forget();
                let focus = self.compaction.focus.clone();
                if !self.hooks().compact_hooks(trigger, focus.as_deref()) {
                    self.compactor().compact(trigger);
                }
            }
            Action::PlanCompaction => {
                self.undoing.forget();
                self.compactor().compact(CompactionTrigger::Manual);
            }
            Action::CancelCompaction => {
                self.compactor().cancel_compaction();
                if !self.conversation.spending.in_turn {
                    // No other event reports the end of the compaction.
                    self.conversation
                        .core
                        .emit(Event::CompactionFailed { reason: "it was interrupted".to_owned() });
                }
                self.compactor().finish_compaction(CompactionEnd::Cancelled);
            }
            Action::Note(note) => self.note(&note),
            Action::UndoCompaction => {
                self.undoing.forget();
                self.compactor().undo_compaction();
            }
            Action::Restore => self.restore(),
            Action::MarkInterrupt => {
                self.conversation.core.push(EntryKind::Interrupt);
            }
            Action::EndTurn(end) => self.end_turn(end),
            // The loop in `run` ends because the machine's phase is `Exited`.
            Action::Exit => {}
        }
    }

    /// Runs before the exit: tries once more to write pending entries.
    fn finish(&mut self) {
        self.give_up_preparation("the end of the session");
        self.titling.end(&mut self.conversation);
        self.side.end(&mut self.conversation);
        warming::count_warming(&mut self.conversation);
        self.conversation.core.pending.extend(self.tools.host.drain().0);
        self.conversation.core.flush(Durability::Buffered);
        lock(&self.conversation.core.session).flush();
        // In a headless run the result has been emitted already, so the caller takes the last notices from the session.
        if !self.conversation.settings.asking.headless {
            self.conversation.core.tell_notices();
        }
    }

    fn tell_refusal(&mut self, done: Result<(), String>) {
        if let Err(why) = done {
            self.conversation.core.emit_notice(NoticeLevel::Error, why);
        }
    }
}

impl Op {
    /// Waits for the next result of the operation, for ever if it is [`Op::None`]. Dropping the future loses nothing.
    async fn next(&mut self) -> Wake {
        match self {
            Self::None => std::future::pending().await,
            Self::Reply(reply) => Wake::Reply(reply.next().await),
            Self::Tools(batch) => batch.next().await,
            Self::Compaction(run) => Wake::Summary(run.next().await),
            Self::Count(count) => Wake::Counted(count.next().await),
            Self::Restore(task) => Wake::Restored(undo::next(task).await),
            Self::Hooks(wait) => Wake::Hooked(wait.next().await),
        }
    }
}
