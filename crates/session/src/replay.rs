//! Deriving events from entries: the events that a disconnected front end has missed, without streaming
//! deltas.
//!
//! Everything that a person saw in a front end can be derived from the ledger; this module does that. Reads entries, changes nothing.

use crate::context::edit;
use becket_types::{
    AnswerText, CallId, Compaction, Cost, DenialCause, Entry, EntryKind, Event, FileChange, FinishReason,
    JournalState, Message, MessageId, Millis, NoticeLevel, Part, PermissionDecision, PermissionDenial,
    PruneReason, Role, Seq, SubagentReport, TurnCompaction, TurnEnd, TurnResult, Usage, Verb,
};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Start of the output of a denied call; the reason follows. In ledgers of versions that did not record the cause of a decision, only this
/// text shows that a call was denied.
const DENIED: &str = "Permission denied, not run: ";

/// Returns the events of `entries`, in order.
pub fn events(entries: impl IntoIterator<Item = Entry>) -> Vec<Event> {
    events_from(entries, false)
}

/// Like [`events`], for entries from the middle of a session. `in_turn`: the model was working on a prompt at
/// that point.
pub(crate) fn events_from(entries: impl IntoIterator<Item = Entry>, in_turn: bool) -> Vec<Event> {
    let mut replay = Replay { in_turn, ..Replay::default() };
    for entry in entries {
        if let EntryKind::Revert { entry: target } = entry.kind {
            replay.reverts.push((entry.seq, target));
            continue;
        }
        let by_hand = edit::entries_of_manual_change(&entry.kind);
        replay.revert_all(&by_hand);
        replay.take(entry);
    }
    replay.revert_all(&[]);
    replay.events
}

fn is_visible_to_user(message: &Message) -> bool {
    message.visibility().user
}

/// True if the user wrote this message. Going back to before it removes everything after it.
pub(crate) fn is_written_by_user(message: &Message) -> bool {
    is_visible_to_user(message) && matches!(message.role, Role::User | Role::System)
}

#[derive(Default)]
struct Replay {
    events: Vec<Event>,
    /// Index in `events` of each answer whose `finish` entry has not come yet.
    growing: HashMap<MessageId, usize>,
    /// True while the model works on a prompt. A prompt that arrives then counts as sent during the work (`steered`).
    in_turn: bool,
    compactions: HashSet<Seq>,
    /// Pending `(revert, target)` pairs. Only the next entry tells whether they belong to a manual context
    /// edit.
    reverts: Vec<(Seq, Seq)>,
    /// Reverts that undo a compaction, each with that compaction.
    undone: HashMap<Seq, Seq>,
    /// True if this turn has a message that was not removed by a rewind.
    has_message: bool,
    /// Time of the prompt with which the turn began; `None` if it is not among the entries.
    began: Option<Millis>,
    /// Durations of finished calls and their changes of files, until the messages with their results come.
    ended: HashMap<CallId, (Millis, Vec<FileChange>)>,
    /// Denied permissions by call, until the result of the call shows if the call itself was denied.
    denied: HashMap<CallId, PermissionDecision>,
}

