//! Power loss at every moment: what storage asked of the disk is recorded, and the states that a disk may be in afterwards
//! are made again and opened.
//!
//! The disk of this test promises no more than POSIX: bytes are kept once their file was forced, names once their folder
//! was, and before that any of them may be missing, whatever came later. An append that was not forced may be there in
//! part, or as zeros. Each state must open, hold everything that was acknowledged as synced with the blobs it names, and
//! otherwise a beginning of what was written.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use becket_session::context::{ModelScope, Policy};
use becket_session::store::{Disk, Io, OpenMode, Outside, ledger_path, read_entries};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    BlobId, CallId, Compaction, CompactionSource, CompactionTrigger, Entry, EntryKind, JournalState, Message,
    Millis, Part, Seq, SessionId, Tokens, TurnState,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// One thing that the disk was asked to do. Files are numbered as they are made: a name is something else.
#[derive(Clone, Debug)]
enum Op {
    MakeDir(PathBuf),
    /// A new name for a file.
    Name(PathBuf, usize),
    Unname(PathBuf),
    Rename(PathBuf, PathBuf, usize),
    Append(usize, Vec<u8>),
    Cut(usize, u64),
    Sync(usize),
    SyncDir(PathBuf),
    /// Everything up to this entry was acknowledged as synced.
    Acknowledged(usize),
}

#[derive(Debug, Default)]
struct Log {
    ops: Vec<Op>,
    files: usize,
    open: HashMap<RawFd, usize>,
    names: BTreeMap<PathBuf, usize>,
}

/// The disk, and a record of what it was asked.
#[derive(Debug, Default)]
struct Recorder(Mutex<Log>);

impl Recorder {
    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.0.lock().unwrap()
    }

    fn push(&self, op: Op) {
        self.log().ops.push(op);
    }
}

impl Io for Recorder {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<PathBuf> =
            dir.ancestors().take_while(|d| !d.exists()).map(Path::to_path_buf).collect();
        Disk.create_dir(dir)?;
        missing.into_iter().rev().for_each(|dir| self.push(Op::MakeDir(dir)));
        Ok(())
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        let existed = path.exists();
        let file = Disk.open(path, mode)?;
        let mut log = self.log();
        let known = log.names.get(path).copied();
        let id = known.unwrap_or_else(|| {
            log.files += 1;
            log.files
        });
        if !existed {
            log.ops.push(Op::Name(path.to_path_buf(), id));
        } else if mode == OpenMode::Fresh {
            log.ops.push(Op::Cut(id, 0));
        }
        log.names.insert(path.to_path_buf(), id);
        log.open.insert(file.as_raw_fd(), id);
        Ok(file)
    }
    fn lock(&self, file: &File) -> Result<(), TryLockError> {
        Disk.lock(file)
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let n = Disk.write(file, bytes)?;
        let id = self.log().open[&file.as_raw_fd()];
        self.push(Op::Append(id, bytes[..n].to_vec()));
        Ok(n)
    }
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        Disk.set_len(file, len)?;
        let id = self.log().open[&file.as_raw_fd()];
        self.push(Op::Cut(id, len));
        Ok(())
    }
    fn len(&self, file: &File) -> io::Result<u64> {
        Disk.len(file)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        let id = self.log().open[&file.as_raw_fd()];
        self.push(Op::Sync(id));
        Ok(())
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.push(Op::SyncDir(dir.to_path_buf()));
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)?;
        let mut log = self.log();
        let id = log.names.remove(from).unwrap();
        log.names.insert(to.to_path_buf(), id);
        log.ops.push(Op::Rename(from.to_path_buf(), to.to_path_buf(), id));
        Ok(())
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.link(from, to)?;
        let mut log = self.log();
        let id = log.names[from];
        log.names.insert(to.to_path_buf(), id);
        log.ops.push(Op::Name(to.to_path_buf(), id));
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)?;
        let mut log = self.log();
        log.names.remove(path);
        log.ops.push(Op::Unname(path.to_path_buf()));
        Ok(())
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Disk.read(path)
    }
}

