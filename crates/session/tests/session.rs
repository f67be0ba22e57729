//! Sessions as a whole: make, open, fork, find, list, export, and the folders they must get along with.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod given;

use becket_exchange::export::{Format, Secrets};
use becket_session::context::Policy;
use becket_session::store::{self, StoreError};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{Blobs, Entry, EntryKind, FinishReason, Message, Part, Seq, SessionId, Synthetic};
use given::scope;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn options() -> CreateOptions {
    CreateOptions { version: "1.2.3".into(), persist: true, ..CreateOptions::default() }
}

fn create_with(root: &Path, cwd: &Path, options: CreateOptions) -> Result<Session, StoreError> {
    Session::create(root, cwd, options, Policy::default(), scope())
}

fn create(root: &Path, cwd: &Path) -> Session {
    create_with(root, cwd, options()).unwrap()
}

fn open(dir: &Path) -> Session {
    Session::open(dir, Policy::default(), scope()).unwrap()
}

fn user(text: &str) -> EntryKind {
    EntryKind::Message { message: Message::user(text) }
}

fn entries(session: &Session) -> Vec<Entry> {
    session.entries().unwrap().collect()
}

#[test]
fn a_session_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), dir.path());
    let seqs = session.append(vec![user("hi"), EntryKind::Interrupt], Durability::Synced).unwrap();
    assert_eq!(seqs, [Seq(2), Seq(3)]);
    assert_eq!(session.append(vec![], Durability::Synced).unwrap(), []);
    let blob = session.put_blob(b"bytes").unwrap();
    session.append(vec![EntryKind::Title { title: "T".into() }], Durability::Buffered).unwrap();
    let (all, info, at) = (entries(&session), session.info().clone(), session.dir().to_path_buf());
    assert!(matches!(&all[1].kind, EntryKind::Message { message } if message.seq == Seq(2)));
    assert_eq!(session.take_notices(), Vec::<String>::new());
    drop(session);

    let mut again = open(&at);
    assert_eq!(entries(&again), all);
    assert_eq!(again.info(), &info);
    assert_eq!(again.info().version, "1.2.3");
    assert_eq!(again.title(), Some("T"));
    assert_eq!(again.last_seq(), Seq(4));
    assert_eq!(again.view().last_seq(), Seq(4));
    assert_eq!(again.blobs().get(&blob), Some(b"bytes".to_vec()));
    assert_eq!(again.take_notices(), Vec::<String>::new());
    assert!(matches!(Session::open(&at, Policy::default(), scope()), Err(StoreError::Locked { .. })));
}

#[test]
fn a_session_in_use_can_be_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), dir.path());
    let blob = session.put_blob(b"bytes").unwrap();
    session.append(vec![user("hi"), EntryKind::Title { title: "T".into() }], Durability::Buffered).unwrap();
    let before = fs::read(store::ledger_path(session.dir())).unwrap();
    let peek = Session::peek(session.dir(), Policy::default(), scope()).unwrap();
    assert_eq!(&peek.info, session.info());
    assert_eq!((peek.title.as_deref(), peek.view.last_seq()), (Some("T"), Seq(3)));
    assert_eq!(peek.blobs.get(&blob), Some(b"bytes".to_vec()));
    assert_eq!((peek.bad, peek.notices), (vec![], vec![]));
    assert_eq!(fs::read(store::ledger_path(session.dir())).unwrap(), before);
}

/// The view is the same if it was updated entry by entry, made on opening, or folded from the whole ledger.
#[test]
fn undoing_a_compaction_gives_the_earlier_view_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), dir.path());
    let big = "words and words ".repeat(20_000);
    for n in 0..40 {
        let answer = Message::assistant(vec![Part::text(format!("{n} {big}"))]);
        let id = answer.id;
        session
            .append(
                vec![
                    user(&format!("task {n}")),
                    EntryKind::Message { message: answer },
                    EntryKind::Finish { message: id, reason: FinishReason::Stop },
                ],
                Durability::Buffered,
            )
            .unwrap();
    }
    let before = session.view_mut().context().messages.clone();
    assert_eq!(before.len(), 80);
    let compaction = given::compaction(&session, Seq(119));
    let made = session.append(vec![EntryKind::Compaction(Box::new(compaction))], Durability::Synced).unwrap();
    assert!(session.view_mut().context().messages.len() < 10);
    let at = session.dir().to_path_buf();
    drop(session);
    let mut again = open(&at);
    assert!(again.view_mut().context().messages.len() < 10);
    again.append(vec![EntryKind::Revert { entry: made[0] }], Durability::Synced).unwrap();
    assert!(!again.view().stale());
    assert_eq!(again.view_mut().context().messages, before);
    drop(again);
    assert_eq!(open(&at).view_mut().context().messages, before);
}

