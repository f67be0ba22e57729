//! The messages that the view shows: the effect of compactions and restores on them.
//!
//! A compaction only removes: messages that an earlier one removed do not come back with a later one. A `restore` entry brings
//! messages back that a compaction removed, at their positions in ledger order. Calls and results stay together in both cases.
//!
//! A message that the current compaction removed because its continuation repeats it is not restored: its text would be in the
//! view twice, and the next compaction would remove it again, even if it was pinned meanwhile.
//!
//! Works on indices into the log. Does not know how a message is shown.

use super::calls::results_of;
use super::controls::Effects;
use super::log::{Log, Slot};
use crate::context::continuation;
use becket_types::{CallId, Compaction, MessageId, Role, Seq, Tokens};
use std::collections::HashSet;

/// The live messages and their estimated size.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Indices into the log of the messages that the view shows, in ledger order.
    pub(super) slots: Vec<usize>,
    /// Base estimate of these messages as they are sent.
    pub(super) tokens: Tokens,
    /// Base estimate of the messages that the view puts before them: summary, state, rules.
    pub(super) lead_tokens: Tokens,
}

/// Adds to `live` the messages before entry `until` that are in force and that no compaction removed, starting at slot `next`. Returns the
/// first slot that was not examined.
pub(super) fn take(log: &Log, effects: &Effects, live: &mut Vec<usize>, next: usize, until: Seq) -> usize {
    let end = log.slots().partition_point(|slot| slot.seq < until).max(next);
    let shown = |slot: &Slot| slot.removed_by.is_none() && effects.counts(slot);
    live.extend((next..end).filter(|at| shown(&log[*at])));
    end
}

/// Applies a compaction: returns the remaining messages, and marks the others as removed by it.
pub(super) fn compacted(
    log: &mut Log,
    effects: &Effects,
    live: Vec<usize>,
    by: Seq,
    compaction: &Compaction,
) -> Vec<usize> {
    let left = kept(log, effects, &live, compaction);
    let mut staying = left.iter().peekable();
    for at in live {
        if staying.next_if_eq(&&at).is_none() {
            log[at].removed_by = Some(by);
        }
    }
    left
}

/// Returns the messages that a compaction keeps: its tail, its kept messages, pinned ones, and the last
/// message with the user's words. Calls and results stay together.
fn kept(log: &Log, effects: &Effects, live: &[usize], compaction: &Compaction) -> Vec<usize> {
    let out: HashSet<MessageId> = compaction.retained.taken_out.iter().copied().collect();
    let kept: HashSet<MessageId> = compaction.retained.kept.iter().copied().collect();
    let message = |at: &usize| &log[*at].message;
    // The user's last words are the newest by the time at which they were written. A restored message may be newer than the message that a
    // continuation repeats.
    let words = live.iter().filter(|at| continuation::is_users_words(message(at)));
    let last_words = words.max_by_key(|at| effects.said_at(message(at))).copied();
    let stays = |at: &usize| {
        let m = message(at);
        m.seq >= compaction.retained.tail_from
            || kept.contains(&m.id)
            || effects.pinned_messages.contains(&m.id)
            || last_words == Some(*at)
            || results_of(m).any(|id| effects.pinned_calls.contains(id))
    };
    let taken_out = |at: &usize| out.contains(&message(at).id);
    let mut keep: Vec<bool> = live.iter().map(|at| !taken_out(at) && stays(at)).collect();

    // A call and its results are indivisible: a kept result keeps its call, and a kept call keeps all of
    // its results.
    let mut wanted: HashSet<&CallId> = effects.pinned_calls.iter().collect();
    wanted.extend(
        live.iter().zip(&keep).filter(|(_, keep)| **keep).flat_map(|(at, _)| results_of(message(at))),
    );
    let mut answered: HashSet<&CallId> = HashSet::new();
    for (at, keep) in live.iter().zip(&mut keep).filter(|(at, _)| message(at).role == Role::Assistant) {
        *keep |= !taken_out(at) && message(at).call_ids().any(|id| wanted.contains(id));
        if *keep {
            answered.extend(message(at).call_ids());
        }
    }
    for (at, keep) in live.iter().zip(&mut keep).filter(|(at, _)| message(at).role == Role::Tool) {
        *keep |= !taken_out(at) && results_of(message(at)).any(|id| answered.contains(id));
    }
    live.iter().zip(keep).filter_map(|(at, keep)| keep.then_some(*at)).collect()
}

