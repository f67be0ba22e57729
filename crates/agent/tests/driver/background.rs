//! Subagents in the background: the turn goes on without them, their ends come as messages, and people steer and stop them.

use crate::support::*;
use becket_agent::subagent::Kind;
use becket_types::{
    CallId, Command, EntryKind, Event, Message, PermissionMode, SystemItem, SystemKind, TurnEnd,
};
use serde_json::{Value, json};

fn with_subagents(replies: Vec<Reply>) -> Setup {
    let mut setup = Setup::new(replies);
    setup.settings.subagents = Kind::built_in().into();
    setup
}

fn task(background: bool) -> Reply {
    let input = json!({"description": "look", "prompt": "one", "agent": "general", "background": background});
    calls(vec![call("t", "task", input)])
}

/// A step of the subagent whose call waits until the test lets it return.
fn waiting() -> Reply {
    calls(vec![call("c", "read", json!({"path": "wait"}))])
}

fn began(event: &Event) -> bool {
    let Event::Subagent { call_id, what } = event else { return false };
    *call_id == CallId("t".into()) && matches!(**what, Event::ToolStarted { .. })
}

async fn tasks(rig: &Rig) -> Vec<(u64, String)> {
    let list = rig.handle.queries.state("background_tasks").await.unwrap();
    let list = list.as_ref().and_then(Value::as_array).cloned();
    let pair = |task: Value| (task["id"].as_u64().unwrap(), task["state"].as_str().unwrap().to_owned());
    list.unwrap_or_default().into_iter().map(pair).collect()
}

#[tokio::test(start_paused = true)]
async fn the_turn_ends_without_it_and_its_end_begins_another() {
    let mut rig =
        with_subagents(vec![task(true), say("meanwhile"), waiting(), say("it is here"), say("thanks")])
            .start();
    let result = rig.turn("go").await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "meanwhile"));
    assert_eq!(tasks(&rig).await, [(1, "running".to_owned())]);
    assert!(rig.model.turns()[1].last().contains("Started in the background as task 1."));
    rig.world.go.notify_one();
    let result = rig.finished().await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "thanks"));
    let last = rig.model.turns().last().unwrap().lines().join("\n");
    assert!(last.contains("The background task 1 (general: look) is done.\n\nit is here"), "{last}");
    assert_eq!(tasks(&rig).await, [(1, "completed".to_owned())]);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_runs_is_moved_there() {
    let replies = vec![task(false), waiting(), say("moved on"), say("it is here"), say("thanks")];
    let mut rig = with_subagents(replies).start();
    rig.send(prompt("go")).await;
    rig.event(began).await;
    rig.send(Command::Background { call_id: None }).await;
    assert_eq!(rig.finished().await.text, "moved on");
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.text, "thanks");
    // No subagent runs that could be moved to the background.
    rig.send(Command::Background { call_id: None }).await;
    let notice = rig.event(|event| matches!(event, Event::Notice { .. })).await;
    assert!(format!("{notice:?}").contains("Nothing that runs now"), "{notice:?}");
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_person_steers_it_and_stops_it() {
    let replies =
        vec![task(true), say("meanwhile"), waiting(), bash("d", "gentle"), say("so it was stopped")];
    let mut rig = with_subagents(replies).start();
    rig.turn("go").await;
    let to = |what: Command| Command::ToTask { task: 1, what: Box::new(what) };
    rig.send(to(prompt("and look at y"))).await;
    rig.world.go.notify_one();
    rig.event(|event| began(event) && format!("{event:?}").contains("gentle")).await;
    let steered = rig.model.turns().last().unwrap().lines().join("\n");
    assert!(steered.contains("sent the following message:\nand look at y"), "{steered}");
    rig.send(to(Command::Interrupt)).await;
    assert_eq!(rig.finished().await.text, "so it was stopped");
    let last = rig.model.turns().last().unwrap().lines().join("\n");
    assert!(last.contains("(general: look) was stopped."), "{last}");
    rig.send(to(Command::Interrupt)).await;
    let notice = rig.event(|event| format!("{event:?}").contains("No background task 1")).await;
    assert!(matches!(notice, Event::Notice { .. }));
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn after_the_end_of_the_input_the_turn_waits_for_it() {
    let replies = vec![task(true), say("meanwhile"), waiting(), say("it is here"), say("thanks")];
    let mut rig = with_subagents(replies).start();
    rig.send(prompt("go")).await;
    rig.send(Command::EndInput).await;
    rig.event(began).await;
    rig.world.go.notify_one();
    let result = rig.finished().await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "thanks"));
    rig.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_after_the_end_of_the_input_ends_it() {
    let replies = vec![task(true), say("meanwhile"), waiting()];
    let mut rig = with_subagents(replies).start();
    rig.send(prompt("go")).await;
    rig.send(Command::EndInput).await;
    rig.event(began).await;
    rig.send(Command::Interrupt).await;
    // The turn was answered already, or is interrupted: either way it ends, and so does the agent.
    rig.finished().await;
    rig.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_ends_the_wait_for_it() {
    let mut setup = with_subagents(vec![task(true), say("meanwhile"), waiting()]);
    setup.settings.limits.run.max_wall = Some(std::time::Duration::from_mins(1));
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.send(Command::EndInput).await;
    assert!(matches!(rig.finished().await.end, TurnEnd::TimeLimit { .. }));
    rig.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn its_questions_are_asked_and_answered_between_turns() {
    let replies = vec![task(true), say("meanwhile"), bash("c", "touch x"), say("touched"), say("thanks")];
    let mut setup = with_subagents(replies);
    (setup.mode, setup.settings.asking.headless) = (PermissionMode::Default, false);
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    let asked = |event: &Event| match event {
        Event::Subagent { what, .. } => matches!(**what, Event::PermissionAsked(_)),
        _ => false,
    };
    rig.event(asked).await;
    let what = Command::Decide { call_id: id("c"), decision: becket_types::Decision::AllowOnce };
    rig.send(Command::ToSubagent { call_id: id("t"), what: Box::new(what) }).await;
    rig.event(|event| matches!(event, Event::TurnFinished(result) if result.text == "thanks")).await;
    assert_eq!(rig.ran(), ["bash touch x"]);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_resumed_session_says_what_was_lost() {
    let system = vec![SystemItem { kind: SystemKind::Prompt, path: None, text: "p".into() }];
    let lost = json!([{
        "id": 3, "call": "t", "agent": "general", "description": "look", "session": "s-1", "state": "running",
    }]);
    let entries = vec![
        EntryKind::System { items: system },
        EntryKind::Message { message: Message::user("go") },
        EntryKind::State { key: "background_tasks".into(), value: lost },
    ];
    let mut setup = with_subagents(vec![say("I see")]).left(entries);
    setup.settings.session.resumed = true;
    let mut rig = setup.start();
    rig.turn("and now").await;
    let seen = rig.model.turns()[0].lines().join("\n");
    assert!(seen.contains("their results are lost: 3 (general: look; its session is s-1)"), "{seen}");
    assert_eq!(tasks(&rig).await, [(3, "lost".to_owned())]);
    rig.end().await;
}
