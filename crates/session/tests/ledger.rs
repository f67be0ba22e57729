//! The ledger on a real disk: what was acknowledged comes back, whatever happened to the file in between.
//!
//! Properties run 10,000 cases (3,000 where each opens files); `PROPTEST_CASES` for more. Nothing is forced to disk in
//! them: `power_loss.rs` looks at that.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod disks;

use becket_session::ledger::{BadKind, Item, Ledger, Reader, line};
use becket_session::store::{Disk, Durability, StoreError, ledger_path};
use becket_types::{Entry, EntryKind, Message, Millis, Seq, SessionId};
use disks::Unforced;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

fn entry(seq: u64, kind: EntryKind) -> Entry {
    Entry { seq: Seq(seq), time: Millis(1_700_000_000_000 + seq), kind }
}

fn user(seq: u64, text: &str) -> Entry {
    entry(seq, EntryKind::Message { message: Message { seq: Seq(seq), ..Message::user(text) } })
}

fn first() -> Entry {
    entry(
        1,
        EntryKind::Session {
            session: SessionId::new(),
            format: 1,
            version: "0.0.0".into(),
            cwd: PathBuf::from("/x"),
            forked_from: None,
            extra: serde_json::Map::new(),
        },
    )
}

fn create(dir: &Path, first: &[Entry]) -> Ledger {
    Ledger::create(Arc::new(Unforced), dir, first).unwrap()
}

struct Found {
    ledger: Ledger,
    entries: Vec<Entry>,
    bad: Vec<BadKind>,
    torn: Option<PathBuf>,
}

fn open(dir: &Path) -> Found {
    let mut entries = Vec::new();
    let opened = Ledger::open(Arc::new(Unforced), dir, &mut |e| entries.push(e.clone())).unwrap();
    Found {
        ledger: opened.ledger,
        entries,
        bad: opened.bad.into_iter().map(|b| b.why).collect(),
        torn: opened.torn,
    }
}

/// Reads these bytes: returns the entries and the damage.
fn read(bytes: &[u8]) -> (Vec<Entry>, Vec<BadKind>) {
    let (mut entries, mut bad) = (Vec::new(), Vec::new());
    for item in Reader::new(bytes) {
        match item.unwrap() {
            Item::Commit(commit) => entries.extend(commit),
            Item::Bad(record) => bad.push(record.why),
        }
    }
    (entries, bad)
}

/// Six commits of one or two entries; the bytes of the file and the commits.
fn sample(dir: &Path) -> (Vec<u8>, Vec<Vec<Entry>>) {
    let commits = vec![
        vec![first()],
        vec![user(2, "one"), user(3, "two")],
        vec![entry(4, EntryKind::Title { title: "t".into() })],
        vec![user(5, "three \u{1f980} \"quoted\"\n")],
        vec![entry(6, EntryKind::Interrupt), user(7, "four")],
        vec![user(8, "five")],
    ];
    let mut ledger = create(dir, &commits[0]);
    for commit in &commits[1..] {
        ledger.append(commit, Durability::Buffered).unwrap();
    }
    drop(ledger);
    (fs::read(ledger_path(dir)).unwrap(), commits)
}

static SAMPLE: LazyLock<(Vec<u8>, Vec<Vec<Entry>>)> =
    LazyLock::new(|| sample(tempfile::tempdir().unwrap().path()));

fn sha256(text: &str) -> String {
    becket_session::blobs::id_of(text.as_bytes()).0
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
}

#[test]
fn a_line_is_what_the_documentation_says() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, _) = sample(dir.path());
    let mut prev = line::GENESIS.to_owned();
    for line in lines(&bytes) {
        let line = String::from_utf8(line).unwrap();
        let line = line.strip_suffix('\n').unwrap();
        let (body, hash) = line.rsplit_once(",\"hash\":\"").unwrap();
        let hash = hash.strip_suffix("\"}").unwrap();
        assert_eq!(sha256(body), hash);
        let commit: becket_types::Commit = serde_json::from_str(line).unwrap();
        assert_eq!(commit.prev, prev);
        assert_eq!(commit.hash, hash);
        prev = commit.hash;
    }
}

#[test]
fn opening_and_closing_changes_no_byte_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, commits) = sample(dir.path());
    for _ in 0..3 {
        let found = open(dir.path());
        assert_eq!(found.entries, commits.concat());
        assert!(found.bad.is_empty() && found.torn.is_none());
    }
    assert_eq!(fs::read(ledger_path(dir.path())).unwrap(), bytes);
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["ledger.jsonl", "lock"]);
}

