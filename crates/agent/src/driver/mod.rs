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
//! | module | what it does |
//! |---|---|
//! | `flow` | the state machine, its pending actions and the operation that runs; `budget`: the token budget |
//! | `ledger` | the ledger and the front ends: commits, events, notices |
//! | `start` | first entries, resume |
//! | `reattach` | files whose content comes along with a compaction |
//! | `rules_files` | rules files: reads and sends them |
//! | `inbox` | prompts that wait to enter the ledger |
//! | `wire` | the models and what requests to them have shown |
//! | `request` | budget, view, sending; `sent`: requests with their records |
//! | `request_size` | requests that have too many bytes |
//! | `reply` | the streamed answer and its outcome |
//! | `toolset` | the tools, also those that appear while the session runs; `tools`: their calls |
//! | `subagent` | calls that are agents of their own; `background`: their runs |
//! | `files` | files before and after a call, for undo |
//! | `hooks` | moments at which hooks are asked, and what their answers do |
//! | `ids` | call ids: none runs twice |
//! | `count` | one exact count of the context, if a decision needs it |
//! | `cache` | the provider's cache: its lifetime, and requests that keep it warm |
//! | `compact` | compaction, its undo, and pruning |
//! | `summary` | the requests for a summary |
//! | `title` | the request for the session's title |
//! | `prepare` | a summary that is made ahead of time |
//! | `undo` | undo, redo and rewind; changes of the context by hand |

mod background;
mod budget;
mod cache;
mod clock;
mod compact;
mod count;
mod files;
mod flow;
mod hooks;
mod ids;
mod inbox;
mod ledger;
mod prepare;
mod reattach;
mod reply;
mod request;
mod request_size;
mod rules_files;
mod sent;
mod start;
mod subagent;
mod summary;
mod title;
mod tools;
mod toolset;
mod undo;
mod wire;

use crate::host::{SessionHost, lock};
use crate::machine::{Action, CompactionEnd, Input, Phase, Rules};
use crate::settings::{AgentParts, AgentSettings};
use crate::spend::{Limits, TurnSum, millis, over_time};
use background::Ended;
use becket_model::Model;
use becket_session::context::compaction::Governor;
use becket_session::{Durability, Session};
use becket_types::{
    Command, CompactedByHand, CompactionTrigger, EntryKind, Event, HookOutcome, NoticeLevel, Tokens,
    TurnCompaction, TurnEnd, TurnResult,
};
use budget::BudgetState;
use clock::{until, wall_clock};
use flow::Flow;
use futures::StreamExt as _;
use ids::CallIds;
use inbox::Inbox;
pub(crate) use ledger::Core;
use reply::Reply;
use rules_files::KnownRules;
use std::sync::{Arc, Mutex, Weak};
use summary::{Asked, CompactionRun};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tools::Batch;
use toolset::Toolset;
use undo::Want;
use wire::Wire;

/// Number of commands that can be queued before a front end has to wait.
const COMMANDS: usize = 256;

/// A front end's side of an agent.
#[derive(Debug)]
pub struct AgentHandle {
    pub commands: mpsc::Sender<Command>,
    pub events: mpsc::UnboundedReceiver<Event>,
    /// The session, for pages that read it while the agent works. Hold the lock only for a look-up. It is dropped with the
    /// agent.
    pub session: Weak<Mutex<Session>>,
}

/// An agent over one session. Does nothing until [`Agent::run`] is polled.
///
/// It only routes: each field owns one part of the work.
pub struct Agent {
    flow: Flow,
    core: Core,
    wire: Wire,
    budget: BudgetState,
    compaction: CompactionState,
    inbox: Inbox,
    tools: Toolset,
    rules: KnownRules,
    settings: AgentSettings,
    undoing: undo::Undoing,
    hooking: hooks::HookState,
    spending: Spending,
}

/// A compaction that runs or is prepared.
#[derive(Default)]
struct CompactionState {
    /// The summary that is being made ahead of time, in parallel with the operation.
    preparing: Option<Box<CompactionRun>>,
    /// Time at which the last preparation of this process failed.
    failed_at: Option<Instant>,
    /// Focus of the requested manual compaction.
    focus: Option<String>,
    /// Size of the context before and after the compaction that just ended.
    sizes: Option<CompactedByHand>,
}

/// The limits of the run, and what the turn has used of them.
struct Spending {
    limits: Limits,
    turn: TurnSum,
    in_turn: bool,
}

/// The parts that a subagent shares with the agent that it works for.
struct Parentage {
    limits: Limits,
    /// The recorder for the file changes of its calls.
    files: Option<Arc<files::Files>>,
}

