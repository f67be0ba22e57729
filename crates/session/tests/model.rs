//! Stored sessions against a model in memory: any operations in any order, on several sessions, with crashes between them,
//! and both say the same all the time.
//!
//! The model of a session is the list of its entries and a view folded from them; that of the store is which sessions there
//! are, and which lie in the trash. Operations: whatever happens in a conversation (messages, calls, prunes, compactions with
//! their continuation, pins, what is brought back, reverts and reverts of reverts), titles, tags, going back to before an
//! entry, dropping, forking anywhere, export and import, trash and restoring, deleting, closing, and dying in the middle of a
//! write. After each the sequence numbers, titles and contexts agree; after a crash, and at the end, all entries of all
//! sessions, lists included.
//!
//! 40 operations a case, 250 cases (10,000 operations) in every run; `PROPTEST_CASES=25000` for a million.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod disks;
mod ledgers;

use becket_exchange::export::{Format, Secrets, export};
use becket_exchange::import::import_own;
use becket_session::context::Policy;
use becket_session::store::{self, Outside, ledger_path, trash};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{Entry, EntryKind, Millis, Seq, SessionId};
use disks::Unforced;
use ledgers::{Op, World, cases, ops, plain};
use proptest::prelude::*;
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MOST: usize = 4;

#[derive(Clone, Debug)]
enum Deed {
    /// An event in a conversation.
    Talk(Op),
    Title(usize),
    Tags(usize),
    Archive(bool),
    /// A rewind: all entries from one on count as if they were not there.
    Rewind(usize),
    Fork(usize),
    /// The following events go to another session.
    Switch(usize),
    Close,
    /// The process dies; this many bytes of its next line were written.
    Crash(usize),
    /// The session is exported to a file, deleted, and imported again.
    Carry,
    Trash,
    Restore(usize),
    Purge,
    New,
}

fn deed() -> impl Strategy<Value = Deed> {
    let n = || 0usize..1_000;
    prop_oneof![
        30 => ops(2).prop_map(|mut ops| Deed::Talk(ops.remove(0))),
        1 => n().prop_map(Deed::Title),
        1 => n().prop_map(Deed::Tags),
        1 => any::<bool>().prop_map(Deed::Archive),
        1 => n().prop_map(Deed::Rewind),
        1 => n().prop_map(Deed::Fork),
        2 => n().prop_map(Deed::Switch),
        2 => Just(Deed::Close),
        3 => n().prop_map(Deed::Crash),
        1 => Just(Deed::Carry),
        1 => Just(Deed::Trash),
        1 => n().prop_map(Deed::Restore),
        1 => Just(Deed::Purge),
        1 => Just(Deed::New),
    ]
}

/// The expected state of one session.
struct Want {
    id: SessionId,
    world: World,
    title: Option<String>,
    tags: Vec<String>,
    archived: bool,
}

impl Want {
    fn of(id: SessionId, world: World) -> Self {
        let mut want = Self { id, world, title: None, tags: Vec::new(), archived: false };
        for entry in &want.world.entries {
            match &entry.kind {
                EntryKind::Title { title } => want.title = Some(title.clone()),
                EntryKind::State { key, value } if key == "tags" => {
                    want.tags = serde_json::from_value(value.clone()).unwrap();
                }
                EntryKind::State { key, value } if key == "archived" => want.archived = *value == true,
                _ => {}
            }
        }
        want
    }
}

struct Run {
    home: tempfile::TempDir,
    /// Existing sessions. Events go to the first one, if it is open.
    wants: Vec<Want>,
    trash: Vec<Want>,
    open: Option<Session>,
    forks: u128,
}

fn options() -> CreateOptions {
    CreateOptions { persist: true, outside: outside(), ..CreateOptions::default() }
}

fn outside() -> Outside {
    Outside { io: Arc::new(Unforced), clock: Arc::new(|| Millis(7)) }
}

/// The entries without the values that are only known when an entry is written: its time, and a message's sequence number.
fn told(entries: &[Entry]) -> Vec<Entry> {
    let mut entries = entries.to_vec();
    for entry in &mut entries {
        entry.time = Millis(0);
        if let EntryKind::Message { message } = &mut entry.kind {
            message.seq = Seq(0);
        }
    }
    entries
}

