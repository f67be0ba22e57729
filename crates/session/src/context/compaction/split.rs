//! The cut of the history into head and tail.
//!
//! A border is a position where a tail may begin: before a user message or an assistant message. It is never
//! between a call and one of its results, never between signed reasoning and the content it signs, and never
//! among calls that are still open.

use becket_types::{CallId, Message, Part, Role};
use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};

/// Limits for the end of the history that stays word for word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Maximum number of user turns.
    pub turns: usize,
    /// Maximum number of tokens. A turn that does not fit is cut in its middle. Messages that the model has
    /// not answered yet stay at any cost.
    pub tokens: u64,
}

/// For each position 0..=len, returns true if a tail may begin there.
pub fn borders<M: Borrow<Message>>(messages: &[M]) -> Vec<bool> {
    let n = messages.len();
    // A difference array: its running sum at a position is the number of forbidden spans that contain this position. A span (from, to] may
    // not be divided.
    let mut delta = vec![0i32; n + 2];
    let mut forbid = |from: usize, to: usize| {
        delta[from + 1] += 1;
        delta[to + 1] -= 1;
    };
    let mut caller: HashMap<&CallId, usize> = HashMap::new();
    let mut open: HashSet<&CallId> = HashSet::new();
    let mut last_assistant = None;
    for (i, message) in messages.iter().map(Borrow::borrow).enumerate() {
        match message.role {
            Role::Assistant => {
                open = message.call_ids().collect();
                caller.extend(message.call_ids().map(|c| (c, i)));
                last_assistant = Some(i);
                let next = messages.get(i + 1).map(Borrow::borrow);
                if signs_only(message) && next.is_some_and(|m| m.role == Role::Assistant) {
                    forbid(i, i + 1);
                }
            }
            Role::Tool => {
                for part in &message.parts {
                    if let Part::ToolResult { call_id, .. } = part {
                        open.remove(call_id);
                        if let Some(from) = caller.get(call_id) {
                            forbid(*from, i);
                        }
                    }
                }
            }
            Role::User if message.is_user_turn() => open.clear(),
            Role::User | Role::System => {}
        }
    }
    if let (Some(from), false) = (last_assistant, open.is_empty()) {
        forbid(from, n);
    }
    let mut depth = 0;
    (0..=n)
        .map(|i| {
            depth += delta[i];
            let starts = messages
                .get(i)
                .map(Borrow::borrow)
                .is_none_or(|m| m.role == Role::Assistant || m.is_user_turn());
            depth == 0 && (starts || i == 0)
        })
        .collect()
}

/// True if a message consists only of signed reasoning. The content that it signs is then in the next
/// message.
fn signs_only(message: &Message) -> bool {
    message.parts.iter().any(Part::is_signed)
        && message.parts.iter().all(|p| matches!(p, Part::Reasoning { .. } | Part::Unknown(_)))
}

/// Returns the index of the first message of the tail; `messages.len()` for an empty tail. `costs` are tokens
/// per message. Messages that stay in any case (pinned ones, the user's last message) must have the cost 0.
pub fn cut<M: Borrow<Message>>(messages: &[M], costs: &[u64], tail: Tail) -> usize {
    let n = messages.len();
    let turns: Vec<usize> =
        (0..n).rev().filter(|i| messages[*i].borrow().is_user_turn()).take(tail.turns).collect();
    let first = match (tail.turns, turns.last()) {
        (0, _) => n,
        (wanted, Some(at)) if turns.len() == wanted => *at,
        _ => 0,
    };
    let borders = borders(messages);
    let Some(last) = (0..=n).rev().find(|i| borders[*i]) else { return 0 };
    let (mut best, mut size) = (last, 0u64);
    for i in (0..n).rev() {
        size = size.saturating_add(costs.get(i).copied().unwrap_or(0));
        if i < first || size > tail.tokens {
            break;
        }
        if borders[i] {
            best = i;
        }
    }
    let unseen = first_unseen(messages);
    let from = (0..=unseen).rev().find(|i| borders[*i]).unwrap_or(0);
    best.min(from)
}

/// Returns the index from which messages are new to the model. If the newest answer has calls, it is that answer, because their results are
/// new; otherwise the message after it. `messages.len()` if nothing is new.
pub fn first_unseen<M: Borrow<Message>>(messages: &[M]) -> usize {
    let Some(at) = messages.iter().rposition(|m| m.borrow().role == Role::Assistant) else { return 0 };
    let calls = messages[at].borrow().call_ids().next().is_some();
    if calls { at } else { at + 1 }
}

/// Returns all messages that must stay together with `index`: a call with all its results.
pub(super) fn unit<M: Borrow<Message>>(messages: &[M], index: usize) -> Vec<usize> {
    let message = messages[index].borrow();
    let caller = match message.result_of() {
        Some(call) => (0..index).rev().find(|i| messages[*i].borrow().call_ids().any(|c| c == call)),
        None => Some(index),
    };
    let Some(caller) = caller else { return vec![index] };
    let calls: HashSet<&CallId> = messages[caller].borrow().call_ids().collect();
    let results = (caller + 1..messages.len())
        .filter(|i| messages[*i].borrow().result_of().is_some_and(|c| calls.contains(c)));
    std::iter::once(caller).chain(results).collect()
}
