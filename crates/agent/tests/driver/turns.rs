//! Turns: their order in the ledger, steering, queueing, limits, rules files.

use crate::support::*;
use becket_model::ToolChoice;
use becket_types::{Command, DeliveryMode, Event, FinishReason, Part, SystemKind, TurnEnd, Usage};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_prompt_is_answered_and_written_down_in_order() {
    let mut rig = Setup::new(vec![say("Hello.")]).start();
    let result = rig.turn("Say hello\nplease").await;
    assert_eq!((result.end, result.text.as_str(), result.steps), (TurnEnd::Completed, "Hello.", 1));
    assert_eq!(result.stop_reason.as_deref(), Some("end_turn"));
    assert_eq!(
        rig.names(),
        [
            "session_started",
            "user_message",
            "renamed",
            "step_started",
            "text_delta",
            "assistant_message",
            "context_used",
            "turn_finished"
        ]
    );
    let session = rig.end().await;
    assert_eq!(
        kinds(&session),
        [
            "session",
            "system",
            "tools",
            "model_switch",
            "title",
            "message",
            "request",
            "message",
            "finish",
            "usage",
            // The request's size as the provider reported it, saved for the next process.
            "state",
            "turn_end"
        ]
    );
    assert_eq!(session.lock().unwrap().title(), Some("Say hello"));
}