impl Replay {
    fn take(&mut self, entry: Entry) {
        match entry.kind {
            EntryKind::Message { message } => self.message(message, entry.time),
            EntryKind::ToolJournal { call_id, state: JournalState::Finished, result, .. } => {
                self.ended.insert(call_id, ran(&result));
            }
            EntryKind::Permission(decided) if decided.decision == Verb::Deny => {
                self.denied.insert(decided.call.clone(), *decided);
            }
            EntryKind::Part { message, part } => {
                if let Some(Event::AssistantMessage { message, .. }) = self.open(&message) {
                    message.parts.push(part);
                }
            }
            EntryKind::Finish { message, reason } => {
                if let Some(Event::AssistantMessage { finish, .. }) = self.open(&message) {
                    *finish = reason;
                }
                self.growing.remove(&message);
            }
            EntryKind::Usage { message: Some(id), usage: used, cost_usd, .. } => {
                let at = self
                    .events
                    .iter_mut()
                    .rev()
                    .find(|e| matches!(e, Event::AssistantMessage { message, .. } if message.id == id));
                if let Some(Event::AssistantMessage { usage, cost, .. }) = at {
                    *usage = used;
                    *cost = Cost(cost_usd);
                }
            }
            EntryKind::Compaction(compaction) => self.compaction(entry.seq, *compaction),
            // Cuts at the end of a step, and media that became text, are reported by notices.
            EntryKind::Prune { reason: PruneReason::StepLimit, .. } => {}
            EntryKind::Prune { calls, freed_tokens, .. } if !calls.is_empty() => self
                .events
                .push(Event::Pruned { entry: entry.seq, calls: calls.len() as u64, freed: freed_tokens }),
            EntryKind::Notice { text, .. } => {
                self.events.push(Event::Notice { level: NoticeLevel::Info, text });
            }
            EntryKind::TurnEnd { end, .. } => self.turn_end(&end, entry.time),
            _ => {}
        }
    }

    fn open(&mut self, message: &MessageId) -> Option<&mut Event> {
        self.events.get_mut(*self.growing.get(message)?)
    }

    /// Adds the end of a turn that was completed or interrupted. Any other end, such as an error, gives no event: its text is in a notice
    /// and not in this entry.
    fn turn_end(&mut self, end: &str, time: Millis) {
        let (began, has_said) = (self.began.take(), std::mem::take(&mut self.has_message));
        self.in_turn = false;
        let end = match end {
            "completed" if has_said => TurnEnd::Completed,
            "interrupted" if has_said => TurnEnd::Interrupted,
            _ => return,
        };
        // The sums cover only the part of the turn that is among the entries.
        let turn =
            self.events.iter().rposition(|event| matches!(event, Event::UserMessage { steered: false, .. }));
        let (mut cost, mut steps, mut usage) = (Cost(0.0), 0, Usage::default());
        for event in &self.events[turn.unwrap_or(0)..] {
            match event {
                Event::AssistantMessage { cost: more, usage: used, .. } => {
                    (cost, usage, steps) = (Cost(cost.0 + more.0), usage + *used, steps + 1);
                }
                // The turn also paid for its subagents.
                Event::ToolFinished { message, .. } => cost = Cost(cost.0 + of_subagents(message)),
                _ => {}
            }
        }
        self.events.push(Event::TurnFinished(Box::new(TurnResult {
            end,
            text: AnswerText::default(),
            stop_reason: None,
            steps,
            duration: Millis(began.map_or(0, |began| time.0.saturating_sub(began.0))),
            api_duration: Millis(0),
            usage,
            cost,
            models: Vec::new(),
            denials: Vec::new(),
            compaction: TurnCompaction::default(),
            unsaved: false,
        })));
    }

    fn result(&mut self, message: Message) {
        let call = message.result_of().cloned();
        let (duration, changes) = call.as_ref().and_then(|call| self.ended.remove(call)).unwrap_or_default();
        if let Some(decision) = call.and_then(|call| self.denied.remove(&call))
            && let Some(denial) = denial(decision, &message)
        {
            self.events.push(Event::PermissionDenied(denial));
        }
        self.events.push(Event::ToolFinished { message, changes, duration, original: None });
    }

    fn message(&mut self, message: Message, time: Millis) {
        self.has_message = true;
        if message.role == Role::Tool && is_visible_to_user(&message) {
            return self.result(message);
        }
        let event = match message.role {
            _ if !is_visible_to_user(&message) => Event::SyntheticMessage { message },
            Role::User | Role::System => {
                let steered = std::mem::replace(&mut self.in_turn, true);
                if !steered {
                    self.began = Some(time);
                }
                Event::UserMessage { message, client_id: None, steered }
            }
            Role::Assistant => {
                self.growing.insert(message.id, self.events.len());
                Event::AssistantMessage {
                    message,
                    // A message without a `finish` entry counts as interrupted.
                    finish: FinishReason::Interrupted,
                    usage: Usage::default(),
                    cost: Cost(0.0),
                    ttft: None,
                    api_time: Millis(0),
                }
            }
            Role::Tool => {
                Event::ToolFinished { message, changes: Vec::new(), duration: Millis(0), original: None }
            }
        };
        self.events.push(event);
    }