/// The running operation; there is at most one.
enum Op {
    None,
    Reply(Box<Reply>),
    Tools(Box<Batch>),
    Compaction(Box<CompactionRun>),
    Count(count::Count),
    Restore(JoinHandle<undo::Done>),
    /// Hooks must answer first. No other action is performed meanwhile.
    Hooks(Box<hooks::HookWait>),
}

/// The reason why the task woke up.
enum Wake {
    Command(Option<Command>),
    Deadline,
    Reply(Vec<reply::Piece>),
    Tools(Vec<tools::Done>),
    Summary(Asked),
    Prepared(Asked),
    Counted(Option<Tokens>),
    Restored(undo::Done),
    Judged(tools::Judged),
    Hooked(Vec<HookOutcome>),
    /// The result of hooks that ran in the background.
    HookedBeside(HookOutcome),
    Titled(Option<String>),
    /// The provider's cache is about to expire between turns.
    Idle,
    Warmed,
    Subagent(Ended),
}

impl Agent {
    /// Creates an agent and the handle for its front end.
    pub fn new(parts: AgentParts) -> (Self, AgentHandle) {
        Self::made(parts, None)
    }

    /// `above` is set for a subagent.
    fn made(parts: AgentParts, above: Option<Parentage>) -> (Self, AgentHandle) {
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
        let own_limits = || Limits::new(settings.limits.run);
        // The agent above has already informed the user.
        let window_noticed = above.is_some();
        let (limits, files) = match above {
            Some(above) => (above.limits, above.files),
            None => (own_limits(), own_files()),
        };
        let stop_hooks = hooks::end_event(&settings)
            .is_some_and(|event| settings.hooks.engine.as_ref().is_some_and(|hooks| hooks.listens(event)));
        let rules =
            Rules { max_turns: settings.limits.run.max_turns, auto_compact: policy.auto_compact, stop_hooks };
        let agent = Self {
            flow: Flow::new(rules),
            core: Core::new(session, blobs, events),
            wire: Wire::new(model, auxiliary, fallback_models, find_model, cache),
            budget: BudgetState::new(policy, governor, window_noticed),
            compaction: CompactionState::default(),
            inbox: Inbox::new(commands, titled),
            tools: Toolset::new(tools, guard, host, files, ids, settings.tools.source.is_some()),
            rules: KnownRules::default(),
            undoing: undo::Undoing::default(),
            hooking: hooks::HookState::default(),
            spending: Spending { limits, turn: TurnSum::new(), in_turn: false },
            settings,
        };
        let session = Arc::downgrade(&agent.core.session);
        (agent, AgentHandle { commands: command_sender, events: event_receiver, session })
    }

    /// Runs until the input has ended and no work is left. Returns the session.
    pub async fn run(mut self) -> Arc<Mutex<Session>> {
        self.start();
        self.session_start_hooks();
        loop {
            while let Some(action) = self.flow.next_action() {
                self.perform(action);
            }
            self.core.flush(Durability::Buffered);
            if self.phase() == Phase::Exited {
                break;
            }
            let wake = self.wait().await;
            self.woke(wake);
        }
        self.session_end_hooks().await;
        self.finish_title().await;
        self.finish();
        self.core.session
    }

    fn phase(&self) -> Phase {
        self.flow.phase()
    }

    async fn wait(&mut self) -> Wake {
        let limited = self.spending.in_turn && !self.spending.turn.out_of_time;
        let deadline =
            self.spending.limits.max_wall().filter(|_| limited).map(|max| self.spending.turn.started + max);
        let idle_at = self.idle_at();
        let Self { flow, wire, compaction, hooking, inbox, tools, .. } = self;
        let Inbox { commands, is_open, titling, .. } = inbox;
        tokio::select! {
            biased;
            command = commands.recv(), if *is_open => Wake::Command(command),
            () = until(deadline) => Wake::Deadline,
            wake = flow.op.next() => wake,
            asked = prepare::next(&mut compaction.preparing) => Wake::Prepared(asked),
            Some(outcome) = hooking.beside.next() => Wake::HookedBeside(outcome),
            title = title::next(titling) => Wake::Titled(title),
            () = cache::next(&mut wire.cache) => Wake::Warmed,
            () = until(idle_at) => Wake::Idle,
            ended = tools.subagents.next() => Wake::Subagent(ended),
        }
    }

