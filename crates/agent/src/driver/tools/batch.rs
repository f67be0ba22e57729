//! The calls of one answer while they wait, are asked about, run and end.
//!
//! Plain state, and the wait for running calls. [`super`] decides which call may run when.

use super::super::{Wake, until};
use crate::answer::Call;
use becket_types::{Access, CallId, HookEvent, HookOutcome, HookPermission, HookText, ToolOutput};
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The calls of one answer.
pub(in crate::driver) struct Batch {
    pub(super) slots: Vec<Slot>,
    /// First slot that was not processed yet.
    pub(super) next: usize,
    /// First slot without a result in the ledger.
    pub(super) written: usize,
    /// True while a call with side effects is running.
    pub(super) has_exclusive_call: bool,
    /// True while the front end is asked if the output of the call at `written` may be sent with its secrets. No call
    /// is processed meanwhile, so at most one question is open.
    pub(super) asks_secrets: bool,
    pub(super) running: FuturesUnordered<BoxFuture<'static, FinishedCall>>,
    pub(super) cancel: CancellationToken,
    /// Time at which becket stops waiting for cancelled tools.
    pub(super) grace: Option<Instant>,
    pub(super) given_up: bool,
    pub(super) touched: Vec<PathBuf>,
    /// Hooks that are asked about calls.
    pub(super) judging: FuturesUnordered<BoxFuture<'static, HookVerdict>>,
    /// Text of hooks for the model; it goes after the results.
    pub(super) hook_texts: Vec<(HookEvent, HookText)>,
}

/// The answer of hooks about one call.
pub(in crate::driver) struct HookVerdict {
    pub(super) index: usize,
    pub(super) event: HookEvent,
    pub(super) outcome: HookOutcome,
}

/// Progress of the questions to hooks about a call.
#[derive(Default)]
pub(super) struct HookProgress {
    pub(super) asked: bool,
    pub(super) waiting: bool,
    /// Answer of `PreToolUse`.
    pub(super) permission: Option<HookPermission>,
    pub(super) requested: bool,
    /// Answer of `PermissionRequest`.
    pub(super) request: Option<HookPermission>,
    /// A hook allowed the call and changed its input, which answers a question to the person.
    pub(super) answers: bool,
}

/// A call that has ended.
pub(in crate::driver) struct FinishedCall {
    pub(super) index: usize,
    pub(super) output: ToolOutput,
    pub(super) time: Duration,
    /// Answers of hooks about the result.
    pub(super) hooked: Vec<(HookEvent, HookOutcome)>,
}

pub(super) struct Slot {
    pub(super) call: Call,
    pub(super) state: SlotState,
    /// True if `intended` is in the journal.
    pub(super) journaled: bool,
    pub(super) subject: Option<String>,
    pub(super) started: Option<Instant>,
    /// The end of the call's live output, which becomes the result if the call is interrupted.
    pub(super) partial: Arc<Mutex<String>>,
    /// The user's answer to the question about secrets in the output.
    pub(super) send_secrets: Option<bool>,
    pub(super) hooks: HookProgress,
}

pub(super) enum SlotState {
    Waiting,
    /// The front end was asked for permission. Holds the rule that would allow the call for the session.
    Asking {
        access: Access,
        rule: Option<String>,
        /// The files that the call runs, as they were when the user was asked.
        scripts: Option<String>,
    },
    Running,
    Done {
        output: ToolOutput,
        time: Duration,
    },
}

impl Batch {
    pub(super) fn new(calls: Vec<Call>) -> Self {
        let slot = |call| Slot {
            call,
            state: SlotState::Waiting,
            journaled: false,
            subject: None,
            started: None,
            partial: Arc::default(),
            send_secrets: None,
            hooks: HookProgress::default(),
        };
        Self {
            slots: calls.into_iter().map(slot).collect(),
            next: 0,
            written: 0,
            has_exclusive_call: false,
            asks_secrets: false,
            running: FuturesUnordered::new(),
            cancel: CancellationToken::new(),
            grace: None,
            given_up: false,
            touched: Vec::new(),
            judging: FuturesUnordered::new(),
            hook_texts: Vec::new(),
        }
    }

    /// Returns calls that have ended, at least one, or an answer of hooks. Returns no call if becket stops waiting for
    /// cancelled tools.
    pub(in crate::driver) async fn next(&mut self) -> Wake {
        tokio::select! {
            biased;
            Some(first) = self.running.next() => {
                let mut done = vec![first];
                while let Some(Some(more)) = self.running.next().now_or_never() {
                    done.push(more);
                }
                Wake::Tools(done)
            }
            Some(judged) = self.judging.next() => Wake::Judged(judged),
            () = until(self.grace) => {
                self.given_up = true;
                Wake::Tools(Vec::new())
            }
        }
    }

    /// True while a question about the permission of a call is open.
    pub(super) fn asks_permission(&self) -> bool {
        self.slots.get(self.next).is_some_and(|slot| matches!(slot.state, SlotState::Asking { .. }))
    }

    /// Ids and tools of the calls that run.
    pub(in crate::driver) fn running_calls(&self) -> Vec<(CallId, String)> {
        let running = self.slots.iter().filter(|slot| matches!(slot.state, SlotState::Running));
        running.map(|slot| (slot.call.id.clone(), slot.call.name.clone())).collect()
    }

    pub(super) fn is_over(&self) -> bool {
        self.written == self.slots.len()
    }
}

impl Slot {
    pub(super) fn settle(&mut self, output: ToolOutput) {
        let time = self.started.map_or(Duration::ZERO, |at| at.elapsed());
        self.state = SlotState::Done { output, time };
    }

    pub(super) fn refuse(&mut self, why: impl Into<String>) {
        self.settle(ToolOutput::error(why));
    }
}
