//! Interrupts at every await, and what the next prompt finds.

use crate::support::*;
use becket_types::{Command, Event, PermissionMode, TurnEnd};

/// Starts a turn, interrupts it at the first event for which `at` is true, prompts again, and returns the lines of the last request.
async fn interrupted(setup: Setup, at: fn(&Event) -> bool) -> (Rig, Vec<String>) {
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(at).await;
    rig.send(Command::Interrupt).await;
    assert_eq!(rig.finished().await.end, TurnEnd::Interrupted);
    assert_eq!(rig.turn("next").await.end, TurnEnd::Completed);
    let lines = rig.model.turns().last().unwrap().lines();
    (rig, lines)
}

#[tokio::test(start_paused = true)]
async fn while_the_answer_streams_its_words_are_kept() {
    let setup = Setup::new(vec![Reply::Hang("I was say"), say("ok")]);
    let (_, lines) = interrupted(setup, |event| matches!(event, Event::TextDelta { .. })).await;
    assert_eq!(lines, ["user: go", "assistant: I was say", "user: next"]);
}

#[tokio::test(start_paused = true)]
async fn before_anything_of_the_answer_came() {
    let setup = Setup::new(vec![Reply::Hang(""), say("ok")]);
    let (_, lines) = interrupted(setup, |event| matches!(event, Event::StepStarted { .. })).await;
    assert_eq!(lines, ["user: go", "user: next"]);
}

#[tokio::test(start_paused = true)]
async fn while_a_tool_runs_that_obeys() {
    let setup = Setup::new(vec![bash("c1", "gentle"), say("ok")]);
    let (rig, lines) = interrupted(setup, |event| matches!(event, Event::ToolOutput { .. })).await;
    assert_eq!(lines[2], "result c1: Interrupted, effect unknown.\nstopped early");
    // The end of the turn reports the interrupt; a notice would report it twice.
    assert!(!rig.names().contains(&"notice".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn while_a_tool_runs_that_does_not_obey() {
    let setup = Setup::new(vec![bash("c1", "stubborn"), say("ok")]);
    let begun = tokio::time::Instant::now();
    let (_, lines) = interrupted(setup, |event| matches!(event, Event::ToolOutput { .. })).await;
    assert_eq!(lines[2], "result c1: Interrupted by the user, effect unknown.\nOutput until then:\nhalf way");
    assert_eq!(begun.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_that_had_not_begun_do_not_begin() {
    let batch = ["gentle", "x"].iter().enumerate();
    let parts = batch
        .map(|(n, c)| call(&format!("c{n}"), "bash", serde_json::json!({"command": c})))
        .collect::<Vec<_>>();
    let (rig, lines) =
        interrupted(Setup::new(vec![calls(parts), say("ok")]), |e| matches!(e, Event::ToolOutput { .. }))
            .await;
    assert_eq!(rig.ran(), ["bash gentle"]);
    assert_eq!(lines[4], "result c1: Not run: the user interrupted before it was started.");
}

#[tokio::test(start_paused = true)]
async fn while_a_person_is_asked() {
    let mut setup = Setup::new(vec![bash("c1", "touch x"), say("ok")]);
    (setup.mode, setup.settings.asking.headless) = (PermissionMode::Default, false);
    let (rig, lines) = interrupted(setup, |event| matches!(event, Event::PermissionAsked(_))).await;
    assert_eq!(rig.ran(), Vec::<String>::new());
    assert_eq!(lines[2], "result c1: Not run: the user interrupted before it was started.");
}

#[tokio::test(start_paused = true)]
async fn while_it_waits_to_ask_again() {
    let setup = Setup::new(vec![Reply::Break("half", becket_model::ErrorKind::Stalled), say("ok")]);
    let (rig, lines) = interrupted(setup, |event| matches!(event, Event::Retry { .. })).await;
    assert_eq!(lines, ["user: go", "user: next"]);
    assert_eq!(rig.model.turns().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn idle_there_is_nothing_to_interrupt() {
    let mut rig = Setup::new(vec![say("ok")]).start();
    rig.send(Command::Interrupt).await;
    assert_eq!(rig.turn("go").await.end, TurnEnd::Completed);
}

#[tokio::test(start_paused = true)]
async fn when_the_front_end_goes_away_the_agent_ends() {
    let rig = Setup::new(vec![]).start();
    let Rig { handle, task, .. } = rig;
    drop(handle);
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_can_answer_any_more_is_answered_with_no() {
    let mut setup = Setup::new(vec![bash("c1", "touch x"), say("then not")]);
    (setup.mode, setup.settings.asking.headless) = (PermissionMode::Default, false);
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(|event| matches!(event, Event::PermissionAsked(_))).await;
    let Rig { handle, task, model, .. } = rig;
    drop(handle);
    task.await.unwrap();
    assert!(model.turns()[1].last().contains("nobody is connected to answer"));
}
