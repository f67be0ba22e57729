//! The index: derived, incremental, and never in anybody's way.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod given;

use becket_session::context::Policy;
use becket_session::index::{self, CaughtUp, Index};
use becket_session::{CreateOptions, Durability, Session, store};
use becket_types::{EntryKind, Message, Part, Seq, Synthetic, Usage};
use given::scope;
use std::fs;
use std::path::{Path, PathBuf};

struct Home {
    _dir: tempfile::TempDir,
    root: PathBuf,
    db: PathBuf,
    project: PathBuf,
}

fn home() -> Home {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    fs::create_dir(&project).unwrap();
    Home { root: dir.path().join("sessions"), db: dir.path().join("index.db"), project, _dir: dir }
}

fn session(home: &Home, cwd: &Path) -> Session {
    let options = CreateOptions { persist: true, ..CreateOptions::default() };
    Session::create(&home.root, cwd, options, Policy::default(), scope()).unwrap()
}

fn user(text: &str) -> EntryKind {
    EntryKind::Message { message: Message::user(text) }
}

fn caught_up(sessions: u64, removed: u64) -> CaughtUp {
    CaughtUp { sessions, removed, unreadable: 0 }
}

#[test]
fn it_reads_what_is_new_and_forgets_what_is_gone() {
    let home = home();
    let mut a = session(&home, &home.project);
    a.append(vec![user("fix the Flüchtige parser")], Durability::Buffered).unwrap();
    let b = session(&home, &home.root);
    let mut index = Index::open(&home.db, &home.root).unwrap();
    assert_eq!(index.catch_up().unwrap(), caught_up(2, 0));
    assert_eq!(index.catch_up().unwrap(), caught_up(0, 0));

    let answer = Message::assistant(vec![Part::text("The parser is")]);
    let part = EntryKind::Part { message: answer.id, part: Part::text("repaired") };
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    let spent = EntryKind::Usage {
        message: None,
        model: "p/m".into(),
        usage,
        cost_usd: 0.25,
        purpose: "turn".into(),
    };
    a.append(
        vec![
            EntryKind::Message { message: answer },
            part,
            spent.clone(),
            spent,
            EntryKind::Message { message: Message::synthetic(Synthetic::Rules, "hidden parser rules") },
            EntryKind::Title { title: "Parser".into() },
        ],
        Durability::Buffered,
    )
    .unwrap();
    assert_eq!(index.catch_up().unwrap(), caught_up(1, 0));

    let hits = |query: &str| -> Vec<(Seq, String)> {
        let hits = index.search(query, None, 10).unwrap();
        let mut found: Vec<_> = hits.into_iter().map(|hit| (hit.seq, hit.role)).collect();
        found.sort();
        found
    };
    assert_eq!(hits("parser"), [(Seq(2), "user".to_owned()), (Seq(3), "assistant".to_owned())]);
    assert_eq!(hits("fluchtige pars"), [(Seq(2), "user".to_owned())]);
    assert_eq!(hits("repair"), [(Seq(4), "assistant".to_owned())]);
    for nothing in ["hidden", "", "  ", "\"", "AND", "parser NOT fix", "text:parser", "*"] {
        assert_eq!(hits(nothing), [], "{nothing}");
    }
    assert_eq!(index.search("parser", Some(&home.root), 10).unwrap(), []);

    let statistics = index.statistics(None).unwrap();
    assert_eq!((statistics.sessions, statistics.messages), (2, 3));
    assert_eq!(statistics.models.len(), 1);
    assert_eq!(statistics.models[0].usage, usage + usage);
    assert_eq!((statistics.models[0].requests, statistics.models[0].cost.0), (2, 0.5));

    assert_eq!(index.list(None).unwrap(), store::list(&home.root, None).unwrap());
    assert_eq!(
        index.list(Some(&home.project)).unwrap(),
        store::list(&home.root, Some(&home.project)).unwrap()
    );
    assert_eq!(index.list(Some(&home.project)).unwrap()[0].label(), "Parser");

    let gone = b.dir().to_path_buf();
    drop(b);
    fs::remove_dir_all(gone).unwrap();
    assert_eq!(index.catch_up().unwrap(), caught_up(0, 1));
    assert_eq!(index.list(None).unwrap().len(), 1);
    let (rebuilt, done) = Index::rebuild(&home.db, &home.root).unwrap();
    assert_eq!(done, caught_up(1, 0));
    assert_eq!(rebuilt.list(None).unwrap(), store::list(&home.root, None).unwrap());
}

#[test]
fn scripts_without_spaces_are_found_anywhere_in_a_text() {
    let home = home();
    let mut a = session(&home, &home.project);
    let said = "cafe漢字テスト実行 and 你好世界";
    a.append(vec![user(said), user("字漢")], Durability::Buffered).unwrap();
    let mut index = Index::open(&home.db, &home.root).unwrap();
    index.catch_up().unwrap();
    for query in ["テスト", "世界", "漢字", "字テ", "cafe", "漢字 世界", "界"] {
        let hits = index.search(query, None, 10).unwrap();
        assert_eq!(hits.iter().map(|hit| hit.seq).collect::<Vec<_>>(), [Seq(2)], "{query}");
        assert_eq!(hits[0].snippet, said, "{query}");
    }
    assert_eq!(index.search("世好", None, 10).unwrap(), []);
    assert_eq!(index.search("字", None, 10).unwrap().len(), 2);
}