#[test]
fn an_unfinished_assistant_at_the_end_opens() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), dir.path());
    let answer = Message::assistant(vec![Part::text("so f")]);
    let id = answer.id;
    session.append(vec![user("q")], Durability::Synced).unwrap();
    session.append(vec![EntryKind::Message { message: answer }], Durability::Buffered).unwrap();
    session
        .append(
            vec![EntryKind::Part { message: id, part: Part::tool_call("c", "bash", json!({})) }],
            Durability::Buffered,
        )
        .unwrap();
    let at = session.dir().to_path_buf();
    drop(session);
    let mut again = open(&at);
    again.append(vec![user("go on")], Durability::Synced).unwrap();
    assert_eq!(again.last_seq(), Seq(5));
}

#[test]
fn without_persistence_no_file_comes_about() {
    let dir = tempfile::tempdir().unwrap();
    let mut session =
        create_with(dir.path(), dir.path(), CreateOptions { persist: false, ..options() }).unwrap();
    session.append(vec![user("secret")], Durability::Synced).unwrap();
    let blob = session.put_blob(b"secret").unwrap();
    assert_eq!(session.blobs().get(&blob), Some(b"secret".to_vec()));
    assert_eq!(entries(&session).len(), 2);
    assert!(session.flush());
    assert_eq!(session.take_notices(), Vec::<String>::new());
    drop(session);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_unusable_data_directory_means_memory_and_one_notice() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let mut session = create(&file, dir.path());
    session.append(vec![user("one")], Durability::Synced).unwrap();
    session.append(vec![user("two")], Durability::Synced).unwrap();
    let blob = session.put_blob(b"b").unwrap();
    assert_eq!(entries(&session).len(), 3);
    assert_eq!(session.blobs().get(&blob), Some(b"b".to_vec()));
    let notices = session.take_notices();
    assert_eq!(notices.iter().filter(|n| n.contains("Cannot save this session")).count(), 1, "{notices:?}");
    assert!(!session.flush());
    // When the folder can be used again, everything is written.
    fs::remove_file(&file).unwrap();
    assert!(session.flush());
    let at = session.dir().to_path_buf();
    let all = entries(&session);
    drop(session);
    assert_eq!(entries(&open(&at)), all);
}

#[cfg(unix)]
#[test]
fn any_working_directory_is_kept_byte_for_byte() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let cwd = dir.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9 \xff"));
    fs::create_dir(&cwd).unwrap();
    let root = dir.path().join("sessions");
    let session = create(&root, &cwd);
    let at = session.dir().to_path_buf();
    drop(session);
    assert_eq!(open(&at).info().cwd, cwd);
    let listed = store::list(&root, Some(&cwd)).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].cwd, cwd);
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&cwd, &link).unwrap();
    assert_eq!(store::list(&root, Some(&link)).unwrap(), listed, "found from every alias");
}

#[test]
fn a_fork_has_the_same_entries_under_the_same_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), dir.path());
    session.append(vec![user("one"), user("two"), user("three")], Durability::Buffered).unwrap();
    let strange = json!({"kind": "teleport", "to": 1.5}).as_object().cloned().unwrap();
    session.append(vec![EntryKind::Unknown(strange), user("four")], Durability::Buffered).unwrap();
    let blob = session.put_blob(b"bytes").unwrap();
    let original = entries(&session);
    for (upto, want) in [(None, 6), (Some(Seq(3)), 3), (Some(Seq(5)), 5), (Some(Seq(1)), 1)] {
        for persist in [true, false] {
            // The source is open for writing meanwhile.
            let mut fork = Session::fork(
                session.dir(),
                upto,
                dir.path(),
                dir.path(),
                CreateOptions { persist, ..options() },
                Policy::default(),
                scope(),
            )
            .unwrap();
            let forked = entries(&fork);
            assert_eq!(forked[1..], original[1..want]);
            assert_eq!(fork.info().forked_from, Some((session.id(), Seq(want as u64))));
            assert_ne!(fork.id(), session.id());
            assert_eq!(fork.view().last_seq(), Seq(want as u64));
            assert_eq!(fork.blobs().get(&blob), Some(b"bytes".to_vec()));
            assert_eq!(fork.append(vec![user("on")], Durability::Synced).unwrap(), [Seq(want as u64 + 1)]);
            if persist {
                let at = fork.dir().to_path_buf();
                drop(fork);
                let mut again = open(&at);
                assert_eq!(entries(&again).len(), want + 1);
                assert_eq!(again.take_notices(), Vec::<String>::new());
            }
        }
    }
    assert_eq!(entries(&session), original);
}

