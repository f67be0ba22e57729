//! A summariser that fails: how often it is asked, how long that takes, and who is asked instead. Over real HTTP; the
//! waits between retries are noted and not slept.

use crate::support::*;
use becket_model::{
    Credential, Endpoint, ErrorKind, Model, ModelError, ModelEvent, ModelInfo, ModelRef, Prepared, Request,
    Secret, Settings, Sleeper, open,
};
use becket_testkit::{MockServer, Reply as Http};
use becket_types::{CompactionSource, EntryKind, Event, PreparationState, TurnEnd};
use futures::stream::BoxStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Turns are answered by the script, summaries are asked of the server.
struct Split {
    script: Arc<Scripted>,
    server: Arc<dyn Model>,
}

impl Model for Split {
    fn info(&self) -> &ModelInfo {
        &self.script.info
    }
    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        let summary = request.context.generation > u64::MAX / 2;
        if summary { self.server.prepare(request) } else { self.script.prepare(request) }
    }
    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        if prepared.brief { self.server.send(prepared) } else { self.script.send(prepared) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// The running model writes summaries, and fails at it.
    Running,
    /// A model of another provider writes them and fails; the running model can do it.
    Other,
    /// Both fail, as models of one provider.
    Both,
}

/// A model on `server`, whose waits are noted in `slept`.
fn on(server: &MockServer, name: &str, slept: &Arc<Mutex<Vec<Duration>>>) -> Arc<dyn Model> {
    let note = Arc::clone(slept);
    let sleeper = Sleeper::new(move |duration| {
        note.lock().unwrap().push(duration);
        Box::pin(async {})
    });
    let openai = Endpoint {
        base_url: Some(server.url()),
        credential: Some(Credential::ApiKey(Secret::new("sk-secret-key"))),
        ..Endpoint::default()
    };
    open(&ModelRef::openai(name.into()), &Settings { openai, sleeper, ..Settings::default() }).unwrap()
}

/// A turn of 16 steps of about 2,000 tokens, with a call that waits for the test in the middle.
fn steps() -> Vec<Reply> {
    let busy = |n: usize| bash(&format!("c{n}"), &format!("big {}", 7_200 + n * 12));
    let mut replies: Vec<Reply> = (0..10).map(busy).collect();
    replies.push(bash("w", "wait"));
    replies.extend((10..16).map(busy));
    replies.push(say("finished"));
    replies
}

#[tokio::test]
async fn each_model_is_asked_once_and_a_failure_costs_seconds() {
    // Status, the wait that the server asks for, and the requests that one model gets.
    let table: [(u16, Option<&str>, usize); 11] = [
        (500, None, 3),
        (502, None, 3),
        (503, None, 3),
        (529, None, 3),
        (429, None, 3),
        (429, Some("30"), 1),
        (400, None, 1),
        (401, None, 1),
        (402, None, 1),
        (403, None, 1),
        (404, None, 1),
    ];
    for (status, wait, attempts) in table {
        for who in [Who::Running, Who::Other, Who::Both] {
            for prepare in [true, false] {
                failing(status, wait, attempts, who, prepare).await;
            }
        }
    }
}

async fn failing(status: u16, wait: Option<&'static str>, attempts: usize, who: Who, prepare: bool) {
    let case = format!("{status} {wait:?} {who:?} prepare={prepare}");
    let server = MockServer::with(move |_| {
        let reply = Http::openai_error(status, "x", "x", "no");
        if let Some(wait) = wait { reply.header("retry-after", wait) } else { reply }
    });
    let slept = Arc::new(Mutex::new(Vec::new()));
    let mut setup = Setup::with_window(32_000, steps());
    setup.policy.prune = false;
    setup.policy.prepare = prepare;
    if who != Who::Other {
        if who == Who::Both {
            Arc::get_mut(&mut setup.model).unwrap().info.provider = "openai".into();
        }
        let running = on(&server, "running", &slept);
        setup.running = Some(Arc::new(Split { script: Arc::clone(&setup.model), server: running }));
    }
    if who != Who::Running {
        setup.auxiliary.summary = Some(on(&server, "summaries", &slept));
    }
    let mut rig = setup.start();
    rig.send(prompt("the task")).await;
    if prepare {
        let ended =
            |e: &Event| matches!(e, Event::SummaryPreparation { state } if *state != PreparationState::Began);
        rig.event(ended).await;
    }
    rig.world.go.notify_one();
    let result = rig.finished().await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "finished"), "{case}");
    // A bad key or an unpaid bill fails for each model of the provider.
    let provider_wide = matches!(status, 401..=403);
    let asked = if who == Who::Both && !provider_wide { 2 } else { 1 };
    assert_eq!(server.requests().len(), attempts * asked, "{case}");
    let waited: Duration = slept.lock().unwrap().iter().sum();
    assert!(waited <= Duration::from_secs(4) * asked as u32, "{case}: {waited:?}");
    let session = rig.end().await;
    let entries: Vec<EntryKind> =
        session.lock().unwrap().entries().unwrap().map(|entry| entry.kind).collect();
    let sources: Vec<CompactionSource> = entries
        .iter()
        .filter_map(|e| if let EntryKind::Compaction(c) = e { Some(c.origin.source) } else { None })
        .collect();
    let want = if who == Who::Other { CompactionSource::Model } else { CompactionSource::Fallback };
    assert_eq!(sources, [want], "{case}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_counts_for_ten_minutes_and_not_for_a_compaction_by_hand() {
    for (minutes, by_hand, requests) in [(0, false, 1), (9, false, 1), (11, false, 2), (0, true, 2)] {
        let mut setup = Setup::with_window(32_000, steps());
        setup.policy.prune = false;
        let refused = Reply::Refuse(ErrorKind::Auth, Some(401));
        setup.model.script.lock().unwrap().summaries = vec![refused; 4].into();
        let mut rig = setup.start();
        rig.send(prompt("the task")).await;
        rig.event(|e| matches!(e, Event::SummaryPreparation { state: PreparationState::Failed { .. } }))
            .await;
        tokio::time::advance(Duration::from_secs(minutes * 60)).await;
        if by_hand {
            rig.send(becket_types::Command::Compact { focus: None }).await;
        }
        rig.world.go.notify_one();
        assert_eq!(rig.finished().await.end, TurnEnd::Completed);
        let asked = rig.model.seen().iter().filter(|seen| seen.summary).count();
        assert_eq!(asked, requests, "after {minutes} minutes, by hand: {by_hand}");
    }
}

