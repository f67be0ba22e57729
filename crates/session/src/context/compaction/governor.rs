//! Limits on how often a compaction may happen, so that compactions can never loop.
//!
//! Plain state, kept in a `State` entry so that a resumed session knows it. Time is passed as an argument.

use super::super::Policy;
use super::super::budget::{Budget, part_of};
use super::StopReason;
use becket_types::{CompactionTrigger, EntryKind, Millis, Tokens};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of compactions between two successful steps.
const MAX_IN_A_ROW: u32 = 2;
/// Maximum number of consecutive compactions after which the view shows nothing of the messages that are new to the model.
const MAX_BLIND: u32 = 2;
/// Minimum growth in tokens before the next automatic compaction; 2 % of the window if that is more.
const MIN_GROWTH: u64 = 2_048;
const MAX_FAILURES: u32 = 3;
const HOUR: u64 = 3_600_000;

/// The occasion on which [`Governor::decide`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionReason {
    /// Before a request: is the threshold reached?
    Threshold,
    /// The provider refused a request as too long.
    Overflow,
    /// The user requested a compaction.
    Manual,
}

/// The decision of [`Governor::decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No compaction: send the request.
    No,
    Compact(CompactionTrigger),
    /// End the turn and let the user decide.
    Stop(StopReason),
}

/// Keeps the limits: at most two compactions between two successful steps; a new one only after growth; a pause of an hour after three
/// failures; a stop after two in a row that show nothing new. While automatic compaction is off, it also remembers a request that was
/// refused as too long, and stops further ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Governor {
    /// Number of compactions since the last successful step.
    in_a_row: u32,
    /// Tokens after the last compaction, and the usable window at that time.
    last: Option<(u64, u64)>,
    failures: u32,
    open_until: Option<Millis>,
    /// Set if a request was refused as too long while automatic compaction was off: used and usable tokens at
    /// that time.
    refused: Option<(u64, u64)>,
    /// Number of consecutive compactions after which the view showed nothing that is new to the model.
    blind: u32,
}

impl Governor {
    /// Name of the `State` entry.
    pub const KEY: &'static str = "compaction";

    /// Reads the state. An invalid value counts as no state.
    pub fn from_state(value: Option<&Value>) -> Self {
        value.and_then(|v| Self::deserialize(v).ok()).unwrap_or_default()
    }

    /// Returns the entry that stores this state.
    pub fn entry(&self) -> EntryKind {
        EntryKind::State { key: Self::KEY.to_owned(), value: serde_json::to_value(self).unwrap_or_default() }
    }

    /// Decides between compacting, stopping and continuing. May change the state, so append [`Self::entry`]
    /// after a stop.
    pub fn decide(
        &mut self,
        need: CompactionReason,
        used: Tokens,
        budget: &Budget,
        policy: &Policy,
        now: Millis,
    ) -> Verdict {
        let trigger = match need {
            CompactionReason::Manual => return Verdict::Compact(CompactionTrigger::Manual),
            CompactionReason::Overflow => CompactionTrigger::Overflow,
            CompactionReason::Threshold => CompactionTrigger::Auto,
        };
        if self.blind >= MAX_BLIND {
            // After the last two compactions the model did not see its newest results. Every further step would end the same way.
            return Verdict::Stop(StopReason::NothingShown);
        }
        let usable = budget.usable();
        // If the window is larger or the context shorter than at the refusal, requests are allowed again.
        self.refused = self.refused.filter(|(then, window)| usable <= *window && used.0 >= *then);
        let full = need == CompactionReason::Overflow || self.refused.is_some();
        if !full && used < budget.threshold(policy.threshold) {
            return Verdict::No;
        }
        if !policy.auto_compact {
            if need == CompactionReason::Overflow {
                self.refused = Some((used.0, usable));
            }
            return Verdict::Stop(StopReason::AutoOff);
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
            None => Verdict::Compact(trigger),
            // Between threshold and limit there is still room for the request itself.
            Some(_) if !full && used.0 < usable => Verdict::No,
            Some(reason) => Verdict::Stop(reason),
        }
    }

    /// True if a summary may be prepared. False during the pause after failures.
    pub fn may_prepare(&self, now: Millis) -> bool {
        self.open_until.is_none_or(|until| now >= until)
    }

    /// Records a committed compaction.
    pub fn succeeded(&mut self, after: Tokens, budget: &Budget) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.last = Some((after.0, budget.usable()));
        self.failures = 0;
        self.open_until = None;
        self.refused = None;
    }

    /// Records if the view after a compaction shows anything that is new to the model. `blind`: it shows
    /// nothing.
    pub fn note_shown(&mut self, blind: bool) {
        self.blind = if blind { self.blind.saturating_add(1) } else { 0 };
    }

    /// Records the start of a turn. The user may have made room or chosen another model, so the count of blind compactions begins again.
    pub fn turn_started(&mut self) {
        self.blind = 0;
    }

    /// Records a compaction that ended in a stop.
    pub fn failed(&mut self, now: Millis) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= MAX_FAILURES {
            self.open_until = Some(Millis(now.0.saturating_add(HOUR)));
        }
    }

    /// Records that the model answered a request. Returns true if the state changed and should be stored.
    pub fn step_succeeded(&mut self) -> bool {
        let changed = self.in_a_row > 0 || self.refused.is_some();
        self.in_a_row = 0;
        self.refused = None;
        changed
    }
}

/// True if the context has grown enough since the last compaction, or if the window turned out to be smaller
/// than assumed.
fn grown((after, usable): (u64, u64), used: Tokens, budget: &Budget) -> bool {
    budget.usable() < usable || used.0 >= after.saturating_add(MIN_GROWTH.max(part_of(budget.window, 0.02)))
}
