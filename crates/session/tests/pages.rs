//! The stretches of a session, one after the other from either end and of any length, are what replaying all of it gives.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ledgers;

use becket_session::ledger::Ledger;
use becket_session::pages::{Page, Pages};
use becket_session::replay;
use becket_session::store::{Disk, Durability, ledger_path};
use becket_types::{Entry, EntryKind, Event, Message, Role, Seq, TurnState};
use ledgers::{Op, World, cases, few_ops};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The entries as a session writes them: messages say their number.
fn entries_of(world: &World) -> Vec<Entry> {
    let mut entries = world.entries.clone();
    for entry in &mut entries {
        if let EntryKind::Message { message } = &mut entry.kind {
            message.seq = entry.seq;
        }
    }
    entries
}

fn stored(entries: &[Entry], commit: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (first, rest) = entries.split_at(1);
    let mut ledger = Ledger::create(Arc::new(Disk), dir.path(), first).unwrap();
    for some in rest.chunks(commit) {
        ledger.append(some, Durability::Buffered).unwrap();
    }
    dir
}

fn backward(dir: &Path, length: u64) -> Vec<Page> {
    let mut pages = Pages::with_length(dir, length);
    let mut all = Vec::new();
    let mut to = Seq(u64::MAX);
    while to > Seq(1) {
        let page = pages.before(Seq(1), to).unwrap();
        assert!(page.from < to, "{} is before {to}", page.from);
        to = page.from;
        all.push(page);
    }
    all.reverse();
    all
}

fn forward(dir: &Path, length: u64, last: Seq) -> Vec<Page> {
    let mut pages = Pages::with_length(dir, length);
    let mut all = Vec::new();
    let mut from = Seq(1);
    while from < last.next() {
        let page = pages.after(from, last.next()).unwrap();
        assert_eq!(page.from, from);
        assert!(page.to > from, "{} is behind {from}", page.to);
        from = page.to;
        all.push(page);
    }
    all
}

/// All events except `CompactionReverted`, and for each compaction if it counts in the end.
fn told(events: &[Event]) -> (Vec<&Event>, HashMap<Seq, bool>) {
    let mut counts = HashMap::new();
    let mut rest = Vec::new();
    for event in events {
        match event {
            Event::CompactionReverted { entry, counts: now } => drop(counts.insert(*entry, *now)),
            Event::CompactBoundary { entry, .. } => {
                counts.entry(*entry).or_insert(true);
                rest.push(event);
            }
            _ => rest.push(event),
        }
    }
    // Replaying the ledger gives no events about compactions that a rewind removed.
    let there = |entry: &Seq| {
        rest.iter().any(|event| matches!(event, Event::CompactBoundary { entry: e, .. } if e == entry))
    };
    counts.retain(|entry, _| there(entry));
    (rest, counts)
}

fn joined(pages: Vec<Page>) -> Vec<Event> {
    pages.windows(2).for_each(|pair| assert_eq!(pair[0].to, pair[1].from, "nothing between them"));
    pages.into_iter().flat_map(|page| page.events).collect()
}

/// The event's name, without parts that differ between a page and a replay of everything.
fn name(event: &Event) -> String {
    match event {
        Event::UserMessage { message, .. } => format!("user {}", message.seq),
        Event::AssistantMessage { message, .. } => format!("assistant {}", message.seq),
        Event::ToolFinished { message, .. } => format!("tool {}", message.seq),
        Event::SyntheticMessage { message } => format!("synthetic {}", message.seq),
        // A page knows duration and sums only for its own part of a turn.
        Event::TurnFinished(result) => format!("turn ended: {:?}", result.end),
        other => format!("{other:?}"),
    }
}

/// Replaces reverts of entries that an earlier revert has already taken out.
fn with_reverts_of_what_is_there(entries: Vec<Entry>) -> Vec<Entry> {
    let mut out: Vec<Entry> = Vec::new();
    let mut gone = HashSet::new();
    for mut entry in entries {
        if let EntryKind::Revert { entry: target } = entry.kind {
            if !gone.insert(target) {
                entry.kind = EntryKind::TurnEnd { end: "nothing".into(), state: TurnState::AwaitingUser };
            } else if out.iter().any(|e| {
                e.seq == target
                    && matches!(&e.kind, EntryKind::Message { message } if message.role == Role::User)
            }) {
                gone.extend(out.iter().map(|e| e.seq).filter(|seq| *seq >= target));
            }
        }
        out.push(entry);
    }
    out
}

