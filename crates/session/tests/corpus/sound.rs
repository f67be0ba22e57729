//! The sound session that is broken: written through the real API, with everything in it that a session can have.

use becket_session::context::budget::Budget;
use becket_session::context::compaction::{self, Floor, Request, Snapshot, Step};
use becket_session::context::{ModelScope, Policy, due};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    CallId, CompactionTrigger, EntryKind, FinishReason, ImageSource, JournalState, Message, MessageId,
    Millis, Part, PruneReason, PrunedCall, SystemItem, SystemKind, Tokens, TurnState,
};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

pub(crate) fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 10,
        max_media_bytes: 1 << 20,
    }
}

pub(crate) fn append(session: &mut Session, kinds: Vec<EntryKind>) {
    session.append(kinds, Durability::Buffered).unwrap();
}

pub(crate) fn message(message: Message) -> EntryKind {
    EntryKind::Message { message }
}

pub(crate) fn answer(session: &mut Session, parts: Vec<Part>, reason: FinishReason) {
    let said = Message::assistant(parts);
    let finish = EntryKind::Finish { message: said.id, reason };
    append(session, vec![message(said), finish]);
}

fn journal(id: &str, state: JournalState) -> EntryKind {
    EntryKind::ToolJournal {
        call_id: CallId::from(id),
        state,
        tool: Some("bash".into()),
        subject: Some("make".into()),
        result: if state == JournalState::Finished { json!({"exit_code": 0}) } else { Value::Null },
    }
}

fn reasoning(text: &str) -> Part {
    Part::Reasoning {
        text: text.into(),
        signature: Some("c2lnbmVk".into()),
        redacted: None,
        provider: "p".into(),
        model: "m".into(),
        spill: None,
        extra: Map::new(),
    }
}

/// One step: thinking, words, two calls, and their results with an image.
fn step(session: &mut Session, n: usize) {
    let (a, b) = (format!("toolu_{n}a"), format!("toolu_{n}b"));
    let parts = vec![
        reasoning("I should look."),
        Part::text(format!("Step {n}.")),
        Part::tool_call(a.as_str(), "bash", json!({"command": format!("make step{n}")})),
        Part::tool_call(b.as_str(), "read", json!({"path": "/a", "lines": [1, 2]})),
    ];
    answer(session, parts, FinishReason::ToolCalls);
    append(session, vec![journal(&a, JournalState::Intended), journal(&a, JournalState::Started)]);
    let blob = session.put_blob(b"not really a picture").unwrap();
    let image = Part::Image {
        media_type: "image/png".into(),
        source: ImageSource::Blob(blob.clone()),
        name: None,
        width: Some(10),
        height: Some(10),
        extra: Map::new(),
    };
    let mut first = Message::tool_result(CallId(a.clone()), "bash", "compiling ".repeat(400), false);
    for part in &mut first.parts {
        if let Part::ToolResult { spill, .. } = part {
            *spill = Some(blob.clone());
        }
    }
    first.parts.push(image);
    let second = Message::tool_result(CallId(b), "read", "1\tfn main() {}", false);
    append(session, vec![journal(&a, JournalState::Finished), message(first), message(second)]);
}

/// A sound session; its folder.
pub(crate) fn sound(root: &Path) -> PathBuf {
    let options = CreateOptions { persist: true, ..CreateOptions::default() };
    let mut session = Session::create(root, root, options, Policy::default(), scope()).unwrap();
    let item = SystemItem { kind: SystemKind::Prompt, path: None, text: "You are an agent.".into() };
    append(
        &mut session,
        vec![
            EntryKind::System { items: vec![item] },
            EntryKind::Tools { names: vec!["bash".into(), "read".into()], hash: "h".into(), specs: None },
            EntryKind::ModelSwitch { model: "p/m".into() },
            EntryKind::Title { title: "A task".into() },
            message(Message::user("Build it, please.")),
        ],
    );
    for n in 0..4 {
        step(&mut session, n);
    }
    answer(&mut session, vec![Part::text("Built.")], FinishReason::Stop);
    let turn_end = EntryKind::TurnEnd { end: "completed".into(), state: TurnState::AwaitingUser };
    append(&mut session, vec![turn_end, message(Message::user("And test it."))]);
    step(&mut session, 4);
    let request = Request {
        trigger: CompactionTrigger::Manual,
        focus: None,
        floor: Floor::default(),
        used: session.view().estimated_tokens(),
        budget: Budget::new(12_000, 0, 2_000),
        summariser: None,
        continuation_id: MessageId::new(),
        now: Millis(1),
    };
    match compaction::begin(Snapshot::take(session.view(), request)) {
        Step::Commit(outcome) => append(&mut session, outcome.entries),
        other => panic!("no compaction: {other:?}"),
    }
    step(&mut session, 5);
    let call = PrunedCall { call_id: CallId::from("toolu_5b"), bytes: 14, lines: 1, excerpt: String::new() };
    let prune = EntryKind::Prune {
        calls: vec![call],
        media: Vec::new(),
        cuts: Vec::new(),
        freed_tokens: Tokens(1),
        reason: PruneReason::Manual,
    };
    append(&mut session, vec![prune]);
    let wrong = session
        .append(vec![message(Message::assistant(vec![Part::text("Broken off")]))], Durability::Buffered)
        .unwrap();
    append(&mut session, vec![EntryKind::Revert { entry: wrong[0] }]);
    append(&mut session, vec![message(Message::user("Faster, please."))]);
    let due = due::reminders(session.view(), 3);
    append(&mut session, due);
    append(&mut session, vec![EntryKind::State { key: "todo".into(), value: json!([{"text": "test"}]) }]);
    step(&mut session, 6);
    answer(&mut session, vec![reasoning("Done."), Part::text("All done.")], FinishReason::Stop);
    append(&mut session, vec![EntryKind::Interrupt]);
    append(
        &mut session,
        vec![EntryKind::TurnEnd { end: "completed".into(), state: TurnState::AwaitingUser }],
    );
    session.view_mut().context();
    session.view_mut().check().unwrap();
    session.dir().to_path_buf()
}