    /// Applies the pending reverts. Messages that were dropped from the context manually still belong to the
    /// conversation.
    fn revert_all(&mut self, by_hand: &[Seq]) {
        for (by, target) in std::mem::take(&mut self.reverts) {
            if !by_hand.contains(&by) {
                self.revert(by, target);
            }
        }
    }

    /// Applies one revert. If it reverts a user message, the conversation ends before that message. A reverted compaction keeps its place,
    /// and a further event reports the undo.
    fn revert(&mut self, by: Seq, entry: Seq) {
        if let Some(undone) = self.undone.remove(&entry) {
            return self.events.push(Event::CompactionReverted { entry: undone, counts: true });
        }
        if self.compactions.contains(&entry) {
            self.undone.insert(by, entry);
            return self.events.push(Event::CompactionReverted { entry, counts: false });
        }
        let at = self
            .events
            .iter()
            .rposition(|event| matches!(event, Event::UserMessage { message, .. } if message.seq == entry));
        if let Some(at) = at {
            self.events.truncate(at);
            self.growing.clear();
            (self.in_turn, self.has_message, self.began) = (false, false, None);
        }
    }

    fn compaction(&mut self, entry: Seq, compaction: Compaction) {
        self.compactions.insert(entry);
        self.events.push(Event::compact_boundary(entry, compaction));
    }
}

/// Cost of the subagents whose results the message has.
fn of_subagents(message: &Message) -> f64 {
    let report = |part: &Part| match part {
        Part::ToolResult { details, .. } => SubagentReport::from_details(details),
        _ => None,
    };
    message.parts.iter().filter_map(report).map(|report| report.cost.0).sum()
}

/// Returns duration and file changes from the journal's result of a call.
fn ran(result: &Value) -> (Millis, Vec<FileChange>) {
    let millis = result.get("millis").and_then(Value::as_u64).unwrap_or_default();
    let changes = result.get("changes").and_then(|changes| serde_json::from_value(changes.clone()).ok());
    (Millis(millis), changes.unwrap_or_default())
}