#[test]
fn find_takes_ids_prefixes_and_titles_and_lists_candidates() {
    let dir = tempfile::tempdir().unwrap();
    let (root, here, there) = (dir.path().join("s"), dir.path().join("here"), dir.path().join("there"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&there).unwrap();
    let ids: Vec<SessionId> = [
        ("aaaaaaaa-0000-7000-8000-000000000001", &here, "red"),
        ("aaaaaaaa-0000-7000-8000-000000000002", &there, "blue"),
        ("bbbbbbbb-0000-7000-8000-000000000003", &there, "red"),
    ]
    .map(|(id, cwd, title)| {
        let id: SessionId = id.parse().unwrap();
        let mut session = create_with(&root, cwd, CreateOptions { id: Some(id), ..options() }).unwrap();
        session.append(vec![user(&format!("make it {title}"))], Durability::Buffered).unwrap();
        // Long messages put the title far from either end of the ledger.
        let filler = "x".repeat(200_000);
        session.append(vec![user(&filler)], Durability::Buffered).unwrap();
        session.append(vec![EntryKind::Title { title: title.into() }], Durability::Buffered).unwrap();
        session.append(vec![user(&filler)], Durability::Buffered).unwrap();
        id
    })
    .to_vec();
    let find = |query: &str, project: Option<&Path>| store::find(&root, query, project).map(|s| s.id);
    assert_eq!(find(&ids[1].to_string(), None).unwrap(), ids[1]);
    assert_eq!(find("BBBB", None).unwrap(), ids[2]);
    assert_eq!(find("blue", None).unwrap(), ids[1]);
    assert_eq!(find("aaaa", Some(&here)).unwrap(), ids[0]);
    assert_eq!(find("red", Some(&there)).unwrap(), ids[2]);
    for (query, n) in [("aaaa", 2), ("red", 2)] {
        match find(query, None) {
            Err(StoreError::Ambiguous { candidates, .. }) => assert_eq!(candidates.len(), n),
            other => panic!("{other:?}"),
        }
    }
    for query in ["", "bbb", "cccc", "green", "../s", "make it red"] {
        assert!(matches!(find(query, None), Err(StoreError::NotFound { .. })), "{query}");
    }
    let listed = store::list(&root, Some(&there)).unwrap();
    assert_eq!(
        listed.iter().map(|s| s.prompt.as_deref()).collect::<Vec<_>>(),
        [Some("make it red"), Some("make it blue")]
    );
    assert_eq!(store::most_recent(&root, &there, |_| true).unwrap().map(|s| s.id), Some(ids[2]));
    assert_eq!(store::most_recent(&root, &there, |s| s.id != ids[2]).unwrap().map(|s| s.id), Some(ids[1]));
    assert_eq!(store::most_recent(&root, dir.path(), |_| true).unwrap(), None);
    assert!(matches!(
        create_with(&root, &here, CreateOptions { id: Some(ids[0]), ..options() }),
        Err(StoreError::Exists { .. })
    ));
}

#[test]
fn a_damaged_session_is_listed_opened_and_exported() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), dir.path());
    session.append(vec![user("one")], Durability::Buffered).unwrap();
    session.append(vec![user("two")], Durability::Buffered).unwrap();
    let at = session.dir().to_path_buf();
    drop(session);
    let path = store::ledger_path(&at);
    let text = fs::read_to_string(&path).unwrap();
    // Somebody edited the first line: the session is known by its folder alone.
    fs::write(&path, text.replacen("1.2.3", "9.9.9", 1)).unwrap();
    let mut again = open(&at);
    assert_eq!(entries(&again).len(), 2);
    assert_eq!(again.take_notices().len(), 2);
    drop(again);
    assert_eq!(store::list(dir.path(), None).unwrap().len(), 1);
    let mut out = Vec::new();
    becket_exchange::export::export(&at, Format::Markdown, Secrets::Mask, &mut out).unwrap();
    let markdown = String::from_utf8(out).unwrap();
    assert!(markdown.starts_with("## User\n\none\n\ntwo\n\n> unreadable record: line 1"), "{markdown}");
    let missing = becket_exchange::export::export(dir.path(), Format::Jsonl, Secrets::Mask, &mut Vec::new());
    assert!(matches!(missing, Err(StoreError::NotFound { .. })));
}

