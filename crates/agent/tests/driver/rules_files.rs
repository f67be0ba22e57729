//! Rules files through a session: each text is once in every request, and is counted.

use crate::support::*;
use becket_types::{Command, Event, TurnEnd};
use serde_json::json;
use std::path::Path;

const NESTED: &str = "Nested rule: never touch generated.rs.";

fn read(id: &str, path: &str) -> Reply {
    calls(vec![call(id, "read", json!({"path": path}))])
}

fn big(id: &str) -> Reply {
    bash(id, "big 14400")
}

/// Number of times that a request contains a text.
fn times(seen: &Seen, text: &str) -> usize {
    let system: usize = seen.context.system.iter().map(|block| block.matches(text).count()).sum();
    system + seen.lines().iter().map(|line| line.matches(text).count()).sum::<usize>()
}

async fn compact(rig: &mut Rig) {
    rig.send(Command::Compact { focus: None }).await;
    assert!(rig.finished().await.compaction.by_hand.is_some());
}

/// Turns with output, so that a compaction has something to remove.
async fn talk(rig: &mut Rig, turns: std::ops::Range<usize>) {
    for n in turns {
        assert_eq!(rig.turn(&format!("question {n}")).await.end, TurnEnd::Completed);
    }
}

fn replies(first: Vec<Reply>, turns: usize) -> Vec<Reply> {
    let mut replies = first;
    for n in 0..turns {
        replies.push(big(&format!("b{n}")));
        replies.push(say(&format!("answer {n}")));
    }
    replies
}

#[tokio::test(start_paused = true)]
async fn a_nested_text_stands_once_through_compactions_undo_and_resume() {
    let setup =
        Setup::new(replies(vec![read("r1", "sub/a.rs"), read("r2", "other/b.rs")], 8)).left(Vec::new());
    write(&setup.cwd(), "AGENTS.md", "Root rule.");
    write(&setup.cwd(), "sub/AGENTS.md", NESTED);
    write(&setup.cwd(), "other/CLAUDE.md", "Other rule.");
    let mut rig = setup.start();
    talk(&mut rig, 0..4).await;
    compact(&mut rig).await;
    talk(&mut rig, 4..5).await;
    compact(&mut rig).await;
    talk(&mut rig, 5..6).await;
    rig.send(Command::UndoCompaction).await;
    rig.event(|event| matches!(event, Event::CompactionReverted { .. })).await;
    talk(&mut rig, 6..7).await;
    let turns = rig.model.turns();
    for (n, seen) in turns.iter().enumerate().skip(2) {
        for text in ["Root rule.", NESTED, "Other rule."] {
            assert_eq!(times(seen, text), 1, "{text} in request {n}: {:?}", seen.lines());
        }
        assert_eq!(seen.context.system, turns[0].context.system, "the system prompt stays as it is");
    }
    let mut rig = rig.again(vec![read("r9", "sub/c.rs"), say("done")]).await.start();
    rig.turn("go on").await;
    for seen in rig.model.turns() {
        assert_eq!(times(&seen, NESTED), 1, "{:?}", seen.lines());
    }
}

#[tokio::test(start_paused = true)]
async fn a_nested_file_that_changed_is_current_after_a_compaction_and_a_resume() {
    let setup = Setup::new(replies(vec![read("r1", "sub/a.rs")], 4)).left(Vec::new());
    let cwd = setup.cwd();
    write(&cwd, "sub/AGENTS.md", NESTED);
    let mut rig = setup.start();
    talk(&mut rig, 0..3).await;
    write(&cwd, "sub/AGENTS.md", "Changed rule.");
    compact(&mut rig).await;
    talk(&mut rig, 3..4).await;
    let last = rig.model.turns().pop().unwrap();
    assert_eq!((times(&last, NESTED), times(&last, "Changed rule.")), (0, 1), "{:?}", last.lines());

    write(&cwd, "sub/AGENTS.md", "Changed again.");
    let mut rig = rig.again(replies(vec![], 3)).await.start();
    talk(&mut rig, 4..6).await;
    let last = rig.model.turns().pop().unwrap();
    assert_eq!(times(&last, "Changed again."), 1, "{:?}", last.lines());
    assert_eq!(times(&last, "these replace the earlier rules"), 1);
    compact(&mut rig).await;
    talk(&mut rig, 6..7).await;
    let last = rig.model.turns().pop().unwrap();
    let found =
        (times(&last, "Changed rule."), times(&last, "Changed again."), times(&last, "these replace"));
    assert_eq!(found, (0, 1, 0), "{:?}", last.lines());

    std::fs::remove_file(cwd.join("sub/AGENTS.md")).unwrap();
    let mut rig = rig.again(replies(vec![], 2)).await.start();
    talk(&mut rig, 7..8).await;
    assert_eq!(times(&rig.model.turns().pop().unwrap(), "The file is gone from disk."), 1);
    compact(&mut rig).await;
    talk(&mut rig, 8..9).await;
    let last = rig.model.turns().pop().unwrap();
    assert_eq!(times(&last, "sub/AGENTS.md"), 0, "{:?}", last.lines());
}