/// Returns the denial of a call. `None` if the call ran all the same: the decision was about something else then, such as
/// an address that its command wanted to reach.
fn denial(decision: PermissionDecision, message: &Message) -> Option<PermissionDenial> {
    let result = message.parts.iter().find_map(|part| match part {
        Part::ToolResult { name, output, .. } => Some((name, output)),
        _ => None,
    });
    let (tool, output) = result?;
    let (reason, cause) = match decision.cause {
        Some(cause) => (decision.reason, cause),
        None => {
            let reason = output.strip_prefix(DENIED)?;
            (reason.strip_suffix('.').unwrap_or(reason).to_owned(), DenialCause::default())
        }
    };
    Some(PermissionDenial { tool: tool.clone(), call_id: decision.call, input: Value::Null, reason, cause })
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{DecidedBy, TurnState};
    use serde_json::json;

    fn entries(kinds: Vec<EntryKind>) -> Vec<Entry> {
        let entry = |(at, kind)| Entry { seq: Seq(at as u64 + 1), time: Millis(at as u64 * 1_000), kind };
        kinds.into_iter().enumerate().map(entry).collect()
    }

    fn journal(call: &str, result: Value) -> EntryKind {
        let (tool, subject) = (Some("bash".to_owned()), None);
        EntryKind::ToolJournal {
            call_id: CallId(call.into()),
            state: JournalState::Finished,
            tool,
            subject,
            result,
        }
    }

    fn denied(call: &str, cause: Option<DenialCause>) -> EntryKind {
        EntryKind::Permission(Box::new(PermissionDecision {
            call: CallId(call.into()),
            decision: Verb::Deny,
            by: DecidedBy::Person,
            rule: None,
            reason: "the user said no: not here".into(),
            cause,
        }))
    }

    fn result(call: &str, output: &str) -> EntryKind {
        EntryKind::Message { message: Message::tool_result(CallId(call.into()), "bash", output, true) }
    }

    fn end(end: &str) -> EntryKind {
        EntryKind::TurnEnd { end: end.into(), state: TurnState::AwaitingUser }
    }

    fn said() -> EntryKind {
        EntryKind::Message { message: Message::user("go") }
    }

    #[test]
    fn a_call_keeps_its_time_and_its_files() {
        let changes = json!([{"path": "/p/a.txt", "kind": "update"}]);
        let told = events(entries(vec![
            said(),
            journal("c1", json!({"millis": 2_300, "exit_code": 3, "changes": changes})),
            result("c1", "broken"),
            result("c2", "not journalled"),
        ]));
        let ran = |event: &Event| match event {
            Event::ToolFinished { duration, changes, .. } => Some((duration.0, changes.len())),
            _ => None,
        };
        assert_eq!(told.iter().filter_map(ran).collect::<Vec<_>>(), [(2_300, 1), (0, 0)]);
    }

    #[test]
    fn a_refusal_is_told_before_its_result_and_a_refused_address_is_none() {
        let user = DenialCause::User { words: Some("not here".into()) };
        let told = events(entries(vec![
            said(),
            denied("c1", Some(user.clone())),
            result("c1", "The user keeps planning: not here."),
            denied("c2", None),
            result("c2", "curl: (7) failed to connect"),
            // As in a ledger of a version that did not record causes.
            denied("c3", None),
            result("c3", "Permission denied, not run: the user said no: not here."),
        ]));
        let denials: Vec<(usize, &str, &DenialCause)> = told
            .iter()
            .enumerate()
            .filter_map(|(at, event)| match event {
                Event::PermissionDenied(denial) => Some((at, denial.reason.as_str(), &denial.cause)),
                _ => None,
            })
            .collect();
        let said = "the user said no: not here";
        assert_eq!(denials, [(1, said, &user), (4, said, &DenialCause::Policy)]);
        assert_eq!(told.len(), 6);
    }

    #[test]
    fn the_cost_of_a_turn_includes_its_subagents() {
        let report = SubagentReport {
            agent: "general".into(),
            description: "find callers".into(),
            session: becket_types::SessionId::new(),
            steps: 1,
            calls: Vec::new(),
            calls_left_out: 0,
            usage: Usage::default(),
            cost: Cost(0.05),
            duration: Millis(9),
        };
        let mut message = Message::tool_result(CallId("c".into()), "task", "done", false);
        if let Some(Part::ToolResult { details, .. }) = message.parts.first_mut() {
            *details = json!({ SubagentReport::KEY: report });
        }
        let told = events(entries(vec![said(), EntryKind::Message { message }, end("completed")]));
        let cost = |event: &Event| match event {
            Event::TurnFinished(result) => Some(result.cost),
            _ => None,
        };
        assert_eq!(told.iter().find_map(cost), Some(Cost(0.05)));
    }

    #[test]
    fn the_end_of_a_turn_is_told_with_its_time() {
        let ends = |kinds| -> Vec<(TurnEnd, u64)> {
            let end = |event| match event {
                Event::TurnFinished(result) => Some((result.end, result.duration.0)),
                _ => None,
            };
            events(entries(kinds)).into_iter().filter_map(end).collect()
        };
        assert_eq!(
            ends(vec![said(), end("completed"), said(), result("c", "x"), end("interrupted")]),
            [(TurnEnd::Completed, 1_000), (TurnEnd::Interrupted, 2_000)]
        );
        // A turn without a message gives no event. An error is reported by a notice.
        assert_eq!(ends(vec![end("completed"), said(), end("model_error")]), []);
        // The beginning of the turn is not among the entries.
        let rest = events_from(entries(vec![result("c", "x"), end("completed")]), true);
        assert!(matches!(&rest[1], Event::TurnFinished(result) if result.duration == Millis(0)), "{rest:?}");
    }
}
