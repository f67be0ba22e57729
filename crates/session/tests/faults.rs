//! The disk fails at the n-th call, for every n: a session goes on, says so once, and loses nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod disks;
mod given;

use becket_session::blobs::{self, BlobStore};
use becket_session::context::Policy;
use becket_session::ledger::{Item, Ledger};
use becket_session::store::{Disk, Io, OpenMode, Outside, ledger_path};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{BlobId, Entry, EntryKind, Message, Millis, Part, Seq};
use disks::hooked::{Call, Hooked};
use given::scope;
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A disk that fails from one call on, for a number of calls; a failing write writes half of what it should.
#[derive(Debug)]
struct Failing {
    calls: AtomicUsize,
    from: usize,
    count: AtomicUsize,
    kind: io::ErrorKind,
}

impl Failing {
    fn new(from: usize, count: usize, kind: io::ErrorKind) -> Arc<Self> {
        Arc::new(Self { calls: AtomicUsize::new(0), from, count: AtomicUsize::new(count), kind })
    }

    fn healthy() -> Arc<Self> {
        Self::new(usize::MAX, 0, io::ErrorKind::Other)
    }

    fn heal(&self) {
        self.count.store(0, Ordering::SeqCst);
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn check(&self) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let fails = call >= self.from && call - self.from < self.count.load(Ordering::SeqCst);
        if fails { Err(self.kind.into()) } else { Ok(()) }
    }
}

impl Io for Failing {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.check()?;
        Disk.create_dir(dir)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        self.check()?;
        Disk.open(path, mode)
    }
    fn lock(&self, file: &File) -> Result<(), TryLockError> {
        self.check().map_err(TryLockError::Error)?;
        Disk.lock(file)
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.check() {
            Disk.write(file, &bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        Disk.write(file, bytes)
    }
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.check()?;
        Disk.set_len(file, len)
    }
    fn len(&self, file: &File) -> io::Result<u64> {
        self.check()?;
        Disk.len(file)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        self.check()?;
        Disk.sync(file)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.check()?;
        Disk.sync_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check()?;
        Disk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check()?;
        Disk.link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check()?;
        Disk.remove(path)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.check()?;
        Disk.read(path)
    }
}

fn outside(io: &Arc<Failing>) -> Outside {
    Outside { io: Arc::clone(io) as Arc<dyn Io>, clock: Arc::new(|| Millis(7)) }
}

fn user(text: &str) -> EntryKind {
    EntryKind::Message { message: Message::user(text) }
}

/// A small session; gives the session, with the bytes of a blob.
fn script(root: &Path, io: &Arc<Failing>) -> Session {
    let options = CreateOptions { persist: true, outside: outside(io), ..CreateOptions::default() };
    let mut session = Session::create(root, root, options, Policy::default(), scope()).unwrap();
    session.append(vec![user("one")], Durability::Synced).unwrap();
    session.put_blob(&blob()).unwrap();
    session.append(vec![user("two"), EntryKind::Interrupt], Durability::Buffered).unwrap();
    session.append(vec![EntryKind::Title { title: "t".into() }], Durability::Synced).unwrap();
    session.append(vec![user("three")], Durability::Buffered).unwrap();
    session
}

fn blob() -> Vec<u8> {
    b"a large output ".repeat(100)
}

fn stored(dir: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    let Ok(reader) = becket_session::ledger::read(dir) else { return entries };
    for item in reader {
        if let Item::Commit(commit) = item.unwrap() {
            entries.extend(commit);
        }
    }
    entries
}