    fn woke(&mut self, wake: Wake) {
        match wake {
            Wake::Command(Some(command)) => self.command(command),
            // The front end is gone. Finish the running work; no more commands will come.
            Wake::Command(None) => {
                self.inbox.is_open = false;
                self.settings.asking.headless = true;
                self.settings.asking.asks_host = false;
                self.nobody_decides();
                self.drop_background();
                self.feed(Input::EndInput);
            }
            Wake::Deadline => {
                self.spending.turn.out_of_time = true;
                self.cancel_hooks();
                self.give_up_preparation("the time limit");
                self.interrupt_background();
                self.feed(Input::Interrupt);
            }
            Wake::Reply(pieces) => self.reply_came(pieces),
            Wake::Tools(done) => self.tools_done(done),
            Wake::Summary(asked) => self.summary_came(asked),
            Wake::Prepared(asked) => self.preparation_came(asked),
            Wake::Counted(exact) => self.counted(exact),
            Wake::Restored(done) => self.restored(done),
            Wake::Judged(judged) => self.call_judged(judged),
            Wake::Hooked(outcomes) => self.hooked(outcomes),
            Wake::HookedBeside(outcome) => self.record_hooks(outcome),
            Wake::Titled(title) => self.title_came(title),
            Wake::Idle => self.act_before_expiry(),
            Wake::Warmed => self.count_warming(),
            Wake::Subagent(ended) => self.subagent_ended(ended),
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Prompt(input) => self.prompt_came(input),
            Command::Interrupt => {
                self.cancel_hooks();
                self.give_up_preparation("an interrupt");
                self.interrupt_background();
                self.feed(Input::Interrupt);
            }
            Command::Background { call_id } => self.move_to_background(call_id.as_ref()),
            Command::ToTask { task, what } => self.pass_to_task(task, *what),
            Command::Continue => self.continue_turn(),
            Command::Compact { focus } => {
                self.compaction.focus = focus;
                self.feed(Input::Compact);
            }
            Command::SetModel { model } => {
                let set = self.set_model(&model);
                self.tell_refusal(set);
            }
            Command::SetMode { mode } => {
                let set = self.set_mode(&mode);
                self.tell_refusal(set);
            }
            Command::Limits { change } => {
                let set = self.change_limit(change);
                self.tell_refusal(set);
            }
            Command::WithReceipt { request_id, what } => {
                let done = match *what {
                    Command::SetModel { model } => self.set_model(&model),
                    Command::SetMode { mode } => self.set_mode(&mode),
                    Command::Limits { change } => self.change_limit(change),
                    // Plans and their ends have events of their own.
                    other => {
                        self.command(other);
                        Ok(())
                    }
                };
                self.core.emit(Event::Receipt { request_id, error: done.err() });
            }
            Command::Decide { call_id, decision } => self.decided(&call_id, decision),
            Command::Withdraw { client_id } => self.withdraw(client_id),
            Command::Revoke { rule } => self.tools.revoke(&rule, &self.core),
            Command::Grant { rule } => self.tools.grant(&rule, &self.core),
            Command::Forbid { rule } => self.tools.forbid(&rule, &self.core),
            Command::SetEffort { effort } => self.set_effort(effort),
            Command::Rename { title } => self.rename(title),
            Command::PlanCompaction { focus } => self.plan_compaction(focus),
            Command::EditCompaction { plan, summary } => self.undo_asked(Want::Edit { plan, summary }),
            Command::UndoCompaction => self.feed(Input::UndoCompaction),
            Command::RedoCompaction => self.undo_asked(Want::RedoCompaction),
            Command::Undo => self.undo_asked(Want::Undo),
            Command::UndoCalls { count } => self.undo_asked(Want::UndoCalls(count)),
            Command::Redo => self.undo_asked(Want::Redo),
            Command::Rewind { to, what } => self.undo_asked(Want::Rewind { to, what }),
            Command::ChangeContext(change) => self.undo_asked(Want::Change(change)),
            Command::ToSubagent { call_id, what } => self.pass_to_subagent(&call_id, *what),
            Command::CarryOut { plan, force } => self.undo_asked(Want::CarryOut { plan, force }),
            Command::EndInput => {
                // The person leaves the session, and its work ends with it.
                if !self.settings.asking.headless {
                    self.drop_background();
                }
                self.feed(Input::EndInput);
            }
        }
    }

