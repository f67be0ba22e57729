//! Requirements on a store of sessions, tested with both stores: the files of one machine, and PostgreSQL
//! with several machines. A machine is a data directory with access to storage. Machines of the file store
//! share the directory, like processes do.
//!
//! If no server can be started, the tests of PostgreSQL report that they were skipped.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod encrypted;
mod server;

use becket_session::context::{ModelScope, Policy};
use becket_session::index::{self, Query};
use becket_session::store::{self, Disk, Io, Outside, trash};
use becket_session::{CreateOptions, Durability, Session, StoreError, ledger};
use becket_store_postgres::{ConnectError, Postgres};
use becket_types::{Entry, EntryKind, Message, Millis, Seq};
use server::Server;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A machine: its data directory, its way to storage, and how it learns what others did.
struct Machine {
    home: PathBuf,
    io: Arc<dyn Io>,
    pull: Box<dyn Fn()>,
}

const PROJECT: &str = "/";

fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 10,
        max_media_bytes: 1 << 20,
    }
}

fn user(text: &str) -> EntryKind {
    EntryKind::Message { message: Message::user(text) }
}

impl Machine {
    fn root(&self) -> PathBuf {
        self.home.join("sessions")
    }

    fn trash(&self) -> PathBuf {
        self.home.join("trash")
    }

    fn outside(&self) -> Outside {
        Outside { io: Arc::clone(&self.io), ..Outside::default() }
    }

    fn options(&self) -> CreateOptions {
        CreateOptions { persist: true, outside: self.outside(), ..CreateOptions::default() }
    }

    fn create(&self) -> Session {
        let project = Path::new(PROJECT);
        Session::create(&self.root(), project, self.options(), Policy::default(), scope()).unwrap()
    }

    fn open(&self, id: becket_types::SessionId) -> Result<Session, StoreError> {
        let dir = store::session_dir(&self.root(), Path::new(PROJECT), id);
        let mut session = Session::open_with(&dir, Policy::default(), scope(), self.outside())?;
        assert_eq!(session.take_notices(), [] as [String; 0]);
        Ok(session)
    }

    fn listed(&self) -> Vec<becket_types::SessionId> {
        (self.pull)();
        store::list(&self.root(), None).unwrap().iter().map(|s| s.id).collect()
    }
}

fn texts(session: &Session) -> Vec<String> {
    let text = |entry: Entry| match entry.kind {
        EntryKind::Message { message } => Some(message.text()),
        _ => None,
    };
    session.entries().unwrap().filter_map(text).collect()
}

/// Tests all requirements, with any two machines.
fn conforms(machine: &dyn Fn() -> Machine) {
    let (a, b) = (machine(), machine());
    written_on_one_is_read_on_the_other(&a, &b);
    one_writes_and_the_other_may_take_over(&a, &b);
    forks_and_the_trash(&a, &b);
}

fn written_on_one_is_read_on_the_other(a: &Machine, b: &Machine) {
    let mut session = a.create();
    let id = session.id();
    session.append(vec![user("zebra one")], Durability::Synced).unwrap();
    let blob = session.put_blob(&b"a long output ".repeat(200)).unwrap();
    session
        .append(vec![EntryKind::Title { title: "stripes".into() }, user("two")], Durability::Buffered)
        .unwrap();
    assert!(session.flush());
    assert_eq!(session.take_notices(), [] as [String; 0]);
    drop(session);
    assert_eq!(b.listed(), [id]);
    assert_eq!(store::find(&b.root(), "stripes", None).unwrap().id, id);
    let mut there = b.open(id).unwrap();
    assert_eq!(texts(&there), ["zebra one", "two"]);
    assert_eq!(there.blobs().get(&blob), Some(b"a long output ".repeat(200)));
    there.append(vec![user("zebra three")], Durability::Synced).unwrap();
    drop(there);
    // Opening reads what the other machine wrote, without a list before.
    let again = a.open(id).unwrap();
    assert_eq!(texts(&again), ["zebra one", "two", "zebra three"]);
    assert_eq!(again.last_seq(), Seq(5));
    drop(again);
    for machine in [a, b] {
        (machine.pull)();
        let found = index::serve(&machine.home.join("index.db"), &machine.root(), |index| {
            index.find(&Query { words: "zebra", limit: 10, ..Query::default() })
        });
        assert_eq!(found.unwrap().len(), 2);
    }
    // An incomplete line in the file of one machine does not affect the other machine.
    let mut session = a.open(id).unwrap();
    let taken = Session::create(
        &b.root(),
        Path::new(PROJECT),
        CreateOptions { id: Some(id), ..b.options() },
        Policy::default(),
        scope(),
    );
    assert!(
        matches!(taken, Err(StoreError::Exists { .. } | StoreError::Locked { .. })),
        "an id is taken once"
    );
    session.append(vec![user("four")], Durability::Synced).unwrap();
    drop(session);
    assert_eq!(texts(&b.open(id).unwrap()).len(), 4);
}