#[test]
fn a_fault_at_any_call_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let healthy = Failing::healthy();
    drop(script(&dir.path().join("count"), &healthy));
    let total = healthy.calls();
    assert!(total > 20, "{total}");
    for from in 1..=total {
        for (count, kind) in [
            (1, io::ErrorKind::StorageFull),
            (2, io::ErrorKind::Other),
            (5, io::ErrorKind::QuotaExceeded),
            (usize::MAX, io::ErrorKind::StorageFull),
        ] {
            let case = format!("call {from}, {count} times, {kind:?}");
            let root = dir.path().join(format!("{from}-{count}"));
            let io = Failing::new(from, count, kind);
            let mut session = script(&root, &io);

            // The session has all entries, and the disk has a prefix of them that lacks only the backlog.
            let entries: Vec<Entry> = session.entries().unwrap().collect();
            assert_eq!(entries.len(), 6, "{case}");
            assert_eq!(session.view().last_seq(), Seq(6), "{case}");
            let on_disk = stored(session.dir());
            assert_eq!(on_disk, entries[..on_disk.len()], "{case}");
            assert_eq!(on_disk.len() == 6, session.backlog() == 0, "{case}");
            let notices = session.take_notices();
            if session.backlog() > 0 {
                assert!(notices.iter().any(|n| n.contains("Cannot save")), "{case}: {notices:?}");
            }
            assert!(notices.len() <= 4, "{case}: one warning a trouble, not one a commit: {notices:?}");

            // Space returns: everything goes to disk, in order.
            io.heal();
            session.append(vec![user("four")], Durability::Synced).unwrap();
            assert!(session.flush(), "{case}");
            assert_eq!(session.backlog(), 0, "{case}");
            let blob_id = becket_session::blobs::id_of(&blob());
            let dir = session.dir().to_path_buf();
            drop(session);

            let mut again =
                Session::open(&dir, Policy::default(), scope()).unwrap_or_else(|e| panic!("{case}: {e}"));
            let reread: Vec<Entry> = again.entries().unwrap().collect();
            assert_eq!(reread[..6], entries, "{case}");
            assert_eq!(reread.len(), 7, "{case}");
            assert_eq!(again.blobs().get(&blob_id), Some(blob()), "{case}");
            assert!(again.take_notices().iter().all(|n| n.contains("incomplete line")), "{case}");
        }
    }
}

#[test]
fn a_death_after_a_fault_keeps_what_was_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let healthy = Failing::healthy();
    drop(script(&dir.path().join("count"), &healthy));
    for from in 1..=healthy.calls() {
        let root = dir.path().join(from.to_string());
        let session = script(&root, &Failing::new(from, usize::MAX, io::ErrorKind::StorageFull));
        let entries: Vec<Entry> = session.entries().unwrap().collect();
        let commits = 5 - session.backlog();
        let acknowledged = [0, 1, 2, 4, 5, 6][commits];
        let at = session.dir().to_path_buf();
        drop(session);
        if !ledger_path(&at).exists() {
            assert_eq!(acknowledged, 0);
            continue;
        }
        let again = Session::open(&at, Policy::default(), scope()).unwrap();
        let reread: Vec<Entry> = again.entries().unwrap().collect();
        assert_eq!(reread, entries[..acknowledged], "call {from}");
    }
}

#[test]
fn a_fault_at_any_call_of_an_opening_harms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let source = script(&dir.path().join("source"), &Failing::healthy());
    let entries: Vec<Entry> = source.entries().unwrap().collect();
    let bytes = [fs::read(ledger_path(source.dir())).unwrap(), b"{\"prev\":\"torn".to_vec()].concat();
    drop(source);
    for from in 1..30 {
        for count in [1, usize::MAX] {
            let at = dir.path().join(format!("{from}-{count}"));
            fs::create_dir(&at).unwrap();
            fs::write(ledger_path(&at), &bytes).unwrap();
            let io = Failing::new(from, count, io::ErrorKind::Other);
            let mut seen = Vec::new();
            let opened = Ledger::open(Arc::clone(&io) as Arc<dyn Io>, &at, &mut |e| seen.push(e.clone()));
            if let Ok(mut opened) = opened {
                assert_eq!(seen, entries, "call {from}");
                let message = Message { seq: Seq(7), ..Message::user("on") };
                let next = Entry { seq: Seq(7), time: Millis(7), kind: EntryKind::Message { message } };
                opened.ledger.append(&[next], Durability::Buffered).unwrap();
                io.heal();
                assert!(opened.ledger.flush(), "call {from}");
            }
            let after = stored(&at);
            assert_eq!(after[..6], entries, "call {from}");
            let kept: Vec<u8> =
                fs::read_dir(&at).unwrap().flat_map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
            assert!(
                kept.windows(13).any(|w| w == b"{\"prev\":\"torn"),
                "call {from}: the torn bytes are somewhere"
            );
        }
    }
}

/// Bytes that do not get smaller when they are packed: a stream of them is written in several pieces.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..len / 8).flat_map(|_| next()).collect()
}