    fn feed(&mut self, input: Input) {
        self.flow.feed(input);
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::StartTurn => {
                self.spending.turn.begin();
                self.spending.in_turn = true;
                self.hooking.stop = None;
                self.undoing.forget();
                self.tools.repetition.reset();
                self.budget.governor.turn_started();
                self.doubt_limits();
            }
            Action::Deliver { prompts, steered } => {
                if !self.prompt_hooks(&prompts, steered) {
                    self.deliver(&prompts, steered);
                    self.release_held();
                }
            }
            Action::AskStop { sent_back } => self.stop_hooks(sent_back),
            Action::Assess => {
                // If an exact count is started, the facts follow when it is finished.
                if !self.count_first() {
                    let facts = self.assess();
                    self.feed(Input::Assessed(facts));
                }
            }
            Action::Request { step, attempt, wrap_up } => self.request(step, attempt, wrap_up),
            Action::Supersede => self.supersede(),
            Action::FallBack => self.fall_back(),
            Action::CancelRequest => self.cancel_request(),
            Action::RunTools => {
                lock(&self.core.session).view_mut().set_calls_may_run(true);
                self.run_tools();
            }
            Action::CloseCalls(why) => self.close_calls(why),
            Action::CancelTools => self.cancel_tools(),
            Action::Compact { trigger } => {
                self.undoing.forget();
                if !self.compact_hooks(trigger) {
                    self.compact(trigger);
                }
            }
            Action::PlanCompaction => {
                self.undoing.forget();
                self.compact(CompactionTrigger::Manual);
            }
            Action::CancelCompaction => {
                self.cancel_compaction();
                if !self.spending.in_turn {
                    // No other event reports the end of the compaction.
                    self.core.emit(Event::CompactionFailed { reason: "it was interrupted".to_owned() });
                }
                self.compaction_over(CompactionEnd::Cancelled);
            }
            Action::Note(note) => self.note(&note),
            Action::UndoCompaction => {
                self.undoing.forget();
                self.undo_compaction();
            }
            Action::Restore => self.restore(),
            Action::MarkInterrupt => {
                self.core.push(EntryKind::Interrupt);
            }
            Action::EndTurn(end) => self.end_turn(end),
            // The loop ends by the machine's phase.
            Action::Exit => {}
        }
    }

    fn end_turn(&mut self, end: TurnEnd) {
        let end = match (end, self.spending.limits.max_wall()) {
            (TurnEnd::Interrupted, Some(max)) if self.spending.turn.out_of_time => {
                TurnEnd::TimeLimit { what: over_time(max) }
            }
            (end, _) => end,
        };
        // In a headless run no further prompt will come, so no compaction needs the summary.
        let phase = self.phase();
        if self.settings.asking.headless || phase == Phase::Exited {
            self.give_up_preparation("the end of the turn");
        }
        self.core.pending.extend(self.tools.host.read_files());
        self.core.flush(Durability::Buffered);
        self.report_usage();
        let state = lock(&self.core.session).view().turn_state();
        self.keep_meter();
        self.core.push(EntryKind::TurnEnd { end: end.name().to_owned(), state });
        self.core.flush(Durability::Synced);
        self.core.tell_notices();
        self.spending.in_turn = false;
        self.failure_hooks(&end);
        let completed = end == TurnEnd::Completed;
        let result = self.take_result(end);
        self.core.emit(Event::TurnFinished(Box::new(result)));
        if completed && phase == Phase::Idle && !self.settings.asking.headless {
            self.prepare_for_next_prompt();
        }
    }

    /// Takes the sums of the turn. Later usage, by a manual compaction or a summary made ahead of time, counts for the next turn.
    fn take_result(&mut self, end: TurnEnd) -> TurnResult {
        let turn = &mut self.spending.turn;
        turn.take_in_subagents(&self.spending.limits);
        let result = TurnResult {
            end,
            text: std::mem::take(&mut turn.text),
            stop_reason: turn.stop_reason.take(),
            steps: turn.steps,
            duration: millis(turn.started.elapsed()),
            api_duration: millis(turn.api),
            usage: turn.usage,
            cost: turn.cost,
            models: std::mem::take(&mut turn.models),
            denials: std::mem::take(&mut turn.denials),
            compaction: TurnCompaction { count: turn.compactions, by_hand: None },
            unsaved: lock(&self.core.session).backlog() > 0,
        };
        self.spending.turn = TurnSum::new();
        result
    }

    /// Runs before the exit: tries once more to write pending entries.
    fn finish(&mut self) {
        self.give_up_preparation("the end of the session");
        self.count_title();
        self.count_warming();
        self.core.pending.extend(self.tools.host.drain().0);
        self.core.flush(Durability::Buffered);
        lock(&self.core.session).flush();
        // In a headless run the result has been emitted already, so the caller takes the last notices from the session.
        if !self.settings.asking.headless {
            self.core.tell_notices();
        }
    }

    fn tell_refusal(&mut self, done: Result<(), String>) {
        if let Err(why) = done {
            self.core.say(NoticeLevel::Error, why);
        }
    }

    fn model(&self) -> Arc<dyn Model> {
        Arc::clone(&self.wire.model)
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
