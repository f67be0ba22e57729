//! Measures the cost of opening a session, by its length, and the cost of a turn, by the number of turns before it.
//!
//! Sessions are made as the agent makes them: steps of six entries, a compaction whenever 700 KB are in the view, a turn's
//! end every fifth step. Each is opened in a process of its own, so that memory is that of opening alone.
//!
//! Goals: 100 MB in 500 ms of CPU and 120 MB; 1 GB in 1 s and 200 MB; turn 5,000 at most 1.2 times turn 50.
//!
//! `cargo bench -p becket-session --bench resume -- 10 100 1000` (megabytes; `turns` for the second table). Linux.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints what it measured, and stops when it cannot"
)]

use becket_session::context::{ModelScope, Policy};
use becket_session::{CreateOptions, Durability, Session, store};
use becket_types::{
    CallId, Compaction, CompactionSource, CompactionTrigger, EntryKind, FinishReason, JournalState, Message,
    Part, RepeatedContext, RetainedMessages, Seq, ShortenedContent, SizeChange, SummaryOrigin, Tokens,
    TurnState, Usage,
};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Bytes of the ledger between two compactions.
const WINDOW: u64 = 700_000;
const STEPS_A_TURN: u64 = 5;

fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 20,
        max_media_bytes: 1 << 25,
    }
}

fn open(dir: &Path) -> Session {
    Session::open(dir, Policy::default(), scope()).expect("the session opens")
}

/// A session that grows in steps, as sessions of the agent do.
struct Grower {
    session: Session,
    steps: u64,
    /// Bytes of the output of a step.
    output: usize,
    compacted_at: u64,
}

impl Grower {
    fn new(root: &Path, output: usize) -> Self {
        let options = CreateOptions { persist: true, version: "bench".into(), ..CreateOptions::default() };
        let session = Session::create(root, root, options, Policy::default(), scope()).expect("a session");
        Self { session, steps: 0, output, compacted_at: 0 }
    }

    fn bytes(&self) -> u64 {
        fs::metadata(store::ledger_path(self.session.dir())).map_or(0, |m| m.len())
    }

    fn put(&mut self, kinds: Vec<EntryKind>, durability: Durability) {
        self.session.append(kinds, durability).expect("it can be written");
    }

    fn step(&mut self) {
        self.steps += 1;
        let n = self.steps;
        let call = CallId(format!("toolu_{n:024}"));
        let line =
            format!("{n}: fn line_{n}() -> usize {{ {} }} // a < b\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let output = line.repeat(self.output / line.len() + 1);
        let answer = Message::assistant(vec![
            Part::text("I will look at the next file."),
            Part::tool_call(call.0.clone(), "read", json!({"path": format!("src/file_{n}.rs"), "offset": n})),
        ]);
        let journal = |state, result| EntryKind::ToolJournal {
            call_id: call.clone(),
            state,
            tool: Some("read".into()),
            subject: Some(format!("src/file_{n}.rs")),
            result,
        };
        let id = answer.id;
        let usage = Usage { input: 10, output: 20, cache_read: 30, ..Usage::default() };
        self.put(
            vec![
                EntryKind::Message { message: answer },
                EntryKind::Finish { message: id, reason: FinishReason::ToolCalls },
                EntryKind::Usage {
                    message: Some(id),
                    model: "p/m".into(),
                    usage,
                    cost_usd: 0.0,
                    purpose: "turn".into(),
                },
            ],
            Durability::Buffered,
        );
        self.put(vec![journal(JournalState::Started, Value::Null)], Durability::Buffered);
        let result = Message::tool_result(call.clone(), "read", output, false);
        self.put(
            vec![
                journal(JournalState::Finished, json!({"ok": true})),
                EntryKind::Message { message: result },
            ],
            Durability::Buffered,
        );
        self.session.view_mut().context();
    }

    fn turn(&mut self) {
        let prompt = format!("The user's message before step {}", self.steps);
        self.put(vec![EntryKind::Message { message: Message::user(prompt) }], Durability::Buffered);
        for _ in 0..STEPS_A_TURN {
            self.step();
            if self.bytes() > self.compacted_at + WINDOW {
                self.compact();
            }
        }
        let end = EntryKind::TurnEnd { end: "completed".into(), state: TurnState::AwaitingUser };
        self.put(vec![end], Durability::Buffered);
    }

    fn compact(&mut self) {
        let live: Vec<Seq> = self.session.view().live().map(|m| m.seq).collect();
        let tail_from = live.iter().rev().nth(6).copied().unwrap_or_default();
        let compaction = Compaction {
            summary: "## Goal\nA summary of what was done.\n".repeat(200),
            anchor: None,
            retained: RetainedMessages { tail_from, ..RetainedMessages::default() },
            replaces: self.session.view().compaction().map(|(seq, _)| seq),
            shortened: ShortenedContent::default(),
            repeated: RepeatedContext { state: "todo: go on".into(), ..RepeatedContext::default() },
            size: SizeChange { before: Tokens(200_000), after: Tokens(10_000) },
            trigger: CompactionTrigger::Auto,
            origin: SummaryOrigin {
                model: "p/m".into(),
                source: CompactionSource::Model,
                input: String::new(),
                left_out: vec![],
            },
            snapshot_of: self.session.last_seq(),
            turn_state: TurnState::MidTurn,
        };
        let mut go_on = Message::user("continue");
        go_on.metadata.compaction_continue = true;
        self.put(
            vec![EntryKind::Compaction(Box::new(compaction)), EntryKind::Message { message: go_on }],
            Durability::Buffered,
        );
        self.session.view_mut().context();
        self.compacted_at = self.bytes();
    }
}

/// Time that this process (one thread) had a CPU so far, and the most memory it had.
fn used() -> (Duration, u64) {
    let stat = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    (Duration::from_nanos(nanoseconds), peak.unwrap_or(0))
}

fn written() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    io.lines().find_map(|l| l.strip_prefix("wchar: ")?.parse().ok()).unwrap_or(0)
}

