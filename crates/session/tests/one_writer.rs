//! Two processes with the same session, and a folder that is deleted: one process writes, the other one
//! notices.
//!
//! The second process acts between two disk calls of the first one, for every pair of consecutive calls. This
//! simulates that the first one was suspended there and continued afterwards.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod disks;
mod given;

use becket_session::context::Policy;
use becket_session::ledger;
use becket_session::store::{Disk, Io, Outside, StoreError, ledger_path, read_entries};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{Entry, EntryKind, Message, Millis};
use disks::Unforced;
use disks::hooked::Hooked;
use given::scope;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn user(text: &str) -> EntryKind {
    EntryKind::Message { message: Message::user(text) }
}

fn outside(io: Arc<dyn Io>) -> Outside {
    Outside { io, clock: Arc::new(|| Millis(7)) }
}

fn open(dir: &Path, io: Arc<dyn Io>) -> Result<Session, StoreError> {
    Session::open_with(dir, Policy::default(), scope(), outside(io))
}

/// A session with two messages that nobody has open.
fn stored(root: &Path) -> PathBuf {
    let options =
        CreateOptions { persist: true, outside: outside(Arc::new(Unforced)), ..CreateOptions::default() };
    let mut session = Session::create(root, root, options, Policy::default(), scope()).unwrap();
    session.append(vec![user("one")], Durability::Synced).unwrap();
    session.append(vec![user("two")], Durability::Synced).unwrap();
    session.dir().to_path_buf()
}

/// All entries; damage is a failure.
fn entries(dir: &Path) -> Vec<Entry> {
    read_entries(dir).unwrap().map(|item| item.unwrap().unwrap()).collect()
}

fn texts(entries: &[Entry]) -> Vec<String> {
    entries
        .iter()
        .filter_map(|entry| match &entry.kind {
            EntryKind::Message { message } => Some(message.text()),
            _ => None,
        })
        .collect()
}

#[test]
fn a_second_process_is_told_what_it_can_do() {
    let root = tempfile::tempdir().unwrap();
    let dir = stored(root.path());
    let mut first = open(&dir, Arc::new(Unforced)).unwrap();
    let said = open(&dir, Arc::new(Unforced)).unwrap_err().to_string();
    for way in ["--fork-session", "--take-over", "becket export"] {
        assert!(said.contains(way), "{way}: {said}");
    }
    // Reading and forking work meanwhile, and take nothing from the first.
    assert_eq!(Session::peek(&dir, Policy::default(), scope()).unwrap().view.last_seq(), first.last_seq());
    let options =
        CreateOptions { persist: true, outside: outside(Arc::new(Unforced)), ..CreateOptions::default() };
    let mut fork =
        Session::fork(&dir, None, root.path(), root.path(), options, Policy::default(), scope()).unwrap();
    fork.append(vec![user("in the fork")], Durability::Synced).unwrap();
    first.append(vec![user("three")], Durability::Synced).unwrap();
    assert_eq!(texts(&entries(&dir)), ["one", "two", "three"]);
    assert_eq!(texts(&entries(fork.dir())), ["one", "two", "in the fork"]);
}

/// A process asks before each thing that it does outside, when it may have nothing to write.
#[test]
fn a_process_learns_of_a_takeover_without_writing() {
    let root = tempfile::tempdir().unwrap();
    let dir = stored(root.path());
    let mut first = open(&dir, Arc::new(Unforced)).unwrap();
    first.check_held().unwrap();
    ledger::take_over(&Unforced, &dir).unwrap();
    let before = fs::read(ledger_path(&dir)).unwrap();
    for _ in 0..2 {
        assert!(matches!(first.check_held(), Err(StoreError::TakenOver { .. })));
    }
    assert!(first.append(vec![user("afterwards")], Durability::Buffered).is_err());
    assert_eq!(fs::read(ledger_path(&dir)).unwrap(), before);
    // A folder that is gone is no takeover: the work goes on in memory.
    let root = tempfile::tempdir().unwrap();
    let dir = stored(root.path());
    let mut first = open(&dir, Arc::new(Unforced)).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    first.check_held().unwrap();
}

