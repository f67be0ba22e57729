//! A disk that fails (full, broken, over its quota, read-only) at the n-th call, for every n of a life that has everything in
//! it: lines, blobs, a checkpoint, compactions, reopening, a fork, the trash and the index.
//!
//! After each fault: every session is in one place and opens, what was acknowledged is there in order, an error names
//! what is not on disk, the view is a valid request, and the next line goes to disk. Writes that fail leave a part behind, of another
//! length each time. The other tests damage the index, and turn the clock.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod disks;
mod given;

use becket_session::context::{Policy, View};
use becket_session::index::{self, Query};
use becket_session::store::{self, Io, Outside, SessionSummary, read_entries, trash};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    CallId, Compaction, Entry, EntryKind, JournalState, Message, Millis, Part, Seq, SessionId, TurnState,
};
use disks::Unforced;
use disks::hooked::Hooked;
use given::scope;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Error numbers of the operating system: disk full, I/O error, quota exceeded, read-only file system.
const ERRORS: [i32; 4] = [28, 5, 122, 30];

fn outside(io: Arc<dyn Io>) -> Outside {
    Outside { io, clock: Arc::new(|| Millis(7)) }
}

fn user(text: impl Into<String>) -> EntryKind {
    EntryKind::Message { message: Message::user(text) }
}

fn compaction(session: &Session) -> Vec<EntryKind> {
    let mut go_on = Message::user("continue");
    go_on.metadata.compaction_continue = true;
    vec![
        EntryKind::Compaction(Box::new(Compaction {
            summary: "## Goal\nzebra".into(),
            ..given::compaction(session, session.last_seq())
        })),
        EntryKind::Message { message: go_on },
    ]
}

/// Content that must exist after the fault, and all notices that the sessions gave.
#[derive(Default)]
struct Kept {
    sessions: BTreeMap<SessionId, Vec<Entry>>,
    said: Vec<String>,
}

impl Kept {
    /// Records the entries of a session and leaves it. Entries that did not reach the disk must have been reported.
    fn leave(&mut self, mut session: Session, case: &str) {
        session.flush();
        let entries: Vec<Entry> = session.entries().unwrap().collect();
        let waiting = session.backlog();
        self.said.extend(session.take_notices());
        let (id, dir) = (session.id(), session.dir().to_path_buf());
        drop(session);
        let stored = on_disk(&dir);
        assert_eq!(stored, entries[..stored.len()], "{case}: not a beginning of it");
        if waiting == 0 {
            assert_eq!(stored.len(), entries.len(), "{case}");
        } else {
            let told = self.said.iter().any(|n| n.contains("Cannot save") || n.contains("not saved"));
            assert!(told, "{case}: {:?}", self.said);
        }
        // Every entry that was on disk before is still there.
        let before = self.sessions.insert(id, stored.clone()).unwrap_or_default();
        assert_eq!(stored[..before.len()], before, "{case}: lost between two openings");
    }
}

fn on_disk(dir: &Path) -> Vec<Entry> {
    let Ok(reader) = read_entries(dir) else { return Vec::new() };
    reader.filter_map(|item| item.unwrap().ok()).collect()
}

/// One life of the machine. A step that fails is skipped, as a user would have to do.
fn life(home: &Path, io: &Arc<dyn Io>, case: &str) -> Kept {
    use Durability::{Buffered, Synced};
    let (root, trash) = (home.join("sessions"), home.join("trash"));
    let options =
        || CreateOptions { persist: true, outside: outside(Arc::clone(io)), ..CreateOptions::default() };
    let mut kept = Kept::default();
    let mut session = Session::create(&root, home, options(), Policy::default(), scope()).unwrap();
    let dir = session.dir().to_path_buf();
    session.append(vec![user("zebra one")], Synced).unwrap();
    let call = CallId("call".into());
    let answer = Message::assistant(vec![Part::tool_call(call.0.clone(), "bash", json!({}))]);
    session.append(vec![EntryKind::Message { message: answer }], Buffered).unwrap();
    let journal = EntryKind::ToolJournal {
        call_id: call.clone(),
        state: JournalState::Started,
        tool: Some("bash".into()),
        subject: None,
        result: Value::Null,
    };
    session.append(vec![journal], Synced).unwrap();
    let blob = session.put_blob(&b"a blob ".repeat(99)).unwrap();
    // The result reports an error if the disk neither stores the stream nor returns it.
    let _ = session.blob_store().put_from(&mut b"a stream".as_slice());
    let mut result = Message::tool_result(call, "bash", "short", false);
    if let Some(Part::ToolResult { spill, .. }) = result.parts.first_mut() {
        *spill = Some(blob);
    }
    session.append(vec![EntryKind::Message { message: result }], Buffered).unwrap();
    // Long enough for a checkpoint after the compaction.
    session.append(vec![user("long ".repeat(220_000))], Synced).unwrap();
    let entries = compaction(&session);
    session.append(entries, Synced).unwrap();
    let end = EntryKind::TurnEnd { end: "completed".into(), state: TurnState::AwaitingUser };
    session.append(vec![end], Synced).unwrap();
    kept.leave(session, case);

    if let Ok(mut again) = Session::open_with(&dir, Policy::default(), scope(), outside(Arc::clone(io))) {
        again.append(vec![user("zebra two"), EntryKind::Interrupt], Synced).unwrap();
        kept.leave(again, case);
    }
    let forked = Session::fork(&dir, Some(Seq(4)), &root, home, options(), Policy::default(), scope());
    if let Ok(mut fork) = forked {
        fork.append(vec![user("zebra three")], Synced).unwrap();
        let dir = fork.dir().to_path_buf();
        kept.leave(fork, case);
        if trash::throw_away(io.as_ref(), &trash, &dir, Millis(7)).is_ok() {
            for thrown in trash::trashed(&trash).unwrap() {
                let _ = trash::bring_back(io.as_ref(), &root, &thrown);
            }
        }
    }
    kept
}

