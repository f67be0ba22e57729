//! Power loss at every moment: what storage asked of the disk is recorded, and the states that a disk may be in afterwards
//! are made again and opened.
//!
//! The disk of this test promises no more than POSIX: bytes are kept once their file was forced, names once their folder
//! was, and before that any of them may be missing, whatever came later. An append that was not forced may be there in
//! part, or as zeros. Each state must open, hold everything that was acknowledged as synced with the blobs it names, and
//! otherwise a beginning of what was written. States of a simple make are gone through one by one; of those in which any
//! part of what was not forced is there and any other is not, many are drawn (`PROPTEST_CASES` for more).

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod disks;
mod given;
mod ledgers;

use becket_session::context::Policy;
use becket_session::index::{Index, Query};
use becket_session::store::{Io, Outside, SessionSummary, ledger_path, read_entries};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    BlobId, CallId, Compaction, Entry, EntryKind, JournalState, Message, Millis, Part, Seq, SessionId,
    TurnState,
};
use disks::Unforced;
use disks::lossy::{Bytes, Content, Moment, Names, Op, Recorder};
use given::scope;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A session under the recorder, with what it acknowledged.
struct Script {
    session: Session,
    io: Arc<Recorder>,
}

impl Script {
    fn put(&mut self, kinds: Vec<EntryKind>, durability: Durability) {
        self.session.append(kinds, durability).unwrap();
        if durability == Durability::Synced {
            let entries = self.session.last_seq().0 as usize;
            self.io.push(Op::Acknowledged(entries));
        }
    }

    /// A user's message, a call with side effects whose output is a blob, and its result.
    fn turn(&mut self, nth: usize) {
        use Durability::{Buffered, Synced};
        let call = CallId(format!("call_{nth}"));
        self.put(vec![EntryKind::Message { message: Message::user(format!("words {nth}")) }], Synced);
        let answer = Message::assistant(vec![Part::tool_call(call.0.clone(), "bash", json!({"n": nth}))]);
        self.put(vec![EntryKind::Message { message: answer }], Buffered);
        let journal = |state| EntryKind::ToolJournal {
            call_id: call.clone(),
            state,
            tool: Some("bash".into()),
            subject: None,
            result: Value::Null,
        };
        self.put(vec![journal(JournalState::Started)], Synced);
        let output = self.session.put_blob(format!("output {nth}").repeat(50).as_bytes()).unwrap();
        let streamed = self.session.blob_store().put_from(&mut format!("stream {nth}").as_bytes()).unwrap();
        let mut result = Message::tool_result(call.clone(), "bash", "short", false);
        for part in &mut result.parts {
            if let Part::ToolResult { spill, .. } = part {
                *spill = Some(output.clone());
            }
        }
        let file = Part::File {
            media_type: "text/plain".into(),
            blob: streamed,
            name: None,
            extra: serde_json::Map::default(),
        };
        let mut attached = Message::user("see the file");
        attached.parts.push(file);
        self.put(vec![journal(JournalState::Finished), EntryKind::Message { message: result }], Buffered);
        self.put(
            vec![EntryKind::Message { message: attached }],
            if nth.is_multiple_of(2) { Buffered } else { Synced },
        );
        self.put(
            vec![EntryKind::TurnEnd { end: "completed".into(), state: TurnState::AwaitingUser }],
            if nth.is_multiple_of(3) { Buffered } else { Synced },
        );
    }

    fn compact(&mut self, summary: String) {
        let tail = Seq(self.session.last_seq().0.saturating_sub(6));
        let compaction = Compaction { summary, ..given::compaction(&self.session, tail) };
        let mut go_on = Message::user("continue");
        go_on.metadata.compaction_continue = true;
        let kinds = vec![EntryKind::Compaction(Box::new(compaction)), EntryKind::Message { message: go_on }];
        self.put(kinds, Durability::Synced);
    }
}

fn outside(io: Arc<dyn Io>) -> Outside {
    Outside { io, clock: Arc::new(|| Millis(7)) }
}