proptest! {
    #![proptest_config(cases(500))]

    /// Entries in any order, reverts of anything.
    #[test]
    fn nothing_is_missing_and_nothing_twice(ops in few_ops(), length in 1u64..4_000, commit in 1usize..4) {
        let mut world = World::new();
        world.message(Message::user("first"));
        for op in &ops {
            world.run(op);
        }
        let entries = with_reverts_of_what_is_there(entries_of(&world));
        let dir = stored(&entries, commit);
        let want = replay::events(entries);
        let last = world.entries.last().unwrap().seq;
        for pages in [backward(dir.path(), length), forward(dir.path(), length, last)] {
            let got = joined(pages);
            let ((got, counts), (want, want_counts)) = (told(&got), told(&want));
            let names = |events: Vec<&Event>| events.into_iter().map(name).collect::<Vec<_>>();
            prop_assert_eq!(names(got), names(want));
            prop_assert_eq!(counts, want_counts);
        }
    }

    /// A copy has the entries up to a number, whatever its source appends or takes back later.
    #[test]
    fn pages_of_a_copy_end_where_the_copy_does(ops in few_ops(), commit in 1usize..4, share in 0usize..100) {
        let mut world = World::new();
        world.message(Message::user("first"));
        for op in &ops {
            world.run(op);
        }
        let entries = with_reverts_of_what_is_there(entries_of(&world));
        let dir = stored(&entries, commit);
        let kept = entries[..=share * (entries.len() - 1) / 100].to_vec();
        let last = kept.last().unwrap().seq;
        let page = Pages::open(dir.path()).upto(last).last().unwrap();
        prop_assert_eq!((page.from, page.to), (Seq(1), last.next()));
        let want = replay::events(kept);
        let ((got, counts), (want, want_counts)) = (told(&page.events), told(&want));
        let names = |events: Vec<&Event>| events.into_iter().map(name).collect::<Vec<_>>();
        prop_assert_eq!(names(got), names(want));
        prop_assert_eq!(counts, want_counts);
    }
}

/// Turns as the agent makes them, long and short; compactions, some undone, one for good; two rewinds, one far.
fn session() -> World {
    let mut world = World::new();
    let mut said = Vec::new();
    for n in 0..60_usize {
        said.push(world.message(Message::user(format!("{n} {}", "a word ".repeat(n * 7 % 90)))));
        for step in 0..n % 4 {
            world.run(&Op::Assistant { parts: vec![(0, step), (5, step)], finish: 1 });
            world.run(&Op::Result { open: true, n: 0, output: n % 5, error: n % 9 == 0, image: n % 7 == 0 });
            if step == 1 {
                // A message that steers the running turn.
                world.message(Message::user(format!("meanwhile {n}")));
            }
        }
        world.run(&Op::Assistant { parts: vec![(0, n % 3)], finish: 0 });
        if n % 8 == 7 {
            let compaction = world.compact(4, 63, true);
            if n % 16 == 7 {
                let undo = world.push(EntryKind::Revert { entry: compaction });
                if n == 39 {
                    world.push(EntryKind::Revert { entry: undo });
                }
            }
        }
        world.push(EntryKind::TurnEnd { end: "completed".into(), state: TurnState::AwaitingUser });
        if n == 30 || n == 50 {
            let to = said[if n == 30 { 28 } else { 20 }];
            let gone =
                world.entries.iter().filter(|e| e.seq >= to && matches!(e.kind, EntryKind::Message { .. }));
            let gone: Vec<Seq> = gone.map(|entry| entry.seq).collect();
            for entry in gone.into_iter().rev() {
                world.push(EntryKind::Revert { entry });
            }
        }
    }
    world
}

#[test]
fn stretches_of_a_session_are_its_events() {
    let world = session();
    let dir = stored(&entries_of(&world), 2);
    let want = replay::events(entries_of(&world));
    let last = world.entries.last().unwrap().seq;
    for length in [1, 900, 5_000, 40_000, 1 << 30] {
        for pages in [backward(dir.path(), length), forward(dir.path(), length, last)] {
            assert_eq!(pages.len() > 1, length < 1 << 20, "{length}");
            let got = joined(pages);
            let ((got, counts), (want, want_counts)) = (told(&got), told(&want));
            for (got, want) in got.iter().zip(&want) {
                match got {
                    Event::TurnFinished(_) => assert_eq!(name(got), name(want), "{length}"),
                    _ => assert_eq!(got, want, "{length}"),
                }
            }
            assert_eq!((got.len(), counts), (want.len(), want_counts), "{length}");
        }
    }
    let end = Pages::with_length(dir.path(), 1).last().unwrap();
    assert_eq!(end.from, Seq(1), "a short ledger is one stretch");
    assert_eq!(end.to, last.next());
}

