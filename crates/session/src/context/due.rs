//! Entries that the driver should append to the ledger because of the state of a view: reminders, prunes, and cuts of the newest step.
//!
//! Each function reads the view and returns what the driver appends; the entry then changes the view. The rules and the
//! texts are in [`super::reminder`], [`super::prune`] and [`super::cut`], which know no view. Changes nothing itself.

use super::budget::{estimate_message, estimate_part, estimate_text};
use super::{View, cut, input, prune};
use becket_types::{
    CallId, CutOutput, EntryKind, Message, Millis, Part, PruneReason, PrunedCall, Role, Tokens,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Returns the reminder entries to append before the request of `step` (1 is the first of a turn) is built.
///
/// There is one for each message that a person typed after the last finished assistant message of this turn, unless its reminder is already
/// recorded or a request has shown the message unwrapped. There is none at step 1, and none for the continuation of a compaction.
pub fn reminders(view: &View, step: u64) -> Vec<EntryKind> {
    let facts = view.step_facts();
    if step <= 1 || facts.last_finished.is_none() {
        return Vec::new();
    }
    facts
        .newer_users
        .into_iter()
        .filter(|id| view.can_remind(id))
        .map(|message| EntryKind::Reminder { message, step })
        .collect()
}

/// Outputs chosen to become stubs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    pub calls: Vec<PrunedCall>,
    /// Estimated number of tokens that the stubs save.
    pub freed: Tokens,
}

/// Returns the outputs that [`prune::prune`] would choose from the live messages of a view.
pub fn prunable(view: &View, now: Millis) -> Selection {
    let policy = prune::PrunePolicy::new(view.policy(), now);
    let list: Vec<&Message> = view.live().map(AsRef::as_ref).collect();
    let stays = |message: &Message, call: &CallId| {
        view.is_pinned(&message.id)
            || view.is_call_pinned(call)
            || view.is_pruned(call)
            || !view.answers(message, call)
    };
    let mut selection = Selection::default();
    for (at, part) in prune::choose(&list, &policy, &stays) {
        let part = &list[at].parts[part];
        if let (Some(call), Part::ToolResult { output, name, .. }) = (prune::describe(part), part) {
            let left =
                estimate_text(&prune::stub(&call.call_id, name, call.bytes, call.lines, &call.excerpt));
            selection.freed += Tokens(estimate_text(output).0.saturating_sub(left.0));
            selection.calls.push(call);
        }
    }
    selection
}

/// Returns a prune outside of compactions. Such a prune pays only if the provider's cache has expired (the
/// caller checks that) and if at least `prune_batch` tokens are freed.
pub fn cold_prune(view: &View, now: Millis) -> Option<EntryKind> {
    let Selection { calls, freed } = prunable(view, now);
    (!calls.is_empty() && freed.0 >= view.policy().prune_batch).then(|| EntryKind::Prune {
        calls,
        media: Vec::new(),
        cuts: Vec::new(),
        freed_tokens: freed,
        reason: PruneReason::CacheCold,
    })
}

/// Returns the messages after the newest assistant message, newest first: its results, and what the user typed since.
fn newest_step(view: &View) -> impl Iterator<Item = &Arc<Message>> {
    view.live().rev().take_while(|m| m.role != Role::Assistant)
}

/// Returns the entry that makes the inputs of the newest step's calls together fit into `room` base tokens; `None` if they already do.
/// Called when all these calls have ended.
pub fn input_cut(view: &View, room: Tokens) -> Option<EntryKind> {
    let newest = view.live().rev().find(|m| m.role == Role::Assistant)?;
    if view.is_pinned(&newest.id) {
        return None;
    }
    input::fit(newest, room, |call| view.input_of(call))
}

/// Returns the base tokens of the results of the newest step.
pub fn step_tokens(view: &View) -> Tokens {
    newest_step(view).filter(|m| m.role == Role::Tool).map(|m| estimate_message(m)).sum()
}

/// Returns the entry that makes the results of the newest step together fit into `room` base tokens; `None`
/// if they already do. Called at the end of a step, before a request has shown its results. Pinned outputs
/// and stubs are not changed.
pub fn step_cut(view: &View, room: Tokens) -> Option<EntryKind> {
    let step: Vec<_> = newest_step(view).cloned().collect();
    let results = step.iter().rev().filter(|m| m.role == Role::Tool && !view.is_pinned(&m.id));
    let outputs: Vec<cut::Output<'_>> = results
        .flat_map(|m| &m.parts)
        .filter(|part| match part {
            Part::ToolResult { call_id, .. } => !view.is_pruned(call_id) && !view.is_call_pinned(call_id),
            _ => false,
        })
        .filter_map(|part| cut::Output::from_part(part, None))
        .collect();
    let cuts = cut::share(&outputs, room.0);
    if cuts.is_empty() {
        return None;
    }
    let by_call: HashMap<&CallId, &CutOutput> = cuts.iter().map(|cut| (&cut.call_id, cut)).collect();
    let freed = step.iter().flat_map(|m| &m.parts).filter_map(|part| match part {
        Part::ToolResult { call_id, .. } => {
            let cut = by_call.get(call_id)?;
            Some(estimate_part(part).0.saturating_sub(cut::tokens(part, Some(cut))))
        }
        _ => None,
    });
    let freed_tokens = Tokens(freed.sum());
    let (calls, media) = (Vec::new(), Vec::new());
    Some(EntryKind::Prune { calls, media, cuts, freed_tokens, reason: PruneReason::StepLimit })
}
