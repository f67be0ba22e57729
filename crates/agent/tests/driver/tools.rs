//! Tool calls: side by side and in order, denied, unknown, broken, repeated.

use crate::support::*;
use becket_types::{Command, Decision, Event, FinishReason, Part, PermissionMode, TurnEnd};
use serde_json::{Map, json};
use std::sync::Arc;
use tokio::sync::Barrier;

fn read(id: &str, path: &str) -> Part {
    call(id, "read", json!({"path": path}))
}

fn run(id: &str, command: &str) -> Part {
    call(id, "bash", json!({"command": command}))
}

#[tokio::test(start_paused = true)]
async fn reads_run_side_by_side() {
    let mut setup = Setup::new(vec![calls(vec![read("a", "1"), read("b", "2"), read("c", "3")]), say("ok")]);
    // No call returns before all three run.
    setup.world = Arc::new(World { barrier: Some(Barrier::new(3)), ..World::default() });
    let mut rig = setup.start();
    assert_eq!(rig.turn("go").await.end, TurnEnd::Completed);
    assert_eq!(rig.model.turns()[1].lines()[4..], ["result a: did 1", "result b: did 2", "result c: did 3"]);
}

#[tokio::test(start_paused = true)]
async fn others_run_in_order_and_alone() {
    let batch = vec![read("a", "wait"), run("b", "x"), read("c", "2"), run("d", "y")];
    let mut rig = Setup::new(vec![calls(batch), say("ok")]).start();
    rig.send(prompt("go")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
    tokio::task::yield_now().await;
    assert_eq!(rig.ran(), ["read wait"]);
    rig.world.go.notify_one();
    rig.finished().await;
    assert_eq!(rig.ran(), ["read wait", "bash x", "read 2", "bash y"]);
}

#[tokio::test(start_paused = true)]
async fn calls_that_cannot_run_get_a_result_that_says_so() {
    let invalid = Part::ToolCall {
        call_id: id("i"),
        name: "bash".into(),
        input: json!({}),
        invalid: Some("{\"command\": nope}".into()),
        extra: Map::new(),
    };
    let batch = vec![
        call("u", "launch", json!({})),
        invalid,
        call("m", "bash", json!({"cmd": "x"})),
        run("f", "fail"),
        run("p", "panic"),
    ];
    let mut rig = Setup::new(vec![calls(batch), say("ok")]).start();
    assert_eq!(rig.turn("go").await.end, TurnEnd::Completed);
    assert_eq!(rig.ran(), ["bash fail", "bash panic"]);
    let lines = rig.model.turns()[1].lines();
    assert_eq!(
        lines[lines.len() - 5..],
        [
            "result u: There is no tool named `launch`. Tools: bash, read.",
            "result i: Not run: the arguments of this call are not valid JSON, at line 1, column 14: expected ident at \
             line 1 column 14. They begin: {\"command\": nope}",
            "result m: command is missing",
            "result f: it failed",
            "result p: The tool stopped because of an internal error: boom",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_delivered_twice_runs_once() {
    let mut rig =
        Setup::new(vec![bash("c1", "rm x"), bash("c1", "rm x"), bash("c1", "ls"), say("ok")]).start();
    rig.turn("go").await;
    assert_eq!(rig.ran(), ["bash rm x", "bash ls"]);
    let seen = rig.model.turns();
    assert!(seen[2].last().contains("has run already; its result is above"), "{}", seen[2].last());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_counts_calls_anew_in_each_answer_may_repeat_a_command() {
    let replies = vec![
        bash("call_0", "make"),
        bash("call_0", "edit"),
        bash("call_0", "make"),
        say("first"),
        bash("call_0", "make"),
        say("second"),
    ];
    let mut rig = Setup::new(replies).left(Vec::new()).start();
    rig.turn("go").await;
    rig.turn("once more").await;
    assert_eq!(rig.ran(), ["bash make", "bash edit", "bash make", "bash make"]);
    // The next process knows from the ledger which call ids were used.
    let again = vec![bash("call_0", "make"), bash("toolu_01AbCdEf23", "make"), say("third")];
    let mut rig = rig.again(again).await.start();
    rig.turn("and again").await;
    assert_eq!(rig.ran(), ["bash make", "bash make"]);
    let again = vec![say("nothing"), bash("toolu_01AbCdEf23", "make"), say("fourth")];
    let mut rig = rig.again(again).await.start();
    rig.turn("and again").await;
    rig.turn("and again").await;
    assert_eq!(rig.ran(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn headless_what_would_ask_is_denied_reported_and_listed() {
    let mut setup = Setup::new(vec![bash("c1", "rm -rf target"), say("then not")]);
    setup.mode = PermissionMode::Default;
    let mut rig = setup.start();
    let result = rig.turn("go").await;
    assert_eq!((result.end, rig.ran()), (TurnEnd::Completed, Vec::new()));
    assert_eq!(result.denials.len(), 1);
    assert_eq!((result.denials[0].tool.as_str(), &result.denials[0].call_id), ("bash", &id("c1")));
    assert!(rig.model.turns()[1].last().starts_with("result c1: Permission denied, not run: "));
    assert!(rig.log.iter().any(|event| matches!(event, Event::PermissionDenied(_))));
}

#[tokio::test(start_paused = true)]
async fn a_person_decides() {
    for (decision, ran) in [
        (Decision::AllowOnce, vec!["bash touch x".to_owned()]),
        (Decision::Deny { reason: Some("not now".into()) }, vec![]),
    ] {
        let mut setup = Setup::new(vec![bash("c1", "touch x"), say("ok")]);
        (setup.mode, setup.settings.asking.headless) = (PermissionMode::Default, false);
        let mut rig = setup.start();
        rig.send(prompt("go")).await;
        rig.event(|event| matches!(event, Event::PermissionAsked(_))).await;
        assert_eq!(rig.ran(), Vec::<String>::new());
        rig.send(Command::Decide { call_id: id("c1"), decision }).await;
        rig.finished().await;
        assert_eq!(rig.ran(), ran);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permission_for_the_session_is_not_asked_again() {
    let mut setup = Setup::new(vec![bash("c1", "touch x"), bash("c2", "touch x"), say("ok")]);
    (setup.mode, setup.settings.asking.headless) = (PermissionMode::Default, false);
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(|event| matches!(event, Event::PermissionAsked(_))).await;
    rig.send(Command::Decide { call_id: id("c1"), decision: Decision::AllowSession }).await;
    rig.finished().await;
    let asked = rig.log.iter().filter(|event| matches!(event, Event::PermissionAsked(_))).count();
    assert_eq!((asked, rig.ran().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_was_withdrawn_is_asked_again() {
    let mut setup = Setup::new(vec![bash("c1", "touch x"), say("ok"), bash("c2", "touch x"), say("ok")]);
    (setup.mode, setup.settings.asking.headless) = (PermissionMode::Default, false);
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(|event| matches!(event, Event::PermissionAsked(_))).await;
    rig.send(Command::Decide { call_id: id("c1"), decision: Decision::AllowSession }).await;
    rig.finished().await;
    rig.send(Command::revoke("Bash(touch *)")).await;
    rig.send(prompt("again")).await;
    let second = |event: &Event| matches!(event, Event::PermissionAsked(asked) if asked.call_id == id("c2"));
    rig.event(second).await;
    rig.send(Command::Decide { call_id: id("c2"), decision: Decision::Deny { reason: None } }).await;
    rig.finished().await;
    let grants: Vec<Vec<String>> = rig
        .log
        .iter()
        .filter_map(|event| if let Event::Grants { rules } = event { Some(rules.clone()) } else { None })
        .collect();
    assert_eq!(grants, [vec!["Bash(touch *)".to_owned()], vec![]]);
    assert_eq!(rig.ran(), ["bash touch x"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_a_call_that_cannot_work() {
    let mut setup = Setup::new(vec![bash("c1", "impossible"), say("ok")]);
    (setup.mode, setup.settings.asking.headless) = (PermissionMode::Default, false);
    let mut rig = setup.start();
    rig.turn("go").await;
    assert!(!rig.log.iter().any(|event| matches!(event, Event::PermissionAsked(_))), "{:?}", rig.log);
    assert_eq!(rig.model.turns()[1].last(), "result c1: The old text is not in the file.");
    assert_eq!(rig.ran(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_question_names_the_rule_that_would_allow_it_and_a_tool_without_preview_takes_no_part() {
    let mut setup = Setup::new(vec![bash("c1", "touch x"), say("ok")]);
    (setup.mode, setup.settings.asking.headless) = (PermissionMode::Default, false);
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(|event| matches!(event, Event::PermissionAsked(_))).await;
    let Some(Event::PermissionAsked(request)) = rig.log.last() else { panic!("{:?}", rig.log) };
    let offer = request.offer.clone().unwrap();
    assert_eq!(offer.rule, "Bash(touch *)");
    assert_eq!(offer.covers, "`touch` alone and with any arguments");
    assert_eq!((request.nearest.clone(), request.preview.len()), (None, 0));
    let part = Decision::AllowWithout { rejected: vec![0] };
    rig.send(Command::Decide { call_id: id("c1"), decision: part }).await;
    rig.finished().await;
    assert_eq!(rig.ran(), Vec::<String>::new());
    assert_eq!(rig.model.turns()[1].last(), "result c1: Not run: this call cannot be done in part.");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_says_so() {
    let mut rig = {
        let mut setup = Setup::new(vec![bash("c1", "stubborn"), say("ok")]);
        setup.settings.tools.timeout = std::time::Duration::from_secs(5);
        setup.start()
    };
    assert_eq!(rig.turn("go").await.end, TurnEnd::Completed);
    assert_eq!(
        rig.model.turns()[1].last(),
        "result c1: Timed out after 5 s and was stopped; its effect is unknown."
    );
}

#[tokio::test(start_paused = true)]
async fn calls_are_run_whatever_the_finish_reason_says() {
    for finish in [FinishReason::Stop, FinishReason::Other("eos".into())] {
        let mut rig = Setup::new(vec![Reply::Answer(vec![run("c", "x")], finish), say("ok")]).start();
        assert_eq!(rig.turn("go").await.end, TurnEnd::Completed);
        assert_eq!(rig.ran(), ["bash x"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_journal_is_written_before_and_after() {
    let mut rig = Setup::new(vec![bash("c1", "x"), say("ok")]).start();
    rig.turn("go").await;
    let session = rig.end().await;
    let kinds = kinds(&session);
    let from = kinds.iter().position(|kind| kind == "tool_journal").unwrap();
    assert_eq!(
        kinds[from..from + 7],
        ["tool_journal", "permission", "tool_journal", "tool_journal", "message", "request", "message"]
    );
}

/// A token of a known form. Put together, so that no tool takes this file for one with a token.
fn token() -> String {
    format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJ012345")
}

/// A session with a person, in which a secret in an output is asked about.
fn with_secrets(replies: Vec<Reply>) -> Setup {
    let mut setup = Setup::new(replies);
    (setup.mode, setup.settings.asking.headless) = (PermissionMode::BypassPermissions, false);
    setup.settings.tools.secrets = becket_agent::SecretOutputs::Ask;
    setup
}

fn asks_secrets(event: &Event) -> bool {
    matches!(event, Event::PermissionAsked(request) if request.secrets.is_some())
}

#[tokio::test(start_paused = true)]
async fn a_secret_in_an_output_is_sent_only_after_a_question() {
    let deny = || Decision::Deny { reason: None };
    for (first, second, sent) in [
        (deny(), Some(deny()), [false, false]),
        (Decision::AllowOnce, Some(deny()), [true, false]),
        (deny(), Some(Decision::AllowOnce), [false, true]),
        (Decision::AllowSession, None, [true, true]),
    ] {
        let echo = |id: &str| bash(id, &format!("echo {}", token()));
        let mut rig = with_secrets(vec![echo("c1"), echo("c2"), say("ok")]).start();
        rig.send(prompt("go")).await;
        rig.event(asks_secrets).await;
        let Some(Event::PermissionAsked(request)) = rig.log.last() else { panic!("{:?}", rig.log) };
        assert_eq!((request.secrets.as_deref(), request.offer.clone()), (Some("GitHub token"), None));
        assert_eq!(rig.model.turns().len(), 1, "nothing is sent before the answer");
        rig.send(Command::Decide { call_id: id("c1"), decision: first }).await;
        if let Some(second) = second {
            rig.event(asks_secrets).await;
            rig.send(Command::Decide { call_id: id("c2"), decision: second }).await;
        }
        rig.finished().await;
        for (request, sent) in rig.model.turns()[1..].iter().zip(sent) {
            let last = request.lines().into_iter().rfind(|line| line.starts_with("result ")).unwrap();
            assert_eq!(last.contains(&token()), sent, "{last}");
            assert_eq!(last.contains("‹GitHub token masked›"), !sent, "{last}");
        }
        let asked = rig.log.iter().filter(|event| asks_secrets(event)).count();
        let text = kinds(&rig.end().await).iter().filter(|kind| *kind == "permission").count();
        // Two entries are the decisions of the mode, which allowed both calls. Each answer of the user adds one.
        assert_eq!(text, 2 + asked);
    }
}

#[tokio::test(start_paused = true)]
async fn only_one_question_is_open_and_results_keep_their_order() {
    let batch = vec![read("a", &token()), run("b", "touch x"), read("c", &token())];
    let mut setup = with_secrets(vec![calls(batch), say("ok")]);
    setup.mode = PermissionMode::Default;
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    for (call, secrets, decision) in [
        ("a", true, Decision::AllowOnce),
        ("b", false, Decision::AllowOnce),
        ("c", true, Decision::Deny { reason: None }),
    ] {
        rig.event(|event| matches!(event, Event::PermissionAsked(_))).await;
        let Some(Event::PermissionAsked(request)) = rig.log.last() else { panic!("{:?}", rig.log) };
        assert_eq!((&request.call_id, request.secrets.is_some()), (&id(call), secrets));
        // An answer to another call changes nothing.
        rig.send(Command::Decide { call_id: id("z"), decision: Decision::AllowSession }).await;
        rig.send(Command::Decide { call_id: id(call), decision }).await;
    }
    rig.finished().await;
    let lines = rig.model.turns()[1].lines();
    let results: Vec<String> =
        lines.iter().filter(|line| line.starts_with("result ")).map(|line| line[..9].to_owned()).collect();
    assert_eq!(results, ["result a:", "result b:", "result c:"]);
    let text = lines.concat();
    assert_eq!(text.matches(&token()).count(), 3, "two calls and one result: {text}");
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_secrets_stay_masked() {
    for interrupt in [true, false] {
        let mut rig = with_secrets(vec![bash("c1", &format!("echo {}", token())), say("ok")]).start();
        rig.send(prompt("go")).await;
        rig.event(asks_secrets).await;
        let session = if interrupt {
            rig.send(Command::Interrupt).await;
            rig.finished().await;
            rig.end().await
        } else {
            let Rig { handle, task, dir: _dir, .. } = rig;
            drop(handle);
            task.await.unwrap()
        };
        let session = session.lock().unwrap();
        let results =
            format!("{:?}", session.view().live().map(|message| &message.parts).collect::<Vec<_>>());
        assert!(results.contains("‹GitHub token masked›"), "{results}");
        assert_eq!(results.matches(&token()).count(), 1, "the call of the model: {results}");
    }
}