#[test]
fn a_session_is_found_by_its_title_once() {
    let home = home();
    let mut a = session(&home, &home.project);
    let title = |text: &str| EntryKind::Title { title: text.into() };
    let kinds =
        vec![title("mend the lamp"), user("mend the lamp"), title("Lighthouse"), title("Lighthouse 2")];
    a.append(kinds, Durability::Buffered).unwrap();
    let mut index = Index::open(&home.db, &home.root).unwrap();
    index.catch_up().unwrap();
    let roles = |query: &str| -> Vec<String> {
        index.search(query, None, 10).unwrap().into_iter().map(|hit| hit.role).collect()
    };
    assert_eq!(roles("lighthouse"), ["title"]);
    assert_eq!(roles("lamp"), ["user"]);
}

#[test]
fn where_no_file_can_be_written_one_question_is_answered_all_the_same() {
    let home = home();
    let mut a = session(&home, &home.project);
    a.append(vec![user("fix the parser")], Durability::Buffered).unwrap();
    // A folder at the path of the index: even root, who may write everywhere, cannot open it as a file.
    fs::create_dir(&home.db).unwrap();
    let hits = index::serve(&home.db, &home.root, |index| index.search("parser", None, 10)).unwrap();
    assert_eq!(hits.len(), 1);
    assert!(home.db.is_dir());
}

#[test]
fn a_torn_tail_is_read_when_it_is_whole() {
    let home = home();
    let mut a = session(&home, &home.project);
    a.append(vec![user("first")], Durability::Buffered).unwrap();
    a.append(vec![user("second")], Durability::Buffered).unwrap();
    let path = store::ledger_path(a.dir());
    let bytes = fs::read(&path).unwrap();
    let mut index = Index::open(&home.db, &home.root).unwrap();
    for cut in [40, 1, 0] {
        fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
        index.catch_up().unwrap();
        let n = usize::from(cut != 40);
        assert_eq!(index.search("second", None, 10).unwrap().len(), n, "cut {cut}");
    }
    assert_eq!(index.search("first", None, 10).unwrap().len(), 1);
}

#[test]
fn a_ledger_that_lost_its_end_and_grew_again_is_read_anew() {
    let home = home();
    let mut a = session(&home, &home.project);
    a.append(vec![user("the first zebra")], Durability::Synced).unwrap();
    let (dir, path) = (a.dir().to_path_buf(), store::ledger_path(a.dir()));
    let kept = fs::metadata(&path).unwrap().len();
    a.append(vec![user("a giraffe that is lost")], Durability::Buffered).unwrap();
    drop(a);
    let mut index = Index::open(&home.db, &home.root).unwrap();
    assert_eq!(index.catch_up().unwrap(), caught_up(1, 0));
    // A power loss takes the second message, which was not synced. Then the session grows beyond its earlier length.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(kept).unwrap();
    let mut again = Session::open(&dir, Policy::default(), scope()).unwrap();
    again.append(vec![user(&"an okapi ".repeat(100))], Durability::Buffered).unwrap();
    drop(again);
    assert_eq!(index.catch_up().unwrap(), caught_up(1, 0));
    let told = |index: &Index| {
        let found =
            |words| index.find(&index::Query { words, limit: 9, ..index::Query::default() }).unwrap().len();
        (index.list(None).unwrap()[0].ledger.messages, ["zebra", "giraffe", "okapi"].map(found))
    };
    assert_eq!(told(&index), (Some(2), [1, 0, 1]));
    drop(index);
    assert_eq!(told(&Index::rebuild(&home.db, &home.root).unwrap().0), (Some(2), [1, 0, 1]));
}

#[test]
fn a_broken_or_deleted_index_is_made_anew_and_a_newer_one_is_left_alone() {
    let home = home();
    session(&home, &home.project).append(vec![user("hello")], Durability::Buffered).unwrap();
    for garbage in
        [&b""[..], b"not a database at all, but long enough to be taken for one by its size ........"]
    {
        fs::write(&home.db, garbage).unwrap();
        let mut index = Index::open(&home.db, &home.root).unwrap();
        index.catch_up().unwrap();
        assert_eq!(index.search("hello", None, 1).unwrap().len(), 1);
        drop(index);
        fs::remove_file(&home.db).unwrap();
    }
    let newer = rusqlite::Connection::open(&home.db).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    let (sessions, error) = index::list(&home.db, &home.root, None).unwrap();
    assert_eq!(sessions.len(), 1);
    assert!(matches!(error, Some(index::IndexError::Newer { found: 99 })));
    // A directory at the path of the index: the sessions are listed from their folders.
    fs::remove_file(&home.db).unwrap();
    fs::create_dir(&home.db).unwrap();
    let (sessions, error) = index::list(&home.db, &home.root, None).unwrap();
    assert_eq!((sessions.len(), error.is_some()), (1, true));
}

#[test]
fn eight_openers_on_a_fresh_file_all_succeed() {
    for _ in 0..20 {
        let home = home();
        let mut one = session(&home, &home.project);
        one.append(vec![user("hello")], Durability::Buffered).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut index = Index::open(&home.db, &home.root).unwrap();
                    index.catch_up().unwrap();
                    assert_eq!(index.search("hello", None, 10).unwrap().len(), 1);
                });
            }
        });
    }
}
