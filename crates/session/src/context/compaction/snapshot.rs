//! Conversion of a view to a snapshot: the only connection between the view and the compaction.

use super::{Floor, OnDisk, Outputs, Pins, Previous, Snapshot, Summariser};
use crate::context::budget::{Budget, part_of};
use crate::context::{View, due, input};
use becket_types::{CallId, CompactionTrigger, CutInput, EntryKind, Message, MessageId, Millis, Tokens};
use std::sync::Arc;

/// Names of the state entries that are repeated after the summary.
const STATE_KEYS: [&str; 7] = ["todo", "read_files", "skills", "mode", "cwd", "shell_cwd", "jobs"];

/// The driver's part of a compaction request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The reason for the compaction: the threshold, a refused request, or the user.
    pub trigger: CompactionTrigger,
    /// The text after `/compact`: what the summary should pay special attention to.
    pub focus: Option<String>,
    /// Base tokens of system prompt, rules, skills and tools (`budget::estimate_*`).
    pub floor: Floor,
    /// Current size of the context according to `Meter::used`; 0 if unknown.
    pub used: Tokens,
    /// Limits of the session's model; the summariser has its own.
    pub budget: Budget,
    /// The model that writes the summary; `None`: use the fallback at once.
    pub summariser: Option<Summariser>,
    /// Id for the continuation message, if there will be one.
    pub continuation_id: MessageId,
    /// Current time. Only used as the timestamp of pruned outputs.
    pub now: Millis,
}

impl Snapshot {
    /// Takes the snapshot of a view, before anything is changed.
    pub fn take(view: &View, request: Request) -> Self {
        let (messages, inputs) = with_inputs_cut(view, &request);
        let mut pins = Pins::default();
        let mut stubs = std::collections::HashSet::new();
        for message in &messages {
            if view.is_pinned(&message.id) {
                pins.messages.insert(message.id);
            }
            if let Some(call) = message.result_of() {
                if view.is_call_pinned(call) {
                    pins.calls.insert(call.clone());
                }
                if view.is_pruned(call) {
                    stubs.insert(call.clone());
                }
            }
        }
        let previous = view.compaction().map(|(entry, c)| Previous {
            entry,
            summary: c.summary.clone(),
            state: c.repeated.state.clone(),
            rules: c.repeated.rules.clone(),
            attached: c.repeated.attached.clone(),
            taken_out: c.retained.taken_out.clone(),
            media: c.shortened.media.clone(),
            pruned: c.shortened.pruned.clone(),
            cuts: c.shortened.cuts.clone(),
        });
        let state =
            STATE_KEYS.iter().filter_map(|k| Some(((*k).to_owned(), view.state(k)?.clone()))).collect();
        Self {
            messages,
            outputs: Outputs {
                stubs,
                cuts: view.cuts().map(|cut| (cut.call_id.clone(), cut.clone())).collect(),
                prunable: due::prunable(view, request.now).calls,
                inputs,
            },
            last_seq: view.last_seq(),
            turn_state: view.turn_state(),
            previous,
            pins,
            journal: Arc::clone(view.journal()),
            state,
            disk: OnDisk::default(),
            policy: view.policy().clone(),
            request,
        }
    }
}

/// Returns the messages with their inputs as the view shows them, or would show them after this compaction. Also returns the entry that
/// cuts the inputs of the newest step: without it, a large input would stay in the window, because no compaction removes the newest step.
fn with_inputs_cut(view: &View, request: &Request) -> (Vec<Arc<Message>>, Option<EntryKind>) {
    let space = request.budget.usable().saturating_sub(request.floor.total().0);
    let entry = due::input_cut(view, Tokens(part_of(space, input::SHARE)));
    let new: &[CutInput] = match &entry {
        Some(EntryKind::CutInputs { inputs, .. }) => inputs,
        _ => &[],
    };
    let cut = |id: &CallId| new.iter().find(|cut| cut.call_id == *id).or_else(|| view.input_of(id));
    (view.live().map(|message| input::with_cuts(message, cut)).collect(), entry)
}