#[test]
fn a_process_that_was_stopped_anywhere_notices_that_its_session_was_taken_over() {
    // The first process writes two lines and flushes.
    let lines = |session: &mut Session| {
        let mut done = Vec::new();
        for text in ["from the first", "from the first again"] {
            done.push(session.append(vec![user(text)], Durability::Synced).map(|_| text));
        }
        done
    };
    let calls = {
        let root = tempfile::tempdir().unwrap();
        let io = Hooked::new(0, |_, _| Ok(()));
        let mut session = open(&stored(root.path()), Arc::clone(&io) as Arc<dyn Io>).unwrap();
        let before = io.calls();
        lines(&mut session);
        before..io.calls()
    };
    assert!(calls.len() >= 8, "{calls:?}");
    for at in calls {
        let root = tempfile::tempdir().unwrap();
        let dir = stored(root.path());
        let there = dir.clone();
        let io = Hooked::new(0, move |n, _| {
            if n == at + 1 {
                ledger::take_over(&Unforced, &there).unwrap();
                let mut second = open(&there, Arc::new(Unforced)).unwrap();
                second.append(vec![user("from the second")], Durability::Synced).unwrap();
            }
            Ok(())
        });
        let mut first = open(&dir, Arc::clone(&io) as Arc<dyn Io>).unwrap();
        let done = lines(&mut first);
        let kept = texts(&entries(&dir));
        assert_eq!(kept.iter().filter(|t| *t == "from the second").count(), 1, "call {at}: {kept:?}");
        for (n, outcome) in done.iter().enumerate() {
            match outcome {
                Ok(text) => assert!(kept.iter().any(|k| k == text), "call {at}: {text} counted and is lost"),
                Err(StoreError::TakenOver { .. }) => {
                    assert!(done[n..].iter().all(Result::is_err), "call {at}: it writes again");
                }
                Err(other) => panic!("call {at}: {other}"),
            }
        }
        // Whatever the second process did, from here on the first one cannot write.
        let last = first.append(vec![user("afterwards")], Durability::Buffered);
        assert!(matches!(last, Err(StoreError::TakenOver { .. })), "call {at}: {last:?}");
        assert!(first.has_unsaved() && !first.flush(), "call {at}: what was refused is not saved");
        drop(first);
        assert_eq!(texts(&entries(&dir)), kept, "call {at}: nothing came later");
        let after = kept.iter().position(|t| t == "from the second").unwrap();
        assert_eq!(after + 1, kept.len(), "call {at}: the first wrote behind the second: {kept:?}");
    }
}

