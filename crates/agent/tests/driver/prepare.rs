//! A summary made ahead of time, beside the turn: it holds nothing up, counts once, and is given up where it must.

use crate::support::*;
use becket_model::{ErrorKind, Model};
use becket_session::context::compaction::{Prepared, PreparedOutcome};
use becket_types::{
    Command, Compaction, CompactionSource, CompactionTrigger, EntryKind, Event, FinishReason, Part, TurnEnd,
    Usage,
};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Steps that each bring about 2,000 tokens. A window of 32,000 tokens has 28,000 usable ones; preparation begins at 19,600,
/// and the window counts as full at 25,200.
fn busy(from: usize, steps: usize) -> Vec<Reply> {
    (from..from + steps).map(|n| bash(&format!("c{n}"), &format!("big {}", 7_200 + n * 12))).collect()
}

/// A turn that fills the window once: ten steps, a call that waits for the test, and ten more.
fn setup(summaries: Vec<Reply>) -> Setup {
    let mut replies = busy(0, 10);
    replies.push(bash("w", "wait"));
    replies.extend(busy(10, 6));
    replies.push(say("finished"));
    let mut setup = Setup::with_window(32_000, replies);
    setup.policy.prune = false;
    setup.model.script.lock().unwrap().summaries = summaries.into();
    setup
}

/// The turn is under way, a summary is being prepared, and the call `wait` runs.
async fn preparing(setup: Setup) -> Rig {
    let mut rig = setup.start();
    rig.send(prompt("the task")).await;
    notice(&mut rig, "Preparing a summary").await;
    rig.event(|e| matches!(e, Event::ToolStarted { call_id, .. } if *call_id == id("w"))).await;
    rig
}

async fn notice(rig: &mut Rig, words: &str) {
    rig.event(|e| matches!(e, Event::SummaryPreparation { state } if state.to_string().contains(words)))
        .await;
}

fn entries(session: &Arc<Mutex<becket_session::Session>>) -> Vec<EntryKind> {
    session.lock().unwrap().entries().unwrap().map(|entry| entry.kind).collect()
}

fn compactions(entries: &[EntryKind]) -> Vec<&Compaction> {
    entries
        .iter()
        .filter_map(|e| if let EntryKind::Compaction(c) = e { Some(c.as_ref()) } else { None })
        .collect()
}

/// The outcomes of the preparations, in order.
fn outcomes(entries: &[EntryKind]) -> Vec<&'static str> {
    let state = |e: &EntryKind| match e {
        EntryKind::State { key, value } if key == Prepared::KEY => Prepared::from_state(Some(value)),
        _ => None,
    };
    let name = |prepared: Prepared| match prepared.outcome {
        PreparedOutcome::Asked { .. } => "asked",
        PreparedOutcome::Ready { .. } => "ready",
        PreparedOutcome::Failed { .. } => "failed",
        PreparedOutcome::Cancelled { .. } => "cancelled",
    };
    entries.iter().filter_map(state).map(name).collect()
}

fn summaries(rig: &Rig) -> usize {
    rig.model.seen().iter().filter(|seen| seen.summary).count()
}

#[tokio::test(start_paused = true)]
async fn the_turn_goes_on_while_the_summariser_is_silent_and_does_not_wait_when_it_has_spoken() {
    let gate = Arc::new(Notify::new());
    // The call `wait` runs: the answer that brought it did not wait for the gate.
    let mut rig = preparing(setup(vec![Reply::Gated(Arc::clone(&gate), SUMMARY)])).await;
    gate.notify_one();
    notice(&mut rig, "A summary is prepared").await;
    rig.world.go.notify_one();
    rig.event(|e| matches!(e, Event::CompactionStarted { .. })).await;
    let begun = Instant::now();
    rig.event(|e| matches!(e, Event::CompactBoundary { .. })).await;
    assert_eq!(begun.elapsed().as_millis(), 0, "the visible pause");
    let result = rig.finished().await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "finished"));
    assert_eq!((result.compaction.count, summaries(&rig)), (1, 1));
    let mut used = Usage::default();
    for model in &result.models {
        used += model.usage;
    }
    let calls = rig.ran().len();
    let session = rig.end().await;
    let entries = entries(&session);
    assert_eq!(calls, 17, "each call once");
    assert_eq!(outcomes(&entries), ["asked", "ready"]);
    let [compaction] = compactions(&entries)[..] else { panic!("one compaction") };
    assert_eq!(
        (compaction.origin.input.as_str(), compaction.origin.source),
        ("prepared", CompactionSource::Model)
    );
    let mut sum = Usage::default();
    for entry in &entries {
        if let EntryKind::Usage { usage, .. } = entry {
            sum += *usage;
        }
    }
    assert_eq!(used, sum, "what the summary used is in the turn's result");
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_is_not_there_in_time_is_waited_for_and_not_asked_twice() {
    let gate = Arc::new(Notify::new());
    let mut rig = preparing(setup(vec![Reply::Gated(Arc::clone(&gate), SUMMARY)])).await;
    rig.world.go.notify_one();
    rig.event(|e| matches!(e, Event::CompactionStarted { .. })).await;
    gate.notify_one();
    assert_eq!(rig.finished().await.end, TurnEnd::Completed);
    assert_eq!(summaries(&rig), 1);
    let entries = entries(&rig.end().await);
    assert_eq!(compactions(&entries)[0].origin.input, "prepared");
}