#[cfg(unix)]
#[test]
fn folders_and_files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("project/session");
    sample(&session);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (path, want) in [
        (dir.path().join("project"), 0o700),
        (session.clone(), 0o700),
        (ledger_path(&session), 0o600),
        (session.join("lock"), 0o600),
    ] {
        assert_eq!(mode(&path), want, "{}", path.display());
    }
}

#[test]
fn the_last_line_torn_at_every_byte_costs_that_line_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, commits) = sample(dir.path());
    let last = lines(&bytes).last().unwrap().len();
    let start = bytes.len() - last;
    for cut in 0..=last {
        let at = dir.path().join(format!("cut-{cut}"));
        fs::create_dir(&at).unwrap();
        fs::write(ledger_path(&at), &bytes[..start + cut]).unwrap();
        // A line that lacks only its newline still counts as a whole commit.
        let whole = cut + 1 >= last;
        let want = if whole { commits.concat() } else { commits[..5].concat() };
        let mut found = open(&at);
        assert_eq!(found.entries, want, "cut {cut}");
        assert!(found.bad.is_empty());
        let torn = found.torn.as_ref().map(|path| fs::read(path).unwrap());
        assert_eq!(torn, (cut > 0 && !whole).then(|| bytes[start..start + cut].to_vec()));
        // Bytes that are appended after opening do not change the entries that were read.
        drop(found);
        fs::write(ledger_path(&at), [fs::read(ledger_path(&at)).unwrap(), vec![0; 7]].concat()).unwrap();
        found = open(&at);
        assert_eq!((&found.entries, found.torn.is_some()), (&want, true), "cut {cut}");

        let next = user(found.ledger.last_seq().0 + 1, "after");
        found.ledger.append(std::slice::from_ref(&next), Durability::Buffered).unwrap();
        drop(found);
        let again = open(&at);
        assert_eq!(again.entries, [want, vec![next]].concat());
        assert!(again.bad.is_empty() && again.torn.is_none());
    }
}

#[test]
fn torn_tails_are_never_deleted_and_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, commits) = sample(dir.path());
    for n in 1..=3u8 {
        let garbage = [vec![0; usize::from(n)], b"\n{\"prev\":\"".to_vec(), vec![n]].concat();
        fs::write(ledger_path(dir.path()), [&bytes[..], &garbage].concat()).unwrap();
        let mut found = open(dir.path());
        assert_eq!(found.entries, commits.concat());
        assert_eq!(found.torn, Some(dir.path().join(format!("ledger.torn-{n}"))));
        assert_eq!(fs::read(found.torn.as_ref().unwrap()).unwrap(), garbage);
        assert_eq!(found.ledger.take_warnings().len(), 1);
    }
    assert_eq!(fs::read(ledger_path(dir.path())).unwrap(), bytes);
}

#[test]
fn damage_in_the_middle_is_named_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, commits) = sample(dir.path());
    let lines = lines(&bytes);
    let without = |gone: &[usize]| -> Vec<Entry> {
        commits.iter().enumerate().filter(|(i, _)| !gone.contains(i)).flat_map(|(_, c)| c.clone()).collect()
    };
    let mut changed = lines.clone();
    let at = changed[2].len() / 2 - 20;
    changed[2][at] ^= 1;
    assert_eq!(read(&changed.concat()), (without(&[2]), vec![BadKind::Altered]));

    let mut deleted = lines.clone();
    deleted.remove(2);
    assert_eq!(read(&deleted.concat()), (without(&[2]), vec![BadKind::ChainBreak]));

    let mut twice = lines.clone();
    twice.insert(3, lines[2].clone());
    assert_eq!(
        read(&twice.concat()),
        (commits.concat(), vec![]),
        "the same line twice in a row is that line"
    );
    twice.swap(3, 4);
    assert_eq!(read(&twice.concat()), (commits.concat(), vec![BadKind::OutOfOrder]));

    let mut exchanged = lines.clone();
    exchanged.swap(2, 3);
    let (entries, bad) = read(&exchanged.concat());
    assert_eq!(entries, without(&[2]));
    assert_eq!(bad, [BadKind::ChainBreak, BadKind::OutOfOrder]);

    let mut cut = lines.clone();
    cut[3].truncate(40);
    cut[3].push(b'\n');
    assert_eq!(read(&cut.concat()), (without(&[3]), vec![BadKind::Torn, BadKind::ChainBreak]));

    // The file stays unchanged and can be continued.
    fs::write(ledger_path(dir.path()), changed.concat()).unwrap();
    let mut found = open(dir.path());
    assert_eq!((found.entries, found.bad), (without(&[2]), vec![BadKind::Altered]));
    found.ledger.append(&[user(9, "on")], Durability::Buffered).unwrap();
    drop(found.ledger);
    let after = fs::read(ledger_path(dir.path())).unwrap();
    assert_eq!(after[..bytes.len()], changed.concat());
    assert_eq!(read(&after).1, [BadKind::Altered]);
}

