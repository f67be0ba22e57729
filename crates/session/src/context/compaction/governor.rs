//! When a compaction is owed, and when not even then: the rules that make a loop impossible.
//!
//! Plain state, kept in a `State` entry so that a resumed session knows it. Time comes in as an argument.

use super::super::Policy;
use super::super::budget::{Budget, part_of};
use super::StopReason;
use becket_types::{CompactionTrigger, EntryKind, Millis, Tokens};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Compactions between two successful steps, at most.
const MAX_IN_A_ROW: u32 = 2;
/// Compactions in a row that may leave no room for anything that is new to the model.
const MAX_BLIND: u32 = 2;
/// Growth that arms the next automatic compaction: this many tokens, or 2 % of the window.
const MIN_GROWTH: u64 = 2_048;
const MAX_FAILURES: u32 = 3;
const HOUR: u64 = 3_600_000;

/// Why the question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Before a request: is the threshold reached?
    Threshold,
    /// The provider refused a request as too long.
    Overflow,
    /// The user asks for it.
    Manual,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
    /// Nothing: send the request.
    No,
    Compact(CompactionTrigger),
    /// End the turn and let the user choose.
    Stop(StopReason),
}

/// Rules over time: at most two compactions between two successful steps, a new one only after growth, a breaker after
/// three failures, an end after two in a row that show nothing new, and the stopped state while automatic compaction is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Governor {
    /// Compactions since the last successful step.
    in_a_row: u32,
    /// Tokens after the last compaction, and the usable window it was made for.
    last: Option<(u64, u64)>,
    failures: u32,
    open_until: Option<Millis>,
    /// Refused as too long while automatic compaction was off: used and usable tokens then.
    refused: Option<(u64, u64)>,
    /// Compactions in a row after which nothing that is new to the model was shown.
    blind: u32,
}

impl Governor {
    /// Name of the `State` entry.
    pub const KEY: &'static str = "compaction";

    /// Anything that is not a governor's state counts as none.
    pub fn from_state(value: Option<&Value>) -> Self {
        value.and_then(|v| Self::deserialize(v).ok()).unwrap_or_default()
    }

    /// The entry that keeps this state.
    pub fn entry(&self) -> EntryKind {
        EntryKind::State { key: Self::KEY.to_owned(), value: serde_json::to_value(self).unwrap_or_default() }
    }

    /// Whether to compact, to stop, or to go on. May change the state: append [`Self::entry`] after a stop.
    pub fn owed(&mut self, need: Need, used: Tokens, budget: &Budget, policy: &Policy, now: Millis) -> Owed {
        let trigger = match need {
            Need::Manual => return Owed::Compact(CompactionTrigger::Manual),
            Need::Overflow => CompactionTrigger::Overflow,
            Need::Threshold => CompactionTrigger::Auto,
        };
        if self.blind >= MAX_BLIND {
            // Every further step would be like the last two: calls, and results that nobody sees.
            return Owed::Stop(StopReason::NothingShown);
        }
        let usable = budget.usable();
        // A larger window or a shorter context clears the stopped state.
        self.refused = self.refused.filter(|(then, window)| usable <= *window && used.0 >= *then);
        let full = need == Need::Overflow || self.refused.is_some();
        if !full && used < budget.threshold(policy.threshold) {
            return Owed::No;
        }
        if !policy.auto_compact {
            if need == Need::Overflow {
                self.refused = Some((used.0, usable));
            }
            return Owed::Stop(StopReason::AutoOff);
        }
        let barred = if self.open_until.is_some_and(|until| now < until) {
            self.open_until.map(|until| StopReason::Breaker { until })
        } else if self.in_a_row >= MAX_IN_A_ROW {
            Some(StopReason::TooMany)
        } else if self.last.is_some_and(|last| !grown(last, used, budget)) {
            Some(StopReason::NotGrown)
        } else {
            None
        };
        match barred {
            None => Owed::Compact(trigger),
            // Between threshold and limit there is still room for the request itself.
            Some(_) if !full && used.0 < usable => Owed::No,
            Some(reason) => Owed::Stop(reason),
        }
    }

    /// Whether a summary may be prepared: not while automatic compaction rests.
    pub fn may_prepare(&self, now: Millis) -> bool {
        self.open_until.is_none_or(|until| now >= until)
    }

    /// A compaction was committed.
    pub fn succeeded(&mut self, after: Tokens, budget: &Budget) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.last = Some((after.0, budget.usable()));
        self.failures = 0;
        self.open_until = None;
        self.refused = None;
    }

    /// What the new view of a compaction shows: `blind` when it has no text of anything that is new to the model.
    pub fn showed(&mut self, blind: bool) {
        self.blind = if blind { self.blind.saturating_add(1) } else { 0 };
    }

    /// A turn begins: the user may have made room, or chosen another model.
    pub fn turn_started(&mut self) {
        self.blind = 0;
    }

    /// A compaction ended in a stop.
    pub fn failed(&mut self, now: Millis) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= MAX_FAILURES {
            self.open_until = Some(Millis(now.0.saturating_add(HOUR)));
        }
    }

    /// The model answered a request of the turn. Returns whether the state changed and is worth an entry.
    pub fn step_succeeded(&mut self) -> bool {
        let changed = self.in_a_row > 0 || self.refused.is_some();
        self.in_a_row = 0;
        self.refused = None;
        changed
    }
}

/// Enough growth since the last compaction, or a window that turned out smaller than it was thought to be.
fn grown((after, usable): (u64, u64), used: Tokens, budget: &Budget) -> bool {
    budget.usable() < usable || used.0 >= after.saturating_add(MIN_GROWTH.max(part_of(budget.window, 0.02)))
}
