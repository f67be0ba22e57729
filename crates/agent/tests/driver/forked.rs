//! Commands with `context: fork`: a subagent works on the prompt, and its answer is that of the turn.

use crate::support::*;
use becket_agent::subagent::Kind;
use becket_model::ErrorKind;
use becket_types::{Command, Event, Fork, NoticeLevel, Part, PromptInput, TurnEnd, TurnTerms};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Notify;

fn with_subagents(replies: Vec<Reply>) -> Setup {
    let mut setup = Setup::new(replies);
    setup.settings.subagents = Kind::built_in().into();
    setup
}

fn forked(typed: &str, prompt: &str, agent: Option<&str>) -> Command {
    let fork = Fork { agent: agent.map(str::to_owned), prompt: prompt.to_owned() };
    let terms = TurnTerms { effort: Some("high".into()), fork: Some(fork), ..TurnTerms::default() };
    Command::Prompt(PromptInput { parts: vec![Part::text(typed)], terms, ..PromptInput::default() })
}

#[tokio::test(start_paused = true)]
async fn the_subagent_has_the_prompt_and_the_session_its_answer() {
    let mut setup = with_subagents(vec![say("all is well"), say("again")]);
    setup.settings.limits.run.max_turns = Some(1);
    let mut rig = setup.start();
    rig.send(forked("/audit src", "Audit the folder src.", Some("explore"))).await;
    let result = rig.finished().await;
    assert_eq!((result.end, result.text.as_str(), result.steps), (TurnEnd::Completed, "all is well", 1));
    let seen = rig.model.turns();
    assert_eq!(seen.len(), 1, "the session's model is not asked");
    assert_eq!(seen[0].last(), "user: Audit the folder src.");
    assert!(!seen[0].lines().iter().any(|line| line.contains("/audit")));
    assert_eq!(seen[0].effort.as_deref(), Some("high"));

    // The session's next request shows the command and the answer, and has the session's own effort.
    rig.turn("what was it?").await;
    let seen = rig.model.turns();
    let lines = seen[1].lines();
    let lines: Vec<&str> = lines.iter().rev().take(5).rev().map(String::as_str).collect();
    assert_eq!(
        (lines[0], lines[3], lines[4]),
        ("user: /audit src", "assistant: all is well", "user: what was it?")
    );
    assert!(
        lines[1].starts_with("call fork_")
            && lines[1]
                .ends_with(r#": task {"description":"/audit src","prompt":"/audit src","agent":"explore"}"#),
        "{lines:?}"
    );
    assert!(lines[2].ends_with(": all is well"), "{lines:?}");
    assert_eq!(seen[1].effort, None);
}

#[tokio::test(start_paused = true)]
async fn a_subagent_without_an_answer_fails_the_turn() {
    let mut rig = with_subagents(vec![Reply::Refuse(ErrorKind::Auth, Some(401))]).start();
    rig.send(forked("/audit", "Audit.", None)).await;
    let result = rig.finished().await;
    assert!(
        matches!(&result.end, TurnEnd::Failed { message } if message.starts_with("The subagent did not finish: ")),
        "{result:?}"
    );
    assert_eq!(rig.model.turns().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_subagents_the_session_works_on_the_prompt() {
    let mut rig = Setup::new(vec![say("done")]).start();
    rig.send(forked("/audit src", "Audit the folder src.", None)).await;
    assert_eq!(rig.finished().await.text.as_str(), "done");
    assert_eq!(rig.model.turns()[0].last(), "user: Audit the folder src.");
    assert!(rig.log.iter().any(|event| matches!(event, Event::Notice { level: NoticeLevel::Info, text }
        if text == "The command runs in this conversation and not in a subagent: this session has no subagents.")));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_not_there_is_replaced_by_the_general_one() {
    let mut rig = with_subagents(vec![say("done")]).start();
    rig.send(forked("/audit", "Audit.", Some("nobody"))).await;
    assert_eq!(rig.finished().await.text.as_str(), "done");
    assert!(rig.log.iter().any(|event| matches!(event, Event::Notice { level: NoticeLevel::Warning, text }
        if text.starts_with("The command names an agent that cannot be used: There is no agent \"nobody\"."))));
}

#[tokio::test(start_paused = true)]
async fn during_a_turn_the_model_continues_with_the_answer() {
    let gate = Arc::new(Notify::new());
    let first = Reply::After(Arc::clone(&gate), Box::new(bash("c", "ls")));
    let mut rig = with_subagents(vec![first, say("all is well"), say("both done")]).start();
    rig.send(prompt("do this")).await;
    rig.model.sent.notified().await;
    rig.send(forked("/audit", "Audit.", None)).await;
    gate.notify_one();
    assert_eq!(rig.finished().await.text.as_str(), "both done");
    let seen = rig.model.turns();
    assert_eq!(seen[1].last(), "user: Audit.");
    assert!(seen[2].last().ends_with(": all is well"), "{:?}", seen[2].lines());
}

#[tokio::test(start_paused = true)]
async fn a_denied_agent_is_not_started() {
    let mut rig = with_subagents(Vec::new()).start();
    let rule = vec!["Task(explore)".to_owned()];
    rig.send(Command::change_rules(becket_types::RuleKind::Deny, becket_types::RuleChange::Add, rule)).await;
    rig.send(forked("/audit", "Audit.", Some("explore"))).await;
    let result = rig.finished().await;
    assert!(matches!(&result.end, TurnEnd::Failed { .. }), "{result:?}");
    assert_eq!(result.denials.len(), 1, "{:?}", json!(result.denials));
}
