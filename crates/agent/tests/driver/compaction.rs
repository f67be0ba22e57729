//! Compaction as the driver does it: owed in the middle of a turn, after an overflow, by hand, undone, interrupted.

use crate::support::*;
use becket_model::ErrorKind;
use becket_types::{Command, CompactionPlan, CompactionTrigger, EntryKind, Event, TurnEnd};

/// Steps that each bring about 4,000 tokens of output.
fn busy(steps: usize) -> Vec<Reply> {
    (0..steps).map(|n| bash(&format!("c{n}"), &format!("big {}", 14_400 + n * 12))).collect()
}

fn boundaries(rig: &Rig) -> Vec<CompactionTrigger> {
    let trigger = |event: &Event| match event {
        Event::CompactBoundary { trigger, .. } => Some(*trigger),
        _ => None,
    };
    rig.log.iter().filter_map(trigger).collect()
}

#[tokio::test(start_paused = true)]
async fn a_turn_longer_than_the_window_is_finished_across_compactions() {
    let mut replies = busy(20);
    replies.push(say("finished"));
    let mut setup = Setup::with_window(32_000, replies);
    setup.policy.prune = false;
    write(&setup.cwd(), "AGENTS.md", "Never forget.");
    let mut rig = setup.start();
    let result = rig.turn("the task").await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "finished"));
    assert_eq!(rig.ran().len(), 20, "no call is run twice");
    let compactions = boundaries(&rig);
    assert!(compactions.len() >= 2, "{compactions:?}");
    assert_eq!(result.compaction.count as usize, compactions.len());
    let continuations = rig.log.iter().filter(
        |event| matches!(event, Event::SyntheticMessage { message } if message.metadata.compaction_continue),
    );
    assert_eq!(continuations.count(), compactions.len());
    for request in rig.model.turns() {
        assert!(request.context.system.iter().any(|block| block.ends_with("Never forget.")));
        let words = request.lines().iter().filter(|line| line.ends_with("the task")).count();
        assert!(words >= 1, "the task is in every request");
    }
}

#[tokio::test(start_paused = true)]
async fn an_overflow_is_answered_by_one_compaction_and_the_limit_is_kept() {
    let mut replies = busy(6);
    replies.push(Reply::Refuse(ErrorKind::ContextOverflow, Some(400)));
    replies.push(say("ok"));
    let mut setup = Setup::with_window(200_000, replies);
    setup.policy.prune = false;
    let mut rig = setup.start();
    assert_eq!(rig.turn("go").await.end, TurnEnd::Completed);
    assert_eq!(boundaries(&rig), [CompactionTrigger::Overflow]);
    let session = rig.end().await;
    assert!(session.lock().unwrap().view().state("limits:test/one").is_some());
}

