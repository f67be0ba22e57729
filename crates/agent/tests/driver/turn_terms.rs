//! Terms of a turn: rules and a model that a command asks for, and that end with its turn.

use crate::support::{Reply, Scripted, Setup, bash, say};
use becket_model::Model;
use becket_types::{
    Command, EntryKind, Event, NoticeLevel, Part, PermissionMode, PromptInput, RuleChange, RuleKind,
    TurnTerms,
};
use std::sync::Arc;

fn told(text: &str, allow: &[&str], model: Option<&str>) -> Command {
    let allow = allow.iter().map(ToString::to_string).collect();
    let terms = TurnTerms { allow, model: model.map(str::to_owned), ..TurnTerms::default() };
    Command::Prompt(PromptInput { parts: vec![Part::text(text)], terms, ..PromptInput::default() })
}

fn named(name: &str, replies: Vec<Reply>) -> Arc<Scripted> {
    let mut model = Scripted::new(200_000, replies);
    let info = &mut Arc::get_mut(&mut model).unwrap().info;
    (info.id, info.name) = (format!("test/{name}"), name.to_owned());
    model
}

#[tokio::test(start_paused = true)]
async fn tools_of_a_command_are_allowed_until_its_turn_ends() {
    let mut setup = Setup::new(vec![
        bash("c1", "touch a"),
        bash("c2", "rm a"),
        say("done"),
        bash("c3", "touch b"),
        say("not done"),
    ]);
    // In a headless run nobody can be asked, so a call that needs a question is denied.
    setup.mode = PermissionMode::Default;
    let mut rig = setup.start();
    rig.send(told("go", &["Read, Bash(touch:*)", "Bash(("], None)).await;
    rig.finished().await;
    let warned = rig.log.iter().any(|event| {
        matches!(event, Event::Notice { level: NoticeLevel::Warning, text }
            if text.starts_with("The command allows Bash((, which is not a permission rule"))
    });
    assert!(warned, "{:?}", rig.log);
    rig.turn("again").await;
    assert_eq!(rig.ran(), ["bash touch a"]);
    assert!(!rig.names().contains(&"grants".to_owned()), "the user has granted nothing");
}

#[tokio::test(start_paused = true)]
async fn deny_rules_and_plan_hold_against_a_command() {
    for (mode, forbidden) in
        [(PermissionMode::Plan, None), (PermissionMode::BypassPermissions, Some("Bash(touch *)"))]
    {
        let mut setup = Setup::new(vec![bash("c1", "touch a"), say("no")]);
        setup.mode = mode;
        let mut rig = setup.start();
        if let Some(rule) = forbidden {
            rig.send(Command::change_rules(RuleKind::Deny, RuleChange::Add, vec![rule.to_owned()])).await;
        }
        rig.send(told("go", &["Bash"], None)).await;
        rig.finished().await;
        assert_eq!(rig.ran(), Vec::<String>::new(), "{mode}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_model_of_a_command_answers_its_turn_only() {
    let other = named("two", vec![bash("c1", "x"), say("two")]);
    let found = Arc::clone(&other);
    let mut setup = Setup::new(vec![say("one"), say("one again"), say("still one")]);
    setup.find_model = Some(Arc::new(move |name: &str| match name {
        "two" => Ok(Arc::clone(&found) as Arc<dyn Model>),
        name => Err(format!("There is no model {name}.")),
    }));
    let mut rig = setup.start();
    rig.turn("first").await;
    rig.send(told("second", &[], Some("two"))).await;
    assert_eq!(rig.finished().await.text, "two");
    rig.turn("third").await;
    // If there is no such model, the turn runs with the session's own.
    rig.send(told("fourth", &[], Some("nine"))).await;
    assert_eq!(rig.finished().await.text, "still one");
    assert_eq!((rig.model.turns().len(), other.turns().len()), (3, 2));
    let chosen: Vec<String> = rig
        .log
        .iter()
        .filter_map(|event| if let Event::ModelChosen { model } = event { Some(model.clone()) } else { None })
        .collect();
    assert_eq!(chosen, ["test/two", "test/one"]);
    let session = rig.end().await;
    let session = session.lock().unwrap();
    let switches: Vec<String> = session
        .entries()
        .unwrap()
        .filter_map(
            |entry| if let EntryKind::ModelSwitch { model } = entry.kind { Some(model) } else { None },
        )
        .collect();
    assert_eq!(switches, ["test/one", "test/two", "test/one"]);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_the_user_chooses_meanwhile_outlasts_the_turn() {
    let (two, three) = (named("two", vec![bash("c1", "wait")]), named("three", vec![say("three"), say("3")]));
    let models = [Arc::clone(&two), Arc::clone(&three)];
    let mut setup = Setup::new(vec![]);
    setup.find_model = Some(Arc::new(move |name: &str| {
        let found = models.iter().find(|model| model.info.name == name);
        found.map(|model| Arc::clone(model) as Arc<dyn Model>).ok_or_else(String::new)
    }));
    let mut rig = setup.start();
    rig.send(told("go", &[], Some("two"))).await;
    rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
    rig.send(Command::SetModel { model: "three".into() }).await;
    rig.event(|event| matches!(event, Event::ModelChosen { model } if model == "test/three")).await;
    rig.world.go.notify_one();
    rig.finished().await;
    rig.turn("more").await;
    assert_eq!(three.turns().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_effort_of_a_command_holds_for_its_turn_only() {
    let setup = Setup::new(vec![say("one"), say("two"), say("three"), say("four")]);
    let mut rig = setup.start();
    rig.turn("first").await;
    let terms = TurnTerms { effort: Some("high".into()), ..TurnTerms::default() };
    let told = |text: &str| {
        Command::Prompt(PromptInput {
            parts: vec![Part::text(text)],
            terms: terms.clone(),
            ..PromptInput::default()
        })
    };
    rig.send(told("second")).await;
    rig.finished().await;
    rig.turn("third").await;
    let efforts: Vec<Option<String>> = rig.model.turns().into_iter().map(|seen| seen.effort).collect();
    assert_eq!(efforts, [None, Some("high".to_owned()), None]);
}