/// Prices under which a summary that continues the running request, and so reads the cache, is cheaper than a request of its own.
fn continuing(setup: &mut Setup) {
    let info = &mut Arc::get_mut(&mut setup.model).unwrap().info;
    let prices = info.prices.as_mut().unwrap();
    (prices.input, prices.cache_read) = (10.0, 0.01);
}

#[tokio::test(start_paused = true)]
async fn a_second_ask_while_a_call_runs_carries_the_conversation_of_the_first() {
    for broken in [
        Reply::Break("## Go", ErrorKind::StreamBroken),
        // A summary without the template's headings is requested once more, too.
        say("lorem ipsum dolor sit amet"),
    ] {
        let gate = Arc::new(tokio::sync::Notify::new());
        let mut setup = Setup::with_window(32_000, steps());
        setup.policy.prune = false;
        continuing(&mut setup);
        setup.model.script.lock().unwrap().summaries =
            vec![Reply::After(Arc::clone(&gate), Box::new(broken)), say(SUMMARY)].into();
        let mut rig = setup.start();
        rig.send(prompt("the task")).await;
        rig.event(|e| matches!(e, Event::ToolStarted { call_id, .. } if *call_id == id("w"))).await;
        gate.notify_one();
        rig.event(|e| matches!(e, Event::SummaryPreparation { state: PreparationState::Ready })).await;
        rig.world.go.notify_one();
        assert_eq!(rig.finished().await.end, TurnEnd::Completed);
        let asked: Vec<Seen> = rig.model.seen().into_iter().filter(|seen| seen.summary).collect();
        assert_eq!(asked.len(), 2);
        let conversation = |seen: &Seen| {
            let mut lines = seen.lines();
            lines.pop();
            lines
        };
        assert!(asked[0].tools > 0, "it continues the running request");
        assert_eq!(conversation(&asked[0]), conversation(&asked[1]));
        for seen in rig.model.seen() {
            assert!(!seen.lines().iter().any(|line| line.contains("effect unknown")), "{:?}", seen.lines());
        }
        let told = rig
            .log
            .iter()
            .filter(|e| matches!(e, Event::Notice { text, .. } if text.contains("has no result")));
        assert_eq!(told.count(), 0, "nobody is told of a call that runs");
    }
}

/// An answer that breaks off twice, or does not end, is used as far as it came.
#[tokio::test(start_paused = true)]
async fn the_sections_of_a_summary_that_breaks_off_are_used() {
    const HALF: &str =
        "## Goal\nBuild the harbour gate.\n\n## Instructions\n- Keep the old interpreter.\n\n## Prog";
    for replies in [
        vec![Reply::Break(HALF, ErrorKind::StreamBroken), Reply::Break("", ErrorKind::StreamBroken)],
        vec![Reply::Break("## Go", ErrorKind::StreamBroken), Reply::Break(HALF, ErrorKind::Stalled)],
        vec![Reply::Hang(HALF)],
    ] {
        let mut turns: Vec<Reply> =
            (0..8).map(|n| bash(&format!("c{n}"), &format!("big {}", 14_400 + n * 12))).collect();
        turns.push(say("done"));
        let mut setup = Setup::with_window(32_000, turns);
        setup.policy.prune = false;
        let mut rig = setup.start();
        rig.model.script.lock().unwrap().summaries = replies.into();
        assert_eq!(rig.turn("build the gate").await.end, TurnEnd::Completed);
        let seen = rig.model.turns().pop().unwrap();
        let summary = seen.lines().into_iter().find(|line| line.contains("## Goal")).unwrap();
        assert!(summary.contains("Build the harbour gate."), "{summary}");
        assert!(summary.contains("Keep the old interpreter."), "{summary}");
    }
}