fn script(root: &Path) -> Script {
    let io = Arc::new(Recorder::default());
    let options = CreateOptions {
        id: Some(SessionId::default()),
        persist: true,
        outside: outside(Arc::clone(&io) as Arc<dyn Io>),
        ..CreateOptions::default()
    };
    let session = Session::create(root, Path::new("/"), options, Policy::default(), scope()).unwrap();
    Script { session, io }
}

/// Five turns, with a compaction before the last.
fn five_turns(root: &Path) -> Script {
    let mut script = script(root);
    for nth in 0..4 {
        script.turn(nth);
    }
    script.compact("## Goal".into());
    script.turn(4);
    script
}

/// All entries of a stored session.
fn entries(dir: &Path) -> Vec<Entry> {
    read_entries(dir).unwrap().filter_map(|item| item.unwrap().ok()).collect()
}

fn blobs_in(entries: &[Entry]) -> Vec<BlobId> {
    let parts = entries.iter().flat_map(|entry| match &entry.kind {
        EntryKind::Message { message } => message.parts.as_slice(),
        _ => &[],
    });
    parts
        .filter_map(|part| match part {
            Part::File { blob, .. } | Part::ToolResult { spill: Some(blob), .. } => Some(blob.clone()),
            _ => None,
        })
        .collect()
}

/// Makes the state in a folder, opens it and says what is wrong.
fn check(
    state: &BTreeMap<PathBuf, Option<Vec<u8>>>,
    session: &Path,
    root: &Path,
    want: &[Entry],
    must: usize,
    hole: bool,
) {
    let scratch = tempfile::tempdir().unwrap();
    check_at(scratch.path(), state, session, root, want, must, hole);
}

/// As [`check`], in the folder `at`. Returns the entries that are left.
fn check_at(
    at: &Path,
    state: &BTreeMap<PathBuf, Option<Vec<u8>>>,
    session: &Path,
    root: &Path,
    want: &[Entry],
    must: usize,
    hole: bool,
) -> Vec<Entry> {
    let place = |path: &Path| at.join(path.strip_prefix(root).unwrap());
    for (path, bytes) in state {
        match bytes {
            None => fs::create_dir(place(path)).unwrap(),
            Some(bytes) => fs::write(place(path), bytes).unwrap(),
        }
    }
    let dir = place(session);
    if !ledger_path(&dir).exists() {
        assert_eq!(must, 0, "the ledger is gone");
        return Vec::new();
    }
    let opened = Session::open_with(&dir, Policy::default(), scope(), outside(Arc::new(Unforced)));
    let mut session = opened.unwrap();
    session.view_mut().context();
    session.view_mut().check().unwrap();
    let found: Vec<Entry> = session.entries().unwrap().collect();
    assert!(found.len() >= must, "{} entries of {must} acknowledged", found.len());
    if hole {
        // In a file with a hole, some entries in the middle are missing. The others are in order, and there is nothing else.
        assert_eq!(found[..must], want[..must]);
        let mut rest = want.iter();
        assert!(found.iter().all(|entry| rest.any(|w| w == entry)), "a mix");
    } else {
        assert_eq!(found, want[..found.len()], "not a beginning of what was written");
    }
    let blobs = session.blobs();
    for id in blobs_in(&found[..must]) {
        assert!(blobs.get(&id).is_some(), "blob {id} of an acknowledged entry is gone");
    }
    // The session can be continued.
    let next = session
        .append(
            vec![EntryKind::Message { message: Message::user("after the power loss") }],
            Durability::Synced,
        )
        .unwrap();
    assert!(next.iter().all(|seq| seq.0 as usize > found.len()));
    drop(session);
    let left = entries(&dir);
    assert_eq!(left.len(), found.len() + 1);
    left
}

