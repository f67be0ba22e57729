//! Tests of the view, one per rule and named after it. This file has a ledger that grows during a test.

mod facts;
mod repairs;
mod shortening;
mod shrinking;
mod steering;

use super::*;
use crate::context::{due, reminder};
use becket_types::{
    CompactionSource, CompactionTrigger, FinishReason, ImageSource, Millis, Origin, PinTarget, PruneReason,
    PrunedCall, RepeatedContext, RetainedMessages, Role, ShortenedContent, SizeChange, SummaryOrigin,
    Synthetic, SystemKind, TimeMeta,
};
use serde_json::{Map, json};

fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 4,
        max_media_bytes: 1 << 30,
    }
}

/// A ledger that grows during the test, and its view.
struct Ledger {
    entries: Vec<Entry>,
    view: View,
}

impl Ledger {
    fn new() -> Self {
        Self { entries: Vec::new(), view: View::new(Policy::default(), scope()) }
    }

    fn push(&mut self, kind: EntryKind) -> Seq {
        let seq = Seq(self.entries.len() as u64 + 1);
        let entry = Entry { seq, time: Millis(1_000 + seq.0), kind };
        // Both ways of adding an entry must have the same effect.
        if seq.0.is_multiple_of(2) {
            self.view.apply_owned(entry.clone());
        } else {
            self.view.apply(&entry);
        }
        self.entries.push(entry);
        seq
    }

    fn message(&mut self, message: Message) -> Seq {
        self.push(EntryKind::Message { message })
    }

    fn user(&mut self, text: &str) -> Seq {
        self.message(Message::user(text))
    }

    fn assistant(&mut self, parts: Vec<Part>) -> Seq {
        let reason = if parts.iter().any(|p| matches!(p, Part::ToolCall { .. })) {
            FinishReason::ToolCalls
        } else {
            FinishReason::Stop
        };
        let message = Message::assistant(parts);
        let id = message.id;
        let seq = self.message(message);
        self.push(EntryKind::Finish { message: id, reason });
        seq
    }

    fn calls(&mut self, ids: &[&str]) -> Seq {
        self.assistant(ids.iter().map(|id| Part::tool_call(*id, "read", json!({}))).collect())
    }

    fn result(&mut self, id: &str, output: &str) -> Seq {
        self.message(Message::tool_result(id.into(), "read", output, false))
    }

    fn id_at(&self, seq: Seq) -> MessageId {
        match &self.entries[seq.0 as usize - 1].kind {
            EntryKind::Message { message } => message.id,
            other => panic!("{other:?}"),
        }
    }

    fn remind(&mut self, step: u64) -> usize {
        let reminders = due::reminders(&self.view, step);
        let n = reminders.len();
        for kind in reminders {
            self.push(kind);
        }
        n
    }

    fn compact(&mut self, tail_from: Seq, change: impl FnOnce(&mut Compaction)) -> Seq {
        let mut compaction = compaction(tail_from);
        compaction.snapshot_of = self.view.last_seq();
        change(&mut compaction);
        self.push(EntryKind::Compaction(Box::new(compaction)))
    }

    fn go_on(&mut self, text: &str) -> Seq {
        let mut message = Message::synthetic(Synthetic::CompactionContinue, text);
        message.metadata.compaction_continue = true;
        self.message(message)
    }

    /// Returns the context as short lines, after checking it and comparing it with a newly computed view.
    fn lines(&mut self) -> Vec<String> {
        let messages: Vec<Message> =
            self.view.context().messages.iter().map(|m| Message::clone(&m.message)).collect();
        self.view.check().unwrap();
        let mut fresh = View::fold(Policy::default(), self.view.scope().clone(), &self.entries);
        fresh.set_calls_may_run(self.view.rendering.may_run);
        let again: Vec<Message> =
            fresh.context().messages.iter().map(|m| Message::clone(&m.message)).collect();
        assert_eq!(messages, again, "the view is a function of the ledger");
        messages.iter().map(line).collect()
    }

    fn generation(&mut self) -> u64 {
        self.view.context().generation
    }

    fn applied(&mut self) -> Vec<Vec<String>> {
        self.view.context().messages.iter().map(|m| m.provenance.applied.clone()).collect()
    }
}

fn compaction(tail_from: Seq) -> Compaction {
    Compaction {
        summary: "SUMMARY".into(),
        anchor: None,
        retained: RetainedMessages { tail_from, ..RetainedMessages::default() },
        replaces: None,
        shortened: ShortenedContent::default(),
        repeated: RepeatedContext::default(),
        size: SizeChange::default(),
        trigger: becket_types::CompactionTrigger::Auto,
        origin: SummaryOrigin {
            model: String::new(),
            source: CompactionSource::Fallback,
            input: String::new(),
            left_out: Vec::new(),
        },
        snapshot_of: Seq(0),
        turn_state: TurnState::MidTurn,
    }
}

fn line(message: &Message) -> String {
    let parts: Vec<String> = message
        .parts
        .iter()
        .map(|part| match part {
            Part::Text { text, .. } => text.clone(),
            Part::Image { .. } | Part::File { .. } => "<image>".into(),
            Part::Reasoning { text, .. } => format!("({text})"),
            Part::ToolCall { call_id, name, input, .. } => format!("{name}#{call_id}{input}"),
            Part::ToolResult { call_id, output, .. } => format!("#{call_id}={output}"),
            Part::Unknown(_) => "?".into(),
        })
        .collect();
    let role = match message.role {
        Role::System => "s",
        Role::User => "u",
        Role::Assistant => "a",
        Role::Tool => "t",
    };
    format!("{role} {}", parts.join("|"))
}

fn image(name: &str) -> Part {
    Part::Image {
        media_type: "image/png".into(),
        source: ImageSource::Blob(BlobId(name.into())),
        name: Some(name.into()),
        width: Some(3),
        height: Some(4),
        extra: Map::new(),
    }
}

fn reasoning(text: &str, model: &str, signature: Option<&str>) -> Part {
    Part::Reasoning {
        text: text.into(),
        signature: signature.map(str::to_owned),
        redacted: None,
        provider: "p".into(),
        model: model.into(),
        spill: None,
        extra: Map::new(),
    }
}

fn prune_of(id: &str) -> EntryKind {
    let call = PrunedCall { call_id: id.into(), bytes: 9, lines: 2, excerpt: "last".into() };
    EntryKind::Prune {
        calls: vec![call],
        media: vec![],
        cuts: Vec::new(),
        freed_tokens: Tokens(1),
        reason: PruneReason::Manual,
    }
}

/// Makes three turns with one call each. Returns their starts.
fn three_turns() -> (Ledger, [Seq; 3]) {
    let mut ledger = Ledger::new();
    let starts = [1, 2, 3].map(|turn| {
        let at = ledger.user(&format!("task {turn}"));
        let id = format!("c{turn}");
        ledger.calls(&[&id]);
        ledger.result(&id, "out");
        ledger.assistant(vec![Part::text(format!("done {turn}"))]);
        at
    });
    (ledger, starts)
}
