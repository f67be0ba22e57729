//! The user changes the model: from the next request on, with the whole history.

use crate::support::*;
use becket_model::{ErrorKind, Model};
use becket_types::{Command, EntryKind, Event, NoticeLevel, TurnEnd};
use std::sync::Arc;

/// A second model, and a session that finds it under `two`.
fn two(first: Vec<Reply>, second: Vec<Reply>) -> (Setup, Arc<Scripted>) {
    let mut model = Scripted::new(100_000, second);
    Arc::get_mut(&mut model).unwrap().info.id = "test/two".into();
    let mut setup = Setup::new(first);
    let found = Arc::clone(&model);
    setup.find_model = Some(Arc::new(move |name: &str| match name {
        "two" => Ok(Arc::clone(&found) as Arc<dyn Model>),
        _ => Err(format!("{name} is not known.")),
    }));
    (setup, model)
}

async fn switch(rig: &mut Rig, name: &str) -> (NoticeLevel, String) {
    rig.send(Command::SetModel { model: name.into() }).await;
    match rig.event(|event| matches!(event, Event::Notice { .. })).await {
        Event::Notice { level, text } => (level, text),
        _ => unreachable!(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_goes_to_the_other_model_with_the_whole_history() {
    let (setup, second) = two(vec![say("one")], vec![say("two")]);
    let mut rig = setup.start();
    rig.turn("first").await;
    let told = switch(&mut rig, "two").await;
    let text = "The next request goes to test/two. Its window is smaller: 100k instead of 200k tokens. Nothing of this session is in \
                its cache yet, so that request is slower and costs more.";
    assert_eq!(told, (NoticeLevel::Info, text.to_owned()));
    let result = rig.turn("second").await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "two"));
    assert_eq!(second.turns()[0].lines(), ["user: first", "assistant: one", "user: second"]);
    let session = rig.end().await;
    let switches: Vec<String> = session
        .lock()
        .unwrap()
        .entries()
        .unwrap()
        .filter_map(|entry| match entry.kind {
            EntryKind::ModelSwitch { model } => Some(model),
            _ => None,
        })
        .collect();
    assert_eq!(switches, ["test/one", "test/two"]);
}

#[tokio::test(start_paused = true)]
async fn in_the_middle_of_a_turn_the_next_step_goes_to_the_other_model() {
    let (setup, second) = two(vec![bash("c1", "wait")], vec![say("done")]);
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
    switch(&mut rig, "two").await;
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.text, "done");
    assert_eq!(second.turns()[0].last(), "result c1: did wait");
    assert_eq!(rig.model.turns().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_may_go_to_the_other_model() {
    let (setup, _second) = two(vec![Reply::Refuse(ErrorKind::InvalidRequest, Some(400))], vec![say("two")]);
    let mut rig = setup.start();
    assert!(matches!(rig.turn("go").await.end, TurnEnd::ModelError { .. }));
    switch(&mut rig, "two").await;
    assert_eq!(rig.turn("again").await.text, "two");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_not_found_changes_nothing() {
    let (setup, second) = two(vec![say("one")], vec![]);
    let mut rig = setup.start();
    assert_eq!(switch(&mut rig, "three").await, (NoticeLevel::Error, "three is not known.".to_owned()));
    assert_eq!(rig.turn("go").await.text, "one");
    assert_eq!(second.turns().len(), 0);

    let mut rig = Setup::new(vec![say("one")]).start();
    let told = switch(&mut rig, "two").await;
    assert_eq!(told, (NoticeLevel::Error, "The model cannot be changed here.".to_owned()));
    assert_eq!(rig.turn("go").await.text, "one");
}
