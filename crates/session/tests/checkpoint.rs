//! Opening from a checkpoint shows what folding the whole ledger shows.
//!
//! Random ledgers with compactions, prunes, pins, reverts of anything, also of what lies before the checkpoint. 10,000
//! cases; `PROPTEST_CASES` for more.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod given;
mod ledgers;

use becket_session::context::Policy;
use becket_session::context::view::{Checkpoint, View};
use becket_types::{
    CallId, Cost, EntryKind, Message, MessageId, Millis, Part, Seq, SessionId, SubagentReport, Usage, Used,
};
use ledgers::{Op, World, assert_same, cases, few_ops};
use proptest::prelude::*;

/// The view as another process would find it: through the text of its checkpoint.
fn restored(view: &View) -> View {
    let text = serde_json::to_vec(&view.checkpoint()).unwrap();
    let checkpoint: Checkpoint = serde_json::from_slice(&text).unwrap();
    assert_eq!(checkpoint.last_seq(), view.last_seq());
    View::restore(Policy::default(), view.scope().clone(), checkpoint).unwrap()
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// A session that is opened again and again, each time from a checkpoint, and one that never left memory.
    #[test]
    fn a_restored_view_goes_on_as_the_folded_one(ops in few_ops(), restarts in any::<u64>(), looks in any::<u64>()) {
        let mut world = World::new();
        let mut view = world.fresh();
        for (nth, op) in ops.iter().enumerate() {
            let known = world.entries.len();
            world.run(op);
            if let Op::Scope { .. } = op {
                view.set_scope(world.scope.clone());
            }
            for entry in &world.entries[known..] {
                view.apply(entry);
                if view.stale() {
                    view = View::fold(
                        Policy::default(),
                        world.scope.clone(),
                        world.entries.iter().filter(|e| e.seq <= entry.seq),
                    );
                }
            }
            if restarts >> (nth % 64) & 1 == 1 {
                view = restored(&view);
            }
            if (looks >> (nth % 64)).trailing_zeros() >= 2 {
                assert_same(&mut view, &mut world.fresh(), &world);
            }
        }
        assert_same(&mut view, &mut world.fresh(), &world);
    }

    /// Reverts of entries before the checkpoint, in any order, and reverts of these reverts.
    #[test]
    fn an_undo_reaches_behind_the_checkpoint(ops in few_ops(), undone in proptest::collection::vec(0u64..64, 1..4)) {
        let mut world = World::new();
        for op in &ops {
            world.run(op);
        }
        let mut view = restored(&world.view);
        for back in undone {
            let target = Seq((world.entries.len() as u64).saturating_sub(back).max(1));
            world.push(EntryKind::Revert { entry: target });
            view.apply(world.entries.last().unwrap());
            if view.stale() {
                view = restored(&world.fresh());
            }
            assert_same(&mut view, &mut world.fresh(), &world);
        }
    }
}

const USER: Op = Op::User { text: 0, image: false, steer: false };
const RESULT: Op = Op::Result { open: false, n: 0, output: 0, error: false, image: false };

fn calls(n: usize) -> Op {
    Op::Assistant { parts: vec![(5, n)], finish: 0 }
}

/// Returns the world after these operations and the view restored at that point, with the entry reverted in
/// both. The flag is true if the view was not computed again from the start.
fn reverted(ops: &[Op], target: impl FnOnce(&World) -> Seq) -> (World, View, bool) {
    let mut world = ledgers::built(ops);
    let mut view = restored(&world.view);
    let target = target(&world);
    world.push(EntryKind::Revert { entry: target });
    view.apply(world.entries.last().unwrap());
    let stale = view.stale();
    (world, view, !stale)
}

/// The first compaction keeps a call, because a message that it keeps answers the call. The second compaction removes that
/// message, which then is in no checkpoint. The call must stay, also when something later is undone.
#[test]
fn an_undo_leaves_what_earlier_compactions_left() {
    let ops = [
        calls(6),
        RESULT,
        Op::OddResult { n: 1 },
        USER,
        Op::Compact { tail: 0, keep: 2, idle: true },
        Op::Pin { n: 0, call: false },
        USER,
        Op::Compact { tail: 0, keep: 63, idle: true },
        Op::Assistant { parts: vec![], finish: 0 },
        USER,
    ];
    let (world, mut view, at_once) = reverted(&ops, |world| world.view.last_seq());
    assert!(at_once, "nothing that is undone lies behind the checkpoint");
    assert_eq!(view.live().map(|m| m.seq.0).collect::<Vec<_>>(), [1, 3, 8, 10]);
    assert_same(&mut view, &mut world.fresh(), &world);
}