#[tokio::test(start_paused = true)]
async fn overflow_after_overflow_ends_with_what_fills_the_window() {
    let mut replies = busy(6);
    replies.extend(vec![Reply::Refuse(ErrorKind::ContextOverflow, Some(400)); 2]);
    let mut setup = Setup::with_window(200_000, replies);
    setup.policy.prune = false;
    let mut rig = setup.start();
    let end = rig.turn("go").await.end;
    assert!(matches!(&end, TurnEnd::ContextFull { breakdown } if breakdown.contains("tools")), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn the_size_of_a_context_that_was_refused_is_told() {
    let mut setup =
        Setup::with_window(200_000, vec![Reply::Refuse(ErrorKind::ContextOverflow, Some(400)); 2]);
    setup.policy.auto_compact = false;
    let mut rig = setup.start();
    let end = rig.turn(&"a pasted line of text\n".repeat(20_000)).await.end;
    assert!(matches!(end, TurnEnd::ContextFull { .. }), "{end:?}");
    let told = rig.log.iter().rev().find_map(|event| match event {
        Event::ContextUsed { used, .. } => Some(used.0),
        _ => None,
    });
    assert!(told.is_some_and(|used| used > 50_000), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn with_auto_off_the_session_stops_with_the_choices_that_there_are() {
    for (headless, there, not_there) in [(false, "/compact", "--model"), (true, "context.auto", "/compact")] {
        let mut setup = Setup::with_window(32_000, busy(8));
        setup.policy.auto_compact = false;
        setup.settings.asking.headless = headless;
        let mut rig = setup.start();
        let end = rig.turn("go").await.end;
        let TurnEnd::ContextFull { breakdown } = &end else { panic!("{end:?}") };
        assert!(breakdown.contains(there) && !breakdown.contains(not_there), "{breakdown}");
        assert_eq!(boundaries(&rig), []);
    }
}

/// Three answered turns with much output.
async fn long_talk(extra: Vec<Reply>) -> Rig {
    let mut replies = Vec::new();
    for n in 0..3 {
        replies.push(bash(&format!("t{n}"), "big 36000"));
        replies.push(say(&format!("answer {n}")));
    }
    replies.extend(extra);
    let mut rig = Setup::new(replies).start();
    for n in 0..3 {
        rig.turn(&format!("question {n}")).await;
    }
    rig
}

#[tokio::test(start_paused = true)]
async fn by_hand_while_idle_nothing_is_asked_after_it_and_undo_brings_everything_back() {
    let mut rig = long_talk(vec![say("last")]).await;
    let before = rig.model.turns().len();
    rig.send(Command::Compact { focus: None }).await;
    rig.event(|event| matches!(event, Event::CompactBoundary { .. })).await;
    rig.send(Command::UndoCompaction).await;
    rig.event(|event| matches!(event, Event::Notice { .. })).await;
    assert_eq!(rig.model.turns().len(), before, "no request follows");
    rig.turn("and now").await;
    let turns = rig.model.turns();
    let (old, new) = (turns[before - 1].lines(), turns[before].lines());
    assert_eq!(new[..old.len()], old);
    assert!(rig.log.iter().all(|event| !matches!(event, Event::SyntheticMessage { .. })));
}

impl Rig {
    /// The plan of a compaction, or the notice that there is none.
    async fn shown(&mut self, command: Command) -> Result<CompactionPlan, String> {
        self.send(command).await;
        let wanted = |event: &Event| {
            matches!(
                event,
                Event::CompactionPlanned(_) | Event::CompactionFailed { .. } | Event::Notice { .. }
            )
        };
        match self.event(wanted).await {
            Event::CompactionPlanned(plan) => Ok(*plan),
            Event::CompactionFailed { reason } => Err(reason),
            Event::Notice { text, .. } => Err(text),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_compaction_is_shown_edited_and_then_applied() {
    let mut rig = long_talk(vec![say("last")]).await;
    let before = rig.model.turns().pop().unwrap().lines();
    let plan = rig.shown(Command::PlanCompaction { focus: None }).await.unwrap();
    assert!(plan.size.after < plan.size.before && !plan.gone.is_empty(), "{plan:?}");
    assert!(
        plan.summary.contains("## Goal") && plan.protected.missing.is_empty() && plan.protected.present > 0,
        "{plan:?}"
    );
    assert_eq!(boundaries(&rig), [], "nothing has happened yet");

    let long = "word ".repeat(200_000);
    let refused = rig.shown(Command::EditCompaction { plan: plan.plan, summary: long }).await.unwrap();
    assert!(refused.notices.iter().any(|notice| notice.contains("longer than")), "{:?}", refused.notices);
    assert_eq!(refused.summary, plan.summary);
    let old = rig.shown(Command::EditCompaction { plan: plan.plan, summary: "x".into() }).await.unwrap_err();
    assert!(old.contains("is out of date"), "{old}");

    let summary = "## Goal\n- by hand".to_owned();
    let edited = rig.shown(Command::EditCompaction { plan: refused.plan, summary }).await.unwrap();
    assert!(edited.summary.starts_with("## Goal\n- by hand"), "{}", edited.summary);
    rig.send(Command::CarryOut { plan: edited.plan, force: false }).await;
    let boundary = rig.event(|event| matches!(event, Event::CompactBoundary { .. })).await;
    assert!(matches!(boundary, Event::CompactBoundary { summary, .. } if summary == edited.summary));
    rig.turn("and now").await;
    let lines = rig.model.turns().pop().unwrap().lines();
    assert!(lines[0].contains("by hand") && lines.len() < before.len(), "{lines:?}");
    let session = rig.end().await;
    let entries: Vec<_> = session.lock().unwrap().entries().unwrap().map(|entry| entry.kind).collect();
    let made = entries.iter().find_map(|kind| match kind {
        EntryKind::Compaction(compaction) => Some(compaction),
        _ => None,
    });
    assert_eq!(made.unwrap().origin.input, "edited");
}

#[tokio::test(start_paused = true)]
async fn that_there_is_nothing_to_summarise_is_said_once() {
    let mut rig = Setup::new(vec![say("later")]).start();
    rig.send(Command::PlanCompaction { focus: None }).await;
    let failed = rig.event(|event| matches!(event, Event::CompactionFailed { .. })).await;
    assert!(matches!(failed, Event::CompactionFailed { reason } if reason.contains("nothing to summarise")));
    rig.turn("and now").await;
    assert!(rig.log.iter().all(|event| !matches!(event, Event::Notice { .. })), "{:?}", rig.log);
    let session = rig.end().await;
    let kept: Vec<_> = session.lock().unwrap().entries().unwrap().map(|entry| entry.kind).collect();
    let told =
        |kind: &&EntryKind| matches!(kind, EntryKind::Notice { text, .. } if text.contains("Not compacted"));
    assert_eq!(kept.iter().filter(told).count(), 0, "a plan leaves no trace");
}

#[tokio::test(start_paused = true)]
async fn a_turn_makes_a_shown_compaction_void_and_none_is_shown_within_one() {
    let mut rig = long_talk(vec![say("four"), Reply::Hang("thinking")]).await;
    let before = rig.model.turns().pop().unwrap().lines();
    let plan = rig.shown(Command::PlanCompaction { focus: None }).await.unwrap();
    rig.turn("and now").await;
    assert_eq!(rig.model.turns().pop().unwrap().lines()[..before.len()], before);
    let late = rig.shown(Command::CarryOut { plan: plan.plan, force: false }).await.unwrap_err();
    assert!(late.contains("is out of date"), "{late}");
    rig.send(prompt("hang")).await;
    rig.event(|event| matches!(event, Event::TextDelta { .. })).await;
    let busy = rig.shown(Command::PlanCompaction { focus: None }).await.unwrap_err();
    assert!(busy.contains("only between turns"), "{busy}");
    rig.send(Command::Interrupt).await;
    rig.finished().await;
    assert_eq!(boundaries(&rig), []);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_a_preview_and_the_next_compaction_applies() {
    let mut rig = long_talk(vec![]).await;
    rig.model.script.lock().unwrap().summaries.push_back(Reply::Hang("## Goal"));
    rig.send(Command::PlanCompaction { focus: None }).await;
    rig.event(|event| matches!(event, Event::CompactionStarted { .. })).await;
    rig.send(Command::Interrupt).await;
    rig.event(|event| matches!(event, Event::CompactionFailed { .. })).await;
    rig.send(Command::Compact { focus: None }).await;
    rig.event(|event| matches!(event, Event::CompactBoundary { .. })).await;
}

#[tokio::test(start_paused = true)]
async fn a_compaction_is_undone_and_redone() {
    let mut rig = long_talk(vec![say("four"), say("five")]).await;
    rig.send(Command::RedoCompaction).await;
    let none = rig.event(|event| matches!(event, Event::Notice { .. })).await;
    let Event::Notice { text, .. } = none else { panic!() };
    assert!(text.contains("no undone compaction"), "{text}");
    // Programs wait for this event, because a notice may be about something else.
    let nothing = rig.event(|event| matches!(event, Event::NothingToDo { .. })).await;
    assert_eq!(nothing, Event::NothingToDo { reason: text });
    rig.send(Command::Compact { focus: None }).await;
    let boundary = rig.event(|event| matches!(event, Event::CompactBoundary { .. })).await;
    let Event::CompactBoundary { entry, post_tokens, .. } = boundary else { panic!() };
    rig.send(Command::UndoCompaction).await;
    let undone = rig.event(|event| matches!(event, Event::CompactionReverted { .. })).await;
    assert_eq!(undone, Event::CompactionReverted { entry, counts: false });
    let used = |event: Event| match event {
        Event::ContextUsed { used, .. } => used,
        other => panic!("{other:?}"),
    };
    let is_used = |event: &Event| matches!(event, Event::ContextUsed { .. });
    let short = rig.log.iter().rev().find(|event| is_used(event)).cloned().map(used).unwrap();
    assert_eq!(short, post_tokens, "the status line and the line of the compaction show one size");
    let whole = used(rig.event(is_used).await);
    assert!(short < whole, "the size is told at once: {short:?} {whole:?}");
    rig.turn("whole").await;
    let all = rig.model.turns().pop().unwrap().lines().len();
    rig.send(Command::RedoCompaction).await;
    let redone = rig.event(|event| matches!(event, Event::CompactionReverted { .. })).await;
    assert_eq!(redone, Event::CompactionReverted { entry, counts: true });
    rig.turn("short").await;
    let lines = rig.model.turns().pop().unwrap().lines();
    assert!(lines[0].contains("## Goal") && lines.len() < all, "{lines:?}");
    // Events that are replayed from the ledger show the same.
    let session = rig.end().await;
    let entries: Vec<_> = session.lock().unwrap().entries().unwrap().collect();
    let reverted: Vec<bool> = becket_session::replay::events(entries)
        .iter()
        .filter_map(|event| match event {
            Event::CompactionReverted { entry: of, counts } if *of == entry => Some(*counts),
            _ => None,
        })
        .collect();
    assert_eq!(reverted, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn after_a_compaction_by_hand_the_next_prompt_sees_the_summary() {
    let mut rig = long_talk(vec![say("last")]).await;
    rig.send(Command::Compact { focus: None }).await;
    assert!(rig.finished().await.compaction.by_hand.is_some(), "headless it has a result of its own");
    rig.turn("and now").await;
    let request = rig.model.turns().pop().unwrap();
    assert!(request.lines()[0].contains("## Goal"), "{}", request.lines()[0]);
    assert_eq!(request.last(), "user: and now");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_cancels_it_and_leaves_the_history_as_it_was() {
    let mut rig = long_talk(vec![say("last")]).await;
    rig.model.script.lock().unwrap().summaries.push_back(Reply::Hang("## Goal"));
    let before = rig.model.turns().pop().unwrap().lines();
    rig.send(Command::Compact { focus: None }).await;
    rig.event(|event| matches!(event, Event::CompactionStarted { .. })).await;
    rig.send(Command::Interrupt).await;
    assert_eq!(rig.finished().await.end, TurnEnd::Interrupted);
    rig.turn("and now").await;
    assert_eq!(rig.model.turns().pop().unwrap().lines()[..before.len()], before);
    let session = rig.end().await;
    let entries: Vec<_> = session.lock().unwrap().entries().unwrap().map(|entry| entry.kind).collect();
    assert!(!entries.iter().any(|kind| matches!(kind, EntryKind::Compaction(_))));
}

#[tokio::test(start_paused = true)]
async fn a_summariser_that_hangs_is_given_up_after_ninety_seconds() {
    let mut rig = long_talk(vec![]).await;
    rig.model.script.lock().unwrap().summaries.push_back(Reply::Hang("## Goal"));
    let begun = tokio::time::Instant::now();
    rig.send(Command::Compact { focus: None }).await;
    rig.event(|event| matches!(event, Event::CompactBoundary { .. })).await;
    assert_eq!(begun.elapsed().as_secs(), 90);
}

#[tokio::test(start_paused = true)]
async fn what_is_typed_while_it_compacts_runs_once_after_it() {
    let mut rig = long_talk(vec![say("typed")]).await;
    rig.model.script.lock().unwrap().summaries.push_back(Reply::Hang(""));
    rig.send(Command::Compact { focus: None }).await;
    rig.event(|event| matches!(event, Event::CompactionStarted { .. })).await;
    rig.send(prompt("typed meanwhile")).await;
    assert!(rig.finished().await.compaction.by_hand.is_some());
    let result = rig.finished().await;
    assert_eq!(result.text, "typed");
    let lines = rig.model.turns().pop().unwrap().lines();
    assert_eq!(lines.iter().filter(|line| *line == "user: typed meanwhile").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cold_cache_is_the_time_to_prune() {
    let mut replies = Vec::new();
    for n in 0..4 {
        replies.push(calls(vec![call(&format!("t{n}"), "read", serde_json::json!({"path": "big 180000"}))]));
        replies.push(say("ok"));
    }
    replies.push(say("cold"));
    let mut rig = Setup::with_window(1_000_000, replies).start();
    for n in 0..4 {
        rig.turn(&format!("q{n}")).await;
    }
    assert!(!rig.names().contains(&"pruned".to_owned()));
    tokio::time::advance(std::time::Duration::from_secs(301)).await;
    rig.turn("later").await;
    assert!(rig.names().contains(&"pruned".to_owned()));
    assert!(
        rig.model.turns().pop().unwrap().lines()[2]
            .starts_with("result t0: <tool-output-compacted id=\"t0\"")
    );
}

#[tokio::test(start_paused = true)]
async fn rules_that_changed_are_read_again_with_a_compaction_and_not_before() {
    let replies = [bash("w", "wait")].into_iter().chain(busy(12)).chain([say("ok")]);
    let mut setup = Setup::with_window(32_000, replies.collect());
    setup.policy.prune = false;
    let rules = setup.cwd().join("AGENTS.md");
    write(&setup.cwd(), "AGENTS.md", "Old rule.");
    let mut rig = setup.start();
    rig.send(prompt("go")).await;
    rig.event(|event| matches!(event, Event::ToolStarted { .. })).await;
    std::fs::write(rules, "New rule.").unwrap();
    rig.world.go.notify_one();
    rig.finished().await;
    let has = |rule: &str| {
        let blocks = |seen: &Seen| seen.context.system.iter().any(|block| block.ends_with(rule));
        rig.model.turns().iter().map(blocks).collect::<Vec<_>>()
    };
    let (old, new) = (has("Old rule."), has("New rule."));
    let changed = new.iter().position(|new| *new).unwrap();
    assert!(changed > 1, "not before the compaction");
    assert!(old[..changed].iter().all(|old| *old) && new[changed..].iter().all(|new| *new));
}