/// As the disk, but nothing is forced: what recovery does is looked at in memory.
#[derive(Debug)]
struct Unforced;

impl Io for Unforced {
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
        Disk.write(file, bytes)
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

/// What a disk may hold of the names after the power was lost.
#[derive(Clone, Copy, Debug, Hash)]
enum Names {
    All,
    /// What was forced, and nothing else.
    Forced,
    /// One change that was not forced is missing (counted from the newest), all others are there.
    Without(usize),
    /// One change that was not forced is there, all others are missing.
    Only(usize),
}

/// What it may hold of the bytes that were appended to each file since it was forced.
#[derive(Clone, Copy, Debug, Hash)]
enum Bytes {
    All,
    Forced,
    /// A share of them, in 64ths; what is missing is not there, or zeros.
    Share(u8, bool),
    /// The first append is zeros, what came behind it is there.
    Hole,
}

/// A file's bytes, and how many of its operations were forced.
#[derive(Clone, Debug, Default)]
struct Content {
    forced: Vec<u8>,
    pending: Vec<Op>,
}

impl Content {
    fn all(&self) -> Vec<u8> {
        let mut bytes = self.forced.clone();
        self.pending.iter().for_each(|op| apply(&mut bytes, op));
        bytes
    }

    fn after(&self, how: Bytes) -> Vec<u8> {
        let whole = self.all();
        // A cut that was not forced: the old bytes may be there still.
        match how {
            Bytes::All => whole,
            Bytes::Forced => self.forced.clone(),
            Bytes::Share(share, zeros) => {
                let from = self.forced.len().min(whole.len());
                let keep = from + (whole.len() - from) * usize::from(share) / 64;
                let mut bytes = whole.clone();
                if zeros {
                    bytes[keep..].fill(0);
                } else {
                    bytes.truncate(keep);
                }
                bytes
            }
            Bytes::Hole => {
                let mut bytes = self.forced.clone();
                for (nth, op) in self.pending.iter().enumerate() {
                    match op {
                        Op::Append(id, new) if nth == 0 => {
                            apply(&mut bytes, &Op::Append(*id, vec![0; new.len()]))
                        }
                        op => apply(&mut bytes, op),
                    }
                }
                bytes
            }
        }
    }
}

fn apply(bytes: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Append(_, new) => bytes.extend_from_slice(new),
        Op::Cut(_, len) => bytes.truncate(*len as usize),
        _ => {}
    }
}

/// What the disk holds at one moment: forced for good, and pending.
#[derive(Clone, Debug, Default)]
struct Moment {
    /// Always there.
    root: PathBuf,
    files: BTreeMap<usize, Content>,
    forced: BTreeMap<PathBuf, Option<usize>>,
    pending: Vec<Op>,
    /// Entries that were acknowledged as synced.
    acknowledged: usize,
}

fn parent_of(op: &Op) -> Option<&Path> {
    match op {
        Op::MakeDir(path) | Op::Name(path, _) | Op::Unname(path) | Op::Rename(_, path, _) => path.parent(),
        _ => None,
    }
}

fn name(names: &mut BTreeMap<PathBuf, Option<usize>>, op: &Op) {
    match op {
        Op::MakeDir(path) => drop(names.insert(path.clone(), None)),
        Op::Name(path, id) => drop(names.insert(path.clone(), Some(*id))),
        Op::Unname(path) => drop(names.remove(path)),
        Op::Rename(from, to, id) => {
            names.remove(from);
            names.insert(to.clone(), Some(*id));
        }
        _ => {}
    }
}

impl Moment {
    fn run(&mut self, op: &Op) {
        match op {
            Op::Append(id, _) | Op::Cut(id, _) => self.files.entry(*id).or_default().pending.push(op.clone()),
            Op::Sync(id) => {
                let file = self.files.entry(*id).or_default();
                file.forced = file.all();
                file.pending.clear();
            }
            Op::SyncDir(dir) => {
                let (now, later) = std::mem::take(&mut self.pending)
                    .into_iter()
                    .partition(|op| parent_of(op) == Some(dir.as_path()));
                self.pending = later;
                let now: Vec<Op> = now;
                now.iter().for_each(|op| name(&mut self.forced, op));
            }
            Op::Acknowledged(entries) => self.acknowledged = *entries,
            _ => self.pending.push(op.clone()),
        }
    }

