//! Limits in money and tokens that hold before a request, are raised in place and survive a resume; the wait for a used-up
//! quota; the request for a title.

use crate::support::*;
use becket_agent::{NewLimits, RunLimits};
use becket_model::ErrorKind;
use becket_types::{
    Command, EntryKind, Event, FinishReason, Limit, Millis, NoticeLevel, Part, TurnEnd, Usage,
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// An answer that makes this call and costs a dollar for each million of input tokens.
fn dear(id: &str, command: &str, input: u64) -> Reply {
    let usage = Usage { input, output: 10, ..Usage::default() };
    Reply::Used(vec![call(id, "bash", json!({ "command": command }))], FinishReason::ToolCalls, usage)
}

fn notices(rig: &Rig, wanted: NoticeLevel) -> Vec<String> {
    let text = |event: &Event| match event {
        Event::Notice { level, text } if *level == wanted => Some(text.clone()),
        _ => None,
    };
    rig.log.iter().filter_map(text).collect()
}

fn state(session: &becket_session::Session, key: &str) -> serde_json::Value {
    session.view().state(key).cloned().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_raised_while_a_turn_runs() {
    let mut setup = Setup::new(vec![dear("c1", "wait", 1_100_000), say("ok")]);
    setup.settings.limits.run.max_usd = Some(1.0);
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
    rig.send(Command::Limits { change: Some(Limit::Usd(Some(2.0))) }).await;
    rig.event(|event| matches!(event, Event::Notice { text, .. } if text.contains("of $2.0000"))).await;
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.end, TurnEnd::Completed);
    rig.send(Command::Limits { change: Some(Limit::Turns(Some(7))) }).await;
    rig.event(|event| matches!(event, Event::Notice { text, .. } if text.contains("at most 7"))).await;
    let session = rig.end().await;
    let session = session.lock().unwrap();
    let options = state(&session, "run_options");
    assert_eq!(options, json!({ "limits.max_budget_usd": 2.0, "limits.max_turns": 7 }));
    assert!(state(&session, "spent")["usd"].as_f64().unwrap() > 1.1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ended_at_a_limit_goes_on_after_it_is_raised() {
    let mut setup = Setup::new(vec![dear("c1", "x", 1_100_000), say("ok")]);
    setup.settings.limits.run.max_usd = Some(1.0);
    setup.settings.asking.headless = false;
    let mut rig = setup.start();
    assert!(matches!(rig.turn("go").await.end, TurnEnd::Budget { .. }));
    rig.send(Command::Limits { change: Some(Limit::Usd(None)) }).await;
    assert_eq!(rig.turn("go on").await.end, TurnEnd::Completed);
}

#[tokio::test(start_paused = true)]
async fn the_administrators_limit_can_be_lowered_and_not_raised() {
    let mut setup = Setup::new(vec![]);
    setup.settings.limits.run = RunLimits { max_usd: Some(1.0), ..RunLimits::default() };
    setup.settings.limits.ceilings = setup.settings.limits.run;
    let mut rig = setup.start();
    for (change, refused) in [
        (Limit::Usd(Some(2.0)), true),
        (Limit::Usd(None), true),
        (Limit::Usd(Some(0.5)), false),
        (Limit::Tokens(None), false),
    ] {
        rig.send(Command::Limits { change: Some(change) }).await;
        let answer = rig.event(|event| matches!(event, Event::Notice { .. })).await;
        let is_error = matches!(answer, Event::Notice { level: NoticeLevel::Error, .. });
        assert_eq!(is_error, refused, "{change:?}: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_used_counts_after_a_resume() {
    for (new_limits, fits) in [(NewLimits::default(), false), (NewLimits { usd: true, tokens: true }, true)] {
        let spent = json!({ "usd": 0.999, "tokens": 5_000 });
        let mut setup = Setup::new(vec![say("ok")])
            .left(vec![EntryKind::State { key: "spent".to_owned(), value: spent }]);
        setup.settings.limits.run.max_usd = Some(1.0);
        setup.settings.limits.new = new_limits;
        let end = setup.start().turn("go").await.end;
        assert_eq!(end == TurnEnd::Completed, fits, "{new_limits:?}: {end:?}");
        assert!(fits || matches!(end, TurnEnd::Budget { .. }), "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_the_limits_do_not_allow_is_made_without_a_model() {
    let mut setup = Setup::new(vec![dear("c1", "big 60000", 1_000), say("ok")]);
    setup.settings.limits.run.max_tokens = Some(30_000);
    setup.settings.asking.headless = false;
    let mut rig = setup.start();
    rig.turn("go").await;
    let summaries = |rig: &Rig| rig.model.seen().iter().filter(|seen| seen.summary).count();
    rig.send(Command::Limits { change: Some(Limit::Tokens(Some(1_500))) }).await;
    rig.send(Command::Compact { focus: None }).await;
    rig.event(|e| matches!(e, Event::CompactBoundary { .. } | Event::CompactionFailed { .. })).await;
    assert_eq!(summaries(&rig), 0);
}

#[tokio::test(start_paused = true)]
async fn a_used_up_quota_is_waited_for_if_the_run_may_wait() {
    for wait in [true, false] {
        let mut setup = Setup::new(vec![Reply::Refuse(ErrorKind::RateLimit, Some(429)), say("ok")]);
        setup.settings.limits.wait_for_quota = wait;
        let mut rig = setup.start();
        let began = Instant::now();
        let result = rig.turn("go").await;
        if !wait {
            assert!(matches!(result.end, TurnEnd::ModelError { .. }), "{:?}", result.end);
            continue;
        }
        assert_eq!(result.end, TurnEnd::Completed);
        // The provider named no time, so becket waits about five minutes.
        assert!(began.elapsed() > Duration::from_secs(290), "{:?}", began.elapsed());
        let delay = rig.log.iter().find_map(|event| match event {
            Event::Retry { delay: Millis(delay), .. } => Some(*delay),
            _ => None,
        });
        assert!(delay.is_some_and(|delay| delay > 290_000), "{delay:?}");
        assert!(notices(&rig, NoticeLevel::Warning)[0].contains("becket waits until"));
        let session = rig.end().await;
        assert!(state(&session.lock().unwrap(), "waiting_until").is_null());
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_the_wait_for_a_quota() {
    let mut setup = Setup::new(vec![Reply::Refuse(ErrorKind::RateLimit, Some(429)), say("ok")]);
    setup.settings.limits.wait_for_quota = true;
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(|event| matches!(event, Event::Retry { .. })).await;
    rig.send(Command::Interrupt).await;
    assert_eq!(rig.finished().await.end, TurnEnd::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn a_model_writes_the_title_and_a_user_has_the_last_word() {
    let title = |reply: Reply| {
        let model = Scripted::new(8_000, vec![]);
        model.script.lock().unwrap().summaries.push_back(reply);
        model
    };
    let titles = |session: &becket_session::Session| -> Vec<String> {
        let title = |kind| if let EntryKind::Title { title } = kind { Some(title) } else { None };
        session.entries().unwrap().filter_map(|entry| title(entry.kind)).collect()
    };
    let mut setup = Setup::new(vec![bash("c1", "x"), say("ok")]);
    setup.auxiliary.title = Some(title(say("\"A short title.\"")));
    let mut rig = setup.start();
    rig.turn("do something long").await;
    let session = rig.end().await;
    assert_eq!(titles(&session.lock().unwrap()), ["do something long", "A short title"]);

    for (reply, want) in [
        (Reply::Refuse(ErrorKind::Auth, Some(401)), vec!["do it"]),
        (Reply::Answer(vec![Part::text(" ")], FinishReason::Stop), vec!["do it"]),
        (Reply::Hang("A tit"), vec!["do it", "mine"]),
    ] {
        let mut setup = Setup::new(vec![bash("c1", "x"), say("ok")]);
        setup.auxiliary.title = Some(title(reply));
        let mut rig = setup.start();
        rig.turn("do it").await;
        if want.len() > 1 {
            rig.send(Command::Rename { title: "mine".into() }).await;
        }
        let session = rig.end().await;
        assert_eq!(titles(&session.lock().unwrap()), want);
    }
}

#[tokio::test(start_paused = true)]
async fn the_effort_is_changed_in_the_middle_of_a_session_and_kept() {
    let mut rig = Setup::new(vec![say("ok"), say("ok")]).start();
    rig.turn("one").await;
    rig.send(Command::SetEffort { effort: Some("high".into()) }).await;
    let told = rig.event(|event| matches!(event, Event::Notice { .. })).await;
    assert!(matches!(told, Event::Notice { text, .. } if text.starts_with("Effort: high, from the next")));
    rig.turn("two").await;
    let session = rig.end().await;
    let session = session.lock().unwrap();
    assert_eq!(state(&session, "run_options"), json!({ "effort": "high" }));
    let efforts: Vec<Option<String>> = session
        .entries()
        .unwrap()
        .filter_map(|entry| if let EntryKind::Request(sent) = entry.kind { Some(sent.effort) } else { None })
        .collect();
    assert_eq!(efforts, [None, Some("high".to_owned())]);
}
