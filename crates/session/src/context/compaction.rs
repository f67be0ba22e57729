//! T8: compaction. Older history becomes one summary; a recent tail stays verbatim; exactly one thing happens next.
//!
//! # The model behind it
//!
//! A compaction is a function of a [`Snapshot`] (the view from before, as plain data) with at most a few model calls in
//! its middle. [`begin`] takes the snapshot through prune and split and returns a [`Step`]; each [`Step::Ask`] holds the
//! one model request to make and is given back what came of it. No step knows a clock, a model or a disk.
//!
//! Order: snapshot → prune → split → summarise → anchor → verify → continuation → commit.
//!
//! # How a driver calls it
//!
//! State of its own that it keeps: one [`super::budget::Meter`] and one [`super::budget::Limits`] per model, one
//! [`Governor`] per session. On open: `Governor::from_state(view.state(Governor::KEY))`.
//!
//! ```text
//!    floor  = Floor::of(&system_items, &tool_specs)                      // again when either changes
//!    base   = view.estimated_tokens() + floor.tools                      // base tokens, unscaled; everything sent
//! 0. when a turn begins: governor.turn_started()
//! 1. after each answer of the model
//!      meter.report(&usage, base_sent, base_now)    // base when it was sent; base with the answer appended
//!      limits.worked(usage.context())               // when it returns true: append the limits' entry
//!      governor.step_succeeded()                    // when it returns true: append governor.entry() with the next commit
//! 2. before each request
//!      budget = Budget::new(info.window, info.input_limit, info.max_output).limited(limits)
//!      used   = meter.used(base)                    // meter.wants_exact_count(used, threshold): count exactly first
//!      match governor.owed(Need::Threshold, used, &budget, &policy, now) {
//!          Owed::No           => send the request
//!          Owed::Compact(t)   => step 4 with trigger t
//!          Owed::Stop(NothingShown) => end the turn: NoRoom
//!          Owed::Stop(reason) => end the turn: ContextFull { breakdown: compaction::stop(&snapshot, reason).to_string() }
//!      }
//! 3. the provider answered context-overflow (or 413, too many bytes: then nothing is learned)
//!      limits.learn(error.limit, used); budget = … .limited(limits)      // keep limits in a State entry
//!      governor.owed(Need::Overflow, used, &budget, &policy, now)        // as above
//!    the user typed /compact: governor.owed(Need::Manual, …) is always Compact(Manual)
//! 4. snapshot = Snapshot::of(&view, Request { … })                       // or filled by hand
//!    step = compaction::begin(snapshot)
//!    loop { match step {
//!        Step::Ask(ask) => {
//!            // ask.request(): SummaryRequest { input, system, prompt, max_output }
//!            //   InputKind::PrunedHead   → a context of its own: system = [system], one user message = prompt, no tools
//!            //   InputKind::CachedPrefix → the running request, unchanged, and one more user message = prompt at its
//!            //                             end, tool_choice none
//!            // 90 s for all asks of one compaction together; then Err(Failure::Timeout). Esc: drop the ask, history
//!            // is as it was. Usage entries carry purpose "summary".
//!            step = ask.answer(Ok(text) | Err(Failure::…))
//!        }
//!        Step::Commit(outcome) => {
//!            // preview: show outcome.report (Display), edit with outcome.with_summary(text), append nothing.
//!            governor.succeeded(outcome.report.tokens_after, &budget)
//!            governor.showed(outcome.report.blind)
//!            entries = outcome.entries + [governor.entry()]             // ONE session.append, Durability::Synced
//!            meter.forget(); emit CompactBoundary; tell outcome.notices; go to 2
//!        }
//!        Step::Stop(stop) => {
//!            governor.failed(now); append governor.entry();
//!            // auto, overflow: end the turn ContextFull { breakdown: stop.to_string() }. manual: tell the user.
//!        }
//!        Step::Nothing(why) => tell the user (only a manual compaction comes here)
//!    } }
//! ```
//!
//! `outcome.entries` is `[Compaction, Message]` or `[Compaction]` while the session awaits the user, or `[Prune]` where
//! pruning alone was enough (then the turn goes on as it is, without a continuation). An outcome belongs to its snapshot:
//! when messages were appended after that was taken, drop it and begin again.
//!
//! Ahead of time, from [`super::budget::Budget::prepare_from`] on: [`prepare`] gives the ask to make in the background. It
//! ends in [`Step::Prepared`] or [`Step::Unprepared`], both to be kept as [`Prepared::entry`]. The compaction then starts
//! with [`begin_with`].
//!
//! # Invariants
//! - No loop: a compaction is accepted only if it pays (`verify`), else it escalates once, without the model, then stops.
//! - The user's last message stands verbatim in every outcome: in the tail, kept before it, or as the continuation.
//! - A call and its results are on the same side of the cut.
//! - What the model has not answered yet stays: calls whole, results at least as a cut with the id for `recall`.
//! - Text of tools is data: it is escaped on its way to the summariser and on its way back.
//!
//! Does not talk to a model, count time, or write the ledger.

pub(in crate::context) mod attached;
mod fallback;
mod folded;
mod governor;
mod layout;
mod loss;
mod nested_rules;
mod outcome;
mod plan;
mod prepared;
mod snapshot;
mod split;
mod unseen;
mod verify;