/// Returns the live messages together with those of `ids` that a compaction removed, at their positions.
/// Calls are included with all of their results.
pub(super) fn restored(log: &mut Log, effects: &Effects, live: Vec<usize>, ids: &[MessageId]) -> Vec<usize> {
    let ids: HashSet<MessageId> = ids.iter().copied().collect();
    let repeated = effects.compaction.as_ref().map_or(&[][..], |(_, c)| &c.retained.taken_out);
    let out = |slot: &Slot| {
        slot.removed_by.is_some() && effects.counts(slot) && !repeated.contains(&slot.message.id)
    };
    let asked = |slot: &&Slot| ids.contains(&slot.message.id) && out(slot);
    let mut calls: HashSet<CallId> = HashSet::new();
    for slot in log.slots().iter().filter(asked) {
        calls.extend(slot.message.call_ids().chain(results_of(&slot.message)).cloned());
    }
    // Finds the answer that made one of these calls, and all of its calls.
    for slot in log.slots().iter().filter(|slot| slot.message.role == Role::Assistant && out(slot)) {
        if slot.message.call_ids().any(|id| calls.contains(id)) {
            calls.extend(slot.message.call_ids().cloned());
        }
    }
    let belongs = |slot: &Slot| {
        out(slot)
            && (ids.contains(&slot.message.id)
                || slot.message.call_ids().chain(results_of(&slot.message)).any(|id| calls.contains(id)))
    };
    let back: Vec<usize> =
        log.slots().iter().enumerate().filter(|(_, slot)| belongs(slot)).map(|(at, _)| at).collect();
    for at in &back {
        log[*at].removed_by = None;
    }
    let mut live = [live, back].concat();
    live.sort_unstable();
    live
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{
        CompactionSource, CompactionTrigger, Message, Part, RepeatedContext, RetainedMessages,
        ShortenedContent, SizeChange, SummaryOrigin, TurnState,
    };
    use serde_json::json;
    use std::sync::Arc;

    /// A prompt, two calls with their results, and a last prompt: slots 0 to 4.
    fn log() -> Log {
        let call = |id: &str| Part::tool_call(id, "read", json!({}));
        let result = |id: &str| Message::tool_result(id.into(), "read", "x", false);
        let messages = [
            Message::user("first"),
            Message::assistant(vec![call("a"), call("b")]),
            result("a"),
            result("b"),
            Message::user("last"),
        ];
        let slot = |(at, mut message): (usize, Message)| {
            message.seq = Seq(at as u64 + 1);
            let seq = message.seq;
            let message = Arc::new(message);
            Slot { message, seq, done: true, finish: None, tokens: Tokens(1), owner: None, removed_by: None }
        };
        Log::new(messages.into_iter().enumerate().map(slot).collect())
    }

    fn compaction(kept: Vec<MessageId>) -> Compaction {
        Compaction {
            summary: String::new(),
            anchor: None,
            retained: RetainedMessages { tail_from: Seq(100), kept, ..RetainedMessages::default() },
            replaces: None,
            shortened: ShortenedContent::default(),
            repeated: RepeatedContext::default(),
            size: SizeChange::default(),
            trigger: CompactionTrigger::Manual,
            origin: SummaryOrigin {
                model: String::new(),
                source: CompactionSource::Fallback,
                input: String::new(),
                left_out: Vec::new(),
            },
            snapshot_of: Seq(5),
            turn_state: TurnState::MidTurn,
        }
    }

    #[test]
    fn a_compaction_keeps_calls_with_their_results_and_the_users_last_words() {
        let mut log = log();
        let effects = Effects::default();
        let kept = compaction(vec![log[2].message.id]);
        let left = compacted(&mut log, &effects, vec![0, 1, 2, 3, 4], Seq(6), &kept);
        assert_eq!(left, [1, 2, 3, 4]);
        assert_eq!(log[0].removed_by, Some(Seq(6)));
        let left = compacted(&mut log, &effects, left, Seq(7), &compaction(Vec::new()));
        assert_eq!(left, [4]);
    }

    #[test]
    fn a_restored_result_brings_its_call_and_the_other_results_back() {
        let mut log = log();
        let effects = Effects::default();
        let left = compacted(&mut log, &effects, vec![0, 1, 2, 3, 4], Seq(6), &compaction(Vec::new()));
        let result = log[3].message.id;
        assert_eq!(restored(&mut log, &effects, left, &[result]), [1, 2, 3, 4]);
        assert!(log[1].removed_by.is_none() && log[0].removed_by.is_some());
        let mut live = Vec::new();
        assert_eq!(take(&log, &effects, &mut live, 0, Seq(3)), 2);
        assert_eq!(live, [1]);
    }
}