/// The first compaction kept this message only because it was pinned: another message counted as the user's last words. That
/// other one is in no checkpoint any more. So when the pin is reverted, the view asks for a fold of the whole ledger,
/// instead of mistaking the unpinned message for the last words.
#[test]
fn an_unpinned_message_leaves_with_the_compaction_that_it_was_pinned_for() {
    let ops = [
        USER,
        Op::Pin { n: 0, call: false },
        USER,
        Op::Compact { tail: 0, keep: 63, idle: true },
        USER,
        Op::Compact { tail: 0, keep: 63, idle: true },
        USER,
    ];
    let (world, _, at_once) = reverted(&ops, |_| Seq(2));
    assert!(!at_once);
    assert_eq!(world.fresh().live().map(|m| m.seq.0).collect::<Vec<_>>(), [5, 7]);
}

mod stored {
    //! Openings from a checkpoint with sessions on disk that are long enough to have one.

    use super::{given, ledgers};
    use becket_session::context::Policy;
    use becket_session::store::{ledger_path, read_entries};
    use becket_session::{CreateOptions, Durability, Session};
    use becket_types::{
        CallId, Compaction, ContextMessage, EntryKind, JournalState, Message, Part, PinTarget,
        RepeatedContext, Seq, TurnState,
    };
    use serde_json::{Value, json};
    use std::fs;
    use std::io::Write;
    use std::path::{Path, PathBuf};

    fn open(dir: &Path) -> Session {
        Session::open(dir, Policy::default(), ledgers::scope(0, true)).unwrap()
    }

    fn compaction(session: &Session, nth: u64) -> EntryKind {
        let live: Vec<Seq> = session.view().live().map(|m| m.seq).collect();
        EntryKind::Compaction(Box::new(Compaction {
            summary: format!("## Goal\nsummary {nth}"),
            replaces: None,
            repeated: RepeatedContext { state: format!("todo {nth}"), ..RepeatedContext::default() },
            ..given::compaction(session, live[live.len() - 5])
        }))
    }

    /// A session of some megabytes with a compaction every 30 steps. Returns its folder and the compactions' entries.
    fn long(root: &Path, steps: u64) -> (PathBuf, Vec<Seq>) {
        let options = CreateOptions { persist: true, version: "1".into(), ..CreateOptions::default() };
        let mut session =
            Session::create(root, root, options, Policy::default(), ledgers::scope(0, true)).unwrap();
        let mut compactions = Vec::new();
        let put = |session: &mut Session, kinds: Vec<EntryKind>| {
            session.append(kinds, Durability::Buffered).unwrap().first().copied().unwrap()
        };
        for n in 0..steps {
            if n % 20 == 0 {
                let user = put(
                    &mut session,
                    vec![EntryKind::Message { message: Message::user(format!("words {n}")) }],
                );
                if n % 60 == 0 {
                    let id = session.view().live().last().unwrap().id;
                    put(&mut session, vec![EntryKind::Pin { target: PinTarget::Message(id) }]);
                }
                if n % 80 == 0 {
                    put(&mut session, vec![EntryKind::Revert { entry: user }]);
                }
            }
            // Some providers number calls from 0 again and again.
            let call = CallId(format!("call_{}", n % 7));
            let answer = Message::assistant(vec![Part::tool_call(call.0.clone(), "read", json!({"n": n}))]);
            put(&mut session, vec![EntryKind::Message { message: answer }]);
            put(
                &mut session,
                vec![EntryKind::ToolJournal {
                    call_id: call.clone(),
                    state: JournalState::Finished,
                    tool: Some("read".into()),
                    subject: Some(format!("file {n}")),
                    result: Value::Null,
                }],
            );
            let output = format!("{n} ").repeat(5_000);
            put(
                &mut session,
                vec![EntryKind::Message { message: Message::tool_result(call, "read", output, false) }],
            );
            put(&mut session, vec![EntryKind::State { key: "todo".into(), value: json!(n) }]);
            if n % 30 == 29 {
                let compact = compaction(&session, n);
                let mut go_on = Message::user("continue");
                go_on.metadata.compaction_continue = true;
                compactions.push(put(&mut session, vec![compact, EntryKind::Message { message: go_on }]));
                put(&mut session, vec![EntryKind::Title { title: format!("title {n}") }]);
                put(
                    &mut session,
                    vec![EntryKind::TurnEnd { end: "completed".into(), state: TurnState::AwaitingUser }],
                );
            }
            session.view_mut().context();
        }
        (session.dir().to_path_buf(), compactions)
    }