/// Opens the state after every moment of the record, with every kind of loss. Returns the number of different states.
fn crash_everywhere(script: Script, root: &Path, bytes_too: &dyn Fn(usize) -> bool) -> usize {
    let Script { session, io } = script;
    let dir = session.dir().to_path_buf();
    let want: Vec<Entry> = session.entries().unwrap().collect();
    drop(session);
    let ops = std::mem::take(&mut io.log().ops);
    let mut moment = Moment { root: root.to_path_buf(), ..Moment::default() };
    let mut seen = HashSet::new();
    for (at, op) in ops.iter().enumerate() {
        moment.run(op);
        let changes = moment.pending.len().min(6);
        let names = [Names::All, Names::Forced]
            .into_iter()
            .chain((0..changes).flat_map(|back| [Names::Without(back), Names::Only(back)]));
        for names in names {
            let mut kinds = vec![Bytes::All, Bytes::Forced, Bytes::Share(0, true), Bytes::Hole];
            if matches!(names, Names::All | Names::Without(0)) && bytes_too(at) {
                let torn = [1, 16, 32, 48, 63]
                    .into_iter()
                    .flat_map(|n| [Bytes::Share(n, false), Bytes::Share(n, true)]);
                kinds.extend(torn);
            }
            for bytes in kinds {
                let state = moment.state(names, bytes);
                let mut hash = DefaultHasher::new();
                (&state, moment.acknowledged).hash(&mut hash);
                if seen.insert(hash.finish()) {
                    let hole = matches!(bytes, Bytes::Hole);
                    let tried = std::panic::catch_unwind(|| {
                        check(&state, &dir, root, &want, moment.acknowledged, hole);
                    });
                    assert!(tried.is_ok(), "power lost after operation {at} ({op:?}): {names:?}, {bytes:?}");
                }
            }
        }
    }
    seen.len()
}

#[test]
fn nothing_synced_is_lost_and_nothing_mixed_at_any_moment() {
    let root = tempfile::tempdir().unwrap();
    let script = five_turns(root.path());
    let states = crash_everywhere(script, root.path(), &|_| true);
    assert!(states > 500, "{states}");
}

#[test]
fn a_checkpoint_is_whole_or_not_believed() {
    let root = tempfile::tempdir().unwrap();
    let mut script = script(root.path());
    // Long enough for a checkpoint, and for entries after it.
    script.put(
        vec![EntryKind::Message { message: Message::user("long ".repeat(230_000)) }],
        Durability::Synced,
    );
    script.compact("## Goal".into());
    assert!(script.session.dir().join("checkpoint").exists());
    script.put(vec![EntryKind::Message { message: Message::user("behind it") }], Durability::Buffered);
    let last = script.io.log().ops.len().saturating_sub(8);
    let states = crash_everywhere(script, root.path(), &|at| at >= last);
    assert!(states > 30, "{states}");
}

/// Returns the index's sessions and its numbers of matches for some words.
fn told(index: &Index) -> (Vec<SessionSummary>, Vec<usize>) {
    let hits = |words| index.find(&Query { words, limit: 50, ..Query::default() }).unwrap().len();
    (index.list(None).unwrap(), ["words", "output", "loss", "zebra"].map(hits).to_vec())
}

/// Draws moments of the record, and states of the disk after each. Each state replaces the session's folder, under an index that had read
/// the whole session. That index must answer as a new one does; but messages that were lost in a hole may still be counted.
fn lose_at_random(script: Script, root: &Path, from: usize, cases: u32) {
    let Script { session, io } = script;
    let dir = session.dir().to_path_buf();
    let want: Vec<Entry> = session.entries().unwrap().collect();
    drop(session);
    let ops = std::mem::take(&mut io.log().ops);
    let home = tempfile::tempdir().unwrap();
    let (whole, db) = (home.path().join("whole.db"), home.path().join("index.db"));
    let mut index = Index::open(&whole, root).unwrap();
    index.catch_up().unwrap();
    drop(index);
    let choices = (from..ops.len(), proptest::collection::vec(any::<u32>(), 0..40), any::<bool>());
    let mut runner = TestRunner::new(ledgers::cases(cases));
    let run = runner.run(&choices, |(at, draws, indexed)| {
        let mut moment = Moment { root: root.to_path_buf(), ..Moment::default() };
        ops[..=at].iter().for_each(|op| moment.run(op));
        let mut draws = draws.into_iter();
        let mut draw = |below: u64| draws.next().map_or(0, |n| u64::from(n) % below);
        let state = moment.some_state(&mut draw);
        for old in fs::read_dir(root).unwrap() {
            fs::remove_dir_all(old.unwrap().path()).unwrap();
        }
        check_at(root, &state, &dir, root, &want, moment.acknowledged, true);
        if indexed {
            fs::copy(&whole, &db).unwrap();
            let mut index = Index::open(&db, root).unwrap();
            index.catch_up().unwrap();
            let (mut listed, found) = told(&index);
            drop(index);
            let (index, _) = Index::rebuild(&db, root).unwrap();
            let (anew, found_anew) = told(&index);
            for (old, new) in listed.iter_mut().zip(&anew) {
                prop_assert!(old.ledger.messages >= new.ledger.messages, "{:?} {:?}", old, new);
                old.ledger.messages = new.ledger.messages;
            }
            prop_assert_eq!((listed, found), (anew, found_anew));
        }
        Ok(())
    });
    run.unwrap();
}