/// In the child: opens, builds the first context, and says what that cost.
fn child(dir: &Path) {
    let start = Instant::now();
    let mut session = open(dir);
    let messages = session.view_mut().context().messages.len();
    let wall = start.elapsed();
    let (cpu, peak) = used();
    println!(
        "{:>7.0} {:>7} {:>9.1} {messages:>9}",
        wall.as_secs_f64() * 1e3,
        cpu.as_millis(),
        peak as f64 / 1e3
    );
}

fn resume(megabytes: u64) {
    let root = tempfile::tempdir().expect("a folder");
    let mut grower = Grower::new(root.path(), 19_000);
    while grower.bytes() < megabytes * 1_000_000 {
        grower.turn();
    }
    let (dir, entries, bytes) =
        (grower.session.dir().to_path_buf(), grower.session.last_seq(), grower.bytes());
    drop(grower);
    let this = std::env::current_exe().expect("this program");
    let run = |label: &str| {
        print!("{megabytes:>6} {entries:>9} {label:<11}");
        std::io::Write::flush(&mut std::io::stdout()).expect("stdout");
        assert!(Command::new(&this).arg("child").arg(&dir).status().is_ok_and(|s| s.success()));
    };
    run("checkpoint");
    run("checkpoint");
    assert_eq!(
        fs::metadata(store::ledger_path(&dir)).map_or(0, |m| m.len()),
        bytes,
        "opening writes nothing"
    );
    let size = fs::metadata(dir.join("checkpoint")).map_or(0, |m| m.len());
    fs::remove_file(dir.join("checkpoint")).expect("there is a checkpoint");
    run("whole fold");
    println!("                 (checkpoint {size} bytes)");
}

/// CPU and bytes written of a turn, as means of 400 turns from a place on: compactions and checkpoints come in between.
fn turns() {
    const SAMPLE: u64 = 400;
    let root = tempfile::tempdir().expect("a folder");
    let mut grower = Grower::new(root.path(), 4_000);
    println!("{:>11} {:>9} {:>11}", "from turn", "CPU us", "bytes");
    let mut turn = 0;
    for from in [50, 1_000, 5_000] {
        while turn < from {
            grower.turn();
            turn += 1;
        }
        let (cpu, bytes) = (used().0, written());
        for _ in 0..SAMPLE {
            grower.turn();
        }
        turn += SAMPLE;
        let spent = used().0.saturating_sub(cpu).as_micros() as u64;
        println!("{from:>11} {:>9} {:>11}", spent / SAMPLE, (written() - bytes) / SAMPLE);
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["child", dir] => child(Path::new(dir)),
        ["turns"] => turns(),
        sizes => {
            println!("    MB   entries opened by   wall ms  CPU ms   peak MB  messages");
            let sizes: Vec<u64> = sizes.iter().filter_map(|size| size.parse().ok()).collect();
            for megabytes in if sizes.is_empty() { vec![10] } else { sizes } {
                resume(megabytes);
            }
            if args.is_empty() {
                turns();
            }
        }
    }
}