#[tokio::test(start_paused = true)]
async fn silence_drip_and_flood_end_in_the_summary_without_a_model() {
    for (reply, seconds) in [(Reply::Hang("## Goal"), 90), (Reply::Drip, 90), (Reply::Flood, 0)] {
        let mut rig = preparing(setup(vec![reply.clone(), reply])).await;
        let begun = Instant::now();
        rig.world.go.notify_one();
        rig.event(|e| matches!(e, Event::CompactBoundary { .. })).await;
        assert_eq!(begun.elapsed().as_secs(), seconds, "one limit for all requests of a compaction");
        assert_eq!(rig.finished().await.end, TurnEnd::Completed);
        assert_eq!(summaries(&rig), 1, "what the preparation has seen is not asked again");
        let entries = entries(&rig.end().await);
        assert_eq!(outcomes(&entries), ["asked", "failed"]);
        assert_eq!(compactions(&entries)[0].origin.source, CompactionSource::Fallback);
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_gives_it_up_and_the_compaction_asks_for_itself() {
    let mut rig = preparing(setup(vec![Reply::Hang("")])).await;
    let before = rig.model.turns().pop().unwrap().lines();
    rig.send(Command::Interrupt).await;
    assert_eq!(rig.finished().await.end, TurnEnd::Interrupted);
    let result = rig.turn("go on").await;
    assert_eq!(result.end, TurnEnd::Completed);
    let turns = rig.model.turns();
    let next = turns.iter().find(|seen| seen.last() == "user: go on").unwrap().lines();
    assert_eq!(next[..before.len()], before);
    assert_eq!(summaries(&rig), 2, "given up, and not begun again before the compaction");
    let entries = entries(&rig.end().await);
    assert_eq!(outcomes(&entries), ["asked", "cancelled"]);
    assert_ne!(compactions(&entries)[0].origin.input, "prepared");
}

#[tokio::test(start_paused = true)]
async fn killed_while_preparing_the_next_process_compacts_as_ever() {
    let mut before = setup(vec![Reply::Hang("")]);
    before.disk = Some(Arc::new(becket_session::store::Disk));
    let rig = preparing(before).await;
    let Rig { dir, task, handle, .. } = rig;
    task.abort();
    let _ = task.await;
    drop(handle);
    let mut after = Setup { dir, ..setup(vec![]) };
    after.model.script.lock().unwrap().replies.drain(..11);
    let root = after.dir.path().join("sessions");
    let at = session_dir(&root);
    let scope = becket_agent::scope(&after.model.info);
    after.session = Some(becket_session::Session::open(&at, after.policy.clone(), scope).unwrap());
    after.settings.session.resumed = true;
    let mut rig = after.start();
    rig.send(Command::Continue).await;
    assert_eq!(rig.finished().await.end, TurnEnd::Completed);
    assert_eq!(summaries(&rig), 1);
    let Rig { dir: _dir, handle, task, .. } = rig;
    drop(handle);
    let entries = entries(&task.await.unwrap());
    assert_eq!(outcomes(&entries), ["asked"]);
    assert_eq!(compactions(&entries).len(), 1);
}

/// The only session below `root`.
fn session_dir(root: &std::path::Path) -> std::path::PathBuf {
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        if dir.join("ledger.jsonl").exists() {
            return dir;
        }
        dirs.extend(std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()));
    }
    panic!("no session");
}