#[test]
fn exports_hide_what_people_do_not_see_and_keep_the_plain_words() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), dir.path());
    let steered = Message::user("also the docs");
    let reminder = EntryKind::Reminder { message: steered.id, step: 2 };
    session
        .append(
            vec![
                user("fix it"),
                EntryKind::Message { message: steered },
                reminder,
                EntryKind::Message { message: Message::synthetic(Synthetic::CompactionContinue, "continue") },
            ],
            Durability::Buffered,
        )
        .unwrap();
    let mut markdown = Vec::new();
    becket_exchange::export::export(session.dir(), Format::Markdown, Secrets::Keep, &mut markdown).unwrap();
    assert_eq!(String::from_utf8(markdown).unwrap(), "## User\n\nfix it\n\nalso the docs\n\n");
    let mut jsonl = Vec::new();
    becket_exchange::export::export(session.dir(), Format::Jsonl, Secrets::Keep, &mut jsonl).unwrap();
    assert_eq!(jsonl, fs::read(store::ledger_path(session.dir())).unwrap());
    let text = String::from_utf8(jsonl).unwrap();
    assert!(
        text.contains("also the docs") && text.contains("\"continue\"") && !text.contains("system-reminder")
    );
}

#[test]
fn values_nested_beyond_what_json_readers_take_are_kept_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = create(dir.path(), dir.path());
    let mut deep = json!({"end": true});
    for _ in 0..126 {
        deep = json!({ "in": deep });
    }
    let call = Message::assistant(vec![Part::tool_call("c1", "bash", deep)]);
    let id = call.id;
    session.append(vec![EntryKind::Message { message: call }], Durability::Buffered).unwrap();
    assert_eq!(session.take_notices().len(), 1);
    let at = session.dir().to_path_buf();
    drop(session);
    let mut again = open(&at);
    assert_eq!(again.take_notices(), Vec::<String>::new());
    let all = entries(&again);
    assert!(matches!(&all[1].kind, EntryKind::Message { message } if message.id == id
        && matches!(&message.parts[0], Part::ToolCall { input: Value::Object(_), .. })));
}

#[test]
fn thirty_two_sessions_start_at_once_in_one_directory() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("not/there/yet");
    std::thread::scope(|scope| {
        for worker in 0..32 {
            let root = &root;
            let cwd = dir.path();
            scope.spawn(move || {
                let mut session = create(root, cwd);
                for n in 0..50 {
                    session.append(vec![user(&format!("{worker} {n}"))], Durability::Buffered).unwrap();
                    session.put_blob(format!("{worker} {n}").as_bytes()).unwrap();
                }
                assert_eq!(session.take_notices(), Vec::<String>::new());
            });
        }
    });
    let sessions = store::list(&root, Some(dir.path())).unwrap();
    assert_eq!(sessions.len(), 32);
    assert!(sessions.iter().all(|s| s.ledger.messages == Some(50)));
    for session in sessions {
        assert_eq!(open(&session.dir).last_seq(), Seq(51));
    }
}

#[test]
fn a_session_taken_from_two_places_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let id = SessionId::new();
    let made: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..16)
            .map(|_| {
                let cwd: PathBuf = dir.path().to_path_buf();
                scope.spawn(move || {
                    let made = create_with(&cwd, &cwd, CreateOptions { id: Some(id), ..options() });
                    match made {
                        Ok(_) => 1,
                        Err(StoreError::Exists { .. } | StoreError::Locked { .. }) => 0,
                        Err(other) => panic!("{other}"),
                    }
                })
            })
            .collect();
        workers.into_iter().map(|w| w.join().unwrap()).sum()
    });
    assert_eq!(made, 1);
}
