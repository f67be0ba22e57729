//! Files come along with a compaction: what the driver reads, what it leaves closed, and what an edit may rely on.

use crate::support::*;
use becket_types::{Command, Event, PermissionMode, TurnEnd};
use serde_json::json;

fn read(id: &str, path: &str) -> Reply {
    calls(vec![call(id, "read", json!({"path": path}))])
}

fn replies(first: Vec<Reply>, turns: usize) -> Vec<Reply> {
    let mut replies = first;
    for n in 0..turns {
        replies.push(read(&format!("b{n}"), "big 28800"));
        replies.push(say(&format!("answer {n}")));
    }
    replies
}

async fn talk(rig: &mut Rig, turns: std::ops::Range<usize>) {
    for n in turns {
        assert_eq!(rig.turn(&format!("question {n}")).await.end, TurnEnd::Completed);
    }
}

async fn compact(rig: &mut Rig) {
    rig.send(Command::Compact { focus: None }).await;
    assert!(rig.finished().await.compaction.by_hand.is_some());
}

fn state(seen: &Seen) -> String {
    let line = seen.lines().into_iter().find(|line| line.contains("Files that you read or edited last"));
    line.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn read_files_come_along_and_need_no_second_read() {
    let mut first = vec![read("r1", "a.rs"), read("r2", "b.rs"), read("r3", "c.rs")];
    first.extend(vec![read("r4", ".env"), read("r5", "blob.bin")]);
    let setup = Setup::new(replies(first, 4)).left(Vec::new());
    let cwd = setup.cwd();
    for (name, text) in
        [("a.rs", "fn a() {}\nfn aa() {}\n"), ("b.rs", "fn b() {}\n"), ("c.rs", "fn c() {}\n")]
    {
        write(&cwd, name, text);
    }
    write(&cwd, ".env", "KEY=hunter2\n");
    std::fs::write(cwd.join("blob.bin"), b"a\0b").unwrap();
    let mut rig = setup.start();
    talk(&mut rig, 0..3).await;
    write(&cwd, "b.rs", "fn changed() {}\n");
    std::fs::remove_file(cwd.join("c.rs")).unwrap();
    compact(&mut rig).await;
    talk(&mut rig, 3..4).await;
    let told = state(&rig.model.turns().pop().unwrap());
    assert!(told.contains("1\tfn a() {}\n2\tfn aa() {}"), "{told}");
    assert!(told.contains("b.rs: changed on disk") && !told.contains("fn changed"), "{told}");
    assert!(told.contains("c.rs: gone from disk"), "{told}");
    assert!(told.contains("blob.bin: not attached, because it is not UTF-8 text"), "{told}");

    // An edit is compared with the hash of the attached content, also in the next process.
    let a = cwd.join("a.rs");
    let known = vec![bash("k", &format!("known {}", a.display())), say("ok")];
    let mut setup = rig.again(replies(vec![], 4)).await;
    // In a mode that asks for secrets, the file with the key stays closed.
    setup.mode = PermissionMode::Default;
    let mut rig = setup.start();
    talk(&mut rig, 4..7).await;
    compact(&mut rig).await;
    talk(&mut rig, 7..8).await;
    let told = state(&rig.model.turns().pop().unwrap());
    assert_eq!(told.matches("fn aa() {}").count(), 1, "once, after two compactions: {told}");
    assert!(!told.contains("hunter2"), "{told}");
    let mut rig = rig.again(known).await.start();
    rig.turn("do you know it?").await;
    let lines = rig.model.turns().pop().unwrap().lines();
    let hash = becket_tool::sha256(b"fn a() {}\nfn aa() {}\n");
    assert!(lines.contains(&format!("result k: Some(\"{hash}\")")), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn the_share_switches_it_off_and_undo_takes_it_back() {
    for (share, want) in [(0.0, 0), (0.15, 1)] {
        let mut setup = Setup::new(replies(vec![read("r1", "a.rs")], 6));
        setup.policy.reattach = share;
        write(&setup.cwd(), "a.rs", "fn only_here() {}\n");
        let mut rig = setup.start();
        talk(&mut rig, 0..3).await;
        let before = rig.model.turns().pop().unwrap().lines();
        compact(&mut rig).await;
        talk(&mut rig, 3..4).await;
        let text = rig.model.turns().pop().unwrap().lines().join("\n");
        assert_eq!(text.matches("fn only_here").count(), want, "{share}: {text}");
        rig.send(Command::UndoCompaction).await;
        rig.event(|event| matches!(event, Event::CompactionReverted { .. })).await;
        talk(&mut rig, 4..5).await;
        let after = rig.model.turns().pop().unwrap().lines();
        assert_eq!(after[..before.len()], before[..], "{share}");
        assert_eq!(after.join("\n").matches("fn only_here").count(), 1, "{share}: the read itself is back");
    }
}
