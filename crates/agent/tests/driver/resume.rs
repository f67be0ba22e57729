//! Resuming after a process died: calls in each state of the journal, prompts in the inbox, rules that changed.

use crate::support::*;
use becket_types::{
    Command, DeliveryMode, EntryKind, Event, FinishReason, JournalState, Message, Part, PromptInput,
    SystemItem, SystemKind, TurnEnd,
};
use serde_json::{Value, json};

fn system() -> EntryKind {
    let item = |kind, text: &str| SystemItem { kind, path: None, text: text.into() };
    let environment = item(SystemKind::Environment, "Recorded environment.");
    EntryKind::System { items: vec![item(SystemKind::Prompt, "Recorded prompt."), environment] }
}

fn journal(state: JournalState) -> EntryKind {
    let (tool, subject) = (Some("bash".to_owned()), Some("make".to_owned()));
    EntryKind::ToolJournal { call_id: id("c1"), state, tool, subject, result: Value::Null }
}

/// A session that died with call `c1` open, its journal at `states`.
fn died(states: &[JournalState]) -> Vec<EntryKind> {
    let asked = Message::assistant(vec![call("c1", "bash", json!({"command": "make"}))]);
    let finish = EntryKind::Finish { message: asked.id, reason: FinishReason::ToolCalls };
    let mut entries = vec![
        system(),
        EntryKind::Message { message: Message::user("build it") },
        EntryKind::Message { message: asked },
        finish,
    ];
    entries.extend(states.iter().map(|state| journal(*state)));
    entries
}

#[tokio::test(start_paused = true)]
async fn open_calls_get_a_result_that_says_what_is_known_and_never_run() {
    use JournalState::{Intended, Started};
    for (states, want) in [
        (vec![], "result c1: Not run: the session ended before this call was started."),
        (vec![Intended], "result c1: Not run: the session ended before this call was started."),
        (vec![Intended, Started], "result c1: Interrupted, effect unknown: the session ended while"),
    ] {
        let mut rig = Setup::new(vec![say("ok")]).left(died(&states)).start();
        assert_eq!(rig.turn("go on").await.end, TurnEnd::Completed);
        let lines = rig.model.turns()[0].lines();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[2].starts_with(want), "{}", lines[2]);
        assert_eq!(lines[3], "user: go on");
        assert_eq!(rig.ran(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_the_dead_process_that_comes_again_is_not_run() {
    let states = [JournalState::Intended, JournalState::Started];
    let mut rig = Setup::new(vec![bash("c1", "make"), say("ok")]).left(died(&states)).start();
    rig.turn("go on").await;
    assert_eq!(rig.ran(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_turn_goes_on_when_asked_to() {
    let mut setup = Setup::new(vec![say("built")]).left(died(&[JournalState::Intended]));
    setup.settings.session.resumed = true;
    let mut rig = setup.start();
    let told = rig.event(|event| matches!(event, Event::Notice { .. })).await;
    let Event::Notice { text, .. } = told else { unreachable!() };
    assert!(text.starts_with("The last turn (\"build it\") was cut off before it was done."), "{text}");
    rig.send(Command::Continue).await;
    assert_eq!(rig.finished().await.text, "built");
    assert!(rig.model.turns()[0].last().starts_with("result c1: Not run"));
}

#[tokio::test(start_paused = true)]
async fn a_finished_turn_does_not_go_on() {
    let answer = Message::assistant(vec![Part::text("done")]);
    let finish = EntryKind::Finish { message: answer.id, reason: FinishReason::Stop };
    let entries = vec![
        system(),
        EntryKind::Message { message: Message::user("hi") },
        EntryKind::Message { message: answer },
        finish,
    ];
    let mut setup = Setup::new(vec![]).left(entries);
    setup.settings.session.resumed = true;
    let rig = setup.start();
    rig.send(Command::Continue).await;
    let model = rig.model.clone();
    rig.end().await;
    assert_eq!(model.turns().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn prompts_in_the_inbox_of_the_dead_process_are_delivered_first() {
    let left = vec![PromptInput {
        parts: vec![Part::text("do not forget")],
        mode: DeliveryMode::Queue,
        ..PromptInput::default()
    }];
    let value = serde_json::to_value(left).unwrap();
    let entries = vec![
        system(),
        EntryKind::Message { message: Message::user("hi") },
        EntryKind::State { key: "inbox".into(), value },
    ];
    let mut rig = Setup::new(vec![say("ok")]).left(entries).start();
    rig.turn("new").await;
    assert_eq!(rig.model.turns()[0].lines(), ["user: hi", "user: do not forget", "user: new"]);
}

#[tokio::test(start_paused = true)]
async fn the_recorded_prompt_is_sent_again_and_rules_are_read_anew() {
    let mut setup = Setup::new(vec![say("ok")]);
    setup.settings.prompt.replace = Some("Another prompt.".into());
    write(&setup.cwd(), "AGENTS.md", "New rule.");
    let mut rig = setup.left(vec![system(), EntryKind::Message { message: Message::user("hi") }]).start();
    rig.turn("go").await;
    let system = rig.model.turns()[0].context.system.clone();
    assert_eq!(&*system[0], "Recorded prompt.");
    assert!(system.iter().any(|block| block.ends_with("New rule.")), "{system:?}");
}

#[tokio::test(start_paused = true)]
async fn files_read_by_the_dead_process_are_known_to_the_next() {
    // The earlier process ended after a whole turn.
    let noted = vec![bash("c1", "note /a"), say("ok")];
    let mut rig = Setup::new(noted).left(vec![system()]).start();
    rig.turn("read it").await;
    let mut rig = rig.again(vec![bash("c2", "known /a"), bash("c3", "known /b"), say("ok")]).await.start();
    rig.turn("do you know it?").await;
    let last = rig.model.turns().pop().unwrap().lines();
    assert_eq!(last[last.len() - 3], r#"result c2: Some("hash of it")"#);
    assert_eq!(last[last.len() - 1], "result c3: None");

    // The earlier process died: its last call is in the journal, but not yet in the saved state. The newest record of a file wins.
    let read = |path: &str, hash: &str| EntryKind::ToolJournal {
        call_id: id("c0"),
        state: JournalState::Finished,
        tool: None,
        subject: None,
        result: json!({"reads": {path: hash}}),
    };
    let entries = vec![
        system(),
        EntryKind::State { key: "read_files".into(), value: json!({"/a": "old", "/b": "b"}) },
        read("/a", "new"),
    ];
    let replies = vec![bash("c2", "known /a"), bash("c3", "known /b"), say("ok")];
    let mut rig = Setup::new(replies).left(entries).start();
    rig.turn("go").await;
    let last = rig.model.turns().pop().unwrap().lines();
    assert_eq!(last[last.len() - 3], r#"result c2: Some("new")"#);
    assert_eq!(last[last.len() - 1], r#"result c3: Some("b")"#);
}