    /// Everything that an opening with a checkpoint and one without it must agree on.
    type Facts = (
        Vec<ContextMessage>,
        Vec<String>,
        TurnState,
        Option<Value>,
        Option<String>,
        Seq,
        usize,
        PathBuf,
        u64,
    );

    fn facts(mut session: Session) -> Facts {
        let view = session.view_mut();
        let messages = view.context().messages.iter().map(|m| ContextMessage::clone(m)).collect();
        let journal = view.journal().iter().map(|line| format!("{line:?}")).collect();
        let (state, todo) = (view.turn_state(), view.state("todo").cloned());
        let (tokens, calls) = (view.estimated_tokens().0, view.open_calls().len());
        let title = session.title().map(str::to_owned);
        (messages, journal, state, todo, title, session.last_seq(), calls, session.info().cwd.clone(), tokens)
    }

    fn checkpoint(dir: &Path) -> PathBuf {
        dir.join("checkpoint")
    }

    /// Opens with and without the checkpoint; both must agree, and neither may change the ledger.
    fn assert_agree(dir: &Path) {
        let before = fs::read(ledger_path(dir)).unwrap();
        let fast = facts(open(dir));
        let saved = fs::read(checkpoint(dir)).unwrap();
        fs::remove_file(checkpoint(dir)).unwrap();
        let whole = facts(open(dir));
        assert_eq!(fast, whole);
        assert!(!checkpoint(dir).exists(), "opening writes no checkpoint");
        assert_eq!(fs::read(ledger_path(dir)).unwrap(), before, "opening adds nothing");
        fs::write(checkpoint(dir), saved).unwrap();
    }

    /// Returns the notices of an opened session.
    fn notices(dir: &Path) -> Vec<String> {
        open(dir).take_notices()
    }

    #[test]
    fn a_long_session_opens_from_its_checkpoint_and_shows_the_same() {
        let root = tempfile::tempdir().unwrap();
        let (dir, compactions) = long(root.path(), 400);
        assert_agree(&dir);
        // Lines before the checkpoint are not read. Only readers of the whole ledger find a damaged one.
        let path = ledger_path(&dir);
        let sound = fs::read(&path).unwrap();
        let mut damaged = sound.clone();
        let second = sound.iter().position(|b| *b == b'\n').unwrap() + 100;
        damaged[second] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert!(!notices(&dir).concat().contains("ledger"));
        assert!(read_entries(&dir).unwrap().any(|item| item.unwrap().is_err()));
        // Without the checkpoint all lines are read, and the damage is reported.
        fs::remove_file(checkpoint(&dir)).unwrap();
        assert!(notices(&dir).concat().contains("line 2 "));
        fs::write(&path, &sound).unwrap();
        assert!(compactions.len() > 10);
    }

    #[test]
    fn undo_of_compactions_reaches_behind_the_checkpoint() {
        let root = tempfile::tempdir().unwrap();
        let (dir, compactions) = long(root.path(), 330);
        for entry in compactions.iter().rev().take(4) {
            let mut session = open(&dir);
            session.append(vec![EntryKind::Revert { entry: *entry }], Durability::Buffered).unwrap();
            let shown = facts(session);
            assert_eq!(shown, facts(open(&dir)));
            assert_agree(&dir);
        }
        // An undo of the undo.
        let mut session = open(&dir);
        let last = session.last_seq();
        session.append(vec![EntryKind::Revert { entry: last }], Durability::Buffered).unwrap();
        let shown = facts(session);
        assert_eq!(shown, facts(open(&dir)));
        assert_agree(&dir);
    }

    #[test]
    fn a_broken_foreign_or_old_checkpoint_is_not_believed() {
        let root = tempfile::tempdir().unwrap();
        let (dir, _) = long(root.path(), 240);
        let want = facts(open(&dir));
        let good = fs::read(checkpoint(&dir)).unwrap();
        let mut broken =
            vec![Vec::new(), b"x".to_vec(), good[..good.len() / 2].to_vec(), good[..64].to_vec()];
        for at in [0, 40, 64, 65, 70, good.len() / 2, good.len() - 1] {
            let mut flipped = good.clone();
            flipped[at] ^= 4;
            broken.push(flipped);
        }
        // A checkpoint of another session.
        let (other, _) = long(&root.path().join("other"), 240);
        broken.push(fs::read(checkpoint(&other)).unwrap());
        for bytes in broken {
            fs::write(checkpoint(&dir), bytes).unwrap();
            assert_eq!(facts(open(&dir)), want);
        }
        // The checkpoint is sound, but the ledger is shorter than it was.
        fs::write(checkpoint(&dir), &good).unwrap();
        let ledger = fs::read(ledger_path(&dir)).unwrap();
        let lines: Vec<&[u8]> = ledger.split_inclusive(|b| *b == b'\n').collect();
        for keep in [1, 2, lines.len() / 2] {
            fs::write(ledger_path(&dir), lines[..keep].concat()).unwrap();
            let fast = facts(open(&dir));
            fs::remove_file(checkpoint(&dir)).unwrap();
            assert_eq!(fast, facts(open(&dir)));
            fs::write(checkpoint(&dir), &good).unwrap();
        }
        // An old checkpoint is as good as a new one: more of the ledger is read after it.
        fs::write(ledger_path(&dir), &ledger).unwrap();
        let mut session = open(&dir);
        for n in 0..50 {
            let kinds = vec![EntryKind::Message { message: Message::user(format!("later {n}")) }];
            session.append(kinds, Durability::Buffered).unwrap();
        }
        drop(session);
        assert_agree(&dir);
    }

