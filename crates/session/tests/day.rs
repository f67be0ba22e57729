//! A day of work, simulated: what a process that writes it keeps in memory, what a search of it and opening it again take, and
//! what the index of many such sessions takes on disk. Small in every run; `BECKET_WHOLE_DAY=1 cargo test -p becket-session
//! --test day -- --nocapture` for the whole: 2,000 turns, 20,000 calls, 40 compactions and 500 images, and an index over 1,000
//! sessions. One test, so that no other one's memory is counted.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod disks;
mod given;

use becket_session::context::{ModelScope, Policy};
use becket_session::index::{Index, Query};
use becket_session::store::{Outside, ledger_path, trash};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    CallId, Compaction, EntryKind, FinishReason, ImageSource, JournalState, Message, Part, TurnState, Usage,
};
use disks::Unforced;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 10,
        max_media_bytes: 1 << 24,
    }
}

/// Numbers that look random, the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// One of about 20,000 words. As in a language, some of them are very frequent.
    fn word(&mut self) -> String {
        const SYLLABLES: [&str; 16] = [
            "an", "be", "con", "der", "el", "for", "ga", "hi", "ins", "jo", "ka", "lo", "men", "ni", "or",
            "ter",
        ];
        let rank = self.next(20_000) * self.next(1_000) / 1_000 * self.next(1_000) / 1_000;
        let mut word = String::new();
        let mut rest = rank + 1;
        while rest > 0 {
            word.push_str(SYLLABLES[(rest % 16) as usize]);
            rest /= 16;
        }
        word
    }

    /// Lines as a program prints them, with a path and a number now and then.
    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 32);
        while text.len() < bytes {
            match self.next(12) {
                0 => {
                    text +=
                        &["src/", &self.word(), "/", &self.word(), ".rs:", &self.next(900).to_string(), " "]
                            .concat();
                }
                1 => text.push('\n'),
                _ => {
                    text.push_str(&self.word());
                    text.push(' ');
                }
            }
        }
        text
    }
}

fn put(session: &mut Session, kinds: Vec<EntryKind>) {
    session.append(kinds, Durability::Buffered).unwrap();
}

/// A turn as the agent writes it: a message, calls with journals, results and usage, at times an image.
fn turn(session: &mut Session, n: u64, calls: u64, noise: &mut Noise, image: bool) {
    let mut message = Message::user(noise.text(200));
    if image {
        let bytes: Vec<u8> = (0..60_000).map(|_| noise.next(256) as u8).collect();
        message.parts.push(Part::Image {
            media_type: "image/png".into(),
            source: ImageSource::Blob(session.put_blob(&bytes).unwrap()),
            name: None,
            width: Some(800),
            height: Some(600),
            extra: Map::new(),
        });
    }
    put(session, vec![EntryKind::Message { message }]);
    for step in 0..calls {
        let call = CallId(format!("toolu_{n:010}_{step:010}"));
        let journal = |state, result| EntryKind::ToolJournal {
            call_id: call.clone(),
            state,
            tool: Some("bash".into()),
            subject: Some("make".into()),
            result,
        };
        let path = format!("src/{}.rs", noise.word());
        let answer = Message::assistant(vec![
            Part::text(noise.text(150)),
            Part::tool_call(call.0.clone(), "read", json!({ "path": path })),
        ]);
        let finish = EntryKind::Finish { message: answer.id, reason: FinishReason::ToolCalls };
        put(session, vec![EntryKind::Message { message: answer }, finish]);
        put(session, vec![journal(JournalState::Started, Value::Null)]);
        let bytes = 1_000 + noise.next(8_000) as usize;
        let result = Message::tool_result(call.clone(), "read", noise.text(bytes), false);
        let done = journal(JournalState::Finished, json!({ "ok": true }));
        put(session, vec![done, EntryKind::Message { message: result }]);
        let used = EntryKind::Usage {
            message: None,
            model: "p/m".into(),
            usage: Usage { input: 10, output: 20, cache_read: 30_000, cache_write: 900, ..Usage::default() },
            cost_usd: 0.01,
            purpose: "turn".into(),
        };
        put(session, vec![used]);
        session.view_mut().context();
    }
    put(session, vec![EntryKind::TurnEnd { end: "completed".into(), state: TurnState::AwaitingUser }]);
}

fn compact(session: &mut Session, noise: &mut Noise) {
    let tail = session.view().live().map(|m| m.seq).nth_back(4).unwrap();
    let compaction = Compaction {
        summary: format!("## Goal\n{}", noise.text(4_000)),
        turn_state: TurnState::AwaitingUser,
        ..given::compaction(session, tail)
    };
    put(session, vec![EntryKind::Compaction(Box::new(compaction))]);
}