#[test]
fn unknown_entries_and_keys_are_kept_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let strange = r#"[{"seq":2,"time":5,"kind":"teleport","to":{"x":1e3,"y":[0.10,null]}},{"seq":3,"time":5,"kind":"message","message":"not one"}]"#;
    drop(create(dir.path(), &[first()]));
    let bytes = fs::read(ledger_path(dir.path())).unwrap();
    let head = &bytes[bytes.len() - 67..bytes.len() - 3];
    let body = format!(r#"{{"prev":"{}","entries":{strange}"#, std::str::from_utf8(head).unwrap());
    let line = format!("{body},\"hash\":\"{}\"}}\n", sha256(&body));
    let whole = [&bytes[..], line.as_bytes()].concat();
    fs::write(ledger_path(dir.path()), &whole).unwrap();

    let mut found = open(dir.path());
    assert_eq!(found.bad, [BadKind::Entry(Seq(3))], "a known kind in an unknown shape is named");
    assert!(matches!(&found.entries[1].kind, EntryKind::Unknown(map) if map["kind"] == "teleport"));
    assert_eq!(found.entries.len(), 3);
    found.ledger.append(&[user(4, "on")], Durability::Synced).unwrap();
    drop(found);
    let after = fs::read(ledger_path(dir.path())).unwrap();
    assert_eq!(after[..whole.len()], whole);
    assert_eq!(open(dir.path()).entries.len(), 4);
}

/// A killed process's lock can live on for a moment in a child that it was just starting: an opener waits that long.
#[test]
fn a_lock_that_goes_away_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join(SessionId::new().to_string());
    let ledger = create(&session, &[first()]);
    let (ready, go) = std::sync::mpsc::channel();
    let opener = {
        let session = session.clone();
        std::thread::spawn(move || {
            ready.send(()).unwrap();
            Ledger::open(Arc::new(Disk), &session, &mut |_| {}).map(|opened| opened.ledger.last_seq())
        })
    };
    go.recv().unwrap();
    drop(ledger);
    assert_eq!(opener.join().unwrap().unwrap(), Seq(1));
}

#[test]
fn one_writer_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join(SessionId::new().to_string());
    let ledger = create(&session, &[first()]);
    let second = Ledger::open(Arc::new(Disk), &session, &mut |_| {});
    assert!(matches!(second, Err(StoreError::Locked { .. })));
    let again = Ledger::create(Arc::new(Disk), &session, &[first()]);
    assert!(matches!(again, Err(StoreError::Locked { .. })));
    // Reading needs no lock.
    assert_eq!(becket_session::ledger::read(&session).unwrap().count(), 1);
    drop(ledger);
    drop(open(&session));
    let again = Ledger::create(Arc::new(Disk), &session, &[first()]);
    assert!(matches!(again, Err(StoreError::Exists { .. })), "{again:?}");
}

#[test]
fn a_ledger_without_a_whole_line_opens_empty() {
    let dir = tempfile::tempdir().unwrap();
    for bytes in [&b""[..], b"\n\n", b"{\"prev\"", &[0; 4096]] {
        fs::write(ledger_path(dir.path()), bytes).unwrap();
        let mut found = open(dir.path());
        assert_eq!((found.entries, found.ledger.last_seq()), (vec![], Seq(0)));
        found.ledger.append(&[first()], Durability::Buffered).unwrap();
        drop(found.ledger);
        assert_eq!(open(dir.path()).entries.len(), 1);
    }
    let missing = Ledger::open(Arc::new(Disk), &dir.path().join("none"), &mut |_| {});
    assert!(matches!(missing, Err(StoreError::NotFound { .. })));
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<String>, bool),
    Reopen,
    /// The process dies; of the file, this share survives.
    Crash(f64),
    /// Power loss left bytes that nobody wrote.
    Garbage(Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (proptest::collection::vec(".{0,40}", 1..4), any::<bool>()).prop_map(|(t, s)| Step::Commit(t, s)),
        1 => Just(Step::Reopen),
        2 => (0.0..=1.0f64).prop_map(Step::Crash),
        1 => proptest::collection::vec(any::<u8>(), 1..80).prop_map(Step::Garbage),
    ]
}