fn stored(dir: &Path) -> Vec<Entry> {
    store::read_entries(dir).unwrap().filter_map(|item| item.unwrap().ok()).collect()
}

impl Run {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        Self { home, wants: Vec::new(), trash: Vec::new(), open: None, forks: 1 }
    }

    fn root(&self) -> PathBuf {
        self.home.path().join("sessions")
    }

    fn dir(&self, id: SessionId) -> PathBuf {
        store::session_dir(&self.root(), self.home.path(), id)
    }

    /// Opens the first session of the model, and creates one if there is none.
    fn session(&mut self) -> &mut Session {
        if self.wants.is_empty() {
            self.create();
        }
        if self.open.is_none() {
            let want = &self.wants[0];
            let scope = want.world.scope.clone();
            let session =
                Session::open_with(&self.dir(want.id), Policy::default(), scope, outside()).unwrap();
            self.open = Some(session);
        }
        self.open.as_mut().unwrap()
    }

    fn create(&mut self) {
        self.open = None;
        let scope = ledgers::scope(0, true);
        let session =
            Session::create(&self.root(), self.home.path(), options(), Policy::default(), scope).unwrap();
        self.forks += 1;
        let world = World::with(session.entries().unwrap().collect(), self.forks << 20);
        self.wants.insert(0, Want::of(session.id(), world));
        self.open = Some(session);
    }

    /// Applies a deed to the model, and appends the entries that the model got to the session, as one commit.
    fn both(&mut self, deed: impl FnOnce(&mut World)) {
        self.session();
        let world = &mut self.wants[0].world;
        let before = world.entries.len();
        deed(world);
        world.entries[before..].iter_mut().for_each(|entry| entry.time = Millis(7));
        let new: Vec<EntryKind> = world.entries[before..].iter().map(|e| e.kind.clone()).collect();
        let scope = world.scope.clone();
        let session = self.open.as_mut().unwrap();
        session.view_mut().set_scope(scope);
        session.append(new, Durability::Buffered).unwrap();
        let (id, world) = (self.wants[0].id, std::mem::replace(&mut self.wants[0].world, World::new()));
        self.wants[0] = Want::of(id, world);
    }

    fn run(&mut self, deed: &Deed) {
        match deed {
            Deed::Talk(op) => self.both(|world| world.run(op)),
            Deed::Title(n) => self.both(|world| {
                world.push(EntryKind::Title { title: format!("title {n}") });
            }),
            Deed::Tags(n) => self.both(|world| {
                let tags: Vec<String> = (0..n % 4).map(|t| format!("tag{t}")).collect();
                world.push(EntryKind::State { key: "tags".into(), value: json!(tags) });
            }),
            Deed::Archive(archived) => self.both(|world| {
                world.push(EntryKind::State { key: "archived".into(), value: json!(archived) });
            }),
            Deed::Rewind(n) => self.both(|world| {
                let last = world.entries.len() as u64;
                let from = 2.max(last - (*n as u64 % 12).min(last - 1));
                for seq in (from..=last).rev() {
                    world.push(EntryKind::Revert { entry: Seq(seq) });
                }
            }),
            Deed::Switch(n) => {
                self.open = None;
                let len = self.wants.len().max(1);
                if !self.wants.is_empty() {
                    self.wants.swap(0, n % len);
                }
            }
            Deed::New if self.wants.len() + self.trash.len() < MOST => self.create(),
            Deed::Fork(n) if self.wants.len() + self.trash.len() < MOST => self.fork(*n),
            Deed::New | Deed::Fork(_) => {}
            Deed::Close => self.open = None,
            Deed::Crash(bytes) => self.crash(*bytes),
            Deed::Carry => self.carry(),
            Deed::Trash => {
                self.open = None;
                if !self.wants.is_empty() {
                    let want = self.wants.remove(0);
                    let place = self.home.path().join("trash");
                    trash::throw_away(&Unforced, &place, &self.dir(want.id), Millis(7)).unwrap();
                    self.trash.push(want);
                }
            }
            Deed::Restore(n) => {
                let place = self.home.path().join("trash");
                let mut lying = trash::trashed(&place).unwrap();
                assert_eq!(lying.len(), self.trash.len());
                if !lying.is_empty() {
                    let thrown = lying.remove(n % lying.len());
                    trash::bring_back(&Unforced, &self.root(), &thrown).unwrap();
                    let at = self.trash.iter().position(|w| w.id == thrown.summary.id).unwrap();
                    self.wants.push(self.trash.remove(at));
                }
            }
            Deed::Purge => {
                let gone = trash::purge(&Unforced, &self.home.path().join("trash"), Millis(9), true).unwrap();
                assert_eq!(gone.len(), self.trash.len());
                self.trash.clear();
            }
        }
    }

    fn fork(&mut self, n: usize) {
        self.session();
        self.open = None;
        let source = &self.wants[0];
        let last = source.world.entries.len();
        let upto = 1 + n % last;
        let scope = source.world.scope.clone();
        let fork = Session::fork(
            &self.dir(source.id),
            Some(Seq(upto as u64)),
            &self.root(),
            self.home.path(),
            options(),
            Policy::default(),
            scope.clone(),
        )
        .unwrap();
        let mut entries = source.world.entries[..upto].to_vec();
        entries[0] = fork.entries().unwrap().next().unwrap();
        self.forks += 1;
        let mut world = World::with(entries, self.forks << 20);
        world.scope = scope;
        world.view = world.fresh();
        self.wants.insert(0, Want::of(fork.id(), world));
        self.open = Some(fork);
    }

    fn crash(&mut self, bytes: usize) {
        self.session();
        self.open = None;
        let path = ledger_path(&self.dir(self.wants[0].id));
        let line = fs::read(&path).unwrap();
        let begin = line[..line.len() - 1].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let next = &line[begin..];
        // Never the whole line: it would be in the ledger twice and count once.
        let torn = &next[..bytes % (next.len() - 1)];
        OpenOptions::new().append(true).open(&path).unwrap().write_all(torn).unwrap();
        let noticed = !self.session().take_notices().is_empty();
        assert!(noticed || torn.is_empty(), "{} torn bytes and no word", torn.len());
        self.agree();
    }

    fn carry(&mut self) {
        let mut file = Vec::new();
        export(self.session().dir(), Format::Whole, Secrets::Keep, &mut file).unwrap();
        self.open = None;
        let dir = self.dir(self.wants[0].id);
        fs::remove_dir_all(&dir).unwrap();
        let imported = import_own(&self.root(), &file, Some(self.home.path())).unwrap();
        assert_eq!((imported.id, &imported.dir), (self.wants[0].id, &dir));
        let mut again = Vec::new();
        export(self.session().dir(), Format::Whole, Secrets::Keep, &mut again).unwrap();
        assert!(file == again, "export, import, export");
    }

    /// The session that is open says what its model says.
    fn agree(&mut self) {
        let Some(session) = &mut self.open else { return };
        let want = &self.wants[0];
        assert_eq!(session.last_seq().0 as usize, want.world.entries.len());
        assert_eq!(session.title(), want.title.as_deref());
        assert_eq!(plain(session.view_mut()), plain(&mut want.world.fresh()));
        assert_eq!(session.view_mut().check(), Ok(()));
    }

    /// Asserts that every session on disk equals its model, and that there is no other.
    fn all_agree(&mut self) {
        self.agree();
        self.open = None;
        let mut listed: Vec<_> = store::list(&self.root(), None).unwrap();
        listed.sort_by_key(|s| s.id);
        let mut wanted: Vec<&Want> = self.wants.iter().collect();
        wanted.sort_by_key(|w| w.id);
        assert_eq!(listed.len(), wanted.len());
        for (found, want) in listed.iter().zip(wanted) {
            assert_eq!(found.id, want.id);
            assert_eq!((&found.title, &found.tags, found.archived), (&want.title, &want.tags, want.archived));
            assert_eq!(told(&stored(&found.dir)), told(&want.world.entries));
        }
        let lying = trash::trashed(&self.home.path().join("trash")).unwrap();
        assert_eq!(lying.len(), self.trash.len());
        for thrown in lying {
            let want = self.trash.iter().find(|w| w.id == thrown.summary.id).unwrap();
            assert_eq!(told(&stored(&thrown.summary.dir)), told(&want.world.entries));
        }
    }
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn sessions_on_disk_are_what_the_model_says(deeds in proptest::collection::vec(deed(), 40)) {
        let mut run = Run::new();
        for deed in &deeds {
            run.run(deed);
            run.agree();
        }
        run.all_agree();
    }
}
