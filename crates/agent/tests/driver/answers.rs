//! Answers that break, are cut, empty or refused.

use crate::support::*;
use becket_model::ErrorKind;
use becket_types::{Command, Decision, EntryKind, Event, FinishReason, Part, PermissionMode, TurnEnd};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_broken_answer_is_superseded_and_asked_again() {
    let mut rig = Setup::new(vec![Reply::Break("I was ab", ErrorKind::StreamBroken), say("whole")]).start();
    let result = rig.turn("go").await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "whole"));
    assert_eq!(rig.model.turns()[1].lines(), ["user: go"]);
    let retries: Vec<_> = rig.log.iter().filter(|event| matches!(event, Event::Retry { .. })).collect();
    assert_eq!(retries.len(), 1);
    // The partial words stay in the ledger, labelled.
    let session = rig.end().await;
    let entries: Vec<_> = session.lock().unwrap().entries().unwrap().map(|entry| entry.kind).collect();
    let kept = entries
        .iter()
        .any(|kind| matches!(kind, EntryKind::Message { message } if message.text() == "I was ab"));
    let labelled =
        entries.iter().any(|kind| matches!(kind, EntryKind::Finish { reason: FinishReason::Error, .. }));
    let reverted = entries.iter().any(|kind| matches!(kind, EntryKind::Revert { .. }));
    assert_eq!((kept, labelled, reverted), (true, true, true));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_four_times_ends_with_its_partial_text() {
    let mut rig = Setup::new(vec![Reply::Break("half", ErrorKind::Overloaded); 4]).start();
    let result = rig.turn("go").await;
    let message = "Overloaded happened.".to_owned();
    assert_eq!(result.end, TurnEnd::ModelError { kind: "overloaded".into(), message, status: None });
    assert_eq!(result.text, "half");
    assert_eq!(rig.model.turns().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_error_before_the_answer_is_not_tried_again() {
    for kind in
        [ErrorKind::Auth, ErrorKind::Billing, ErrorKind::Tls, ErrorKind::RateLimit, ErrorKind::InvalidRequest]
    {
        let mut rig = Setup::new(vec![Reply::Refuse(kind, Some(400))]).start();
        assert!(matches!(rig.turn("go").await.end, TurnEnd::ModelError { .. }), "{kind:?}");
        assert_eq!(rig.model.turns().len(), 1, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_is_asked_again_once() {
    let empty = || Reply::Answer(Vec::new(), FinishReason::Stop);
    let mut rig = Setup::new(vec![empty(), say("ok")]).start();
    assert_eq!(rig.turn("go").await.end, TurnEnd::Completed);
    let mut rig = Setup::new(vec![empty(), empty()]).start();
    assert!(matches!(rig.turn("go").await.end, TurnEnd::NoAnswer { .. }));
    let thinking = Reply::Answer(
        vec![Part::Reasoning {
            text: "hm".into(),
            signature: None,
            redacted: None,
            provider: "test".into(),
            model: "one".into(),
            spill: None,
            extra: serde_json::Map::new(),
        }],
        FinishReason::Stop,
    );
    let mut rig = Setup::new(vec![thinking, say("ok")]).start();
    assert_eq!(rig.turn("go").await.text, "ok");
    assert_eq!(rig.model.turns()[1].lines(), ["user: go"]);
}

/// The end without an answer names what was done before it.
#[tokio::test(start_paused = true)]
async fn an_end_without_an_answer_names_the_calls_before_it() {
    let empty = || Reply::Answer(Vec::new(), FinishReason::Stop);
    let called = Reply::Answer(
        vec![call("c1", "bash", json!({"command": "cargo test\n--all"}))],
        FinishReason::ToolCalls,
    );
    let mut setup = Setup::new(vec![called, empty(), empty()]);
    setup.mode = PermissionMode::BypassPermissions;
    let mut rig = setup.start();
    let TurnEnd::NoAnswer { what } = rig.turn("go").await.end else { panic!() };
    assert!(what.ends_with("Done since your last message: bash `cargo test…`."), "{what}");
    assert!(what.contains("The work of the step before is kept."), "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_cut_answer_goes_on_and_is_one_text_and_its_calls_are_not_run() {
    let cut = |parts| Reply::Answer(parts, FinishReason::Length);
    let mut rig = Setup::new(vec![cut(vec![Part::text("one, ")]), say("two")]).start();
    let result = rig.turn("count").await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "one, two"));
    let mut rig = Setup::new(vec![cut(vec![Part::text("half")]); 4]).start();
    let result = rig.turn("count").await;
    assert!(matches!(result.end, TurnEnd::NoAnswer { .. }), "{:?}", result.end);
    assert_eq!(result.text.as_str(), "halfhalfhalfhalf");
    let call = call("c1", "bash", json!({"command": "rm"}));
    let mut rig = Setup::new(vec![cut(vec![call]), say("smaller")]).start();
    rig.turn("go").await;
    assert_eq!(rig.ran(), Vec::<String>::new());
    assert!(rig.model.turns()[1].last().starts_with("result c1: Not run: your answer was cut"));
}

#[tokio::test(start_paused = true)]
async fn tokens_at_the_cap_mean_cut_whatever_the_provider_says() {
    let usage = becket_types::Usage { input: 10, output: 4_000, ..Default::default() };
    let call = call("c1", "bash", json!({"command": "rm"}));
    let mut rig =
        Setup::new(vec![Reply::Used(vec![call], FinishReason::ToolCalls, usage), say("ok")]).start();
    rig.turn("go").await;
    assert_eq!(rig.ran(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_with_its_reason() {
    let mut rig = Setup::new(vec![Reply::Answer(vec![Part::text("no")], FinishReason::Refusal)]).start();
    assert_eq!(rig.turn("go").await.end, TurnEnd::Refusal { reason: "refusal".into() });
}

#[tokio::test(start_paused = true)]
async fn a_fallback_model_takes_over_when_the_first_is_overloaded() {
    let mut setup = Setup::new(vec![Reply::Refuse(ErrorKind::Overloaded, Some(529))]);
    let mut second = Scripted::new(200_000, vec![say("from the second")]);
    std::sync::Arc::get_mut(&mut second).unwrap().info.id = "test/two".into();
    setup.fallbacks = vec![second];
    let mut rig = setup.start();
    let result = rig.turn("go").await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "from the second"));
}

/// An answer that always breaks, and every failure before an answer, goes to the fallback model.
#[tokio::test(start_paused = true)]
async fn a_fallback_model_serves_every_failure_that_a_retry_does_not_cure() {
    let cut = |kind| vec![Reply::Break("half", kind); 4];
    let refused = |kind, status| vec![Reply::Refuse(kind, Some(status))];
    for replies in [
        cut(ErrorKind::StreamBroken),
        cut(ErrorKind::Stalled),
        refused(ErrorKind::Auth, 401),
        refused(ErrorKind::Billing, 402),
        refused(ErrorKind::Tls, 0),
        refused(ErrorKind::InvalidRequest, 400),
        refused(ErrorKind::StreamBroken, 200),
        vec![Reply::Answer(Vec::new(), FinishReason::Stop); 2],
    ] {
        let mut setup = Setup::new(replies);
        let mut second = Scripted::new(100_000, vec![say("from the second")]);
        std::sync::Arc::get_mut(&mut second).unwrap().info.id = "test/two".into();
        setup.fallbacks = vec![second];
        let mut rig = setup.start();
        let result = rig.turn("go").await;
        assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "from the second"));
        let told = rig.log.iter().filter(
            |event| matches!(event, Event::Notice { text, .. } if text.contains("Going on with test/two")),
        );
        assert_eq!(told.count(), 1);
    }
}

/// If an answer ends with a call written as text, the turn ends with a reason of its own. If the written call may be an
/// example, a notice is shown. An answer that makes a real call gets neither.
#[tokio::test(start_paused = true)]
async fn a_call_that_stands_in_the_text_is_told_and_not_run() {
    let written = "```json\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n```";
    let made = Reply::Answer(
        vec![Part::text(written), call("c1", "bash", json!({"command": "ls"}))],
        FinishReason::ToolCalls,
    );
    let example = format!("{written}\nis how a call looks.");
    for (replies, ends, told, ran) in [
        (vec![say(written)], true, 0, 0),
        (vec![say(&example)], false, 1, 0),
        (vec![made, say("done")], false, 0, 1),
    ] {
        let mut rig = Setup::new(replies).start();
        let end = rig.turn("go").await.end;
        assert_eq!(matches!(&end, TurnEnd::CallsAsText { what } if what.contains("`bash`")), ends, "{end:?}");
        let notices = rig.log.iter().filter(
            |event| matches!(event, Event::Notice { text, .. } if text.contains("wrote a tool call (`bash`)")),
        );
        assert_eq!((notices.count(), rig.ran().len()), (told, ran));
    }
}

/// The user has chosen to be asked about calls in the text. Each needs an approval of its own, whatever the rules allow.
#[tokio::test(start_paused = true)]
async fn a_call_in_the_text_runs_if_the_user_approves_it() {
    let read = "I look.\n<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a.txt\"}}</tool_call>";
    let bash = "```json\n{\"name\": \"bash\", \"arguments\": {\"command\": \"rm -rf x\"}}\n```";
    let asking = |replies: Vec<Reply>, mode: PermissionMode, headless: bool| {
        let mut setup = Setup::new(replies);
        std::sync::Arc::get_mut(&mut setup.model).unwrap().info.server.asks_text_calls = true;
        setup.mode = mode;
        setup.settings.asking.headless = headless;
        setup.start()
    };
    for (text, mode) in [(read, PermissionMode::Default), (bash, PermissionMode::BypassPermissions)] {
        for (decision, ran) in [(Decision::AllowOnce, 1), (Decision::Deny { reason: None }, 0)] {
            let mut rig = asking(vec![say(text), say("done")], mode, false);
            rig.send(prompt("go")).await;
            let asked = rig.event(|event| matches!(event, Event::PermissionAsked(_))).await;
            let Event::PermissionAsked(asked) = asked else { unreachable!() };
            assert!(
                asked.reason.contains("into its text") || mode == PermissionMode::Default,
                "{}",
                asked.reason
            );
            assert_eq!((asked.offer.is_none(), rig.ran().len()), (true, 0));
            rig.send(Command::Decide { call_id: asked.call_id, decision }).await;
            assert_eq!(rig.finished().await.end, TurnEnd::Completed);
            assert_eq!(rig.ran().len(), ran, "{text}");
            let lines = rig.model.turns()[1].lines();
            assert!(lines.iter().any(|line| line.starts_with("result text_")), "{lines:?}");
        }
    }
    // Nobody can be asked in a headless run: the call is refused like every question, and the model learns that.
    let mut rig = asking(vec![say(bash), say("then not")], PermissionMode::BypassPermissions, true);
    let result = rig.turn("go").await;
    assert_eq!((result.denials.len(), rig.ran().len()), (1, 0));
    let lines = rig.model.turns()[1].lines();
    assert!(lines.iter().any(|line| line.contains("nobody can be asked")), "{lines:?}");
    // A call that may be an example, a tool that does not exist, and an input that cannot be parsed are reported as usual.
    for text in [
        format!("{bash}\nis how a call looks."),
        "<tool_call>{\"name\": \"hammer\", \"arguments\": {}}</tool_call>".to_owned(),
        "```tool_code\nread(path=folder + \"a.txt\")\n```".to_owned(),
    ] {
        let mut rig = asking(vec![say(&text)], PermissionMode::Default, false);
        rig.turn("go").await;
        assert_eq!(rig.ran().len(), 0, "{text}");
        assert!(!rig.log.iter().any(|event| matches!(event, Event::PermissionAsked(_))), "{text}");
    }
}

/// An answer of three megabytes: the session has all of it, the model reads its ends with a notice, and the result has the whole.
#[tokio::test(start_paused = true)]
async fn a_long_answer_moves_to_a_blob_and_the_model_reads_its_ends() {
    let long = (0..150_000).map(|line| format!("line {line} of the answer\n")).collect::<Vec<_>>().concat();
    let thought = "thinking about it\n".repeat(80_000);
    let reasoning = Part::Reasoning {
        text: thought.clone(),
        signature: Some("signed".into()),
        redacted: None,
        provider: "test".into(),
        model: "m".into(),
        spill: None,
        extra: serde_json::Map::new(),
    };
    let parts = vec![reasoning, Part::text(long.clone())];
    let mut rig = Setup::new(vec![Reply::Answer(parts, FinishReason::Stop), say("ok")]).start();
    let result = rig.turn("go").await;
    assert_eq!(result.end, TurnEnd::Completed);
    assert!(result.text.len() < 60_000 && !result.text.is_whole());
    assert_eq!(rig.turn("and?").await.text, "ok");
    let sent = rig.model.turns()[1].lines().join("\n");
    assert!(sent.len() < 150_000, "{}", sent.len());
    for part in ["line 0 of", "line 149999 of", " lines, ", r#"recall {"id":"m"#] {
        assert!(sent.contains(part), "{part}: {}", &sent[..1_000]);
    }
    assert!(!sent.contains("line 75000 of"));
    let session = rig.end().await;
    let session = session.lock().unwrap();
    let blobs = session.blobs();
    assert!(result.text.read_whole(blobs.as_ref()) == long);
    let (number, id) = session
        .entries()
        .unwrap()
        .find_map(|entry| match entry.kind {
            EntryKind::Message { message }
                if !message.text().is_empty() && message.text().contains("[cut: ") =>
            {
                Some((entry.seq, message.parts[1].spill().cloned().unwrap()))
            }
            _ => None,
        })
        .unwrap();
    assert!(blobs.get(&id).unwrap() == long.clone().into_bytes());
    assert!(sent.contains(&format!(r#"recall {{"id":"m{number}""#)), "the notice names the message");
    let (_, recalled) = session.history_search().unwrap().message(number).unwrap().unwrap();
    assert!(recalled == long, "{} of {} bytes", recalled.len(), long.len());
}