/// Checks the state that every process must leave behind.
fn check(home: &Path, kept: &Kept, case: &str) {
    let root = home.join("sessions");
    let places: Vec<PathBuf> = store::session_dirs(&root, None)
        .unwrap()
        .into_iter()
        .chain(store::session_dirs(&home.join("trash"), None).unwrap())
        .collect();
    for (id, entries) in &kept.sessions {
        let at: Vec<&PathBuf> = places.iter().filter(|dir| dir.ends_with(id.to_string())).collect();
        if entries.is_empty() && at.is_empty() {
            continue;
        }
        assert_eq!(at.len(), 1, "{case}: {id} is in {at:?}");
        let dir = at[0];
        let mut session = Session::open_with(dir, Policy::default(), scope(), outside(Arc::new(Unforced)))
            .unwrap_or_else(|e| panic!("{case}: {id} does not open: {e}"));
        let found: Vec<Entry> = session.entries().unwrap().collect();
        assert_eq!(&found, entries, "{case}: {id}");
        // A session that is opened from its checkpoint shows the same as one that is folded from the start.
        let mut peeked = Session::peek(dir, Policy::default(), scope()).unwrap().view;
        let plain =
            |view: &mut View| view.context().messages.iter().map(|m| m.message.clone()).collect::<Vec<_>>();
        assert_eq!(plain(session.view_mut()), plain(&mut peeked), "{case}: {id}");
        session.view_mut().check().unwrap();
        session.append(vec![user("afterwards")], Durability::Synced).unwrap();
        assert!(session.flush(), "{case}: {id}");
        // Notices may report an incomplete line that was set aside, and results that the view has added. There is no other notice.
        let said = session.take_notices();
        let known = |n: &String| {
            n.contains("set aside") || n.contains("incomplete line") || n.contains("has no result")
        };
        assert!(said.iter().all(known), "{case}: {id}: {said:?}");
        drop(session);
        assert_eq!(on_disk(dir).len(), entries.len() + 1, "{case}: {id}");
    }
}

#[test]
fn a_fault_at_any_call_of_a_life_loses_nothing() {
    let homes = tempfile::tempdir().unwrap();
    let counting = Hooked::new(0, |_, _| Ok(()));
    let io: Arc<dyn Io> = Arc::clone(&counting) as Arc<dyn Io>;
    let home = homes.path().join("sound");
    let kept = life(&home, &io, "no fault");
    assert_eq!(kept.sessions.len(), 2);
    assert_eq!(kept.said, [] as [String; 0]);
    check(&home, &kept, "no fault");
    let total = counting.calls();
    assert!(total > 120, "{total}");
    for at in 1..=total {
        for (nth, error) in ERRORS.into_iter().enumerate() {
            // The disk fails once, or, with one of the four errors, from then on.
            let for_ever = at % 4 == nth;
            let case = format!("call {at}, error {error}, for ever: {for_ever}");
            let io = Hooked::new(at * 7 % 65, move |n, _| {
                let fails = n == at || (for_ever && n > at);
                if fails { Err(io::Error::from_raw_os_error(error)) } else { Ok(()) }
            });
            let home = homes.path().join("home");
            let kept = life(&home, &(io as Arc<dyn Io>), &case);
            check(&home, &kept, &case);
            let _ = fs::remove_dir_all(&home);
        }
    }
}

