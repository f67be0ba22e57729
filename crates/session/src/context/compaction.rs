//! Compaction: older history becomes one summary; a recent tail stays word for word; one defined step follows.
//!
//! # Model
//!
//! A compaction is a function of a [`Snapshot`] (the view before it, as plain data), interrupted by a few model
//! requests. [`begin`] prunes and splits the snapshot and returns a [`Step`]. Each [`Step::Ask`] contains the next
//! request to make and is given its answer. No step knows a clock, a model or a disk.
//!
//! Order: snapshot → prune → split → summarise → anchor → verify → continuation → commit.
//!
//! # How a driver calls it
//!
//! The driver keeps one [`super::budget::Meter`] and one [`super::budget::Limits`] per model, and one [`Governor`]
//! per session. When a session is opened: `Governor::from_state(view.state(Governor::KEY))`.
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
//!            //   InputKind::PrunedHead   → a separate context: system = [system], one user message = prompt, no tools
//!            //   InputKind::CachedPrefix → the running request, unchanged, and one more user message = prompt at its
//!            //                             end, tool_choice none
//!            // 90 s for all asks of one compaction together; then Err(Failure::Timeout). Esc: drop the ask, history
//!            // is unchanged. Usage entries carry purpose "summary".
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
//! `outcome.entries` is `[Compaction, Message]`, after a `CutInputs` entry if inputs of the newest step are cut; or `[Compaction]` if the session awaits the user; or `[Prune]` if
//! pruning alone was enough (the turn then continues without a continuation message). An outcome belongs to its
//! snapshot. If messages were appended after the snapshot was taken, drop the outcome and begin again.
//!
//! From [`super::budget::Budget::prepare_from`] on, [`prepare`] returns a request to make in the background. It ends
//! in [`Step::Prepared`] or [`Step::Unprepared`]; store either with [`Prepared::entry`]. The compaction then starts
//! with [`begin_with`].
//!
//! # Invariants
//! - No loop: a compaction is accepted only if it frees enough (`verify`). Otherwise it escalates once, without the
//!   model, and then stops.
//! - The user's last message stays word for word in every outcome: in the tail, kept before it, or as the continuation.
//! - A call and its results are on the same side of the cut.
//! - Messages that the model has not answered yet stay: calls whole, results at least shortened, with the id for
//!   `recall`.
//! - Text of tools is data: it is escaped on its way to the summariser and on its way back.
//!
//! Does not talk to a model, count time, or write the ledger.

mod attached;
mod earlier;
mod effect;
mod fallback;
mod governor;
mod layout;
mod loss;
mod nested_rules;
mod outcome;
mod plan;
mod prepared;
mod request_kind;
mod snapshot;
mod split;
mod unseen;
mod verify;

pub use attached::{FileContent, FileNow, FileUse, MAX_FILES, UseKind, uses};
pub use effect::{CompactionEffect, text_of};
pub use governor::{CompactionReason, Governor, Verdict};
pub use loss::loss;
pub use nested_rules::RULES_PATH;
pub use plan::{Ask, Step, begin, begin_with, prepare, stop};
pub use prepared::{CoveredMessages, Prepared, PreparedOutcome};
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

/// The input of a compaction: the view before it, as plain data.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The view's messages in order, as the ledger has them (not wrapped, not escaped), without summary and
    /// state message.
    pub messages: Vec<Arc<Message>>,
    pub outputs: Outputs,
    /// The last ledger entry that the view has applied.
    pub last_seq: Seq,
    pub turn_state: TurnState,
    /// The compaction in force.
    pub previous: Option<Previous>,
    pub pins: Pins,
    /// Tool calls of the whole session, oldest first.
    pub journal: Arc<Journal>,
    /// State entries by name: `todo`, `skills`, `read_files`, `mode`, …
    pub state: BTreeMap<String, Value>,
    pub disk: OnDisk,
    pub policy: Policy,
    pub request: Request,
}

/// Tool outputs that the model no longer sees whole, and those that a prune or this compaction would shorten next.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// Calls whose outputs are already stubs in the view.
    pub stubs: HashSet<CallId>,
    /// Outputs that the model first saw shortened, including outputs that have left the view.
    pub cuts: HashMap<CallId, CutOutput>,
    /// Outputs that a prune would choose now.
    pub prunable: Vec<PrunedCall>,
    /// The entry that shortens the inputs of the newest step's tool calls, if they are too large. In the snapshot's messages they are
    /// already shortened.
    pub inputs: Option<EntryKind>,
}

