//! Files in use that others change: the model is informed once, before its next request, and never of its own changes.

use crate::support::*;
use becket_agent::watch::Watching;
use becket_types::{Event, Origin, Synthetic};

const TOLD: &str = "user: a.txt changed on disk since you read it.";

fn looking(replies: Vec<Reply>) -> Setup {
    let mut setup = Setup::new(replies);
    setup.settings.tools.watching = Watching::Looking;
    setup.settings.tools.snapshots =
        Some(becket_snapshot::Settings { roots: vec![setup.cwd()], ..becket_snapshot::Settings::default() });
    write(&setup.cwd(), "a.txt", "as it was read");
    setup
}

fn note(setup: &Setup, id: &str) -> Reply {
    bash(id, &format!("note {}", setup.cwd().join("a.txt").display()))
}

#[tokio::test]
async fn a_change_between_turns_is_told_once_behind_the_prompt_and_stays_where_it_is() {
    let mut setup = looking(Vec::new());
    let read = note(&setup, "c1");
    setup.model.script.lock().unwrap().replies.extend([read, say("1"), say("2"), say("3")]);
    let cwd = setup.cwd();
    setup.settings.asking.headless = true;
    let mut rig = setup.start();
    rig.turn("first").await;
    write(&cwd, "a.txt", "changed by a person");
    rig.turn("second").await;
    rig.turn("third").await;
    let turns = rig.model.turns();
    assert_eq!(turns.len(), 4);
    assert!(!turns[1].lines().iter().any(|line| line == TOLD));
    let second = turns[2].lines();
    assert_eq!(second[second.len() - 2..], ["user: second".to_owned(), TOLD.to_owned()]);
    assert!(turns[3].lines().starts_with(&second), "later requests begin with the earlier ones");
    assert_eq!(turns[3].lines().iter().filter(|line| *line == TOLD).count(), 1);
    let said = rig.log.iter().filter(|event| matches!(event, Event::SyntheticMessage { message } if message.origin == Origin::Synthetic(Synthetic::Reminder)));
    assert_eq!(said.count(), 1, "people see it as what becket wrote");
}

#[tokio::test]
async fn a_change_in_the_middle_of_a_turn_is_told_behind_the_results() {
    let setup = looking(Vec::new());
    let read = note(&setup, "c1");
    let replies = [read, bash("c2", "wait"), say("done")];
    setup.model.script.lock().unwrap().replies.extend(replies);
    let cwd = setup.cwd();
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { call_id, .. } if *call_id == id("c2"))).await;
    std::fs::remove_file(cwd.join("a.txt")).unwrap();
    rig.world.go.notify_one();
    rig.finished().await;
    let lines = rig.model.turns().pop().unwrap().lines();
    assert_eq!(lines[lines.len() - 2], "result c2: did wait");
    assert_eq!(lines[lines.len() - 1], "user: a.txt is gone from disk since you read it.");
}

#[tokio::test]
async fn what_a_call_of_ours_changed_is_not_told() {
    let setup = looking(Vec::new());
    let read = note(&setup, "c1");
    let replies = [read, bash("c2", "put a.txt by-a-command"), say("done"), say("2")];
    setup.model.script.lock().unwrap().replies.extend(replies);
    let mut rig = setup.start();
    rig.turn("first").await;
    rig.turn("second").await;
    let lines = rig.model.turns().pop().unwrap().lines();
    assert!(!lines.iter().any(|line| line.contains("on disk")), "{lines:#?}");
}
