//! Walking over a stored session shows at every entry what folding all entries before it shows, though little of it is in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ledgers;

use becket_session::context::Policy;
use becket_session::context::view::View;
use becket_session::ledger::{BadKind, Ledger, Proof};
use becket_session::store::{Disk, Durability, ledger_path, read_entries_without};
use becket_session::walk::{walk, walk_again};
use becket_types::{Entry, EntryKind, Message, Seq, Tokens};
use ledgers::{Op, World, assert_same, cases, few_ops, plain, scope};
use proptest::prelude::*;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

proptest! {
    #![proptest_config(cases(4_000))]

    /// Compactions, prunes, pins, restores, undos of anything. After each step one of the views drops what it does not show,
    /// or all but a part of it.
    #[test]
    fn a_view_that_lets_go_shows_what_one_that_keeps_all_shows(
        ops in few_ops(), room in prop_oneof![Just(0), 0u64..400], looks in any::<u64>(),
    ) {
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
                    let upto = world.entries.iter().filter(|e| e.seq <= entry.seq);
                    view = View::fold(Policy::default(), world.scope.clone(), upto);
                }
                view.let_go(Tokens(room));
            }
            if (looks >> (nth % 64)).trailing_zeros() >= 2 {
                assert_same(&mut view, &mut world.fresh(), &world);
            }
        }
        assert_same(&mut view, &mut world.fresh(), &world);
    }
}

/// A world with messages so long that they leave memory, and undos of what left.
fn long_world() -> World {
    let mut world = World::new();
    let mut compactions = Vec::new();
    for n in 0..40 {
        world.message(Message::user(format!("{n} {}", "many words of a long message ".repeat(2_000))));
        world.run(&Op::Assistant { parts: vec![(0, 0), (5, 1 + n % 5)], finish: 1 });
        world.run(&Op::Result { open: true, n: 0, output: n % 5, error: false, image: n % 7 == 0 });
        if n % 8 == 7 {
            world.run(&Op::Compact { tail: 4, keep: 63, idle: true });
            compactions.push(world.view.last_seq());
        }
        match n {
            10 => world.run(&Op::Pin { n: 20, call: false }),
            // Messages removed by the second compaction have left memory by now.
            28 => drop(world.push(EntryKind::Revert { entry: compactions[1] })),
            34 => world.run(&Op::Restore { n: 3 }),
            _ => {}
        }
    }
    world
}

fn stored(entries: &[Entry]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (first, rest) = entries.split_at(1);
    let mut ledger = Ledger::create(Arc::new(Disk), dir.path(), first).unwrap();
    for pair in rest.chunks(2) {
        ledger.append(pair, Durability::Buffered).unwrap();
    }
    dir
}

#[test]
fn each_entry_comes_with_the_view_of_those_before_it() {
    let world = long_world();
    let dir = stored(&world.entries);
    let mut seen = Vec::new();
    let walked = walk(dir.path(), Policy::default(), scope(0, true), &mut |entry, view| {
        let before = world.entries.iter().take(seen.len());
        // An inspector that compares models changes the scope like this.
        for model in [1, 0] {
            view.set_scope(scope(model, true));
            let mut whole = View::fold(Policy::default(), scope(model, true), before.clone());
            assert_eq!(view.context().messages, whole.context().messages, "before entry {}", entry.seq);
        }
        seen.push(entry.clone());
        ControlFlow::Continue(())
    });
    let mut walked = walked.unwrap();
    assert_eq!(seen, world.entries, "each entry once, also where the ledger is folded again");
    assert_eq!(walked.bad, []);
    assert_same(&mut walked.view, &mut world.fresh(), &world);
}

#[test]
fn a_walk_ends_where_it_is_broken_off_and_passes_over_what_is_damaged() {
    let world = long_world();
    let dir = stored(&world.entries);
    let mut file = std::fs::OpenOptions::new().append(true).open(ledger_path(dir.path())).unwrap();
    file.write_all(b"{\"prev\":\"torn").unwrap();
    let walked = walk(dir.path(), Policy::default(), scope(0, true), &mut |entry, _| {
        if entry.seq == Seq(30) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let mut walked = walked.unwrap();
    let mut whole = View::fold(Policy::default(), scope(0, true), &world.entries[..29]);
    assert_eq!(walked.view.last_seq(), Seq(29));
    assert_eq!(plain(&mut walked.view), plain(&mut whole));

    let all = walk(dir.path(), Policy::default(), scope(0, true), &mut |_, _| ControlFlow::Continue(()));
    let mut all = all.unwrap();
    assert_eq!(all.bad.len(), 1);
    assert_same(&mut all.view, &mut world.fresh(), &world);
    assert!(
        walk(&dir.path().join("none"), Policy::default(), scope(0, true), &mut |_, _| {
            ControlFlow::Continue(())
        })
        .is_err()
    );
}

/// The numbers that a walk shows, and what it cannot read.
fn again(dir: &std::path::Path, proof: Proof) -> (Vec<Seq>, Vec<BadKind>, Proof) {
    let mut seen = Vec::new();
    let walked = walk_again(dir, proof, Policy::default(), scope(0, true), &mut |entry, _| {
        seen.push(entry.seq);
        ControlFlow::Continue(())
    });
    let walked = walked.unwrap();
    (seen, walked.bad.into_iter().map(|bad| bad.why).collect(), walked.proof)
}

#[test]
fn what_was_proven_is_not_proven_again_and_what_came_since_is() {
    let world = long_world();
    let dir = stored(&world.entries);
    let path = ledger_path(dir.path());
    let change = |from: &str, to: &str| {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from) && from.len() == to.len());
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    };
    change("3 many words", "3 some words");
    let first = again(dir.path(), Proof::default());
    assert_eq!(first.1, [BadKind::Altered]);
    assert_eq!(again(dir.path(), first.2.clone()), first, "damage stays damage");
    // A line that the proof calls sound is not checked again. New lines are, and without a proof every line is.
    change("5 many words", "5 some words");
    assert_eq!(again(dir.path(), first.2.clone()).0, first.0);
    assert_eq!(again(dir.path(), Proof::default()).1.len(), 2);
    let last =
        std::fs::read_to_string(&path).unwrap().lines().last().unwrap().replace("\"time\":", "\"time\":1");
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(last.as_bytes()).unwrap();
    assert_eq!(again(dir.path(), first.2).1, [BadKind::Altered, BadKind::Altered]);
}

#[test]
fn kinds_that_are_not_wanted_are_left_out_and_the_rest_is_the_same() {
    let world = long_world();
    let dir = stored(&world.entries);
    let mut reader = read_entries_without(dir.path(), &["message", "tool_journal"]).unwrap();
    let read: Vec<Entry> = (&mut reader).map(|entry| entry.unwrap().unwrap()).collect();
    assert!(read.len() < world.entries.len());
    // An entry of an unwanted kind is returned if it shares its line with an unusual entry.
    let wanted = |e: &&Entry| !matches!(e.kind, EntryKind::Message { .. } | EntryKind::ToolJournal { .. });
    assert!(read.iter().filter(wanted).eq(world.entries.iter().filter(wanted)));
    assert_eq!(reader.proof(), again(dir.path(), Proof::default()).2);
}