#[test]
fn a_fault_at_any_call_of_a_stream_keeps_its_bytes() {
    let bytes = noise(1 << 20);
    let put = |root: &Path, io: &Arc<Failing>| {
        let options = CreateOptions { persist: true, outside: outside(io), ..CreateOptions::default() };
        let session = Session::create(root, root, options, Policy::default(), scope()).unwrap();
        let id = session.blob_store().put_from(&mut bytes.as_slice());
        (session, id)
    };
    let dir = tempfile::tempdir().unwrap();
    let healthy = Failing::healthy();
    drop(put(&dir.path().join("count"), &healthy));
    let total = healthy.calls();
    assert!(total > 12, "{total}");
    for from in 1..=total {
        let io = Failing::new(from, 1, io::ErrorKind::StorageFull);
        let (mut session, id) = put(&dir.path().join(from.to_string()), &io);
        let id = id.unwrap();
        assert_eq!(id, becket_session::blobs::id_of(&bytes), "call {from}");
        assert_eq!(session.blobs().get(&id), Some(bytes.clone()), "call {from}");
        session.append(vec![user("on")], Durability::Synced).unwrap();
        assert!(session.flush(), "call {from}");
        let at = session.dir().to_path_buf();
        drop(session);
        let again = Session::open(&at, Policy::default(), scope()).unwrap();
        assert_eq!(again.blobs().get(&id), Some(bytes.clone()), "call {from}");
        let blobs = fs::read_dir(at.join("blobs")).unwrap().count();
        assert_eq!(blobs, 1, "call {from}: nothing is left beside the blob");
    }
}

/// A disk with room for short writes only: an output does not fit, and a line of the ledger does.
#[test]
fn an_entry_is_written_after_the_blob_that_it_names() {
    let full = Arc::new(AtomicBool::new(false));
    let refuses = Arc::clone(&full);
    // Blobs are written to new files; the ledger is open already.
    let io = Hooked::new(0, move |_, call| match call {
        Call::Rename if refuses.load(Ordering::SeqCst) => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    for heals in [true, false] {
        full.store(false, Ordering::SeqCst);
        let root = tempfile::tempdir().unwrap();
        let outside = Outside { io: Arc::clone(&io) as Arc<dyn Io>, clock: Arc::new(|| Millis(7)) };
        let options = CreateOptions { persist: true, outside, ..CreateOptions::default() };
        let mut session =
            Session::create(root.path(), root.path(), options, Policy::default(), scope()).unwrap();
        let dir = session.dir().to_path_buf();
        session.append(vec![user("before")], Durability::Synced).unwrap();
        full.store(true, Ordering::SeqCst);
        // A blob that no entry names does not delay later entries.
        session.put_blob(b"a blob that nobody names").unwrap();
        session.append(vec![user("still written")], Durability::Synced).unwrap();
        assert_eq!((stored(&dir).len(), session.has_unsaved()), (3, false));
        let blob = session.put_blob(&blob()).unwrap();
        let mut message = Message::tool_result("c1".into(), "bash", "the start", false);
        for part in &mut message.parts {
            if let Part::ToolResult { spill, .. } = part {
                *spill = Some(blob.clone());
            }
        }
        session.append(vec![EntryKind::Message { message }], Durability::Synced).unwrap();
        session.append(vec![user("after")], Durability::Synced).unwrap();
        assert!(session.has_unsaved() && session.backlog() == 2 && !session.flush());
        assert_eq!(session.entries().unwrap().count(), 5, "the session itself has everything");
        let notices = session.take_notices();
        assert_eq!(notices.iter().filter(|text| text.contains("Cannot save")).count(), 1, "{notices:?}");
        if heals {
            full.store(false, Ordering::SeqCst);
            assert!(session.flush() && !session.has_unsaved());
            let notices = session.take_notices();
            assert_eq!(notices, ["Saving works again: 2 waiting writes are on disk now."]);
        }
        drop(session);
        // If the disk recovers and if it does not, the stored entries name only blobs that exist.
        let on_disk = stored(&dir);
        assert_eq!(on_disk.len(), if heals { 5 } else { 3 });
        let store = BlobStore::in_memory(Arc::new(Disk), Some(&dir));
        let mut named = BTreeSet::new();
        for entry in &on_disk {
            blobs::named_by(entry, &store, &mut named);
        }
        assert_eq!(named.contains(&blob), heals);
        assert_eq!(blobs::missing(&dir, named.iter()), Vec::<&BlobId>::new());
    }
}