/// A message that was dropped from the context by hand is still shown to people, and so is everything after it.
#[test]
fn what_was_left_out_by_hand_was_said_all_the_same() {
    let mut world = World::new();
    let said: Vec<Seq> = (0..6)
        .map(|n| {
            let seq = world.message(Message::user(format!("{n} words")));
            world.run(&Op::Assistant { parts: vec![(0, n)], finish: 0 });
            world.push(EntryKind::TurnEnd { end: "completed".into(), state: TurnState::AwaitingUser });
            seq
        })
        .collect();
    let before = entries_of(&world);
    let last = world.entries.last().unwrap().seq.0;
    world.push(EntryKind::Revert { entry: said[2] });
    world.push(EntryKind::Revert { entry: said[5] });
    let named =
        serde_json::json!({"context_edit": {"op": "drop", "items": [], "entries": [last + 1, last + 2]}});
    let extra = named.as_object().unwrap().clone();
    world.push(EntryKind::Notice { text: "Left out of the context by hand: 2 messages.".into(), extra });
    let by_hand = world.entries.len();
    world.push(EntryKind::Revert { entry: said[4] });
    let entries = entries_of(&world);

    let names = |events: &[Event]| events.iter().map(name).collect::<Vec<_>>();
    let mut want = names(&replay::events(before));
    let mut left_out = names(&replay::events(entries[..by_hand].to_vec()));
    assert!(left_out.pop().unwrap().contains("Left out of the context by hand"));
    assert_eq!(left_out, want);
    // A rewind to a message removes that message and everything after it.
    want.truncate(want.iter().position(|name| *name == format!("user {}", said[4])).unwrap());
    assert_eq!(names(&replay::events(entries.clone())), want);

    let dir = tempfile::tempdir().unwrap();
    let (first, rest) = entries.split_at(1);
    let (turns, edit) = rest.split_at(rest.len() - 4);
    let mut ledger = Ledger::create(Arc::new(Disk), dir.path(), first).unwrap();
    for commit in turns.chunks(2).chain([&edit[..3], &edit[3..]]) {
        ledger.append(commit, Durability::Buffered).unwrap();
    }
    for length in [1, 700, 1 << 20] {
        assert_eq!(names(&joined(backward(dir.path(), length))), want);
    }
}

#[test]
fn a_stretch_is_found_by_what_it_says() {
    let world = session();
    let dir = stored(&entries_of(&world), 3);
    let last = world.entries.last().unwrap().seq.next();
    let says = |words: &'static str| {
        move |page: &Page| {
            page.events.iter().any(|event| matches!(event, Event::UserMessage { message, .. } if message.text().starts_with(words)))
        }
    };
    let mut pages = Pages::with_length(dir.path(), 700);
    for back in [true, false] {
        let found = pages.find(Seq(1)..last, back, &mut says("12 ")).unwrap().unwrap();
        assert!(says("12 ")(&found));
        // Messages that a rewind removed are not found.
        assert_eq!(pages.find(Seq(1)..last, back, &mut says("25 ")).unwrap(), None);
        assert_eq!(pages.find(found.to..last, back, &mut says("12 ")).unwrap(), None);
    }
}

/// Entries that are appended later are found, and damaged ones are skipped.
#[test]
fn a_ledger_that_goes_on_and_one_that_is_damaged() {
    let world = session();
    let dir = stored(&entries_of(&world), 1);
    let mut pages = Pages::with_length(dir.path(), 2_000);
    let end = pages.before(Seq(1), Seq(u64::MAX)).unwrap();
    let first = pages.after(Seq(1), end.from).unwrap();
    assert!(first.events.len() > 2);

    let said = first.events.iter().rev().find_map(|event| match event {
        Event::UserMessage { message, .. } => Some(message.seq),
        _ => None,
    });
    let more: Vec<Entry> = std::iter::once(Entry {
        seq: world.entries.last().unwrap().seq.next(),
        time: becket_types::Millis(0),
        kind: EntryKind::Revert { entry: said.unwrap() },
    })
    .collect();
    let mut text = std::fs::read(ledger_path(dir.path())).unwrap();
    let at = text.len() / 2;
    let line = at + text[at..].iter().position(|b| *b == b'\n').unwrap() + 1;
    text[line + 100] ^= 1;
    std::fs::write(ledger_path(dir.path()), &text).unwrap();
    let mut ledger = Ledger::open(Arc::new(Disk), dir.path(), &mut |_| ()).unwrap().ledger;
    ledger.append(&more, Durability::Buffered).unwrap();

    let again = pages.after(Seq(1), end.from).unwrap();
    assert!(again.events.len() < first.events.len(), "the rewind that came since");
    let whole = joined(backward(dir.path(), 1_000));
    assert_eq!(joined(forward(dir.path(), 3_000, more[0].seq)).len(), whole.len());
    assert!(Pages::open(&dir.path().join("none")).last().is_err());
}