fn create(root: &Path) -> Session {
    let outside = Outside { io: Arc::new(Unforced), ..Outside::default() };
    let options = CreateOptions { persist: true, outside, ..CreateOptions::default() };
    Session::create(root, root, options, Policy::default(), scope()).unwrap()
}

/// Resident memory in MB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Bytes that this process has read, from whatever file.
fn has_read() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|l| l.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// CPU that this thread has had.
fn has_worked() -> Duration {
    let schedule = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(schedule.split(' ').next().unwrap().parse().unwrap())
}

fn ledgers(root: &Path) -> u64 {
    becket_session::store::list(root, None).unwrap().iter().map(|s| s.ledger.bytes).sum()
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |m| m.len())
}

#[test]
fn memory_stays_and_the_index_is_a_tenth() {
    let whole = std::env::var_os("BECKET_WHOLE_DAY").is_some();
    let home = tempfile::tempdir().unwrap();
    let mut noise = Noise(1);

    // A day in one session.
    let root = home.path().join("day");
    let (turns, every) = if whole { (2_000, 50) } else { (200, 10) };
    let mut session = create(&root);
    let mut memory = Vec::new();
    for n in 0..turns {
        turn(&mut session, n, 10, &mut noise, n % 4 == 0);
        if n % every == every - 1 {
            compact(&mut session, &mut noise);
        }
        if n % (turns / 10) == turns / 10 - 1 {
            memory.push(resident());
        }
    }
    // A search reads all of it, and keeps no more than its best places.
    let found = session.history_search().unwrap().search("anbe con", 10).unwrap();
    let searched = resident();
    assert_eq!(found.places.len(), 10);
    assert!(searched <= memory[9] + 12, "{searched} MB after a search, {} before", memory[9]);
    let dir = session.dir().to_path_buf();
    drop(session);
    let (ledger, before) = (size(&ledger_path(&dir)), has_read());
    let outside = Outside { io: Arc::new(Unforced), ..Outside::default() };
    let mut session = Session::open_with(&dir, Policy::default(), scope(), outside).unwrap();
    session.view_mut().context();
    let read = has_read() - before;
    println!("opening: {read} bytes read beside a ledger of {ledger}; {searched} MB after a search");
    // Opening reads the checkpoint and the entries after it, which is at most half of the ledger.
    assert!(read * 2 <= ledger, "{read} bytes read to open a ledger of {ledger}");
    drop(session);
    let day = trash::size(&dir);
    println!("a day: {turns} turns, {} calls, {day} bytes, MB by tenths: {memory:?}", turns * 10);
    assert!(memory[9] <= 150, "{memory:?}");
    // In the second half of the turns memory grows by at most 12 MB, which the allocator may hold back.
    assert!(memory[9] <= memory[4] + 12, "{memory:?}");
    trash::throw_away(&Unforced, &home.path().join("trash"), &dir, becket_types::Millis(0)).unwrap();
    trash::purge(&Unforced, &home.path().join("trash"), becket_types::Millis(0), true).unwrap();
    let left = trash::size(&root) + trash::size(&home.path().join("trash"));
    assert!(left * 20 <= day, "{left} bytes of {day} are left of a deleted session");

    // The index of many sessions.
    let root = home.path().join("many");
    for n in 0..if whole { 1_000 } else { 30 } {
        let mut session = create(&root);
        (0..4).for_each(|t| turn(&mut session, n * 4 + t, 5, &mut noise, false));
    }
    let db = home.path().join("index.db");
    let wal = home.path().join("index.db-wal");
    let started = (Instant::now(), has_worked());
    let (index, done) = Index::rebuild(&db, &root).unwrap();
    let (took, work) = (started.0.elapsed(), has_worked().saturating_sub(started.1));
    let log = size(&wal);
    let (of, found) =
        (ledgers(&root), index.find(&Query { words: "anbe", limit: 5, ..Query::default() }).unwrap());
    drop(index);
    let index = size(&db);
    println!(
        "an index: {} sessions, {of} bytes of ledgers, {index} bytes ({:.1} %), log {log} bytes, {took:?}, {work:?} of CPU",
        done.sessions,
        index as f64 * 100.0 / of as f64
    );
    assert!(!found.is_empty());
    assert!(log <= 64 << 20, "{log}");
    assert!(index * 10 <= of, "the index has {index} bytes of {of}");
}