#[tokio::test(start_paused = true)]
async fn a_resumed_session_that_is_compacted_at_once_keeps_its_nested_rules() {
    let setup = Setup::new(replies(vec![read("r1", "sub/a.rs")], 3)).left(Vec::new());
    write(&setup.cwd(), "sub/AGENTS.md", NESTED);
    let mut rig = setup.start();
    talk(&mut rig, 0..3).await;
    let mut rig = rig.again(replies(vec![], 1)).await.start();
    compact(&mut rig).await;
    talk(&mut rig, 3..4).await;
    assert_eq!(times(&rig.model.turns()[0], NESTED), 1, "{:?}", rig.model.turns()[0].lines());
}

/// A rules file of 26 kB in a subfolder, in a window of 32,000 tokens.
#[tokio::test(start_paused = true)]
async fn large_nested_rules_do_not_end_a_session() {
    let mut replies: Vec<Reply> = vec![read("r1", "sub/a.rs")];
    replies.extend((0..14).map(|n| bash(&format!("c{n}"), &format!("big {}", 9_000 + 12 * n))));
    replies.push(say("finished"));
    let setup = Setup::with_window(32_000, replies);
    let rules = "Rule: keep the harbour constant in one place and test it.\n".repeat(450);
    write(&setup.cwd(), "sub/AGENTS.md", &rules);
    let mut rig = setup.start();
    let result = rig.turn("the task").await;
    assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, "finished"));
    assert!(result.compaction.count >= 1);
    let turns = rig.model.turns();
    for seen in &turns[1..] {
        assert_eq!(times(seen, "# Rules from"), 1, "{:?}", seen.lines());
        assert_eq!(times(seen, "Rule: keep the harbour"), 450);
    }
}

#[tokio::test(start_paused = true)]
async fn rules_larger_than_the_window_are_cut_with_a_notice_and_the_turn_goes_on() {
    for path in ["AGENTS.md", "sub/AGENTS.md"] {
        let mut replies: Vec<Reply> = vec![read("r1", "sub/a.rs")];
        replies.extend((0..12).map(|n| bash(&format!("c{n}"), &format!("big {}", 6_000 + 12 * n))));
        replies.push(say("finished"));
        let setup = Setup::with_window(16_000, replies);
        // Four files of 30 kB each: 33,000 tokens in a window of 16,000.
        let text = "Rule: be exact.\n".repeat(1_900);
        let at = Path::new(path).parent().unwrap();
        for name in ["one.md", "two.md", "three.md"] {
            write(&setup.cwd(), at.join(name).to_str().unwrap(), &format!("{name}\n{text}"));
        }
        write(&setup.cwd(), path, &format!("See @one.md @two.md @three.md\n{text}"));
        let cwd = setup.cwd();
        let mut rig = setup.start();
        let result = rig.turn("the task").await;
        assert_eq!(result.end, TurnEnd::Completed, "{path}");
        assert!(result.compaction.count <= 12, "{path}: {}", result.compaction.count);
        let told = |event: &&Event| matches!(event, Event::Notice { text, .. } if text.contains("rules files may fill at most"));
        assert_eq!(rig.log.iter().filter(told).count(), 1, "{path}");
        let last = rig.model.turns().pop().unwrap();
        let file = cwd.join(path);
        assert_eq!(times(&last, &format!("Read {} for the rest", file.display())), 1, "{path}");
    }
}