pub use attached::{FileContent, FileNow, FileUse, MAX_FILES, UseKind, uses};
pub use folded::{Folded, text_of};
pub use governor::{Governor, Need, Owed};
pub use loss::loss;
pub use nested_rules::RULES_PATH;
pub use plan::{Ask, Step, begin, begin_with, prepare, stop};
pub use prepared::{Cover, Prepared, PreparedOutcome};
pub use snapshot::Request;
pub use split::{Tail, borders, cut, first_unseen};
pub use verify::{Breakdown, Floor, Stop, StopReason};

use super::Policy;
use super::budget::Budget;
use super::view::Journal;
use becket_types::{
    AttachedFile, CallId, CompactionSource, CompactionTrigger, CutOutput, EntryKind, LeftOut, Message,
    MessageId, Prices, PrunedCall, Seq, SystemItem, Tokens, TurnState,
};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Everything a compaction looks at: the view from before it, as plain data.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The view's messages in order, as the ledger has them (not wrapped, not escaped), without summary and state messages.
    pub messages: Vec<Arc<Message>>,
    /// Calls whose outputs are stubs in the view already.
    pub stubs: HashSet<CallId>,
    /// Outputs that the model was first shown in part, also those that have left the view.
    pub cuts: HashMap<CallId, CutOutput>,
    /// The last ledger entry that the view has seen.
    pub last_seq: Seq,
    pub turn_state: TurnState,
    /// The compaction in force.
    pub previous: Option<Previous>,
    pub pins: Pins,
    /// What T9 would prune now.
    pub prunable: Vec<PrunedCall>,
    /// Tool calls of the whole session, oldest first.
    pub journal: Arc<Journal>,
    /// State entries by name: `todo`, `skills`, `read_files`, `mode`, …
    pub state: BTreeMap<String, Value>,
    /// Rules files below the working directory as they are on disk now; `None`: as the view shows them.
    pub rules: Option<Vec<SystemItem>>,
    /// Files that the model was shown ([`uses`]), as the driver finds them now.
    pub files: Vec<FileNow>,
    /// System prompt, rules and tools, in base tokens (`budget::estimate_*`).
    pub floor: Floor,
    /// What is used now, as `Meter::used` says; 0 when unknown.
    pub used: Tokens,
    pub budget: Budget,
    pub policy: Policy,
    pub trigger: CompactionTrigger,
    /// `/compact focus`.
    pub focus: Option<String>,
    /// Who writes the summary; `None`: the deterministic fallback, at once.
    pub summariser: Option<Summariser>,
    /// Id of the continuation message, should there be one.
    pub continuation_id: MessageId,
}

/// The compaction that this one updates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Previous {
    pub entry: Seq,
    /// Its summary with the anchor block.
    pub summary: String,
    /// Its state text.
    pub state: String,
    /// Its rules files.
    pub rules: Vec<SystemItem>,
    /// The files whose content stands in `state`.
    pub attached: Vec<AttachedFile>,
    /// Messages it took out of its tail, its media that became text: they stay so.
    pub taken_out: Vec<MessageId>,
    pub media: Vec<(MessageId, u32)>,
    pub pruned: Vec<PrunedCall>,
    pub cuts: Vec<CutOutput>,
}

/// What the user pinned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pins {
    pub messages: HashSet<MessageId>,
    pub calls: HashSet<CallId>,
}

/// The model that writes summaries.
#[derive(Clone, Debug, PartialEq)]
pub struct Summariser {
    /// `provider/name`.
    pub name: String,
    pub budget: Budget,
    pub prices: Option<Prices>,
    /// The running model is the summariser, and its provider still holds the cached prefix.
    pub cache_warm: bool,
}

/// Which request is made for the summary; recorded in `Compaction.input`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// A short request of its own with the pruned head as text.
    PrunedHead,
    /// The running request with one instruction at its end.
    CachedPrefix,
}

impl InputKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::PrunedHead => "pruned_head",
            Self::CachedPrefix => "cached_prefix",
        }
    }
}

/// One request for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRequest {
    pub input: InputKind,
    /// Empty for [`InputKind::CachedPrefix`], whose system prompt stays as it is.
    pub system: String,
    /// Text of the one user message.
    pub prompt: String,
    /// Output limit in tokens.
    pub max_output: u64,
}

/// Why a summary request gave no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The provider failed for good, with its message.
    Error(String),
    Refusal,
    /// 90 seconds are over.
    Timeout,
    /// The provider says that the request is too long.
    Overflow,
}

/// A compaction that is ready to be appended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// To be appended as one commit, in this order.
    pub entries: Vec<EntryKind>,
    pub report: Report,
    /// What people should be told: failures of the summariser, fallbacks, escalations.
    pub notices: Vec<String>,
}

/// What a compaction does, for people: `/compact --preview`, `becket context`, the event.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub trigger: CompactionTrigger,
    pub source: CompactionSource,
    /// `pruned_head`, `cached_prefix`, `prepared`, or empty.
    pub input: String,
    pub tokens_before: Tokens,
    pub tokens_after: Tokens,
    pub before: Breakdown,
    pub after: Breakdown,
    /// Messages that leave the view, that are kept from before the cut, and that are in the tail.
    pub dropped: usize,
    pub kept: usize,
    pub tail: usize,
    /// Outputs that become stubs.
    pub pruned: usize,
    /// Outputs that the model has not answered yet and that are shown in part.
    pub cut: usize,
    /// Nothing that is new to the model is in the new view: its results are stubs without any text.
    pub blind: bool,
    pub model_calls: u32,
    /// Exactly what the model will see; empty when pruning was enough.
    pub summary: String,
    /// Text of the summarising model that is not in it.
    pub left_out: Vec<LeftOut>,
}