#[test]
fn taking_over_fails_at_any_call_without_harm() {
    let calls = {
        let root = tempfile::tempdir().unwrap();
        let dir = stored(root.path());
        let _first = open(&dir, Arc::new(Unforced)).unwrap();
        let io = Hooked::new(32, |_, _| Ok(()));
        ledger::take_over(io.as_ref(), &dir).unwrap();
        io.calls()
    };
    assert!(calls >= 8, "{calls}");
    for at in 1..=calls {
        let root = tempfile::tempdir().unwrap();
        let dir = stored(root.path());
        let mut first = open(&dir, Arc::new(Unforced)).unwrap();
        let before = entries(&dir);
        let io = Hooked::new(
            32,
            move |n, _| {
                if n == at { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
            },
        );
        assert!(ledger::take_over(io.as_ref(), &dir).is_err(), "call {at}");
        assert_eq!(entries(&dir), before, "call {at}");
        // After the failed takeover, the first process either writes, or its append fails and writes nothing.
        let went_on = first.append(vec![user("on")], Durability::Synced).is_ok();
        assert_eq!(texts(&entries(&dir)).len(), 2 + usize::from(went_on), "call {at}");
        ledger::take_over(&Disk, &dir).unwrap();
        let mut second = open(&dir, Arc::new(Unforced)).unwrap();
        second.append(vec![user("second")], Durability::Synced).unwrap();
        assert!(first.append(vec![user("no more")], Durability::Synced).is_err(), "call {at}");
    }
}

#[test]
fn a_folder_that_goes_away_means_memory_and_one_notice() {
    let total = {
        let root = tempfile::tempdir().unwrap();
        let io = Hooked::new(0, |_, _| Ok(()));
        let mut session = open(&stored(root.path()), Arc::clone(&io) as Arc<dyn Io>).unwrap();
        let before = io.calls();
        session.append(vec![user("three")], Durability::Synced).unwrap();
        session.append(vec![user("four")], Durability::Synced).unwrap();
        before..io.calls()
    };
    for moved in [false, true] {
        for at in total.clone() {
            let root = tempfile::tempdir().unwrap();
            let dir = stored(root.path());
            let (there, away) = (dir.clone(), root.path().join("away"));
            let io = Hooked::new(0, move |n, _| {
                if n == at + 1 {
                    if moved { fs::rename(&there, &away)? } else { fs::remove_dir_all(&there)? }
                }
                Ok(())
            });
            let mut session = open(&dir, Arc::clone(&io) as Arc<dyn Io>).unwrap();
            for text in ["three", "four", "five"] {
                session.append(vec![user(text)], Durability::Synced).unwrap();
            }
            let kept: Vec<Entry> = session.entries().unwrap().collect();
            assert_eq!(texts(&kept), ["one", "two", "three", "four", "five"], "call {at}");
            assert_eq!(session.view_mut().context().messages.len(), 5, "call {at}");
            let notices = session.take_notices();
            let told = notices.iter().filter(|n| n.contains("in memory")).count();
            assert_eq!(told, 1, "call {at}: {notices:?}");
            assert!(!session.flush(), "call {at}: something waits for good");
            drop(session);
            assert!(!ledger_path(&dir).exists(), "call {at}: nothing is made again behind a person's back");
        }
    }
}

#[test]
fn a_lock_file_that_was_deleted_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    let dir = stored(root.path());
    let mut first = open(&dir, Arc::new(Unforced)).unwrap();
    fs::remove_file(dir.join("lock")).unwrap();
    first.append(vec![user("three")], Durability::Buffered).unwrap();
    assert!(matches!(open(&dir, Arc::new(Unforced)), Err(StoreError::Locked { .. })));
    first.append(vec![user("four")], Durability::Buffered).unwrap();
    assert_eq!(texts(&entries(&dir)), ["one", "two", "three", "four"]);
    assert!(first.take_notices().is_empty());
}

#[test]
fn a_newer_format_is_named_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let dir = stored(root.path());
    let text = fs::read_to_string(ledger_path(&dir)).unwrap();
    // Ledgers as a later version may write them: with the same lines, or with lines of another form.
    let later = text.replace("\"format\":1", "\"format\":2");
    let other = format!("{{\"format\":2,\"version\":\"9.0\"}}\u{1}\n{text}");
    for newer in [later, other] {
        fs::write(ledger_path(&dir), &newer).unwrap();
        let names = || fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
        let before = names();
        for refused in [
            open(&dir, Arc::new(Unforced)).unwrap_err(),
            Session::fork(
                &dir,
                None,
                root.path(),
                root.path(),
                CreateOptions::default(),
                Policy::default(),
                scope(),
            )
            .unwrap_err(),
        ] {
            let said = refused.to_string();
            assert!(said.contains("format 2") && said.contains("update becket"), "{said}");
        }
        assert_eq!(fs::read_to_string(ledger_path(&dir)).unwrap(), newer);
        assert_eq!(names(), before);
    }
}
