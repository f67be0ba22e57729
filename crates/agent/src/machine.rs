//! The agent loop as a pure state machine: `next(State, Input) -> (State, Vec<Action>)`.
//!
//! At any moment the machine waits for exactly one thing. Either it is idle and waits for a prompt, or one
//! operation is running (a budget assessment, a request, a batch of tool calls, a compaction) and its outcome
//! is the next input. Commands may arrive at any time. They are stored and processed at the start of the next
//! iteration.
//!
//! Each iteration has the same order: drain the inbox, test for the end, count the step and check limits,
//! assess the budget, send the request, run the tools.
//!
//! Invariants, checked by `tests/machine_properties.rs` with random inputs:
//! - There are never two operations at once, and always one during a turn.
//! - Each prompt is delivered exactly once, in order. Each answer's calls are run or closed exactly once.
//! - A started turn ends with exactly one [`Action::EndTurn`]. After `EndInput` the machine exits, once no work runs in
//!   the background.
//!
//! Uses no clock, no IO and makes no ids: prompts are numbers from the driver, texts are passed through
//! unchanged.

mod answers;
mod terms;

use becket_types::{CompactionTrigger, DeliveryMode, TurnEnd};
use std::collections::VecDeque;
pub use terms::{
    Action, Answer, Break, BreakKind, CompactionEnd, Facts, Input, NotRun, Note, Owed, Repetition, Rules,
};

/// The driver's number for a prompt in its inbox.
pub type PromptId = u64;

/// Maximum number of retries of one request whose answer broke in the middle.
pub(crate) const MAX_RETRIES: u32 = 3;
/// Maximum number of consecutive requests that continue an answer which the output limit cut.
const MAX_CUTS: u32 = 3;
/// Maximum number of automatic compactions between two answers.
const MAX_COMPACTIONS: u32 = 2;

/// Maximum number of times in one turn that hooks can keep it from ending.
pub const MAX_STOP_BLOCKS: u32 = 8;

/// The state of the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    rules: Rules,
    phase: Phase,
    turn: Turn,
    steer: VecDeque<PromptId>,
    join: VecDeque<PromptId>,
    queue: VecDeque<PromptId>,
    end_input: bool,
    /// True while work runs in the background.
    background: bool,
    compact_asked: bool,
    undo_asked: bool,
}

/// The one thing that the machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Idle,
    Assessing,
    Requesting,
    RunningTools,
    /// Hooks are asked if the turn may end.
    Stopping,
    /// The turn is answered. As no input follows, it waits for the work in the background, whose ends are prompts.
    Awaiting,
    Compacting {
        trigger: CompactionTrigger,
        in_turn: bool,
    },
    /// A compaction is computed to be shown, but not made.
    Planning,
    /// An undo, redo or rewind of files or of the conversation is planned or carried out.
    Restoring,
    Exited,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Turn {
    /// Number of requests answered in this turn.
    steps: u64,
    /// True if the last answer ended the task, all its calls have results, and nothing newer was delivered.
    answered: bool,
    /// True after an interrupt. The outcome of the running operation then ends the turn.
    stopping: bool,
    /// True if the last request was the wrap-up at the turn limit.
    wrapping: bool,
    retries: u32,
    re_asked: bool,
    cuts: u32,
    compactions: Compactions,
    /// Number of times that hooks have sent the model back to work in this turn.
    sent_back: u32,
    /// Set if the last answer contains calls as text; see [`Answer::written_calls`].
    written_calls: Option<String>,
    /// True if a fallback model may take over if the context is too long even after its compaction.
    fallback: bool,
}

/// The compactions since the last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Compactions {
    count: u32,
    /// True if a compaction was made because the provider refused a request as too long.
    overflowed: bool,
    /// True if a hook refused a compaction.
    refused: bool,
}

/// Makes one transition: returns the next state and the actions to carry out.
pub fn next(mut state: State, input: Input) -> (State, Vec<Action>) {
    let mut out = Vec::new();
    state.step(input, &mut out);
    (state, out)
}

