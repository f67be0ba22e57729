//! Random damage, and what `becket doctor --repair` makes of it: a sound copy with everything that can be read, the rest
//! beside it, and the original as it was, byte for byte. 300 cases in every run, `PROPTEST_CASES` for more.
//!
//! And stores of earlier versions, which open for ever.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod disks;
mod given;

use becket_session::context::Policy;
use becket_session::ledger::{self, BadKind, Item};
use becket_session::salvage::{Outcome, salvage};
use becket_session::store::{self, Outside, ledger_path, read_entries};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{CallId, Entry, EntryKind, Message};
use disks::Unforced;
use given::scope;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn outside() -> Outside {
    Outside { io: Arc::new(Unforced), ..Outside::default() }
}

fn options() -> CreateOptions {
    CreateOptions { persist: true, outside: outside(), ..CreateOptions::default() }
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/store-1/sessions")
}

/// A copy of the stored data directory of format 1; the folder of its session.
fn copied(to: &Path) -> PathBuf {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().flatten() {
            let target = to.join(entry.file_name());
            if entry.path().is_dir() {
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    copy(&fixture(), to);
    store::session_dirs(to, None).unwrap().pop().unwrap()
}

/// Every file below a folder, with its bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

fn entries(dir: &Path) -> Vec<Entry> {
    read_entries(dir).unwrap().filter_map(|item| item.unwrap().ok()).collect()
}

#[test]
fn a_store_of_format_1_opens_for_ever() {
    let root = tempfile::tempdir().unwrap();
    let dir = copied(root.path());
    let before = fs::read(ledger_path(&dir)).unwrap();
    let mut session = Session::open_with(&dir, Policy::default(), scope(), outside()).unwrap();
    assert_eq!(session.take_notices(), [] as [String; 0]);
    assert_eq!((session.info().format, session.title()), (1, Some("the fixture")));
    assert_eq!(session.last_seq().0, 77);
    let entries: Vec<Entry> = session.entries().unwrap().collect();
    assert!(!entries.iter().any(|e| matches!(e.kind, EntryKind::Unknown(_))), "every kind is known");
    let said: Vec<String> = session.view_mut().context().messages.iter().map(|m| m.message.text()).collect();
    assert!(said.iter().any(|text| text.contains("## Goal")), "the compaction is in force: {said:?}");
    assert_eq!(said.last().unwrap(), "Done: beta is gamma now.");
    assert!(said.iter().any(|text| text == "after the compaction"));
    session.view_mut().check().unwrap();
    let long = session.original_output(&CallId("call_long".into()));
    assert!(long.unwrap().1.ends_with("7000\n"), "an output that is a blob");
    let tags = session.view().state("tags").unwrap();
    assert_eq!(tags, &serde_json::json!(["old", "gold"]));
    session.append(vec![EntryKind::Message { message: Message::user("on") }], Durability::Buffered).unwrap();
    drop(session);
    let after = fs::read(ledger_path(&dir)).unwrap();
    assert_eq!(after[..before.len()], before, "what was there is there as it was");
}

#[derive(Clone, Debug)]
enum Damage {
    Flip(usize, u8),
    Cut(usize),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    Zeros(usize, usize),
    Blob(usize, bool),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = || any::<u32>().prop_map(|n| n as usize);
    prop_oneof![
        4 => (at(), 1u8..=255).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        1 => at().prop_map(Damage::Cut),
        1 => (at(), 1usize..3_000).prop_map(|(at, n)| Damage::Remove(at, n)),
        1 => (at(), proptest::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => (at(), 1usize..5_000).prop_map(|(at, n)| Damage::Zeros(at, n)),
        1 => (at(), any::<bool>()).prop_map(|(n, cut)| Damage::Blob(n, cut)),
    ]
}

fn spoil(dir: &Path, damage: &Damage) {
    let path = ledger_path(dir);
    let mut bytes = fs::read(&path).unwrap();
    let len = bytes.len().max(1);
    let end = |at: usize, n: usize| (at % len + n).min(bytes.len());
    match damage {
        Damage::Flip(at, bits) => {
            if let Some(byte) = bytes.get_mut(at % len) {
                *byte ^= bits;
            }
        }
        Damage::Cut(at) => bytes.truncate(at % len),
        Damage::Remove(at, n) => drop(bytes.drain((at % len).min(bytes.len())..end(*at, *n))),
        Damage::Insert(at, new) => {
            let at = (at % len).min(bytes.len());
            bytes.splice(at..at, new.iter().copied());
        }
        Damage::Zeros(at, n) => {
            let range = (at % len).min(bytes.len())..end(*at, *n);
            bytes[range].fill(0);
        }
        Damage::Blob(n, cut) => {
            let blobs: Vec<PathBuf> = files(&dir.join("blobs")).into_keys().collect();
            let blob = &blobs[n % blobs.len()];
            let mut content = fs::read(blob).unwrap();
            if *cut {
                content.truncate(content.len() / 2);
            } else {
                content.fill(7);
            }
            fs::write(blob, content).unwrap();
        }
    }
    fs::write(&path, bytes).unwrap();
}

fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_repaired_copy_is_sound_and_the_original_untouched(damages in proptest::collection::vec(damage(), 1..5)) {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("sessions");
        let dir = copied(&root);
        for damage in &damages {
            spoil(&dir, damage);
        }
        let original = files(&dir);
        let readable = entries(&dir);
        let outcome = salvage(&dir, &root, home.path(), options()).unwrap();
        prop_assert_eq!(&files(&dir), &original, "the original was touched");
        let Outcome::Copied(made) = outcome else {
            if matches!(outcome, Outcome::Lost) {
                prop_assert!(readable.is_empty());
                return Ok(());
            }
            // The damage cut the ledger between two lines, or changed nothing. Then a reader finds no damage either.
            prop_assert!(matches!(outcome, Outcome::Sound));
            let sound = ledger::read(&dir).unwrap().all(|item| matches!(item.unwrap(), Item::Commit(_)));
            prop_assert!(sound);
            return Ok(());
        };
        // The copy is sound: every line has its hash and follows the previous one, every blob has the content that its name says.
        let mut kept = Vec::new();
        for item in ledger::read(&made.dir).unwrap() {
            match item.unwrap() {
                Item::Commit(commit) => kept.extend(commit),
                // An entry of unknown shape is kept as it is.
                Item::Bad(record) => prop_assert!(matches!(record.why, BadKind::Entry(_)), "{record}"),
            }
        }
        // Everything that could be read, unchanged, between the copy's own first entry and its own last two.
        let theirs: Vec<&Entry> = readable.iter().filter(|e| e.seq.0 > 1).collect();
        let ours: Vec<&Entry> = kept[1..kept.len() - 2].iter().collect();
        prop_assert_eq!(ours, theirs);
        prop_assert_eq!(made.entries as usize, kept.len() - 3);
        // All bytes of lines that could not be read are set aside, and the report names them.
        let lost: u64 = made.bad.iter()
            .filter(|r| !matches!(r.why, BadKind::ChainBreak | BadKind::Entry(_)))
            .map(|r| r.bytes).sum();
        let aside = fs::read(made.dir.join("ledger.damaged")).unwrap_or_default();
        prop_assert_eq!((aside.len() as u64, made.damaged_bytes), (lost, lost));
        let report = made.to_string();
        prop_assert!(made.bad.first().is_none_or(|r| report.contains(&r.to_string())), "{report}");
        prop_assert!(report.contains("the original is unchanged"));
        prop_assert!(report.contains(&format!("becket --resume {}", made.id)), "{report}");
        for name in &made.blobs {
            prop_assert!(made.dir.join("damaged").join(name).exists());
            prop_assert!(!made.dir.join("blobs").join(name).exists());
        }
        // The copy can be continued. A second repair does not make another copy.
        let mut session = Session::open_with(&made.dir, Policy::default(), scope(), outside()).unwrap();
        session.view_mut().context();
        session.view_mut().check().unwrap();
        session.append(vec![EntryKind::Message { message: Message::user("on") }], Durability::Buffered).unwrap();
        drop(session);
        let again = salvage(&dir, &root, home.path(), options()).unwrap();
        prop_assert!(matches!(again, Outcome::Done(id) if id == made.id));
        prop_assert!(matches!(salvage(&made.dir, &root, home.path(), options()).unwrap(),
            Outcome::Sound | Outcome::Copied(_)));
    }
}

#[test]
fn a_sound_session_is_not_copied() {
    let root = tempfile::tempdir().unwrap();
    let dir = copied(root.path());
    match salvage(&dir, root.path(), root.path(), options()).unwrap() {
        Outcome::Sound => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(store::session_dirs(root.path(), None).unwrap().len(), 1);
}

#[test]
fn of_a_session_of_which_nothing_can_be_read_no_copy_is_made() {
    let root = tempfile::tempdir().unwrap();
    let dir = copied(root.path());
    fs::write(store::ledger_path(&dir), b"\x00\xffnoise\nmore noise").unwrap();
    let original = files(&dir);
    assert!(matches!(salvage(&dir, root.path(), root.path(), options()).unwrap(), Outcome::Lost));
    assert_eq!((store::session_dirs(root.path(), None).unwrap().len(), files(&dir)), (1, original));
}