fn one_writes_and_the_other_may_take_over(a: &Machine, b: &Machine) {
    let mut first = a.create();
    let id = first.id();
    first.append(vec![user("one")], Durability::Synced).unwrap();
    assert!(b.listed().contains(&id));
    assert!(matches!(b.open(id), Err(StoreError::Locked { .. })));
    first.append(vec![user("two")], Durability::Synced).unwrap();
    let dir = store::session_dir(&b.root(), Path::new(PROJECT), id);
    ledger::take_over(b.io.as_ref(), &dir).unwrap();
    let mut second = b.open(id).unwrap();
    assert_eq!(texts(&second), ["one", "two"]);
    second.append(vec![user("three")], Durability::Synced).unwrap();
    let refused = first.append(vec![user("lost")], Durability::Synced);
    assert!(matches!(refused, Err(StoreError::TakenOver { .. })), "{refused:?}: {:?}", first.take_notices());
    assert!(first.append(vec![user("lost")], Durability::Synced).is_err());
    second.append(vec![user("four")], Durability::Synced).unwrap();
    drop((first, second));
    assert_eq!(texts(&a.open(id).unwrap()), ["one", "two", "three", "four"]);
    assert_eq!(texts(&b.open(id).unwrap()), ["one", "two", "three", "four"]);
}

fn forks_and_the_trash(a: &Machine, b: &Machine) {
    let mut source = a.create();
    source.append(vec![user("one")], Durability::Synced).unwrap();
    let blob = source.put_blob(&b"shared ".repeat(300)).unwrap();
    source.append(vec![user("two")], Durability::Synced).unwrap();
    let from = source.dir().to_path_buf();
    let fork = Session::fork(
        &from,
        Some(Seq(2)),
        &a.root(),
        Path::new(PROJECT),
        a.options(),
        Policy::default(),
        scope(),
    )
    .unwrap();
    let (id, forked) = (source.id(), fork.id());
    drop((source, fork));
    assert!(b.listed().contains(&forked));
    let there = b.open(forked).unwrap();
    assert_eq!(texts(&there), ["one"]);
    assert_eq!(there.info().forked_from, Some((id, Seq(2))));
    assert_eq!(there.blobs().get(&blob), Some(b"shared ".repeat(300)));
    drop(there);
    // Into the trash on the one, out of it on the other; and for good. No session was written to after that.
    let day = Millis(4_000_000_000_000);
    let at = store::session_dir(&a.root(), Path::new(PROJECT), id);
    trash::throw_away(a.io.as_ref(), &a.trash(), &at, day).unwrap();
    assert!(!b.listed().contains(&id));
    let lying = trash::trashed(&b.trash()).unwrap();
    assert_eq!(lying.iter().map(|t| (t.summary.id, t.at)).collect::<Vec<_>>(), [(id, day)]);
    trash::bring_back(b.io.as_ref(), &b.root(), &lying[0]).unwrap();
    assert!(a.listed().contains(&id));
    assert_eq!(texts(&a.open(id).unwrap()), ["one", "two"]);
    let at = store::session_dir(&a.root(), Path::new(PROJECT), id);
    trash::throw_away(a.io.as_ref(), &a.trash(), &at, day).unwrap();
    assert_eq!(trash::purge(a.io.as_ref(), &a.trash(), Millis(10), true).unwrap().len(), 1);
    assert!(!b.listed().contains(&id) && trash::trashed(&b.trash()).unwrap().is_empty());
    // Blobs that a fork shares with a deleted session stay.
    assert_eq!(b.open(forked).unwrap().blobs().get(&blob), Some(b"shared ".repeat(300)));
}

