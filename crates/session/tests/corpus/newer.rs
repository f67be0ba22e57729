//! Ledgers as a later becket may write them, with hashes that are right: what is only new is kept and has no effect, a later
//! format is refused before anything is taken in, and a known word with another meaning is named.

use super::sound::{message, scope, sound};
use crate::{Commits, read, write};
use becket_exchange::export::{Format, Secrets, export};
use becket_exchange::import::import_own;
use becket_session::context::Policy;
use becket_session::store::ledger_path;
use becket_session::{Durability, Session, StoreError};
use becket_types::Message;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn commits(root: &Path) -> Commits {
    read(&fs::read(ledger_path(&sound(&root.join("source")))).unwrap())
}

/// Adds an unknown key to each entry, and two entries of unknown kinds at the end.
fn with_news(mut commits: Commits) -> Commits {
    for entry in commits.iter_mut().flatten() {
        entry["of_later"] = json!({"deep": [1, null, "x"]});
    }
    let last = commits.iter().flatten().filter_map(|entry| entry["seq"].as_u64()).max().unwrap();
    let news =
        |n: u64| json!({"seq": last + n, "time": 9, "kind": format!("of_later_{n}"), "value": {"a": n}});
    commits.push(vec![news(1), news(2)]);
    commits
}

#[test]
fn what_is_only_new_is_carried_through_and_has_no_effect() {
    let root = tempfile::tempdir().unwrap();
    let old = commits(root.path());
    let there = root.path().join("there");
    let mut shown = Vec::new();
    for (nth, commits) in [old.clone(), with_news(old)].iter().enumerate() {
        let bytes = write(commits);
        let home = there.join(nth.to_string());
        let imported = import_own(&home, &bytes, Some(root.path())).unwrap();
        assert!(imported.bad.is_empty(), "{imported:?}");
        let mut session = Session::open(&imported.dir, Policy::default(), scope()).unwrap();
        assert_eq!(session.take_notices(), [] as [String; 0]);
        assert_eq!(session.entries().unwrap().count(), commits.iter().flatten().count());
        shown.push(session.view_mut().context().messages.clone());
        session.append(vec![message(Message::user("and on"))], Durability::Synced).unwrap();
        assert!(session.view_mut().context().messages.len() > shown[nth].len());
        // The imported bytes are unchanged and precede everything new.
        let mut out = Vec::new();
        export(session.dir(), Format::Jsonl, Secrets::Keep, &mut out).unwrap();
        assert!(out.starts_with(&bytes));
    }
    assert_eq!(shown[0], shown[1]);
}

#[test]
fn a_later_format_is_refused_and_nothing_of_it_taken_in() {
    let root = tempfile::tempdir().unwrap();
    let mut later = with_news(commits(root.path()));
    later[0][0]["format"] = json!(2);
    later[0][0]["version"] = json!("9.8.7");
    let there = root.path().join("there");
    let refused = import_own(&there, &write(&later), Some(root.path())).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Newer { format: 2, version, .. } if version == "9.8.7"),
        "{refused}"
    );
    assert!(!there.exists());
}

#[test]
fn a_known_kind_of_an_unknown_shape_is_named() {
    let root = tempfile::tempdir().unwrap();
    let whole = commits(root.path());
    let last = whole.iter().flatten().filter_map(|entry| entry["seq"].as_u64()).max().unwrap();
    for kind in [
        "session",
        "system",
        "message",
        "part",
        "finish",
        "prune",
        "compaction",
        "revert",
        "pin",
        "restore",
        "reminder",
        "model_switch",
        "tools",
        "request",
        "usage",
        "tool_journal",
        "permission",
        "state",
        "title",
        "turn_end",
        "notice",
        "file_snapshot",
        "file_changes",
    ] {
        let mut other = whole.clone();
        other.push(vec![json!({"seq": last + 1, "time": 9, "kind": kind, "of_later": Value::Null})]);
        let home = root.path().join(kind);
        let imported = import_own(&home, &write(&other), Some(root.path())).unwrap();
        assert_eq!(imported.bad.len(), 1, "{kind}: {:?}", imported.bad);
        let mut session = Session::open(&imported.dir, Policy::default(), scope()).unwrap();
        let said = session.take_notices().join("\n");
        assert!(said.contains(&format!("entry {}", last + 1)), "{kind}: {said}");
    }
}
