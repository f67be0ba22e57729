//! Results that the model has not answered yet: bounded together when they are made, and never lost on the way to it.

use crate::support::*;
use becket_model::{ErrorKind, Model};
use becket_types::{
    Command, CompactionTrigger, EntryKind, Event, ImageSource, Message, NoticeLevel, Origin, Part,
    PruneReason, Role, TurnEnd,
};
use serde_json::{Map, json};
use std::sync::Arc;

/// One answer with a parallel read for each of these sizes in bytes.
fn reads(step: usize, sizes: &[usize]) -> Reply {
    let read = |(n, bytes): (usize, &usize)| {
        call(&format!("s{step}r{n}"), "read", json!({"path": format!("big {bytes}")}))
    };
    calls(sizes.iter().enumerate().map(read).collect())
}

/// The result of a call as a request shows it.
fn shown(seen: &Seen, id: &str) -> Option<String> {
    let start = format!("result {id}: ");
    seen.lines().into_iter().find_map(|line| line.strip_prefix(&start).map(str::to_owned))
}

fn compactions(rig: &Rig) -> usize {
    rig.log.iter().filter(|event| matches!(event, Event::CompactBoundary { .. })).count()
}

#[tokio::test(start_paused = true)]
async fn twelve_parallel_reads_are_shared_fairly_in_one_request() {
    // Most reads are of the same file. That is no repetition, because the model has seen none of the results.
    let mut sizes = [94_000; 12];
    sizes[3] = 600;
    let mut rig = Setup::with_window(128_000, vec![reads(0, &sizes), say("done")]).start();
    assert_eq!(rig.turn("compare them").await.end, TurnEnd::Completed);
    assert_eq!(compactions(&rig), 0, "nothing had to be compacted");
    let seen = &rig.model.turns()[1];
    let outputs: Vec<String> = (0..12).map(|n| shown(seen, &format!("s0r{n}")).unwrap()).collect();
    assert_eq!(outputs[3].len(), 600, "what is small stays whole");
    for (n, output) in outputs.iter().enumerate().filter(|(n, _)| *n != 3) {
        assert!(output.contains(&format!("<tool-output-compacted id=\"s0r{n}\"")), "{n}");
        assert!(output.contains(&format!("recall {{\"id\":\"s0r{n}\",\"bytes\":")), "{n}");
        assert!(output.len() > 15_000, "{n}: {} bytes", output.len());
        assert!(output.len().abs_diff(outputs[0].len()) < 400, "each has the same share");
    }
    let notices = rig.log.iter().filter(
        |event| matches!(event, Event::Notice { level: NoticeLevel::Info, text } if text.contains("11 of them")),
    );
    assert_eq!(notices.count(), 1);
    let session = rig.end().await;
    let session = session.lock().unwrap();
    let cut = session.entries().unwrap().filter(
        |entry| matches!(&entry.kind, EntryKind::Prune { cuts, reason: PruneReason::StepLimit, .. } if cuts.len() == 11),
    );
    assert_eq!(cut.count(), 1);
    assert_eq!(
        session.original_output(&id("s0r0")).unwrap().1.len(),
        94_000 / 12 * 12,
        "the ledger has all of it"
    );
}

#[tokio::test(start_paused = true)]
async fn every_step_is_seen_also_where_one_is_larger_than_the_window() {
    for window in [16_000, 32_000, 64_000] {
        let steps = 14;
        let mut replies: Vec<Reply> =
            (0..steps).map(|n| reads(n, &[60_000 + n * 12, 30_000 + n * 12, 240])).collect();
        replies.push(say("finished"));
        let mut setup = Setup::with_window(window, replies);
        setup.policy.prune = false;
        let mut rig = setup.start();
        let result = rig.turn("the task").await;
        assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "finished"), "{window}");
        let turns = rig.model.turns();
        assert_eq!(turns.len(), steps + 1, "no step is asked for twice");
        for (step, seen) in turns.iter().skip(1).enumerate() {
            for n in 0..3 {
                let text = shown(seen, &format!("s{step}r{n}")).unwrap_or_default();
                assert!(text.contains("Lorem"), "{window}: step {step} does not show result {n}: {text}");
            }
        }
        // Each compaction makes room for at least a third of a window, and a step brings no more than that.
        assert!(compactions(&rig) <= steps, "{window}: {}", compactions(&rig));
    }
}

