//! Requests that were refused: what is never sent again, what another model may still take, and what a refusal teaches.

use crate::support::*;
use becket_model::ErrorKind;
use becket_types::{EntryKind, Event, TurnEnd, Usage};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_request_like_one_that_was_refused_for_good_is_not_sent_again() {
    for status in [Some(400), Some(422), Some(499), Some(502), None] {
        let mut rig = Setup::new(vec![Reply::Refuse(ErrorKind::InvalidRequest, status); 2]).start();
        let end = rig.turn("go").await.end;
        let message = "InvalidRequest happened.".to_owned();
        assert_eq!(
            end,
            TurnEnd::ModelError { kind: "invalid_request".into(), message, status },
            "{status:?}"
        );
        assert_eq!(rig.model.turns().len(), 1, "{status:?}");
    }
}

/// The model client has repeated these requests by itself; if the driver did so, too, the attempts would multiply.
#[tokio::test(start_paused = true)]
async fn what_broke_before_the_answer_began_is_not_asked_for_again() {
    for kind in [ErrorKind::Malformed, ErrorKind::StreamBroken, ErrorKind::Stalled] {
        let mut rig = Setup::new(vec![Reply::Refuse(kind, None); 2]).start();
        assert!(matches!(rig.turn("go").await.end, TurnEnd::ModelError { .. }), "{kind:?}");
        assert_eq!(rig.model.turns().len(), 1, "{kind:?}");
        let mut rig = Setup::new(vec![Reply::Break("half", kind), say("whole")]).start();
        assert_eq!(rig.turn("go").await.end, TurnEnd::Completed, "{kind:?}");
        assert_eq!(rig.model.turns().len(), 2, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_request_goes_out_after_a_refusal() {
    let mut rig = Setup::new(vec![Reply::Refuse(ErrorKind::InvalidRequest, Some(400)), say("ok")]).start();
    assert!(matches!(rig.turn("go").await.end, TurnEnd::ModelError { .. }));
    assert_eq!(rig.turn("go").await.text, "ok");
}

#[tokio::test(start_paused = true)]
async fn another_model_is_sent_what_the_first_refused() {
    let mut setup = Setup::new(vec![Reply::Refuse(ErrorKind::NotFound, Some(404))]);
    let mut second = Scripted::new(200_000, vec![say("from the second")]);
    std::sync::Arc::get_mut(&mut second).unwrap().info.id = "test/two".into();
    setup.fallbacks = vec![second];
    let mut rig = setup.start();
    let result = rig.turn("go").await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "from the second"));
}

#[tokio::test(start_paused = true)]
async fn too_many_bytes_teach_no_limit_of_tokens() {
    for (kind, status, learned) in
        [(ErrorKind::TooLarge, 413, false), (ErrorKind::ContextOverflow, 400, true)]
    {
        let mut replies: Vec<Reply> =
            (0..6).map(|n| bash(&format!("c{n}"), &format!("big {}", 14_400 + n * 12))).collect();
        replies.push(Reply::Refuse(kind, Some(status)));
        replies.push(say("ok"));
        let mut setup = Setup::new(replies);
        setup.policy.prune = false;
        let mut rig = setup.start();
        assert_eq!(rig.turn("go").await.end, TurnEnd::Completed);
        let session = rig.end().await;
        let limits = session.lock().unwrap().view().state("limits:test/one").cloned();
        assert_eq!(limits.is_some(), learned, "{kind:?}: {limits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_more_than_the_limit_ends_the_limit() {
    let limits = json!({"named": 50_000, "refused": null});
    let entries = vec![EntryKind::State { key: "limits:test/one".into(), value: limits.clone() }];
    let answer = |input| {
        let usage = Usage { input, output: 10, ..Usage::default() };
        Reply::Used(vec![becket_types::Part::text("ok")], becket_types::FinishReason::Stop, usage)
    };
    let mut rig = Setup::new(vec![answer(49_000), answer(60_000)]).left(entries).start();
    rig.turn("one").await;
    let mut rig = {
        let mut setup = rig.again(vec![answer(60_000)]).await;
        let session = setup.session.as_mut().unwrap();
        assert_eq!(session.view().state("limits:test/one"), Some(&limits), "it may be right");
        setup.start()
    };
    rig.turn("two").await;
    let session = rig.end().await;
    let after = session.lock().unwrap().view().state("limits:test/one").cloned();
    assert_eq!(after, Some(json!({"named": null, "refused": null})));
}

/// Two cases: a local server that was restarted with a larger window, and a window that the user sets.
#[tokio::test(start_paused = true)]
async fn a_limit_of_an_earlier_run_does_not_lock_a_session_out() {
    for (limit, set) in [(3_000, None), (9_000, Some(200_000))] {
        let limits = json!({"named": limit, "refused": null});
        let mut entries = vec![EntryKind::State { key: "limits:test/one".into(), value: limits }];
        entries.push(EntryKind::System {
            items: vec![becket_types::SystemItem {
                kind: becket_types::SystemKind::Prompt,
                path: None,
                text: "Be careful. ".repeat(800),
            }],
        });
        let mut setup = Setup::new(vec![say("ok"), Reply::Refuse(ErrorKind::ContextOverflow, Some(400))]);
        setup.settings.requests.context_window = set;
        let mut rig = setup.left(entries).start();
        // In the second case, the user's message alone is larger than the old limit of 9,000 tokens.
        let text = if set.is_some() { "many words ".repeat(4_000) } else { "go".to_owned() };
        assert_eq!(rig.turn(&text).await.text, "ok", "{limit}");
        assert_eq!(rig.model.turns().len(), 1);
        if set.is_some() {
            continue;
        }
        // A refusal in this run teaches the limit again.
        rig.turn("more").await;
        let session = rig.end().await;
        let after = session.lock().unwrap().view().state("limits:test/one").cloned().unwrap();
        assert!(after["refused"].as_u64().is_some(), "{after}");
    }
}

/// The model client has chosen a stricter layout before it reports the error; `layouts.rs` of `becket-model` tests the choice.
#[tokio::test(start_paused = true)]
async fn a_request_that_a_chat_template_refused_is_prepared_again_with_one_notice() {
    let refuse = || Reply::Refuse(ErrorKind::Template, Some(500));
    let mut rig = Setup::new(vec![refuse(), refuse(), say("ok"), refuse(), say("later")]).start();
    let result = rig.turn("go").await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "ok"));
    assert_eq!(rig.model.turns().len(), 3);
    assert_eq!(rig.turn("more").await.text, "later");
    let told = rig.log.iter().filter(
        |event| matches!(event, Event::Notice { text, .. } if text.contains("arranges the messages")),
    );
    assert_eq!(told.count(), 1, "{:?}", rig.log);
}
