//! The state machine with the work that it has ordered: pending actions, and the operation that runs.
//!
//! Invariants: at most one operation runs. While hooks must answer, no action is handed out. Does not carry anything out.

use super::Op;
use crate::machine::{self, Action, Input, Phase, Rules, State};
use std::collections::VecDeque;

/// The state machine, the actions that it still owes, and the operation that runs.
pub(super) struct Flow {
    pub(super) machine: Option<State>,
    pub(super) actions: VecDeque<Action>,
    pub(super) op: Op,
}

impl Flow {
    pub(super) fn new(rules: Rules) -> Self {
        Self { machine: Some(State::new(rules)), actions: VecDeque::new(), op: Op::None }
    }

    pub(super) fn phase(&self) -> Phase {
        self.machine.as_ref().map_or(Phase::Exited, State::phase)
    }

    pub(super) fn feed(&mut self, input: Input) {
        if let Some(state) = self.machine.take() {
            let (state, actions) = machine::next(state, input);
            self.machine = Some(state);
            self.actions.extend(actions);
        }
    }

    /// Changes the state of the machine directly, without an [`Input`].
    pub(super) fn change(&mut self, change: impl FnOnce(State) -> State) {
        self.machine = self.machine.take().map(change);
    }

    pub(super) fn input_ended(&self) -> bool {
        self.machine.as_ref().is_some_and(State::input_ended)
    }

    /// Returns the next action. While hooks must answer, there is none.
    pub(super) fn next_action(&mut self) -> Option<Action> {
        if matches!(self.op, Op::Hooks(_)) { None } else { self.actions.pop_front() }
    }
}
