//! What a session takes on disk: content once, nothing for looking, and all of it back when it is deleted.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use becket_session::context::{ModelScope, Policy};
use becket_session::store::ledger_path;
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{EntryKind, Message, Part};
use serde_json::Map;
use std::fs;
use std::path::Path;

fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 10,
        max_media_bytes: 1 << 20,
    }
}

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
    // An editor goes back and forth: ten versions of the megabyte in 500 edits, each before and after.
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
    // The fork keeps what it shares.
    fs::remove_dir_all(&dir).unwrap();
    let mut fork = open(&forked);
    assert_eq!(fork.view_mut().context().messages.len(), 20);
    drop(fork);
    fs::remove_dir_all(&forked).unwrap();
    let left = bytes_in(root.path());
    assert!(left * 20 <= alone, "{left} of {alone} bytes are left");
}