/// Mostly a few, sometimes many.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![
        8 => proptest::collection::vec(step(), 1..6),
        3 => proptest::collection::vec(step(), 4..12),
        1 => proptest::collection::vec(step(), 10..40),
    ]
}

fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(3_000))]

    /// Model: a list of acknowledged commits with where their lines end.
    #[test]
    fn what_was_acknowledged_comes_back(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let path = ledger_path(dir.path());
        let mut model: Vec<(Vec<Entry>, u64)> = Vec::new();
        let begin = vec![first()];
        let mut ledger = create(dir.path(), &begin);
        model.push((begin, fs::metadata(&path).unwrap().len()));
        for step in steps {
            match step {
                Step::Commit(texts, synced) => {
                    let next = ledger.last_seq().0 + 1;
                    let commit: Vec<Entry> = texts.iter().zip(next..).map(|(t, seq)| user(seq, t)).collect();
                    let durability = if synced { Durability::Synced } else { Durability::Buffered };
                    ledger.append(&commit, durability).unwrap();
                    model.push((commit, fs::metadata(&path).unwrap().len()));
                    continue;
                }
                Step::Reopen => drop(ledger),
                Step::Crash(share) => {
                    drop(ledger);
                    let bytes = fs::read(&path).unwrap();
                    let cut = (bytes.len() as f64 * share) as usize;
                    fs::write(&path, &bytes[..cut]).unwrap();
                    model.retain(|(_, end)| *end <= cut as u64 + 1);
                }
                Step::Garbage(bytes) => {
                    drop(ledger);
                    let mut all = fs::read(&path).unwrap();
                    all.extend(bytes);
                    fs::write(&path, all).unwrap();
                }
            }
            let found = open(dir.path());
            let want: Vec<Entry> = model.iter().flat_map(|(c, _)| c.clone()).collect();
            prop_assert_eq!(found.entries, want);
            prop_assert_eq!(found.bad, vec![]);
            ledger = found.ledger;
        }
        let read: Vec<Entry> = ledger
            .read()
            .unwrap()
            .flat_map(|item| match item.unwrap() {
                Item::Commit(entries) => entries,
                Item::Bad(bad) => panic!("{bad}"),
            })
            .collect();
        prop_assert_eq!(read, model.into_iter().flat_map(|(c, _)| c).collect::<Vec<_>>());
    }
}

/// All places in a JSON value.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| places(item, &format!("{at}/{i}"), out));
        }
        Value::Object(map) => map.iter().for_each(|(key, item)| places(item, &format!("{at}/{key}"), out)),
        _ => {}
    }
}

#[derive(Clone, Debug)]
enum Damage {
    Drop,
    Replace(Value),
    /// Repeats the value: in an array, or in an object under another name.
    Duplicate,
    Deepen,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::Drop),
        Just(Damage::Duplicate),
        Just(Damage::Deepen),
        prop_oneof![
            Just(Value::Null),
            Just(json!(0)),
            Just(json!(-1)),
            Just(json!(1e300)),
            Just(json!(u64::MAX)),
            Just(json!("")),
            Just(json!("x".repeat(100_000))),
            Just(json!([])),
            Just(json!({})),
            Just(json!(true)),
        ]
        .prop_map(Damage::Replace),
    ]
}