#[tokio::test(start_paused = true)]
async fn what_is_typed_while_it_is_prepared_stays_word_for_word() {
    let gate = Arc::new(Notify::new());
    let mut rig = preparing(setup(vec![Reply::Gated(Arc::clone(&gate), SUMMARY)])).await;
    rig.send(prompt("typed meanwhile")).await;
    gate.notify_one();
    notice(&mut rig, "A summary is prepared").await;
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.end, TurnEnd::Completed);
    let lines = rig.model.turns().pop().unwrap().lines();
    assert_eq!(
        lines.iter().filter(|line| line.contains("typed meanwhile")).count(),
        1,
        "itself, and no quote"
    );
    assert_eq!(lines.iter().filter(|line| line.starts_with("user: ") && line.contains("typed")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_undo_makes_it_void() {
    let mut replies = busy(0, 22);
    replies.push(bash("w", "wait"));
    replies.push(say("finished"));
    let mut setup = Setup::with_window(32_000, replies);
    setup.policy.prune = false;
    let mut rig = setup.start();
    rig.send(prompt("the task")).await;
    rig.event(|e| matches!(e, Event::CompactBoundary { .. })).await;
    notice(&mut rig, "A summary is prepared").await;
    rig.send(Command::UndoCompaction).await;
    rig.event(|e| matches!(e, Event::CompactBoundary { .. })).await;
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.end, TurnEnd::Completed);
    let entries = entries(&rig.end().await);
    let inputs: Vec<_> = compactions(&entries).iter().map(|c| c.origin.input.clone()).collect();
    assert_eq!(inputs[0], "prepared");
    // The summary of the first part is still there, and the part is in the view again; what was made on top of the
    // undone compaction is not used.
    let EntryKind::State { value, .. } = entries
        .iter()
        .rfind(|e| matches!(e, EntryKind::State { key, value } if key == Prepared::KEY && value["outcome"] == "ready"))
        .unwrap()
    else {
        unreachable!()
    };
    assert!(value["after"].is_u64());
    assert_ne!(inputs[1], "prepared", "{inputs:?}");
}

#[tokio::test(start_paused = true)]
async fn the_requests_of_the_turn_are_the_same_with_and_without_it() {
    let mut seen = Vec::new();
    for prepare in [true, false] {
        let mut setup = setup(vec![]);
        setup.policy.prepare = prepare;
        let mut rig = setup.start();
        rig.world.go.notify_one();
        assert_eq!(rig.turn("the task").await.end, TurnEnd::Completed);
        let until = rig.model.turns().iter().position(|s| s.lines()[0].contains("## Goal")).unwrap();
        let lines: Vec<_> = rig.model.turns()[..until].iter().map(Seen::lines).collect();
        assert_eq!(outcomes(&entries(&rig.end().await)).is_empty(), !prepare);
        seen.push(lines);
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test(start_paused = true)]
async fn a_summary_model_that_cannot_be_reached_gives_way_to_a_fallback_model() {
    let mut setup = setup(vec![Reply::Refuse(ErrorKind::Overloaded, Some(529))]);
    let mut other = Scripted::new(32_000, vec![]);
    Arc::get_mut(&mut other).unwrap().info.id = "test/two".into();
    setup.fallbacks = vec![other.clone()];
    let mut rig = setup.start();
    rig.world.go.notify_one();
    assert_eq!(rig.turn("the task").await.end, TurnEnd::Completed);
    assert_eq!(other.seen().len(), 1);
    assert!(other.seen()[0].summary);
    let entries = entries(&rig.end().await);
    assert_eq!(compactions(&entries)[0].origin.model, "test/two");
    assert!(!entries.iter().any(|e| matches!(e, EntryKind::ModelSwitch { model } if model == "test/two")));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_is_asked_for_once_more() {
    let broken = || Reply::Break("## Go", ErrorKind::StreamBroken);
    for (summaries_given, source) in [
        (vec![broken(), say(SUMMARY)], CompactionSource::Model),
        (vec![broken(); 2], CompactionSource::Fallback),
    ] {
        let asked = summaries_given.len();
        let mut rig = setup(summaries_given).start();
        rig.world.go.notify_one();
        assert_eq!(rig.turn("the task").await.end, TurnEnd::Completed);
        assert_eq!(summaries(&rig), asked, "twice ahead of time, and not again when it was due");
        let entries = entries(&rig.end().await);
        assert_eq!(compactions(&entries)[0].origin.source, source);
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_that_end_before_are_not_charged_for_it() {
    // The first prompt fills the window to 0.75; the session ends one turn later.
    let mut setup = Setup::with_window(32_000, vec![say("ok"), say("ok")]);
    setup.policy.prune = false;
    let mut rig = setup.start();
    rig.turn(&"Lorem ipsum ".repeat(5_400)).await;
    rig.turn("and this").await;
    assert_eq!(summaries(&rig), 0);
}

/// A preparation whose summariser never answers, and the gate that its request holds, which shows if the request still exists.
async fn unanswered(setup: impl FnOnce(Vec<Reply>) -> Setup) -> (Rig, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let rig = preparing(setup(vec![Reply::Gated(Arc::clone(&gate), SUMMARY)])).await;
    assert_eq!(Arc::strong_count(&gate), 2, "the request is under way");
    (rig, gate)
}

/// Why preparations were given up, in order.
fn reasons(entries: &[EntryKind]) -> Vec<String> {
    let state = |e: &EntryKind| match e {
        EntryKind::State { key, value } if key == Prepared::KEY => Prepared::from_state(Some(value)),
        _ => None,
    };
    let why = |prepared: Prepared| match prepared.outcome {
        PreparedOutcome::Cancelled { why } => Some(why),
        _ => None,
    };
    entries.iter().filter_map(state).filter_map(why).collect()
}

#[tokio::test(start_paused = true)]
async fn another_model_gives_it_up_and_its_request_ends() {
    let mut other = Scripted::new(100_000, vec![say("finished")]);
    Arc::get_mut(&mut other).unwrap().info.id = "test/two".into();
    let found = Arc::clone(&other);
    let (mut rig, gate) = unanswered(|summaries| {
        let mut setup = setup(summaries);
        setup.find_model = Some(Arc::new(move |_: &str| Ok(Arc::clone(&found) as Arc<dyn Model>)));
        setup
    })
    .await;
    rig.send(Command::SetModel { model: "two".into() }).await;
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.text, "finished");
    assert_eq!(Arc::strong_count(&gate), 1, "the request is gone");
    assert_eq!(other.turns().len(), 1);
    let entries = entries(&rig.end().await);
    assert_eq!(
        (outcomes(&entries), reasons(&entries)),
        (vec!["asked", "cancelled"], vec!["another model".to_owned()])
    );
    assert_eq!(compactions(&entries).len(), 0, "the other model has room");
}

#[tokio::test(start_paused = true)]
async fn a_compaction_by_hand_gives_it_up_and_asks_for_itself() {
    let (mut rig, gate) = unanswered(setup).await;
    rig.send(Command::Compact { focus: Some("the port".into()) }).await;
    rig.world.go.notify_one();
    rig.event(|e| matches!(e, Event::CompactBoundary { .. })).await;
    assert_eq!(Arc::strong_count(&gate), 1, "the request is gone");
    assert_eq!(rig.finished().await.end, TurnEnd::Completed);
    let entries = entries(&rig.end().await);
    assert_eq!(reasons(&entries)[0], "a compaction by hand");
    let compactions = compactions(&entries);
    assert_eq!(
        (compactions[0].trigger, compactions[0].origin.input.as_str() == "prepared"),
        (CompactionTrigger::Manual, false)
    );
}

/// A turn that ends while its summary is prepared.
fn ending(summaries: Vec<Reply>) -> Setup {
    let mut replies = busy(0, 10);
    replies.extend([bash("w", "wait"), say("finished")]);
    let mut setup = Setup::with_window(32_000, replies);
    setup.policy.prune = false;
    setup.model.script.lock().unwrap().summaries = summaries.into();
    setup
}

#[tokio::test(start_paused = true)]
async fn headless_the_end_of_the_turn_gives_it_up_before_the_result() {
    let (mut rig, gate) = unanswered(ending).await;
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.text, "finished");
    assert_eq!(Arc::strong_count(&gate), 1, "the request is gone when the result comes");
    rig.silent().await;
    let entries = entries(&rig.end().await);
    assert_eq!(
        (outcomes(&entries), reasons(&entries)),
        (vec!["asked", "cancelled"], vec!["the end of the turn".to_owned()])
    );
}

/// A turn whose final answer fills the context so far that a compaction is due, and a second turn.
fn full_at_the_end(headless: bool) -> Setup {
    let mut replies = busy(0, 9);
    let usage = Usage { input: 26_000, output: 10, ..Usage::default() };
    replies.push(Reply::Used(vec![Part::text("first")], FinishReason::Stop, usage));
    replies.push(say("second"));
    let mut setup = Setup::with_window(32_000, replies);
    setup.policy.prune = false;
    setup.settings.asking.headless = headless;
    setup
}

#[tokio::test(start_paused = true)]
async fn headless_a_compaction_that_is_owed_at_the_end_of_a_turn_belongs_to_the_next_prompt() {
    let mut rig = full_at_the_end(true).start();
    let first = rig.turn("the task").await;
    assert_eq!((first.text.as_str(), first.compaction.count), ("first", 0));
    rig.silent().await;
    assert_eq!(summaries(&rig), 0, "nothing is paid for what may never be needed");
    let second = rig.turn("and now?").await;
    assert_eq!((second.text.as_str(), second.compaction.count, summaries(&rig)), ("second", 1, 1));
    assert!(rig.model.turns().last().unwrap().last().contains("and now?"));
    rig.silent().await;
    let entries = entries(&rig.end().await);
    assert_eq!(compactions(&entries).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn in_the_terminal_the_turn_ends_first_and_the_summary_is_made_meanwhile() {
    let mut rig = full_at_the_end(false).start();
    assert_eq!(rig.turn("the task").await.text, "first");
    let told = |e: &Event| {
        matches!(e, Event::CompactionStarted { .. })
            || matches!(e, Event::Notice { text, .. } if text.contains("Preparing"))
    };
    assert!(!rig.log.iter().any(told), "the result did not wait for it");
    notice(&mut rig, "A summary is prepared").await;
    let second = rig.turn("and now?").await;
    assert_eq!((second.text.as_str(), second.compaction.count, summaries(&rig)), ("second", 1, 1));
    let entries = entries(&rig.end().await);
    assert_eq!(compactions(&entries)[0].origin.input, "prepared");
}

#[tokio::test(start_paused = true)]
async fn headless_a_compaction_by_hand_between_turns_ends_with_a_result() {
    let mut rig = full_at_the_end(true).start();
    rig.turn("the task").await;
    let before = rig.model.turns().len();
    rig.send(Command::Compact { focus: Some("the port".into()) }).await;
    let result = rig.finished().await;
    let sizes = result.compaction.by_hand.unwrap();
    assert_eq!((&result.end, result.steps), (&TurnEnd::Completed, 0));
    assert!(sizes.post_tokens < sizes.pre_tokens, "{sizes:?}");
    assert_eq!(
        result.text,
        format!("The context was compacted from {} to {} tokens.", sizes.pre_tokens, sizes.post_tokens)
    );
    let written: u64 = result.models.iter().map(|used| used.usage.output).sum();
    assert!(
        written > 0 && result.usage.is_empty(),
        "what the summary used is in the models, and is no request of the conversation"
    );
    rig.silent().await;
    assert_eq!((rig.model.turns().len(), summaries(&rig)), (before, 1), "no turn of the model");
    assert_eq!(rig.turn("and now?").await.text, "second");
    let session = rig.end().await;
    let entries = entries(&session);
    assert_eq!(
        (compactions(&entries).len(), compactions(&entries)[0].trigger),
        (1, CompactionTrigger::Manual)
    );
    let continued =
        |e: &EntryKind| matches!(e, EntryKind::Message { message } if message.metadata.compaction_continue);
    assert!(!entries.iter().any(continued), "no continuation while idle");
}

#[tokio::test(start_paused = true)]
async fn headless_nothing_to_compact_is_a_result_and_no_failure() {
    let mut rig = Setup::new(vec![say("hello")]).start();
    rig.turn("hi").await;
    rig.send(Command::Compact { focus: None }).await;
    let nothing = rig.finished().await;
    assert_eq!(nothing.end, TurnEnd::Completed);
    assert!(nothing.text.starts_with("Not compacted: "), "{}", nothing.text);
    let sizes = nothing.compaction.by_hand.unwrap();
    assert_eq!(sizes.pre_tokens, sizes.post_tokens);
    rig.silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_prune_that_is_enough_is_told_once() {
    let mut setup = setup(vec![]);
    setup.policy.prune = true;
    setup.policy.hot_tokens = 2_000;
    let mut rig = setup.start();
    rig.world.go.notify_one();
    assert_eq!(rig.turn("the task").await.end, TurnEnd::Completed);
    let pruned = rig.log.iter().filter(|e| matches!(e, Event::Pruned { .. })).count();
    let told =
        rig.log.iter().filter(|e| matches!(e, Event::Notice { text, .. } if text.contains("tool outputs")));
    assert!(pruned > 0);
    assert_eq!(told.count(), 0, "the event says it");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_gives_it_up_and_waits_for_nobody() {
    let (mut rig, gate) = unanswered(|summaries| {
        let mut setup = ending(summaries);
        setup.settings.asking.headless = false;
        setup
    })
    .await;
    rig.world.go.notify_one();
    assert_eq!(rig.finished().await.text, "finished");
    let begun = Instant::now();
    let session = rig.end().await;
    assert_eq!(begun.elapsed().as_secs(), 0);
    assert_eq!(Arc::strong_count(&gate), 1, "the request is gone");
    let entries = entries(&session);
    assert_eq!(
        (outcomes(&entries), reasons(&entries)),
        (vec!["asked", "cancelled"], vec!["the end of the session".to_owned()])
    );
}