    /// Files and folders after the power was lost now. A name in a folder that is missing is missing.
    fn state(&self, names: Names, bytes: Bytes) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = self.forced.clone();
        let last = self.pending.len();
        for (nth, op) in self.pending.iter().enumerate() {
            let there = match names {
                Names::All => true,
                Names::Forced => false,
                Names::Without(back) => last - 1 - nth != back,
                Names::Only(back) => last - 1 - nth == back,
            };
            if there {
                name(&mut found, op);
            }
        }
        let mut state: BTreeMap<PathBuf, Option<Vec<u8>>> = BTreeMap::new();
        // Folders come before what is in them.
        for (path, id) in found {
            let there = path.parent().is_some_and(|dir| dir == self.root || state.get(dir) == Some(&None));
            if there {
                let bytes = id.map(|id| self.files.get(&id).cloned().unwrap_or_default().after(bytes));
                state.insert(path, bytes);
            }
        }
        state
    }
}

fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 10,
        max_media_bytes: 1 << 20,
    }
}

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
        let compaction = Compaction {
            summary,
            anchor: None,
            tail_from: Seq(self.session.last_seq().0.saturating_sub(6)),
            taken_out: vec![],
            kept: vec![],
            replaces: None,
            pruned: vec![],
            media: vec![],
            state: String::new(),
            tokens_before: Tokens(0),
            tokens_after: Tokens(0),
            trigger: CompactionTrigger::Auto,
            model: String::new(),
            source: CompactionSource::Fallback,
            input: String::new(),
            snapshot_of: self.session.last_seq(),
            turn_state: TurnState::MidTurn,
        };
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
    let place = |path: &Path| scratch.path().join(path.strip_prefix(root).unwrap());
    for (path, bytes) in state {
        match bytes {
            None => fs::create_dir(place(path)).unwrap(),
            Some(bytes) => fs::write(place(path), bytes).unwrap(),
        }
    }
    let dir = place(session);
    if !ledger_path(&dir).exists() {
        assert_eq!(must, 0, "the ledger is gone");
        return;
    }
    let opened = Session::open_with(&dir, Policy::default(), scope(), outside(Arc::new(Unforced)));
    let mut session = opened.unwrap();
    session.view_mut().context();
    session.view_mut().check().unwrap();
    let found: Vec<Entry> = session.entries().unwrap().collect();
    assert!(found.len() >= must, "{} entries of {must} acknowledged", found.len());
    if hole {
        // Bytes that were never written stand before others that were: what is left is in order, and nothing else.
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
    // And it goes on.
    let next = session
        .append(
            vec![EntryKind::Message { message: Message::user("after the power loss") }],
            Durability::Synced,
        )
        .unwrap();
    assert!(next.iter().all(|seq| seq.0 as usize > found.len()));
    drop(session);
    assert_eq!(entries(&dir).len(), found.len() + 1);
}

/// Every moment of the record, every kind of loss. Returns how many different states were opened.
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
                        check(&state, &dir, root, &want, moment.acknowledged, hole)
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
    let mut script = script(root.path());
    for nth in 0..4 {
        script.turn(nth);
    }
    script.compact("## Goal".into());
    script.turn(4);
    let states = crash_everywhere(script, root.path(), &|_| true);
    assert!(states > 500, "{states}");
}

#[test]
fn a_checkpoint_is_whole_or_not_believed() {
    let root = tempfile::tempdir().unwrap();
    let mut script = script(root.path());
    // Long enough for a checkpoint, and what comes behind it.
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
    // All of it was forced; then a write that never ended.
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
                // The torn end is somewhere, whatever happened.
                let kept = state.values().flatten().any(|bytes| bytes.windows(torn.len()).any(|w| w == torn));
                assert!(kept, "the torn end is gone after {op:?}: {names:?}, {bytes:?}");
            }
        }
    }
}