/// Contents of files on disk, which the driver reads for a compaction.
#[derive(Clone, Debug, Default)]
pub struct OnDisk {
    /// Rules files below the working directory; `None`: use the texts in the view.
    pub rules: Option<Vec<SystemItem>>,
    /// Files that the model was shown ([`uses`]).
    pub files: Vec<FileNow>,
}

/// The compaction in force, whose summary the new compaction continues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Previous {
    /// The entry of that compaction.
    pub entry: Seq,
    /// Its summary with the anchor block.
    pub summary: String,
    /// Text of its state message (todo list, loaded skills, attached files), which follows the summary.
    pub state: String,
    /// Rules files below the working directory that it stores.
    pub rules: Vec<SystemItem>,
    /// The files whose content is in `state`.
    pub attached: Vec<AttachedFile>,
    /// Messages that were removed from its tail. The next compaction keeps them removed.
    pub taken_out: Vec<MessageId>,
    /// Images and files that the view shows as a line of text, as message and index of the part. They stay text.
    pub media: Vec<(MessageId, u32)>,
    /// Outputs that it made stubs.
    pub pruned: Vec<PrunedCall>,
    /// Outputs that it shortened, as the model had not answered them yet.
    pub cuts: Vec<CutOutput>,
}

/// Pinned messages and calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pins {
    pub messages: HashSet<MessageId>,
    /// Calls whose results are pinned.
    pub calls: HashSet<CallId>,
}

/// The model that writes summaries.
#[derive(Clone, Debug, PartialEq)]
pub struct Summariser {
    /// `provider/name`.
    pub name: String,
    pub budget: Budget,
    /// List prices; `None` if they are unknown.
    pub prices: Option<Prices>,
    /// True if the running model is the summariser and its provider still has the prefix in its cache.
    pub cache_warm: bool,
}

/// The kind of request for the summary; recorded in `Compaction.input`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// A short separate request with the pruned head as text.
    PrunedHead,
    /// The current conversation with one instruction at its end.
    CachedPrefix,
}

impl InputKind {
    /// Returns the name in the ledger, such as `pruned_head`.
    pub fn name(self) -> &'static str {
        match self {
            Self::PrunedHead => "pruned_head",
            Self::CachedPrefix => "cached_prefix",
        }
    }
}

/// One request for a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRequest {
    pub input: InputKind,
    /// Empty for [`InputKind::CachedPrefix`], whose system prompt is unchanged.
    pub system: String,
    /// Text of the user message with the instructions: the only message, or the one that is appended to the current conversation.
    pub prompt: String,
    /// Output limit in tokens.
    pub max_output: u64,
}

/// The reason why a summary request returned no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The provider failed permanently, with its message.
    Error(String),
    Refusal,
    /// The time limit of 90 seconds was reached.
    Timeout,
    /// The provider refused the request as too long.
    Overflow,
}

/// A compaction that is ready to be appended to the ledger.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Entries to append as one commit, in this order.
    pub entries: Vec<EntryKind>,
    pub report: Report,
    /// Messages for people: failures of the summariser, fallbacks, escalations.
    pub notices: Vec<String>,
}

/// Numbers of messages and outputs that a compaction changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportCounts {
    /// Messages that leave the view.
    pub dropped: usize,
    /// Messages that are kept although they precede the cut.
    pub kept: usize,
    /// Messages in the tail.
    pub tail: usize,
    /// Outputs that become stubs.
    pub pruned: usize,
    /// Outputs that the model has not answered yet and that are shortened.
    pub cut: usize,
}

/// The effect of a compaction for people: `/compact --preview`, `becket context`, the event.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub trigger: CompactionTrigger,
    /// The author of the summary: a model, or becket's fallback without one.
    pub source: CompactionSource,
    /// `pruned_head`, `cached_prefix`, `prepared`, or empty.
    pub input: String,
    /// Estimated size of the whole context, before and after the compaction.
    pub tokens_before: Tokens,
    pub tokens_after: Tokens,
    /// Size of each category before and after the compaction.
    pub before: Breakdown,
    pub after: Breakdown,
    pub counts: ReportCounts,
    /// True if the results that the model has not answered yet did not fit: the new view has only stubs of them, without any text.
    pub blind: bool,
    /// Number of requests that were sent for the summary.
    pub model_calls: u32,
    /// The summary exactly as the model will see it; empty if pruning was enough.
    pub summary: String,
    /// Text of the summarising model that was not accepted.
    pub left_out: Vec<LeftOut>,
}
