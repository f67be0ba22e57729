//! Disk use of a session: content is stored once, reading stores nothing, a late turn costs no more than an
//! early one, and deleting frees everything.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod given;

use becket_exchange::export::{Format, Secrets, export};
use becket_exchange::import::import_own;
use becket_session::context::Policy;
use becket_session::store::{Disk, Io, OpenMode, Outside, ledger_path};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{CallId, Compaction, EntryKind, FinishReason, JournalState, Message, Part, TurnState};
use given::scope;
use serde_json::{Map, Value, json};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn create(root: &Path) -> Session {
    let options = CreateOptions { persist: true, version: "1".into(), ..CreateOptions::default() };
    Session::create(root, root, options, Policy::default(), scope()).unwrap()
}

fn open(dir: &Path) -> Session {
    Session::open(dir, Policy::default(), scope()).unwrap()
}

/// Bytes of all files below a folder.
fn bytes_in(dir: &Path) -> u64 {
    let mut sum = 0;
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let metadata = entry.metadata().unwrap();
        sum += if metadata.is_dir() { bytes_in(&entry.path()) } else { metadata.len() };
    }
    sum
}

/// Text that packs badly, so that what is stored twice shows.
fn noise(seed: &mut u64, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|_| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 33) as u8
        })
        .collect()
}

/// An entry that names a version of a file.
fn version(session: &Session, content: &[u8]) -> EntryKind {
    let blob = session.put_blob(content).unwrap();
    let mut message = Message::user("a version");
    message.parts.push(Part::File {
        media_type: "application/octet-stream".into(),
        blob,
        name: Some("big.bin".into()),
        extra: Map::new(),
    });
    EntryKind::Message { message }
}

#[test]
fn five_hundred_edits_of_one_large_file_take_no_more_than_what_is_different() {
    let root = tempfile::tempdir().unwrap();
    let mut session = create(root.path());
    let mut seed = 1;
    let mut content = noise(&mut seed, 1 << 20);
    // The edits go back and forth between ten versions of a file of 1 MB. Each of the 500 edits stores the version before and after it.
    let mut versions = Vec::new();
    for n in 0..10 {
        content[n * 100_000..n * 100_000 + 64].copy_from_slice(&noise(&mut seed, 64));
        versions.push(content.clone());
    }
    for edit in 0..500 {
        let kinds =
            vec![version(&session, &versions[edit % 10]), version(&session, &versions[(edit + 1) % 10])];
        session.append(kinds, Durability::Buffered).unwrap();
    }
    let unique: usize = versions.iter().map(Vec::len).sum();
    let stored = bytes_in(session.dir());
    assert!(stored * 2 <= unique as u64 * 3, "{stored} bytes stored of {unique} unique");
}

/// Counts what is written.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Io for Counting {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.create_dir(dir)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        Disk.open(path, mode)
    }
    fn lock(&self, file: &File) -> Result<(), TryLockError> {
        Disk.lock(file)
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let written = Disk.write(file, bytes)?;
        self.0.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        Disk.set_len(file, len)
    }
    fn len(&self, file: &File) -> io::Result<u64> {
        Disk.len(file)
    }
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Disk.read(path)
    }
}

/// A turn as the agent writes it, of some 30 kB: five calls with their journal; every 20th turn ends in a compaction.
fn turn(session: &mut Session, n: u64) {
    let put = |session: &mut Session, kinds| session.append(kinds, Durability::Buffered).unwrap();
    put(session, vec![EntryKind::Message { message: Message::user(format!("task {n}")) }]);
    for step in 0..5 {
        let call = CallId(format!("toolu_{n:010}_{step:010}"));
        let journal = |state, result| EntryKind::ToolJournal {
            call_id: call.clone(),
            state,
            tool: Some("read".into()),
            subject: Some(format!("src/file_{n}_{step}.rs")),
            result,
        };
        let answer = Message::assistant(vec![
            Part::text("Now the next file."),
            Part::tool_call(call.0.clone(), "read", json!({"path": format!("src/file_{n}_{step}.rs")})),
        ]);
        let (id, line) = (answer.id, format!("{n}: let line_{n} = {}; // and so on\n", n * 7_919 % 10_007));
        let finish = EntryKind::Finish { message: id, reason: FinishReason::ToolCalls };
        put(session, vec![EntryKind::Message { message: answer }, finish]);
        put(session, vec![journal(JournalState::Started, Value::Null)]);
        let result = Message::tool_result(call.clone(), "read", line.repeat(5_000 / line.len()), false);
        let done = journal(JournalState::Finished, json!({"ok": true}));
        put(session, vec![done, EntryKind::Message { message: result }]);
        session.view_mut().context();
    }
    if n % 20 == 19 {
        let tail = session.view().live().map(|m| m.seq).nth_back(4).unwrap();
        let compaction = Compaction {
            summary: "## Goal\nWhat was done.\n".repeat(100),
            turn_state: TurnState::AwaitingUser,
            ..given::compaction(session, tail)
        };
        put(session, vec![EntryKind::Compaction(Box::new(compaction))]);
    }
    put(session, vec![EntryKind::TurnEnd { end: "completed".into(), state: TurnState::AwaitingUser }]);
}