impl State {
    /// Makes an idle machine with empty queues.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            phase: Phase::Idle,
            turn: Turn::default(),
            steer: VecDeque::new(),
            join: VecDeque::new(),
            queue: VecDeque::new(),
            end_input: false,
            background: false,
            compact_asked: false,
            undo_asked: false,
        }
    }

    /// Returns the operation whose outcome the machine waits for.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// True if no further input will come.
    pub fn input_ended(&self) -> bool {
        self.end_input
    }

    /// Returns the number of requests answered in this turn.
    pub fn steps(&self) -> u64 {
        self.turn.steps
    }

    /// Replaces the limit on answered requests of a turn, also during one.
    pub(crate) fn limit_turns(mut self, most: Option<u64>) -> Self {
        self.rules.max_turns = most;
        self
    }

    /// Adds a prompt that is delivered with the next turn, without starting a turn.
    pub fn hold(mut self, id: PromptId) -> Self {
        self.steer.push_back(id);
        self
    }

    /// Removes a waiting prompt.
    pub(crate) fn withdraw(mut self, id: PromptId) -> Self {
        self.steer.retain(|waits| *waits != id);
        self.join.retain(|waits| *waits != id);
        self.queue.retain(|waits| *waits != id);
        self
    }

    /// Returns the waiting prompts, steering ones first.
    pub fn waiting(&self) -> impl Iterator<Item = PromptId> + '_ {
        self.steer.iter().chain(&self.join).chain(&self.queue).copied()
    }

    /// True if a message may join the turn: the model has begun to work, and its next request is not its last word.
    fn may_join(&self) -> bool {
        self.turn.steps > 0 && !self.turn.answered
    }

    /// True if a waiting prompt is to be delivered before the next request of the turn.
    fn is_prompt_due(&self) -> bool {
        !self.steer.is_empty() || self.may_join() && !self.join.is_empty()
    }

    fn step(&mut self, input: Input, out: &mut Vec<Action>) {
        match input {
            _ if self.phase == Phase::Exited => {}
            Input::Prompt { id, mode } => {
                match mode {
                    DeliveryMode::Steer => self.steer.push_back(id),
                    DeliveryMode::Join => self.join.push_back(id),
                    DeliveryMode::Queue => self.queue.push_back(id),
                }
                self.wake(out);
            }
            Input::Continue => {
                if self.phase == Phase::Idle {
                    self.start_turn(out);
                }
            }
            Input::Interrupt => self.interrupt(out),
            Input::Compact => {
                self.compact_asked = true;
                self.wake(out);
            }
            Input::CompactIdle => {
                if self.phase == Phase::Idle {
                    let trigger = CompactionTrigger::Auto;
                    out.push(Action::Compact { trigger });
                    self.phase = Phase::Compacting { trigger, in_turn: false };
                }
            }
            Input::PlanCompaction => {
                if self.phase == Phase::Idle {
                    out.push(Action::PlanCompaction);
                    self.phase = Phase::Planning;
                }
            }
            Input::CompactionPlanned if self.phase == Phase::Planning => self.idle(out),
            Input::UndoCompaction => {
                self.undo_asked = true;
                self.wake(out);
            }
            Input::Restore => {
                if self.phase == Phase::Idle {
                    out.push(Action::Restore);
                    self.phase = Phase::Restoring;
                }
            }
            Input::Restored if self.phase == Phase::Restoring => self.idle(out),
            Input::EndInput => {
                self.end_input = true;
                self.wake(out);
            }
            Input::Background { running } => {
                self.background = running;
                match self.phase {
                    Phase::Awaiting if !running => self.iterate(out),
                    _ => self.wake(out),
                }
            }
            Input::Assessed(facts) if self.phase == Phase::Assessing => self.assessed(facts, out),
            Input::Answered(answer) if self.phase == Phase::Requesting => self.answered(answer, out),
            Input::Broke(broken) if self.phase == Phase::Requesting => self.broke(broken, out),
            Input::Cancelled { calls } if self.phase == Phase::Requesting => {
                if calls > 0 {
                    out.push(Action::CloseCalls(NotRun::Interrupted));
                }
                self.end_interrupted(out);
            }
            Input::ToolsDone if self.phase == Phase::RunningTools => self.iterate(out),
            Input::StopAsked { go_on } if self.phase == Phase::Stopping => self.stop_asked(go_on, out),
            Input::CompactionDone(end) => {
                if let Phase::Compacting { trigger, in_turn } = self.phase {
                    self.compacted(trigger, in_turn, end, out);
                }
            }
            // The outcome of an operation that is not running. The driver should never send it, so it has no
            // effect.
            Input::Assessed(_)
            | Input::Answered(_)
            | Input::Broke(_)
            | Input::Cancelled { .. }
            | Input::CompactionPlanned
            | Input::Restored
            | Input::StopAsked { .. }
            | Input::ToolsDone => {}
        }
    }

    /// Processes a new command at once if no operation is running.
    fn wake(&mut self, out: &mut Vec<Action>) {
        match self.phase {
            Phase::Idle => self.idle(out),
            Phase::Awaiting
                if !self.steer.is_empty()
                    || !self.join.is_empty()
                    || self.compact_asked
                    || self.undo_asked =>
            {
                self.iterate(out);
            }
            _ => {}
        }
    }

    /// Chooses the next operation when no turn is running.
    fn idle(&mut self, out: &mut Vec<Action>) {
        self.phase = Phase::Idle;
        if std::mem::take(&mut self.undo_asked) {
            out.push(Action::UndoCompaction);
        }
        if std::mem::take(&mut self.compact_asked) {
            let trigger = CompactionTrigger::Manual;
            out.push(Action::Compact { trigger });
            self.phase = Phase::Compacting { trigger, in_turn: false };
        } else if self.waiting().next().is_some() {
            // Steering messages that arrived too late for their turn share one new turn. Each other message gets its
            // own.
            if self.steer.is_empty() {
                self.steer.extend(self.join.pop_front().or_else(|| self.queue.pop_front()));
            }
            self.start_turn(out);
        } else if self.end_input && !self.background {
            out.push(Action::Exit);
            self.phase = Phase::Exited;
        }
    }

    fn start_turn(&mut self, out: &mut Vec<Action>) {
        self.turn = Turn::default();
        out.push(Action::StartTurn);
        self.iterate(out);
    }

    /// Starts an iteration: drains the inbox, then requests a budget assessment.
    fn iterate(&mut self, out: &mut Vec<Action>) {
        if self.turn.stopping {
            return self.end_interrupted(out);
        }
        if self.is_prompt_due() {
            out.extend(self.turn.written_calls.take().map(Note::CallsAsText).map(Action::Note));
            let mut prompts: Vec<PromptId> = self.steer.drain(..).collect();
            if self.may_join() {
                prompts.extend(self.join.drain(..));
                prompts.sort_unstable();
            }
            out.push(Action::Deliver { prompts, steered: self.turn.steps > 0 });
            self.turn.answered = false;
            self.turn.cuts = 0;
        }
        if std::mem::take(&mut self.undo_asked) {
            out.push(Action::UndoCompaction);
        }
        if std::mem::take(&mut self.compact_asked) {
            return self.compact(CompactionTrigger::Manual, out);
        }
        out.push(Action::Assess);
        self.phase = Phase::Assessing;
    }

    fn assessed(&mut self, facts: Facts, out: &mut Vec<Action>) {
        if self.turn.stopping || self.is_prompt_due() || self.compact_asked || self.undo_asked {
            return self.iterate(out);
        }
        let may_compact = self.turn.compactions.count < MAX_COMPACTIONS && !self.turn.compactions.refused;
        if self.turn.answered {
            if self.end_input && self.background && self.join.is_empty() {
                self.phase = Phase::Awaiting;
                return;
            }
            // A compaction that is due now is left to the next prompt. The user should not wait for it, and
            // there may be no next prompt.
            if self.rules.stop_hooks && self.turn.sent_back < MAX_STOP_BLOCKS {
                out.push(Action::AskStop { sent_back: self.turn.sent_back });
                self.phase = Phase::Stopping;
                return;
            }
            return self.end_answered(out);
        }
        if let Some(end) = facts.over {
            return self.end_turn(end, out);
        }
        if let Owed::NoRoom(what) = facts.owed {
            // This is checked before repetition, because a model that was shown nothing new is expected to
            // ask again.
            return self.end_turn(TurnEnd::NoRoom { what }, out);
        }
        match facts.repetition {
            Repetition::None => {}
            Repetition::Nudge(what) => out.push(Action::Note(Note::Repetition(what))),
            Repetition::Stop(what) => return self.end_turn(TurnEnd::Repetition { what }, out),
        }
        match facts.owed {
            Owed::Compact if may_compact => return self.compact(CompactionTrigger::Auto, out),
            Owed::Full(breakdown) => return self.end_turn(TurnEnd::ContextFull { breakdown }, out),
            Owed::Compact | Owed::No | Owed::NoRoom(_) => {}
        }
        if let Some(limit) = self.rules.max_turns
            && self.turn.steps >= limit
            && !self.turn.wrapping
        {
            out.push(Action::Note(Note::WrapUp { limit }));
            self.turn.wrapping = true;
        }
        self.request(out);
    }

    /// Hooks have said if the turn may end.
    fn stop_asked(&mut self, go_on: bool, out: &mut Vec<Action>) {
        if self.turn.stopping || go_on || !self.steer.is_empty() {
            self.turn.sent_back += u32::from(go_on);
            self.turn.answered = false;
            self.turn.cuts = 0;
            out.extend(self.turn.written_calls.take().map(Note::CallsAsText).map(Action::Note));
            return self.iterate(out);
        }
        self.end_answered(out);
    }

    fn end_answered(&mut self, out: &mut Vec<Action>) {
        let end = match self.turn.written_calls.take() {
            Some(what) => TurnEnd::CallsAsText { what },
            None => TurnEnd::Completed,
        };
        self.end_turn(end, out);
    }

    fn request(&mut self, out: &mut Vec<Action>) {
        out.push(Action::Request {
            step: self.turn.steps + 1,
            attempt: self.turn.retries,
            wrap_up: self.turn.wrapping,
        });
        self.phase = Phase::Requesting;
    }

    /// Ends the turn after an error. A wrap-up that fails still ends the turn for its original reason.
    fn end_broken(&mut self, end: TurnEnd, out: &mut Vec<Action>) {
        if self.turn.wrapping { self.end_max_turns(out) } else { self.end_turn(end, out) }
    }

    fn end_max_turns(&mut self, out: &mut Vec<Action>) {
        let limit = self.rules.max_turns.unwrap_or(self.turn.steps);
        self.end_turn(TurnEnd::MaxTurns { limit }, out);
    }

    fn compact(&mut self, trigger: CompactionTrigger, out: &mut Vec<Action>) {
        self.turn.compactions.count += 1;
        out.push(Action::Compact { trigger });
        self.phase = Phase::Compacting { trigger, in_turn: true };
    }

    fn compacted(
        &mut self,
        trigger: CompactionTrigger,
        in_turn: bool,
        end: CompactionEnd,
        out: &mut Vec<Action>,
    ) {
        if !in_turn {
            return self.idle(out);
        }
        match end {
            CompactionEnd::Cancelled => self.end_interrupted(out),
            // Continue without a compaction. When the window is full, the turn ends.
            CompactionEnd::Refused(_) if trigger == CompactionTrigger::Auto && !self.turn.stopping => {
                self.turn.compactions.refused = true;
                self.iterate(out);
            }
            CompactionEnd::Failed(breakdown) | CompactionEnd::Refused(breakdown)
                if trigger != CompactionTrigger::Manual && !self.turn.answered && !self.turn.stopping =>
            {
                // The answer that overflowed is superseded already. The next model may have a larger window.
                if trigger == CompactionTrigger::Overflow && std::mem::take(&mut self.turn.fallback) {
                    out.push(Action::FallBack);
                    (self.turn.retries, self.turn.compactions.overflowed, self.turn.compactions.count) =
                        (0, false, 0);
                    return self.iterate(out);
                }
                self.end_broken(TurnEnd::ContextFull { breakdown }, out);
            }
            CompactionEnd::Failed(_) | CompactionEnd::Refused(_)
                if self.turn.answered && self.steer.is_empty() && !self.turn.stopping =>
            {
                self.end_turn(TurnEnd::Completed, out);
            }
            CompactionEnd::Done | CompactionEnd::Failed(_) | CompactionEnd::Refused(_) => self.iterate(out),
        }
    }

    fn interrupt(&mut self, out: &mut Vec<Action>) {
        match self.phase {
            Phase::Idle | Phase::Restoring | Phase::Exited => {}
            Phase::Awaiting => self.end_interrupted(out),
            Phase::Assessing | Phase::Stopping => self.turn.stopping = true,
            Phase::Requesting => {
                if !self.turn.stopping {
                    out.push(Action::CancelRequest);
                }
                self.turn.stopping = true;
            }
            Phase::RunningTools => {
                out.push(Action::CancelTools);
                self.turn.stopping = true;
            }
            Phase::Compacting { in_turn, .. } => {
                out.push(Action::CancelCompaction);
                self.turn.stopping = in_turn;
            }
            Phase::Planning => out.push(Action::CancelCompaction),
        }
    }

    fn end_interrupted(&mut self, out: &mut Vec<Action>) {
        out.push(Action::MarkInterrupt);
        self.end_turn(TurnEnd::Interrupted, out);
    }

    fn end_turn(&mut self, end: TurnEnd, out: &mut Vec<Action>) {
        out.push(Action::EndTurn(end));
        self.turn = Turn::default();
        self.idle(out);
    }
}