#[test]
fn an_index_damaged_anywhere_serves_or_is_made_anew() {
    let home = tempfile::tempdir().unwrap();
    let unforced: Arc<dyn Io> = Arc::new(Unforced);
    life(home.path(), &unforced, "index");
    let (db, root) = (home.path().join("index.db"), home.path().join("sessions"));
    let ask = || {
        index::serve(&db, &root, |index| {
            let query = Query { words: "zebra", limit: 100, ..Query::default() };
            let mut hits: Vec<u64> = index.find(&query)?.iter().map(|hit| hit.seq.0).collect();
            hits.sort_unstable();
            Ok((index.list(None)?.len(), hits))
        })
    };
    let sound = ask().unwrap();
    assert_eq!(sound.0, 2);
    assert!(sound.1.len() >= 3, "{sound:?}");
    let whole = fs::read(&db).unwrap();
    let pages = whole.len() / 4096;
    assert!(pages > 10);
    for page in 0..pages {
        let mut bytes = whole.clone();
        let at = page * 4096;
        match page % 3 {
            0 => bytes[at..at + 4096].iter_mut().enumerate().for_each(|(n, b)| *b = (n * 31) as u8),
            1 => bytes[at..at + 4096].fill(0),
            _ => bytes.truncate(at + 100),
        }
        for side in ["-wal", "-shm"] {
            let _ = fs::remove_file(home.path().join(format!("index.db{side}")));
        }
        fs::write(&db, &bytes).unwrap();
        // Whatever the damage, listing never fails and contains every session.
        let ids = |list: Vec<SessionSummary>| list.iter().map(|s| s.id).collect::<BTreeSet<_>>();
        let listed = ids(index::list(&db, &root, None).unwrap().0);
        assert_eq!(listed, ids(store::list(&root, None).unwrap()), "page {page}");
    }
    // After the index was rebuilt, it answers as before the damage.
    index::Index::rebuild(&db, &root).unwrap();
    assert_eq!(ask().unwrap(), sound);
}

#[test]
fn a_clock_that_jumps_changes_no_order() {
    const HOUR: u64 = 3_600_000;
    let year = |n: u64| n * 31_557_600_000;
    let home = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicU64::new(year(56)));
    let clock = Arc::clone(&now);
    let ticking = || Outside {
        io: Arc::new(Unforced),
        clock: {
            let clock = Arc::clone(&clock);
            Arc::new(move || Millis(clock.load(Ordering::SeqCst)))
        },
    };
    let root = home.path().join("sessions");
    let options = CreateOptions { persist: true, outside: ticking(), ..CreateOptions::default() };
    let mut session = Session::create(&root, home.path(), options, Policy::default(), scope()).unwrap();
    let dir = session.dir().to_path_buf();
    let times =
        [year(56), year(56) - HOUR, 0, year(230), 1, year(56), u64::from(u32::MAX), year(56) - 7 * HOUR];
    for (n, time) in times.into_iter().enumerate() {
        now.store(time, Ordering::SeqCst);
        session.append(vec![user(format!("zebra {n}"))], Durability::Synced).unwrap();
        if n % 3 == 2 {
            let entries = compaction(&session);
            session.append(entries, Durability::Synced).unwrap();
        }
        if n % 2 == 1 {
            drop(session);
            session = Session::open_with(&dir, Policy::default(), scope(), ticking()).unwrap();
        }
    }
    let entries: Vec<Entry> = session.entries().unwrap().collect();
    assert!(entries.iter().zip(1..).all(|(entry, seq)| entry.seq == Seq(seq)), "by number, without a gap");
    assert!(entries.windows(2).any(|pair| pair[0].time > pair[1].time), "the clock did go back");
    let last = session.view_mut().context().messages.last().unwrap().message.text();
    assert_eq!(last, "zebra 7");
    drop(session);
    // Lists, search, statistics by day and the trash live with any time.
    let db = home.path().join("index.db");
    let found = index::serve(&db, &root, |index| {
        index.find(&Query { words: "zebra", limit: 100, ..Query::default() })
    });
    assert!(found.unwrap().len() >= times.len());
    let trash = home.path().join("trash");
    for (thrown, looked, gone) in [
        (year(230), year(56), 0),
        (0, 0, 0),
        (year(56), year(56) - HOUR, 0),
        (1, year(56), 0),
        (1, year(200), 1),
    ] {
        let at = trash::throw_away(&Unforced, &trash, &dir, Millis(thrown)).unwrap();
        let purged = trash::purge(&Unforced, &trash, Millis(looked), false).unwrap();
        assert_eq!(purged.len(), gone, "thrown away at {thrown}, looked at {looked}");
        assert_eq!(at.exists(), gone == 0);
        if gone == 0 {
            trash::bring_back(&Unforced, &root, &trash::trashed(&trash).unwrap()[0]).unwrap();
        }
    }
}