#[test]
fn a_late_turn_writes_what_an_early_one_wrote() {
    let root = tempfile::tempdir().unwrap();
    let io = Arc::new(Counting::default());
    let outside = Outside { io: Arc::clone(&io) as Arc<dyn Io>, ..Outside::default() };
    let options = CreateOptions { persist: true, version: "1".into(), outside, ..CreateOptions::default() };
    let mut session = Session::create(root.path(), root.path(), options, Policy::default(), scope()).unwrap();
    let mut written = Vec::new();
    // Means of 500 turns, so that compactions and checkpoints are in them.
    for part in 0..6 {
        let before = io.0.load(Ordering::Relaxed);
        (part * 500..(part + 1) * 500).for_each(|n| turn(&mut session, n));
        written.push((io.0.load(Ordering::Relaxed) - before) / 500);
    }
    println!("bytes a turn: {written:?}");
    assert!(written[1..].iter().all(|bytes| bytes * 100 <= written[0] * 106), "{written:?}");
}

/// Continuing a long imported session does not process its whole ledger, not even the first time.
#[test]
fn a_session_that_was_imported_has_its_checkpoint() {
    let root = tempfile::tempdir().unwrap();
    let mut session = create(root.path());
    (0..100).for_each(|n| turn(&mut session, n));
    let mut file = Vec::new();
    export(session.dir(), Format::Jsonl, Secrets::Keep, &mut file).unwrap();
    let live = session.view_mut().context().messages.clone();
    let elsewhere = tempfile::tempdir().unwrap();
    let imported = import_own(elsewhere.path(), &file, Some(root.path())).unwrap();
    assert_eq!(fs::read(ledger_path(&imported.dir)).unwrap(), file);
    assert!(imported.dir.join("checkpoint").exists());
    assert_eq!(open(&imported.dir).view_mut().context().messages, live);
    // A session that ends in an incomplete line is left unchanged until the user continues it.
    let torn = tempfile::tempdir().unwrap();
    file.extend_from_slice(b"{\"prev\":");
    let imported = import_own(torn.path(), &file, Some(root.path())).unwrap();
    assert_eq!(fs::read(ledger_path(&imported.dir)).unwrap(), file);
}

#[test]
fn opening_and_closing_a_hundred_times_adds_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut session = create(root.path());
    for n in 0..200 {
        let kinds = vec![EntryKind::Message { message: Message::user(format!("{n} ").repeat(100)) }];
        session.append(kinds, Durability::Buffered).unwrap();
    }
    session.put_blob(b"a blob").unwrap();
    let dir = session.dir().to_path_buf();
    drop(session);
    let (bytes, ledger) = (bytes_in(&dir), fs::read(ledger_path(&dir)).unwrap());
    for _ in 0..100 {
        let mut session = open(&dir);
        session.view_mut().context();
        assert!(session.flush());
    }
    assert_eq!(fs::read(ledger_path(&dir)).unwrap(), ledger);
    assert_eq!(bytes_in(&dir), bytes);
}

#[test]
fn deleting_a_session_gives_its_bytes_back_also_when_a_fork_shares_them() {
    let root = tempfile::tempdir().unwrap();
    let mut session = create(root.path());
    let mut seed = 2;
    for _ in 0..20 {
        let kinds = vec![version(&session, &noise(&mut seed, 100_000))];
        session.append(kinds, Durability::Synced).unwrap();
    }
    let dir = session.dir().to_path_buf();
    drop(session);
    let alone = bytes_in(root.path());
    let of_session = bytes_in(&dir);
    assert!(of_session > 2_000_000);
    let options = CreateOptions { persist: true, version: "1".into(), ..CreateOptions::default() };
    let fork =
        Session::fork(&dir, None, root.path(), root.path(), options, Policy::default(), scope()).unwrap();
    let forked = fork.dir().to_path_buf();
    drop(fork);
    // After the source is deleted, the fork still has what both shared.
    fs::remove_dir_all(&dir).unwrap();
    let mut fork = open(&forked);
    assert_eq!(fork.view_mut().context().messages.len(), 20);
    drop(fork);
    fs::remove_dir_all(&forked).unwrap();
    let left = bytes_in(root.path());
    assert!(left * 20 <= alone, "{left} of {alone} bytes are left");
}