#[test]
fn any_part_of_what_was_not_forced_may_be_there() {
    let root = tempfile::tempdir().unwrap();
    let script = five_turns(root.path());
    lose_at_random(script, root.path(), 0, 1_000);
}

#[test]
fn any_part_of_what_was_not_forced_may_be_there_beside_a_checkpoint() {
    let root = tempfile::tempdir().unwrap();
    let mut script = script(root.path());
    let long = vec![EntryKind::Message { message: Message::user("long ".repeat(230_000)) }];
    script.put(long, Durability::Synced);
    let from = script.io.log().ops.len();
    script.compact("## Goal".into());
    assert!(script.session.dir().join("checkpoint").exists());
    script.turn(1);
    script.turn(2);
    lose_at_random(script, root.path(), from, 60);
}

#[test]
fn power_lost_while_a_torn_end_is_set_aside() {
    let root = tempfile::tempdir().unwrap();
    let mut first = script(root.path());
    first.turn(1);
    let dir = first.session.dir().to_path_buf();
    let want: Vec<Entry> = first.session.entries().unwrap().collect();
    let Script { session, io } = first;
    drop(session);
    let mut before = Moment { root: root.path().to_path_buf(), ..Moment::default() };
    io.log().ops.iter().for_each(|op| before.run(op));
    // Everything was synced; then the process died in the middle of a write.
    let mut state = before.state(Names::All, Bytes::All);
    let torn = br#"{"prev":"0123"#;
    if let Some(Some(ledger)) = state.get_mut(&ledger_path(&dir)) {
        ledger.extend_from_slice(torn);
    }
    fs::write(ledger_path(&dir), state[&ledger_path(&dir)].as_ref().unwrap()).unwrap();
    let recorder = Arc::new(Recorder::default());
    let mut moment = Moment { root: root.path().to_path_buf(), ..Moment::default() };
    let mut log = recorder.log();
    for (path, bytes) in &state {
        let id = bytes.as_ref().map(|bytes| {
            log.files += 1;
            let id = log.files;
            moment.files.insert(id, Content { forced: bytes.clone(), pending: Vec::new() });
            log.names.insert(path.clone(), id);
            id
        });
        moment.forced.insert(path.clone(), id);
    }
    drop(log);
    let session =
        Session::open_with(&dir, Policy::default(), scope(), outside(Arc::clone(&recorder) as Arc<dyn Io>))
            .unwrap();
    drop(session);
    let ops = std::mem::take(&mut recorder.log().ops);
    assert!(!ops.is_empty());
    for op in &ops {
        moment.run(op);
        for names in [Names::All, Names::Forced, Names::Without(0), Names::Only(0)] {
            for bytes in [Bytes::All, Bytes::Forced, Bytes::Share(32, false), Bytes::Share(0, true)] {
                let state = moment.state(names, bytes);
                check(&state, &dir, root.path(), &want, want.len(), false);
                // The incomplete line is kept somewhere, whatever state the disk is in.
                let kept = state.values().flatten().any(|bytes| bytes.windows(torn.len()).any(|w| w == torn));
                assert!(kept, "the torn end is gone after {op:?}: {names:?}, {bytes:?}");
            }
        }
    }
}