/// The provider counts more tokens than becket and refuses the step: after the compaction the model still sees all of its results.
#[tokio::test(start_paused = true)]
async fn a_step_that_the_provider_refuses_is_shown_after_the_compaction() {
    let mut replies: Vec<Reply> = (0..4).map(|n| reads(n, &[9_000 + n * 12])).collect();
    replies.push(reads(4, &[40_000, 40_012, 120]));
    replies.push(Reply::Refuse(ErrorKind::ContextOverflow, Some(400)));
    replies.push(say("ok"));
    let mut setup = Setup::with_window(200_000, replies);
    setup.policy.prune = false;
    let mut rig = setup.start();
    assert_eq!(rig.turn("go").await.end, TurnEnd::Completed);
    let triggers = rig
        .log
        .iter()
        .filter(|event| matches!(event, Event::CompactBoundary { trigger: CompactionTrigger::Overflow, .. }));
    assert_eq!(triggers.count(), 1);
    let turns = rig.model.turns();
    let last = turns.last().unwrap();
    assert!((0..3).all(|n| shown(last, &format!("s4r{n}")).is_some_and(|text| text.contains("Lorem"))));
}

/// A crash between the results and the request that would have shown them: the resumed session shows them.
#[tokio::test(start_paused = true)]
async fn what_a_crash_left_unseen_is_shown_after_the_resume() {
    let asks = |n: usize| Message::assistant(vec![call(&format!("c{n}"), "read", json!({"path": "x"}))]);
    let result = |n: usize, bytes: usize| {
        Message::tool_result(id(&format!("c{n}")), "read", "Lorem ipsum ".repeat(bytes / 12), false)
    };
    let mut entries: Vec<Message> = vec![Message::user("the task")];
    for n in 0..8 {
        entries.extend([asks(n), result(n, 9_000)]);
    }
    entries.extend([asks(8), result(8, 90_000)]);
    let entries = entries.into_iter().map(|message| EntryKind::Message { message }).collect();
    let mut setup = Setup::with_window(16_000, vec![say("seen")]).left(entries);
    setup.policy.prune = false;
    let mut rig = setup.start();
    assert_eq!(rig.turn("go on").await.end, TurnEnd::Completed);
    let turns = rig.model.turns();
    assert_eq!(turns.len(), 1);
    let text = shown(&turns[0], "c8").unwrap_or_default();
    assert!(text.contains("Lorem") && text.contains("id=\"c8\""), "{}", text.len());
    assert_eq!(turns[0].lines().iter().filter(|line| line.ends_with("go on")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_nobody_has_answered_survives_a_compaction() {
    let mut entries: Vec<Message> = Vec::new();
    for n in 0..12 {
        entries.push(Message::user(format!("question {n}")));
        entries.push(Message::assistant(vec![Part::text("Lorem ipsum ".repeat(750))]));
    }
    let image = Part::Image {
        media_type: "image/png".into(),
        source: ImageSource::Url("https://example.org/shot.png".into()),
        name: Some("shot.png".into()),
        width: Some(640),
        height: Some(480),
        extra: Map::new(),
    };
    entries.push(Message::new(Role::User, Origin::User, vec![Part::text("what is wrong here?"), image]));
    let entries = entries.into_iter().map(|message| EntryKind::Message { message }).collect();
    let mut setup = Setup::with_window(16_000, vec![say("the left edge")]).left(entries);
    setup.policy.prune = false;
    let mut rig = setup.start();
    rig.send(prompt("be brief")).await;
    assert_eq!(rig.finished().await.end, TurnEnd::Completed);
    assert_eq!(compactions(&rig), 1);
    let turns = rig.model.turns();
    let images = turns[0].context.messages.iter().filter(|m| m.message.has_media()).count();
    assert_eq!(images, 1, "{:?}", turns[0].lines());
    for words in ["what is wrong here?", "be brief"] {
        assert_eq!(turns[0].lines().iter().filter(|line| line.contains(words)).count(), 1, "{words}");
    }
}

/// The window shrinks in the middle of a turn: the other model sees the results that the first one asked for.
#[tokio::test(start_paused = true)]
async fn another_model_with_a_small_window_sees_the_step_that_the_first_one_made() {
    let mut second = Scripted::new(16_000, vec![say("done")]);
    Arc::get_mut(&mut second).unwrap().info.id = "test/two".into();
    let mut step: Vec<Part> =
        (0..3).map(|n| call(&format!("r{n}"), "read", json!({"path": "big 90000"}))).collect();
    step.push(call("w", "bash", json!({"command": "wait"})));
    let mut setup = Setup::with_window(200_000, vec![reads(0, &[60_000]), calls(step)]);
    let found = Arc::clone(&second);
    setup.find_model = Some(Arc::new(move |_: &str| Ok(Arc::clone(&found) as Arc<dyn Model>)));
    let mut rig = setup.start();
    rig.send(prompt("compare them")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { call_id, .. } if *call_id == id("w"))).await;
    rig.send(Command::SetModel { model: "two".into() }).await;
    rig.event(|event| matches!(event, Event::Notice { text, .. } if text.contains("test/two"))).await;
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.end, TurnEnd::Completed);
    let turns = second.turns();
    assert_eq!(turns.len(), 1);
    for n in 0..3 {
        let text = shown(&turns[0], &format!("r{n}")).unwrap_or_default();
        assert!(text.contains("Lorem") && text.contains("recall {"), "{n}: {text}");
    }
    assert_eq!(turns[0].lines().iter().filter(|line| line.contains("compare them")).count(), 1);
}

/// A call repeats its arguments in every later request, so large ones must not fill the window for good.
#[tokio::test(start_paused = true)]
async fn inputs_of_any_size_leave_a_session_that_goes_on() {
    let text = |bytes: usize| "fn line() { one(two, 3) }\n".repeat(bytes / 26);
    for (window, sizes) in [
        (128_000, vec![1_000_000]),
        (64_000, vec![40_000; 6]),
        (16_000, vec![60_000, 200]),
        (8_000, vec![90_000; 2]),
    ] {
        let write = |step: usize, (n, bytes): (usize, &usize)| {
            call(&format!("s{step}w{n}"), "bash", json!({"path": format!("f{n}"), "command": text(*bytes)}))
        };
        let step = |at: usize| calls(sizes.iter().enumerate().map(|one| write(at, one)).collect());
        let replies = vec![step(0), step(1), say("done"), say("again")];
        let mut rig = Setup::with_window(window, replies).start();
        let result = rig.turn("write them").await;
        assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "done"), "{window} {sizes:?}");
        assert_eq!(rig.turn("and now?").await.end, TurnEnd::Completed, "{window} {sizes:?}");
        let turns = rig.model.turns();
        let size = |seen: &Seen| seen.context.messages.iter().map(|message| message.tokens.0).sum::<u64>();
        for seen in &turns {
            assert!(size(seen) < window, "{window}: {}", size(seen));
        }
        let shown = turns[1].lines().into_iter().find(|line| line.starts_with("call s0w0")).unwrap();
        assert!(shown.contains("input:s0w0") && shown.contains("\"path\":\"f0\""), "{shown}");
        if compactions(&rig) == 0 {
            // Messages that a request has shown stay as they are, so the provider's cache keeps them.
            let (first, second) = (turns[1].lines(), turns[2].lines());
            assert_eq!(first[..], second[..first.len()], "{window} {sizes:?}");
        }
        let session = rig.end().await;
        let session = session.lock().unwrap();
        let (tool, whole) = session.original_output(&id("input:s0w0")).unwrap();
        assert_eq!((tool.as_str(), whole.contains(&text(sizes[0]))), ("bash", true));
    }
}

/// A session of an earlier version, whose newest step has an input that no request can show.
#[tokio::test(start_paused = true)]
async fn a_ledger_with_an_input_larger_than_the_window_is_opened_and_goes_on() {
    let text = "a line of the file\n".repeat(60_000);
    for by_hand in [false, true] {
        let call = Message::assistant(vec![call("w", "write", json!({"path": "f", "content": text}))]);
        let result = Message::tool_result("w".into(), "write", "written", false);
        let entries = [Message::user("write it"), call, result].map(|message| EntryKind::Message { message });
        let setup = Setup::with_window(128_000, vec![say("here I am"), say("and here")]).left(entries.into());
        let mut rig = setup.start();
        if by_hand {
            rig.send(Command::Compact { focus: None }).await;
        }
        assert_eq!(rig.turn("go on").await.end, TurnEnd::Completed);
        assert_eq!(rig.turn("and on").await.end, TurnEnd::Completed);
    }
}