#[test]
fn files_conform() {
    let home = tempfile::tempdir().unwrap();
    conforms(&|| Machine { home: home.path().to_path_buf(), io: Arc::new(Disk), pull: Box::new(|| {}) });
}

fn machine(address: &str, home: &Path) -> Machine {
    let store = Arc::new(Postgres::connect(address, home).unwrap());
    let pulled = Arc::clone(&store);
    Machine { home: home.to_path_buf(), io: store, pull: Box::new(move || pulled.pull().unwrap()) }
}

#[test]
fn postgresql_conforms() {
    let Some(server) = Server::start() else { return };
    let homes = tempfile::tempdir().unwrap();
    let next = std::cell::Cell::new(0);
    let new_machine = |user: &str| {
        next.set(next.get() + 1);
        machine(&server.address(user), &homes.path().join(next.get().to_string()))
    };
    conforms(&|| new_machine("alice"));

    // A server that is lost is treated as a failing disk: the session continues, and everything is stored
    // when the server is back.
    let a = new_machine("alice");
    let mut session = a.create();
    let id = session.id();
    session.append(vec![user("before")], Durability::Synced).unwrap();
    server.sql("postgres", "ALTER ROLE alice NOLOGIN");
    server.sql("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'alice'");
    session.append(vec![user("while it is gone")], Durability::Synced).unwrap();
    session.append(vec![user("still")], Durability::Synced).unwrap();
    assert!(session.backlog() > 0);
    let notices = session.take_notices();
    assert_eq!(notices.iter().filter(|n| n.contains("Cannot save")).count(), 1, "{notices:?}");
    server.sql("postgres", "ALTER ROLE alice LOGIN");
    assert!(session.flush());
    session.append(vec![user("after")], Durability::Synced).unwrap();
    drop(session);
    // A machine that was never there before has all of it.
    let fresh = new_machine("alice");
    assert!(fresh.listed().contains(&id));
    let there = fresh.open(id).unwrap();
    assert_eq!(texts(&there), ["before", "while it is gone", "still", "after"]);
    drop(there);

    // Another user sees nothing of the session and cannot write under the first user's name.
    let bob = new_machine("bob");
    assert!(bob.listed().is_empty());
    for table in ["sessions", "pieces", "blobs"] {
        assert_eq!(server.sql("bob", &format!("SELECT count(*) FROM becket.{table}")), "0\n");
        assert_ne!(server.sql("alice", &format!("SELECT count(*) FROM becket.{table}")), "0\n");
    }
    let forged = "INSERT INTO becket.sessions (owner, id, project) VALUES ('alice', gen_random_uuid(), 'x')";
    assert!(server.sql("bob", forged).contains("row-level security"));
    let mut own = bob.create();
    own.append(vec![user("bob's")], Durability::Synced).unwrap();
    assert_eq!(bob.listed(), [own.id()]);
    assert!(!fresh.listed().contains(&own.id()));
}

#[test]
fn an_address_that_cannot_be_used_is_named() {
    let home = tempfile::tempdir().unwrap();
    let refused = |address: &str| Postgres::connect(address, home.path()).map(drop).unwrap_err();
    assert!(matches!(refused("mysql://x"), ConnectError::Address(_)));
    let far = refused("postgres://me@db.example.org/team?sslmode=prefer");
    assert!(matches!(&far, ConnectError::Plain { host, .. } if host == "db.example.org"), "{far}");
    let nobody = refused("postgres:///x?host=/nonexistent&user=me");
    assert!(nobody.to_string().contains("unset BECKET_STORE"), "{nobody}");
}