#[tokio::test(start_paused = true)]
async fn t5_a_steering_message_is_wrapped_once_and_keeps_its_bytes() {
    let replies = vec![bash("c1", "wait"), bash("c2", "x"), bash("c3", "y"), say("done")];
    let mut rig = Setup::new(replies).start();
    rig.send(prompt("start")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
    rig.send(prompt(" also this ")).await;
    // The prompt is in the inbox before the tool goes on.
    rig.send(Command::SetMode { mode: "plan".into() }).await;
    rig.event(|event| matches!(event, Event::ModeChanged { .. })).await;
    rig.send(Command::SetMode { mode: "bypassPermissions".into() }).await;
    rig.event(|event| matches!(event, Event::ModeChanged { .. })).await;
    rig.world.go.notify_one();
    let result = rig.finished().await;
    assert_eq!((result.end, result.steps), (TurnEnd::Completed, 4));
    let seen = rig.model.turns();
    let wrapped = "user: <system-reminder>\nThe user sent the following message:\n also this \n\nPlease address this \
                   message and continue with your tasks.\n</system-reminder>";
    for request in &seen[1..] {
        assert_eq!(request.lines().iter().filter(|line| *line == wrapped).count(), 1);
    }
    assert_eq!(seen[1].last(), wrapped);
    // Each request is a prefix of the next.
    for pair in seen.windows(2) {
        assert_eq!(pair[1].lines()[..pair[0].lines().len()], pair[0].lines());
        assert_eq!(pair[0].context.generation, pair[1].context.generation);
    }
    // The ledger and the front end have the user's own words.
    let own = rig.log.iter().filter_map(|event| match event {
        Event::UserMessage { message, steered, .. } => Some((message.text(), *steered)),
        _ => None,
    });
    assert_eq!(own.collect::<Vec<_>>(), [("start".to_owned(), false), (" also this ".to_owned(), true)]);
}

#[tokio::test(start_paused = true)]
async fn a_queued_message_is_a_turn_of_its_own_and_is_not_wrapped() {
    let mut rig = Setup::new(vec![bash("c1", "wait"), say("one"), say("two")]).start();
    rig.send(prompt("first")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
    rig.send(prompt_as("second", DeliveryMode::Queue)).await;
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.text, "one");
    assert_eq!(rig.finished().await.text, "two");
    assert_eq!(rig.model.turns()[2].last(), "user: second");
}

#[tokio::test(start_paused = true)]
async fn a_queued_message_can_be_taken_back_and_a_title_be_given() {
    let mut rig = Setup::new(vec![bash("c1", "wait"), say("one")]).start();
    rig.send(prompt("first")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
    let Command::Prompt(mut queued) = prompt_as("second", DeliveryMode::Queue) else { panic!("no prompt") };
    queued.client_id = Some("q1".into());
    rig.send(Command::Prompt(queued)).await;
    rig.send(Command::Withdraw { client_id: "nobody".into() }).await;
    rig.send(Command::Withdraw { client_id: "q1".into() }).await;
    rig.send(Command::Rename { title: "the parser".into() }).await;
    rig.event(|event| *event == Event::Renamed { title: "the parser".into() }).await;
    let gone = Event::Withdrawn { client_id: "q1".into() };
    assert_eq!(rig.log.iter().filter(|e| matches!(e, Event::Withdrawn { .. })).collect::<Vec<_>>(), [&gone]);
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.text, "one");
    assert_eq!(rig.model.turns().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn at_the_turn_limit_there_is_one_wrap_up_without_tools() {
    let mut setup = Setup::new(vec![bash("c1", "a"), bash("c2", "b"), say("that is all")]);
    setup.settings.limits.run.max_turns = Some(2);
    let mut rig = setup.start();
    let result = rig.turn("go").await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::MaxTurns { limit: 2 }, "that is all"));
    let seen = rig.model.turns();
    assert_eq!((seen.len(), seen[2].tool_choice, seen[2].tools), (3, ToolChoice::None, 2));
    assert!(seen[2].last().starts_with("user: The limit of 2 steps"), "{}", seen[2].last());
}

#[tokio::test(start_paused = true)]
async fn money_and_tokens_end_a_turn_before_the_next_request() {
    let spend = || {
        let usage = Usage { input: 900_000, output: 100_000, ..Usage::default() };
        Reply::Used(
            vec![call("c1", "bash", serde_json::json!({"command": "x"}))],
            FinishReason::ToolCalls,
            usage,
        )
    };
    let mut setup = Setup::new(vec![spend()]);
    setup.settings.limits.run.max_usd = Some(0.5);
    let mut rig = setup.start();
    let what = "spent $1.0000 of $0.5000".to_owned();
    assert_eq!(rig.turn("go").await.end, TurnEnd::Budget { what });
    let mut setup = Setup::new(vec![spend()]);
    setup.settings.limits.run.max_tokens = Some(1_000_000);
    let what = "used 1000000 of 1000000 tokens".to_owned();
    assert_eq!(setup.start().turn("go").await.end, TurnEnd::TokenLimit { what });
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_ends_even_a_hanging_tool() {
    let mut setup = Setup::new(vec![bash("c1", "stubborn")]);
    setup.settings.limits.run.max_wall = Some(Duration::from_secs(30));
    let mut rig = setup.start();
    let what = "the time limit of 30 s is over".to_owned();
    assert_eq!(rig.turn("go").await.end, TurnEnd::TimeLimit { what });
}

#[tokio::test(start_paused = true)]
async fn repetition_is_nudged_at_three_and_stopped_at_five() {
    let mut rig = Setup::new((0..5).map(|n| bash(&format!("c{n}"), "make")).collect()).start();
    let result = rig.turn("go").await;
    assert_eq!(
        result.end,
        TurnEnd::Repetition {
            what: r#"bash {"command":"make"} repeated 5 times with the same result"#.into()
        }
    );
    let nudges = rig.log.iter().filter(|event| matches!(event, Event::SyntheticMessage { .. })).count();
    assert_eq!((nudges, rig.ran().len()), (1, 5));
    assert!(rig.model.turns()[3].last().starts_with("user: You have made this call several times"));
}

#[tokio::test(start_paused = true)]
async fn rules_come_from_root_to_cwd_and_nested_ones_when_a_file_below_is_read() {
    let read = |id: &str, path: &str| calls(vec![call(id, "read", serde_json::json!({"path": path}))]);
    let setup = Setup::new(vec![read("c1", "sub/a.rs"), read("c2", "sub/b.rs"), say("ok")]);
    write(&setup.cwd(), "AGENTS.md", "Root rule.");
    write(&setup.cwd(), "sub/CLAUDE.md", "Nested rule.");
    let cwd = setup.cwd();
    let mut rig = setup.start();
    rig.turn("go").await;
    let seen = rig.model.turns();
    let rules = format!("# Rules from {}\n\nRoot rule.", cwd.join("AGENTS.md").display());
    assert!(seen[0].context.system.iter().any(|block| **block == *rules));
    let nested = format!("user: # Rules from {}\n\nNested rule.", cwd.join("sub/CLAUDE.md").display());
    assert_eq!(seen[1].last(), nested);
    assert_eq!(seen[2].lines().iter().filter(|line| **line == nested).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_system_prompt_is_recorded_and_may_be_replaced() {
    let mut setup = Setup::new(vec![say("ok")]);
    setup.settings.prompt.replace = Some("Be brief.".into());
    setup.settings.prompt.append = Some("Speak French.".into());
    let mut rig = setup.start();
    rig.turn("go").await;
    let system = rig.model.turns()[0].context.system.clone();
    assert_eq!((&*system[0], &*system[2]), ("Be brief.", "Speak French."));
    let session = rig.end().await;
    let kinds: Vec<_> = session.lock().unwrap().view().system_items().iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [SystemKind::Prompt, SystemKind::Environment, SystemKind::Appended]);
}

#[tokio::test(start_paused = true)]
async fn an_inline_image_becomes_a_blob_before_the_ledger_sees_it() {
    use becket_types::{ImageSource, PromptInput};
    let mut rig = Setup::new(vec![say("a cat")]).start();
    let image = Part::Image {
        media_type: "image/png".into(),
        source: ImageSource::Base64("aGk=".into()),
        name: None,
        width: None,
        height: None,
        extra: serde_json::Map::new(),
    };
    let parts = vec![image, Part::text("what is it?")];
    rig.send(Command::Prompt(PromptInput { parts, mode: DeliveryMode::Steer, ..PromptInput::default() }))
        .await;
    rig.finished().await;
    // These bytes are no image, so the model gets a line of text instead, and the user gets a notice.
    let told = |event: &Event| matches!(event, Event::Notice { text, .. } if text.contains("cannot be shown to the model"));
    assert!(rig.log.iter().any(told));
    let sent = rig.model.turns()[0].context.messages[0].message.parts[0].clone();
    assert!(matches!(sent, Part::Image { source: ImageSource::Blob(_), .. }), "{sent:?}");
}

#[test]
fn an_agent_can_be_spawned() {
    fn is_send(_: &impl Send) {}
    is_send(&|agent: becket_agent::Agent| is_send(&agent.run()));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_waits_is_in_the_ledger_until_it_is_delivered() {
    let mut rig = Setup::new(vec![bash("c1", "wait"), say("one"), say("two")]).start();
    rig.send(prompt("first")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
    rig.send(prompt_as("second", DeliveryMode::Queue)).await;
    rig.world.go.notify_one();
    rig.finished().await;
    rig.finished().await;
    let session = rig.end().await;
    let session = session.lock().unwrap();
    let inboxes = session.entries().unwrap().filter_map(|entry| match entry.kind {
        becket_types::EntryKind::State { key, value } if key == "inbox" => value.as_array().map(Vec::len),
        _ => None,
    });
    assert_eq!(inboxes.collect::<Vec<_>>(), [1, 0]);
}