    #[test]
    fn torn_ends_and_damage_behind_the_checkpoint_are_found_with_their_line_numbers() {
        let root = tempfile::tempdir().unwrap();
        let (dir, _) = long(root.path(), 240);
        let mut file = fs::OpenOptions::new().append(true).open(ledger_path(&dir)).unwrap();
        file.write_all(b"{\"prev\":\"torn").unwrap();
        drop(file);
        let said = notices(&dir).concat();
        assert!(said.contains("was cut off (13 bytes)"), "{said}");
        assert_agree(&dir);
        let mut session = open(&dir);
        for n in 0..3 {
            let kinds = vec![EntryKind::Message { message: Message::user(format!("later {n}")) }];
            session.append(kinds, Durability::Buffered).unwrap();
        }
        drop(session);
        let mut bytes = fs::read(ledger_path(&dir)).unwrap();
        let lines = String::from_utf8_lossy(&bytes).lines().count();
        let at = bytes.len() - 20 - bytes.iter().rev().skip(1).position(|b| *b == b'\n').unwrap();
        bytes[at - 100] ^= 1;
        fs::write(ledger_path(&dir), bytes).unwrap();
        let said = notices(&dir).concat();
        assert!(said.contains(&format!("line {} ", lines - 1)), "{said} {lines}");
        assert_agree(&dir);
    }

    #[test]
    fn a_fork_has_its_own_checkpoint() {
        let root = tempfile::tempdir().unwrap();
        let (dir, compactions) = long(root.path(), 240);
        for upto in [None, Some(compactions[compactions.len() - 2])] {
            let options = CreateOptions { persist: true, version: "1".into(), ..CreateOptions::default() };
            let scope = ledgers::scope(0, true);
            let fork = Session::fork(&dir, upto, root.path(), root.path(), options, Policy::default(), scope)
                .unwrap();
            let forked = fork.dir().to_path_buf();
            drop(fork);
            assert!(checkpoint(&forked).exists());
            assert_agree(&forked);
        }
    }

    #[test]
    fn a_short_session_has_none() {
        let root = tempfile::tempdir().unwrap();
        let (dir, _) = long(root.path(), 31);
        assert!(!checkpoint(&dir).exists());
    }
}

/// The usage of requests, including subagents, is known without reading the ledger again.
#[test]
fn what_was_used_is_in_the_checkpoint() {
    let mut world = World::new();
    let usage = Usage { input: 10, output: 20, cache_read: 30, ..Usage::default() };
    let spent = |message| EntryKind::Usage {
        message,
        model: "p/m".into(),
        usage,
        cost_usd: 0.25,
        purpose: "turn".into(),
    };
    world.message(Message::user("go"));
    world.run(&Op::Assistant { parts: vec![(0, 0)], finish: 0 });
    world.push(spent(Some(MessageId::new())));
    // The usage of a summary or a title belongs to no answer.
    world.push(spent(None));
    let report = SubagentReport {
        agent: "general".into(),
        description: "look".into(),
        session: SessionId::new(),
        steps: 2,
        calls: Vec::new(),
        calls_left_out: 0,
        usage,
        cost: Cost(0.5),
        duration: Millis(5),
    };
    let mut result = Message::tool_result(CallId("c".into()), "task", "done", false);
    if let Some(Part::ToolResult { details, .. }) = result.parts.first_mut() {
        *details = serde_json::json!({ SubagentReport::KEY: report });
    }
    world.message(result);
    let view = world.fresh();
    assert_eq!(view.used(), Used { usage: usage + usage, cost: Cost(0.75) });
    assert_eq!(restored(&view).used(), view.used());
}