fn apply(entries: &mut Value, place: &str, damage: &Damage) {
    let (parent, key) = place.rsplit_once('/').unwrap_or(("", ""));
    match damage {
        Damage::Drop | Damage::Duplicate => match entries.pointer_mut(parent) {
            Some(Value::Array(items)) => {
                if let Ok(i) = key.parse::<usize>() {
                    let item = items.remove(i);
                    if matches!(damage, Damage::Duplicate) {
                        items.insert(i, item.clone());
                        items.insert(i, item);
                    }
                }
            }
            Some(Value::Object(map)) => {
                if let Some(item) = map.remove(key)
                    && matches!(damage, Damage::Duplicate)
                {
                    map.insert(format!("{key}2"), item.clone());
                    map.insert(key.to_owned(), item);
                }
            }
            _ => {}
        },
        Damage::Replace(with) => {
            if let Some(value) = entries.pointer_mut(place) {
                *value = with.clone();
            }
        }
        Damage::Deepen => {
            if let Some(value) = entries.pointer_mut(place) {
                for _ in 0..300 {
                    *value = json!([value.take()]);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// A line has a right hash and wrong content. Whatever the content, all other commits are loaded.
    #[test]
    fn nonsense_with_a_right_hash_costs_its_own_line_alone(
        which in 0usize..6,
        place in any::<proptest::sample::Index>(),
        damage in damage(),
    ) {
        let (bytes, commits) = &*SAMPLE;
        let mut prev = line::GENESIS.to_owned();
        let mut out = Vec::new();
        for (i, line) in lines(bytes).iter().enumerate() {
            let commit: Value = serde_json::from_slice(line).unwrap();
            let mut entries = commit["entries"].clone();
            if i == which {
                let mut all = Vec::new();
                places(&entries, "", &mut all);
                apply(&mut entries, &all[place.index(all.len())], &damage);
            }
            let body = format!(r#"{{"prev":"{prev}","entries":{entries}"#);
            prev = sha256(&body);
            out.extend_from_slice(format!("{body},\"hash\":\"{prev}\"}}\n").as_bytes());
        }
        let (entries, _) = read(&out);
        // Wrong sequence numbers can make later lines seem out of order; those are reported as damage, too.
        let mut last = Seq(0);
        for entry in &entries {
            prop_assert!(entry.seq > last);
            last = entry.seq;
        }
        for (i, commit) in commits.iter().enumerate().filter(|(i, _)| *i < which) {
            for entry in commit {
                prop_assert!(entries.contains(entry), "entry {} of commit {}", entry.seq, i);
            }
        }
        if last <= Seq(8) {
            for entry in commits.iter().enumerate().filter(|(i, _)| *i != which).flat_map(|(_, c)| c) {
                prop_assert!(entries.contains(entry), "entry {}", entry.seq);
            }
        }
        let dir = tempfile::tempdir().unwrap();
        fs::write(ledger_path(dir.path()), &out).unwrap();
        let mut found = open(dir.path());
        let next = found.ledger.last_seq().0 + 1;
        found.ledger.append(&[user(next, "on")], Durability::Buffered).unwrap();
        drop(found.ledger);
        prop_assert_eq!(open(dir.path()).entries.last().map(|e| e.seq), Some(Seq(next)));
    }

    /// Any bytes, and a sound ledger with any bytes put in.
    #[test]
    fn no_bytes_make_a_reader_panic(
        at in any::<proptest::sample::Index>(),
        cut in 0usize..200,
        junk in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let (mut bytes, commits) = SAMPLE.clone();
        let at = at.index(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, junk);
        let (entries, _) = read(&bytes);
        let known: Vec<Entry> = commits.concat();
        prop_assert!(entries.iter().all(|e| known.contains(e)), "nothing is invented");
        let untouched: usize = known.iter().filter(|e| entries.contains(e)).count();
        prop_assert_eq!(untouched, entries.len());
    }
}

/// The snippet in the documentation, run as it is there.
#[test]
fn the_documented_check_accepts_a_sound_ledger_and_refuses_an_altered_one() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, _) = sample(dir.path());
    let book = include_str!("../../../docs/session-format.md");
    let script = book.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let check = |name: &str| {
        std::process::Command::new("python3").args(["-c", script]).arg(dir.path().join(name)).output()
    };
    let Ok(sound) = check("ledger.jsonl") else { return };
    let said = String::from_utf8_lossy(&sound.stdout).into_owned();
    assert!(sound.status.success() && said.starts_with("sound: 6 lines, 8 entries"), "{sound:?}");
    for line in 0..6 {
        let mut changed = lines(&bytes);
        let at = changed[line].len() / 2;
        changed[line][at] ^= 1;
        fs::write(dir.path().join("changed"), changed.concat()).unwrap();
        assert!(!check("changed").unwrap().status.success(), "line {line}");
    }
}
